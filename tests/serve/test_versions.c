// test_versions.c: a service goes from one checkpoint to another, and gives a share to a second
// one.
// timeout: 120
// again: full slow 900 1000
#include "served_model.h"

#include <pthread.h>
#include <stdio.h>
#include <troupe/repository.h>

enum { SOON = SUPPORT_SOON_MS, CHECKPOINTS = 2, ASKERS = 3 };

static int flips = 100;

// Two checkpoints of runs that made 2 and 4 steps: their first weight says which one it is.
static char *folder, *checkpoints[CHECKPOINTS], *repository;
static const float first_weight[CHECKPOINTS] = {2 * 0.25f, 4 * 0.25f};

static int make_checkpoints(void **state)
{
    (void)state;
    folder = support_directory_make();
    repository = support_path(folder, "models");
    for (int i = 0; i < CHECKPOINTS; i++) {
        char name[] = {(char)('a' + i), '\0'};
        checkpoints[i] = train_served(folder, name, 4 * (i + 1));
        troupe_must(troupe_push(served, "net", checkpoints[i], NULL, .repository = repository));
    }
    troupe_must(troupe_repository_alias("net@1", "production", .repository = repository));
    troupe_arena_reset();
    return 0;
}

static int remove_checkpoints(void **state)
{
    (void)state;
    for (int i = 0; i < CHECKPOINTS; i++)
        free(checkpoints[i]);
    free(repository);
    support_directory_remove(folder);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    shared = support_zeros(shared, sizeof *shared);
    shared->driver = getpid();
    return 0;
}

// ---- asking

static troupe_service_info info_of(troupe_service service)
{
    troupe_service_info info;
    troupe_must(troupe_service_info_get(service, &info));
    return info;
}

static troupe_ref ask_for(troupe_service service, size_t rows, float first)
{
    float in[8 * ROW];
    fill_rows(in, rows, 1);
    for (size_t i = 0; i < rows; i++) {
        memset(in + i * ROW, 0, ROW * sizeof *in);
        in[i * ROW] = first;
    }
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, rows, ROW);
    return troupe_predict(service, &x);
}

// Which checkpoint the answer is of, all its rows; the model's scale is 1.5.
static int version_of(const troupe_tensor *y)
{
    const float *out = y->data;
    int found = -1;
    for (int i = 0; i < CHECKPOINTS; i++)
        if (out[0] == 1.5f * first_weight[i])
            found = i;
    for (size_t r = 1; r < y->shape[0]; r++)
        assert_true(out[r * OUT] == out[0]);
    assert_in_range(found, 0, CHECKPOINTS - 1);
    return found;
}

static int ask_which(troupe_service service)
{
    troupe_tensor y;
    troupe_must(troupe_get(troupe_tensor, ask_for(service, 1, 1), &y, SOON));
    return version_of(&y);
}

typedef struct tally {
    troupe_service service;
    atomic_int answered[CHECKPOINTS], lost, threads, rounds[ASKERS];
    atomic_bool enough;
} tally;

static void *ask_until_enough(void *user)
{
    tally *it = user;
    int me = atomic_fetch_add(&it->threads, 1);
    for (size_t i = 0; !atomic_load(&it->enough); i++) {
        troupe_tensor y;
        troupe_status status = troupe_get(troupe_tensor, ask_for(it->service, 1 + i % 5, 1), &y);
        if (status == TROUPE_OK) {
            atomic_fetch_add(&it->answered[version_of(&y)], 1);
        } else {
            assert_int_equal(status, TROUPE_PEER_LOST);
            atomic_fetch_add(&it->lost, 1);
        }
        atomic_fetch_add(&it->rounds[me], 1);
        troupe_arena_reset();
    }
    return NULL;
}

static void start_askers(tally *all, pthread_t threads[ASKERS])
{
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_until_enough, all), 0);
}

static void stop_askers(tally *all, pthread_t threads[ASKERS])
{
    atomic_store(&all->enough, true);
    for (int i = 0; i < ASKERS; i++)
        (void)pthread_join(threads[i], NULL);
}

static bool all_gone_but(void *user)
{
    const int *alive = user;
    int there = 0, begins = atomic_load(&shared->begins);
    for (int i = 0; i < begins && i < PIDS; i++)
        there += kill(atomic_load(&shared->pids[i]), 0) == 0;
    return there == *alive;
}

// ---- rolls

