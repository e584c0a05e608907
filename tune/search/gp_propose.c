// gp_propose.c: see tune/search/gp_propose.h. Searches go on beside each other, since points are
// evaluated several at a time.
#include <tune/search/gp_propose.h>

#include <math.h>
#include <runtime/base/arena.h>
#include <string.h>
#include <tune/search/gp_improvement.h>
#include <tune/search/gp_minimize.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>

enum {
    LANES = TRP_GP_LANES,
    CANDIDATES = 2048,
    CLIMBS = 11,      // Searches: from the best of them, and one from the best trial.
    ROUNDS = 8,       // Of such a search: numbers together, then each choice and whole
                      // number.
    EVALUATIONS = 40, // For the numbers, a round.
    SCANNED = 16,     // Values of a dimension that are tried one by one; of more only some.
};

// A search from one point. `found` is better than that, if `found_worth` is.
typedef struct climb {
    double *x, worth;
    double *found, found_worth;
    bool goes_on;
    // The numbers that are moved together: their dimensions and places, and the features of x.
    size_t *free, free_count;
    double *places, *features;
    double *numbers;
    trp_descent descent;
} climb;

typedef struct proposal {
    const trp_gp_process *process;
    const trp_gp_features *features;
    const troupe_dim *dims;
    size_t dim_count;
    double least;
    double *candidates,
        *worths; // Points, and the logarithms of their improvements.
    size_t candidate_count;
    bool countable;                // The space has so few points that they come again.
    double *point, *gradient;      // Features, and what they are worth by dimensions.
    double *at, *slopes, *scratch; // Rows for lanes, and room for predictions.
    double *low, *high;            // Bounds of places.
    climb climbs[CLIMBS];
    size_t climb_count;
    // Points that wait until there are as many as lanes, and the climbs that they are of.
    double *tries;
    climb *tried_by[LANES];
    size_t try_count;
} proposal;

void trp_gp_log_improvements(const trp_gp_process *process, double least, const double *at,
                             double *worths, double *slopes, double *scratch)
{
    size_t rows = process->feature_count;
    double mean[LANES], variance[LANES], by_z[LANES], z[LANES];
    double *by_variance = slopes == NULL ? NULL : scratch + TRP_GP_SCRATCH(process->count);
    trp_gp_process_predict(process, at, mean, variance, slopes, by_variance, scratch);
    for (size_t lane = 0; lane < LANES; lane++) {
        double deviation = sqrt(variance[lane]);
        z[lane] = (least - mean[lane]) / deviation;
        worths[lane] = log(deviation) + trp_log_h(z[lane], &by_z[lane]);
    }
    for (size_t i = 0; slopes != NULL && i < rows * LANES; i++) {
        double deviation = sqrt(variance[i % LANES]), by = by_variance[i] / (2 * deviation);
        slopes[i] = (by - by_z[i % LANES] * (slopes[i] + z[i % LANES] * by)) / deviation;
    }
}

static void set_lane(proposal *p, size_t lane, const double *features)
{
    for (size_t f = 0; f < p->process->feature_count; f++)
        p->at[f * LANES + lane] = features[f];
}

// ---- points that are tried

// Evaluates those that wait.
static void try_all(proposal *p)
{
    double worths[LANES];
    if (p->try_count == 0)
        return;
    for (size_t lane = 0; lane < LANES; lane++) {
        size_t at = lane < p->try_count ? lane : 0;
        trp_gp_features_of(p->features, p->tries + at * p->dim_count, p->point);
        set_lane(p, lane, p->point);
    }
    trp_gp_log_improvements(p->process, p->least, p->at, worths, NULL, p->scratch);
    for (size_t lane = 0; lane < p->try_count; lane++) {
        climb *c = p->tried_by[lane];
        if (worths[lane] > c->found_worth) {
            c->found_worth = worths[lane];
            memcpy(c->found, p->tries + lane * p->dim_count, p->dim_count * sizeof *c->found);
        }
    }
    p->try_count = 0;
}

