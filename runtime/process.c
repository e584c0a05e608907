// process.c: this process among the others of its node (see process.h): links to its peers, their
// windows, and the I/O thread.
//
// A link is the way to one incarnation of one peer: a DEALER, a sequence, and a window in messages
// and bytes that CALL and TELL frames take room in and that the receiver gives back once a message
// has left its mailbox. Links are never freed while the process runs (a peer's slot may be reused:
// then the link is renewed under its lock), so a pointer to one stays good.
#include <runtime/identity.h>
#include <runtime/process.h>

#include <errno.h>
#include <pthread.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/log.h>
#include <runtime/memory.h>
#include <runtime/transport.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    WINDOW_MESSAGES = 16384,
    WINDOW_BYTES = 64 << 20,
    CREDIT_MESSAGES = WINDOW_MESSAGES / 4, // Room is given back in pieces of this size.
    CREDIT_BYTES = WINDOW_BYTES / 4,
    FLUSH_LOOK_NS = 5000000,
    DEATH_DELAY_MS = 2,
};

typedef struct peer_link {
    pthread_mutex_t lock;
    pthread_cond_t room;
    uint64_t incarnation; // Of the peer; 0: not connected yet.
    bool dead, closing;
    trp_outbound *outbound;
    trp_buffer frame; // What is being written.
    uint64_t sequence_out;
    int64_t window_messages, window_bytes; // Room left.
    bool flushing; // Its peer has not said yet that everything sent has arrived.
    // Of what this process received from the peer: the I/O thread's and, guarded, the owed credit.
    uint64_t sequence_in;
    uint64_t owed_messages, owed_bytes;
} peer_link;

void (*trp_process_serve)(const trp_frame *frame);

static trp_handlers handlers;
static struct {
    pthread_mutex_t lock; // Held while a handler runs, so that trp_process_mute can wait for it.
    bool muted;
} delivery = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct {
    pthread_mutex_t lock; // Guards the making of links.
    peer_link *_Atomic peers[TRP_PROCESSES_MAX];
    pthread_t io_thread;
    bool io_started;
    int keeper_fd;
    _Atomic bool io_stop;
    _Atomic uint32_t flushed; // Rises when a peer says that everything has arrived.
    uint64_t refused;         // Frames that were not for us, repeated, or malformed.
} links = {.lock = PTHREAD_MUTEX_INITIALIZER, .keeper_fd = -1};

void trp_process_handlers_set(const trp_handlers *wanted)
{
    handlers = *wanted;
}

const trp_handlers *trp_process_handlers(void)
{
    return &handlers;
}

void trp_process_mute(void)
{
    pthread_mutex_lock(&delivery.lock);
    delivery.muted = true;
    pthread_mutex_unlock(&delivery.lock);
}

static void deliver_frame(const trp_frame *frame)
{
    pthread_mutex_lock(&delivery.lock);
    if (!delivery.muted && handlers.frame != NULL)
        handlers.frame(frame);
    pthread_mutex_unlock(&delivery.lock);
}

static void deliver_death(uint32_t process, uint64_t incarnation, const char *cause)
{
    pthread_mutex_lock(&delivery.lock);
    if (!delivery.muted && handlers.death != NULL)
        handlers.death(process, incarnation, cause);
    pthread_mutex_unlock(&delivery.lock);
}

// ---- links

static peer_link *link_of(uint32_t process)
{
    peer_link *peer = atomic_load(&links.peers[process]);
    if (peer != NULL)
        return peer;
    pthread_mutex_lock(&links.lock);
    peer = atomic_load(&links.peers[process]);
    if (peer == NULL && (peer = trp_alloc(sizeof *peer)) != NULL) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_mutex_init(&peer->lock, NULL);
        pthread_cond_init(&peer->room, &monotonic);
        pthread_condattr_destroy(&monotonic);
        atomic_store(&links.peers[process], peer);
    }
    pthread_mutex_unlock(&links.lock);
    if (peer == NULL)
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a link to process %u", process);
    return peer;
}

