// test_schedule.random.c: a day of random jobs on a simulated clock, many times over, beside a
// model that tries each minute; and what a long queue costs.
#include "support.h"

#include <server/schedule.h>
#include <stdlib.h>
#include <string.h>

#include "schedule_random.h"

enum {
    MINUTE = 60000,
    DAY = 24 * 60, // In minutes, as all times of the model.
    MOST = 60,
    KINDS = TRP_CUSTOM + 1,
    GRACE = 2,
    AHEAD = 1000, // Minutes: by then all that has a limit is over.
    UNSET = -1,
};

// A job as the model sees it.
typedef struct one {
    trp_request request;
    trp_ticket *ticket;
    int arrives, takes, limit, reserved; // It ends `takes` minutes after its start.
    int starts, ends;
    int cancels, pauses, shrinks, grows; // Minutes after arrival or start; UNSET: never.
    bool is_in, is_done;
} one;

// What may happen: in a plain or exact one each job takes as long as its limit says; in a kept one
// at most; in a wild one anything. In a plain one all have the same priority and none is reserved.
typedef enum keeping { PLAIN, EXACT, KEPT, WILD } keeping;

static struct {
    trp_schedule *schedule;
    trp_resources machine;
    unsigned seed;
    keeping limits;
    one all[MOST];
    int count, now, done;
    bool exceeded;     // A limit was: reservations may be late from then on.
    int head, promise; // The first that waits, and when it starts at the latest.
} sim;

static struct {
    long started, passed, reserved, late, refused, grown, elastic, promises, sooner;
} seen;

static int workloads = 0;

void schedule_workloads(int count)
{
    workloads = count;
}

static int below(unsigned *seed, int bound)
{
    return bound > 0 ? rand_r(seed) % bound : 0;
}

// ---- the model

static bool holds(const one *it)
{
    return it->is_in && !it->is_done && it->ticket->state == TRP_TICKET_RUNNING;
}

static bool is_kept(const one *it)
{
    return it->is_in && !it->is_done && it->ticket->state == TRP_TICKET_RESERVED;
}

static void add(const trp_ticket *ticket, int64_t used[KINDS], int64_t devices[TRP_GPUS_MAX])
{
    const trp_need *need = &ticket->request.need;
    for (int i = 0; i < KINDS; i++)
        used[i] += need->each.of[i] * ticket->ranks + (i == 0 ? need->coordinator_cpus : 0);
    int64_t each = need->each.of[TRP_GPUS];
    for (int rank = 0; each > 0 && rank < ticket->ranks; rank++)
        for (int i = 0; i < TRP_GPUS_MAX; i++)
            if (ticket->gpus[rank] >> i & 1)
                devices[i] += each < TRP_CPU ? each : TRP_CPU;
}

// What is used in each minute to come, by what runs until its limit and by what is reserved.
static struct {
    int64_t used[KINDS], devices[TRP_GPUS_MAX];
} minutes[AHEAD];

static void look_ahead(void)
{
    memset(minutes, 0, sizeof minutes);
    for (int k = 0; k < sim.count; k++) {
        const one *it = &sim.all[k];
        int from = is_kept(it) && it->reserved > sim.now ? it->reserved - sim.now : 0;
        int until = from + it->limit + GRACE - (holds(it) ? sim.now - it->starts : 0);
        if (it->limit == 0 || until > AHEAD)
            until = AHEAD;
        for (int i = from; (holds(it) || is_kept(it)) && i < until; i++)
            add(it->ticket, minutes[i].used, minutes[i].devices);
    }
}

static bool has_room(const trp_need *need, const int64_t used[KINDS],
                     const int64_t devices[TRP_GPUS_MAX])
{
    int least = need->min_ranks > 0 ? need->min_ranks : need->ranks, fit = 0;
    int64_t each = need->each.of[TRP_GPUS];
    for (int i = 0; i < KINDS; i++) {
        int64_t asked = need->each.of[i] * least + (i == 0 ? need->coordinator_cpus : 0);
        if (i != TRP_GPUS && asked > 0 && used[i] + asked > sim.machine.total.of[i])
            return false;
    }
    for (int i = 0; each > 0 && i < sim.machine.total.of[TRP_GPUS] / TRP_CPU; i++)
        fit += each < TRP_CPU ? (int)((TRP_CPU - devices[i]) / each) : devices[i] == 0;
    return each == 0 || (each < TRP_CPU ? fit >= least : fit >= least * (int)(each / TRP_CPU));
}

