// test_step_later.c: steps that answer later, and ranks that share a process.
#include "await.h"

#include <support.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 4, EPOCHS = 3, BATCHES = 4 };

// How a step answers.
enum {
    AT_ONCE,
    BY_A_THREAD,
    BY_A_REFERENCE,
    BY_TWO_REFERENCES,
    BY_A_WAIT, // Of its own, which gives up its thread.
    NEVER,     // In rank 0's first step; `folder`/pending is there then.
};

// What goes wrong in rank 1, in batch 2.
enum { NOTHING, FAILS_LATER, REFERENCE_FAILS, RETURNS_A_FAILURE, ENDS_ITS_PROCESS, FAILS_AT_ONCE };

TROUPE_STRUCT(late_settings, (int, answers), (int, trouble), (troupe_text, folder));
TROUPE_STRUCT(late_state, (int64_t, epoch), (double, value), (int, rank), (int, pid));

static char *storage;

// ---- an actor that answers

typedef struct echo {
    int64_t calls;
} echo;

static troupe_status echo_say(echo *self, const double *value, double *back)
{
    self->calls++;
    if (*value < 0)
        return troupe_fail(TROUPE_IO, "there is no echo of %g", *value);
    *back = *value;
    return TROUPE_OK;
}
TROUPE_ACTOR(echo, (echo_say, double, double));

// ---- the trainer

typedef struct rank_state {
    late_state now;
    troupe_step step;
    double part;
    echo_actor echo;
    int taken; // Of a step that waits for two.
} rank_state;

static double part_of(const troupe_rank *me)
{
    return (double)(me->rank + 1) / (double)(1 + me->epoch * BATCHES + me->batch);
}

// One that is to be kept fails an epoch later: then all have had the answer to their first report.
static bool is_trouble(const troupe_rank *me, const late_settings *config, int trouble)
{
    int epoch = trouble == FAILS_AT_ONCE ? 2 : 1;
    return config->trouble == trouble && me->rank == 1 && me->epoch == epoch && me->batch == 2 &&
           me->attempt == 0;
}

static troupe_status late_setup(troupe_rank *me, const late_settings *config)
{
    rank_state *state = calloc(1, sizeof *state);
    if (!state)
        return TROUPE_NO_MEMORY;
    me->user = state;
    if (config->answers >= BY_A_REFERENCE && config->answers <= BY_A_WAIT) {
        state->echo = troupe_spawn(echo, .place = TROUPE_PLACE_HERE);
        TROUPE_TRY(troupe_actor_status(state->echo.address));
    }
    return TROUPE_OK;
}

static troupe_status late_teardown(troupe_rank *me, const late_settings *config)
{
    rank_state *state = me->user;
    if (state->echo.address.id)
        (void)troupe_actor_kill(state->echo.address);
    if (config->answers == NEVER && me->rank == 0) {
        char *path = support_path(config->folder, "torn_down");
        support_write_file(path, "", 0);
        free(path);
    }
    free(state);
    return TROUPE_OK;
}

static troupe_status late_plan(troupe_rank *me, const late_settings *config, troupe_plan *plan)
{
    rank_state *state = me->user;
    (void)config;
    TROUPE_TRY(troupe_restore(late_state, me, &state->now));
    *plan = (troupe_plan){.epochs = EPOCHS, .batches = BATCHES, .epoch = state->now.epoch};
    return TROUPE_OK;
}

typedef struct answer {
    troupe_step step;
    troupe_status status;
} answer;

static void *answer_soon(void *user)
{
    answer *with = user;
    usleep(200);
    troupe_status status = with->status == TROUPE_OK
                               ? TROUPE_OK
                               : troupe_fail(with->status, "the thread has found nothing");
    (void)troupe_step_done(with->step, status);
    (void)troupe_step_done(with->step, TROUPE_IO); // The first word counts.
    free(with);
    return NULL;
}

