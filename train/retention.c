// retention.c: keeps the best n. One that was evicted would not be among the best later either,
// since newcomers only push others down; so what is kept now is all that must be known.
#include <math.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <train/retention.h>

// Ties go to the older; of those without a score the newest is the best, as where none has one.
static bool better(const trp_kept *a, const trp_kept *b)
{
    if (isnan(a->score) != isnan(b->score))
        return !isnan(a->score);
    if (a->score != b->score && !isnan(a->score))
        return a->score > b->score;
    return isnan(a->score) ? a->id > b->id : a->id < b->id;
}

troupe_status trp_retention_add(trp_retention *retention, int64_t id, double score)
{
    trp_assert(id > trp_retention_newest(retention));
    if (retention->count == retention->capacity) {
        size_t capacity = retention->capacity ? 2 * retention->capacity : 8;
        trp_kept *grown =
            (trp_kept *)trp_realloc(retention->kept, capacity * sizeof(*retention->kept));
        if (!grown)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to remember checkpoint %lld",
                               (long long)id);
        retention->kept = grown;
        retention->capacity = capacity;
    }
    retention->kept[retention->count++] = (trp_kept){id, score};
    return TROUPE_OK;
}

bool trp_retention_is_passing(const trp_retention *retention)
{
    if (retention->keep == 0 || retention->count == 0)
        return false;
    int better_ones = 0;
    for (size_t i = 0; i < retention->count; i++)
        better_ones += better(&retention->kept[i], &retention->kept[retention->count - 1]);
    return better_ones >= retention->keep;
}

int64_t trp_retention_evict(trp_retention *retention, double *score)
{
    size_t keep = (size_t)retention->keep;
    if (keep == 0 || retention->count <= keep)
        return -1;
    // All but the newest are candidates; the worst of them goes if n others are better.
    size_t worst = 0, better_than_worst = 0;
    for (size_t i = 1; i + 1 < retention->count; i++)
        if (better(&retention->kept[worst], &retention->kept[i]))
            worst = i;
    for (size_t i = 0; i < retention->count; i++)
        better_than_worst += better(&retention->kept[i], &retention->kept[worst]);
    if (better_than_worst < keep)
        return -1;
    int64_t id = retention->kept[worst].id;
    *score = retention->kept[worst].score;
    retention->count--;
    memmove(&retention->kept[worst], &retention->kept[worst + 1],
            (retention->count - worst) * sizeof(*retention->kept));
    return id;
}

void trp_retention_rewind(trp_retention *retention, int64_t id)
{
    while (retention->count && retention->kept[retention->count - 1].id > id)
        retention->count--;
}

int64_t trp_retention_newest(const trp_retention *retention)
{
    return retention->count ? retention->kept[retention->count - 1].id : -1;
}

int64_t trp_retention_best(const trp_retention *retention)
{
    if (retention->count == 0)
        return -1;
    const trp_kept *best = &retention->kept[0];
    for (size_t i = 1; i < retention->count; i++)
        if (better(&retention->kept[i], best))
            best = &retention->kept[i];
    return best->id;
}

void trp_retention_free(trp_retention *retention)
{
    trp_free(retention->kept);
    *retention = (trp_retention){0};
}
