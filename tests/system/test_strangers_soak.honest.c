// test_strangers_soak.honest.c: the node that is attacked, and the two that use it: each checks
// every answer, and says on the board how long it took.
#include "strangers.h"
#include <stats.h>
#include <support.h>

#include <fcntl.h>
#include <runtime/link/keys.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/remote_carrier.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

TROUPE_STRUCT(note, (uint64_t, number), (troupe_text, text));

typedef struct host {
    int unused;
} host;

static troupe_status host_echo(host *self, const note *in, note *out)
{
    (void)self;
    *out = (note){.number = in->number + 1, .text = in->text};
    return TROUPE_OK;
}

static troupe_status host_mirror(host *self, const troupe_bytes *data, troupe_bytes *back)
{
    (void)self;
    *back = *data;
    return TROUPE_OK;
}

static troupe_status host_count(host *self, const int *last, int *none)
{
    (void)self;
    *none = 0;
    for (int i = 0; i < *last; i++)
        TROUPE_TRY(troupe_yield(int, &i));
    return TROUPE_OK;
}

static troupe_status host_nap(host *self, const int *ms, int *slept)
{
    (void)self;
    usleep((useconds_t)*ms * 1000);
    *slept = *ms;
    return TROUPE_OK;
}

static troupe_status host_refused(host *self, const troupe_none *none, uint64_t *count)
{
    (void)self, (void)none;
    *count =
        support_stats().frames_refused - trp_segment_nodes()->refused; // By this process alone.
    return TROUPE_OK;
}

// In a process of its own: its first call to that one.
static troupe_status host_call_on(host *self, const troupe_actor *to, int *status);

TROUPE_ACTOR(host, (host_echo, note, note), (host_mirror, troupe_bytes, troupe_bytes),
             (host_count, int, int, .options = TROUPE_METHOD_STREAM), (host_nap, int, int),
             (host_refused, troupe_none, uint64_t), (host_call_on, troupe_actor, int));

