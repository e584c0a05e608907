// rows.c: see tune/space/rows.h.
#include <tune/space/rows.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <string.h>
#include <tune/space/fields.h>
#include <tune/space/options.h>
#include <tune/space/ranges.h>

enum { CONDITION_BITS = 32 };

troupe_status trp_space_no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a space");
}

trp_json trp_space_keep(troupe_space *space, trp_buffer *bytes)
{
    trp_json kept = {0};
    char *room = bytes->failed ? NULL : (char *)trp_arena_alloc(&space->arena, bytes->size + 1);
    if (room != NULL) {
        if (bytes->size > 0)
            memcpy(room, bytes->data, bytes->size);
        kept = (trp_json){room, bytes->size};
    }
    trp_buffer_free(bytes);
    return kept;
}

bool trp_space_read_number(trp_json value, double *number)
{
    if (value.size == 0 || !(value.at[0] == '-' || (value.at[0] >= '0' && value.at[0] <= '9')))
        return false; // Texts that stand for numbers are none here.
    return trp_json_read(&troupe_type_double, value, NULL, number) == TROUPE_OK;
}

troupe_space *trp_space_new(const troupe_type *type, size_t rows)
{
    troupe_space *space = (troupe_space *)trp_alloc(sizeof *space);
    if (space == NULL)
        return NULL;
    trp_arena *arena = &space->arena;
    space->type = type;
    space->rows = (trp_space_row *)trp_arena_alloc(arena, (rows + 1) * sizeof *space->rows);
    space->dims = (troupe_dim *)trp_arena_alloc(arena, (rows + 1) * sizeof *space->dims);
    space->drawn =
        (const trp_space_row **)trp_arena_alloc(arena, (rows + 1) * sizeof *space->drawn);
    if (space->rows == NULL || space->dims == NULL || space->drawn == NULL)
        troupe_space_free(&space);
    return space;
}

trp_space_row *trp_space_row_named(const troupe_space *space, const char *name)
{
    for (size_t i = 0; i < space->count; i++)
        if (strcmp(space->rows[i].name, name) == 0)
            return &space->rows[i];
    return NULL;
}

static bool is_same(trp_json one, const void *data, size_t size)
{
    return one.size == size && memcmp(one.at, data, size) == 0;
}

int trp_row_choice(const trp_space_row *row, trp_json text)
{
    for (size_t i = 0; i < row->count; i++)
        if (is_same(row->texts[i], text.at, text.size))
            return (int)i;
    return -1;
}

int trp_row_first(const trp_space_row *row, int choice)
{
    const trp_json *all = row->packed != NULL ? row->packed : row->texts;
    for (int i = 0; i < choice; i++)
        if (is_same(all[i], all[choice].at, all[choice].size))
            return i;
    return choice;
}

int trp_row_choice_packed(const trp_space_row *row, const trp_buffer *packed)
{
    for (size_t i = 0; i < row->count; i++)
        if (is_same(row->packed[i], packed->data, packed->size))
            return (int)i;
    return -1;
}

// ---- rows of any space

// Gives a row its name and its place among the others, and, if it varies, its dimension.
static troupe_status settle_row(troupe_space *space, const char *name, const trp_space_row *made,
                                const troupe_dim *dim)
{
    size_t size = strlen(name);
    if (size == 0 || size > TRP_SPACE_NAME_MAX)
        return troupe_fail(TROUPE_INVALID, "the name has %zu bytes, must have 1 to %d", size,
                           (int)TRP_SPACE_NAME_MAX);
    if (trp_space_row_named(space, name) != NULL)
        return troupe_fail(TROUPE_INVALID, "there is a row of that name already");
    char *own = (char *)trp_arena_alloc(&space->arena, size + 1);
    if (own == NULL)
        return trp_space_no_memory();
    memcpy(own, name, size + 1);
    trp_space_row *row = &space->rows[space->count++];
    *row = *made;
    row->name = own;
    row->dim = row->parent = -1;
    if (dim == NULL)
        return TROUPE_OK;
    row->dim = (int)space->dim_count;
    space->drawn[space->dim_count] = row;
    space->dims[space->dim_count] = *dim;
    space->dims[space->dim_count++].name = own;
    return TROUPE_OK;
}

static troupe_dim choice_dim(troupe_draw draw, size_t count)
{
    return (troupe_dim){.kind = TROUPE_DIM_CHOICE,
                        .high = (double)count - 1,
                        .choices = (int)count,
                        .ordered = draw == TROUPE_DRAW_ORDERED,
                        .grid = draw == TROUPE_DRAW_GRID,
                        .parent = -1};
}

