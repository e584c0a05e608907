// test_queue.c: the bounded queue: order, bounds, waiting on both sides, closing, other processes,
// and callers that go away while they wait.
// timeout: 60
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(job, (int64_t, number), (troupe_text, name), (troupe_array_double, rates));
TROUPE_STRUCT(link_job, (troupe_queue, from), (troupe_queue, to), (int, count));

static _Atomic int *waiting_pid; // Shared with the worker processes.

// Moves so many values from one queue to another.
static troupe_status carry(const link_job *work, int *carried)
{
    int64_t value;
    *waiting_pid = getpid();
    for (*carried = 0; *carried < work->count; ++*carried) {
        TROUPE_TRY(troupe_queue_get(int64_t, work->from, &value));
        TROUPE_TRY(troupe_queue_put(int64_t, work->to, &value));
    }
    return TROUPE_OK;
}
TROUPE_TASK(carry, link_job, int);

static int set_up(void **state)
{
    (void)state;
    if (waiting_pid == NULL)
        waiting_pid = mmap(NULL, sizeof *waiting_pid, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *waiting_pid = 0;
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int set_up_small(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 2, .message_bytes_max = 64 << 10) ==
                   TROUPE_OK
               ? 0
               : -1;
}

static troupe_queue_state look(troupe_queue queue)
{
    troupe_queue_state state;
    troupe_must(troupe_queue_state_get(queue, &state));
    return state;
}

static void wait_for_waiters(troupe_queue queue, uint64_t getters, uint64_t putters)
{
    troupe_queue_state state = {0};
    for (int i = 0; i < 20000; i++) {
        state = look(queue);
        if (state.getters == getters && state.putters == putters)
            return;
        usleep(500);
    }
    assert_int_equal(state.getters, getters);
    assert_int_equal(state.putters, putters);
}

static void test_order_and_bounds(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        troupe_queue queue = troupe_queue_open(int64_t, .capacity = 3, .place = places[p]);
        int64_t value;
        assert_int_equal(troupe_queue_try_get(int64_t, queue, &value), TROUPE_TIMED_OUT);
        for (int64_t i = 1; i <= 3; i++)
            troupe_must(troupe_queue_put(int64_t, queue, &i));
        value = 4;
        assert_int_equal(troupe_queue_try_put(int64_t, queue, &value), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_queue_put(int64_t, queue, &value, 20), TROUPE_TIMED_OUT);
        assert_int_equal(look(queue).count, 3);
        assert_int_equal(look(queue).capacity, 3);
        assert_int_equal(look(queue).putters, 0);
        for (int64_t i = 1; i <= 3; i++) {
            troupe_must(troupe_queue_get(int64_t, queue, &value));
            assert_int_equal(value, i);
        }
        assert_int_equal(troupe_queue_get(int64_t, queue, &value, 20), TROUPE_TIMED_OUT);
        assert_int_equal(look(queue).count, 0);
        assert_int_equal(look(queue).bytes, 0);
        double wrong = 0.5;
        assert_int_equal(troupe_queue_put(double, queue, &wrong), TROUPE_WRONG_TYPE);
        assert_int_equal(troupe_queue_get(double, queue, &wrong), TROUPE_WRONG_TYPE);
        troupe_ref ref = {0};
        assert_int_equal(troupe_queue_put(troupe_ref, queue, &ref), TROUPE_UNSUPPORTED);
        troupe_actor_end(queue);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    troupe_queue queue = troupe_queue_open(troupe_bytes, .bytes_max = 1000);
    char *large = calloc(1, 200000);
    troupe_bytes value = {large, 200000}, out;
    large[199999] = 'x';
    troupe_must(troupe_queue_try_put(troupe_bytes, queue, &value)); // Alone it is let in.
    value.size = 10;
    assert_int_equal(troupe_queue_try_put(troupe_bytes, queue, &value), TROUPE_TIMED_OUT);
    troupe_must(troupe_queue_get(troupe_bytes, queue, &out));
    assert_int_equal(out.size, 200000);
    assert_int_equal(((const char *)out.data)[199999], 'x');
    value.size = 600;
    troupe_must(troupe_queue_try_put(troupe_bytes, queue, &value));
    assert_int_equal(troupe_queue_try_put(troupe_bytes, queue, &value), TROUPE_TIMED_OUT);
    troupe_actor_end(queue);
    free(large);
    troupe_arena_reset();
}

static void test_rich_values(void **state)
{
    (void)state;
    troupe_queue queue = troupe_queue_open(job, .name = "jobs", .place = TROUPE_PLACE_WORKER),
                 found;
    double rates[2] = {0.5, 0.25};
    job in = {.number = 7, .name = "seven", .rates = {rates, 2}}, out;
    troupe_must(troupe_queue_lookup("jobs", &found));
    assert_int_equal(troupe_queue_lookup("no-jobs", &found), TROUPE_NOT_FOUND);
    troupe_must(troupe_queue_put(job, found, &in));
    troupe_must(troupe_queue_get(job, queue, &out));
    assert_int_equal(out.number, 7);
    assert_string_equal(out.name, "seven");
    assert_int_equal(out.rates.count, 2);
    assert_true(out.rates.items[1] == 0.25);
    troupe_arena_reset();
}

static void test_many(void **state)
{
    (void)state;
    int64_t in[100], out[100];
    size_t count;
    troupe_queue queue = troupe_queue_open(int64_t, .capacity = 60, .place = TROUPE_PLACE_WORKER);
    for (int64_t i = 0; i < 100; i++)
        in[i] = i;
    troupe_must(troupe_queue_put_many(int64_t, queue, in, 50, &count));
    assert_int_equal(count, 50);
    assert_int_equal(troupe_queue_put_many(int64_t, queue, in + 50, 50, &count, TROUPE_POLL),
                     TROUPE_TIMED_OUT);
    assert_int_equal(count, 10); // As many as there was room for.
    assert_int_equal(troupe_queue_put_many(int64_t, queue, in + 60, 40, &count, 10),
                     TROUPE_TIMED_OUT);
    assert_int_equal(count, 0);
    troupe_must(troupe_queue_get_many(int64_t, queue, out, 45, &count));
    assert_int_equal(count, 45);
    troupe_must(troupe_queue_get_many(int64_t, queue, out + 45, 55, &count));
    assert_int_equal(count, 15); // As many as there are.
    for (int i = 0; i < 60; i++)
        assert_int_equal(out[i], i);
    assert_int_equal(troupe_queue_get_many(int64_t, queue, out, 10, &count, TROUPE_POLL),
                     TROUPE_TIMED_OUT);
    assert_int_equal(count, 0);
    assert_int_equal(troupe_queue_get_many(int64_t, queue, out, 0, &count), TROUPE_INVALID);
}

typedef struct side {
    troupe_queue queue;
    int64_t first;
    size_t count;
    troupe_status status;
    pthread_t thread;
} side;

static void *put_side(void *user)
{
    side *mine = user;
    int64_t values[64];
    for (size_t i = 0; i < mine->count; i++)
        values[i] = mine->first + (int64_t)i;
    mine->status = troupe_queue_put_many(int64_t, mine->queue, values, mine->count, NULL);
    return NULL;
}

static void *get_side(void *user)
{
    side *mine = user;
    mine->status = troupe_queue_get(int64_t, mine->queue, &mine->first);
    return NULL;
}

static void begin(side *mine, void *(*run)(void *), troupe_queue queue)
{
    mine->queue = queue;
    assert_int_equal(pthread_create(&mine->thread, NULL, run, mine), 0);
}

static void test_waiting_to_put(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        troupe_queue queue = troupe_queue_open(int64_t, .capacity = 4, .place = places[p]);
        side a = {.first = 0, .count = 20}, b = {.first = 20, .count = 20};
        int64_t value;
        begin(&a, put_side, queue);
        wait_for_waiters(queue, 0, 1);
        begin(&b, put_side, queue);
        wait_for_waiters(queue, 0, 2);
        value = 99;
        assert_int_equal(troupe_queue_try_put(int64_t, queue, &value), TROUPE_TIMED_OUT);
        for (int64_t i = 0; i < 40; i++) { // In the order of coming, none between.
            troupe_must(troupe_queue_get(int64_t, queue, &value));
            assert_int_equal(value, i);
        }
        pthread_join(a.thread, NULL);
        pthread_join(b.thread, NULL);
        assert_int_equal(a.status, TROUPE_OK);
        assert_int_equal(b.status, TROUPE_OK);
        wait_for_waiters(queue, 0, 0);
        troupe_actor_end(queue);
    }
}

