// node_client.c: what a process can ask of its node (see node_client.h): requests, answered by the
// node process, whose answers whoever reads hands to the thread that waits, or to what was begun,
// here.
#include <runtime/node/node_client.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/slow.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/ask.h>
#include <runtime/link/park.h>
#include <runtime/link/peer.h>
#include <runtime/link/resolve.h>
#include <runtime/node/request.h>
#include <runtime/node/server.h>
#include <runtime/node/worker_start.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LOCAL_LOOK_NS = 20000000,
    // Times .node_timeout_ms: another node that is silent is found out before, as what it is.
    FAR_TIMEOUTS = 2,
};

typedef trp_request request;

_Static_assert((int)TRP_CLAIM_GPUS_MAX >= (int)TRP_NAMED_VALUE_MAX,
               "a request's value holds either");

static struct {
    pthread_mutex_t lock;
    request *waiting;
    uint64_t last_number;
} requests = {.lock = PTHREAD_MUTEX_INITIALIZER};

// With the lock held, without which the request does not end.
static void finish(request *done)
{
    atomic_store(&done->done, 1);
    trp_unpark(&done->done, 1);
}

// Tells those for whom nobody waits, and forgets them. With the lock held.
static void tell_claimed(void)
{
    for (request **at = &requests.waiting; *at != NULL;) {
        request *it = *at;
        if (!it->done || (it->claimed == NULL && !it->late)) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        if (it->late) {
            if (it->status == TROUPE_OK)
                trp_request_end((uint32_t)it->target, it->schema, "was ended: it came too late");
            trp_free(it);
            continue;
        }
        it->value[it->value_size < sizeof it->value ? it->value_size : sizeof it->value - 1] = '\0';
        it->claimed(it->user, it->status, it->target,
                    it->status == TROUPE_OK ? (const char *)it->value : it->text);
        trp_free(it);
    }
}

void trp_node_answered(const trp_frame *frame)
{
    pthread_mutex_lock(&requests.lock);
    for (request *it = requests.waiting; it != NULL; it = it->next) {
        if (it->number != frame->call || it->process != frame->from || it->done)
            continue;
        it->status = (troupe_status)frame->status;
        it->target = frame->target;
        it->schema = frame->schema;
        if (frame->status != TROUPE_OK) {
            size_t size =
                frame->body_size < sizeof it->text - 1 ? frame->body_size : sizeof it->text - 1;
            memcpy(it->text, frame->body, size);
            it->text[size] = '\0';
        } else if (it->whole != NULL) {
            trp_buffer_append(it->whole, frame->body, frame->body_size);
        } else if (frame->body_size > 0 && frame->body_size <= sizeof it->value) {
            memcpy(it->value, frame->body, frame->body_size);
            it->value_size = frame->body_size;
        }
        finish(it);
    }
    tell_claimed();
    pthread_mutex_unlock(&requests.lock);
}

void trp_node_lost(void)
{
    pthread_mutex_lock(&requests.lock);
    for (request *it = requests.waiting; it != NULL; it = it->next) {
        if (it->done)
            continue;
        it->status = trp_self.ending ? TROUPE_NOT_STARTED : TROUPE_RUNTIME_LOST;
        strcpy(it->text, trp_self.ending ? "the runtime was stopped before the node answered"
                                         : "the node process has died before it answered");
        finish(it);
    }
    tell_claimed();
    pthread_mutex_unlock(&requests.lock);
}

void trp_node_far_lost(uint32_t process)
{
    pthread_mutex_lock(&requests.lock);
    for (request *it = requests.waiting; it != NULL; it = it->next) {
        if (it->process != process || it->done)
            continue;
        it->status = TROUPE_NOT_EXECUTED;
        strcpy(it->text, "the session with the other node ended before it answered");
        finish(it);
    }
    pthread_mutex_unlock(&requests.lock);
}

troupe_status trp_request_send(trp_frame *frame)
{
    frame->kind = TRP_FRAME_ASK;
    if (trp_self.local) {
        trp_node_serve_here(frame);
        return TROUPE_OK;
    }
    troupe_status sent = trp_process_send(
        TRP_PROCESS_NODE, trp_segment_process(TRP_PROCESS_NODE)->incarnation, frame, 0);
    return sent == TROUPE_NOT_EXECUTED || sent == TROUPE_IO
               ? troupe_fail(TROUPE_RUNTIME_LOST, "the node process cannot be reached")
               : sent;
}

void trp_request_tell(trp_frame *frame)
{
    if (trp_process_check() != TROUPE_OK || !trp_process_try_enter())
        return;
    (void)trp_request_send(frame);
    trp_process_leave();
}

