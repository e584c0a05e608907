// parse.c: spaces of JSON.
#include <tune/space/space.h>

#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>
#include <tune/space/rows.h>

static const struct {
    const char *key;
    troupe_draw draw;
} kinds[] = {
    {"uniform", TROUPE_DRAW_UNIFORM}, {"log_uniform", TROUPE_DRAW_LOG_UNIFORM},
    {"integer", TROUPE_DRAW_INTEGER}, {"normal", TROUPE_DRAW_NORMAL},
    {"choice", TROUPE_DRAW_CHOICE},   {"ordered", TROUPE_DRAW_ORDERED},
    {"grid", TROUPE_DRAW_GRID},       {"fixed", TROUPE_DRAW_FIXED},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

// How one row is drawn, as its object says.
typedef struct drawn {
    troupe_param param;
    trp_json of;   // What the key of its kind has.
    trp_json when; // Size 0: no condition.
    trp_json before;
    bool bounds[2], whole;
} drawn;

static int shown(trp_json value)
{
    return value.size < 80 ? (int)value.size : 80;
}

static troupe_status read_number(trp_json value, const char *what, double *number)
{
    if (!trp_space_read_number(value, number))
        return troupe_fail(TROUPE_INVALID, "%s is %.*s: expected a number", what, shown(value),
                           value.at);
    return TROUPE_OK;
}

static troupe_status read_bool(trp_json value, const char *what, bool *flag)
{
    *flag = value.size == 4 && memcmp(value.at, "true", 4) == 0;
    if (!*flag && !(value.size == 5 && memcmp(value.at, "false", 5) == 0))
        return troupe_fail(TROUPE_INVALID, "%s is %.*s: expected true or false", what, shown(value),
                           value.at);
    return TROUPE_OK;
}

// A member of the object that says how a row is drawn, other than its kind.
static troupe_status read_more(trp_json name, trp_json value, drawn *row)
{
    if (trp_json_equals(name, "step"))
        return read_number(value, "step", &row->param.step);
    if (trp_json_equals(name, "log"))
        return read_bool(value, "log", &row->param.log);
    if (trp_json_equals(name, "whole"))
        return read_bool(value, "whole", &row->whole);
    for (int i = 0; i < 2; i++) {
        const char *bound = i == 0 ? "low" : "high";
        if (trp_json_equals(name, bound)) {
            row->bounds[i] = true;
            return read_number(value, bound, i == 0 ? &row->param.low : &row->param.high);
        }
    }
    if (trp_json_equals(name, "before")) {
        row->before = value;
        return TROUPE_OK;
    }
    if (!trp_json_equals(name, "when"))
        return troupe_fail(TROUPE_INVALID,
                           "it has %.*s: expected one of uniform, log_uniform, integer, normal, "
                           "choice, ordered, grid and fixed, and beside it step, log, low, high, "
                           "whole, when or before",
                           shown(name), name.at);
    if (!trp_json_is_object(value))
        return troupe_fail(TROUPE_INVALID,
                           "when is %.*s: expected an object, as {\"optimizer\": [\"sgd\"]}",
                           shown(value), value.at);
    row->when = value;
    return TROUPE_OK;
}

static troupe_status read_object(trp_json object, drawn *row)
{
    trp_json at = {0}, name, value;
    const char *kind = NULL;
    while (trp_json_next_member(object, &at, &name, &value)) {
        int found = -1;
        for (int i = 0; i < KINDS; i++)
            found = trp_json_equals(name, kinds[i].key) ? i : found;
        if (found < 0) {
            TROUPE_TRY(read_more(name, value, row));
            continue;
        }
        if (kind != NULL)
            return troupe_fail(TROUPE_INVALID, "it has %s and %s: one of them says how it is drawn",
                               kind, kinds[found].key);
        kind = kinds[found].key;
        row->param.draw = kinds[found].draw;
        row->of = value;
    }
    if (kind == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "it does not say how it is drawn: as {\"uniform\": [0, 1]}, or "
                           "{\"fixed\": {}} for an object");
    return TROUPE_OK;
}

static troupe_status check_members(const drawn *row)
{
    bool range = row->param.draw == TROUPE_DRAW_UNIFORM ||
                 row->param.draw == TROUPE_DRAW_LOG_UNIFORM ||
                 row->param.draw == TROUPE_DRAW_INTEGER;
    bool normal = row->param.draw == TROUPE_DRAW_NORMAL;
    if (!normal && (row->bounds[0] || row->bounds[1] || row->whole))
        return troupe_fail(TROUPE_INVALID, "low, high and whole are for normal draws");
    if (row->bounds[0] != row->bounds[1])
        return troupe_fail(TROUPE_INVALID, "it has one of low and high: expected both");
    if (!range && !normal && (row->param.step != 0 || row->param.log))
        return troupe_fail(TROUPE_INVALID, "step and log are for ranges");
    return TROUPE_OK;
}

static troupe_status add_range(troupe_space *space, drawn *row)
{
    double numbers[2];
    trp_json item = {0};
    size_t count = 0;
    bool normal = row->param.draw == TROUPE_DRAW_NORMAL;
    while (trp_json_is_array(row->of) && trp_json_next_item(row->of, &item)) {
        if (count < 2)
            TROUPE_TRY(read_number(item, "a bound", &numbers[count]));
        count++;
    }
    if (count != 2)
        return troupe_fail(TROUPE_INVALID, "it is drawn of %.*s: expected %s", shown(row->of),
                           row->of.at, normal ? "[mean, deviation]" : "[low, high]");
    if (normal) {
        row->param.mean = numbers[0];
        row->param.deviation = numbers[1];
    } else {
        row->param.low = numbers[0];
        row->param.high = numbers[1];
    }
    return trp_space_add_range(space, &row->param, row->whole);
}

static troupe_status add_choices(troupe_space *space, const drawn *row)
{
    bool fixed = row->param.draw == TROUPE_DRAW_FIXED;
    size_t count = 0;
    trp_json item = {0};
    if (!fixed && !trp_json_is_array(row->of))
        return troupe_fail(TROUPE_INVALID, "its choices are %.*s: expected an array",
                           shown(row->of), row->of.at);
    while (!fixed && trp_json_next_item(row->of, &item))
        count++;
    count = fixed ? 1 : count;
    if (count < 1 || count > TRP_SPACE_CHOICES_MAX)
        return troupe_fail(TROUPE_INVALID, "it has %zu choices, must have 1 to %d", count,
                           (int)TRP_SPACE_CHOICES_MAX);
    trp_json *texts = (trp_json *)trp_arena_alloc(&space->arena, count * sizeof *texts);
    if (texts == NULL)
        return trp_space_no_memory();
    item = fixed ? row->of : (trp_json){0};
    for (size_t i = 0; i < count && (fixed || trp_json_next_item(row->of, &item)); i++) {
        trp_buffer canonical = {0};
        troupe_status status = trp_json_canonical(item, &canonical);
        texts[i] = trp_space_keep(space, &canonical);
        if (status != TROUPE_OK)
            return status;
        if (texts[i].at == NULL)
            return trp_space_no_memory();
    }
    return trp_space_add_texts(space, row->param.name, row->param.draw, texts, count);
}

static troupe_status choice_bit(const trp_space_row *other, trp_json value, uint32_t *when)
{
    trp_buffer canonical = {0};
    TROUPE_TRY(trp_json_canonical(value, &canonical));
    bool failed = canonical.failed;
    trp_json text = {(const char *)canonical.data, canonical.size};
    int choice = failed ? -1 : trp_row_choice(other, text);
    trp_buffer_free(&canonical);
    if (failed)
        return trp_space_no_memory();
    if (choice < 0)
        return troupe_fail(TROUPE_INVALID, "its condition is on %.*s, which is no choice of %s",
                           shown(value), value.at, other->name);
    if (choice >= 32)
        return troupe_fail(TROUPE_INVALID,
                           "its condition is on choice %d of %s: it can be on the first 32", choice,
                           other->name);
    *when |= 1u << choice;
    return TROUPE_OK;
}

// {"optimizer": ["sgd"]}, or with one choice and no array.
static troupe_status add_condition(troupe_space *space, trp_json condition)
{
    trp_json at = {0}, name, value, second;
    trp_space_row *row = &space->rows[space->count - 1];
    uint32_t when = 0;
    if (!trp_json_next_member(condition, &at, &name, &value) ||
        trp_json_next_member(condition, &at, &second, &second))
        return troupe_fail(TROUPE_INVALID, "when is %.*s: expected one name and its choices",
                           shown(condition), condition.at);
    char other_name[TRP_SPACE_NAME_MAX + 1];
    (void)snprintf(other_name, sizeof other_name, "%.*s", (int)name.size - 2, name.at + 1);
    const trp_space_row *other = NULL;
    for (size_t i = 0; i < space->count; i++)
        if (trp_json_equals(name, space->rows[i].name))
            other = &space->rows[i];
    if (other == NULL || other == row || other->count == 0 || other->draw == TROUPE_DRAW_FIXED)
        return trp_row_depend(space, row, other, other_name, 0); // Which says why.
    trp_json item = {0};
    if (!trp_json_is_array(value))
        TROUPE_TRY(choice_bit(other, value, &when));
    while (trp_json_is_array(value) && trp_json_next_item(value, &item))
        TROUPE_TRY(choice_bit(other, item, &when));
    return trp_row_depend(space, row, other, other_name, when);
}

// What the field was in trials before the row was there.
static troupe_status add_before(troupe_space *space, trp_json value)
{
    double coordinate;
    trp_buffer own = {0};
    trp_space_row *row = &space->rows[space->count - 1];
    if (row->dim >= 0 && trp_space_coordinate(space, row, value, &coordinate) != TROUPE_OK)
        return trp_error_prefix("before");
    TROUPE_TRY(trp_json_canonical(value, &own));
    row->before = trp_space_keep(space, &own);
    return row->before.at != NULL ? TROUPE_OK : trp_space_no_memory();
}

static troupe_status add_member(troupe_space *space, trp_json name, trp_json value)
{
    drawn row = {.param.draw = TROUPE_DRAW_FIXED, .of = value};
    troupe_text own = NULL;
    TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, &space->arena, &own));
    row.param.name = own;
    if (trp_json_is_object(value))
        TROUPE_TRY(read_object(value, &row));
    TROUPE_TRY(check_members(&row));
    switch (row.param.draw) {
    case TROUPE_DRAW_UNIFORM:
    case TROUPE_DRAW_LOG_UNIFORM:
    case TROUPE_DRAW_INTEGER:
    case TROUPE_DRAW_NORMAL:
        TROUPE_TRY(add_range(space, &row));
        break;
    default:
        TROUPE_TRY(add_choices(space, &row));
    }
    if (row.before.size > 0)
        TROUPE_TRY(add_before(space, row.before));
    return row.when.size > 0 ? add_condition(space, row.when) : TROUPE_OK;
}