static void test_waiting_to_get(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        troupe_queue queue = troupe_queue_open(int64_t, .place = places[p]);
        side sides[3] = {{.count = 0}};
        for (int i = 0; i < 3; i++) {
            begin(&sides[i], get_side, queue);
            wait_for_waiters(queue, (uint64_t)i + 1, 0);
        }
        int64_t values[4] = {10, 11, 12, 13};
        troupe_must(troupe_queue_put_many(int64_t, queue, values, 4, NULL));
        for (int i = 0; i < 3; i++) {
            pthread_join(sides[i].thread, NULL);
            assert_int_equal(sides[i].status, TROUPE_OK);
            assert_int_equal(sides[i].first, 10 + i);
        }
        assert_int_equal(look(queue).count, 1);
        troupe_actor_end(queue);
    }
}

static void test_closing(void **state)
{
    (void)state;
    troupe_queue queue = troupe_queue_open(int64_t, .capacity = 2, .place = TROUPE_PLACE_WORKER);
    side putter = {.first = 0, .count = 5}, getter = {.count = 0};
    int64_t value;
    begin(&putter, put_side, queue);
    wait_for_waiters(queue, 0, 1);
    troupe_must(troupe_queue_close(queue));
    pthread_join(putter.thread, NULL);
    assert_int_equal(putter.status, TROUPE_STOPPED);
    assert_true(look(queue).closed);
    value = 9;
    assert_int_equal(troupe_queue_put(int64_t, queue, &value), TROUPE_STOPPED);
    for (int64_t i = 0; i < 2; i++) { // What was in it comes out.
        troupe_must(troupe_queue_get(int64_t, queue, &value));
        assert_int_equal(value, i);
    }
    assert_int_equal(troupe_queue_get(int64_t, queue, &value), TROUPE_STOPPED);
    troupe_must(troupe_queue_close(queue));
    troupe_actor_end(queue);

    queue = troupe_queue_open(int64_t);
    begin(&getter, get_side, queue);
    wait_for_waiters(queue, 1, 0);
    troupe_must(troupe_queue_close(queue));
    pthread_join(getter.thread, NULL);
    assert_int_equal(getter.status, TROUPE_STOPPED);

    queue = troupe_queue_open(int64_t);
    getter.thread = 0;
    begin(&getter, get_side, queue);
    wait_for_waiters(queue, 1, 0);
    troupe_actor_end(queue); // Who waits at a queue that ends is told so.
    pthread_join(getter.thread, NULL);
    assert_int_equal(getter.status, TROUPE_MAYBE_EXECUTED);
}

