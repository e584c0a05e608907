// resource.h: who holds how many CPUs: pure bookkeeping, without threads, clock or processes.
//
// CPUs are counted in whole ten-thousandths, so that fractions add up exactly. A gang's claim is
// held whole or not at all, and claims are admitted in the order in which they were made: one that
// does not fit yet holds back those behind it, so that a large gang is never starved by small ones.
#ifndef TRP_RESOURCE_H
#define TRP_RESOURCE_H

#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_CPU = 10000, // One CPU.
    TRP_CPUS_MAX = 1000000,
};

typedef enum trp_claim_state {
    TRP_CLAIM_NONE, // Holds nothing and waits for nothing: how a zeroed claim starts.
    TRP_CLAIM_WAITING,
    TRP_CLAIM_HELD,
} trp_claim_state;

// One gang's claim: memory of the caller, which must stay until the claim has been released.
typedef struct trp_claim {
    struct trp_claim *next;
    int64_t amount; // Of the whole gang, in ten-thousandths of a CPU.
    trp_claim_state state;
} trp_claim;

typedef struct trp_resources {
    int64_t total, free;
    trp_claim *first, *last; // Those that wait, oldest first.
} trp_resources;

// Turns CPUs into ten-thousandths, rounding to the nearest. TROUPE_INVALID: not a number, less than
// one ten-thousandth, or more than TRP_CPUS_MAX.
troupe_status trp_cpus_count(double cpus, int64_t *amount);

// Starts the books with `total` ten-thousandths, all free.
void trp_resources_init(trp_resources *resources, int64_t total);

// Queues a claim for `members` times `each`. TROUPE_TOO_LARGE: more than there is in total, ever;
// TROUPE_INVALID: no members, or nothing for each.
troupe_status trp_resources_claim(trp_resources *resources, trp_claim *claim, int64_t each,
                                  int members);

// Grants the oldest waiting claim if it fits into what is free, and returns it; else NULL. To be
// called until it returns NULL, after each claim and each release.
trp_claim *trp_resources_admit(trp_resources *resources);

// Gives a held claim back, or takes a waiting one out of the queue. Harmless on one that is
// neither.
void trp_resources_release(trp_resources *resources, trp_claim *claim);

#endif