// Returns its number; one for which nobody waits may be gone as soon as this returns.
static uint64_t enlist(request *mine)
{
    pthread_mutex_lock(&requests.lock);
    uint64_t number = mine->number = ++requests.last_number;
    mine->next = requests.waiting;
    requests.waiting = mine;
    pthread_mutex_unlock(&requests.lock);
    return number;
}

// With the lock held. From here on nothing is written into it, however late it comes.
static void take_out(request *mine)
{
    request **at = &requests.waiting;
    while (*at != mine)
        at = &(*at)->next;
    *at = mine->next;
}

static void unlist(request *mine)
{
    pthread_mutex_lock(&requests.lock);
    take_out(mine);
    pthread_mutex_unlock(&requests.lock);
}

// As unlist, for one that was waited for too long: the answer may come still.
static void give_up(request *mine)
{
    request *late = mine->starts ? trp_alloc(sizeof *late) : NULL;
    pthread_mutex_lock(&requests.lock);
    take_out(mine);
    if (late != NULL && !mine->done) {
        *late = (request){.next = requests.waiting,
                          .process = mine->process,
                          .number = mine->number,
                          .late = true};
        requests.waiting = late;
        late = NULL;
    }
    pthread_mutex_unlock(&requests.lock);
    trp_free(late);
}

static int64_t limit_ns(void)
{
    return (int64_t)trp_self.options.request_timeout_ms * 1000000;
}

static _Thread_local int64_t thread_until_ns; // Of this thread's requests; 0: no other limit.

void trp_node_limit(int64_t until_ns)
{
    thread_until_ns = until_ns;
}

static int64_t sooner(int64_t until_ns)
{
    return thread_until_ns != 0 && thread_until_ns < until_ns ? thread_until_ns : until_ns;
}

static troupe_status ask_inside(trp_frame *frame, request *mine);

// Whether the node process answers at all.
static bool node_answers(void)
{
    request mine = {.until_ns = sooner(trp_clock_ns() + limit_ns())};
    trp_frame frame = {.method = TRP_ASK_PING};
    return ask_inside(&frame, &mine) == TROUPE_OK;
}

static troupe_status too_late(const request *mine)
{
    int pid = trp_process_pid(TRP_PROCESS_NODE);
    if (trp_process_is_far(mine->process))
        return troupe_fail(TROUPE_TIMED_OUT,
                           "another node is there, but has not answered a request within %d ms",
                           FAR_TIMEOUTS * trp_self.options.node_timeout_ms);
    return troupe_fail(TROUPE_TIMED_OUT, "the node process (pid %d) has not answered in time%s",
                       pid, trp_process_is_stopped(pid) ? ": it is stopped" : "");
}

static void tell_slow(trp_slow *slow, const request *mine)
{
    int pid = trp_process_pid(TRP_PROCESS_NODE);
    const char *stopped = trp_process_is_stopped(pid) ? ", which is stopped" : "";
    if (trp_process_is_far(mine->process) || (mine->joins && stopped[0] == '\0'))
        trp_slow_tell(slow, "the answer of another node");
    else if (mine->tells && stopped[0] == '\0')
        trp_slow_later(slow);
    else
        trp_slow_tell(slow, "the answer of the node process (pid %d)%s", pid, stopped);
}

// Waits for the answer to what was sent, or was not. Inside the gate.
static troupe_status await_answer(request *mine, troupe_status sent)
{
    bool late = false;
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_NODE);
    int64_t until_ns = mine->until_ns != 0 ? mine->until_ns : trp_clock_ns() + limit_ns();
    // Lost between the check before and the registration: nobody would end this wait.
    while (sent == TROUPE_OK && !mine->done && !trp_self.runtime_lost && !late) {
        if (trp_slow_is_due(&slow))
            tell_slow(&slow, mine);
        trp_park(&mine->done, 0,
                 trp_self.local ? trp_clock_ns() + LOCAL_LOOK_NS : trp_slow_until(&slow, until_ns));
        if (trp_self.local)
            trp_node_tick_here();
        late = !mine->done && trp_clock_ns() >= until_ns;
        if (late && mine->until_ns == 0 && node_answers()) { // It has good reason, then.
            until_ns = trp_clock_ns() + limit_ns();
            late = false;
        }
    }
    trp_slow_end(&slow);
    if (late)
        give_up(mine);
    else
        unlist(mine);
    if (sent != TROUPE_OK)
        return sent;
    if (!mine->done && late && !trp_self.runtime_lost)
        return too_late(mine);
    if (!mine->done)
        return trp_process_check();
    return mine->status == TROUPE_OK ? TROUPE_OK : troupe_fail(mine->status, "%s", mine->text);
}

// Sends the request and waits for its answer. Inside the gate.
static troupe_status ask_inside(trp_frame *frame, request *mine)
{
    frame->call = enlist(mine);
    return await_answer(mine, trp_request_send(frame));
}

