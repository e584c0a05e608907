// test_probe.c: rings of calls that wait for each other, through several processes: they are found,
// one wait of each is ended, and nothing is taken for a ring that is none.
// timeout: 90
#include <support.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>
#include <unistd.h>

enum { RING_MAX = 8, DEADLOCKS_MS = 20000 };

// Shared with the worker processes.
typedef struct board {
    _Atomic int gate, arrived, rings;
} board;
static board *shared;

typedef struct node {
    troupe_deferred later;
} node;

TROUPE_STRUCT(course, (troupe_array_troupe_actor, rest), (int, together), (int, timeout_ms),
              (int, ms));
TROUPE_STRUCT(course_end, (int64_t, depth), (troupe_text, note));

static troupe_status node_pass(node *self, const course *way, course_end *end);
static troupe_status node_defer(node *self, const troupe_none *none, int64_t *value);
static troupe_status node_ask_a_task(node *self, const troupe_actor *me, int64_t *value);
static troupe_status node_ask_a_part(node *self, const course *way, int64_t *depth);
static troupe_status node_ping(node *self, const int64_t *value, int64_t *out);
static troupe_status node_await(node *self, const troupe_actor *other, int64_t *value);

TROUPE_ACTOR(node, (node_pass, course, course_end), (node_defer, troupe_none, int64_t),
             (node_ask_a_task, troupe_actor, int64_t), (node_ask_a_part, course, int64_t),
             (node_ping, int64_t, int64_t), (node_await, troupe_actor, int64_t));

// Calls the first of the rest and waits, once all that go together have begun.
static troupe_status node_pass(node *self, const course *way, course_end *end)
{
    (void)self;
    shared->arrived++;
    while (shared->arrived < way->together)
        usleep(200);
    if (way->ms > 0)
        usleep((useconds_t)way->ms * 1000);
    if (way->rest.count == 0)
        return TROUPE_OK;
    course next = *way;
    next.together = 0;
    next.rest.items++;
    next.rest.count--;
    course_end after;
    node_actor first = {way->rest.items[0]};
    troupe_ref answer = troupe_call_from(first, node_pass, &next);
    troupe_status status =
        troupe_get(course_end, answer, &after, way->timeout_ms ? way->timeout_ms : TROUPE_FOREVER);
    bool own = status == TROUPE_DEADLOCK && troupe_last_error()->outcome == TROUPE_OUTCOME_NONE;
    shared->rings += own; // Not somebody else's that came back as an answer.
    if (status == TROUPE_TIMED_OUT)
        troupe_ref_drop(answer);
    end->depth = after.depth + 1;
    return status;
}

static troupe_status node_ping(node *self, const int64_t *value, int64_t *out)
{
    (void)self;
    *out = *value;
    return TROUPE_OK;
}

// Gives the answer that is owed, from outside all actors, once the gate is open.
static void *fulfil(void *user)
{
    node *self = user;
    int64_t value = 7;
    while (shared->gate == 0)
        usleep(500);
    (void)troupe_deferred_fulfil(int64_t, &self->later, &value);
    return NULL;
}

static troupe_status node_defer(node *self, const troupe_none *none, int64_t *value)
{
    (void)none, (void)value;
    pthread_t thread;
    self->later = troupe_defer();
    if (pthread_create(&thread, NULL, fulfil, self) != 0)
        return troupe_fail(TROUPE_FAILED, "no thread");
    pthread_detach(thread);
    shared->arrived++;
    return TROUPE_OK;
}

// Waits for the other one's deferred answer.
static troupe_status node_await(node *self, const troupe_actor *other, int64_t *value)
{
    (void)self;
    return troupe_get(int64_t, troupe_call((node_actor){*other}, node_defer), value);
}

static troupe_status call_back(const troupe_actor *who, int64_t *value)
{
    return troupe_get(int64_t, troupe_call((node_actor){*who}, node_ping, 1), value);
}
TROUPE_TASK(call_back, troupe_actor, int64_t);

static troupe_status node_ask_a_task(node *self, const troupe_actor *me, int64_t *value)
{
    (void)self;
    return troupe_get(int64_t, troupe_run_from(call_back, me), value);
}

static troupe_status node_ask_a_part(node *self, const course *way, int64_t *depth)
{
    (void)self;
    troupe_ref part;
    troupe_ref_split(course_end, troupe_call_from((node_actor){way->rest.items[0]}, node_pass, way),
                     &part, NULL);
    return troupe_get(int64_t, part, depth);
}

static int set_up(void **state)
{
    (void)state;
    if (shared == NULL)
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 0, sizeof *shared);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

