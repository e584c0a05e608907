// leaks.c: what was never given up, and where it was made (see leaks.h).
#include <actors/ref/leaks.h>

#include <actors/class/source_line.h>
#include <actors/ref/call_table.h>
#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/store/read.h>
#include <runtime/store/row.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1024, CHUNKS = TRP_ENTRY_PLACES / CHUNK, GROUPS_MAX = 20 };
enum { VALUES_BYTES = 16 << 20 }; // Below that they may well be what a program works with.

// Where the last of them was made.
typedef struct mark {
    uint64_t id;
    uint64_t schema;
    const void *site;
    const char *by;
    uint32_t count; // Of an object: how many there are.
} mark;

_Atomic bool trp_leaks_watched;

static struct {
    pthread_mutex_t lock;  // Of all that follows.
    mark *rows[CHUNKS];    // By their places in the reference table.
    mark *objects, *views; // By their slots.
} marks TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- noting

static mark *row_mark(uint64_t id)
{
    uint32_t place = trp_entry_place(id);
    mark **chunk = &marks.rows[place / CHUNK];
    if (*chunk == NULL)
        *chunk = trp_alloc(CHUNK * sizeof **chunk);
    return *chunk != NULL ? &(*chunk)[place % CHUNK] : NULL;
}

// That of the object itself; of one that was in its slot before nothing is left.
static mark *object_mark(mark **table, trp_object object)
{
    if (*table == NULL)
        *table = trp_alloc(TRP_OBJECTS_MAX * sizeof **table);
    if (*table == NULL || trp_row_slot(object) >= TRP_OBJECTS_MAX)
        return NULL;
    mark *it = &(*table)[trp_row_slot(object)];
    if (it->id != object)
        *it = (mark){.id = object};
    return it;
}

static void note(mark *it, uint64_t schema, const char *by, const void *site)
{
    it->count++;
    it->schema = schema;
    if (site != NULL) {
        it->site = site;
        it->by = by;
    }
}

// Of a reference; NULL: there is no memory.
static mark *ref_mark(troupe_ref ref)
{
    if ((ref.id & TRP_REF_OBJECT) != 0)
        return object_mark(&marks.objects, ref.id);
    mark *it = row_mark(ref.id);
    if (it != NULL && it->id != ref.id)
        *it = (mark){.id = ref.id};
    return it;
}

void trp_leaks_made(troupe_ref ref, const char *by, const void *site)
{
    if (ref.id == 0 || ref.id == TRP_REF_NO_MEMORY)
        return;
    pthread_mutex_lock(&marks.lock);
    mark *it = ref_mark(ref);
    if (it != NULL)
        note(it, ref.schema, by, site);
    pthread_mutex_unlock(&marks.lock);
}

void trp_leaks_moved(troupe_ref ref, const char *by, const void *site)
{
    if (ref.id == 0 || ref.id == TRP_REF_NO_MEMORY)
        return;
    pthread_mutex_lock(&marks.lock);
    mark *it = ref_mark(ref);
    if (it != NULL && it->count > 0) {
        it->site = site;
        it->by = by;
    }
    pthread_mutex_unlock(&marks.lock);
}

static void take_away(mark **table, trp_object object)
{
    pthread_mutex_lock(&marks.lock);
    mark *it = *table != NULL ? object_mark(table, object) : NULL;
    if (it != NULL && it->count > 0)
        it->count--;
    pthread_mutex_unlock(&marks.lock);
}

void trp_leaks_gone(trp_object object)
{
    if (trp_leaks_on())
        take_away(&marks.objects, object);
}

void trp_leaks_view(trp_object object, const char *by, const void *site)
{
    pthread_mutex_lock(&marks.lock);
    mark *it = object_mark(&marks.views, object);
    if (it != NULL)
        note(it, trp_store_look(object).schema, by, site);
    pthread_mutex_unlock(&marks.lock);
}

void trp_leaks_view_end(trp_object object)
{
    if (trp_leaks_on())
        take_away(&marks.views, object);
}

// ---- the report

// What was made at one place, with one function and of one type.
typedef struct group {
    const void *site;
    const char *by;
    uint64_t schema;
    const char *method; // Of a call; NULL: of none.
    uint32_t count;
} group;

