// test_pause.c: an actor that sends much lets others run, loses nothing by it, and waits for them
// only for a moment.
#include <support.h>

#include <sched.h>
#include <semaphore.h>
#include <troupe.h>

enum { MANY = 50000, DEEP = 20000 };

typedef struct sink {
    int64_t got;
    bool out_of_order;
} sink;

static sem_t gate;
static _Atomic bool holds;
static _Atomic int taken; // Messages that sinks have run.

static troupe_status sink_take(sink *self, const int64_t *number, troupe_none *none)
{
    (void)none;
    if (*number >= 0 && *number != self->got)
        self->out_of_order = true;
    self->got++;
    taken++;
    return TROUPE_OK;
}

static bool is_held(void *unused)
{
    (void)unused;
    return holds;
}

static troupe_status sink_hold(sink *self, const troupe_none *from, troupe_none *none)
{
    (void)self, (void)from, (void)none;
    holds = true;
    sem_wait(&gate);
    return TROUPE_OK;
}

// How many messages came, or -1: not in order.
static troupe_status sink_sum(sink *self, const troupe_none *from, int64_t *got)
{
    (void)from;
    *got = self->out_of_order ? -1 : self->got;
    return TROUPE_OK;
}

TROUPE_ACTOR(sink, (sink_take, int64_t, troupe_none), (sink_hold, troupe_none, troupe_none),
             (sink_sum, troupe_none, int64_t));

enum { SINKS = 50, CROWD = 40 };
TROUPE_STRUCT(spread, (sink_actor, sinks, SINKS));
TROUPE_STRUCT(flood, (sink_actor, to), (int64_t, count));

typedef struct source {
    int unused;
} source;

static troupe_status source_count(source *self, const sink_actor *to, int64_t *sent)
{
    (void)self;
    for (*sent = 0; *sent < MANY; ++*sent)
        TROUPE_TRY(troupe_tell(*to, sink_take, *sent));
    return TROUPE_OK;
}

static troupe_status source_flood(source *self, const flood *what, int64_t *sent)
{
    (void)self;
    for (*sent = 0; *sent < what->count; ++*sent)
        TROUPE_TRY(troupe_tell(what->to, sink_take, -1));
    return TROUPE_OK;
}

static troupe_status source_pour(source *self, const sink_actor *to, int64_t *sent)
{
    return source_flood(self, &(flood){*to, DEEP}, sent);
}

// How many messages had been run when the last was sent.
static troupe_status source_spread(source *self, const spread *to, int *run)
{
    (void)self;
    for (int i = 0; i < DEEP; i++)
        TROUPE_TRY(troupe_tell(to->sinks[i % SINKS], sink_take, i / SINKS));
    *run = taken;
    return TROUPE_OK;
}

// Sends to one that waits until all has been sent.
static troupe_status source_open(source *self, const sink_actor *to, int64_t *sent)
{
    TROUPE_TRY(troupe_tell(*to, sink_hold, 0));
    TROUPE_TRY(source_pour(self, to, sent));
    sem_post(&gate);
    return TROUPE_OK;
}

// On how many CPUs this thread may run.
static troupe_status source_cpus(source *self, const troupe_none *from, int *cpus)
{
    (void)self, (void)from;
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    *cpus = CPU_COUNT(&mine);
    return TROUPE_OK;
}

TROUPE_ACTOR(source, (source_count, sink_actor, int64_t), (source_pour, sink_actor, int64_t),
             (source_flood, flood, int64_t), (source_spread, spread, int),
             (source_open, sink_actor, int64_t), (source_cpus, troupe_none, int));

static void start(int threads)
{
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = threads));
}

static void run_one(int threads)
{
    int64_t sent, got;
    start(threads);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_get(int64_t, troupe_call_from(from, source_count, &to), &sent));
    troupe_must(troupe_get(int64_t, troupe_call(to, sink_sum), &got));
    assert_int_equal(sent, MANY);
    assert_int_equal(got, MANY);
    assert_int_equal(troupe_stop(), 0);
}

