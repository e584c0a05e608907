// scheduler.h: what schedulers share.
#ifndef TRP_TUNE_SCHEDULER_H
#define TRP_TUNE_SCHEDULER_H

#include <troupe/schedule.h>

// Lets every trial run to its end. Static: freeing it does nothing.
troupe_scheduler *trp_fifo(void);

// Stands for a scheduler that could not be made, with the thread's last error, which is what
// describes it. Never NULL: where it is given, NULL means none, and a sweep that was to stop its
// weak trials would stop nobody.
troupe_scheduler *trp_scheduler_refused(void);

#endif
