// buffer.c: bytes that grow by doubling.
#include <runtime/base/buffer.h>
#include <runtime/base/cell_pool.h>
#include <runtime/base/memory.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

static void *grow(trp_buffer *buffer, size_t capacity)
{
    if (buffer->capacity > TRP_POOL_LARGEST)
        return trp_realloc(buffer->data, capacity);
    void *data = trp_pool_take(capacity);
    if (data == NULL)
        return NULL;
    if (buffer->size > 0)
        memcpy(data, buffer->data, buffer->size);
    trp_pool_give(buffer->data, buffer->capacity);
    return data;
}

bool trp_buffer_reserve(trp_buffer *buffer, size_t size)
{
    if (buffer->failed)
        return false;
    if (size <= buffer->capacity - buffer->size)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
    if (size > PTRDIFF_MAX - buffer->size) {
        buffer->failed = true;
        return false;
    }
    // Neither term is above PTRDIFF_MAX, so doubling cannot overflow before the loop ends.
    while (capacity < buffer->size + size)
        capacity *= 2;
    void *data = grow(buffer, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = (unsigned char *)data;
    buffer->capacity = capacity;
    return true;
}

void trp_buffer_append(trp_buffer *buffer, const void *data, size_t size)
{
    if (size == 0 || !trp_buffer_reserve(buffer, size))
        return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

void trp_buffer_printf(trp_buffer *buffer, const char *format, ...)
{
    va_list list;
    if (buffer->failed)
        return;
    size_t room = buffer->capacity - buffer->size;
    va_start(list, format); // Most often there is room for it.
    int size = vsnprintf(room > 0 ? (char *)buffer->data + buffer->size : NULL, room, format, list);
    va_end(list);
    if (size < 0) {
        buffer->failed = true;
        return;
    }
    if ((size_t)size < room) {
        buffer->size += (size_t)size;
        return;
    }
    // vsnprintf ends with a NUL, which needs room but is not part of the bytes.
    if (!trp_buffer_reserve(buffer, (size_t)size + 1))
        return;
    va_start(list, format);
    (void)vsnprintf((char *)buffer->data + buffer->size, (size_t)size + 1, format, list);
    va_end(list);
    buffer->size += (size_t)size;
}

void trp_buffer_free(trp_buffer *buffer)
{
    trp_pool_give(buffer->data, buffer->capacity);
    *buffer = (trp_buffer){0};
}

const char *trp_buffer_keep(trp_buffer *text, trp_arena *arena)
{
    trp_buffer_append(text, "", 1);
    char *copy = text->failed ? NULL : trp_arena_alloc(arena, text->size);
    if (copy != NULL)
        memcpy(copy, text->data, text->size);
    trp_buffer_free(text);
    return copy;
}

char *trp_digits(char *at, uint32_t number)
{
    size_t digits = 1;
    for (uint32_t rest = number; rest >= 10; rest /= 10)
        digits++;
    for (size_t i = digits; i-- > 0; number /= 10)
        at[i] = (char)('0' + number % 10);
    return at + digits;
}