// As long as it takes.
static troupe_status ask_patiently(trp_frame *frame, request *mine)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    troupe_status status = ask_inside(frame, mine);
    trp_process_leave();
    return status;
}

troupe_status trp_request_ask(trp_frame *frame, request *mine)
{
    mine->until_ns = sooner(trp_clock_ns() + limit_ns());
    return ask_patiently(frame, mine);
}

// Waits until the worker that the node has named is ready. Inside the gate.
static troupe_status await_worker(const request *mine, int64_t until_ns, uint32_t *process,
                                  uint64_t *incarnation)
{
    uint32_t slot = (uint32_t)mine->target;
    troupe_status status = trp_worker_await(slot, mine->schema, until_ns);
    if (status == TROUPE_OK) {
        *process = slot;
        *incarnation = mine->schema;
    } else if (mine->starts && status == TROUPE_TIMED_OUT) {
        trp_request_end(slot, mine->schema, "was ended: it did not start in time");
    }
    return status;
}

troupe_status trp_node_worker(bool isolated, uint32_t *process, uint64_t *incarnation)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    request mine = {.until_ns = sooner(trp_clock_ns() + limit_ns()), .starts = isolated};
    trp_frame frame = {.method = TRP_ASK_WORKER, .target = isolated};
    troupe_status status = ask_inside(&frame, &mine);
    if (status == TROUPE_OK)
        status = await_worker(&mine, thread_until_ns, process, incarnation);
    trp_process_leave();
    return status;
}

troupe_status trp_request_ask_far(uint32_t node, trp_frame *frame, request *mine)
{
    uint64_t incarnation;
    int64_t limit_ms = (int64_t)FAR_TIMEOUTS * trp_self.options.node_timeout_ms;
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    troupe_status status = trp_node_process(node, &mine->process, &incarnation);
    if (status == TROUPE_OK) {
        frame->kind = TRP_FRAME_ASK;
        frame->call = enlist(mine);
        status = trp_process_send(mine->process, incarnation, frame, 0);
        mine->until_ns = sooner(trp_clock_ns() + limit_ms * 1000000);
        if (status == TROUPE_OK)
            status = await_answer(mine, TROUPE_OK);
        else
            unlist(mine);
    }
    trp_process_leave();
    return status;
}

troupe_status trp_node_where(uint32_t node, uint32_t slot, uint64_t incarnation, char *address)
{
    request mine = {0};
    trp_frame frame = {.method = TRP_ASK_WHERE, .target = slot, .schema = incarnation};
    TROUPE_TRY(trp_request_ask_far(node, &frame, &mine));
    if (!trp_address_read(mine.value, mine.value_size, address)) // Nobody here looks up names.
        return troupe_fail(TROUPE_MALFORMED, "another node's answer is no address in numbers");
    return TROUPE_OK;
}

static troupe_status ask_address(trp_ask what, const char *address)
{
    request mine = {.until_ns = trp_clock_ns() + limit_ns(), .joins = what == TRP_ASK_JOIN};
    if (mine.joins)
        mine.until_ns += (int64_t)FAR_TIMEOUTS * trp_self.options.node_timeout_ms * 1000000;
    trp_frame frame = {.method = what, .body = address, .body_size = strlen(address)};
    return ask_patiently(&frame, &mine);
}

troupe_status trp_node_join(const char *address, const char *numeric)
{
    char both[2 * TRP_NODE_ADDRESS_MAX];
    snprintf(both, sizeof both, "%s %s", address, numeric);
    return ask_address(TRP_ASK_JOIN, both);
}

troupe_status trp_node_leave(const char *address)
{
    return ask_address(TRP_ASK_LEAVE, address);
}

static void write_want(const trp_want *want, trp_buffer *body)
{
    trp_write_array(body, 7);
    trp_write_uint(body, (uint64_t)want->cpus);
    trp_write_uint(body, (uint64_t)want->gpus);
    trp_write_uint(body, (uint64_t)want->memory_bytes);
    trp_write_text(body, want->resources);
    trp_write_uint(body, want->wait_ms);
    trp_write_text(body, want->who);
    trp_write_bool(body, want->patient);
}

// Sends a request for which this thread does not wait now.
static troupe_status begin_request(request *mine, trp_frame *frame)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    frame->call = enlist(mine);
    troupe_status status = trp_request_send(frame); // The answer may be here before this returns.
    trp_process_leave();
    return status;
}

