// test_stages.c: what a trainer does beside its loop: in the driver, for a group, in each rank.
// timeout: 120
#include <support.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <train/run.h>
#include <troupe.h>
#include <unistd.h>

enum { WORLD = 2, REPORTS = 3 };

// What goes wrong, in rank 1 after its first report, or in a stage.
enum {
    NOTHING,
    SETUP_FAILS,
    START_FAILS,
    START_LOSES_A_RANK,
    RANK_SETUP_FAILS,
    LOOP_FAILS,
    LOOP_HANGS,
    LOOP_HANGS_ALONE, // Rank 0 fails once it does.
    RANK_IS_KILLED,
    TEARDOWN_FAILS,
    SHUTDOWN_FAILS,
    SHUTDOWN_HANGS,
    RANK_HANGS_IN_SHUTDOWN,
};

// Each stage leaves a line in `folder`/log. Where `waits`, setup waits for `folder`/go.
TROUPE_STRUCT(staged_settings, (troupe_text, folder), (int, trouble), (int, attempts),
              (bool, waits), (troupe_ref, data));

TROUPE_STRUCT(variable, (troupe_text, name), (troupe_text, value), (int, fails), (int, dies));
TROUPE_STRUCT(holder, (troupe_ref, data));

static char *storage;

static bool exists(void *context)
{
    return support_exists((const char *)context);
}

static void note(const char *folder, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const char *folder, const char *format, ...)
{
    char line[256];
    char *path = support_path(folder, "log");
    va_list more;
    va_start(more, format);
    int length = vsnprintf(line, sizeof line, format, more);
    va_end(more);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
    free(path);
}

static troupe_status set_variable(troupe_rank *me, const variable *what)
{
    if (me->rank == what->dies - 1)
        kill(getpid(), SIGKILL);
    if (me->rank >= what->fails && what->fails > 0)
        return troupe_fail(TROUPE_IO, "no variable for %d of %d", me->rank, me->world);
    return setenv(what->name, what->value, 1) ? TROUPE_FAILED : TROUPE_OK;
}
TROUPE_RANK_FUNCTION(set_variable, variable);

static troupe_status hold(troupe_rank *me, const holder *what)
{
    (void)me;
    (void)what;
    return TROUPE_OK;
}
TROUPE_RANK_FUNCTION(hold, holder);

static troupe_status end_rank(troupe_rank *me, const staged_settings *config)
{
    if (config->trouble == RANK_HANGS_IN_SHUTDOWN && me->rank == 1)
        for (;;)
            pause();
    TROUPE_TRY(troupe_barrier(me) == TROUPE_INVALID ? TROUPE_OK : TROUPE_FAILED); // Not for it.
    const char *value = getenv("STAGED");
    note(config->folder, "end of rank %d of %d with %s\n", me->rank, me->world,
         value ? value : "nothing");
    return TROUPE_OK;
}
TROUPE_RANK_FUNCTION(end_rank, staged_settings);

static troupe_status staged_setup(troupe_setup *at, const staged_settings *config)
{
    char *go = support_path(config->folder, "go");
    int64_t number = 0;
    if (config->data.id && troupe_get(int64_t, config->data, &number) != TROUPE_OK)
        return TROUPE_FAILED;
    note(config->folder, "setup %d %d %s %lld\n", at->ranks, at->resumed,
         at->metadata ? at->metadata : "none", (long long)number);
    bool gone = !config->waits || support_wait_until(exists, go, 30000);
    free(go);
    if (!gone || !support_exists(at->path) || (pid_t)syscall(SYS_gettid) == getpid())
        return troupe_fail(TROUPE_FAILED, "the setup is not where it should be");
    if (config->trouble == SETUP_FAILS)
        return troupe_fail(TROUPE_NOT_FOUND, "there are no digits to learn");
    return TROUPE_OK;
}