static void test_all_come_in_order(void **state)
{
    (void)state;
    run_one(1);
    run_one(2);
}

static void run_senders(int threads, int senders, int64_t each)
{
    int64_t sent, got;
    troupe_ref refs[CROWD];
    start(threads);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    for (int i = 0; i < senders; i++) {
        source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
        flood what = {to, each};
        refs[i] = troupe_call_from(from, source_flood, &what);
    }
    for (int i = 0; i < senders; i++)
        troupe_must(troupe_get(int64_t, refs[i], &sent));
    troupe_must(troupe_get(int64_t, troupe_call(to, sink_sum), &got));
    assert_int_equal(got, senders * each);
    assert_int_equal(troupe_stop(), 0);
}

// More of them than may pause at a time, too.
static void test_many_senders(void **state)
{
    (void)state;
    run_senders(2, 8, DEEP);
    run_senders(1, CROWD, DEEP / 4);
    run_senders(2, CROWD, DEEP / 4);
}

// On one thread nobody else could take what is sent.
static void test_many_receivers_run_meanwhile(void **state)
{
    (void)state;
    int run;
    int64_t got;
    spread to;
    start(1);
    taken = 0;
    for (int i = 0; i < SINKS; i++)
        to.sinks[i] = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_get(int, troupe_call_from(from, source_spread, &to), &run));
    assert_true(run > 0); // How many depends on how fast the machine is.
    for (int i = 0; i < SINKS; i++) {
        troupe_must(troupe_get(int64_t, troupe_call(to.sinks[i], sink_sum), &got));
        assert_int_equal(got, DEEP / SINKS);
    }
    assert_int_equal(troupe_stop(), 0);
}

// A pause ends even if who runs meanwhile waits for the one that pauses.
static void test_a_receiver_that_waits_for_the_sender(void **state)
{
    (void)state;
    int64_t sent, got;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    start(1);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    troupe_must(
        troupe_get(int64_t, troupe_call_from(from, source_open, &to), &sent, SUPPORT_SOON_MS));
    assert_int_equal(sent, DEEP);
    troupe_must(troupe_get(int64_t, troupe_call(to, sink_sum), &got));
    assert_int_equal(got, DEEP);
    assert_int_equal(troupe_stop(), 0);
}

// Who is sent to does not take anything until the sender is done.
static void test_an_actor_that_does_not_run_delays_no_other(void **state)
{
    (void)state;
    int64_t sent, got;
    holds = false;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    start(2);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    troupe_ref held = troupe_call(to, sink_hold);
    assert_true(support_wait_until(is_held, NULL, SUPPORT_SOON_MS));
    troupe_must(
        troupe_get(int64_t, troupe_call_from(from, source_pour, &to), &sent, SUPPORT_SOON_MS));
    assert_int_equal(sent, DEEP);
    sem_post(&gate);
    troupe_none none;
    troupe_must(troupe_get(troupe_none, held, &none));
    troupe_must(troupe_get(int64_t, troupe_call(to, sink_sum), &got));
    assert_int_equal(got, DEEP);
    assert_int_equal(troupe_stop(), 0);
}

static void test_threads_may_run_anywhere_again(void **state)
{
    (void)state;
    enum { LOOKS = 20 };
    int64_t sent;
    int cpus;
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    start(2);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    for (int i = 0; i < LOOKS; i++) {
        troupe_must(troupe_get(int64_t, troupe_call_from(from, source_pour, &to), &sent));
        troupe_must(troupe_get(int, troupe_call(from, source_cpus), &cpus));
        assert_int_equal(cpus, CPU_COUNT(&mine));
    }
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come_in_order),
        cmocka_unit_test(test_many_senders),
        cmocka_unit_test(test_many_receivers_run_meanwhile),
        cmocka_unit_test(test_a_receiver_that_waits_for_the_sender),
        cmocka_unit_test(test_an_actor_that_does_not_run_delays_no_other),
        cmocka_unit_test(test_threads_may_run_anywhere_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
