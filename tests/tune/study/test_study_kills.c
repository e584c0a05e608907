// test_study_kills.c: a program that asks and tells is killed at random moments, and started again.
// label: faults
// again: full slow 300 500
//
// Nothing that it was told is there is lost, no trial that was told of is given again, and at its
// end the study is what it would have been.
#include "study_tests.h"

#include <runtime/base/fault.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#ifdef TROUPE_FAULTS

enum { TRIALS = 150, KILLS_MAX = 1000 };

// What the children have heard.
typedef struct heard {
    atomic_int lives, asked;
    bool told[TRIALS];
    double value[TRIALS];
} heard;

static heard *shared;
static int kills_wanted = 30;
static unsigned seed = 20261127;

// Each a searcher and a scheduler.
typedef enum way { DRAWS, SEQUENCE, LEARNS } way;

static troupe_study *opened(const char *file, way by)
{
    troupe_study *study = NULL;
    ok(troupe_study_open(
        space, &study, .seed = 11, .trials = TRIALS, .file = file,
        .searcher = by == DRAWS      ? troupe_search_random()
                    : by == SEQUENCE ? troupe_search_sobol()
                                     : troupe_search_tpe(.startup = 8),
        .scheduler = by == SEQUENCE ? NULL : troupe_asha(.grace = 1, .reduction = 2, .limit = 8),
        .open = file != NULL ? TROUPE_OPEN_RESUME_OR_NEW : TROUPE_OPEN_NEW));
    return study;
}

static void run(troupe_study *study, heard *hears)
{
    troupe_asked asked;
    troupe_status status;
    while ((status = troupe_study_ask(study, &asked)) == TROUPE_OK) {
        troupe_act act = TROUPE_ACT_GO_ON;
        double loss = loss_of(asked.config);
        if (hears != NULL && hears->told[asked.number])
            _exit(2);
        for (int k = asked.reports + 1; k <= asked.number % 5 && act == TROUPE_ACT_GO_ON; k++)
            ok(troupe_study_report(study, asked.number, loss + 2.0 / k, &act));
        if (act == TROUPE_ACT_GO_ON && asked.number % 11 == 4)
            ok(troupe_study_tell_failed(study, asked.number, "bad luck"));
        else if (act == TROUPE_ACT_GO_ON)
            ok(troupe_study_tell(study, asked.number, loss));
        if (hears != NULL) {
            hears->value[asked.number] = troupe_study_trial_at(study, asked.number)->values[0];
            hears->told[asked.number] = true;
        }
    }
    assert_int_equal(status, TROUPE_END);
}

// True: it came to its end.
static bool live(way by, bool by_fault)
{
    long count = 1 + rand() % 40;
    int behind = rand() % 2, wait_us = rand() % 4000;
    pid_t child = fork();
    if (child == 0) {
        if (by_fault)
            trp_fault_kill_at(behind ? "record written" : "record write", count);
        troupe_study *study = opened(path, by);
        atomic_fetch_add(&shared->lives, 1);
        run(study, shared);
        troupe_study_free(&study);
        _exit(0);
    }
    if (!by_fault) {
        usleep((useconds_t)wait_us);
        kill(child, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !support_was_killed(status);
}

static void check_heard(troupe_study *study)
{
    for (int i = 0; i < TRIALS; i++) {
        if (!shared->told[i])
            continue;
        const troupe_study_trial *trial = troupe_study_trial_at(study, (size_t)i);
        if (trial == NULL || trial->state == TROUPE_STUDY_RUNNING)
            fail_msg("seed %u: trial %d was told of, and is lost", seed, i);
        else
            assert_memory_equal(&trial->values[0], &shared->value[i], sizeof(double));
    }
}

static void kill_study(way by)
{
    int kills = 0;
    while (kills < kills_wanted) {
        unlink(path);
        shared = support_zeros(shared, sizeof *shared);
        for (bool ended = false; !ended;) {
            ended = live(by, rand() % 3 > 0);
            kills += !ended;
            troupe_study *now = opened(path, by);
            check_heard(now);
            troupe_study_free(&now);
        }
        troupe_study *whole = opened(NULL, by), *parts = opened(path, by);
        run(whole, NULL);
        assert_int_equal(troupe_study_count(parts), TRIALS);
        assert_same_trials(whole, parts);
        troupe_study_free(&whole);
        troupe_study_free(&parts);
    }
}

static void test_kills_with_a_scheduler(void **state)
{
    (void)state;
    kill_study(DRAWS);
}

static void test_kills_with_a_sequence(void **state)
{
    (void)state;
    kill_study(SEQUENCE);
}

static void test_kills_of_what_learns(void **state)
{
    (void)state;
    kill_study(LEARNS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills_with_a_scheduler),
        cmocka_unit_test(test_kills_with_a_sequence),
        cmocka_unit_test(test_kills_of_what_learns),
    };
    if (argc > 1) {
        kills_wanted = atoi(argv[1]);
        seed = (unsigned)time(NULL);
    }
    printf("seed %u\n", seed);
    srand(seed);
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}

#else
int main(void)
{
    return 0;
}
#endif
