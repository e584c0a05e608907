// desk.h: what a process has of a train server: its connection, and a thread that reads what the
// jobs do of which it has handles. One for all, as long as one of them is open and for a moment
// more.
#ifndef TRP_DESK_H
#define TRP_DESK_H

#include <train/server_link.h>
#include <train/tail.h>

typedef struct trp_desk trp_desk;
typedef struct trp_desk_job trp_desk_job;

// The desk for the server of that state folder, with a hold. Errors as those of
// trp_server_link_open; TROUPE_UNSUPPORTED: this process has jobs of another server.
troupe_status trp_desk_open(const char *state_folder, trp_desk **desk);
// One that is open already, with a hold; NULL: none is.
trp_desk *trp_desk_now(void);
// Clears *desk. Not by the desk's own threads. Harmless on NULL. The last one leaves it for a
// second, or until the runtime is stopped: who submits one job after another has one connection.
void trp_desk_release(trp_desk **desk);
trp_server_link *trp_desk_link(const trp_desk *desk);
const char *trp_desk_folder(const trp_desk *desk);

// Reads what the job does from now on: the tail, which is taken over, is told to go on when
// something was written, and ends it. `told`, which may not wait, is called with what the server
// says of the job. TROUPE_NO_MEMORY: nothing is taken.
troupe_status trp_desk_add(trp_desk *desk, const trp_wire_job *job, trp_tail *tail,
                           void (*told)(void *user, const trp_wire_job *job), void *user,
                           trp_desk_job **added);
// Waits until all is told that the job had done when it was added. Not by the desk's own threads.
void trp_desk_await(trp_desk *desk, const trp_desk_job *job);
// It is given up by its handle. Whether no other one of that number is there that
// was not: of those that are given up at once, exactly one is the last.
bool trp_desk_give_up(trp_desk *desk, trp_desk_job *job);
// Nothing is called for it any more when this returns. Clears *job. Not by the desk's own threads.
void trp_desk_remove(trp_desk *desk, trp_desk_job **job);

// Whether the desk's thread lets changes gather for a millisecond, which it was told of after that
// time: to be woken for each that come often would take the CPU from the ranks. `soon` counts those
// that came soon after another. The few of a run's start are read at once: the first report may be
// one of them.
bool trp_desk_gathers(int64_t waited_ns, int *soon);

#endif