static troupe_status answer_by_thread(troupe_rank *me, troupe_status status)
{
    pthread_t thread;
    answer *with = malloc(sizeof *with);
    if (!with)
        return TROUPE_NO_MEMORY;
    *with = (answer){troupe_step_later(me), status};
    if (with->step.number_ == 0 || pthread_create(&thread, NULL, answer_soon, with) != 0) {
        free(with);
        return troupe_fail(TROUPE_FAILED, "nobody will answer");
    }
    pthread_detach(thread);
    // Once a step.
    if (troupe_step_later(me).number_ != 0 || troupe_last_error()->status != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "it answers twice");
    return TROUPE_OK;
}

static troupe_status take_echo(troupe_rank *me, troupe_ref ref)
{
    rank_state *state = me->user;
    double back;
    TROUPE_TRY(troupe_get(double, ref, &back, TROUPE_POLL));
    if (back != part_of(me))
        return troupe_fail(TROUPE_FAILED, "it was %g", back);
    state->part = back;
    if (++state->taken < 2)
        return TROUPE_OK;
    state->taken = 0;
    return troupe_step_then(me, troupe_call(state->echo, echo_say, back), take_echo);
}

// The other rank goes on, to where it waits for rank 0 for a time, once that has come so far.
static troupe_status answer_never(troupe_rank *me, const late_settings *config)
{
    char *path = support_path(config->folder, "pending");
    troupe_status status = TROUPE_OK;
    if (me->rank == 0) {
        support_write_file(path, "", 0);
        status = troupe_step_later(me).number_ ? TROUPE_OK : TROUPE_FAILED;
    } else if (!support_wait_until(await_is_there, path, SUPPORT_SOON_MS)) {
        status = troupe_fail(TROUPE_FAILED, "%s does not come", path);
    }
    free(path);
    return status;
}

static troupe_status late_step(troupe_rank *me, const late_settings *config)
{
    rank_state *state = me->user;
    state->part = part_of(me);
    if (is_trouble(me, config, ENDS_ITS_PROCESS)) {
        TROUPE_TRY(await_checkpoint(me, 0));
        kill(getpid(), SIGKILL);
    }
    if (is_trouble(me, config, FAILS_AT_ONCE))
        return troupe_fail(TROUPE_FAILED, "it does not go on");
    if (is_trouble(me, config, RETURNS_A_FAILURE)) {
        (void)!answer_by_thread(me, TROUPE_OK);
        return troupe_fail(TROUPE_FAILED, "it has changed its mind");
    }
    if (config->answers == BY_A_THREAD)
        return answer_by_thread(me,
                                is_trouble(me, config, FAILS_LATER) ? TROUPE_NOT_FOUND : TROUPE_OK);
    if (config->answers == BY_A_REFERENCE || config->answers == BY_TWO_REFERENCES) {
        state->taken = config->answers == BY_A_REFERENCE ? -1000000 : 0;
        double asked = is_trouble(me, config, REFERENCE_FAILS) ? -1 : state->part;
        return troupe_step_then(me, troupe_call(state->echo, echo_say, asked), take_echo);
    }
    if (config->answers == BY_A_WAIT) {
        double back;
        TROUPE_TRY(troupe_get(double, troupe_call(state->echo, echo_say, state->part), &back));
        return back == state->part ? TROUPE_OK : TROUPE_FAILED;
    }
    return config->answers == NEVER ? answer_never(me, config) : TROUPE_OK;
}

static troupe_status late_after_batch(troupe_rank *me, const late_settings *config)
{
    rank_state *state = me->user;
    double sum = state->part;
    (void)config;
    if (troupe_step_later(me).number_ != 0 || troupe_last_error()->status != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "after_batch answers later");
    TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
    state->now.value += sum;
    return TROUPE_OK;
}

