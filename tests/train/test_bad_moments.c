// test_bad_moments.c: wishes, ends and refusals that come to a job at the worst moment, which its
// port says: a user of the test's own, that acts from within what it is told.
#include "line.h"

#include <pthread.h>
#include <runtime/base/memory.h>
#include <stdatomic.h>
#include <train/job.h>

enum { CPUS = 4, HELD_UP_MS = 300, REMIND_MS = 20 };

static char *storage;

// ---- a trainer each of whose ranks saves a part of its own, and which does not reshard

// It goes on at least until that file is there.
TROUPE_STRUCT(parts, (int, reports), (int, pause_ms), (troupe_text, until));
TROUPE_STRUCT(part, (int, report), (int, rank));

static troupe_status save_parts(troupe_rank *me, const parts *config)
{
    part state = {0};
    TROUPE_TRY(troupe_restore(part, me, &state));
    for (;;) {
        int64_t more = state.report < config->reports ||
                       (config->until != NULL && !support_exists(config->until));
        TROUPE_TRY(troupe_allreduce(me, &more, 1, TROUPE_MAX));
        if (!more)
            return TROUPE_OK;
        usleep((useconds_t)config->pause_ms * 1000);
        state.report++;
        state.rank = me->rank;
        TROUPE_TRY(troupe_save(part, me, &state));
        TROUPE_TRY(troupe_report(me, {"world", me->world}));
    }
}
TROUPE_TRAINER(save_parts, parts);

