// printable.h: text from elsewhere on its way to a terminal, a log or an error text: what could
// move a cursor, begin another line or rename a window is shown as an escape.
#ifndef TRP_BASE_PRINTABLE_H
#define TRP_BASE_PRINTABLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

// Whether all of the text may be printed as it is: printable ASCII, tabs, and UTF-8 without control
// characters and those that turn the direction of writing.
bool trp_printable_is(const char *text, size_t size);
// Copies the text, with "\n", "\x1b" and the like for what may not be printed; what no longer fits
// is cut, never within an escape or a character. Always ends `out`, which has `capacity` bytes, at
// least 1. Whether all of it fitted. `out` must not overlap the text.
bool trp_printable_copy(const char *text, size_t size, char *out, size_t capacity);
// The same in place, for a text that ends within `capacity` bytes; else it is ended there.
void trp_printable_clean(char *text, size_t capacity);
// As vsnprintf, where no format is the empty text. Not cleaned.
int trp_printable_format(char *out, size_t capacity, const char *format, va_list list);

#endif
