// test_adversity.c: what goes wrong around a node and must not take more with it: hung and dying
// processes at bad moments, few descriptors, closed standard streams, forks and starts in odd
// places.
// timeout: 120
#include <support.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <runtime/host/worker_env.h>
#include <runtime/link/peer.h>
#include <runtime/node/directory_client.h>
#include <runtime/node/keeper.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

typedef struct adder {
    int64_t total;
} adder;

static troupe_status adder_add(adder *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

static _Atomic int *napping; // Shared with workers, by the test that wants to know.

static troupe_status adder_nap(adder *self, const int64_t *ms, int64_t *total)
{
    if (napping != NULL)
        atomic_store(napping, 1);
    struct timespec time = {*ms / 1000, *ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
    *total = self->total;
    return TROUPE_OK;
}

// What a child that a method forks is told about using Troupe.
static troupe_status adder_fork(adder *self, const int64_t *unused, int64_t *said)
{
    (void)self, (void)unused;
    pid_t child = fork();
    if (child == 0)
        _exit(trp_process_check());
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return troupe_fail(TROUPE_IO, "no child");
    *said = WEXITSTATUS(status);
    return TROUPE_OK;
}

TROUPE_ACTOR(adder, (adder_add, int64_t, int64_t), (adder_nap, int64_t, int64_t),
             (adder_fork, int64_t, int64_t));

static troupe_status add(adder_actor actor, int64_t amount)
{
    int64_t total;
    return troupe_get(int64_t, troupe_call(actor, adder_add, amount), &total);
}

// Runs `drive` in a process of its own, which is a driver; its wait status.
static int run_driver(int (*drive)(void))
{
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        (void)alarm(60);
        _exit(drive());
    }
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    return status;
}

// An isolated actor that is told to end answers first what was sent to it before.
static void test_an_orderly_end_loses_no_answer(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    for (int64_t i = 0; i < 150; i++) {
        adder_actor actor = troupe_spawn(adder, .place = TROUPE_PLACE_ISOLATED);
        troupe_ref sum = troupe_call(actor, adder_add, i);
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
        int64_t total = -1;
        assert_int_equal(troupe_get(int64_t, sum, &total), TROUPE_OK);
        assert_int_equal(total, i);
    }
    assert_int_equal(troupe_stop(), 0);
}

// More deaths than a socket's buffer holds while the node process does not read them, and then the
// driver's: the keeper still sees that.
enum { CROWD = 300 };
static int told; // The test reads there which folder it was.

static int hang_node_and_die(void)
{
    pid_t workers[CROWD];
    troupe_must(troupe_start(0, NULL, .workers = 1));
    for (int i = 0; i < CROWD; i++) {
        uint32_t process;
        uint64_t incarnation;
        troupe_must(trp_node_worker(true, &process, &incarnation));
        workers[i] = trp_process_pid(process);
    }
    (void)kill(trp_process_pid(TRP_PROCESS_NODE), SIGSTOP);
    for (int i = 0; i < CROWD; i++)
        (void)kill(workers[i], SIGKILL);
    if (!support_processes_end(workers, CROWD, SUPPORT_SOON_MS))
        return 1;
    if (write(told, trp_self.folder, sizeof trp_self.folder) != (ssize_t)sizeof trp_self.folder)
        return 1;
    (void)raise(SIGKILL);
    return 1;
}

static bool is_gone(void *folder)
{
    return !support_exists(folder);
}

static void test_a_hung_node_process_does_not_hold_the_keeper_up(void **state)
{
    (void)state;
    int ends[2];
    char folder[TRP_FOLDER_MAX];
    assert_int_equal(pipe(ends), 0);
    told = ends[1];
    int status = run_driver(hang_node_and_die);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(read(ends[0], folder, sizeof folder), sizeof folder);
    assert_true(support_wait_until(is_gone, folder, 2000));
    close(ends[0]);
    close(ends[1]);
}

// More orders than a socket's buffer holds while the keeper is stopped.
enum { VICTIMS = 4, TIMES = 1000, ORDERED = 12, ORDERED_MOST = 400 };

static pid_t stop_keeper(void)
{
    pid_t keeper = trp_process_parent(trp_process_pid(TRP_PROCESS_NODE));
    assert_true(keeper > 1);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    return keeper;
}

static void give_many_orders(trp_worker_ask *asked, int count)
{
    static char env[TRP_WORKER_ENV_MAX / 2];
    memset(env, 'x', sizeof env - 1);
    memcpy(env, "LONG=", 5);
    for (int i = 0; i < count; i++)
        troupe_must(trp_node_worker_begin(env, NULL, &asked[i]));
}

static void stop_keeper_for_a_while(troupe_transport transport)
{
    pid_t victims[VICTIMS];
    uint32_t process[VICTIMS];
    uint64_t incarnation[VICTIMS];
    trp_worker_ask asked[ORDERED];
    troupe_must(
        troupe_start(0, NULL, .workers = 1, .transport = transport, .request_timeout_ms = 2000));
    for (int i = 0; i < VICTIMS; i++) {
        troupe_must(trp_node_worker(true, &process[i], &incarnation[i]));
        victims[i] = trp_process_pid(process[i]);
    }
    pid_t keeper = stop_keeper();
    give_many_orders(asked, ORDERED);
    for (int i = 0; i < VICTIMS * TIMES; i++)
        trp_node_end(process[i % VICTIMS], incarnation[i % VICTIMS], "was ended: by the test");
    troupe_resources all;
    troupe_status named = trp_node_name_put("there", "1", 1), got = troupe_resources_get(&all);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    assert_int_equal(named, TROUPE_OK); // The node process has answered.
    assert_int_equal(got, TROUPE_OK);
    for (int i = 0; i < ORDERED; i++)
        troupe_must(trp_node_worker_end(&asked[i], &process[0], &incarnation[0]));
    assert_true(support_processes_end(victims, VICTIMS, SUPPORT_SOON_MS));
    assert_int_equal(troupe_stop(), 0);
}

static void test_a_stopped_keeper_does_not_hold_the_node_process_up(void **state)
{
    (void)state;
    stop_keeper_for_a_while(TROUPE_TRANSPORT_RING);
    stop_keeper_for_a_while(TROUPE_TRANSPORT_IPC);
}

static void test_orders_are_not_kept_without_bound(void **state)
{
    (void)state;
    static trp_worker_ask asked[ORDERED_MOST];
    uint32_t process;
    uint64_t incarnation;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    pid_t keeper = stop_keeper();
    give_many_orders(asked, ORDERED_MOST);
    troupe_status last = trp_node_worker_end(&asked[ORDERED_MOST - 1], &process, &incarnation);
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(last, TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, ": it is stopped"));
    for (int i = 0; i < ORDERED_MOST - 1; i++)
        assert_int_not_equal(trp_node_worker_end(&asked[i], &process, &incarnation), TROUPE_OK);
    assert_int_equal(troupe_stop(), 0);
}

