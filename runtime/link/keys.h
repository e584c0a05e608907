// keys.h: the small files of a run or a cluster: pairs of keys, and where a process can be reached.
#ifndef TRP_LINK_KEYS_H
#define TRP_LINK_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <troupe/status.h>

enum { TRP_KEY_TEXT = 41 }; // A CURVE key in Z85, with its end.

typedef struct trp_key_pair {
    char public_key[TRP_KEY_TEXT], secret_key[TRP_KEY_TEXT];
} trp_key_pair;

// Writes a new file, 0600, whole: it has its name only when everything is in it. EXISTS: there is
// a file of that name, which stays as it is; IO.
troupe_status trp_text_write(const char *path, const char *text);
// Reads a file of less than `capacity` bytes. IO.
troupe_status trp_text_read(const char *path, char *text, size_t capacity);

troupe_status trp_keys_write(const char *path, const trp_key_pair *keys);
// Only from a file that nobody else may have written or may read: INVALID says what it is instead.
// CORRUPT: it holds no keys. Whoever has read them wipes them.
troupe_status trp_keys_read(const char *path, trp_key_pair *keys);

// Memory for a pair that is to stay: it is in no core file, and whoever is forked from this process
// finds zeros there. NULL: there is none.
trp_key_pair *trp_keys_hold(void);
// Wipes it. Harmless with NULL.
void trp_keys_release(trp_key_pair *keys);

#endif
