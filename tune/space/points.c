// points.c: points as JSON, and configs and JSON as points.
#include <tune/space/space.h>

#include <float.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/pack.h>
#include <stdio.h>
#include <string.h>
#include <tune/space/dims.h>
#include <tune/space/fields.h>
#include <tune/space/ranges.h>
#include <tune/space/rows.h>

// ---- points as JSON

static void write_row(const troupe_space *space, const trp_space_row *row, const double *x,
                      trp_buffer *out)
{
    double value = row->dim >= 0 ? x[row->dim] : 0;
    if (row->count > 0) {
        trp_json text = row->texts[(size_t)fmin(fmax(value, 0), (double)row->count - 1)];
        trp_buffer_append(out, text.at, text.size);
    } else if (space->type == NULL) {
        trp_json_number(out, value);
    } else {
        double room = 0; // As large as any number.
        trp_field_store(row->type, &room, value);
        trp_json_value(out, row->type, &room);
    }
}

static bool is_there(const trp_space_row *row, const double *x)
{
    return trp_space_counts(row, x) && (row->dim < 0 || !isnan(x[row->dim]));
}

void trp_space_write_point(const troupe_space *space, const double *x, trp_buffer *out)
{
    bool first = true;
    trp_buffer_append(out, "{", 1);
    for (size_t i = 0; i < space->count; i++) {
        const trp_space_row *row = &space->rows[i];
        if (!is_there(row, x))
            continue;
        trp_buffer_append(out, ", ", first ? 0 : 2);
        trp_json_text(out, row->name);
        trp_buffer_append(out, ": ", 2);
        write_row(space, row, x, out);
        first = false;
    }
    trp_buffer_append(out, "}", 1);
}

const char *troupe_space_json(const troupe_space *space, const double *x)
{
    if (TRP_IS_NULL(space) || TRP_IS_NULL(x)) {
        (void)(space == NULL ? TRP_NULL(space) : TRP_NULL(x));
        return NULL;
    }
    trp_buffer out = {0};
    trp_space_write_point(space, x, &out);
    char *text = out.failed ? NULL : (char *)troupe_arena_alloc(out.size + 1);
    if (text != NULL)
        memcpy(text, out.data, out.size);
    else
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a point as JSON");
    trp_buffer_free(&out);
    return text;
}

// ---- points of configs and of JSON

// The coordinate of a number; false: the dimension does not have it. What was computed in another
// way than here may differ in its last digits.
static bool find_number(const troupe_space *space, const trp_space_row *row, double value,
                        double *coordinate)
{
    const troupe_dim *dim = &space->dims[row->dim];
    bool single = row->type != NULL && row->type->kind == TROUPE_KIND_FLOAT &&
                  row->type->size == sizeof(float);
    if (single && fabs(value) <= (double)FLT_MAX)
        value = (double)(float)value;
    *coordinate = trp_dim_snap(dim, value);
    if (space->type != NULL)
        *coordinate = trp_range_held(dim, row->type, *coordinate);
    double near = (single ? 4 * (double)FLT_EPSILON : 8 * DBL_EPSILON) *
                  fmax(fabs(value), fmax(fabs(dim->low), dim->step));
    bool exact = dim->kind == TROUPE_DIM_INTEGER || (dim->step == 0 && !single);
    return fabs(*coordinate - value) <= (exact ? 0 : near);
}

static troupe_status no_number(const trp_space_row *row, const troupe_dim *dim, double value)
{
    char step[48] = "";
    bool open = dim->kind == TROUPE_DIM_REAL && dim->step == 0 && !(dim->deviation > 0);
    if (dim->step > 0 && (dim->kind == TROUPE_DIM_REAL || dim->step > 1))
        snprintf(step, sizeof step, " in steps of %.17g", dim->step);
    return troupe_fail(TROUPE_INVALID, "%s is %.17g, and the space has it from %.17g to %s%.17g%s",
                       row->name, value, dim->low, open ? "below " : "", dim->high, step);
}

