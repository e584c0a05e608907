// test_resources.c: what actors hold of their node: admission, waiting, what never fits, what comes
// back when an actor ends or its process dies, which GPUs a process sees, and its environment.
// timeout: 120
#include <places.h>
#include <support.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/node/keeper.h>
#include <runtime/node/limits.h>
#include <runtime/node/node_client.h>
#include <runtime/node/resource_ledger.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <troupe/actor.h>
#include <troupe/resources.h>
#include <unistd.h>

typedef struct holder {
    int unused;
} holder;

static troupe_status pid_of(holder *self, const troupe_none *none, int *pid)
{
    (void)self;
    (void)none;
    *pid = getpid();
    return TROUPE_OK;
}

static void *start_again(void *status)
{
    (void)prctl(PR_SET_NAME, "its own");
    *(int *)status = troupe_start(0, NULL);
    return NULL;
}

// By a thread of the method's own, as a library may do it.
static troupe_status start_beside(holder *self, const troupe_none *none, int *status)
{
    (void)self, (void)none;
    pthread_t thread;
    if (pthread_create(&thread, NULL, start_again, status) != 0)
        return troupe_fail(TROUPE_FAILED, "no thread");
    pthread_join(thread, NULL);
    return TROUPE_OK;
}

static troupe_status variable(holder *self, const troupe_text *name, troupe_text *value)
{
    (void)self;
    const char *found = getenv(*name);
    *value = troupe_arena_text(found != NULL ? found : "(not set)");
    return TROUPE_OK;
}

static troupe_status folder_of(holder *self, const troupe_none *none, troupe_text *folder)
{
    (void)self;
    (void)none;
    char path[4096];
    *folder = troupe_arena_text(getcwd(path, sizeof path) != NULL ? path : "(none)");
    return TROUPE_OK;
}

// Spawns another one, which may have to wait, from inside a worker.
static troupe_status spawn_one(holder *self, const double *cpus, int *status);

static troupe_status spawn_at_the_end(holder *self, const troupe_none *none, troupe_none *nothing);

TROUPE_ACTOR(holder, (pid_of, troupe_none, int), (variable, troupe_text, troupe_text),
             (folder_of, troupe_none, troupe_text), (spawn_one, double, int),
             (spawn_at_the_end, troupe_none, troupe_none), (start_beside, troupe_none, int));

static troupe_status spawn_one(holder *self, const double *cpus, int *status)
{
    (void)self;
    holder_actor made = troupe_spawn(holder, .cpus = *cpus);
    *status = (int)troupe_actor_status(made.address);
    return TROUPE_OK;
}

// Where the method below tells what it found, once the node is being stopped.
static struct found {
    _Atomic bool begun;
    _Atomic int status; // -1: not yet.
} * found;

// Goes on until the node is being stopped, and asks for what nobody gives back then.
static troupe_status spawn_at_the_end(holder *self, const troupe_none *none, troupe_none *nothing)
{
    (void)self;
    (void)none;
    (void)nothing;
    uint32_t process;
    uint64_t incarnation;
    found->begun = true;
    while (trp_node_worker(false, &process, &incarnation) == TROUPE_OK)
        usleep(1000);
    holder_actor made = troupe_spawn(holder, .cpus = 1, .place = TROUPE_PLACE_HERE);
    found->status = (int)troupe_actor_status(made.address);
    return TROUPE_OK;
}

typedef struct refuser {
    int unused;
} refuser;

static troupe_status refuse(refuser *self, const troupe_none *none)
{
    (void)self;
    (void)none;
    return troupe_fail(TROUPE_FAILED, "this one never starts");
}

static void undo(refuser *self)
{
    (void)self;
}

static troupe_status nothing(refuser *self, const troupe_none *none, int *result)
{
    (void)self;
    (void)none;
    *result = 0;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(refuser, (refuse, troupe_none), undo, (nothing, troupe_none, int));

static int set_up(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "4,GPU-five,6", 1); // No GPU is needed for them to be counted.
    return troupe_start(0, NULL, .workers = 2, .cpus = 4, .memory_bytes = 1000,
                        .resources = "license=1,slot=2.5", .worker_env = "ALL=of them\nBOTH=all",
                        .worker_folder = "/usr") == TROUPE_OK
               ? 0
               : -1;
}

