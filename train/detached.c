// detached.c: see detached.h.
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <train/capability.h>
#include <train/handle.h>
#include <train/launch_record.h>
#include <train/run_job.h>
#include <train/server_choice.h>
#include <train/state_folder.h>
#include <unistd.h>

// ---- whose it is

static troupe_status check_first_start(const char *name)
{
    if (trp_process_starts() <= 1)
        return TROUPE_OK;
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "trainer '%s' is submitted after start %u of this program, and a train "
                       "server runs programs up to their first troupe_start",
                       name, (unsigned)trp_process_starts());
}

// That a server can do the job at all.
static troupe_status check_fit(const troupe_job *handle, const troupe_trainer *trainer)
{
    const trp_job_spec *spec = &handle->spec;
    const char *storage = spec->options.storage;
    if (spec->ref_count > 0 || spec->data_ref_count > 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the %s of '%s' has references, which end with this program: a train "
                           "server takes values alone",
                           spec->ref_count > 0 ? "config" : "data", trainer->name);
    if (storage != NULL && !trp_path_is_local(storage))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option .storage is '%.100s', and a train server keeps runs in local "
                           "files",
                           storage);
    TROUPE_TRY(check_first_start(trainer->name));
    return trp_launch_record_check(trainer, trainer->name);
}

static troupe_status refuse_others_options(const troupe_job *handle)
{
    const trp_packed_options *options = &handle->spec.options;
    if (options->priority == 0 && options->start_at == 0)
        return TROUPE_OK;
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "option %s is given, and the job is one of this program, which starts it at "
                       "its turn: expected a train server (troupe server start, and .server or "
                       "TROUPE_SERVER)",
                       options->priority != 0 ? ".priority" : ".start_at");
}

// Where nobody asked for a server: once, that the jobs are not this program's.
static void say_where(const char *folder)
{
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        trp_log(TRP_WARN,
                "jobs are done by the train server of %s, which runs: they outlive this program "
                "(TROUPE_SERVER=none keeps them here)",
                folder);
}

static troupe_status open_desk(const char *folder, bool start, trp_desk **desk)
{
    troupe_status status = trp_desk_open(folder, desk);
    if (status != TROUPE_NOT_FOUND || !start)
        return status;
    // Of several that start one at once, all but one fail, and find that one.
    troupe_error why;
    status = trp_server_start(folder);
    trp_error_hold(&why);
    if (trp_desk_open(folder, desk) == TROUPE_OK)
        return TROUPE_OK;
    if (status != TROUPE_OK)
        trp_error_restore(&why);
    return troupe_last_error()->status;
}

troupe_status trp_detached_choose(const troupe_job *handle, const troupe_trainer *trainer,
                                  trp_desk **desk)
{
    trp_server_use use;
    trp_path folder;
    *desk = NULL;
    TROUPE_TRY(trp_server_choose((troupe_server_choice)handle->spec.options.server, &use, &folder));
    if (use == TRP_SERVER_NOT || (use == TRP_SERVER_IF && !trp_server_seems_there(folder.text)))
        return refuse_others_options(handle);
    troupe_status status = check_fit(handle, trainer);
    if (status == TROUPE_OK)
        status = trp_state_folder_check(folder.text);
    if (status == TROUPE_NOT_FOUND && use == TRP_SERVER_START)
        status = TROUPE_OK; // It is made with the server.
    if (status == TROUPE_OK)
        status = open_desk(folder.text, use == TRP_SERVER_START, desk);
    if (status == TROUPE_OK && use == TRP_SERVER_IF)
        say_where(folder.text);
    if (status == TROUPE_OK || use != TRP_SERVER_IF)
        return trp_error_settled(status);
    trp_log(TRP_INFO, "the job of '%s' is done by this program, and not by the train server: %s",
            trainer->name, troupe_last_error()->text);
    trp_error_forget();
    return refuse_others_options(handle);
}

troupe_status trp_detached_server(troupe_server_choice choice, trp_desk **desk)
{
    trp_server_use use;
    trp_path folder;
    *desk = NULL;
    TROUPE_TRY(trp_server_choose(choice, &use, &folder));
    if (use == TRP_SERVER_NOT || (use == TRP_SERVER_IF && !trp_server_seems_there(folder.text)))
        return TROUPE_OK;
    troupe_status status = trp_state_folder_check(folder.text);
    if (status == TROUPE_NOT_FOUND && use == TRP_SERVER_START)
        status = TROUPE_OK; // It is made with the server.
    if (status == TROUPE_OK)
        status = open_desk(folder.text, use == TRP_SERVER_START, desk);
    return trp_error_settled(use == TRP_SERVER_IF ? TROUPE_OK : status);
}

