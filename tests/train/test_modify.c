// test_modify.c: live values: changed from outside, with the same report on all ranks, and for
// good.
// timeout: 120
// cost: 10
#include "support.h"

#include <runtime/codec/json.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { CPUS = 3, EPOCHS_MAX = 1000000 };

static char *storage;

TROUPE_STRUCT(settings, (double, rate), (int, epochs), (troupe_text, note), (int, pause_us),
              (int, dies_at), (char, kind, 8), (double, at, 2));
TROUPE_STRUCT(progress, (int, epoch));
TROUPE_STRUCT(other, (int, epochs));

static int64_t mix(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u;
    return (int64_t)(hash >> 1);
}

static int64_t hash_of(const settings *now)
{
    uint64_t hash = (uint64_t)mix(0xCBF29CE484222325u, &now->rate, sizeof now->rate);
    hash = (uint64_t)mix(hash, &now->epochs, sizeof now->epochs);
    return mix(hash, now->note, strlen(now->note));
}

// Fails where the ranks do not have the same values.
static troupe_status compare(troupe_rank *me, const settings *now, int epoch)
{
    int64_t low = hash_of(now), high = low, mine = low;
    TROUPE_TRY(troupe_allreduce(me, &low, 1, TROUPE_MIN));
    TROUPE_TRY(troupe_allreduce(me, &high, 1, TROUPE_MAX));
    if (low != high || hash_of(now) != mine)
        return troupe_fail(TROUPE_FAILED, "epoch %d of rank %d: rate %g, epochs %d, note '%s'",
                           epoch, me->rank, now->rate, now->epochs, now->note);
    return TROUPE_OK;
}

