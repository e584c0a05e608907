// process_table.h: what the files about this process share: who it is, where its sockets are, and
// how what arrives is handed out. For start.c, process.c, node_process.c and their parts only.
#ifndef TRP_SHM_PROCESS_TABLE_H
#define TRP_SHM_PROCESS_TABLE_H

#include <runtime/link/dispatch.h>
#include <stdatomic.h>

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

// Whether frames go through rings, or else over sockets.
static inline bool trp_over_rings(void)
{
    return trp_self.options.transport == TROUPE_TRANSPORT_RING;
}

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
// Ends the way to a dead incarnation: sends to it fail from now on.
void trp_process_forget(uint32_t process, uint64_t incarnation);

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
// Counts what was refused instead, for troupe_frames_refused. `why` is logged now and then; NULL:
// it need not be, like a frame for an earlier incarnation.
void trp_process_refused(const char *why);
// Frames of the kinds below 16 go here in the node process (elsewhere process.c serves them
// itself).
extern void (*trp_process_serve)(const trp_frame *frame);

// A 64-bit random number that is not 0.
uint64_t trp_random_incarnation(void);
// Waits until the row of a process leaves STARTING, or the deadline; returns its state.
trp_process_state trp_process_await(uint32_t slot, uint64_t incarnation, int timeout_ms);
// Wakes who waits for the word to change; waits while it is `seen`. In all processes.
void trp_wake(_Atomic uint32_t *word);
void trp_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);
// The row is another process's from now on, of a new incarnation. Who reads more of a row than one
// word finds that out by its incarnation, which is read last.
void trp_process_row_begin(uint32_t slot, bool isolated);
// Sets the row's state and wakes who waits for it.
void trp_process_row_set(uint32_t slot, trp_process_state state);

const trp_handlers *trp_process_handlers(void);

// Requests to the node process (node.c): called by process.c.
void trp_node_answered(const trp_frame *frame);
void trp_node_lost(void);                 // No answer will come any more.
void trp_node_far_lost(uint32_t process); // No answer of that far node process will come.
// Tells the node process that the driver wants everything to end, within that time.
troupe_status trp_node_stop(int64_t left_ms);

// What is asked in an ASK frame's `method`.
typedef enum trp_ask {
    // target: isolated or not; body (if isolated): [env, folder] -> target: slot, schema:
    // incarnation
    TRP_ASK_WORKER = 1,
    TRP_ASK_KILL,       // target: slot, schema: incarnation, body: cause
    TRP_ASK_NAME_PUT,   // body: [name, value]
    TRP_ASK_NAME_GET,   // body: [name] -> body: value
    TRP_ASK_NAME_DROP,  // body: [name]; target: the `call` of the request that put it; 0: any
    TRP_ASK_STOP,       // no answer
    TRP_ASK_CLAIM,      // body: see admission.c -> target: the claim, body: ids of GPUs
    TRP_ASK_CLAIM_GIVE, // target: the claim, schema: incarnation, body: slot
    TRP_ASK_CLAIM_DROP, // target: the claim, or 0 and schema: the `call` that waits; no answer
    TRP_ASK_CLAIM_LIST, // -> body: see admission.c
    TRP_ASK_JOIN,       // body: the address of another node, a space, the same in numbers
    TRP_ASK_LEAVE,      // body: the address of another node
    TRP_ASK_PING,       // nothing
    TRP_ASK_WHERE,      // of a far process: target: slot, schema: incarnation -> body: its address
} trp_ask;

// In the node process: answers a request; a failure with the last error as the reason.
void trp_node_answer(const trp_frame *to, trp_frame *frame);
void trp_node_answer_failure(const trp_frame *to, troupe_status status);

// Where there is no node process: serves a request, and answers it, on the calling thread.
void trp_node_serve_here(trp_frame *frame);
// Ends waits whose time is over; begins with empty books.
void trp_node_tick_here(void);
void trp_node_reset_here(void);

// The node process (node_process.c). Does not return.
_Noreturn void trp_node_run(int keeper_socket);

#endif
