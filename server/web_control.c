// web_control.c: what the web interface asks of the train server: its jobs, its state, and wishes
// for a job. Without a server the folders alone are read, and wishes are refused.
#include <server/web_job.h>

#include <inttypes.h>
#include <models/stored.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <server/web_json.h>
#include <string.h>
#include <time.h>

enum {
    LIST_MS = 2000,
    WISH_MS = 10000,
    AGAIN_MS = 1000, // Until a server that was not there is looked for again.
};

static const int jobs_max = 1000; // Of which the server is asked: the newest.

// ---- the connection

static troupe_status connect_server(trp_web *web)
{
    if (web->link != NULL)
        return TROUPE_OK;
    if (trp_clock_ms() < web->look_again_ms)
        return troupe_fail(TROUPE_NOT_STARTED, "no train server runs for %s", web->state);
    troupe_status status = trp_server_link_open(web->state, NULL, &web->link);
    if (status == TROUPE_OK)
        return TROUPE_OK;
    web->look_again_ms = trp_clock_ms() + AGAIN_MS;
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_NOT_STARTED,
                           "no train server runs for %s: `troupe server start` "
                           "starts it",
                           web->state);
    return status;
}

// A server that is gone is not waited for: the next request looks anew.
static troupe_status ask(web_call *call, const trp_server_question *question, void *answer)
{
    trp_web *web = call->web;
    TROUPE_TRY(connect_server(web));
    troupe_status status = trp_server_link_ask(web->link, question, &call->arena, answer);
    if (status == TROUPE_PEER_LOST || status == TROUPE_TIMED_OUT) {
        troupe_error kept;
        trp_error_hold(&kept);
        trp_server_link_close(&web->link);
        web->look_again_ms = trp_clock_ms() + AGAIN_MS;
        trp_error_restore(&kept);
    }
    return status;
}

void web_ask_jobs(web_call *call, bool *there, trp_wire_jobs *jobs)
{
    const trp_wire_list which = {.ended = true, .most = jobs_max};
    const trp_server_question question = {.kind = TRP_WIRE_LIST,
                                          .type = &troupe_type_trp_wire_list,
                                          .value = &which,
                                          .timeout_ms = LIST_MS,
                                          .once = true,
                                          .answer = TRP_WIRE_JOBS,
                                          .has = &troupe_type_trp_wire_jobs};
    *jobs = (trp_wire_jobs){0};
    *there = ask(call, &question, jobs) == TROUPE_OK;
    trp_error_forget();
}

// ---- wishes

static troupe_status wish(web_call *call, trp_wire_wish *wanted, int64_t *revision)
{
    trp_wire_answer answer = {0};
    const trp_server_question question = {.kind = TRP_WIRE_WISH,
                                          .type = &troupe_type_trp_wire_wish,
                                          .value = wanted,
                                          .timeout_ms = WISH_MS,
                                          .answer = TRP_WIRE_ANSWER,
                                          .has = &troupe_type_trp_wire_answer};
    TROUPE_TRY(ask(call, &question, &answer));
    *revision = answer.revision;
    return TROUPE_OK;
}

static troupe_status answer_wish(web_call *call, trp_wire_wish *wanted)
{
    int64_t revision;
    TROUPE_TRY(wish(call, wanted, &revision));
    web_begin(call->out, NULL, '{');
    web_integer(call->out, "revision", revision);
    web_end(call->out, '}');
    return TROUPE_OK;
}

// The body as a JSON object; an empty one is one without members.
static troupe_status body_of(web_call *call, trp_json *body)
{
    const trp_web_request *request = call->request;
    static const trp_json none = {"{}", 2};
    *body = none;
    if (request->body_size == 0)
        return TROUPE_OK;
    if (request->body_size > TRP_WEB_BODY_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "the body has %zu bytes: expected at most %d",
                           request->body_size, (int)TRP_WEB_BODY_MAX);
    if (trp_json_parse(request->body, request->body_size, body) != TROUPE_OK)
        return trp_error_prefix("the body");
    if (!trp_json_is_object(*body))
        return troupe_fail(TROUPE_MALFORMED, "the body is no JSON object");
    return TROUPE_OK;
}

// A job that has not ended: what has is not changed any more.
static troupe_status begin_wish(web_call *call, web_job *job, trp_wire_wish *wanted, trp_json *body)
{
    TROUPE_TRY(body_of(call, body));
    TROUPE_TRY(web_job_of(call, job));
    *wanted = (trp_wire_wish){.of = {.job = job->id}};
    if (job->outcome != NULL)
        return troupe_fail(TROUPE_STOPPED, "job %" PRId64 " has ended", job->id);
    return TROUPE_OK;
}

