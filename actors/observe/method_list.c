// method_list.c: how long messages waited and methods ran, added up over all processes of the node
// (troupe_methods_list of troupe/observe.h).
#include <troupe/observe.h>

#include <actors/actor/method_stats.h>
#include <actors/observe/actor_list.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <troupe/task.h>

// One method in one process. The counts end with the last that is not 0.
TROUPE_STRUCT(trp_tally, (troupe_text, class_name), (troupe_text, method),
              (uint64_t, longest_wait_ns), (uint64_t, longest_run_ns),
              (troupe_array_uint64_t, waits), (troupe_array_uint64_t, runs));
TROUPE_STRUCT(trp_tallies, (troupe_array_trp_tally, methods));

static troupe_status trp_observe_methods(const troupe_none *none, trp_tallies *seen);
TROUPE_TASK(trp_observe_methods, troupe_none, trp_tallies);

// ---- in each process

typedef struct survey {
    trp_tally *items; // NULL: only counted.
    size_t count, most;
    bool failed;
} survey;

static uint64_t relaxed(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed); // Statistics: see histogram.c.
}

static bool copy_counts(const trp_histogram *from, troupe_array_uint64_t *to)
{
    size_t count = TRP_HISTOGRAM_BUCKETS;
    while (count > 0 && relaxed(&from->counts[count - 1]) == 0)
        count--;
    uint64_t *items = troupe_arena_alloc((count > 0 ? count : 1) * sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i] = relaxed(&from->counts[i]);
    to->items = items;
    to->count = items != NULL ? count : 0;
    return items != NULL;
}

static void survey_one(trp_gauge *gauge, void *user)
{
    survey *all = user;
    if (all->items != NULL && all->count < all->most) {
        trp_tally *it = &all->items[all->count];
        it->class_name = gauge->class_->row->name;
        it->method = gauge->method->row->name;
        it->longest_wait_ns = relaxed(&gauge->waits.longest_ns);
        it->longest_run_ns = relaxed(&gauge->runs.longest_ns);
        if (!copy_counts(&gauge->waits, &it->waits) || !copy_counts(&gauge->runs, &it->runs))
            all->failed = true;
    }
    all->count++;
}

static troupe_status trp_observe_methods(const troupe_none *none, trp_tallies *seen)
{
    (void)none;
    survey counted = {0}, all = {0};
    trp_measure_each(survey_one, &counted);
    all.most = counted.count; // What comes meanwhile is in the next list.
    all.items = troupe_arena_alloc((all.most > 0 ? all.most : 1) * sizeof *all.items);
    if (all.items != NULL)
        trp_measure_each(survey_one, &all);
    if (all.items == NULL || all.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list %zu methods", all.most);
    seen->methods.items = all.items;
    seen->methods.count = all.count < all.most ? all.count : all.most;
    return TROUPE_OK;
}

// ---- in the process that asks

// A method's counts of all processes.
typedef struct total {
    const char *class_name, *method;
    uint64_t longest_wait_ns, longest_run_ns;
    uint64_t waits[TRP_HISTOGRAM_BUCKETS], runs[TRP_HISTOGRAM_BUCKETS];
} total;

typedef struct totals {
    total **items;
    size_t count, capacity;
} totals;

// The method's total, a new one if it has none; NULL: no memory.
static total *total_of(totals *all, const trp_tally *one)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i]->class_name, one->class_name) == 0 &&
            strcmp(all->items[i]->method, one->method) == 0)
            return all->items[i];
    if (all->count == all->capacity) {
        size_t capacity = all->capacity > 0 ? 2 * all->capacity : 64;
        total **items = (total **)troupe_arena_alloc(capacity * sizeof *items);
        if (items == NULL)
            return NULL;
        if (all->count > 0)
            memcpy((void *)items, (const void *)all->items, all->count * sizeof *items);
        all->items = items;
        all->capacity = capacity;
    }
    total *made = troupe_arena_alloc(sizeof *made);
    if (made == NULL)
        return NULL;
    made->class_name = one->class_name;
    made->method = one->method;
    all->items[all->count++] = made;
    return made;
}

