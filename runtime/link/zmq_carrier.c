// zmq_carrier.c: see link/zmq_carrier.h; link/zmq.c moves the bytes.
//
// Frames carry both incarnations and the link's sequence: what is for another one, from a dead one,
// or repeated is refused. The notice of a death comes over another connection than the last frames
// of the dead process and may be faster, so a death is told a little after it.
#include <runtime/link/zmq_carrier.h>

#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/futex.h>
#include <runtime/base/log.h>
#include <runtime/base/thread.h>
#include <runtime/link/batch.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <unistd.h>

enum {
    FLUSH_LOOK_NS = 5000000,
    DEATH_DELAY_MS = 2,
    DEATH_FLOOD_MS = 1000, // In addition, while what others send does not end.
    DRAIN_MESSAGES = 64,   // At a time, so that the reader's other duties do not wait
    DRAIN_NS = 1000000,    // for who sends much.
    HEADER_MAX = 4096,
    LONE_NS = 20000,         // A frame that comes so long after the last ones is sent at once.
    BATCH = 30720,           // Bytes of frames that leave together; the last one may exceed it.
    KEPT_MAX = 4096,         // Of a link's buffer, once a burst is over.
    STAND_BACK_NS = 1000000, // Of the I/O thread, where others have read just now.
    BURST_NS = 1000000,      // So long after the last frames those that follow begin anew.
    WATCH_NS = 200000, // Of the I/O thread, between looks for frames that their sender has left:
    WATCH_MAX_NS = 1000000, // at most, where it finds none, since senders send them by themselves.
    WORDS = TRP_PROCESSES_MAX / 64,
};

static struct {
    pthread_t thread;
    bool started;
    int keeper_fd;
    _Atomic bool open, stop;
    _Atomic uint64_t gathered[WORDS]; // A bit a peer for which frames wait to leave.
    _Atomic uint32_t some;            // Whether there is any such bit, and the I/O thread was told.
    _Atomic uintptr_t waits_for;      // The word of the thread that reads; 0: none does.
    _Atomic uint32_t taken;           // How often one began to.
    _Atomic bool back;                // The I/O thread stands back until it is woken.
    _Atomic bool watched;             // It looks for gathered frames, soon, without being woken.
    _Atomic bool left;                // Messages were left, of which no descriptor tells any more.
    _Atomic uint32_t begun;           // How often there were some.
    _Atomic uint32_t flushed;         // Rises when a peer says that everything has arrived.
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

// Sends what was gathered. With the peer's lock held.
static troupe_status send_gathered(trp_peer *peer)
{
    if (peer->frame.size == 0)
        return TROUPE_OK;
    peer->bursts = trp_batch_count(&peer->frame) > 1;
    troupe_status status = trp_outbound_send(peer->outbound, &peer->frame);
    peer->sent_ns = trp_clock_ns();
    if (status != TROUPE_OK) {
        trp_log(TRP_ERROR, "frames to another process were lost: %s", troupe_last_error()->text);
        trp_buffer_free(&peer->frame);
    } else if (!peer->bursts && peer->frame.capacity > KEPT_MAX) {
        trp_buffer_free(&peer->frame); // What a burst has needed.
    }
    return status;
}

// Has somebody send what waits, soon. The bit comes before the word; who takes it reads the other
// way round. The I/O thread takes `watched` back and then looks at the word.
static void leave_gathered(uint32_t process)
{
    (void)atomic_fetch_or(&sockets.gathered[process / 64], UINT64_C(1) << process % 64);
    if (atomic_exchange(&sockets.some, 1) != 0)
        return;
    (void)atomic_fetch_add_explicit(&sockets.begun, 1, memory_order_relaxed); // Only a hint.
    if (!atomic_load(&sockets.watched))
        trp_transport_wake();
}

static void send_all_gathered(void)
{
    if (atomic_load(&sockets.some) == 0 || atomic_exchange(&sockets.some, 0) == 0)
        return;
    for (uint32_t word = 0; word < WORDS; word++) {
        if (atomic_load_explicit(&sockets.gathered[word], memory_order_relaxed) == 0)
            continue;
        uint64_t bits = atomic_exchange(&sockets.gathered[word], 0);
        for (; bits != 0; bits &= bits - 1) {
            trp_peer *peer = trp_peer_find(word * 64 + (uint32_t)__builtin_ctzll(bits));
            if (peer == NULL)
                continue;
            pthread_mutex_lock(&peer->lock);
            if (peer->outbound != NULL)
                (void)send_gathered(peer);
            pthread_mutex_unlock(&peer->lock);
        }
    }
}

// Whether the first frame after others have left goes at once: they left a while ago, and were not
// several. If a burst is over, this one finds out: it leaves alone, and the next one at once.
static bool is_lone(trp_peer *peer)
{
    int64_t passed = trp_clock_ns() - peer->sent_ns;
    if (passed >= BURST_NS)
        peer->bursts = false;
    return !peer->bursts && passed >= LONE_NS;
}

static troupe_status gather(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    TROUPE_TRY(connect_peer(peer, process));
    size_t before = peer->frame.size;
    frame->sequence = ++peer->sequence_out;
    trp_batch_add(&peer->frame, frame);
    if (peer->frame.failed) { // It was not sent: it has no number.
        peer->frame.failed = false;
        peer->sequence_out--;
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of %zu bytes",
                           frame->body_size);
    }
    if (peer->frame.size >= BATCH || (before == 0 && is_lone(peer)))
        return send_gathered(peer);
    if (before == 0)
        leave_gathered(process);
    return TROUPE_OK;
}

