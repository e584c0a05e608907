// fit_notes.c: what hooks have measured: sums and counts by name, and their means over all ranks.
#include <models/fit.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void wrong(trp_notes *notes, troupe_status status, const char *name, const char *what)
{
    if (notes->wrong != TROUPE_OK)
        return;
    notes->wrong = status;
    (void)snprintf(notes->why, sizeof notes->why, "the metric '%.80s' %s", name, what);
}

static trp_note *find(trp_notes *notes, const char *prefix, const char *name)
{
    size_t before = strlen(prefix);
    for (size_t i = 0; i < notes->count; i++)
        if (strncmp(notes->items[i].name, prefix, before) == 0 &&
            strcmp(notes->items[i].name + before, name) == 0)
            return &notes->items[i];
    return NULL;
}

void trp_notes_add(trp_notes *notes, const char *prefix, const char *name, double sum, double count)
{
    char what[96];
    if (!name || !*name || strlen(name) > TRP_NOTE_NAME_MAX - TRP_NOTE_PREFIX_MAX) {
        (void)snprintf(what, sizeof what, "has no name of 1 to %d bytes",
                       TRP_NOTE_NAME_MAX - TRP_NOTE_PREFIX_MAX);
        wrong(notes, TROUPE_INVALID, name ? name : "", what);
        return;
    }
    if (!isfinite(sum) || !isfinite(count)) {
        (void)snprintf(what, sizeof what, "is %g: expected a finite number",
                       isfinite(count) ? sum : count);
        wrong(notes, TROUPE_FAILED, name, what);
        return;
    }
    trp_note *note = find(notes, prefix, name);
    if (!note && notes->count == TRP_NOTES_MAX) {
        (void)snprintf(what, sizeof what, "is one more than the %d of a report", TRP_NOTES_MAX);
        wrong(notes, TROUPE_INVALID, name, what);
        return;
    }
    if (!note) {
        note = &notes->items[notes->count++];
        *note = (trp_note){.sum = 0};
        (void)snprintf(note->name, sizeof note->name, "%s%s", prefix, name);
    }
    note->sum += sum;
    note->count += count;
}

troupe_status trp_notes_check(trp_notes *notes)
{
    troupe_status status = notes->wrong;
    notes->wrong = TROUPE_OK;
    return status == TROUPE_OK ? status : troupe_fail(status, "%s", notes->why);
}

void trp_notes_clear(trp_notes *notes)
{
    notes->count = 0;
    notes->wrong = TROUPE_OK;
}

troupe_status trp_notes_mean_of(const trp_notes *notes, troupe_rank *me, const char *name,
                                double *mean)
{
    const trp_note *note = find((trp_notes *)(uintptr_t)notes, "", name); // It changes nothing.
    double sums[2] = {note ? note->sum : 0, note ? note->count : 0};
    TROUPE_TRY(troupe_allreduce(me, sums, 2, TROUPE_SUM));
    if (sums[1] == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "no rank has noted '%.80s' since the last report",
                           name);
    *mean = sums[0] / sums[1];
    return TROUPE_OK;
}

// ---- over all ranks

typedef struct naming {
    int32_t count;
    char names[TRP_NOTES_MAX][TRP_NOTE_NAME_MAX + 1];
} naming;

// Fails on all ranks alike, with the name that only some have.
static troupe_status fail_together(troupe_rank *me, const char *unknown)
{
    char name[TRP_NOTE_NAME_MAX + 1] = "";
    int64_t first = *unknown ? me->rank : INT64_MAX;
    TROUPE_TRY(troupe_allreduce(me, &first, 1, TROUPE_MIN));
    (void)snprintf(name, sizeof name, "%s", unknown);
    TROUPE_TRY(troupe_broadcast(me, name, sizeof name, (int)first));
    return troupe_fail(TROUPE_INVALID,
                       "rank %d has noted '%s', which rank 0 has not: expected the same on all "
                       "ranks, with batches that have no rows too",
                       (int)first, name);
}

// Takes over the names, and their order, from rank 0. What this rank lacks, it has nothing to add
// to; `unknown` becomes one that rank 0 lacks.
static troupe_status agree(trp_notes *notes, troupe_rank *me, char *unknown, size_t capacity)
{
    naming common = {.count = (int32_t)notes->count};
    for (size_t i = 0; i < notes->count; i++)
        memcpy(common.names[i], notes->items[i].name, sizeof common.names[i]);
    TROUPE_TRY(troupe_broadcast(me, &common, sizeof common, 0));
    if (me->rank == 0)
        return TROUPE_OK;
    trp_notes own = *notes;
    notes->count = (size_t)common.count;
    for (size_t i = 0; i < notes->count; i++) {
        const trp_note *mine = find(&own, "", common.names[i]);
        notes->items[i] = mine ? *mine : (trp_note){.sum = 0};
        memcpy(notes->items[i].name, common.names[i], sizeof common.names[i]);
    }
    for (size_t i = 0; i < own.count; i++)
        if (!find(notes, "", own.items[i].name))
            (void)snprintf(unknown, capacity, "%s", own.items[i].name);
    return TROUPE_OK;
}

static troupe_status add_up(trp_notes *notes, troupe_rank *me)
{
    double sums[2 * TRP_NOTES_MAX + 1];
    char unknown[TRP_NOTE_NAME_MAX + 1] = "";
    TROUPE_TRY(agree(notes, me, unknown, sizeof unknown));
    size_t used = 0;
    for (size_t i = 0; i < notes->count; i++) {
        sums[used++] = notes->items[i].sum;
        sums[used++] = notes->items[i].count;
    }
    sums[used] = unknown[0] ? 1 : 0;
    TROUPE_TRY(troupe_allreduce(me, sums, used + 1, TROUPE_SUM));
    if (sums[used] > 0)
        return fail_together(me, unknown);
    for (size_t i = 0; i < notes->count; i++) {
        notes->items[i].sum = sums[2 * i];
        notes->items[i].count = sums[2 * i + 1];
    }
    return TROUPE_OK;
}

troupe_status trp_notes_mean(trp_notes *notes, troupe_rank *me, troupe_metric *metrics,
                             size_t *count)
{
    *count = 0;
    if (me->world > 1)
        TROUPE_TRY(add_up(notes, me));
    for (size_t i = 0; i < notes->count; i++) {
        const trp_note *note = &notes->items[i];
        if (note->count != 0)
            metrics[(*count)++] = (troupe_metric){note->name, note->sum / note->count};
    }
    return TROUPE_OK;
}
