// screen.h: a few lines at the foot of the terminal that stay there while others print above them.
//
// Who prints whole lines to standard output or errors does so between trp_screen_enter and
// trp_screen_leave, which takes the foot away meanwhile. What does not (a program's own printf)
// appears below the foot, and is drawn over with it. The node process takes the foot away for its
// lines, and the driver draws it again at its next look. Without a foot, or where standard output
// is no terminal, both cost one look at a flag.
#ifndef TRP_BASE_SCREEN_H
#define TRP_BASE_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

// Draws these lines at the foot of the terminal that standard output is, in the place of those
// before; none: takes the foot away. They must not be wider than the terminal.
void trp_screen_foot(const char *lines, size_t size);

// What is at the foot stays there as lines like any others.
void trp_screen_keep(void);

// Before whole lines are written to `fd`. True: trp_screen_leave is to be called after that, by
// this thread.
bool trp_screen_enter(int fd);
void trp_screen_leave(void);

// Where several processes of a node keep how many lines are on the terminal, so that each may take
// them away; NULL: nowhere any more.
void trp_screen_share(_Atomic int *lines);

// Writes all of it to `fd`, waiting where that takes nothing, as whole lines above the foot.
void trp_screen_print(int fd, const char *lines, size_t size);

#endif