static troupe_resources now(void)
{
    troupe_resources all;
    assert_int_equal(troupe_resources_get(&all), TROUPE_OK);
    return all;
}

typedef struct amounts {
    double cpus, gpus, memory, license;
} amounts;

static bool are_free(void *context)
{
    const amounts *wanted = context;
    troupe_resources all = now();
    return all.cpus.free == wanted->cpus && all.gpus.free == wanted->gpus &&
           all.memory_bytes.free == wanted->memory && all.named[0].free == wanted->license;
}

static void assert_free(double cpus, double gpus, double memory, double license)
{
    amounts wanted = {cpus, gpus, memory, license};
    assert_true(support_wait_until(are_free, &wanted, SUPPORT_SOON_MS));
}

static void assert_all_free(void)
{
    assert_free(4, 3, 1000, 1);
}

static char text[4096];

static const char *ask(holder_actor actor, const char *name)
{
    troupe_text value;
    assert_int_equal(troupe_get(troupe_text, troupe_call(actor, variable, name), &value),
                     TROUPE_OK);
    snprintf(text, sizeof text, "%s", value);
    troupe_arena_reset();
    return text;
}

static void test_totals(void **state)
{
    (void)state;
    troupe_resources all = now();
    assert_true(all.cpus.total == 4 && all.gpus.total == 3 && all.memory_bytes.total == 1000);
    assert_int_equal(all.named_count, 2);
    assert_string_equal(all.named[0].name, "license");
    assert_string_equal(all.named[1].name, "slot");
    assert_true(all.named[1].total == 2.5);
    assert_int_equal(all.waiting, 0);
    assert_all_free();
}

static void test_held_for_a_life(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        holder_actor one = troupe_spawn(holder, .place = places[i], .cpus = 0.5, .memory_bytes = 10,
                                        .resources = "license=0.25");
        assert_int_equal(troupe_actor_status(one.address), TROUPE_OK);
        assert_free(3.5, 3, 990, 0.75);
        holder_actor two = troupe_spawn(holder, .place = places[i], .cpus = 1.5);
        assert_free(2, 3, 990, 0.75);
        assert_int_equal(troupe_actor_end(one), TROUPE_OK);
        assert_free(2.5, 3, 1000, 1);
        assert_int_equal(troupe_actor_kill(two), TROUPE_OK);
        assert_all_free();
    }
}

static void test_given_back_by_a_crash(void **state)
{
    (void)state;
    holder_actor one = troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED, .cpus = 4);
    int pid;
    assert_int_equal(troupe_get(int, troupe_call(one, pid_of), &pid), TROUPE_OK);
    assert_free(0, 3, 1000, 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_all_free();
}

static void test_given_back_by_a_failed_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        refuser_actor made = troupe_spawn(refuser, .place = places[i], .cpus = 1);
        assert_int_equal(troupe_actor_status(made.address), TROUPE_FAILED);
        assert_all_free();
    }
}

static void test_what_never_fits(void **state)
{
    (void)state;
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .cpus = 4.5).address),
                     TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "4.5 CPUs were asked for, and there are 4"));
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .gpus = 4).address),
                     TROUPE_TOO_LARGE);
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .memory_bytes = 1001).address),
                     TROUPE_TOO_LARGE);
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .resources = "license=2").address),
                     TROUPE_TOO_LARGE);
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .resources = "tpu=1").address),
                     TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "'tpu'"));
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .gpus = 1.5).address),
                     TROUPE_INVALID);
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .cpus = -1).address), TROUPE_INVALID);
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .resources = "license").address),
                     TROUPE_INVALID);
    assert_int_equal(
        troupe_actor_status(troupe_spawn(holder, .gpus = 1, .place = TROUPE_PLACE_WORKER).address),
        TROUPE_INVALID);
    assert_all_free();
}