// What waits in ZeroMQ's queues when this process ends leaves its holds to the receiver.
static troupe_status send_frame(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    TROUPE_TRY(trp_peer_give(frame, process, peer->incarnation));
    troupe_status status = gather(peer, process, frame);
    if (status != TROUPE_OK)
        trp_peer_take_back(frame, process, peer->incarnation);
    return status;
}

void trp_sockets_disconnect(trp_peer *peer, int linger_ms)
{
    if (peer->outbound != NULL) {
        if (linger_ms > 0)
            (void)send_gathered(peer);
        trp_outbound_close(peer->outbound, linger_ms);
    }
    peer->outbound = NULL;
    peer->frame.size = 0;
}

// ---- in

// Whether the batch is from a live incarnation and new on its link; notes its frames' numbers.
static bool accept_batch(const trp_batch *batch)
{
    if (batch->to_incarnation != trp_self.incarnation || batch->from >= TRP_PROCESSES_MAX)
        return false;
    trp_peer *peer = trp_peer_of(batch->from);
    if (peer == NULL)
        return false;
    pthread_mutex_lock(&peer->lock);
    // What a process sent before it died counts until its death is told.
    bool known = peer->incarnation == batch->from_incarnation;
    if (!known && trp_process_alive(batch->from, batch->from_incarnation, NULL)) {
        trp_peer_renew(peer, batch->from_incarnation);
        known = true;
    }
    bool fresh = known && batch->sequence > peer->sequence_in && !peer->dead;
    if (fresh && batch->sequence != peer->sequence_in + 1) { // ZeroMQ itself refused a message.
        trp_log(TRP_ERROR, "%llu frames from process %u were lost",
                (unsigned long long)(batch->sequence - peer->sequence_in - 1), batch->from);
        trp_process_refused(NULL);
    }
    if (fresh)
        peer->sequence_in = batch->sequence + batch->count - 1;
    pthread_mutex_unlock(&peer->lock);
    return fresh;
}

// A death is told a little after its notice. Of who delivers.
static struct {
    _Atomic size_t count;
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
    deaths.items[deaths.count].due_ns = trp_clock_ns() + (int64_t)DEATH_DELAY_MS * 1000000;
    deaths.count++;
    trp_transport_wake(); // Another thread than the I/O thread may be reading.
}

