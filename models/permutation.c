// permutation.c: see permutation.h.
#include <models/permutation.h>

// For small counts, too: a network over very few bits has too few permutations to choose from, and
// walking through a larger one costs little. A range is computed in pieces.
enum { BITS_MIN = 8, PIECE = 256 };

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

static uint64_t mask_of(int bits)
{
    return ((uint64_t)1 << bits) - 1;
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

bool trp_permutation_tabulate(trp_permutation *permutation, trp_permutation_table *table)
{
    if (permutation->low > TRP_PERMUTATION_TABLE_BITS)
        return false;
    for (int i = 0; i < TRP_PERMUTATION_ROUNDS; i++) {
        uint64_t mask = mask_of(i % 2 ? permutation->low : permutation->high);
        for (uint64_t half = 0; half <= mask_of(permutation->low); half++)
            table->rounds[i][half] = (uint16_t)(fold(half, permutation->keys[i]) & mask);
    }
    permutation->table = table;
    return true;
}

// All rounds once: the number may be outside the count.
static inline uint64_t permute(const trp_permutation *permutation, uint64_t place)
{
    uint64_t high = place >> permutation->low, low = place & mask_of(permutation->low);
    if (permutation->table) {
        const uint16_t(*round)[1 << TRP_PERMUTATION_TABLE_BITS] = permutation->table->rounds;
        for (int i = 0; i < TRP_PERMUTATION_ROUNDS; i += 2, round += 2) {
            high ^= round[0][low];
            low ^= round[1][high];
        }
    } else {
        for (int i = 0; i < TRP_PERMUTATION_ROUNDS; i += 2) {
            high ^= fold(low, permutation->keys[i]) & mask_of(permutation->high);
            low ^= fold(high, permutation->keys[i + 1]) & mask_of(permutation->low);
        }
    }
    return high << permutation->low | low;
}

// All places once, then those again that are outside the count, and so on: a branch for each place
// that says whether it is would be mispredicted as often as not.
static void permute_piece(const trp_permutation *permutation, uint64_t first, size_t count,
                          int64_t *numbers)
{
    uint16_t outside[PIECE];
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = permute(permutation, first + i);
        numbers[i] = (int64_t)number;
        outside[left] = (uint16_t)i;
        left += number >= permutation->count;
    }
    while (left > 0) {
        size_t before = left;
        left = 0;
        for (size_t i = 0; i < before; i++) {
            uint16_t at = outside[i];
            uint64_t number = permute(permutation, (uint64_t)numbers[at]);
            numbers[at] = (int64_t)number;
            outside[left] = at;
            left += number >= permutation->count;
        }
    }
}

void trp_permutation_range(const trp_permutation *permutation, uint64_t first, size_t count,
                           int64_t *numbers)
{
    for (size_t at = 0; at < count; at += PIECE)
        permute_piece(permutation, first + at, count - at < PIECE ? count - at : PIECE,
                      numbers + at);
}