static void test_deadline(void **state)
{
    (void)state;
    holder_actor one = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .cpus = 3);
    holder_actor late = troupe_spawn(holder, .cpus = 2, .resources_wait_ms = 50);
    assert_int_equal(troupe_actor_status(late.address), TROUPE_DEADLINE_EXCEEDED);
    assert_non_null(strstr(troupe_last_error()->text, "2 CPUs (1 of 4 are free)"));
    assert_int_equal(now().waiting, 0);
    assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
    assert_all_free();
}

static void *spawn_later(void *name)
{
    static holder_actor made;
    made = troupe_spawn(holder, .name = name, .place = TROUPE_PLACE_HERE, .cpus = 2);
    return &made;
}

static bool one_waits(void *context)
{
    (void)context;
    return now().waiting == 1;
}

static void test_waiting_is_seen(void **state)
{
    (void)state;
    pthread_t thread;
    void *made;
    holder_actor one = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .cpus = 3);
    assert_int_equal(pthread_create(&thread, NULL, spawn_later, (void *)(uintptr_t) "patient"), 0);
    assert_true(support_wait_until(one_waits, NULL, SUPPORT_SOON_MS));
    troupe_resources all = now();
    assert_string_equal(all.waits[0].actor, "holder 'patient'");
    assert_string_equal(all.waits[0].why, "2 CPUs (1 of 4 are free)");
    assert_int_equal(all.waits[0].pid, getpid());
    // Who asks for something else is not held up.
    holder_actor other = troupe_spawn(holder, .resources = "slot=1");
    assert_int_equal(troupe_actor_status(other.address), TROUPE_OK);
    assert_int_equal(troupe_actor_kill(other), TROUPE_OK);
    assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
    assert_int_equal(pthread_join(thread, &made), 0);
    assert_int_equal(troupe_actor_status(((holder_actor *)made)->address), TROUPE_OK);
    assert_free(2, 3, 1000, 1);
    assert_int_equal(troupe_actor_kill(*(holder_actor *)made), TROUPE_OK);
    assert_all_free();
}

// A worker that waits in a spawn dies: its place in the queue is gone.
static void test_a_waiting_process_dies(void **state)
{
    (void)state;
    int pid, status;
    holder_actor all = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .cpus = 4);
    holder_actor asker = troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED);
    assert_int_equal(troupe_get(int, troupe_call(asker, pid_of), &pid), TROUPE_OK);
    troupe_ref answer = troupe_call(asker, spawn_one, 1.0);
    assert_true(support_wait_until(one_waits, NULL, SUPPORT_SOON_MS));
    assert_int_equal(now().waits[0].pid, pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(troupe_get(int, answer, &status), TROUPE_MAYBE_EXECUTED);
    assert_int_equal(now().waiting, 0);
    assert_int_equal(troupe_actor_kill(all), TROUPE_OK);
    assert_all_free();
}

static void test_gpus(void **state)
{
    (void)state;
    holder_actor two = troupe_spawn(holder, .gpus = 2);
    assert_string_equal(ask(two, "CUDA_VISIBLE_DEVICES"), "4,GPU-five");
    holder_actor half = troupe_spawn(holder, .gpus = 0.5);
    holder_actor quarter = troupe_spawn(holder, .gpus = 0.25);
    assert_string_equal(ask(half, "CUDA_VISIBLE_DEVICES"), "6");
    assert_string_equal(ask(quarter, "CUDA_VISIBLE_DEVICES"), "6");
    assert_free(4, 0.25, 1000, 1);
    assert_int_equal(troupe_actor_kill(two), TROUPE_OK);
    assert_free(4, 2.25, 1000, 1);
    holder_actor whole = troupe_spawn(holder, .gpus = 1);
    assert_string_equal(ask(whole, "CUDA_VISIBLE_DEVICES"), "4");
    int pid;
    assert_int_equal(troupe_get(int, troupe_call(whole, pid_of), &pid), TROUPE_OK);
    assert_int_not_equal(pid, getpid());
    assert_int_equal(troupe_actor_kill(whole), TROUPE_OK);
    assert_int_equal(troupe_actor_kill(half), TROUPE_OK);
    assert_int_equal(troupe_actor_kill(quarter), TROUPE_OK);
    assert_all_free();
}

