// random.h: repeatable random numbers whose whole state is one number, so that a checkpoint can
// hold it. SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
// OOPSLA 2014.
#ifndef DIGITS_RANDOM_H
#define DIGITS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// A number from low (included) to high (excluded).
static inline float random_between(uint64_t *state, float low, float high)
{
    // 24 bits: as many as a float holds exactly, so that 1 is never reached by rounding.
    return low + (high - low) * ((float)(random_next(state) >> 40) / (float)(1u << 24));
}

// Puts the items in a random order, each order as likely as any other (Fisher and Yates).
static inline void random_shuffle(uint64_t *state, uint32_t *items, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        // The high half of a random number scaled to 0 .. i - 1; counts stay below 2^32.
        size_t j = (size_t)(((random_next(state) >> 32) * i) >> 32);
        uint32_t item = items[j];
        items[j] = items[i - 1];
        items[i - 1] = item;
    }
}

#endif
