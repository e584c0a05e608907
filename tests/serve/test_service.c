// test_service.c: services asked by threads of the program: batches, bounds, deaths, and their end.
#include "served_model.h"

#include <pthread.h>
#include <stdio.h>

enum { SOON = SUPPORT_SOON_MS };

static void assert_said(troupe_status status, troupe_status expected, const char *text)
{
    assert_int_equal(status, expected);
    if (!strstr(troupe_last_error()->text, text))
        fail_msg("expected '%s' in: %s", text, troupe_last_error()->text);
}

static troupe_ref ask(troupe_service service, size_t rows, int seed)
{
    float in[64 * ROW];
    fill_rows(in, rows, seed);
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, rows, ROW);
    return troupe_predict(service, &x);
}

static troupe_ref ask_for(troupe_service service, float first)
{
    float in[ROW] = {first, 1, 2, 3};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, 1, ROW);
    return troupe_predict(service, &x);
}

// Whether the answer is what an instance here gives for these rows, to the bit.
static void assert_answer(troupe_instance *instance, const troupe_tensor *y, size_t rows, int seed)
{
    float in[64 * ROW];
    troupe_tensor expected;
    fill_rows(in, rows, seed);
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, rows, ROW);
    troupe_must(troupe_model_forward(instance, &x, &expected));
    assert_int_equal(y->ndim, 2);
    assert_int_equal(y->shape[0], rows);
    assert_int_equal(y->shape[1], OUT);
    assert_memory_equal(y->data, expected.data, rows * OUT * sizeof(float));
}

static troupe_service_info info_of(troupe_service service)
{
    troupe_service_info info;
    troupe_must(troupe_service_info_get(service, &info));
    return info;
}

static int begin(void **state)
{
    (void)state;
    shared = support_zeros(shared, sizeof *shared);
    shared->driver = getpid();
    return 0;
}

// ---- predictions

// G15, G25: a prediction is what forward gives, by one reference.
static void test_predictions_are_the_models_own(void **state)
{
    (void)state;
    troupe_service service;
    troupe_instance *instance;
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .replicas = 2,
                             .config = "{\"scale\": 0.3}"));
    troupe_must(troupe_model_open(served, NULL, "{\"scale\": 0.3}", &instance));
    for (int i = 0; i < 50; i++) {
        size_t rows = 1 + (size_t)i % 40;
        troupe_must(troupe_get(troupe_tensor, ask(service, rows, i), &y));
        assert_answer(instance, &y, rows, i);
        troupe_arena_reset();
    }
    troupe_service_info info = info_of(service);
    assert_string_equal(info.route, "/served");
    assert_string_equal(info.url, "");
    assert_int_equal(info.replicas, 2);
    assert_int_equal(info.replicas_alive, 2);
    assert_int_equal(info.answered, 50);
    assert_int_equal(info.failed + info.refused + info.queued + info.under_way, 0);
    assert_true(info.p50_s > 0 && info.p50_s <= info.p99_s && info.p99_s <= info.longest_s);
    troupe_must(troupe_service_stop(service));
    assert_said(troupe_get(troupe_tensor, ask(service, 1, 1), &y), TROUPE_NOT_EXECUTED, "");
    troupe_model_close(&instance);
}

// G01, G15: the weights are those of the checkpoint, also where its path is relative.
static void test_a_checkpoint_is_served(void **state)
{
    (void)state;
    troupe_service service;
    troupe_instance *instance;
    troupe_tensor y;
    char *storage = support_directory_make(), *before = getcwd(NULL, 0);
    char *checkpoint = train_served(storage, "run", 8);
    assert_int_equal(strncmp(checkpoint, storage, strlen(storage)), 0);
    assert_int_equal(chdir(storage), 0);
    troupe_must(troupe_serve(served, checkpoint + strlen(storage) + 1, "/served", &service));
    assert_int_equal(chdir(before), 0);
    troupe_must(troupe_model_open(served, checkpoint, NULL, &instance));
    assert_true(troupe_model_self(served, instance)->weights[0] == 4 * 0.25f);
    troupe_must(troupe_get(troupe_tensor, ask(service, 3, 3), &y));
    assert_answer(instance, &y, 3, 3);
    troupe_must(troupe_service_stop(service));
    char *path = malloc(strlen(checkpoint) + 6);
    assert_non_null(path);
    (void)sprintf(path, "file:%s", checkpoint);
    troupe_must(troupe_serve(served, path, "/served", &service));
    troupe_must(troupe_service_stop(service));
    free(path);
    troupe_model_close(&instance);
    free(checkpoint);
    troupe_arena_reset();
    support_directory_remove(storage);
    free(before);
}

