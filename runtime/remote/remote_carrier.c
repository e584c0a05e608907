// remote_carrier.c: sending to and hearing from processes of other nodes (see
// remote/remote_carrier.h): envelopes, links, and the thread that reads, says "still here", and
// finds gaps.
#include <runtime/remote/remote_carrier.h>

#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/printable.h>
#include <runtime/base/thread.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/frame_rules.h>
#include <runtime/link/keys.h>
#include <runtime/link/peer.h>
#include <runtime/link/resolve.h>
#include <runtime/link/zmq_carrier.h>
#include <runtime/link/zmq_remote.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/handshake.h>
#include <runtime/remote/remote_table.h>
#include <runtime/remote/session.h>
#include <runtime/remote/sessionless.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAUSES_MAX = 4096 }; // Of targets that a process of another node may pause.

static struct {
    pthread_t thread;
    bool open, started;
    _Atomic bool stop;
    char address[TRP_ENDPOINT_MAX]; // Where this process listens.
    trp_envelope current;           // Of the message that is being taken. Of the thread that reads.
} far;

// ---- envelopes

void trp_envelope_write(const trp_envelope *envelope, trp_buffer *out)
{
    trp_write_array(out, 3);
    trp_write_uint(out, TRP_FAR_VERSION);
    trp_write_uint(out, envelope->node);
    trp_write_uint(out, envelope->session);
}

troupe_status trp_envelope_read(trp_reader *in, trp_envelope *envelope)
{
    uint32_t count;
    uint64_t version, node, session;
    TROUPE_TRY(trp_read_array(in, &count));
    if (count == 0)
        return troupe_fail(TROUPE_MALFORMED, "an envelope without a protocol version");
    TROUPE_TRY(trp_read_uint(in, &version));
    if (version != TRP_FAR_VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "a node speaks version %llu of the protocol between nodes, this library "
                           "version %d",
                           (unsigned long long)version, TRP_FAR_VERSION);
    TROUPE_TRY(trp_read_uint(in, &node));
    TROUPE_TRY(trp_read_uint(in, &session));
    if (count != 3 || node == 0 || node > UINT32_MAX)
        return troupe_fail(TROUPE_MALFORMED, "an envelope of %u fields from node %llu", count,
                           (unsigned long long)node);
    *envelope = (trp_envelope){.node = (uint32_t)node, .session = session};
    return TROUPE_OK;
}

static troupe_status put(trp_outbound *outbound, uint64_t session, const trp_frame *frame,
                         trp_buffer *buffer)
{
    trp_envelope envelope = {.node = trp_process_node_id(), .session = session};
    buffer->size = 0;
    trp_envelope_write(&envelope, buffer);
    trp_frame_write(frame, buffer);
    if (!buffer->failed)
        return trp_outbound_send(outbound, buffer);
    trp_buffer_free(buffer);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes", frame->body_size);
}

// ---- out

static troupe_status put_next(trp_peer *peer, uint64_t session, trp_frame *frame)
{
    frame->sequence = ++peer->sequence_out;
    troupe_status status = put(peer->outbound, session, frame, &peer->frame);
    if (status == TROUPE_NO_MEMORY) // It was not sent: it has no number.
        peer->sequence_out--;
    return status;
}

static troupe_status connect_far(trp_peer *peer, const trp_frame *first, uint64_t session,
                                 const char *address)
{
    peer->outbound = trp_far_outbound_open(address);
    if (peer->outbound == NULL)
        return TROUPE_IO;
    trp_frame reach = {.kind = TRP_FRAME_REACH,
                       .from = first->from,
                       .from_incarnation = first->from_incarnation,
                       .to_incarnation = first->to_incarnation,
                       .body = far.address,
                       .body_size = strlen(far.address)};
    troupe_status status = put_next(peer, session, &reach);
    if (status != TROUPE_OK)
        trp_sockets_disconnect(peer, 0);
    else
        trp_far_wake(); // It beats from now on.
    return status;
}

static troupe_status send_frame(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    char address[TRP_NODE_ADDRESS_MAX];
    uint32_t slot;
    uint64_t session;
    if (!trp_far_place(process, &slot, &session, address))
        return troupe_fail(TROUPE_NOT_EXECUTED, "%s has ended", trp_process_text(process).text);
    // It would be refused there, and the number that it had be missed.
    if (!trp_frame_allowed(frame, true, slot == TRP_PROCESS_NODE))
        return troupe_fail(TROUPE_UNSUPPORTED, "a frame of kind %d does not go to other nodes",
                           (int)frame->kind);
    if (peer->outbound == NULL)
        TROUPE_TRY(connect_far(peer, frame, session, address));
    return put_next(peer, session, frame);
}

