// console.c: what is known of the runs that are shown, and the thread that draws them (see
// console.h).
#include <train/console.h>

#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/screen.h>
#include <runtime/host/machine.h>
#include <runtime/text/progress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <train/reports.h>
#include <train/roster.h>
#include <unistd.h>

enum {
    SAID_MAX = 1 << 18, // Bytes of lines that wait; more are counted.
    ROUND_MS = 50,      // Between looks, however much is said.
    DRAW_MS = 250,      // Between drawings of a block that changes,
    TICK_MS = 1000,     // and of one that does not: time goes on.
    SHOWN_MS = 1000,    // The longest wait for the end to be shown.
    ROWS_MAX = 20,
    LINES_BESIDE = 12, // What a block has beside its rows, at most.
};

// Reports at a moment, for their rate.
typedef struct mark {
    int64_t at_ms;
    int reports;
} mark;

int trp_console_line_ms = 5000;

struct trp_console {
    trp_roster_item item; // It is done when its end has been shown.
    char *path;
    const char *name; // The last part of it.
    bool terminal;
    trp_console_about about;
    int64_t opened_ms;
    // Under the lock:
    trp_table_state state;
    int64_t due_ms; // When its time limit is over; 0: it has none.
    int pid, reports;
    double elapsed_s;
    char names[TRP_METRICS_MAX][TRP_METRIC_NAME_MAX + 1];
    double values[TRP_METRICS_MAX];
    size_t metric_count;
    char error[512];
    double loop_s, written_s, open_s;
    trp_buffer said;
    long lost;    // Lines that there was no room for.
    bool changed; // Since it was drawn.
    bool taken;   // Its end is being shown.
    // The thread's:
    int64_t drawn_ms;
    mark marks[2];
};

static void draw_runs(void);

static trp_roster all = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .name = "troupe-console", .serve = draw_runs};

static trp_console *first_console(void)
{
    return (trp_console *)all.first;
}

static trp_console *next_console(const trp_console *console)
{
    return (trp_console *)console->item.next;
}

static bool has_colours(void)
{
    const char *none = getenv("NO_COLOR");
    return none == NULL || none[0] == '\0';
}

static void free_console(trp_console *console)
{
    trp_buffer_free(&console->said);
    trp_free(console->path);
    trp_free(console);
}

// ---- what happens to a run

static bool is_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && (kind == NULL || strcmp(kind, "dumb") != 0);
}

trp_console *trp_console_open(troupe_console wanted, const trp_console_about *about)
{
    bool on =
        wanted == TROUPE_CONSOLE_ON || (wanted == TROUPE_CONSOLE_AUTO && isatty(STDOUT_FILENO));
    trp_console *console = on ? trp_alloc(sizeof *console) : NULL;
    char *path = console != NULL ? trp_alloc(strlen(about->path) + 1) : NULL;
    if (path == NULL) {
        trp_free(console);
        return NULL;
    }
    *console = (trp_console){.path = strcpy(path, about->path),
                             .terminal = is_terminal(),
                             .about = *about,
                             .opened_ms = trp_clock_ms(),
                             .drawn_ms = trp_clock_ms()};
    console->name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    if (!trp_roster_add(&all, &console->item)) {
        free_console(console);
        return NULL;
    }
    return console;
}

void trp_console_state(trp_console *console, trp_table_state state)
{
    if (console == NULL)
        return;
    pthread_mutex_lock(&all.lock);
    console->state = state;
    if (console->due_ms == 0 && console->about.time_limit_s > 0 && state != TRP_TABLE_PENDING)
        console->due_ms = trp_clock_ms() + (int64_t)(console->about.time_limit_s * 1000);
    console->changed = true;
    pthread_mutex_unlock(&all.lock);
}

// Whether these are the metrics that it knows, in that order.
static bool has_names(const trp_console *console, const troupe_metric *metrics, size_t count)
{
    bool same = console->metric_count == count;
    for (size_t i = 0; same && i < count; i++)
        same = strcmp(console->names[i], metrics[i].name) == 0;
    return same;
}