static void test_between_processes(void **state)
{
    (void)state;
    enum { MANY = 500 };
    link_job work = {.from = troupe_queue_open(int64_t, .capacity = 8),
                     .to = troupe_queue_open(int64_t, .capacity = 8, .place = TROUPE_PLACE_HERE),
                     .count = MANY / 2};
    troupe_ref carriers[2] = {troupe_run_from(carry, &work), troupe_run_from(carry, &work)};
    int64_t value, sum = 0;
    int sent = 0, carried;
    for (int received = 0; received < MANY; received++) {
        for (value = sent; sent < MANY && sent - received < 16; value = ++sent)
            troupe_must(troupe_queue_put(int64_t, work.from, &value));
        troupe_must(troupe_queue_get(int64_t, work.to, &value));
        sum += value;
    }
    assert_int_equal(sum, (int64_t)MANY * (MANY - 1) / 2);
    for (int i = 0; i < 2; i++) {
        troupe_must(troupe_get(int, carriers[i], &carried));
        assert_int_equal(carried, MANY / 2);
    }
}

// A caller that dies as it waits takes nothing with it.
static void test_death_of_a_waiter(void **state)
{
    (void)state;
    link_job work = {.from = troupe_queue_open(int64_t, .place = TROUPE_PLACE_HERE),
                     .to = troupe_queue_open(int64_t, .place = TROUPE_PLACE_HERE),
                     .count = 1};
    troupe_ref carrier = troupe_run_from(carry, &work, .retries = TROUPE_NONE);
    wait_for_waiters(work.from, 1, 0);
    kill(*waiting_pid, SIGKILL);
    int carried;
    assert_int_equal(troupe_get(int, carrier, &carried), TROUPE_MAYBE_EXECUTED);
    int64_t value = 5;
    troupe_must(troupe_queue_put(int64_t, work.from, &value));
    value = 0;
    troupe_must(troupe_queue_get(int64_t, work.from, &value, 20000));
    assert_int_equal(value, 5);
    assert_int_equal(look(work.from).getters, 0);
}

