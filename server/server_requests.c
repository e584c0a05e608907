// server_requests.c: what clients and runners ask, and what they are answered. Nothing is answered
// before the turn's changes are stored: so no answer is of what may yet be lost.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/run_folder.h>
#include <server/gateway.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <server/track.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- what is owed

static trp_owed *owe(trp_server *server, trp_client *client, uint32_t number, trp_wire_kind kind)
{
    if (server->owed_count == server->owed_room) {
        size_t room = server->owed_room > 0 ? 2 * server->owed_room : 16;
        trp_owed *more = (trp_owed *)trp_realloc(server->owed, room * sizeof *more);
        if (more == NULL)
            return NULL;
        server->owed = more;
        server->owed_room = room;
    }
    trp_owed *it = &server->owed[server->owed_count++];
    *it = (trp_owed){.client = client, .number = number, .kind = kind};
    return it;
}

// Of a request that gave that status; the job is what it is about.
static trp_owed *owe_outcome(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                             trp_wire_kind kind, troupe_status status, const trp_entry *job)
{
    char *text = NULL;
    if (status != TROUPE_OK && trp_row_set(&text, troupe_last_error()->text) != TROUPE_OK)
        text = NULL;
    trp_owed *it = owe(server, client, frame->number, status == TROUPE_OK ? kind : TRP_WIRE_ANSWER);
    if (it == NULL) {
        trp_free(text);
        trp_client_fail(server, client, TROUPE_NO_MEMORY, "the train server has no memory left");
        return NULL;
    }
    it->status = status;
    it->text = text;
    it->job = job != NULL ? job->row.id : 0;
    return it;
}

// ---- requests

#define PROGRAM "the program"

static bool is_this_machine(const trp_wire_hello *hello)
{
    static char boot_id[TRP_BOOT_ID_MAX];
    static uint64_t pid_namespace;
    struct stat about;
    if (boot_id[0] == '\0') {
        trp_boot_id(boot_id);
        if (stat("/proc/self/ns/pid", &about) == 0)
            pid_namespace = about.st_ino;
    }
    return (hello->boot_id == NULL || strcmp(hello->boot_id, boot_id) == 0) &&
           (hello->pid_namespace == 0 || hello->pid_namespace == pid_namespace);
}

// The connection ends with that answer.
static void turn_away(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                      troupe_status status, const char *why)
{
    trp_wire_answer answer = {.status = (int)status, .text = why, .revision = TRP_WIRE_VERSION};
    trp_client_put(server, client, TRP_WIRE_ANSWER, frame->number, &troupe_type_trp_wire_answer,
                   &answer);
    client->closing = true;
}

static void greet(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                  const trp_wire_hello *hello)
{
    troupe_status status = trp_wire_agree(PROGRAM, frame->format, hello->version);
    if (status == TROUPE_OK && !is_this_machine(hello))
        status = troupe_fail(TROUPE_UNSUPPORTED,
                             "the train server runs on another machine, or in another container: "
                             "its processes are not those that this program sees");
    if (status != TROUPE_OK) {
        turn_away(server, client, frame, status, troupe_last_error()->text);
        return;
    }
    client->greeted = true;
    trp_owed *owed = owe_outcome(server, client, frame, TRP_WIRE_ANSWER, TROUPE_OK, NULL);
    if (owed != NULL)
        owed->hello = true;
}

static void submit(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                   const trp_wire_submit *what)
{
    trp_entry *job = NULL;
    troupe_status status = server->stopping
                               ? troupe_fail(TROUPE_STOPPED, "the train server is being stopped")
                               : trp_jobs_submit(server->jobs, what, &job);
    if (status == TROUPE_OK && what->metadata != NULL && strstr(what->metadata, "\"webhook\""))
        trp_track_note_own(server->how->folder);
    (void)owe_outcome(server, client, frame, TRP_WIRE_JOB, status, job);
}

static troupe_status watch_job(trp_client *client, trp_entry *job)
{
    trp_job_link *link = trp_server_link(job);
    for (trp_watch *at = client->watches; at != NULL; at = at->of_client)
        if (at->job == job)
            return TROUPE_OK;
    trp_watch *watch = (trp_watch *)trp_alloc(sizeof *watch);
    if (link == NULL || watch == NULL) {
        trp_free(watch);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to watch a job");
    }
    *watch = (trp_watch){client, job, client->watches, link->watches, false};
    client->watches = link->watches = watch;
    return TROUPE_OK;
}

