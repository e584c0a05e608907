// sockets.c: see sockets.h; transport.c moves the bytes.
//
// Frames carry both incarnations and the link's sequence: what is for another one, from a dead one,
// or repeated is refused. The notice of a death comes over another connection than the last frames
// of who died and may be faster, so a death is told a little after it.
#include <runtime/sockets.h>

#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/identity.h>
#include <runtime/log.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    FLUSH_LOOK_NS = 5000000,
    DEATH_DELAY_MS = 2,
    HEADER_MAX = 4096,
};

static struct {
    pthread_t thread;
    bool started;
    int keeper_fd;
    _Atomic bool stop;
    _Atomic uint32_t flushed; // Rises when a peer says that everything has arrived.
    uint64_t refused;         // Frames that were not for us, repeated, or malformed.
} sockets = {.keeper_fd = -1};

// ---- out

static troupe_status connect_peer(trp_peer *peer, uint32_t process)
{
    char path[128];
    if (peer->outbound != NULL)
        return TROUPE_OK;
    trp_socket_path(process, peer->incarnation, path);
    if (access(path, F_OK) != 0) // ZeroMQ would try for ever.
        return trp_fail_errno(TROUPE_IO, "the socket %s of process %u cannot be reached", path,
                              process);
    peer->outbound = trp_outbound_open(path);
    return peer->outbound != NULL ? TROUPE_OK : TROUPE_IO;
}

troupe_status trp_sockets_send(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    TROUPE_TRY(connect_peer(peer, process));
    frame->sequence = ++peer->sequence_out;
    trp_frame_write(frame, &peer->frame);
    troupe_status status;
    if (!peer->frame.failed)
        status = trp_outbound_send(peer->outbound, &peer->frame);
    else
        status =
            troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes", frame->body_size);
    if (status != TROUPE_OK) { // It was not sent: it has no number.
        trp_buffer_free(&peer->frame);
        peer->sequence_out--;
    }
    return status;
}

void trp_sockets_disconnect(trp_peer *peer, int linger_ms)
{
    if (peer->outbound != NULL)
        trp_outbound_close(peer->outbound, linger_ms);
    peer->outbound = NULL;
}

// ---- in

// Whether the frame is from a live incarnation and the next of its link; notes its sequence.
static bool accept_frame(const trp_frame *frame)
{
    if (frame->to_incarnation != trp_self.incarnation || frame->from >= TRP_PROCESSES_MAX)
        return false;
    trp_peer *peer = trp_peer_of(frame->from);
    if (peer == NULL)
        return false;
    pthread_mutex_lock(&peer->lock);
    // What a process sent before it died counts until its death is told.
    bool known = peer->incarnation == frame->from_incarnation;
    if (!known && trp_process_alive(frame->from, frame->from_incarnation, NULL)) {
        trp_peer_renew(peer, frame->from_incarnation);
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

// A death is told a little after its notice. The I/O thread's alone.
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
        trp_process_died(process, incarnation);
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
    trp_process_deliver_begin();
    while (told < deaths.count && deaths.items[told].due_ns <= trp_clock_ns()) {
        trp_process_died(deaths.items[told].process, deaths.items[told].incarnation);
        told++;
    }
    trp_process_deliver_end();
    deaths.count -= told;
    memmove(deaths.items, deaths.items + told, deaths.count * sizeof deaths.items[0]);
}

// The peer asks whether everything has arrived here, or says that everything has there.
static void take_flush(const trp_frame *frame)
{
    trp_peer *peer = trp_peer_of(frame->from);
    trp_frame answer = {.kind = TRP_FRAME_FLUSH, .call = 1};
    pthread_mutex_lock(&peer->lock);
    if (frame->call == 0)
        (void)trp_peer_post(peer, frame->from, &answer);
    else
        peer->flushing = false;
    pthread_mutex_unlock(&peer->lock);
    if (frame->call != 0) {
        sockets.flushed++;
        trp_wake(&sockets.flushed);
    }
}

static void take_message(const void *data, size_t size)
{
    trp_frame frame;
    if (trp_frame_read(data, size, &frame) != TROUPE_OK) {
        sockets.refused++;
        if ((sockets.refused & (sockets.refused - 1)) == 0) // 1st, 2nd, 4th, ...: no flood.
            trp_log(TRP_WARN, "%llu frames were refused so far; this one: %s",
                    (unsigned long long)sockets.refused, troupe_last_error()->text);
        return;
    }
    if (!accept_frame(&frame)) {
        sockets.refused++;
        return;
    }
    if (frame.kind == TRP_FRAME_FLUSH)
        take_flush(&frame);
    else if (frame.kind == TRP_FRAME_DEATH && frame.from == TRP_PROCESS_NODE)
        defer_death(frame.method, frame.target);
    else
        trp_process_take(&frame);
}

void trp_sockets_drain(void)
{
    trp_process_deliver_begin();
    while (trp_transport_receive(take_message))
        continue;
    trp_process_deliver_end();
}

static void *io_main(void *unused)
{
    (void)unused;
    (void)prctl(PR_SET_NAME, "troupe-io");
    while (!sockets.stop) {
        bool keeper_ended = false;
        trp_transport_wait(sockets.keeper_fd, deaths.count > 0 ? DEATH_DELAY_MS : -1,
                           &keeper_ended);
        trp_sockets_drain();
        tell_deaths();
        if (keeper_ended) {
            sockets.keeper_fd = -1;
            trp_process_deliver_begin();
            trp_process_lost();
            trp_process_deliver_end();
        }
    }
    return NULL;
}

// ---- flushing

// Whether a living peer has not said yet that everything has arrived; `ask` sends the question.
static bool flush_peers(bool ask)
{
    bool awaited = false;
    for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++) {
        trp_peer *peer = trp_peer_find(slot);
        if (peer == NULL)
            continue;
        pthread_mutex_lock(&peer->lock);
        trp_frame question = {.kind = TRP_FRAME_FLUSH};
        if (ask && peer->outbound != NULL)
            peer->flushing = trp_peer_post(peer, slot, &question) == TROUPE_OK;
        awaited = awaited || (peer->flushing && trp_process_alive(slot, peer->incarnation, NULL));
        pthread_mutex_unlock(&peer->lock);
    }
    return awaited;
}

void trp_sockets_flush(int timeout_ms)
{
    int64_t give_up = trp_clock_ms() + timeout_ms;
    uint32_t seen = sockets.flushed;
    for (bool awaited = flush_peers(true); awaited && trp_clock_ms() < give_up;) {
        trp_wait(&sockets.flushed, seen, FLUSH_LOOK_NS); // A peer may also die.
        seen = sockets.flushed;
        awaited = flush_peers(false);
    }
}

// ---- start and end

troupe_status trp_sockets_open(void)
{
    char path[128];
    trp_socket_path(trp_self.slot, trp_self.incarnation, path);
    return trp_transport_open(path, trp_self.options.message_bytes_max + HEADER_MAX);
}

troupe_status trp_sockets_start(int keeper_fd)
{
    sigset_t all, before; // The user's signal handlers run on the user's threads.
    sockets.keeper_fd = keeper_fd;
    sockets.stop = false;
    deaths.count = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&sockets.thread, NULL, io_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "the I/O thread could not be started: %s",
                           strerror(failed));
    sockets.started = true;
    return TROUPE_OK;
}

void trp_sockets_stop(void)
{
    if (!sockets.started)
        return;
    sockets.stop = true;
    trp_transport_wake();
    pthread_join(sockets.thread, NULL);
    sockets.started = false;
}

void trp_sockets_close(void)
{
    trp_transport_close();
}