// No request fails by a roll, each is answered by one version, and after a roll only by the new
// one.
static void test_rolls_under_load_lose_nothing(void **state)
{
    (void)state;
    tally all = {0};
    pthread_t threads[ASKERS];
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &all.service, .replicas = 2));
    assert_string_equal(info_of(all.service).serving.name, checkpoints[0]);
    start_askers(&all, threads);
    for (int i = 1; i <= flips; i++) {
        int now = atomic_load(&all.answered[i % 2]);
        troupe_must(troupe_service_roll(all.service, checkpoints[i % 2]));
        assert_int_equal(ask_which(all.service), i % 2);
        support_await_counter(&all.answered[i % 2], now + 1);
        troupe_arena_reset();
    }
    stop_askers(&all, threads);
    troupe_service_info info = info_of(all.service);
    assert_int_equal(atomic_load(&all.lost), 0);
    assert_int_equal(info.failed + info.refused, 0);
    assert_int_equal(info.rolls, flips);
    assert_int_equal(info.replicas_alive, 2);
    assert_int_equal(info.restarts, 0);
    assert_string_equal(info.serving.name, checkpoints[flips % 2]);
    assert_string_equal(info.canary.name, "");
    assert_true(info.serving.weight == 1);
    assert_int_equal(atomic_load(&shared->begins), 2 * (flips + 1));
    if (2 * (flips + 1) <= PIDS) { // The old ones have ended when a roll returns, and are reaped.
        int alive = 2;
        assert_true(support_wait_until(all_gone_but, &alive, SOON));
    }
    troupe_must(troupe_service_stop(all.service));
}

// Replicas are killed while the service rolls: those that had requests lose them, once; what was
// asked to be repeated is not lost.
static void test_rolls_and_kills(void **state)
{
    enum { ROLLS = 10 };
    (void)state;
    tally all = {0};
    pthread_t threads[ASKERS];
    int kills = 0;
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &all.service, .replicas = 2,
                             .repeatable = true));
    start_askers(&all, threads);
    for (int i = 1; i <= ROLLS; i++) {
        // What a kill hit has been answered by the next one: two deaths may be too many for it.
        for (int k = 0; k < ASKERS; k++)
            support_await_counter(&all.rounds[k], atomic_load(&all.rounds[k]) + 2);
        int last = atomic_load(&shared->begins) - 1;
        if (last < PIDS && kill(atomic_load(&shared->pids[last]), SIGKILL) == 0)
            kills++;
        troupe_must(troupe_service_roll(all.service, checkpoints[i % 2]));
        assert_int_equal(ask_which(all.service), i % 2);
        troupe_arena_reset();
    }
    stop_askers(&all, threads);
    assert_true(kills > 0);
    assert_int_equal(atomic_load(&all.lost), 0);
    troupe_service_info info = info_of(all.service);
    assert_int_equal(info.rolls, ROLLS);
    assert_int_equal(info.under_way + info.queued, 0);
    troupe_must(troupe_service_stop(all.service));
}

// What does not open leaves the old version as it was.
static void test_a_roll_that_fails_changes_nothing(void **state)
{
    (void)state;
    troupe_service service;
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &service, .replicas = 2));
    assert_int_equal(troupe_service_roll(service, "/no/such"), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "/no/such"));
    assert_int_equal(troupe_service_roll(service, checkpoints[1], .config = "{\"scal\": 1}"),
                     TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "\"scal\""));
    atomic_store(&shared->begins_max, 3); // One of the two new ones fails.
    assert_int_equal(troupe_service_roll(service, checkpoints[1]), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "no more instances"));
    assert_int_equal(troupe_service_canary(service, checkpoints[1], 0.5), TROUPE_UNSUPPORTED);
    atomic_store(&shared->begins_max, 0);
    troupe_service_info info = info_of(service);
    assert_string_equal(info.serving.name, checkpoints[0]);
    assert_string_equal(info.canary.name, "");
    assert_int_equal(info.replicas_alive, 2);
    assert_int_equal(info.rolls, 0);
    assert_int_equal(ask_which(service), 0);
    troupe_must(troupe_service_roll(service, checkpoints[1]));
    assert_int_equal(ask_which(service), 1);
    troupe_must(troupe_service_stop(service));
    assert_int_equal(troupe_service_roll(service, checkpoints[1]), TROUPE_NOT_EXECUTED);
}

typedef struct roller {
    troupe_service service;
    troupe_status status;
} roller;

static void *roll(void *user)
{
    roller *it = user;
    it->status = troupe_service_roll(it->service, checkpoints[1]);
    return NULL;
}

static bool has_rolled(void *service)
{
    return info_of(*(troupe_service *)service).rolls == 1;
}

