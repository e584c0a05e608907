// data.c: see data.h.
#include <actors/ref/ref.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/data.h>
#include <train/registry.h>

enum {
    NAME_MAX_BYTES = 63,
    KEY_MAX_BYTES = 63,
    LIST_MAX = 400, // Bytes of keys in a text.
};

// ---- the tables that the program has

static trp_named_list tables = TRP_NAMED_LIST_INIT;

static troupe_status check(const troupe_data_table *table)
{
    if (table->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "data were compiled for generation %u of the library, this is %u",
                           table->abi, TROUPE_ABI);
    if (!table->name || !*table->name || strlen(table->name) > NAME_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID, "data have no name of 1 to %d bytes", NAME_MAX_BYTES);
    if (!table->setup)
        return troupe_fail(TROUPE_INVALID, "data '%s' have no setup", table->name);
    if ((unsigned)table->where > TROUPE_ON_RANKS)
        return troupe_fail(TROUPE_INVALID,
                           "data '%s' are set up in place %d: expected TROUPE_IN_DRIVER or "
                           "TROUPE_ON_RANKS",
                           table->name, (int)table->where);
    if (!table->source || table->source->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_INVALID, "data '%s' have no type of their source", table->name);
    return TROUPE_OK;
}

troupe_status troupe_data_register(const troupe_data_table *table)
{
    TRP_REQUIRE(table);
    TROUPE_TRY(check(table));
    const void *there;
    TROUPE_TRY(trp_named_add(&tables, table->name, table, &there));
    const troupe_data_table *other = (const troupe_data_table *)there;
    if (other->setup != table->setup || other->where != table->where ||
        troupe_type_hash(other->source) != troupe_type_hash(table->source))
        return troupe_fail(TROUPE_EXISTS, "other data have the name '%s'", table->name);
    return TROUPE_OK;
}

const troupe_data_table *trp_data_table_named(const char *name)
{
    const troupe_data_table *found = (const troupe_data_table *)trp_named_find(&tables, name);
    if (!found)
        (void)troupe_fail(TROUPE_NOT_FOUND, "data '%s' are not registered in this process", name);
    return found;
}

const troupe_data_table *trp_data_table_find(const char *name, uint64_t schema)
{
    const troupe_data_table *found = trp_data_table_named(name);
    if (found && troupe_type_hash(found->source) != schema)
        (void)troupe_fail(TROUPE_WRONG_TYPE,
                          "data '%s' have a source with schema %016" PRIx64
                          " in this process, and %016" PRIx64 " where they were submitted",
                          name, troupe_type_hash(found->source), schema);
    return found && troupe_type_hash(found->source) == schema ? found : NULL;
}

// ---- naming sets

// What a setup holds.
typedef struct naming {
    troupe_data about; // First: it is what the user's code has.
    trp_data_sets *sets;
} naming;

// The setup that this thread runs.
static _Thread_local naming *current;

static int compare(const void *one, const void *other)
{
    return strcmp(((const trp_data_set *)one)->key, ((const trp_data_set *)other)->key);
}

troupe_status trp_data_make(const troupe_data_table *table, const troupe_data *about,
                            const void *source, const char *share, trp_data_sets *sets)
{
    naming now = {.about = *about, .sets = sets};
    current = &now;
    troupe_status status = table->setup(&now.about, source);
    current = NULL;
    TROUPE_TRY(status);
    if (sets->count == 0)
        return troupe_fail(TROUPE_INVALID, "it named no set: expected troupe_data_set for each");
    qsort(sets->items, sets->count, sizeof *sets->items, compare);
    return share ? trp_data_share(share, sets) : TROUPE_OK;
}

void trp_data_drop(trp_data_sets *sets)
{
    for (size_t i = 0; i < sets->count; i++)
        troupe_ref_drop(sets->items[i].ref);
    trp_free(sets->items);
    trp_arena_clear(&sets->arena);
    *sets = (trp_data_sets){0};
}

static const trp_data_set *named(const trp_data_set *sets, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(sets[i].key, key) == 0)
            return &sets[i];
    return NULL;
}

static troupe_status check_set(const trp_data_sets *sets, const char *key, int64_t rows,
                               troupe_sharing how)
{
    size_t length = strlen(key);
    if (length < 1 || length > KEY_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_data_set: the key is '%.80s': expected 1 to %d bytes", key,
                           KEY_MAX_BYTES);
    if (named(sets->items, sets->count, key))
        return troupe_fail(TROUPE_INVALID, "troupe_data_set: there is a set '%s' already", key);
    if (rows < 0)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_data_set: the set '%s' has %" PRId64 " rows: expected 0 or more",
                           key, rows);
    if ((unsigned)how > TROUPE_WHOLE)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_data_set: the set '%s' is shared in way %d: expected "
                           "TROUPE_SHARE_BY_NAME, TROUPE_SPLIT or TROUPE_WHOLE",
                           key, (int)how);
    return TROUPE_OK;
}

static troupe_status add(trp_data_sets *sets, const char *key, const trp_data_set *set)
{
    char *name = (char *)trp_arena_alloc(&sets->arena, strlen(key) + 1);
    size_t room = sets->count < sets->room ? sets->room : 2 * sets->room + 4;
    trp_data_set *items =
        name ? (trp_data_set *)trp_realloc(sets->items, room * sizeof *items) : NULL;
    if (!items)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the set '%s'", key);
    sets->items = items;
    sets->room = room;
    items[sets->count] = *set;
    items[sets->count++].key = strcpy(name, key);
    return TROUPE_OK;
}

