// gzip.h: files that gzip has packed, by zlib, which is loaded when the first one is met.
#ifndef TRP_MODELS_GZIP_H
#define TRP_MODELS_GZIP_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <troupe/status.h>

// Whether the bytes begin as gzip's do.
bool trp_gzip_is(const void *data, size_t size);
// Unpacks the whole file; *out, which is empty, is to be freed, on failure too. TROUPE_UNSUPPORTED:
// there is no zlib; TROUPE_CORRUPT: the packed data are damaged or cut; TROUPE_IO,
// TROUPE_NO_MEMORY.
troupe_status trp_gzip_read(const char *path, trp_buffer *out);

#endif