// When the head starts at the latest if nothing passes it: the first minute from which on there is
// room, on the same devices, as long as it may run. UNSET: that is not known.
static int model_promise(const one *it)
{
    look_ahead();
    for (int from = 0; from < AHEAD; from++) {
        int64_t most[KINDS] = {0}, full[TRP_GPUS_MAX] = {0};
        int until =
            it->limit > 0 && from + it->limit + GRACE < AHEAD ? from + it->limit + GRACE : AHEAD;
        int at = from;
        for (; at < until; at++) {
            for (int i = 0; i < KINDS; i++)
                most[i] = minutes[at].used[i] > most[i] ? minutes[at].used[i] : most[i];
            for (int i = 0; i < TRP_GPUS_MAX; i++)
                full[i] = minutes[at].devices[i] > full[i] ? minutes[at].devices[i] : full[i];
            if (!has_room(&it->request.need, most, full))
                break;
        }
        if (at == until)
            return sim.now + from;
    }
    return UNSET;
}

static bool is_over(const one *it)
{
    return holds(it) && it->limit > 0 && it->starts + it->limit + GRACE <= sim.now;
}

static bool any_over(void)
{
    for (int k = 0; k < sim.count; k++)
        if (is_over(&sim.all[k]))
            return true;
    return false;
}

// ---- a workload

static void make_need(unsigned *seed, one *it)
{
    trp_need *need = &it->request.need;
    int cpus = (int)(sim.machine.total.of[TRP_CPUS] / TRP_CPU);
    int gpus = (int)(sim.machine.total.of[TRP_GPUS] / TRP_CPU);
    need->ranks = 1 + below(seed, cpus);
    need->each.of[TRP_CPUS] = below(seed, 4) == 0 ? TRP_CPU / 2 : TRP_CPU;
    if (below(seed, 3) == 0 && need->ranks < cpus)
        need->coordinator_cpus = TRP_CPU / 2;
    if (below(seed, 3) == 0)
        need->each.of[TRP_MEMORY] =
            below(seed, 1 + (int)sim.machine.total.of[TRP_MEMORY] / need->ranks);
    if (below(seed, 4) == 0 && need->ranks <= sim.machine.total.of[TRP_CUSTOM] / TRP_CPU)
        need->each.of[TRP_CUSTOM] = TRP_CPU;
    if (gpus > 0 && below(seed, 2) == 0) {
        static const int64_t parts[] = {TRP_CPU / 4, TRP_CPU / 2, TRP_CPU * 6 / 10, TRP_CPU};
        need->each.of[TRP_GPUS] = parts[below(seed, 4)];
        int there = (int)(TRP_CPU / need->each.of[TRP_GPUS]) * gpus;
        need->ranks = need->ranks > there ? there : need->ranks;
        if (need->ranks == 1 && below(seed, 2) == 0)
            need->each.of[TRP_GPUS] = TRP_CPU * (1 + below(seed, gpus));
    }
    if (below(seed, 4) == 0)
        need->min_ranks = 1 + below(seed, need->ranks);
}

static void make_job(unsigned *seed, one *it, int at)
{
    bool wild = sim.limits == WILD;
    it->arrives = at;
    it->starts = it->ends = it->cancels = it->pauses = it->shrinks = it->grows = UNSET;
    it->takes = 1 + below(seed, below(seed, 4) == 0 ? 240 : 40);
    it->limit = it->takes - GRACE > 0 ? it->takes - GRACE : 1;
    if (sim.limits <= EXACT)
        it->takes = it->limit + GRACE;
    else
        it->limit += below(seed, 60);
    if (wild && below(seed, 3) == 0)
        it->limit = 0;
    else if (wild && below(seed, 6) == 0)
        it->limit = 1 + it->takes / 2;
    it->request.limit_ms = (int64_t)it->limit * MINUTE;
    if (sim.limits != PLAIN && below(seed, 3) == 0)
        it->request.priority = below(seed, 5) - 2;
    if (sim.limits != PLAIN && below(seed, 8) == 0) {
        it->reserved = at + 1 + below(seed, 120);
        it->request.start_ms = (int64_t)it->reserved * MINUTE;
    }
    if (wild && below(seed, 12) == 0)
        it->cancels = below(seed, 60);
    if (wild && below(seed, 12) == 0)
        it->pauses = 1 + below(seed, it->takes);
    if (wild && below(seed, 8) == 0)
        it->shrinks = below(seed, it->takes);
    if (sim.limits > EXACT && below(seed, 8) == 0)
        it->grows = below(seed, it->takes);
    make_need(seed, it);
}

