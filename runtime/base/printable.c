// printable.c: see printable.h.
#include <runtime/base/printable.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CLEAN_MAX = 4096 }; // Of a text that is cleaned in place: longer ones are cut.

// How many bytes the UTF-8 character has that begins here; 0: none does, as it is meant.
static size_t character_at(const unsigned char *at, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || size > left)
        return 0;
    uint32_t code = at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    bool turns = code == 0x061c || (code >= 0x200e && code <= 0x200f) ||
                 (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
                 code == 0xfeff;
    bool none = code < least[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
    return none || turns || code < 0xa0 ? 0 : size; // Below: control characters of 8 bits.
}

static bool is_plain(unsigned char byte)
{
    return (byte >= ' ' && byte < 0x7f) || byte == '\t';
}

bool trp_printable_is(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t at = 0, step; at < size; at += step) {
        step = is_plain(bytes[at]) ? 1 : character_at(bytes + at, size - at);
        if (step == 0)
            return false;
    }
    return true;
}

bool trp_printable_copy(const char *text, size_t size, char *out, size_t capacity)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t used = 0, at = 0;
    for (size_t step; at < size; at += step) {
        char escape[8];
        const char *piece = text + at;
        step = is_plain(bytes[at]) ? 1 : character_at(bytes + at, size - at);
        size_t length = step;
        if (step == 0) {
            step = 1;
            if (bytes[at] == '\n' || bytes[at] == '\r')
                snprintf(escape, sizeof escape, "\\%c", bytes[at] == '\n' ? 'n' : 'r');
            else
                snprintf(escape, sizeof escape, "\\x%02x", bytes[at]);
            piece = escape;
            length = strlen(escape);
        }
        if (used + length >= capacity)
            break;
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return at == size;
}

void trp_printable_clean(char *text, size_t capacity)
{
    size_t size = strnlen(text, capacity - 1);
    text[size] = '\0';
    if (trp_printable_is(text, size)) // Nearly always.
        return;
    char clean[CLEAN_MAX];
    size_t room = capacity < sizeof clean ? capacity : sizeof clean;
    (void)trp_printable_copy(text, size, clean, room);
    strcpy(text, clean);
}

int trp_printable_format(char *out, size_t capacity, const char *format, va_list list)
{
    if (format != NULL)
        return vsnprintf(out, capacity, format, list);
    out[0] = '\0';
    return 0;
}