// ---- what is submitted

typedef struct submission {
    char id[33]; // In hexadecimal.
    troupe_train_options options;
    trp_path run;
    bool made;       // Its folder was claimed for it.
    int64_t journal; // Where it ended.
    trp_arena arena;
    trp_buffer spec, launch;
    trp_spec_hash_text hash;
    trp_wire_submit message;
} submission;

static troupe_status make_id(char id[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return trp_fail_errno(TROUPE_IO, "no random bytes for a submission");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return TROUPE_OK;
}

static int64_t size_of(const char *run, const char *name)
{
    trp_path path;
    struct stat about;
    bool there =
        trp_path_make(&path, "%s/%s", run, name) == TROUPE_OK && stat(path.text, &about) == 0;
    return there ? about.st_size : 0;
}

static troupe_status write_claim(const submission *is, const char *server, int64_t job)
{
    trp_run_job claim = {
        .submission = is->id, .server = server, .job = job, .journal = is->journal};
    return trp_run_job_write(is->run.text, &claim, false);
}

// The run's folder; and options that are left out are those of a run that goes on.
static troupe_status claim(submission *is, const troupe_trainer *trainer, const char *server)
{
    trp_run_file file;
    TROUPE_TRY(trp_run_claim(&is->options, &is->run, &is->made));
    if (is->made)
        return write_claim(is, server, 0);
    TROUPE_TRY(trp_run_job_check(is->run.text, NULL));
    troupe_status status = trp_run_file_read(is->run.text, &is->arena, &file);
    if (status == TROUPE_NOT_FOUND && is->options.open == TROUPE_OPEN_RESUME_OR_NEW)
        return TROUPE_OK;
    TROUPE_TRY(status);
    TROUPE_TRY(trp_run_check_trainer(is->run.text, &file.head, trainer, is->options.force));
    trp_options_merge(&is->options, &file.head.options);
    is->journal = size_of(is->run.text, "journal.jsonl");
    return TROUPE_OK;
}

static trp_wire_need need_of(const troupe_train_options *o)
{
    return (trp_wire_need){.ranks = o->ranks,
                           .min_ranks = o->min_ranks,
                           .cpus_per_rank = o->cpus_per_rank,
                           .gpus_per_rank = o->gpus_per_rank,
                           .memory_per_rank_bytes = o->memory_per_rank_bytes,
                           .resources_per_rank = o->resources_per_rank,
                           .coordinator_cpus = o->coordinator_cpus,
                           .time_limit_s = o->time_limit_s,
                           .time_limit_grace_s = o->time_limit_grace_s,
                           .restarts = o->restarts,
                           .priority = o->priority,
                           .start_at = o->start_at};
}

static troupe_status pack_launch(submission *is)
{
    trp_wire_launch launch;
    TROUPE_TRY(trp_launch_record_make(&is->arena, &launch));
    TROUPE_TRY(trp_pack(&troupe_type_trp_wire_launch, &launch, &is->launch));
    return is->launch.failed
               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for how a program is started")
               : TROUPE_OK;
}

static troupe_status write_message(submission *is, const trp_job_spec *spec,
                                   const troupe_trainer *trainer)
{
    const char *config, *params = spec->options.params; // As for the run's own files.
    struct stat about;
    TROUPE_TRY(trp_spec_pack(spec, &is->spec));
    TROUPE_TRY(trp_spec_hash(spec, &is->hash));
    TROUPE_TRY(trp_spec_config(spec, trainer, &is->arena, &config));
    TROUPE_TRY(pack_launch(is));
    if (stat(is->run.text, &about) != 0)
        return trp_fail_errno(TROUPE_IO, "the folder %s of the run cannot be looked at",
                              is->run.text);
    is->message = (trp_wire_submit){.submission = is->id,
                                    .key = spec->options.key,
                                    .name = is->options.name,
                                    .trainer = trainer->name,
                                    .spec = {is->spec.data, is->spec.size},
                                    .launch = {is->launch.data, is->launch.size},
                                    .need = need_of(&is->options),
                                    .run = is->run.text,
                                    .run_device = about.st_dev,
                                    .run_inode = about.st_ino,
                                    .run_new = is->made,
                                    .journal = is->journal,
                                    .spec_hash = is->hash.text,
                                    .config = params != NULL ? params : config,
                                    .metadata = spec->options.metadata};
    return TROUPE_OK;
}

static troupe_status prepare(submission *is, const trp_job_spec *spec,
                             const troupe_trainer *trainer, const char *server)
{
    is->options = trp_options_unpack(&spec->options);
    TROUPE_TRY(make_id(is->id));
    TROUPE_TRY(trp_capability_options(trainer, &is->options));
    troupe_train_options whole = is->options;
    TROUPE_TRY(trp_train_options_complete(&whole, trainer, NULL));
    if (is->options.name == NULL)
        is->options.name = trainer->name;
    TROUPE_TRY(claim(is, trainer, server));
    TROUPE_TRY(trp_train_options_complete(&is->options, trainer, NULL));
    return write_message(is, spec, trainer);
}

static void drop_submission(submission *is)
{
    trp_buffer_free(&is->spec);
    trp_buffer_free(&is->launch);
    trp_arena_clear(&is->arena);
}

// ---- following it

// What only the server knows: of a job that has not been begun.
static void take_told(void *user, const trp_wire_job *job)
{
    troupe_job *handle = user;
    troupe_job_state state = job->state == TRP_JOB_PAUSED ? TROUPE_JOB_PAUSED : TROUPE_JOB_QUEUED;
    bool waits = job->state == TRP_JOB_PAUSED || job->state == TRP_JOB_QUEUED;
    pthread_mutex_lock(&handle->lock);
    // What its journal has told by now is newer than this.
    waits = waits && job->attempt == 0 &&
            (handle->state == TROUPE_JOB_QUEUED || handle->state == TROUPE_JOB_PAUSED);
    if (waits)
        handle->ranks = job->need.ranks;
    if (waits && handle->state != state) {
        handle->state = state;
        trp_handle_show_state(handle);
        for (trp_follow *at = handle->followers.first; at; at = trp_follow_next(at))
            trp_follow_state(at, state, 0, 0); // There is no journal yet.
    }
    pthread_mutex_unlock(&handle->lock);
}

// Where the run's journal begins for that job.
static off_t journal_of(const trp_wire_job *job)
{
    trp_arena arena = {0};
    trp_run_job claim;
    off_t from = 0;
    if (job->submission != NULL && trp_run_job_read(job->run, &arena, &claim) == TROUPE_OK &&
        strcmp(claim.submission, job->submission) == 0)
        from = (off_t)claim.journal;
    trp_arena_clear(&arena);
    trp_error_forget();
    return from;
}

static troupe_status set_path(troupe_job *handle, const char *run)
{
    const char *path = trp_arena_text(&handle->arena, run);
    if (path == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a run");
    handle->path = handle->folder = path;
    return TROUPE_OK;
}

static troupe_status watch(troupe_job *handle, trp_desk *desk, const trp_wire_job *job, off_t from)
{
    const char *folder = trp_arena_text(&handle->arena, job->folder);
    troupe_train_options options = trp_options_unpack(&handle->spec.options);
    trp_port port = {&trp_handle_port, handle};
    trp_detached *made = trp_arena_alloc(&handle->arena, sizeof *made);
    trp_tail *tail =
        made != NULL && folder != NULL ? trp_tail_open(job->run, from, &options, &port) : NULL;
    if (tail == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to follow job %" PRId64, job->job);
    *made = (trp_detached){.desk = desk, .job = job->job, .folder = folder};
    pthread_rwlock_init(&made->lock, NULL);
    handle->detached = made;
    troupe_status status =
        trp_desk_add(desk, job, tail, take_told, handle, &handle->detached->watched);
    if (status != TROUPE_OK) {
        handle->detached = NULL;
        trp_tail_close(tail);
    }
    return status;
}

// The handle takes over the hold of the desk if this succeeds.
static troupe_status attach(troupe_job *handle, trp_desk *desk, const trp_wire_job *job, off_t from,
                            const troupe_follower *follower)
{
    if (job->run == NULL || job->folder == NULL)
        return troupe_fail(TROUPE_MALFORMED,
                           "the train server does not say where job %" PRId64 " is", job->job);
    TROUPE_TRY(set_path(handle, job->run));
    TROUPE_TRY(trp_follow_start(handle, follower, &handle->followers.first));
    return watch(handle, desk, job, from);
}

// ---- submitting

static troupe_status ask(trp_desk *desk, const submission *is, trp_arena *arena, trp_wire_job *job)
{
    enum { ANSWER_MS = 60000 };
    trp_server_question question = {.kind = TRP_WIRE_SUBMIT,
                                    .type = &troupe_type_trp_wire_submit,
                                    .value = &is->message,
                                    .timeout_ms = ANSWER_MS,
                                    .answer = TRP_WIRE_JOB,
                                    .has = &troupe_type_trp_wire_job};
    troupe_status status = trp_server_link_ask(trp_desk_link(desk), &question, arena, job);
    if (status == TROUPE_TIMED_OUT)
        return troupe_fail(status,
                           "the train server of %s has not answered within %d s: it may have taken "
                           "the job, as one with a .key that is submitted again would show",
                           trp_desk_folder(desk), ANSWER_MS / 1000);
    return status;
}

troupe_status trp_detached_submit(troupe_job *handle, const troupe_trainer *trainer,
                                  const troupe_follower *follower, trp_desk *desk)
{
    submission is = {.made = false};
    trp_arena arena = {0};
    trp_wire_job job = {0};
    const char *server = trp_desk_folder(desk);
    troupe_status status = prepare(&is, &handle->spec, trainer, server);
    if (status == TROUPE_OK)
        status = ask(desk, &is, &arena, &job);
    bool own = status == TROUPE_OK && job.run != NULL && strcmp(job.run, is.run.text) == 0 &&
               (job.submission == NULL || strcmp(job.submission, is.id) == 0);
    // What it was claimed for is another job, or none; unless that is not known.
    if (is.made && !own && status != TROUPE_TIMED_OUT)
        trp_run_job_withdraw(is.run.text, is.id);
    if (own && is.made && write_claim(&is, server, job.job) != TROUPE_OK)
        trp_log(TRP_WARN, "the run of job %" PRId64 " does not say so: %s", job.job,
                troupe_last_error()->text);
    if (status == TROUPE_OK)
        status = attach(handle, desk, &job, own ? (off_t)is.journal : journal_of(&job), follower);
    if (status == TROUPE_OK && !own)
        trp_desk_await(desk, handle->detached->watched);
    drop_submission(&is);
    trp_arena_clear(&arena);
    return status;
}

// ---- finding

// Its spec, without what is this program's.
static troupe_status read_spec(troupe_job *handle, const trp_wire_job *job)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_path_make(&path, "%s/spec", job->folder));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    troupe_status status =
        trp_unpack_whole(&troupe_type_trp_job_spec, data, size, &handle->arena, &handle->spec);
    trp_free(data);
    handle->spec.options.console = TROUPE_CONSOLE_OFF;
    return status == TROUPE_OK ? status : trp_error_prefix("%s", path.text);
}

static troupe_status open_any_desk(trp_desk **desk)
{
    trp_server_use use;
    trp_path folder;
    *desk = trp_desk_now();
    if (*desk != NULL)
        return TROUPE_OK;
    TROUPE_TRY(trp_server_choose(TROUPE_SERVER_DEFAULT, &use, &folder));
    if (use == TRP_SERVER_NOT)
        return troupe_fail(TROUPE_NOT_FOUND, "no train server is asked");
    TROUPE_TRY(trp_state_folder_check(folder.text));
    return trp_desk_open(folder.text, desk);
}

static troupe_status find_at(trp_desk *desk, const trp_wire_job_name *name, trp_arena *arena,
                             trp_wire_job *job)
{
    enum { ANSWER_MS = 10000 };
    trp_server_question question = {.kind = TRP_WIRE_FIND,
                                    .type = &troupe_type_trp_wire_job_name,
                                    .value = name,
                                    .timeout_ms = ANSWER_MS,
                                    .answer = TRP_WIRE_JOB,
                                    .has = &troupe_type_trp_wire_job};
    return trp_server_link_ask(trp_desk_link(desk), &question, arena, job);
}

// The hold of the desk is the handle's, or let go.
static troupe_status find(troupe_job *handle, trp_desk *desk, const trp_wire_job_name *name,
                          const troupe_follower *follower)
{
    trp_arena arena = {0};
    trp_wire_job job = {0};
    troupe_status status = find_at(desk, name, &arena, &job);
    if (status == TROUPE_OK)
        status = read_spec(handle, &job);
    if (status == TROUPE_OK)
        status = attach(handle, desk, &job, journal_of(&job), follower);
    if (status == TROUPE_OK)
        trp_desk_await(desk, handle->detached->watched);
    else
        trp_desk_release(&desk);
    trp_arena_clear(&arena);
    return status;
}

troupe_status trp_detached_find(troupe_job *handle, const char *key,
                                const troupe_follower *follower)
{
    trp_desk *desk;
    TROUPE_TRY(open_any_desk(&desk));
    return find(handle, desk, &(trp_wire_job_name){.key = key}, follower);
}

troupe_status trp_detached_attach(troupe_job *handle, const char *server, int64_t number,
                                  const troupe_follower *follower)
{
    trp_desk *desk;
    TROUPE_TRY(trp_state_folder_check(server));
    TROUPE_TRY(trp_desk_open(server, &desk));
    return find(handle, desk, &(trp_wire_job_name){.job = number}, follower);
}

// ---- a child's

troupe_status trp_detached_adopt(troupe_job *handle, const trp_child_process *process,
                                 const char *run, off_t journal, const troupe_follower *follower)
{
    troupe_train_options options = trp_options_unpack(&handle->spec.options);
    trp_port port = {&trp_handle_port, handle};
    trp_detached *made = trp_arena_alloc(&handle->arena, sizeof *made);
    troupe_status status =
        made != NULL ? set_path(handle, run) : troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    if (status == TROUPE_OK)
        status = trp_follow_start(handle, follower, &handle->followers.first);
    if (status != TROUPE_OK) {
        trp_child_end(process);
        return status;
    }
    *made = (trp_detached){0};
    handle->detached = made;
    status = trp_child_open(process, run, journal, &options, &port, &made->child);
    if (status != TROUPE_OK)
        handle->detached = NULL;
    return status;
}

// ---- what is asked of it

troupe_status trp_detached_wish(troupe_job *handle, const trp_wire_wish *of)
{
    enum { STORED_MS = 2000 };
    trp_arena arena = {0};
    trp_wire_answer answer;
    trp_wire_wish wish = *of;
    if (handle->detached->child != NULL)
        return trp_child_ask(handle->detached->child, of);
    wish.of = (trp_wire_job_name){.job = handle->detached->job};
    trp_server_question question = {.kind = TRP_WIRE_WISH,
                                    .type = &troupe_type_trp_wire_wish,
                                    .value = &wish,
                                    .timeout_ms = STORED_MS,
                                    .lasts = true,
                                    .answer = TRP_WIRE_ANSWER,
                                    .has = &troupe_type_trp_wire_answer};
    trp_detached *its = handle->detached;
    pthread_rwlock_rdlock(&its->lock);
    troupe_status status =
        its->desk != NULL
            ? trp_server_link_ask(trp_desk_link(its->desk), &question, &arena, &answer)
            : troupe_fail(TROUPE_STOPPED, "the handle on job %" PRId64 " was closed", its->job);
    pthread_rwlock_unlock(&its->lock);
    int64_t known = atomic_load(&its->revision);
    while (status == TROUPE_OK && answer.revision > known &&
           !atomic_compare_exchange_weak(&its->revision, &known, answer.revision))
        continue;
    trp_arena_clear(&arena);
    return status;
}

int64_t trp_detached_revision(const troupe_job *handle)
{
    return atomic_load(&handle->detached->revision);
}

bool trp_detached_give_up(const troupe_job *handle)
{
    return handle->detached->child != NULL ||
           trp_desk_give_up(handle->detached->desk, handle->detached->watched);
}

void trp_detached_drop(troupe_job *handle)
{
    trp_detached *its = handle->detached;
    if (its->child != NULL) {
        trp_child_close(its->child);
        return;
    }
    pthread_rwlock_wrlock(&its->lock);
    trp_desk *desk = its->desk;
    trp_desk_job *watched = its->watched;
    its->desk = NULL;
    its->watched = NULL;
    pthread_rwlock_unlock(&its->lock);
    trp_desk_remove(desk, &watched);
    trp_desk_release(&desk);
}