typedef struct asker {
    troupe_service service;
    troupe_instance *instance;
    pthread_barrier_t *barrier;
    int seed, rounds;
} asker;

static void *ask_many(void *user)
{
    asker *it = user;
    (void)pthread_barrier_wait(it->barrier);
    for (int i = 0; i < it->rounds; i++) {
        size_t rows = 1 + (size_t)(it->seed + i) % 5;
        troupe_tensor y;
        troupe_must(troupe_get(troupe_tensor, ask(it->service, rows, it->seed + i), &y));
        assert_answer(it->instance, &y, rows, it->seed + i);
        troupe_arena_reset();
    }
    return NULL;
}

// What comes while the replica computes is asked together, and each gets its own rows.
static void test_requests_are_asked_together(void **state)
{
    enum { MANY = 8, ROUNDS = 25 };
    (void)state;
    troupe_service service;
    pthread_barrier_t barrier;
    pthread_t threads[MANY];
    asker askers[MANY];
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .batch = 16));
    (void)pthread_barrier_init(&barrier, NULL, MANY);
    for (int i = 0; i < MANY; i++) {
        askers[i] = (asker){service, NULL, &barrier, i * 100, ROUNDS};
        troupe_must(troupe_model_open(served, NULL, NULL, &askers[i].instance));
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &askers[i]), 0);
    }
    for (int i = 0; i < MANY; i++) {
        (void)pthread_join(threads[i], NULL);
        troupe_model_close(&askers[i].instance);
    }
    (void)pthread_barrier_destroy(&barrier);
    troupe_service_info info = info_of(service);
    assert_int_equal(info.answered, MANY * ROUNDS);
    assert_in_range(info.batches, 1, MANY * ROUNDS - 1);
    // Eight of one row behind a batch that waits are one more.
    uint64_t before = info.batches;
    atomic_store(&shared->gate, 1);
    troupe_ref first = ask(service, 1, 0), rest[MANY];
    support_await_counter(&shared->at_gate, 1);
    for (int i = 0; i < MANY; i++)
        rest[i] = ask(service, 2, i);
    assert_int_equal(info_of(service).queued, MANY);
    atomic_store(&shared->gate, 0);
    troupe_must(troupe_get(troupe_tensor, first, &y));
    for (int i = 0; i < MANY; i++)
        troupe_must(troupe_get(troupe_tensor, rest[i], &y));
    assert_int_equal(info_of(service).batches, before + 2);
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

static void test_a_large_request_goes_alone(void **state)
{
    (void)state;
    troupe_service service;
    troupe_instance *instance;
    troupe_tensor y;
    troupe_ref refs[3];
    const size_t rows[] = {3, 40, 3};
    troupe_must(troupe_serve(served, NULL, "/served", &service, .batch = 8));
    troupe_must(troupe_model_open(served, NULL, NULL, &instance));
    atomic_store(&shared->gate, 1);
    troupe_ref first = ask(service, 1, 0);
    support_await_counter(&shared->at_gate, 1);
    for (int i = 0; i < 3; i++)
        refs[i] = ask(service, rows[i], i);
    atomic_store(&shared->gate, 0);
    troupe_must(troupe_get(troupe_tensor, first, &y));
    for (int i = 0; i < 3; i++) {
        troupe_must(troupe_get(troupe_tensor, refs[i], &y));
        assert_answer(instance, &y, rows[i], i);
    }
    assert_int_equal(info_of(service).batches, 4);
    troupe_must(troupe_service_stop(service));
    troupe_model_close(&instance);
    troupe_arena_reset();
}

