// html_text.h: text, figures and links as HTML. What a run has given is text here, never markup:
// names, errors and settings may hold anything.
#ifndef TRP_TEXT_HTML_TEXT_H
#define TRP_TEXT_HTML_TEXT_H

#include <runtime/base/buffer.h>
#include <stdint.h>

// The text escaped, for elements and for attributes in double quotes; control characters, and those
// that turn the direction of writing, are shown as escapes. NULL: nothing.
void trp_html_text(trp_buffer *out, const char *text);
// The same of `size` bytes, in which new lines stay.
void trp_html_lines(trp_buffer *out, const char *text, size_t size);
// A relative path as the address of a link.
void trp_html_path(trp_buffer *out, const char *path);
// Up to six significant digits; whole numbers in full.
void trp_html_number(trp_buffer *out, double value);
// "12.3 s", "3 min 20 s", "2 h 5 min".
void trp_html_duration(trp_buffer *out, double seconds);
// "1.5 MiB"
void trp_html_size(trp_buffer *out, uint64_t bytes);
// A time as files of a run have it ("2026-11-24T12:00:00.123Z") as one that people read.
void trp_html_time(trp_buffer *out, const char *at);

// Begins a table: its wrapper, its caption and its heads, "|" between them; "#" before one: of
// numbers.
void trp_html_table(trp_buffer *out, const char *caption, const char *heads);
void trp_html_table_end(trp_buffer *out);

// The style sheet of reports, line by line; the last one is NULL.
extern const char *const trp_html_style[];

#endif
