// grids.c: combinations of the rows of a grid, by number.
//
// Rows that hang on others of the grid make trees: of each choice of a row, the combinations are
// the product of those of the rows that count with it, so that a number is taken apart from the
// last row on without listing any combination.
#include <tune/space/space.h>

#include <math.h>
#include <tune/space/rows.h>

// Whether the row of a dimension begins a tree: what it hangs on, if anything, is not of the grid.
static bool is_root(const troupe_space *space, size_t index)
{
    const troupe_dim *dim = &space->dims[index];
    return dim->grid && (dim->parent < 0 || !space->dims[dim->parent].grid);
}

// Whether a dimension of the grid counts with a choice of another.
static bool counts_with(const troupe_space *space, size_t index, size_t parent, int choice)
{
    const troupe_dim *dim = &space->dims[index];
    return dim->grid && dim->parent == (int)parent && choice < 32 && (dim->when >> choice & 1) != 0;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t both;
    return __builtin_mul_overflow(a, b, &both) ? UINT64_MAX : both;
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    uint64_t both;
    return __builtin_add_overflow(a, b, &both) ? UINT64_MAX : both;
}

static uint64_t combinations_with(const troupe_space *space, size_t index, int choice)
{
    uint64_t count = 1;
    for (size_t i = index + 1; i < space->dim_count; i++)
        if (counts_with(space, i, index, choice))
            count = product(count, space->combinations[i]);
    return count;
}

troupe_status trp_space_count_grid(troupe_space *space)
{
    size_t size = (space->dim_count + 1) * sizeof *space->combinations;
    space->combinations = (uint64_t *)trp_arena_alloc(&space->arena, size);
    if (space->combinations == NULL)
        return trp_space_no_memory();
    for (size_t i = space->dim_count; i-- > 0;) { // What hangs on a dimension comes behind it.
        uint64_t sum = 0;
        for (int choice = 0; space->dims[i].grid && choice < space->dims[i].choices; choice++)
            sum = sum_of(sum, combinations_with(space, i, choice));
        space->combinations[i] = sum;
    }
    return TROUPE_OK;
}

uint64_t trp_space_combinations(const troupe_space *space)
{
    uint64_t count = 1;
    for (size_t i = 0; i < space->dim_count; i++)
        if (is_root(space, i))
            count = product(count, space->combinations[i]);
    return count;
}

static void set_tree(const troupe_space *space, size_t index, uint64_t number, double *x)
{
    int choice = 0;
    for (uint64_t with; number >= (with = combinations_with(space, index, choice)); choice++)
        number -= with;
    x[index] = choice;
    for (size_t i = space->dim_count; i-- > index + 1;) {
        if (!counts_with(space, i, index, choice))
            continue;
        uint64_t count = space->combinations[i];
        set_tree(space, i, number % count, x);
        number /= count;
    }
}

static uint64_t tree_of(const troupe_space *space, size_t index, const double *x)
{
    int choices = space->dims[index].choices;
    int choice = x[index] >= 0 && x[index] < choices ? (int)x[index] : 0;
    uint64_t number = 0, before = 0;
    for (int i = 0; i < choice; i++)
        before += combinations_with(space, index, i);
    for (size_t i = index + 1; i < space->dim_count; i++)
        if (counts_with(space, i, index, choice))
            number = number * space->combinations[i] + tree_of(space, i, x);
    return before + number;
}

uint64_t trp_space_combination_of(const troupe_space *space, const double *x)
{
    uint64_t number = 0;
    for (size_t i = 0; i < space->dim_count; i++)
        if (is_root(space, i))
            number = number * space->combinations[i] + tree_of(space, i, x);
    return number;
}

void trp_space_combination(const troupe_space *space, uint64_t index, double *x)
{
    for (size_t i = 0; i < space->dim_count; i++)
        if (space->dims[i].grid)
            x[i] = (double)NAN;
    for (size_t i = space->dim_count; i-- > 0;) {
        if (!is_root(space, i))
            continue;
        uint64_t count = space->combinations[i];
        set_tree(space, i, index % count, x);
        index /= count;
    }
}