static void make_workload(unsigned seed, keeping limits)
{
    memset(&sim, 0, sizeof sim);
    sim.seed = seed;
    sim.limits = limits;
    trp_resources_init(&sim.machine, (int64_t)(1 + below(&seed, 8)) * TRP_CPU,
                       below(&seed, 2) * below(&seed, 5), below(&seed, 100));
    assert_int_equal(trp_resources_add(&sim.machine, below(&seed, 2) ? "license=1" : "license=3"),
                     TROUPE_OK);
    sim.count = 10 + below(&seed, MOST - 9);
    int between = 1 + below(&seed, 2 * DAY / sim.count);
    for (int k = 0, at = 0; k < sim.count; k++) {
        sim.all[k].request.id = (uint64_t)k + 1;
        make_job(&seed, &sim.all[k], at);
        at += below(&seed, between);
        at = at < DAY ? at : DAY;
    }
    assert_int_equal(trp_schedule_open(&sim.schedule, &sim.machine, (int64_t)GRACE * MINUTE),
                     TROUPE_OK);
    sim.head = UNSET;
}

static void tell(const char *what, const one *it)
{
    if (getenv("TELL") == NULL)
        return;
    const trp_need *need = &it->request.need;
    print_message("%4d %-8s job %d: ranks %d of %d..%d, each %d CPUs %d GPUs %d bytes %d licenses, "
                  "coordinator %d, takes %d, limit %d, priority %d, reserved %d\n",
                  sim.now, what, (int)it->request.id, it->ticket->ranks, need->min_ranks,
                  need->ranks, (int)need->each.of[0], (int)need->each.of[1], (int)need->each.of[2],
                  (int)need->each.of[3], (int)need->coordinator_cpus, it->takes, it->limit,
                  it->request.priority, it->reserved);
}

static void leave(one *it)
{
    tell("leaves", it);
    trp_schedule_remove(sim.schedule, it->ticket);
    if (sim.head != UNSET && it == &sim.all[sim.head])
        sim.head = UNSET; // It was cancelled.
    it->is_done = true;
    sim.done++;
}

static void arrive(one *it)
{
    troupe_status status =
        trp_schedule_submit(sim.schedule, &it->request, (int64_t)sim.now * MINUTE, &it->ticket);
    if (it->reserved > 0 && status == TROUPE_BUSY) { // Then it takes its turn.
        seen.refused++;
        it->reserved = 0;
        it->request.start_ms = 0;
        status =
            trp_schedule_submit(sim.schedule, &it->request, (int64_t)sim.now * MINUTE, &it->ticket);
    }
    if (status == TROUPE_TOO_LARGE) { // Parts that fill no GPU.
        it->is_done = true;
        sim.done++;
        return;
    }
    assert_int_equal(status, TROUPE_OK);
    it->is_in = true;
    tell("arrives", it);
    if (it->reserved > 0)
        sim.head = UNSET; // What was promised before may be later now.
}

static void change(one *it)
{
    trp_ticket *ticket = it->ticket;
    int since = sim.now - it->starts, ranks = ticket->ranks;
    if (!holds(it)) {
        bool waits = ticket->state == TRP_TICKET_QUEUED || ticket->state == TRP_TICKET_RESERVED;
        if (waits && it->cancels == sim.now - it->arrives)
            leave(it);
        else if (ticket->state == TRP_TICKET_PAUSED && sim.now >= it->ends)
            trp_schedule_resume(sim.schedule, ticket, (int64_t)sim.now * MINUTE);
        return;
    }
    if (it->pauses == since) {
        it->pauses = UNSET; // It comes back after as long as it had still to run.
        trp_schedule_pause(sim.schedule, ticket);
    } else if (it->shrinks == since && ranks > 1) {
        assert_int_equal(trp_schedule_resize(sim.schedule, ticket, 1 + ranks / 2), TROUPE_OK);
        it->request.need = ticket->request.need;
    } else if (it->grows == since &&
               trp_schedule_resize(sim.schedule, ticket, ranks + 2) == TROUPE_OK) {
        it->request.need = ticket->request.need;
    }
}

