// extend.c: see tune/space/extend.h.
#include <tune/space/extend.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/space/dims.h>
#include <tune/space/rows.h>

// ---- rows that have become wider

// The same, but that the earlier one may be less.
static bool widens_range(const troupe_dim *was, const troupe_dim *is)
{
    bool alike = was->kind == is->kind && was->log == is->log && was->step == is->step &&
                 (was->deviation > 0) == (is->deviation > 0);
    if (!alike || is->low > was->low || is->high < was->high)
        return false;
    if (was->kind == TROUPE_DIM_REAL) // Steps are counted from the low end, and rounded.
        return !(was->step > 0) || is->low == was->low;
    return !(was->step > 1) || fmod(was->low - is->low, was->step) == 0;
}

// Both are canonical.
static bool is_same(trp_json one, trp_json other)
{
    return one.size == other.size && memcmp(one.at, other.at, one.size) == 0;
}

static bool widens_choice(const trp_space_row *was, const trp_space_row *is)
{
    bool wider = was->draw == is->draw && is->count >= was->count;
    for (size_t i = 0; wider && i < was->count; i++)
        wider = is_same(was->texts[i], is->texts[i]);
    return wider;
}

static troupe_status narrower(const troupe_space *earlier, const trp_space_row *was,
                              const troupe_space *space, const trp_space_row *is)
{
    trp_buffer before = {0}, now = {0};
    trp_space_describe_row(earlier, was, &before);
    trp_space_describe_row(space, is, &now);
    bool failed = before.failed || now.failed;
    if (!failed)
        (void)troupe_fail(TROUPE_EXISTS,
                          "the space was another: %s was %.*s and is %.*s, which has not all of it",
                          was->name, before.size < 200 ? (int)before.size : 200,
                          (const char *)before.data, now.size < 200 ? (int)now.size : 200,
                          (const char *)now.data);
    trp_buffer_free(&before);
    trp_buffer_free(&now);
    return failed ? trp_space_no_memory() : TROUPE_EXISTS;
}

// A row of both; of one that was fixed the coordinate is noted, and where it counted.
static troupe_status take_row(const troupe_space *earlier, const trp_space_row *was,
                              const troupe_space *space, const trp_space_row *is,
                              trp_extension *made)
{
    bool wider;
    if (was->dim < 0 && (was->parent >= 0 || is->parent >= 0))
        made->fixed[made->fixed_count++] =
            (trp_extension_fixed){.row = is, .parent = was->parent, .when = was->when};
    if (was->dim < 0 && is->dim < 0) {
        wider = is_same(was->texts[0], is->texts[0]);
    } else if (was->dim < 0) {
        troupe_status status =
            trp_space_coordinate(space, is, was->texts[0], &made->known[is->dim]);
        if (status == TROUPE_NO_MEMORY)
            return status;
        wider = status == TROUPE_OK;
    } else {
        wider = is->dim >= 0 && (was->count > 0) == (is->count > 0) &&
                (was->count > 0 ? widens_choice(was, is)
                                : widens_range(&earlier->dims[was->dim], &space->dims[is->dim]));
        if (wider)
            made->from[is->dim] = was->dim;
    }
    return wider ? trp_error_settled(TROUPE_OK) : narrower(earlier, was, space, is);
}

// ---- rows that are new

static bool find_before(const char *name, const trp_json *before, size_t count, trp_json *value)
{
    for (size_t i = 0; i < count; i++)
        if (trp_json_member(before[i], name, value))
            return true;
    return false;
}

// One that is new and has one value where it counts: it had that before, or is another config's.
static troupe_status another_value(const trp_space_row *is)
{
    return troupe_fail(TROUPE_EXISTS,
                       "the space was another: %s is new and has one value, %.*s: expected that "
                       "trials before had it, or a row that draws",
                       is->name, is->texts[0].size < 100 ? (int)is->texts[0].size : 100,
                       is->texts[0].at);
}