// The one member that a body may have; *there: it has it.
static troupe_status read_member(web_call *call, trp_json body, const char *wanted,
                                 const troupe_type *type, void *value, bool *there)
{
    trp_json at = {0}, name, member;
    *there = false;
    while (trp_json_next_member(body, &at, &name, &member)) {
        if (!trp_json_equals(name, wanted))
            return troupe_fail(TROUPE_INVALID, "the body has the member %.*s: expected %s",
                               name.size < 64 ? (int)name.size : 64, name.at, wanted);
        if (trp_json_read(type, member, &call->arena, value) != TROUPE_OK)
            return trp_error_prefix("%s", wanted);
        *there = true;
    }
    return TROUPE_OK;
}

// A number that has to be there.
static troupe_status wish_number(web_call *call, const char *member, trp_wire_wish_kind kind)
{
    web_job job;
    trp_wire_wish wanted;
    trp_json body;
    bool there;
    TROUPE_TRY(begin_wish(call, &job, &wanted, &body));
    wanted.wish = kind;
    TROUPE_TRY(read_member(call, body, member, &troupe_type_int, &wanted.number, &there));
    if (!there)
        return troupe_fail(TROUPE_INVALID,
                           "the body has no member %s: expected an object such as {\"%s\": 2}",
                           member, member);
    return answer_wish(call, &wanted);
}

troupe_status web_stop_job(web_call *call)
{
    web_job job;
    trp_wire_wish wanted;
    trp_json body;
    bool now = false, there;
    TROUPE_TRY(begin_wish(call, &job, &wanted, &body));
    TROUPE_TRY(read_member(call, body, "now", &troupe_type_bool, &now, &there));
    wanted.wish = now ? TRP_WISH_KILL : TRP_WISH_STOP;
    wanted.number = now ? TROUPE_CANCELLED : 0;
    wanted.text = now ? "killed over HTTP" : NULL;
    return answer_wish(call, &wanted);
}

troupe_status web_pause_job(web_call *call)
{
    web_job job;
    trp_wire_wish wanted;
    trp_json body;
    bool pause = true, there;
    TROUPE_TRY(begin_wish(call, &job, &wanted, &body));
    TROUPE_TRY(read_member(call, body, "pause", &troupe_type_bool, &pause, &there));
    wanted.wish = pause ? TRP_WISH_PAUSE : TRP_WISH_GO_ON;
    return answer_wish(call, &wanted);
}

troupe_status web_resize_job(web_call *call)
{
    return wish_number(call, "ranks", TRP_WISH_RANKS);
}

troupe_status web_prioritise_job(web_call *call)
{
    return wish_number(call, "priority", TRP_WISH_PRIORITY);
}

static char *copy_json(web_call *call, trp_json value)
{
    char *copy = trp_arena_alloc(&call->arena, value.size + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, value.at, value.size);
    copy[value.size] = '\0';
    return copy;
}

troupe_status web_modify_job(web_call *call)
{
    web_job job;
    trp_wire_wish wanted;
    trp_json body, at = {0}, name, value;
    int64_t revision = 0;
    size_t count = 0;
    TROUPE_TRY(begin_wish(call, &job, &wanted, &body));
    while (trp_json_next_member(body, &at, &name, &value)) {
        wanted.wish = TRP_WISH_LIVE;
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, &call->arena, &wanted.member));
        wanted.value = copy_json(call, value);
        if (wanted.value == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a value");
        TROUPE_TRY(wish(call, &wanted, &revision));
        count++;
    }
    if (count == 0)
        return troupe_fail(TROUPE_INVALID, "the body has no member to modify: expected an object "
                                           "such as {\"rate\": 0.05}");
    web_begin(call->out, NULL, '{');
    web_integer(call->out, "revision", revision);
    web_end(call->out, '}');
    return TROUPE_OK;
}

// ---- submission

// What may be said of a job beside its model and config: how much, when and under which name. No
// folder, no program, no environment.
TROUPE_STRUCT(web_submission, (troupe_text, model), (int, ranks), (int, min_ranks), (double, cpus),
              (troupe_text, name), (troupe_text, key), (int, priority), (double, start_at),
              (double, time_limit_s), (int, restarts), (bool, from_version));

