// spawn_resources.c: what a spawn asks of its node (see actor/spawn_resources.h), and the public
// view of what there is.
#include <actors/actor/spawn_resources.h>

#include <actors/class/call_error.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/msgpack.h>
#include <runtime/host/worker_env.h>
#include <runtime/node/node_client.h>
#include <runtime/node/resource_ledger.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <troupe/resources.h>

enum { WHO_MAX = 90 };

static bool has_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

troupe_status trp_need_place(const troupe_spawn_options *how, troupe_place *place)
{
    bool alone = how->gpus != 0 || has_text(how->env) || has_text(how->folder);
    if (!alone || *place == TROUPE_PLACE_ISOLATED)
        return TROUPE_OK;
    if (*place != TROUPE_PLACE_ANY)
        return troupe_fail(TROUPE_INVALID,
                           "an actor with %s needs a process of its own: expected .place = "
                           "TROUPE_PLACE_ISOLATED or none",
                           how->gpus != 0 ? ".gpus" : ".env or .folder");
    *place = TROUPE_PLACE_ISOLATED;
    return TROUPE_OK;
}

static troupe_status wanted(const troupe_spawn_options *how, trp_want *want)
{
    TROUPE_TRY(trp_amount_count(".cpus of an actor", how->cpus, &want->cpus));
    TROUPE_TRY(trp_amount_count(".gpus of an actor", how->gpus, &want->gpus));
    if (how->memory_bytes > INT64_MAX)
        return troupe_fail(TROUPE_INVALID,
                           ".memory_bytes of an actor is %zu, more than a machine can have",
                           how->memory_bytes);
    want->memory_bytes = (int64_t)how->memory_bytes;
    want->resources = how->resources;
    want->wait_ms = how->resources_wait_ms;
    return TROUPE_OK;
}

