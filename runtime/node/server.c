// server.c: the node process: the table of processes, the pool of workers, and deaths.
//
// It gives out the process table's rows (a starting process adds its pid, READY, its label and its
// last words), takes back what a dead process held in the store, and tells all processes of the
// death. When it dies, the keeper ends the node. Its main thread serves requests and another one
// hears the keeper, with one lock; where the carrier waits for descriptors anyway one thread does
// both.
#include <runtime/node/server.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/base/thread.h>
#include <runtime/codec/msgpack.h>
#include <runtime/host/worker_env.h>
#include <runtime/link/ask.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/keys.h>
#include <runtime/link/park.h>
#include <runtime/link/peer.h>
#include <runtime/link/request.h>
#include <runtime/node/admission.h>
#include <runtime/node/directory.h>
#include <runtime/node/exit_cause.h>
#include <runtime/node/node_client.h>
#include <runtime/node/orders.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/session.h>
#include <runtime/shm/carrier.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/reap.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RETRY_MS = 10, // Between tries to send what there was no room for.
    QUIET_MS = 2,  // Without a death, before a whole sweep.
};

typedef struct worker {
    uint64_t asked;      // How often it was given out.
    char kill_cause[64]; // Why it is being killed; empty: it is not.
    bool burying;        // It is dead, and what it held is not taken back yet.
} worker;

static struct {
    pthread_mutex_t lock;      // Of all of it.
    _Atomic uint32_t progress; // Changes when the main thread should look whether it is over.
    int keeper;
    worker workers[TRP_PROCESSES_MAX];
    uint32_t pool[TRP_PROCESSES_MAX]; // Slots of pool workers that live.
    uint32_t pool_size;
    uint32_t next_slot; // Where the search for a free slot begins.
    uint32_t slots;     // Those below have been used.
    uint32_t living;    // Workers that have not exited.
    bool stopping;
    int64_t stop_at_ms;
    uint32_t unswept; // Deaths since the last whole sweep. Of the thread that hears the keeper.
} node TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- answers

static void answer_ok(const trp_frame *to)
{
    trp_request_answer(to, &(trp_frame){.status = TROUPE_OK});
}

// ---- workers

// They take turns, so that the row of one that has died says why for as long as its death is in the
// list of the last ones; and no more of them than that, since what belongs to a slot has to be
// fetched into the caches, at first from the system.
static troupe_status free_slot(uint32_t *slot)
{
    enum { FIRST = TRP_PROCESS_DRIVER + 1 };
    uint32_t in_turn = FIRST + TRP_DEATHS + 2 * node.living;
    for (uint32_t tried = 0; tried < TRP_PROCESSES_MAX; tried++) {
        uint32_t candidate = node.next_slot, next = candidate + 1;
        node.next_slot = next < TRP_PROCESSES_MAX && next < in_turn ? next : FIRST;
        uint32_t state = trp_segment_process(candidate)->state;
        if ((state == TRP_PROCESS_FREE || state == TRP_PROCESS_DEAD) &&
            !node.workers[candidate].burying && !trp_store_is_taken_from(candidate)) {
            *slot = candidate;
            return TROUPE_OK;
        }
    }
    return troupe_fail(TROUPE_NO_MEMORY, "all %d places for processes of this node are taken",
                       TRP_PROCESSES_MAX);
}

static troupe_status start_worker(bool isolated, const char *env, const char *folder,
                                  uint32_t *slot)
{
    if (node.living >= trp_self.workers_max)
        return troupe_fail(TROUPE_NO_MEMORY,
                           "%u worker processes run, and the limit of descriptors (ulimit -Hn) has "
                           "no room for more",
                           node.living);
    TROUPE_TRY(trp_order_reserve(env, folder));
    TROUPE_TRY(free_slot(slot));
    TROUPE_TRY(trp_door_reset(*slot));
    if (node.slots <= *slot)
        node.slots = *slot + 1;
    trp_process_row *row = trp_segment_process(*slot);
    trp_process_row_begin(*slot, isolated);
    trp_store_admit(*slot);
    trp_process_row_set(*slot, TRP_PROCESS_STARTING);
    node.workers[*slot] = (worker){0};
    node.living++;
    trp_order_start(*slot, row->incarnation, isolated, env, folder);
    if (!isolated)
        node.pool[node.pool_size++] = *slot;
    return TROUPE_OK;
}