static troupe_status staged_start(troupe_group *group, const staged_settings *config)
{
    variable what = {.name = "STAGED", .value = config->folder};
    if (config->trouble == START_FAILS && group->attempt < config->attempts)
        what.fails = 1;
    if (config->trouble == START_LOSES_A_RANK && group->attempt < config->attempts)
        what.dies = 2;
    note(config->folder, "start %d %d\n", group->world, group->left);
    TROUPE_TRY(troupe_execute(group, set_variable, &what));
    holder held = {config->data};
    if (config->data.id && troupe_execute(group, hold, &held) != TROUPE_UNSUPPORTED)
        return TROUPE_FAILED;
    return TROUPE_OK;
}

static troupe_status staged_shutdown(troupe_group *group, const staged_settings *config)
{
    note(config->folder, "shutdown %d %s left %d\n", group->attempt,
         troupe_status_name(group->ended), group->left);
    if (config->trouble == SHUTDOWN_HANGS) {
        char *go = support_path(config->folder, "go");
        (void)support_wait_until(exists, go, 30000);
        free(go);
    }
    troupe_status status = troupe_execute(group, end_rank, config);
    if (config->trouble == RANK_HANGS_IN_SHUTDOWN)
        note(config->folder, "%s: %s\n", troupe_status_name(status), troupe_last_error()->text);
    return config->trouble == SHUTDOWN_FAILS ? troupe_fail(TROUPE_IO, "it does not close") : status;
}

static troupe_status staged_rank_setup(troupe_rank *me, const staged_settings *config)
{
    TROUPE_TRY(troupe_barrier(me)); // What a loop may do, it may too.
    if (config->trouble == RANK_SETUP_FAILS && me->rank == 1)
        return troupe_fail(TROUPE_FAILED, "rank 1 is not made");
    note(config->folder, "rank %d begins\n", me->rank);
    return TROUPE_OK;
}

static troupe_status staged_rank_teardown(troupe_rank *me, const staged_settings *config)
{
    note(config->folder, "rank %d ends\n", me->rank);
    if (config->trouble == TEARDOWN_FAILS)
        return troupe_fail(TROUPE_IO, "rank %d does not close", me->rank);
    return TROUPE_OK;
}

static bool rank_1_hangs(void *config)
{
    char *path = support_path(((const staged_settings *)config)->folder, "log");
    char *text = support_read_file(path);
    bool hangs = text && strstr(text, "rank 1 hangs\n");
    free(text);
    free(path);
    return hangs;
}