// Makes the link one to this incarnation. With its lock held.
static void link_renew(peer_link *peer, uint64_t incarnation)
{
    if (peer->incarnation == incarnation)
        return;
    if (peer->outbound != NULL)
        trp_outbound_close(peer->outbound, 0);
    peer->outbound = NULL;
    peer->incarnation = incarnation;
    peer->dead = peer->flushing = false;
    peer->sequence_out = peer->sequence_in = 0;
    peer->owed_messages = peer->owed_bytes = 0;
    peer->window_messages = WINDOW_MESSAGES;
    peer->window_bytes = WINDOW_BYTES;
    pthread_cond_broadcast(&peer->room);
}

static troupe_status dead(uint32_t process, const char *cause)
{
    return troupe_fail(TROUPE_NOT_EXECUTED, "process %u (pid %d) %s", process,
                       trp_process_pid(process), cause);
}

// Connects the link if it is not connected. With its lock held.
static troupe_status link_connect(peer_link *peer, uint32_t process, uint64_t incarnation)
{
    char cause[112] = "has ended", path[128];
    if (!trp_process_alive(process, incarnation, cause) || peer->dead)
        return dead(process, cause);
    if (peer->outbound != NULL)
        return TROUPE_OK;
    trp_socket_path(process, incarnation, path);
    if (access(path, F_OK) != 0) // ZeroMQ would try for ever.
        return trp_fail_errno(TROUPE_IO, "the socket %s of process %u cannot be reached", path,
                              process);
    peer->outbound = trp_outbound_open(path);
    return peer->outbound != NULL ? TROUPE_OK : TROUPE_IO;
}

static bool takes_room(const trp_frame *frame)
{
    return frame->kind == TRP_FRAME_CALL || frame->kind == TRP_FRAME_TELL;
}

// Waits for room in the window. With the lock held, which it gives up meanwhile.
static troupe_status link_room(peer_link *peer, uint32_t process, uint64_t incarnation,
                               const trp_frame *frame, int timeout_ms)
{
    if (!takes_room(frame))
        return TROUPE_OK;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    while (peer->incarnation == incarnation && !peer->dead && !peer->closing &&
           (peer->window_messages <= 0 || peer->window_bytes <= 0)) {
        int waited = timeout_ms == 0  ? ETIMEDOUT
                     : timeout_ms > 0 ? pthread_cond_timedwait(&peer->room, &peer->lock, &until)
                                      : pthread_cond_wait(&peer->room, &peer->lock);
        if (waited == ETIMEDOUT)
            return troupe_fail(TROUPE_BUSY,
                               "the window to process %u is full: %d messages or %d MiB wait there",
                               process, WINDOW_MESSAGES, WINDOW_BYTES >> 20);
    }
    if (peer->closing)
        return troupe_fail(TROUPE_NOT_EXECUTED, "the runtime was stopped before it was sent");
    if (peer->incarnation != incarnation || peer->dead) {
        char cause[112];
        (void)trp_process_alive(process, incarnation, cause);
        return dead(process, cause);
    }
    peer->window_messages--;
    peer->window_bytes -= (int64_t)frame->body_size;
    return TROUPE_OK;
}

static troupe_status link_send(peer_link *peer, uint32_t process, uint64_t incarnation,
                               trp_frame *frame, int timeout_ms)
{
    link_renew(peer, incarnation);
    TROUPE_TRY(link_connect(peer, process, incarnation));
    TROUPE_TRY(link_room(peer, process, incarnation, frame, timeout_ms));
    frame->from = trp_self.slot;
    frame->from_incarnation = trp_self.incarnation;
    frame->to_incarnation = incarnation;
    frame->sequence = ++peer->sequence_out;
    trp_frame_write(frame, &peer->frame);
    troupe_status status;
    if (!peer->frame.failed)
        status = trp_outbound_send(peer->outbound, &peer->frame);
    else
        status =
            troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes", frame->body_size);
    if (status != TROUPE_OK) { // It was not sent: it has no number and takes no room.
        trp_buffer_free(&peer->frame);
        peer->sequence_out--;
        if (takes_room(frame)) {
            peer->window_messages++;
            peer->window_bytes += (int64_t)frame->body_size;
        }
    }
    return status;
}

