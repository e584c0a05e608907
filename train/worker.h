// worker.h: the actor that runs the loop of one rank, and functions of its trainer's stages: alone
// in a process, on that process's main thread, or with other ranks beside it as light actors.
#ifndef TRP_WORKER_H
#define TRP_WORKER_H

#include <train/control.h>
#include <train/coordinator.h>
#include <train/data.h>
#include <train/gate.h>
#include <train/guest.h>
#include <train/place.h>

// All that a rank is told.
TROUPE_STRUCT(trp_task, (trp_place, place), (int, first), (int, together), // The process's ranks.
              (int, rank), (int, world), (int, attempt), (int, first_report), (int, timeout_ms),
              (int, keep), (int, checkpoint_every), (int, restarts), (double, cpus),
              (troupe_text, trainer), (uint64_t, schema), // Which loop,
              (troupe_bytes, config),                     // its config, packed,
              (troupe_array_troupe_ref, refs),            // and the references in that, in order.
              (troupe_ref, region),                       // The group's.
              (trp_coordinator_actor, coordinator),
              (troupe_text, origin), // The checkpoint to continue from; NULL: none.
              (troupe_text, run),    // The run's folder.
              (troupe_bytes, live),  // Values that are newer than those in the config,
              (uint32_t, live_revision), (int64_t, epoch), (troupe_text, metadata),
              (trp_gate_plan, gate), (troupe_array_trp_data_set, data),
              (trp_data_plan, data_plan),        // Or how it makes them.
              (bool, rank_metrics),              // Metrics of other ranks than 0 count, too.
              (troupe_array_troupe_ref, state)); // In memory, to continue from: one or none.

// How the loop ended.
TROUPE_STRUCT(trp_worker_end, (int, status), (troupe_text, text), (bool, stopped),
              (troupe_bytes, value), (uint64_t, value_schema)); // What it returned, packed.

// A function that is to run in a rank's process, beside its loop.
TROUPE_STRUCT(trp_rank_function, (trp_place, place), (int, attempt), (troupe_text, name),
              (uint64_t, schema), (troupe_bytes, argument)); // Packed.

// That a step which answers later is over.
TROUPE_STRUCT(trp_step_end, (uint64_t, number), (int, status), (troupe_text, text));

typedef struct trp_worker {
    struct trp_loop *loop; // That goes on by messages; NULL: none does.
    uint64_t steps;        // That have answered later: the last one's number.
} trp_worker;

// Makes so many workers more in this process, for ranks that share it.
troupe_status trp_worker_host(trp_worker *self, const int *count, troupe_array_troupe_actor *made);

// Returns TROUPE_OK with the loop's end whenever the loop could be run.
troupe_status trp_worker_run(trp_worker *self, const trp_task *task, trp_worker_end *end);
// The same of a function.
troupe_status trp_worker_execute(trp_worker *self, const trp_rank_function *what,
                                 trp_worker_end *end);
// The loop goes on, after the last batch; with the step that has that number, which is over or
// whose reference is ready; looks whether that is so, or the group has ended.
troupe_status trp_worker_go(trp_worker *self, const troupe_none *none, troupe_none *result);
troupe_status trp_worker_stepped(trp_worker *self, const trp_step_end *what, troupe_none *result);
troupe_status trp_worker_ready(trp_worker *self, const uint64_t *number, troupe_none *result);
troupe_status trp_worker_look(trp_worker *self, const troupe_none *none, troupe_none *result);
TROUPE_ACTOR(trp_worker, (trp_worker_run, trp_task, trp_worker_end),
             (trp_worker_execute, trp_rank_function, trp_worker_end),
             (trp_worker_host, int, troupe_array_troupe_actor),
             (trp_worker_go, troupe_none, troupe_none),
             (trp_worker_stepped, trp_step_end, troupe_none),
             (trp_worker_ready, uint64_t, troupe_none),
             (trp_worker_look, troupe_none, troupe_none));

// The group's memory as the loop's rank has it: for what a loop may call, named `what`. INVALID: it
// was not called by the thread of a loop with that loop's rank.
troupe_status trp_worker_member(troupe_rank *me, const char *what, trp_member **member);
// The same: the guest goes with the loop, after its hooks, unless it has left before.
troupe_status trp_worker_guest(troupe_rank *me, const char *what, trp_guest *guest);
// For trainers of the library, by the thread of their loop: what it was told, and the last report
// that it has made.
const trp_task *trp_worker_task(troupe_rank *me);
int trp_worker_reports(troupe_rank *me);
// It stops with the reports that it has made: of a rank that is alone in its run, for which no
// other waits at a later one.
void trp_worker_stop(troupe_rank *me);

// A place for what the layer above has of the rank whose loop runs on this thread; NULL where that
// loop begins. NULL, with the error's text: `me` is not of it.
void **trp_loop_above(troupe_rank *me);

#endif
