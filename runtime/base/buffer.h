// buffer.h: bytes that grow.
#ifndef TRP_BASE_BUFFER_H
#define TRP_BASE_BUFFER_H

#include <runtime/base/arena.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trp_buffer {
    unsigned char *data;
    size_t size, capacity;
    bool failed; // An append ran out of memory; what follows is ignored. Checked once at the end.
} trp_buffer;

// Makes room for `size` more bytes, so that appending them moves nothing; false: out of memory.
bool trp_buffer_reserve(trp_buffer *buffer, size_t size);
void trp_buffer_append(trp_buffer *buffer, const void *data, size_t size);
void trp_buffer_printf(trp_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Moves a text into the arena, with an end, and frees the buffer. NULL: there is no memory.
const char *trp_buffer_keep(trp_buffer *text, trp_arena *arena);
void trp_buffer_free(trp_buffer *buffer); // Frees the bytes and zeroes *buffer.

// Writes the number in decimal, without a zero behind it, and gives its end: at most 10 bytes.
// Without printf, whose code is pages that each worker has to map anew.
char *trp_digits(char *at, uint32_t number);

#endif
