// server.c: the job server.
//
// All accounts are the actor's state, so no lock is needed for them; the one lock here guards which
// actor is the server, and the jobs on their way to it.
#include <actors/actor/lifecycle.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <train/coordinator.h>
#include <train/server.h>
#include <troupe/async.h>

typedef struct trp_server {
    trp_job *jobs;        // All that are queued or run.
    uint64_t incarnation; // Of the process when it was made.
} trp_server;

static troupe_status server_init(trp_server *self, const troupe_none *none);
static void server_deinit(trp_server *self);
static troupe_status server_submit(trp_server *self, const uint64_t *address, troupe_none *none);
static troupe_status server_done(trp_server *self, const troupe_none *nothing, troupe_none *none);
static troupe_status server_limit(trp_server *self, const uint64_t *address, troupe_none *none);
TROUPE_ACTOR_INIT(trp_server, (server_init, troupe_none), server_deinit,
                  (server_submit, uint64_t, troupe_none), (server_done, troupe_none, troupe_none),
                  (server_limit, uint64_t, troupe_none));

// The server of the runtime that runs now.
static struct {
    pthread_mutex_t lock;
    uint64_t incarnation; // Of the process when it was made; 0: never.
    trp_server_actor actor;
    trp_job *given; // Which it has not taken yet: what tells it of them may go with its mailbox.
    bool over;      // It takes none any more.
} current = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef enum absence { MAKE_IT, LEAVE_IT } absence;

// The server of this runtime. TROUPE_NOT_FOUND: there is none, and none was to be made.
static troupe_status find(absence if_absent, trp_server_actor *actor)
{
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&current.lock);
    if (current.incarnation != trp_process_incarnation()) {
        trp_server_actor made = {0};
        status = TROUPE_NOT_FOUND;
        if (if_absent == MAKE_IT) {
            made = troupe_spawn(trp_server, .place = TROUPE_PLACE_HERE);
            status = troupe_actor_status(made.address);
        }
        if (status == TROUPE_OK) { // Else it is tried again the next time.
            current.actor = made;
            current.incarnation = trp_process_incarnation();
            current.over = false;
        }
    }
    *actor = current.actor;
    pthread_mutex_unlock(&current.lock);
    return status;
}

static trp_job *job_at(const uint64_t *address)
{
    return (trp_job *)(uintptr_t)*address;
}

static troupe_status server_init(trp_server *self, const troupe_none *none)
{
    (void)none;
    self->jobs = NULL;
    self->incarnation = trp_process_incarnation();
    return TROUPE_OK;
}

// Gives back what a job holds or waits for.
static void give_back(trp_job *job)
{
    if (job->request != 0) // From here on `claimed` does not run for it.
        trp_node_claim_abandon(job->request);
    uint64_t claim = atomic_exchange(&job->claim, 0);
    if (claim != 0)
        trp_node_claim_drop(claim);
    if (job->more != 0)
        trp_node_claim_drop(job->more);
    job->more = 0;
    job->request = 0;
}

// Takes a job out of a list. False: it is not there.
static bool take_out(trp_job **first, trp_job *job)
{
    trp_job **at = first;
    while (*at && *at != job)
        at = &(*at)->next;
    bool there = *at != NULL;
    if (there)
        *at = job->next;
    return there;
}

// Takes a job off the books.
static void forget(trp_server *self, trp_job *job)
{
    (void)take_out(&self->jobs, job);
    give_back(job);
    trp_job_release(job);
}

// Ends a job that has not been started, because the runtime stops.
static void close_and_cancel(trp_job *job)
{
    trp_run_close(job);
    trp_job_cancel(job);
}

// Ends one that has not been started as its user wishes.
static void close_and_stop(trp_job *job)
{
    troupe_result *result = trp_job_result(job);
    if (result) {
        result->status = trp_job_given_up(job);
        result->stopped = result->status == TROUPE_OK;
        if (!result->stopped)
            result->error = trp_job_result_text(result, troupe_last_error()->text);
    }
    trp_run_close(job);
    (void)trp_job_finish(job, result);
}