static void start_all(void)
{
    int before;
    for (trp_ticket *ticket;
         (ticket = trp_schedule_next(sim.schedule, (int64_t)sim.now * MINUTE, &before)) != NULL;) {
        one *it = &sim.all[ticket->request.id - 1];
        if (before > 0) {
            assert_true(ticket->ranks > before && ticket->ranks <= ticket->request.need.ranks);
            seen.grown++;
            continue;
        }
        const trp_need *need = &it->request.need;
        // All or none; or, of an elastic one, between the two.
        assert_in_range(ticket->ranks, need->min_ranks > 0 ? need->min_ranks : need->ranks,
                        need->ranks);
        seen.elastic += ticket->ranks < need->ranks;
        seen.started++;
        if (sim.head != UNSET && it != &sim.all[sim.head] && it->reserved == 0) {
            if (ticket->order < sim.all[sim.head].ticket->order)
                sim.head = UNSET; // It was the first when it came.
            else
                seen.passed++;
        }
        if (it->reserved > 0 && it->starts == UNSET) {
            seen.reserved++;
            seen.late += sim.now > it->reserved;
            assert_true(sim.now >= it->reserved);
            if (sim.now > it->reserved && !sim.exceeded)
                fail_msg("seed %u: job %d was reserved for %d and started at %d", sim.seed,
                         (int)ticket->request.id, it->reserved, sim.now);
        }
        if (it == &sim.all[sim.head < 0 ? 0 : sim.head] && sim.head >= 0) {
            if (sim.promise != UNSET && sim.now > sim.promise)
                fail_msg("seed %u: job %d was the first, could have started at %d, and did at %d",
                         sim.seed, (int)ticket->request.id, sim.promise, sim.now);
            sim.head = UNSET;
        }
        tell("starts", it);
        it->starts = sim.now;
        it->ends = sim.now + it->takes;
    }
}

static void check_sums(void)
{
    int64_t used[KINDS] = {0}, devices[TRP_GPUS_MAX] = {0};
    for (int k = 0; k < sim.count; k++)
        if (holds(&sim.all[k]))
            add(sim.all[k].ticket, used, devices);
    for (int i = 0; i < KINDS; i++) {
        assert_true(used[i] <= sim.machine.total.of[i]);
        assert_true(trp_schedule_free(sim.schedule, i) == sim.machine.total.of[i] - used[i]);
    }
    for (int i = 0; i < TRP_GPUS_MAX; i++)
        assert_true(devices[i] <= (i < sim.machine.total.of[TRP_GPUS] / TRP_CPU ? TRP_CPU : 0));
}

// Who is first now, and when it has to have started.
static void note_head(void)
{
    const trp_ticket *first = trp_schedule_queued(sim.schedule, 0);
    int head = first != NULL ? (int)first->request.id - 1 : UNSET;
    if (head == sim.head)
        return;
    sim.head = head;
    if (head == UNSET)
        return;
    sim.promise = model_promise(&sim.all[head]);
    tell("is first", &sim.all[head]);
    seen.promises += sim.promise != UNSET;
    bool over = any_over();
    if (sim.promise == sim.now && !over)
        fail_msg("seed %u: job %d has room at %d and did not start", sim.seed, head + 1, sim.now);
    if (over || sim.limits == WILD)
        sim.promise = UNSET; // Limits are not kept.
    char why[TRP_SCHEDULE_WHY];
    int64_t at =
        trp_schedule_why(sim.schedule, sim.all[head].ticket, (int64_t)sim.now * MINUTE, why);
    assert_true(why[0] != '\0');
    if (sim.promise != UNSET && at != (int64_t)sim.promise * MINUTE)
        fail_msg("seed %u: job %d is expected at %lld, and by the model at %d", sim.seed, head + 1,
                 (long long)at / MINUTE, sim.promise);
}

static void fail_starved(void)
{
    char why[TRP_SCHEDULE_WHY];
    for (int k = 0; k < sim.count; k++)
        if (!sim.all[k].is_done) {
            trp_schedule_why(sim.schedule, sim.all[k].ticket, (int64_t)sim.now * MINUTE, why);
            print_message("job %d, in state %d, %s\n", k + 1, sim.all[k].ticket->state, why);
        }
    fail_msg("seed %u: %d of %d jobs never started", sim.seed, sim.count - sim.done, sim.count);
}

static void run_workload(unsigned seed, keeping limits, bool strict)
{
    make_workload(seed, limits);
    trp_schedule_strict(sim.schedule, strict);
    int most = 2 * DAY;
    for (int k = 0; k < sim.count; k++)
        most += 2 * sim.all[k].takes + GRACE; // As if one came after the other.
    for (sim.now = 0; sim.done < sim.count; sim.now++) {
        bool news = trp_schedule_due(sim.schedule, (int64_t)(sim.now - 1) * MINUTE) ==
                    (int64_t)sim.now * MINUTE;
        if (sim.now > most)
            fail_starved();
        for (int k = 0; k < sim.count; k++) {
            one *it = &sim.all[k];
            if (holds(it) && it->ends <= sim.now)
                leave(it), news = true;
        }
        sim.exceeded = sim.exceeded || any_over();
        for (int k = 0; k < sim.count; k++) {
            one *it = &sim.all[k];
            if (it->arrives == sim.now)
                arrive(it), news = true;
            else if (it->is_in && !it->is_done)
                change(it), news = news || sim.limits > EXACT;
        }
        if (!news)
            continue;
        start_all();
        check_sums();
        note_head();
    }
    assert_int_equal(trp_schedule_free(sim.schedule, 0), sim.machine.total.of[0]);
    trp_schedule_close(sim.schedule);
}

