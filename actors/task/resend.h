// resend.h: attempts at tasks after the first.
#ifndef TRP_TASK_RESEND_H
#define TRP_TASK_RESEND_H

#include <actors/task/task.h>

// Has a task sent again by an actor of this process, soon; takes a hold of the task's.
void trp_resend(trp_task *it);

// Makes that actor, if this start of the runtime has none yet.
troupe_status trp_resend_start(void);

// Has the list looked at, unless somebody will.
void trp_resend_look(void);

#endif