// One that does not always count may be so where trials before did not come to it.
static troupe_status take_fixed(const trp_space_row *is, bool known, trp_json value,
                                trp_extension *made)
{
    trp_buffer canonical = {0};
    bool same = false;
    if (known) {
        TROUPE_TRY(trp_json_canonical(value, &canonical));
        same = !canonical.failed &&
               is_same(is->texts[0], (trp_json){(const char *)canonical.data, canonical.size});
    }
    bool failed = canonical.failed;
    trp_buffer_free(&canonical);
    if (failed)
        return trp_space_no_memory();
    if (!same && is->parent < 0)
        return another_value(is);
    if (!same)
        made->fixed[made->fixed_count++] = (trp_extension_fixed){.row = is, .is_new = true};
    return TROUPE_OK;
}

// A row that varies may be without a value where it counts at no earlier point.
static troupe_status take_new(const troupe_space *space, const trp_space_row *is,
                              const trp_json *before, size_t count, trp_extension *made)
{
    trp_json value;
    bool known = find_before(is->name, before, count, &value);
    if (is->dim >= 0 && known) {
        double *coordinate = &made->known[is->dim];
        troupe_status status = trp_space_coordinate(space, is, value, coordinate);
        if (status == TROUPE_NO_MEMORY)
            return status;
        if (status != TROUPE_OK && is->parent < 0)
            return troupe_fail(TROUPE_EXISTS,
                               "the space was another: %s is new, and was %.*s before, which it "
                               "cannot draw",
                               is->name, value.size < 100 ? (int)value.size : 100, value.at);
        *coordinate = status == TROUPE_OK ? *coordinate : (double)NAN;
        trp_error_forget();
    }
    return is->dim >= 0 ? TROUPE_OK : take_fixed(is, known, value, made);
}

// ---- all rows

static troupe_status take_rows(const troupe_space *earlier, const troupe_space *space,
                               const trp_json *before, size_t before_count, trp_extension *made)
{
    size_t next = 0; // Of the earlier rows.
    for (size_t i = 0; i < space->count; i++) {
        const trp_space_row *is = &space->rows[i];
        const trp_space_row *was = trp_space_row_named(earlier, is->name);
        if (was == NULL) {
            TROUPE_TRY(take_new(space, is, before, before_count, made));
            continue;
        }
        if (was != &earlier->rows[next])
            break;
        TROUPE_TRY(take_row(earlier, was, space, is, made));
        next++;
    }
    if (next == earlier->count)
        return TROUPE_OK;
    const char *missing = earlier->rows[next].name;
    bool there = trp_space_row_named(space, missing) != NULL;
    return troupe_fail(TROUPE_EXISTS, "the space was another: its row %zu was %s and is %s", next,
                       missing, there ? "at another place" : "missing");
}

static troupe_status parse(trp_json description, troupe_space **space)
{
    char *text = trp_alloc(description.size + 1);
    if (text == NULL)
        return trp_space_no_memory();
    memcpy(text, description.at, description.size);
    troupe_status status = troupe_space_parse(text, space);
    trp_free(text);
    return status;
}

static troupe_status open_in(const troupe_space *space, const troupe_space *was,
                             const trp_json *before, size_t before_count, trp_extension *made)
{
    int *from = trp_arena_alloc(&made->arena, (space->dim_count + 1) * sizeof *from);
    double *known = trp_arena_alloc(&made->arena, (space->dim_count + 1) * sizeof *known);
    trp_extension_fixed *fixed = trp_arena_alloc(&made->arena, (space->count + 1) * sizeof *fixed);
    if (from == NULL || known == NULL || fixed == NULL)
        return trp_space_no_memory();
    for (size_t i = 0; i < space->dim_count; i++) {
        from[i] = -1;
        known[i] = (double)NAN;
    }
    made->from = from;
    made->known = known;
    made->fixed = fixed;
    made->dims = was->dim_count;
    made->combinations = trp_space_combinations(was);
    return take_rows(was, space, before, before_count, made);
}

