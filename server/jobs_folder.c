// jobs_folder.c: the folder of a job: what the server writes there once, and reads again
// (docs/internals/server/server.md, "State folder").
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <server/jobs_internal.h>
#include <server/say.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/job_end.h>
#include <train/run_job.h>
#include <train/spec.h>
#include <train/state_folder.h>
#include <train/tree.h>
#include <unistd.h>

enum { VERSION = 1 };

// As the file has it. `need` repeats what people find beside it.
TROUPE_STRUCT(job_file, (int, version), (troupe_text, books), (int64_t, id),
              (troupe_text, submission), (troupe_text, key), (troupe_text, spec_hash),
              (troupe_text, name), (troupe_text, trainer), (troupe_text, program),
              (troupe_text, folder), (double, submitted_at), (bool, wait_if_impossible),
              (trp_wire_need, need));

// The file `grant`: what the books have of the attempt.
TROUPE_STRUCT(grant_file, (int, version), (int, attempt), (trp_wire_need, need), (int, counted),
              (int, restarts), (double, elapsed_s), (int, ranks), (double, cpus), (double, gpus),
              (double, granted_at), (troupe_text, gpu_ids), (troupe_bytes, devices));

// ---- job.json

static void put_name(trp_buffer *out, const char *name)
{
    trp_buffer_printf(out, ",\n  \"%s\": ", name);
}

static void put_text(trp_buffer *out, const char *name, const char *text)
{
    if (text == NULL)
        return;
    put_name(out, name);
    trp_json_text(out, text);
}

static void put_number(trp_buffer *out, const char *name, double number)
{
    if (number == 0)
        return;
    put_name(out, name);
    trp_json_number(out, number);
}

// What the client says is JSON: anything else is left out.
static void put_json(trp_buffer *out, const char *name, const char *text)
{
    trp_json json;
    if (text == NULL || trp_json_parse(text, strlen(text), &json) != TROUPE_OK)
        return;
    put_name(out, name);
    trp_buffer_append(out, json.at, json.size);
}

static void put_job(trp_buffer *out, const trp_jobs *jobs, const trp_row *row,
                    const trp_wire_submit *submit, const trp_wire_launch *launch)
{
    const trp_wire_need *need = &row->need;
    trp_buffer_printf(out, "{\n  \"version\": %d", (int)VERSION);
    put_text(out, "books", trp_books_name(jobs->books));
    trp_buffer_printf(out, ",\n  \"id\": %" PRId64, row->id);
    put_text(out, "submission", row->submission);
    put_text(out, "key", row->key);
    put_text(out, "spec_hash", row->spec_hash);
    put_text(out, "name", row->name);
    put_text(out, "trainer", row->trainer);
    put_text(out, "program", row->program);
    put_name(out, "arguments");
    trp_json_value(out, &troupe_type_troupe_array_troupe_text, &launch->arguments);
    put_text(out, "folder", row->run);
    put_number(out, "ranks", need->ranks);
    put_number(out, "cpus_per_rank", need->cpus_per_rank);
    put_number(out, "gpus_per_rank", need->gpus_per_rank);
    put_number(out, "memory_per_rank_bytes", (double)need->memory_per_rank_bytes);
    put_number(out, "time_limit_s", need->time_limit_s);
    put_number(out, "priority", need->priority);
    put_number(out, "start_at", need->start_at);
    put_number(out, "submitted_at", row->submitted_at);
    if (row->beyond)
        trp_buffer_printf(out, ",\n  \"wait_if_impossible\": true");
    put_json(out, "config", submit->config);
    put_json(out, "metadata", submit->metadata);
    put_name(out, "need");
    trp_json_value(out, &troupe_type_trp_wire_need, need);
    trp_buffer_printf(out, "\n}\n");
}

static troupe_status write_file(const trp_entry *job, const char *name, troupe_bytes bytes,
                                bool sync)
{
    trp_path path;
    trp_piece piece = {bytes.data, bytes.size};
    TROUPE_TRY(trp_path_make(&path, "%s/%s", job->folder, name));
    return sync ? trp_file_write(path.text, &piece, 1)
                : trp_file_write_unsynced(path.text, &piece, 1);
}

// Of a run that goes on: its client may be gone before it hears of the number. Where the job comes
// to nothing its folder goes, and with it the claim counts no more.
static troupe_status write_claim(const trp_jobs *jobs, const trp_entry *job,
                                 const trp_wire_submit *submit)
{
    trp_run_job claim = {.submission = job->row.submission,
                         .server = jobs->folder.text,
                         .job = job->row.id,
                         .journal = submit->journal};
    return submit->run_new ? TROUPE_OK : trp_run_job_write(submit->run, &claim, false);
}

