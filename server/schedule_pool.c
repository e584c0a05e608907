// schedule_pool.c: what is free, of each resource and of each GPU, and how many ranks it is enough
// for (see server/schedule_internal.h).
#include <server/schedule_internal.h>
#include <string.h>

int trp_need_least(const trp_need *need)
{
    return need->min_ranks > 0 ? need->min_ranks : need->ranks;
}

trp_amounts trp_need_amounts(const trp_schedule *schedule, const trp_need *need, int ranks)
{
    trp_amounts all = {{0}};
    for (int i = 0; i < schedule->machine.count; i++)
        all.of[i] = need->each.of[i] * ranks;
    all.of[TRP_CPUS] += need->coordinator_cpus;
    return all;
}

// How many ranks the devices have room for.
static int64_t gpu_ranks(const trp_schedule *schedule, const trp_pool *pool, int64_t each)
{
    int64_t count = 0;
    for (int i = 0; i < schedule->gpus; i++)
        if (each >= TRP_CPU)
            count += pool->of[i] >= TRP_CPU;
        else if (pool->of[i] > 0)
            count += pool->of[i] / each;
    return each >= TRP_CPU ? count / (each / TRP_CPU) : count;
}

int trp_pool_ranks(const trp_schedule *schedule, const trp_pool *pool, const trp_need *need,
                   int most, bool whole)
{
    int64_t ranks = most;
    for (int i = 0; i < schedule->machine.count && ranks > 0; i++) {
        int64_t own = i == TRP_CPUS && whole ? need->coordinator_cpus : 0;
        int64_t each = need->each.of[i];
        if (i == TRP_GPUS || (each == 0 && own == 0))
            continue;
        int64_t left = pool->sum.of[i] - own;
        if (left < each)
            return 0;
        ranks = each > 0 && left / each < ranks ? left / each : ranks;
    }
    if (need->each.of[TRP_GPUS] > 0 && ranks > 0) {
        int64_t there = gpu_ranks(schedule, pool, need->each.of[TRP_GPUS]);
        ranks = there < ranks ? there : ranks;
    }
    return (int)ranks;
}

uint32_t trp_pool_short(const trp_schedule *schedule, const trp_pool *pool, const trp_need *need,
                        int ranks)
{
    trp_amounts all = trp_need_amounts(schedule, need, ranks);
    uint32_t missing = 0;
    for (int i = 0; i < schedule->machine.count; i++)
        if (i != TRP_GPUS && all.of[i] > 0 && all.of[i] > pool->sum.of[i])
            missing |= (uint32_t)1 << i;
    int64_t each = need->each.of[TRP_GPUS];
    if (each > 0 && gpu_ranks(schedule, pool, each) < ranks)
        missing |= (uint32_t)1 << TRP_GPUS;
    return missing;
}

// The fullest device that has room for a part.
static int fullest(const trp_schedule *schedule, const trp_pool *pool, int64_t part)
{
    int best = -1;
    for (int i = 0; i < schedule->gpus; i++)
        if (pool->of[i] >= part && (best < 0 || pool->of[i] < pool->of[best]))
            best = i;
    return best;
}

bool trp_pool_place(const trp_schedule *schedule, const trp_pool *pool, trp_ticket *ticket,
                    int from, int to)
{
    int64_t each = ticket->request.need.each.of[TRP_GPUS];
    int64_t devices = each >= TRP_CPU ? each / TRP_CPU : each > 0;
    trp_pool left = *pool;
    ticket->gpu_part = each >= TRP_CPU ? TRP_CPU : each;
    for (int rank = from; rank < to; rank++) {
        ticket->gpus[rank] = 0;
        for (int64_t i = 0; i < devices; i++) {
            int device = fullest(schedule, &left, ticket->gpu_part);
            if (device < 0)
                return false;
            left.of[device] -= ticket->gpu_part;
            ticket->gpus[rank] |= (uint64_t)1 << device;
        }
    }
    return true;
}

bool trp_pool_keeps(const trp_pool *pool, const trp_ticket *ticket)
{
    int64_t each = ticket->request.need.each.of[TRP_GPUS], left[TRP_GPUS_MAX];
    memcpy(left, pool->of, sizeof left);
    for (int rank = 0; each > 0 && rank < ticket->ranks; rank++) {
        if (__builtin_popcountll(ticket->gpus[rank]) != (each >= TRP_CPU ? each / TRP_CPU : 1))
            return false;
        for (uint64_t bits = ticket->gpus[rank]; bits != 0; bits &= bits - 1)
            if ((left[__builtin_ctzll(bits)] -= ticket->gpu_part) < 0)
                return false;
    }
    return true;
}

void trp_pool_book(const trp_schedule *schedule, trp_pool *pool, const trp_ticket *ticket, int sign)
{
    for (int i = 0; i < schedule->machine.count; i++)
        pool->sum.of[i] -= sign * ticket->amounts.of[i];
    for (int rank = 0; ticket->gpu_part > 0 && rank < ticket->ranks; rank++)
        for (uint64_t left = ticket->gpus[rank]; left != 0; left &= left - 1)
            pool->of[__builtin_ctzll(left)] -= sign * ticket->gpu_part;
}

void trp_pool_least(const trp_schedule *schedule, trp_pool *pool, const trp_pool *other)
{
    for (int i = 0; i < schedule->machine.count; i++)
        if (other->sum.of[i] < pool->sum.of[i])
            pool->sum.of[i] = other->sum.of[i];
    for (int i = 0; i < schedule->gpus; i++)
        if (other->of[i] < pool->of[i])
            pool->of[i] = other->of[i];
}
