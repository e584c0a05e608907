// corpus.c: see corpus.h.
#include "corpus.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static troupe_status fail_at(const char *path)
{
    return troupe_fail(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "%s: %s", path,
                       strerror(errno));
}

static troupe_status add_file(FILE *tokens, const char *path)
{
    FILE *text = fopen(path, "rb");
    if (!text)
        return fail_at(path);
    for (int byte; (byte = getc(text)) != EOF;) {
        uint16_t token = byte < CORPUS_CHARACTERS ? (uint16_t)byte : '?';
        fwrite(&token, sizeof token, 1, tokens);
    }
    troupe_status status = ferror(text) ? fail_at(path) : TROUPE_OK;
    fclose(text);
    return status;
}

static troupe_status add_folder(FILE *tokens, const char *path)
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
            status = add_file(tokens, name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

// Under another name first: a driver that is killed leaves no half of it.
static troupe_status write_tokens(const char *file, const corpus_source *source)
{
    char draft[4096];
    struct stat about;
    snprintf(draft, sizeof draft, "%s.new", file);
    if (stat(source->path, &about) != 0)
        return fail_at(source->path);
    FILE *tokens = fopen(draft, "wb");
    if (!tokens)
        return fail_at(draft);
    troupe_status status =
        S_ISDIR(about.st_mode) ? add_folder(tokens, source->path) : add_file(tokens, source->path);
    int64_t count = ftell(tokens) / (int64_t)sizeof(uint16_t);
    bool written = !ferror(tokens);
    written = fclose(tokens) == 0 && written;
    if (status == TROUPE_OK && count <= source->context)
        return troupe_fail(TROUPE_INVALID, "%s has %lld characters, must have more than %lld",
                           source->path, (long long)count, (long long)source->context);
    if (status == TROUPE_OK && (!written || rename(draft, file) != 0))
        return fail_at(file);
    return status;
}

troupe_status corpus_setup(troupe_data *data, const corpus_source *source)
{
    char file[4000];
    snprintf(file, sizeof file, "%s/text.tokens", data->path);
    if (access(file, F_OK) != 0)
        TROUPE_TRY(write_tokens(file, source));
    // A row's last character is the next one's first: each but the very first is foretold once.
    size_t context = (size_t)source->context;
    return troupe_data_columns(
        data, "train", TROUPE_SHARE_BY_NAME,
        troupe_from_tokens("text", file, TROUPE_UINT16, context + 1, .stride = context));
}
