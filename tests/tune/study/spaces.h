// spaces.h: what tests of studies that go on in another space share.
#ifndef TRP_STUDY_SPACES_H
#define TRP_STUDY_SPACES_H

#include "study_tests.h"

#include <limits.h>

#define ROWS(...) ((const troupe_param[]){__VA_ARGS__})
#define X(low, high) TROUPE_UNIFORM(study_config, x, low, high)
#define Y(low, high) TROUPE_UNIFORM(study_config, y, low, high)
#define WIDTH(low, high) TROUPE_INTEGER(study_config, width, low, high, .step = 16)
#define KIND(...) TROUPE_CHOICE_TEXT(study_config, kind, __VA_ARGS__)
#define SPACE(base, ...)                                                                           \
    made(ROWS(__VA_ARGS__), sizeof(ROWS(__VA_ARGS__)) / sizeof(troupe_param), (base))

TROUPE_UNUSED static troupe_space *made(const troupe_param *rows, size_t count,
                                        const study_config *base)
{
    troupe_space *it;
    ok(troupe_space_open_as(&troupe_type_study_config, rows, count, base, &it));
    return it;
}

TROUPE_UNUSED static troupe_space *parsed(const char *json)
{
    troupe_space *it;
    ok(troupe_space_parse(json, &it));
    return it;
}

TROUPE_UNUSED static troupe_status open_in(const troupe_space *in, troupe_searcher *searcher,
                                           int trials, troupe_study **study)
{
    return troupe_study_open(in, study, .file = path, .open = TROUPE_OPEN_RESUME_OR_NEW,
                             .trials = trials, .searcher = searcher);
}

TROUPE_UNUSED static double number_of(const troupe_asked *asked, int index)
{
    return asked->x[index];
}

// Asks and tells until the study is at its end, or has so many trials.
TROUPE_UNUSED static void run(troupe_study *study, int count)
{
    troupe_asked asked;
    while ((int)troupe_study_count(study) < count && troupe_study_ask(study, &asked) == TROUPE_OK)
        ok(troupe_study_tell(study, asked.number, fabs(number_of(&asked, 0) - 7)));
}

// A life of the study in that space.
TROUPE_UNUSED static void live(troupe_space *in, troupe_searcher *searcher, int trials)
{
    troupe_study *study;
    ok(open_in(in, searcher, trials, &study));
    run(study, INT_MAX);
    troupe_study_free(&study);
}

TROUPE_UNUSED static void live_in(troupe_space *in, int trials)
{
    live(in, troupe_search_random(), trials);
    troupe_space_free(&in);
}

TROUPE_UNUSED static void begin(void)
{
    unlink(path);
}

TROUPE_UNUSED static troupe_space *small(void)
{
    return SPACE(NULL, X(0, 1), WIDTH(16, 64), KIND("plain", "tall"));
}

TROUPE_UNUSED static troupe_space *large(void)
{
    return SPACE(NULL, X(-10, 20), WIDTH(0, 96), KIND("plain", "tall", "wide"));
}

#endif