static troupe_status host_call_on(host *self, const troupe_actor *to, int *status)
{
    (void)self;
    int slept;
    troupe_ref nap = troupe_call((host_actor){*to}, host_nap, 0);
    *status = (int)troupe_get(int, nap, &slept, HUNG_MS / 2);
    return TROUPE_OK;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// ---- what all of them ask

typedef struct asker {
    siege *board;
    const char *name;
    uint64_t number, seed;
} asker;

// False: the call did not come back as it should.
static bool is_good(asker *it, troupe_status status, bool same, const char *what)
{
    if (status == TROUPE_OK && same)
        return true;
    if (atomic_load(&it->board->over) == 0)
        board_trouble(it->board, "%s: %s: %s (%s)", it->name, what,
                      status == TROUPE_OK ? "another value came back" : troupe_status_name(status),
                      status == TROUPE_OK ? "" : troupe_last_error()->text);
    return false;
}

static bool ask_echo(asker *it, host_actor there, const char *what)
{
    char text[64];
    note answer = {0};
    snprintf(text, sizeof text, "%s %llu", it->name, (unsigned long long)it->number);
    note question = {.number = stranger_roll(&it->seed), .text = text};
    troupe_ref ref = troupe_call_from(there, host_echo, &question);
    troupe_status status = troupe_get(note, ref, &answer, HUNG_MS);
    bool same = status == TROUPE_OK && answer.number == question.number + 1 &&
                strcmp(answer.text, text) == 0;
    it->number++;
    return is_good(it, status, same, what);
}

static bool ask_mirror(asker *it, host_actor there)
{
    enum { MOST = 60000 };
    static unsigned char data[MOST];
    size_t size = stranger_roll(&it->seed) % MOST;
    support_fill(data, size & ~(size_t)7, it->number++);
    troupe_bytes back = {0};
    troupe_ref ref = troupe_call(there, host_mirror, data, size);
    troupe_status status = troupe_get(troupe_bytes, ref, &back, HUNG_MS);
    bool same = status == TROUPE_OK && back.size == size && memcmp(back.data, data, size) == 0;
    return is_good(it, status, same, "bytes");
}

static bool ask_stream(asker *it, host_actor there)
{
    enum { MANY = 40 };
    troupe_stream numbers = troupe_stream_open(there, host_count, MANY);
    troupe_status status = TROUPE_OK;
    bool same = true;
    for (int i = 0; i < MANY && status == TROUPE_OK && same; i++) {
        int number = -1;
        status = troupe_next(int, numbers, &number, HUNG_MS);
        same = number == i;
    }
    int none;
    if (status == TROUPE_OK && same)
        same = troupe_next(int, numbers, &none, HUNG_MS) == TROUPE_END;
    troupe_stream_drop(numbers);
    return is_good(it, status, same, "a stream");
}

static void note_latency(score *tally, int64_t ns)
{
    uint64_t value = ns > 8 ? (uint64_t)ns : 8;
    int high = 63 - __builtin_clzll(value);
    atomic_fetch_add(&tally->bins[high * 8 + (int)(value >> (high - 3) & 7)], 1);
    atomic_fetch_add(&tally->calls, 1);
    uint64_t slowest = atomic_load(&tally->slowest_ns);
    while (value > slowest && !atomic_compare_exchange_weak(&tally->slowest_ns, &slowest, value))
        continue;
}

static void start(const siege *it, bool attacked)
{
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (attacked) {
        int fd = open(it->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(1);
        close(fd);
    }
    troupe_must(troupe_start(0, NULL, .listen = "127.0.0.1:0", .keys = it->keys, .threads = 2,
                             .workers = 1, .node_timeout_ms = NODE_TIMEOUT_MS,
                             .store_bytes_max = 32 << 20));
}

static void say_where(node_facts *facts)
{
    facts->id = trp_process_node_id();
    facts->incarnation = trp_segment_process(TRP_PROCESS_NODE)->incarnation;
    snprintf(facts->address, sizeof facts->address, "%s", troupe_node_address());
}

// ---- the one that is attacked

enum { OBJECTS = 8, OBJECT_SIZE = 40000 };

typedef struct hosting {
    asker asker;
    host_actor own[3]; // Here, in a worker, and in a worker of its own.
    troupe_ref objects[OBJECTS];
    host_actor guest; // Of a guest: nobody ends it.
} hosting;

static void write_door(way_in *to, uint32_t slot, uint64_t incarnation)
{
    char path[128];
    to->slot = slot;
    to->incarnation = incarnation;
    to->pid = trp_segment_process(slot)->pid;
    trp_far_path(slot, incarnation, path);
    if (slot == TRP_PROCESS_NODE)
        snprintf(to->address, sizeof to->address, "%s", troupe_node_address());
    else
        troupe_must(trp_text_read(path, to->address, sizeof to->address));
}

static void open_house(hosting *it)
{
    static const troupe_place places[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                          TROUPE_PLACE_ISOLATED};
    static const char *const names[] = {"desk", "pool", "alone"};
    static unsigned char data[OBJECT_SIZE];
    siege *board = it->asker.board;
    say_where(&board->host);
    write_door(&board->doors[NODE_DOOR], TRP_PROCESS_NODE, board->host.incarnation);
    for (int i = 0; i < 3; i++) {
        it->own[i] = troupe_spawn(host, .name = names[i], .place = places[i]);
        troupe_must(troupe_actor_status(it->own[i].address));
        board->honest[i] = it->own[i].address.id;
        write_door(&board->doors[DRIVER_DOOR + i], it->own[i].address.process,
                   it->own[i].address.incarnation);
    }
    host_actor bait = troupe_spawn(host, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_actor_status(bait.address));
    board->bait = bait.address.id;
    for (int i = 0; i < OBJECTS; i++) {
        support_fill(data, sizeof data, (uint64_t)i);
        it->objects[i] = troupe_put_bytes(data, sizeof data);
    }
    atomic_fetch_add(&board->ready, 1);
}

// What its processes have refused, and who was not let in.
static void say_counts(hosting *it)
{
    siege *board = it->asker.board;
    uint64_t refused = trp_segment_nodes()->refused;
    atomic_store(&board->doors[NODE_DOOR].refused, refused);
    atomic_store(&board->doors[DRIVER_DOOR].refused, support_stats().frames_refused - refused);
    for (int i = 1; i < 3; i++) {
        troupe_status status =
            troupe_get(uint64_t, troupe_call(it->own[i], host_refused), &refused);
        if (is_good(&it->asker, status, true, "a count"))
            atomic_store(&board->doors[DRIVER_DOOR + i].refused, refused);
    }
    atomic_store(&board->strangers, support_stats().strangers_refused);
}

static void ask_guest(hosting *it)
{
    asker *me = &it->asker;
    troupe_down down;
    int slept = 0; // Long enough to be answered by somebody else.
    troupe_ref nap = troupe_call(it->guest, host_nap, 20);
    atomic_store(&me->board->pending, nap.id);
    troupe_status status = troupe_get(int, nap, &slept, HUNG_MS);
    if (!is_good(me, status, slept == 20, "a guest's nap") || !ask_stream(me, it->guest))
        return;
    status = troupe_actor_await_end(it->guest.address, 0, &down);
    (void)is_good(me, status == TROUPE_TIMED_OUT ? TROUPE_OK : TROUPE_MAYBE_EXECUTED, true,
                  "a guest's end");
}

// What it put into the store is as it was, and what it asks others comes back.
static void look_around(hosting *it, uint64_t round)
{
    asker *me = &it->asker;
    troupe_view kept = {0};
    uint64_t which = round % OBJECTS;
    troupe_status status = troupe_view_bytes(it->objects[which], &kept, HUNG_MS);
    (void)is_good(me, status,
                  kept.size == OBJECT_SIZE && support_is_filled(kept.data, kept.size, which),
                  "an object");
    troupe_view_end(&kept);
    (void)ask_echo(me, it->own[round % 3], "its own actor");
    say_counts(it);
    if (atomic_load(&me->board->over) != 0)
        return; // The guests have gone.
    if (it->guest.address.id == 0) {
        char name[80];
        snprintf(name, sizeof name, "guest@%s", me->board->guests[0].address);
        status = troupe_lookup(host, name, &it->guest);
        (void)is_good(me, status, true, "a guest's name");
    } else {
        ask_guest(it);
    }
}

void strangers_host(siege *it)
{
    static hosting hosted;
    hosted.asker = (asker){.board = it, .name = "the host", .seed = 1};
    start(it, true);
    open_house(&hosted);
    while (atomic_load(&it->ready) < 1 + GUESTS && atomic_load(&it->over) == 0)
        usleep(1000);
    for (uint64_t round = 0; atomic_load(&it->over) < 2; round++) {
        look_around(&hosted, round);
        troupe_arena_reset();
        usleep(5000);
    }
    (void)troupe_stop();
    _exit(0);
}

// ---- the guests

typedef struct visiting {
    asker asker;
    host_actor there[3];
    int64_t next_fresh_ns, next_join_ns;
} visiting;

static void visit(visiting *it)
{
    static const char *const names[] = {"desk", "pool", "alone"};
    siege *board = it->asker.board;
    troupe_status status = troupe_node_join(board->host.address);
    if (!is_good(&it->asker, status, true, "joining"))
        return;
    for (int i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s@%s", names[i], board->host.address);
        status = troupe_lookup(host, name, &it->there[i]);
        if (!is_good(&it->asker, status, true, "a name"))
            return;
    }
}

// Who is new may find no room beside those who only stay (which test_transport sees), and come
// often; who is there is not disturbed.
static bool may_be_crowded(siege *board)
{
    int what = atomic_load(&board->phase);
    return what == SILENT || what == CLAIMS;
}

// A process that is new to the host must be answered, if only that there is no room for it.
static void come_afresh(visiting *it)
{
    host_actor fresh = troupe_spawn(host, .place = TROUPE_PLACE_ISOLATED);
    int answered = TROUPE_TIMED_OUT;
    troupe_ref ref = troupe_call_from(fresh, host_call_on, &it->there[0].address);
    troupe_status status = troupe_get(int, ref, &answered, HUNG_MS);
    score *tally = board_tally(it->asker.board);
    if (is_good(&it->asker, status, answered != TROUPE_TIMED_OUT, "a new process")) {
        atomic_fetch_add(&tally->fresh, 1);
        atomic_fetch_add(&tally->fresh_refused, answered != TROUPE_OK);
    }
    (void)troupe_actor_kill(fresh);
}

static void ask_once(visiting *it)
{
    enum { FRESH_NS = 500000000 };
    score *tally = board_tally(it->asker.board);
    for (int i = 0; i < 3; i++) {
        int64_t began = now_ns();
        if (!ask_echo(&it->asker, it->there[i], "an actor of the host"))
            return;
        note_latency(tally, now_ns() - began);
    }
    if (it->asker.number % 99 == 0 && (!ask_mirror(&it->asker, it->there[it->asker.number % 2]) ||
                                       !ask_stream(&it->asker, it->there[1])))
        return;
    if (now_ns() > it->next_fresh_ns && !may_be_crowded(it->asker.board)) {
        it->next_fresh_ns = now_ns() + FRESH_NS;
        come_afresh(it);
    }
}

static void join_again(visiting *it)
{
    enum { JOIN_NS = 2000000000 };
    if (now_ns() < it->next_join_ns || may_be_crowded(it->asker.board))
        return;
    it->next_join_ns = now_ns() + JOIN_NS;
    if (is_good(&it->asker, troupe_node_leave(it->asker.board->host.address), true, "leaving"))
        atomic_fetch_add(&board_tally(it->asker.board)->joined, 1);
    visit(it);
}

void strangers_guest(siege *it, int number)
{
    static visiting visitor;
    char name[16];
    snprintf(name, sizeof name, "guest %d", number);
    visitor.asker = (asker){.board = it, .name = name, .seed = (uint64_t)number + 2};
    start(it, false);
    troupe_must(troupe_actor_status(
        troupe_spawn(host, .name = "guest", .place = TROUPE_PLACE_WORKER).address));
    say_where(&it->guests[number]);
    visit(&visitor);
    atomic_fetch_add(&it->ready, 1);
    while (atomic_load(&it->over) == 0) {
        ask_once(&visitor);
        if (number == 1)
            join_again(&visitor);
        troupe_arena_reset();
        usleep(1000);
    }
    (void)troupe_stop();
    _exit(0);
}