void trp_far_wake(void)
{
    if (far.open)
        trp_far_transport_wake();
}

// Each link says that it is there, so that what was lost before is missed.
static void beat_all(void)
{
    uint32_t end = TRP_PROCESSES_MAX + trp_far_count();
    for (uint32_t process = TRP_PROCESSES_MAX; process < end; process++) {
        trp_peer *peer = trp_peer_find(process);
        if (peer == NULL)
            continue;
        trp_frame beat = {.kind = TRP_FRAME_BEAT};
        pthread_mutex_lock(&peer->lock);
        if (peer->outbound != NULL && !peer->dead)
            (void)trp_peer_post(peer, process, &beat);
        pthread_mutex_unlock(&peer->lock);
    }
}

// ---- in

// Nothing of the session can be believed any more, or taken. Told once; again if it could not be,
// for want of memory say, with the next frame of the link.
static void break_session(uint64_t session, trp_node_break why)
{
    static uint64_t told; // Of the thread that reads.
    if (session == told)
        return;
    trp_frame frame = {
        .kind = TRP_FRAME_NODE, .method = TRP_NODE_BREAK, .schema = session, .call = (uint64_t)why};
    troupe_status status = TROUPE_OK;
    if (trp_process_serve != NULL)
        trp_nodes_take(&frame);
    else
        status = trp_process_send(TRP_PROCESS_NODE,
                                  trp_segment_process(TRP_PROCESS_NODE)->incarnation, &frame, 0);
    if (status == TROUPE_OK)
        told = session;
}

// Ends the session that has most of the numbers, so that who has few of them finds room; false: it
// is the one that wants another.
static bool make_room(void)
{
    uint64_t session = trp_far_larger(far.current.session);
    if (session == 0)
        return false;
    break_session(session, TRP_BREAK_CROWDED);
    trp_far_end(session, "cannot be reached any more: its node has a process more than one of this "
                         "node can talk with");
    return true;
}

// A process says where it is; the first that is heard of it.
static bool take_reach(const trp_frame *frame, bool *crowded)
{
    char address[TRP_NODE_ADDRESS_MAX];
    uint32_t number;
    if (frame->sequence != 1 || !trp_address_read(frame->body, frame->body_size, address))
        return false;
    troupe_status status;
    do
        status = trp_far_note_heard(far.current.node, far.current.session, frame->from,
                                    frame->from_incarnation, address, &number);
    while (status == TROUPE_BUSY && make_room());
    *crowded = status == TROUPE_BUSY;
    return status == TROUPE_OK;
}

// Whether a CALL or TELL finds room in the window that its sender was given. With the peer's lock
// held. The last message of a window may be larger than what is left of it.
static bool takes_room(trp_peer *peer, const trp_frame *frame)
{
    if (!trp_frame_takes_room(frame))
        return true;
    peer->taken_messages++;
    peer->taken_bytes += frame->body_size;
    return peer->taken_messages <= TRP_WINDOW_MESSAGES &&
           peer->taken_bytes - frame->body_size < TRP_WINDOW_BYTES;
}

// Whether the frame is the next of its link, and the sender's to send now.
static bool accept_next(trp_peer *peer, const trp_frame *frame)
{
    uint64_t missing = 0;
    bool room = true;
    pthread_mutex_lock(&peer->lock);
    trp_peer_renew(peer, frame->from_incarnation);
    bool fresh = frame->sequence > peer->sequence_in && !peer->dead;
    bool broken = peer->sequence_in == UINT64_MAX && !peer->dead;
    if (fresh)
        missing = frame->sequence - peer->sequence_in - 1;
    if (fresh && missing == 0)
        room = takes_room(peer, frame);
    if (fresh && missing == 0 && room)
        peer->sequence_in = frame->sequence;
    else if (fresh)
        peer->sequence_in = UINT64_MAX; // Nothing that comes after a gap is taken.
    pthread_mutex_unlock(&peer->lock);
    if (missing > 0)
        trp_log(TRP_ERROR, "%llu frames from %s were lost", (unsigned long long)missing,
                trp_process_text(frame->from).text);
    if (missing > 0 || !room)
        break_session(far.current.session, missing > 0 ? TRP_BREAK_LOST : TRP_BREAK_FLOODED);
    else if (broken) // It may not have been told yet.
        break_session(far.current.session, TRP_BREAK_LOST);
    return fresh && missing == 0 && room;
}

