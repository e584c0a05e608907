// grid.c: the searcher that tries every combination.
//
// A combination is a vector of digits, one a dimension, of which the last runs fastest. Where a
// dimension does not count its digit is 0, so that no point comes twice. What is suggested is the
// first combination that was not given out: points that were given by other means and lie on the
// grid are not tried again, and others take no combination's place.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>

// Combinations that are passed over, one after the other, since they may not be tried.
enum { PASSED_MAX = 1000000 };

typedef struct grid_searcher {
    troupe_searcher base;
    const troupe_problem *problem;
    int points;
    size_t count;     // Of dimensions.
    uint64_t *digits; // Of the first combination that was not given out.
    bool over;        // There is none.
    bool passed;      // Too many were passed over.
    double *x;        // Room for a point,
    uint64_t *found;  // and for a combination.
    uint64_t *ahead; // Combinations after the first that were given out, count digits each, rising.
    size_t ahead_count, ahead_room;
} grid_searcher;

static double digit_count(const grid_searcher *self, size_t i)
{
    double values = trp_dim_values(&self->problem->dims[i]);
    return values > 0 ? values : self->points;
}

static double digit_value(const grid_searcher *self, size_t i, uint64_t digit)
{
    const troupe_dim *dim = &self->problem->dims[i];
    double step = dim->step > 0 ? dim->step : 1;
    if (dim->kind == TROUPE_DIM_CHOICE)
        return (double)digit;
    if (trp_dim_values(dim) > 0)
        return trp_dim_snap(dim, dim->low + step * (double)digit);
    return trp_dim_at(dim, ((double)digit + 0.5) / self->points);
}

static void fill(const grid_searcher *self, const uint64_t *digits, double *x)
{
    for (size_t i = 0; i < self->count; i++)
        x[i] = trp_dim_counts(self->problem->dims, i, x) ? digit_value(self, i, digits[i])
                                                         : (double)NAN;
}

// The digits of a point; false: it is not on the grid.
static bool locate(const grid_searcher *self, const double *x, uint64_t *digits)
{
    for (size_t i = 0; i < self->count; i++) {
        const troupe_dim *dim = &self->problem->dims[i];
        digits[i] = 0;
        if (!trp_dim_counts(self->problem->dims, i, x))
            continue;
        double step = dim->step > 0 ? dim->step : 1, at = trp_dim_unit(dim, x[i]) * self->points;
        if (trp_dim_values(dim) > 0)
            at = rint((x[i] - dim->low) / step);
        if (!(at >= 0 && at < digit_count(self, i))) // NaN, also.
            return false;
        digits[i] = (uint64_t)at;
        if (digit_value(self, i, digits[i]) != x[i])
            return false;
    }
    return true;
}

static int compared(const uint64_t *a, const uint64_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

// Steps to the next combination, whose point is in self->x.
static void step(grid_searcher *self)
{
    for (size_t i = self->count; i-- > 0;) {
        bool counts = trp_dim_counts(self->problem->dims, i, self->x);
        if (counts && (double)(self->digits[i] + 1) < digit_count(self, i)) {
            self->digits[i]++;
            fill(self, self->digits, self->x);
            return;
        }
        self->digits[i] = 0;
    }
    self->over = true;
}

// Steps on until there is a combination that was not given out and may be tried.
static void settle(grid_searcher *self)
{
    size_t used = 0, passed = 0;
    fill(self, self->digits, self->x);
    while (!self->over && !self->passed) {
        const uint64_t *next = self->ahead + used * self->count;
        if (used < self->ahead_count && compared(next, self->digits, self->count) == 0)
            used++;
        else if (trp_searcher_allowed(self->problem, self->x))
            break;
        else
            self->passed = ++passed == PASSED_MAX;
        step(self);
    }
    if (used > 0) {
        self->ahead_count -= used;
        memmove(self->ahead, self->ahead + used * self->count,
                self->ahead_count * self->count * sizeof *self->ahead);
    }
}

static troupe_status grid_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    grid_searcher *self = (grid_searcher *)searcher;
    size_t room = problem->dim_count + 1; // Nothing is NULL where there are no dimensions.
    self->problem = problem;
    self->count = problem->dim_count;
    self->digits = trp_alloc(room * sizeof *self->digits);
    self->found = trp_alloc(room * sizeof *self->found);
    self->x = trp_alloc(room * sizeof *self->x);
    if (self->digits == NULL || self->found == NULL || self->x == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a grid");
    settle(self);
    return TROUPE_OK;
}

static troupe_status grid_suggest(troupe_searcher *searcher, int number, double *x)
{
    grid_searcher *self = (grid_searcher *)searcher;
    (void)number;
    if (self->over)
        return troupe_fail(TROUPE_END, "every combination of the grid was given out");
    if (self->passed)
        return troupe_fail(
            TROUPE_INVALID,
            "none of %d combinations of the grid that follow each other may be tried", PASSED_MAX);
    fill(self, self->digits, x);
    return TROUPE_OK;
}

static troupe_status grid_keep(grid_searcher *self, const uint64_t *digits)
{
    size_t at = self->ahead_count, width = self->count * sizeof *digits;
    int order = 1;
    while (at > 0 &&
           (order = compared(self->ahead + (at - 1) * self->count, digits, self->count)) > 0)
        at--;
    if (at > 0 && order == 0)
        return TROUPE_OK;
    if (self->ahead_count == self->ahead_room) {
        size_t room = self->ahead_room == 0 ? 16 : self->ahead_room * 2;
        uint64_t *grown = trp_realloc(self->ahead, room * width);
        if (grown == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a combination of a grid");
        self->ahead = grown;
        self->ahead_room = room;
    }
    uint64_t *place = self->ahead + at * self->count;
    memmove(place + self->count, place, (self->ahead_count - at) * width);
    memcpy(place, digits, width);
    self->ahead_count++;
    return TROUPE_OK;
}

static troupe_status grid_given(troupe_searcher *searcher, int number, const double *x)
{
    grid_searcher *self = (grid_searcher *)searcher;
    (void)number;
    if (self->over || self->passed || !locate(self, x, self->found))
        return TROUPE_OK;
    int order = compared(self->found, self->digits, self->count);
    if (order > 0)
        return grid_keep(self, self->found);
    if (order == 0) {
        fill(self, self->digits, self->x);
        step(self);
        settle(self);
    }
    return TROUPE_OK;
}

static void grid_destroy(troupe_searcher *searcher)
{
    grid_searcher *self = (grid_searcher *)searcher;
    trp_free(self->digits);
    trp_free(self->found);
    trp_free(self->x);
    trp_free(self->ahead);
    trp_free(self);
}

int trp_grid_points(const troupe_searcher *searcher)
{
    return searcher->destroy == grid_destroy ? ((const grid_searcher *)searcher)->points : 0;
}

troupe_searcher *troupe_search_grid(int points)
{
    if (points < 0) {
        (void)troupe_fail(TROUPE_INVALID, "a grid of %d points a range; it has 1 or more", points);
        return trp_searcher_refused();
    }
    grid_searcher *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = "grid",
                                   .begin = grid_begin,
                                   .suggest = grid_suggest,
                                   .given = grid_given,
                                   .destroy = grid_destroy,
                                   .covers_grids = true};
    self->points = points == 0 ? 3 : points;
    return &self->base;
}