static troupe_status write_json(const trp_entry *job, troupe_bytes json, bool sync)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/job.json", job->folder));
    return sync ? trp_file_replace(path.text, json.data, json.size)
                : trp_file_replace_unsynced(path.text, json.data, json.size);
}

static troupe_status write_files(const trp_entry *job, const trp_papers *papers, bool sync)
{
    TRP_FAULT("job folder made");
    TROUPE_TRY(write_file(job, "spec", papers->spec, sync));
    TROUPE_TRY(write_file(job, "launch", papers->launch, sync));
    TROUPE_TRY(trp_job_end_reserve(job->folder));
    TRP_FAULT("job files written");
    TROUPE_TRY(write_json(job, papers->json, sync));
    TRP_FAULT("job folder whole");
    return TROUPE_OK;
}

static void *put_bytes(char *at, troupe_bytes *bytes)
{
    if (bytes->size > 0)
        memcpy(at, bytes->data, bytes->size);
    bytes->data = at;
    return at + bytes->size;
}

// In one piece of memory.
static trp_papers *copy_papers(const trp_papers *papers)
{
    trp_papers *copy = (trp_papers *)trp_alloc(sizeof *copy + papers->spec.size +
                                               papers->launch.size + papers->json.size);
    if (copy == NULL)
        return NULL;
    *copy = *papers;
    char *at = (char *)put_bytes((char *)(copy + 1), &copy->spec);
    at = (char *)put_bytes(at, &copy->launch);
    (void)put_bytes(at, &copy->json);
    return copy;
}