static troupe_status send_frame(uint32_t process, uint64_t incarnation, trp_frame *frame,
                                int timeout_ms)
{
    peer_link *peer = link_of(process);
    if (peer == NULL)
        return TROUPE_NO_MEMORY;
    // A link serves one incarnation: an old address must not renew it back.
    char cause[112];
    if (!trp_process_alive(process, incarnation, cause))
        return dead(process, cause);
    pthread_mutex_lock(&peer->lock);
    troupe_status status = link_send(peer, process, incarnation, frame, timeout_ms);
    pthread_mutex_unlock(&peer->lock);
    return status;
}

troupe_status trp_process_send(uint32_t process, uint64_t incarnation, trp_frame *frame,
                               int timeout_ms)
{
    if (process >= TRP_PROCESSES_MAX)
        return troupe_fail(TROUPE_NOT_EXECUTED, "process %u never existed", process);
    if (frame->body_size > trp_self.options.message_bytes_max)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "a message of %zu bytes is above the limit of %zu (message_bytes_max)",
                           frame->body_size, trp_self.options.message_bytes_max);
    TROUPE_TRY(trp_process_enter());
    troupe_status status = send_frame(process, incarnation, frame, timeout_ms);
    trp_process_leave();
    return status;
}

void trp_process_credit(uint32_t process, uint64_t incarnation, size_t body_size)
{
    peer_link *peer = process < TRP_PROCESSES_MAX ? link_of(process) : NULL;
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    if (peer->incarnation == incarnation && !peer->dead) {
        peer->owed_messages++;
        peer->owed_bytes += body_size;
        if (peer->owed_messages >= CREDIT_MESSAGES || peer->owed_bytes >= CREDIT_BYTES) {
            trp_frame credit = {
                .kind = TRP_FRAME_CREDIT, .call = peer->owed_messages, .schema = peer->owed_bytes};
            peer->owed_messages = peer->owed_bytes = 0;
            (void)link_send(peer, process, incarnation, &credit, 0);
        }
    }
    pthread_mutex_unlock(&peer->lock);
}

// ---- frames in

// Whether the frame is from a live incarnation and the next of its link; notes its sequence.
static bool accept_frame(const trp_frame *frame)
{
    if (frame->to_incarnation != trp_self.incarnation || frame->from >= TRP_PROCESSES_MAX)
        return false;
    peer_link *peer = link_of(frame->from);
    if (peer == NULL)
        return false;
    pthread_mutex_lock(&peer->lock);
    // What a process sent before it died counts until its death is told.
    bool known = peer->incarnation == frame->from_incarnation;
    if (!known && trp_process_alive(frame->from, frame->from_incarnation, NULL)) {
        link_renew(peer, frame->from_incarnation);
        known = true;
    }
    bool fresh = known && frame->sequence > peer->sequence_in && !peer->dead;
    if (fresh && frame->sequence != peer->sequence_in + 1)
        trp_log(TRP_ERROR, "%llu frames from process %u were lost",
                (unsigned long long)(frame->sequence - peer->sequence_in - 1), frame->from);
    if (fresh)
        peer->sequence_in = frame->sequence;
    pthread_mutex_unlock(&peer->lock);
    return fresh;
}

static void take_credit(const trp_frame *frame)
{
    peer_link *peer = link_of(frame->from);
    pthread_mutex_lock(&peer->lock);
    peer->window_messages += (int64_t)frame->call;
    peer->window_bytes += (int64_t)frame->schema;
    if (peer->window_messages > WINDOW_MESSAGES)
        peer->window_messages = WINDOW_MESSAGES;
    if (peer->window_bytes > WINDOW_BYTES)
        peer->window_bytes = WINDOW_BYTES;
    pthread_cond_broadcast(&peer->room);
    pthread_mutex_unlock(&peer->lock);
}

void trp_process_forget(uint32_t process, uint64_t incarnation)
{
    peer_link *peer = atomic_load(&links.peers[process]);
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    if (peer->incarnation == incarnation) {
        peer->dead = true;
        if (peer->outbound != NULL) // It would try to reconnect for ever.
            trp_outbound_close(peer->outbound, 0);
        peer->outbound = NULL;
        pthread_cond_broadcast(&peer->room);
    }
    pthread_mutex_unlock(&peer->lock);
}

static void take_death(uint32_t process, uint64_t incarnation)
{
    if (process >= TRP_PROCESSES_MAX)
        return;
    trp_process_forget(process, incarnation);
    char cause[112];
    if (!trp_process_alive(process, incarnation, cause))
        deliver_death(process, incarnation, cause);
}

