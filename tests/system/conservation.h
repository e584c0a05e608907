// conservation.h: the law that nothing is lost and nothing is run twice, under a plan of adversity.
//
// Trees of actors in the driver, in pool workers and in processes of their own call each other,
// while workers are killed with -9, actors are killed, restarted and replaced, and calls are
// cancelled and time out. Everything that is called and run is written to memory that outlives any
// process; when all is quiet every record is checked against the guarantees. The plan follows from
// the seed, which is printed; TROUPE_SEED replays it (how it meets the machine's timing is not
// replayed).
#ifndef TROUPE_TEST_CONSERVATION_H
#define TROUPE_TEST_CONSERVATION_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/mman.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

enum {
    RECORDS = 1 << 21,
    ADDRESSES = 1 << 16,
    PLACES = 24, // Of actors that live at a time.
    PLANNERS = 2,
    IN_FLIGHT = 48, // References that a planner holds.
    DEPTH = 3,      // Of nested calls.
    CHILDREN = 2,
    WORKERS = 3,
    PIDS = 4096,
    END_MS = 30000,        // What has not ended by then never does.
    LOAD_MAX = 160 * 1024, // Beyond what travels inside a message.
};

// What became of one call.
typedef struct record {
    _Atomic uint32_t parent;   // The call whose method made it; 0: a planner.
    _Atomic uint16_t begun;    // By its method,
    _Atomic uint16_t finished; // and this right before it returned.
    _Atomic uint16_t ends;     // How often its caller was told an end, by a second get too.
    _Atomic uint8_t outcome, executed, status;
    _Atomic uint8_t told; // A tell, or a reference that was dropped: nobody is told its end.
} record;

// Shared by all processes: mapped before the runtime is started.
typedef struct ledger {
    _Atomic uint32_t calls;     // Records given out.
    _Atomic uint32_t addresses; // Rows of `address` that are filled.
    _Atomic uint32_t at[PLACES];
    _Atomic uint32_t pids;
    _Atomic int pid[PIDS]; // Written after the process's group, which `kill` looks at.
    _Atomic int group[PIDS];
    _Atomic bool stuck; // A call has not ended in time: the others are not waited for as long.
    _Atomic uint32_t kills, crashes, cancels, deadlines, stops, spawns, odd;
    troupe_actor address[ADDRESSES]; // Written before its number is published in `at`.
    record record[RECORDS];
} ledger;
static ledger *book;
static uint64_t seed;
static pid_t driver_pid;

TROUPE_STRUCT(order, (uint64_t, call), (uint64_t, dice), (uint32_t, depth), (troupe_bytes, load));

typedef struct member {
    uint64_t served;
} member;

