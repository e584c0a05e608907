// test_pause.c: who sends much to one actor lets it run, loses nothing by it, and waits for it only
// for a moment.
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

static troupe_status sink_take(sink *self, const int64_t *number, troupe_none *none)
{
    (void)none;
    if (*number >= 0 && *number != self->got)
        self->out_of_order = true;
    self->got++;
    return TROUPE_OK;
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

static troupe_status source_pour(source *self, const sink_actor *to, int64_t *sent)
{
    (void)self;
    for (*sent = 0; *sent < DEEP; ++*sent)
        TROUPE_TRY(troupe_tell(*to, sink_take, -1));
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
             (source_cpus, troupe_none, int));

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

static void test_many_senders(void **state)
{
    (void)state;
    enum { SENDERS = 8 };
    int64_t sent, got;
    start(2);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    troupe_ref refs[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
        refs[i] = troupe_call_from(from, source_pour, &to);
    }
    for (int i = 0; i < SENDERS; i++)
        troupe_must(troupe_get(int64_t, refs[i], &sent));
    troupe_must(troupe_get(int64_t, troupe_call(to, sink_sum), &got));
    assert_int_equal(got, SENDERS * DEEP);
    assert_int_equal(troupe_stop(), 0);
}

// Who is sent to does not take anything until the sender is done.
static void test_an_actor_that_does_not_run_holds_nobody_up(void **state)
{
    (void)state;
    int64_t sent, got;
    holds = false;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    start(2);
    sink_actor to = troupe_spawn(sink, .place = TROUPE_PLACE_HERE);
    source_actor from = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    troupe_ref held = troupe_call(to, sink_hold);
    troupe_must(troupe_get(int64_t, troupe_call_from(from, source_pour, &to), &sent,
                           .timeout_ms = SUPPORT_SOON_MS));
    assert_int_equal(sent, DEEP);
    assert_true(holds);
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
        cmocka_unit_test(test_an_actor_that_does_not_run_holds_nobody_up),
        cmocka_unit_test(test_threads_may_run_anywhere_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