static void find(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                 const trp_wire_job_name *name)
{
    trp_entry *job = NULL;
    troupe_status status = trp_jobs_find(server->jobs, name, &job);
    if (status == TROUPE_OK && frame->kind == TRP_WIRE_WATCH)
        status = watch_job(client, job);
    (void)owe_outcome(server, client, frame, TRP_WIRE_JOB, status, job);
}

static void wish(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                 const trp_wire_wish *what)
{
    trp_entry *job = NULL;
    troupe_status status = trp_jobs_wish(server->jobs, what, &job);
    trp_owed *owed = owe_outcome(server, client, frame, TRP_WIRE_ANSWER, status, job);
    if (owed == NULL || status != TROUPE_OK)
        return;
    owed->stores = true;
    if (job->row.state == TRP_JOB_ENDED) // Not by this: that comes with the turn.
        (void)trp_row_set(&owed->text, "has ended");
}

static void stop(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                 const trp_wire_stop *what)
{
    for (trp_entry *at = trp_jobs_first(server->jobs); at != NULL && what->jobs;
         at = (trp_entry *)at->hh.next) {
        trp_entry *job;
        trp_wire_wish kill = {.of = {.job = at->row.id},
                              .wish = TRP_WISH_KILL,
                              .number = TROUPE_CANCELLED,
                              .text = "the train server was stopped, and its jobs with it"};
        if (trp_jobs_wish(server->jobs, &kill, &job) != TROUPE_OK)
            trp_say("%s", troupe_last_error()->text);
    }
    server->stopping = true;
    server->stop_jobs = server->stop_jobs || what->jobs;
    trp_owed *owed = owe_outcome(server, client, frame, TRP_WIRE_ANSWER, TROUPE_OK, NULL);
    if (owed != NULL)
        owed->stores = what->jobs;
}

static void clean(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                  const trp_wire_gc *bounds)
{
    trp_buffer said = {0};
    size_t claims = trp_jobs_sweep_claims(server->jobs);
    troupe_status status = trp_jobs_gc(server->jobs, bounds, &said);
    if (claims > 0)
        trp_buffer_printf(&said, "; %zu folder%s removed that no job came for", claims,
                          claims == 1 ? "" : "s");
    trp_buffer_append(&said, "", 1);
    trp_owed *owed = owe_outcome(server, client, frame, TRP_WIRE_ANSWER, status, NULL);
    if (owed != NULL && status == TROUPE_OK && !said.failed)
        (void)trp_row_set(&owed->text, (const char *)said.data);
    trp_buffer_free(&said);
}

static void run(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                const trp_wire_runner *runner)
{
    trp_entry *job = NULL;
    troupe_status status = trp_jobs_greet(server->jobs, runner, client->process, &job);
    trp_job_link *link = job != NULL ? trp_server_link(job) : NULL;
    if (status == TROUPE_OK && link == NULL) {
        trp_jobs_lost_touch(server->jobs, job);
        status = troupe_fail(TROUPE_NO_MEMORY, "the train server has no memory left");
    }
    if (status != TROUPE_OK && status != TROUPE_STOPPED && status != TROUPE_NOT_FOUND) {
        trp_client_fail(server, client, status, troupe_last_error()->text); // It comes again.
        return;
    }
    if (link != NULL) {
        if (client->runs != NULL)
            ((trp_job_link *)client->runs->user)->runner = NULL;
        if (link->runner != NULL)
            link->runner->runs = NULL;
        link->runner = client;
        client->runs = job;
        client->told = job->row.revision;
        trp_server_track_changed(server, TRP_JOB_RUNNING);
    } else if (status != TROUPE_OK && status != TROUPE_NOT_FOUND) {
        trp_say("%s", troupe_last_error()->text);
    }
    // One that is not to run is told so by its wishes.
    (void)owe_outcome(server, client, frame, TRP_WIRE_WISHES, TROUPE_OK, link != NULL ? job : NULL);
}

// ---- frames

typedef union request {
    trp_wire_hello hello;
    trp_wire_submit submit;
    trp_wire_job_name name;
    trp_wire_list list;
    trp_wire_wish wish;
    trp_wire_stop stop;
    trp_wire_gc gc;
    trp_wire_runner runner;
    trp_wire_progress progress;
    trp_wire_warm warm;
    trp_wire_taken taken;
    trp_wire_gone gone;
    troupe_none none;
} request;