static troupe_status write_papers(trp_entry *job, const trp_papers *papers)
{
    enum { MOST = 256 << 10 }; // More is better written once, and synced.
    bool sync = papers->spec.size + papers->launch.size + papers->json.size > MOST;
    if (!sync && (job->papers = copy_papers(papers)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    return write_files(job, papers, sync);
}

troupe_status trp_jobs_write_folder(const trp_jobs *jobs, trp_entry *job,
                                    const trp_wire_submit *submit, const trp_wire_launch *launch)
{
    trp_buffer json = {0};
    TROUPE_TRY(trp_folder_make_new(job->folder));
    put_job(&json, jobs, &job->row, submit, launch);
    trp_papers papers = {.spec = submit->spec,
                         .launch = submit->launch,
                         .json = {json.data, json.size},
                         .claims = submit->run_new};
    troupe_status status = json.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a job")
                                       : write_papers(job, &papers);
    if (status == TROUPE_OK)
        status = write_claim(jobs, job, submit);
    trp_buffer_free(&json);
    if (status != TROUPE_OK) {
        troupe_error kept;
        trp_error_hold(&kept);
        (void)trp_folder_discard(job->folder);
        trp_error_restore(&kept);
    }
    return status;
}

// ---- reading

static troupe_status fill_row(const job_file *file, trp_row *row, char **books)
{
    *row = (trp_row){.id = file->id,
                     .need = file->need,
                     .beyond = file->wait_if_impossible,
                     .submitted_at = file->submitted_at};
    row->need.resources_per_rank = NULL;
    char *resources = NULL;
    troupe_status status = trp_row_set(&resources, file->need.resources_per_rank);
    row->need.resources_per_rank = resources;
    const struct {
        char **to;
        const char *from;
    } texts[] = {{&row->submission, file->submission},
                 {&row->key, file->key},
                 {&row->spec_hash, file->spec_hash},
                 {&row->name, file->name},
                 {&row->trainer, file->trainer},
                 {&row->program, file->program},
                 {&row->run, file->folder},
                 {books, file->books}};
    for (size_t i = 0; status == TROUPE_OK && i < sizeof texts / sizeof *texts; i++)
        status = trp_row_set(texts[i].to, texts[i].from);
    if (status != TROUPE_OK)
        trp_row_clear(row);
    return status;
}

troupe_status trp_jobs_read_folder(const char *folder, trp_row *row, char **books)
{
    trp_path path;
    trp_arena arena = {0};
    trp_json json;
    unsigned char *data = NULL;
    size_t size = 0;
    job_file file = {0};
    *books = NULL;
    TROUPE_TRY(trp_path_make(&path, "%s/job.json", folder));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    if (size == 0) { // The power failed before it was on the disk.
        trp_free(data);
        return troupe_fail(TROUPE_NOT_FOUND, "%s is empty", path.text);
    }
    troupe_status status = trp_json_parse((const char *)data, size, &json);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_job_file, json, &arena, &file);
    if (status == TROUPE_OK && (file.version < 1 || file.version > VERSION || file.id < 1 ||
                                file.submission == NULL || file.folder == NULL))
        status = troupe_fail(TROUPE_CORRUPT,
                             "%s is of version %d, or names no submission, number "
                             "or folder",
                             path.text, file.version);
    if (status == TROUPE_OK)
        status = fill_row(&file, row, books);
    else if (status != TROUPE_NO_MEMORY)
        status = troupe_fail(TROUPE_CORRUPT, "%s is not the file of a job", path.text);
    trp_free(data);
    trp_arena_clear(&arena);
    return status;
}

// The numbers of the folders, each but once; *ids is freed with trp_free.
static troupe_status list_folders(const char *all, int64_t **ids, size_t *count)
{
    size_t room = 0;
    DIR *folder = opendir(all);
    *ids = NULL;
    *count = 0;
    if (folder == NULL && errno == ENOENT)
        return TROUPE_OK; // No server has run yet.
    if (folder == NULL)
        return trp_fail_errno(TROUPE_IO, "%s cannot be read", all);
    for (struct dirent *it; (it = readdir(folder)) != NULL;) {
        char *end;
        long long id = strtoll(it->d_name, &end, 10);
        if (id <= 0 || *end != '\0')
            continue;
        if (*count == room) {
            room = room > 0 ? 2 * room : 64;
            int64_t *more = (int64_t *)trp_realloc(*ids, room * sizeof *more);
            if (more == NULL) {
                closedir(folder);
                trp_free(*ids);
                return troupe_fail(TROUPE_NO_MEMORY, "no memory for the jobs in %s", all);
            }
            *ids = more;
        }
        (*ids)[(*count)++] = id;
    }
    closedir(folder);
    return TROUPE_OK;
}

static int by_number(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

troupe_status
trp_jobs_each_folder(const char *state_folder,
                     troupe_status (*visit)(void *user, int64_t id, const char *folder), void *user)
{
    trp_path path;
    int64_t *ids;
    size_t count;
    TROUPE_TRY(trp_path_make(&path, "%s/jobs", state_folder));
    TROUPE_TRY(list_folders(path.text, &ids, &count));
    if (count > 0)
        qsort(ids, count, sizeof *ids, by_number);
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; status == TROUPE_OK && i < count; i++) {
        status = trp_state_folder_job(state_folder, ids[i], &path);
        if (status == TROUPE_OK)
            status = visit(user, ids[i], path.text);
    }
    trp_free(ids);
    return status;
}

static troupe_status read_file(const trp_entry *job, const char *name, trp_arena *arena,
                               troupe_bytes *bytes)
{
    trp_path path;
    unsigned char *data = NULL;
    size_t size = 0;
    TROUPE_TRY(trp_path_make(&path, "%s/%s", job->folder, name));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    void *copy = trp_arena_alloc(arena, size + 1);
    if (copy != NULL)
        memcpy(copy, data, size);
    trp_free(data);
    *bytes = (troupe_bytes){copy, size};
    return copy != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text);
}

// ---- after a failure of the power

static bool bytes_differ(troupe_bytes one, troupe_bytes other)
{
    return one.size != other.size || (one.size > 0 && memcmp(one.data, other.data, one.size) != 0);
}

static bool is_whole(const trp_entry *job, const char *name, troupe_bytes bytes)
{
    trp_arena arena = {0};
    troupe_bytes found;
    bool whole = read_file(job, name, &arena, &found) == TROUPE_OK && !bytes_differ(found, bytes);
    trp_arena_clear(&arena);
    return whole;
}

// The claim that its client has made of the folder of the run.
static troupe_status mend_claim(const trp_jobs *jobs, const trp_entry *job)
{
    trp_arena arena = {0};
    trp_run_job claim;
    TROUPE_TRY(trp_folder_make(job->row.run));
    troupe_status status = trp_run_job_read(job->row.run, &arena, &claim);
    trp_arena_clear(&arena);
    if (status != TROUPE_NOT_FOUND && status != TROUPE_CORRUPT)
        return status;
    claim = (trp_run_job){
        .submission = job->row.submission, .server = jobs->folder.text, .job = job->row.id};
    return trp_run_job_write(job->row.run, &claim, true);
}

