// progress.c: draws a table over itself, or sums it up in lines.
#include <runtime/text/progress.h>

#include <runtime/base/buffer.h>
#include <runtime/base/screen.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    ROWS_MAX = 20,     // Of the live table.
    LINES_BESIDE = 15, // What a live table has beside its rows, at most.
    ROWS_MIN = 3,      // Shown on the smallest of terminals.
};
static const int64_t INTERVAL_NS = 1000000000;

void trp_progress_open(trp_progress *progress, FILE *out)
{
    *progress = (trp_progress){.out = out, .terminal = out != NULL && isatty(fileno(out))};
    progress->at_foot = progress->terminal && fileno(out) == STDOUT_FILENO;
}

int64_t trp_progress_due_ns(const trp_progress *progress)
{
    if (progress->out == NULL || !progress->changed)
        return -1;
    return progress->shown_ns == 0 ? 0 : progress->shown_ns + INTERVAL_NS;
}

static void draw_table(trp_progress *progress, const trp_table *table, trp_buffer *out)
{
    struct winsize size = {0};
    trp_table_look look = {.rows_max = ROWS_MAX};
    if (ioctl(fileno(progress->out), TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
        size_t rows = size.ws_row > LINES_BESIDE + ROWS_MIN ? size.ws_row - LINES_BESIDE : ROWS_MIN;
        look.rows_max = rows < ROWS_MAX ? rows : ROWS_MAX;
        look.cut = size.ws_col;
    }
    // Back to the first line of the last drawing, which is wiped out.
    if (progress->lines > 0 && !progress->at_foot)
        trp_buffer_printf(out, "\033[%dA\r\033[J", progress->lines);
    size_t from = out->size;
    trp_table_format(table, &look, out);
    if (out->failed)
        return;
    progress->lines = 0;
    for (size_t i = from; i < out->size; i++)
        progress->lines += out->data[i] == '\n';
}

void trp_progress_show(trp_progress *progress, const trp_table *table, int64_t now_ns)
{
    if (progress->out == NULL)
        return;
    trp_buffer text = {0};
    if (progress->terminal)
        draw_table(progress, table, &text);
    else
        trp_table_line(table, &text);
    if (!text.failed && progress->at_foot) {
        fflush(progress->out); // What the program has printed before.
        trp_screen_foot((const char *)text.data, text.size);
    } else if (!text.failed) {
        fwrite(text.data, 1, text.size, progress->out);
        fflush(progress->out);
    }
    trp_buffer_free(&text);
    progress->changed = false;
    progress->shown_ns = now_ns;
}

void trp_progress_close(trp_progress *progress)
{
    if (progress->at_foot && progress->shown_ns != 0)
        trp_screen_keep();
}
