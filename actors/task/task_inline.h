// task_inline.h: tasks that are run on the thread that asks for them.
#ifndef TRP_TASK_TASK_INLINE_H
#define TRP_TASK_TASK_INLINE_H

#include <actors/task/task.h>

// Has the task, which has a row, run on this thread, now.
void trp_task_run_here(trp_task *it);

#endif