troupe_status trp_extension_open(const troupe_space *space, trp_json earlier,
                                 const trp_json *before, size_t before_count, trp_extension *made)
{
    troupe_space *was = NULL;
    *made = (trp_extension){0};
    TROUPE_TRY(parse(earlier, &was));
    troupe_status status =
        was != NULL ? open_in(space, was, before, before_count, made) : trp_space_no_memory();
    troupe_space_free(&was);
    if (status != TROUPE_OK)
        trp_extension_close(made);
    return status;
}

void trp_extension_close(trp_extension *extension)
{
    trp_arena_clear(&extension->arena);
    *extension = (trp_extension){0};
}

static troupe_status counts_no_more(const char *name)
{
    return troupe_fail(TROUPE_EXISTS, "the space was another: %s counts no more where it did",
                       name);
}

static troupe_status counts_now(const char *name)
{
    return troupe_fail(TROUPE_EXISTS,
                       "the space was another: %s counts now in trials that were begun before, "
                       "and it is not known what it was in these",
                       name);
}

// What the config has of rows that are no coordinates of `of` is what it had.
static troupe_status check_fixed(const trp_extension *extension, const double *of, const double *x)
{
    for (size_t i = 0; i < extension->fixed_count; i++) {
        const trp_extension_fixed *it = &extension->fixed[i];
        const trp_space_row was = {.parent = it->parent, .when = it->when};
        bool counted = !it->is_new && trp_space_counts(&was, of);
        bool counts = trp_space_counts(it->row, x);
        if (counts == counted)
            continue;
        if (it->is_new)
            return another_value(it->row);
        return counts ? counts_now(it->row->name) : counts_no_more(it->row->name);
    }
    return TROUPE_OK;
}

troupe_status trp_extension_map(const troupe_space *space, const trp_extension *extension,
                                const double *of, double *x)
{
    for (size_t i = 0; i < space->dim_count; i++) {
        int from = extension->from[i];
        bool counts = trp_dim_counts(space->dims, i, x); // What it hangs on comes before it.
        x[i] = from >= 0 ? of[from] : counts ? extension->known[i] : (double)NAN;
        if (counts == isnan(x[i]))
            return counts ? counts_now(space->dims[i].name) : counts_no_more(space->dims[i].name);
    }
    return check_fixed(extension, of, x);
}

// ---- what was before

// The row's field in the base, as JSON: the only member of the record that has it alone.
static bool base_of(const troupe_space *space, const trp_space_row *row, trp_buffer *out)
{
    trp_buffer whole = {0};
    trp_json object, at = {0}, name, value;
    void *zeros = space->base == NULL ? trp_alloc(row->size) : NULL;
    const void *field = space->base != NULL ? (const char *)space->base + row->offset : zeros;
    if (field != NULL)
        trp_json_value(&whole, row->held, field);
    bool read = field != NULL && !whole.failed &&
                trp_json_parse((const char *)whole.data, whole.size, &object) == TROUPE_OK &&
                trp_json_next_member(object, &at, &name, &value);
    if (read)
        trp_buffer_append(out, value.at, value.size);
    else
        out->failed = true;
    trp_buffer_free(&whole);
    trp_free(zeros);
    return read;
}

void trp_extension_before(const troupe_space *space, trp_json earlier, trp_buffer *out)
{
    const char *between = "{";
    trp_json value;
    for (size_t i = 0; i < space->count; i++) {
        const trp_space_row *row = &space->rows[i];
        bool unknown = space->type == NULL ? row->before.size == 0 : row->option;
        if (unknown || trp_json_member(earlier, row->name, &value))
            continue;
        trp_buffer_append(out, between, strlen(between));
        trp_json_text(out, row->name);
        trp_buffer_append(out, ": ", 2);
        if (space->type == NULL)
            trp_buffer_append(out, row->before.at, row->before.size);
        else if (!base_of(space, row, out))
            return;
        between = ", ";
    }
    trp_buffer_printf(out, "%s}", between[0] == '{' ? "{" : "");
}
