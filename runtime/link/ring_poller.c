// ring_poller.c: see link/ring_poller.h.
//
// The role of the reader is a word of this process: free, held, being left or closed. Its holder
// sleeps on the door's bell. A thread that gives it up notes at the door that there is no reader,
// so that publishers call the fallback thread; looks once more; and only then lets go, so that the
// segment is there for as long as a thread may touch the door.
//
// The fallback thread, when it is called, first waits a moment if other threads take the role now
// and then: most likely one of them is about to. While it does (`watched`), the bell stays AWAKE,
// and publishing costs no system call.
#include <runtime/link/ring_poller.h>

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/futex.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/park.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/link/ring_carrier.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/holds.h>
#include <runtime/store/read.h>
#include <runtime/store/row.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 64,           // Frames of one ring before the next ring's turn.
    BATCHES_AFTER = 1,    // That a thread reads on for others once its own wait is over.
    NAP_NS = 200000,      // Of the fallback thread before it reads itself: at first,
    NAP_MAX_NS = 1000000, // and while others go on taking the role.
    RETRY_NS = 10000000,  // Between looks for room in the store.
    YIELDS = 8,           // In a row, before a thread sleeps.
    YIELD_USUAL_MAX = 256,
    YIELD_EVERY_MAX = 8192, // Where somebody else takes the CPU for long:
    LATE_NS = 2000000,      // longer than those who send to each other do.
};
#define LONG_NS ((int64_t)3600 * 1000000000)

typedef enum role { CLOSED, FREE, HELD, LEAVING } role;

// A ring to this process.
typedef struct inbound {
    struct inbound *next; // Of an earlier incarnation of the same place.
    trp_ring_reader in;
    trp_object object;
    uint64_t incarnation;
} inbound;

static struct {
    _Atomic uint32_t role;
    _Atomic uintptr_t waits_for; // A word of the reader's.
    _Atomic uint32_t taken;      // How often a thread that waited took the role.
    _Atomic bool watched, closing, stopping, lost;
    trp_door *door;
    bool started;
    pthread_t fallback;
    _Atomic uint32_t begun; // 1: the fallback thread may touch the door.
    // Of who has the role:
    uint64_t deaths; // That have been told.
    uint64_t todo[TRP_DOOR_WORDS];
    uint32_t todo_words;
    inbound *rings[TRP_PROCESSES_MAX];
} reader TRP_VAST;

// ---- rings to this process

static void ring_free(inbound *ring)
{
    trp_store_release(ring->object, trp_self.slot);
    trp_free(ring);
}

static trp_ring *find_ring(trp_object object, size_t *size)
{
    trp_object_info info = trp_store_look(object);
    TRP_STORE_HANDED();
    bool good =
        info.state == TRP_OBJECT_SHARED && info.encoding == TRP_ENCODING_INNER &&
        (info.size == TRP_RING_SMALL || info.size == TRP_RING_LARGE || info.size == TRP_RING_HUGE);
    *size = info.size;
    return good ? (trp_ring *)(uintptr_t)info.data : NULL;
}

static bool is_attached(trp_object object, uint32_t from)
{
    const inbound *ring = from < TRP_PROCESSES_MAX ? reader.rings[from] : NULL;
    while (ring != NULL && ring->object != object)
        ring = ring->next;
    return ring != NULL;
}

// Takes a ring that was announced; *next is the one announced before it.
static void attach(trp_object object, trp_object *next)
{
    size_t size;
    trp_ring *ring = find_ring(object, &size);
    *next = 0;
    if (ring == NULL)
        return;
    *next = ring->next;
    uint32_t from = ring->from;
    inbound *mine = NULL;
    if (is_attached(object, from)) { // The list leads back to it: one of its words is damaged.
        trp_process_refused(NULL);
        *next = 0;
        return;
    }
    if (ring->to != trp_self.slot || ring->to_incarnation != trp_self.incarnation ||
        from >= TRP_PROCESSES_MAX || (mine = trp_alloc(sizeof *mine)) == NULL) {
        trp_process_refused(NULL);
        if (mine == NULL && ring->to_incarnation == trp_self.incarnation)
            trp_log(TRP_ERROR, "a ring from process %u was refused", from);
        trp_store_release(object, trp_self.slot);
        return;
    }
    mine->object = object;
    mine->incarnation = ring->from_incarnation;
    mine->in = trp_ring_reader_of(ring, size);
    mine->next = reader.rings[from];
    reader.rings[from] = mine;
    reader.todo[from / 64] |= UINT64_C(1) << from % 64;
    reader.todo_words |= 1u << from / 64;
    trp_peer *peer = trp_peer_of(from);
    if (peer != NULL && trp_process_alive(from, mine->incarnation, NULL)) {
        pthread_mutex_lock(&peer->lock);
        trp_peer_renew(peer, mine->incarnation);
        pthread_mutex_unlock(&peer->lock);
    }
}

