// actor.h: one actor of this process: its state, its life, its turns.
//
//     OPEN --troupe_kill--> KILLED      --+
//     OPEN --troupe_end---> ENDED         +--> finished in its last turn: deinit (ENDED and STOPPED
//     OPEN --init failed--> FAILED        |    only), name dropped, state freed
//     OPEN --stop---------> STOPPED     --+
//
// An actor leaves OPEN once, by a compare-and-swap; who does that empties the mailbox, and so does
// every sender that finds it closed after its push: no message stays behind.
#ifndef TRP_ACTOR_H
#define TRP_ACTOR_H

#include <actors/mailbox.h>
#include <actors/message.h>
#include <actors/ref_table.h>
#include <actors/scheduler.h>

typedef enum trp_actor_state {
    TRP_ACTOR_OPEN,
    TRP_ACTOR_KILLED,
    TRP_ACTOR_ENDED,
    TRP_ACTOR_FAILED,
    TRP_ACTOR_STOPPED,
} trp_actor_state;

struct trp_actor {
    uint64_t id;
    const trp_class *class_;
    void *self;
    char *name;        // NULL: none.
    char label[64];    // "counter#3" or "counter 'tally'"
    bool pinned;       // Runs on the process's main thread.
    bool executor;     // Runs tasks: see executor.h.
    bool named;        // The node's directory has the name.
    bool ready;        // init has succeeded: deinit is owed.
    _Atomic int state; // trp_actor_state
    _Atomic uint32_t refs;
    trp_mailbox mailbox;
    troupe_error *failure;         // Of FAILED: set before the state.
    struct trp_life *_Atomic life; // How it ends, see life.h; NULL: nothing special.
    // See async.h. Written as in fence.h, what runs before what is asked.
    void *_Atomic running;    // trp_running
    _Atomic uint32_t cancels; // Calls in the mailbox that may have been cancelled.
    trp_async *_Atomic async; // NULL: nothing yet.
    uint64_t waits_for; // The call that its method waits for; 0: none. Under the graph's lock.
    trp_actor *next;    // In its bucket of the table.
    trp_actor *next_runnable;
};

// This process's address, and where failures say that they happened.
typedef struct trp_home {
    uint32_t process;
    uint64_t incarnation;
    int pid;
    char host[64];
} trp_home;
extern trp_home trp_home_here;

// A new actor, not in the table yet. NULL with the last error set.
trp_actor *trp_actor_create(const trp_class *class_, const char *name, uint32_t mailbox_max,
                            bool pinned);
// Puts it in the table, so that messages reach it; its mailbox keeps them until trp_actor_wake.
void trp_actor_enter(trp_actor *actor);
// Lets it run what is in its mailbox.
void trp_actor_wake(trp_actor *actor);
// The actor with that id, held until trp_actor_release; NULL if there is none.
trp_actor *trp_actor_find(uint64_t id);
void trp_actor_release(trp_actor *actor);
troupe_actor trp_actor_address(const trp_actor *actor);

// Hands a message over, whatever happens. `deadline_ns` says until when it may wait for room (0:
// not at all, TRP_RUN_A_WHILE, else negative: for ever). On failure the message is freed
// unanswered, with the last error set. NOT_EXECUTED: the actor is dead, BUSY: no room.
troupe_status trp_actor_send(trp_actor *actor, trp_message *message, int64_t deadline_ns);
// The same for a message that another process has sent: it is let in always, and answered if the
// actor is dead.
void trp_actor_deliver(trp_actor *actor, trp_message *message);

// Runs up to a turn's worth of messages. True: there are more. By the scheduler and trp_actor_work
// alone.
bool trp_actor_turn(trp_actor *actor);

// Ends an actor now; false if it had ended. `failure` (NULL unless FAILED) is what its callers get.
bool trp_actor_close(trp_actor *actor, trp_actor_state state, const troupe_error *failure);
// Why messages to the actor with that id are not run.
troupe_error trp_actor_obituary(uint64_t id);
// The same, and the state in which it ended (left alone if that is not known).
troupe_error trp_actor_obituary_state(uint64_t id, trp_actor_state *state);
troupe_error trp_actor_closed_failure(trp_actor *actor);
// Says in a failure where it happened: in an actor of this process, or in the target of a call.
void trp_failure_place(troupe_error *failure, const char *label);
void trp_failure_target(troupe_error *failure, const trp_target *target);

// Puts the actor's name, if it has one, in the node's directory (name.c).
bool trp_actor_name(trp_actor *actor, troupe_error *failure);
void trp_actor_unname(trp_actor *actor);

// The main thread's loop in a process with an isolated actor: until that ends or the process has
// to.
void trp_actor_work(bool isolated);
void trp_actor_work_wake(void);
// Ends what is left when the runtime stops. `quiet`: no method runs any more.
void trp_actors_stop_turns(void);
bool trp_actors_stopping(void);
void trp_actors_finish(bool quiet);
void trp_actors_start(void);

// Whether a method of `actor` that waits for this call waits for itself; notes the wait otherwise
// (`call` 0: it waits no more).
troupe_status trp_actor_waits(trp_actor *actor, uint64_t call);

#endif