static troupe_status late_after_epoch(troupe_rank *me, const late_settings *config)
{
    rank_state *state = me->user;
    (void)config;
    state->now.epoch = me->epoch + 1;
    state->now.rank = me->rank;
    state->now.pid = (int)getpid();
    TROUPE_TRY(troupe_save(late_state, me, &state->now));
    return troupe_report(me, {"value", state->now.value});
}

TROUPE_STEPS(late, late_settings, .plan = late_plan, .step = late_step, .rank_setup = late_setup,
             .rank_teardown = late_teardown, .after_batch = late_after_batch,
             .after_epoch = late_after_epoch, .reshards = true);

static troupe_status hello(troupe_rank *me, const late_settings *config)
{
    char name[32];
    snprintf(name, sizeof name, "hello_%d", me->rank);
    char *path = support_path(config->folder, name);
    support_write_file(path, "", 0);
    free(path);
    return me->user ? TROUPE_FAILED : TROUPE_OK;
}
TROUPE_RANK_FUNCTION(hello, late_settings);

static troupe_status late_start(troupe_group *group, const late_settings *config)
{
    return troupe_execute(group, hello, config);
}

// One whose ranks have some time to leave their loops.
static troupe_status late_shutdown(troupe_group *group, const late_settings *config)
{
    (void)group, (void)config;
    return TROUPE_OK;
}
TROUPE_STEPS(closing, late_settings, .plan = late_plan, .step = late_step, .rank_setup = late_setup,
             .rank_teardown = late_teardown, .after_batch = late_after_batch,
             .after_epoch = late_after_epoch, .on_start = late_start, .on_shutdown = late_shutdown);

static troupe_status function(troupe_rank *me, const late_settings *config)
{
    (void)config;
    if (troupe_step_later(me).number_ != 0 || troupe_last_error()->status != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "a loop function answers later");
    return TROUPE_OK;
}
TROUPE_TRAINER(function, late_settings);

static late_state state_of(const troupe_result *result, int rank)
{
    late_state state = {0};
    troupe_must(troupe_checkpoint_load(late_state, troupe_result_checkpoint(result), rank, &state));
    return state;
}

static double expected_value(void)
{
    double value = 0;
    for (int batch = 0; batch < EPOCHS * BATCHES; batch++) {
        double sum = 0;
        for (int rank = 0; rank < RANKS; rank++)
            sum += (double)(rank + 1) / (double)(1 + batch);
        value += sum;
    }
    return value;
}

static troupe_status run(int answers, int trouble, int together, int restarts,
                         troupe_result **result)
{
    late_settings config = {.answers = answers, .trouble = trouble};
    return troupe_train(late, &config, result, .ranks = RANKS, .storage = storage,
                        .restarts = restarts, .ranks_per_process = together, .cpus_per_rank = 0.5);
}

// Reports, checkpoints and the processes of a run that has ended well.
static void assert_whole(const troupe_result *result, int together)
{
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    double expected = expected_value();
    for (int rank = 0; rank < RANKS; rank++) {
        late_state state = state_of(result, rank);
        assert_memory_equal(&state.value, &expected, sizeof expected);
        assert_int_equal(state.rank, rank);
        assert_int_equal(state.epoch, EPOCHS);
        int first = rank / together * together;
        assert_int_equal(state.pid, state_of(result, first).pid);
        if (first > 0)
            assert_int_not_equal(state.pid, state_of(result, 0).pid);
    }
    troupe_arena_reset();
}

// D22: however a step answers, by a reference too, and however many ranks share a process, the
// numbers are the same, and so are reports and checkpoints.
static void test_however_steps_answer_the_numbers_are_the_same(void **state)
{
    (void)state;
    static const int shares[] = {1, 2, 3, 4, 128};
    for (int answers = AT_ONCE; answers <= BY_A_WAIT; answers++)
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            troupe_result *result;
            troupe_status status = run(answers, NOTHING, shares[i], 0, &result);
            assert_whole(result, shares[i]);
            assert_int_equal(status, TROUPE_OK);
            troupe_result_free(&result);
        }
}