static void make_nodes(troupe_actor *actors, int count, int first_place)
{
    static const troupe_place places[] = {TROUPE_PLACE_ISOLATED, TROUPE_PLACE_HERE,
                                          TROUPE_PLACE_WORKER, TROUPE_PLACE_WORKER};
    for (int i = 0; i < count; i++) {
        node_actor one = troupe_spawn(node, .place = places[(first_place + i) % 4]);
        troupe_must(troupe_actor_status(one.address));
        actors[i] = one.address;
    }
}

// One call goes round and comes back to where it began.
static void test_rings_of_all_sizes(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        troupe_actor actors[RING_MAX];
        course_end end;
        make_nodes(actors, size, size);
        troupe_actor way[RING_MAX];
        for (int i = 0; i < size; i++)
            way[i] = actors[(i + 1) % size];
        course round = {.rest = {way, (size_t)size}};
        shared->rings = 0;
        troupe_ref answer = troupe_call_from((node_actor){actors[0]}, node_pass, &round);
        assert_int_equal(troupe_get(course_end, answer, &end, DEADLOCKS_MS), TROUPE_DEADLOCK);
        assert_non_null(strstr(troupe_last_error()->text, " -> "));
        assert_int_equal(shared->rings, 1);
        // The ring works on: a course that does not come back is run to its end.
        round.rest.count = (size_t)size - 1;
        answer = troupe_call_from((node_actor){actors[0]}, node_pass, &round);
        troupe_must(troupe_get(course_end, answer, &end, DEADLOCKS_MS));
        assert_int_equal(end.depth, size - 1);
        for (int i = 0; i < size; i++)
            (void)troupe_actor_kill(actors[i]);
    }
    troupe_arena_reset();
}

// Of more actors than a bound that is thought of in passing: one call goes round.
static void find_large(int size, troupe_place odd)
{
    enum { LARGEST = 700 };
    static troupe_actor way[LARGEST];
    course_end end;
    for (int i = 0; i < size; i++) {
        node_actor one = troupe_spawn(node, .place = i % 2 == 0 ? TROUPE_PLACE_HERE : odd);
        way[(i + size - 1) % size] = one.address;
    }
    course round = {.rest = {way, (size_t)size}};
    shared->rings = 0;
    troupe_ref answer = troupe_call_from((node_actor){way[size - 1]}, node_pass, &round);
    assert_int_equal(troupe_get(course_end, answer, &end, DEADLOCKS_MS), TROUPE_DEADLOCK);
    assert_int_equal(shared->rings, 1);
    troupe_arena_reset();
}

static void test_a_large_ring(void **state)
{
    (void)state;
    find_large(150, TROUPE_PLACE_WORKER);
}

static void test_a_large_ring_in_one_process(void **state)
{
    (void)state;
    find_large(700, TROUPE_PLACE_HERE);
}

// Each calls the next at the same moment: one of the waits is ended, and so the others end. All
// probe their ring in step, and yet it is found soon, many times in a row.
static void test_all_at_once(void **state)
{
    (void)state;
    enum { TIMES = 24 };
    int64_t begun = support_now_ms();
    for (int time = 0; time < TIMES; time++) {
        int size = 2 + time % 3;
        troupe_actor actors[RING_MAX];
        troupe_ref answers[RING_MAX];
        make_nodes(actors, size, 0);
        shared->arrived = shared->rings = 0;
        for (int i = 0; i < size; i++) {
            course one = {.rest = {&actors[(i + 1) % size], 1}, .together = size};
            answers[i] = troupe_call_from((node_actor){actors[i]}, node_pass, &one);
        }
        int failed = 0;
        for (int i = 0; i < size; i++) {
            course_end end;
            troupe_status status = troupe_get(course_end, answers[i], &end, DEADLOCKS_MS);
            assert_true(status == TROUPE_OK || status == TROUPE_DEADLOCK);
            failed += status == TROUPE_DEADLOCK;
        }
        assert_int_equal(failed, 1);
        assert_int_equal(shared->rings, 1);
        for (int i = 0; i < size; i++)
            (void)troupe_actor_kill(actors[i]);
    }
    assert_in_range(support_now_ms() - begun, 0, DEADLOCKS_MS);
    troupe_arena_reset();
}

// Whoever waits first looks after 50 ms, and then is told at once: not at its next look, at 150.
static void test_told_at_once(void **state)
{
    (void)state;
    enum { TRIES = 60, NEXT_LOOK_MS = 150 };
    int64_t least_ms = INT64_MAX;
    for (int i = 0; i < TRIES && least_ms >= NEXT_LOOK_MS; i++) { // The machine may be slow.
        troupe_actor actors[2];
        course_end end;
        make_nodes(actors, 2, 0);
        course way = {.rest = {(troupe_actor[]){actors[1], actors[0]}, 2}};
        int64_t begun = support_now_ms();
        troupe_ref answer = troupe_call_from((node_actor){actors[0]}, node_pass, &way);
        assert_int_equal(troupe_get(course_end, answer, &end, DEADLOCKS_MS), TROUPE_DEADLOCK);
        int64_t took_ms = support_now_ms() - begun;
        least_ms = took_ms < least_ms ? took_ms : least_ms;
        for (int n = 0; n < 2; n++)
            (void)troupe_actor_kill(actors[n]);
    }
    assert_in_range(least_ms, 50, NEXT_LOOK_MS - 1);
    troupe_arena_reset();
}

