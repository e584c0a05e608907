// request.c: requests to node processes and their answers (see request.h): the table of those under
// way; the poller hands the answers to the threads that wait.
#include <runtime/link/request.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/slow.h>
#include <runtime/link/ask.h>
#include <runtime/link/park.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <string.h>

enum {
    LOCAL_LOOK_NS = 20000000,
};

trp_request_service trp_request_here;

static struct {
    pthread_mutex_t lock;
    trp_node_request *waiting;
    uint64_t last_number;
} requests = {.lock = PTHREAD_MUTEX_INITIALIZER};

// With the lock held, without which the request does not end.
static void finish(trp_node_request *done)
{
    atomic_store(&done->done, 1);
    trp_unpark(&done->done, 1);
}

// Tells those for whom nobody waits, and forgets them. With the lock held.
static void tell_claimed(void)
{
    for (trp_node_request **at = &requests.waiting; *at != NULL;) {
        trp_node_request *it = *at;
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

void trp_request_answered(const trp_frame *frame)
{
    pthread_mutex_lock(&requests.lock);
    for (trp_node_request *it = requests.waiting; it != NULL; it = it->next) {
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

void trp_requests_lost(void)
{
    pthread_mutex_lock(&requests.lock);
    for (trp_node_request *it = requests.waiting; it != NULL; it = it->next) {
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

void trp_requests_lost_by(uint32_t process)
{
    if (process == TRP_PROCESS_NODE) // Whose end is told by trp_requests_lost.
        return;
    pthread_mutex_lock(&requests.lock);
    for (trp_node_request *it = requests.waiting; it != NULL; it = it->next) {
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
        frame->from = trp_self.slot;
        frame->from_incarnation = trp_self.incarnation;
        trp_request_here.serve(frame);
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

uint64_t trp_request_enlist(trp_node_request *mine)
{
    pthread_mutex_lock(&requests.lock);
    uint64_t number = mine->number = ++requests.last_number;
    mine->next = requests.waiting;
    requests.waiting = mine;
    pthread_mutex_unlock(&requests.lock);
    return number;
}

// With the lock held. From here on nothing is written into it, however late it comes.
static void take_out(trp_node_request *mine)
{
    trp_node_request **at = &requests.waiting;
    while (*at != mine)
        at = &(*at)->next;
    *at = mine->next;
}

void trp_request_unlist(trp_node_request *mine)
{
    pthread_mutex_lock(&requests.lock);
    take_out(mine);
    pthread_mutex_unlock(&requests.lock);
}

// As trp_request_unlist, for one that was waited for too long: the answer may come still.
static void give_up(trp_node_request *mine)
{
    trp_node_request *late = mine->starts ? trp_alloc(sizeof *late) : NULL;
    pthread_mutex_lock(&requests.lock);
    take_out(mine);
    if (late != NULL && !mine->done) {
        *late = (trp_node_request){.next = requests.waiting,
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

void trp_request_limit(int64_t until_ns)
{
    thread_until_ns = until_ns;
}

int64_t trp_request_limited_until(void)
{
    return thread_until_ns;
}

int64_t trp_request_sooner(int64_t until_ns)
{
    return thread_until_ns != 0 && thread_until_ns < until_ns ? thread_until_ns : until_ns;
}

int64_t trp_request_until(void)
{
    return trp_request_sooner(trp_clock_ns() + limit_ns());
}

// Whether the node process answers at all.
static bool node_answers(void)
{
    trp_node_request mine = {.until_ns = trp_request_until()};
    trp_frame frame = {.method = TRP_ASK_PING};
    return trp_request_ask_inside(&frame, &mine) == TROUPE_OK;
}

static troupe_status too_late(const trp_node_request *mine)
{
    int pid = trp_process_pid(TRP_PROCESS_NODE);
    if (mine->process != TRP_PROCESS_NODE)
        return troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                           "another node is there, but has not answered a request within %d ms",
                           TRP_REQUEST_FAR_TIMEOUTS * trp_self.options.node_timeout_ms);
    return troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                       "the node process (pid %d) has not answered in time%s", pid,
                       trp_process_is_stopped(pid) ? ": it is stopped" : "");
}

static void tell_slow(trp_slow *slow, const trp_node_request *mine)
{
    int pid = trp_process_pid(TRP_PROCESS_NODE);
    const char *stopped = trp_process_is_stopped(pid) ? ", which is stopped" : "";
    if (mine->process != TRP_PROCESS_NODE || (mine->joins && stopped[0] == '\0'))
        trp_slow_tell(slow, "the answer of another node");
    else if (mine->tells && stopped[0] == '\0')
        trp_slow_later(slow);
    else
        trp_slow_tell(slow, "the answer of the node process (pid %d)%s", pid, stopped);
}

troupe_status trp_request_await(trp_node_request *mine, troupe_status sent)
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
            trp_request_here.tick();
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
        trp_request_unlist(mine);
    if (sent != TROUPE_OK)
        return sent;
    if (!mine->done && late && !trp_self.runtime_lost)
        return too_late(mine);
    if (!mine->done)
        return trp_process_check();
    return mine->status == TROUPE_OK ? TROUPE_OK : troupe_fail(mine->status, "%s", mine->text);
}

troupe_status trp_request_ask_inside(trp_frame *frame, trp_node_request *mine)
{
    frame->call = trp_request_enlist(mine);
    return trp_request_await(mine, trp_request_send(frame));
}

troupe_status trp_request_ask_patiently(trp_frame *frame, trp_node_request *mine)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    troupe_status status = trp_request_ask_inside(frame, mine);
    trp_process_leave();
    return status;
}

troupe_status trp_request_ask(trp_frame *frame, trp_node_request *mine)
{
    mine->until_ns = trp_request_until();
    return trp_request_ask_patiently(frame, mine);
}

troupe_status trp_request_begin(trp_node_request *mine, trp_frame *frame)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    frame->call = trp_request_enlist(mine);
    troupe_status status = trp_request_send(frame); // The answer may be here before this returns.
    trp_process_leave();
    return status;
}

bool trp_request_abandon(uint64_t number)
{
    trp_node_request *found = NULL;
    pthread_mutex_lock(&requests.lock);
    for (trp_node_request **at = &requests.waiting; *at != NULL && found == NULL; at = &(*at)->next)
        if ((*at)->number == number) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&requests.lock);
    trp_free(found);
    return found != NULL;
}

// ---- ends of workers

void trp_request_end(uint32_t slot, uint64_t incarnation, const char *cause)
{
    trp_frame frame = trp_request_kill(slot, incarnation, cause);
    (void)trp_request_send(&frame);
}

trp_frame trp_request_kill(uint32_t process, uint64_t incarnation, const char *cause)
{
    return (trp_frame){.method = TRP_ASK_KILL,
                       .target = process,
                       .schema = incarnation,
                       .body = cause,
                       .body_size = strlen(cause)};
}

// ---- the other side

void trp_request_answer(const trp_frame *to, trp_frame *frame)
{
    frame->kind = TRP_FRAME_ANSWER;
    frame->call = to->call;
    if (trp_self.local)
        trp_request_answered(frame);
    else
        (void)trp_process_send(to->from, to->from_incarnation, frame, 0);
}

void trp_request_refuse(const trp_frame *to, troupe_status status)
{
    const char *text = troupe_last_error()->text;
    trp_request_answer(to, &(trp_frame){.status = status, .body = text, .body_size = strlen(text)});
}
