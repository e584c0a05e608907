// actor.h: one actor of this process: its state, its life, its turns.
//
//     OPEN --troupe_actor_kill--> KILLED      --+
//     OPEN --troupe_actor_end---> ENDED         +--> its last turn: deinit (ENDED and STOPPED
//     only), name OPEN --init failed--> FAILED        |    dropped, state freed --> GONE: the slot
//     is free OPEN --stop---------> STOPPED     --+
//
// An actor leaves OPEN once, by a compare-and-swap on its `phase`, which has its generation in it,
// so that no thread ends its successor. The thread that made the exchange closes the mailbox and
// answers what is in it; a push to a closed mailbox fails: no message stays behind.
//
// Actors live in slots (slot.h) whose memory stays. A sender holds nothing: it looks at the phase
// and pushes. If the actor was replaced in between, the message gets to its successor, which sees
// by `target` that it is not meant and answers with the death record of the former one.
#ifndef TRP_ACTOR_H
#define TRP_ACTOR_H

#include <actors/actor/message.h>
#include <actors/actor/slot.h>
#include <actors/ref/call_table.h>
#include <actors/sched/runnable.h>
#include <actors/sched/scheduler.h>

typedef struct trp_actor trp_actor;
typedef struct trp_async trp_async;

typedef enum trp_actor_state {
    TRP_ACTOR_NONE, // The slot was never used.
    TRP_ACTOR_OPEN,
    TRP_ACTOR_KILLED,
    TRP_ACTOR_ENDED,
    TRP_ACTOR_FAILED,
    TRP_ACTOR_STOPPED,
    TRP_ACTOR_GONE,
} trp_actor_state;

enum { TRP_PHASE_BITS = 3, TRP_ACTOR_SMALL = 64, TRP_LINE = 64 };

// What few actors have. Made by trp_actor_extend. Written before the actor is entered, or by who
// runs it; the pointer to it changes under the slot's lock, under which others look.
typedef struct trp_actor_extra {
    char *name;              // NULL: none.
    bool named;              // The node's directory has the name,
    uint64_t incarnation;    // that of the runtime which was then.
    struct trp_lanes *lanes; // NULL: its methods run one at a time. See concurrency_group.h.
    uint64_t claim; // What it holds of the node's resources (actor/spawn_resources.h); 0: nothing.
    bool failed;
    troupe_error failure; // Of FAILED: set, as `failed`, before the state that tells of it.
} trp_actor_extra;

// Four cache lines: what senders read and the thread that runs it seldom writes; what few actors
// have, and what senders write; what the running thread writes; the user's state.
struct trp_actor {
    _Atomic uint64_t phase;          // Generation and state.
    const trp_class *_Atomic class_; // Read by senders, who may be late.
    void *self;                      // `small`, or allocated.
    trp_actor_extra *_Atomic extra;  // NULL: it has nothing of that.
    uint64_t generation;             // How often the slot was used before.
    trp_async *_Atomic async;        // NULL: nothing yet. The slot's: later occupants use the same.
    uint32_t index;                  // Of the slot.
    _Atomic uint32_t cancels;        // Calls in the mailbox that may have been cancelled (async.h).
    _Atomic bool pinned;             // Runs on the process's main thread.
    _Atomic bool ready;              // init has succeeded: deinit is owed.
    _Atomic bool concurrent;         // Has lanes: several of its methods run at a time.
    bool executor;                   // Runs tasks: see actor/task_executor.h.
    bool saves;                // Its class saves its state for a restart: see actor/saved_state.h.
    _Atomic bool pressed;      // Other processes have been told to wait: see actor/backpressure.h.
    _Atomic uint16_t restarts; // So far, 65,535 at most.

    _Alignas(TRP_LINE) struct trp_life *_Atomic life; // How it ends (lifecycle.h); NULL: as usual.
    _Atomic uint64_t waits_for; // The call that its method waits for; 0: none.
    trp_runnable run;           // Its mailbox begins on this line, and ends on the next.

    void *_Atomic running;  // trp_running, see async.h.
    _Atomic uint64_t calls; // Messages that it has run, counted by the thread that runs it.

    _Alignas(TRP_LINE) unsigned char small[TRP_ACTOR_SMALL];
};
_Static_assert(offsetof(trp_actor, run.mailbox.left) % TRP_LINE == 0,
               "the taker's line begins there");
_Static_assert(sizeof(trp_actor) == 4 * TRP_LINE, "an actor is four lines");

static inline trp_actor *trp_actor_of(trp_runnable *run)
{
    return (trp_actor *)(void *)((char *)run - offsetof(trp_actor, run));
}

// This process's address, and where failures say that they happened.
typedef struct trp_home {
    uint32_t process;
    uint64_t incarnation;
    int pid;
    char host[64];
} trp_home;
extern trp_home trp_home_here;

