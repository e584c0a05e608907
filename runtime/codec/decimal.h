// decimal.h: doubles as decimal text and back, with the same bits, whatever the program's locale.
#ifndef TRP_CODEC_DECIMAL_H
#define TRP_CODEC_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

enum { TRP_DECIMAL_MAX = 32 };

// Writes a finite number with as many digits as it takes to read the same back, as %g does with
// that precision, from 15 on; a float's (`single`) from 6 on. Without an end; returns its length.
size_t trp_decimal_write(double value, bool single, char text[TRP_DECIMAL_MAX]);

// Reads a number as JSON has them, all of the text. False: that takes more than is done here;
// *value is unset, and strtod is to be asked. What it does is rounded as strtod rounds.
bool trp_decimal_read(const char *text, size_t size, double *value);

#endif