static void try_point(proposal *p, climb *c, const double *x)
{
    memcpy(p->tries + p->try_count * p->dim_count, x, p->dim_count * sizeof *x);
    p->tried_by[p->try_count++] = c;
    if (p->try_count == LANES)
        try_all(p);
}

// Evaluates what waits, and has each search go where it found something better.
static void move(proposal *p)
{
    try_all(p);
    for (size_t i = 0; i < p->climb_count; i++) {
        climb *c = &p->climbs[i];
        if (!(c->found_worth > c->worth))
            continue;
        c->worth = c->found_worth;
        memcpy(c->x, c->found, p->dim_count * sizeof *c->x);
    }
}

// ---- numbers

static bool begin_descent(proposal *p, climb *c)
{
    c->free_count = 0;
    trp_gp_features_of(p->features, c->x, c->features);
    for (size_t i = 0; i < p->dim_count; i++) {
        if (trp_dim_values(&p->dims[i]) > 0 || !trp_dim_counts(p->dims, i, c->x))
            continue;
        c->places[c->free_count] = c->features[p->features->first[i]];
        c->free[c->free_count++] = i;
    }
    if (c->free_count > 0)
        trp_descent_begin(&c->descent, c->free_count, p->low, p->high, 1e-4, EVALUATIONS, c->places,
                          c->numbers);
    return c->free_count > 0;
}

// A step of some descents; those that are over are left out.
static size_t step(proposal *p, climb **going, size_t count)
{
    double worths[LANES];
    size_t left = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        climb *c = going[lane < count ? lane : 0];
        for (size_t i = 0; i < c->free_count; i++)
            c->features[p->features->first[c->free[i]]] = c->descent.next[i];
        set_lane(p, lane, c->features);
    }
    trp_gp_log_improvements(p->process, p->least, p->at, worths, p->slopes, p->scratch);
    for (size_t lane = 0; lane < count; lane++) {
        climb *c = going[lane];
        for (size_t i = 0; i < c->free_count; i++)
            p->gradient[i] = -p->slopes[p->features->first[c->free[i]] * LANES + lane];
        if (trp_descent_tell(&c->descent, -worths[lane], p->gradient))
            going[left++] = c;
    }
    return left;
}

// Moves the numbers of points that are continua, together.
static void move_numbers(proposal *p)
{
    climb *going[CLIMBS], *moved[CLIMBS];
    size_t count = 0;
    for (size_t i = 0; i < p->climb_count; i++) {
        climb *c = &p->climbs[i];
        if (c->goes_on && begin_descent(p, c))
            going[count++] = c;
    }
    size_t all = count;
    memcpy(moved, going, count * sizeof(climb *));
    while (count > 0) {
        size_t left = 0;
        for (size_t from = 0; from < count; from += LANES) {
            size_t some = count - from < LANES ? count - from : LANES;
            some = step(p, going + from, some);
            memmove(going + left, going + from, some * sizeof(climb *));
            left += some;
        }
        count = left;
    }
    for (size_t i = 0; i < all; i++) {
        climb *c = moved[i];
        memcpy(c->numbers, c->x, p->dim_count * sizeof *c->x);
        for (size_t k = 0; k < c->free_count; k++)
            c->numbers[c->free[k]] = trp_dim_at(&p->dims[c->free[k]], c->places[k]);
        try_point(p, c, c->numbers);
    }
    move(p);
}

// ---- choices and whole numbers

// Tries another value of a dimension, with those that depend on it in the
// middle where they begin to count.
static void try_value(proposal *p, climb *c, size_t dim, double value)
{
    double *changed = c->numbers;
    memcpy(changed, c->x, p->dim_count * sizeof *changed);
    changed[dim] = value;
    trp_dims_snap(p->dims, p->dim_count, changed);
    try_point(p, c, changed);
}