troupe_status trp_space_point(const troupe_space *space, const void *config, double *x)
{
    for (size_t i = 0; i < space->dim_count; i++) {
        const trp_space_row *row = space->drawn[i];
        const char *field = (const char *)config + row->offset;
        x[i] = (double)NAN;
        if (row->option || !trp_dim_counts(space->dims, i, x))
            continue;
        if (row->count == 0) {
            double value = trp_field_load(row->type, field);
            if (!find_number(space, row, value, &x[i]))
                return no_number(row, &space->dims[i], value);
            continue;
        }
        trp_buffer packed = {0};
        troupe_status status = trp_pack(row->held, field, &packed);
        int choice = status == TROUPE_OK ? trp_row_choice_packed(row, &packed) : -1;
        bool failed = packed.failed;
        trp_buffer_free(&packed);
        if (failed)
            return trp_space_no_memory();
        if (status != TROUPE_OK)
            return status;
        char text[96];
        (void)troupe_print_as(row->held, field, text, sizeof text);
        if (choice < 0)
            return troupe_fail(TROUPE_INVALID, "%s is none of its choices: %s", row->name, text);
        x[i] = choice;
    }
    return TROUPE_OK;
}

troupe_status trp_space_coordinate(const troupe_space *space, const trp_space_row *row,
                                   trp_json value, double *coordinate)
{
    int shown = value.size < 64 ? (int)value.size : 64;
    if (row->count == 0) {
        double number;
        if (!trp_space_read_number(value, &number))
            return troupe_fail(TROUPE_INVALID, "%s is %.*s: expected a number", row->name, shown,
                               value.at);
        return find_number(space, row, number, coordinate)
                   ? TROUPE_OK
                   : no_number(row, &space->dims[row->dim], number);
    }
    trp_buffer canonical = {0};
    TROUPE_TRY(trp_json_canonical(value, &canonical));
    bool failed = canonical.failed;
    int choice =
        failed ? -1 : trp_row_choice(row, (trp_json){(const char *)canonical.data, canonical.size});
    trp_buffer_free(&canonical);
    if (failed)
        return trp_space_no_memory();
    if (choice < 0)
        return troupe_fail(TROUPE_INVALID, "%s is none of its choices: %.*s", row->name, shown,
                           value.at);
    *coordinate = choice;
    return TROUPE_OK;
}

// The row that a member names, looked for from *next on, where it is if the members have the rows'
// order; NULL: none has.
static const trp_space_row *member_row(const troupe_space *space, trp_json name, size_t *next)
{
    for (size_t i = 0; i < space->count; i++) {
        size_t at = (*next + i) % space->count;
        if (!trp_json_equals(name, space->rows[at].name))
            continue;
        *next = at + 1;
        return &space->rows[at];
    }
    return NULL;
}

// Whether a dimension counts, or may once what is missing before it is drawn.
static bool may_count(const troupe_dim *dims, int index, const double *x)
{
    int parent = dims[index].parent;
    while (parent >= 0 && isnan(x[parent])) {
        index = parent;
        parent = dims[index].parent;
    }
    return trp_dim_counts(dims, (size_t)index, x);
}

troupe_status trp_space_read_point(const troupe_space *space, trp_json object, bool lenient,
                                   double *x)
{
    trp_json at = {0}, name, value;
    size_t next = 0;
    if (!trp_json_is_object(object))
        return troupe_fail(TROUPE_INVALID, "a point is an object of JSON, as {\"rate\": 0.1}");
    for (size_t i = 0; i < space->dim_count; i++)
        x[i] = (double)NAN;
    while (trp_json_next_member(object, &at, &name, &value)) {
        const trp_space_row *row = member_row(space, name, &next);
        if (row == NULL && !lenient)
            return troupe_fail(TROUPE_INVALID, "the space has no row %.*s",
                               name.size < 64 ? (int)name.size : 64, name.at);
        if (row == NULL || row->dim < 0)
            continue;
        double coordinate = (double)NAN;
        troupe_status status = trp_space_coordinate(space, row, value, &coordinate);
        if (status == TROUPE_OK)
            x[row->dim] = coordinate;
        else if (!lenient || status == TROUPE_NO_MEMORY)
            return status;
    }
    for (size_t i = 0; i < space->dim_count; i++)
        if (!may_count(space->dims, (int)i, x))
            x[i] = (double)NAN;
    return trp_error_settled(TROUPE_OK);
}