static void assert_failure(int answers, int trouble, int together, const char *words)
{
    troupe_result *result;
    assert_int_not_equal(run(answers, trouble, together, 0, &result), TROUPE_OK);
    if (!strstr(troupe_result_error(result), words))
        fail_msg("expected '%s' in: %s", words, troupe_result_error(result));
    troupe_result_free(&result);
}

static void test_a_step_that_fails_later_names_itself(void **state)
{
    (void)state;
    for (int together = 1; together <= 4; together += 3) {
        assert_failure(BY_A_THREAD, FAILS_LATER, together,
                       "failed: step of epoch 1, batch 2: the thread has found nothing");
        assert_failure(BY_A_REFERENCE, REFERENCE_FAILS, together,
                       "failed: step of epoch 1, batch 2: there is no echo of -1");
        assert_failure(BY_A_THREAD, RETURNS_A_FAILURE, together,
                       "failed: step of epoch 1, batch 2: it has changed its mind");
    }
    troupe_step empty = {0};
    assert_int_equal(troupe_step_done(empty, TROUPE_OK), TROUPE_INVALID);
}

// All ranks of a process are lost with it, which is said, and the group goes on.
static void test_a_lost_process_is_all_of_its_ranks(void **state)
{
    (void)state;
    troupe_result *result;
    assert_failure(AT_ONCE, ENDS_ITS_PROCESS, 2, ", that of ranks 0 to 1) was killed by signal 9");
    assert_int_equal(run(BY_A_THREAD, ENDS_ITS_PROCESS, 2, 1, &result), TROUPE_OK);
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_whole(result, 2);
    troupe_result_free(&result);
}

// A process stays, with all its ranks, where they have left their loops and the states are in
// memory.
static void test_a_process_of_several_ranks_is_kept(void **state)
{
    (void)state;
    for (int answers = AT_ONCE; answers <= BY_A_REFERENCE; answers++) {
        late_settings config = {.answers = answers, .trouble = FAILS_AT_ONCE};
        troupe_result *result;
        troupe_status status =
            troupe_train(late, &config, &result, .ranks = RANKS, .restarts = 1, .storage = storage,
                         .ranks_per_process = 2, .cpus_per_rank = 0.5, .keep = TROUPE_NONE);
        assert_string_equal(troupe_result_error(result), "");
        assert_int_equal(status, TROUPE_OK);
        assert_int_equal(troupe_result_restarts(result), 1);
        assert_true(troupe_result_metric(result, "value") == expected_value());
        char *path = support_path(troupe_result_path(result), "journal.jsonl");
        char *journal = support_read_file(path);
        assert_non_null(strstr(journal, "\"memory\": true, "));
        assert_non_null(strstr(journal, "\"replaced\": []"));
        free(journal);
        free(path);
        troupe_result_free(&result);
    }
}

// ---- while a step is pending

static bool exists(void *path)
{
    return support_exists((const char *)path);
}

typedef struct waiting {
    late_settings config;
    char *folder, *pending, *torn_down;
    troupe_job *job;
    troupe_result *result;
} waiting;

static waiting wait_for_pending(const troupe_trainer *trainer, int together, int timeout_ms)
{
    waiting of = {.folder = support_directory_make()};
    of.config = (late_settings){.answers = NEVER, .folder = of.folder};
    of.pending = support_path(of.folder, "pending");
    of.torn_down = support_path(of.folder, "torn_down");
    troupe_must(
        troupe_submit_as(trainer, &of.config, NULL, &of.job,
                         TROUPE_OPTIONS(troupe_train_options, .ranks = 2, .storage = storage,
                                        .ranks_per_process = together, .cpus_per_rank = 0.5,
                                        .collective_timeout_ms = timeout_ms)));
    assert_true(support_wait_until(exists, of.pending, SUPPORT_SOON_MS));
    return of;
}

