// jobs_gc.c: removes jobs that have ended: their folders in the state folder, and their rows. What
// their runs have made is in the folders of the runs, and stays.
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/jobs_internal.h>
#include <server/say.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/run_job.h>
#include <train/tree.h>
#include <unistd.h>

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
    troupe_status status = trp_books_begin(jobs->books, true);
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

// ---- claims

enum { CLAIM_S = 3600 }; // So long a client may be on its way.

// Whether a client has claimed the folder for a job that never came to be. *submission is in the
// arena.
static bool is_forgotten_claim(trp_jobs *jobs, const char *run, trp_arena *arena,
                               const char **submission)
{
    trp_path path;
    struct stat about;
    trp_run_job claim;
    int64_t gone = 0;
    if (trp_path_make(&path, "%s/job", run) != TROUPE_OK || lstat(path.text, &about) != 0 ||
        !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        jobs->unix_s - (double)about.st_mtim.tv_sec < CLAIM_S ||
        trp_path_make(&path, "%s/run.json", run) != TROUPE_OK || access(path.text, F_OK) == 0 ||
        trp_run_job_read(run, arena, &claim) != TROUPE_OK || claim.submission == NULL ||
        claim.server == NULL || strcmp(claim.server, jobs->folder.text) != 0 ||
        trp_jobs_by_submission(jobs, claim.submission) != NULL ||
        trp_books_gone(jobs->books, claim.submission, NULL, &gone) != TROUPE_OK || gone != 0)
        return false;
    *submission = claim.submission;
    return true;
}

// Removes such folders in one where runs are kept; how many.
static size_t sweep_claims_in(trp_jobs *jobs, const char *storage)
{
    size_t count = 0;
    DIR *folder = opendir(storage);
    for (struct dirent *it; folder != NULL && (it = readdir(folder)) != NULL;) {
        trp_path run;
        trp_arena arena = {0};
        const char *submission;
        if (it->d_name[0] != '.' &&
            trp_path_make(&run, "%s/%s", storage, it->d_name) == TROUPE_OK &&
            is_forgotten_claim(jobs, run.text, &arena, &submission)) {
            trp_run_job_withdraw(run.text, submission);
            count += access(run.text, F_OK) != 0;
        }
        trp_arena_clear(&arena);
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

// The same beside the runs of all jobs that are known.
size_t trp_jobs_sweep_claims(trp_jobs *jobs)
{
    size_t count = 0;
    char last[PATH_MAX] = "";
    for (trp_entry *at = jobs->all; at != NULL; at = (trp_entry *)at->hh.next) {
        const char *slash = strrchr(at->row.run, '/');
        size_t length = (size_t)(slash - at->row.run);
        if (length == 0 || (strncmp(last, at->row.run, length) == 0 && last[length] == '\0'))
            continue; // Most are kept where the one before is.
        snprintf(last, sizeof last, "%.*s", (int)length, at->row.run);
        count += sweep_claims_in(jobs, last);
    }
    return count;
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
