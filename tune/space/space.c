// space.c: opens a space of rows, and makes configs and options of its points.
#include <tune/space/space.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/type.h>
#include <string.h>
#include <tune/space/dims.h>
#include <tune/space/fields.h>
#include <tune/space/options.h>
#include <tune/space/ranges.h>
#include <tune/space/rows.h>

// ---- opening

static troupe_status take(const troupe_param *rows, size_t index, troupe_param *param)
{
    const troupe_param *given = (const troupe_param *)trp_row_at(rows, index);
    TROUPE_TRY(TRP_OPTIONS_TAKE("a row of a space", *param, given));
    return param->name != NULL && param->name[0] != '\0'
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID, "space[%zu]: it has no name", index);
}

static troupe_status name_row(troupe_status status, size_t index, const troupe_param *param)
{
    return status == TROUPE_OK || status == TROUPE_NO_MEMORY
               ? status
               : trp_error_prefix("space[%zu] (%.*s)", index, TRP_SPACE_NAME_MAX, param->name);
}

// A condition, and which row of the caller's it is.
typedef struct condition {
    size_t index;
    troupe_param param;
} condition;

// Adds the rows, and puts the conditions among them aside.
static troupe_status add_rows(troupe_space *space, const troupe_param *rows, size_t count,
                              condition *conditions, size_t *condition_count)
{
    for (size_t i = 0; i < count; i++) {
        troupe_param param;
        TROUPE_TRY(take(rows, i, &param));
        if (param.draw == TROUPE_DRAW_CONDITION)
            conditions[(*condition_count)++] = (condition){i, param};
        else
            TROUPE_TRY(name_row(trp_space_add(space, &param), i, &param));
    }
    return TROUPE_OK;
}

// In the order of the rows that they are on: one may hang on another. Those on no row, which are
// refused, come last.
static troupe_status add_conditions(troupe_space *space, const condition *conditions, size_t count)
{
    for (size_t row = 0; row <= space->count; row++) {
        const trp_space_row *on = row < space->count ? &space->rows[row] : NULL;
        for (size_t i = 0; i < count; i++) {
            const troupe_param *param = &conditions[i].param;
            bool here =
                on != NULL ? param->offset == on->offset && trp_space_is_option(param) == on->option
                           : !trp_space_has_row(space, param);
            if (here)
                TROUPE_TRY(
                    name_row(trp_space_add_condition(space, param), conditions[i].index, param));
        }
    }
    return TROUPE_OK;
}

static troupe_status add_all(troupe_space *space, const troupe_param *rows, size_t count)
{
    size_t condition_count = 0;
    condition *conditions = (condition *)trp_alloc((count + 1) * sizeof *conditions);
    if (conditions == NULL)
        return trp_space_no_memory();
    troupe_status status = add_rows(space, rows, count, conditions, &condition_count);
    if (status == TROUPE_OK)
        status = add_conditions(space, conditions, condition_count);
    trp_free(conditions);
    return status == TROUPE_OK ? trp_space_count_grid(space) : status;
}

static troupe_status copy_base(troupe_space *space, const void *base)
{
    void *own = trp_arena_alloc(&space->arena, space->type->size);
    if (own == NULL)
        return trp_space_no_memory();
    space->base = own;
    return trp_value_copy(space->type, base, &space->arena, own);
}