// A death is told a little after its notice: the notice comes over another connection than the last
// frames of the dead process, and may be faster than they are. The I/O thread's alone.
static struct {
    size_t count;
    struct {
        uint32_t process;
        uint64_t incarnation;
        int64_t due_ns;
    } items[64];
} deaths;

static void defer_death(uint32_t process, uint64_t incarnation)
{
    if (deaths.count == sizeof deaths.items / sizeof deaths.items[0]) {
        take_death(process, incarnation);
        return;
    }
    deaths.items[deaths.count].process = process;
    deaths.items[deaths.count].incarnation = incarnation;
    deaths.items[deaths.count++].due_ns = trp_clock_ns() + (int64_t)DEATH_DELAY_MS * 1000000;
}

// Tells the deaths whose time has come. After every frame that was there has been taken.
static void tell_deaths(void)
{
    size_t told = 0;
    while (told < deaths.count && deaths.items[told].due_ns <= trp_clock_ns()) {
        take_death(deaths.items[told].process, deaths.items[told].incarnation);
        told++;
    }
    deaths.count -= told;
    memmove(deaths.items, deaths.items + told, deaths.count * sizeof deaths.items[0]);
}

// The peer asks whether everything has arrived here, or says that everything has there.
static void take_flush(const trp_frame *frame)
{
    peer_link *peer = link_of(frame->from);
    pthread_mutex_lock(&peer->lock);
    trp_frame answer = {.kind = TRP_FRAME_FLUSH, .call = 1};
    if (frame->call == 0)
        (void)link_send(peer, frame->from, frame->from_incarnation, &answer, 0);
    else
        peer->flushing = false;
    pthread_mutex_unlock(&peer->lock);
    if (frame->call != 0) {
        links.flushed++;
        trp_wake(&links.flushed);
    }
}

// Whether a living peer has not said yet that everything has arrived; `ask` sends the question.
static bool flush_links(bool ask)
{
    bool awaited = false;
    for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++) {
        peer_link *peer = atomic_load(&links.peers[slot]);
        if (peer == NULL)
            continue;
        pthread_mutex_lock(&peer->lock);
        trp_frame question = {.kind = TRP_FRAME_FLUSH};
        if (ask && peer->outbound != NULL)
            peer->flushing = link_send(peer, slot, peer->incarnation, &question, 0) == TROUPE_OK;
        awaited = awaited || (peer->flushing && trp_process_alive(slot, peer->incarnation, NULL));
        pthread_mutex_unlock(&peer->lock);
    }
    return awaited;
}

void trp_process_flush(int timeout_ms)
{
    int64_t give_up = trp_clock_ms() + timeout_ms;
    uint32_t seen = links.flushed;
    for (bool awaited = flush_links(true); awaited && trp_clock_ms() < give_up;) {
        trp_wait(&links.flushed, seen, FLUSH_LOOK_NS); // A peer may also die.
        seen = links.flushed;
        awaited = flush_links(false);
    }
}

static void serve(const trp_frame *frame)
{
    switch (frame->kind) {
    case TRP_FRAME_ANSWER:
        trp_node_answered(frame);
        break;
    case TRP_FRAME_DEATH:
        if (frame->from == TRP_PROCESS_NODE)
            defer_death(frame->method, frame->target);
        break;
    case TRP_FRAME_END:
        trp_self.ending = true;
        if (handlers.ending != NULL)
            handlers.ending();
        break;
    default:
        if (frame->kind >= TRP_FRAME_CALL)
            deliver_frame(frame);
        break;
    }
}

static void take_message(const void *data, size_t size)
{
    trp_frame frame;
    if (trp_frame_read(data, size, &frame) != TROUPE_OK) {
        links.refused++;
        if ((links.refused & (links.refused - 1)) == 0) // 1st, 2nd, 4th, ...: no flood of lines.
            trp_log(TRP_WARN, "%llu frames were refused so far; this one: %s",
                    (unsigned long long)links.refused, troupe_last_error()->text);
        return;
    }
    if (!accept_frame(&frame)) {
        links.refused++;
        return;
    }
    if (frame.kind == TRP_FRAME_CREDIT)
        take_credit(&frame);
    else if (frame.kind == TRP_FRAME_FLUSH)
        take_flush(&frame);
    else if (trp_process_serve != NULL)
        trp_process_serve(&frame);
    else
        serve(&frame);
}

