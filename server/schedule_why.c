// schedule_why.c: the sentences of the schedule: why a job waits, and why one is refused.
#include <server/schedule_internal.h>

#include <stdio.h>
#include <string.h>

enum { AMOUNT = 96 };

// Makes a number of bytes one of the unit that this returns.
static const char *scale(double *amount)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; *amount >= 1024 && unit < 4; unit++)
        *amount /= 1024;
    return units[unit];
}

// "2 CPUs", "1.5 GiB of memory", "2 of license"; `more`: that much more.
static void write_amount(const trp_schedule *schedule, int resource, double amount, bool more,
                         char text[AMOUNT])
{
    const char *word = more ? " more" : "";
    if (resource == TRP_MEMORY) {
        const char *unit = scale(&amount);
        snprintf(text, AMOUNT, "%.4g %s%s of memory", amount, unit, word);
        return;
    }
    amount /= TRP_CPU;
    if (resource >= TRP_CUSTOM)
        snprintf(text, AMOUNT, "%.6g%s of '%s'", amount, word, schedule->machine.names[resource]);
    else
        snprintf(text, AMOUNT, "%.6g%s %s%s", amount, word, resource == TRP_CPUS ? "CPU" : "GPU",
                 amount == 1 ? "" : "s");
}

// The same of what is free or there, where its name has been said: "6", "1.5 GiB".
static void write_number(int resource, double amount, char text[AMOUNT])
{
    if (resource == TRP_MEMORY) {
        const char *unit = scale(&amount);
        snprintf(text, AMOUNT, "%.6g %s", amount, unit);
    } else {
        snprintf(text, AMOUNT, "%.6g", amount / TRP_CPU);
    }
}

static void write_time(int64_t ms, char text[AMOUNT])
{
    long long seconds = (ms + 999) / 1000;
    if (seconds < 120)
        snprintf(text, AMOUNT, "%lld s", seconds);
    else if (seconds < 7200)
        snprintf(text, AMOUNT, "%lld min", (seconds + 59) / 60);
    else if (seconds < 48 * 3600)
        snprintf(text, AMOUNT, "%lld h %lld min", seconds / 3600, seconds % 3600 / 60);
    else
        snprintf(text, AMOUNT, "%lld days", seconds / 86400);
}

// ---- more than there is

bool trp_schedule_exceeds(const trp_schedule *schedule, const trp_need *need,
                          char why[TRP_SCHEDULE_WHY])
{
    int least = trp_need_least(need);
    char asked[AMOUNT], there[AMOUNT];
    for (int i = 0; i < schedule->machine.count; i++) {
        double all = (double)need->each.of[i] * least;
        if (i == TRP_CPUS)
            all += (double)need->coordinator_cpus;
        if (all <= (double)schedule->machine.total.of[i])
            continue;
        write_amount(schedule, i, all, false, asked);
        write_number(i, (double)schedule->machine.total.of[i], there);
        snprintf(why, TRP_SCHEDULE_WHY, "asks for %s, this machine has %s", asked, there);
        return true;
    }
    trp_pool pool = {.sum = schedule->machine.total};
    for (int i = 0; i < schedule->gpus; i++)
        pool.of[i] = TRP_CPU;
    int most = trp_pool_ranks(schedule, &pool, need, least, true);
    write_number(TRP_GPUS, (double)need->each.of[TRP_GPUS], asked);
    snprintf(why, TRP_SCHEDULE_WHY,
             "asks for %d ranks with %s of a GPU each, the %d GPUs of this machine have room for "
             "%d",
             least, asked, schedule->gpus, most);
    return most < least;
}

// ---- who has it

// Of what runs, what holds most of a resource at a time to come; without a limit before with one.
static const trp_ticket *holder(const trp_schedule *schedule, int resource, int64_t at_ms)
{
    const trp_ticket *found = NULL;
    for (size_t i = 0; i < schedule->running_count; i++) {
        const trp_ticket *it = schedule->running[i];
        bool endless = it->until_ms == TRP_NEVER;
        bool found_endless = found != NULL && found->until_ms == TRP_NEVER;
        if (it->amounts.of[resource] == 0 || it->until_ms <= at_ms)
            continue;
        if (found == NULL || endless > found_endless ||
            (endless == found_endless && it->amounts.of[resource] > found->amounts.of[resource]))
            found = it;
    }
    return found;
}

static int lowest(uint32_t bits)
{
    return bits != 0 ? __builtin_ctz(bits) : -1;
}

