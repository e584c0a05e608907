// sobol.h: Sobol's sequence: points that fill a cube more evenly than random ones.
#ifndef TRP_SOBOL_H
#define TRP_SOBOL_H

#include <stddef.h>
#include <stdint.h>

enum { TRP_SOBOL_DIMS = 64, TRP_SOBOL_BITS = 32 };

// Direction numbers of one dimension (less than TRP_SOBOL_DIMS).
typedef struct trp_sobol {
    uint32_t directions[TRP_SOBOL_BITS];
} trp_sobol;

void trp_sobol_open(trp_sobol *sobol, size_t dim);
// Coordinate of point `index`, as a multiple of 2^-32. The first 2^k points for any k, and each
// such block after them, hit each of 2^k equal parts of the dimension once.
uint32_t trp_sobol_at(const trp_sobol *sobol, uint32_t index);
// The same coordinate after Owen's scrambling: equal parts of each half are exchanged at random,
// then of each quarter, and so on. Each dimension needs a seed of its own.
uint32_t trp_sobol_scrambled(uint32_t coordinate, uint32_t seed);
// Such a coordinate as a number, 0 < x < 1.
double trp_sobol_unit(uint32_t coordinate);
// The seed of a dimension's scrambling.
uint32_t trp_sobol_seed(uint64_t seed, size_t dim);

#endif