static troupe_status tuned(troupe_rank *me, const settings *config)
{
    progress all = {0};
    TROUPE_TRY(troupe_restore(progress, me, &all));
    const settings *now = troupe_live(settings, me);
    if (!now || now->rate != config->rate || now->epochs != config->epochs ||
        strcmp(now->note, config->note) != 0)
        return troupe_fail(TROUPE_FAILED, "a group does not begin with its config");
    if (troupe_live(other, me) || troupe_last_error()->status != TROUPE_WRONG_TYPE ||
        !strstr(troupe_last_error()->text, "is a settings, not a other"))
        return troupe_fail(TROUPE_FAILED, "another type was given");
    while (all.epoch < (now = troupe_live(settings, me))->epochs) {
        TROUPE_TRY(compare(me, now, all.epoch));
        if (me->rank == 1 && me->attempt == 0 && all.epoch + 1 == config->dies_at)
            kill(getpid(), SIGKILL);
        if (config->pause_us > 0)
            usleep((useconds_t)(config->pause_us * (1 + me->rank)));
        all.epoch++;
        TROUPE_TRY(troupe_save(progress, me, &all));
        TROUPE_TRY(troupe_report(me, {"rate", now->rate}, {"length", (double)strlen(now->note)},
                                 {"kind", now->kind[0]}, {"at", now->at[1]}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(tuned, settings, .live = "rate, epochs, note, kind, at");

static settings plain(void)
{
    return (settings){.rate = 1, .epochs = EPOCHS_MAX, .note = "first", .kind = "line"};
}

// ---- what the journal says

enum { LINES_MAX = 4096 };

typedef struct audit {
    int modifies, lives;
    double rates[LINES_MAX]; // By revision; of other members the last one.
    int live_revision[LINES_MAX], live_report[LINES_MAX];
    int reports;
    double report_rate[LINES_MAX * 8]; // By number.
} audit;

TROUPE_STRUCT(metrics, (double, rate));
TROUPE_STRUCT(line, (troupe_text, event), (int, revision), (troupe_text, member), (int, report),
              (metrics, metrics), (double, value));

static void audit_line(audit *all, const line *at)
{
    if (strcmp(at->event, "modify") == 0) {
        assert_int_equal(at->revision, all->modifies + 1); // Each once, in their order.
        all->modifies++;
        assert_true(all->modifies < LINES_MAX);
        bool is_rate = strcmp(at->member, "rate") == 0;
        all->rates[all->modifies] = is_rate ? at->value : all->rates[all->modifies - 1];
    } else if (strcmp(at->event, "live") == 0) {
        assert_true(at->revision <= all->modifies);
        all->live_revision[all->lives] = at->revision;
        all->live_report[all->lives++] = at->report;
    } else if (strcmp(at->event, "report") == 0 && at->report < LINES_MAX * 8) {
        all->reports = at->report;
        all->report_rate[at->report] = at->metrics.rate;
    }
}

static char *journal_of(const char *run)
{
    char *path = support_path(run, "journal.jsonl"), *text = support_read_file(path);
    assert_non_null(text);
    free(path);
    return text;
}

static audit *audit_of(const char *run, double rate)
{
    static audit all;
    all = (audit){0};
    all.rates[0] = rate;
    char *text = journal_of(run);
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        trp_arena arena = {0};
        trp_json value;
        line read = {0};
        assert_int_equal(trp_json_parse(at, (size_t)(end - at), &value), TROUPE_OK);
        // Those of other members are no numbers.
        if (trp_json_read(&troupe_type_line, value, &arena, &read) == TROUPE_OK)
            audit_line(&all, &read);
        else
            all.modifies++, all.rates[all.modifies] = all.rates[all.modifies - 1];
        trp_arena_clear(&arena);
    }
    free(text);
    return &all;
}

// That each report was made with the rate that the journal says, up to `until`.
static void check_audit(const audit *all, int from, int until)
{
    for (int number = from, live = 0, revision = 0; number <= until; number++) {
        while (live < all->lives && all->live_report[live] < number)
            revision = all->live_revision[live++];
        assert_true(all->report_rate[number] == all->rates[revision]);
    }
}

// ---- waiting

typedef struct awaited {
    troupe_job *job;
    int reports;
} awaited;

static bool has_reported(void *context)
{
    const awaited *what = (const awaited *)context;
    troupe_job_status status;
    troupe_job_status_get(what->job, &status);
    return status.reports >= what->reports;
}

static void await_reports(troupe_job *job, int reports)
{
    awaited what = {job, reports};
    assert_true(support_wait_until(has_reported, &what, SUPPORT_SOON_MS));
}

static int reports_of(troupe_job *job)
{
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    return status.reports;
}

// Waits until what was wished has taken effect, and a report was made with it: an order is one for
// the first report that no rank has entered, ranks that meet in each step are up to two reports
// ahead of those that are known, and what is wished while an order is in flight is ordered when
// that is whole, which may be two reports later.
static void await_effect(troupe_job *job)
{
    await_reports(job, reports_of(job) + 6);
}

static troupe_result *end_of(troupe_job **job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(*job, 60000, &result));
    troupe_job_close(job);
    return result;
}

// ---- tests

// F12.
static void test_each_value_comes_with_the_same_report_on_all_ranks(void **state)
{
    (void)state;
    enum { TIMES = 200 };
    settings config = plain();
    config.pause_us = 20;
    troupe_job *job;
    unsigned seed = 7;
    troupe_must(troupe_submit(tuned, &config, NULL, &job, .ranks = 3, .storage = storage,
                              .keep = TROUPE_NONE));
    await_reports(job, 3);
    char note[64] = "";
    for (int i = 1; i <= TIMES; i++) {
        if (i % 5 == 0) {
            snprintf(note, sizeof note, "%0*d", 1 + rand_r(&seed) % 60, i);
            troupe_must(troupe_job_modify(tuned, job, note, note));
        } else {
            troupe_must(troupe_job_modify(tuned, job, rate, i + 0.1));
        }
        usleep((useconds_t)(rand_r(&seed) % 2500));
        if (i % 10 == 0) // Else all might come before a busy machine's next report.
            await_effect(job);
    }
    troupe_must(troupe_job_modify(tuned, job, epochs, reports_of(job) + 40));
    troupe_result *result = end_of(&job);
    assert_string_equal(troupe_result_error(result), "");
    assert_true(troupe_result_metric(result, "length") == strlen(note));
    assert_true(troupe_result_metric(result, "rate") == TIMES - 1 + 0.1);
    audit *all = audit_of(troupe_result_path(result), 1);
    assert_int_equal(all->modifies, TIMES + 1);
    assert_in_range(all->lives, 10, TIMES + 1);
    for (int i = 1; i < all->lives; i++) {
        assert_true(all->live_revision[i] > all->live_revision[i - 1]);
        assert_true(all->live_report[i] > all->live_report[i - 1]);
    }
    assert_int_equal(all->live_revision[all->lives - 1], TIMES + 1);
    assert_int_equal(all->reports, troupe_result_reports(result));
    check_audit(all, 1, all->reports < LINES_MAX * 8 ? all->reports : LINES_MAX * 8 - 1);
    troupe_result_free(&result);
}

// Each checkpoint has the config that its report was made with.
static void test_a_checkpoint_has_the_config_of_its_report(void **state)
{
    (void)state;
    enum { CHANGES = 20 };
    settings config = plain();
    config.pause_us = 200;
    troupe_job *job;
    troupe_must(troupe_submit(tuned, &config, NULL, &job, .ranks = 2, .storage = storage));
    await_reports(job, 2);
    for (int i = 1; i <= CHANGES; i++) {
        troupe_must(troupe_job_modify(tuned, job, rate, 1 + i));
        await_reports(job, reports_of(job) + 2);
    }
    troupe_must(troupe_job_modify(tuned, job, epochs, reports_of(job)));
    troupe_result *result = end_of(&job);
    int reports = troupe_result_reports(result), found = 0;
    double highest = 0;
    for (int i = 0; i <= reports; i++) {
        char name[64], wanted[64];
        snprintf(name, sizeof name, "checkpoints/checkpoint_%06d", i);
        char *path = support_path(troupe_result_path(result), name);
        troupe_checkpoint *opened;
        if (support_exists(path)) {
            troupe_must(troupe_checkpoint_open(path, &opened));
            troupe_checkpoint_info info;
            troupe_checkpoint_info_get(opened, &info);
            assert_string_equal(info.metrics[0].name, "rate");
            snprintf(wanted, sizeof wanted, "{\"rate\": %.0f, \"epochs\": ", info.metrics[0].value);
            if (strncmp(info.config, wanted, strlen(wanted)) != 0)
                fail_msg("report %d: expected %s in %s", info.report, wanted, info.config);
            highest = info.metrics[0].value;
            found++;
            troupe_checkpoint_close(&opened);
        }
        free(path);
    }
    assert_true(found > CHANGES && highest == 1 + CHANGES);
    troupe_result_free(&result);
}

static void test_a_group_that_is_restarted_has_the_newest_values(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        settings config = plain();
        config.dies_at = 12 + round;
        config.pause_us = 2000;
        troupe_job *job;
        troupe_must(troupe_submit(tuned, &config, NULL, &job, .ranks = 2, .storage = storage,
                                  .restarts = 1, .keep = 2));
        await_reports(job, 2);
        int wishes = 0;
        for (awaited dies = {job, config.dies_at - 1}; !has_reported(&dies); wishes++) {
            troupe_must(troupe_job_modify(tuned, job, rate, wishes + 2.5));
            usleep(700);
        }
        // About when the rank dies, and while there is no group.
        for (int i = 0; i < 40; i++, wishes++) {
            troupe_must(troupe_job_modify(tuned, job, rate, wishes + 2.5));
            usleep(500);
        }
        await_reports(job, 30);
        await_effect(job);
        troupe_must(troupe_job_modify(tuned, job, epochs, reports_of(job) + 5));
        troupe_result *result = end_of(&job);
        assert_string_equal(troupe_result_error(result), "");
        assert_int_equal(troupe_result_restarts(result), 1);
        assert_true(troupe_result_metric(result, "rate") == wishes - 1 + 2.5);
        audit *all = audit_of(troupe_result_path(result), 1);
        assert_int_equal(all->modifies, wishes + 1);
        assert_int_equal(all->live_revision[all->lives - 1], wishes + 1);
        troupe_result_free(&result);
    }
}

static void test_a_queued_job_begins_with_what_it_was_modified_to(void **state)
{
    (void)state;
    settings config = plain();
    config.pause_us = 500;
    troupe_job *first, *second;
    troupe_must(troupe_submit(tuned, &config, NULL, &first, .ranks = CPUS, .storage = storage,
                              .keep = TROUPE_NONE));
    config.epochs = 4;
    config.pause_us = 0;
    troupe_must(troupe_submit(tuned, &config, NULL, &second, .ranks = CPUS, .storage = storage,
                              .keep = TROUPE_NONE));
    await_reports(first, 1);
    troupe_must(troupe_job_modify(tuned, second, rate, 3));
    troupe_must(troupe_job_modify(tuned, second, rate, 4));
    troupe_must(troupe_job_modify(tuned, second, note, "waited"));
    troupe_must(troupe_job_modify(tuned, second, kind, "curve"));
    troupe_must(troupe_job_modify(tuned, second, at, {1.5, 2.5}));
    troupe_job_stop(first);
    troupe_result *result = end_of(&first);
    troupe_result_free(&result);
    result = end_of(&second);
    assert_int_equal(troupe_result_reports(result), 4);
    audit *all = audit_of(troupe_result_path(result), 1);
    assert_int_equal(all->lives, 1);
    assert_int_equal(all->live_report[0], 0);
    assert_int_equal(all->live_revision[0], 5);
    check_audit(all, 1, 4);
    assert_true(all->report_rate[1] == 4);
    assert_true(troupe_result_metric(result, "length") == strlen("waited"));
    assert_true(troupe_result_metric(result, "kind") == 'c');
    assert_true(troupe_result_metric(result, "at") == 2.5);
    troupe_result_free(&result);
}

typedef struct told {
    _Atomic bool goes_on;
    int slow_at; // It waits there until it may go on.
    int count;
    troupe_live_event events[LINES_MAX];
} told;

static bool may_go_on(void *context)
{
    return atomic_load(&((told *)context)->goes_on);
}

static void be_told(void *user, troupe_job *job, const troupe_live_event *event)
{
    told *all = (told *)user;
    (void)job;
    if (all->count == all->slow_at)
        (void)support_wait_until(may_go_on, all, SUPPORT_SOON_MS);
    if (all->count < LINES_MAX)
        all->events[all->count++] = *event;
}

// A slow one reads what it has missed from the journal.
static void test_a_follower_is_told_of_each_change(void **state)
{
    (void)state;
    enum { TIMES = 60, WAITING = 4096 };
    settings config = plain();
    static told all;
    all.slow_at = 5;
    troupe_follower follower = {.size = sizeof follower, .user = &all, .modified = be_told};
    troupe_job *job;
    troupe_must(
        troupe_submit(tuned, &config, &follower, &job, .storage = storage, .keep = TROUPE_NONE));
    await_reports(job, 2);
    for (int i = 1; i <= TIMES; i++) {
        // The follower falls behind: no more than so many events wait for it.
        for (int more = 0; i == TIMES / 2 && more <= WAITING; more += 128)
            await_reports(job, reports_of(job) + 128);
        troupe_must(troupe_job_modify(tuned, job, rate, i));
        await_reports(job, reports_of(job) + 2);
    }
    atomic_store(&all.goes_on, true);
    troupe_must(troupe_job_modify(tuned, job, epochs, 1));
    troupe_result *result = end_of(&job);
    assert_string_equal(troupe_result_error(result), "");
    audit *written = audit_of(troupe_result_path(result), 1);
    assert_int_equal(written->lives, TIMES + 1);
    assert_int_equal(all.count, written->lives);
    for (int i = 0; i < all.count; i++) {
        assert_int_equal(all.events[i].revision, written->live_revision[i]);
        assert_int_equal(all.events[i].report, written->live_report[i]);
    }
    troupe_result_free(&result);
}

// ---- the library's loop

static troupe_status plan_steps(troupe_rank *me, const settings *config, troupe_plan *plan)
{
    (void)me;
    plan->epochs = config->epochs;
    plan->batches = 1;
    return TROUPE_OK;
}

static troupe_status make_step(troupe_rank *me, const settings *config)
{
    usleep(500);
    TROUPE_TRY(troupe_barrier(me)); // See await_effect.
    return troupe_report(me, {"rate", config->rate});
}
TROUPE_STEPS(stepped, settings, .plan = plan_steps, .step = make_step, .live = "rate");

static void test_hooks_are_given_the_values_of_now(void **state)
{
    (void)state;
    settings config = plain();
    troupe_job *job;
    troupe_must(troupe_submit(stepped, &config, NULL, &job, .ranks = 2, .storage = storage));
    await_reports(job, 2);
    troupe_must(troupe_job_modify(stepped, job, rate, 9));
    await_effect(job);
    troupe_job_stop(job);
    troupe_result *result = end_of(&job);
    assert_string_equal(troupe_result_error(result), "");
    assert_true(troupe_result_metric(result, "rate") == 9);
    troupe_result_free(&result);
}

// ---- ranks that share a process, and ranks that keep theirs

// Says in its report whether the process is that of an attempt before.
static troupe_status compare_step(troupe_rank *me, const settings *config)
{
    static _Atomic int first_attempt = -1; // Of this process, whose ranks all say the same.
    progress at = {(int)me->epoch + 1};
    if (first_attempt < 0)
        first_attempt = me->attempt;
    TROUPE_TRY(compare(me, config, (int)me->epoch));
    if (me->rank == me->world - 1 && me->attempt == 0 && me->epoch + 1 == config->dies_at)
        kill(getpid(), SIGKILL);
    usleep((useconds_t)config->pause_us);
    TROUPE_TRY(troupe_commit(progress, me, &at));
    return troupe_report(me, {"rate", config->rate}, {"length", (double)strlen(config->note)},
                         {"kept", me->attempt > first_attempt});
}

static troupe_status plan_from_commit(troupe_rank *me, const settings *config, troupe_plan *plan)
{
    progress at = {0};
    TROUPE_TRY(troupe_restore(progress, me, &at));
    *plan = (troupe_plan){.epochs = config->epochs, .batches = 1, .epoch = at.epoch};
    return TROUPE_OK;
}
TROUPE_STEPS(shares, settings, .plan = plan_from_commit, .step = compare_step,
             .live = "rate, note");

// All of them have the same values in each step, wherever they run and whatever befalls them.
static void modify_all_along(int together, int dies_at)
{
    enum { TIMES = 60, RANKS = 4 };
    settings config = plain();
    config.pause_us = 100;
    config.dies_at = dies_at;
    troupe_job *job;
    char note[64] = "";
    troupe_must(troupe_submit(shares, &config, NULL, &job, .ranks = RANKS, .cpus_per_rank = 0.5,
                              .ranks_per_process = together, .storage = storage,
                              .keep = TROUPE_NONE, .restarts = dies_at > 0));
    for (int i = 1; i <= TIMES; i++) {
        snprintf(note, sizeof note, "%0*d", 1 + i % 60, i);
        troupe_must(troupe_job_modify(shares, job, note, note));
        troupe_must(troupe_job_modify(shares, job, rate, i));
        await_reports(job, reports_of(job) + 1);
    }
    await_effect(job);
    troupe_job_stop(job);
    troupe_result *result = end_of(&job);
    assert_string_equal(troupe_result_error(result), "");
    assert_true(troupe_result_metric(result, "rate") == TIMES);
    assert_true(troupe_result_metric(result, "length") == strlen(note));
    assert_int_equal(troupe_result_restarts(result), dies_at > 0);
    assert_int_equal((int)troupe_result_metric(result, "kept"), dies_at > 0); // Rank 0's process.
    troupe_result_free(&result);
}

static void test_ranks_that_share_a_process_have_the_same_values(void **state)
{
    (void)state;
    modify_all_along(2, 0);
    modify_all_along(4, 0);
}

static void test_ranks_that_keep_their_process_have_the_same_values(void **state)
{
    (void)state;
    modify_all_along(1, 20);
    modify_all_along(2, 20);
}

// ---- going on

// A driver of its own, which modifies its run without a pause, from `first` on, and says on a pipe
// what was accepted.
static int drive_on(int argc, char **argv)
{
    settings config = plain();
    config.pause_us = 100;
    troupe_job *job;
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    troupe_must(troupe_submit(tuned, &config, NULL, &job, .ranks = 2, .storage = argv[1],
                              .name = argv[2], .open = TROUPE_OPEN_RESUME_OR_NEW, .keep = 2));
    for (int i = atoi(argv[3]);; i++) {
        troupe_must(troupe_job_modify(tuned, job, rate, i));
        if (write(atoi(argv[4]), &i, sizeof i) != sizeof i)
            return 1;
    }
}

// A driver of its own, which is killed by itself after it has modified its run.
static int drive(int argc, char **argv)
{
    if (argc > 4)
        return drive_on(argc, argv);
    settings config = plain();
    config.rate = atof(argv[3]);
    config.pause_us = 200;
    troupe_job *job;
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    troupe_must(troupe_submit(tuned, &config, NULL, &job, .ranks = 2, .storage = argv[1],
                              .name = argv[2], .open = TROUPE_OPEN_RESUME_OR_NEW, .keep = 2));
    await_reports(job, 5);
    troupe_must(troupe_job_modify(tuned, job, note, "kept"));
    for (int i = 0; i <= 20; i++)
        troupe_must(troupe_job_modify(tuned, job, rate, 50 + i));
    kill(getpid(), SIGKILL);
    return 0;
}

static void run_driver(const char *name, const char *rate)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_modify", storage, name, rate, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// Goes on with the run for some reports, with that rate in its config; what it then has is told.
static void go_on(const char *name, double rate, double *has, double *length)
{
    settings config = plain();
    config.rate = rate;
    troupe_job *job;
    troupe_must(troupe_submit(tuned, &config, NULL, &job, .storage = storage, .name = name,
                              .open = TROUPE_OPEN_RESUME));
    await_reports(job, reports_of(job) + 3);
    troupe_job_stop(job);
    troupe_result *result = end_of(&job);
    assert_true(troupe_result_stopped(result));
    *has = troupe_result_metric(result, "rate");
    *length = troupe_result_metric(result, "length");
    troupe_result_free(&result);
}

// F12.
static void test_after_kill_9_of_the_driver_the_values_hold(void **state)
{
    (void)state;
    double rate, length;
    run_driver("killed", "1");
    go_on("killed", 1, &rate, &length);
    assert_true(rate == 70 && length == strlen("kept"));
    go_on("killed", 1, &rate, &length); // Also the next time.
    assert_true(rate == 70 && length == strlen("kept"));
    go_on("killed", 0.5, &rate, &length); // A config that changes it goes before,
    assert_true(rate == 0.5 && length == strlen("kept"));
    go_on("killed", 0.5, &rate, &length); // and keeps doing so,
    assert_true(rate == 0.5 && length == strlen("kept"));
    run_driver("killed", "0.5"); // until it is modified again.
    go_on("killed", 0.5, &rate, &length);
    assert_true(rate == 70);
    char *run = support_path(storage, "killed"), *path = support_path(run, "run.json");
    char *text = support_read_file(path);
    assert_non_null(strstr(text, "\"modified\": {\"rate\": 70, \"note\": \"kept\"}"));
    assert_non_null(strstr(text, "\"rate\": 0.5")); // What was given.
    assert_non_null(strstr(text, "\"revision\": 44"));
    free(text);
    free(path);
    free(run);
}

// Starts a driver that modifies from `first` on, kills it after some time, and returns what it has
// said last.
static int kill_driver(const char *name, int first, useconds_t after_us)
{
    char from[16], out[16];
    int ends[2], status, last = -1;
    assert_int_equal(pipe(ends), 0);
    snprintf(from, sizeof from, "%d", first);
    snprintf(out, sizeof out, "%d", ends[1]);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_modify", storage, name, from, out, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &last, sizeof last), sizeof last);
    usleep(after_us);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    while (read(ends[0], &last, sizeof last) == sizeof last)
        ;
    close(ends[0]);
    return last;
}

static void test_what_was_accepted_holds_wherever_the_driver_is_killed(void **state)
{
    (void)state;
    unsigned seed = 11;
    for (int round = 0, first = 1000; round < 6; round++) {
        double rate, length;
        int last = kill_driver("anywhere", first, (useconds_t)(rand_r(&seed) % 120000));
        go_on("anywhere", 1, &rate, &length);
        // The next one may have been put down, and not said.
        assert_true(rate == last || rate == last + 1);
        first = last + 1000;
    }
}

// ---- what is refused

static void refused(troupe_status status, troupe_status expected, const char *words)
{
    assert_int_equal(status, expected);
    assert_non_null(strstr(troupe_last_error()->text, words));
}

static troupe_status nothing(troupe_rank *me, const settings *config)
{
    (void)config;
    return troupe_live(settings, me) ? TROUPE_OK : troupe_last_error()->status;
}
TROUPE_TRAINER(nothing, settings);

static void test_what_cannot_be_modified_is_said(void **state)
{
    (void)state;
    static char huge[20000];
    memset(huge, 'x', sizeof huge - 1);
    settings config = plain();
    config.pause_us = 200;
    troupe_job *job;
    double rate = 2;
    int number = 2;
    troupe_must(troupe_submit(tuned, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .keep = TROUPE_NONE));
    refused(troupe_job_modify_as(&troupe_trainer_tuned, job, "speed", &rate), TROUPE_NOT_FOUND,
            "no member 'speed': its members are rate, epochs, note, pause_us, dies_at, kind, at");
    refused(troupe_job_modify(tuned, job, pause_us, number), TROUPE_UNSUPPORTED,
            "'pause_us' of the config of 'tuned' cannot change while it runs: those in its .live "
            "can: rate, epochs, note, kind, at");
    refused(troupe_job_modify(nothing, job, rate, 2), TROUPE_WRONG_TYPE,
            "is of trainer 'tuned', not of 'nothing'");
    refused(troupe_job_modify(tuned, job, note, huge), TROUPE_TOO_LARGE,
            "with this note the live values of 'tuned' take 20");
    refused(troupe_job_modify(tuned, job, note, "\xff"), TROUPE_INVALID, "UTF-8");
    await_reports(job, 3);
    troupe_job_stop(job);
    troupe_result *result;
    troupe_must(troupe_job_wait(job, 60000, &result));
    assert_true(troupe_result_metric(result, "rate") == 1);
    refused(troupe_job_modify(tuned, job, rate, 2), TROUPE_STOPPED, "has ended");
    audit *all = audit_of(troupe_result_path(result), 1);
    assert_int_equal(all->modifies, 0);
    assert_int_equal(all->lives, 0);
    troupe_result_free(&result);
    troupe_job_close(&job);

    troupe_must(troupe_submit(nothing, &config, NULL, &job, .storage = storage));
    refused(troupe_job_modify(nothing, job, rate, 2), TROUPE_UNSUPPORTED, "can: none");
    result = end_of(&job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK); // It has its config.
    troupe_result_free(&result);
}

TROUPE_STRUCT(held, (troupe_ref, data), (double, rate), (troupe_array_troupe_actor, actors));

static troupe_status holds(troupe_rank *me, const void *config)
{
    (void)me;
    (void)config;
    return TROUPE_OK;
}

static void test_a_list_of_live_members_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *live, *words;
    } wrong[] = {
        {"rate, speed", "has 'speed' in .live: expected names of members of held"},
        {"rate rate", "has 'rate' in .live twice"},
        {"data", "has 'data' in .live, which holds a reference"},
        {"actors", "has 'actors' in .live, which holds a reference"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        troupe_stages stages = {.live = wrong[i].live};
        troupe_trainer trainer = {TROUPE_ABI, "holds", &troupe_type_held, holds, &stages,
                                  NULL,       {NULL}};
        refused(troupe_trainer_register(&trainer), TROUPE_INVALID, wrong[i].words);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return drive(argc, argv);
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_value_comes_with_the_same_report_on_all_ranks),
        cmocka_unit_test(test_a_checkpoint_has_the_config_of_its_report),
        cmocka_unit_test(test_a_group_that_is_restarted_has_the_newest_values),
        cmocka_unit_test(test_a_queued_job_begins_with_what_it_was_modified_to),
        cmocka_unit_test(test_a_follower_is_told_of_each_change),
        cmocka_unit_test(test_hooks_are_given_the_values_of_now),
        cmocka_unit_test(test_ranks_that_share_a_process_have_the_same_values),
        cmocka_unit_test(test_ranks_that_keep_their_process_have_the_same_values),
        cmocka_unit_test(test_after_kill_9_of_the_driver_the_values_hold),
        cmocka_unit_test(test_what_was_accepted_holds_wherever_the_driver_is_killed),
        cmocka_unit_test(test_what_cannot_be_modified_is_said),
        cmocka_unit_test(test_a_list_of_live_members_is_checked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
