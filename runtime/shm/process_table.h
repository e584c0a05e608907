// process_table.h: this process among the others of its node: its identity, the rows of all, and
// words that processes wait on.
#ifndef TRP_SHM_PROCESS_TABLE_H
#define TRP_SHM_PROCESS_TABLE_H

#include <runtime/shm/segment.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <troupe/runtime.h>

enum {
    TRP_FOLDER_MAX = 80,    // A unix socket's path has at most 107 bytes.
    TRP_DIRECTORY_MAX = 44, // Of what the folder is made in.
};

typedef struct trp_identity {
    uint32_t slot;
    uint64_t incarnation;
    bool isolated;
    bool local; // TROUPE_LOCAL: there is no other process; the node is served here.
    char folder[TRP_FOLDER_MAX];
    troupe_options options;    // Complete: no field is a default any more.
    uint32_t workers_max;      // So many fit into the limit of descriptors.
    _Atomic bool running;      // Between a successful start and the last stop.
    uint32_t starts;           // How often this process has become a driver.
    int64_t stop_until_ns;     // Set by trp_stop_time_begin.
    _Atomic bool ending;       // Told to end.
    _Atomic bool runtime_lost; // The keeper has died.
    _Atomic bool forked;       // This process is a user's fork() of one that was started.
} trp_identity;

extern trp_identity trp_self;

// The end begins: methods have .stop_timeout_ms from now on. What is left of that, and at least
// what those processes need whose methods have ended.
void trp_stop_time_begin(void);
int64_t trp_stop_time_left_ms(void);

// The path of the socket of a process.
void trp_socket_path(uint32_t slot, uint64_t incarnation, char path[128]);
// Where the run's keys are, over tcp.
void trp_socket_keys_path(char path[128]);

// A user's thread may use the links and the segment between these two: trp_process_close waits for
// it. TROUPE_NOT_STARTED: they are being closed.
troupe_status trp_process_enter(void);
bool trp_process_try_enter(void); // Without a last error.
void trp_process_leave(void);
void trp_process_gate_open(void);
void trp_process_gate_close(void); // From now on nobody enters;
// waits for those inside, who have been woken.
void trp_process_gate_await(int timeout_ms);

// Whether this node has, or may have, to do with others.
static inline bool trp_listens(void)
{
    return trp_self.options.listen != NULL;
}

// ---- who this process is

bool trp_process_running(void);    // Started, and not a fork() of a started process.
uint32_t trp_process_starts(void); // How often, as a driver.
// TROUPE_OK, or TROUPE_NOT_STARTED / TROUPE_UNSUPPORTED (forked child) / TROUPE_RUNTIME_LOST (the
// keeper or node process has died) with a sentence.
troupe_status trp_process_check(void);
uint32_t trp_process_slot(void);
uint64_t trp_process_incarnation(void);
bool trp_process_is_driver(void);
bool trp_process_is_local(void);                 // TROUPE_LOCAL: all is in this process.
const troupe_options *trp_process_options(void); // With all defaults filled in.
bool trp_process_ending(void);                   // Told to end; blocking work should give up.
int64_t trp_process_stop_until(void);            // When methods have had their time, then.
// In the driver: the keeper or the node process has died. What waits for others should give up,
// with the failure of trp_process_check.
bool trp_runtime_is_lost(void);

// Whether that incarnation lives, as far as the table says; `cause` (may be NULL, 112 bytes) gets
// why not.
bool trp_process_alive(uint32_t process, uint64_t incarnation, char *cause);
// The same of a process of this node, by its row, for carriers (shm/carrier.h).
bool trp_row_alive(uint32_t process, uint64_t incarnation, char *cause);
// "process 3 (pid 77)", "process 3 of node 10.0.0.8:4500".
typedef struct trp_process_label_text {
    char text[112];
} trp_process_label_text;
trp_process_label_text trp_process_text(uint32_t process);
void trp_row_describe(uint32_t process, char *text, size_t size); // As trp_row_alive.

// ---- the others

// Processes of other nodes have numbers of this process's own, above those of the table.
static inline bool trp_process_is_far(uint32_t process)
{
    return process >= TRP_PROCESSES_MAX;
}
int trp_process_pid(uint32_t process); // Operating-system id; 0: none.
// What the process of that id does, by the letter of proc(5), and for how long it has run; 0: it is
// not known.
char trp_process_doing(int pid, int64_t *ran_ms);
int trp_process_parent(int pid);      // 0: it is not known.
bool trp_process_is_stopped(int pid); // By a signal.
// Says what this worker process is for, once: the name of its isolated actor. Its lines of output
// carry it.
void trp_process_label(const char *text);
// Says it again, once, by what the actor does there: "fit rank=0". Lines carry that from then on.
void trp_process_relabel(const char *text);
// What the row's process has said of itself last; NULL: nothing yet. The row may be another's by
// the time that the text is read.
const char *trp_row_label(const trp_process_row *row);

// How a dead incarnation ended: TRP_END_UNKNOWN if its place has another process by now. *number is
// the signal or exit status, *culprit the actor whose method crashed it (0: not known).
trp_process_end_kind trp_process_end(uint32_t process, uint64_t incarnation, int *number,
                                     uint64_t *culprit);
// Why the actor that had a process for itself has ended in order, as that process said, with at
// most `size` bytes of its words; 0: it did not say, or its place has another process by now.
uint32_t trp_process_last_words(uint32_t process, uint64_t incarnation, char *words, size_t size);
// Says that, in the process. `final`: the actor is not to be started again.
void trp_process_say_last(uint32_t reason, const char *words, bool final);
bool trp_process_said_final(uint32_t process, uint64_t incarnation);
// Says, in a process that is about to die, that it is this actor's doing. Safe in signal handlers.
void trp_process_blame(uint64_t actor);

// A 64-bit random number that is not 0.
uint64_t trp_random_incarnation(void);
// Waits until the row of a process leaves STARTING, or the deadline; returns its state.
trp_process_state trp_process_await(uint32_t slot, uint64_t incarnation, int timeout_ms);
// The row is another process's from now on, of a new incarnation. Who reads more of a row than one
// word finds that out by its incarnation, which is read last.
void trp_process_row_begin(uint32_t slot, bool isolated);
// Sets the row's state and wakes who waits for it.
void trp_process_row_set(uint32_t slot, trp_process_state state);

#endif