static void test_a_wrong_shape_is_refused_at_once(void **state)
{
    (void)state;
    troupe_service service;
    double numbers[8] = {0};
    troupe_tensor y;
    const troupe_tensor wrong[] = {troupe_tensor_of(TROUPE_FLOAT64, numbers, 1, ROW),
                                   troupe_tensor_of(TROUPE_FLOAT32, numbers, ROW),
                                   troupe_tensor_of(TROUPE_FLOAT32, numbers, 2, ROW + 1)};
    const troupe_tensor none = troupe_tensor_of(TROUPE_FLOAT32, numbers, 0, ROW);
    troupe_must(troupe_serve(served, NULL, "/served", &service));
    for (size_t i = 0; i < 3; i++)
        assert_said(troupe_get(troupe_tensor, troupe_predict(service, &wrong[i]), &y),
                    TROUPE_WRONG_TYPE, "where float32[?,4] was expected");
    assert_non_null(strstr(troupe_last_error()->text, "float32[2,5]"));
    assert_said(troupe_get(troupe_tensor, troupe_predict(service, &none), &y), TROUPE_WRONG_TYPE,
                "at least one row");
    assert_int_equal(info_of(service).refused, 4);
    assert_int_equal(atomic_load(&shared->asked), 0);
    troupe_must(troupe_service_stop(service));
}

// ---- failures of the model

static void test_a_failure_is_its_batchs_answer(void **state)
{
    (void)state;
    troupe_service service;
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service));
    assert_said(troupe_get(troupe_tensor, ask_for(service, ROW_FAILS), &y), TROUPE_UNSUPPORTED,
                "forward: a row that fails");
    troupe_must(troupe_get(troupe_tensor, ask(service, 1, 1), &y));
    assert_int_equal(info_of(service).failed, 1);
    assert_int_equal(info_of(service).restarts, 0);
    troupe_must(troupe_service_stop(service));
}

// Three behind a closed gate, the second of which goes wrong.
static void ask_three(troupe_service service, float second, troupe_ref refs[3])
{
    atomic_store(&shared->gate, 1);
    troupe_ref first = ask(service, 1, 0);
    troupe_tensor y;
    support_await_counter(&shared->at_gate, 1);
    refs[0] = ask_for(service, 1);
    refs[1] = ask_for(service, second);
    refs[2] = ask_for(service, 3);
    atomic_store(&shared->gate, 0);
    troupe_must(troupe_get(troupe_tensor, first, &y));
}

static void test_what_may_be_repeated_fails_alone(void **state)
{
    (void)state;
    troupe_service service;
    troupe_tensor y;
    troupe_ref refs[3];
    troupe_must(troupe_serve(served, NULL, "/served", &service, .repeatable = true));
    ask_three(service, ROW_FAILS, refs);
    troupe_must(troupe_get(troupe_tensor, refs[0], &y));
    assert_said(troupe_get(troupe_tensor, refs[1], &y), TROUPE_UNSUPPORTED, "a row that fails");
    troupe_must(troupe_get(troupe_tensor, refs[2], &y));
    ask_three(service, ROW_CRASHES, refs);
    troupe_must(troupe_get(troupe_tensor, refs[0], &y));
    assert_said(troupe_get(troupe_tensor, refs[1], &y), TROUPE_PEER_LOST, "was lost");
    troupe_must(troupe_get(troupe_tensor, refs[2], &y));
    troupe_service_info info = info_of(service);
    assert_int_equal(info.answered, 6);
    assert_int_equal(info.failed, 2);
    assert_int_equal(info.restarts, 2);
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

static void test_rows_that_come_back_as_one_are_no_answer(void **state)
{
    (void)state;
    troupe_service service;
    troupe_tensor y;
    troupe_ref refs[3];
    troupe_must(troupe_serve(served, NULL, "/served", &service, .config = "{\"single\": true}"));
    ask_three(service, 2, refs);
    for (int i = 0; i < 3; i++)
        assert_said(troupe_get(troupe_tensor, refs[i], &y), TROUPE_WRONG_TYPE, ".batch = 1");
    troupe_must(troupe_service_stop(service));
    troupe_must(troupe_serve(served, NULL, "/served", &service, .batch = 1,
                             .config = "{\"single\": true}"));
    ask_three(service, 2, refs);
    for (int i = 0; i < 3; i++)
        troupe_must(troupe_get(troupe_tensor, refs[i], &y));
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

// ---- bounds

static void test_the_queue_is_bounded(void **state)
{
    (void)state;
    troupe_service service;
    troupe_ref refs[9];
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .queue = 4));
    atomic_store(&shared->gate, 1);
    refs[0] = ask(service, 1, 0);
    support_await_counter(&shared->at_gate, 1);
    for (int i = 1; i < 9; i++)
        refs[i] = ask(service, 1, i);
    for (int i = 5; i < 9; i++)
        assert_said(troupe_get(troupe_tensor, refs[i], &y, SOON), TROUPE_BUSY,
                    "4 requests wait for service '/served': 4 may");
    atomic_store(&shared->gate, 0);
    for (int i = 0; i < 5; i++)
        troupe_must(troupe_get(troupe_tensor, refs[i], &y));
    troupe_service_info info = info_of(service);
    assert_int_equal(info.answered, 5);
    assert_int_equal(info.refused, 4);
    assert_int_equal(info.queued, 0);
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

// Where the deadline is short, a busy machine may need several.
static void ask_until_answered(troupe_service service)
{
    troupe_tensor y;
    int64_t until = support_now_ms() + SOON;
    while (troupe_get(troupe_tensor, ask(service, 1, 1), &y, SOON) != TROUPE_OK) {
        troupe_status status = troupe_last_error()->status;
        assert_true(status == TROUPE_DEADLINE_EXCEEDED || status == TROUPE_PEER_LOST);
        assert_true(support_now_ms() < until);
    }
}

static void test_what_hangs_is_killed_at_its_deadline(void **state)
{
    (void)state;
    troupe_service service;
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .deadline_ms = 300));
    troupe_ref hangs = ask_for(service, ROW_HANGS);
    pid_t first = atomic_load(&shared->pids[0]);
    assert_said(troupe_get(troupe_tensor, hangs, &y, SOON), TROUPE_PEER_LOST, "");
    assert_true(support_processes_end(&first, 1, SOON));
    ask_until_answered(service);
    assert_in_range(info_of(service).restarts, 1, PIDS);
    // So is one whose process was stopped before it was asked.
    pid_t stopped = atomic_load(&shared->pids[atomic_load(&shared->begins) - 1]);
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    assert_said(troupe_get(troupe_tensor, ask(service, 1, 1), &y, SOON), TROUPE_PEER_LOST, "");
    assert_true(support_processes_end(&stopped, 1, SOON));
    ask_until_answered(service);
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

