// resource_ledger.c: how much each claim holds of what (see node/resource_ledger.h). The invariant:
// total = free + the amounts of all held claims, for the sums and for each GPU.
#include <runtime/node/resource_ledger.h>

#include <math.h>
#include <runtime/base/log.h>
#include <runtime/node/backfill.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

troupe_status trp_amount_count(const char *name, double number, int64_t *amount)
{
    if (number != 0 && !(number * TRP_CPU >= 0.5 && number <= TRP_CPUS_MAX))
        return troupe_fail(TROUPE_INVALID, "%s = %g: expected 0, or a number from 0.0001 to %d",
                           name, number, TRP_CPUS_MAX);
    *amount = llround(number * TRP_CPU);
    return TROUPE_OK;
}

void trp_resources_init(trp_resources *resources, int64_t cpus, int gpus, int64_t memory_bytes)
{
    trp_assert(cpus >= 0 && gpus >= 0 && gpus <= TRP_GPUS_MAX && memory_bytes >= 0);
    *resources = (trp_resources){.count = TRP_CUSTOM};
    strcpy(resources->names[TRP_CPUS], "CPUs");
    strcpy(resources->names[TRP_GPUS], "GPUs");
    strcpy(resources->names[TRP_MEMORY], "bytes of memory");
    resources->total.of[TRP_CPUS] = cpus;
    resources->total.of[TRP_GPUS] = (int64_t)gpus * TRP_CPU;
    resources->total.of[TRP_MEMORY] = memory_bytes;
    for (int i = 0; i < gpus; i++)
        resources->gpu_free[i] = TRP_CPU;
    resources->free = resources->total;
}

// ---- texts

static int find_name(const trp_resources *resources, const char *name)
{
    for (int i = TRP_CUSTOM; i < resources->count; i++)
        if (strcmp(resources->names[i], name) == 0)
            return i;
    return -1;
}

// Reads "name=number" from *text, which moves behind it and the comma.
static troupe_status read_pair(const char **text, char name[TRP_RESOURCE_NAME_MAX + 1],
                               int64_t *amount)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-";
    const char *at = *text + strspn(*text, " ");
    size_t size = strspn(at, letters);
    char *end = NULL;
    double number = 0;
    if (size > 0 && size <= TRP_RESOURCE_NAME_MAX && at[size] == '=')
        number = strtod(at + size + 1, &end);
    if (end == NULL || end == at + size + 1 || (end[strspn(end, " ")] | ',') != ',')
        return troupe_fail(TROUPE_INVALID,
                           "resources '%.64s': expected names and numbers like "
                           "\"license=1,accelerator=2\", with names of 1 to %d of [A-Za-z0-9._-]",
                           *text, TRP_RESOURCE_NAME_MAX);
    memcpy(name, at, size);
    name[size] = '\0';
    end += strspn(end, " ");
    *text = end + (*end == ',');
    return trp_amount_count(name, number, amount);
}

troupe_status trp_resources_add(trp_resources *resources, const char *text)
{
    while (text != NULL && *text != '\0') {
        char name[TRP_RESOURCE_NAME_MAX + 1];
        int64_t amount;
        TROUPE_TRY(read_pair(&text, name, &amount));
        if (find_name(resources, name) >= 0)
            return troupe_fail(TROUPE_INVALID, "the resource '%s' is given twice", name);
        if (resources->count == TRP_RESOURCES_MAX)
            return troupe_fail(TROUPE_INVALID, "more than %d resources with names were given",
                               TRP_RESOURCES_MAX - TRP_CUSTOM);
        strcpy(resources->names[resources->count], name);
        resources->total.of[resources->count] = amount;
        resources->free.of[resources->count++] = amount;
    }
    return TROUPE_OK;
}

troupe_status trp_resources_read(const trp_resources *resources, const char *text,
                                 trp_amounts *amounts)
{
    while (text != NULL && *text != '\0') {
        char name[TRP_RESOURCE_NAME_MAX + 1];
        int64_t amount;
        TROUPE_TRY(read_pair(&text, name, &amount));
        int index = find_name(resources, name);
        if (index < 0 && amount > 0)
            return troupe_fail(TROUPE_TOO_LARGE,
                               "%g of '%s' were asked for, and this node has none: .resources of "
                               "troupe_start does not name it",
                               (double)amount / TRP_CPU, name);
        if (index >= 0)
            amounts->of[index] += amount;
    }
    return TROUPE_OK;
}

static double number_of(int index, int64_t amount)
{
    return index == TRP_MEMORY ? (double)amount : (double)amount / TRP_CPU;
}

void trp_resources_why(const trp_resources *resources, const trp_claim *claim, char *text,
                       size_t capacity)
{
    for (int i = 0; i < resources->count; i++)
        if (claim->amounts.of[i] > resources->free.of[i]) {
            snprintf(text, capacity, "%.12g %s (%.12g of %.12g are free)",
                     number_of(i, claim->amounts.of[i]), resources->names[i],
                     number_of(i, resources->free.of[i]), number_of(i, resources->total.of[i]));
            return;
        }
    if (claim->amounts.of[TRP_GPUS] > 0)
        snprintf(text, capacity, "%.12g GPUs in one piece, or its turn behind an older claim",
                 number_of(TRP_GPUS, claim->amounts.of[TRP_GPUS]));
    else
        snprintf(text, capacity, "its turn behind an older claim");
}

// ---- claims