static void end_waiting(waiting *of, troupe_status expected)
{
    troupe_must(troupe_job_wait(of->job, SUPPORT_SOON_MS, &of->result));
    assert_int_equal(troupe_result_status(of->result), expected);
    troupe_job_close(&of->job);
    troupe_result_free(&of->result);
    support_directory_remove(of->folder);
    free(of->pending);
    free(of->torn_down);
}

// D22: a run is ended while a step is pending.
static void test_a_run_is_ended_while_a_step_is_pending(void **state)
{
    (void)state;
    for (int together = 1; together <= 2; together++) {
        waiting of = wait_for_pending(&troupe_trainer_late, together, 60000);
        troupe_job_kill(of.job, TROUPE_CANCELLED, "nobody wants it");
        end_waiting(&of, TROUPE_CANCELLED);
    }
}

// Where the group ends, nobody waits for such a step: a collective has its deadline, and the loop
// whose step it is ends, too.
static void test_a_group_ends_while_a_step_is_pending(void **state)
{
    (void)state;
    for (int together = 1; together <= 2; together++) {
        waiting of = wait_for_pending(&troupe_trainer_closing, together, 300);
        assert_true(support_wait_until(exists, of.torn_down, SUPPORT_SOON_MS));
        end_waiting(&of, TROUPE_PEER_LOST);
    }
}

// ---- ranks of one process

TROUPE_STRUCT(pipe_settings, (troupe_text, folder), (bool, blocks));

typedef struct pipe_path {
    char text[4096];
} pipe_path;

static pipe_path path_of(const pipe_settings *config)
{
    pipe_path path;
    snprintf(path.text, sizeof path.text, "%s/pipe", config->folder);
    return path;
}

static troupe_status pipe_plan(troupe_rank *me, const pipe_settings *config, troupe_plan *plan)
{
    (void)config;
    *plan = (troupe_plan){.epochs = 1, .batches = me->rank == 0 ? 1 : 120};
    return TROUPE_OK;
}

typedef struct reading {
    troupe_step step;
    pipe_path path;
} reading;

static troupe_status read_pipe(const char *path)
{
    char byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC); // So that it does not wait to be opened.
    ssize_t size = fd < 0 ? -1 : read(fd, &byte, 1);
    if (fd >= 0)
        close(fd);
    return size == 1 && byte == 'x' ? TROUPE_OK : troupe_fail(TROUPE_IO, "no byte in the pipe");
}

static void *read_for(void *user)
{
    reading *it = user;
    (void)troupe_step_done(it->step, read_pipe(it->path.text));
    free(it);
    return NULL;
}

static troupe_status wait_for_pipe(troupe_rank *me, const pipe_settings *config)
{
    pthread_t thread;
    pipe_path path = path_of(config);
    if (config->blocks)
        return read_pipe(path.text);
    reading *it = calloc(1, sizeof *it);
    if (!it)
        return TROUPE_NO_MEMORY;
    it->step = troupe_step_later(me);
    it->path = path;
    if (it->step.number_ == 0 || pthread_create(&thread, NULL, read_for, it) != 0)
        return TROUPE_FAILED;
    pthread_detach(thread);
    return TROUPE_OK;
}

static bool is_empty(void *pipe)
{
    int size = 0;
    return ioctl(*(int *)pipe, FIONREAD, &size) == 0 && size == 0;
}

static troupe_status pipe_step(troupe_rank *me, const pipe_settings *config)
{
    if (me->rank == 0)
        return wait_for_pipe(me, config);
    if (me->batch != 99)
        return TROUPE_OK;
    pipe_path path = path_of(config);
    int fd = open(path.text, O_RDWR | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, "x", 1) == 1;
    // What is in a pipe goes with its last descriptor, and rank 0 may have none yet.
    bool read = written && support_wait_until(is_empty, &fd, SUPPORT_SOON_MS);
    if (fd >= 0)
        close(fd);
    return read ? TROUPE_OK : troupe_fail(TROUPE_IO, "nobody takes what is in the pipe");
}