// Whether the frame is the next of its link; `from` becomes the sender's number here.
static bool accept_frame(trp_frame *frame)
{
    bool crowded = false;
    if (frame->to_incarnation != trp_self.incarnation || frame->from >= TRP_PROCESSES_MAX ||
        !trp_frame_allowed(frame, true, trp_process_serve != NULL))
        return false;
    if (frame->kind == TRP_FRAME_REACH && !take_reach(frame, &crowded)) {
        if (crowded) // Else who cannot be answered would wait for ever.
            break_session(far.current.session, TRP_BREAK_CROWDED);
        return false;
    }
    uint32_t number =
        trp_far_number(far.current.node, frame->from, far.current.session, frame->from_incarnation);
    trp_peer *peer = number != 0 ? trp_peer_of(number) : NULL;
    if (number != 0 && peer == NULL) // No memory.
        break_session(far.current.session, TRP_BREAK_CROWDED);
    if (peer == NULL)
        return false;
    frame->from = number;
    return accept_next(peer, frame);
}

static void take_frame(trp_frame *frame)
{
    uint32_t slot = frame->from;
    if (!accept_frame(frame)) {
        trp_process_refused(NULL);
        return;
    }
    if (trp_process_serve != NULL && slot == TRP_PROCESS_NODE)
        trp_nodes_heard(far.current.session);
    switch (frame->kind) {
    case TRP_FRAME_REACH:
    case TRP_FRAME_BEAT:
        break;
    case TRP_FRAME_FLUSH:
        trp_sockets_take_flush(frame);
        break;
    case TRP_FRAME_NODE:
        if (slot == TRP_PROCESS_NODE) {
            frame->schema = far.current.session;
            trp_nodes_take(frame);
        }
        break;
    default:
        trp_process_take(frame);
        break;
    }
}

static void take_message(const void *data, size_t size)
{
    trp_reader in = trp_reader_of(data, size);
    trp_frame frame;
    trp_node_row node;
    bool node_process = trp_process_serve != NULL;
    troupe_status status = trp_envelope_read(&in, &far.current);
    if (status == TROUPE_OK)
        status = trp_frame_read(in.at, (size_t)(in.end - in.at), &frame);
    if (status != TROUPE_OK) {
        trp_process_refused(troupe_last_error()->text);
        if (node_process && status == TROUPE_VERSION)
            trp_nodes_misunderstood(troupe_last_error()->text);
        return;
    }
    if (far.current.session == 0) {
        if (node_process && frame.kind == TRP_FRAME_NODE)
            trp_nodes_take_loose(far.current.node, &frame);
        else
            trp_process_refused("it belongs to no session");
    } else if (trp_node_row_of_session(far.current.session, &node) && node.id == far.current.node &&
               node.state != TRP_NODE_GONE) {
        take_frame(&frame);
    } else {
        trp_process_refused(NULL);
        if (node_process && frame.kind == TRP_FRAME_BEAT)
            trp_nodes_stale(far.current.node, far.current.session);
    }
}

static void take_gone(const trp_frame *frame)
{
    char cause[112];
    (void)trp_printable_copy(frame->body, frame->body_size, cause, sizeof cause);
    if (frame->target == 0) {
        trp_far_end(frame->schema, cause);
    } else {
        trp_far_doom(frame->schema, frame->target, cause);
        trp_far_wake();
    }
}

// Hands out some of what has come, so that neither this thread's other duties nor what comes from
// this node waits for who sends much. True: there may be more.
static bool drain(void)
{
    enum { BATCH = 64, BATCH_NS = 1000000 };
    troupe_error kept;
    trp_error_hold(&kept);
    bool more = true;
    trp_process_deliver_begin();
    int64_t until_ns = trp_clock_ns() + BATCH_NS;
    for (int i = 0; i < BATCH && more && trp_clock_ns() < until_ns; i++)
        more = trp_far_transport_receive(take_message);
    trp_process_deliver_pause();
    trp_process_deliver_end();
    trp_error_restore(&kept);
    return more;
}

// ---- the thread

// The smaller of two times, negative ones standing for ever.
static int sooner(int one, int other)
{
    return one < 0 ? other : other < 0 || one < other ? one : other;
}