troupe_status trp_node_worker_begin(const char *env, const char *folder, trp_worker_ask *ask)
{
    int64_t begun_ns = trp_clock_ns();
    request *mine = trp_alloc(sizeof *mine);
    trp_buffer body = {0};
    trp_frame frame = {.method = TRP_ASK_WORKER, .target = true};
    if (env != NULL || folder != NULL) {
        trp_write_array(&body, 2);
        trp_write_text(&body, env);
        trp_write_text(&body, folder);
        frame.body = body.data;
        frame.body_size = body.size;
    }
    troupe_status status = mine == NULL || body.failed
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a request")
                               : begin_request(mine, &frame);
    trp_buffer_free(&body);
    if (status == TROUPE_OK) {
        mine->until_ns = begun_ns + limit_ns();
        mine->starts = true;
        ask->request = mine;
        return TROUPE_OK;
    }
    if (frame.call != 0)
        unlist(mine);
    trp_free(mine);
    return status;
}

troupe_status trp_node_worker_end(trp_worker_ask *ask, uint32_t *process, uint64_t *incarnation)
{
    request *mine = ask->request;
    troupe_status status = trp_process_enter();
    ask->request = NULL;
    if (status == TROUPE_OK) {
        mine->until_ns = sooner(mine->until_ns);
        status = await_answer(mine, TROUPE_OK);
        if (status == TROUPE_OK)
            status = await_worker(mine, thread_until_ns, process, incarnation);
        trp_process_leave();
    } else {
        unlist(mine);
    }
    trp_free(mine);
    return status;
}

troupe_status trp_node_claim_begin(const trp_want *want, trp_claimed claimed, void *user,
                                   uint64_t *number)
{
    trp_buffer body = {0};
    request *mine = trp_alloc(sizeof *mine);
    write_want(want, &body);
    if (mine == NULL || body.failed) {
        trp_buffer_free(&body);
        trp_free(mine);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim");
    }
    mine->claimed = claimed;
    mine->user = user;
    trp_frame frame = {.method = TRP_ASK_CLAIM, .body = body.data, .body_size = body.size};
    troupe_status status = begin_request(mine, &frame);
    trp_buffer_free(&body);
    *number = frame.call;
    if (status != TROUPE_OK && *number != 0)
        trp_node_claim_abandon(*number);
    else if (status != TROUPE_OK)
        trp_free(mine);
    return status;
}

// The node need not answer it any more.
static void abandon(uint64_t number)
{
    trp_frame frame = {.method = TRP_ASK_CLAIM_DROP, .schema = number};
    trp_request_tell(&frame);
}

void trp_node_claim_abandon(uint64_t number)
{
    request *found = NULL;
    pthread_mutex_lock(&requests.lock);
    for (request **at = &requests.waiting; *at != NULL && found == NULL; at = &(*at)->next)
        if ((*at)->number == number) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&requests.lock);
    if (found == NULL)
        return;
    trp_free(found);
    abandon(number);
}

troupe_status trp_node_claim(const trp_want *want, uint64_t *claim, char gpus[TRP_CLAIM_GPUS_MAX])
{
    trp_buffer body = {0};
    request mine = {.until_ns = thread_until_ns, .tells = true};
    write_want(want, &body);
    trp_frame frame = {.method = TRP_ASK_CLAIM, .body = body.data, .body_size = body.size};
    troupe_status status = body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim")
                                       : ask_patiently(&frame, &mine);
    trp_buffer_free(&body);
    if (status == TROUPE_TIMED_OUT && !mine.done)
        abandon(frame.call);
    TROUPE_TRY(status);
    *claim = mine.target;
    memcpy(gpus, mine.value, mine.value_size);
    gpus[mine.value_size < TRP_CLAIM_GPUS_MAX ? mine.value_size : TRP_CLAIM_GPUS_MAX - 1] = '\0';
    return TROUPE_OK;
}

troupe_status trp_node_claim_give(uint64_t claim, uint32_t process, uint64_t incarnation)
{
    trp_buffer body = {0};
    trp_write_uint(&body, process);
    request mine = {0};
    trp_frame frame = {.method = TRP_ASK_CLAIM_GIVE,
                       .target = claim,
                       .schema = incarnation,
                       .body = body.data,
                       .body_size = body.size};
    troupe_status status = body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim")
                                       : trp_request_ask(&frame, &mine);
    trp_buffer_free(&body);
    return status;
}

void trp_node_claim_drop(uint64_t claim)
{
    trp_frame frame = {.method = TRP_ASK_CLAIM_DROP, .target = claim};
    trp_request_tell(&frame);
}

troupe_status trp_node_claims(trp_buffer *list)
{
    request mine = {.whole = list};
    trp_frame frame = {.method = TRP_ASK_CLAIM_LIST};
    TROUPE_TRY(trp_request_ask(&frame, &mine));
    return list->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a list") : TROUPE_OK;
}

troupe_status trp_node_stop(int64_t left_ms)
{
    trp_frame frame = {.method = TRP_ASK_STOP, .schema = (uint64_t)left_ms};
    return trp_request_send(&frame);
}
