// sobol.c: see tune/search/sobol.h; and the searcher that gives these points.
#include <tune/search/sobol.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>

// A primitive polynomial over the field of two elements, x^degree + ... + 1, whose coefficients
// between these two are the bits of `between`, and the first odd numbers of its recurrence.
typedef struct sobol_row {
    uint8_t degree, between;
    uint16_t first[10];
} sobol_row;

// Of dimension 2 and up: the table new-joe-kuo-6.21201 of Joe and Kuo ("Constructing Sobol
// sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30, 2008).
// clang-format off
static const sobol_row sobol_rows[TRP_SOBOL_DIMS - 1] = {
    {1, 0, {1}}, {2, 1, {1, 3}}, {3, 1, {1, 3, 1}}, {3, 2, {1, 1, 1}}, {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}}, {5, 2, {1, 1, 5, 5, 17}}, {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}}, {5, 11, {1, 1, 5, 1, 1}}, {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}}, {6, 1, {1, 3, 3, 9, 7, 49}}, {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}}, {6, 19, {1, 1, 1, 15, 7, 5}}, {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}}, {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}}, {7, 7, {1, 1, 3, 13, 7, 35, 63}},
    {7, 8, {1, 3, 5, 9, 1, 25, 53}}, {7, 14, {1, 3, 1, 13, 9, 35, 107}},
    {7, 19, {1, 3, 1, 5, 27, 61, 31}}, {7, 21, {1, 1, 5, 11, 19, 41, 61}},
    {7, 28, {1, 3, 5, 3, 3, 13, 69}}, {7, 31, {1, 1, 7, 13, 1, 19, 1}},
    {7, 32, {1, 3, 7, 5, 13, 19, 59}}, {7, 37, {1, 1, 3, 9, 25, 29, 41}},
    {7, 41, {1, 3, 5, 13, 23, 1, 55}}, {7, 42, {1, 3, 7, 3, 13, 59, 17}},
    {7, 50, {1, 3, 1, 3, 5, 53, 69}}, {7, 55, {1, 1, 5, 5, 23, 33, 13}},
    {7, 56, {1, 1, 7, 7, 1, 61, 123}}, {7, 59, {1, 1, 7, 9, 13, 61, 49}},
    {7, 62, {1, 3, 3, 5, 3, 55, 33}}, {8, 14, {1, 3, 1, 15, 31, 13, 49, 245}},
    {8, 21, {1, 3, 5, 15, 31, 59, 63, 97}}, {8, 22, {1, 3, 1, 11, 11, 11, 77, 249}},
    {8, 38, {1, 3, 1, 11, 27, 43, 71, 9}}, {8, 47, {1, 1, 7, 15, 21, 11, 81, 45}},
    {8, 49, {1, 3, 7, 3, 25, 31, 65, 79}}, {8, 50, {1, 3, 1, 1, 19, 11, 3, 205}},
    {8, 52, {1, 1, 5, 9, 19, 21, 29, 157}}, {8, 56, {1, 3, 7, 11, 1, 33, 89, 185}},
    {8, 67, {1, 3, 3, 3, 15, 9, 79, 71}}, {8, 70, {1, 3, 7, 11, 15, 39, 119, 27}},
    {8, 84, {1, 1, 3, 1, 11, 31, 97, 225}}, {8, 97, {1, 1, 1, 3, 23, 43, 57, 177}},
    {8, 103, {1, 3, 7, 7, 17, 17, 37, 71}}, {8, 115, {1, 3, 1, 5, 27, 63, 123, 213}},
    {8, 122, {1, 1, 3, 5, 11, 43, 53, 133}}, {9, 8, {1, 3, 5, 5, 29, 17, 47, 173, 479}},
    {9, 13, {1, 3, 3, 11, 3, 1, 109, 9, 69}}, {9, 16, {1, 1, 1, 5, 17, 39, 23, 5, 343}},
    {9, 22, {1, 3, 1, 5, 25, 15, 31, 103, 499}}, {9, 25, {1, 1, 1, 11, 11, 17, 63, 105, 183}},
    {9, 44, {1, 1, 5, 11, 9, 29, 97, 231, 363}}, {9, 47, {1, 1, 5, 15, 19, 45, 41, 7, 383}},
    {9, 52, {1, 3, 7, 7, 31, 19, 83, 137, 221}}, {9, 55, {1, 1, 1, 3, 23, 15, 111, 223, 83}},
    {9, 59, {1, 1, 5, 13, 31, 15, 55, 25, 161}}, {9, 62, {1, 1, 3, 13, 25, 47, 39, 87, 257}},
};
// clang-format on