static troupe_status staged(troupe_rank *me, const staged_settings *config)
{
    const char *value = getenv("STAGED");
    if (!value || strcmp(value, config->folder) != 0)
        return troupe_fail(TROUPE_FAILED, "rank %d has no variable", me->rank);
    note(config->folder, "loop %d\n", me->rank);
    for (int i = 0; config->data.id && i < 2; i++) {
        int64_t number = 0;
        TROUPE_TRY(troupe_get(int64_t, config->data, &number));
        note(config->folder, "read %lld\n", (long long)number);
    }
    for (int i = 0; i < REPORTS; i++) {
        TROUPE_TRY(troupe_barrier(me));
        TROUPE_TRY(troupe_report(me, {"value", 1}));
        if (me->rank == 0 && config->trouble == LOOP_HANGS_ALONE) {
            (void)support_wait_until(rank_1_hangs, (void *)(uintptr_t)config, SUPPORT_SOON_MS);
            return troupe_fail(TROUPE_FAILED, "the loss is not what it was");
        }
        if (me->rank != 1 || me->attempt >= config->attempts)
            continue;
        if (config->trouble == RANK_IS_KILLED)
            kill(getpid(), SIGKILL);
        if (config->trouble == LOOP_FAILS)
            return troupe_fail(TROUPE_FAILED, "the loss is not what it was");
        if (config->trouble == LOOP_HANGS_ALONE)
            note(config->folder, "rank 1 hangs\n");
        while (config->trouble == LOOP_HANGS || config->trouble == LOOP_HANGS_ALONE)
            pause();
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(staged, staged_settings, .setup = staged_setup, .on_start = staged_start,
               .on_shutdown = staged_shutdown, .rank_setup = staged_rank_setup,
               .rank_teardown = staged_rank_teardown);

// One without stages.
TROUPE_STRUCT(plain_settings, (int, reports));
static troupe_status plain(troupe_rank *me, const plain_settings *config)
{
    for (int i = 0; i < config->reports; i++)
        TROUPE_TRY(troupe_report(me, {"value", 1}));
    return TROUPE_OK;
}
TROUPE_TRAINER(plain, plain_settings);

// ---- trainers that say what they can do

// What each rank saves: the same, or something of its own, as a state or as a file.
enum { ALIKE, OWN_STATES, OWN_FILES, OF_RANK_0 };
TROUPE_STRUCT(saver_settings, (int, saves));

static troupe_status save_one(troupe_rank *me, const saver_settings *config)
{
    const char *folder;
    int64_t number = config->saves == OWN_STATES ? me->rank : 7;
    if (config->saves == ALIKE || config->saves == OWN_STATES ||
        (config->saves == OF_RANK_0 && me->rank == 0))
        TROUPE_TRY(troupe_save(int64_t, me, &number));
    if (config->saves == OWN_FILES) {
        char name[32];
        snprintf(name, sizeof name, "part_%d", me->rank);
        TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
        char *path = support_path(folder, name);
        support_write_file(path, name, strlen(name));
        free(path);
    }
    return troupe_report(me, {"value", 1});
}

static troupe_status saver(troupe_rank *me, const saver_settings *config)
{
    return save_one(me, config);
}
TROUPE_TRAINER(saver, saver_settings, .allowed_options = "ranks, restarts");

static troupe_status resharder(troupe_rank *me, const saver_settings *config)
{
    return save_one(me, config);
}
TROUPE_TRAINER(resharder, saver_settings, .reshards = true, .allowed_options = "");

// ---- helpers

typedef struct scene {
    staged_settings config;
    char *folder, *text; // What the stages have noted.
    troupe_result *result;
} scene;

static void open_scene(scene *of, int trouble)
{
    *of = (scene){.folder = support_directory_make()};
    of->config = (staged_settings){.folder = of->folder, .trouble = trouble, .attempts = 1};
}

static void read_notes(scene *of)
{
    char *path = support_path(of->folder, "log");
    free(of->text);
    of->text = support_read_file(path);
    assert_non_null(of->text);
    free(path);
}

static void run_scene(scene *of, int trouble, int restarts)
{
    open_scene(of, trouble);
    troupe_status status = troupe_train(staged, &of->config, &of->result, .ranks = WORLD,
                                        .storage = storage, .restarts = restarts);
    assert_non_null(of->result);
    assert_int_equal(status, troupe_result_status(of->result));
    read_notes(of);
}

static int occurrences(const scene *of, const char *word)
{
    int found = 0;
    for (const char *at = of->text; (at = strstr(at, word)); at++)
        found++;
    return found;
}

static void close_scene(scene *of)
{
    troupe_result_free(&of->result);
    support_directory_remove(of->folder);
    free(of->text);
}

static void assert_count(const scene *of, const char *word, int expected)
{
    int found = occurrences(of, word);
    if (found != expected)
        fail_msg("expected '%s' %d times, not %d, in\n%s", word, expected, found, of->text);
}

// That `first` was noted before `then`, both of them.
static void assert_order(const scene *of, const char *first, const char *then)
{
    const char *a = strstr(of->text, first), *b = strstr(of->text, then);
    if (!a || !b || a >= b)
        fail_msg("expected '%s' before '%s' in\n%s", first, then, of->text);
}

// ---- setup

// A02, A03: submitting returns, and another run ends, while a setup waits for what comes later.
static void test_a_setup_delays_nothing_but_its_own_run(void **state)
{
    (void)state;
    scene of;
    troupe_job *job;
    troupe_job_status now;
    open_scene(&of, NOTHING);
    of.config.waits = true;
    troupe_must(troupe_submit(staged, &of.config, NULL, &job, .ranks = WORLD, .storage = storage,
                              .metadata = "{\"who\":  1}"));
    char *go = support_path(of.folder, "go"), *log = support_path(of.folder, "log");
    assert_true(support_wait_until(exists, log, SUPPORT_SOON_MS));
    troupe_result *other;
    troupe_must(troupe_train(plain, &(plain_settings){5}, &other, .storage = storage));
    assert_int_equal(troupe_result_reports(other), 5);
    troupe_result_free(&other);
    troupe_job_status_get(job, &now);
    assert_int_equal(now.state, TROUPE_JOB_QUEUED);
    assert_int_equal(now.pids[0], 0);
    support_write_file(go, "", 0);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
    assert_int_equal(troupe_result_status(of.result), TROUPE_OK);
    read_notes(&of);
    assert_order(&of, "setup 2 0 {\"who\":1} 0\n", "start");
    assert_order(&of, "start", "loop");
    assert_count(&of, "setup", 1);
    troupe_job_close(&job);
    free(go);
    free(log);
    close_scene(&of);
}

static void test_a_setup_that_fails_ends_the_run(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, SETUP_FAILS, 3);
    assert_int_equal(troupe_result_status(of.result), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_result_error(of.result),
                           "setup of trainer 'staged' failed: there are no digits to learn"));
    assert_int_equal(troupe_result_restarts(of.result), 0);
    assert_null(strstr(of.text, "start"));
    assert_null(strstr(of.text, "shutdown"));
    close_scene(&of);
}