// While the node process is stopped, a name is asked for in vain, and actors with names end. When
// it goes on, nothing is left of what it was asked meanwhile.
static int use_names_of_a_stopped_node(void)
{
    enum { NAMED = 12, LIMIT_MS = 1000 };
    char name[NAMED][16];
    adder_actor actors[NAMED];
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = 1,
                             .request_timeout_ms = LIMIT_MS));
    pid_t node = trp_process_pid(TRP_PROCESS_NODE);
    for (int i = 0; i < NAMED; i++) {
        snprintf(name[i], sizeof name[i], "n%d", i);
        actors[i] = troupe_spawn(adder, .name = name[i]);
        troupe_must(troupe_actor_status(actors[i].address));
    }
    (void)kill(node, SIGSTOP);
    adder_actor late = troupe_spawn(adder, .name = "late");
    if (troupe_actor_status(late.address) != TROUPE_DEADLINE_EXCEEDED)
        return 2;
    int64_t begun_ms = support_now_ms();
    for (int i = 0; i < NAMED; i++)
        troupe_must(troupe_actor_end(actors[i]));
    for (int i = 0; i < NAMED; i++)
        troupe_must(troupe_actor_await_end(actors[i].address, SUPPORT_SOON_MS, NULL));
    if (support_now_ms() - begun_ms > NAMED * LIMIT_MS * 2 / 3)
        return 3; // Each has waited.
    (void)kill(node, SIGCONT);
    late = troupe_spawn(adder, .name = "late");
    troupe_must(troupe_actor_status(late.address));
    for (int i = 0; i < NAMED; i++) {
        actors[i] = troupe_spawn(adder, .name = name[i]);
        troupe_must(troupe_actor_status(actors[i].address));
    }
    return troupe_stop();
}