static void add_counts(const troupe_array_uint64_t *more, uint64_t counts[TRP_HISTOGRAM_BUCKETS])
{
    for (size_t i = 0; i < more->count && i < TRP_HISTOGRAM_BUCKETS; i++)
        counts[i] += more->items[i];
}

static troupe_status add_up(totals *all, const trp_tallies *seen)
{
    for (size_t i = 0; i < seen->methods.count; i++) {
        const trp_tally *one = &seen->methods.items[i];
        if (one->runs.count == 0)
            continue; // Of a run before this one.
        total *it = total_of(all, one);
        if (it == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to list methods");
        add_counts(&one->waits, it->waits);
        add_counts(&one->runs, it->runs);
        if (it->longest_wait_ns < one->longest_wait_ns)
            it->longest_wait_ns = one->longest_wait_ns;
        if (it->longest_run_ns < one->longest_run_ns)
            it->longest_run_ns = one->longest_run_ns;
    }
    return TROUPE_OK;
}

static troupe_latency latency_of(const uint64_t counts[TRP_HISTOGRAM_BUCKETS], uint64_t longest_ns)
{
    return (troupe_latency){.p50_s = (double)trp_histogram_at(counts, longest_ns, 0.5) * 1e-9,
                            .p99_s = (double)trp_histogram_at(counts, longest_ns, 0.99) * 1e-9,
                            .p999_s = (double)trp_histogram_at(counts, longest_ns, 0.999) * 1e-9,
                            .max_s = (double)longest_ns * 1e-9};
}

static troupe_status show(const totals *all, troupe_method_list *list)
{
    troupe_method_info *items =
        troupe_arena_alloc((all->count > 0 ? all->count : 1) * sizeof *items);
    if (items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list %zu methods", all->count);
    for (size_t i = 0; i < all->count; i++) {
        const total *it = all->items[i];
        uint64_t count = 0;
        for (size_t k = 0; k < TRP_HISTOGRAM_BUCKETS; k++)
            count += it->runs[k];
        items[i] = (troupe_method_info){.class_name = it->class_name,
                                        .method = it->method,
                                        .count = count,
                                        .waited = latency_of(it->waits, it->longest_wait_ns),
                                        .ran = latency_of(it->runs, it->longest_run_ns)};
    }
    list->methods.items = items;
    list->methods.count = all->count;
    return TROUPE_OK;
}

static troupe_status list_methods(troupe_method_list *list)
{
    memset(list, 0, sizeof *list);
    TROUPE_TRY(trp_process_check());
    if (!trp_process_options()->measure)
        return troupe_fail(TROUPE_UNSUPPORTED, "methods are not measured: start with .measure = "
                                               "true or the variable TROUPE_MEASURE=1");
    troupe_ref *refs = troupe_arena_alloc(TRP_PROCESSES_MAX * sizeof *refs);
    if (refs == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to list methods");
    troupe_status status = TROUPE_OK;
    totals all = {0};
    size_t asked = trp_observe_ask(&troupe_task_trp_observe_methods, &(troupe_none){0}, refs);
    for (size_t i = 0; i < asked; i++) {
        trp_tallies seen;
        if (status != TROUPE_OK)
            troupe_ref_drop(refs[i]);
        else if (troupe_get(trp_tallies, refs[i], &seen) == TROUPE_OK)
            status = add_up(&all, &seen);
        else
            list->silent++;
    }
    return status == TROUPE_OK ? show(&all, list) : status;
}

troupe_status(troupe_methods_list)(troupe_method_list *list, size_t size)
{
    TRP_REQUIRE(list);
    troupe_method_list found;
    troupe_status status = list_methods(&found);
    trp_output_give(list, size, &found, sizeof found);
    return status;
}
