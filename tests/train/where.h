// where.h: tests of whole runs that are run twice: in local files and, with the argument "memory",
// in the memory of another process. What a run has left is looked at through the table.
#ifndef WHERE_H
#define WHERE_H

#include "memory_storage.h"

#include <runtime/base/memory.h>
#include <train/checkpoint.h>

static bool where_far;      // In the memory of another process.
static char *where_folder;  // A local one for the whole test, in any case.
static char *where_storage; // Of the runs.

// Before troupe_start.
static inline void where_begin(int argc, char **argv)
{
    assert_int_equal(troupe_storage_register(&memory_storage), TROUPE_OK);
    where_far = argc > 1 && strcmp(argv[1], "memory") == 0;
    where_folder = support_directory_make();
    where_storage = where_far ? memory_storage_start(where_folder) : strdup(where_folder);
    (void)setenv("TMPDIR", where_folder, 1); // For working folders.
}

static inline void where_end(void)
{
    memory_storage_end();
    support_directory_remove(where_folder);
    free(where_storage);
}

// What is at folder/file, terminated; NULL: nothing is. For free.
static inline char *where_text(const char *folder, const char *file)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    assert_int_equal(trp_path_make(&path, "%s/%s", folder, file), TROUPE_OK);
    if (trp_storage_read(path.text, &data, &size) != TROUPE_OK)
        return NULL;
    char *text = (char *)malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    trp_free(data);
    return text;
}

static inline void where_write(const char *folder, const char *file, const char *text)
{
    trp_path path;
    assert_int_equal(trp_path_make(&path, "%s/%s", folder, file), TROUPE_OK);
    if (!where_far)
        assert_int_equal(trp_folder_make(folder), TROUPE_OK);
    assert_int_equal(trp_storage_put(path.text, text, strlen(text)), TROUPE_OK);
}

static inline void where_remove(const char *folder, const char *file)
{
    trp_path path;
    assert_int_equal(trp_path_make(&path, "%s/%s", folder, file), TROUPE_OK);
    assert_int_equal(trp_storage_remove(path.text), TROUPE_OK);
}

static inline void where_remove_run(const char *run)
{
    if (where_far)
        assert_int_equal(trp_storage_withdraw(run), TROUPE_OK);
    else
        support_directory_remove(strdup(run));
}

static void where_count_child(void *user, const char *child)
{
    (void)child;
    ++*(int *)user;
}

// All that is in the run's folder of checkpoints.
static inline int where_count_checkpoints(const char *run)
{
    trp_path path;
    int count = 0;
    assert_int_equal(trp_path_make(&path, "%s/checkpoints", run), TROUPE_OK);
    troupe_status status = trp_storage_list(path.text, where_count_child, &count);
    assert_true(status == TROUPE_OK || (where_far && status == TROUPE_NOT_FOUND));
    return count;
}

#endif
