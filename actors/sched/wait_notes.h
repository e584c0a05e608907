// wait_notes.h: what a thread that runs a method says before it waits, for people to read.
#ifndef TRP_SCHED_WAIT_NOTES_H
#define TRP_SCHED_WAIT_NOTES_H

#include <stddef.h>
#include <stdint.h>

typedef enum trp_wait_kind {
    TRP_WAIT_NONE,
    TRP_WAIT_OTHER,   // Nobody has said for what.
    TRP_WAIT_CALL,    // The answer of the call in row `subject`.
    TRP_WAIT_STREAM,  // A value of the stream of that call.
    TRP_WAIT_MANY,    // Several references: `subject`, 0: of a set.
    TRP_WAIT_OBJECT,  // The value of an object.
    TRP_WAIT_MAILBOX, // Room in the mailbox of the actor `subject` of this process.
    TRP_WAIT_WINDOW,  // Room on the way to the actor `subject` of `process`.
    TRP_WAIT_READER,  // Whoever reads the values that it makes.
    TRP_WAIT_TASKS,   // Room for a task.
    TRP_WAIT_ROOM,    // Room in the store.
    TRP_WAIT_END,     // The end of the actor `subject` of `process`.
    TRP_WAIT_NODE,    // What it has asked of its node.
    TRP_WAIT_CHANNEL, // The other side of a channel.
} trp_wait_kind;

// What this thread is going to wait for, until its next trp_scheduler_unblock. Said before
// trp_scheduler_block.
void trp_wait_for(trp_wait_kind kind, uint64_t subject, uint32_t process);
// By the scheduler: the wait of this thread can be seen / is over.
void trp_wait_begun(void);
void trp_wait_over(void);
// One that waits.
typedef struct trp_wait_look {
    uint64_t actor, subject;
    const char *method; // "init" where it is none. Static.
    trp_wait_kind kind;
    uint32_t process;
} trp_wait_look;
// Copies those that wait now, at most `room`; returns how many there are.
size_t trp_waits_copy(trp_wait_look *waits, size_t room);

#endif