static void test_environment_and_folder(void **state)
{
    (void)state;
    holder_actor pooled = troupe_spawn(holder, .place = TROUPE_PLACE_WORKER);
    holder_actor own = troupe_spawn(holder, .env = "OWN=a=b\n\nBOTH=own\nEMPTY=", .folder = "/");
    holder_actor here = troupe_spawn(holder, .place = TROUPE_PLACE_HERE);
    assert_string_equal(ask(pooled, "ALL"), "of them");
    assert_string_equal(ask(pooled, "BOTH"), "all");
    assert_string_equal(ask(pooled, "OWN"), "(not set)");
    assert_string_equal(ask(own, "ALL"), "of them");
    assert_string_equal(ask(own, "BOTH"), "own");
    assert_string_equal(ask(own, "OWN"), "a=b");
    assert_string_equal(ask(own, "EMPTY"), "");
    assert_string_equal(ask(here, "ALL"), "(not set)");
    troupe_text folder;
    assert_int_equal(troupe_get(troupe_text, troupe_call(pooled, folder_of), &folder), TROUPE_OK);
    assert_string_equal(folder, "/usr");
    assert_int_equal(troupe_get(troupe_text, troupe_call(own, folder_of), &folder), TROUPE_OK);
    assert_string_equal(folder, "/");
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .env = "no value").address),
                     TROUPE_INVALID);
    assert_int_equal(troupe_actor_status(troupe_spawn(holder, .folder = "/no/such").address),
                     TROUPE_INVALID);
    assert_int_equal(
        troupe_actor_status(troupe_spawn(holder, .env = "A=1", .place = TROUPE_PLACE_HERE).address),
        TROUPE_INVALID);
    troupe_arena_reset();
    (void)troupe_actor_kill(pooled);
    (void)troupe_actor_kill(own);
    (void)troupe_actor_kill(here);
}

static void test_wrong_options(void **state)
{
    (void)state;
    assert_int_equal(troupe_start(0, NULL, .resources = "license"), TROUPE_INVALID);
    assert_int_equal(troupe_start(0, NULL, .gpus = 65), TROUPE_INVALID);
    assert_int_equal(troupe_start(0, NULL, .worker_env = "=x"), TROUPE_INVALID);
    assert_int_equal(troupe_start(0, NULL, .worker_folder = "/no/such"), TROUPE_INVALID);
}

static void test_executed_workers(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "4,GPU-five,6", 1);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .launch = TROUPE_LAUNCH_EXEC), TROUPE_OK);
    holder_actor own = troupe_spawn(holder, .env = "OWN=1", .gpus = 1);
    assert_string_equal(ask(own, "OWN"), "1");
    assert_string_equal(ask(own, "CUDA_VISIBLE_DEVICES"), "4");
    assert_int_equal(troupe_stop(), 0);
}

// Some at once, and one when one of them is the worker.
enum { STARTERS = 4 };
static pthread_barrier_t starters;

static void *start_in_worker(void *late)
{
    (void)pthread_barrier_wait(&starters);
    if (late != NULL)
        (void)poll(NULL, 0, 20);
    troupe_must(troupe_start(0, NULL, .workers = 1, .launch = TROUPE_LAUNCH_EXEC));
    _exit(7); // What follows is the driver's.
}

static void start_by_threads(void)
{
    pthread_t threads[STARTERS];
    (void)prctl(PR_SET_NAME, "troupe-lookalike"); // The program's own name, for all of them.
    pthread_barrier_init(&starters, NULL, STARTERS);
    for (int i = 0; i < STARTERS; i++)
        pthread_create(&threads[i], NULL, start_in_worker, i == 0 ? &starters : NULL);
    for (;;)
        pause();
}

