// budget.c: how often an actor may be started again, and how long to wait before: pure arithmetic.
#include <actors/restart.h>

enum { CALM_MS = 60000, BACKOFF_DEFAULT_MS = 10, BACKOFF_MAX_MS = 30000 };

troupe_status trp_budget_of(const troupe_spawn_options *how, trp_budget *budget)
{
    *budget =
        (trp_budget){.limit = how->restarts,
                     .window_ms = how->restart_window_ms,
                     .backoff_ms = how->backoff_ms != 0 ? how->backoff_ms : BACKOFF_DEFAULT_MS};
    if (how->restarts < TROUPE_RESTARTS_FOREVER)
        return troupe_fail(TROUPE_INVALID,
                           ".restarts is %d, expected a count or TROUPE_RESTARTS_FOREVER",
                           how->restarts);
    if (how->restart_window_ms != 0 && how->restarts > TRP_RESTARTS_KEPT)
        return troupe_fail(TROUPE_INVALID,
                           ".restarts is %d, and within a window expected at most %d",
                           how->restarts, TRP_RESTARTS_KEPT);
    return TROUPE_OK;
}

static bool has_left(const trp_budget *budget, int64_t now_ms)
{
    if (budget->limit == TROUPE_RESTARTS_FOREVER)
        return true;
    if (budget->window_ms == 0 || budget->count < budget->limit)
        return budget->count < budget->limit;
    // The oldest of the last `limit` must have left the window.
    int64_t oldest =
        budget->limit == 0
            ? now_ms
            : budget->hours[(budget->count - (uint64_t)budget->limit) % TRP_RESTARTS_KEPT];
    return now_ms - oldest > budget->window_ms;
}

void trp_budget_count(trp_budget *budget, int64_t now_ms)
{
    int64_t last = budget->hours[(budget->count + TRP_RESTARTS_KEPT - 1) % TRP_RESTARTS_KEPT];
    bool calm = budget->count == 0 || now_ms - last > CALM_MS;
    budget->streak = calm ? 1 : budget->streak + 1;
    budget->hours[budget->count++ % TRP_RESTARTS_KEPT] = now_ms;
}

bool trp_budget_take(trp_budget *budget, int64_t now_ms, int64_t *delay_ms)
{
    if (!has_left(budget, now_ms))
        return false;
    trp_budget_count(budget, now_ms);
    *delay_ms = 0;
    if (budget->streak > 1) {
        *delay_ms = budget->backoff_ms;
        for (uint32_t i = 2; i<budget->streak && * delay_ms> 0 && *delay_ms < BACKOFF_MAX_MS; i++)
            *delay_ms *= 2;
    }
    if (*delay_ms > BACKOFF_MAX_MS)
        *delay_ms = BACKOFF_MAX_MS;
    return true;
}

void trp_budget_write(const trp_budget *budget, trp_buffer *out)
{
    uint32_t kept = budget->count < TRP_RESTARTS_KEPT ? budget->count : TRP_RESTARTS_KEPT;
    trp_write_array(out, 6 + kept);
    trp_write_int(out, budget->limit);
    trp_write_uint(out, budget->window_ms);
    trp_write_uint(out, budget->backoff_ms);
    trp_write_uint(out, budget->count);
    trp_write_uint(out, budget->unpaid);
    trp_write_uint(out, budget->streak);
    for (uint32_t i = budget->count - kept; i != budget->count; i++)
        trp_write_int(out, budget->hours[i % TRP_RESTARTS_KEPT]);
}

static troupe_status read_small(trp_reader *in, uint32_t *number)
{
    uint64_t wide;
    TROUPE_TRY(trp_read_uint(in, &wide));
    *number = (uint32_t)wide;
    return wide <= UINT32_MAX ? TROUPE_OK
                              : troupe_fail(TROUPE_MALFORMED, "a restart budget is malformed");
}

troupe_status trp_budget_read(trp_reader *in, trp_budget *budget)
{
    uint32_t count;
    *budget = (trp_budget){0};
    TROUPE_TRY(trp_read_array(in, &count));
    TROUPE_TRY(trp_read_int(in, &budget->limit));
    TROUPE_TRY(read_small(in, &budget->window_ms));
    TROUPE_TRY(read_small(in, &budget->backoff_ms));
    TROUPE_TRY(read_small(in, &budget->count));
    TROUPE_TRY(read_small(in, &budget->unpaid));
    TROUPE_TRY(read_small(in, &budget->streak));
    uint32_t kept = budget->count < TRP_RESTARTS_KEPT ? budget->count : TRP_RESTARTS_KEPT;
    if (count != 6 + kept || budget->limit < TROUPE_RESTARTS_FOREVER ||
        (budget->window_ms != 0 && budget->limit > TRP_RESTARTS_KEPT))
        return troupe_fail(TROUPE_MALFORMED, "a restart budget is malformed");
    for (uint32_t i = budget->count - kept; i != budget->count; i++)
        TROUPE_TRY(trp_read_int(in, &budget->hours[i % TRP_RESTARTS_KEPT]));
    return TROUPE_OK;
}