static const troupe_type *type_of(trp_wire_kind kind)
{
    switch (kind) {
    case TRP_WIRE_HELLO:
        return &troupe_type_trp_wire_hello;
    case TRP_WIRE_SUBMIT:
        return &troupe_type_trp_wire_submit;
    case TRP_WIRE_FIND:
    case TRP_WIRE_WATCH:
        return &troupe_type_trp_wire_job_name;
    case TRP_WIRE_LIST:
        return &troupe_type_trp_wire_list;
    case TRP_WIRE_WISH:
        return &troupe_type_trp_wire_wish;
    case TRP_WIRE_SERVER:
        return &troupe_type_troupe_none;
    case TRP_WIRE_STOP:
        return &troupe_type_trp_wire_stop;
    case TRP_WIRE_GC:
        return &troupe_type_trp_wire_gc;
    case TRP_WIRE_RUNNER:
        return &troupe_type_trp_wire_runner;
    case TRP_WIRE_PROGRESS:
        return &troupe_type_trp_wire_progress;
    case TRP_WIRE_WARM:
        return &troupe_type_trp_wire_warm;
    case TRP_WIRE_TAKEN:
        return &troupe_type_trp_wire_taken;
    case TRP_WIRE_GONE:
        return &troupe_type_trp_wire_gone;
    default:
        return NULL;
    }
}

static void serve(trp_server *server, trp_client *client, const trp_wire_frame *frame,
                  const request *it)
{
    trp_owed *owed;
    switch (frame->kind) {
    case TRP_WIRE_HELLO:
        greet(server, client, frame, &it->hello);
        break;
    case TRP_WIRE_SUBMIT:
        submit(server, client, frame, &it->submit);
        break;
    case TRP_WIRE_FIND:
    case TRP_WIRE_WATCH:
        find(server, client, frame, &it->name);
        break;
    case TRP_WIRE_LIST:
        owed = owe_outcome(server, client, frame, TRP_WIRE_JOBS, TROUPE_OK, NULL);
        if (owed != NULL)
            owed->list = it->list;
        break;
    case TRP_WIRE_WISH:
        wish(server, client, frame, &it->wish);
        break;
    case TRP_WIRE_SERVER:
        (void)owe_outcome(server, client, frame, TRP_WIRE_STATUS, TROUPE_OK, NULL);
        break;
    case TRP_WIRE_STOP:
        stop(server, client, frame, &it->stop);
        break;
    case TRP_WIRE_GC:
        clean(server, client, frame, &it->gc);
        break;
    case TRP_WIRE_RUNNER:
        run(server, client, frame, &it->runner);
        break;
    case TRP_WIRE_PROGRESS:
        if (client->runs != NULL)
            trp_jobs_progress(server->jobs, client->runs, &it->progress);
        break;
    case TRP_WIRE_WARM:
        trp_server_warm_comes(server, client, it->warm.token);
        break;
    case TRP_WIRE_TAKEN:
        trp_server_warm_taken(client, &it->taken);
        break;
    case TRP_WIRE_GONE:
        trp_server_warm_gone(server, client, &it->gone);
        break;
    default:
        break;
    }
}

void trp_request_handle(trp_server *server, trp_client *client, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    request it;
    const troupe_type *type = type_of(frame->kind);
    if (!client->greeted && frame->kind != TRP_WIRE_HELLO) {
        trp_client_fail(server, client, TROUPE_MALFORMED,
                        "the first message of a connection is not a greeting");
        return;
    }
    if (frame->format != TRP_WIRE_FORMAT) { // Nothing of it can be read.
        troupe_status other = trp_wire_agree(PROGRAM, frame->format, TRP_WIRE_VERSION);
        turn_away(server, client, frame, other, troupe_last_error()->text);
        return;
    }
    troupe_status status =
        type == NULL
            ? troupe_fail(TROUPE_UNSUPPORTED, "the train server does not know messages of kind %d",
                          (int)frame->kind)
            : trp_wire_read(frame, type, &arena, &it);
    if (status == TROUPE_OK)
        serve(server, client, frame, &it);
    else if (!client->greeted)
        trp_client_fail(server, client, status, troupe_last_error()->text);
    else
        (void)owe_outcome(server, client, frame, TRP_WIRE_ANSWER, status, NULL);
    trp_arena_clear(&arena);
}

// ---- answers

#define NOT_STORED "the disk is full: what is wished is stored, and counts, once it is not"

static void put_answer(trp_server *server, const trp_owed *owed, troupe_status status,
                       const char *text, const trp_entry *job)
{
    trp_wire_answer answer = {.status = (int)status,
                              .text = text,
                              .job = owed->job,
                              .revision = job != NULL   ? job->row.revision
                                          : owed->hello ? TRP_WIRE_VERSION
                                                        : 0};
    trp_client_put(server, owed->client, TRP_WIRE_ANSWER, owed->number,
                   &troupe_type_trp_wire_answer, &answer);
}

