// space.c: checks the rows of a space against the config's type, and fills configs from them.
//
// A value travels as a double and is stored in the field's own kind; the checks make sure that this
// loses nothing: whole numbers stay in the field's range, a range of a float field holds a float.
#include <tune/space/space.h>

#include <float.h>
#include <math.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <string.h>

// Above these, neighbouring whole numbers are no longer different doubles (floats).
static const double WHOLE_DOUBLE_MAX = 0x1p53;
static const double WHOLE_FLOAT_MAX = 0x1p24;

typedef struct found_field {
    const troupe_type *type; // NULL: no field lies there.
    const char *name;        // The innermost field's.
    size_t array;            // The row names a whole fixed array of that many; 0: it does not.
} found_field;

// Looks for the field at an offset, into nested records and elements of fixed arrays.
static found_field find_field(const troupe_type *type, size_t offset, size_t size)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        size_t items = field->count == 0 ? 1 : field->count;
        size_t item = field->type->size;
        if (offset < field->offset || offset - field->offset >= items * item)
            continue;
        size_t within = (offset - field->offset) % item;
        if (within == 0 && items > 1 && size == items * item)
            return (found_field){field->type, field->name, items};
        if (field->type->kind == TROUPE_KIND_RECORD && size <= item)
            return find_field(field->type, within, size);
        if (within == 0 && size == item)
            return (found_field){field->type, field->name, 0};
    }
    return (found_field){0};
}

// Whether a row's name (rate, plan.steps, weights[2]) ends in the field's.
static bool names_field(const char *row, const char *field)
{
    const char *last = strrchr(row, '.');
    last = last == NULL ? row : last + 1;
    size_t length = strcspn(last, "[");
    return strlen(field) == length && strncmp(last, field, length) == 0;
}

static bool is_number(troupe_kind kind)
{
    return kind == TROUPE_KIND_BOOL || kind == TROUPE_KIND_INT || kind == TROUPE_KIND_UINT ||
           kind == TROUPE_KIND_FLOAT;
}

static bool is_whole(double value)
{
    return isfinite(value) && floor(value) == value;
}

// Whether a field of that kind and size can hold the value; a float may round it, nothing else may.
static bool fits(troupe_kind kind, size_t size, double value)
{
    int bits = (int)size * 8;
    switch (kind) {
    case TROUPE_KIND_BOOL:
        return value == 0 || value == 1;
    case TROUPE_KIND_INT:
        return is_whole(value) && value >= -ldexp(1, bits - 1) && value < ldexp(1, bits - 1);
    case TROUPE_KIND_UINT:
        return is_whole(value) && value >= 0 && value < ldexp(1, bits);
    case TROUPE_KIND_FLOAT:
        return !isnan(value) && (size == sizeof(double) || isinf(value) || fabs(value) <= FLT_MAX);
    default:
        return false;
    }
}