void trp_console_report(trp_console *console, int number, double elapsed_s,
                        const troupe_metric *metrics, size_t count)
{
    if (console == NULL)
        return;
    count = count < TRP_METRICS_MAX ? count : TRP_METRICS_MAX;
    pthread_mutex_lock(&all.lock);
    console->reports = number;
    console->elapsed_s = elapsed_s;
    console->changed = true;
    if (metrics != NULL && !has_names(console, metrics, count)) {
        for (size_t i = 0; i < count; i++)
            snprintf(console->names[i], sizeof console->names[i], "%s", metrics[i].name);
        console->metric_count = count;
    }
    for (size_t i = 0; metrics != NULL && i < count; i++)
        console->values[i] = metrics[i].value;
    pthread_mutex_unlock(&all.lock);
}

// With the lock. Each line has its run's name in front.
static void add_lines(trp_console *console, const char *text)
{
    while (*text != '\0') {
        size_t size = strcspn(text, "\n");
        if (console->said.failed || console->said.size + size > SAID_MAX)
            console->lost++;
        else
            trp_buffer_printf(&console->said, "(%s pid=%d) %.*s\n", console->name, (int)getpid(),
                              (int)size, text);
        text += size + (text[size] == '\n');
    }
    trp_roster_change(&all);
}

bool trp_console_say(trp_console *console, const char *text)
{
    if (console == NULL)
        return false;
    pthread_mutex_lock(&all.lock);
    add_lines(console, text);
    pthread_mutex_unlock(&all.lock);
    return true;
}

void trp_console_group(trp_console *console, const trp_console_rank *ranks, int count)
{
    if (console == NULL)
        return;
    trp_buffer text = {0};
    trp_console_group_text(ranks, count, &text);
    trp_buffer_append(&text, "", 1);
    pthread_mutex_lock(&all.lock);
    console->pid = count > 0 ? ranks[0].pid : 0;
    if (!text.failed)
        add_lines(console, (const char *)text.data);
    pthread_mutex_unlock(&all.lock);
    trp_buffer_free(&text);
}

void trp_console_ended(trp_console *console, const trp_console_end *end)
{
    if (console == NULL)
        return;
    pthread_mutex_lock(&all.lock);
    console->state = end->state;
    snprintf(console->error, sizeof console->error, "%s", end->error != NULL ? end->error : "");
    console->elapsed_s = end->elapsed_s;
    console->loop_s = end->loop_s;
    console->written_s = end->written_s;
    console->open_s = (double)(trp_clock_ms() - console->opened_ms) * 1e-3;
    if (console->open_s < end->loop_s) // It was measured in milliseconds.
        console->open_s = end->loop_s;
    console->item.ended = true;
    trp_roster_change(&all);
    pthread_mutex_unlock(&all.lock);
}

void trp_console_await(trp_console *console)
{
    if (console != NULL)
        trp_roster_await(&all, &console->item, SHOWN_MS);
}

void trp_console_close(trp_console *console)
{
    if (console != NULL)
        trp_roster_close(&all, &console->item);
}

// ---- drawing

// Over the last 5 to 10 seconds.
static double rate_of(trp_console *console, int64_t now_ms)
{
    enum { SPAN_MS = 5000, LEAST_MS = 200 };
    mark now = {now_ms, console->reports};
    mark *marks = console->marks;
    if (marks[0].at_ms == 0 || now.reports < marks[1].reports)
        marks[0] = marks[1] = now;
    int64_t passed_ms = now_ms - marks[0].at_ms;
    double rate = passed_ms < LEAST_MS
                      ? 0
                      : (double)(now.reports - marks[0].reports) * 1e3 / (double)passed_ms;
    if (now_ms - marks[1].at_ms >= SPAN_MS) {
        marks[0] = marks[1];
        marks[1] = now;
    }
    return rate;
}

// What one look shows, taken under the lock and drawn without it.
typedef struct round {
    int64_t now_ms;
    trp_arena arena;
    trp_console_machine machine;
    trp_console_run *foot; // The runs of the block.
    size_t foot_count;
    bool has_foot, draws; // There is to be a block, and it is drawn now.
    trp_buffer lines;
} round;

