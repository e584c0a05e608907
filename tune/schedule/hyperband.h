// hyperband.h: HyperBand's brackets as numbers.
#ifndef TRP_HYPERBAND_H
#define TRP_HYPERBAND_H

#include <stdbool.h>

enum { TRP_HYPERBAND_RUNGS = 32 }; // 2^31 reports are beyond an int.

// Bracket s halves its trials s times.
typedef struct trp_hyperband_plan {
    int halvings;                    // s
    int trials[TRP_HYPERBAND_RUNGS]; // That begin the stage before rung i, 0 <= i <= s.
    int levels[TRP_HYPERBAND_RUNGS]; // Reports at rung i; at the last one trials end.
} trp_hyperband_plan;

// How many brackets there are: s is 0 to one less.
int trp_hyperband_brackets(int limit, int reduction, bool as_ray);
// False: Ray makes no such bracket, since its trials would begin with less than a report.
bool trp_hyperband_plan_make(int limit, int reduction, bool as_ray, int s,
                             trp_hyperband_plan *plan);

#endif
