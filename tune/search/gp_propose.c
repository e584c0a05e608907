// gp_propose.c: see tune/search/gp_propose.h.
#include <tune/search/gp_propose.h>

#include <math.h>
#include <runtime/base/arena.h>
#include <string.h>
#include <tune/search/gp_improvement.h>
#include <tune/search/gp_minimize.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>

enum {
    CANDIDATES = 2048,
    STARTS = 10,      // Of searches from the best of them.
    ROUNDS = 8,       // Of such a search: numbers together, then each choice and whole
                      // number.
    EVALUATIONS = 40, // For the numbers, a round.
    SCANNED = 16,     // Values of a dimension that are tried one by one; of more only some.
};

typedef struct proposal {
    const trp_gp_process *process;
    const trp_gp_features *features;
    const troupe_dim *dims;
    size_t dim_count;
    double least;
    double *candidates,
        *worths; // Points, and the logarithms of their improvements.
    size_t candidate_count;
    double *point, *slope, *scratch; // Features, and room for predictions.
    size_t *free, free_count;        // The dimensions that a search goes downhill in.
    double *low, *high, *at;         // Bounds and places of these.
    double *changed, *round;         // Points.
    bool short_of_memory;
} proposal;

double trp_gp_log_improvement(const trp_gp_process *process, double least, const double *features,
                              double *slope, double *scratch)
{
    size_t count = process->feature_count;
    double mean, variance, by_z, *by_variance = slope == NULL ? NULL : scratch, *room = scratch;
    trp_gp_process_predict(process, features, &mean, &variance, slope, by_variance,
                           room + (slope == NULL ? 0 : count));
    double deviation = sqrt(variance), z = (least - mean) / deviation;
    double worth = log(deviation) + trp_log_h(z, &by_z);
    for (size_t f = 0; slope != NULL && f < count; f++) {
        double by_deviation = by_variance[f] / (2 * deviation);
        slope[f] = (by_deviation - by_z * (slope[f] + z * by_deviation)) / deviation;
    }
    return worth;
}

static double worth_of(const proposal *p, const double *x)
{
    trp_gp_features_of(p->features, x, p->point);
    return trp_gp_log_improvement(p->process, p->least, p->point, NULL, p->scratch);
}

// ---- numbers

static double downhill(void *user, const double *at, double *gradient)
{
    proposal *p = user;
    for (size_t i = 0; i < p->free_count; i++)
        p->point[p->features->first[p->free[i]]] = at[i];
    double worth = trp_gp_log_improvement(p->process, p->least, p->point, p->slope, p->scratch);
    for (size_t i = 0; i < p->free_count; i++)
        gradient[i] = -p->slope[p->features->first[p->free[i]]];
    return -worth;
}

// Moves the numbers of a point that are continua, together.
static double move_numbers(proposal *p, double *x, double worth)
{
    double value;
    p->free_count = 0;
    trp_gp_features_of(p->features, x, p->point);
    for (size_t i = 0; i < p->dim_count; i++) {
        if (trp_dim_values(&p->dims[i]) > 0 || !trp_dim_counts(p->dims, i, x))
            continue;
        p->at[p->free_count] = p->point[p->features->first[i]];
        p->free[p->free_count++] = i;
    }
    if (p->free_count == 0)
        return worth;
    if (trp_gp_minimize(downhill, p, p->free_count, p->low, p->high, 1e-4, EVALUATIONS, p->at,
                        &value) != TROUPE_OK) {
        p->short_of_memory = true;
        return worth;
    }
    memcpy(p->changed, x, p->dim_count * sizeof *x);
    for (size_t i = 0; i < p->free_count; i++)
        p->changed[p->free[i]] = trp_dim_at(&p->dims[p->free[i]], p->at[i]);
    double moved = worth_of(p, p->changed);
    if (!(moved > worth))
        return worth;
    memcpy(x, p->changed, p->dim_count * sizeof *x);
    return moved;
}

// ---- choices and whole numbers

// Tries another value of a dimension, with those that depend on it in the
// middle where they begin to count, and keeps it if it is better.
static double try_value(proposal *p, size_t dim, double value, double *x, double worth)
{
    memcpy(p->changed, x, p->dim_count * sizeof *x);
    p->changed[dim] = value;
    trp_dims_snap(p->dims, p->dim_count, p->changed);
    double got = worth_of(p, p->changed);
    if (!(got > worth))
        return worth;
    memcpy(x, p->changed, p->dim_count * sizeof *x);
    return got;
}

static double move_value(proposal *p, size_t index, double *x, double worth)
{
    const troupe_dim *dim = &p->dims[index];
    double values = trp_dim_values(dim), step = dim->step > 0 ? dim->step : 1;
    if (dim->kind == TROUPE_DIM_INTEGER)
        step = fmax(step, 1);
    if (values <= SCANNED || dim->kind == TROUPE_DIM_CHOICE) {
        for (int k = 0; k < (int)values; k++) {
            if (dim->low + k * step != x[index])
                worth = try_value(p, index, dim->low + k * step, x, worth);
        }
        return worth;
    }
    double from = x[index], far = step; // Both ways, ever further.
    while (far <= dim->high - dim->low) {
        if (from + far <= dim->high)
            worth = try_value(p, index, from + far, x, worth);
        if (from - far >= dim->low)
            worth = try_value(p, index, from - far, x, worth);
        far *= 2;
    }
    return worth;
}