// A job that is on its way to the server. TROUPE_NOT_EXECUTED: it takes none any more.
static troupe_status give(trp_job *job)
{
    pthread_mutex_lock(&current.lock);
    bool over = current.over;
    if (!over) {
        job->next = current.given;
        current.given = job;
    }
    pthread_mutex_unlock(&current.lock);
    return over ? troupe_fail(TROUPE_NOT_EXECUTED, "the runtime is being stopped") : TROUPE_OK;
}

// False: the server has taken it.
static bool take_given(trp_job *job)
{
    pthread_mutex_lock(&current.lock);
    bool there = take_out(&current.given, job);
    pthread_mutex_unlock(&current.lock);
    return there;
}

// Those that this server will not take. There may be another by now: one may end late.
static trp_job *take_all_given(const trp_server *self)
{
    trp_job *all = NULL;
    pthread_mutex_lock(&current.lock);
    bool is_current = current.incarnation == self->incarnation;
    for (trp_job **at = &current.given, *job; (job = *at) != NULL;) {
        if (!is_current && job->incarnation != self->incarnation) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = all;
        all = job;
    }
    current.over = current.over || is_current;
    pthread_mutex_unlock(&current.lock);
    return all;
}

static void server_deinit(trp_server *self)
{
    // The runtime stops. Those that run are ended by their coordinators.
    trp_derived_settle();
    for (trp_job *at = take_all_given(self), *next; at; at = next) {
        next = at->next;
        close_and_cancel(at);
        trp_job_release(at);
    }
    while (self->jobs) {
        if (!self->jobs->started)
            close_and_cancel(self->jobs);
        forget(self, self->jobs);
    }
}

static int64_t grace_ms(const trp_job *job)
{
    return (int64_t)(job->options.time_limit_grace_s * 1000);
}

// Looks after the time limit of a job: now, or when something is to be done about it. What is lost
// on the way is done again.
static void keep_limit(trp_job *job)
{
    enum { AGAIN_MS = 500, LONGEST_MS = 3600000 };
    int64_t left_ms = job->due_ms - trp_clock_ms();
    if (left_ms <= 0 && !job->late) {
        job->late = true;
        trp_log(TRP_INFO, "%s has reached its time limit of %g s: it stops at its next report",
                job->path, job->options.time_limit_s);
        trp_job_stop(job);
    }
    if (left_ms <= 0)
        left_ms += grace_ms(job);
    if (left_ms <= 0) {
        char why[160];
        snprintf(
            why, sizeof why,
            "the run has not stopped within .time_limit_grace_s = %g of its .time_limit_s = %g",
            job->options.time_limit_grace_s, job->options.time_limit_s);
        trp_job_kill(job, TROUPE_DEADLINE_EXCEEDED, why);
        left_ms = AGAIN_MS;
    }
    uint32_t pause_ms = (uint32_t)(left_ms < LONGEST_MS ? left_ms : LONGEST_MS);
    job->limited = true;
    if (troupe_timer_after(server_limit, pause_ms, (uint64_t)(uintptr_t)job).id_ == 0)
        trp_log(TRP_WARN, "the time limit of %s is not kept: %s", job->path,
                troupe_last_error()->text);
}

// False: there is no memory for it.
static bool tell_done(trp_server_actor server)
{
    return trp_life_post_to(server.address, &troupe_class_trp_server,
                            troupe_method_server_done.index, &(troupe_none){0});
}

// The node has answered.
static void claimed(void *user, troupe_status status, uint64_t claim, const char *text)
{
    trp_job *job = user;
    if (status == TROUPE_OK && job->gpus)
        snprintf(job->gpus, TRP_CLAIM_GPUS_MAX, "%s", text);
    if (status == TROUPE_OK)
        atomic_store(&job->claim, claim);
    else
        atomic_store(&job->refused, true);
    trp_server_look(job);
}

// Within which time the node has back what a job is given; 0: that is not known.
static uint64_t claim_limit_ms(const trp_job *job)
{
    enum { SLACK_MS = 1000 }; // For its processes to end.
    double limit_s = job->options.time_limit_s;
    int64_t left_ms = job->started ? job->left_ms : (int64_t)(limit_s * 1000);
    if (limit_s <= 0)
        return 0;
    return (uint64_t)(left_ms > 0 ? left_ms : 0) + (uint64_t)grace_ms(job) + SLACK_MS;
}