troupe_status trp_schedule_refuse(const trp_schedule *schedule, const trp_ticket *ticket,
                                  const trp_pool *room)
{
    const trp_need *need = &ticket->request.need;
    int least = trp_need_least(need);
    int what = lowest(trp_pool_short(schedule, room, need, least));
    trp_amounts all = trp_need_amounts(schedule, need, least);
    char asked[AMOUNT], free[AMOUNT], held[AMOUNT];
    if (what < 0)
        what = TRP_CPUS;
    int64_t left = room->sum.of[what] > 0 ? room->sum.of[what] : 0;
    write_amount(schedule, what, (double)all.of[what], false, asked);
    write_number(what, (double)left, free);
    const trp_ticket *it = holder(schedule, what, ticket->from_ms);
    if (it != NULL) {
        write_number(what, (double)it->amounts.of[what], held);
        return troupe_fail(TROUPE_BUSY,
                           "cannot be reserved: asks for %s, and only %s will be free while it "
                           "runs: job %llu, %s, holds %s",
                           asked, free, (unsigned long long)it->request.id,
                           it->until_ms == TRP_NEVER ? "which has no time limit"
                                                     : "whose time limit ends later",
                           held);
    }
    for (size_t i = 0; i < schedule->reserved_count; i++) {
        it = schedule->reserved[i];
        if (it->amounts.of[what] > 0 && it->until_ms > ticket->from_ms)
            break;
    }
    return troupe_fail(TROUPE_BUSY,
                       "cannot be reserved: asks for %s, and only %s will be free while it runs: "
                       "job %llu is reserved for then",
                       asked, free, (unsigned long long)(it != NULL ? it->request.id : 0));
}

// ---- why it waits

// What a job lacks of a pool: "2 more CPUs". Of GPUs, which are no sum: what it asks for.
static void write_lack(const trp_schedule *schedule, const trp_ticket *ticket, const trp_pool *room,
                       int what, char text[AMOUNT])
{
    const trp_need *need = &ticket->request.need;
    trp_amounts all = trp_need_amounts(schedule, need, trp_need_least(need));
    int64_t lack = all.of[what] - (room->sum.of[what] > 0 ? room->sum.of[what] : 0);
    char amount[AMOUNT];
    if (what != TRP_GPUS || lack > 0) {
        write_amount(schedule, what, (double)lack, true, text);
        return;
    }
    write_amount(schedule, what, (double)need->each.of[TRP_GPUS], false, amount);
    snprintf(text, AMOUNT, "%.60s for each rank, in one piece", amount);
}

static void write_expected(const trp_schedule *schedule, int64_t at_ms, char text[AMOUNT])
{
    char time[AMOUNT];
    text[0] = '\0';
    if (at_ms == TRP_NEVER)
        return;
    write_time(at_ms - schedule->plan.now_ms, time);
    if (at_ms > schedule->plan.now_ms)
        snprintf(text, AMOUNT, ", expected in at most %.40s", time);
    else
        snprintf(text, AMOUNT, ", expected at any moment");
}

// A reservation whose time has come, or will.
static int64_t why_reserved(trp_schedule *schedule, const trp_ticket *ticket, int64_t now_ms,
                            char why[TRP_SCHEDULE_WHY])
{
    char time[AMOUNT], lack[AMOUNT];
    if (ticket->from_ms > now_ms) {
        write_time(ticket->from_ms - now_ms, time);
        snprintf(why, TRP_SCHEDULE_WHY, "is reserved, starts in %s", time);
        return ticket->from_ms;
    }
    write_time(now_ms - ticket->from_ms, time);
    const trp_need *need = &ticket->request.need;
    int what = lowest(trp_pool_short(schedule, &schedule->free, need, trp_need_least(need)));
    if (what < 0) {
        snprintf(why, TRP_SCHEDULE_WHY, "is reserved, and starts now");
        return now_ms;
    }
    write_lack(schedule, ticket, &schedule->free, what, lack);
    // What is over its limit is the cause, if there is one.
    const trp_ticket *late = NULL;
    for (size_t i = 0; i < schedule->running_count && late == NULL; i++)
        if (schedule->running[i]->amounts.of[what] > 0)
            late = schedule->running[i];
    snprintf(why, TRP_SCHEDULE_WHY, "is reserved and %s late: waits for %s: job %llu%s holds some",
             time, lack, (unsigned long long)(late != NULL ? late->request.id : 0),
             late != NULL && late->until_ms <= now_ms ? ", which is over its time limit," : "");
    return TRP_NEVER;
}