static void test_names_while_the_node_process_is_stopped(void **state)
{
    (void)state;
    assert_int_equal(run_driver(use_names_of_a_stopped_node), 0);
}

// The node process has written a death into the table and dies before it has told anyone.
static void test_a_death_without_a_notice(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    adder_actor actor = troupe_spawn(adder, .place = TROUPE_PLACE_ISOLATED);
    assert_int_equal(add(actor, 1), TROUPE_OK);
    troupe_ref never = troupe_call(actor, adder_nap, 60000);
    uint32_t process = actor.address.process;
    strcpy(trp_segment_process(process)->cause, "was killed by the test");
    trp_process_row_set(process, TRP_PROCESS_DEAD);
    assert_int_equal(kill(trp_process_pid(TRP_PROCESS_NODE), SIGKILL), 0);
    int64_t total;
    assert_int_equal(troupe_get(int64_t, never, &total, SUPPORT_SOON_MS), TROUPE_MAYBE_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "was killed by the test"));
    assert_int_equal(troupe_stop(), 0);
}

// libzmq aborts a process that has no descriptor left for a connection.
static int live_with_few_descriptors(void)
{
    struct rlimit few = {96, 96};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return 2;
    troupe_must(troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_IPC));
    for (int i = 0; i < 60; i++) {
        adder_actor actor = troupe_spawn(adder, .place = TROUPE_PLACE_ISOLATED);
        troupe_status status = add(actor, 1);
        if (status == TROUPE_OK)
            continue;
        bool named =
            status == TROUPE_NO_MEMORY && strstr(troupe_last_error()->text, "descriptors") != NULL;
        return troupe_stop() == 0 && named && i > 0 ? 0 : 3;
    }
    return 4;
}

static int start_with_too_few_descriptors(void)
{
    for (rlim_t limit = 32; limit >= 8; limit -= 8) {
        struct rlimit few = {limit, limit};
        if (setrlimit(RLIMIT_NOFILE, &few) != 0 || troupe_start(0, NULL) != TROUPE_IO)
            return 2;
    }
    return 0;
}

static void test_few_descriptors(void **state)
{
    (void)state;
    assert_int_equal(run_driver(live_with_few_descriptors), 0);
    assert_int_equal(run_driver(start_with_too_few_descriptors), 0);
}

static unsigned long long *needed;

// Starts with as many descriptors as *needed says; becomes what a refusal says, or 0.
static int start_with_what_is_needed(void)
{
    struct rlimit few = {*needed, *needed};
    char *home = support_directory_make(), *keys = support_path(home, "keys");
    troupe_must(troupe_keys_make(keys));
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return 2;
    troupe_status status = troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_TCP,
                                        .listen = "127.0.0.1:0", .keys = keys);
    const char *said = strstr(troupe_last_error()->text, "needs ");
    *needed = status == TROUPE_IO && said != NULL ? strtoull(said + strlen("needs "), NULL, 10) : 0;
    bool good = status == TROUPE_OK ? troupe_stop() == 0 : *needed != 0;
    free(keys);
    support_directory_remove(home);
    return good ? 0 : 3;
}

// Where connections over tcp may take a share of the limit, what is asked for would do.
static void test_what_is_needed_is_said(void **state)
{
    (void)state;
    needed = support_share(sizeof *needed);
    assert_true(needed != MAP_FAILED);
    *needed = 96;
    assert_int_equal(run_driver(start_with_what_is_needed), 0);
    unsigned long long enough = *needed;
    assert_true(enough > 96);
    *needed = enough - 8;
    assert_int_equal(run_driver(start_with_what_is_needed), 0);
    assert_int_equal(*needed, enough);
    assert_int_equal(run_driver(start_with_what_is_needed), 0);
    assert_int_equal(*needed, 0);
    munmap(needed, sizeof *needed);
}

static bool is_napping(void *unused)
{
    (void)unused;
    return atomic_load(napping) != 0;
}

