// searcher.h: what searchers share.
#ifndef TRP_SEARCHER_H
#define TRP_SEARCHER_H

#include <troupe/search.h>

// Stands for a searcher that could not be made, with the thread's last error, which is its name.
// Never NULL: where it is given, NULL means the default.
troupe_searcher *trp_searcher_refused(void);
// The same where memory was short, which it says.
troupe_searcher *trp_searcher_short(void);

// Whether the point may be tried.
bool trp_searcher_allowed(const troupe_problem *problem, const double *x);
// A random point for trial `number`, drawn anew until it may be tried, but not without end.
void trp_searcher_draw(const troupe_problem *problem, int number, double *x);

#endif
