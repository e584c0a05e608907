// gang.c: what the ranks of a job hold together (see train/gang.h).
#include <runtime/base/error.h>
#include <stdio.h>
#include <string.h>
#include <train/gang.h>

static double number(int64_t amount)
{
    return (double)amount / TRP_CPU;
}

static troupe_status count_cpus(const troupe_train_options *o, int64_t there, trp_gang *gang)
{
    int64_t each, own;
    if (trp_cpus_count(o->cpus_per_rank, &each) != TROUPE_OK)
        return trp_error_prefix("option .cpus_per_rank");
    TROUPE_TRY(trp_amount_count("option .coordinator_cpus", o->coordinator_cpus, &own));
    gang->cpus = each * o->ranks + own;
    if (gang->cpus <= there)
        return TROUPE_OK;
    char more[64] = "";
    if (own != 0)
        snprintf(more, sizeof more, " and .coordinator_cpus = %g", o->coordinator_cpus);
    return troupe_fail(TROUPE_TOO_LARGE,
                       "options .ranks = %d and .cpus_per_rank = %g%s need %g CPUs, and jobs may "
                       "reserve %g in all: expected fewer ranks, less for each (troupe train: "
                       "--cpus), or more CPUs in .cpus of troupe_start",
                       o->ranks, o->cpus_per_rank, more, number(gang->cpus), number(there));
}

troupe_status trp_gang_check_parts(const troupe_train_options *o)
{
    int64_t each;
    TROUPE_TRY(trp_amount_count("option .gpus_per_rank", o->gpus_per_rank, &each));
    if (each > TRP_CPU && each % TRP_CPU != 0)
        return troupe_fail(TROUPE_INVALID,
                           "option .gpus_per_rank is %g: expected a part of a GPU, or a whole "
                           "number",
                           o->gpus_per_rank);
    int64_t all = each * o->ranks;
    // Ranks with a part of a GPU either share a single one, or fill each of several.
    if (each > 0 && each < TRP_CPU && all > TRP_CPU && (TRP_CPU % each != 0 || all % TRP_CPU != 0))
        return troupe_fail(TROUPE_INVALID,
                           "option .gpus_per_rank is %g with .ranks = %d: expected parts that fill "
                           "whole GPUs where the ranks need more than one",
                           o->gpus_per_rank, o->ranks);
    return TROUPE_OK;
}

static troupe_status count_gpus(const troupe_train_options *o, int64_t there, trp_gang *gang)
{
    int64_t each;
    TROUPE_TRY(trp_amount_count("option .gpus_per_rank", o->gpus_per_rank, &each));
    gang->gpus_each = each;
    gang->gpus = each * o->ranks;
    if (gang->gpus > there)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "options .ranks = %d and .gpus_per_rank = %g need %g GPUs, and jobs "
                           "may reserve %g in all",
                           o->ranks, o->gpus_per_rank, number(gang->gpus), number(there));
    return trp_gang_check_parts(o);
}

static troupe_status count_memory(const troupe_train_options *o, int64_t there, trp_gang *gang)
{
    if (o->memory_per_rank_bytes > (uint64_t)(there / o->ranks))
        return troupe_fail(TROUPE_TOO_LARGE,
                           "options .ranks = %d and .memory_per_rank_bytes = %zu need %.0f bytes "
                           "of memory, and jobs may reserve %lld in all",
                           o->ranks, o->memory_per_rank_bytes,
                           (double)o->memory_per_rank_bytes * o->ranks, (long long)there);
    gang->memory_bytes = (int64_t)o->memory_per_rank_bytes * o->ranks;
    return TROUPE_OK;
}

static troupe_status count_named(const troupe_train_options *o, const trp_resources *there,
                                 trp_gang *gang)
{
    trp_amounts each = {{0}};
    size_t used = 0;
    if (trp_resources_read(there, o->resources_per_rank, &each) != TROUPE_OK)
        return trp_error_prefix("option .resources_per_rank");
    for (int i = TRP_CUSTOM; i < there->count; i++) {
        if (each.of[i] > there->total.of[i] / o->ranks)
            return troupe_fail(TROUPE_TOO_LARGE,
                               "options .ranks = %d and .resources_per_rank with %s = %g need %g "
                               "of it, and jobs may reserve %g in all",
                               o->ranks, there->names[i], number(each.of[i]),
                               number(each.of[i]) * o->ranks, number(there->total.of[i]));
        int64_t all = each.of[i] * o->ranks;
        if (all > 0)
            used += (size_t)snprintf(gang->resources + used, sizeof gang->resources - used,
                                     "%s%s=%lld.%04lld", used > 0 ? "," : "", there->names[i],
                                     (long long)(all / TRP_CPU), (long long)(all % TRP_CPU));
    }
    return TROUPE_OK;
}

troupe_status trp_gang_of(const troupe_train_options *options, const trp_resources *there,
                          trp_gang *gang)
{
    *gang = (trp_gang){0};
    TROUPE_TRY(count_cpus(options, there->total.of[TRP_CPUS], gang));
    TROUPE_TRY(count_gpus(options, there->total.of[TRP_GPUS], gang));
    TROUPE_TRY(count_memory(options, there->total.of[TRP_MEMORY], gang));
    return count_named(options, there, gang);
}
