// opening.c: see opening.h.
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/host/folder.h>
#include <runtime/store/spill_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/capability.h>
#include <train/checkpoint.h>
#include <train/job.h>
#include <train/job_live.h>
#include <train/opening.h>
#include <train/run_data.h>
#include <train/run_job.h>
#include <train/steps.h>
#include <unistd.h>

enum { RANKS_END_MS = 10000, LEFT_RANKS_END_MS = 500 };

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// ---- what earlier runs left

static troupe_status clean_taken(const char *run, const trp_alive *alive)
{
    int rank = trp_alive_await_ranks(alive, LEFT_RANKS_END_MS);
    if (rank != 0)
        return troupe_fail(TROUPE_BUSY, "a rank of the run %s still runs: process %d", run, rank);
    return trp_checkpoint_clean(run);
}

void trp_run_clean_left(const char *run)
{
    trp_alive *alive;
    troupe_error kept;
    trp_error_hold(&kept);
    if (trp_alive_clean(run, &alive) == TROUPE_OK) {
        troupe_status status = clean_taken(run, alive);
        if (status != TROUPE_OK && status != TROUPE_BUSY)
            trp_log(TRP_INFO, "not everything that a killed run left could be removed: %s",
                    troupe_last_error()->text);
        trp_alive_leave(&alive);
    }
    trp_error_restore(&kept);
}

troupe_status troupe_run_clean(const char *folder)
{
    trp_alive *alive;
    trp_path run;
    TRP_REQUIRE(folder);
    if (!trp_path_is_local(folder))
        return troupe_fail(TROUPE_UNSUPPORTED, "the run %.200s is not in local files", folder);
    TROUPE_TRY(trp_folder_find(trp_path_local(folder), "run's folder", &run));
    TROUPE_TRY(trp_alive_clean(run.text, &alive));
    troupe_status status = clean_taken(run.text, alive);
    trp_alive_leave(&alive);
    return trp_error_settled(status);
}

void trp_run_clean_beside(const char *checkpoint)
{
    trp_path run;
    if (!trp_path_is_local(checkpoint) || trp_path_make(&run, "%s", checkpoint) != TROUPE_OK)
        return;
    size_t length = strlen(run.text);
    while (length > 1 && run.text[length - 1] == '/')
        run.text[--length] = '\0';
    char *name = strrchr(run.text, '/');
    if (name == NULL || name == run.text || trp_checkpoint_number(name + 1) < 0)
        return;
    *name = '\0';
    name = strrchr(run.text, '/');
    if (name == NULL || name == run.text || strcmp(name + 1, "checkpoints") != 0)
        return;
    *name = '\0';
    trp_run_clean_left(run.text);
}

// What has told its end has left nothing, and need not be looked into.
static bool has_told_its_end(const char *run)
{
    trp_arena arena = {0};
    trp_end_file end;
    troupe_error kept;
    trp_error_hold(&kept);
    bool told = trp_end_file_read(run, &arena, &end) == TROUPE_OK;
    trp_error_restore(&kept);
    trp_arena_clear(&arena);
    return told;
}

// A run of that name whose driver was killed may not be opened again, but this one has met its
// folder. `length`: of the name, without the number.
static void clean_earlier(const char *run, size_t length)
{
    enum { LATELY = 32 };
    trp_path earlier;
    const char *last = last_part(run);
    if (last[length] != '_')
        return;
    long number = strtol(last + length + 1, NULL, 10);
    for (long i = number > LATELY ? number - LATELY : 0; i < number; i++) {
        char suffix[24] = "";
        if (i > 0)
            snprintf(suffix, sizeof suffix, "_%ld", i);
        if (trp_path_make(&earlier, "%.*s%s", (int)(last - run + (ptrdiff_t)length), run, suffix) ==
                TROUPE_OK &&
            !has_told_its_end(earlier.text))
            trp_run_clean_left(earlier.text);
    }
}

// ---- the folder

troupe_status trp_run_claim(const troupe_train_options *options, trp_path *run, bool *made)
{
    const char *storage = options->storage ? trp_path_local(options->storage) : NULL;
    char *path = NULL;
    *made = options->open == TROUPE_OPEN_NEW;
    troupe_status status = *made ? trp_folder_claim(storage, options->name, &path)
                                 : trp_folder_named(storage, options->name, false, &path);
    if (status == TROUPE_NOT_FOUND && options->open == TROUPE_OPEN_RESUME_OR_NEW) {
        *made = true;
        status = trp_folder_named(storage, options->name, true, &path);
    }
    TROUPE_TRY(status);
    status = trp_path_make(run, "%s", path);
    trp_free(path);
    return status;
}

