// beside.h: schedulers that stand beside another one, and hand on to it what it is told.
#ifndef TRP_SCHEDULE_BESIDE_H
#define TRP_SCHEDULE_BESIDE_H

#include <tune/schedule/scheduler.h>

// The inner one that was given, or the one that stops no trial. Refused, if it is another version's
// table or what it is for is missing; NULL then, with the last error set, and *given freed.
troupe_scheduler *trp_beside_take(const char *of, troupe_scheduler *given);

// Memory for a scheduler beside it. NULL, with the last error set and the inner one freed: there is
// none, or `status`, of the options, is none of success.
void *trp_beside_alloc(troupe_scheduler *inner, troupe_status status, size_t size);

troupe_status trp_beside_begin(troupe_scheduler *inner, const troupe_problem *problem);
troupe_status trp_beside_added(troupe_scheduler *inner, int trial, const double *x);
troupe_status trp_beside_ended(troupe_scheduler *inner, int trial, troupe_ending ending);
const char *trp_beside_describe(const troupe_scheduler *inner);
int trp_beside_decides_at(troupe_scheduler *inner, int trial, int after);
troupe_status trp_beside_next(troupe_scheduler *inner, bool fresh, int *trial,
                              troupe_verdict *verdict);

#endif
