// draws.c: see tune/space/draws.h.
#include <tune/space/draws.h>

#include <math.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <tune/space/dims.h>
#include <tune/space/fields.h>

troupe_status trp_space_open(trp_space *space, const troupe_type *type, const troupe_param *params,
                             size_t count, const void *base)
{
    *space = (trp_space){0};
    TROUPE_TRY(troupe_space_open_as(type, params, count, base, &space->of));
    if (trp_space_has_options(space->of)) {
        troupe_space_free(&space->of);
        return troupe_fail(TROUPE_UNSUPPORTED, "a sweep does not draw options of the run");
    }
    space->x = (double *)trp_alloc((space->of->dim_count + 1) * sizeof *space->x);
    if (space->x != NULL)
        return TROUPE_OK;
    troupe_space_free(&space->of);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a space of %zu rows", count);
}

void trp_space_close(trp_space *space)
{
    troupe_space_free(&space->of);
    trp_free(space->x);
    space->x = NULL;
}

static void give(const trp_space *space, void *config)
{
    trp_space_settle(space->of, space->x);
    troupe_space_config(space->of, space->x, config);
}

void trp_space_draw(const trp_space *space, trp_random *random, void *config)
{
    trp_dims_draw(space->of->dims, space->of->dim_count, random, space->x);
    give(space, config);
}

static uint64_t points_of(const troupe_dim *dim, int points)
{
    double values = trp_dim_values(dim);
    return values > 0 ? (uint64_t)values : (uint64_t)points;
}

uint64_t trp_space_grid_size(const trp_space *space, int points)
{
    uint64_t size = 1;
    for (size_t i = 0; i < space->of->dim_count; i++)
        if (__builtin_mul_overflow(size, points_of(&space->of->dims[i], points), &size))
            return UINT64_MAX;
    return size;
}

void trp_space_grid(const trp_space *space, int points, uint64_t index, void *config)
{
    trp_assert(points > 0);
    for (size_t i = space->of->dim_count; i-- > 0;) {
        const troupe_dim *dim = &space->of->dims[i];
        uint64_t count = points_of(dim, points), at = index % count;
        index /= count;
        if (dim->kind == TROUPE_DIM_CHOICE)
            space->x[i] = (double)at;
        else if (trp_dim_values(dim) > 0)
            space->x[i] = dim->low + (double)at * fmax(dim->step, dim->kind == TROUPE_DIM_INTEGER);
        else // The middle of one of `points` equal parts.
            space->x[i] = trp_dim_at(dim, ((double)at + 0.5) / points);
    }
    give(space, config);
}

double trp_space_value(const trp_space_row *row, const void *config)
{
    const char *field = (const char *)config + row->offset;
    if (row->held->fields[0].count == 0 && trp_field_is_number(row->type))
        return trp_field_load(row->type, field);
    for (size_t i = 0; i < row->count; i++)
        if (memcmp(field, row->values + i * row->size, row->size) == 0)
            return (double)i;
    return (double)NAN;
}