static void test_a_wait_without_replicas_ends(void **state)
{
    (void)state;
    troupe_service service;
    troupe_tensor y;
    atomic_store(&shared->begins_max, 1); // None comes after the first.
    troupe_must(troupe_serve(served, NULL, "/served", &service, .deadline_ms = 400));
    assert_said(troupe_get(troupe_tensor, ask_for(service, ROW_CRASHES), &y, SOON),
                TROUPE_PEER_LOST, "replica 0 of service '/served' was lost");
    assert_said(troupe_get(troupe_tensor, ask(service, 1, 1), &y, SOON), TROUPE_DEADLINE_EXCEEDED,
                "had no replica for it within 400 ms");
    assert_int_equal(info_of(service).replicas_alive, 0);
    atomic_store(&shared->begins_max, 0);
    ask_until_answered(service);
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

// ---- deaths

static bool all_alive(void *service)
{
    troupe_service_info info = info_of(*(troupe_service *)service);
    return info.replicas_alive == info.replicas;
}

enum { ASKERS = 4 };
typedef struct tally {
    troupe_service service;
    atomic_int answered, lost, threads, rounds[ASKERS];
    atomic_bool enough;
} tally;

static void *ask_until_enough(void *user)
{
    tally *it = user;
    int me = atomic_fetch_add(&it->threads, 1);
    troupe_instance *instance;
    troupe_must(troupe_model_open(served, NULL, NULL, &instance));
    for (int i = 0; !atomic_load(&it->enough); i++) {
        troupe_tensor y;
        troupe_status status = troupe_get(troupe_tensor, ask(it->service, 2, i), &y, SOON);
        if (status == TROUPE_OK)
            assert_answer(instance, &y, 2, i);
        else
            assert_int_equal(status, TROUPE_PEER_LOST);
        atomic_fetch_add(status == TROUPE_OK ? &it->answered : &it->lost, 1);
        atomic_fetch_add(&it->rounds[me], 1);
        troupe_arena_reset();
    }
    troupe_model_close(&instance);
    return NULL;
}

// A replica is killed under load, again and again: what it had fails at most once, or is asked
// again; the others go on, and a new one comes.
static void kill_under_load(bool repeatable)
{
    enum { KILLS = 5 };
    tally all = {0};
    pthread_t threads[ASKERS];
    troupe_must(troupe_serve(served, NULL, "/served", &all.service, .replicas = 2, .batch = 4,
                             .repeatable = repeatable));
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_until_enough, &all), 0);
    for (int kills = 0; kills < KILLS; kills++) {
        // What a kill hit has been answered by the next one: two deaths may be too many for it.
        for (int i = 0; i < ASKERS; i++)
            support_await_counter(&all.rounds[i], atomic_load(&all.rounds[i]) + 2);
        pid_t victim = atomic_load(&shared->pids[kills]);
        assert_int_equal(kill(victim, SIGKILL), 0);
        assert_true(support_processes_end(&victim, 1, SOON));
        support_await_counter(&shared->begins, 2 + kills + 1);
        assert_true(support_wait_until(all_alive, &all.service, SOON));
    }
    atomic_store(&all.enough, true);
    for (int i = 0; i < ASKERS; i++)
        (void)pthread_join(threads[i], NULL);
    troupe_service_info info = info_of(all.service);
    assert_int_equal(info.restarts, KILLS);
    assert_int_equal(info.answered, atomic_load(&all.answered));
    assert_int_equal(info.failed, atomic_load(&all.lost));
    assert_in_range(atomic_load(&all.lost), 0, repeatable ? 0 : KILLS * ASKERS);
    assert_int_equal(info.under_way + info.queued, 0);
    troupe_must(troupe_service_stop(all.service));
}

