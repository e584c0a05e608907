// jobs_gc.c: removes jobs that have ended: their folders in the state folder, and their rows. What
// their runs have made is in the folders of the runs, and stays.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/jobs_internal.h>
#include <server/say.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <train/tree.h>

static troupe_status add_size(void *user, const trp_tree_node *node)
{
    struct stat about;
    if (node->kind == TRP_TREE_FILE && fstatat(node->parent, node->name, &about, 0) == 0)
        *(int64_t *)user += about.st_blocks * 512;
    return TROUPE_OK;
}

static int64_t size_of(const trp_entry *job)
{
    int64_t size = 0;
    (void)trp_tree_walk(job->folder, add_size, &size);
    return size;
}

static bool is_newer(const trp_entry *one, const trp_entry *other)
{
    return one->row.ended_at != other->row.ended_at ? one->row.ended_at > other->row.ended_at
                                                    : one->row.id > other->row.id;
}

static int newest_first(const void *one, const void *other)
{
    const trp_entry *a = *(trp_entry *const *)one, *b = *(trp_entry *const *)other;
    return is_newer(a, b) ? -1 : 1;
}

// Those that have ended, the newest first; *count of them. NULL: none, or no memory.
static trp_entry **list_ended(trp_jobs *jobs, size_t *count)
{
    trp_entry **list = (trp_entry **)trp_alloc((size_t)(jobs->ended + 1) * sizeof(trp_entry *));
    *count = 0;
    for (trp_entry *at = jobs->all; at != NULL && list != NULL; at = (trp_entry *)at->hh.next)
        if (at->row.state == TRP_JOB_ENDED && !at->dirty)
            list[(*count)++] = at;
    if (list != NULL)
        qsort(list, *count, sizeof *list, newest_first);
    return list;
}

// Removes the rows of the first `count`, whose folders are gone.
static troupe_status remove_rows(trp_jobs *jobs, trp_entry **list, size_t count, bool keys)
{
    troupe_status status = trp_books_begin(jobs->books);
    for (size_t i = 0; status == TROUPE_OK && i < count; i++)
        status = trp_books_remove(jobs->books, &list[i]->row);
    if (status == TROUPE_OK && keys)
        status = trp_books_free_keys(jobs->books);
    if (status == TROUPE_OK)
        status = trp_books_commit(jobs->books);
    if (status != TROUPE_OK) {
        trp_books_undo(jobs->books);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        trp_jobs_drop(jobs, list[i]);
    return TROUPE_OK;
}

troupe_status trp_jobs_gc(trp_jobs *jobs, const trp_wire_gc *bounds, trp_buffer *said)
{
    size_t count, going = 0;
    int64_t kept = 0, freed = 0;
    trp_entry **list = list_ended(jobs, &count);
    if (list == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to remove jobs");
    for (size_t i = 0; i < count; i++) {
        bool sized = bounds->bytes > 0;
        int64_t size = sized ? size_of(list[i]) : 0;
        bool goes =
            (bounds->keep > 0 && i >= (size_t)bounds->keep) ||
            (bounds->older_s > 0 && jobs->unix_s - list[i]->row.ended_at > bounds->older_s) ||
            (sized && kept + size > bounds->bytes);
        if (!goes) {
            kept += size;
            continue;
        }
        size = sized ? size : size_of(list[i]);
        troupe_status status = trp_folder_discard(list[i]->folder);
        if (status != TROUPE_OK && status != TROUPE_NOT_FOUND) {
            trp_say("%s", troupe_last_error()->text);
            continue;
        }
        freed += size;
        list[going++] = list[i]; // Never before it was read.
    }
    troupe_status status = remove_rows(jobs, list, going, bounds->keys);
    if (status == TROUPE_OK)
        trp_buffer_printf(said, "%zu ended job%s removed, %.1f MiB freed; %zu kept", going,
                          going == 1 ? "" : "s", (double)freed / (1 << 20), count - going);
    trp_free(list);
    return status;
}