static void *far_main(void *unused)
{
    (void)unused;
    int period_ms = trp_self.options.node_timeout_ms / TRP_FAR_BEATS;
    int64_t next_beat = trp_clock_ms() + period_ms;
    bool more = false;
    while (!atomic_load(&far.stop)) {
        int64_t now = trp_clock_ms();
        if (now >= next_beat) {
            beat_all();
            next_beat = now + period_ms;
        }
        int wait_ms = trp_far_count() > 0 ? (int)(next_beat - now) : -1;
        if (trp_process_serve != NULL)
            wait_ms = sooner(sooner(wait_ms, trp_nodes_tick()), trp_far_tick_loose());
        trp_process_deliver_begin();
        wait_ms = sooner(wait_ms, trp_far_tell_doomed());
        trp_process_deliver_end();
        trp_far_transport_wait(more ? 0 : wait_ms);
        more = drain();
    }
    return NULL;
}

void trp_far_path(uint32_t slot, uint64_t incarnation, char path[128])
{
    trp_socket_path(slot, incarnation, path);
    strcat(path, ".far");
}

static troupe_status open_far(void)
{
    char any_port[TRP_ENDPOINT_MAX], path[128];
    trp_node_table *nodes = trp_segment_nodes();
    bool node_process = trp_self.slot == TRP_PROCESS_NODE;
    bool told = trp_self.slot > TRP_PROCESS_DRIVER; // It may have the option as it was given.
    const char *listen = told ? nodes->listen : trp_self.options.listen;
    if (trp_self.slot == TRP_PROCESS_DRIVER)
        snprintf(nodes->listen, sizeof nodes->listen, "%s", listen);
    snprintf(any_port, sizeof any_port, "%.*s:0", (int)(strrchr(listen, ':') - listen), listen);
    TROUPE_TRY(trp_far_transport_open(
        &(trp_far_how){.address = node_process ? listen : any_port,
                       .keys_path = trp_self.options.keys,
                       .message_bytes_max =
                           TRP_FAR_FRAME_MAX + trp_self.options.node_message_bytes_max,
                       .strangers = &nodes->strangers},
        far.address));
    far.open = true;
    if (node_process) {
        snprintf(nodes->address, sizeof nodes->address, "%s", far.address);
        return TROUPE_OK;
    }
    trp_far_path(trp_self.slot, trp_self.incarnation, path);
    return trp_text_write(path, far.address);
}

static troupe_status start(int keeper_fd)
{
    (void)keeper_fd; // The other carrier hears it.
    atomic_store(&far.stop, false);
    TROUPE_TRY(trp_thread_start(&far.thread, "troupe-far", far_main, NULL));
    far.started = true;
    return TROUPE_OK;
}

static void stop(void)
{
    if (!far.started)
        return;
    atomic_store(&far.stop, true);
    trp_far_transport_wake();
    pthread_join(far.thread, NULL);
    far.started = false;
}

static void disconnect_all(void)
{
    uint32_t end = TRP_PROCESSES_MAX + trp_far_count();
    for (uint32_t process = TRP_PROCESSES_MAX; process < end; process++) {
        trp_peer *peer = trp_peer_find(process);
        if (peer == NULL)
            continue;
        pthread_mutex_lock(&peer->lock);
        trp_sockets_disconnect(peer, 0);
        pthread_mutex_unlock(&peer->lock);
    }
}

static void close_far(void)
{
    if (!far.open)
        return;
    far.open = false;
    disconnect_all(); // What is still open would keep the transport from closing.
    trp_far_close_loose();
    trp_far_transport_close();
    trp_far_forget_all();
}

// ---- the carrier

static void flush(int64_t give_up_ms)
{
    trp_sockets_flush(TRP_PROCESSES_MAX, TRP_PROCESSES_MAX + trp_far_count(), give_up_ms);
}

// Its node's node process will say that it has died.
static void meet(uint32_t process)
{
    (void)process;
}

static void forget(uint32_t process, uint64_t incarnation)
{
    char path[128];
    trp_far_path(process, incarnation, path);
    (void)unlink(path);
}

const trp_carrier trp_remote_carrier = {
    .name = "remote",
    .message_bytes_max = &trp_self.options.node_message_bytes_max,
    .limit = "between nodes: node_message_bytes_max",
    .pauses_max = PAUSES_MAX,
    .load = trp_transport_load,
    .open = open_far,
    .start = start,
    .flush = flush,
    .stop = stop,
    .close = close_far,
    .alive = trp_far_alive,
    .describe = trp_far_describe,
    .meet = meet,
    .send = send_frame,
    .disconnect = trp_sockets_disconnect,
    .forget = forget,
    .take = take_gone,
    .lose = trp_far_lose_all,
};
