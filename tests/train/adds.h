// adds.h: what tests of runs with another number of ranks share: a trainer whose numbers do not
// depend on it, and waiting for a state of its job.
#ifndef TRP_TEST_ADDS_H
#define TRP_TEST_ADDS_H

#include "line.h"

// ---- a trainer whose numbers do not depend on how many do the work

TROUPE_STRUCT(adds, (int, epochs), (int, pause_ms), (int, own_parts));
TROUPE_STRUCT(adds_state, (int64_t, epoch), (int64_t, total), (int, rank));

static troupe_status add_up(troupe_rank *me, const adds *config)
{
    adds_state state = {0};
    TROUPE_TRY(troupe_restore(adds_state, me, &state));
    while (state.epoch < config->epochs) {
        int64_t sum = 0;
        for (int64_t i = me->rank; i < 1000; i += me->world)
            sum += i * (state.epoch + 1);
        usleep((useconds_t)config->pause_ms * 1000);
        TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
        state.total += sum;
        state.epoch++;
        state.rank = config->own_parts ? me->rank : 0;
        TROUPE_TRY(troupe_save(adds_state, me, &state));
        TROUPE_TRY(troupe_report(me, {"total", (double)state.total}, {"world", me->world}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(add_up, adds);

static double total_of(int epochs)
{
    return 499500.0 * epochs * (epochs + 1) / 2;
}

// ---- waiting

static troupe_job_status status_of(troupe_job *job)
{
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    return now;
}

typedef struct awaited {
    troupe_job *job;
    troupe_job_state state;
    int reports, ranks;
} awaited;

static bool is_there(void *user)
{
    awaited *what = user;
    troupe_job_status now = status_of(what->job);
    return now.state == what->state && now.reports >= what->reports &&
           (what->ranks == 0 || now.ranks == what->ranks);
}

static void await_state(troupe_job *job, troupe_job_state state, int reports, int ranks)
{
    awaited what = {job, state, reports, ranks};
    if (!support_wait_until(is_there, &what, SUPPORT_SOON_MS))
        fail_msg("state %d after %d reports with %d ranks does not come: state %d, %d, %d",
                 (int)state, reports, ranks, (int)status_of(job).state, status_of(job).reports,
                 status_of(job).ranks);
}

#endif
