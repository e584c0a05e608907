// permutation.h: the order in which an epoch has the rows of a set: known from seed and epoch
// alone, and of each place by itself, so that no rank holds it and a run goes on anywhere in it.
//
// A Feistel network (Luby and Rackoff, "How to Construct Pseudorandom Permutations from
// Pseudorandom Functions", SIAM J. Comput. 17(2), 1988) permutes the numbers of as many bits as the
// count takes; what falls outside the count is permuted again until it does not, which is a
// permutation of those inside (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", CT-RSA 2002).
#ifndef TRP_MODELS_PERMUTATION_H
#define TRP_MODELS_PERMUTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRP_PERMUTATION_ROUNDS = 8, // Even.
    TRP_PERMUTATION_TABLE_BITS = 12,
};

// What each round does to one half, for each value of the other half: it stays in a CPU's own
// cache.
typedef struct trp_permutation_table {
    uint16_t rounds[TRP_PERMUTATION_ROUNDS][1 << TRP_PERMUTATION_TABLE_BITS];
} trp_permutation_table;

typedef struct trp_permutation {
    uint64_t count;
    int high, low; // Bits of the two halves.
    uint64_t keys[TRP_PERMUTATION_ROUNDS];
    const trp_permutation_table *table; // NULL: there is none.
} trp_permutation;

// Of 0 to count - 1; at most 2^62.
trp_permutation trp_permutation_make(uint64_t count, uint64_t seed, uint64_t epoch);
// What is at `count` places from `first` on, all of which are below the permutation's count. A
// place is walked from less than twice on average, where there are more than a few rows.
void trp_permutation_range(const trp_permutation *permutation, uint64_t first, size_t count,
                           int64_t *numbers);

// Fills a table and lends it to the permutation, which stays the same and is computed several times
// as fast. False: the halves of so large a count (above 2^24) have more bits than a table.
bool trp_permutation_tabulate(trp_permutation *permutation, trp_permutation_table *table);

#endif
