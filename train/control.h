// control.h: the words of a group of ranks: where each rank is, what is ordered at which report
// (the stop, newer live values), the group's end, and how loops ended.
//
//     [ head | line of rank 0 | line of rank 1 | ... | memory of the engine ]
//
// Pure over a piece of memory that all ranks and their coordinator map: no actors, no processes.
// Each rank writes its own line; the two words of the head are written by compare-and-set, and what
// belongs to an order by the driver, before it publishes the order in the word.
// Collectives are the engine's (train/engine.h), which has the memory behind the lines. Every wait
// ends: when the others come, at its deadline, or when the group ends.
#ifndef TRP_CONTROL_H
#define TRP_CONTROL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <train/counter.h>
#include <train/engine.h>
#include <train/shared.h>
#include <troupe/status.h>

enum {
    TRP_WORLD_MAX = 1024,
    TRP_CONTROL_TEXT = 384,
    TRP_REPORTS_AHEAD = 32,   // A rank may be this many reports ahead of the slowest.
    TRP_LIVE_MAX = 16 * 1024, // Bytes of live values.
};

// Why a group was ended, with the rank that caused it.
typedef enum trp_end_reason {
    TRP_END_NONE,   // It was not.
    TRP_END_DIED,   // The rank's process is gone, or could not be made.
    TRP_END_LATE,   // The rank did not come to a collective in time.
    TRP_END_LEFT,   // The rank's loop ended while others waited for it.
    TRP_END_OVER,   // The run is torn down.
    TRP_END_DEVICE, // A collective on devices failed, or did not end, as the rank says.
    TRP_END_SHORT,  // The rank had no memory for its part in a collective.
} trp_end_reason;

typedef struct trp_control_line {
    alignas(64)
        trp_counter reports; // That it has entered; closed when the group ends or it leaves.
    // Calls of the library of devices' collectives, of those that all ranks make.
    _Atomic uint32_t device_steps;
    _Atomic uint32_t left; // 1 + status of the loop's end; released after `text`.
    char text[TRP_CONTROL_TEXT];
} trp_control_line;

typedef struct trp_control {
    alignas(64) uint64_t magic;
    int32_t world;
    // {revision of the live values: 32, a stop is ordered: 1, highest report entered: 31}
    alignas(64) _Atomic uint64_t orders;
    _Atomic uint64_t end; // {reason: 32, rank: 32}; set once.
    // Of the orders in the word: written before they are published there.
    uint32_t stop_from; // All ranks that have entered this report know of the stop,
    uint32_t stop_at;   // and this is the last one.
    uint32_t live_from; // The report with which the revision takes effect.
    uint32_t live_size;
    alignas(64) unsigned char live[TRP_LIVE_MAX]; // The values, for the ranks to copy.
    trp_control_line lines[];
} trp_control;

// ---- the coordinator's side
size_t trp_control_size(const trp_engine *engine, int world);
// Makes a group in zeroed memory of that size; the first report will have number `first_report`.
trp_control *trp_control_init(void *memory, const trp_engine *engine, int world, int first_report);
// Ends the group: all waits end with TROUPE_PEER_LOST, those in the engine too. The first end
// holds; false if there was one.
bool trp_control_end(trp_control *control, const trp_engine *engine, trp_end_reason reason,
                     int rank);
// Why it was ended, and by which rank.
trp_end_reason trp_control_ended(const trp_control *control, int *rank);
// Orders, by one thread at a time. The stop: at the first report that no rank has entered, or
// `later` reports after it. Returns its number; an earlier stop holds.
int trp_control_stop(trp_control *control, int later);
// The revision of the live values that ranks begin with, before any of them has joined.
void trp_control_live_begin(trp_control *control, uint32_t revision);
// Newer live values, with the first report that no rank has entered; returns its number. One order
// at a time: not before that report of the last one is whole. 0: a stop is ordered, and nothing
// follows it.
int trp_control_live(trp_control *control, uint32_t revision, const void *data, size_t size);
// How the loop of a rank ended, if it did: its status and sentence.
bool trp_control_left(const trp_control *control, int rank, troupe_status *status,
                      const char **text);

// ---- a rank's side

// One rank's view of its group.
typedef struct trp_member {
    trp_control *control;
    const trp_engine *engine;
    void *link; // Of the engine.
    int rank, world;
    int timeout_ms;  // The longest wait for another rank.
    int64_t spin_ns; // How long to look before sleeping.
    // Of the operation that the engine does now (train/collective.h).
    trp_operation purpose;   // What it is a part of; 0: of nothing.
    double divisor;          // Of a mean of floats; 0: the number of ranks.
    int64_t engine_spin_ns;  // As spin_ns.
    trp_shared *shared;      // Memory that its peers reach; NULL: it can have none.
    void *device;            // Link of the engine for memory of devices; NULL: none was used.
    struct trp_started *row; // Operations that were started; NULL: none.
    struct troupe_gradients *gradients; // That its loop has opened.
    int entered;                        // The last report that it has entered,
    uint64_t orders;                    // and what was ordered then.
    uint32_t live;                      // Revision of the live values that it has.
} trp_member;

// Joins, by that engine, with the live values of revision `live`. TROUPE_CORRUPT: the memory holds
// no group of that world.
troupe_status trp_member_open(trp_member *member, void *memory, size_t size,
                              const trp_engine *engine, int rank, int world, int timeout_ms,
                              uint32_t live);
// Says that the rank's loop has ended, after what it has started, and closes its engine: who waits
// for this rank is told.
void trp_member_leave(trp_member *member, troupe_status status, const char *text);

typedef enum trp_report_turn {
    TRP_REPORT_OPEN, // An ordinary report.
    TRP_REPORT_LAST, // The run stops with this one, on all ranks.
    TRP_REPORT_PAST, // The run has stopped before it.
} trp_report_turn;
// Enters the report of that number, waiting where the slowest rank is too far behind.
troupe_status trp_member_report(trp_member *member, int number, trp_report_turn *turn);
// The last report, if all ranks know it that have entered as many as this one; else 0.
int trp_member_stop_at(const trp_member *member);
// Whether that rank has entered the report of that number; whether it enters no further one.
bool trp_member_has_entered(const trp_member *member, int rank, int number);
bool trp_member_has_left(const trp_member *member, int rank);
// Whether a stop is ordered, and was before any rank had entered a report; the first one is that
// number. The same on all ranks.
bool trp_member_stops_unreported(const trp_member *member, int first_report);
// Whether a stop is ordered. Ranks may see it at different reports.
bool trp_member_is_to_stop(const trp_member *member);
// The live values that take effect with the report that was entered last, if newer ones do: to be
// copied before the coordinator is told of that report.
bool trp_member_live(trp_member *member, const void **data, size_t *size);

// ---- for engines
// The name of what the rank has called, of which this operation is all or a part; `number` is that
// to be compared between ranks.
static inline trp_operation trp_member_operation(const trp_member *member, trp_operation operation)
{
    return member->purpose ? member->purpose : operation;
}
// Whether the group has not ended.
bool trp_member_is_whole(const trp_member *member);
// The sentence for a group that has ended, as this rank sees it in the call `what`.
troupe_status trp_member_lost(const trp_member *member, const char *what);
// That rank did not come to that call: ends the group, unless that has been done, with what is
// known of the rank. Returns trp_member_lost.
troupe_status trp_member_absent(const trp_member *member, int rank, const char *what);
// This rank has no memory for its part in that call, which the others would wait for: ends the
// group. Returns TROUPE_NO_MEMORY, with a sentence.
troupe_status trp_member_short(const trp_member *member, const char *what);

#endif
