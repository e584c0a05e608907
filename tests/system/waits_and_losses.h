// waits_and_losses.h: what the parts of test_waits_and_losses have in common.
#ifndef WAITS_AND_LOSSES_H
#define WAITS_AND_LOSSES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <support.h>
#include <troupe/status.h>

enum {
    SOON_MS = 2000 * SUPPORT_SLOWER, // For a wait to end.
    LIMIT_MS = 500 * SUPPORT_SLOWER, // Of what is waited for, where a stopped process does not end.
    BEGUN_MS = 60,                   // For a wait to have begun.
    AT_ONCE = 12,                    // Programs.
    GOES_ON_MS = 10000 * SUPPORT_SLOWER,
    CELL_S = 30,
    ROOM_BYTES = 64 << 20, // Of the store.
};

// What is lost: processes, killed or stopped, or the runtime, by a troupe_stop of another thread.
typedef enum loss { WORKER_K, WORKER_S, NODE_K, NODE_S, KEEPER_K, KEEPER_S, STOP, LOSSES } loss;

// Beside the statuses: the loss does not concern the wait, which ends well when it should; and:
// there is no such cell.
enum { GOES_ON = -1, NONE = -2 };

typedef struct cell {
    loss what;
    int expected;
    bool one;              // Worker alone is lost.
    int limit_ms;          // 0: none.
    bool after;            // The wait begins after the loss.
    _Atomic int waits, go; // What methods wait for.
    _Atomic int told;      // The reason of an end.
    _Atomic int64_t lost_ms;
    int64_t took_ms;
    int status;
    bool ended, early; // `early`: before the loss,
    bool spared;       // as it may be where it has a limit, which then ended it.
    char text[200];
} cell;

extern cell *mine;    // Shared by all processes of the cell.
extern char *storage; // A folder.

// Waits until the cell is over, in methods.
troupe_status waits_hold_on(void);
// The loss may come now. Where the wait is one that begins after it, it has come.
void waits_begin(void);
// Has an actor take all CPUs that there are; where the wait goes on, until the cell is over.
void waits_take_all(void);

// The waits (test_waits_and_losses.waits.c, .other.c): each makes what it waits for, says
// `waits_begin`, and waits.
troupe_status wait_get(void);
troupe_status wait_deadline(void);
troupe_status wait_retries(void);
troupe_status wait_restarts(void);
troupe_status wait_get_all(void);
troupe_status wait_wait(void);
troupe_status wait_set(void);
troupe_status wait_join(void);
troupe_status wait_stream(void);
troupe_status wait_object(void);
troupe_status wait_objects(void);
troupe_status wait_deferred(void);
troupe_status wait_inside(void);
troupe_status wait_task(void);
troupe_status wait_task_once(void);
troupe_status wait_task_alone(void);
troupe_status wait_task_needs(void);
troupe_status wait_map(void);
troupe_status wait_pool(void);
troupe_status wait_mailbox(void);
troupe_status wait_spawn_init(void);
troupe_status wait_spawn_deadline(void);
troupe_status wait_spawn_alone(void);
troupe_status wait_spawn_many(void);
troupe_status wait_spawn_needs(void);
troupe_status wait_name(void);
troupe_status wait_take_name(void);
troupe_status wait_resources(void);
troupe_status wait_channel_read(void);
troupe_status wait_channel_write(void);
troupe_status wait_queue_here(void);
troupe_status wait_queue_there(void);
troupe_status wait_queue_put(void);
troupe_status wait_end(void);
troupe_status wait_end_here(void);
troupe_status wait_monitor(void);
troupe_status wait_stop_actor(void);
troupe_status wait_kill(void);
troupe_status wait_train(void);
troupe_status wait_queued_job(void);
troupe_status wait_tune(void);
troupe_status wait_restart(void);
troupe_status wait_retain(void);
troupe_status wait_room(void);
troupe_status wait_join_node(void);
troupe_status wait_stop(void);

#endif