static void test_a_run_is_ended_during_its_setup(void **state)
{
    (void)state;
    scene of;
    troupe_job *job;
    open_scene(&of, NOTHING);
    of.config.waits = true;
    troupe_must(troupe_submit(staged, &of.config, NULL, &job, .ranks = WORLD, .storage = storage));
    char *go = support_path(of.folder, "go"), *log = support_path(of.folder, "log");
    assert_true(support_wait_until(exists, log, SUPPORT_SOON_MS));
    troupe_job_kill(job, TROUPE_CANCELLED, "nobody wants it");
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
    assert_int_equal(troupe_result_status(of.result), TROUPE_CANCELLED);
    assert_non_null(strstr(troupe_result_error(of.result), "nobody wants it"));
    troupe_job_close(&job);
    int threads = support_count_threads();
    support_write_file(go, "", 0); // The setup ends, and nothing follows.
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    while (support_count_threads() >= threads && support_now_ms() < until)
        usleep(1000);
    assert_true(support_count_threads() < threads);
    read_notes(&of);
    assert_null(strstr(of.text, "start"));
    free(go);
    free(log);
    close_scene(&of);
}

static bool store_is_empty(void *unused)
{
    troupe_store_usage usage;
    (void)unused;
    return troupe_store_usage_get(&usage) == TROUPE_OK && usage.objects == 0;
}

// Setup, on_start and the loops read the objects in the config, each for itself, and none of them
// takes them from the others or from the program.
static void test_stages_read_the_objects_of_the_config(void **state)
{
    (void)state;
    scene of;
    troupe_job *job;
    for (int dropped = 0; dropped < 2; dropped++) {
        open_scene(&of, NOTHING);
        of.config.waits = true;
        of.config.data = troupe_put(int64_t, &(int64_t){42});
        troupe_must(
            troupe_submit(staged, &of.config, NULL, &job, .ranks = WORLD, .storage = storage));
        if (dropped)
            troupe_ref_drop(of.config.data);
        char *go = support_path(of.folder, "go");
        support_write_file(go, "", 0);
        free(go);
        troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
        assert_string_equal(troupe_result_error(of.result), "");
        read_notes(&of);
        assert_non_null(strstr(of.text, "setup 2 0 none 42\n"));
        assert_count(&of, "read 42\n", 2 * WORLD);
        troupe_job_close(&job);
        int64_t number = 0;
        if (!dropped)
            troupe_must(troupe_get(int64_t, of.config.data, &number));
        assert_true(support_wait_until(store_is_empty, NULL, SUPPORT_SOON_MS));
        close_scene(&of);
    }
}

