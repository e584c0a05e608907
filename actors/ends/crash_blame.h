// crash_blame.h: whose method brought its process down: said in workers, from now on.
#ifndef TRP_ENDS_CRASH_BLAME_H
#define TRP_ENDS_CRASH_BLAME_H

#include <actors/actor/lifecycle.h>

void trp_crash_start(void);

#endif