static troupe_status check(const trp_resources *resources, const trp_amounts *amounts)
{
    bool something = false;
    for (int i = 0; i < resources->count; i++) {
        something = something || amounts->of[i] > 0;
        if (amounts->of[i] < 0)
            return troupe_fail(TROUPE_INVALID, "the amount of %s must not be negative",
                               resources->names[i]);
        if (amounts->of[i] > resources->total.of[i])
            return troupe_fail(TROUPE_TOO_LARGE, "%.12g %s were asked for, and there are %.12g",
                               number_of(i, amounts->of[i]), resources->names[i],
                               number_of(i, resources->total.of[i]));
    }
    if (!something)
        return troupe_fail(TROUPE_INVALID, "a claim for nothing was made");
    if (amounts->of[TRP_GPUS] > TRP_CPU && amounts->of[TRP_GPUS] % TRP_CPU != 0)
        return troupe_fail(TROUPE_INVALID,
                           "%g GPUs were asked for: expected a fraction of one, or a whole number",
                           number_of(TRP_GPUS, amounts->of[TRP_GPUS]));
    return TROUPE_OK;
}

troupe_status trp_resources_claim(trp_resources *resources, trp_claim *claim)
{
    trp_assert(claim->state == TRP_CLAIM_NONE);
    TROUPE_TRY(check(resources, &claim->amounts));
    claim->state = TRP_CLAIM_WAITING;
    claim->gpus = 0;
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

// Finds GPUs for a claim: whole free ones, or for a part of one the fullest that has room, so that
// whole ones stay free. False: there are none.
static bool find_gpus(const trp_resources *resources, trp_claim *claim)
{
    int64_t asked = claim->amounts.of[TRP_GPUS];
    int64_t left = asked >= TRP_CPU ? asked / TRP_CPU : asked > 0;
    int best = -1;
    claim->gpu_part = asked >= TRP_CPU ? TRP_CPU : asked;
    claim->gpus = 0;
    for (int i = 0; i < TRP_GPUS_MAX && left > 0; i++) {
        if (resources->gpu_free[i] < claim->gpu_part)
            continue;
        if (asked >= TRP_CPU) {
            claim->gpus |= (uint64_t)1 << i;
            left--;
        } else if (best < 0 || resources->gpu_free[i] < resources->gpu_free[best]) {
            best = i;
        }
    }
    if (best >= 0) {
        claim->gpus = (uint64_t)1 << best;
        left = 0;
    }
    return left == 0;
}

bool trp_resources_fit(const trp_resources *resources, trp_claim *claim)
{
    for (int i = 0; i < resources->count; i++)
        if (claim->amounts.of[i] > resources->free.of[i])
            return false;
    return find_gpus(resources, claim);
}

void trp_resources_book(trp_resources *resources, const trp_claim *claim, int64_t sign)
{
    for (int i = 0; i < resources->count; i++) {
        resources->free.of[i] -= sign * claim->amounts.of[i];
        trp_assert(resources->free.of[i] >= 0 && resources->free.of[i] <= resources->total.of[i]);
    }
    for (int i = 0; i < TRP_GPUS_MAX; i++)
        if ((claim->gpus >> i & 1) != 0)
            resources->gpu_free[i] -= sign * claim->gpu_part;
}

// Counts a held claim among those with a limit or those without, or (sign -1) no more.
static void note_limit(trp_resources *resources, trp_claim *claim, int sign)
{
    trp_claim **at = &resources->limited;
    for (int i = 0; claim->limit_ms == 0 && i < resources->count; i++)
        if (claim->amounts.of[i] > 0)
            resources->unlimited[i] += sign;
    if (claim->limit_ms == 0)
        return;
    while (*at != NULL && (sign > 0 ? (*at)->until_ms <= claim->until_ms : *at != claim))
        at = &(*at)->next;
    if (sign > 0)
        claim->next = *at;
    *at = sign > 0 ? claim : claim->next;
}

static void grant(trp_resources *resources, trp_claim *claim, int64_t now_ms)
{
    unlink_claim(resources, claim);
    trp_resources_book(resources, claim, 1);
    claim->state = TRP_CLAIM_HELD;
    claim->until_ms = now_ms + claim->limit_ms;
    note_limit(resources, claim, 1);
}

// The oldest that fits and waits behind none that wants any of the same.
static trp_claim *next_in_turn(trp_resources *resources)
{
    bool awaited[TRP_RESOURCES_MAX] = {false}; // By older claims.
    for (trp_claim *claim = resources->first; claim; claim = claim->next) {
        bool may = true;
        for (int i = 0; i < resources->count; i++)
            may = may && !(awaited[i] && claim->amounts.of[i] > 0);
        if (may && trp_resources_fit(resources, claim))
            return claim;
        for (int i = 0; i < resources->count; i++)
            awaited[i] = awaited[i] || claim->amounts.of[i] > 0;
    }
    return NULL;
}

trp_claim *trp_resources_admit(trp_resources *resources, int64_t now_ms)
{
    trp_claim *claim = next_in_turn(resources);
    if (claim == NULL)
        claim = trp_backfill_next(resources, now_ms);
    if (claim != NULL)
        grant(resources, claim, now_ms);
    return claim;
}

void trp_resources_release(trp_resources *resources, trp_claim *claim)
{
    if (claim->state == TRP_CLAIM_WAITING)
        unlink_claim(resources, claim);
    if (claim->state == TRP_CLAIM_HELD) {
        trp_resources_book(resources, claim, -1);
        note_limit(resources, claim, -1);
    }
    claim->state = TRP_CLAIM_NONE;
}
