// store_wait.c: waiting for room in the store (see ref/store_wait.h).
#include <actors/ref/store_wait.h>

#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/slow.h>
#include <runtime/link/dispatch.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/read.h>

enum { SLICE_MS = 50 }; // Whoever should wake us may have been killed.

typedef struct room_wait {
    bool begun;
    uint32_t seen;
    int64_t began_ns;
    trp_slow slow;
} room_wait;

static bool begin(room_wait *wait)
{
    troupe_error kept;
    if (trp_process_options()->store_wait_ms < 0 || trp_process_delivering())
        return false;
    trp_error_hold(&kept);
    trp_wait_for(TRP_WAIT_ROOM, 0, 0);
    wait->begun = trp_scheduler_block() == TROUPE_OK;
    trp_error_restore(&kept);
    wait->began_ns = trp_clock_ns();
    trp_slow_begin(&wait->slow, TRP_SLOW_STORE);
    return wait->begun;
}

// There was no room. True: there may be now.
static bool await(room_wait *wait)
{
    if (!wait->begun) {
        if (!begin(wait))
            return false;
    } else {
        int64_t most_ms = trp_process_options()->store_wait_ms;
        int64_t left_ms = most_ms - (trp_clock_ns() - wait->began_ns) / 1000000;
        if (left_ms <= 0 || trp_actors_stopping() || trp_runtime_is_lost())
            return false;
        if (trp_slow_is_due(&wait->slow))
            trp_slow_tell(&wait->slow, "room in the object store");
        trp_room_wait(wait->seen, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
    }
    wait->seen = trp_room_expect();
    return true;
}

// Why there is none still: its status is the last error.
static void finish(room_wait *wait, bool full)
{
    int64_t waited_ms = wait->begun ? (trp_clock_ns() - wait->began_ns) / 1000000 : 0;
    if (wait->begun) {
        trp_slow_end(&wait->slow);
        trp_scheduler_unblock();
    }
    if (full && wait->begun && trp_runtime_is_lost())
        (void)trp_process_check();
    else if (full && wait->begun && trp_actors_stopping())
        (void)troupe_fail(TROUPE_NOT_STARTED,
                          "the runtime was stopped during a wait for room in the store");
    else if (full)
        (void)trp_room_explain(waited_ms);
}

troupe_status trp_object_create(size_t size, uint64_t schema, trp_encoding encoding,
                                trp_object *object, void **data)
{
    room_wait wait;
    wait.begun = false;
    troupe_status status;
    TRP_USE_SEGMENT(trp_use_refused());
    do
        status = trp_room_try(size, schema, encoding, object, data);
    while (status == TROUPE_NO_MEMORY && await(&wait));
    finish(&wait, status == TROUPE_NO_MEMORY);
    return status == TROUPE_NO_MEMORY ? troupe_last_error()->status : trp_error_settled(status);
}

int trp_object_patience_ms(void)
{
    int most_ms = trp_process_options()->store_wait_ms;
    return most_ms < 0 || trp_process_delivering() ? 0 : most_ms;
}

trp_object_info trp_object_pin(trp_object object)
{
    room_wait wait;
    wait.begun = false;
    int patient_ms = trp_object_patience_ms();
    trp_object_info info;
    bool full;
    do {
        info = trp_store_pin_within(object, patient_ms);
        full = info.state == TRP_OBJECT_ABSENT && troupe_last_error()->status == TROUPE_NO_MEMORY;
    } while (full && await(&wait));
    finish(&wait, full);
    if (info.state != TRP_OBJECT_ABSENT)
        trp_error_forget(); // Of what failed before there was room.
    return info;
}