// What a group of so many ranks needs. TROUPE_INVALID, TROUPE_TOO_LARGE.
static troupe_status want_of(trp_job *job, int ranks, trp_want *want)
{
    troupe_train_options options = job->options;
    options.ranks = ranks;
    TROUPE_TRY(trp_train_options_gang(&options, &job->gang));
    want->cpus = job->gang.cpus;
    want->gpus = job->gang.gpus;
    want->memory_bytes = job->gang.memory_bytes;
    want->resources = job->gang.resources;
    return TROUPE_OK;
}

// Takes what is there now for as many ranks as possible, fewer than were wished if need be. False:
// there is not enough for the fewest.
static bool take_now(trp_job *job, trp_want want, int most, int fewest)
{
    char gpus[TRP_CLAIM_GPUS_MAX];
    want.wait_ms = 1;
    for (int ranks = most; ranks >= fewest; ranks--) {
        uint64_t claim;
        if (trp_job_check_ranks(job, ranks) != TROUPE_OK ||
            want_of(job, ranks, &want) != TROUPE_OK ||
            trp_node_claim(&want, &claim, gpus) != TROUPE_OK)
            continue;
        if (job->gpus)
            memcpy(job->gpus, gpus, sizeof gpus);
        trp_job_set_world(job, job->up_to = ranks);
        atomic_store(&job->claim, claim);
        return true;
    }
    return false;
}

// Takes what is there now for ranks beyond the fewest, which it waited for and has been given.
// Parts of a GPU are left: those of one rank after the other share it.
static void take_more(trp_job *job)
{
    char gpus[TRP_CLAIM_GPUS_MAX];
    trp_want want = {.who = "an elastic job", .wait_ms = 1, .limit_ms = claim_limit_ms(job)};
    int64_t own;
    if (job->gang.gpus_each % TRP_CPU != 0 ||
        trp_amount_count("option .coordinator_cpus", job->options.coordinator_cpus, &own) !=
            TROUPE_OK)
        return;
    int has = job->world;
    for (int ranks = job->up_to; ranks > has; ranks--) {
        if (trp_job_check_ranks(job, ranks) != TROUPE_OK ||
            want_of(job, ranks - has, &want) != TROUPE_OK)
            continue;
        want.cpus -= own; // It has that.
        if (trp_node_claim(&want, &job->more, gpus) != TROUPE_OK)
            continue;
        if (job->gpus && gpus[0]) {
            size_t used = strlen(job->gpus);
            snprintf(job->gpus + used, TRP_CLAIM_GPUS_MAX - used, ",%s", gpus);
        }
        trp_job_set_world(job, ranks);
        return;
    }
}

// Asks the node for what a group of the job needs.
static void ask(trp_job *job)
{
    char who[96];
    snprintf(who, sizeof who, "job '%.80s'", job->options.name != NULL ? job->options.name : "");
    int ranks = trp_job_ask_ranks(job), fewest = job->options.min_ranks;
    job->up_to = ranks;
    trp_want want = {.who = who, .patient = true, .limit_ms = claim_limit_ms(job)};
    if (fewest > 0 && fewest < ranks) {
        if (take_now(job, want, ranks, fewest))
            return;
        while (fewest < ranks && trp_job_check_ranks(job, fewest) != TROUPE_OK)
            fewest++; // Parts of ranks leave only their number.
        trp_job_set_world(job, ranks = fewest);
    }
    troupe_status status = want_of(job, ranks, &want);
    if (status == TROUPE_OK)
        status = trp_node_claim_begin(&want, claimed, job, &job->request);
    if (status != TROUPE_OK)
        atomic_store(&job->refused, true);
}

// Whether it has no group, and waits for what one needs.
static bool waits(const trp_job *job)
{
    return !job->started || atomic_load(&job->rests);
}