static void take_announced(void)
{
    if (atomic_load(&reader.door->announced) == 0)
        return;
    trp_object next, object = atomic_exchange(&reader.door->announced, 0);
    // No more than there can be: a list of damaged ones may go round.
    for (uint32_t left = TRP_OBJECTS_MAX; object != 0 && left > 0; object = next, left--)
        attach(object, &next);
}

// A sender goes on in a larger ring only: so what was damaged leads nowhere, and not round.
static bool follow(inbound *ring, trp_object object)
{
    size_t size;
    trp_ring_reader next;
    trp_ring *larger = find_ring(object, &size);
    if (larger == NULL || larger->to != trp_self.slot ||
        larger->from_incarnation != ring->incarnation)
        return false;
    next = trp_ring_reader_of(larger, size);
    if (next.capacity <= ring->in.capacity)
        return false;
    trp_store_release(ring->object, trp_self.slot);
    ring->object = object;
    ring->in = next;
    return true;
}

static void give_up(inbound *ring, uint32_t from)
{
    trp_process_refused(NULL);
    trp_log(
        TRP_ERROR,
        "the ring from process %u to this process has invalid contents; it is not read any more",
        from);
    ring->in = (trp_ring_reader){0};
}

static void take_frame(trp_frame *frame)
{
    trp_object object = 0;
    if ((frame->flags & TRP_FRAME_BOXED) != 0) {
        if (frame->body_size == sizeof object)
            memcpy(&object, frame->body, sizeof object);
        trp_object_info info = trp_store_look(object);
        if (info.state != TRP_OBJECT_SEALED || info.encoding != TRP_ENCODING_PARCEL) {
            trp_process_refused("it names an object that is not there");
            return;
        }
        frame->body = info.data;
        frame->body_size = info.size;
        frame->flags &= ~TRP_FRAME_BOXED;
    }
    trp_process_take_near(frame);
    if (object != 0)
        trp_store_release(object, trp_self.slot);
}

// Hands out up to `count` frames. True: there may be more.
static bool drain_ring(inbound *ring, uint32_t from, long count)
{
    trp_frame frame;
    trp_object object;
    while (ring->in.ring != NULL && count-- > 0) {
        switch (trp_ring_read(&ring->in, &frame, &object)) {
        case TRP_RING_EMPTY:
            return false;
        case TRP_RING_FRAME:
            frame.from = from;
            frame.from_incarnation = ring->incarnation;
            frame.to_incarnation = trp_self.incarnation;
            take_frame(&frame);
            if (trp_ring_done(&ring->in))
                trp_door_ring(from, trp_self.slot, true);
            break;
        case TRP_RING_MOVED:
            if (!follow(ring, object))
                give_up(ring, from);
            break;
        case TRP_RING_BROKEN:
            give_up(ring, from);
            break;
        }
    }
    return ring->in.ring != NULL;
}

// ---- deaths

// Takes the ring that it had given to this process, but died before it announced it.
static void take_given(uint32_t process, uint64_t incarnation)
{
    trp_object next, given = atomic_load(&trp_door_of(process)->giving);
    // The word may be that of a later process of that place; and this one holds what it was given.
    if (given == 0 || trp_segment_process(process)->incarnation != incarnation ||
        !trp_ledger_holds(trp_self.slot, trp_row_slot(given)))
        return;
    for (const inbound *ring = reader.rings[process]; ring != NULL; ring = ring->next)
        if (ring->object == given)
            return;
    attach(given, &next);
}

// Everything that it published is handed out, then its death is told.
static void tell_death(uint32_t process, uint64_t incarnation)
{
    if (process >= TRP_PROCESSES_MAX)
        return;
    take_given(process, incarnation);
    for (inbound **at = &reader.rings[process], *ring; (ring = *at) != NULL;) {
        if (ring->incarnation != incarnation) {
            at = &ring->next;
            continue;
        }
        (void)drain_ring(ring, process, LONG_MAX);
        *at = ring->next;
        if (ring->in.ring != NULL && ring->in.ring->larger != 0)
            trp_store_release(ring->in.ring->larger, trp_self.slot);
        ring_free(ring);
    }
    trp_process_died(process, incarnation);
}