static troupe_status pool_worker(uint32_t *slot)
{
    if (trp_self.options.workers <= 0)
        return troupe_fail(
            TROUPE_UNSUPPORTED,
            "there is no pool of workers: troupe_start was given .workers = TROUPE_NONE");
    if (node.pool_size < (uint32_t)trp_self.options.workers &&
        (node.pool_size == 0 || node.living < trp_self.workers_max))
        return start_worker(false, "", "", slot);
    *slot = node.pool[0];
    for (uint32_t i = 1; i < node.pool_size; i++)
        if (node.workers[node.pool[i]].asked < node.workers[*slot].asked)
            *slot = node.pool[i];
    return TROUPE_OK;
}

static troupe_status start_isolated(const trp_frame *frame, uint32_t *slot)
{
    static char env[TRP_WORKER_ENV_MAX] TRP_VAST, folder[TRP_WORKER_FOLDER_MAX] TRP_VAST;
    env[0] = folder[0] = '\0';
    if (frame->body_size > 0) {
        trp_reader in = trp_reader_of(frame->body, frame->body_size);
        const char *texts[2];
        size_t sizes[2];
        uint32_t count;
        TROUPE_TRY(trp_read_array(&in, &count));
        for (int i = 0; i < 2; i++)
            TROUPE_TRY(trp_read_text(&in, &texts[i], &sizes[i]));
        if (count != 2 || sizes[0] >= sizeof env || sizes[1] >= sizeof folder)
            return troupe_fail(TROUPE_MALFORMED, "a request for a worker is malformed");
        snprintf(env, sizeof env, "%.*s", (int)sizes[0], sizes[0] > 0 ? texts[0] : "");
        snprintf(folder, sizeof folder, "%.*s", (int)sizes[1], sizes[1] > 0 ? texts[1] : "");
    }
    return start_worker(true, env, folder, slot);
}

static void serve_worker(const trp_frame *frame)
{
    uint32_t slot = 0;
    troupe_status status;
    if (node.stopping)
        status = troupe_fail(TROUPE_NOT_STARTED, "the node is being stopped");
    else if (trp_self.local && (frame->target != 0 || trp_self.options.workers > 0))
        status = TROUPE_OK, slot = TRP_PROCESS_DRIVER; // All that there is.
    else
        status = frame->target != 0 ? start_isolated(frame, &slot) : pool_worker(&slot);
    if (status != TROUPE_OK) {
        trp_request_refuse(frame, status);
        return;
    }
    node.workers[slot].asked++;
    trp_request_answer(frame, &(trp_frame){.status = TROUPE_OK,
                                           .target = slot,
                                           .schema = trp_segment_process(slot)->incarnation});
}

static void serve_kill(const trp_frame *frame)
{
    if (frame->target <= TRP_PROCESS_DRIVER || frame->target >= TRP_PROCESSES_MAX) {
        trp_request_refuse(frame, troupe_fail(TROUPE_INVALID, "process %llu cannot be killed",
                                              (unsigned long long)frame->target));
        return;
    }
    uint32_t slot = (uint32_t)frame->target;
    if (trp_process_alive(slot, frame->schema, NULL)) {
        (void)trp_printable_copy(frame->body, frame->body_size, node.workers[slot].kill_cause,
                                 sizeof node.workers[slot].kill_cause);
        trp_order_give(TRP_ORDER_KILL, slot, frame->schema);
    }
    answer_ok(frame);
}

// ---- deaths and the end

// Whom a death is told of these 64 processes: who has met the dead one, and the driver, which may
// have to start its actors again.
static uint64_t concerned(uint32_t slot, uint32_t word)
{
    uint64_t driver = word == TRP_PROCESS_DRIVER / 64 ? UINT64_C(1) << TRP_PROCESS_DRIVER % 64 : 0,
             node_process = word == 0 ? UINT64_C(1) << TRP_PROCESS_NODE : 0;
    return (atomic_load(&trp_door_of(slot)->met[word]) | driver) & ~node_process;
}

