// task.h: a task of this process, for the files that see to it: task.c (attempts, how many),
// resend.c (attempts after the first) and task/task_inline.c (on this thread).
#ifndef TRP_TASK_H
#define TRP_TASK_H

#include <actors/call/call.h>
#include <actors/ref/call_table.h>
#include <actors/task/task_resources.h>

typedef struct trp_task {
    trp_retry retry; // First: the row's view of it.
    const trp_class *class_;
    uint64_t row;
    _Atomic uint32_t holds; // Of the row until it ends, of an attempt, of the list.
    int retries;            // Left; negative: without end. Of who has the row's lock.
    bool retry_errors;
    _Atomic bool ended; // The row has; stored before `worker` is looked at, and the
    _Atomic uint64_t
        worker;           // other way about by an attempt. Whose load it is part of; 0: nobody's.
    uint64_t avoid;       // Of who sends: the worker of the attempt before.
    troupe_actor own;     // The isolated actor that runs it; id 0: none. With the next four, under
    troupe_actor sent_to; // the lock of those that are away.
    int64_t sent_ns;      // 0: not in that list.
    bool asked_back;      // It may come back without having run.
    struct trp_task *newer, *older;
    bool listed; // Waits to be sent again: with `next`, under the list's lock.
    struct trp_task *next;
    troupe_place place;
    bool needy;      // It holds something of its node's while it runs:
    trp_allot allot; // what. Then `own` runs it, wherever that is.
    double gpus;
    uint32_t flags; // Of the first attempt.
    int64_t deadline_ns;
    void *args;
    trp_arena arena;
} trp_task;

// Gives a hold back.
void trp_task_release(trp_task *it);
// Whether a task that failed so is to be run again, if it has retries left.
bool trp_task_worth_another(const trp_task *it, const troupe_error *failure);

// Another attempt, which may wait. By who has a hold.
void trp_task_again(trp_task *it);

// Has it looked again at that time whether a worker that is idle could have a task of a busy one.
// False: no memory or no thread.
bool trp_tasks_look_at(int64_t at_ns);

#endif
