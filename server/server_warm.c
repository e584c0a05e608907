// server_warm.c: warm runners: copies of runners that wait for jobs of the same kind
// (docs/internals/server/server.md, "Warm runners").
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/host/file.h>
#include <server/launcher.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    WARM_MAX = 8,    // Kinds that are waited for.
    COME_MS = 60000, // Until a copy is expected no more.
    TAKE_MS = 2000,  // Until it has to have made a runner, or to have said how one ended.
};

// An attempt that was handed over, until its process has ended.
typedef struct handed {
    struct handed *next;
    trp_process process; // Without a pidfd.
    int64_t job;
    int attempt;
    int64_t due_ms; // Of what it is to say; 0: it has.
} handed;

struct trp_warm {
    trp_warm *next;
    uint64_t token;
    trp_buffer kind;
    trp_client *client; // NULL: it has not come yet.
    int64_t due_ms;     // When it goes, if nothing is handed over.
    handed *first;
};

// All that runners of a copy have in common: how the program is started, and what of the grant its
// main may have seen.
static bool make_kind(const trp_wire_launch *launch, const trp_wire_order *order, trp_buffer *kind)
{
    bool affine = trp_launcher_is_affine(launch, order->cpus);
    trp_buffer_append(kind, &affine, sizeof affine);
    if (order->gpu_ids != NULL)
        trp_buffer_append(kind, order->gpu_ids, strlen(order->gpu_ids) + 1);
    return trp_pack(&troupe_type_trp_wire_launch, launch, kind) == TROUPE_OK && !kind->failed;
}

static trp_warm *find_kind(trp_server *server, const trp_buffer *kind)
{
    for (trp_warm *at = server->warm; at != NULL; at = at->next)
        if (at->kind.size == kind->size && memcmp(at->kind.data, kind->data, kind->size) == 0)
            return at;
    return NULL;
}

// ---- going

static void lose_handed(trp_server *server, handed *it)
{
    if (it->process.job != NULL) {
        ((trp_job_link *)it->process.job->user)->process = NULL;
        trp_jobs_exited(server->jobs, it->process.job, -1);
    }
    trp_free(it);
}

// Of those that it was handed the server learns by their locks from now on.
static void forget(trp_server *server, trp_warm **at)
{
    trp_warm *it = *at;
    *at = it->next;
    while (it->first != NULL) {
        handed *next = it->first->next;
        lose_handed(server, it->first);
        it->first = next;
    }
    if (it->client != NULL) {
        it->client->warm = NULL;
        it->client->closing = true;
    }
    trp_buffer_free(&it->kind);
    trp_free(it);
}

void trp_server_forget_warm(trp_server *server, trp_client *client)
{
    for (trp_warm **at = &server->warm; *at != NULL; at = &(*at)->next)
        if ((*at)->client == client) {
            (*at)->client = NULL;
            forget(server, at);
            return;
        }
}

void trp_server_close_warm(trp_server *server)
{
    while (server->warm != NULL)
        forget(server, &server->warm);
}

static int64_t due_of(const trp_warm *it)
{
    int64_t due = it->first == NULL ? it->due_ms : INT64_MAX;
    for (const handed *at = it->first; at != NULL; at = at->next)
        if (at->due_ms != 0 && at->due_ms < due)
            due = at->due_ms;
    return due;
}

int64_t trp_server_warm_due(const trp_server *server)
{
    int64_t due = INT64_MAX;
    for (const trp_warm *at = server->warm; at != NULL; at = at->next)
        if (due_of(at) < due)
            due = due_of(at);
    return due;
}

void trp_server_warm_turn(trp_server *server)
{
    int64_t now_ms = trp_clock_ms();
    for (trp_warm **at = &server->warm; *at != NULL;)
        if (due_of(*at) <= now_ms)
            forget(server, at);
        else
            at = &(*at)->next;
}

// ---- coming

static uint64_t expect(trp_server *server, trp_buffer *kind)
{
    int count = 0;
    trp_warm **oldest = NULL;
    for (trp_warm **at = &server->warm; *at != NULL; at = &(*at)->next, count++)
        if ((*at)->first == NULL)
            oldest = at; // The newest are first.
    if (count >= WARM_MAX && oldest == NULL)
        return 0;
    if (count >= WARM_MAX)
        forget(server, oldest);
    trp_warm *it = (trp_warm *)trp_alloc(sizeof *it);
    if (it == NULL || getrandom(&it->token, sizeof it->token, 0) != sizeof it->token) {
        trp_free(it);
        return 0;
    }
    it->token |= 1; // 0: none.
    it->kind = *kind;
    *kind = (trp_buffer){0};
    it->due_ms = trp_clock_ms() + COME_MS;
    it->next = server->warm;
    server->warm = it;
    return it->token;
}

void trp_server_warm_comes(trp_server *server, trp_client *client, uint64_t token)
{
    trp_warm *it = server->warm;
    while (it != NULL && (it->token != token || it->client != NULL))
        it = it->next;
    if (it == NULL || server->stopping || client->warm != NULL) {
        client->closing = true;
        return;
    }
    it->client = client;
    client->warm = it;
    it->due_ms = trp_clock_ms() + (int64_t)server->how->warm_s * 1000;
}