typedef struct report {
    group groups[GROUPS_MAX];
    size_t count, left_out; // Groups, and what did not fit in them.
    size_t total;
} report;

static void add(report *all, const mark *it, const char *method, uint32_t count)
{
    if (it->site == NULL || trp_site_is_ours(it->site))
        return;
    all->total += count;
    for (size_t i = 0; i < all->count; i++) {
        group *known = &all->groups[i];
        if (known->site == it->site && known->by == it->by && known->schema == it->schema) {
            known->count += count;
            return;
        }
    }
    if (all->count == GROUPS_MAX) {
        all->left_out += count;
        return;
    }
    all->groups[all->count++] = (group){it->site, it->by, it->schema, method, count};
}

static void add_row(report *all, const mark *it)
{
    trp_entry *entry = it->id != 0 ? trp_entry_lock(it->id) : NULL;
    if (entry == NULL)
        return;
    bool owned = entry->owned && !entry->borrowed;
    const char *method = entry->kind == TRP_ENTRY_CALL ? entry->target.method : NULL;
    trp_entry_unlock(entry);
    if (owned)
        add(all, it, method, 1);
}

static void add_objects(report *all, const mark *table)
{
    for (size_t slot = 0; table != NULL && slot < TRP_OBJECTS_MAX; slot++)
        if (table[slot].count > 0)
            add(all, &table[slot], NULL, table[slot].count);
}

static void collect(report *all)
{
    for (size_t c = 0; c < CHUNKS; c++)
        for (size_t i = 0; marks.rows[c] != NULL && i < CHUNK; i++)
            add_row(all, &marks.rows[c][i]);
    add_objects(all, marks.objects);
    add_objects(all, marks.views);
}

static int more_first(const void *one, const void *other)
{
    const group *a = one, *b = other;
    return (a->count < b->count) - (a->count > b->count);
}

static void say(report *all)
{
    const void *sites[GROUPS_MAX];
    char texts[GROUPS_MAX][TRP_SITE_TEXT];
    qsort(all->groups, all->count, sizeof all->groups[0], more_first);
    for (size_t i = 0; i < all->count; i++)
        sites[i] = all->groups[i].site;
    trp_log(TRP_WARN, "leaks: %zu reference%s, view%s or buffer%s never released in this process:",
            all->total, all->total == 1 ? "" : "s", all->total == 1 ? "" : "s",
            all->total == 1 ? " was" : "s were");
    trp_sites_resolve(sites, all->count, texts);
    for (size_t i = 0; i < all->count; i++) {
        const group *it = &all->groups[i];
        char label[64];
        trp_log(TRP_WARN, "leaks: %u of %s by %s%s%s at %s", it->count,
                it->schema != 0 ? trp_type_label(it->schema, label) : "a type that is not known",
                it->by, it->method != NULL ? " of " : "", it->method != NULL ? it->method : "",
                texts[i]);
    }
    if (all->left_out > 0)
        trp_log(TRP_WARN, "leaks: and %zu more, made at other places", all->left_out);
}

static void forget(void)
{
    for (size_t c = 0; c < CHUNKS; c++) {
        trp_free(marks.rows[c]);
        marks.rows[c] = NULL;
    }
    trp_free(marks.objects);
    trp_free(marks.views);
    marks.objects = marks.views = NULL;
}

void trp_leaks_report(void)
{
    if (!atomic_exchange(&trp_leaks_watched, false))
        return;
    report all = {0};
    pthread_mutex_lock(&marks.lock);
    collect(&all);
    forget();
    pthread_mutex_unlock(&marks.lock);
    if (all.total > 0)
        say(&all);
    if (trp_arena_kept() >= VALUES_BYTES)
        trp_log(TRP_WARN,
                "leaks: %zu MiB of texts and arrays that threads of this process were given and "
                "never freed by troupe_arena_reset",
                trp_arena_kept() >> 20);
}

void trp_leaks_start(void)
{
#ifdef NDEBUG
    bool on = false;
#else
    bool on = true;
#endif
    const char *wanted = getenv("TROUPE_LEAKS");
    if (wanted != NULL && wanted[0] != '\0')
        on = strcmp(wanted, "0") != 0;
    atomic_store(&trp_leaks_watched, on);
}