// Tells the deaths whose time has come. After every frame that was there has been taken, or
// (`more`) so long after it that those of the dead are among the taken ones: peers are read in
// turn.
static void tell_deaths(bool more)
{
    size_t told = 0;
    int64_t now = trp_clock_ns() - (more ? (int64_t)DEATH_FLOOD_MS * 1000000 : 0);
    while (told < deaths.count && deaths.items[told].due_ns <= now) {
        trp_process_died(deaths.items[told].process, deaths.items[told].incarnation);
        told++;
    }
    deaths.count -= told;
    memmove(deaths.items, deaths.items + told, deaths.count * sizeof deaths.items[0]);
}

// The peer asks whether everything has arrived here, or says that everything has there.
void trp_sockets_take_flush(const trp_frame *frame)
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

static void take_frame(const trp_frame *frame)
{
    if (!trp_process_admits(frame))
        return;
    if (frame->kind == TRP_FRAME_FLUSH)
        trp_sockets_take_flush(frame);
    else if (frame->kind == TRP_FRAME_DEATH)
        defer_death(frame->method, frame->target);
    else
        trp_process_take(frame);
}

// A message is a batch; one that is not to be taken is refused as one.
static void take_message(const void *data, size_t size)
{
    trp_batch batch;
    troupe_status status = trp_batch_open(data, size, &batch);
    if (status == TROUPE_OK && !accept_batch(&batch)) {
        trp_process_refused(NULL);
        return;
    }
    while (status == TROUPE_OK && batch.count > 0) {
        trp_frame frame;
        status = trp_batch_next(&batch, &frame);
        if (status == TROUPE_OK)
            take_frame(&frame);
    }
    if (status != TROUPE_OK)
        trp_process_refused(troupe_last_error()->text);
}

// Reads and hands out frames that are there, for 1 ms at most. True: there are more, of which no
// descriptor tells. The I/O thread's and the node process's loop.
static bool drain(void)
{
    troupe_error kept;
    trp_error_hold(&kept);
    bool more = true;
    trp_process_deliver_begin();
    int64_t until_ns = trp_clock_ns() + DRAIN_NS;
    for (int i = 0; i < DRAIN_MESSAGES && more && trp_clock_ns() < until_ns; i++) {
        more = trp_transport_receive(take_message);
        trp_process_deliver_pause(); // A flood keeps nobody else from handing out.
    }
    atomic_store(&sockets.left, more);
    tell_deaths(more);
    trp_process_deliver_end();
    trp_error_restore(&kept);
    send_all_gathered();
    return more;
}

// ---- who reads

// Sockets are open, and nobody but the I/O thread reads them.
static bool is_unread(void)
{
    return atomic_load_explicit(&sockets.open, memory_order_relaxed) &&
           atomic_load_explicit(&sockets.waits_for, memory_order_relaxed) == 0;
}

static bool read_until(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    uintptr_t nobody = 0;
    if (!atomic_load(&sockets.open) || !trp_process_try_enter())
        return false;
    send_all_gathered();
    // Before the look at the word: who changes that looks here afterwards.
    bool reads = atomic_compare_exchange_strong(&sockets.waits_for, &nobody, (uintptr_t)word);
    if (reads) {
        atomic_fetch_add(&sockets.taken, 1);
        // What whoever read before us has left is known: what has come since makes the wait return.
        while (atomic_load(word) == seen && atomic_load(&sockets.open) &&
               (deadline_ns < 0 || trp_clock_ns() < deadline_ns)) {
            if (!atomic_load(&sockets.left))
                trp_transport_wait_reader(deadline_ns);
            (void)drain();
        }
        atomic_store(&sockets.waits_for, 0);
        if (deaths.count > 0 || atomic_load(&sockets.back) || atomic_load(&sockets.left))
            trp_transport_wake();
    }
    trp_process_leave();
    return reads;
}