// ---- handing over

static troupe_status put_take(trp_server *server, trp_warm *warm, const trp_entry *job,
                              const trp_wire_order *order)
{
    trp_buffer packed = {0};
    troupe_status status = trp_pack(&troupe_type_trp_wire_order, order, &packed);
    if (status == TROUPE_OK && packed.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the start of a job");
    trp_wire_handover take = {.job = job->row.id,
                              .attempt = job->row.attempt,
                              .folder = job->folder,
                              .order = {packed.data, packed.size}};
    if (status == TROUPE_OK)
        trp_client_put(server, warm->client, TRP_WIRE_HANDOVER, 0, &troupe_type_trp_wire_handover,
                       &take);
    trp_buffer_free(&packed);
    return status;
}

static troupe_status hand_over(trp_server *server, trp_warm *warm, trp_entry *job,
                               const trp_wire_order *order, pid_t *process)
{
    trp_job_link *link = trp_server_link(job);
    handed *it = (handed *)trp_alloc(sizeof *it);
    troupe_status status = it == NULL || link == NULL
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory to start a job")
                               : put_take(server, warm, job, order);
    if (status != TROUPE_OK) {
        trp_free(it);
        return status;
    }
    *it = (handed){.next = warm->first,
                   .process = {{TRP_SOURCE_PROCESS, -1}, -1, false, job, NULL},
                   .job = job->row.id,
                   .attempt = job->row.attempt,
                   .due_ms = trp_clock_ms() + TAKE_MS};
    warm->first = it;
    if (link->process != NULL)
        link->process->job = NULL;
    link->process = &it->process;
    *process = it->process.process;
    return TROUPE_OK;
}

static bool has_room(const trp_warm *warm)
{
    int count = 0;
    for (const handed *at = warm->first; at != NULL; at = at->next)
        count++;
    return count < TRP_WARM_RUNNERS_MAX;
}

bool trp_server_launch_warm(trp_server *server, trp_entry *job, const trp_wire_launch *launch,
                            trp_wire_order *order, pid_t *process)
{
    trp_buffer kind = {0};
    bool done = false;
    if (server->how->warm_s <= 0 || server->stopping)
        return false;
    trp_warm *it = make_kind(launch, order, &kind) ? find_kind(server, &kind) : NULL;
    if (it != NULL && it->client != NULL && trp_launcher_check(launch) != TROUPE_OK)
        it->client->closing = true; // Its program is another one by now, as the launcher will say.
    else if (it != NULL && it->client != NULL && !it->client->dead && !it->client->closing &&
             has_room(it))
        done = hand_over(server, it, job, order, process) == TROUPE_OK;
    else if (it == NULL && !kind.failed && (order->warm = expect(server, &kind)) != 0)
        order->warm_s = server->how->warm_s;
    trp_buffer_free(&kind);
    return done;
}

static handed **find_handed(trp_warm *warm, int64_t job, int attempt)
{
    handed **at = warm != NULL ? &warm->first : NULL;
    while (at != NULL && *at != NULL && ((*at)->job != job || (*at)->attempt != attempt))
        at = &(*at)->next;
    return at != NULL && *at != NULL ? at : NULL;
}

void trp_server_warm_taken(trp_client *client, const trp_wire_taken *what)
{
    handed **at = find_handed(client->warm, what->job, what->attempt);
    if (at != NULL)
        (*at)->due_ms = 0;
}

bool trp_server_warm_tells(trp_server *server, trp_entry *job)
{
    trp_path end;
    handed **at = NULL;
    for (trp_warm *warm = server->warm; warm != NULL && at == NULL; warm = warm->next)
        at = find_handed(warm, job->row.id, job->row.attempt);
    if (at == NULL || trp_path_make(&end, "%s/end", job->folder) != TROUPE_OK ||
        access(end.text, F_OK) == 0) // How it ended is there.
        return false;
    (*at)->process.job = job;
    (*at)->due_ms = trp_clock_ms() + TAKE_MS;
    ((trp_job_link *)job->user)->process = &(*at)->process;
    return true;
}

// The process that is watched of the attempt, if it is the one that is under way: a warm runner's,
// or since it has greeted the runner itself.
static trp_process *find_process(trp_server *server, const handed *it)
{
    trp_entry *job;
    trp_wire_job_name name = {.job = it->job};
    if (trp_jobs_find(server->jobs, &name, &job) != TROUPE_OK || job->row.attempt != it->attempt ||
        job->user == NULL)
        return NULL;
    return ((trp_job_link *)job->user)->process;
}

void trp_server_warm_gone(trp_server *server, trp_client *client, const trp_wire_gone *what)
{
    handed **at = find_handed(client->warm, what->job, what->attempt);
    if (at == NULL)
        return;
    handed *it = *at;
    *at = it->next;
    trp_process *process = find_process(server, it);
    if (process != NULL) {
        trp_entry *job = process->job;
        ((trp_job_link *)job->user)->process = NULL;
        process->job = NULL; // A pidfd is still waited for.
        trp_jobs_exited(server->jobs, job, what->status);
    }
    trp_free(it);
    client->warm->due_ms = trp_clock_ms() + (int64_t)server->how->warm_s * 1000;
}