static void test_the_longest_stop_timeout(void **state)
{
    (void)state;
    napping = support_share(sizeof *napping);
    assert_true(napping != MAP_FAILED);
    troupe_must(troupe_start(0, NULL, .workers = 1, .stop_timeout_ms = INT_MAX));
    adder_actor actor = troupe_spawn(adder);
    assert_int_equal(add(actor, 1), TROUPE_OK);
    assert_int_equal(add(troupe_spawn(adder, .place = TROUPE_PLACE_ISOLATED), 1), TROUPE_OK);
    int64_t before = support_now_ms();
    assert_int_equal(troupe_tell(actor, adder_nap, 300), TROUPE_OK);
    assert_true(support_wait_until(is_napping, NULL, SUPPORT_SOON_MS));
    assert_int_equal(troupe_stop(), 0);
    assert_in_range(support_now_ms() - before, 300, 2 * SUPPORT_SOON_MS); // It was let finish.
    munmap(napping, sizeof *napping);
    napping = NULL;
}

static void test_a_fork_in_an_executed_worker(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1, .launch = TROUPE_LAUNCH_EXEC));
    adder_actor actor = troupe_spawn(adder, .place = TROUPE_PLACE_WORKER);
    int64_t said = -1;
    assert_int_equal(troupe_get(int64_t, troupe_call(actor, adder_fork, 0), &said), TROUPE_OK);
    assert_int_equal(said, TROUPE_UNSUPPORTED);
    assert_int_equal(troupe_stop(), 0);
}

// Forks of troupe_start that end at once: 1 is between, 2 the keeper, 3 the node process.
static int fork_depth, fatal_depth;

static void in_child(void)
{
    if (++fork_depth == fatal_depth)
        _exit(1);
}

static int start_with_a_fatal_fork(void)
{
    int64_t before = support_now_ms();
    fork_depth = 0;
    if (pthread_atfork(NULL, NULL, in_child) != 0 || troupe_start(0, NULL) != TROUPE_IO)
        return 2;
    return support_now_ms() - before < 4000 ? 0 : 3;
}

static void test_a_keeper_or_node_process_that_dies_at_birth(void **state)
{
    (void)state;
    for (fatal_depth = 1; fatal_depth <= 3; fatal_depth++)
        assert_int_equal(run_driver(start_with_a_fatal_fork), 0);
    fatal_depth = 0;
}

// With its standard streams closed, a program prints into whatever has their numbers.
static int print_to_closed_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    if (troupe_start(0, NULL, .workers = 1) != TROUPE_OK)
        return 2;
    char line[4096] = {0};
    for (int fd = 0; fd <= 2; fd++)
        (void)!write(fd, line, sizeof line);
    adder_actor actor = troupe_spawn(adder, .place = TROUPE_PLACE_WORKER);
    return add(actor, 1) == TROUPE_OK && trp_segment_fd() > 2 ? troupe_stop() : 3;
}

static void test_closed_standard_streams(void **state)
{
    (void)state;
    assert_int_equal(run_driver(print_to_closed_streams), 0);
}

static void test_a_socket_that_was_removed(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_IPC));
    uint32_t process;
    uint64_t incarnation;
    char path[128];
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    trp_socket_path(process, incarnation, path);
    assert_int_equal(unlink(path), 0);
    trp_frame frame = {.kind = TRP_FRAME_CALL};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, path));
    assert_int_equal(troupe_stop(), 0);
}

static void start_again(void)
{
    if (troupe_start(0, NULL) != TROUPE_OK || trp_process_check() != TROUPE_NOT_STARTED ||
        troupe_stop() != 0)
        _exit(1);
}

static void test_a_start_in_worker_init(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1, .worker_init = start_again));
    assert_int_equal(add(troupe_spawn(adder, .place = TROUPE_PLACE_WORKER), 1), TROUPE_OK);
    assert_int_equal(troupe_stop(), 0);
}

// Threads that use the runtime while it is stopped get an error, and nothing worse.
static _Atomic int rounds;

static void *spawn_and_call(void *place)
{
    for (;;) {
        adder_actor actor = troupe_spawn(adder, .place = *(troupe_place *)place);
        troupe_status status = add(actor, 1);
        rounds++;
        if (status != TROUPE_OK)
            return NULL;
        (void)troupe_actor_kill(actor);
    }
}

static bool rounds_made(void *wanted)
{
    return rounds >= *(int *)wanted;
}