static troupe_status read_space(trp_json description, troupe_space **space)
{
    trp_json at = {0}, name, value;
    size_t count = 0;
    *space = NULL;
    if (!trp_json_is_object(description))
        return troupe_fail(TROUPE_INVALID,
                           "the space is no object: expected as {\"rate\": {\"uniform\": [0, 1]}}");
    while (trp_json_next_member(description, &at, &name, &value))
        count++;
    if (count > TRP_SPACE_ROWS_MAX)
        return troupe_fail(TROUPE_INVALID, "the space has %zu rows, may have %d", count,
                           (int)TRP_SPACE_ROWS_MAX);
    troupe_space *made = trp_space_new(NULL, count);
    if (made == NULL)
        return trp_space_no_memory();
    at = (trp_json){0};
    while (trp_json_next_member(description, &at, &name, &value)) {
        troupe_status status = add_member(made, name, value);
        if (status == TROUPE_OK)
            continue;
        if (status != TROUPE_NO_MEMORY)
            status = trp_error_prefix("the space's row %.*s", shown(name), name.at);
        troupe_space_free(&made);
        return status;
    }
    troupe_status status = trp_space_count_grid(made);
    if (status != TROUPE_OK)
        troupe_space_free(&made);
    *space = made;
    return status;
}

troupe_status troupe_space_parse(const char *json, troupe_space **space)
{
    trp_json value;
    TRP_REQUIRE(space);
    *space = NULL;
    TRP_REQUIRE(json);
    if (trp_json_parse(json, strlen(json), &value) != TROUPE_OK)
        return trp_error_prefix("the space");
    return read_space(value, space);
}
