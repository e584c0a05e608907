// test_job_resources.c: what the ranks of jobs hold of their node: the table before, during and
// after, GPUs that need not exist, the environment of each rank, and what is refused.
// timeout: 120
#include "fresh.h"
#include "line.h"

#include <fcntl.h>
#include <runtime/node/keeper.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <sys/stat.h>

enum { CPUS = 4, GPUS = 4, MEMORY = 1000, LONGEST = 40000 };

static char *storage;

// A loop whose ranks write down what they know of themselves, and run until a file is there.
TROUPE_STRUCT(place_settings, (troupe_text, folder));

static const char *const variables[] = {
    "RANK",      "WORLD_SIZE",           "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "NODE_RANK", "CUDA_VISIBLE_DEVICES", "FLAVOUR"};
enum { VARIABLES = sizeof variables / sizeof *variables };

static troupe_status tells(troupe_rank *me, const place_settings *config)
{
    char text[1024], name[16];
    size_t used = (size_t)snprintf(text, sizeof text, "%d %d %d %d %d %d", me->rank, me->world,
                                   me->local_rank, me->local_world, me->node_rank, me->nodes);
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = getenv(variables[i]);
        used += (size_t)snprintf(text + used, sizeof text - used, " %s", value ? value : "-");
    }
    snprintf(name, sizeof name, "rank %d", me->rank);
    char *path = support_path(config->folder, name), *until = support_path(config->folder, "go");
    support_write_file(path, text, used);
    TROUPE_TRY(troupe_barrier(me));
    TROUPE_TRY(troupe_report(me, {"attempt", me->attempt}));
    while (!support_exists(until))
        usleep(1000);
    free(path);
    free(until);
    return troupe_report(me, {"attempt", me->attempt});
}
TROUPE_TRAINER(tells, place_settings);

typedef struct amounts {
    double cpus, gpus, memory, license, accelerator;
} amounts;

static bool are_free(void *context)
{
    const amounts *wanted = (const amounts *)context;
    troupe_resources all;
    troupe_must(troupe_resources_get(&all));
    return all.cpus.free == wanted->cpus && all.gpus.free == wanted->gpus &&
           all.memory_bytes.free == wanted->memory && all.named[0].free == wanted->license &&
           all.named[1].free == wanted->accelerator;
}

static void assert_free(double cpus, double gpus, double memory, double license, double accelerator)
{
    amounts wanted = {cpus, gpus, memory, license, accelerator};
    assert_true(support_wait_until(are_free, &wanted, SUPPORT_SOON_MS));
}

static void assert_all_free(void)
{
    assert_free(CPUS, GPUS, MEMORY, 2, 1.5);
}

static bool has_reported(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.state == TROUPE_JOB_RUNNING && status.reports == 1;
}

static bool is_paused(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.state == TROUPE_JOB_PAUSED;
}

static char *folder_for(const char *name)
{
    char *path = support_path(storage, name);
    assert_int_equal(mkdir(path, 0755), 0);
    return path;
}

static void let_go(const char *folder)
{
    char *path = support_path(folder, "go");
    support_write_file(path, "", 0);
    free(path);
}

typedef struct told {
    char *path;
    const char *wanted;
} told;

static bool is_told(void *context)
{
    const told *it = (const told *)context;
    char *text = support_read_file(it->path);
    bool right = text != NULL && strcmp(text, it->wanted) == 0;
    free(text);
    return right;
}

// It is there once the rank has reported; after a restart it may not be there yet.
static void expect_told(const char *folder, int rank, const char *wanted)
{
    char name[16];
    snprintf(name, sizeof name, "rank %d", rank);
    told it = {support_path(folder, name), wanted};
    if (!support_wait_until(is_told, &it, SUPPORT_SOON_MS)) {
        char *text = support_read_file(it.path);
        assert_string_equal(text != NULL ? text : "", wanted);
    }
    free(it.path);
}

static void finish(troupe_job **job, troupe_status status)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(*job, SUPPORT_SOON_MS, &result));
    if (troupe_result_status(result) != status)
        fail_msg("%s", troupe_result_error(result));
    troupe_result_free(&result);
    troupe_job_close(job);
}