static bool wake(_Atomic uint32_t *word)
{
    if (atomic_fetch_add(&sockets.waits_for, 0) != (uintptr_t)word)
        return false;
    if (trp_process_try_enter()) { // Who closes the process wakes it else.
        trp_transport_wake_reader();
        trp_process_leave();
    }
    return true;
}

// The I/O thread's own.
typedef struct watcher {
    uint32_t taken;    // `sockets.taken` when it looked last.
    uint32_t begun;    // `sockets.begun`, likewise.
    int64_t stand_ns;  // It leaves reading to others until then.
    int64_t watch_ns;  // Until its next look for gathered frames.
    bool reads;        // It is to read what has come.
    bool keeper_ended; // It has seen that.
} watcher;

// For how many nanoseconds the I/O thread may sleep; -1: until it is woken.
static int64_t patience(const watcher *me, int64_t now)
{
    int64_t left = INT64_MAX, death = (int64_t)DEATH_DELAY_MS * 1000000;
    if (now < me->stand_ns)
        left = me->stand_ns - now;
    if (atomic_load(&sockets.watched) && left > me->watch_ns)
        left = me->watch_ns;
    if (deaths.count > 0 && left > death)
        left = death;
    return left == INT64_MAX ? -1 : left;
}

// The I/O thread waits: for messages too, unless somebody reads them, or did a moment ago and is
// about to do so again. While frames are gathered it looks after them by itself, so that their
// sender need not wake it.
static void wait_for_work(watcher *me)
{
    uint32_t taken = atomic_load(&sockets.taken);
    int64_t now = trp_clock_ns();
    if (taken != me->taken)
        me->stand_ns = now + STAND_BACK_NS;
    me->taken = taken;
    bool others = now < me->stand_ns;
    if (!others) {
        atomic_store(&sockets.back, true); // Before the look at who reads; it does the reverse.
        others = atomic_load(&sockets.waits_for) != 0;
    }
    me->reads = !others;
    int64_t wait_ns = me->reads && atomic_load(&sockets.left) ? 0 : patience(me, now);
    trp_transport_wait(me->reads, sockets.keeper_fd, wait_ns, &me->keeper_ended);
    atomic_store(&sockets.back, false);
}

// Sends what was gathered. Once none were for a while, senders wake this thread again.
static void look_after_gathered(watcher *me)
{
    uint32_t begun = atomic_load_explicit(&sockets.begun, memory_order_relaxed);
    atomic_store(&sockets.watched, begun != me->begun);
    me->begun = begun;
    me->watch_ns = atomic_load(&sockets.some) != 0   ? WATCH_NS
                   : 2 * me->watch_ns < WATCH_MAX_NS ? 2 * me->watch_ns
                                                     : WATCH_MAX_NS;
    send_all_gathered(); // Looks whether there are any; pairs with leave_gathered.
}

// A thread that has begun to wait meanwhile sleeps on the descriptor, which tells of what is new.
static void drain_beside_readers(void)
{
    if (drain() && atomic_load(&sockets.waits_for) != 0)
        trp_transport_wake_reader();
}