enum { BULKY = 200, BULKY_SIZE = 1000 };

typedef struct bulk {
    troupe_queue queue;
    size_t rounds, got; // The next that is expected.
    troupe_status status;
} bulk;

static void *get_all_bulky(void *user)
{
    bulk *all = user;
    while (all->got < BULKY && all->status == TROUPE_OK) {
        troupe_bytes out[BULKY];
        size_t count;
        all->status =
            troupe_queue_get_many(troupe_bytes, all->queue, out, BULKY, &count, SUPPORT_SOON_MS);
        for (size_t i = 0; all->status == TROUPE_OK && i < count; i++)
            if (out[i].size != BULKY_SIZE ||
                *(const unsigned char *)out[i].data != (unsigned char)all->got++)
                all->status = TROUPE_CORRUPT;
        all->rounds++;
        troupe_arena_reset();
    }
    return NULL;
}

// More than one answer can carry: they come in several, and none is lost.
static void test_more_than_a_message(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        for (int waits = 0; waits < 2; waits++) {
            bulk all = {.queue = troupe_queue_open(troupe_bytes, .place = places[p])};
            static unsigned char data[BULKY][BULKY_SIZE];
            troupe_bytes values[BULKY];
            pthread_t reader;
            for (int i = 0; i < BULKY; i++) {
                memset(data[i], i, BULKY_SIZE);
                values[i] = (troupe_bytes){data[i], BULKY_SIZE};
            }
            if (waits != 0)
                assert_int_equal(pthread_create(&reader, NULL, get_all_bulky, &all), 0);
            for (int i = 0; i < BULKY; i += 50)
                troupe_must(troupe_queue_put_many(troupe_bytes, all.queue, values + i, 50, NULL));
            if (waits == 0)
                (void)get_all_bulky(&all);
            else
                pthread_join(reader, NULL);
            assert_int_equal(all.status, TROUPE_OK);
            assert_int_equal(all.got, BULKY);
            assert_true(all.rounds >= 4);
            assert_int_equal(look(all.queue).bytes, 0);
            troupe_actor_end(all.queue);
        }
    }
}

static void *put_one(void *user)
{
    int64_t value = 9;
    assert_int_equal(troupe_queue_put(int64_t, *(troupe_queue *)user, &value),
                     TROUPE_MAYBE_EXECUTED);
    return NULL;
}