static void tell_death(uint32_t slot, uint64_t incarnation)
{
    const trp_near_carrier *near = trp_carriers.near;
    if (near->note_death != NULL)
        near->note_death(slot, incarnation);
    for (uint32_t word = 0; word * 64 < node.slots; word++)
        for (uint64_t bits = concerned(slot, word); bits != 0; bits &= bits - 1) {
            uint32_t peer = word * 64 + (uint32_t)__builtin_ctzll(bits);
            uint32_t state = trp_segment_process(peer)->state;
            if (state == TRP_PROCESS_READY || state == TRP_PROCESS_STARTING)
                near->tell_death(peer, state == TRP_PROCESS_READY, slot, incarnation);
        }
}

// The first half of what follows a death: from now on the process is dead for all.
static void lay_out(uint32_t slot, const char *cause)
{
    trp_process_row *row = trp_segment_process(slot);
    (void)trp_printable_copy(cause, strlen(cause), row->cause, sizeof row->cause);
    node.workers[slot].burying = true;
    trp_process_row_set(slot, TRP_PROCESS_DEAD);
    const trp_carrier *both[] = {&trp_carriers.near->carrier, trp_carriers.far};
    for (int i = 0; i < 2; i++)
        if (both[i]->forget != NULL)
            both[i]->forget(slot, row->incarnation);
    trp_process_forget(slot, row->incarnation);
    for (uint32_t i = 0; i < node.pool_size; i++)
        if (node.pool[i] == slot)
            node.pool[i--] = node.pool[--node.pool_size];
}

// The second half, when what it held has been taken back.
static void bury(uint32_t slot)
{
    const trp_process_row *row = trp_segment_process(slot);
    uint64_t incarnation = row->incarnation;
    trp_names_bury(slot, incarnation);
    node.living--;
    trp_admission_bury(slot, incarnation);
    if (!node.stopping)
        tell_death(slot, incarnation);
    trp_nodes_tell_death(incarnation, row->cause);
    node.workers[slot].burying = false;
}

// The next message of the keeper's: true, and *dead is the slot that it ends, or 0.
static bool hear(uint32_t *dead)
{
    trp_order message;
    char cause[112];
    ssize_t got = recv(node.keeper, &message, sizeof message, MSG_DONTWAIT);
    *dead = 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got != (ssize_t)sizeof message) // The keeper has gone; the node ends with it.
        _exit(1);
    if (message.kind == TRP_ORDER_STARTED && message.pid > 0) {
        trp_segment_process(message.slot)->pid = message.pid;
        return true;
    }
    *dead = message.slot;
    if (message.kind == TRP_ORDER_STARTED) {
        snprintf(cause, sizeof cause, "could not be made: %s", strerror(message.status));
    } else {
        trp_cause_note(message.slot, message.status, node.workers[message.slot].kill_cause, cause,
                       sizeof cause);
    }
    lay_out(message.slot, cause);
    return true;
}

// Of who takes back what the dead held, or frees what others have left to this process.
static pthread_mutex_t sweeping = PTHREAD_MUTEX_INITIALIZER;

static void *drain_main(void *unused)
{
    (void)unused;
    for (uint32_t seen = 0;;) {
        seen = trp_store_await_work(seen);
        pthread_mutex_lock(&sweeping);
        trp_store_drain();
        pthread_mutex_unlock(&sweeping);
    }
    return NULL;
}

// Takes what the keeper has said. Nobody waits for the lock while is taken back what the dead held.
static void hear_keeper(void)
{
    static uint32_t dead[TRP_PROCESSES_MAX] TRP_VAST;
    uint32_t count = 0;
    pthread_mutex_lock(&node.lock);
    while (count < TRP_PROCESSES_MAX && hear(&dead[count]))
        count += dead[count] != 0;
    bool stopping = node.stopping;
    pthread_mutex_unlock(&node.lock);
    if (count == 0)
        return;
    pthread_mutex_lock(&sweeping);
    if (stopping)
        trp_store_sweep_last(dead, count);
    else
        trp_store_sweep_soon(dead, count);
    pthread_mutex_unlock(&sweeping);
    pthread_mutex_lock(&node.lock);
    for (uint32_t i = 0; i < count; i++)
        bury(dead[i]);
    pthread_mutex_unlock(&node.lock);
    node.unswept += count;
}

