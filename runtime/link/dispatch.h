// dispatch.h: this process among the others of its node: who it is, and sending frames to its
// peers.
#ifndef TRP_LINK_DISPATCH_H
#define TRP_LINK_DISPATCH_H

#include <runtime/link/frame.h>
#include <runtime/shm/segment.h>
#include <stdbool.h>
#include <troupe/runtime.h>

// What the layer above wants to be told. Set once, by a constructor of that layer, before
// troupe_start. `frame` and `death` are called by the I/O thread alone and must not block.
typedef struct trp_handlers {
    void (*start)(void); // Runs in each process of the node but the node's own, once it can send.
    // A frame of the kinds 16 and up. The body is borrowed. Who takes a CALL or TELL must give its
    // place in the link's window back with trp_process_credit once it has left the mailbox.
    void (*frame)(const trp_frame *frame);
    // No frame of that incarnation comes any more, and sends to it fail from before this call on.
    void (*death)(uint32_t process, uint64_t incarnation, const char *cause);
    // The main thread of a worker process; returns when the process has been told to end.
    void (*work)(bool isolated);
    // The process has been told to end (trp_process_ending() is true from now on): wakes `work`.
    // Called by the I/O thread; may be NULL.
    void (*ending)(void);
    // The process is about to leave the node: threads end, what waits is failed. Runs once a start.
    // Frames and deaths still come meanwhile, until it calls trp_process_mute, which it does before
    // it frees what `frame` and `death` use.
    void (*stop)(void);
    // In the driver: the keeper or the node process has died, and with it all other processes,
    // whose deaths have been told. Ends what waits for something that nobody can send any more.
    // Called by the I/O thread, which must not block; may be NULL.
    void (*lost)(void);
    // In the driver, when nothing can be sent or received any more: ends what other threads have
    // sent while `stop` ran. May be NULL.
    void (*closed)(void);
} trp_handlers;
void trp_process_handlers_set(const trp_handlers *handlers);
// After it returns, `frame` and `death` are not called any more (not to be called from them).
void trp_process_mute(void);

// Whether this thread is handing out what has arrived: then it must not wait for anybody.
bool trp_process_delivering(void);

bool trp_process_running(void); // Started, and not a fork() of a started process.
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
// "process 3 (pid 77)", "process 3 of node 10.0.0.8:4500".
typedef struct trp_process_label_text {
    char text[112];
} trp_process_label_text;
trp_process_label_text trp_process_text(uint32_t process);

// ---- processes of other nodes (far.h), which have numbers of this process's own

static inline bool trp_process_is_far(uint32_t process)
{
    return process >= TRP_PROCESSES_MAX;
}
// This node's number among others; 0: it has none.
uint32_t trp_process_node_id(void);
// The number here of a process of another node (of this one: as it is). If need be that node is
// asked, which waits for its answer. NOT_EXECUTED: it cannot be reached, or has ended.
troupe_status trp_process_find(uint32_t node, uint32_t slot, uint64_t incarnation,
                               uint32_t *process);
// Whether trp_process_find would have to wait for an answer.
bool trp_process_find_waits(uint32_t node, uint32_t slot, uint64_t incarnation);
int trp_process_pid(uint32_t process); // Operating-system id; 0: none.
// What the process of that id does, by the letter of proc(5), and for how long it has run; 0: it is
// not known.
char trp_process_doing(int pid, int64_t *ran_ms);
int trp_process_parent(int pid);      // 0: it is not known.
bool trp_process_is_stopped(int pid); // By a signal.
// Says what this worker process is for, once: the name of its isolated actor. Its lines of output
// carry it.
void trp_process_label(const char *text);

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

// Sends one frame; fills in the sender, the sequence and to_incarnation. Frames of one thread to
// one peer arrive in order. TROUPE_NOT_EXECUTED: the peer is dead (the sentence has the cause).
// TROUPE_BUSY: the link's window stayed full for `timeout_ms` (0: does not wait) - only CALL and
// TELL take room in it. TROUPE_TOO_LARGE: as trp_process_fits.
troupe_status trp_process_send(uint32_t process, uint64_t incarnation, trp_frame *frame,
                               int timeout_ms);
// Whether a body of that size may go to that process. TROUPE_TOO_LARGE names the option whose limit
// it is above.
troupe_status trp_process_fits(uint32_t process, size_t size);
// Gives room in the link's window back to the peer that sent a CALL or TELL with a body of that
// size.
void trp_process_credit(uint32_t process, uint64_t incarnation, size_t body_size);
// Has the peer send no CALL or TELL to the layer above's `target` here, or lets it again: there
// trp_process_send waits, or is TROUPE_BUSY, as for a full window.
void trp_process_pause(uint32_t process, uint64_t incarnation, uint64_t target, bool paused);

#endif
