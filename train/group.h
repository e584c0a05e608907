// group.h: the shared region of a group of ranks: where each rank is, the report that is the last,
// and the end.
//
//     [ head | line of rank 0 | line of rank 1 | ... | slots of rank 0 | slots of rank 1 | ... ]
//
// Pure over a piece of memory that all ranks and their coordinator map: no actors, no processes.
// Each rank writes its own line and slots; the words of the head are written by compare-and-set
// alone. Every wait ends: when the others come, at its deadline, or when the group is disturbed.
#ifndef TRP_GROUP_H
#define TRP_GROUP_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_GROUP_WORLD_MAX = 1024,
    TRP_GROUP_SLOT = 256 * 1024, // Bytes of one staging slot; a rank has two.
    TRP_GROUP_TEXT = 384,
    TRP_GROUP_AHEAD = 32, // A rank may be this many reports ahead of the slowest.
};

// Why a group was ended, with the rank that caused it.
typedef enum trp_group_reason {
    TRP_GROUP_WHOLE, // It was not.
    TRP_GROUP_DIED,  // The rank's process is gone, or could not be made.
    TRP_GROUP_LATE,  // The rank did not come to a collective in time.
    TRP_GROUP_LEFT,  // The rank's loop ended while others waited for it.
    TRP_GROUP_ENDED, // The run is torn down.
} trp_group_reason;

// What a rank has called; compared by all ranks, since all must call the same.
typedef struct trp_group_call {
    uint32_t operation, element, how;
    int32_t root;
    uint64_t count;
} trp_group_call;

typedef struct trp_group_line {
    // Twice the number of steps that the rank has made in collectives; bit 0 is set once, when the
    // group is disturbed: so that who is about to sleep on the word does not miss it. Pairs:
    // release by the rank, acquire by who waits.
    alignas(64) _Atomic uint32_t steps;
    _Atomic uint32_t reports; // The same for the reports that it has entered.
    // Who may sleep on either word; raised before sleeping, read after the word is written (both
    // sequentially consistent), so that one of the two sees the other. A dead sleeper costs a call.
    _Atomic uint32_t sleepers;
    _Atomic uint32_t left;   // 1 + status of the loop's end; released after `text`.
    trp_group_call calls[2]; // By parity of the operation.
    char text[TRP_GROUP_TEXT];
} trp_group_line;

typedef struct trp_group_region {
    alignas(64) uint64_t magic;
    int32_t world;
    alignas(64) _Atomic uint64_t stop; // {stop at report: 32, highest report entered: 32}
    _Atomic uint64_t end;              // {reason: 32, rank: 32}; set once.
    trp_group_line lines[];
} trp_group_region;

// One rank's view.
typedef struct trp_group {
    trp_group_region *region;
    int rank, world;
    int timeout_ms;      // The longest wait for another rank in a collective.
    uint32_t steps;      // As in the own line.
    uint32_t operations; // Collectives begun.
    uint32_t uses;       // Of the slots: says which of the two is next.
    int64_t spin_ns;     // How long to look before sleeping.
} trp_group;

// ---- the coordinator's side
size_t trp_group_size(int world);
// Makes a group in zeroed memory of that size; the first report will have number `first_report`.
trp_group_region *trp_group_init(void *memory, int world, int first_report);
// Ends the group: all waits end with TROUPE_PEER_LOST. The first end holds; false if there was one.
bool trp_group_end(trp_group_region *region, trp_group_reason reason, int rank);
// Why it was ended, and by which rank.
trp_group_reason trp_group_ended(const trp_group_region *region, int *rank);
// Asks for a stop at the first report that no rank has entered, and returns its number.
int trp_group_stop(trp_group_region *region);
// How the loop of a rank ended, if it did: its status and sentence.
bool trp_group_left(const trp_group_region *region, int rank, troupe_status *status,
                    const char **text);

// ---- a rank's side
// TROUPE_CORRUPT: the memory holds no group of that world.
troupe_status trp_group_open(trp_group *group, void *memory, size_t size, int rank, int world,
                             int timeout_ms);
// Says that the rank's loop has ended: who waits for this rank is told.
void trp_group_leave(trp_group *group, troupe_status status, const char *text);

typedef enum trp_report_turn {
    TRP_REPORT_OPEN, // An ordinary report.
    TRP_REPORT_LAST, // The run stops with this one, on all ranks.
    TRP_REPORT_PAST, // The run has stopped before it.
} trp_report_turn;
// Enters the report of that number, waiting where the slowest rank is too far behind.
troupe_status trp_group_report(trp_group *group, int number, trp_report_turn *turn);

// One step of all ranks: returns when every rank has made as many steps as this one. What ranks
// wrote before their step can be read after it.
troupe_status trp_group_step(trp_group *group, const char *what);
// The staging memory of a rank, by parity.
void *trp_group_slot(const trp_group *group, int rank, unsigned parity);

#endif