// ---- the group

// D12: a variable that on_start sets by a function of all ranks is there in each loop, and
// on_shutdown finds all ranks when the loops have ended well.
static void test_a_backend_starts_and_shuts_down(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, NOTHING, 0);
    assert_string_equal(troupe_result_error(of.result), "");
    assert_int_equal(troupe_result_reports(of.result), REPORTS);
    assert_order(&of, "start 2 2\n", "loop 0\n");
    assert_order(&of, "start 2 2\n", "loop 1\n");
    assert_order(&of, "rank 0 ends", "shutdown 0 TROUPE_OK left 2\n");
    assert_order(&of, "rank 1 ends", "shutdown 0 TROUPE_OK left 2\n");
    char line[512];
    snprintf(line, sizeof line, "end of rank 0 of 2 with %s\n", of.folder);
    assert_order(&of, "shutdown", line);
    assert_count(&of, "end of rank", 2);
    assert_count(&of, "shutdown", 1);
    close_scene(&of);
}

// D12: after a loop that failed, on_shutdown finds the other ranks too.
static void test_a_backend_shuts_down_after_a_failure(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, LOOP_FAILS, 0);
    assert_int_equal(troupe_result_status(of.result), TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(of.result), "the loss is not what it was"));
    assert_order(&of, "rank 1 ends", "shutdown 0 TROUPE_FAILED left 2\n");
    assert_order(&of, "rank 0 ends", "shutdown 0 TROUPE_FAILED left 2\n");
    assert_count(&of, "end of rank", 2);
    close_scene(&of);
}

// D12: after a rank was killed, on_shutdown finds those that are left; so for each group.
static void test_a_backend_shuts_down_after_a_lost_rank(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, RANK_IS_KILLED, 1);
    assert_string_equal(troupe_result_error(of.result), "");
    assert_int_equal(troupe_result_restarts(of.result), 1);
    assert_order(&of, "shutdown 0 TROUPE_PEER_LOST left 1\n", "shutdown 1 TROUPE_OK left 2\n");
    assert_count(&of, "start 2 2\n", 2);
    assert_count(&of, "end of rank 0", 2);
    assert_count(&of, "end of rank 1", 1);
    assert_count(&of, "setup", 1);
    close_scene(&of);
}

static bool loop_runs(void *context)
{
    scene *of = (scene *)context;
    read_notes(of);
    return strstr(of->text, "loop 1\n") != NULL;
}

// D12: and when the run is ended by force.
static void test_a_backend_shuts_down_after_a_kill(void **state)
{
    (void)state;
    scene of;
    troupe_job *job;
    open_scene(&of, LOOP_HANGS);
    troupe_must(troupe_submit(staged, &of.config, NULL, &job, .ranks = WORLD, .storage = storage,
                              .restarts = 2));
    char *log = support_path(of.folder, "log");
    assert_true(support_wait_until(exists, log, SUPPORT_SOON_MS));
    assert_true(support_wait_until(loop_runs, &of, SUPPORT_SOON_MS));
    troupe_job_kill(job, TROUPE_CANCELLED, "nobody wants it");
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &of.result));
    assert_int_equal(troupe_result_status(of.result), TROUPE_CANCELLED);
    read_notes(&of);
    assert_count(&of, "shutdown 0 TROUPE_CANCELLED left 0\n", 1);
    assert_count(&of, "shutdown", 1);
    assert_count(&of, "start", 1);
    troupe_job_close(&job);
    free(log);
    close_scene(&of);
}