static const char *copy_text(trp_arena *arena, const char *text)
{
    char *copy = trp_arena_alloc(arena, strlen(text) + 1);
    return copy != NULL ? strcpy(copy, text) : "";
}

// With the lock.
static trp_console_run take_facts(trp_console *console, round *now)
{
    troupe_metric *metrics =
        trp_arena_alloc(&now->arena, (console->metric_count + 1) * sizeof *metrics);
    trp_console_run run = {
        .name = copy_text(&now->arena, console->name),
        .state = console->state,
        .pid = console->pid,
        .reports = console->reports,
        .elapsed_s = console->elapsed_s,
        .open_s = console->item.ended ? console->open_s
                                      : (double)(now->now_ms - console->opened_ms) * 1e-3,
        .rate = rate_of(console, now->now_ms),
        .expected = console->about.expected,
        .limit_left_s =
            console->due_ms > now->now_ms ? (double)(console->due_ms - now->now_ms) * 1e-3 : 0,
        .cpus = console->about.cpus,
        .gpus = console->about.gpus,
        .metrics = metrics,
        .error = copy_text(&now->arena, console->error),
    };
    for (size_t i = 0; metrics != NULL && i < console->metric_count; i++)
        metrics[run.metric_count++] =
            (troupe_metric){copy_text(&now->arena, console->names[i]), console->values[i]};
    return run;
}

static void take_said(trp_console *console, round *now)
{
    if (!console->said.failed)
        trp_buffer_append(&now->lines, console->said.data, console->said.size);
    if (console->lost > 0)
        trp_buffer_printf(&now->lines, "(%s pid=%d) ... and %ld more lines\n", console->name,
                          (int)getpid(), console->lost);
    trp_buffer_free(&console->said);
    console->lost = 0;
}

static void take_end(trp_console *console, round *now)
{
    trp_console_run run = take_facts(console, now);
    trp_console_block_text(&run, 1, &now->machine,
                           &(trp_table_look){.colours = console->terminal && has_colours()},
                           &now->lines);
    trp_console_end_text(console->path, console->written_s, console->open_s, console->loop_s,
                         &now->lines);
}

// When a live run is drawn next.
static int64_t due_ms(const trp_console *console)
{
    if (!console->terminal)
        return console->changed ? console->drawn_ms + trp_console_line_ms : INT64_MAX;
    return console->drawn_ms + (console->changed ? DRAW_MS : TICK_MS);
}

// With the lock: what one console adds to the round.
static void take(trp_console *console, round *now)
{
    now->machine.cpus_total = console->about.cpus_total;
    now->machine.gpus_total = console->about.gpus_total;
    if (console->item.closed && !console->item.ended)
        return;
    if (console->said.size > 0 || console->lost > 0)
        take_said(console, now);
    if (console->item.ended) {
        if (!console->taken)
            take_end(console, now);
        console->taken = true;
        return;
    }
    bool due = now->now_ms >= due_ms(console);
    if (console->terminal) {
        now->has_foot = true;
        now->draws = now->draws || due;
        now->foot[now->foot_count++] = take_facts(console, now);
    } else if (due) {
        trp_console_run run = take_facts(console, now);
        trp_console_line_text(&run, &now->lines);
        console->drawn_ms = now->now_ms;
        console->changed = false;
    }
}

// With the lock. False: no memory; the next round tries again.
static bool take_round(round *now)
{
    size_t count = 0;
    for (trp_console *it = first_console(); it != NULL; it = next_console(it))
        count++;
    now->foot = trp_arena_alloc(&now->arena, (count + 1) * sizeof *now->foot);
    for (trp_console *it = first_console(); now->foot != NULL && it != NULL; it = next_console(it))
        take(it, now);
    for (trp_console *it = first_console(); now->draws && it != NULL; it = next_console(it))
        if (it->terminal) {
            it->drawn_ms = now->now_ms;
            it->changed = false;
        }
    return now->foot != NULL;
}

