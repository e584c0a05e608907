// html_folders.c: the checkpoints and log files that a run's folder has (see html_facts.h).
#include <train/html_facts.h>

#include <dirent.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <unistd.h>

enum { TAIL_BYTES = 4096, TAIL_LINES = 20, TAILS_MAX = 16 };

// ---- checkpoints

// With a failure's sentence where it cannot be read. False: no memory.
static bool read_checkpoint(trp_facts *facts, int64_t number, trp_facts_checkpoint *row)
{
    trp_path folder;
    trp_manifest manifest;
    trp_arena arena = {0}; // A manifest may have many files.
    *row = (trp_facts_checkpoint){.number = number};
    troupe_status status = trp_checkpoint_folder(facts->folder, number, &folder);
    if (status == TROUPE_OK)
        row->name = trp_facts_copy(facts, strrchr(folder.text, '/') + 1);
    if (status == TROUPE_OK)
        status = trp_manifest_read(folder.text, &arena, &manifest);
    if (status != TROUPE_OK) {
        row->error = trp_facts_copy(facts, troupe_last_error()->text);
        trp_arena_clear(&arena);
        return row->name != NULL && row->error != NULL;
    }
    row->created = manifest.created != NULL ? trp_facts_copy(facts, manifest.created) : NULL;
    row->report = manifest.report;
    row->world = manifest.world;
    row->files = manifest.files.count;
    for (size_t i = 0; i < manifest.files.count; i++)
        row->size += manifest.files.items[i].size;
    size_t count = manifest.metrics.count;
    troupe_metric *metrics = trp_arena_alloc(&facts->arena, (count + 1) * sizeof *metrics);
    for (size_t i = 0; metrics != NULL && i < count; i++) {
        const trp_metric *it = &manifest.metrics.items[i];
        metrics[i] =
            (troupe_metric){trp_facts_copy(facts, it->name != NULL ? it->name : ""), it->value};
    }
    row->metrics = metrics;
    row->metric_count = metrics != NULL ? count : 0;
    trp_arena_clear(&arena);
    return row->name != NULL && metrics != NULL;
}

// The best one by what the end says, else by the commits; without a metric the newest is.
static void mark_best(trp_facts *facts)
{
    const char *best = facts->best_checkpoint;
    if (facts->has_end && facts->end.best != NULL)
        best = facts->end.best;
    for (size_t i = 0; i < facts->checkpoint_count; i++) {
        trp_facts_checkpoint *row = &facts->checkpoints[i];
        row->newest = i == 0;
        row->best = best[0] != '\0' ? strcmp(row->name, best) == 0 : i == 0;
    }
}

// Whether number i of the sorted list gets a row: the newest ones, and the best wherever it is.
static bool is_shown(const trp_facts *facts, const int64_t *numbers, size_t count, size_t i)
{
    const char *best =
        facts->has_end && facts->end.best != NULL ? facts->end.best : facts->best_checkpoint;
    return i + TRP_FACTS_CHECKPOINTS >= count || numbers[i] == trp_checkpoint_number(best);
}

static troupe_status read_checkpoints(trp_facts *facts)
{
    int64_t *numbers = NULL;
    size_t count = 0;
    if (trp_checkpoint_list(facts->folder, &numbers, &count) != TROUPE_OK)
        count = 0; // There is no such folder.
    size_t room = count < TRP_FACTS_CHECKPOINTS ? count : TRP_FACTS_CHECKPOINTS;
    facts->checkpoints = trp_arena_alloc(&facts->arena, (room + 2) * sizeof *facts->checkpoints);
    bool read = facts->checkpoints != NULL;
    for (size_t i = count; read && i-- > 0;) {
        if (!is_shown(facts, numbers, count, i))
            facts->checkpoints_left_out++;
        else if (facts->checkpoint_count < room + 1)
            read =
                read_checkpoint(facts, numbers[i], &facts->checkpoints[facts->checkpoint_count++]);
    }
    trp_free(numbers);
    if (!read)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the checkpoints of %s", facts->folder);
    mark_best(facts);
    return TROUPE_OK;
}

// ---- logs

static int compare_logs(const void *left, const void *right)
{
    return strcmp(((const trp_facts_log *)left)->name, ((const trp_facts_log *)right)->name);
}

// Keeps the last lines of what an open file has.
static void read_tail(trp_facts *facts, int fd, trp_facts_log *log)
{
    char *text = trp_arena_alloc(&facts->arena, TAIL_BYTES);
    off_t from = log->size > TAIL_BYTES ? (off_t)(log->size - TAIL_BYTES) : 0;
    ssize_t got = text != NULL ? pread(fd, text, TAIL_BYTES, from) : -1;
    if (got <= 0)
        return;
    size_t at = (size_t)got, lines = 0;
    while (at > 0 && lines <= TAIL_LINES) {
        at--;
        lines += text[at] == '\n' && at + 1 < (size_t)got;
    }
    if (lines > TAIL_LINES)
        at++;
    const char *cut = from > 0 && at == 0 ? memchr(text, '\n', (size_t)got) : NULL;
    if (cut != NULL && cut + 1 < text + got)
        at = (size_t)(cut - text) + 1; // It begins within a line.
    log->tail = text + at;
    log->tail_size = (size_t)got - at;
}

static void read_log(trp_facts *facts, int folder, trp_facts_log *log)
{
    struct stat about;
    int fd = openat(folder, log->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        log->size = (uint64_t)about.st_size;
        if (log < facts->logs + TAILS_MAX)
            read_tail(facts, fd, log);
    }
    if (fd >= 0)
        close(fd);
}

static troupe_status read_logs(trp_facts *facts)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/log", facts->folder));
    DIR *folder = opendir(path.text);
    if (folder == NULL)
        return TROUPE_OK;
    facts->logs = trp_arena_alloc(&facts->arena, TRP_FACTS_LOGS * sizeof *facts->logs);
    bool read = facts->logs != NULL;
    for (struct dirent *it; read && (it = readdir(folder)) != NULL;) {
        if (it->d_name[0] == '.')
            continue;
        if (facts->log_count == TRP_FACTS_LOGS) {
            facts->logs_left_out++;
            continue;
        }
        const char *name = trp_facts_copy(facts, it->d_name);
        read = name != NULL;
        if (read)
            facts->logs[facts->log_count++] = (trp_facts_log){.name = name};
    }
    if (read && facts->log_count > 0)
        qsort(facts->logs, facts->log_count, sizeof *facts->logs, compare_logs);
    for (size_t i = 0; read && i < facts->log_count; i++)
        read_log(facts, dirfd(folder), &facts->logs[i]);
    closedir(folder);
    return read ? TROUPE_OK
                : troupe_fail(TROUPE_NO_MEMORY, "no memory for the logs of %s", facts->folder);
}

troupe_status trp_facts_folders(trp_facts *facts)
{
    TROUPE_TRY(read_checkpoints(facts));
    return read_logs(facts);
}