static void try_values(proposal *p, climb *c, size_t index)
{
    const troupe_dim *dim = &p->dims[index];
    double values = trp_dim_values(dim), step = dim->step > 0 ? dim->step : 1;
    if (dim->kind == TROUPE_DIM_INTEGER)
        step = fmax(step, 1);
    if (values <= SCANNED || dim->kind == TROUPE_DIM_CHOICE) {
        for (int k = 0; k < (int)values; k++) {
            if (dim->low + k * step != c->x[index])
                try_value(p, c, index, dim->low + k * step);
        }
        return;
    }
    double from = c->x[index], far = step; // Both ways, ever further.
    while (far <= dim->high - dim->low) {
        if (from + far <= dim->high)
            try_value(p, c, index, from + far);
        if (from - far >= dim->low)
            try_value(p, c, index, from - far);
        far *= 2;
    }
}

// Improves points until nothing near them is better.
static void climb_all(proposal *p)
{
    size_t count = p->climb_count;
    for (int round = 0; round < ROUNDS && count > 0; round++) {
        double before[CLIMBS];
        bool discrete[CLIMBS] = {false};
        for (size_t i = 0; i < p->climb_count; i++)
            before[i] = p->climbs[i].worth;
        move_numbers(p);
        for (size_t k = 0; k < p->dim_count; k++) {
            for (size_t i = 0; i < p->climb_count; i++) {
                climb *c = &p->climbs[i];
                if (c->goes_on && trp_dim_values(&p->dims[k]) > 1 &&
                    trp_dim_counts(p->dims, k, c->x)) {
                    try_values(p, c, k);
                    discrete[i] = true;
                }
            }
            move(p);
        }
        count = 0;
        for (size_t i = 0; i < p->climb_count; i++) {
            climb *c = &p->climbs[i];
            c->goes_on = c->goes_on && discrete[i] && !(c->worth - before[i] < 1e-4);
            count += c->goes_on;
        }
    }
}

// ---- candidates

// Whether the process has the point.
static bool is_tried(const proposal *p, const double *x)
{
    trp_gp_features_of(p->features, x, p->point);
    size_t size = p->process->feature_count;
    for (size_t i = 0; i < p->process->count; i++) {
        if (memcmp(p->point, p->process->points + i * size, size * sizeof *p->point) == 0)
            return true;
    }
    return false;
}

static void draw_candidates(proposal *p, trp_random *random)
{
    double worths[LANES];
    for (int i = 0; i < CANDIDATES; i++) {
        double *x = p->candidates + p->candidate_count * p->dim_count;
        trp_dims_draw(p->dims, p->dim_count, random, x);
        p->candidate_count +=
            trp_searcher_allowed(p->features->problem, x) && !(p->countable && is_tried(p, x));
    }
    for (size_t from = 0; from < p->candidate_count; from += LANES) {
        size_t count = p->candidate_count - from < LANES ? p->candidate_count - from : LANES;
        for (size_t lane = 0; lane < LANES; lane++) {
            size_t at = from + (lane < count ? lane : 0);
            trp_gp_features_of(p->features, p->candidates + at * p->dim_count, p->point);
            set_lane(p, lane, p->point);
        }
        trp_gp_log_improvements(p->process, p->least, p->at, worths, NULL, p->scratch);
        memcpy(p->worths + from, worths, count * sizeof *worths);
    }
}

// The best candidate first, then others as often as they promise to improve; each once.
static size_t choose_candidate(const proposal *p, bool first, trp_random *random)
{
    size_t best = 0;
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < p->candidate_count; i++) {
        if (p->worths[i] > most) {
            most = p->worths[i];
            best = i;
        }
    }
    if (first || !isfinite(most))
        return best;
    for (size_t i = 0; i < p->candidate_count; i++)
        sum += exp(p->worths[i] - most);
    double left = trp_random_unit(random) * sum;
    for (size_t i = 0; i < p->candidate_count; i++) {
        left -= exp(p->worths[i] - most);
        if (left < 0)
            return i;
    }
    return best;
}