// A loop that does not see the end of its group is not waited for for long.
static void test_a_loop_that_hangs_after_a_failure_is_ended(void **state)
{
    (void)state;
    scene of;
    int64_t before = support_now_ms();
    run_scene(&of, LOOP_HANGS_ALONE, 0);
    assert_true(support_now_ms() - before < SUPPORT_SOON_MS);
    assert_int_equal(troupe_result_status(of.result), TROUPE_FAILED);
    assert_count(&of, "rank 1 hangs\n", 1);
    assert_count(&of, "shutdown 0 TROUPE_FAILED left 1\n", 1);
    close_scene(&of);
}

static void test_a_start_that_fails_is_a_failure_of_the_group(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, START_FAILS, 0);
    assert_int_equal(troupe_result_status(of.result), TROUPE_IO);
    assert_non_null(strstr(troupe_result_error(of.result),
                           "on_start of trainer 'staged' failed: rank 1: no variable for 1 of 2"));
    assert_null(strstr(of.text, "loop"));
    assert_count(&of, "shutdown 0 TROUPE_IO left 2\n", 1);
    close_scene(&of);
    run_scene(&of, START_FAILS, 1);
    assert_string_equal(troupe_result_error(of.result), "");
    assert_int_equal(troupe_result_restarts(of.result), 1);
    close_scene(&of);
    run_scene(&of, START_LOSES_A_RANK, 0);
    assert_int_equal(troupe_result_status(of.result), TROUPE_PEER_LOST);
    assert_non_null(strstr(troupe_result_error(of.result), "rank 1 was lost"));
    assert_count(&of, "shutdown 0 TROUPE_PEER_LOST left 1\n", 1);
    assert_count(&of, "end of rank 0", 1);
    close_scene(&of);
}

static void test_a_shutdown_changes_no_result_and_has_a_deadline(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, SHUTDOWN_FAILS, 0);
    assert_string_equal(troupe_result_error(of.result), "");
    close_scene(&of);
    assert_int_equal(trp_run_stage_end_ms, 5000);
    trp_run_stage_end_ms = 500;
    int64_t before = support_now_ms();
    run_scene(&of, RANK_HANGS_IN_SHUTDOWN, 0);
    assert_string_equal(troupe_result_error(of.result), "");
    assert_true(support_now_ms() - before < SUPPORT_SOON_MS);
    read_notes(&of);
    close_scene(&of);
    before = support_now_ms();
    run_scene(&of, SHUTDOWN_HANGS, 0);
    assert_string_equal(troupe_result_error(of.result), "");
    assert_true(support_now_ms() - before < SUPPORT_SOON_MS);
    trp_run_stage_end_ms = 5000;
    int threads = support_count_threads();
    char *go = support_path(of.folder, "go");
    support_write_file(go, "", 0);
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    while (support_count_threads() >= threads && support_now_ms() < until)
        usleep(1000);
    assert_true(support_count_threads() < threads);
    free(go);
    close_scene(&of);
}

static void test_functions_of_ranks_need_their_group(void **state)
{
    (void)state;
    troupe_group group = {.world = 1};
    assert_int_equal(troupe_execute(&group, set_variable, &(variable){.name = "A", .value = "B"}),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "on_start or on_shutdown"));
}

// ---- ranks

static void test_a_rank_is_set_up_and_torn_down(void **state)
{
    (void)state;
    scene of;
    run_scene(&of, NOTHING, 0);
    assert_order(&of, "rank 0 begins", "loop 0");
    assert_order(&of, "loop 0", "rank 0 ends");
    close_scene(&of);
    run_scene(&of, RANK_SETUP_FAILS, 0);
    assert_non_null(strstr(troupe_result_error(of.result), "rank 1 is not made"));
    assert_null(strstr(of.text, "rank 1 ends"));
    close_scene(&of);
    run_scene(&of, TEARDOWN_FAILS, 0);
    assert_int_equal(troupe_result_status(of.result), TROUPE_IO);
    assert_non_null(strstr(troupe_result_error(of.result), "does not close"));
    close_scene(&of);
}