// The smallest float that is not below x.
static float float_from(double x)
{
    float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

#define ROW "space[%zu] (%s): "

static troupe_status check_range(size_t index, const troupe_param *p, troupe_kind kind,
                                 const char *type)
{
    if (kind != TROUPE_KIND_FLOAT)
        return troupe_fail(TROUPE_INVALID,
                           ROW "a range of real numbers needs a float or double field, this is %s;"
                               " use TROUPE_INTEGER or TROUPE_CHOICE",
                           index, p->name, type);
    if (!isfinite(p->low) || !isfinite(p->high) || !(p->low < p->high))
        return troupe_fail(TROUPE_INVALID,
                           ROW "low is %g and high is %g; both must be finite and low below high",
                           index, p->name, p->low, p->high);
    if (p->draw == TROUPE_DRAW_LOG_UNIFORM && p->low <= 0)
        return troupe_fail(TROUPE_INVALID, ROW "low is %g, must be positive for a log-uniform draw",
                           index, p->name, p->low);
    if (p->field_size == sizeof(float) && (fabs(p->low) > FLT_MAX || fabs(p->high) > FLT_MAX ||
                                           (double)float_from(p->low) >= p->high))
        return troupe_fail(TROUPE_INVALID, ROW "no float lies between %.17g and %.17g", index,
                           p->name, p->low, p->high);
    return TROUPE_OK;
}

static troupe_status check_integer(size_t index, const troupe_param *p, troupe_kind kind,
                                   const char *type)
{
    double most = kind == TROUPE_KIND_FLOAT && p->field_size == sizeof(float) ? WHOLE_FLOAT_MAX
                                                                              : WHOLE_DOUBLE_MAX;
    if (!is_whole(p->low) || !is_whole(p->high) || p->low > p->high)
        return troupe_fail(TROUPE_INVALID,
                           ROW
                           "low is %.17g and high is %.17g; both must be whole and low not above"
                           " high",
                           index, p->name, p->low, p->high);
    if (!fits(kind, p->field_size, p->low) || !fits(kind, p->field_size, p->high) ||
        fabs(p->low) > most || fabs(p->high) > most)
        return troupe_fail(TROUPE_INVALID,
                           ROW "a field of type %s does not hold all of %.17g to %.17g", index,
                           p->name, type, p->low, p->high);
    return TROUPE_OK;
}

static troupe_status check_choice(size_t index, const troupe_param *p, troupe_kind kind,
                                  const char *type)
{
    if (p->choice_count < 1 || p->choice_count > TROUPE_CHOICES_MAX)
        return troupe_fail(TROUPE_INVALID, ROW "it has %zu choices, must have 1 to %d", index,
                           p->name, p->choice_count, (int)TROUPE_CHOICES_MAX);
    for (size_t i = 0; i < p->choice_count; i++) {
        if (!fits(kind, p->field_size, p->choices[i]))
            return troupe_fail(TROUPE_INVALID,
                               ROW "choice %zu is %.17g, which a field of type %s does not hold",
                               index, p->name, i, p->choices[i], type);
    }
    return TROUPE_OK;
}

static troupe_status check_fixed(size_t index, const troupe_param *p, troupe_kind kind,
                                 const char *type)
{
    if (kind == TROUPE_KIND_TEXT) {
        if (p->text == NULL)
            return troupe_fail(TROUPE_INVALID,
                               ROW "the field is a text; use TROUPE_FIXED_TEXT with a text", index,
                               p->name);
        return TROUPE_OK;
    }
    if (!fits(kind, p->field_size, p->low))
        return troupe_fail(TROUPE_INVALID, ROW "%.17g does not fit in a field of type %s", index,
                           p->name, p->low, type);
    return TROUPE_OK;
}

// Checks that the row names a field that a draw of its kind can fill.
static troupe_status check_field(size_t index, const troupe_type *config, const troupe_param *p,
                                 troupe_kind *kind, const char **type)
{
    if (p->name == NULL || p->name[0] == '\0')
        return troupe_fail(TROUPE_INVALID, "space[%zu]: it has no name", index);
    found_field field = find_field(config, p->offset, p->field_size);
    if (field.type == NULL)
        return troupe_fail(TROUPE_INVALID, ROW "%s has no field of %zu bytes at offset %zu", index,
                           p->name, config->name, p->field_size, p->offset);
    if (!names_field(p->name, field.name))
        return troupe_fail(TROUPE_INVALID,
                           ROW "the field at its place in %s is '%s': was the row made for another "
                               "struct?",
                           index, p->name, config->name, field.name);
    if (field.array != 0)
        return troupe_fail(TROUPE_INVALID,
                           ROW "the field is an array of %zu; a row fills one element, as in %s[0]",
                           index, p->name, field.array, p->name);
    *kind = field.type->kind;
    *type = field.type->name;
    bool text = *kind == TROUPE_KIND_TEXT && p->draw == TROUPE_DRAW_FIXED;
    if (!is_number(*kind) && !text)
        return troupe_fail(TROUPE_INVALID,
                           ROW "the field is of type %s; only numbers and bools can be drawn, and"
                               " texts be fixed",
                           index, p->name, *type);
    if (p->text != NULL && !text)
        return troupe_fail(TROUPE_INVALID,
                           ROW "it has a text, but the field is of type %s and not a fixed text",
                           index, p->name, *type);
    return TROUPE_OK;
}

static troupe_status check_row(size_t index, const troupe_type *config, const troupe_param *p,
                               troupe_kind *kind)
{
    const char *type = "";
    TROUPE_TRY(check_field(index, config, p, kind, &type));
    switch (p->draw) {
    case TROUPE_DRAW_UNIFORM:
    case TROUPE_DRAW_LOG_UNIFORM:
        return check_range(index, p, *kind, type);
    case TROUPE_DRAW_INTEGER:
        return check_integer(index, p, *kind, type);
    case TROUPE_DRAW_CHOICE:
        return check_choice(index, p, *kind, type);
    case TROUPE_DRAW_FIXED:
        return check_fixed(index, p, *kind, type);
    default:
        break;
    }
    return troupe_fail(TROUPE_INVALID, ROW "%d is not a kind of draw", index, p->name,
                       (int)p->draw);
}

static troupe_status add_row(trp_space *space, const troupe_param *given)
{
    size_t index = space->count;
    troupe_param taken, *param = &taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("a row of a space", taken, given));
    trp_space_row *row = &space->rows[index];
    troupe_kind kind;
    TROUPE_TRY(check_row(index, space->type, param, &kind));
    for (size_t i = 0; i < index; i++) {
        const troupe_param *other = &space->rows[i].param;
        if (other->offset == param->offset)
            return troupe_fail(TROUPE_INVALID, ROW "space[%zu] fills this field already", index,
                               param->name, i);
    }
    row->kind = kind;
    row->param = *param;
    row->param.name = trp_strdup(param->name);
    row->param.text = param->text == NULL ? NULL : trp_strdup(param->text);
    space->count++; // From here on trp_space_close frees what this row has.
    if (row->param.name == NULL || (param->text != NULL && row->param.text == NULL))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a space of %zu rows", index + 1);
    return TROUPE_OK;
}