void trp_process_drain(void)
{
    while (trp_transport_receive(take_message))
        continue;
}

// Whether there is a link to that incarnation whose death was not heard of.
static bool link_open(uint32_t process, uint64_t incarnation)
{
    peer_link *peer = atomic_load(&links.peers[process]);
    if (peer == NULL)
        return false;
    pthread_mutex_lock(&peer->lock);
    bool open = peer->incarnation == incarnation && !peer->dead;
    pthread_mutex_unlock(&peer->lock);
    return open;
}

// The keeper is gone and every other process of the node with it.
static void lose_runtime(void)
{
    trp_self.runtime_lost = true;
    trp_node_lost();
    for (uint32_t slot = TRP_PROCESS_DRIVER + 1; slot < TRP_PROCESSES_MAX; slot++) {
        trp_process_row *row = trp_segment_process(slot);
        if (row->state == TRP_PROCESS_STARTING || row->state == TRP_PROCESS_READY) {
            snprintf(row->cause, sizeof row->cause, "ended with its node's keeper");
            trp_process_row_set(slot, TRP_PROCESS_DEAD);
        } else if (!link_open(slot, row->incarnation)) {
            continue; // Else the node process died before it could tell of this death.
        }
        take_death(slot, row->incarnation);
    }
}

static void *io_main(void *unused)
{
    (void)unused;
    (void)prctl(PR_SET_NAME, "troupe-io");
    while (!links.io_stop) {
        bool keeper_ended = false;
        trp_transport_wait(links.keeper_fd, deaths.count > 0 ? DEATH_DELAY_MS : -1, &keeper_ended);
        trp_process_drain();
        tell_deaths();
        if (keeper_ended) {
            links.keeper_fd = -1;
            lose_runtime();
        }
    }
    return NULL;
}

troupe_status trp_process_open(void)
{
    enum { HEADER_MAX = 4096 };
    char path[128];
    trp_socket_path(trp_self.slot, trp_self.incarnation, path);
    TROUPE_TRY(trp_transport_open(path, trp_self.options.message_bytes_max + HEADER_MAX));
    trp_process_gate_open();
    trp_segment_process(trp_self.slot)->pid = getpid();
    trp_process_row_set(trp_self.slot, TRP_PROCESS_READY);
    return TROUPE_OK;
}

troupe_status trp_process_io_start(int keeper_fd)
{
    links.keeper_fd = keeper_fd;
    links.io_stop = false;
    deaths.count = 0;
    delivery.muted = false;
    sigset_t all, before; // The user's signal handlers run on the user's threads.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&links.io_thread, NULL, io_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "the I/O thread could not be started: %s",
                           strerror(failed));
    links.io_started = true;
    return TROUPE_OK;
}

void trp_process_io_stop(void)
{
    if (!links.io_started)
        return;
    links.io_stop = true;
    trp_transport_wake();
    pthread_join(links.io_thread, NULL);
    links.io_started = false;
}

// Makes those who wait for a peer give up, and waits until nobody uses a link.
static void empty_links(void)
{
    trp_process_gate_close();
    trp_node_lost();
    for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++) {
        peer_link *peer = atomic_load(&links.peers[slot]);
        if (peer == NULL)
            continue;
        pthread_mutex_lock(&peer->lock);
        peer->closing = true;
        pthread_cond_broadcast(&peer->room);
        pthread_mutex_unlock(&peer->lock);
    }
    trp_process_gate_await(1000);
}

void trp_process_close(int linger_ms)
{
    empty_links();
    for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++) {
        peer_link *peer = atomic_exchange(&links.peers[slot], NULL);
        if (peer == NULL)
            continue;
        bool gone = peer->dead || !trp_process_alive(slot, peer->incarnation, NULL);
        if (peer->outbound != NULL)
            trp_outbound_close(peer->outbound, gone ? 0 : linger_ms);
        trp_buffer_free(&peer->frame);
        pthread_cond_destroy(&peer->room);
        pthread_mutex_destroy(&peer->lock);
        trp_free(peer);
    }
    trp_transport_close();
}