// After deaths, when none was heard of for a moment or there were many: it takes long where many
// live. True: not yet.
static bool sweep_rest(bool quiet)
{
    enum { MANY = 64 };
    if (node.unswept >= MANY || (quiet && node.unswept > 0)) {
        node.unswept = 0;
        pthread_mutex_lock(&sweeping);
        trp_store_sweep_rest();
        pthread_mutex_unlock(&sweeping);
    }
    return node.unswept > 0;
}

static void begin_stop(uint64_t left_ms)
{
    uint64_t most_ms = (uint64_t)trp_self.options.stop_timeout_ms;
    if (node.stopping)
        return;
    node.stopping = true;
    trp_admission_stop();
    node.stop_at_ms = trp_clock_ms() + (int64_t)(left_ms < most_ms ? left_ms : most_ms);
    for (uint32_t slot = TRP_PROCESS_DRIVER + 1; slot < node.slots; slot++) {
        uint32_t state = trp_segment_process(slot)->state;
        uint64_t incarnation = trp_segment_process(slot)->incarnation;
        if (state == TRP_PROCESS_READY)
            trp_carriers.near->tell_end(slot);
        else if (state == TRP_PROCESS_STARTING) // No method runs there that should finish.
            trp_order_give(TRP_ORDER_KILL, slot, incarnation);
    }
}

// Says where a process of this node listens for others.
static void serve_where(const trp_frame *frame)
{
    char path[128], address[TRP_NODE_ADDRESS_MAX], cause[112];
    uint32_t slot = frame->target < TRP_PROCESSES_MAX ? (uint32_t)frame->target : TRP_PROCESSES_MAX;
    troupe_status status;
    if (slot == TRP_PROCESSES_MAX || !trp_process_alive(slot, frame->schema, cause)) {
        status = troupe_fail(TROUPE_NOT_EXECUTED, "process %u of node %s %s", slot,
                             trp_segment_nodes()->address,
                             slot == TRP_PROCESSES_MAX ? "never existed" : cause);
    } else {
        trp_far_path(slot, frame->schema, path);
        status = trp_text_read(path, address, sizeof address);
    }
    if (status != TROUPE_OK)
        trp_request_refuse(frame, status);
    else
        trp_request_answer(frame, &(trp_frame){.body = address, .body_size = strlen(address)});
}

// What another node may ask.
static bool may_ask(const trp_frame *frame)
{
    return !trp_process_is_far(frame->from) || frame->method == TRP_ASK_NAME_GET ||
           frame->method == TRP_ASK_WHERE || frame->method == TRP_ASK_KILL;
}

static void serve_ask(const trp_frame *frame)
{
    if (!may_ask(frame)) {
        trp_request_refuse(frame,
                           troupe_fail(TROUPE_UNSUPPORTED,
                                       "request %u is not for other nodes to make", frame->method));
        return;
    }
    switch (frame->method) {
    case TRP_ASK_WORKER:
        serve_worker(frame);
        break;
    case TRP_ASK_KILL:
        serve_kill(frame);
        break;
    case TRP_ASK_NAME_PUT:
    case TRP_ASK_NAME_GET:
    case TRP_ASK_NAME_DROP:
        trp_names_serve(frame);
        break;
    case TRP_ASK_JOIN:
    case TRP_ASK_LEAVE:
        trp_nodes_ask(frame);
        break;
    case TRP_ASK_PING:
        answer_ok(frame);
        break;
    case TRP_ASK_WHERE:
        serve_where(frame);
        break;
    case TRP_ASK_STOP:
        if (frame->from == TRP_PROCESS_DRIVER)
            begin_stop(frame->schema);
        break;
    default:
        if (trp_admission_serve(frame))
            break;
        trp_request_refuse(frame,
                           troupe_fail(TROUPE_UNSUPPORTED,
                                       "the node process does not know request %u", frame->method));
        break;
    }
}