troupe_status trp_row_depend(troupe_space *space, trp_space_row *row, const trp_space_row *other,
                             const char *other_name, uint32_t when)
{
    if (row->parent >= 0)
        return troupe_fail(TROUPE_INVALID, "it has a condition already: one a field");
    if (other == row)
        return troupe_fail(TROUPE_INVALID, "its condition is on itself");
    if (other == NULL || other->count == 0 || other->draw == TROUPE_DRAW_FIXED)
        return troupe_fail(TROUPE_INVALID,
                           "its condition is on %s, which %s: it must have a row of choices",
                           other_name, other == NULL ? "has no row before it" : "is not a choice");
    if (other > row)
        return troupe_fail(TROUPE_INVALID,
                           "its condition is on %s, whose row comes later: it must come first",
                           other_name);
    if (when == 0)
        return troupe_fail(TROUPE_INVALID, "its condition has no choices of %s", other_name);
    for (int i = 0; i < CONDITION_BITS && i < (int)other->count; i++)
        when |= (when >> trp_row_first(other, i) & 1u) << i;    // A choice that is there twice.
    row->parent = other->dim >= 0 ? other->dim : other->parent; // A choice of one always has it.
    row->when = other->dim >= 0 ? when : other->when;
    if (row->dim >= 0) {
        space->dims[row->dim].parent = row->parent;
        space->dims[row->dim].when = row->when;
    }
    return TROUPE_OK;
}

// ---- rows of JSON

troupe_status trp_space_add_texts(troupe_space *space, const char *name, troupe_draw draw,
                                  const trp_json *texts, size_t count)
{
    trp_space_row row = {.draw = draw, .count = count, .texts = texts};
    troupe_dim dim = choice_dim(draw, count);
    return settle_row(space, name, &row, count > 1 ? &dim : NULL);
}

troupe_status trp_space_add_range(troupe_space *space, const troupe_param *param, bool whole)
{
    troupe_dim dim;
    trp_space_row row = {.draw = param->draw};
    TROUPE_TRY(trp_range_make(param, whole ? &troupe_type_int64_t : &troupe_type_double, &dim));
    if (dim.low < dim.high)
        return settle_row(space, param->name, &row, &dim);
    trp_buffer text = {0};
    trp_json_number(&text, dim.low);
    trp_json kept = trp_space_keep(space, &text);
    trp_json *texts = (trp_json *)trp_arena_alloc(&space->arena, sizeof *texts);
    if (kept.at == NULL || texts == NULL)
        return trp_space_no_memory();
    *texts = kept;
    return trp_space_add_texts(space, param->name, TROUPE_DRAW_FIXED, texts, 1);
}

// ---- rows of a type

// A record that has the row's field alone, for what works on types.
static const troupe_type *hold(troupe_space *space, const trp_field_found *field, size_t size)
{
    struct {
        troupe_type type;
        troupe_field field;
        uint64_t hash;
    } *held = trp_arena_alloc(&space->arena, sizeof *held);
    if (held == NULL)
        return NULL;
    held->field = (troupe_field){"value", 0, field->type, field->items};
    held->type = (troupe_type){.abi = TROUPE_ABI,
                               .kind = TROUPE_KIND_RECORD,
                               .name = field->type->name,
                               .size = size,
                               .fields = &held->field,
                               .field_count = 1,
                               .hash = &held->hash};
    return &held->type;
}

// A value as canonical JSON and as packed.
static troupe_status write_value(troupe_space *space, const trp_space_row *row, const void *value,
                                 trp_json *text, trp_json *packed)
{
    trp_buffer json = {0}, canonical = {0}, bytes = {0};
    trp_json whole = {0}, member;
    trp_json_value(&json, row->held, value);
    troupe_status status = json.failed ? trp_space_no_memory()
                                       : trp_json_parse((const char *)json.data, json.size, &whole);
    if (status == TROUPE_OK && trp_json_member(whole, "value", &member))
        status = trp_json_canonical(member, &canonical);
    if (status == TROUPE_OK)
        status = trp_pack(row->held, value, &bytes);
    trp_buffer_free(&json);
    *text = trp_space_keep(space, &canonical);
    *packed = trp_space_keep(space, &bytes);
    if (status == TROUPE_OK && (text->at == NULL || packed->at == NULL))
        return trp_space_no_memory();
    return status;
}

