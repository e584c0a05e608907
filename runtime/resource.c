// resource.c: who holds how many CPUs. The invariant: total = free + the amounts of all held
// claims.
#include <math.h>
#include <runtime/log.h>
#include <runtime/resource.h>
#include <stddef.h>

troupe_status trp_cpus_count(double cpus, int64_t *amount)
{
    // The comparison is written so that a NaN fails it.
    if (!(cpus * TRP_CPU >= 0.5 && cpus <= TRP_CPUS_MAX))
        return troupe_fail(TROUPE_INVALID,
                           "%g CPUs cannot be reserved: expected a number from 0.0001 to %d", cpus,
                           TRP_CPUS_MAX);
    *amount = llround(cpus * TRP_CPU);
    return TROUPE_OK;
}

void trp_resources_init(trp_resources *resources, int64_t total)
{
    trp_assert(total >= 0);
    *resources = (trp_resources){.total = total, .free = total};
}

troupe_status trp_resources_claim(trp_resources *resources, trp_claim *claim, int64_t each,
                                  int members)
{
    trp_assert(claim->state == TRP_CLAIM_NONE);
    if (members < 1 || each < 1)
        return troupe_fail(TROUPE_INVALID,
                           "a gang of %d with %g CPUs each was asked for: expected at least one "
                           "member and some CPU for each",
                           members, (double)each / TRP_CPU);
    // Divided rather than multiplied, because the product may not fit.
    if (each > resources->total / members)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "%d workers with %g CPUs each need %g CPUs, and there are %g", members,
                           (double)each / TRP_CPU, (double)each / TRP_CPU * members,
                           (double)resources->total / TRP_CPU);
    claim->amount = each * members;
    claim->state = TRP_CLAIM_WAITING;
    claim->next = NULL;
    if (resources->last)
        resources->last->next = claim;
    else
        resources->first = claim;
    resources->last = claim;
    return TROUPE_OK;
}

// Takes a waiting claim out of the queue.
static void unlink_claim(trp_resources *resources, trp_claim *claim)
{
    trp_claim *before = NULL;
    for (trp_claim *at = resources->first; at != claim; at = at->next) {
        trp_assert(at);
        before = at;
    }
    if (before)
        before->next = claim->next;
    else
        resources->first = claim->next;
    if (resources->last == claim)
        resources->last = before;
    claim->next = NULL;
}

trp_claim *trp_resources_admit(trp_resources *resources)
{
    trp_claim *claim = resources->first;
    if (!claim || claim->amount > resources->free)
        return NULL;
    unlink_claim(resources, claim);
    resources->free -= claim->amount;
    claim->state = TRP_CLAIM_HELD;
    return claim;
}

void trp_resources_release(trp_resources *resources, trp_claim *claim)
{
    if (claim->state == TRP_CLAIM_WAITING)
        unlink_claim(resources, claim);
    if (claim->state == TRP_CLAIM_HELD)
        resources->free += claim->amount;
    trp_assert(resources->free <= resources->total);
    claim->state = TRP_CLAIM_NONE;
}