// Cuts the text behind that many lines.
static void cut_lines(trp_buffer *text, size_t most)
{
    size_t at = 0;
    for (size_t lines = 0; lines < most && at < text->size; at++)
        lines += text->data[at] == '\n';
    text->size = at;
}

static void draw_foot(const round *now)
{
    struct winsize size = {0};
    trp_table_look look = {.rows_max = ROWS_MAX, .colours = has_colours()};
    trp_buffer text = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
        size_t rows = size.ws_row > LINES_BESIDE + 2 ? (size.ws_row - LINES_BESIDE) / 2 : 1;
        look.rows_max = rows < ROWS_MAX ? rows : ROWS_MAX;
        look.cut = size.ws_col;
    }
    trp_console_block_text(now->foot, now->foot_count, &now->machine, &look, &text);
    if (size.ws_row > 1) // It is drawn over from its first line, which must not have left.
        cut_lines(&text, (size_t)size.ws_row - 1);
    if (!text.failed)
        trp_screen_foot((const char *)text.data, text.size);
    trp_buffer_free(&text);
}

// Without the lock.
static void show(const round *now, bool *has_foot)
{
    if (!now->has_foot && *has_foot)
        trp_screen_foot("", 0);
    if (now->lines.size > 0 && !now->lines.failed)
        trp_screen_print(STDOUT_FILENO, (const char *)now->lines.data, now->lines.size);
    if (now->draws)
        draw_foot(now);
    *has_foot = now->has_foot && (*has_foot || now->draws);
}

// With the lock: what has been shown to its end, and what was closed, is done with.
static void settle(void)
{
    for (trp_console *it = first_console(), *next; it != NULL; it = next) {
        next = next_console(it);
        it->item.done = it->taken;
        if (it->item.closed && (it->taken || !it->item.ended)) {
            trp_roster_remove(&all, &it->item);
            free_console(it);
        }
    }
    trp_roster_change(&all);
}

// With the lock: until something is to be shown.
static void await_round(int64_t last_ms)
{
    for (;;) {
        int64_t next_ms = INT64_MAX, now_ms = trp_clock_ms();
        for (trp_console *it = first_console(); it != NULL; it = next_console(it)) {
            int64_t due = it->said.size > 0 || it->lost > 0 ? last_ms + ROUND_MS : due_ms(it);
            if (it->item.closed || (it->item.ended && !it->item.done))
                due = 0;
            else if (it->item.ended)
                continue;
            next_ms = due < next_ms ? due : next_ms;
        }
        if (now_ms >= next_ms)
            return;
        // A report wakes nobody.
        trp_roster_await_change(&all, next_ms < now_ms + DRAW_MS ? next_ms : now_ms + DRAW_MS);
    }
}

// One look and what it shows. With the lock, which is let go meanwhile.
static void draw_round(bool *has_foot, int64_t *last_ms)
{
    char time_of_day[32];
    round now = {.machine.now = time_of_day};
    await_round(*last_ms);
    pthread_mutex_unlock(&all.lock);
    trp_time_of_day(time_of_day);
    trp_machine_memory(NULL, &now.machine.memory_used, &now.machine.memory_total);
    pthread_mutex_lock(&all.lock);
    *last_ms = now.now_ms = trp_clock_ms();
    bool taken = take_round(&now);
    pthread_mutex_unlock(&all.lock);
    if (taken)
        show(&now, has_foot);
    trp_buffer_free(&now.lines);
    trp_arena_clear(&now.arena);
    pthread_mutex_lock(&all.lock);
    settle();
}

static void draw_runs(void)
{
    bool has_foot = false;
    int64_t last_ms = 0;
    while (all.first != NULL || has_foot) {
        if (all.first != NULL) {
            draw_round(&has_foot, &last_ms);
            continue;
        }
        has_foot = false;
        pthread_mutex_unlock(&all.lock);
        trp_screen_foot("", 0);
        pthread_mutex_lock(&all.lock);
    }
}