static troupe_status pipe_end(troupe_rank *me, const pipe_settings *config)
{
    (void)config;
    TROUPE_TRY(troupe_barrier(me));
    return troupe_report(me, {"pid", (double)getpid()});
}
TROUPE_STEPS(piped, pipe_settings, .plan = pipe_plan, .step = pipe_step, .after_epoch = pipe_end);

// D22: one rank waits for what the 100th step of another one writes to a pipe.
static void test_a_rank_that_waits_lets_others_of_its_process_go_on(void **state)
{
    (void)state;
    for (int blocks = 0; blocks < 2; blocks++) {
        char *folder = support_directory_make();
        pipe_settings config = {folder, blocks};
        troupe_result *result;
        pipe_path path = path_of(&config);
        assert_int_equal(mkfifo(path.text, 0600), 0);
        troupe_status status = troupe_train(piped, &config, &result, .ranks = 2, .storage = storage,
                                            .ranks_per_process = 2);
        assert_string_equal(troupe_result_error(result), "");
        assert_int_equal(status, TROUPE_OK);
        assert_int_equal(troupe_result_reports(result), 1);
        troupe_result_free(&result);
        support_directory_remove(folder);
    }
}

// Many more than there are threads; functions of ranks run in each, too.
static void test_many_ranks_share_a_process(void **state)
{
    (void)state;
    enum { MANY = 64 };
    for (int answers = AT_ONCE; answers <= BY_A_WAIT; answers++) {
        char *folder = support_directory_make();
        late_settings config = {.answers = answers, .folder = folder};
        troupe_result *result;
        troupe_status status =
            troupe_train(closing, &config, &result, .ranks = MANY, .storage = storage,
                         .ranks_per_process = MANY, .cpus_per_rank = 0.05);
        assert_string_equal(troupe_result_error(result), "");
        assert_int_equal(status, TROUPE_OK);
        assert_int_equal(troupe_result_reports(result), EPOCHS);
        assert_int_equal(state_of(result, MANY - 1).pid, state_of(result, 0).pid);
        char *path = support_path(folder, "hello_63");
        assert_true(support_exists(path));
        free(path);
        troupe_result_free(&result);
        support_directory_remove(folder);
        troupe_arena_reset();
    }
}

static void test_only_steps_can_share_a_process(void **state)
{
    (void)state;
    late_settings config = {0};
    troupe_result *result = NULL;
    assert_int_equal(troupe_train(function, &config, &result, .storage = storage, .ranks = 2,
                                  .ranks_per_process = 2),
                     TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "option .ranks_per_process is 2, and trainer "
                                                      "'function' has a loop function"));
    troupe_must(troupe_train(function, &config, &result, .storage = storage));
    troupe_result_free(&result);
    // What each rank holds is not less for it: there are 4 CPUs.
    assert_int_equal(troupe_train(late, &config, &result, .storage = storage, .ranks = 5,
                                  .ranks_per_process = 5),
                     TROUPE_TOO_LARGE);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 4, .threads = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_however_steps_answer_the_numbers_are_the_same),
        cmocka_unit_test(test_a_step_that_fails_later_names_itself),
        cmocka_unit_test(test_a_lost_process_is_all_of_its_ranks),
        cmocka_unit_test(test_a_process_of_several_ranks_is_kept),
        cmocka_unit_test(test_a_run_is_ended_while_a_step_is_pending),
        cmocka_unit_test(test_a_group_ends_while_a_step_is_pending),
        cmocka_unit_test(test_a_rank_that_waits_lets_others_of_its_process_go_on),
        cmocka_unit_test(test_many_ranks_share_a_process),
        cmocka_unit_test(test_only_steps_can_share_a_process),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