// The table is exact while a job runs, and each rank sees GPUs of its own.
// A19, D14, D15.
static void test_the_table_is_exact_and_gpus_are_disjoint(void **state)
{
    (void)state;
    char *folder = folder_for("exact");
    place_settings config = {folder};
    troupe_job *job;
    assert_all_free();
    troupe_must(troupe_submit(tells, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .gpus_per_rank = 1, .cpus_per_rank = 0.5, .coordinator_cpus = 0.25,
                              .memory_per_rank_bytes = 100,
                              .resources_per_rank = "license=1, accelerator=0.25",
                              .env = "FLAVOUR=sweet\nNODE_RANK=mine"));
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    assert_free(CPUS - 1.25, GPUS - 2, MEMORY - 200, 0, 1);
    expect_told(folder, 0, "0 2 0 2 0 1 0 2 0 2 mine 4 sweet");
    expect_told(folder, 1, "1 2 1 2 0 1 1 2 1 2 mine GPU-five sweet");
    let_go(folder);
    finish(&job, TROUPE_OK);
    assert_all_free();
    free(folder);
}

// Of two jobs at once, too.
// D15.
static void test_jobs_beside_each_other_have_different_gpus(void **state)
{
    (void)state;
    char *first = folder_for("first"), *second = folder_for("second");
    troupe_job *jobs[2];
    troupe_must(troupe_submit(tells, &(place_settings){first}, NULL, &jobs[0], .storage = storage,
                              .gpus_per_rank = 2));
    assert_true(support_wait_until(has_reported, jobs[0], SUPPORT_SOON_MS));
    troupe_must(troupe_submit(tells, &(place_settings){second}, NULL, &jobs[1], .storage = storage,
                              .ranks = 3, .cpus_per_rank = 0.5, .gpus_per_rank = 0.25));
    assert_true(support_wait_until(has_reported, jobs[1], SUPPORT_SOON_MS));
    assert_free(CPUS - 2.5, GPUS - 2.75, MEMORY, 2, 1.5);
    expect_told(first, 0, "0 1 0 1 0 1 0 1 0 1 0 4,GPU-five -");
    for (int rank = 0; rank < 3; rank++) { // They share one.
        char wanted[128];
        snprintf(wanted, sizeof wanted, "%d 3 %d 3 0 1 %d 3 %d 3 0 6 -", rank, rank, rank, rank);
        expect_told(second, rank, wanted);
    }
    let_go(first);
    let_go(second);
    finish(&jobs[0], TROUPE_OK);
    finish(&jobs[1], TROUPE_OK);
    assert_all_free();
    free(first);
    free(second);
}

// A gang has all that it needs or nothing: half of it is not taken while the rest is missing.
static void test_a_gang_holds_all_or_nothing(void **state)
{
    (void)state;
    char *first = folder_for("one of two"), *second = folder_for("two of two");
    troupe_job *jobs[2];
    troupe_must(troupe_submit(tells, &(place_settings){first}, NULL, &jobs[0], .storage = storage,
                              .resources_per_rank = "license=1"));
    assert_true(support_wait_until(has_reported, jobs[0], SUPPORT_SOON_MS));
    troupe_must(troupe_submit(tells, &(place_settings){second}, NULL, &jobs[1], .storage = storage,
                              .ranks = 2, .gpus_per_rank = 2, .memory_per_rank_bytes = 500,
                              .resources_per_rank = "license=1"));
    troupe_resources all;
    for (;;) { // Until it waits.
        troupe_must(troupe_resources_get(&all));
        if (all.waiting == 1)
            break;
        usleep(1000);
    }
    assert_string_equal(all.waits[0].why, "2 license (1 of 2 are free)");
    assert_free(CPUS - 1, GPUS, MEMORY, 1, 1.5);
    let_go(first);
    finish(&jobs[0], TROUPE_OK);
    assert_true(support_wait_until(has_reported, jobs[1], SUPPORT_SOON_MS));
    assert_free(CPUS - 2, 0, 0, 0, 1.5);
    let_go(second);
    finish(&jobs[1], TROUPE_OK);
    assert_all_free();
    free(first);
    free(second);
}