// A job that waits: takes note of what is wished now, and asks for what that needs.
static void settle(trp_job *job)
{
    if (job->started && job->holds_claim) { // Its group has just gone.
        give_back(job);
        job->holds_claim = false;
        job->left_ms = job->due_ms - trp_clock_ms();
    }
    if (trp_job_paused(job)) {
        give_back(job);
        trp_job_set_state(job, TROUPE_JOB_PAUSED);
        return;
    }
    if (job->started && atomic_exchange(&job->refused, false)) { // There was no memory to ask.
        give_back(job);
        atomic_store(&job->missed, true); // Who waits for the job has it asked for again.
        return;
    }
    if (trp_job_leaves(job)) // Another number of ranks is wished than it waits for.
        give_back(job);
    if (job->request == 0 && atomic_load(&job->claim) == 0 && !atomic_load(&job->refused)) {
        trp_job_set_state(job, TROUPE_JOB_QUEUED);
        ask(job);
    }
}

// It has what its group needs.
static void begin(trp_server *self, trp_job *job)
{
    bool again = job->started;
    if (job->up_to > job->world)
        take_more(job);
    job->started = true;
    job->holds_claim = true;
    if (!again)
        job->left_ms = (int64_t)(job->options.time_limit_s * 1000);
    job->due_ms = trp_clock_ms() + job->left_ms;
    if (again) {
        atomic_store(&job->rests, false);
        trp_coordinator_remind(job);
    } else if (!trp_coordinator_start(job)) {
        forget(self, job);
        return;
    }
    if (job->options.time_limit_s > 0 && !job->limited)
        keep_limit(job);
}

// Takes those that are over off the books, and starts what there is room for.
static void admit(trp_server *self)
{
    for (trp_job *at = self->jobs, *next; at; at = next) {
        next = at->next;
        if (atomic_load(&at->over)) {
            forget(self, at);
        } else if (!at->started && atomic_load(&at->refused)) {
            close_and_cancel(at); // That it fits was checked: the runtime is being stopped.
            forget(self, at);
        } else if (!at->started && trp_job_stopping(at)) {
            close_and_stop(at);
            forget(self, at);
        } else if (waits(at)) {
            settle(at);
            if (atomic_load(&at->claim) != 0)
                begin(self, at);
        }
    }
}

static troupe_status server_submit(trp_server *self, const uint64_t *address, troupe_none *none)
{
    (void)none;
    trp_job *job = job_at(address);
    if (!take_given(job))
        return TROUPE_OK;
    job->next = self->jobs;
    self->jobs = job;
    admit(self);
    return TROUPE_OK;
}

static bool knows(const trp_server *self, const trp_job *job)
{
    const trp_job *at = self->jobs;
    while (at && at != job)
        at = at->next;
    return at != NULL;
}

static troupe_status server_limit(trp_server *self, const uint64_t *address, troupe_none *none)
{
    (void)none;
    trp_job *job = job_at(address);
    if (!knows(self, job))
        return TROUPE_OK;
    job->limited = false;
    if (job->holds_claim && job->options.time_limit_s > 0 && !atomic_load(&job->over))
        keep_limit(job);
    return TROUPE_OK;
}

static troupe_status server_done(trp_server *self, const troupe_none *nothing, troupe_none *none)
{
    (void)nothing;
    (void)none;
    admit(self);
    return TROUPE_OK;
}

troupe_status trp_server_submit(trp_job *job)
{
    trp_server_actor server;
    TROUPE_TRY(find(MAKE_IT, &server));
    if (job->gang.gpus > 0 && !(job->gpus = trp_arena_alloc(&job->arena, TRP_CLAIM_GPUS_MAX)))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the ids of a job's GPUs");
    trp_job_hold(job);
    troupe_status status = give(job);
    if (status == TROUPE_OK) {
        status = troupe_tell(server, server_submit, (uint64_t)(uintptr_t)job);
        if (status != TROUPE_OK && !take_given(job)) // It has ended, and the job with it.
            return trp_error_settled(TROUPE_OK);
    }
    if (status != TROUPE_OK)
        trp_job_release(job);
    return status;
}

void trp_server_look(trp_job *job)
{
    trp_server_actor server;
    if (find(LEAVE_IT, &server) == TROUPE_OK && !tell_done(server))
        atomic_store(&job->missed, true);
}

void trp_server_job_done(trp_job *job)
{
    trp_server_actor server;
    atomic_store(&job->over, true); // Found at the next submission, should the word be lost.
    if (find(LEAVE_IT, &server) == TROUPE_OK)
        (void)tell_done(server);
}