// One that saves nothing.
static troupe_status say_world(troupe_rank *me, const parts *config)
{
    for (int i = 0; i < config->reports; i++) {
        usleep((useconds_t)config->pause_ms * 1000);
        TROUPE_TRY(troupe_report(me, {"world", me->world}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(say_world, parts);

// One whose setup waits for a file, as if it would not return.
TROUPE_STRUCT(waits_settings, (troupe_text, go));

static troupe_status wait_for_it(troupe_setup *at, const waits_settings *config)
{
    (void)at;
    for (int i = 0; i < 1000 && !support_exists(config->go); i++)
        usleep(10000);
    return TROUPE_OK;
}

static troupe_status report_once(troupe_rank *me, const waits_settings *config)
{
    (void)config;
    return troupe_report(me, {"value", 1});
}
TROUPE_TRAINER(report_once, waits_settings, .setup = wait_for_it);

// ---- a user that knows the moment

typedef struct user user;
typedef void act(user *it);

struct user {
    trp_job *job;
    pthread_mutex_t lock;
    trp_wishes wishes;
    _Atomic int state, status;
    _Atomic bool done, gone;
    // What it does, once and on a thread of its own, while it is told of such a thing.
    act *at_logs, *at_checkpoints, *at_wishes;
    pthread_t actor;
    bool acts;                            // The thread is to be joined.
    _Atomic bool submitted, acted, looks; // `looks`: from then on wishes are held up.
};

static void *run_act(void *pair)
{
    void **both = (void **)pair;
    act *what;
    user *it = (user *)both[1];
    memcpy(&what, &both[0], sizeof what);
    while (!atomic_load(&it->submitted))
        usleep(1000);
    what(it);
    return NULL;
}

// Acts, and waits until that is done, or for that time: the act may itself wait for this thread.
static void act_once(user *it, act *what, long most_ms)
{
    static void *pair[2];
    if (!what || atomic_exchange(&it->acted, true))
        return;
    memcpy(&pair[0], &what, sizeof what);
    pair[1] = it;
    assert_int_equal(pthread_create(&it->actor, NULL, run_act, pair), 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += most_ms % 1000 * 1000000L;
    until.tv_sec += most_ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    it->acts = pthread_timedjoin_np(it->actor, NULL, &until) != 0;
}

static void see_accepted(void *of, const trp_accepted *what)
{
    (void)of, (void)what;
}
static void see_progress(void *of, const trp_state_change *what, trp_lines lines)
{
    (void)lines;
    atomic_store(&((user *)of)->state, what->state);
}
static void see_group(void *of, const trp_console_rank *ranks, int count)
{
    (void)of, (void)ranks, (void)count;
}
static void see_report(void *of, int number, double elapsed_s, const troupe_report_event *event,
                       trp_lines lines)
{
    (void)of, (void)number, (void)elapsed_s, (void)event, (void)lines;
}
static void see_checkpoint(void *of, const troupe_checkpoint_event *event, trp_lines lines)
{
    (void)of, (void)event, (void)lines;
}
static void see_live(void *of, const troupe_live_event *event, trp_lines lines)
{
    (void)of, (void)event, (void)lines;
}
// Also told while the checkpoint is looked for that a group goes on from: the job waits no more.
static void see_checkpoints(void *of, int64_t newest, int64_t best)
{
    (void)newest, (void)best;
    user *it = of;
    if (atomic_load(&it->state) == TROUPE_JOB_QUEUED && newest >= 0)
        act_once(it, it->at_checkpoints, SUPPORT_SOON_MS);
}
static void see_commit(void *of, trp_memory_commit *commit)
{
    (void)of, (void)commit;
}
static trp_log_sink see_logs(void *of)
{
    act_once(of, ((user *)of)->at_logs, SUPPORT_SOON_MS);
    return (trp_log_sink){0};
}
static void see_sentence(void *of, trp_level level, const char *text)
{
    (void)of, (void)level, (void)text;
}
static void see_question(void *of, const troupe_report_event *event, int timeout_ms)
{
    (void)of, (void)event, (void)timeout_ms;
}
static void tell_wishes(void *of, trp_wishes *wishes)
{
    user *it = of;
    pthread_mutex_lock(&it->lock);
    *wishes = it->wishes;
    pthread_mutex_unlock(&it->lock);
    if (atomic_load(&it->looks)) // They are known, and have not come true yet.
        act_once(it, it->at_wishes, HELD_UP_MS);
}
static void see_end(void *of, const trp_outcome *outcome)
{
    user *it = of;
    trp_memory_fail_after(-1);
    atomic_store(&it->status, outcome ? outcome->status : TROUPE_NO_MEMORY);
    atomic_store(&it->done, true);
}
static void be_let_go(void *of)
{
    atomic_store(&((user *)of)->gone, true);
}
static const trp_port_class port = {see_accepted,   see_progress, see_group,       see_report,
                                    see_checkpoint, see_live,     see_checkpoints, see_commit,
                                    see_logs,       see_sentence, see_question,    tell_wishes,
                                    see_end,        be_let_go};

static void submit(user *it, const troupe_trainer *trainer, const void *config,
                   const troupe_train_options *options)
{
    trp_arena arena = {0};
    trp_buffer packed = {0};
    trp_job_spec spec;
    trp_packed value;
    pthread_mutex_init(&it->lock, NULL);
    troupe_must(troupe_trainer_register(trainer));
    troupe_must(trp_packed_take(&value, trainer->config, "the config", config));
    troupe_must(trp_spec_make(trainer, &value, options, &arena, &spec));
    troupe_must(trp_spec_pack(&spec, &packed));
    troupe_must(trp_job_accept((troupe_bytes){packed.data, packed.size}, NULL,
                               &(trp_port){&port, it}, &it->job));
    atomic_store(&it->submitted, true);
    trp_packed_free(&value);
    trp_buffer_free(&packed);
    trp_arena_clear(&arena);
}

static void wish(user *it, trp_wishes wishes)
{
    pthread_mutex_lock(&it->lock);
    it->wishes = wishes;
    pthread_mutex_unlock(&it->lock);
    trp_job_look(it->job);
}

// As who waits for a job does: what was lost is made good.
static bool is_done(void *of)
{
    trp_job_make_good(((user *)of)->job);
    return atomic_load(&((user *)of)->done);
}

static bool is_paused(void *of)
{
    trp_job_make_good(((user *)of)->job);
    return atomic_load(&((user *)of)->state) == TROUPE_JOB_PAUSED;
}

static bool is_running(void *of)
{
    return atomic_load(&((user *)of)->state) == TROUPE_JOB_RUNNING;
}

static bool is_gone(void *of)
{
    return atomic_load(&((user *)of)->gone);
}

static void expect_end(user *it, troupe_status status)
{
    if (!support_wait_until(is_done, it, SUPPORT_SOON_MS)) {
        wish(it, (trp_wishes){.stop = true, .kill = TROUPE_CANCELLED, .why = "it hangs"});
        (void)support_wait_until(is_done, it, SUPPORT_SOON_MS);
        fail_msg("the job does not end");
    }
    assert_int_equal(atomic_load(&it->status), status);
    if (it->acts) // It has the job, too, which may end before it is through.
        assert_int_equal(pthread_join(it->actor, NULL), 0);
    trp_job_release(it->job);
    assert_true(support_wait_until(is_gone, it, SUPPORT_SOON_MS));
    pthread_mutex_destroy(&it->lock);
}

// ---- the moments

// The job may end now.
static void let_end(const parts *config)
{
    support_write_file(config->until, "", 0);
}

static void go_on(user *it)
{
    wish(it, (trp_wishes){0});
}

// Another thread looks at what is wished, and is held up before it acts on it. Meanwhile a newer
// wish comes, which is the one that counts.
static void test_a_newer_wish_is_not_overtaken_by_an_older_one(void **state)
{
    (void)state;
    char *until = support_path(storage, "overtaken-until");
    parts config = {.reports = 20, .pause_ms = 10, .until = until};
    user it = {.at_wishes = go_on};
    submit(&it, &troupe_trainer_save_parts, &config,
           &(troupe_train_options){.size = sizeof(troupe_train_options),
                                   .ranks = 2,
                                   .storage = storage,
                                   .name = "overtaken"});
    assert_true(support_wait_until(is_running, &it, SUPPORT_SOON_MS));
    atomic_store(&it.looks, true);
    wish(&it, (trp_wishes){.pause = true});
    let_end(&config);
    expect_end(&it, TROUPE_OK);
    free(until);
}

static void kill_it(user *it)
{
    wish(it, (trp_wishes){.stop = true, .kill = TROUPE_FAILED, .why = "enough"});
}

// The coordinator is being made: there is nobody to be told yet.
static void test_a_kill_before_the_coordinator_begins_is_not_lost(void **state)
{
    (void)state;
    char *go = support_path(storage, "go");
    waits_settings config = {go};
    user it = {.at_logs = kill_it};
    submit(&it, &troupe_trainer_report_once, &config,
           &(troupe_train_options){
               .size = sizeof(troupe_train_options), .storage = storage, .name = "killed-early"});
    expect_end(&it, TROUPE_FAILED);
    fclose(fopen(go, "w"));
    free(go);
}

static void lose_memory(user *it)
{
    (void)it;
    trp_memory_fail_after(0); // Until the end is told.
}

// There is no memory to tell the coordinator that it begins: the run's folder is free, though a
// handle is open, and a second run can go on there.
static void test_a_coordinator_that_cannot_begin_lets_go_of_the_folder(void **state)
{
    (void)state;
    char *go = support_path(storage, "go");
    waits_settings config = {go};
    user it = {.at_logs = lose_memory}, second = {0};
    troupe_train_options options = {
        .size = sizeof options, .storage = storage, .name = "not-begun"};
    fclose(fopen(go, "w"));
    submit(&it, &troupe_trainer_report_once, &config, &options);
    assert_true(support_wait_until(is_done, &it, SUPPORT_SOON_MS));
    assert_int_equal(atomic_load(&it.status), TROUPE_NO_MEMORY);
    options.open = TROUPE_OPEN_RESUME;
    submit(&second, &troupe_trainer_report_once, &config, &options);
    expect_end(&second, TROUPE_OK);
    expect_end(&it, TROUPE_NO_MEMORY);
    assert_int_equal(unlink(go), 0);
    free(go);
}

static bool has_acted(void *of)
{
    return atomic_load(&((user *)of)->acted);
}

static void wish_for_two(user *it)
{
    wish(it, (trp_wishes){.ranks = 2, .resizes = 2});
}

// 4 ranks prove impossible, while 2 are wished for already.
static void test_a_size_that_is_impossible_gives_way_to_a_newer_wish(void **state)
{
    (void)state;
    char *until = support_path(storage, "newer-until");
    parts config = {.reports = 10, .pause_ms = 20, .until = until};
    user it = {.at_checkpoints = wish_for_two};
    submit(&it, &troupe_trainer_save_parts, &config,
           &(troupe_train_options){.size = sizeof(troupe_train_options),
                                   .ranks = 2,
                                   .storage = storage,
                                   .name = "newer-size"});
    assert_true(support_wait_until(is_running, &it, SUPPORT_SOON_MS));
    wish(&it, (trp_wishes){.ranks = 4, .resizes = 1});
    assert_true(support_wait_until(has_acted, &it, SUPPORT_SOON_MS));
    let_end(&config);
    expect_end(&it, TROUPE_OK);
    free(until);
}

// Something else is wrong than the size: going back to the one before does not help for ever.
TROUPE_STRUCT(fickle_source, (int, number));

static troupe_status setup_fickle(troupe_data *data, const fickle_source *source)
{
    (void)source;
    troupe_ref ref = troupe_put(int64_t, &(int64_t){1});
    return troupe_data_set(data, data->attempt > 0 ? "later" : "first", ref, 1,
                           TROUPE_SHARE_BY_NAME);
}
TROUPE_DATA(fickle, fickle_source, setup_fickle);

static void test_a_resize_that_always_fails_ends_the_run(void **state)
{
    (void)state;
    parts config = {.reports = 4000, .pause_ms = 5};
    fickle_source source = {1};
    troupe_job *job;
    troupe_result *result;
    // What is saved may not go on with another number of ranks.
    troupe_must(troupe_submit(say_world, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "fickle", .data = troupe_data_with(fickle, &source)));
    troupe_job_status now;
    do {
        usleep(1000);
        troupe_job_status_get(job, &now);
    } while (now.state != TROUPE_JOB_RUNNING);
    assert_int_equal(troupe_job_resize(job, 1), TROUPE_OK);
    troupe_status waited = troupe_job_wait(job, SUPPORT_SOON_MS, &result);
    if (waited != TROUPE_OK)
        troupe_job_close(&job);
    assert_int_equal(waited, TROUPE_OK);
    assert_int_equal(troupe_result_status(result), TROUPE_INVALID);
    assert_non_null(strstr(troupe_result_error(result), "are others"));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

static bool is_in(const troupe_job_state *wanted, troupe_job *job)
{
    troupe_job_status now;
    int64_t until_ms = support_now_ms() + SUPPORT_SOON_MS;
    do {
        usleep(1000);
        troupe_job_status_get(job, &now);
    } while (now.state != *wanted && support_now_ms() < until_ms);
    return now.state == *wanted;
}

// The same of a size that nobody wished for: there was room for it alone.
static void test_a_smaller_size_that_always_fails_ends_the_run(void **state)
{
    (void)state;
    parts config = {.reports = 4000, .pause_ms = 5};
    fickle_source source = {1};
    line_settings endless = line_plain(LINE_EPOCHS_MAX);
    const troupe_job_state running = TROUPE_JOB_RUNNING, paused = TROUPE_JOB_PAUSED;
    troupe_job *job, *other;
    troupe_result *result;
    endless.pause_ms = 5;
    endless.save_every = 0;
    troupe_must(troupe_submit(say_world, &config, NULL, &job, .ranks = 2, .min_ranks = 1,
                              .storage = storage, .name = "fickle-elastic",
                              .data = troupe_data_with(fickle, &source)));
    assert_true(is_in(&running, job));
    troupe_job_pause(job);
    assert_true(is_in(&paused, job));
    troupe_must(troupe_submit(line_fit, &endless, NULL, &other, .ranks = CPUS - 1,
                              .storage = storage, .name = "has-most"));
    assert_true(is_in(&running, other));
    troupe_job_go_on(job);
    troupe_status waited = troupe_job_wait(job, SUPPORT_SOON_MS, &result);
    troupe_job_close(&other);
    if (waited != TROUPE_OK)
        troupe_job_close(&job);
    assert_int_equal(waited, TROUPE_OK);
    assert_int_equal(troupe_result_status(result), TROUPE_INVALID);
    assert_non_null(strstr(troupe_result_error(result), "are others"));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// ---- words that were lost, for lack of memory

// A job in the queue, behind another that has all CPUs; paused there.
static void submit_behind(user *it, troupe_job **first, const char *name)
{
    static const parts config = {.reports = 3};
    line_settings endless = line_plain(LINE_EPOCHS_MAX);
    endless.pause_ms = 5;
    endless.save_every = 0;
    troupe_must(troupe_submit(line_fit, &endless, NULL, first, .ranks = CPUS, .storage = storage,
                              .name = "has-all"));
    submit(it, &troupe_trainer_save_parts, &config,
           &(troupe_train_options){
               .size = sizeof(troupe_train_options), .ranks = 1, .storage = storage, .name = name});
}

static void test_a_lost_word_is_made_good_for_a_queued_job(void **state)
{
    (void)state;
    troupe_job *first;
    user it = {0};
    submit_behind(&it, &first, "goes-on");
    wish(&it, (trp_wishes){.pause = true});
    assert_true(support_wait_until(is_paused, &it, SUPPORT_SOON_MS));
    troupe_job_close(&first);
    pthread_mutex_lock(&it.job->lock);
    it.job->pause = false;
    pthread_mutex_unlock(&it.job->lock);
    atomic_store(&it.job->missed, true);
    expect_end(&it, TROUPE_OK);
}

static void test_a_lost_stop_is_made_good_for_a_queued_job(void **state)
{
    (void)state;
    troupe_job *first;
    user it = {0};
    submit_behind(&it, &first, "stops");
    pthread_mutex_lock(&it.job->lock);
    it.job->stop = true;
    pthread_mutex_unlock(&it.job->lock);
    atomic_store(&it.job->missed, true);
    expect_end(&it, TROUPE_OK);
    troupe_job_close(&first);
}

// There was no memory to ask for what the next group needs.
static void test_what_a_resting_run_was_refused_is_asked_for_again(void **state)
{
    (void)state;
    char *until = support_path(storage, "refused-until");
    parts config = {.reports = 20, .pause_ms = 10, .until = until};
    user it = {0};
    submit(&it, &troupe_trainer_save_parts, &config,
           &(troupe_train_options){.size = sizeof(troupe_train_options),
                                   .ranks = 2,
                                   .storage = storage,
                                   .name = "refused"});
    assert_true(support_wait_until(is_running, &it, SUPPORT_SOON_MS));
    wish(&it, (trp_wishes){.pause = true});
    assert_true(support_wait_until(is_paused, &it, SUPPORT_SOON_MS));
    atomic_store(&it.job->refused, true);
    let_end(&config);
    wish(&it, (trp_wishes){.pause = false});
    expect_end(&it, TROUPE_OK);
    free(until);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = CPUS, .threads = 3));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_newer_wish_is_not_overtaken_by_an_older_one),
        cmocka_unit_test(test_a_kill_before_the_coordinator_begins_is_not_lost),
        cmocka_unit_test(test_a_coordinator_that_cannot_begin_lets_go_of_the_folder),
        cmocka_unit_test(test_a_size_that_is_impossible_gives_way_to_a_newer_wish),
        cmocka_unit_test(test_a_resize_that_always_fails_ends_the_run),
        cmocka_unit_test(test_a_smaller_size_that_always_fails_ends_the_run),
        cmocka_unit_test(test_a_lost_word_is_made_good_for_a_queued_job),
        cmocka_unit_test(test_a_lost_stop_is_made_good_for_a_queued_job),
        cmocka_unit_test(test_what_a_resting_run_was_refused_is_asked_for_again),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