// A loop whose ranks put a mark on each of their GPUs, which must not have one.
TROUPE_STRUCT(mark_settings, (troupe_text, folder), (int, pause_ms));

static troupe_status marks(troupe_rank *me, const mark_settings *config)
{
    char list[64], name[80], *rest = NULL;
    snprintf(list, sizeof list, "%s", getenv("CUDA_VISIBLE_DEVICES"));
    for (char *id = strtok_r(list, ",", &rest); id; id = strtok_r(NULL, ",", &rest)) {
        snprintf(name, sizeof name, "gpu %s", id);
        char *path = support_path(config->folder, name);
        int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        free(path);
        if (file < 0)
            return troupe_fail(TROUPE_FAILED, "rank %d has GPU %s, as another does", me->rank, id);
        close(file);
    }
    usleep((useconds_t)config->pause_ms * 1000);
    snprintf(list, sizeof list, "%s", getenv("CUDA_VISIBLE_DEVICES"));
    for (char *id = strtok_r(list, ",", &rest); id; id = strtok_r(NULL, ",", &rest)) {
        snprintf(name, sizeof name, "gpu %s", id);
        char *path = support_path(config->folder, name);
        (void)unlink(path);
        free(path);
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(marks, mark_settings);

// Many jobs of all sizes, some of which may pass others: no GPU ever has two ranks.
static void test_nothing_is_oversubscribed(void **state)
{
    (void)state;
    enum { JOBS = 40 };
    char *folder = folder_for("marks");
    troupe_job *jobs[JOBS];
    unsigned seed = 14;
    print_message("seed %u\n", seed);
    for (int i = 0; i < JOBS; i++) {
        int ranks = 1 + rand_r(&seed) % GPUS, each = 1 + rand_r(&seed) % (GPUS / ranks);
        mark_settings config = {folder, rand_r(&seed) % 8};
        troupe_must(troupe_submit(marks, &config, NULL, &jobs[i], .ranks = ranks,
                                  .cpus_per_rank = 0.25, .gpus_per_rank = each, .keep = TROUPE_NONE,
                                  .time_limit_s = rand_r(&seed) % 4 == 0 ? 0 : 20 + i % 3,
                                  .storage = storage));
    }
    for (int i = 0; i < JOBS; i++)
        finish(&jobs[i], TROUPE_OK);
    assert_all_free();
    free(folder);
}

static bool is_restarted(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.state == TROUPE_JOB_RUNNING && status.restarts == 1 && status.reports == 1;
}

// What a rank had stays the job's when the rank is killed, and is used again; all comes back when
// the job is killed.
static void test_a_killed_rank_and_a_killed_job_give_back_exactly(void **state)
{
    (void)state;
    char *folder = folder_for("killed");
    place_settings config = {folder};
    troupe_job *job;
    troupe_job_status status;
    troupe_must(troupe_submit(tells, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .gpus_per_rank = 2, .memory_per_rank_bytes = 500, .restarts = 1));
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    troupe_job_status_get(job, &status);
    char *before = support_path(folder, "rank 1");
    assert_int_equal(unlink(before), 0);
    free(before);
    assert_int_equal(kill(status.pids[1], SIGKILL), 0);
    assert_true(support_wait_until(is_restarted, job, SUPPORT_SOON_MS));
    assert_free(CPUS - 2, 0, 0, 2, 1.5);
    expect_told(folder, 1, "1 2 1 2 0 1 1 2 1 2 0 6,7 -");
    troupe_job_kill(job, TROUPE_OK, "enough");
    finish(&job, TROUPE_CANCELLED);
    assert_all_free();
    // The same where nothing restarts it.
    troupe_must(troupe_submit(tells, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .gpus_per_rank = 2));
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    troupe_job_status_get(job, &status);
    assert_int_equal(kill(status.pids[0], SIGKILL), 0);
    finish(&job, TROUPE_PEER_LOST);
    assert_all_free();
    free(folder);
}

static bool some_are_free(void *context)
{
    (void)context;
    troupe_resources all;
    troupe_must(troupe_resources_get(&all));
    return all.cpus.free > CPUS - 2;
}

// What a job held is given back when its processes have ended, not when they were told to.
static void test_nothing_is_given_back_before_its_processes_have_ended(void **state)
{
    (void)state;
    enum { LOOK_MS = 200 };
    char *folder = folder_for("dying");
    place_settings config = {folder};
    troupe_job *job;
    troupe_must(troupe_submit(tells, &config, NULL, &job, .ranks = 2, .storage = storage));
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    pid_t keeper = trp_process_parent(trp_process_pid(TRP_PROCESS_NODE));
    assert_true(keeper > 1);
    assert_int_equal(kill(keeper, SIGSTOP), 0); // So they live on.
    troupe_job_kill(job, TROUPE_OK, "enough");
    bool early = support_wait_until(some_are_free, NULL, LOOK_MS);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    assert_false(early);
    finish(&job, TROUPE_CANCELLED);
    assert_all_free();
    // The same of a job that pauses.
    troupe_must(troupe_submit(tells, &config, NULL, &job, .ranks = 2, .storage = storage));
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    troupe_job_pause(job);
    let_go(folder);
    early = support_wait_until(some_are_free, NULL, LOOK_MS);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    assert_false(early);
    assert_true(support_wait_until(is_paused, job, SUPPORT_SOON_MS));
    troupe_job_close(&job);
    assert_all_free();
    free(folder);
}

// CPUs alone come back as the loops end: processes that only end still need none of their own.
static void test_cpus_are_given_back_at_the_end_of_the_loops(void **state)
{
    (void)state;
    enum { SOON_MS = SUPPORT_SOON_MS / 2 }; // After the whole, all is given back in any case.
    char *folder = folder_for("left");
    place_settings config = {folder};
    troupe_job *job;
    troupe_must(troupe_submit(tells, &config, NULL, &job, .ranks = 2, .storage = storage));
    assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
    pid_t keeper = trp_process_parent(trp_process_pid(TRP_PROCESS_NODE));
    assert_true(keeper > 1);
    assert_int_equal(kill(keeper, SIGSTOP), 0); // So the processes live on.
    let_go(folder);
    bool given_back = support_wait_until(some_are_free, NULL, SOON_MS);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    assert_true(given_back);
    finish(&job, TROUPE_OK);
    assert_all_free();
    free(folder);
}

// A run goes on with fewer ranks than it was begun with, and holds no more than they need.
// B09.
static void test_a_run_continues_with_fewer_ranks_and_resources(void **state)
{
    (void)state;
    line_settings config = line_plain(3);
    troupe_result *first, *second;
    troupe_must(troupe_train(line_fit, &config, &first, .ranks = 4, .storage = storage,
                             .gpus_per_rank = 1));
    config.epochs = 5;
    line_model before = line_load(first, 0);
    // Of fewer ranks each has its own state; rank 0's is the run's.
    troupe_must(troupe_train(line_fit, &config, &second, .ranks = 2, .storage = storage,
                             .gpus_per_rank = 2, .from = troupe_result_checkpoint(first)));
    line_model after = line_load(second, 0);
    assert_int_equal(before.epoch, 3);
    assert_int_equal(after.epoch, 5);
    assert_int_equal(troupe_result_reports(second), 2);
    assert_memory_equal(after.history.items, before.history.items, 3 * sizeof(double));
    assert_all_free();
    troupe_arena_reset();
    troupe_result_free(&first);
    troupe_result_free(&second);
}

#define REFUSED(status, word, ...)                                                                 \
    do {                                                                                           \
        troupe_job *job_ = NULL;                                                                   \
        line_settings config_ = line_plain(1);                                                     \
        assert_int_equal(                                                                          \
            troupe_submit(line_fit, &config_, NULL, &job_, .storage = storage, __VA_ARGS__),       \
            status);                                                                               \
        assert_null(job_);                                                                         \
        if (!strstr(troupe_last_error()->text, word))                                              \
            fail_msg("'%s' is not in: %s", word, troupe_last_error()->text);                       \
    } while (0)

// What can never be given is refused when it is asked for.
// D14, F18.
static void test_what_the_node_does_not_have_is_refused(void **state)
{
    (void)state;
    static char text[LONGEST];
    REFUSED(TROUPE_TOO_LARGE,
            ".ranks = 3 and .gpus_per_rank = 2 need 6 GPUs, and jobs may reserve 4", .ranks = 3,
            .gpus_per_rank = 2);
    REFUSED(TROUPE_TOO_LARGE,
            ".coordinator_cpus = 0.5 need 4.5 CPUs, and jobs may reserve 4 in all: expected "
            "fewer ranks, less for each",
            .ranks = 4, .coordinator_cpus = 0.5);
    REFUSED(TROUPE_TOO_LARGE, ".memory_per_rank_bytes = 501 need 1002 bytes", .ranks = 2,
            .memory_per_rank_bytes = 501);
    REFUSED(TROUPE_TOO_LARGE, "may reserve 1000 in all", .memory_per_rank_bytes = SIZE_MAX);
    REFUSED(TROUPE_TOO_LARGE, "with accelerator = 0.8 need 1.6 of it, and jobs may reserve 1.5",
            .ranks = 2, .resources_per_rank = "accelerator=0.8");
    REFUSED(TROUPE_TOO_LARGE, "option .resources_per_rank: 1 of 'tpu' were asked for",
            .resources_per_rank = "tpu=1");
    REFUSED(TROUPE_INVALID, "option .resources_per_rank: resources 'license'",
            .resources_per_rank = "license");
    REFUSED(TROUPE_INVALID, "option .resources_per_rank: license = -1",
            .resources_per_rank = "license=-1");
    REFUSED(TROUPE_INVALID, ".gpus_per_rank is 1.5: expected a part of a GPU, or a whole number",
            .gpus_per_rank = 1.5);
    REFUSED(TROUPE_INVALID, ".gpus_per_rank is 0.4 with .ranks = 3", .ranks = 3,
            .gpus_per_rank = 0.4);
    REFUSED(TROUPE_INVALID, ".gpus_per_rank is 0.5 with .ranks = 3", .ranks = 3,
            .gpus_per_rank = 0.5);
    REFUSED(TROUPE_INVALID, "option .gpus_per_rank = -1", .gpus_per_rank = -1);
    REFUSED(TROUPE_INVALID, "option .env, 'no line': expected lines of the form KEY=VALUE",
            .env = "no line");
    memset(text, 'x', sizeof text - 1);
    text[1] = '=';
    REFUSED(TROUPE_INVALID, "option .env has 39999 bytes", .env = text);
    assert_all_free();
}

static int argument_count;
static char **arguments;

static void start(void)
{
    troupe_must(troupe_start(argument_count, arguments, .cpus = CPUS, .threads = 2,
                             .memory_bytes = MEMORY, .resources = "license=2,accelerator=1.5"));
}

int main(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
    setenv("CUDA_VISIBLE_DEVICES", "4,GPU-five,6,7", 1); // No GPU is needed for them to be counted.
    fresh_start = start;
    start();
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_table_is_exact_and_gpus_are_disjoint, fresh_after),
        cmocka_unit_test_teardown(test_jobs_beside_each_other_have_different_gpus, fresh_after),
        cmocka_unit_test_teardown(test_a_gang_holds_all_or_nothing, fresh_after),
        cmocka_unit_test_teardown(test_nothing_is_oversubscribed, fresh_after),
        cmocka_unit_test_teardown(test_a_killed_rank_and_a_killed_job_give_back_exactly,
                                  fresh_after),
        cmocka_unit_test_teardown(test_nothing_is_given_back_before_its_processes_have_ended,
                                  fresh_after),
        cmocka_unit_test_teardown(test_cpus_are_given_back_at_the_end_of_the_loops, fresh_after),
        cmocka_unit_test_teardown(test_a_run_continues_with_fewer_ranks_and_resources, fresh_after),
        cmocka_unit_test_teardown(test_what_the_node_does_not_have_is_refused, fresh_after),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