// The first that ever waits starts no later than in the same workload without back-filling.
static void compare_strict(unsigned seed)
{
    static int starts[MOST];
    run_workload(seed, PLAIN, true);
    int first = 0;
    while (first < sim.count - 1 && sim.all[first].starts <= sim.all[first].arrives)
        first++;
    for (int k = 0; k < sim.count; k++)
        starts[k] = sim.all[k].starts;
    run_workload(seed, PLAIN, false);
    for (int k = 0; k < sim.count; k++)
        seen.sooner += starts[k] - sim.all[k].starts;
    if (sim.all[first].starts > starts[first])
        fail_msg("seed %u: job %d started at %d instead of %d", seed, first + 1,
                 sim.all[first].starts, starts[first]);
}

// Never over the total, of each GPU too; gangs exact; nobody starves; the first starts when it was
// to start at the latest; reservations exact.
void test_random_workloads(void **state)
{
    (void)state;
    int count = workloads > 0 ? workloads : 300;
    for (int i = 0; i < count; i++) {
        unsigned seed = 20261126 + (unsigned)i;
        int kind = i % 4;
        if (kind == 0)
            compare_strict(seed);
        else
            run_workload(seed, kind == 1 ? EXACT : kind == 2 ? KEPT : WILD, false);
    }
    print_message(
        "%d workloads: %ld started, %ld of them past the first, %ld times the first had a "
        "time; %ld reserved (%ld refused, %ld late after a limit was exceeded); %ld grew, "
        "%ld with fewer ranks; %ld minutes sooner than without back-filling\n",
        count, seen.started, seen.passed, seen.promises, seen.reserved, seen.refused, seen.late,
        seen.grown, seen.elastic, seen.sooner);
    assert_true(seen.passed > count && seen.reserved > count && seen.promises > count &&
                seen.refused > 0 && seen.late > 0 && seen.grown > 0 && seen.elastic > 0 &&
                seen.sooner > 0);
}

// ---- cost

static trp_ticket *submit_one(int ranks, int64_t limit_ms, int64_t start_ms)
{
    trp_ticket *ticket = NULL;
    trp_request request = {.need.ranks = ranks, .limit_ms = limit_ms, .start_ms = start_ms};
    request.need.each.of[TRP_CPUS] = TRP_CPU;
    assert_int_equal(trp_schedule_submit(sim.schedule, &request, 0, &ticket), TROUPE_OK);
    return ticket;
}

// All that a pass has to look at at once: many that run and end at different times, reservations, a
// first one whose start has to be found, and behind it a queue of which each fits now and may not
// start.
static void measure(int queued)
{
    enum { RUNNING = 500, RESERVED = 50, PASSES = 100 };
    int before;
    trp_resources_init(&sim.machine, 1000 * TRP_CPU, 8, 1 << 20);
    assert_int_equal(trp_schedule_open(&sim.schedule, &sim.machine, 0), TROUPE_OK);
    for (int i = 0; i < RUNNING; i++)
        (void)submit_one(1, 1000000 + i * 10, 0);
    while (trp_schedule_next(sim.schedule, 0, &before) != NULL) {
    }
    for (int i = 0; i < RESERVED; i++)
        (void)submit_one(1, 100, 2000000 + i * 10);
    (void)submit_one(1000, 0, 0);
    int64_t begin = support_cpu_ns();
    for (int i = 0; i < queued; i++)
        (void)submit_one(1, 0, 0);
    int64_t submitted = support_cpu_ns();
    for (int i = 0; i < PASSES; i++)
        assert_null(trp_schedule_next(sim.schedule, 1, &before));
    double pass_us = (double)(support_cpu_ns() - submitted) / PASSES / 1e3;
    print_message("%d queued: %.2f us to submit one, %.0f us a pass\n", queued,
                  (double)(submitted - begin) / queued / 1e3, pass_us);
    trp_schedule_close(sim.schedule);
    assert_true(pass_us < 10000 * SUPPORT_SLOWER);
}

void test_a_long_queue_is_looked_through_quickly(void **state)
{
    (void)state;
    measure(1000);
    measure(10000);
}