troupe_status trp_space_open(trp_space *space, const troupe_type *type, const troupe_param *params,
                             size_t count)
{
    *space = (trp_space){.type = type};
    if (type->kind != TROUPE_KIND_RECORD)
        return troupe_fail(TROUPE_INVALID, "the config's type %s is not a TROUPE_STRUCT",
                           type->name);
    if (count == 0)
        return TROUPE_OK;
    if (params == NULL)
        return troupe_fail(TROUPE_INVALID, "the space is NULL, but is said to have %zu rows",
                           count);
    space->rows = trp_alloc(count * sizeof *space->rows);
    if (space->rows == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a space of %zu rows", count);
    for (size_t i = 0; i < count; i++) {
        troupe_status status = add_row(space, trp_row_at(params, i));
        if (status != TROUPE_OK) {
            trp_space_close(space);
            return status;
        }
    }
    return TROUPE_OK;
}

void trp_space_close(trp_space *space)
{
    for (size_t i = 0; i < space->count; i++) {
        trp_free((void *)space->rows[i].param.name);
        trp_free((void *)space->rows[i].param.text);
    }
    trp_free(space->rows);
    *space = (trp_space){0};
}

// ---- filling configs

static void store_integer(const trp_space_row *row, void *field, double value)
{
    // Of the two 64-bit kinds only one holds numbers of 2^63 and more, only the other negative
    // ones.
    uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    switch (row->param.field_size) {
    case 1:
        memcpy(field, &(uint8_t){(uint8_t)bits}, 1);
        break;
    case 2:
        memcpy(field, &(uint16_t){(uint16_t)bits}, 2);
        break;
    case 4:
        memcpy(field, &(uint32_t){(uint32_t)bits}, 4);
        break;
    default:
        trp_assert(row->param.field_size == 8);
        memcpy(field, &bits, 8);
    }
}

static void store(const trp_space_row *row, void *config, double value)
{
    void *field = (char *)config + row->param.offset;
    if (row->kind == TROUPE_KIND_TEXT) {
        memcpy(field, &row->param.text, sizeof row->param.text);
    } else if (row->kind == TROUPE_KIND_BOOL) {
        memcpy(field, &(bool){value != 0}, sizeof(bool));
    } else if (row->kind != TROUPE_KIND_FLOAT) {
        store_integer(row, field, value);
    } else if (row->param.field_size == sizeof(float)) {
        memcpy(field, &(float){(float)value}, sizeof(float));
    } else {
        memcpy(field, &value, sizeof value);
    }
}

// Puts a real number that rounding may have moved back into low <= x < high, in the field's
// precision.
static double into_range(const troupe_param *p, double x)
{
    if (p->field_size == sizeof(float)) {
        float lowest = float_from(p->low), f = (float)x;
        if ((double)f >= p->high)
            f = nextafterf(float_from(p->high), -INFINITY);
        return (double)(f < lowest ? lowest : f);
    }
    if (x >= p->high)
        x = nextafter(p->high, -INFINITY);
    return x < p->low ? p->low : x;
}

// The number at `unit` (0 <= unit < 1) of the way through a range.
static double range_at(const troupe_param *p, double unit)
{
    if (p->draw == TROUPE_DRAW_LOG_UNIFORM) {
        double low = log(p->low), high = log(p->high);
        return into_range(p, exp(low + unit * (high - low)));
    }
    // Weighted rather than low + unit * (high - low), whose difference may be beyond a double.
    return into_range(p, p->low * (1 - unit) + p->high * unit);
}

static double draw(const troupe_param *p, trp_random *random)
{
    switch (p->draw) {
    case TROUPE_DRAW_UNIFORM:
    case TROUPE_DRAW_LOG_UNIFORM:
        return range_at(p, trp_random_unit(random));
    case TROUPE_DRAW_INTEGER:
        return p->low + (double)trp_random_below(random, (uint64_t)(p->high - p->low) + 1);
    case TROUPE_DRAW_CHOICE:
        return p->choices[trp_random_below(random, p->choice_count)];
    default:
        break;
    }
    return p->low;
}

static void begin(const trp_space *space, void *config)
{
    if (space->defaults)
        memcpy(config, space->defaults, space->type->size);
    else
        memset(config, 0, space->type->size);
}

void trp_space_draw(const trp_space *space, trp_random *random, void *config)
{
    begin(space, config);
    for (size_t i = 0; i < space->count; i++)
        store(&space->rows[i], config, draw(&space->rows[i].param, random));
}

static uint64_t grid_count(const troupe_param *p, int points)
{
    switch (p->draw) {
    case TROUPE_DRAW_UNIFORM:
    case TROUPE_DRAW_LOG_UNIFORM:
        return (uint64_t)points;
    case TROUPE_DRAW_INTEGER:
        return (uint64_t)(p->high - p->low) + 1;
    case TROUPE_DRAW_CHOICE:
        return p->choice_count;
    default:
        break;
    }
    return 1;
}

uint64_t trp_space_grid_size(const trp_space *space, int points)
{
    uint64_t size = 1;
    for (size_t i = 0; i < space->count; i++) {
        if (__builtin_mul_overflow(size, grid_count(&space->rows[i].param, points), &size))
            return UINT64_MAX;
    }
    return size;
}

void trp_space_grid(const trp_space *space, int points, uint64_t index, void *config)
{
    trp_assert(points > 0);
    begin(space, config);
    for (size_t i = space->count; i-- > 0;) {
        const troupe_param *p = &space->rows[i].param;
        uint64_t count = grid_count(p, points), at = index % count;
        index /= count;
        double value = p->low;
        if (p->draw == TROUPE_DRAW_INTEGER)
            value = p->low + (double)at;
        else if (p->draw == TROUPE_DRAW_CHOICE)
            value = p->choices[at];
        else if (p->draw != TROUPE_DRAW_FIXED) // The middle of one of `points` equal parts.
            value = range_at(p, ((double)at + 0.5) / points);
        store(&space->rows[i], config, value);
    }
}

bool trp_space_row_varies(const trp_space_row *row)
{
    const troupe_param *p = &row->param;
    return p->draw != TROUPE_DRAW_FIXED && grid_count(p, 2) > 1;
}

double trp_space_value(const trp_space_row *row, const void *config)
{
    const void *field = (const char *)config + row->param.offset;
    uint64_t bits = 0;
    float single;
    double value;
    switch (row->kind) {
    case TROUPE_KIND_FLOAT:
        if (row->param.field_size == sizeof single) {
            memcpy(&single, field, sizeof single);
            return (double)single;
        }
        memcpy(&value, field, sizeof value);
        return value;
    case TROUPE_KIND_BOOL:
    case TROUPE_KIND_UINT:
    case TROUPE_KIND_INT:
        memcpy(&bits, field,
               row->param.field_size); // Little-endian, as every supported machine is.
        if (row->kind == TROUPE_KIND_INT) {
            int unused = 64 - (int)row->param.field_size * 8;
            return (double)((int64_t)(bits << unused) >> unused);
        }
        return (double)bits;
    default:
        return 0;
    }
}