static troupe_status take(naming *now, const char *key, troupe_ref ref, int64_t rows,
                          troupe_sharing how)
{
    bool split = how == TROUPE_SPLIT || (how == TROUPE_SHARE_BY_NAME && !strcmp(key, "train"));
    trp_data_set set = {.rows = rows, .split = split};
    TROUPE_TRY(check_set(now->sets, key, rows, how));
    if (ref.id == 0)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_data_set: the set '%s' is an empty reference: expected one to "
                           "an object",
                           key);
    troupe_status status = trp_ref_keep(ref, &set.ref);
    if (status == TROUPE_INVALID)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_data_set: the set '%s' is a stale reference: it was consumed or "
                           "dropped before",
                           key);
    if (status == TROUPE_OK && (status = add(now->sets, key, &set)) != TROUPE_OK)
        troupe_ref_drop(set.ref);
    return status;
}

troupe_status troupe_data_set(troupe_data *data, const char *key, troupe_ref ref, int64_t rows,
                              troupe_sharing how)
{
    TRP_REQUIRE(data);
    TRP_REQUIRE(key);
    bool called = current && data == &current->about;
    troupe_status status =
        called ? take(current, key, ref, rows, how)
               : troupe_fail(TROUPE_INVALID, "troupe_data_set was not called by the setup of data "
                                             "with that call's data");
    troupe_error said;
    trp_error_hold(&said);
    troupe_ref_drop(ref);
    trp_error_restore(&said);
    return status;
}

// ---- how they are shared

static bool is_word(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && memcmp(text, word, size) == 0;
}

// Reads "key=split" up to its end.
static troupe_status share_one(const char *at, size_t size, trp_data_sets *sets)
{
    const char *equals = (const char *)memchr(at, '=', size);
    const char *word = equals ? equals + 1 : at;
    size_t left = equals ? size - (size_t)(word - at) : 0, key = equals ? (size_t)(equals - at) : 0;
    bool split = is_word(word, left, "split");
    if (key == 0 || (!split && !is_word(word, left, "whole")))
        return troupe_fail(TROUPE_INVALID,
                           "option .share has '%.*s': expected key=split or key=whole",
                           size < KEY_MAX_BYTES ? (int)size : KEY_MAX_BYTES, at);
    for (size_t i = 0; sets && i < sets->count; i++)
        if (is_word(at, key, sets->items[i].key)) {
            sets->items[i].split = split;
            return TROUPE_OK;
        }
    return sets ? troupe_fail(TROUPE_INVALID, "option .share has '%.*s', which is none of its sets",
                              key < KEY_MAX_BYTES ? (int)key : KEY_MAX_BYTES, at)
                : TROUPE_OK;
}

troupe_status trp_data_share(const char *share, trp_data_sets *sets)
{
    for (const char *at = share; *at;) {
        at += strspn(at, " ");
        size_t size = strcspn(at, ","), used = size;
        while (used > 0 && at[used - 1] == ' ')
            used--;
        TROUPE_TRY(share_one(at, used, sets));
        at += size + (at[size] == ',');
    }
    return TROUPE_OK;
}

// ---- what ranks ask

void trp_data_list(const troupe_text *keys, size_t count, char *out, size_t size)
{
    size_t at = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; i < count; i++) {
        const char *comma = i > 0 ? ", " : "";
        if (at + strlen(comma) + strlen(keys[i]) + sizeof ", ..." > size) {
            snprintf(out + at, size - at, "%s...", comma);
            return;
        }
        at += (size_t)snprintf(out + at, size - at, "%s%s", comma, keys[i]);
    }
}

const troupe_text *trp_data_keys(const trp_data_sets *sets, trp_arena *arena)
{
    troupe_text *keys = (troupe_text *)trp_arena_alloc(arena, sets->count * sizeof *keys);
    for (size_t i = 0; keys && i < sets->count; i++) {
        char *copy = (char *)trp_arena_alloc(arena, strlen(sets->items[i].key) + 1);
        if (!copy)
            return NULL;
        keys[i] = strcpy(copy, sets->items[i].key);
    }
    return keys;
}

troupe_status trp_data_find(const trp_data_set *sets, size_t count, const char *key,
                            const trp_data_set **found)
{
    enum { SHOWN = 16 };
    troupe_text keys[SHOWN + 1];
    char list[LIST_MAX];
    *found = named(sets, count, key);
    if (*found)
        return TROUPE_OK;
    if (count == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no data set '%.80s': the run has no .data",
                           key);
    size_t shown = count < SHOWN ? count : SHOWN;
    for (size_t i = 0; i < shown; i++)
        keys[i] = sets[i].key;
    if (shown < count)
        keys[shown++] = "...";
    trp_data_list(keys, shown, list, sizeof list);
    return troupe_fail(TROUPE_NOT_FOUND, "there is no data set '%.80s': the run has %s", key, list);
}

troupe_shard trp_data_part(const trp_data_set *set, int rank, int world)
{
    troupe_shard part = {.data = set->ref,
                         .rows = set->rows,
                         .all = set->rows,
                         .sharing = set->split ? TROUPE_SPLIT : TROUPE_WHOLE};
    if (!set->split)
        return part;
    int64_t least = set->rows / world, more = set->rows % world;
    part.first = rank * least + (rank < more ? rank : more);
    part.rows = least + (rank < more);
    return part;
}