static void serve(const trp_frame *frame)
{
    pthread_mutex_lock(&node.lock);
    if (frame->kind == TRP_FRAME_NODE && !trp_process_is_far(frame->from))
        trp_nodes_take(frame);
    // What a dead process had asked for is too late: its names and workers would be nobody's.
    if (frame->kind == TRP_FRAME_ASK &&
        trp_process_alive(frame->from, frame->from_incarnation, NULL))
        serve_ask(frame);
    // The main thread looks again for how long to wait; most likely it is the one that serves this.
    atomic_fetch_add(&node.progress, 1);
    pthread_mutex_unlock(&node.lock);
}

// Until when to wait; false: it is over.
static bool goes_on(int64_t *left_ms)
{
    pthread_mutex_lock(&node.lock);
    *left_ms = node.stopping ? node.stop_at_ms - trp_clock_ms() : trp_admission_tick();
    if (!trp_orders_flush() && (*left_ms < 0 || *left_ms > RETRY_MS))
        *left_ms = RETRY_MS;
    bool over = node.stopping && (*left_ms <= 0 || node.living == 0);
    pthread_mutex_unlock(&node.lock);
    return !over;
}

static void *hear_main(void *unused)
{
    (void)unused;
    struct pollfd keeper = {.fd = node.keeper, .events = POLLIN};
    for (bool more = false;;) {
        int heard = poll(&keeper, 1, more ? QUIET_MS : -1);
        if (heard > 0)
            hear_keeper();
        more = sweep_rest(heard == 0);
        if (heard <= 0)
            continue;
        atomic_fetch_add(&node.progress, 1);
        trp_unpark(&node.progress, 1);
    }
    return NULL;
}

static void start_thread(const char *name, void *(*main)(void *))
{
    pthread_t thread;
    if (trp_thread_start(&thread, name, main, NULL) == TROUPE_OK)
        return;
    trp_log(TRP_ERROR, "the node process could not start: %s", troupe_last_error()->text);
    _exit(1);
}

static void run(void)
{
    const trp_near_carrier *near = trp_carriers.near;
    int64_t left_ms;
    if (!near->hears_keeper)
        start_thread("troupe-deaths", hear_main);
    for (;;) {
        uint32_t seen = atomic_load(&node.progress);
        if (!goes_on(&left_ms))
            return;
        if (near->serve(node.keeper, &node.progress, seen, left_ms))
            hear_keeper();
        if (near->hears_keeper)
            (void)sweep_rest(true);
    }
}

// ---- without a process of its own

static void tick_here(void)
{
    pthread_mutex_lock(&node.lock);
    (void)trp_admission_tick();
    pthread_mutex_unlock(&node.lock);
}

void trp_node_reset_here(void)
{
    pthread_mutex_lock(&node.lock);
    trp_names_clear();
    node.stopping = false;
    trp_admission_reset();
    pthread_mutex_unlock(&node.lock);
    trp_request_here = (trp_request_service){.serve = serve, .tick = tick_here};
}

_Noreturn void trp_node_run(int keeper_socket)
{
    node.keeper = keeper_socket;
    trp_orders_open(keeper_socket);
    node.next_slot = node.slots = TRP_PROCESS_DRIVER + 1;
    trp_process_serve = serve;
    trp_self.slot = TRP_PROCESS_NODE;
    trp_self.incarnation = trp_segment_process(TRP_PROCESS_NODE)->incarnation;
    trp_store_open(TRP_PROCESS_NODE);
    const trp_carrier *far = trp_carriers.far;
    if (trp_process_open() != TROUPE_OK || (far->start != NULL && far->start(-1) != TROUPE_OK)) {
        trp_process_row *row = trp_segment_process(TRP_PROCESS_NODE);
        snprintf(row->cause, sizeof row->cause, "%.111s", troupe_last_error()->text);
        trp_process_row_set(TRP_PROCESS_NODE, TRP_PROCESS_DEAD);
        _exit(1);
    }
    start_thread("troupe-drain", drain_main);
    trp_cause_start(); // Before the first worker. The driver, which has waited for us, goes on.
    run();
    if (trp_listens()) {
        trp_nodes_leave_all();
        far->stop();
        far->close(); // Returns when what was said has left.
    }
    pthread_mutex_lock(&node.lock);
    trp_order_give(TRP_ORDER_QUIT, 0, 0);
    trp_orders_finish();
    pthread_mutex_unlock(&node.lock);
    for (;;) // The keeper ends us with the rest.
        pause();
}