// More have died than are written down: looks for them.
static void look_for_deaths(void)
{
    for (uint32_t process = 0; process < TRP_PROCESSES_MAX; process++) {
        inbound *ring = reader.rings[process];
        while (ring != NULL)
            if (trp_process_alive(process, ring->incarnation, NULL)) {
                ring = ring->next;
            } else { // All rings of that incarnation go.
                tell_death(process, ring->incarnation);
                ring = reader.rings[process];
            }
        uint64_t incarnation;
        if (trp_peer_open(process, &incarnation) && !trp_process_alive(process, incarnation, NULL))
            tell_death(process, incarnation);
    }
}

static void tell_deaths(uint64_t count)
{
    while (reader.deaths != count) {
        uint32_t process;
        uint64_t incarnation;
        if (trp_deaths_read(reader.deaths, &process, &incarnation)) {
            reader.deaths++;
            tell_death(process, incarnation);
        } else {
            reader.deaths = count;
            look_for_deaths();
        }
    }
}

// Every other process has died.
static void lose_all(void)
{
    for (uint32_t process = 0; process < TRP_PROCESSES_MAX; process++)
        for (inbound *ring = reader.rings[process]; ring != NULL; ring = ring->next)
            (void)drain_ring(ring, process, LONG_MAX);
    trp_process_lost();
}

// ---- reading

// With the role.
static bool pending(void)
{
    return reader.todo_words != 0 || atomic_load(&reader.door->summary) != 0 ||
           atomic_load(&reader.lost);
}

// Takes the door's bits, before what they stand for is looked at.
static void gather(void)
{
    uint32_t words = atomic_load(&reader.door->summary);
    if (words != 0)
        words = atomic_exchange(&reader.door->summary, 0);
    for (; words != 0; words &= words - 1) {
        int word = __builtin_ctz(words);
        reader.todo[word] |= atomic_exchange(&reader.door->pending[word], 0);
        if (reader.todo[word] != 0)
            reader.todo_words |= 1u << word;
    }
}

static void read_batch(uint32_t word, uint32_t bit)
{
    uint32_t from = word * 64 + bit;
    bool more = false;
    for (inbound *ring = reader.rings[from]; ring != NULL; ring = ring->next)
        more |= drain_ring(ring, from, BATCH);
    trp_peer_refill(from);
    if (more)
        return;
    reader.todo[word] &= ~(UINT64_C(1) << bit);
    if (reader.todo[word] == 0)
        reader.todo_words &= ~(1u << word);
}

// One batch from each peer that has something to be read: none keeps the others waiting. Ends
// early once `word` has changed and *batches were read since.
static void read_round(_Atomic uint32_t *word, uint32_t seen, int *batches)
{
    for (uint32_t words = reader.todo_words; words != 0; words &= words - 1) {
        uint32_t at = (uint32_t)__builtin_ctz(words);
        for (uint64_t bits = reader.todo[at]; bits != 0; bits &= bits - 1) {
            read_batch(at, (uint32_t)__builtin_ctzll(bits));
            if (word != NULL && atomic_load(word) != seen && --*batches <= 0)
                return;
        }
    }
}

// With the role: hands out what there is. Soon stops if *word (NULL: none) is not `seen` any more.
static void drain(_Atomic uint32_t *word, uint32_t seen)
{
    int batches = BATCHES_AFTER;
    troupe_error kept;
    trp_error_hold(&kept);
    trp_process_deliver_begin();
    while (pending() && batches > 0) {
        gather();
        // Before the rings: what someone published before it died is read before that is told.
        uint64_t deaths = trp_deaths_count();
        take_announced();
        read_round(word, seen, &batches);
        tell_deaths(deaths);
        if (atomic_load(&reader.door->told_end) != 0)
            trp_process_told_end();
        if (atomic_load(&reader.lost) && atomic_exchange(&reader.lost, false))
            lose_all();
        trp_process_deliver_pause(); // What comes from other nodes is not kept waiting by a flood.
    }
    trp_process_deliver_end();
    trp_error_restore(&kept);
}

// ---- the role

static bool take_role(void)
{
    uint32_t free = FREE;
    // Acquires what the last one has written; pairs with the last store in leave.
    if (atomic_load_explicit(&reader.role, memory_order_relaxed) != FREE ||
        !atomic_compare_exchange_strong(&reader.role, &free, HELD))
        return false;
    if (atomic_load(&reader.door->bell) != TRP_BELL_AWAKE)
        atomic_store(&reader.door->bell, TRP_BELL_AWAKE);
    return true;
}

