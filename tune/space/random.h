// random.h: a seeded generator for searchers: the same numbers on every machine for the same seed.
#ifndef TRP_RANDOM_H
#define TRP_RANDOM_H

#include <stdint.h>

typedef struct trp_random {
    uint64_t state[4];
} trp_random;

// Starts the generator at a point that depends on both numbers; streams of one seed are
// independent.
void trp_random_seed(trp_random *random, uint64_t seed, uint64_t stream);
uint64_t trp_random_next(trp_random *random);
// Uniform in 0 <= x < 1, a multiple of 2^-53.
double trp_random_unit(trp_random *random);
// Uniform in 0 <= x < bound without bias; bound > 0.
uint64_t trp_random_below(trp_random *random, uint64_t bound);

// One step of SplitMix64: advances *state and returns its next number.
uint64_t trp_random_split(uint64_t *state);

#endif