static void put_status(trp_server *server, const trp_owed *owed)
{
    trp_wire_status status = {
        .pid = (int)getpid(), .started_at = server->started_at, .clients = server->client_count};
    char url[TRP_GATEWAY_LINK_MAX];
    trp_jobs_count(server->jobs, &status);
    if (server->how->gateway && trp_gateway_url(server->how->folder, url) == TROUPE_OK)
        status.gateway = url;
    trp_client_put(server, owed->client, TRP_WIRE_STATUS, owed->number,
                   &troupe_type_trp_wire_status, &status);
}

// The newest first.
static void put_list(trp_server *server, const trp_owed *owed, trp_arena *arena)
{
    size_t count = 0, room = 0, most = owed->list.most > 0 ? (size_t)owed->list.most : SIZE_MAX;
    trp_entry *last = NULL;
    for (trp_entry *at = trp_jobs_first(server->jobs); at != NULL; at = (trp_entry *)at->hh.next) {
        room++;
        last = at;
    }
    trp_wire_job *items = (trp_wire_job *)trp_arena_alloc(arena, (room + 1) * sizeof *items);
    bool whole = items != NULL;
    for (trp_entry *at = last; whole && at != NULL && count < most; at = (trp_entry *)at->hh.prev)
        if (owed->list.ended || at->row.state != TRP_JOB_ENDED)
            whole = trp_jobs_show(server->jobs, at, arena, &items[count++]) == TROUPE_OK;
    trp_wire_jobs jobs = {.jobs = {items, count}};
    if (whole)
        trp_client_put(server, owed->client, TRP_WIRE_JOBS, owed->number,
                       &troupe_type_trp_wire_jobs, &jobs);
    else
        put_answer(server, owed, TROUPE_NO_MEMORY, "the train server has no memory left", NULL);
}

static void put_job(trp_server *server, const trp_owed *owed, trp_entry *job, trp_arena *arena)
{
    trp_wire_job shown;
    const char *why = trp_jobs_refusal(server->jobs);
    if (job == NULL)
        put_answer(server, owed, why != NULL ? TROUPE_NO_SPACE : TROUPE_NOT_FOUND,
                   why != NULL ? why : "the job was removed", NULL);
    else if (trp_jobs_show(server->jobs, job, arena, &shown) == TROUPE_OK)
        trp_client_put(server, owed->client, TRP_WIRE_JOB, owed->number, &troupe_type_trp_wire_job,
                       &shown);
    else
        put_answer(server, owed, TROUPE_NO_MEMORY, "the train server has no memory left", NULL);
}

static void put_wishes(trp_server *server, const trp_owed *owed, trp_entry *job, trp_arena *arena)
{
    trp_wire_wishes wishes = {.leave = true};
    if (job != NULL && job->dirty) { // It is told them once they are stored.
        owed->client->told = -1;
        put_answer(server, owed, TROUPE_NO_SPACE, NOT_STORED, job);
    } else if (job == NULL || trp_jobs_wishes(job, arena, &wishes) == TROUPE_OK)
        trp_client_put(server, owed->client, TRP_WIRE_WISHES, owed->number,
                       &troupe_type_trp_wire_wishes, &wishes);
}

static void answer(trp_server *server, const trp_owed *owed, troupe_status stored, trp_arena *arena)
{
    trp_entry *job = NULL;
    trp_wire_job_name name = {.job = owed->job};
    if (owed->job != 0 && trp_jobs_find(server->jobs, &name, &job) != TROUPE_OK)
        job = NULL;
    bool lacks = job != NULL ? job->dirty : owed->job == 0;
    if (owed->stores && stored != TROUPE_OK && lacks) {
        put_answer(server, owed, stored, NOT_STORED, job);
        return;
    }
    switch (owed->kind) {
    case TRP_WIRE_JOB:
        put_job(server, owed, job, arena);
        break;
    case TRP_WIRE_JOBS:
        put_list(server, owed, arena);
        break;
    case TRP_WIRE_STATUS:
        put_status(server, owed);
        break;
    case TRP_WIRE_WISHES:
        put_wishes(server, owed, job, arena);
        break;
    default:
        put_answer(server, owed, owed->status, owed->text, job);
        break;
    }
}

void trp_server_answer_all(trp_server *server, troupe_status stored)
{
    for (size_t i = 0; i < server->owed_count; i++) {
        trp_owed *owed = &server->owed[i];
        trp_arena arena = {0};
        if (!owed->client->dead)
            answer(server, owed, stored, &arena);
        trp_arena_clear(&arena);
        trp_free(owed->text);
    }
    server->owed_count = 0;
}
