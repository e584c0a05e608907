// corpus.c: see corpus.h.
#include "corpus.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static troupe_status fail_at(const char *path)
{
    return troupe_fail(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "%s: %s", path,
                       strerror(errno));
}

static troupe_status append(FILE *file, const char *path, corpus *to)
{
    for (;;) {
        enum { CHUNK = 65536 };
        uint8_t *grown = realloc(to->characters, to->count + CHUNK);
        if (!grown)
            return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for the text", path);
        to->characters = grown;
        size_t got = fread(grown + to->count, 1, CHUNK, file);
        for (size_t i = to->count; i < to->count + got; i++)
            grown[i] = grown[i] < CORPUS_CHARACTERS ? grown[i] : '?';
        to->count += got;
        if (got == 0)
            return ferror(file) ? fail_at(path) : TROUPE_OK;
    }
}

static troupe_status load_file(const char *path, corpus *to)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail_at(path);
    troupe_status status = append(file, path, to);
    fclose(file);
    return status;
}

static troupe_status load_folder(const char *path, corpus *to)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0)
        return fail_at(path);
    troupe_status status = TROUPE_OK;
    for (int i = 0; i < count; i++) {
        char name[4096];
        struct stat about;
        int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (status == TROUPE_OK && length < (int)sizeof name && lstat(name, &about) == 0 &&
            S_ISREG(about.st_mode))
            status = load_file(name, to);
        free(entries[i]);
    }
    free(entries);
    return status;
}

troupe_status corpus_load(const char *path, corpus *loaded)
{
    struct stat about;
    corpus read = {0};
    if (stat(path, &about) != 0)
        return fail_at(path);
    troupe_status status =
        S_ISDIR(about.st_mode) ? load_folder(path, &read) : load_file(path, &read);
    if (status == TROUPE_OK)
        *loaded = read;
    else
        corpus_free(&read);
    return status;
}

void corpus_free(corpus *loaded)
{
    free(loaded->characters);
    *loaded = (corpus){0};
}