static uint64_t roll(uint64_t *dice) // Steele, Lea, Flood: SplitMix64.
{
    uint64_t z = *dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static bool chance(uint64_t *dice, uint32_t of)
{
    return roll(dice) % of == 0;
}

static uint32_t new_record(uint32_t parent)
{
    uint32_t call = atomic_fetch_add(&book->calls, 1) + 1;
    if (call >= RECORDS)
        return 0;
    book->record[call].parent = parent;
    return call;
}

// Writes down how a call ended, from the status of a get and the thread's last error.
static void note_end(uint32_t call, troupe_status status)
{
    record *it = &book->record[call];
    const troupe_error *error = troupe_last_error();
    it->status = (uint8_t)status;
    it->outcome = status == TROUPE_OK ? TROUPE_OUTCOME_VALUE : (uint8_t)error->outcome;
    it->executed = status == TROUPE_OK ? TROUPE_EXECUTED_YES : (uint8_t)error->executed;
    atomic_fetch_add(&it->ends, 1);
}

static troupe_actor some_actor(uint64_t *dice)
{
    uint32_t row = book->at[roll(dice) % PLACES];
    return row == 0 ? (troupe_actor){0} : book->address[row];
}

static void linger(uint64_t *dice)
{
    struct timespec pause = {0, (long)(roll(dice) % 200) * 1000};
    if (chance(dice, 8))
        (void)nanosleep(&pause, NULL);
    for (volatile int i = 0; i < (int)(roll(dice) % 2000); i++)
        continue;
}

// ---- the actors

static troupe_status member_work(member *self, const order *what, uint64_t *answer);
static troupe_status member_news(member *self, const order *what, troupe_none *nothing);

static troupe_status member_init(member *self, const troupe_none *nothing)
{
    (void)nothing;
    self->served = 0;
    if (getpid() == driver_pid)
        return TROUPE_OK;
    for (uint32_t i = 0; i < book->pids && i < PIDS; i++)
        if (book->pid[i] == getpid())
            return TROUPE_OK;
    uint32_t row = atomic_fetch_add(&book->pids, 1);
    if (row < PIDS) {
        book->group[row] = getpgrp();
        book->pid[row] = getpid();
    }
    return TROUPE_OK;
}

static void member_deinit(member *self)
{
    (void)self;
}

TROUPE_ACTOR_INIT(member, (member_init, troupe_none), member_deinit, (member_work, order, uint64_t),
                  (member_news, order, troupe_none));

// Calls from inside methods have a deadline always: actors of several processes may wait for each
// other in a ring, which nobody finds out.
static troupe_ref send_call(troupe_actor to, uint32_t call, uint64_t *dice, uint32_t depth)
{
    static const unsigned char load[LOAD_MAX];
    size_t size = chance(dice, 40) ? roll(dice) % LOAD_MAX : roll(dice) % 64;
    order what = {.call = call, .dice = roll(dice), .depth = depth, .load = {load, size}};
    member_actor actor = {to};
    uint32_t deadline_ms = depth > 0 || chance(dice, 6) ? 1 + (uint32_t)(roll(dice) % 20) : 0;
    if (deadline_ms != 0)
        atomic_fetch_add(&book->deadlines, 1);
    return troupe_call_from(troupe_with(actor, .deadline_ms = deadline_ms), member_work, &what);
}

// Inside a method without a limit, which is what runs the other actor right here and finds out
// who waits for itself.
static void finish_call(troupe_ref ref, uint32_t call, int timeout_ms)
{
    uint64_t answer = 0;
    troupe_status status = troupe_get(uint64_t, ref, &answer, timeout_ms);
    if (status == TROUPE_TIMED_OUT) { // It is found without an end by the check.
        book->stuck = true;
        troupe_ref_drop(ref);
        return;
    }
    note_end(call, status);
    if (status == TROUPE_OK && answer != call)
        atomic_fetch_add(&book->odd, 1);
    if (troupe_get(uint64_t, ref, &answer, TROUPE_POLL) != TROUPE_INVALID)
        atomic_fetch_add(&book->record[call].ends, 1);
}

// Calls others from inside a method.
static void call_children(uint32_t parent, uint64_t *dice, uint32_t depth)
{
    troupe_ref refs[CHILDREN];
    uint32_t calls[CHILDREN] = {0};
    for (int i = 0; i < CHILDREN; i++) {
        troupe_actor to = some_actor(dice);
        if (to.id == 0 || (calls[i] = new_record(parent)) == 0)
            continue;
        refs[i] = send_call(to, calls[i], dice, depth + 1);
        if (chance(dice, 10) && troupe_cancel(refs[i]) == TROUPE_OK)
            atomic_fetch_add(&book->cancels, 1);
    }
    for (int i = 0; i < CHILDREN; i++)
        if (calls[i] != 0)
            finish_call(refs[i], calls[i], TROUPE_FOREVER);
}

static troupe_status work(member *self, const order *what, bool answered)
{
    uint64_t dice = what->dice;
    record *it = &book->record[what->call];
    atomic_fetch_add(&it->begun, 1);
    self->served++;
    for (size_t i = 0; i < what->load.size; i += 4096) // All of it has come.
        if (((const unsigned char *)what->load.data)[i] != 0)
            atomic_fetch_add(&book->odd, 1);
    linger(&dice);
    if (what->depth < DEPTH && chance(&dice, 3))
        call_children((uint32_t)what->call, &dice, what->depth);
    if (getpid() != driver_pid && chance(&dice, 4000)) {
        atomic_fetch_add(&book->crashes, 1);
        (void)kill(getpid(), SIGKILL);
    }
    atomic_fetch_add(&it->finished, 1);
    return answered && chance(&dice, 20)
               ? troupe_fail(TROUPE_CORRUPT, "call %llu fails", (unsigned long long)what->call)
               : TROUPE_OK;
}

static troupe_status member_work(member *self, const order *what, uint64_t *answer)
{
    *answer = what->call;
    return work(self, what, true);
}

static troupe_status member_news(member *self, const order *what, troupe_none *nothing)
{
    (void)nothing;
    return work(self, what, false);
}

// ---- the plan

static void place_actor(uint32_t place, uint64_t *dice)
{
    static const troupe_place where[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER, TROUPE_PLACE_ANY,
                                         TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
    troupe_place at = chance(dice, 30) ? TROUPE_PLACE_ISOLATED : where[roll(dice) % 4];
    int restarts = chance(dice, 3) ? 4 : 0;
    member_actor made = troupe_spawn(member, .place = at, .mailbox_max = 256, .restarts = restarts);
    atomic_fetch_add(&book->spawns, 1);
    uint32_t row = atomic_fetch_add(&book->addresses, 1) + 1;
    if (row >= ADDRESSES)
        return;
    book->address[row] = made.address; // A failed one too: calls to it must end as well.
    book->at[place] = row;
}

static void kill_a_worker(uint64_t *dice)
{
    uint32_t count = book->pids < PIDS ? book->pids : PIDS;
    uint32_t row = count > 0 ? (uint32_t)(roll(dice) % count) : 0;
    int pid = book->pid[row];
    // The number of a worker that has ended may be somebody else's by now, in another group.
    if (pid > 0 && getpgid(pid) == book->group[row] && kill(pid, SIGKILL) == 0)
        atomic_fetch_add(&book->kills, 1);
}

typedef struct flight {
    troupe_ref ref;
    uint32_t call;
} flight;

static void launch(flight *it, uint64_t *dice)
{
    troupe_actor to = some_actor(dice);
    it->call = to.id != 0 ? new_record(0) : 0;
    if (it->call == 0)
        return;
    if (chance(dice, 12)) { // Nobody is told what becomes of it.
        order what = {.call = it->call, .dice = roll(dice)};
        member_actor actor = {to};
        book->record[it->call].told = 1;
        (void)troupe_tell_from(actor, member_news, &what);
        it->call = 0;
        return;
    }
    it->ref = send_call(to, it->call, dice, 0);
}

static void land(flight *it)
{
    if (it->call == 0)
        return;
    finish_call(it->ref, it->call, book->stuck ? 100 : END_MS);
    it->call = 0;
}

static void disturb(flight *flights, uint64_t *dice)
{
    uint32_t place = (uint32_t)(roll(dice) % PLACES);
    switch (roll(dice) % 40) {
    case 0:
        kill_a_worker(dice);
        break;
    case 1:
    case 2:
        place_actor(place, dice);
        break;
    case 3: {
        troupe_actor old = some_actor(dice);
        if (old.id != 0)
            (void)troupe_actor_kill(old);
        place_actor(place, dice);
        atomic_fetch_add(&book->stops, 1);
        break;
    }
    case 4: {
        troupe_actor old = some_actor(dice);
        if (old.id != 0)
            (void)troupe_actor_end(old);
        place_actor(place, dice);
        atomic_fetch_add(&book->stops, 1);
        break;
    }
    case 5: {
        flight *it = &flights[roll(dice) % IN_FLIGHT];
        if (it->call != 0) {
            book->record[it->call].told = 1;
            troupe_ref_drop(it->ref);
            it->call = 0;
        }
        break;
    }
    default: {
        flight *it = &flights[roll(dice) % IN_FLIGHT];
        if (it->call != 0 && troupe_cancel(it->ref) == TROUPE_OK)
            atomic_fetch_add(&book->cancels, 1);
        break;
    }
    }
}

typedef struct planner {
    uint64_t dice;
    int64_t until_ms;
} planner;

static void *plan(void *user)
{
    planner *me = user;
    flight flights[IN_FLIGHT] = {0};
    while (support_now_ms() < me->until_ms && book->calls < RECORDS - 1024) {
        flight *it = &flights[roll(&me->dice) % IN_FLIGHT];
        land(it);
        launch(it, &me->dice);
        if (chance(&me->dice, 12))
            disturb(flights, &me->dice);
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        land(&flights[i]);
    return NULL;
}

// ---- the check

static int complaints;
static void complain(uint32_t call, const char *what)
{
    record *it = &book->record[call];
    if (++complaints <= 20)
        fprintf(stderr,
                "call %u (parent %u): %s: begun %u, finished %u, ends %u, outcome %u, executed %u, "
                "status %s\n",
                call, it->parent, what, it->begun, it->finished, it->ends, it->outcome,
                it->executed, troupe_status_name((troupe_status)it->status));
}

static void check_record(uint32_t call)
{
    record *it = &book->record[call];
    if (it->begun > 1)
        complain(call, "it was run twice");
    if (it->ends > 1)
        complain(call, "it ended twice");
    // Whoever was to be told may have been killed.
    bool caller_lost = it->parent != 0 && book->record[it->parent].finished == 0;
    if (it->ends == 0 && !it->told && !caller_lost)
        complain(call, "it never ended");
    if (it->ends == 0)
        return;
    if (it->outcome == TROUPE_OUTCOME_NONE)
        complain(call, "its end is no outcome");
    if (it->outcome == TROUPE_OUTCOME_VALUE && it->finished != 1)
        complain(call, "it has a value and was not run to its end");
    if (it->executed == TROUPE_EXECUTED_YES && it->begun != 1)
        complain(call, "it is said to have been run and was not");
    if (it->executed == TROUPE_EXECUTED_NO && it->begun != 0)
        complain(call, "it is said not to have been run and was");
    if (it->outcome == TROUPE_OUTCOME_NOT_EXECUTED && it->executed != TROUPE_EXECUTED_NO)
        complain(call, "NOT_EXECUTED does not say so");
}

static bool store_is_as_before(void *objects)
{
    troupe_store_usage usage;
    return troupe_store_usage_get(&usage) == TROUPE_OK && usage.objects == *(uint64_t *)objects;
}

static void run_plan(int seconds)
{
    pthread_t threads[PLANNERS];
    planner planners[PLANNERS];
    uint64_t dice = seed;
    for (uint32_t i = 0; i < PLACES; i++)
        place_actor(i, &dice);
    for (int i = 0; i < PLANNERS; i++) {
        planners[i] = (planner){roll(&dice), support_now_ms() + seconds * 1000};
        assert_int_equal(pthread_create(&threads[i], NULL, plan, &planners[i]), 0);
    }
    for (int i = 0; i < PLANNERS; i++)
        pthread_join(threads[i], NULL);
}

static void report(void)
{
    uint32_t outcomes[8] = {0};
    for (uint32_t i = 1; i <= book->calls && i < RECORDS; i++)
        if (book->record[i].ends > 0)
            outcomes[book->record[i].outcome & 7]++;
    printf("%u calls: %u values, %u failed, %u not executed, %u maybe, %u timed out, %u cancelled; "
           "%u spawns, %u kills with -9, %u crashes, %u ends of actors, %u cancels\n",
           book->calls, outcomes[TROUPE_OUTCOME_VALUE], outcomes[TROUPE_OUTCOME_FAILED],
           outcomes[TROUPE_OUTCOME_NOT_EXECUTED], outcomes[TROUPE_OUTCOME_MAYBE_EXECUTED],
           outcomes[TROUPE_OUTCOME_DEADLINE_EXCEEDED], outcomes[TROUPE_OUTCOME_CANCELLED],
           book->spawns, book->kills, book->crashes, book->stops, book->cancels);
}

// One run: everything is counted, everything comes back.
static void conserve(int seconds)
{
    const char *given = getenv("TROUPE_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec ^ (uint64_t)getpid();
    printf("TROUPE_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    driver_pid = getpid();
    book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(book != MAP_FAILED);

    int descriptors = support_count_descriptors();
#if !defined(__SANITIZE_THREAD__) // Which has a thread of its own from the first one on.
    int threads = support_count_threads();
#endif
    troupe_must(troupe_start(0, NULL, .workers = WORKERS, .launch = TROUPE_LAUNCH_FORK));
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    run_plan(seconds);
    for (uint32_t i = 1; i <= book->addresses && i < ADDRESSES; i++)
        if (book->address[i].id != 0)
            (void)troupe_actor_kill(book->address[i]);
    // What is held by the dead, and by rings and mailboxes of those who are gone, has come back.
    bool empty = support_wait_until(store_is_as_before, &usage.objects, SUPPORT_SOON_MS);
    troupe_store_usage left;
    troupe_must(troupe_store_usage_get(&left));
    troupe_stop();

    report();
    for (uint32_t i = 1; i <= book->calls && i < RECORDS; i++)
        check_record(i);
    assert_int_equal(complaints, 0);
    assert_int_equal(book->odd, 0);
    if (!empty)
        fail_msg("%llu objects are left in the store", (unsigned long long)left.objects);
    assert_int_equal(support_count_descriptors(), descriptors);
#if !defined(__SANITIZE_THREAD__)
    assert_int_equal(support_count_threads(), threads);
#endif
    assert_int_equal(support_count_descendants(getpid()), 0);
    assert_true(book->calls > 100);
    (void)munmap(book, sizeof *book);
}

#endif
