// attributes.h: for the few functions that every message passes through: what is on its way in one
// piece, and what is beside it out of that way. Measured by instructions a message; see
// docs/decisions/0015-wake-a-thread-only-for-work-that-pays.md.
#ifndef TRP_BASE_ATTRIBUTES_H
#define TRP_BASE_ATTRIBUTES_H

#define TRP_HOT static inline __attribute__((always_inline)) // Even where the compiler would not.
#define TRP_APART static __attribute__((noinline))           // Neither often nor seldom.
#define TRP_COLD static __attribute__((noinline, cold))      // Refusals and other rarities.

#endif