// Gives a row its values, copied from `count` fields that lie one behind the other.
static troupe_status take_values(troupe_space *space, trp_space_row *row, const char *given,
                                 size_t count)
{
    char *values = (char *)trp_arena_alloc(&space->arena, count * row->size);
    trp_json *texts = (trp_json *)trp_arena_alloc(&space->arena, count * sizeof *texts);
    trp_json *packed = (trp_json *)trp_arena_alloc(&space->arena, count * sizeof *packed);
    if (values == NULL || texts == NULL || packed == NULL)
        return trp_space_no_memory();
    row->values = values;
    row->texts = texts;
    row->packed = packed;
    for (size_t i = 0; i < count; i++) {
        char *own = values + i * row->size;
        TROUPE_TRY(trp_value_copy(row->held, given + i * row->size, &space->arena, own));
        TROUPE_TRY(write_value(space, row, own, &texts[i], &packed[i]));
    }
    row->count = count;
    return TROUPE_OK;
}

static bool is_characters(const trp_field_found *field)
{
    return field->items > 0 && field->type->kind == TROUPE_KIND_CHAR;
}

static troupe_status raw_text(const trp_field_found *field, const char *text, size_t index,
                              char *raw)
{
    if (text == NULL)
        return troupe_fail(TROUPE_INVALID, "text %zu is NULL", index);
    if (!is_characters(field))
        memcpy(raw, &text, sizeof text);
    else if (strlen(text) >= field->items)
        return troupe_fail(TROUPE_INVALID, "'%s' has %zu bytes, and the field holds %zu", text,
                           strlen(text), field->items - 1);
    else
        memcpy(raw, text, strlen(text) + 1);
    return TROUPE_OK;
}

static troupe_status raw_number(const trp_field_found *field, double value, bool fixed,
                                size_t index, char *raw)
{
    if (!trp_field_fits(field->type, value)) {
        const char *type = field->type->name;
        return fixed ? troupe_fail(TROUPE_INVALID, "%.17g does not fit in a field of type %s",
                                   value, type)
                     : troupe_fail(TROUPE_INVALID,
                                   "choice %zu is %.17g, which a field of type %s does not hold",
                                   index, value, type);
    }
    trp_field_store(field->type, raw, value);
    return TROUPE_OK;
}

// What kind of values the row gives, and whether the field takes them.
static troupe_status check_source(const troupe_param *p, const trp_field_found *field)
{
    bool fixed = p->draw == TROUPE_DRAW_FIXED, whole = field->items > 0;
    bool texts = p->texts != NULL || p->text != NULL;
    bool number = !whole && trp_field_is_number(field->type);
    bool text = is_characters(field) || (!whole && field->type->kind == TROUPE_KIND_TEXT);
    if (p->values != NULL && texts)
        return troupe_fail(TROUPE_INVALID, "it has texts, and values beside them");
    if (p->values != NULL)
        return TROUPE_OK;
    if (texts && !text)
        return troupe_fail(TROUPE_INVALID, "it has a text, but the field is of type %s%s",
                           field->type->name, whole ? ", an array" : "");
    if ((fixed ? p->texts : (const void *)p->text) != NULL)
        return troupe_fail(TROUPE_INVALID,
                           "its text is in the wrong place: a fixed row has .text, others .texts");
    if (text && !texts)
        return troupe_fail(TROUPE_INVALID, "the field is a text; use %s with texts",
                           fixed ? "TROUPE_FIXED_TEXT" : "TROUPE_CHOICE_TEXT");
    if (!text && !number && whole)
        return troupe_fail(TROUPE_INVALID,
                           "the field is an array of %zu; a row of numbers fills one element, as "
                           "in %s[0], and TROUPE_%s_OF all of it",
                           field->items, p->name, fixed ? "FIXED" : "CHOICE");
    if (!text && !number)
        return troupe_fail(TROUPE_INVALID, "the field is of type %s, no number; use TROUPE_%s_OF",
                           field->type->name, fixed ? "FIXED" : "CHOICE");
    return TROUPE_OK;
}

