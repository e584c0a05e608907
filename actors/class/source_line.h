// source_line.h: the lines of the source behind addresses of code.
#ifndef TRP_CLASS_SOURCE_LINE_H
#define TRP_CLASS_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>

enum { TRP_SITE_TEXT = 256 };

// Whether that code is of Troupe's own libraries. Where they are linked into the program: false.
bool trp_site_is_ours(const void *address);
// "/src/main.c:17 (main)", asked of addr2line (binutils) if there is one, which is run once for
// each file with code; else "main+0x12 in program+0x1234". The addresses are what calls return to.
void trp_sites_resolve(const void *const *addresses, size_t count, char (*texts)[TRP_SITE_TEXT]);

#endif
