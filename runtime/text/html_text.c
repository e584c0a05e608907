// html_text.c: see html_text.h.
#include <runtime/text/html_text.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/text/table.h>
#include <string.h>

enum { TIME_LENGTH = 19 }; // "2026-11-24T12:00:00"

static void escape(trp_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        size_t plain = strcspn(text, "&<>\"'");
        trp_buffer_append(out, text, plain);
        text += plain;
        if (*text == '\0')
            return;
        trp_buffer_printf(out, "&#%d;", *text);
    }
}

static void add_line(trp_buffer *out, const char *text, size_t size)
{
    size_t capacity = 4 * size + 1; // Each byte may become an escape.
    char *clean = trp_alloc(capacity);
    if (clean == NULL) {
        out->failed = true;
        return;
    }
    (void)trp_printable_copy(text, size, clean, capacity);
    escape(out, clean);
    trp_free(clean);
}

void trp_html_text(trp_buffer *out, const char *text)
{
    if (text != NULL)
        add_line(out, text, strlen(text));
}

void trp_html_lines(trp_buffer *out, const char *text, size_t size)
{
    for (const char *end = text + size; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop != NULL ? stop : end) - text);
        add_line(out, text, length);
        trp_buffer_append(out, "\n", stop != NULL);
        text += length + 1;
    }
}

void trp_html_path(trp_buffer *out, const char *path)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    for (; *path != '\0'; path++)
        if (strchr(plain, *path) != NULL)
            trp_buffer_append(out, path, 1);
        else
            trp_buffer_printf(out, "%%%02X", (unsigned char)*path);
}

void trp_html_number(trp_buffer *out, double value)
{
    char text[32];
    trp_table_number(value, text, sizeof text);
    trp_buffer_printf(out, "%s", text);
}

void trp_html_duration(trp_buffer *out, double seconds)
{
    if (!(seconds >= 0) || seconds > 1e12)
        trp_buffer_printf(out, "an unknown time");
    else if (seconds < 0.0005)
        trp_buffer_printf(out, "0 s");
    else if (seconds < 1)
        trp_buffer_printf(out, "%.0f ms", seconds * 1e3);
    else if (seconds < 100)
        trp_buffer_printf(out, "%.1f s", seconds);
    else if (seconds < 3600)
        trp_buffer_printf(out, "%.0f min %.0f s", floor(seconds / 60), floor(fmod(seconds, 60)));
    else if (seconds < 86400)
        trp_buffer_printf(out, "%.0f h %.0f min", floor(seconds / 3600),
                          floor(fmod(seconds, 3600) / 60));
    else
        trp_buffer_printf(out, "%.0f d %.0f h", floor(seconds / 86400),
                          floor(fmod(seconds, 86400) / 3600));
}

void trp_html_size(trp_buffer *out, uint64_t bytes)
{
    char text[32];
    trp_buffer_printf(out, "%s", trp_table_bytes(bytes, text));
}

static bool is_time(const char *at)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";
    for (size_t i = 0; i < TIME_LENGTH; i++)
        if (form[i] == 'd' ? at[i] < '0' || at[i] > '9' : at[i] != form[i])
            return false;
    return true;
}

void trp_html_time(trp_buffer *out, const char *at)
{
    if (at == NULL || at[0] == '\0')
        trp_buffer_printf(out, "\xe2\x80\x93");
    else if (is_time(at))
        trp_buffer_printf(out, "<time datetime=\"%.19sZ\">%.10s %.8s UTC</time>", at, at, at + 11);
    else
        trp_html_text(out, at);
}

void trp_html_table(trp_buffer *out, const char *caption, const char *heads)
{
    trp_buffer_printf(out,
                      "<div class=\"wide\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n"
                      "<table>\n<caption>%s</caption>\n<thead><tr>",
                      caption, caption);
    while (*heads != '\0') {
        bool number = *heads == '#';
        heads += number;
        size_t size = strcspn(heads, "|");
        trp_buffer_printf(out, "<th scope=\"col\"%s>%.*s</th>", number ? " class=\"n\"" : "",
                          (int)size, heads);
        heads += size + (heads[size] == '|');
    }
    trp_buffer_printf(out, "</tr></thead>\n<tbody>\n");
}

void trp_html_table_end(trp_buffer *out)
{
    trp_buffer_printf(out, "</tbody>\n</table>\n</div>\n");
}