static void test_a_replica_is_killed_under_load(void **state)
{
    (void)state;
    kill_under_load(false);
}

static void test_what_may_be_repeated_survives_kills(void **state)
{
    (void)state;
    kill_under_load(true);
}

// One that idles dies: nothing is lost, and a new one is there before anything is asked.
static void test_an_idle_replica_is_replaced(void **state)
{
    (void)state;
    troupe_service service;
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service));
    assert_int_equal(kill(atomic_load(&shared->pids[0]), SIGKILL), 0);
    support_await_counter(&shared->begins, 2);
    assert_true(support_wait_until(all_alive, &service, SOON));
    troupe_must(troupe_get(troupe_tensor, ask(service, 1, 1), &y, SOON));
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

// ---- beginning and end

static void test_a_start_that_fails_leaves_nothing(void **state)
{
    (void)state;
    troupe_service service = {0};
    atomic_store(&shared->begins_max, 1);
    assert_said(troupe_serve(served, NULL, "/served", &service, .replicas = 3), TROUPE_UNSUPPORTED,
                "setup: no more instances");
    pid_t first = atomic_load(&shared->pids[0]);
    assert_true(support_processes_end(&first, 1, SOON));
    assert_said(troupe_serve(served, "/no/such", "/served", &service), TROUPE_NOT_FOUND, "");
    assert_said(troupe_serve(served, NULL, "/served", &service, .config = "{\"scal\": 1}"),
                TROUPE_NOT_FOUND, "\"scal\"");
    const char *const wrong[] = {"", "/", "served", "/a b", "/healthz", "/metrics", "/a?b"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_said(troupe_serve(served, NULL, wrong[i], &service), TROUPE_INVALID, "the route");
    assert_int_equal(service.address.id, 0);
}

typedef struct stopper {
    troupe_service service;
    int force_after_ms;
    troupe_status status;
} stopper;

static void *stop(void *user)
{
    stopper *it = user;
    it->status = troupe_service_stop(it->service, it->force_after_ms);
    return NULL;
}

static bool is_stopping(void *service)
{
    return info_of(*(troupe_service *)service).stopping;
}

static void test_a_stop_answers_what_was_accepted(void **state)
{
    (void)state;
    stopper it = {.force_after_ms = TROUPE_FOREVER};
    pthread_t thread;
    troupe_ref refs[10];
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &it.service, .replicas = 2, .batch = 1));
    atomic_store(&shared->gate, 1);
    for (int i = 0; i < 10; i++)
        refs[i] = ask(it.service, 1, i);
    support_await_counter(&shared->at_gate, 2);
    assert_int_equal(pthread_create(&thread, NULL, stop, &it), 0);
    assert_true(support_wait_until(is_stopping, &it.service, SOON));
    assert_said(troupe_get(troupe_tensor, ask(it.service, 1, 1), &y), TROUPE_STOPPED,
                "service '/served' is being stopped");
    assert_said(troupe_service_stop(it.service), TROUPE_BUSY, "is being stopped already");
    atomic_store(&shared->gate, 0);
    for (int i = 0; i < 10; i++)
        troupe_must(troupe_get(troupe_tensor, refs[i], &y));
    (void)pthread_join(thread, NULL);
    assert_int_equal(it.status, TROUPE_OK);
    pid_t pids[] = {atomic_load(&shared->pids[0]), atomic_load(&shared->pids[1])};
    assert_true(support_processes_end(pids, 2, SOON));
    troupe_arena_reset();
}

