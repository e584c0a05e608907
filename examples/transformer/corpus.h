// corpus.h: a text as characters below 128: what a network learns from.
#ifndef TRANSFORMER_CORPUS_H
#define TRANSFORMER_CORPUS_H

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

enum { CORPUS_CHARACTERS = 128 };

// The licences that every Debian has.
#define CORPUS_STANDARD "/usr/share/common-licenses"

typedef struct corpus {
    uint8_t *characters;
    size_t count;
} corpus;

// Reads a file, or the files of a folder in the order of their names, links left out. Bytes from
// 128 on become '?'. The caller frees *loaded with corpus_free. TROUPE_NOT_FOUND, TROUPE_IO and
// TROUPE_NO_MEMORY name the file.
TROUPE_MUST_USE troupe_status corpus_load(const char *path, corpus *loaded);
void corpus_free(corpus *loaded);

#endif