troupe_status troupe_space_open_as(const troupe_type *config, const troupe_param *rows,
                                   size_t count, const void *base, troupe_space **space)
{
    TRP_REQUIRE(space);
    *space = NULL;
    TRP_REQUIRE(config);
    TRP_REQUIRE_COUNT(count, sizeof *rows);
    if (config->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a type's table is of generation %u, this library reads generation %u",
                           config->abi, TROUPE_ABI);
    if (config->kind != TROUPE_KIND_RECORD)
        return troupe_fail(TROUPE_INVALID, "the config's type %s is not a TROUPE_STRUCT",
                           config->name);
    if (count > 0)
        TRP_REQUIRE(rows);
    if (count > TRP_SPACE_ROWS_MAX)
        return troupe_fail(TROUPE_INVALID, "the space has %zu rows, may have %d", count,
                           (int)TRP_SPACE_ROWS_MAX);
    troupe_space *made = trp_space_new(config, count);
    if (made == NULL)
        return trp_space_no_memory();
    troupe_status status = base != NULL ? copy_base(made, base) : TROUPE_OK;
    if (status == TROUPE_OK)
        status = add_all(made, rows, count);
    if (status != TROUPE_OK)
        troupe_space_free(&made);
    *space = made;
    return status;
}

void troupe_space_free(troupe_space **space)
{
    if (space == NULL || *space == NULL)
        return;
    trp_arena arena = (*space)->arena;
    trp_arena_clear(&arena);
    trp_free(*space);
    *space = NULL;
}

const troupe_dim *troupe_space_dims(const troupe_space *space, size_t *count)
{
    if (TRP_IS_NULL(space) || TRP_IS_NULL(count)) {
        (void)(space == NULL ? TRP_NULL(space) : TRP_NULL(count));
        return NULL;
    }
    *count = space->dim_count;
    return space->dims;
}

// ---- points

bool trp_space_counts(const trp_space_row *row, const double *x)
{
    if (row->parent < 0)
        return true;
    double chosen = x[row->parent];
    return chosen >= 0 && chosen < 32 && (row->when >> (unsigned)chosen & 1) != 0;
}

void trp_space_settle(const troupe_space *space, double *x)
{
    trp_dims_snap(space->dims, space->dim_count, x);
    for (size_t i = 0; i < space->dim_count; i++) {
        const trp_space_row *row = space->drawn[i];
        if (isnan(x[i]))
            continue;
        if (row->count > 0)
            x[i] = trp_row_first(row, (int)x[i]);
        else if (space->type != NULL)
            x[i] = trp_range_held(&space->dims[i], row->type, x[i]);
    }
}

void trp_space_complete(const troupe_space *space, trp_random *random, double *x)
{
    for (size_t i = 0; i < space->dim_count; i++) {
        double drawn = trp_dim_draw(&space->dims[i], random);
        if (!trp_dim_counts(space->dims, i, x))
            x[i] = (double)NAN;
        else if (isnan(x[i]))
            x[i] = drawn;
    }
    trp_space_settle(space, x);
}

// Puts what a row is at a point into the struct that has its field.
static void fill(const troupe_space *space, const trp_space_row *row, const double *x, void *whole)
{
    char *field = (char *)whole + row->offset;
    double value = row->dim >= 0 ? x[row->dim] : 0;
    if (!trp_space_counts(row, x) || isnan(value))
        return;
    if (row->count == 0)
        trp_field_store(row->type, field, trp_range_held(&space->dims[row->dim], row->type, value));
    else if (value >= 0 && value < (double)row->count)
        memcpy(field, row->values + (size_t)value * row->size, row->size);
}

void troupe_space_config(const troupe_space *space, const double *x, void *config)
{
    if (TRP_IS_NULL(space) || TRP_IS_NULL(x) || TRP_IS_NULL(config)) {
        (void)(space == NULL ? TRP_NULL(space) : x == NULL ? TRP_NULL(x) : TRP_NULL(config));
        return;
    }
    if (space->type == NULL)
        return;
    if (space->base != NULL)
        memcpy(config, space->base, space->type->size);
    else
        memset(config, 0, space->type->size);
    for (size_t i = 0; i < space->count; i++)
        if (!space->rows[i].option)
            fill(space, &space->rows[i], x, config);
}

void trp_space_options(const troupe_space *space, const double *x, troupe_train_options *options)
{
    for (size_t i = 0; i < space->count; i++)
        if (space->rows[i].option)
            fill(space, &space->rows[i], x, options);
}
