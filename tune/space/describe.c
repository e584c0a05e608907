// describe.c: spaces as JSON: what troupe_space_parse reads.
#include <tune/space/space.h>

#include <stdio.h>
#include <string.h>
#include <tune/space/rows.h>

static void put(trp_buffer *out, const char *text)
{
    trp_buffer_append(out, text, strlen(text));
}

static void put_number(trp_buffer *out, const char *before, double value)
{
    put(out, before);
    trp_json_number(out, value);
}

static void describe_range(const troupe_dim *dim, trp_buffer *out)
{
    bool normal = dim->deviation > 0, whole = dim->kind == TROUPE_DIM_INTEGER;
    const char *kind = normal ? "normal" : whole ? "integer" : dim->log ? "log_uniform" : "uniform";
    trp_buffer_printf(out, "\"%s\": ", kind);
    put_number(out, "[", normal ? dim->mean : dim->low);
    put_number(out, ", ", normal ? dim->deviation : dim->high);
    put(out, "]");
    if (normal) {
        put_number(out, ", \"low\": ", dim->low);
        put_number(out, ", \"high\": ", dim->high);
        put(out, whole ? ", \"whole\": true" : "");
    }
    if (dim->step > (whole ? 1 : 0))
        put_number(out, ", \"step\": ", dim->step);
    if (dim->log && whole)
        put(out, ", \"log\": true");
}

static void describe_choices(const trp_space_row *row, uint32_t which, trp_buffer *out)
{
    const char *before = "[";
    for (size_t i = 0; i < row->count; i++) {
        if (i < 32 && (which >> i & 1) == 0)
            continue;
        put(out, before);
        trp_buffer_append(out, row->texts[i].at, row->texts[i].size);
        before = ", ";
    }
    put(out, "]");
}

void trp_space_describe_row(const troupe_space *space, const trp_space_row *row, trp_buffer *out)
{
    bool fixed = row->draw == TROUPE_DRAW_FIXED;
    if (fixed && row->parent < 0 && row->texts[0].at[0] != '{') {
        trp_buffer_append(out, row->texts[0].at, row->texts[0].size);
        return;
    }
    put(out, "{");
    if (row->count == 0) {
        describe_range(&space->dims[row->dim], out);
    } else if (fixed) {
        put(out, "\"fixed\": ");
        trp_buffer_append(out, row->texts[0].at, row->texts[0].size);
    } else {
        put(out, row->draw == TROUPE_DRAW_ORDERED ? "\"ordered\": "
                 : row->draw == TROUPE_DRAW_GRID  ? "\"grid\": "
                                                  : "\"choice\": ");
        describe_choices(row, UINT32_MAX, out);
    }
    if (row->parent >= 0) {
        const trp_space_row *parent = space->drawn[row->parent];
        put(out, ", \"when\": {");
        trp_json_text(out, parent->name);
        put(out, ": ");
        trp_space_row first = *parent; // A condition is on the first 32 alone.
        first.count = first.count < 32 ? first.count : 32;
        describe_choices(&first, row->when, out);
        put(out, "}");
    }
    put(out, "}");
}

void trp_space_describe(const troupe_space *space, trp_buffer *out)
{
    for (size_t i = 0; i < space->count; i++) {
        put(out, i == 0 ? "{" : ", ");
        trp_json_text(out, space->rows[i].name);
        put(out, ": ");
        trp_space_describe_row(space, &space->rows[i], out);
    }
    put(out, space->count == 0 ? "{}" : "}");
}

// ---- comparing

static troupe_status compare_row(const troupe_space *space, const trp_space_row *row, trp_json was)
{
    trp_buffer now = {0};
    trp_json is = {0};
    trp_space_describe_row(space, row, &now);
    troupe_status status =
        now.failed ? trp_space_no_memory() : trp_json_parse((const char *)now.data, now.size, &is);
    if (status == TROUPE_OK && !trp_json_is_same(is, was))
        status = troupe_fail(TROUPE_EXISTS, "the space was another: %s was %.*s and is %.*s",
                             row->name, was.size < 200 ? (int)was.size : 200, was.at,
                             is.size < 200 ? (int)is.size : 200, is.at);
    trp_buffer_free(&now);
    return status;
}

troupe_status trp_space_check_same(const troupe_space *space, trp_json description)
{
    trp_json at = {0}, name, value;
    size_t count = 0;
    for (size_t i = 0; i < space->count; i++)
        if (!trp_json_member(description, space->rows[i].name, &value))
            return troupe_fail(TROUPE_EXISTS, "the space was another: it had no row %s",
                               space->rows[i].name);
    while (trp_json_next_member(description, &at, &name, &value)) {
        if (count >= space->count || !trp_json_equals(name, space->rows[count].name))
            return troupe_fail(TROUPE_EXISTS,
                               "the space was another: its row %zu was %.*s and %s%s", count,
                               name.size < 64 ? (int)name.size : 64, name.at,
                               count < space->count ? "is " : "is missing",
                               count < space->count ? space->rows[count].name : "");
        TROUPE_TRY(compare_row(space, &space->rows[count++], value));
    }
    return TROUPE_OK;
}
