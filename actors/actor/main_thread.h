// main_thread.h: the main thread's loop in a worker process, where an isolated actor runs.
#ifndef TRP_ACTOR_MAIN_THREAD_H
#define TRP_ACTOR_MAIN_THREAD_H

#include <actors/actor/actor.h>

// Where runnable actors go that are not the scheduler's, and the main thread's loop in a process
// with an isolated actor: until that ends or the process has to.
void trp_stage_push(trp_actor *actor);
void trp_stage_gone(void);
void trp_stage_killed(void);
trp_actor *trp_stage_clear(void);
void trp_actor_work(bool isolated);
void trp_actor_work_wake(void);

#endif
