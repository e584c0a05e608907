// points.h: what tests of searchers share: problems, and a study's calls in their order.
#ifndef POINTS_H
#define POINTS_H

#include <math.h>
#include <support.h>
#include <troupe/search.h>
#include <tune/space/dims.h>

#define REAL(from, to)                                                                             \
    {                                                                                              \
        .kind = TROUPE_DIM_REAL, .low = (from), .high = (to), .parent = -1                         \
    }
#define LOGGED(from, to)                                                                           \
    {                                                                                              \
        .kind = TROUPE_DIM_REAL, .low = (from), .high = (to), .log = true, .parent = -1            \
    }
#define WHOLE(from, to)                                                                            \
    {                                                                                              \
        .kind = TROUPE_DIM_INTEGER, .low = (from), .high = (to), .step = 1, .parent = -1           \
    }
#define CHOICE(n)                                                                                  \
    {                                                                                              \
        .kind = TROUPE_DIM_CHOICE, .high = (n)-1, .choices = (n), .parent = -1                     \
    }
#define PROBLEM(rows)                                                                              \
    {                                                                                              \
        .size = sizeof(troupe_problem), .dims = (rows),                                            \
        .dim_count = sizeof(rows) / sizeof *(rows), .objectives = 1, .seed = 1                     \
    }

// A searcher that has begun.
static inline troupe_searcher *points_begun(troupe_searcher *searcher,
                                            const troupe_problem *problem)
{
    assert_non_null(searcher);
    assert_int_equal(searcher->abi, TROUPE_ABI);
    assert_int_equal(searcher->refusal, TROUPE_OK);
    if (searcher->begin != NULL)
        assert_int_equal(searcher->begin(searcher, problem), TROUPE_OK);
    return searcher;
}

static inline void points_given(troupe_searcher *searcher, int number, const double *x)
{
    if (searcher->given != NULL)
        assert_int_equal(searcher->given(searcher, number, x), TROUPE_OK);
}

static inline void points_observe(troupe_searcher *searcher, int number, const double *x,
                                  double score)
{
    troupe_observation seen = {.size = sizeof seen,
                               .number = number,
                               .ending =
                                   isnan(score) ? TROUPE_ENDING_FAILED : TROUPE_ENDING_COMPLETE,
                               .x = x,
                               .scores = &score,
                               .reports = 1};
    if (searcher->observe != NULL)
        assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
}

// That a point is one of the problem's: within bounds, on steps, NaN where nothing counts.
static inline void points_assert_valid(const troupe_problem *problem, const double *x)
{
    for (size_t i = 0; i < problem->dim_count; i++) {
        const troupe_dim *dim = &problem->dims[i];
        if (!trp_dim_counts(problem->dims, i, x)) {
            assert_true(isnan(x[i]));
            continue;
        }
        assert_true(x[i] >= dim->low && x[i] <= dim->high);
        assert_true(x[i] == trp_dim_snap(dim, x[i]));
    }
}

static inline bool points_same(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))))
            return false;
    return true;
}

static inline void points_suggested(troupe_searcher *searcher, int number, double *x)
{
    assert_int_equal(searcher->suggest(searcher, number, x), TROUPE_OK);
}

// One trial from its suggestion to its end, with the score that `score_of` has for its point.
static inline double points_trial(troupe_searcher *searcher, const troupe_problem *problem,
                                  int number, double *x,
                                  double (*score_of)(const troupe_problem *, const double *))
{
    points_suggested(searcher, number, x);
    points_given(searcher, number, x);
    double score = score_of(problem, x);
    points_observe(searcher, number, x, score);
    return score;
}

#endif