// Improves a point until nothing near it is better.
static double climb(proposal *p, double *x, double worth)
{
    for (int i = 0; i < ROUNDS; i++) {
        double before = worth;
        bool discrete = false;
        worth = move_numbers(p, x, worth);
        for (size_t k = 0; k < p->dim_count; k++) {
            if (trp_dim_values(&p->dims[k]) > 1 && trp_dim_counts(p->dims, k, x)) {
                worth = move_value(p, k, x, worth);
                discrete = true;
            }
        }
        if (!discrete || worth - before < 1e-4)
            break;
    }
    return worth;
}

// ---- candidates

// Whether the point is none that the process has, and may be tried.
static bool is_open(const proposal *p, const double *x)
{
    trp_gp_features_of(p->features, x, p->point);
    size_t size = p->process->feature_count;
    for (size_t i = 0; i < p->process->count; i++) {
        if (memcmp(p->point, p->process->points + i * size, size * sizeof *p->point) == 0)
            return false;
    }
    return trp_searcher_allowed(p->features->problem, x);
}

static void draw_candidates(proposal *p, trp_random *random, double *lanes, double *room)
{
    enum { LANES = TRP_GP_LANES };
    size_t size = p->process->feature_count;
    double mean[LANES], variance[LANES], slope;
    for (int i = 0; i < CANDIDATES; i++) {
        double *x = p->candidates + p->candidate_count * p->dim_count;
        trp_dims_draw(p->dims, p->dim_count, random, x);
        p->candidate_count += is_open(p, x);
    }
    for (size_t from = 0; from < p->candidate_count; from += LANES) {
        for (size_t lane = 0; lane < LANES && from + lane < p->candidate_count; lane++)
            trp_gp_features_of(p->features, p->candidates + (from + lane) * p->dim_count,
                               lanes + lane * size);
        trp_gp_process_predict_lanes(p->process, lanes, mean, variance, room);
        for (size_t lane = 0; lane < LANES && from + lane < p->candidate_count; lane++) {
            double deviation = sqrt(variance[lane]);
            p->worths[from + lane] =
                log(deviation) + trp_log_h((p->least - mean[lane]) / deviation, &slope);
        }
    }
}

// The best candidate first, then others as often as they promise to improve;
// each once.
static size_t take_candidate(proposal *p, bool first, trp_random *random)
{
    size_t best = 0;
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < p->candidate_count; i++) {
        if (p->worths[i] > most) {
            most = p->worths[i];
            best = i;
        }
    }
    for (size_t i = 0; !first && i < p->candidate_count; i++)
        sum += exp(p->worths[i] - most);
    double left = trp_random_unit(random) * sum;
    for (size_t i = 0; !first && i < p->candidate_count; i++) {
        left -= exp(p->worths[i] - most);
        if (left < 0)
            return i;
    }
    return best;
}

static troupe_status allocate(proposal *p, trp_arena *arena, double **lanes, double **room)
{
    size_t d = p->dim_count, size = p->process->feature_count, n = p->process->count;
    double *numbers =
        trp_arena_alloc(arena, sizeof(double) * (CANDIDATES * (d + 1) + 6 * d +
                                                 (4 + TRP_GP_LANES) * (size + n + 1)));
    p->free = trp_arena_alloc(arena, (d + 1) * sizeof *p->free);
    if (numbers == NULL || p->free == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a suggestion");
    p->candidates = numbers;
    p->worths = p->candidates + CANDIDATES * d;
    p->low = p->worths + CANDIDATES;
    p->high = p->low + d;
    p->at = p->high + d;
    p->changed = p->at + d;
    p->round = p->changed + d;
    p->point = p->round + d;
    p->slope = p->point + size;
    p->scratch = p->slope + size; // 2 * (n + size)
    *lanes = p->scratch + 2 * (n + size);
    *room = *lanes + TRP_GP_LANES * size;
    for (size_t i = 0; i < d; i++)
        p->high[i] = nextafter(1, 0);
    return TROUPE_OK;
}

static troupe_status propose(proposal *p, trp_arena *arena, const double *best, trp_random *random,
                             double *x)
{
    double *lanes, *room, most = -INFINITY;
    TROUPE_TRY(allocate(p, arena, &lanes, &room));
    draw_candidates(p, random, lanes, room);
    for (int start = 0; start <= STARTS; start++) {
        double worth = -INFINITY;
        if (start == STARTS) {
            memcpy(p->round, best, p->dim_count * sizeof *best);
            worth = worth_of(p, p->round);
        } else {
            if (p->candidate_count == 0)
                continue;
            size_t at = take_candidate(p, start == 0, random);
            const double *candidate = p->candidates + at * p->dim_count;
            memcpy(p->round, candidate, p->dim_count * sizeof *candidate);
            worth = p->worths[at];
            p->worths[at] = -INFINITY;
            if (worth > most) { // It is open; what it leads to may not be.
                most = worth;
                memcpy(x, candidate, p->dim_count * sizeof *x);
            }
        }
        worth = climb(p, p->round, worth);
        if (worth > most && is_open(p, p->round)) {
            most = worth;
            memcpy(x, p->round, p->dim_count * sizeof *x);
        }
    }
    if (p->short_of_memory)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a suggestion");
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