// ---- capabilities

// A14.
static void test_options_that_a_trainer_does_not_allow_are_named(void **state)
{
    (void)state;
    saver_settings config = {ALIKE};
    troupe_result *result = NULL;
    troupe_must(troupe_train(saver, &config, &result, .storage = storage, .name = "allowed",
                             .ranks = 2, .restarts = 1, .console = TROUPE_CONSOLE_OFF));
    troupe_result_free(&result);
    assert_int_equal(troupe_train(saver, &config, &result, .storage = storage, .cpus_per_rank = 2),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "option .cpus_per_rank is given, and trainer "
                                                      "'saver' does not allow it: it allows "
                                                      "ranks, restarts"));
    assert_int_equal(troupe_train(resharder, &config, &result, .storage = storage, .ranks = 2),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "it allows none"));
    assert_null(result);
    // A default that is written out asks for nothing.
    troupe_must(troupe_train(resharder, &config, &result, .storage = storage, .ranks = 1));
    troupe_result_free(&result);
    troupe_stages stages = {.allowed_options = "ranks rank"};
    troupe_trainer wrong = troupe_trainer_saver;
    wrong.stages = &stages;
    assert_int_equal(troupe_trainer_register(&wrong), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "'rank' in .allowed_options"));
}

static troupe_status go_on(const char *from, int ranks)
{
    saver_settings config = {ALIKE};
    troupe_result *result = NULL;
    troupe_status status =
        troupe_train(saver, &config, &result, .storage = storage, .ranks = ranks, .from = from);
    troupe_result_free(&result);
    return status;
}

// B09: what all ranks have alike goes on with any number of them; parts of their own need a trainer
// that says that it can put them together.
static void test_parts_of_ranks_need_a_trainer_that_reshards(void **state)
{
    (void)state;
    for (int saves = ALIKE; saves <= OF_RANK_0; saves++) {
        saver_settings config = {saves};
        troupe_result *result, *other;
        bool own = saves == OWN_STATES || saves == OWN_FILES;
        troupe_must(troupe_train(saver, &config, &result, .storage = storage, .ranks = 3));
        const char *from = troupe_result_checkpoint(result);
        assert_int_equal(go_on(from, 3), TROUPE_OK);
        assert_int_equal(go_on(from, 2), own ? TROUPE_INVALID : TROUPE_OK);
        assert_int_equal(go_on(from, 4), own ? TROUPE_INVALID : TROUPE_OK);
        if (own)
            assert_non_null(strstr(troupe_last_error()->text, "each of the 3 ranks of"));
        troupe_must(troupe_train(resharder, &config, &other, .storage = storage, .from = from));
        troupe_result_free(&other);
        troupe_result_free(&result);
    }
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4, .threads = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_setup_delays_nothing_but_its_own_run),
        cmocka_unit_test(test_a_setup_that_fails_ends_the_run),
        cmocka_unit_test(test_a_run_is_ended_during_its_setup),
        cmocka_unit_test(test_stages_read_the_objects_of_the_config),
        cmocka_unit_test(test_a_backend_starts_and_shuts_down),
        cmocka_unit_test(test_a_backend_shuts_down_after_a_failure),
        cmocka_unit_test(test_a_backend_shuts_down_after_a_lost_rank),
        cmocka_unit_test(test_a_backend_shuts_down_after_a_kill),
        cmocka_unit_test(test_a_loop_that_hangs_after_a_failure_is_ended),
        cmocka_unit_test(test_a_start_that_fails_is_a_failure_of_the_group),
        cmocka_unit_test(test_a_shutdown_changes_no_result_and_has_a_deadline),
        cmocka_unit_test(test_functions_of_ranks_need_their_group),
        cmocka_unit_test(test_a_rank_is_set_up_and_torn_down),
        cmocka_unit_test(test_options_that_a_trainer_does_not_allow_are_named),
        cmocka_unit_test(test_parts_of_ranks_need_a_trainer_that_reshards),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
