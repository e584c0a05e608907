// quality_curves.h: a sweep of trials that are learning curves (tune/curves.h), for bench_quality.
#ifndef BENCH_QUALITY_CURVES_H
#define BENCH_QUALITY_CURVES_H

#include "tune/curves.h"

#include <stdbool.h>
#include <troupe/schedule.h>

// Has workers run trials, each as long as the scheduler lets it, until all reports are used up, and
// takes the trial whose last report is the best. Returns that trial's regret. Frees the scheduler.
//
// Reports come in the order of time: an epoch takes a trial's pace, of those at the same time the
// trial with the lower number comes first. A worker that is free takes what the scheduler names.
// Peers (compare/peer_optuna.py, peer_ray_curves.py) do the same.
double quality_sweep(const tune_curves *of, troupe_scheduler *scheduler, uint64_t seed);

#endif
