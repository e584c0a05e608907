// backfill.c: which waiting claim may be admitted before its turn (see node/backfill.h).
//
// The invariant: what is admitted here is given back, by its limit, at a time at which none of the
// older claims that want some of the same could have had it. So it delays none of them: neither the
// head of the queue nor those behind that.
#include <runtime/node/backfill.h>

static bool share(const trp_resources *resources, const trp_claim *a, const trp_claim *b)
{
    for (int i = 0; i < resources->count; i++)
        if (a->amounts.of[i] > 0 && b->amounts.of[i] > 0)
            return true;
    return false;
}

// Whether it is known when all is given back of which a claim wants some.
static bool is_known(const trp_resources *resources, const trp_claim *claim)
{
    for (int i = 0; i < resources->count; i++)
        if (claim->amounts.of[i] > 0 && resources->unlimited[i] > 0)
            return false;
    return true;
}

// When there is room for a waiting claim, if what is held is given back at its limits and nobody
// else gets it: at once, where that is not known. A limit that has passed may end at any moment.
static int64_t earliest(const trp_resources *resources, const trp_claim *waiting, int64_t now_ms)
{
    trp_resources then = *resources;
    trp_claim claim = *waiting;
    if (!is_known(resources, waiting) || trp_resources_fit(&then, &claim))
        return now_ms;
    for (const trp_claim *held = resources->limited; held != NULL; held = held->next) {
        trp_resources_book(&then, held, -1);
        if (trp_resources_fit(&then, &claim))
            return held->until_ms > now_ms ? held->until_ms : now_ms;
    }
    return now_ms;
}

// The newest claim that says how long it is held and has room now: what comes after it need not be
// looked at, which is all of the queue where nothing is free. NULL: there is none.
static const trp_claim *last_candidate(const trp_resources *resources)
{
    const trp_claim *last = NULL;
    for (trp_claim *it = resources->first; it != NULL; it = it->next)
        if (it->limit_ms > 0 && trp_resources_fit(resources, it))
            last = it;
    return last;
}

trp_claim *trp_backfill_next(const trp_resources *resources, int64_t now_ms)
{
    int64_t due[TRP_BACKFILL_DEPTH]; // When each could be granted at the earliest, in its turn.
    int count = 0;
    const trp_claim *newest = last_candidate(resources);
    if (newest == NULL)
        return NULL;
    for (trp_claim *it = resources->first; it != NULL && count < TRP_BACKFILL_DEPTH;
         it = it->next) {
        int64_t first = INT64_MAX, last = now_ms; // Of the older ones that want some of the same.
        int at = 0;
        for (const trp_claim *older = resources->first; older != it; older = older->next, at++) {
            if (!share(resources, older, it))
                continue;
            first = due[at] < first ? due[at] : first;
            last = due[at] > last ? due[at] : last;
        }
        bool back = it->limit_ms > 0 && first != INT64_MAX && it->limit_ms <= first - now_ms;
        if (back && trp_resources_fit(resources, it))
            return it;
        if (it == newest)
            return NULL;
        int64_t own = earliest(resources, it, now_ms);
        due[count++] = own > last ? own : last;
    }
    return NULL;
}
