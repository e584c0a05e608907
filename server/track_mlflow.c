// track_mlflow.c: a run of Troupe as a run of an MLflow tracking server, by its REST (2.0): made
// once, then what the journal has, by a cursor that is kept beside the run.
#include <server/track_internal.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <server/say.h>
#include <server/track_batch.h>
#include <server/web_job.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, BATCHES_A_TURN = 20, ID_MAX = 80, URL_MAX = 1024 };

// mlflow.json, in the run's folder.
TROUPE_STRUCT(kept_run, (troupe_text, url), (troupe_text, experiment_id), (troupe_text, run_id),
              (troupe_text, submission), (uint64_t, next), (double, attempt_at),
              (double, attempt_elapsed_s), (bool, parameters));
TROUPE_STRUCT(line_fields, (troupe_text, event), (troupe_text, at), (troupe_text, source),
              (int, report), (double, elapsed_s));

struct track_run {
    char experiment[ID_MAX], id[ID_MAX];
    uint64_t next;                        // Where in the journal to go on.
    double attempt_at, attempt_elapsed_s; // Of the attempt there: reports have the time trained.
    bool parameters;                      // Were sent.
    bool found;                           // MLflow was asked for it.
    bool other;                           // It is of a job before this one, which it goes on from.
    int from;                             // Reports before this one are there.
};

typedef struct call {
    track_job *job;
    const trp_track_mlflow *how;
    track_run *run;
    const char *token;
    trp_arena arena;
} call;

// ---- asking

// Asks for what is below the REST's root, and reads the reply, which is the arena's.
static track_result ask(call *it, const char *what, const char *body, int *code, trp_json *reply)
{
    char url[URL_MAX];
    trp_buffer text = {0};
    size_t size = strlen(it->how->url);
    while (size > 0 && it->how->url[size - 1] == '/')
        size--;
    if ((size_t)snprintf(url, sizeof url, "%.*s/api/2.0/mlflow/%s", (int)size, it->how->url,
                         what) >= sizeof url) {
        *code = 0;
        (void)troupe_fail(TROUPE_TOO_LARGE, "the address of MLflow is too long");
        return TRACK_REFUSED;
    }
    track_result how = track_ask(url, it->token, NULL, body, code, &text);
    if (how != TRACK_SENT)
        return how;
    char *copy = (char *)trp_arena_alloc(&it->arena, text.size + 1);
    if (copy != NULL && text.size > 0)
        memcpy(copy, text.data, text.size);
    bool good = copy != NULL && trp_json_parse(copy, text.size, reply) == TROUPE_OK;
    trp_buffer_free(&text);
    if (good)
        return TRACK_SENT;
    (void)troupe_fail(TROUPE_MALFORMED, "%s answered no JSON: it is no MLflow", url);
    track_put_off(url);
    return TRACK_LATER;
}

// What is refused may be mended there, so it is tried again.
static bool is_later(const call *it, track_result how)
{
    if (how == TRACK_REFUSED)
        track_put_off(it->how->url);
    return how != TRACK_SENT;
}

static bool take_id(trp_json reply, const char *object, const char *name, char id[ID_MAX])
{
    trp_json value;
    if (object != NULL && !trp_json_member(reply, object, &reply))
        return false;
    if (!trp_json_member(reply, name, &value) || !trp_json_is_text(value) || value.size < 3 ||
        value.size - 2 >= ID_MAX)
        return false;
    for (size_t i = 1; i + 1 < value.size; i++)
        if (!isalnum((unsigned char)value.at[i]) && !strchr("-_", value.at[i]))
            return false;
    (void)snprintf(id, ID_MAX, "%.*s", (int)value.size - 2, value.at + 1);
    return true;
}

static bool strange(const call *it, const char *what)
{
    (void)troupe_fail(TROUPE_MALFORMED, "%s answered %s without its id: it is no MLflow",
                      it->how->url, what);
    track_put_off(it->how->url);
    return false;
}

// ---- what is kept beside the run

static void read_kept(call *it)
{
    trp_path path;
    trp_json document;
    kept_run kept = {0};
    unsigned char *text;
    size_t size;
    track_run *run = it->run;
    if (trp_path_make(&path, "%s/mlflow.json", it->job->file.folder) != TROUPE_OK ||
        trp_file_read(path.text, &text, &size) != TROUPE_OK)
        return;
    bool good = trp_json_parse((const char *)text, size, &document) == TROUPE_OK &&
                trp_json_read(&troupe_type_kept_run, document, &it->arena, &kept) == TROUPE_OK &&
                kept.url != NULL && strcmp(kept.url, it->how->url) == 0 && kept.run_id != NULL &&
                kept.experiment_id != NULL && strlen(kept.run_id) < ID_MAX &&
                strlen(kept.experiment_id) < ID_MAX;
    trp_free(text);
    if (!good)
        return;
    strcpy(run->experiment, kept.experiment_id);
    strcpy(run->id, kept.run_id);
    run->next = kept.next;
    run->attempt_at = kept.attempt_at;
    run->attempt_elapsed_s = kept.attempt_elapsed_s;
    run->parameters = kept.parameters;
    run->other = kept.submission == NULL || strcmp(kept.submission, it->job->file.submission) != 0;
}