static int stop_under_load(void)
{
    troupe_place places[] = {TROUPE_PLACE_ISOLATED, TROUPE_PLACE_WORKER, TROUPE_PLACE_HERE};
    for (int i = 0; i < 12; i++) {
        pthread_t threads[6];
        int wanted = 3 + 5 * i;
        rounds = 0;
        troupe_must(troupe_start(0, NULL, .workers = 1));
        for (int k = 0; k < 6; k++)
            if (pthread_create(&threads[k], NULL, spawn_and_call, &places[k % 3]) != 0)
                return 2;
        if (!support_wait_until(rounds_made, &wanted, SUPPORT_SOON_MS))
            return 3;
        (void)troupe_stop();
        for (int k = 0; k < 6; k++)
            (void)pthread_join(threads[k], NULL);
    }
    return 0;
}

static void test_a_stop_while_other_threads_call(void **state)
{
    (void)state;
    assert_int_equal(run_driver(stop_under_load), 0);
}

// The same with what takes an instant in the store, which troupe_stop must not take away meanwhile.
static _Atomic bool enough;

static bool is_refusal(troupe_status status)
{
    return status == TROUPE_NOT_STARTED || status == TROUPE_INVALID || // Of a run before.
           status == TROUPE_MAYBE_EXECUTED; // Stopped while a reference was made.
}

static void *put_and_read(void *unused)
{
    (void)unused;
    static const char bytes[200] = "some";
    while (!enough) {
        troupe_ref ref = troupe_put_bytes(bytes, sizeof bytes);
        troupe_bytes value;
        troupe_view view;
        troupe_status status = troupe_get(troupe_bytes, ref, &value);
        if (status == TROUPE_OK && strcmp(value.data, bytes) != 0)
            return &enough;
        if (status != TROUPE_OK && !is_refusal(status))
            return &enough;
        status = troupe_view_bytes(ref, &view, 0);
        if (status == TROUPE_OK)
            troupe_view_end(&view);
        else if (!is_refusal(status))
            return &enough;
        troupe_ref_drop(ref);
        troupe_arena_reset();
        rounds++;
    }
    return NULL;
}

static int stop_beside_short_uses(void)
{
    enum { THREADS = 3, STOPS = 25 };
    pthread_t threads[THREADS];
    for (int k = 0; k < THREADS; k++)
        if (pthread_create(&threads[k], NULL, put_and_read, NULL) != 0)
            return 2;
    for (int i = 0; i < STOPS; i++) {
        int wanted = rounds + 50;
        troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = 16 << 20));
        if (!support_wait_until(rounds_made, &wanted, SUPPORT_SOON_MS))
            return 3;
        (void)troupe_stop();
    }
    enough = true;
    int wrong = 0;
    for (int k = 0; k < THREADS; k++) {
        void *failed;
        (void)pthread_join(threads[k], &failed);
        wrong += failed != NULL;
    }
    return wrong == 0 ? 0 : 4;
}

static void test_a_stop_beside_short_uses_of_the_store(void **state)
{
    (void)state;
    assert_int_equal(run_driver(stop_beside_short_uses), 0);
}

int main(int argc, char **argv)
{
    if (getenv(TRP_WORKER_VARIABLE) != NULL) // An executed worker: does not return.
        troupe_must(troupe_start(argc, argv));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_orderly_end_loses_no_answer),
        cmocka_unit_test(test_a_hung_node_process_does_not_hold_the_keeper_up),
        cmocka_unit_test(test_a_stopped_keeper_does_not_hold_the_node_process_up),
        cmocka_unit_test(test_orders_are_not_kept_without_bound),
        cmocka_unit_test(test_names_while_the_node_process_is_stopped),
        cmocka_unit_test(test_a_death_without_a_notice),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_what_is_needed_is_said),
        cmocka_unit_test(test_the_longest_stop_timeout),
        cmocka_unit_test(test_a_fork_in_an_executed_worker),
        cmocka_unit_test(test_a_keeper_or_node_process_that_dies_at_birth),
        cmocka_unit_test(test_closed_standard_streams),
        cmocka_unit_test(test_a_socket_that_was_removed),
        cmocka_unit_test(test_a_start_in_worker_init),
        cmocka_unit_test(test_a_stop_while_other_threads_call),
        cmocka_unit_test(test_a_stop_beside_short_uses_of_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
