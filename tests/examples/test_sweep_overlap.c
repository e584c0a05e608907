// test_sweep_overlap.c: trials of a sweep run side by side as far as the CPUs allow, and never
// further: every worker notes in a file when it begins and ends, and the file is looked through
// afterwards.
#include "support.h"

#include <troupe.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CPUS = 4, TRIALS = 6 };

TROUPE_STRUCT(probe, (troupe_text, log), // File of all workers' notes.
              (int64_t, trial),          // 0 to TRIALS - 1
              (int64_t, meeting));       // How many of the first trials wait for each other.

static char *folder;

// Appends one line; a single short write in append mode is not torn by others.
static troupe_status note(const char *path, char what, int trial, int rank)
{
    char line[32];
    int length = snprintf(line, sizeof line, "%c %d %d\n", what, trial, rank);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return troupe_fail(TROUPE_IO, "%s: cannot be opened", path);
    ssize_t written = write(fd, line, (size_t)length);
    close(fd);
    return written == length ? TROUPE_OK : troupe_fail(TROUPE_IO, "%s: not written", path);
}

// The begun workers of the first `trials` trials that the notes tell of.
static int begun(const char *path, int trials)
{
    char *text = support_read_file(path), *rest = text, *line;
    int count = 0, trial, rank;
    while (rest && (line = strsep(&rest, "\n")))
        if (sscanf(line, "+ %d %d", &trial, &rank) == 2)
            count += trial < trials;
    free(text);
    return count;
}

typedef struct meeting {
    const probe *config;
    int workers;
} meeting;

static bool all_there(void *context)
{
    const meeting *m = context;
    int trials = (int)m->config->meeting;
    return begun(m->config->log, trials) >= trials * m->workers;
}

// The first trials go on only when the workers of all of them live: that they ever end shows that
// they overlap. The others come and go.
static troupe_status attend(troupe_rank *me, const probe *config)
{
    TROUPE_TRY(note(config->log, '+', (int)config->trial, me->rank));
    meeting m = {config, me->world};
    if (config->trial < config->meeting && !support_wait_until(all_there, &m, SUPPORT_SOON_MS))
        return troupe_fail(TROUPE_DEADLINE_EXCEEDED, "trial %d is alone", (int)config->trial);
    for (int i = 0; i < 3; i++) {
        TROUPE_TRY(troupe_barrier(me));
        TROUPE_TRY(troupe_report(me, {"trial", (double)config->trial}));
    }
    return note(config->log, '-', (int)config->trial, me->rank);
}
TROUPE_TRAINER(attend, probe);

// Runs a sweep of TRIALS trials and returns how many workers lived at once, at most.
static int most_at_once(const char *name, int workers, double cpus_per_worker, int meeting_trials)
{
    char *log = support_path(folder, name);
    const troupe_param space[] = {
        TROUPE_INTEGER(probe, trial, 0, TRIALS - 1),
        TROUPE_FIXED_TEXT(probe, log, log),
        TROUPE_FIXED(probe, meeting, meeting_trials),
    };
    troupe_sweep *sweep;
    troupe_must(troupe_tune(attend, space, &sweep, .metric = "trial", .goal = TROUPE_MINIMIZE,
                            .search = TROUPE_SEARCH_GRID, .concurrent = TRIALS, .name = "sweep",
                            .train = TROUPE_OPTIONS(troupe_train_options, .ranks = workers,
                                                    .cpus_per_rank = cpus_per_worker,
                                                    .storage = folder, .keep = TROUPE_NONE)));
    assert_int_equal(troupe_sweep_count(sweep), TRIALS);
    for (size_t i = 0; i < TRIALS; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        if (trial->state != TROUPE_TRIAL_TERMINATED)
            fail_msg("trial %zu: state %d: %s", i, (int)trial->state, trial->error);
    }
    troupe_sweep_free(&sweep);

    char *text = support_read_file(log), *rest = text, *line;
    assert_non_null(text);
    int living = 0, most = 0, begins = 0, trial, rank;
    while ((line = strsep(&rest, "\n"))) {
        char what;
        if (sscanf(line, "%c %d %d", &what, &trial, &rank) != 3)
            continue;
        living += what == '+' ? 1 : -1;
        begins += what == '+';
        most = living > most ? living : most;
    }
    assert_int_equal(living, 0);
    assert_int_equal(begins, TRIALS * workers);
    free(text);
    free(log);
    return most;
}

static void test_two_trials_of_two_fill_four_cpus(void **state)
{
    (void)state;
    assert_int_equal(most_at_once("pairs", 2, 1, 2), CPUS);
}

static void test_halves_of_cpus_let_four_trials_run(void **state)
{
    (void)state;
    assert_int_equal(most_at_once("halves", 2, 0.5, 4), 2 * CPUS);
}

static void test_trials_that_do_not_fit_beside_each_other_take_turns(void **state)
{
    (void)state;
    assert_int_equal(most_at_once("turns", 3, 1, 1), 3);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    folder = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_trials_of_two_fill_four_cpus),
        cmocka_unit_test(test_halves_of_cpus_let_four_trials_run),
        cmocka_unit_test(test_trials_that_do_not_fit_beside_each_other_take_turns),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(folder);
    return troupe_stop() + failed;
}