// Has a search begin at a candidate that was not tried. False: there is no more.
static bool take_candidate(proposal *p, trp_random *random)
{
    for (size_t k = 0; k < p->candidate_count; k++) {
        size_t at = choose_candidate(p, p->climb_count == 0, random);
        const double *candidate = p->candidates + at * p->dim_count;
        double worth = p->worths[at];
        if (!isfinite(worth))
            return false;
        p->worths[at] = -INFINITY;
        if (is_tried(p, candidate))
            continue;
        climb *c = &p->climbs[p->climb_count++];
        c->worth = c->found_worth = worth;
        memcpy(c->x, candidate, p->dim_count * sizeof *candidate);
        return true;
    }
    return false;
}

static troupe_status allocate(proposal *p, trp_arena *arena)
{
    size_t d = p->dim_count, size = p->process->feature_count, n = p->process->count;
    size_t each = 3 * d + size + TRP_DESCENT_NUMBERS(d);
    size_t count = CANDIDATES * (d + 1) + 3 * d + size + LANES * (d + 3 * size) +
                   TRP_GP_SCRATCH(n) + CLIMBS * each;
    double *numbers = trp_arena_alloc(arena, (count + 1) * sizeof *numbers);
    size_t *dims = trp_arena_alloc(arena, (CLIMBS * d + 1) * sizeof *dims);
    if (numbers == NULL || dims == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a suggestion");
    p->candidates = numbers;
    p->worths = p->candidates + CANDIDATES * d;
    p->low = p->worths + CANDIDATES;
    p->high = p->low + d;
    p->gradient = p->high + d;
    p->point = p->gradient + d;
    p->tries = p->point + size;
    p->at = p->tries + LANES * d;
    p->slopes = p->at + LANES * size;
    p->scratch = p->slopes + LANES * size; // And a row for each feature.
    numbers = p->scratch + TRP_GP_SCRATCH(n) + LANES * size;
    for (size_t i = 0; i < CLIMBS; i++, numbers += each) {
        p->climbs[i] = (climb){.goes_on = true, .x = numbers, .free = dims + i * d};
        p->climbs[i].found = numbers + d;
        p->climbs[i].places = numbers + 2 * d;
        p->climbs[i].features = numbers + 3 * d;
        p->climbs[i].numbers = numbers + 3 * d + size;
    }
    p->countable = true;
    for (size_t i = 0; i < d; i++) {
        p->high[i] = nextafter(1, 0);
        p->countable = p->countable && trp_dim_values(&p->dims[i]) > 0;
    }
    return TROUPE_OK;
}

static troupe_status propose(proposal *p, trp_arena *arena, const double *best, trp_random *random,
                             double *x)
{
    double most = -INFINITY;
    TROUPE_TRY(allocate(p, arena));
    draw_candidates(p, random);
    while (p->climb_count < CLIMBS - 1 && take_candidate(p, random))
        ;
    if (p->climb_count > 0) { // It is open; what it leads to may not be.
        most = p->climbs[0].worth;
        memcpy(x, p->climbs[0].x, p->dim_count * sizeof *x);
    }
    climb *last = &p->climbs[p->climb_count++];
    last->worth = last->found_worth = -INFINITY;
    memcpy(last->x, best, p->dim_count * sizeof *best);
    try_point(p, last, best);
    move(p);
    climb_all(p);
    for (size_t i = 0; i < p->climb_count; i++) {
        const climb *c = &p->climbs[i];
        if (c->worth > most && !is_tried(p, c->x) &&
            trp_searcher_allowed(p->features->problem, c->x)) {
            most = c->worth;
            memcpy(x, c->x, p->dim_count * sizeof *x);
        }
    }
    return isfinite(most) ? TROUPE_OK : TROUPE_END;
}

troupe_status trp_gp_propose(const trp_gp_process *process, const trp_gp_features *features,
                             double least, const double *best, trp_random *random, double *x)
{
    trp_arena arena = {NULL};
    proposal p = {.process = process,
                  .features = features,
                  .dims = features->problem->dims,
                  .dim_count = features->problem->dim_count,
                  .least = least};
    troupe_status status = propose(&p, &arena, best, random, x);
    trp_arena_clear(&arena);
    return status;
}