static void test_a_stop_by_force_refuses_the_rest(void **state)
{
    (void)state;
    troupe_service service;
    troupe_ref refs[4];
    troupe_tensor y;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .batch = 1));
    refs[0] = ask_for(service, ROW_HANGS);
    for (int i = 1; i < 4; i++)
        refs[i] = ask(service, 1, i);
    support_await_counter(&shared->asked, 1);
    assert_said(troupe_service_stop(service, 50), TROUPE_DEADLINE_EXCEEDED, "within 50 ms");
    assert_int_equal(troupe_get(troupe_tensor, refs[0], &y, SOON), TROUPE_PEER_LOST);
    for (int i = 1; i < 4; i++)
        assert_int_equal(troupe_get(troupe_tensor, refs[i], &y, SOON), TROUPE_STOPPED);
    pid_t pid = atomic_load(&shared->pids[0]);
    assert_true(support_processes_end(&pid, 1, SOON));
}

// A service's handle is a value: another process asks by it.
TROUPE_STRUCT(client_order, (troupe_service, service), (int, seed));
typedef struct client {
    int asked;
} client;
static troupe_status client_ask(client *self, const client_order *order, double *sum)
{
    troupe_tensor y;
    self->asked++;
    TROUPE_TRY(troupe_get(troupe_tensor, ask(order->service, 2, order->seed), &y));
    *sum = 0;
    for (size_t i = 0; i < 2 * OUT; i++)
        *sum += (double)((const float *)y.data)[i];
    return TROUPE_OK;
}
TROUPE_ACTOR(client, (client_ask, client_order, double));

static void test_other_processes_ask(void **state)
{
    (void)state;
    client_order order = {.seed = 5};
    troupe_tensor y;
    double sum, expected = 0;
    troupe_must(troupe_serve(served, NULL, "/served", &order.service));
    client_actor there = troupe_spawn(client, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_get(double, troupe_call_from(there, client_ask, &order), &sum));
    troupe_must(troupe_get(troupe_tensor, ask(order.service, 2, 5), &y));
    for (size_t i = 0; i < 2 * OUT; i++)
        expected += (double)((const float *)y.data)[i];
    assert_true(sum == expected);
    troupe_must(troupe_actor_stop(there));
    troupe_must(troupe_service_stop(order.service));
    troupe_arena_reset();
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_predictions_are_the_models_own, begin),
        cmocka_unit_test_setup(test_a_checkpoint_is_served, begin),
        cmocka_unit_test_setup(test_requests_are_asked_together, begin),
        cmocka_unit_test_setup(test_a_large_request_goes_alone, begin),
        cmocka_unit_test_setup(test_a_wrong_shape_is_refused_at_once, begin),
        cmocka_unit_test_setup(test_a_failure_is_its_batchs_answer, begin),
        cmocka_unit_test_setup(test_what_may_be_repeated_fails_alone, begin),
        cmocka_unit_test_setup(test_rows_that_come_back_as_one_are_no_answer, begin),
        cmocka_unit_test_setup(test_the_queue_is_bounded, begin),
        cmocka_unit_test_setup(test_what_hangs_is_killed_at_its_deadline, begin),
        cmocka_unit_test_setup(test_a_wait_without_replicas_ends, begin),
        cmocka_unit_test_setup(test_a_replica_is_killed_under_load, begin),
        cmocka_unit_test_setup(test_what_may_be_repeated_survives_kills, begin),
        cmocka_unit_test_setup(test_an_idle_replica_is_replaced, begin),
        cmocka_unit_test_setup(test_a_start_that_fails_leaves_nothing, begin),
        cmocka_unit_test_setup(test_a_stop_answers_what_was_accepted, begin),
        cmocka_unit_test_setup(test_a_stop_by_force_refuses_the_rest, begin),
        cmocka_unit_test_setup(test_other_processes_ask, begin),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return troupe_stop() + failed;
}