static troupe_status check_members(trp_json body)
{
    const troupe_type *type = &troupe_type_web_submission;
    trp_json at = {0}, name, value;
    while (trp_json_next_member(body, &at, &name, &value)) {
        bool known = trp_json_equals(name, "config");
        for (size_t i = 0; i < type->field_count && !known; i++)
            known = trp_json_equals(name, type->fields[i].name);
        if (known)
            continue;
        trp_buffer names = {0};
        for (size_t i = 0; i < type->field_count; i++)
            trp_buffer_printf(&names, ", %s", type->fields[i].name);
        troupe_status status =
            troupe_fail(TROUPE_INVALID, "the body has the member %.*s: expected config%.*s",
                        name.size < 64 ? (int)name.size : 64, name.at, (int)names.size,
                        names.data != NULL ? (const char *)names.data : "");
        trp_buffer_free(&names);
        return status;
    }
    return TROUPE_OK;
}

static troupe_status read_submission(web_call *call, web_submission *asked,
                                     trp_stored_submission *submission)
{
    trp_json body, config;
    TROUPE_TRY(body_of(call, &body));
    TROUPE_TRY(check_members(body));
    if (trp_json_read(&troupe_type_web_submission, body, &call->arena, asked) != TROUPE_OK)
        return trp_error_prefix("the body");
    if (asked->model == NULL)
        return troupe_fail(TROUPE_INVALID, "the body has no member model: expected an object such "
                                           "as {\"model\": \"digits@production\"}");
    if (trp_json_member(body, "config", &config) && !trp_json_is_null(config)) {
        submission->config = copy_json(call, config);
        if (submission->config == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a config");
    }
    submission->from_version = asked->from_version;
    submission->open_alone = true;
    submission->options = (trp_packed_options){.ranks = asked->ranks,
                                               .min_ranks = asked->min_ranks,
                                               .cpus_per_rank = asked->cpus,
                                               .name = asked->name,
                                               .key = asked->key,
                                               .priority = asked->priority,
                                               .start_at = asked->start_at,
                                               .time_limit_s = asked->time_limit_s,
                                               .restarts = asked->restarts,
                                               .storage = call->web->results};
    return TROUPE_OK;
}

troupe_status web_submit_job(web_call *call)
{
    web_submission asked = {0};
    trp_stored_submission submission = {0};
    trp_stored_version version;
    trp_stored_answer answer;
    trp_child_process process;
    TROUPE_TRY(read_submission(call, &asked, &submission));
    TROUPE_TRY(connect_server(call->web));
    TROUPE_TRY(trp_stored_find(call->web->models, asked.model, &call->arena, &version));
    version.of.server = call->web->state;
    troupe_status status =
        trp_stored_submit(&version, &submission, &call->arena, &answer, &process);
    if (status == TROUPE_NOT_FOUND) // A member of the config, and not what the path names.
        return troupe_fail(TROUPE_INVALID, "%s", troupe_last_error()->text);
    TROUPE_TRY(status);
    trp_child_end(&process);
    call->reply->status = 202;
    web_begin(call->out, NULL, '{');
    web_integer(call->out, "job", answer.job);
    web_text(call->out, "model", version.of.ref);
    web_text(call->out, "key", asked.key);
    web_end(call->out, '}');
    return TROUPE_OK;
}

// ---- the server

static troupe_status ask_status(web_call *call, trp_wire_status *status)
{
    static const troupe_none nothing = {0};
    const trp_server_question question = {.kind = TRP_WIRE_SERVER,
                                          .type = &troupe_type_troupe_none,
                                          .value = &nothing,
                                          .timeout_ms = LIST_MS,
                                          .once = true,
                                          .answer = TRP_WIRE_STATUS,
                                          .has = &troupe_type_trp_wire_status};
    return ask(call, &question, status);
}

double web_ask_gpus(web_call *call)
{
    trp_wire_status status = {0};
    return ask_status(call, &status) == TROUPE_OK ? status.gpus : 0;
}

troupe_status web_show_server(web_call *call)
{
    trp_buffer *out = call->out;
    trp_wire_status status = {0};
    bool alive = ask_status(call, &status) == TROUPE_OK;
    web_begin(out, NULL, '{');
    web_flag(out, "alive", alive);
    web_text(out, "folder", call->web->state);
    if (!alive) {
        web_text(out, "why", troupe_last_error()->text);
    } else {
        web_integer(out, "pid", status.pid);
        web_time(out, "started_at", status.started_at);
        web_integer(out, "waiting", status.waiting);
        web_integer(out, "running", status.running);
        web_integer(out, "ended", status.ended);
        web_number(out, "cpus", status.cpus);
        web_number(out, "cpus_free", status.cpus_free);
        web_number(out, "gpus", status.gpus);
        web_number(out, "gpus_free", status.gpus_free);
        web_number(out, "memory_bytes", (double)status.memory_bytes);
        web_number(out, "memory_free_bytes", (double)status.memory_free_bytes);
        web_integer(out, "clients", status.clients);
    }
    web_end(out, '}');
    return TROUPE_OK;
}

// ---- Prometheus

static void gauge(trp_buffer *out, const char *name, const char *help, double value)
{
    trp_buffer_printf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %.10g\n", name, help, name, name,
                      value);
}