// Long waits that end, and waits that end by themselves, are no rings.
static void test_long_waits_are_none(void **state)
{
    (void)state;
    troupe_actor actors[4];
    course_end end;
    make_nodes(actors, 4, 0);
    course way = {.rest = {actors + 1, 3}, .ms = 150};
    troupe_ref answer = troupe_call_from((node_actor){actors[0]}, node_pass, &way);
    troupe_must(troupe_get(course_end, answer, &end, DEADLOCKS_MS));
    assert_int_equal(end.depth, 3);
    // A ring of which one wait has a timeout.
    troupe_actor back[] = {actors[1], actors[0]};
    way = (course){.rest = {back, 2}, .timeout_ms = 400};
    answer = troupe_call_from((node_actor){actors[0]}, node_pass, &way);
    assert_int_not_equal(troupe_get(course_end, answer, &end, DEADLOCKS_MS), TROUPE_DEADLOCK);
    assert_int_equal(shared->rings, 0);
    troupe_arena_reset();
}

// An answer that is owed can be given by others than the method that waits.
static bool has_arrived(void *count)
{
    return shared->arrived >= *(int *)count;
}

static void test_deferred_answers_are_none(void **state)
{
    (void)state;
    troupe_actor actors[2];
    int64_t value;
    int one = 1;
    course_end end;
    make_nodes(actors, 2, 3);
    node_actor first = {actors[0]}, second = {actors[1]};
    // The first waits for what the second owes, the second for the first.
    troupe_ref waits = troupe_call_from(first, node_await, &second.address);
    assert_true(support_wait_until(has_arrived, &one, SUPPORT_SOON_MS));
    course way = {.rest = {&first.address, 1}};
    troupe_ref crossed = troupe_call_from(second, node_pass, &way);
    assert_int_equal(troupe_get(int64_t, waits, &value, 600), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_get(course_end, crossed, &end, 1), TROUPE_TIMED_OUT);
    assert_int_equal(shared->rings, 0);
    shared->gate = 1;
    troupe_must(troupe_get(int64_t, waits, &value, DEADLOCKS_MS));
    assert_int_equal(value, 7);
    troupe_must(troupe_get(course_end, crossed, &end, DEADLOCKS_MS));
    troupe_arena_reset();
}

static void test_through_a_task_and_a_part(void **state)
{
    (void)state;
    troupe_actor actors[2];
    int64_t value;
    make_nodes(actors, 2, 0);
    for (int i = 0; i < 2; i++) {
        node_actor one = {actors[i]};
        troupe_ref answer = troupe_call_from(one, node_ask_a_task, &one.address);
        assert_int_equal(troupe_get(int64_t, answer, &value, DEADLOCKS_MS), TROUPE_DEADLOCK);
        troupe_actor back[] = {actors[1 - i], actors[i]};
        course way = {.rest = {back, 2}};
        answer = troupe_call_from(one, node_ask_a_part, &way);
        assert_int_equal(troupe_get(int64_t, answer, &value, DEADLOCKS_MS), TROUPE_DEADLOCK);
    }
    troupe_arena_reset();
}

// Traffic that can form no ring, since each calls only those behind it, with waits that are long
// enough to be probed: none is ended.
static void test_traffic_is_none(void **state)
{
    (void)state;
    enum { ROUNDS = 3, NODES = 6, CALLS = 12 };
    troupe_actor actors[NODES];
    make_nodes(actors, NODES, 1);
    for (int round = 0; round < ROUNDS; round++) {
        troupe_ref answers[CALLS];
        for (int i = 0; i < CALLS; i++) {
            int from = i % (NODES - 1);
            course way = {.rest = {actors + from + 1, (size_t)(NODES - 1 - from)}, .ms = 7};
            answers[i] = troupe_call_from((node_actor){actors[from]}, node_pass, &way);
        }
        for (int i = 0; i < CALLS; i++) {
            course_end end;
            troupe_must(troupe_get(course_end, answers[i], &end, DEADLOCKS_MS));
        }
    }
    assert_int_equal(shared->rings, 0);
    troupe_arena_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rings_of_all_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_ring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_ring_in_one_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_told_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_waits_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deferred_answers_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_through_a_task_and_a_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_traffic_is_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
