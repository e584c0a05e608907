// permutation.c: see permutation.h.
#include <models/permutation.h>

// For small counts, too: a network over very few bits has too few permutations to choose from, and
// walking through a larger one costs little.
enum { BITS_MIN = 8 };

// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014).
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// A round's function: a product of 128 bits with a random key in it, folded to half of them.
static inline uint64_t fold(uint64_t x, uint64_t key)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(x ^ key) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

trp_permutation trp_permutation_make(uint64_t count, uint64_t seed, uint64_t epoch)
{
    trp_permutation made = {.count = count};
    int bits = BITS_MIN;
    while (bits < 62 && (uint64_t)1 << bits < count)
        bits++;
    made.high = bits / 2;
    made.low = bits - made.high;
    // Mixed twice, so that seed 1 of epoch 0 is not seed 0 of epoch 1.
    uint64_t state = mix(mix(seed) + 0x9e3779b97f4a7c15u + epoch);
    for (int i = 0; i < TRP_PERMUTATION_ROUNDS; i++)
        made.keys[i] = mix(state += 0x9e3779b97f4a7c15u);
    return made;
}

uint64_t trp_permutation_at(const trp_permutation *permutation, uint64_t place)
{
    const uint64_t *keys = permutation->keys;
    uint64_t high_mask = ((uint64_t)1 << permutation->high) - 1;
    uint64_t low_mask = ((uint64_t)1 << permutation->low) - 1;
    do {
        uint64_t high = place >> permutation->low, low = place & low_mask;
        for (int i = 0; i < TRP_PERMUTATION_ROUNDS; i += 2) {
            high ^= fold(low, keys[i]) & high_mask;
            low ^= fold(high, keys[i + 1]) & low_mask;
        }
        place = high << permutation->low | low;
    } while (place >= permutation->count);
    return place;
}