troupe_status trp_jobs_mend_folder(const trp_jobs *jobs, const trp_entry *job,
                                   const trp_papers *papers)
{
    bool ended = job->row.state == TRP_JOB_ENDED;
    TROUPE_TRY(trp_folder_make(job->folder));
    if (!is_whole(job, "spec", papers->spec))
        TROUPE_TRY(write_file(job, "spec", papers->spec, false));
    if (!ended && !is_whole(job, "launch", papers->launch))
        TROUPE_TRY(write_file(job, "launch", papers->launch, false));
    if (!ended)
        TROUPE_TRY(trp_job_end_reserve(job->folder));
    if (!is_whole(job, "job.json", papers->json))
        TROUPE_TRY(write_json(job, papers->json, false));
    // The disk of the run may be another one, and not there yet.
    if (papers->claims && !ended && mend_claim(jobs, job) != TROUPE_OK)
        trp_say("job %" PRId64 ": %s", job->row.id, troupe_last_error()->text);
    return TROUPE_OK;
}

troupe_status trp_jobs_read_launch(const trp_entry *job, trp_arena *arena, trp_wire_launch *launch)
{
    troupe_bytes bytes;
    TROUPE_TRY(read_file(job, "launch", arena, &bytes));
    if (trp_unpack_whole(&troupe_type_trp_wire_launch, bytes.data, bytes.size, arena, launch) ==
        TROUPE_OK)
        return TROUPE_OK;
    trp_error_prefix("%s/launch", job->folder);
    return troupe_fail(TROUPE_CORRUPT, "%s", troupe_last_error()->text);
}

void trp_jobs_forget_launch(const trp_entry *job)
{
    static const char *const names[] = {"launch", "grant"};
    trp_path path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (trp_path_make(&path, "%s/%s", job->folder, names[i]) == TROUPE_OK)
            (void)unlink(path.text);
}

// ---- grants

troupe_status trp_jobs_write_grant(const trp_entry *job)
{
    const trp_row *row = &job->row;
    trp_path path, made;
    trp_buffer bytes = {0};
    grant_file file = {.version = VERSION,
                       .attempt = row->attempt,
                       .need = row->need,
                       .counted = row->counted,
                       .restarts = row->restarts,
                       .elapsed_s = row->elapsed_s,
                       .ranks = row->granted_ranks,
                       .cpus = row->cpus,
                       .gpus = row->gpus,
                       .granted_at = row->granted_at,
                       .gpu_ids = row->gpu_ids,
                       .devices = row->devices};
    TROUPE_TRY(trp_path_make(&path, "%s/grant", job->folder));
    TROUPE_TRY(trp_path_make(&made, "%s.new", path.text));
    troupe_status status = trp_pack(&troupe_type_grant_file, &file, &bytes);
    if (status == TROUPE_OK && bytes.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text);
    (void)unlink(made.text); // Of a server that was killed.
    if (status == TROUPE_OK)
        status = trp_file_append(made.text, bytes.data, bytes.size);
    if (status == TROUPE_OK)
        status = trp_folder_rename(made.text, path.text);
    trp_buffer_free(&bytes);
    return status;
}

static troupe_status take_grant(const grant_file *file, trp_row *row)
{
    char *resources = NULL;
    void *devices = trp_alloc(file->devices.size + 1);
    troupe_status status = devices == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a grant")
                                           : trp_row_set(&resources, file->need.resources_per_rank);
    if (status == TROUPE_OK)
        status = trp_row_set(&row->gpu_ids, file->gpu_ids);
    if (status != TROUPE_OK) {
        trp_free(devices);
        trp_free(resources);
        return status;
    }
    if (file->devices.size > 0)
        memcpy(devices, file->devices.data, file->devices.size);
    trp_free((void *)row->devices.data);
    trp_free((char *)row->need.resources_per_rank);
    row->devices = (troupe_bytes){devices, file->devices.size};
    row->need = file->need;
    row->need.resources_per_rank = resources;
    row->counted = file->counted;
    row->restarts = file->restarts;
    row->elapsed_s = file->elapsed_s;
    row->granted_ranks = file->ranks;
    row->cpus = file->cpus;
    row->gpus = file->gpus;
    row->granted_at = file->granted_at;
    return TROUPE_OK;
}

