// named.c: see tune/space/named.h.
#include <tune/space/named.h>

#include <runtime/base/options_take.h>
#include <runtime/codec/json.h>
#include <string.h>
#include <tune/space/fields.h>
#include <tune/space/space.h>

static const troupe_param *row_at(const troupe_param *rows, size_t index, troupe_param *room)
{
    const troupe_param *given = (const troupe_param *)trp_row_at(rows, index);
    return TRP_OPTIONS_TAKE("a row of a space", *room, given) == TROUPE_OK ? room : NULL;
}

static bool is_condition(const troupe_param *row)
{
    return row->draw == TROUPE_DRAW_CONDITION;
}

// ---- what is wrong

static troupe_status check_name(size_t index, const troupe_param *row)
{
    const char *name = row->name;
    bool good = name != NULL && *name != '\0' && strchr(name, '[') == NULL && name[0] != '.' &&
                name[strlen(name) - 1] != '.' && strstr(name, "..") == NULL;
    if (!good)
        return troupe_fail(TROUPE_INVALID,
                           "space[%zu] is of \"%.100s\": expected the name of a member of the "
                           "config, as rate or fitting.batch",
                           index, name != NULL ? name : "");
    if (row->values != NULL)
        return troupe_fail(TROUPE_INVALID,
                           "space[%zu] (%s): its values have a type, and only numbers and texts "
                           "can be named",
                           index, name);
    if (row->choice_count > (row->texts != NULL ? TRP_SPACE_CHOICES_MAX : TROUPE_CHOICES_MAX))
        return troupe_fail(TROUPE_INVALID, "space[%zu] (%s): it has %zu choices", index, name,
                           row->choice_count);
    return TROUPE_OK;
}

// Whether a row before it draws the same, or is a condition on the same.
static bool is_there(const troupe_param *rows, size_t index, const troupe_param *row)
{
    troupe_param room;
    for (size_t i = 0; i < index; i++) {
        const troupe_param *other = row_at(rows, i, &room);
        if (other != NULL && other->name != NULL && strcmp(other->name, row->name) == 0 &&
            is_condition(other) == is_condition(row))
            return true;
    }
    return false;
}

static troupe_status check(const troupe_param *rows, size_t count, size_t index,
                           const troupe_param *row)
{
    troupe_param room;
    TROUPE_TRY(check_name(index, row));
    if (is_there(rows, index, row))
        return troupe_fail(TROUPE_INVALID, "space[%zu] (%s): it is in the space already", index,
                           row->name);
    if (!is_condition(row))
        return TROUPE_OK;
    if (row->when == NULL || row->when[0] == '\0')
        return troupe_fail(TROUPE_INVALID, "space[%zu] (%s): its condition does not say on what",
                           index, row->name);
    for (size_t i = 0; i < count; i++) {
        const troupe_param *on = row_at(rows, i, &room);
        if (on != NULL && on->name != NULL && !is_condition(on) && strcmp(on->name, row->name) == 0)
            return TROUPE_OK;
    }
    return troupe_fail(TROUPE_INVALID,
                       "space[%zu] (%s): it has a condition, but no row that it could be on", index,
                       row->name);
}

// ---- as JSON

static void put(trp_buffer *out, const char *text)
{
    trp_buffer_append(out, text, strlen(text));
}

static void put_choices(const troupe_param *row, trp_buffer *out)
{
    for (size_t i = 0; i < row->choice_count; i++) {
        put(out, i == 0 ? "[" : ", ");
        if (row->texts != NULL)
            trp_json_text(out, row->texts[i]);
        else
            trp_json_number(out, row->choices[i]);
    }
    put(out, row->choice_count == 0 ? "[]" : "]");
}

static void put_numbers(trp_buffer *out, const char *kind, double one, double other)
{
    trp_buffer_printf(out, "\"%s\": [", kind);
    trp_json_number(out, one);
    put(out, ", ");
    trp_json_number(out, other);
    put(out, "]");
}

static void put_range(const troupe_param *row, trp_buffer *out)
{
    bool normal = row->draw == TROUPE_DRAW_NORMAL;
    put_numbers(out,
                normal                                 ? "normal"
                : row->draw == TROUPE_DRAW_INTEGER     ? "integer"
                : row->draw == TROUPE_DRAW_LOG_UNIFORM ? "log_uniform"
                                                       : "uniform",
                normal ? row->mean : row->low, normal ? row->deviation : row->high);
    if (normal && row->low < row->high) {
        put(out, ", \"low\": ");
        trp_json_number(out, row->low);
        put(out, ", \"high\": ");
        trp_json_number(out, row->high);
    }
    if (row->step != 0) {
        put(out, ", \"step\": ");
        trp_json_number(out, row->step);
    }
    if (row->log)
        put(out, ", \"log\": true");
}

static troupe_status put_draw(size_t index, const troupe_param *row, trp_buffer *out)
{
    switch (row->draw) {
    case TROUPE_DRAW_UNIFORM:
    case TROUPE_DRAW_LOG_UNIFORM:
    case TROUPE_DRAW_INTEGER:
    case TROUPE_DRAW_NORMAL:
        put_range(row, out);
        return TROUPE_OK;
    case TROUPE_DRAW_CHOICE:
    case TROUPE_DRAW_ORDERED:
    case TROUPE_DRAW_GRID:
        trp_buffer_printf(out, "\"%s\": ",
                          row->draw == TROUPE_DRAW_CHOICE    ? "choice"
                          : row->draw == TROUPE_DRAW_ORDERED ? "ordered"
                                                             : "grid");
        put_choices(row, out);
        return TROUPE_OK;
    case TROUPE_DRAW_FIXED:
        put(out, "\"fixed\": ");
        if (row->text != NULL)
            trp_json_text(out, row->text);
        else
            trp_json_number(out, row->low);
        return TROUPE_OK;
    default:
        return troupe_fail(TROUPE_INVALID, "space[%zu] (%s): %d is not a kind of draw", index,
                           row->name, (int)row->draw);
    }
}

static troupe_status put_row(const troupe_param *rows, size_t count, size_t index,
                             const troupe_param *row, trp_buffer *out)
{
    troupe_param room;
    trp_json_text(out, row->name);
    put(out, ": {");
    TROUPE_TRY(put_draw(index, row, out));
    for (size_t i = 0; i < count; i++) {
        const troupe_param *when = row_at(rows, i, &room);
        if (when == NULL || when->name == NULL || !is_condition(when) ||
            strcmp(when->name, row->name) != 0)
            continue;
        put(out, ", \"when\": {");
        trp_json_text(out, when->when);
        put(out, ": ");
        put_choices(when, out);
        put(out, "}");
    }
    put(out, "}");
    return TROUPE_OK;
}

troupe_status trp_space_named(const troupe_param *rows, size_t count, trp_buffer *out)
{
    troupe_param room;
    const char *before = "{";
    for (size_t i = 0; i < count; i++) {
        const troupe_param *row = row_at(rows, i, &room);
        if (row == NULL)
            return troupe_last_error()->status;
        TROUPE_TRY(check(rows, count, i, row));
    }
    for (size_t i = 0; i < count; i++) {
        const troupe_param *row = row_at(rows, i, &room);
        if (row == NULL || is_condition(row))
            continue;
        put(out, before);
        TROUPE_TRY(put_row(rows, count, i, row, out));
        before = ", ";
    }
    put(out, "}");
    return out->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a space") : TROUPE_OK;
}