static void *get_one(void *user)
{
    int64_t value;
    assert_int_equal(troupe_queue_get(int64_t, *(troupe_queue *)user, &value),
                     TROUPE_MAYBE_EXECUTED);
    return NULL;
}

// What was in it, or waited for it, is told or freed: LeakSanitizer looks at the latter.
static void test_killing(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        pthread_t thread;
        troupe_queue queue = troupe_queue_open(int64_t, .capacity = 3, .place = places[p]);
        for (int64_t value = 0; value < 3; value++)
            troupe_must(troupe_queue_put(int64_t, queue, &value));
        assert_int_equal(pthread_create(&thread, NULL, put_one, &queue), 0);
        wait_for_waiters(queue, 0, 1);
        assert_int_equal(troupe_actor_kill(queue.address), TROUPE_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        queue = troupe_queue_open(int64_t, .place = places[p]);
        assert_int_equal(pthread_create(&thread, NULL, get_one, &queue), 0);
        wait_for_waiters(queue, 1, 0);
        assert_int_equal(troupe_actor_kill(queue.address), TROUPE_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

enum { IMPATIENT = 8, KEPT = 20 };

static void *get_in_vain(void *queue)
{
    int64_t value, begin = support_now_ms();
    troupe_status status = troupe_queue_get(int64_t, *(troupe_queue *)queue, &value, 50);
    bool well = status == TROUPE_TIMED_OUT && support_now_ms() - begin < SUPPORT_SOON_MS &&
                strstr(troupe_last_error()->text, ": the process is stopped") != NULL;
    return well ? queue : NULL;
}

// Who waits at a queue whose process is stopped does not wait for ever, and nothing is lost.
static void test_a_stopped_queue(void **state)
{
    (void)state;
    pthread_t threads[IMPATIENT];
    bool got[KEPT] = {false};
    int64_t value;
    troupe_queue queue = troupe_queue_open(int64_t, .place = TROUPE_PLACE_ISOLATED);
    for (value = 0; value < KEPT; value++)
        troupe_must(troupe_queue_put(int64_t, queue, &value));
    pid_t pid = trp_process_pid(queue.address.process);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    void *well = &queue;
    for (int i = 0; i < IMPATIENT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_in_vain, &queue), 0);
    for (int i = 0; i < IMPATIENT; i++) {
        void *one;
        assert_int_equal(pthread_join(threads[i], &one), 0);
        well = one == NULL ? NULL : well;
    }
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_non_null(well);
    for (int i = 0; i < KEPT; i++) { // Perhaps in another order.
        troupe_must(troupe_queue_get(int64_t, queue, &value, SUPPORT_SOON_MS));
        assert_in_range(value, 0, KEPT - 1);
        assert_false(got[value]);
        got[value] = true;
    }
    assert_int_equal(troupe_queue_try_get(int64_t, queue, &value), TROUPE_TIMED_OUT);
}

static void test_failing_to_open(void **state)
{
    (void)state;
    troupe_queue queue = troupe_queue_open(int64_t, .name = "not a name");
    int64_t value = 1;
    assert_int_equal(troupe_queue_put(int64_t, queue, &value), TROUPE_INVALID);
    assert_int_equal(troupe_queue_get(int64_t, queue, &value), TROUPE_INVALID);
    assert_int_equal(troupe_queue_close(queue), TROUPE_INVALID);
    troupe_queue_state how;
    assert_int_equal(troupe_queue_state_get(queue, &how), TROUPE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_and_bounds, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_bytes, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_rich_values, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_many, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_waiting_to_put, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_waiting_to_get, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_closing, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_between_processes, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_death_of_a_waiter, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_more_than_a_message, set_up_small, stop_runtime),
        cmocka_unit_test_setup_teardown(test_killing, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_a_stopped_queue, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_failing_to_open, set_up, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