static bool enter(void)
{
    if (!take_role())
        return false;
    atomic_fetch_add_explicit(&reader.taken, 1, memory_order_relaxed);
    return true;
}

static void leave(void)
{
    // Pairs with the fallback thread, which takes `watched` back and then looks at the role: it
    // waits while that is being left, and then takes it.
    atomic_store(&reader.role, LEAVING);
    if (!atomic_load(&reader.watched)) {
        // Pairs with trp_door_ring: it publishes and then looks at the bell.
        (void)atomic_exchange(&reader.door->bell, TRP_BELL_NOBODY);
        if (pending())
            trp_door_call(reader.door);
    }
    atomic_store(&reader.role, FREE); // A release of all that is the role's.
}

static long futex(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    return syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline_ns < 0 ? NULL : &until, NULL,
                   FUTEX_BITSET_MATCH_ANY);
}

// Sleeps until there is something to read, *word is not `seen`, or the deadline.
static void sleep_on(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    // Written before we look; who publishes looks at it after having published, and so does who
    // changes the word.
    (void)atomic_exchange(&reader.door->bell, TRP_BELL_ASLEEP);
    if (!pending() && atomic_load(word) == seen && !atomic_load(&reader.closing))
        (void)futex(&reader.door->bell, TRP_BELL_ASLEEP, deadline_ns);
    (void)atomic_exchange(&reader.door->bell, TRP_BELL_AWAKE);
}

// As the reader: gives the CPU to whoever else wants it, which may be who is to answer. Two that
// share a CPU and hand it to each other so need no sleep and no wake-up; and who sends much to one
// that shares its CPU is not interrupted for each message, as by one that sleeps and is woken.
static bool yield_on(_Atomic uint32_t *word, uint32_t seen)
{
    static _Atomic bool yields_late;
    trp_habit *yields = &trp_park_yields;
    int every = atomic_load_explicit(&yields->every, memory_order_relaxed);
    if (every > 1 &&
        atomic_fetch_add_explicit(&yields->waits, 1, memory_order_relaxed) % every != 0)
        return false;
    int64_t begin = trp_clock_ns();
    bool came = false;
    for (int i = 0; i < YIELDS && !came; i++) {
        (void)sched_yield();
        came = atomic_load_explicit(word, memory_order_acquire) != seen || pending();
    }
    bool late = trp_clock_ns() - begin > LATE_NS;
    // Somebody with much to compute has the CPU if that is so twice: who sleeps gets it back
    // sooner.
    if (late && atomic_exchange_explicit(&yields_late, true, memory_order_relaxed))
        atomic_store_explicit(&yields->every, YIELD_EVERY_MAX, memory_order_relaxed);
    else if (!late) {
        atomic_store_explicit(&yields_late, false, memory_order_relaxed);
        trp_habit_learn(yields, came, every > YIELD_USUAL_MAX ? every : YIELD_USUAL_MAX);
    }
    return came;
}

bool trp_reader_read(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    if (!enter())
        return false;
    // While it is set, the reader looks at the word before it sleeps.
    atomic_store(&reader.waits_for, (uintptr_t)word);
    for (;;) {
        drain(word, seen);
        if (atomic_load(word) != seen || atomic_load(&reader.closing) ||
            (deadline_ns >= 0 && trp_clock_ns() >= deadline_ns))
            break;
        if (!trp_spin_until(&trp_park_spins, word, seen, pending) && !yield_on(word, seen))
            sleep_on(word, seen, deadline_ns);
    }
    atomic_store(&reader.waits_for, 0);
    leave();
    return true;
}

bool trp_reader_wake(_Atomic uint32_t *word)
{
    // An access that writes, so that it is in one order with the store above: if it comes before,
    // the reader sees what we changed.
    if (atomic_fetch_add(&reader.waits_for, 0) != (uintptr_t)word)
        return false;
    if (!trp_process_try_enter())
        return true; // Who closes the process wakes it.
    uint32_t asleep = TRP_BELL_ASLEEP;
    if (atomic_compare_exchange_strong(&reader.door->bell, &asleep, TRP_BELL_AWAKE))
        trp_wake(&reader.door->bell);
    trp_process_leave();
    return true;
}