// What the old version has under way it answers itself; what waits is the new one's.
static void test_what_is_under_way_stays(void **state)
{
    (void)state;
    roller it = {0};
    pthread_t thread;
    troupe_ref refs[3];
    troupe_tensor y;
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &it.service, .batch = 1));
    atomic_store(&shared->gate, 1);
    for (int i = 0; i < 3; i++)
        refs[i] = ask_for(it.service, 1, 1);
    support_await_counter(&shared->at_gate, 1);
    assert_int_equal(pthread_create(&thread, NULL, roll, &it), 0);
    assert_true(support_wait_until(has_rolled, &it.service, SOON));
    support_await_counter(&shared->at_gate, 2);
    assert_int_equal(troupe_service_roll(it.service, checkpoints[0]), TROUPE_BUSY);
    atomic_store(&shared->gate, 0);
    for (int i = 0; i < 3; i++) {
        troupe_must(troupe_get(troupe_tensor, refs[i], &y));
        assert_int_equal(version_of(&y), i > 0);
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(it.status, TROUPE_OK);
    troupe_must(troupe_service_stop(it.service));
    troupe_arena_reset();
}

// A stop ends a roll, whose new replicas may not have come yet.
static void test_a_stop_ends_a_roll(void **state)
{
    (void)state;
    roller it = {0};
    pthread_t thread;
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &it.service, .batch = 1));
    atomic_store(&shared->gate, 1);
    troupe_ref ref = ask_for(it.service, 1, 1);
    support_await_counter(&shared->at_gate, 1);
    assert_int_equal(pthread_create(&thread, NULL, roll, &it), 0);
    support_await_counter(&shared->tried, 2);
    assert_int_equal(troupe_service_stop(it.service, 1), TROUPE_DEADLINE_EXCEEDED);
    (void)pthread_join(thread, NULL);
    assert_int_equal(it.status, TROUPE_STOPPED);
    troupe_ref_drop(ref);
    int alive = 0;
    assert_true(support_wait_until(all_gone_but, &alive, SOON));
}

// ---- refs

static void test_refs_are_served(void **state)
{
    (void)state;
    troupe_service service;
    troupe_must(troupe_serve(served, "model:net@production", "/served", &service,
                             .repository = repository));
    assert_string_equal(info_of(service).serving.name, "net@1");
    assert_int_equal(ask_which(service), 0);
    troupe_must(troupe_service_roll(service, "model:net", .repository = repository));
    assert_string_equal(info_of(service).serving.name, "net@2");
    assert_int_equal(ask_which(service), 1);
    // A replica that dies is started again from the version that it had.
    troupe_must(troupe_repository_alias("net@1", "now", .repository = repository));
    troupe_must(troupe_service_roll(service, "model:net@now", .repository = repository));
    troupe_must(troupe_repository_alias("net@2", "now", .repository = repository));
    int begins = atomic_load(&shared->begins);
    assert_int_equal(kill(atomic_load(&shared->pids[begins - 1]), SIGKILL), 0);
    support_await_counter(&shared->begins, begins + 1);
    assert_int_equal(ask_which(service), 0);
    assert_int_equal(troupe_service_roll(service, "model:net@9", .repository = repository),
                     TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "net"));
    assert_int_equal(troupe_service_roll(service, "model:a/b", .repository = repository),
                     TROUPE_INVALID);
    assert_string_equal(info_of(service).serving.name, "net@1");
    troupe_must(troupe_service_stop(service));
}

// ---- canaries

// Requests one by one, and how many of them the second checkpoint answered.
static int share_of_second(troupe_service service, int count)
{
    int second = 0;
    for (int i = 0; i < count; i++)
        second += ask_which(service);
    troupe_arena_reset();
    return second;
}