static void *io_main(void *unused)
{
    (void)unused;
    watcher me = {.watch_ns = WATCH_NS};
    while (!sockets.stop) {
        wait_for_work(&me);
        look_after_gathered(&me);
        if (me.reads || me.keeper_ended || deaths.count > 0)
            drain_beside_readers();
        if (me.keeper_ended) {
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
static bool flush_peers(uint32_t first, uint32_t end, bool ask)
{
    bool awaited = false;
    for (uint32_t slot = first; slot < end; slot++) {
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

void trp_sockets_flush(uint32_t first, uint32_t end, int64_t give_up_ms)
{
    uint32_t seen = sockets.flushed;
    for (bool awaited = flush_peers(first, end, true); awaited && trp_clock_ms() < give_up_ms;) {
        trp_wait(&sockets.flushed, seen, FLUSH_LOOK_NS); // A peer may also die.
        seen = sockets.flushed;
        awaited = flush_peers(first, end, false);
    }
}

// ---- start and end

static void flush(int64_t give_up_ms)
{
    trp_sockets_flush(0, TRP_PROCESSES_MAX, give_up_ms);
}

static troupe_status open_socket(void)
{
    char path[128];
    trp_socket_path(trp_self.slot, trp_self.incarnation, path);
    char keys[128];
    trp_socket_keys_path(keys);
    return trp_transport_open(&(trp_transport_how){
        .path = path,
        .keys_path = trp_self.options.transport == TROUPE_TRANSPORT_TCP ? keys : NULL,
        // ZeroMQ cuts the connection of whoever sends more, and what was under way is lost.
        .message_bytes_max = BATCH + HEADER_MAX + trp_self.options.message_bytes_max});
}

static troupe_status start(int keeper_fd)
{
    sockets.keeper_fd = keeper_fd;
    sockets.stop = false;
    deaths.count = 0;
    atomic_store(&sockets.some, 0);
    atomic_store(&sockets.waits_for, 0);
    atomic_store(&sockets.watched, false);
    atomic_store(&sockets.left, false);
    for (int word = 0; word < WORDS; word++)
        atomic_store(&sockets.gathered[word], 0);
    TROUPE_TRY(trp_thread_start(&sockets.thread, "troupe-io", io_main, NULL));
    sockets.started = true;
    atomic_store(&sockets.open, true);
    return TROUPE_OK;
}

static void stop(void)
{
    if (!sockets.started)
        return;
    atomic_store(&sockets.open, false); // Who reads gives that up.
    trp_transport_wake_reader();
    sockets.stop = true;
    trp_transport_wake();
    pthread_join(sockets.thread, NULL);
    sockets.started = false;
}

// ---- the node process

static void forget(uint32_t process, uint64_t incarnation)
{
    char path[128];
    trp_socket_path(process, incarnation, path);
    (void)unlink(path);
}

static void tell_death(uint32_t to, bool ready, uint32_t process, uint64_t incarnation)
{
    trp_frame frame = {.kind = TRP_FRAME_DEATH, .method = process, .target = incarnation};
    if (ready)
        (void)trp_process_send(to, trp_segment_process(to)->incarnation, &frame, 0);
}

static void tell_end(uint32_t to)
{
    (void)trp_process_send(to, trp_segment_process(to)->incarnation,
                           &(trp_frame){.kind = TRP_FRAME_END}, 0);
}

// What changes the word is done by this thread, or heard by way of a descriptor.
static bool serve(int keeper_fd, _Atomic uint32_t *word, uint32_t seen, int64_t wait_ms)
{
    static bool more; // Of the node process's one thread.
    bool from_keeper = false;
    int64_t wait_ns = wait_ms < 0 ? -1 : wait_ms * 1000000;
    (void)word, (void)seen;
    trp_transport_wait(true, keeper_fd, more ? 0 : wait_ns, &from_keeper);
    more = drain();
    return from_keeper;
}

const trp_near_carrier trp_zmq_carrier = {
    .carrier = {.name = "ZeroMQ",
                .message_bytes_max = &trp_self.options.message_bytes_max,
                .limit = "message_bytes_max",
                .pauses_max = TRP_PAUSES_MAX,
                .load = trp_transport_load,
                .open = open_socket,
                .start = start,
                .flush = flush,
                .stop = stop,
                .close = trp_transport_close,
                .alive = trp_row_alive,
                .describe = trp_row_describe,
                .meet = trp_door_meet,
                .send = send_frame,
                .disconnect = trp_sockets_disconnect,
                .forget = forget},
    .hears_keeper = true,
    .unread = is_unread,
    .read = read_until,
    .wake = wake,
    .serve = serve,
    .tell_death = tell_death,
    .tell_end = tell_end,
};
