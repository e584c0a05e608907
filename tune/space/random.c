// random.c: xoshiro256** (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators",
// ACM TOMS 47(4), 2021), its state filled by SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014), as the authors of the first advise.
#include <tune/space/random.h>

#include <runtime/base/log.h>

uint64_t trp_random_split(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void trp_random_seed(trp_random *random, uint64_t seed, uint64_t stream)
{
    // The stream's number is mixed before it meets the seed: a plain sum would make the states of
    // neighbouring streams shifted copies of each other.
    uint64_t mixed = stream;
    uint64_t state = seed ^ trp_random_split(&mixed);
    for (int i = 0; i < 4; i++)
        random->state[i] = trp_random_split(&state);
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

uint64_t trp_random_next(trp_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

double trp_random_unit(trp_random *random)
{
    return (double)(trp_random_next(random) >> 11) * 0x1p-53;
}

uint64_t trp_random_below(trp_random *random, uint64_t bound)
{
    trp_assert(bound > 0);
    // The lowest 2^64 mod bound numbers are drawn again: what is left is a whole number of bounds.
    uint64_t refused = (0 - bound) % bound;
    uint64_t x = trp_random_next(random);
    while (x < refused)
        x = trp_random_next(random);
    return x % bound;
}
