// study_tests.h: what tests of studies share.
#ifndef TRP_STUDY_TESTS_H
#define TRP_STUDY_TESTS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/study.h>
#include <unistd.h>

TROUPE_STRUCT(study_config, (double, x), (double, y), (int, width), (troupe_text, kind));

static char *folder, *path;
static troupe_space *space;

static void ok(troupe_status status)
{
    if (status != TROUPE_OK)
        fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
}

TROUPE_UNUSED static void refused(troupe_status status, troupe_status expected, const char *part)
{
    if (status != expected || strstr(troupe_last_error()->text, part) == NULL)
        fail_msg("%s: \"%s\", not %s: \"%s\"", troupe_status_name(status),
                 troupe_last_error()->text, troupe_status_name(expected), part);
}

static int open_study_tests(void **state)
{
    (void)state;
    const troupe_param rows[] = {
        TROUPE_UNIFORM(study_config, x, -5, 10),
        TROUPE_UNIFORM(study_config, y, 0, 15),
        TROUPE_INTEGER(study_config, width, 16, 64, .step = 16),
        TROUPE_CHOICE_TEXT(study_config, kind, "plain", "tall"),
    };
    // In memory: hundreds of studies are closed, and synced, in a test.
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    folder = support_directory_make();
    path = support_path(folder, "study.jsonl");
    ok(troupe_space_open(study_config, rows, &space));
    return 0;
}

static int close_study_tests(void **state)
{
    (void)state;
    troupe_space_free(&space);
    free(path);
    support_directory_remove(folder);
    return 0;
}

TROUPE_UNUSED static double branin(double x, double y)
{
    double pi = acos(-1), a = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6;
    return a * a + 10 * (1 - 1 / (8 * pi)) * cos(x) + 10;
}

// Best with "tall" and 32.
TROUPE_UNUSED static double loss_of(const study_config *config)
{
    return branin(config->x, config->y) + fabs(config->width - 32.0) / 16 +
           (strcmp(config->kind, "tall") == 0 ? 0 : 2);
}

// What of a study must be the same in two lives: everything but times.
TROUPE_UNUSED static void assert_same_trials(troupe_study *one, troupe_study *other)
{
    size_t count = troupe_study_count(one);
    assert_int_equal(troupe_study_count(other), count);
    for (size_t i = 0; i < count; i++) {
        const troupe_study_trial *a = troupe_study_trial_at(one, i);
        const troupe_study_trial *b = troupe_study_trial_at(other, i);
        assert_int_equal(a->state, b->state);
        assert_int_equal(a->reports, b->reports);
        assert_memory_equal(a->x, b->x, 4 * sizeof(double));
        assert_memory_equal(&a->best, &b->best, sizeof a->best);
        assert_memory_equal(a->values, b->values, sizeof(double));
        assert_string_equal(a->error, b->error);
        const study_config *x = a->config, *y = b->config;
        assert_true(x->x == y->x && x->y == y->y && x->width == y->width);
        assert_string_equal(x->kind, y->kind);
    }
    const troupe_study_trial *a = troupe_study_best(one), *b = troupe_study_best(other);
    assert_int_equal(a != NULL ? a->number : -1, b != NULL ? b->number : -1);
}

#endif