static void test_executed_workers_whose_threads_start_at_once(void **state)
{
    (void)state;
    setenv("TEST_STARTERS", "1", 1);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .launch = TROUPE_LAUNCH_EXEC), TROUPE_OK);
    unsetenv("TEST_STARTERS");
    holder_actor own[4];
    for (int i = 0; i < 4; i++) {
        own[i] = troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED, .env = "OWN=1");
        assert_string_equal(ask(own[i], "OWN"), "1");
    }
    (void)poll(NULL, 0, 100); // Meanwhile the late ones have come.
    for (int i = 0; i < 4; i++)
        assert_string_equal(ask(own[i], "OWN"), "1");
    int status = -1;
    assert_int_equal(troupe_get(int, troupe_call(own[0], start_beside), &status, SUPPORT_SOON_MS),
                     TROUPE_OK);
    assert_int_equal(status, TROUPE_OK);
    assert_int_equal(troupe_stop(), 0);
}

static bool has_begun(void *unused)
{
    (void)unused;
    return found->begun;
}

// A claim that is made while the node stops is refused: a method that is being let finish does not
// wait for it until all methods are stopped.
static void test_claims_at_the_stop(void **state)
{
    (void)state;
    enum { LONG_MS = 40000 };
    found = support_share(sizeof *found);
    assert_true(found != MAP_FAILED);
    for (int i = 0; i < 2; i++) { // The second start takes claims again.
        found->begun = false;
        found->status = -1;
        assert_int_equal(troupe_start(0, NULL, .workers = 1, .cpus = 1, .stop_timeout_ms = LONG_MS),
                         TROUPE_OK);
        holder_actor all = troupe_spawn(holder, .place = TROUPE_PLACE_WORKER, .cpus = 1);
        assert_int_equal(troupe_actor_status(all.address), TROUPE_OK);
        troupe_tell(all, spawn_at_the_end);
        assert_true(support_wait_until(has_begun, NULL, SUPPORT_SOON_MS));
        int64_t before = support_now_ms();
        assert_int_equal(troupe_stop(), 0);
        assert_in_range(support_now_ms() - before, 0, LONG_MS / 2);
        assert_int_equal(found->status, TROUPE_NOT_STARTED);
    }
    (void)munmap(found, sizeof *found);
}

// All GPUs by their longest names.
static void check_gpu_ids(int count, size_t id_size)
{
    static char ids[TRP_GPUS_MAX * TRP_GPU_ID_MAX];
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(ids + used, sizeof ids - used, "%sGPU-%0*d", i > 0 ? "," : "",
                                 (int)id_size - 4, i);
    assert_int_equal(used, (size_t)count * (id_size + 1) - 1);
    setenv("CUDA_VISIBLE_DEVICES", ids, 1);
    assert_int_equal(troupe_start(0, NULL, .workers = TROUPE_NONE), TROUPE_OK);
    holder_actor all = troupe_spawn(holder, .gpus = count);
    assert_string_equal(ask(all, "CUDA_VISIBLE_DEVICES"), ids);
    assert_int_equal(troupe_stop(), 0);
    setenv("CUDA_VISIBLE_DEVICES", "4,GPU-five,6", 1);
}

static void test_many_gpus(void **state)
{
    (void)state;
    check_gpu_ids(16, 40); // As UUIDs are.
    check_gpu_ids(TRP_GPUS_MAX, TRP_GPU_ID_MAX - 1);
}

int main(int argc, char **argv)
{
    if (getenv("TEST_STARTERS") != NULL)
        start_by_threads();
    if (getenv(TRP_WORKER_VARIABLE) != NULL) // An executed worker: does not return.
        troupe_must(troupe_start(argc, argv, .workers = 1, .launch = TROUPE_LAUNCH_EXEC));
    const struct CMUnitTest started[] = {
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_held_for_a_life),
        cmocka_unit_test(test_given_back_by_a_crash),
        cmocka_unit_test(test_given_back_by_a_failed_start),
        cmocka_unit_test(test_what_never_fits),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_waiting_is_seen),
        cmocka_unit_test(test_a_waiting_process_dies),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_environment_and_folder),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_executed_workers),
        cmocka_unit_test(test_executed_workers_whose_threads_start_at_once),
        cmocka_unit_test(test_claims_at_the_stop),
        cmocka_unit_test(test_many_gpus),
    };
    int failed = cmocka_run_group_tests(started, set_up, stop_runtime);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