// The jobs that are there now: reports and restarts of each.
static void write_active(web_call *call, const trp_wire_jobs *told)
{
    static const struct {
        const char *name, *help;
    } rows[] = {{"troupe_job_reports", "Reports of a job that has not ended."},
                {"troupe_job_restarts", "Restarts of a job that has not ended."},
                {"troupe_job_cpus", "CPUs granted to a job that has not ended."},
                {"troupe_job_gpus", "GPUs granted to a job that has not ended."}};
    trp_buffer *out = call->out;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        size_t shown = 0;
        trp_buffer_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", rows[row].name, rows[row].help,
                          rows[row].name);
        for (size_t i = 0; i < told->jobs.count && shown < 200; i++) {
            const trp_wire_job *it = &told->jobs.items[i];
            if (it->state == TRP_JOB_ENDED)
                continue;
            double values[] = {it->reports, it->restarts, it->cpus, it->gpus};
            trp_buffer_printf(out, "%s{job=\"%" PRId64 "\"} %.10g\n", rows[row].name, it->job,
                              values[row]);
            shown++;
        }
    }
}

// What was measured last of each GPU of the jobs that are there now, if that was not long ago.
static void write_gpus(web_call *call, const trp_wire_jobs *told, bool memory)
{
    static const double old_s = 30;
    const char *name = memory ? "troupe_job_gpu_memory_bytes" : "troupe_job_gpu_utilization";
    double now = (double)time(NULL);
    trp_buffer_printf(call->out, "# HELP %s %s\n# TYPE %s gauge\n", name,
                      memory ? "Memory of a GPU that the job's processes have."
                             : "Part of the time in which a GPU of the job computed.",
                      name);
    for (size_t i = 0; i < told->jobs.count; i++) {
        const trp_wire_job *job = &told->jobs.items[i];
        web_run *run;
        if (job->state == TRP_JOB_ENDED || job->gpus <= 0 || job->run == NULL ||
            web_runs_find(&call->web->runs, job->run, &call->budget, &run) != TROUPE_OK)
            continue;
        for (size_t g = 0; g < run->usage.gpu_count; g++) {
            const web_usage_gpu *it = run->usage.gpus[g];
            double value = memory ? it->last_used : it->last_busy;
            if (value < 0 || it->last_at < now - old_s)
                continue;
            trp_buffer_printf(call->out, "%s{job=\"%" PRId64 "\",gpu=\"%s\"} %.10g\n", name,
                              job->job, it->id, value);
        }
    }
}

troupe_status web_metrics(web_call *call)
{
    trp_buffer *out = call->out;
    trp_wire_status status = {0};
    trp_wire_jobs told = {0};
    bool alive = ask_status(call, &status) == TROUPE_OK;
    gauge(out, "troupe_server_up", "Whether the train server answers.", alive);
    if (!alive)
        return TROUPE_OK;
    gauge(out, "troupe_server_start_time_seconds", "When it was started, in Unix time.",
          status.started_at);
    trp_buffer_printf(out,
                      "# HELP troupe_jobs Jobs by state.\n# TYPE troupe_jobs gauge\n"
                      "troupe_jobs{state=\"waiting\"} %d\ntroupe_jobs{state=\"running\"} %d\n"
                      "troupe_jobs{state=\"ended\"} %d\n",
                      status.waiting, status.running, status.ended);
    gauge(out, "troupe_server_cpus", "CPUs that jobs may have.", status.cpus);
    gauge(out, "troupe_server_cpus_free", "CPUs that no job has.", status.cpus_free);
    gauge(out, "troupe_server_gpus", "GPUs that jobs may have.", status.gpus);
    gauge(out, "troupe_server_gpus_free", "GPUs that no job has.", status.gpus_free);
    gauge(out, "troupe_server_memory_bytes", "Memory that jobs may have.",
          (double)status.memory_bytes);
    gauge(out, "troupe_server_memory_free_bytes", "Memory that no job has.",
          (double)status.memory_free_bytes);
    bool there;
    web_ask_jobs(call, &there, &told);
    write_active(call, &told);
    write_gpus(call, &told, false);
    write_gpus(call, &told, true);
    return TROUPE_OK;
}
