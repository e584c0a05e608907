// dispatch.h: what arrives at this process is handed out, and its start and end among the others.
#ifndef TRP_LINK_DISPATCH_H
#define TRP_LINK_DISPATCH_H

#include <runtime/link/frame.h>
#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

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
const trp_handlers *trp_process_handlers(void);
// After it returns, `frame` and `death` are not called any more (not to be called from them).
void trp_process_mute(void);

// Whether this thread is handing out what has arrived: then it must not wait for anybody.
bool trp_process_delivering(void);

// Opens the way in and says READY in this process's row.
troupe_status trp_process_open(void);
// Starts the threads that read; `keeper_fd` (-1: none) hangs up when the keeper dies.
troupe_status trp_process_io_start(int keeper_fd);
void trp_process_io_stop(void);
// Waits until every living peer can read all that was sent to it, so that no answer is lost by an
// orderly end. Needs the threads that read.
void trp_process_flush(int timeout_ms);
// Closes all ways out and in; frames sent before are given `linger_ms` to leave.
void trp_process_close(int linger_ms);
// What arrives is handed out between these two, one thread at a time.
void trp_process_deliver_begin(void);
void trp_process_deliver_end(void);
// In between: lets another thread that waits for its turn have it first.
void trp_process_deliver_pause(void);
void trp_process_take(const trp_frame *frame);      // A frame,
void trp_process_take_near(const trp_frame *frame); // or, of this node, if it may come from there,
bool trp_process_admits(const trp_frame *frame);    // which this says, or refuses it;
// a death, after which nothing of that incarnation comes,
void trp_process_died(uint32_t process, uint64_t incarnation);
void trp_process_told_end(void); // the order to end,
void trp_process_lost(void);     // the loss of the keeper and with it of all other processes.
// How many frames were refused by this process, and by the node process for its node.
uint64_t trp_process_refusals(void);
// Counts what was refused instead. `why` is logged now and then; NULL:
// it need not be, like a frame for an earlier incarnation.
void trp_process_refused(const char *why);
// Frames of the kinds below 16 go here in the node process (elsewhere link/dispatch.c serves them
// itself).
extern void (*trp_process_serve)(const trp_frame *frame);

#endif