// Whether that is an address in this process.
static inline bool trp_is_here(const troupe_actor *actor)
{
    return actor->process == trp_home_here.process &&
           actor->incarnation == trp_home_here.incarnation;
}

// "counter#3" or "counter 'tally'".
typedef struct trp_label {
    char text[64];
} trp_label;

static inline trp_actor_state trp_phase_state(uint64_t phase)
{
    return (trp_actor_state)(phase & ((1u << TRP_PHASE_BITS) - 1));
}

// The phase of the actor with that id while it is in that state.
static inline uint64_t trp_phase_of(uint64_t id, trp_actor_state state)
{
    return id >> TRP_SLOT_INDEX_BITS << TRP_PHASE_BITS | (uint64_t)state;
}

// By who creates or runs it.
static inline uint64_t trp_actor_id(const trp_actor *actor)
{
    return actor->generation << TRP_SLOT_INDEX_BITS | actor->index;
}

// Of one that others run: it may be the next one's by now.
static inline uint64_t trp_actor_id_of(trp_actor *actor)
{
    return atomic_load(&actor->phase) >> TRP_PHASE_BITS << TRP_SLOT_INDEX_BITS | actor->index;
}

// A new actor that nobody can find yet. NULL with the last error set.
trp_actor *trp_actor_create(const trp_class *class_, const char *name, uint32_t mailbox_max,
                            bool pinned);
// Gives one back that was not entered.
void trp_actor_discard(trp_actor *actor);
// Lets messages reach it; its mailbox keeps them until trp_actor_wake.
void trp_actor_enter(trp_actor *actor);
// Lets it run what is in its mailbox.
void trp_actor_wake(trp_actor *actor);
// The actor with that id, if it has not gone; NULL otherwise. It may end at any moment, and another
// one take its place: its memory stays.
trp_actor *trp_actor_find(uint64_t id);
// Of an actor that is created or run by the caller.
troupe_actor trp_actor_address(const trp_actor *actor);
// What it has besides; made if it has nothing yet. NULL: no memory. By who creates or runs it.
trp_actor_extra *trp_actor_extend(trp_actor *actor);

// Hands a message over to the actor with that id, which was found. `deadline_ns` says until when
// it may wait for room (0: not at all, TRP_RUN_A_WHILE, else negative: for ever). On failure the
// message is freed unanswered, with the last error set. NOT_EXECUTED: the actor is dead, BUSY: no
// room.
troupe_status trp_actor_send(trp_actor *actor, uint64_t id, trp_message *message,
                             int64_t deadline_ns);
// The same for a message that another process has sent: it is let in always, and answered if the
// actor is dead: false then.
bool trp_actor_deliver(trp_actor *actor, uint64_t id, trp_message *message);

bool trp_actor_is_open(trp_actor *actor, uint64_t id);
// Has it take a turn; nobody else may have it.
void trp_actor_schedule(trp_actor *actor);
// Answers a message that will not run, and frees it.
void trp_actor_refuse(trp_actor *actor, trp_message *message, const troupe_error *failure);

// Runs up to a turn's worth of messages, and returns how many; only until that call has ended or
// been run, unless `until` is 0. *again: there are more. Otherwise the actor may be another
// thread's by now, or another actor: nothing of it may be touched but what is atomic. By the
// scheduler and the main thread's loop alone.
uint32_t trp_actor_turn(trp_actor *actor, uint64_t until, bool *again);
// Ends an actor that was runnable when the runtime stopped.
void trp_actor_abandon(trp_actor *actor);

// Ends an actor now; false if it had ended. `failure` (NULL unless FAILED) is what its callers get.
bool trp_actor_close(trp_actor *actor, uint64_t id, trp_actor_state state,
                     const troupe_error *failure);

// What an observer sees of an actor.
typedef struct trp_actor_look {
    uint64_t id, calls, cpu_ns;
    const trp_class *class_;
    trp_label label;
    trp_actor_state state;
    uint32_t waiting;  // Messages in its mailbox.
    uint32_t restarts; // So far.
    bool running;      // Or runnable.
    bool blocked;      // Its method waits for a call.
} trp_actor_look;
// Calls back for each actor that there is for the time being. The callback must not end actors.
void trp_actor_each(void (*see)(const trp_actor_look *look, void *user), void *user);

// Ends what is left when the runtime stops: from the first on no message is begun; the second ends
// all actors, so that what waits in mailboxes is answered as not executed, and leaves their last
// turns to the third.
void trp_actors_stop_turns(void); // trp_actors_stopping (sched/scheduler.h) from then on.
void trp_actors_close(void);
void trp_actors_finish(void);
void trp_actors_start(void);
// For the scheduler.
extern const trp_turns trp_actor_turns;

// The layer's handlers (layer/dispatch.c), which register themselves: a program that is linked with
// the static library has them only if something names them.
extern const char trp_layer_handlers;

#endif