void trp_sobol_open(trp_sobol *sobol, size_t dim)
{
    uint32_t *v = sobol->directions;
    if (dim == 0) {
        for (unsigned i = 0; i < TRP_SOBOL_BITS; i++)
            v[i] = 1u << (31 - i);
        return;
    }
    const sobol_row *row = &sobol_rows[dim - 1];
    unsigned s = row->degree;
    for (unsigned i = 0; i < TRP_SOBOL_BITS; i++) {
        if (i < s) {
            v[i] = (uint32_t)row->first[i] << (31 - i);
            continue;
        }
        v[i] = v[i - s] ^ (v[i - s] >> s);
        for (unsigned k = 1; k < s; k++)
            if (row->between >> (s - 1 - k) & 1)
                v[i] ^= v[i - k];
    }
}

uint32_t trp_sobol_at(const trp_sobol *sobol, uint32_t index)
{
    uint32_t x = 0;
    for (unsigned i = 0; index != 0; i++, index >>= 1)
        if (index & 1)
            x ^= sobol->directions[i];
    return x;
}

static uint32_t reversed(uint32_t x)
{
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    return (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
}

// Burley, "Practical Hash-based Owen Scrambling", JCGT 9(4), 2020, section 3: of the reversed bits,
// a hash in which each bit depends on lower ones alone is Owen's scrambling.
uint32_t trp_sobol_scrambled(uint32_t coordinate, uint32_t seed)
{
    uint32_t x = reversed(coordinate) + seed;
    x ^= x * 0x6c50b47cu;
    x ^= x * 0xb82f1e52u;
    x ^= x * 0xc7afe638u;
    x ^= x * 0x8d22f6e6u;
    return reversed(x);
}

double trp_sobol_unit(uint32_t coordinate)
{
    return (coordinate + 0.5) * 0x1p-32;
}

uint32_t trp_sobol_seed(uint64_t seed, size_t dim)
{
    uint64_t state = seed + dim;
    state = trp_random_split(&state); // A sum alone would give neighbouring seeds shared ones.
    return (uint32_t)(trp_random_split(&state) >> 32);
}

// ---- the searcher

typedef struct sobol_searcher {
    troupe_searcher base;
    const troupe_problem *problem;
    trp_sobol *dims;
} sobol_searcher;

static troupe_status sobol_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    sobol_searcher *self = (sobol_searcher *)searcher;
    if (problem->dim_count > TRP_SOBOL_DIMS)
        return troupe_fail(TROUPE_UNSUPPORTED, "the space has %zu dimensions; Sobol's has %d",
                           problem->dim_count, TRP_SOBOL_DIMS);
    self->problem = problem;
    self->dims = trp_alloc((problem->dim_count + 1) * sizeof *self->dims);
    if (self->dims == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for Sobol's direction numbers");
    for (size_t i = 0; i < problem->dim_count; i++)
        trp_sobol_open(&self->dims[i], i);
    return TROUPE_OK;
}

static troupe_status sobol_suggest(troupe_searcher *searcher, int number, double *x)
{
    sobol_searcher *self = (sobol_searcher *)searcher;
    const troupe_problem *problem = self->problem;
    for (size_t i = 0; i < problem->dim_count; i++) {
        uint32_t at = trp_sobol_at(&self->dims[i], (uint32_t)number);
        at = trp_sobol_scrambled(at, trp_sobol_seed(problem->seed, i));
        x[i] = trp_dim_counts(problem->dims, i, x)
                   ? trp_dim_at(&problem->dims[i], trp_sobol_unit(at))
                   : (double)NAN;
    }
    if (!trp_searcher_allowed(problem, x))
        trp_searcher_draw(problem, number, x);
    return TROUPE_OK;
}

static void sobol_destroy(troupe_searcher *searcher)
{
    sobol_searcher *self = (sobol_searcher *)searcher;
    trp_free(self->dims);
    trp_free(self);
}

troupe_searcher *troupe_search_sobol(void)
{
    sobol_searcher *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = "Sobol",
                                   .begin = sobol_begin,
                                   .suggest = sobol_suggest,
                                   .destroy = sobol_destroy};
    return &self->base;
}