// Fills fields, one behind the other, from a row's choices or its fixed value.
static troupe_status take_choices(troupe_space *space, const troupe_param *p,
                                  const trp_field_found *field, trp_space_row *row)
{
    bool fixed = p->draw == TROUPE_DRAW_FIXED;
    bool numbers = p->texts == NULL && p->text == NULL && p->values == NULL;
    size_t most = numbers ? TROUPE_CHOICES_MAX : TRP_SPACE_CHOICES_MAX;
    size_t count = fixed ? 1 : p->choice_count;
    TROUPE_TRY(check_source(p, field));
    if (count < 1 || count > most)
        return troupe_fail(TROUPE_INVALID, "it has %zu choices, must have 1 to %zu", count, most);
    if (p->values != NULL)
        return take_values(space, row, (const char *)p->values, count);
    char *raw = (char *)trp_alloc(count * row->size);
    troupe_status status = raw != NULL ? TROUPE_OK : trp_space_no_memory();
    for (size_t i = 0; i < count && status == TROUPE_OK; i++) {
        char *at = raw + i * row->size;
        if (numbers)
            status = raw_number(field, fixed ? p->low : p->choices[i], fixed, i, at);
        else
            status = raw_text(field, p->texts != NULL ? p->texts[i] : p->text, i, at);
    }
    if (status == TROUPE_OK)
        status = take_values(space, row, raw, count);
    trp_free(raw);
    return status;
}

static troupe_status add_range(troupe_space *space, const troupe_param *p,
                               const trp_field_found *field, trp_space_row *row)
{
    troupe_dim dim;
    if (p->text != NULL || p->texts != NULL || p->values != NULL)
        return troupe_fail(TROUPE_INVALID, "it has a text or values, but draws a number");
    if (field->items > 0)
        return troupe_fail(TROUPE_INVALID,
                           "the field is an array of %zu; a row of numbers fills one element, as "
                           "in %s[0]",
                           field->items, field->name);
    if (!trp_field_is_number(field->type))
        return troupe_fail(TROUPE_INVALID,
                           "the field is of type %s, no number; use "
                           "TROUPE_CHOICE_OF or TROUPE_CHOICE_TEXT",
                           field->type->name);
    TROUPE_TRY(trp_range_make(p, field->type, &dim));
    if (dim.low < dim.high)
        return settle_row(space, field->name, row, &dim);
    troupe_param fixed = {.draw = TROUPE_DRAW_FIXED, .low = dim.low};
    row->draw = TROUPE_DRAW_FIXED;
    TROUPE_TRY(take_choices(space, &fixed, field, row));
    return settle_row(space, field->name, row, NULL);
}

static troupe_status add_choice(troupe_space *space, const troupe_param *p,
                                const trp_field_found *field, trp_space_row *row)
{
    if (p->step != 0 || p->log)
        return troupe_fail(TROUPE_INVALID, "it has .step or .log, which are for ranges");
    TROUPE_TRY(take_choices(space, p, field, row));
    troupe_dim dim = choice_dim(p->draw, row->count);
    return settle_row(space, field->name, row, row->count > 1 ? &dim : NULL);
}

static troupe_status check_overlap(const troupe_space *space, const trp_space_row *row)
{
    for (size_t i = 0; i < space->count; i++) {
        const trp_space_row *other = &space->rows[i];
        if (other->option == row->option && other->offset < row->offset + row->size &&
            row->offset < other->offset + other->size)
            return troupe_fail(TROUPE_INVALID, "the row of %s fills this field already",
                               other->name);
    }
    return TROUPE_OK;
}

// The field of a row: of the config, or of the options of the run.
static troupe_status find(const troupe_space *space, const troupe_param *p, trp_field_found *field)
{
    bool option = trp_space_is_option(p);
    if (option)
        TROUPE_TRY(trp_space_check_option(p));
    return trp_field_find(option ? &trp_space_options_type : space->type, p, field);
}

troupe_status trp_space_add(troupe_space *space, const troupe_param *p)
{
    trp_field_found field;
    TROUPE_TRY(find(space, p, &field));
    trp_space_row row = {.draw = p->draw,
                         .option = trp_space_is_option(p),
                         .offset = p->offset,
                         .size = p->field_size,
                         .type = field.type,
                         .held = hold(space, &field, p->field_size)};
    if (row.held == NULL)
        return trp_space_no_memory();
    TROUPE_TRY(check_overlap(space, &row));
    switch (p->draw) {
    case TROUPE_DRAW_UNIFORM:
    case TROUPE_DRAW_LOG_UNIFORM:
    case TROUPE_DRAW_NORMAL:
        return add_range(space, p, &field, &row);
    case TROUPE_DRAW_INTEGER: // Of a bool: it is false or true, and no number elsewhere.
        if (field.type->kind != TROUPE_KIND_BOOL || p->low != 0 || p->high != 1)
            return add_range(space, p, &field, &row);
        row.draw = TROUPE_DRAW_CHOICE;
        return add_choice(space,
                          &(troupe_param){.draw = TROUPE_DRAW_CHOICE,
                                          .choices = {0, 1},
                                          .choice_count = 2,
                                          .step = p->step > 1 ? p->step : 0,
                                          .log = p->log},
                          &field, &row);
    case TROUPE_DRAW_FIXED:
    case TROUPE_DRAW_CHOICE:
    case TROUPE_DRAW_ORDERED:
    case TROUPE_DRAW_GRID:
        break;
    default:
        return troupe_fail(TROUPE_INVALID, "%d is not a kind of draw", (int)p->draw);
    }
    return add_choice(space, p, &field, &row);
}

