// spawn_wait.c: waiting for an actor that another process makes, and what comes when no thread
// waits for it any more.
#include <actors/spawn/spawn.h>

#include <actors/call/call.h>
#include <actors/ends/kill.h>
#include <actors/ref/call_table.h>
#include <actors/ref/ref.h>
#include <runtime/base/clock.h>
#include <runtime/base/slow.h>
#include <runtime/link/park.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>

enum { LOOK_MS = 100 }; // Between looks at whether the process is stopped.

// The answer has come after all: to nobody. Its claim is the actor's, if there is one.
static void end_late(void *user, troupe_ref ref)
{
    troupe_actor made;
    uint64_t claim = (uint64_t)(uintptr_t)user;
    if (troupe_get(troupe_actor, ref, &made, TROUPE_POLL) == TROUPE_OK)
        trp_kill_untold(made);
    else if (claim != 0)
        trp_node_claim_drop(claim);
}

// Waits so long at most. False: it has not come yet.
static bool await_for(uint64_t call, int ms)
{
    enum { POLL_NS = 1000000 };
    static _Atomic uint32_t never;
    int64_t until_ns = trp_clock_ns() + (int64_t)ms * 1000000;
    troupe_status status = trp_ref_await((troupe_ref){.id = call}, ms);
    // What is on its way must not be left to nobody: where too many methods wait already, this one
    // keeps its thread until the answer has come.
    while (status == TROUPE_BUSY && !trp_entry_ready(call) && trp_clock_ns() < until_ns)
        trp_park(&never, 0, trp_clock_ns() + POLL_NS);
    return trp_entry_ready(call);
}

static int look_ms(int64_t until_ns)
{
    int64_t left_ms = until_ns != 0 ? (until_ns - trp_clock_ns() + 999999) / 1000000 : LOOK_MS;
    return left_ms < 0 ? 0 : left_ms < LOOK_MS ? (int)left_ms : LOOK_MS;
}

troupe_status trp_spawn_await(const trp_spawn_wait *wait, uint64_t *claim)
{
    int64_t stopped_ns = 0, limit_ns = (int64_t)trp_process_options()->request_timeout_ms * 1000000;
    bool stopped = false, late = false;
    int pid = trp_process_pid(wait->process);
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_SPAWN);
    while (!late) {
        if (trp_slow_is_due(&slow))
            trp_slow_tell(&slow, "the init of an actor of class '%.60s' in %s%s", wait->class_name,
                          trp_process_text(wait->process).text,
                          stopped ? ", which is stopped" : "");
        if (await_for(wait->call, look_ms(wait->until_ns))) {
            trp_slow_end(&slow);
            return TROUPE_OK;
        }
        int64_t now_ns = trp_clock_ns();
        stopped = trp_process_is_stopped(pid);
        if (!stopped)
            stopped_ns = 0;
        else if (stopped_ns == 0)
            stopped_ns = now_ns;
        late = wait->until_ns != 0 ? now_ns >= wait->until_ns
                                   : stopped && now_ns - stopped_ns >= limit_ns;
    }
    trp_slow_end(&slow);
    trp_ref_when((troupe_ref){.id = wait->call}, end_late, (void *)(uintptr_t)*claim);
    *claim = 0;
    return troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                       "the init of an actor of class '%.60s' in %s has not answered in time%s",
                       wait->class_name, trp_process_text(wait->process).text,
                       stopped ? ": the process is stopped" : "");
}
