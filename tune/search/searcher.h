// searcher.h: what searchers share.
#ifndef TRP_SEARCHER_H
#define TRP_SEARCHER_H

#include <troupe/search.h>

// Stands for a searcher that could not be made, with the thread's last error, which is its name.
// Never NULL: where it is given, NULL means the default.
troupe_searcher *trp_searcher_refused(void);
// The same where memory was short, which it says.
troupe_searcher *trp_searcher_short(void);

// The points of a range where it is the library's grid; 0: it is another searcher.
int trp_grid_points(const troupe_searcher *searcher);
// The same where each point of the grid is tried several times, or once, which *times tells. Such a
// searcher comes to an end by itself.
int trp_repeated_grid_points(const troupe_searcher *searcher, int *times);

// Whether the point may be tried.
bool trp_searcher_allowed(const troupe_problem *problem, const double *x);
// A random point for trial `number`, drawn anew until it may be tried, but not without end.
void trp_searcher_draw(const troupe_problem *problem, int number, double *x);

#endif
