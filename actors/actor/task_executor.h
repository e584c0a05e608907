// task_executor.h: where tasks run: light actors without an address of their own, one for each task
// that a process runs or has queued at a time.
//
// A call whose target has TRP_TASK_TARGET set names a task, by the hash of its class, instead of an
// actor: the process that gets it takes an executor that rests, or makes one.
#ifndef TRP_ACTOR_TASK_EXECUTOR_H
#define TRP_ACTOR_TASK_EXECUTOR_H

#include <actors/actor/actor.h>

#define TRP_TASK_TARGET (UINT64_C(1) << 62)

// The actor that a call of that number and process is for: an executor if the target is a task,
// else the actor with that id. *id is that actor's. NULL: there is none; *failure says why.
trp_actor *trp_target_find(uint64_t target, uint64_t call, uint64_t incarnation, uint64_t *id,
                           troupe_error *failure);
// The actor that has that call, if it has not ended; NULL: none.
trp_actor *trp_target_of(uint64_t target, const trp_caller *caller, uint64_t *id);
// Takes back an executor that got no message after all. Harmless on any other actor, and on one
// that has ended.
void trp_target_spare(uint64_t target, trp_actor *actor, uint64_t id);

// An executor's message has been dealt with: it may have the next one.
void trp_executor_rest(trp_actor *actor);
// An executor's last turn, before what it is made of is freed.
void trp_executor_end(trp_actor *actor);

// The runtime has stopped, and its executors have ended.
void trp_executors_forget(void);

// The target that stands for a task.
uint64_t trp_task_target(const trp_class *task);
// Whether a class is a task's.
bool trp_class_is_task(const trp_class *class_);
// Whether the calling thread runs a task.
bool trp_executor_runs(void);

#endif
