// carrier.h: what takes frames to other processes and brings theirs: a struct of functions for each
// way there is. Every process number has its carrier, and only that is asked, to send or to know
// whether the process lives. See docs/internals/runtime/carriers.md.
//
// A process has two: one for the processes of its node (rings, or ZeroMQ over sockets), and one for
// those of other nodes. node/start.c chooses them; nothing else knows all there are.
#ifndef TRP_SHM_CARRIER_H
#define TRP_SHM_CARRIER_H

#include <runtime/shm/layout.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

struct trp_frame;
struct trp_peer;

typedef struct trp_carrier {
    const char *name;
    const size_t *message_bytes_max; // The limit of a frame's body,
    const char *limit;               // and the option that sets it, in sentences.
    uint32_t pauses_max;             // More paused targets of one peer are not believed.

    // ---- this process's part, in the order in which it is called; NULL: there is nothing to do

    troupe_status (*load)(void); // In the driver, before the first fork: what all are to have.
    troupe_status (*open)(void); // Makes the way in. Nothing is read yet.
    // Begins to read; `keeper_fd` (-1: none) hangs up when the keeper dies, which is told by
    // trp_process_lost.
    troupe_status (*start)(int keeper_fd);
    // Waits until every living peer has, or can read, all that was sent to it; until that time.
    void (*flush)(int64_t give_up_ms);
    void (*stop)(void); // Its threads end.
    // No thread of the program reads any more once it returns. After the gate was closed.
    void (*leave)(void);
    void (*close)(void); // After all peers were freed.

    // ---- one process

    // Whether that incarnation lives; `cause` (may be NULL, 112 bytes) gets why not.
    bool (*alive)(uint32_t process, uint64_t incarnation, char *cause);
    void (*describe)(uint32_t process, char *text, size_t size); // "process 3 (pid 77)".
    // This process is about to send it something, and has not looked yet whether it lives.
    void (*meet)(uint32_t process);
    // Sends the frame, connecting first if need be, and lends what it names. With the peer's lock
    // held. NOT_EXECUTED, IO, NO_MEMORY, with a sentence: it was not sent.
    troupe_status (*send)(struct trp_peer *peer, uint32_t process, struct trp_frame *frame);
    // After the lock was given up, if the peer is `announced`: makes it look. `first`: it was not
    // announced before this frame.
    void (*notify)(uint32_t process, bool first);
    // Gives the way out up; what was sent has `linger_ms` to leave. With the peer's lock held.
    void (*disconnect)(struct trp_peer *peer, int linger_ms);

    // ---- what the node process says

    // Removes what a dead process of this node has left in the run folder. In the node process.
    void (*forget)(uint32_t process, uint64_t incarnation);
    void (*take)(const struct trp_frame *frame); // A GONE frame: processes of it have died.
    void (*lose)(void);                          // Nobody is left who would say so: all have.
} trp_carrier;

// That of the processes of this node also lends its reading to threads that wait (link/park.c), and
// tells what the node process has to say.
typedef struct trp_near_carrier {
    trp_carrier carrier;
    // What is in it is read after its sender's end: a worker that ends need not close.
    bool outlives;
    bool hears_keeper; // `serve` looks at the keeper's descriptor too.

    // In a process that is to be a worker and does not know yet which; NULL: nothing to do.
    void (*prepare)(void);

    // ---- threads that wait

    bool (*unread)(void); // Nobody reads: who waits with `read` would.
    // Reads what comes until *word is not `seen`, or the monotonic time `deadline_ns` (negative:
    // none). False, at once: another thread does that already, or nothing is open.
    bool (*read)(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);
    // Whether who reads waits for that word, which was changed before: then it is awake now.
    bool (*wake)(_Atomic uint32_t *word);

    // ---- in the node process

    // Reads what comes until *word is not `seen`, or for `wait_ms` (negative: for ever) at most.
    // May return early. True: the keeper has something to say, or has hung up.
    bool (*serve)(int keeper_fd, _Atomic uint32_t *word, uint32_t seen, int64_t wait_ms);
    void (*note_death)(uint32_t process, uint64_t incarnation); // Before it is told; NULL.
    // Tells process `to` of a death, or, below, to end. `ready`: its way in is open.
    void (*tell_death)(uint32_t to, bool ready, uint32_t process, uint64_t incarnation);
    void (*tell_end)(uint32_t to);
} trp_near_carrier;

// Without a carrier: nobody is there, and nothing is sent. The first is that of processes of this
// node before the first start, when they are looked up in the table alone.
extern const trp_near_carrier trp_no_near_carrier;
extern const trp_carrier trp_no_carrier;

// Chosen before the process's first peer is made.
typedef struct trp_carrier_choice {
    const trp_near_carrier *near;
    const trp_carrier *far;
} trp_carrier_choice;
extern trp_carrier_choice trp_carriers;

static inline const trp_carrier *trp_carrier_of(uint32_t process)
{
    return process < TRP_PROCESSES_MAX ? &trp_carriers.near->carrier : trp_carriers.far;
}

#endif
