// restart_budget.c: how often an actor may be started again, and how long to wait before: pure
// arithmetic, and the line that says so.
#include <actors/class/restart_budget.h>

#include <stdio.h>

enum { CALM_DEFAULT_MS = 60000, BACKOFF_DEFAULT_MS = 10, CAP_DEFAULT_MS = 30000 };
enum { FIELDS = 9 }; // Beside the hours.

void trp_budget_pauses(trp_budget *budget, uint32_t backoff_ms, uint32_t cap_ms, uint32_t calm_ms)
{
    budget->backoff_ms = backoff_ms != 0 ? backoff_ms : BACKOFF_DEFAULT_MS;
    budget->cap_ms = cap_ms != 0 ? cap_ms : CAP_DEFAULT_MS;
    budget->calm_ms = calm_ms != 0 ? calm_ms : CALM_DEFAULT_MS;
}

troupe_status trp_budget_of(const troupe_spawn_options *how, trp_budget *budget)
{
    int limit = how->restarts == TROUPE_NONE ? 0 : how->restarts;
    *budget = (trp_budget){.limit = limit, .window_ms = how->restart_window_ms};
    trp_budget_pauses(budget, how->backoff_ms, how->backoff_max_ms, how->backoff_reset_ms);
    if (limit < TROUPE_FOREVER)
        return troupe_fail(TROUPE_INVALID,
                           ".restarts is %d, expected a count, TROUPE_FOREVER or TROUPE_NONE",
                           how->restarts);
    if (how->restart_window_ms != 0 && how->restarts > TRP_RESTARTS_KEPT)
        return troupe_fail(TROUPE_INVALID,
                           ".restarts is %d, and within a window expected at most %d",
                           how->restarts, TRP_RESTARTS_KEPT);
    return TROUPE_OK;
}

static bool has_left(const trp_budget *budget, int64_t now_ms)
{
    if (budget->limit == TROUPE_FOREVER)
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

static uint32_t pause_of(const trp_budget *budget)
{
    uint64_t pause_ms = budget->streak > 1 ? budget->backoff_ms : 0;
    for (uint32_t i = 2; i < budget->streak && pause_ms > 0 && pause_ms < budget->cap_ms; i++)
        pause_ms *= 2;
    return pause_ms < budget->cap_ms ? (uint32_t)pause_ms : budget->cap_ms;
}

void trp_budget_count(trp_budget *budget, int64_t now_ms)
{
    int64_t last = budget->hours[(budget->count + TRP_RESTARTS_KEPT - 1) % TRP_RESTARTS_KEPT];
    // It lives from the end of its pause on.
    int64_t life_ms = (int64_t)budget->calm_ms + budget->pause_ms;
    bool calm = budget->count == 0 || now_ms - last > life_ms;
    budget->streak = calm ? 1 : budget->streak + 1;
    budget->hours[budget->count++ % TRP_RESTARTS_KEPT] = now_ms;
    budget->pause_ms = pause_of(budget);
}

bool trp_budget_take(trp_budget *budget, int64_t now_ms, int64_t *delay_ms)
{
    if (!has_left(budget, now_ms))
        return false;
    trp_budget_count(budget, now_ms);
    *delay_ms = budget->pause_ms;
    return true;
}

void trp_budget_describe(const trp_budget *budget, int64_t delay_ms, char text[TRP_BUDGET_TEXT])
{
    char when[32], most[64];
    snprintf(when, sizeof when, delay_ms > 0 ? "in %lld ms" : "at once", (long long)delay_ms);
    if (budget->limit == TROUPE_FOREVER)
        most[0] = '\0';
    else if (budget->window_ms == 0)
        snprintf(most, sizeof most, " of %lld", (long long)budget->limit);
    else
        snprintf(most, sizeof most, ", of %lld within %u ms", (long long)budget->limit,
                 budget->window_ms);
    snprintf(text, TRP_BUDGET_TEXT, "%s (restart %u%s)", when, budget->count, most);
}

void trp_budget_write(const trp_budget *budget, trp_buffer *out)
{
    uint32_t kept = budget->count < TRP_RESTARTS_KEPT ? budget->count : TRP_RESTARTS_KEPT;
    trp_write_array(out, FIELDS + kept);
    trp_write_int(out, budget->limit);
    trp_write_uint(out, budget->window_ms);
    trp_write_uint(out, budget->backoff_ms);
    trp_write_uint(out, budget->cap_ms);
    trp_write_uint(out, budget->calm_ms);
    trp_write_uint(out, budget->count);
    trp_write_uint(out, budget->unpaid);
    trp_write_uint(out, budget->streak);
    trp_write_uint(out, budget->pause_ms);
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
    TROUPE_TRY(read_small(in, &budget->cap_ms));
    TROUPE_TRY(read_small(in, &budget->calm_ms));
    TROUPE_TRY(read_small(in, &budget->count));
    TROUPE_TRY(read_small(in, &budget->unpaid));
    TROUPE_TRY(read_small(in, &budget->streak));
    TROUPE_TRY(read_small(in, &budget->pause_ms));
    uint32_t kept = budget->count < TRP_RESTARTS_KEPT ? budget->count : TRP_RESTARTS_KEPT;
    if (count != FIELDS + kept || budget->limit < TROUPE_FOREVER ||
        (budget->window_ms != 0 && budget->limit > TRP_RESTARTS_KEPT))
        return troupe_fail(TROUPE_MALFORMED, "a restart budget is malformed");
    for (uint32_t i = budget->count - kept; i != budget->count; i++) {
        int64_t *hour = &budget->hours[i % TRP_RESTARTS_KEPT];
        TROUPE_TRY(trp_read_int(in, hour));
        if (*hour < 0)
            return troupe_fail(TROUPE_MALFORMED, "a time in a restart budget is negative");
    }
    return TROUPE_OK;
}