static void test_a_canary_gets_its_share(void **state)
{
    (void)state;
    troupe_service service;
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &service));
    assert_int_equal(troupe_service_canary(service, NULL, 0.5), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_service_canary(service, checkpoints[1], 1.5), TROUPE_INVALID);
    assert_int_equal(troupe_service_canary(service, checkpoints[1], -1), TROUPE_INVALID);
    troupe_must(troupe_service_canary(service, checkpoints[1], 0.25));
    assert_in_range(share_of_second(service, 40), 9, 11);
    troupe_service_info info = info_of(service);
    assert_string_equal(info.canary.name, checkpoints[1]);
    assert_true(info.canary.weight == 0.25 && info.serving.weight == 0.75);
    assert_int_equal(info.canary.answered + info.serving.answered, 40);
    assert_in_range(info.canary.answered, 9, 11);
    assert_true(info.canary.p50_s > 0 && info.canary.p50_s <= info.canary.longest_s);
    assert_int_equal(info.canary.replicas_alive, 1);
    int begins = atomic_load(&shared->begins);
    troupe_must(troupe_service_canary(service, checkpoints[1], 0.5)); // Its weight alone.
    assert_in_range(share_of_second(service, 40), 19, 21);
    troupe_must(troupe_service_canary(service, NULL, 1));
    assert_int_equal(share_of_second(service, 10), 10);
    assert_int_equal(atomic_load(&shared->begins), begins);
    troupe_must(troupe_service_canary(service, NULL, 0));
    assert_int_equal(share_of_second(service, 10), 0);
    assert_string_equal(info_of(service).canary.name, "");
    // Its failures are its own.
    troupe_must(troupe_service_canary(service, checkpoints[1], 1));
    troupe_tensor y;
    assert_int_equal(troupe_get(troupe_tensor, ask_for(service, 1, ROW_FAILS), &y),
                     TROUPE_UNSUPPORTED);
    info = info_of(service);
    assert_int_equal(info.canary.failed, 1);
    assert_int_equal(info.serving.failed, 0);
    troupe_must(troupe_service_stop(service));
}

// A roll to the canary's checkpoint takes its replicas.
static void test_a_canary_is_promoted(void **state)
{
    (void)state;
    tally all = {0};
    pthread_t threads[ASKERS];
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &all.service, .replicas = 2));
    start_askers(&all, threads);
    troupe_must(troupe_service_canary(all.service, checkpoints[1], 0.5));
    support_await_counter(&all.answered[0], atomic_load(&all.answered[0]) + 5);
    support_await_counter(&all.answered[1], 5);
    troupe_must(troupe_service_roll(all.service, checkpoints[1]));
    assert_int_equal(atomic_load(&shared->begins), 4);
    assert_int_equal(ask_which(all.service), 1);
    // Another canary, which is dropped with what waits for it.
    troupe_must(troupe_service_canary(all.service, checkpoints[0], 0.5));
    support_await_counter(&all.answered[0], atomic_load(&all.answered[0]) + 5);
    troupe_must(troupe_service_canary(all.service, NULL, 0));
    stop_askers(&all, threads);
    assert_int_equal(atomic_load(&all.lost), 0);
    troupe_service_info info = info_of(all.service);
    assert_string_equal(info.serving.name, checkpoints[1]);
    assert_string_equal(info.canary.name, "");
    assert_int_equal(info.failed + info.refused, 0);
    assert_int_equal(info.rolls, 1);
    troupe_must(troupe_service_stop(all.service));
}

// While a canary has no replica, the others get its share.
static void test_a_canary_without_replicas_gets_nothing(void **state)
{
    (void)state;
    troupe_service service;
    troupe_must(troupe_serve(served, checkpoints[0], "/served", &service));
    troupe_must(troupe_service_canary(service, checkpoints[1], 1));
    assert_int_equal(ask_which(service), 1);
    atomic_store(&shared->begins_max, 2); // None comes again.
    troupe_tensor y;
    assert_int_equal(troupe_get(troupe_tensor, ask_for(service, 1, ROW_CRASHES), &y),
                     TROUPE_PEER_LOST);
    int64_t until = support_now_ms() + SOON;
    while (info_of(service).canary.replicas_alive > 0)
        assert_true(support_now_ms() < until);
    assert_int_equal(share_of_second(service, 5), 0);
    atomic_store(&shared->begins_max, 0);
    troupe_must(troupe_service_stop(service));
}

int main(int argc, char **argv)
{
    if (argc == 2)
        flips = atoi(argv[1]);
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rolls_under_load_lose_nothing, begin),
        cmocka_unit_test_setup(test_rolls_and_kills, begin),
        cmocka_unit_test_setup(test_a_roll_that_fails_changes_nothing, begin),
        cmocka_unit_test_setup(test_what_is_under_way_stays, begin),
        cmocka_unit_test_setup(test_a_stop_ends_a_roll, begin),
        cmocka_unit_test_setup(test_refs_are_served, begin),
        cmocka_unit_test_setup(test_a_canary_gets_its_share, begin),
        cmocka_unit_test_setup(test_a_canary_is_promoted, begin),
        cmocka_unit_test_setup(test_a_canary_without_replicas_gets_nothing, begin),
    };
    int failed = cmocka_run_group_tests(tests, make_checkpoints, remove_checkpoints);
    return troupe_stop() + failed;
}