troupe_status trp_jobs_read_grant(trp_entry *job)
{
    troupe_bytes bytes;
    grant_file file;
    trp_arena arena = {0};
    troupe_status status = read_file(job, "grant", &arena, &bytes);
    if (status == TROUPE_OK) {
        status = trp_unpack_whole(&troupe_type_grant_file, bytes.data, bytes.size, &arena, &file);
        if (status == TROUPE_MALFORMED ||
            (status == TROUPE_OK && (file.version != VERSION || file.ranks < 1)))
            status =
                troupe_fail(TROUPE_CORRUPT, "%s/grant is not what a job is granted", job->folder);
    }
    if (status == TROUPE_OK && file.attempt != job->row.attempt)
        status = troupe_fail(TROUPE_NOT_FOUND, "%s/grant is of attempt %d, and %d runs",
                             job->folder, file.attempt, job->row.attempt);
    if (status == TROUPE_OK)
        status = take_grant(&file, &job->row);
    trp_arena_clear(&arena);
    return status;
}

// ---- comparing

static const char *named(trp_arena *arena, const char *before, const char *name, size_t length)
{
    char *text = (char *)trp_arena_alloc(arena, strlen(before) + length + 1);
    if (text == NULL)
        return before;
    strcpy(text, before);
    return strncat(text, name, length);
}

// The first member of the config that differs, as the text that people read has it.
static const char *config_differs(const trp_entry *job, const char *config, trp_arena *arena)
{
    troupe_bytes bytes;
    trp_json file, old, new, at = {0}, name, value, there;
    const char *path = "config";
    if (config == NULL || read_file(job, "job.json", arena, &bytes) != TROUPE_OK ||
        trp_json_parse((const char *)bytes.data, bytes.size, &file) != TROUPE_OK ||
        !trp_json_member(file, "config", &old) ||
        trp_json_parse(config, strlen(config), &new) != TROUPE_OK)
        return path;
    while (trp_json_next_member(new, &at, &name, &value)) {
        const char *member = named(arena, "", name.at + 1, name.size - 2);
        bool known = trp_json_member(old, member, &there);
        if (known && trp_json_is_same(value, there))
            continue;
        path = named(arena, named(arena, path, ".", 1), member, strlen(member));
        if (!known || !trp_json_is_object(value) || !trp_json_is_object(there))
            break;
        old = there; // The difference is within it.
        new = value;
        at = (trp_json){0};
    }
    return path;
}

static bool texts_differ(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one != other : strcmp(one, other) != 0;
}

// Where and how a run is kept, shown and begun makes no other job.
static trp_packed_options compared(trp_packed_options options)
{
    options.storage = options.name = options.metadata = NULL;
    options.open = 0;
    options.console = 0;
    options.force = false;
    return options;
}

static const char *specs_differ(const trp_entry *job, const trp_wire_submit *submit,
                                const trp_job_spec *one, const trp_job_spec *other,
                                trp_arena *arena)
{
    if (texts_differ(one->trainer, other->trainer) || one->schema != other->schema)
        return "trainer";
    if (bytes_differ(one->config, other->config))
        return config_differs(job, submit->config, arena);
    trp_packed_options options = compared(one->options), others = compared(other->options);
    const char *option = trp_options_differ(&options, &others);
    if (option != NULL)
        return named(arena, ".", option, strlen(option));
    if (texts_differ(one->data_name, other->data_name) || one->data_schema != other->data_schema ||
        bytes_differ(one->data, other->data) || texts_differ(one->data_share, other->data_share))
        return ".data";
    return NULL;
}

const char *trp_jobs_differ(const trp_entry *job, const trp_wire_submit *submit, trp_arena *arena)
{
    troupe_bytes bytes;
    trp_job_spec one, other;
    bool hashed = submit->spec_hash != NULL && job->row.spec_hash != NULL;
    if (hashed && strcmp(submit->spec_hash, job->row.spec_hash) == 0)
        return NULL;
    if (read_file(job, "spec", arena, &bytes) != TROUPE_OK)
        return hashed ? "its spec" : NULL;
    if (!bytes_differ(bytes, submit->spec))
        return NULL;
    if (trp_unpack_whole(&troupe_type_trp_job_spec, bytes.data, bytes.size, arena, &one) !=
            TROUPE_OK ||
        trp_unpack_whole(&troupe_type_trp_job_spec, submit->spec.data, submit->spec.size, arena,
                         &other) != TROUPE_OK)
        return "its spec";
    const char *member = specs_differ(job, submit, &one, &other, arena);
    return member == NULL && hashed ? "its spec" : member;
}
