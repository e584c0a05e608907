// child.h: jobs that a process below this one does, which was started for that: the handle reads
// the run's folder, and both sides say the rest to each other through a pair of sockets, in packets
// of JSON (docs/internals/models/stored.md).
#ifndef TRP_CHILD_H
#define TRP_CHILD_H

#include <sys/types.h>
#include <train/tail.h>

struct troupe_follower;
typedef struct trp_child trp_child;

// What the one who does the job says.
TROUPE_STRUCT(trp_child_said, (int64_t, wish), (int, status), (troupe_text, text), // An answer,
              (bool, ended), (trp_job_end, end));                                  // or the end.
// What it is asked for.
TROUPE_STRUCT(trp_child_wish, (int64_t, number), (trp_wire_wish, wish));

// A process that does a job.
typedef struct trp_child_process {
    pid_t pid;
    int fd;
} trp_child_process;

// Has the port told what the run does from `journal` on, until the process has ended. It is taken
// over, on failure too. TROUPE_NO_MEMORY.
troupe_status trp_child_open(const trp_child_process *process, const char *run, off_t journal,
                             const troupe_train_options *options, const trp_port *port,
                             trp_child **child);
// Asks for something; what it answers. TROUPE_TIMED_OUT, TROUPE_STOPPED: it has ended.
troupe_status trp_child_ask(trp_child *child, const trp_wire_wish *wish);
// Ends what has not ended, and tells nothing more. Not by the child's own thread.
void trp_child_close(trp_child *child);
// Tells nothing more, either, but asks the job to stop, and does not wait until it has.
void trp_child_leave(trp_child *child);

// Kills a process that was started for a job and is not followed.
void trp_child_end(const trp_child_process *process);

// The other side: does what is asked of the job until that has ended, and says how. When nobody
// asks any more the job is ended. The handle is closed.
void trp_child_serve(int fd, struct troupe_job *job);

// One packet. TROUPE_TOO_LARGE, TROUPE_PEER_LOST.
troupe_status trp_packet_send(int fd, const troupe_type *type, const void *value);
// Waits for one. TROUPE_TIMED_OUT; TROUPE_PEER_LOST: there will be none; TROUPE_MALFORMED.
troupe_status trp_packet_receive(int fd, int timeout_ms, const troupe_type *type, trp_arena *arena,
                                 void *value);

#endif