// Where the run is a train server's job, its client has claimed the folder, and its name has the
// number.
static size_t name_length(const trp_job *job)
{
    const char *name = job->options.name, *number = strrchr(name, '_');
    return job->submission != NULL && number != NULL ? (size_t)(number - name) : strlen(name);
}

static troupe_status find_local(trp_job *job)
{
    trp_path run;
    bool made;
    TROUPE_TRY(trp_run_claim(&job->options, &run, &made));
    if (job->options.open == TROUPE_OPEN_NEW || job->submission != NULL)
        clean_earlier(run.text, name_length(job));
    job->path = job->folder = trp_arena_text(&job->arena, run.text);
    if (job->path == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a run");
    return job->options.open == TROUPE_OPEN_NEW ? TROUPE_OK
                                                : trp_run_job_check(job->path, job->submission);
}

// Takes the run of that path elsewhere; a new one only where nothing is: else TROUPE_EXISTS.
static troupe_status take_far(trp_job *job, const char *path)
{
    bool has = false;
    TROUPE_TRY(trp_storage_take(path));
    troupe_status status =
        job->options.open == TROUPE_OPEN_NEW ? trp_storage_has(path, &has) : TROUPE_OK;
    if (status == TROUPE_OK && has)
        status = troupe_fail(TROUPE_EXISTS, "there is something at %s", path);
    if (status == TROUPE_OK && (job->path = trp_arena_text(&job->arena, path)) == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a run");
    if (status != TROUPE_OK)
        trp_storage_leave(path);
    job->opening.taken = status == TROUPE_OK;
    return status;
}

// The working folder of a run elsewhere, which is the same for each of its openings on this
// machine: so what a killed driver left in it is found.
static troupe_status make_working_folder(trp_job *job)
{
    trp_path folder;
    struct stat about;
    const char *spill = trp_spill_folder(), *end = strrchr(spill, '/');
    TROUPE_TRY(trp_path_make(&folder, "%.*s/troupe-run-%u-%016" PRIx64,
                             end != NULL ? (int)(end - spill) : 8, end != NULL ? spill : "/var/tmp",
                             (unsigned)getuid(), trp_digest(job->path, strlen(job->path))));
    if (mkdir(folder.text, 0700) != 0 && errno != EEXIST)
        return trp_fail_errno(TROUPE_IO, "cannot make the working folder %s of a run", folder.text);
    if (lstat(folder.text, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid() ||
        (about.st_mode & 022) != 0)
        return troupe_fail(TROUPE_IO, "%s is not a folder that only this user can write to",
                           folder.text);
    job->folder = trp_arena_text(&job->arena, folder.text);
    if (job->folder == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a run");
    return trp_checkpoint_clean(job->folder);
}

static troupe_status find_far(trp_job *job)
{
    enum { NUMBERS_MAX = 1000000 };
    const troupe_train_options *options = &job->options;
    trp_path path;
    size_t length = strlen(options->storage);
    while (length > 0 && options->storage[length - 1] == '/')
        length--;
    TROUPE_TRY(trp_storage_check(options->storage));
    troupe_status status = TROUPE_EXISTS;
    for (int number = 0; number <= NUMBERS_MAX && status == TROUPE_EXISTS; number++) {
        char suffix[24] = "";
        if (number > 0)
            snprintf(suffix, sizeof suffix, "_%d", number);
        TROUPE_TRY(trp_path_make(&path, "%.*s/%s%s", (int)length, options->storage, options->name,
                                 suffix));
        status = take_far(job, path.text);
        if (status == TROUPE_BUSY && options->open == TROUPE_OPEN_NEW)
            status = TROUPE_EXISTS;
    }
    TROUPE_TRY(status);
    return make_working_folder(job);
}

static troupe_status find_folder(trp_job *job)
{
    const char *storage = job->options.storage;
    return storage == NULL || trp_path_is_local(storage) ? find_local(job) : find_far(job);
}

troupe_status trp_run_clean(const trp_job *job)
{
    TROUPE_TRY(trp_checkpoint_clean(job->path));
    return job->folder != job->path ? trp_checkpoint_clean(job->folder) : TROUPE_OK;
}

// Its number; -1: there is none.
static troupe_status newest_checkpoint(const char *run, int64_t *newest)
{
    int64_t *ids = NULL;
    size_t count = 0;
    troupe_status status = trp_checkpoint_list(run, &ids, &count);
    *newest = status == TROUPE_OK && count > 0 ? ids[count - 1] : -1;
    trp_free(ids);
    return status == TROUPE_NOT_FOUND ? TROUPE_OK : status;
}

typedef struct unmade {
    bool emptied;             // It has a run.json, which is empty.
    char other[NAME_MAX + 1]; // What is not of a driver that died as it made a run.
} unmade;

static void note_child(void *user, const char *child)
{
    static const char *const ours[] = {"alive",   "run.json.new", "journal.jsonl", "job",
                                       "job.new", "checkpoints/", "log/",          "fetched/"};
    unmade *found = (unmade *)user;
    if (strcmp(child, "run.json") == 0) {
        found->emptied = true;
        return;
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(child, ours[i]) == 0)
            return;
    snprintf(found->other, sizeof found->other, "%s", child);
}

// Its reports count no more.
static troupe_status drop_journal(const char *run)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/journal.jsonl", run));
    if (unlink(path.text) != 0 && errno != ENOENT)
        return trp_fail_errno(TROUPE_IO, "cannot remove %s", path.text);
    return TROUPE_OK;
}

// That a folder without run.json holds nothing but what a driver leaves that dies as it makes a
// run. One whose run.json is empty is a run's, of which a loss of power took what was not synced.
static troupe_status check_unmade(const char *run)
{
    int64_t newest;
    unmade found = {0};
    TROUPE_TRY(newest_checkpoint(run, &newest));
    if (newest >= 0)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s has checkpoints and no run.json: was it copied in part?", run);
    troupe_status status = trp_storage_list(run, note_child, &found);
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND)
        return status;
    if (!found.emptied && found.other[0] != '\0')
        return troupe_fail(TROUPE_EXISTS,
                           "%s is not the folder of a run: it has no run.json, but "
                           "'%s'",
                           run, found.other);
    return found.emptied ? drop_journal(run) : TROUPE_OK;
}

// ---- going on

// Options that were left out become those that the run was made with.
static troupe_status merge_options(trp_job *job, trp_saved_options saved)
{
    if (!trp_capability_saves_when_due(job->trainer)) // Another one may have made the run.
        saved.checkpoint_every = 0;
    if (!trp_steps_are_there(job->trainer))
        saved.ranks_per_process = 0;
    trp_options_merge(&job->options, &saved);
    return trp_options_keep(&job->options, &job->arena);
}

troupe_status trp_run_check_trainer(const char *run, const trp_run_head *head,
                                    const troupe_trainer *trainer, bool force)
{
    if (force || strcmp(head->trainer, trainer->name) == 0)
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE,
                       "the run %s was made by trainer '%.63s', and is opened by trainer '%s': "
                       "open it by the first, or with .force = true",
                       run, head->trainer, trainer->name);
}

static troupe_status check_trainer(const trp_job *job, const trp_run_head *head)
{
    TROUPE_TRY(trp_run_check_trainer(job->path, head, job->trainer, job->options.force));
    if (strcmp(head->trainer, job->trainer->name) == 0)
        return TROUPE_OK;
    trp_log(TRP_WARN, "the run %s was made by trainer '%.63s' and goes on with '%s'", job->path,
            head->trainer, job->trainer->name);
    return TROUPE_OK;
}

// Whether the run has ended well, which leaves nothing to do.
static troupe_status look_at_end(trp_job *job)
{
    trp_opening *opening = &job->opening;
    troupe_status status = trp_end_file_read(job->path, &job->arena, &opening->end);
    if (status == TROUPE_NOT_FOUND)
        return TROUPE_OK;
    if (status == TROUPE_CORRUPT) {
        trp_log(TRP_WARN, "the run goes on, as if it had not ended: %s", troupe_last_error()->text);
        return TROUPE_OK;
    }
    TROUPE_TRY(status);
    bool well = opening->end.status != NULL && strcmp(opening->end.status, "OK") == 0 &&
                !opening->end.stopped;
    bool own = job->submission != NULL && opening->end.job != NULL &&
               strcmp(job->submission, opening->end.job) == 0 &&
               trp_status_of_word(opening->end.status) != TROUPE_RUNTIME_LOST;
    opening->ended = well || own; // Of an earlier attempt, which was killed before it told it.
    return TROUPE_OK;
}

// Who gives another config expects that something is done with it.
static void warn_of_other_config(const trp_job *job, const trp_run_file *file)
{
    trp_json given = {job->config_json, strlen(job->config_json)};
    if (!trp_json_is_same(given, file->config))
        trp_log(TRP_WARN,
                "the run %s has ended well, and is not run again with another config: its result "
                "is that of the old one; a run of another name can start from its checkpoint "
                "(.from)",
                job->path);
}

// One that cannot be read is passed over when the run begins.
static troupe_status note_newest(trp_job *job, int64_t newest)
{
    trp_arena arena = {0};
    trp_manifest manifest;
    trp_path folder;
    TROUPE_TRY(trp_checkpoint_folder(job->path, newest, &folder));
    bool read = trp_checkpoint_read(folder.text, &arena, &manifest) == TROUPE_OK;
    trp_job_set_newest(job, newest, read ? trp_capability_only_world(job->trainer, &manifest) : 0);
    trp_arena_clear(&arena);
    return TROUPE_OK;
}

static troupe_status go_on(trp_job *job, const trp_run_file *file)
{
    int64_t newest;
    TROUPE_TRY(newest_checkpoint(job->path, &newest));
    if (newest >= 0)
        TROUPE_TRY(note_newest(job, newest));
    TROUPE_TRY(check_trainer(job, &file->head));
    TROUPE_TRY(merge_options(job, file->head.options));
    TROUPE_TRY(look_at_end(job));
    if (job->opening.ended)
        warn_of_other_config(job, file);
    else
        TROUPE_TRY(trp_run_check_data(job, &file->data));
    if (!job->opening.ended && job->options.from == NULL && file->head.from != NULL && newest < 0)
        return troupe_fail(TROUPE_INVALID,
                           "the run %s has no checkpoint yet and was started from %.200s: give it "
                           "again in .from",
                           job->path, file->head.from);
    return TROUPE_OK;
}

// ---- what is written

// The last three parts of a checkpoint's path: run.json has no absolute ones.
static const char *short_path(const char *path)
{
    size_t length = strlen(path);
    for (int parts = 0; length > 0; length--)
        if (path[length - 1] == '/' && ++parts == 3)
            break;
    return path + length;
}

// The options as given: an attempt of a job of the train server has what is left of some of them.
static trp_saved_options given_options(const trp_job *job)
{
    troupe_train_options given = job->options;
    if (job->submission != NULL) {
        troupe_train_options asked = trp_options_unpack(&job->spec.options);
        given.restarts = asked.restarts;
        given.time_limit_s = asked.time_limit_s;
    }
    return trp_options_save(&given);
}

// Puts down what runs: the options as given, and this config.
static troupe_status write_run_file(trp_job *job, const trp_run_file *found)
{
    const troupe_train_options *o = &job->options;
    trp_run_file file = *found;
    trp_run_data_text data;
    char schema[20];
    trp_time_text now = trp_time_now();
    bool is_new = file.head.created == NULL;
    snprintf(schema, sizeof schema, "%016" PRIx64, troupe_type_hash(job->trainer->config));
    file.head.trainer = job->trainer->name;
    file.head.schema = schema;
    if (is_new) {
        file.head.program = last_part(job->spec.program);
        file.head.created = now.text;
    }
    if (o->from != NULL)
        file.head.from = short_path(o->from);
    file.head.options = given_options(job);
    file.data = trp_run_data_of(job, &data);
    if (o->metadata != NULL)
        file.metadata = (trp_json){o->metadata, strlen(o->metadata)};
    file.config = (trp_json){job->config_json, strlen(job->config_json)};
    // One that checkpoints need is replaced by one that lasts.
    troupe_status status = trp_run_file_write(job->path, &file, !is_new || job->opening.lasts);
    if (status == TROUPE_OK && file.metadata.size > 0 && o->metadata == NULL) {
        char *copy = trp_arena_alloc(&job->arena, file.metadata.size + 1);
        if (copy == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metadata of a run");
        memcpy(copy, file.metadata.at, file.metadata.size);
        job->options.metadata = copy;
    }
    return status;
}

// The same with what was modified since, as one: so it is known which of the two is newer.
static troupe_status put_down(trp_job *job, trp_run_file *file)
{
    trp_buffer modified = {0};
    troupe_status status = trp_job_live_open(job, file, &modified);
    if (status == TROUPE_OK)
        status = write_run_file(job, file);
    trp_buffer_free(&modified);
    return status;
}

// A run's own name is to last, too.
static troupe_status sync_name(const char *run)
{
    trp_path above;
    TROUPE_TRY(trp_path_make(&above, "%s/..", run));
    return trp_folder_sync(above.text);
}

troupe_status trp_run_sync(const char *run)
{
    TROUPE_TRY(trp_run_file_sync(run));
    TROUPE_TRY(trp_folder_sync(run));
    return sync_name(run);
}

static troupe_status begin(trp_job *job, trp_run_file *file)
{
    trp_opening *opening = &job->opening;
    bool is_new = file->head.created == NULL;
    TROUPE_TRY(trp_run_journal_open(job->path, job->folder, &job->arena, &opening->history,
                                    &opening->journal));
    if (opening->ended)
        return TROUPE_OK;
    opening->epoch = opening->history.epoch + 1;
    TROUPE_TRY(trp_alive_begin(opening->alive, &opening->epoch, RANKS_END_MS));
    if (job->options.open != TROUPE_OPEN_NEW)
        TROUPE_TRY(trp_run_clean(job));
    bool local = trp_path_is_local(job->path);
    opening->lasts = job->options.sync != TROUPE_SYNC_CHECKPOINTS || !local;
    if (local && opening->lasts) // It is to last from here on. Else trp_run_sync sees to that.
        TROUPE_TRY(trp_checkpoint_place(job->path));
    TROUPE_TRY(put_down(job, file));
    if (local && opening->lasts) // An earlier opening may have synced nothing of what is there.
        TROUPE_TRY(is_new ? sync_name(job->path) : trp_run_sync(job->path));
    if (job->options.open != TROUPE_OPEN_NEW)
        TROUPE_TRY(trp_end_file_remove(job->path));
    trp_run_journal_opened(&opening->journal, opening->epoch);
    return TROUPE_OK;
}

static troupe_status open_found(trp_job *job, trp_arena *arena)
{
    trp_run_file file = {0};
    TROUPE_TRY(trp_alive_take(job->folder, &job->opening.alive));
    if (job->options.open == TROUPE_OPEN_NEW) // Nothing is there but what was made just now.
        return begin(job, &file);
    troupe_status status = trp_run_file_read(job->path, arena, &file);
    if (status == TROUPE_NOT_FOUND) {
        if (job->options.open == TROUPE_OPEN_RESUME)
            return troupe_fail(TROUPE_NOT_FOUND, "there is no run to go on with at %s", job->path);
        status = check_unmade(job->path);
    } else if (status == TROUPE_OK) {
        status = go_on(job, &file);
    }
    TROUPE_TRY(status);
    return begin(job, &file);
}

troupe_status trp_run_open(trp_job *job)
{
    trp_arena arena = {0};
    troupe_status status = find_folder(job);
    if (status == TROUPE_OK)
        status = open_found(job, &arena);
    trp_arena_clear(&arena);
    if (status != TROUPE_OK) {
        trp_run_close(job);
        return status;
    }
    job->reports = job->opening.history.reports;
    // Those of a train server's job are counted with its attempts.
    job->restarts = job->opening.ended && job->submission == NULL ? job->opening.end.restarts : 0;
    job->earlier_s = job->opening.history.elapsed_s;
    return TROUPE_OK;
}

void trp_run_close(trp_job *job)
{
    trp_run_journal_close(&job->opening.journal);
    trp_alive_leave(&job->opening.alive);
    if (job->opening.taken)
        trp_storage_leave(job->path);
    job->opening.taken = false;
}

static const char *checkpoint_path(trp_job *job, troupe_result *result, const char *name)
{
    trp_path path;
    if (name == NULL || trp_path_make(&path, "%s/checkpoints/%s", job->path, name) != TROUPE_OK)
        return NULL;
    return trp_job_result_text(result, path.text);
}

troupe_result *trp_run_stored_result(trp_job *job)
{
    const trp_opening *opening = &job->opening;
    troupe_result *result = trp_job_result(job);
    if (result == NULL)
        return NULL;
    if (trp_job_result_metrics(result, opening->history.metrics, opening->history.metric_count) !=
            TROUPE_OK ||
        trp_job_result_value(result, opening->end.value.data, opening->end.value.size,
                             opening->end.value_schema) != TROUPE_OK)
        troupe_result_free(&result);
    if (result == NULL)
        return NULL;
    result->status = trp_status_of_word(opening->end.status);
    result->stopped = opening->end.stopped;
    if (opening->end.error != NULL && opening->end.error[0] != '\0')
        result->error = trp_job_result_text(result, opening->end.error);
    if (result->error == NULL)
        result->error = "";
    result->checkpoint = checkpoint_path(job, result, opening->end.checkpoint);
    result->best = checkpoint_path(job, result, opening->end.best);
    trp_job_set_checkpoints(
        job, result->checkpoint != NULL ? trp_checkpoint_number(opening->end.checkpoint) : -1,
        result->best != NULL ? trp_checkpoint_number(opening->end.best) : -1);
    return result;
}

bool troupe_can_resume(const char *folder)
{
    return !TRP_IS_NULL(folder) && trp_run_file_exists(trp_path_local(folder));
}
