// resource_ledger.h: how much each claim holds of what this node has: pure accounting, without
// threads, clock or processes.
//
// Everything is counted in whole ten-thousandths (memory in bytes), so that fractions add up
// exactly. A claim is held whole or not at all. Claims are admitted in the order in which they were
// made: one that does not fit yet holds back those behind it that ask for any of the same, so that
// a large one is never starved by small ones, and one that waits for a licence does not hold back
// those that want none. One that says for how long at most it is held may be admitted before its
// turn, where that delays none of those before it (backfill.h).
#ifndef TRP_NODE_RESOURCE_LEDGER_H
#define TRP_NODE_RESOURCE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_CPU = 10000, // One CPU, or one of anything but memory.
    TRP_CPUS_MAX = 1000000,
    TRP_CPUS = 0, // Indices of amounts,
    TRP_GPUS = 1,
    TRP_MEMORY = 2,
    TRP_CUSTOM = 3, // the first of those that have names only.
    TRP_RESOURCES_MAX = TRP_CUSTOM + 16,
    TRP_RESOURCE_NAME_MAX = 31,
    TRP_GPUS_MAX = 64,
};

typedef struct trp_amounts {
    int64_t of[TRP_RESOURCES_MAX];
} trp_amounts;

typedef enum trp_claim_state {
    TRP_CLAIM_NONE, // Holds nothing and waits for nothing: how a zeroed claim starts.
    TRP_CLAIM_WAITING,
    TRP_CLAIM_HELD,
} trp_claim_state;

// One claim: memory of the caller, which must stay until the claim has been released.
typedef struct trp_claim {
    struct trp_claim *next;
    trp_amounts amounts;
    int64_t limit_ms; // It is given back within that time of its grant; 0: nobody knows when.
    int64_t until_ms; // Of a held one with a limit: when that time is over.
    uint64_t gpus;    // Of a held one: a bit for each GPU that it has a part of,
    int64_t gpu_part; // and how large a part of each.
    trp_claim_state state;
} trp_claim;

typedef struct trp_resources {
    trp_amounts total, free;
    char names[TRP_RESOURCES_MAX][TRP_RESOURCE_NAME_MAX + 1];
    int count;                        // Of names.
    int64_t gpu_free[TRP_GPUS_MAX];   // Of each.
    trp_claim *first, *last;          // Those that wait, oldest first.
    trp_claim *limited;               // Those that are held and have a limit, soonest end first.
    int unlimited[TRP_RESOURCES_MAX]; // How many are held of each that have none.
} trp_resources;

// Turns a number of CPUs into ten-thousandths, rounding to the nearest. TROUPE_INVALID: not a
// number, less than one ten-thousandth, or more than TRP_CPUS_MAX.
troupe_status trp_cpus_count(double cpus, int64_t *amount);
// Likewise for any resource, called `name` in the sentence of a failure; 0 is allowed and is 0.
troupe_status trp_amount_count(const char *name, double number, int64_t *amount);

// Starts the books with these totals, all free, and no custom resources.
void trp_resources_init(trp_resources *resources, int64_t cpus, int gpus, int64_t memory_bytes);
// Adds custom resources from a text: "license=1, accelerator=2". TROUPE_INVALID: malformed, twice
// the same, or more than there is room for.
troupe_status trp_resources_add(trp_resources *resources, const char *text);
// Adds what a text like that asks for to *amounts. TROUPE_TOO_LARGE: there is none of that name.
troupe_status trp_resources_read(const trp_resources *resources, const char *text,
                                 trp_amounts *amounts);

// Queues a claim for claim->amounts, with claim->limit_ms. TROUPE_TOO_LARGE: more of something than
// there is in total, ever; TROUPE_INVALID: nothing at all, less than nothing, or GPUs above 1 that
// are no whole number.
troupe_status trp_resources_claim(trp_resources *resources, trp_claim *claim);

// Grants the oldest waiting claim that may be and fits, or else one before its turn, and returns
// it; else NULL. To be called until it returns NULL, after each claim and each release. The time
// may be any that does not go back.
trp_claim *trp_resources_admit(trp_resources *resources, int64_t now_ms);

// Gives a held claim back, or takes a waiting one out of the queue. Harmless on one that is
// neither.
void trp_resources_release(trp_resources *resources, trp_claim *claim);

// Whether there is room for a claim now; then its GPUs are chosen.
bool trp_resources_fit(const trp_resources *resources, trp_claim *claim);
// Takes the amounts of a claim with chosen GPUs off what is free, or (sign -1) gives them back.
void trp_resources_book(trp_resources *resources, const trp_claim *claim, int64_t sign);

// Says in a sentence's part why a waiting claim waits: "2 CPUs (0.5 of 4 are free)", or "its turn
// behind an older claim".
void trp_resources_why(const trp_resources *resources, const trp_claim *claim, char *text,
                       size_t capacity);

#endif