// By a rename; a run whose folder has gone, or is full, is looked for in MLflow.
static void keep(const call *it)
{
    trp_path path, fresh;
    trp_buffer text = {0};
    const track_run *run = it->run;
    const kept_run kept = {.url = it->how->url,
                           .experiment_id = run->experiment,
                           .run_id = run->id,
                           .submission = it->job->file.submission,
                           .next = run->next,
                           .attempt_at = run->attempt_at,
                           .attempt_elapsed_s = run->attempt_elapsed_s,
                           .parameters = run->parameters};
    if (trp_path_make(&path, "%s/mlflow.json", it->job->file.folder) != TROUPE_OK ||
        trp_path_make(&fresh, "%s.new", path.text) != TROUPE_OK)
        return;
    trp_json_value(&text, &troupe_type_kept_run, &kept);
    int fd = open(fresh.text, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 && !text.failed && write(fd, text.data, text.size) == (ssize_t)text.size;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    if (good)
        (void)rename(fresh.text, path.text);
    trp_buffer_free(&text);
}

// ---- the experiment and the run

static void add_text(trp_buffer *out, const char *before, const char *text)
{
    trp_buffer_printf(out, "%s", before);
    trp_json_text(out, text);
}

static const char *experiment_of(const call *it)
{
    return it->how->experiment != NULL     ? it->how->experiment
           : it->job->file.trainer != NULL ? it->job->file.trainer
                                           : "troupe";
}

static bool find_experiment(call *it)
{
    char what[700];
    size_t used = (size_t)snprintf(what, sizeof what, "experiments/get-by-name?experiment_name=");
    trp_buffer body = {0};
    trp_json reply;
    int code;
    for (const char *at = experiment_of(it); *at != '\0' && used < sizeof what - 4; at++)
        used += (size_t)snprintf(what + used, sizeof what - used,
                                 isalnum((unsigned char)*at) ? "%c" : "%%%02X", (unsigned char)*at);
    // Where two make one at a time the second is told that it is there.
    for (int tries = 0; tries < 2; tries++) {
        track_result how = ask(it, what, NULL, &code, &reply);
        if (how == TRACK_SENT)
            return take_id(reply, "experiment", "experiment_id", it->run->experiment) ||
                   strange(it, "an experiment");
        if (code != 404)
            return !is_later(it, how);
        add_text(&body, "{\"name\": ", experiment_of(it));
        trp_buffer_append(&body, "}", 2);
        how = body.failed ? TRACK_LATER
                          : ask(it, "experiments/create", (const char *)body.data, &code, &reply);
        trp_buffer_free(&body);
        if (how == TRACK_SENT)
            return take_id(reply, NULL, "experiment_id", it->run->experiment) ||
                   strange(it, "an experiment");
        if (how == TRACK_LATER || tries > 0)
            return !is_later(it, how);
    }
    return false;
}

// Who was killed may have made it.
static bool search_run(call *it, bool *there)
{
    trp_buffer body = {0};
    trp_json reply, runs, item = {0}, info;
    int code;
    trp_buffer_printf(&body,
                      "{\"experiment_ids\": [\"%s\"], \"filter\": \"tags.`troupe.submission` = "
                      "'%s'\", \"max_results\": 1}",
                      it->run->experiment, it->job->file.submission);
    trp_buffer_append(&body, "", 1);
    track_result how =
        body.failed ? TRACK_LATER : ask(it, "runs/search", (const char *)body.data, &code, &reply);
    trp_buffer_free(&body);
    if (is_later(it, how))
        return false;
    *there = trp_json_member(reply, "runs", &runs) && trp_json_next_item(runs, &item) &&
             trp_json_member(item, "info", &info) && take_id(info, NULL, "run_id", it->run->id);
    return true;
}

static void add_tag(trp_buffer *out, const char *key, const char *value)
{
    if (value == NULL)
        return;
    trp_buffer_printf(out, ", {\"key\": \"%s\", \"value\": ", key);
    trp_json_text(out, value);
    trp_buffer_append(out, "}", 1);
}

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static bool make_run(call *it)
{
    const track_file *file = &it->job->file;
    trp_buffer body = {0};
    trp_json reply;
    int code;
    double began = file->submitted_at > 0 ? file->submitted_at : now();
    trp_buffer_printf(&body, "{\"experiment_id\": \"%s\", \"start_time\": %.0f, \"run_name\": ",
                      it->run->experiment, began * 1000);
    trp_json_text(&body, file->name != NULL ? file->name : "troupe");
    trp_buffer_printf(&body, ", \"tags\": [{\"key\": \"troupe.job\", \"value\": \"%" PRId64 "\"}",
                      it->job->id);
    add_tag(&body, "troupe.submission", file->submission);
    add_tag(&body, "troupe.folder", file->folder);
    add_tag(&body, "troupe.trainer", file->trainer);
    add_tag(&body, "mlflow.source.name", file->program);
    trp_buffer_append(&body, "]}", 3);
    track_result how =
        body.failed ? TRACK_LATER : ask(it, "runs/create", (const char *)body.data, &code, &reply);
    trp_buffer_free(&body);
    if (is_later(it, how))
        return false;
    trp_json run, info;
    return (trp_json_member(reply, "run", &run) && trp_json_member(run, "info", &info) &&
            take_id(info, NULL, "run_id", it->run->id)) ||
           strange(it, "a run");
}

// The highest step that it has.
static int last_step(call *it, trp_json reply)
{
    trp_json data, metrics, item = {0}, value;
    int last = 0;
    if (!trp_json_member(reply, "run", &reply) || !trp_json_member(reply, "data", &data) ||
        !trp_json_member(data, "metrics", &metrics))
        return 0;
    while (trp_json_next_item(metrics, &item)) {
        int64_t step = 0;
        if (trp_json_member(item, "step", &value) &&
            trp_json_read(&troupe_type_int64_t, value, &it->arena, &step) == TROUPE_OK &&
            step > last && step < INT32_MAX)
            last = (int)step;
    }
    return last;
}

static bool update_run(call *it, const char *status, double end_at)
{
    char body[300], end[60] = "";
    trp_json reply;
    int code;
    if (end_at > 0)
        (void)snprintf(end, sizeof end, ", \"end_time\": %.0f", end_at * 1000);
    (void)snprintf(body, sizeof body, "{\"run_id\": \"%s\", \"status\": \"%s\"%s}", it->run->id,
                   status, end);
    return !is_later(it, ask(it, "runs/update", body, &code, &reply));
}

static bool find_run(call *it)
{
    track_run *run = it->run;
    char what[200];
    trp_json reply;
    int code;
    bool there = run->id[0] != '\0';
    if (!there && (!find_experiment(it) || !search_run(it, &there)))
        return false;
    if (!there && !make_run(it))
        return false;
    keep(it);
    if (there) {
        (void)snprintf(what, sizeof what, "runs/get?run_id=%s", run->id);
        track_result how = ask(it, what, NULL, &code, &reply);
        if (how == TRACK_REFUSED && code == 404) { // It was removed there.
            *run = (track_run){.next = 0};
            return false;
        }
        if (is_later(it, how))
            return false;
        run->from = last_step(it, reply);
        if (run->other && !update_run(it, "RUNNING", 0))
            return false;
    }
    run->found = true;
    return true;
}

// ---- batches

// True: it is there, or was refused for good, as one that is wrong.
static bool send_batch(call *it, track_batch *batch)
{
    trp_json reply;
    int code;
    if (batch->metric_count + batch->parameter_count == 0)
        return true;
    const char *body = track_batch_end(batch, it->run->id);
    track_result how = body != NULL ? ask(it, "runs/log-batch", body, &code, &reply) : TRACK_LATER;
    track_batch_clear(batch);
    if (how == TRACK_REFUSED && code == 400) {
        trp_say("job %" PRId64 ": a batch is left out: %s", it->job->id, troupe_last_error()->text);
        return true;
    }
    if (how == TRACK_SENT)
        track_is_good(it->how->url);
    return !is_later(it, how);
}

static bool send_parameters(call *it)
{
    track_batch batch = {0};
    bool sent = true;
    trp_json at = {0};
    while (sent && track_batch_parameters(&batch, it->job->config, &at))
        sent = send_batch(it, &batch);
    sent = sent && send_batch(it, &batch);
    track_batch_clear(&batch);
    it->run->parameters = sent;
    if (sent)
        keep(it);
    return sent;
}

static void take_attempt(track_run *run, const line_fields *fields)
{
    double at = web_time_of(fields->at);
    if (at > 0) {
        run->attempt_at = at;
        run->attempt_elapsed_s = fields->elapsed_s;
    }
}

// False: a part of it could not be sent.
static bool take_report(call *it, track_batch *batch, trp_json line, const line_fields *fields)
{
    trp_json metrics, at = {0}, name, value;
    track_run *run = it->run;
    double time = run->attempt_at + fields->elapsed_s - run->attempt_elapsed_s;
    if (fields->report < run->from || !trp_json_member(line, "metrics", &metrics))
        return true;
    while (trp_json_next_member(metrics, &at, &name, &value)) {
        double number;
        if (batch->metric_count == TRACK_BATCH_METRICS && !send_batch(it, batch))
            return false;
        if (trp_json_read(&troupe_type_double, value, &it->arena, &number) == TROUPE_OK)
            track_batch_metric(batch, fields->source, name, number, time, fields->report);
    }
    return true;
}

static bool take_line(call *it, track_batch *batch, const char *text, size_t size)
{
    trp_json line;
    line_fields fields = {0};
    if (trp_json_parse(text, size, &line) != TROUPE_OK ||
        trp_json_read(&troupe_type_line_fields, line, &it->arena, &fields) != TROUPE_OK ||
        fields.event == NULL)
        return true;
    if (strcmp(fields.event, "attempt") == 0)
        take_attempt(it->run, &fields);
    return strcmp(fields.event, "report") != 0 || take_report(it, batch, line, &fields);
}

// Sends what a piece has; *used is what of it was sent. False: not all of its lines could be.
static bool send_piece(call *it, const char *text, size_t size, size_t *used)
{
    track_batch batch = {0};
    size_t at = 0;
    bool good = true;
    track_run before = *it->run; // As of what was sent.
    *used = 0;
    for (const char *end; good && at < size; at = (size_t)(end - text) + 1) {
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (batch.metric_count >= TRACK_BATCH_METRICS / 2) {
            good = send_batch(it, &batch);
            *used = good ? at : *used;
            before = good ? *it->run : before;
        }
        good = good && take_line(it, &batch, text + at, (size_t)(end - text) - at);
        trp_arena_clear(&it->arena);
    }
    good = good && send_batch(it, &batch);
    if (good)
        *used = at;
    else
        *it->run = before;
    track_batch_clear(&batch);
    return good;
}

// False: there is more, or it could not be sent.
static bool send_journal(call *it, int fd)
{
    char *piece = (char *)trp_alloc(PIECE_BYTES);
    bool all = false, good = piece != NULL;
    for (int i = 0; good && !all && i < BATCHES_A_TURN; i++) {
        size_t used = 0;
        ssize_t got = pread(fd, piece, PIECE_BYTES, (off_t)it->run->next);
        if (got <= 0) {
            all = got == 0;
            break;
        }
        good = send_piece(it, piece, (size_t)got, &used);
        if (used == 0 && good && got == PIECE_BYTES)
            used = (size_t)got; // A line that is longer is left out.
        all = good && used == 0;
        it->run->next += used;
        if (used > 0)
            keep(it);
    }
    trp_free(piece);
    return all;
}

// ---- a job

static const char *status_of(const track_job *job)
{
    const char *state = track_state_of(job);
    return strcmp(state, "FAILED") == 0      ? "FAILED"
           : strcmp(state, "CANCELLED") == 0 ? "KILLED"
                                             : "FINISHED";
}

static bool send_all(call *it, int fd)
{
    track_run *run = it->run;
    if (!run->found && !find_run(it))
        return false;
    if ((!run->parameters && !send_parameters(it)) || !send_journal(it, fd))
        return false;
    if (it->job->ended) {
        if (!update_run(it, status_of(it->job), it->job->end.ended_at))
            return false;
        track_is_good(it->how->url);
        it->job->note.mlflow = "sent";
    }
    return true;
}

bool track_mlflow(track_job *job, const trp_track_mlflow *how)
{
    trp_path path;
    struct stat about;
    call it = {.job = job, .how = how, .token = how->token};
    const char *folder = job->file.folder;
    int fd = folder != NULL && folder[0] == '/' &&
                     trp_path_make(&path, "%s/journal.jsonl", folder) == TROUPE_OK
                 ? open(path.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        if (job->ended)
            job->note.mlflow = "there was no run";
        if (fd >= 0)
            (void)close(fd);
        return true;
    }
    if (it.token == NULL)
        it.token = getenv("MLFLOW_TRACKING_TOKEN");
    if (job->run == NULL) {
        job->run = it.run = (track_run *)trp_alloc(sizeof *it.run);
        if (it.run != NULL)
            read_kept(&it);
    }
    it.run = job->run;
    // One that was made anew has nothing of the old one.
    if (it.run != NULL && it.run->next > (uint64_t)about.st_size)
        it.run->next = 0;
    bool done = it.run != NULL && send_all(&it, fd);
    (void)close(fd);
    trp_arena_clear(&it.arena);
    return done;
}

void track_run_free(track_run **run)
{
    trp_free(*run);
    *run = NULL;
}