// The first thing planned that one would delay which fits now: NULL: none.
static const trp_ticket *delayed(const trp_schedule *schedule, const trp_ticket *ticket)
{
    const trp_plan *plan = &schedule->plan;
    const trp_need *need = &ticket->request.need;
    int least = trp_need_least(need);
    int64_t until = trp_plan_until(schedule, ticket->request.limit_ms, plan->now_ms);
    for (size_t i = 0; i < plan->count && plan->points[i].at_ms < until; i++)
        if (trp_pool_ranks(schedule, &plan->points[i].room, need, least, true) < least)
            return plan->points[i].ticket;
    return NULL;
}

// For whom something is kept that one lacks, while nobody knows when that is given back. 0: nobody.
static uint64_t behind(const trp_schedule *schedule, uint32_t missing, uint32_t missing_now)
{
    const trp_plan *plan = &schedule->plan;
    if (plan->promised != NULL)
        return plan->promised->request.id;
    if ((missing & plan->blocked) != 0)
        return plan->by[lowest(missing & plan->blocked)];
    return missing != missing_now ? plan->by[lowest(plan->blocked)] : 0;
}

static int64_t why_queued(trp_schedule *schedule, trp_ticket *ticket, int64_t now_ms,
                          char why[TRP_SCHEDULE_WHY])
{
    const trp_need *need = &ticket->request.need;
    int least = trp_need_least(need), unused;
    trp_pool then;
    trp_plan_scan(schedule, now_ms, ticket, &unused);
    uint32_t missing_now = trp_pool_short(schedule, &schedule->free, need, least);
    uint32_t missing = trp_pool_short(schedule, &schedule->plan.base, need, least);
    unsigned long long before = behind(schedule, missing, missing_now);
    const trp_ticket *other = delayed(schedule, ticket);
    int64_t at = before == 0 ? trp_plan_earliest(schedule, ticket, &then) : TRP_NEVER;
    char lack[AMOUNT], expected[AMOUNT], behind_whom[AMOUNT] = "";
    write_expected(schedule, at, expected);
    if (before != 0)
        snprintf(behind_whom, sizeof behind_whom, " behind job %llu", before);
    if (missing_now != 0) {
        int what = lowest(missing_now);
        const trp_ticket *held = holder(schedule, what, INT64_MIN);
        write_lack(schedule, ticket, &schedule->free, what, lack);
        if (before == 0 && at == TRP_NEVER && held != NULL && held->until_ms == TRP_NEVER)
            snprintf(why, TRP_SCHEDULE_WHY,
                     "waits for %s: job %llu, which has no time limit, holds some", lack,
                     (unsigned long long)held->request.id);
        else
            snprintf(why, TRP_SCHEDULE_WHY, "waits for %s%s%s", lack, behind_whom, expected);
    } else if (missing != 0) {
        snprintf(why, TRP_SCHEDULE_WHY, "waits%s, for which what it needs is kept", behind_whom);
    } else if (other != NULL) {
        write_expected(schedule, other->from_ms, lack);
        snprintf(why, TRP_SCHEDULE_WHY, "waits since it would delay job %llu%s%s%s",
                 (unsigned long long)other->request.id,
                 other->state == TRP_TICKET_RESERVED ? ", reserved" : "", lack,
                 ticket->request.limit_ms > 0 ? "" : ": it has no time limit itself");
    } else {
        snprintf(why, TRP_SCHEDULE_WHY, "starts now");
        return now_ms;
    }
    return at;
}

int64_t trp_schedule_why(trp_schedule *schedule, trp_ticket *ticket, int64_t now_ms,
                         char why[TRP_SCHEDULE_WHY])
{
    why[0] = '\0';
    switch (ticket->state) {
    case TRP_TICKET_BEYOND:
        (void)trp_schedule_exceeds(schedule, &ticket->request.need, why);
        return TRP_NEVER;
    case TRP_TICKET_RESERVED:
        return why_reserved(schedule, ticket, now_ms, why);
    case TRP_TICKET_QUEUED:
        return why_queued(schedule, ticket, now_ms, why);
    case TRP_TICKET_PAUSED:
        snprintf(why, TRP_SCHEDULE_WHY, "is paused");
        return TRP_NEVER;
    case TRP_TICKET_RUNNING:
        return ticket->from_ms;
    }
    return TRP_NEVER;
}