// ---- conditions

// The choice of `other` that is the condition's at an index; -1 with TROUPE_INVALID.
static troupe_status find_choice(const troupe_param *p, size_t index, const trp_space_row *other,
                                 int *choice)
{
    trp_field_found field = {.type = other->type, .items = other->held->fields[0].count};
    trp_buffer packed = {0};
    char *raw = (char *)trp_alloc(other->size);
    if (raw == NULL)
        return trp_space_no_memory();
    troupe_param like = {.draw = TROUPE_DRAW_CHOICE, .texts = p->texts};
    troupe_status status = check_source(&like, &field);
    if (status == TROUPE_OK && p->texts != NULL)
        status = raw_text(&field, p->texts[index], index, raw);
    else if (status == TROUPE_OK)
        status = raw_number(&field, p->choices[index], false, index, raw);
    if (status == TROUPE_OK)
        status = trp_pack(other->held, raw, &packed);
    if (status == TROUPE_OK && packed.failed)
        status = trp_space_no_memory();
    trp_free(raw);
    *choice = status == TROUPE_OK ? trp_row_choice_packed(other, &packed) : -1;
    trp_buffer_free(&packed);
    if (status == TROUPE_INVALID)
        return trp_error_prefix("its condition on %s", other->name);
    if (status != TROUPE_OK || *choice >= 0)
        return status;
    return p->texts != NULL
               ? troupe_fail(TROUPE_INVALID, "its condition is on '%s', which is no choice of %s",
                             p->texts[index], other->name)
               : troupe_fail(TROUPE_INVALID, "its condition is on %.17g, which is no choice of %s",
                             p->choices[index], other->name);
}

bool trp_space_has_row(const troupe_space *space, const troupe_param *p)
{
    for (size_t i = 0; i < space->count; i++)
        if (space->rows[i].offset == p->offset && space->rows[i].option == trp_space_is_option(p))
            return true;
    return false;
}

// The row of a field of either struct, by its name without spaces.
static trp_space_row *row_of(const troupe_space *space, const char *name, bool option)
{
    char plain[TRP_SPACE_NAME_MAX + 1];
    size_t used = 0;
    for (const char *at = name; *at != '\0' && used < TRP_SPACE_NAME_MAX; at++)
        if (*at != ' ')
            plain[used++] = *at;
    plain[used] = '\0';
    trp_space_row *row = trp_space_row_named(space, plain);
    return row != NULL && row->option == option ? row : NULL;
}

troupe_status trp_space_add_condition(troupe_space *space, const troupe_param *p)
{
    trp_field_found field;
    TROUPE_TRY(find(space, p, &field));
    bool option = trp_space_is_option(p);
    trp_space_row *row = row_of(space, field.name, option);
    if (p->when == NULL || p->when[0] == '\0')
        return troupe_fail(TROUPE_INVALID, "its condition does not say on what");
    const trp_space_row *other = row_of(space, p->when, option);
    uint32_t when = 0;
    if (row == NULL)
        return troupe_fail(TROUPE_INVALID, "it has a condition, but no row that it could be on");
    bool hopeless = other == NULL || other >= row || other->count == 0 || row->parent >= 0 ||
                    other->draw == TROUPE_DRAW_FIXED;
    if (hopeless || p->choice_count == 0)
        return trp_row_depend(space, row, other, p->when, 0); // Which says why.
    if (p->choice_count > TROUPE_CHOICES_MAX)
        return troupe_fail(TROUPE_INVALID, "its condition has %zu choices, must have 1 to %d",
                           p->choice_count, (int)TROUPE_CHOICES_MAX);
    for (size_t i = 0; i < p->choice_count; i++) {
        int choice = -1;
        TROUPE_TRY(find_choice(p, i, other, &choice));
        if (choice >= CONDITION_BITS)
            return troupe_fail(TROUPE_INVALID,
                               "its condition is on choice %d of %s: it can be on the first %d",
                               choice, other->name, (int)CONDITION_BITS);
        when |= 1u << choice;
    }
    return trp_row_depend(space, row, other, p->when, when);
}