bool trp_reader_free(void)
{
    return atomic_load_explicit(&reader.role, memory_order_relaxed) == FREE;
}

// ---- the fallback thread

static bool is_stopping(void)
{
    return atomic_load(&reader.stopping);
}

// The role, if nobody keeps it; who is about to give it up is waited for.
static bool take_role_left(void)
{
    while (atomic_load(&reader.role) == LEAVING)
        (void)sched_yield();
    return take_role();
}

// Waits for as long as others take the role now and then.
static void nap(void)
{
    uint32_t taken;
    int64_t ns = NAP_NS;
    atomic_store(&reader.watched, true);
    do {
        taken = atomic_load(&reader.taken);
        trp_wait(&reader.door->fallback, atomic_load(&reader.door->fallback), ns);
        ns = 2 * ns < NAP_MAX_NS ? 2 * ns : NAP_MAX_NS; // Each nap ends with a switch of threads.
    } while (taken != atomic_load(&reader.taken) && !is_stopping());
    atomic_store(&reader.watched, false); // Pairs with leave.
}

static void *fallback_main(void *unused)
{
    (void)unused;
    while (atomic_load(&reader.begun) == 0) // Pairs with the store in trp_reader_start.
        trp_wait(&reader.begun, 0, LONG_NS);
    uint32_t taken = atomic_load(&reader.taken);
    while (!is_stopping()) {
        // Before `seen`: what lacks room again calls this thread, which has just tried.
        if (atomic_load(&trp_peers_starved))
            (void)trp_peers_refill();
        uint32_t seen = atomic_load(&reader.door->fallback);
        if (taken != atomic_load(&reader.taken))
            nap();
        taken = atomic_load(&reader.taken);
        if (take_role_left()) {
            drain(NULL, 0);
            leave();
        }
        if (!is_stopping())
            trp_wait(&reader.door->fallback, seen,
                     atomic_load(&trp_peers_starved) ? RETRY_NS : LONG_NS);
    }
    return NULL;
}

void trp_reader_nudge(void)
{
    atomic_fetch_add(&reader.door->fallback, 1);
    trp_wake(&reader.door->fallback);
}

void trp_reader_lost(void)
{
    atomic_store(&reader.lost, true);
    trp_door_call(reader.door);
}

troupe_status trp_reader_prepare(void)
{
    TROUPE_TRY(trp_thread_start(&reader.fallback, "troupe-ring", fallback_main, NULL));
    reader.started = true;
    return TROUPE_OK;
}

troupe_status trp_reader_start(void)
{
    atomic_store(&reader.stopping, false);
    atomic_store(&reader.begun, 1); // What trp_reader_open wrote comes before.
    if (!reader.started)
        return trp_reader_prepare();
    trp_wake(&reader.begun);
    return TROUPE_OK;
}

void trp_reader_stop(void)
{
    if (!reader.started)
        return;
    atomic_store(&reader.stopping, true);
    trp_reader_nudge();
    pthread_join(reader.fallback, NULL);
    reader.started = false;
    atomic_store(&reader.begun, 0);
}

void trp_reader_open(void)
{
    reader.door = trp_door_of(trp_self.slot);
    reader.deaths = atomic_load(&reader.door->born);
    reader.todo_words = 0; // What they stand for is empty: see trp_reader_close.
    atomic_store(&reader.closing, false);
    atomic_store(&reader.lost, false);
    atomic_store(&reader.watched, false);
    atomic_store(&reader.waits_for, 0);
    atomic_store(&reader.role, FREE);
}

void trp_reader_close(void)
{
    enum { LOOK_NS = 1000000 };
    uint32_t free;
    if (atomic_load(&reader.role) == CLOSED)
        return;
    atomic_store(&reader.closing, true);
    for (;;) {
        free = FREE;
        if (atomic_compare_exchange_strong(&reader.role, &free, CLOSED))
            break;
        uint32_t asleep = TRP_BELL_ASLEEP;
        if (atomic_compare_exchange_strong(&reader.door->bell, &asleep, TRP_BELL_AWAKE))
            trp_wake(&reader.door->bell);
        trp_wait(&reader.role, HELD, LOOK_NS);
    }
    for (uint32_t from = 0; from < TRP_PROCESSES_MAX; from++)
        for (inbound *ring = reader.rings[from], *next; ring != NULL; ring = next) {
            next = ring->next;
            ring_free(ring);
            reader.rings[from] = NULL;
        }
    memset(reader.todo, 0, sizeof reader.todo);
}