// The process's environment: which GPUs it sees, and what the user gives it, which comes last.
static troupe_status write_env(const troupe_spawn_options *how, const char *gpus, trp_need *need)
{
    if (how->gpus == 0 && !has_text(how->env))
        return TROUPE_OK;
    const char *given = has_text(how->env) ? how->env : "";
    size_t capacity = strlen(given) + TRP_CLAIM_GPUS_MAX + 64;
    need->env = trp_alloc(capacity);
    if (need->env == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the environment of an actor");
    if (how->gpus != 0)
        snprintf(need->env, capacity, "CUDA_VISIBLE_DEVICES=%s\n%s", gpus, given);
    else
        snprintf(need->env, capacity, "%s", given);
    return trp_worker_env_check(".env of an actor", need->env, NULL);
}

static _Thread_local struct {
    uint64_t claim;
    char *gpus;
} brought;

void trp_need_bring(uint64_t claim, char *gpus)
{
    if (brought.claim != 0) {
        troupe_error last; // Of the spawn that did not take it.
        trp_error_hold(&last);
        trp_node_claim_drop(brought.claim);
        trp_error_restore(&last);
    }
    trp_free(brought.gpus);
    brought.claim = claim;
    brought.gpus = gpus;
}

// The node answers when that time is over; only if it is stopped, nobody does.
static void hurry(trp_want *want, int64_t until_ns)
{
    enum { GRACE_NS = 50000000 };
    int64_t left_ms = (until_ns - trp_clock_ns() + 999999) / 1000000;
    if (until_ns == 0)
        return;
    if (want->wait_ms == 0 || want->wait_ms > left_ms)
        want->wait_ms = left_ms > 0 ? (uint32_t)left_ms : 1;
    trp_request_limit(until_ns + GRACE_NS);
}

troupe_status trp_need_get(const troupe_spawn_options *how, const char *class_name,
                           int64_t until_ns, trp_need *need)
{
    trp_want want = {0};
    char who[WHO_MAX], gpus[TRP_CLAIM_GPUS_MAX] = "";
    TROUPE_TRY(trp_worker_env_check(".env of an actor", how->env, how->folder));
    TROUPE_TRY(wanted(how, &want));
    if (brought.claim != 0) {
        need->claim = brought.claim;
        brought.claim = 0;
        snprintf(gpus, sizeof gpus, "%s", brought.gpus != NULL ? brought.gpus : "");
        trp_free(brought.gpus);
        brought.gpus = NULL;
    } else if (want.cpus != 0 || want.gpus != 0 || want.memory_bytes != 0 ||
               has_text(want.resources)) {
        snprintf(who, sizeof who, has_text(how->name) ? "%.40s '%.40s'" : "%.40s%.0s", class_name,
                 has_text(how->name) ? how->name : "");
        want.who = who;
        trp_wait_for(TRP_WAIT_NODE, 0, 0);
        TROUPE_TRY(trp_scheduler_block());
        hurry(&want, until_ns);
        troupe_status status = trp_node_claim(&want, &need->claim, gpus);
        trp_request_limit(0);
        trp_scheduler_unblock();
        TROUPE_TRY(status);
    }
    troupe_status status = write_env(how, gpus, need);
    if (status != TROUPE_OK)
        trp_need_done(need, status);
    return status;
}

void trp_need_done(trp_need *need, troupe_status status)
{
    if (status != TROUPE_OK && need->claim != 0) {
        troupe_error failure = *troupe_last_error();
        trp_node_claim_drop(need->claim); // Harmless if the actor has given it back itself.
        (void)trp_error_set(&failure);
    }
    trp_free(need->env);
    *need = (trp_need){0};
}

void trp_need_hold(trp_actor *actor, uint64_t claim)
{
    trp_actor_extra *extra = claim != 0 ? trp_actor_extend(actor) : NULL;
    if (extra != NULL)
        extra->claim = claim;
    else if (claim != 0)
        trp_node_claim_drop(claim); // Better given away too early than never.
}

void trp_need_release(trp_actor *actor)
{
    trp_actor_extra *extra = actor->extra;
    if (extra == NULL || extra->claim == 0)
        return;
    trp_node_claim_drop(extra->claim);
    extra->claim = 0;
}

// ---- what there is

static troupe_status read_name(trp_reader *in, char *text, size_t capacity)
{
    const char *found;
    size_t size;
    TROUPE_TRY(trp_read_text(in, &found, &size));
    if (size >= capacity)
        size = capacity - 1;
    memcpy(text, found != NULL ? found : "", size);
    text[size] = '\0';
    return TROUPE_OK;
}

static troupe_status read_amounts(trp_reader *in, troupe_resources *all)
{
    uint32_t count, fields;
    TROUPE_TRY(trp_read_array(in, &count));
    for (uint32_t i = 0; i < count; i++) {
        troupe_resource one = {0};
        uint64_t total, free;
        TROUPE_TRY(trp_read_array(in, &fields));
        TROUPE_TRY(read_name(in, one.name, sizeof one.name));
        TROUPE_TRY(trp_read_uint(in, &total));
        TROUPE_TRY(trp_read_uint(in, &free));
        double unit = i == TRP_MEMORY ? 1 : TRP_CPU;
        one.total = (double)total / unit;
        one.free = (double)free / unit;
        if (i == TRP_CPUS)
            all->cpus = one;
        else if (i == TRP_GPUS)
            all->gpus = one;
        else if (i == TRP_MEMORY)
            all->memory_bytes = one;
        else if (all->named_count < TROUPE_RESOURCES_NAMED_MAX)
            all->named[all->named_count++] = one;
    }
    return TROUPE_OK;
}

static troupe_status read_waits(trp_reader *in, troupe_resources *all)
{
    uint32_t count, fields;
    uint64_t process, waited, waiting;
    TROUPE_TRY(trp_read_array(in, &count));
    for (uint32_t i = 0; i < count; i++) {
        troupe_resource_wait one = {0};
        TROUPE_TRY(trp_read_array(in, &fields));
        TROUPE_TRY(read_name(in, one.actor, sizeof one.actor));
        TROUPE_TRY(trp_read_uint(in, &process));
        TROUPE_TRY(trp_read_uint(in, &waited));
        TROUPE_TRY(read_name(in, one.why, sizeof one.why));
        one.pid = trp_process_pid((uint32_t)process);
        one.waited_s = (double)waited / 1000;
        if (i < TROUPE_RESOURCES_WAITS_MAX)
            all->waits[i] = one;
    }
    TROUPE_TRY(trp_read_uint(in, &waiting));
    all->waiting = (size_t)waiting;
    return TROUPE_OK;
}

static troupe_status read_resources(troupe_resources *all)
{
    trp_buffer list = {0};
    uint32_t fields;
    memset(all, 0, sizeof *all);
    trp_wait_for(TRP_WAIT_NODE, 0, 0);
    TROUPE_TRY(trp_scheduler_block());
    troupe_status status = trp_node_claims(&list);
    trp_scheduler_unblock();
    trp_reader in = trp_reader_of(list.data, list.size);
    if (status == TROUPE_OK)
        status = trp_read_array(&in, &fields);
    if (status == TROUPE_OK)
        status = read_amounts(&in, all);
    if (status == TROUPE_OK)
        status = read_waits(&in, all);
    trp_buffer_free(&list);
    return status;
}

troupe_status(troupe_resources_get)(troupe_resources *all, size_t size)
{
    TRP_REQUIRE(all);
    troupe_resources found;
    TROUPE_TRY(read_resources(&found));
    trp_output_give(all, size, &found, sizeof found);
    return TROUPE_OK;
}
