// request.h: a request to a node process and its answer, on both sides. Each call waits for the
// answer, unless it says that it does not; TROUPE_RUNTIME_LOST if the node process died,
// TROUPE_DEADLINE_EXCEEDED if it does not answer within .request_timeout_ms of troupe_start.
#ifndef TRP_LINK_REQUEST_H
#define TRP_LINK_REQUEST_H

#include <runtime/base/buffer.h>
#include <runtime/link/frame.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_REQUEST_VALUE_MAX = 4096, // Of an answer that goes nowhere else.
    // Times .node_timeout_ms: another node that is silent is found out before, as what it is.
    TRP_REQUEST_FAR_TIMEOUTS = 2,
};

// Called once, with the answer's target, or the status of a failure, and its body as a text, or the
// sentence of the failure: by a thread of the library that must not be held up and holds a lock. It
// may not call anything of this header.
typedef void trp_request_told(void *user, troupe_status status, uint64_t target, const char *text);

typedef struct trp_node_request {
    struct trp_node_request *next;
    uint32_t process; // Who is asked: a node process.
    uint64_t number;
    _Atomic uint32_t done; // Changes once.
    troupe_status status;
    char text[512]; // The sentence of a failure.
    uint64_t target, schema;
    unsigned char value[TRP_REQUEST_VALUE_MAX];
    size_t value_size;
    trp_buffer *whole;         // Where a longer answer goes; NULL: nowhere.
    trp_request_told *claimed; // Nobody waits, and this is called; the request is freed then.
    void *user;
    int64_t until_ns; // A monotonic time; 0: as long as it takes, while the node process answers.
    bool tells;       // The node process tells itself what this waits for,
    bool joins;       // or another node is to answer it.
    bool starts;      // A worker, which is to be ended if nobody waits for it any more.
    bool late;        // Nobody waits for that worker any more: freed when the answer has come.
} trp_node_request;

// From now on what this thread asks is waited for until that time at most (monotonic; 0: as usual).
void trp_request_limit(int64_t until_ns);
int64_t trp_request_limited_until(void);
// The sooner of that and `until_ns`; and of that and .request_timeout_ms from now.
int64_t trp_request_sooner(int64_t until_ns);
int64_t trp_request_until(void);

// Sends the request and waits for its answer, at most for .request_timeout_ms of troupe_start,
troupe_status trp_request_ask(trp_frame *frame, trp_node_request *mine);
// or until mine->until_ns.
troupe_status trp_request_ask_patiently(trp_frame *frame, trp_node_request *mine);
// Asks for what has no answer, unless this process is being closed.
void trp_request_tell(trp_frame *frame);
// Sends a request for which this thread does not wait now. `mine` is not on the stack.
troupe_status trp_request_begin(trp_node_request *mine, trp_frame *frame);
// Frees one that was begun: its answer is told to nobody. False: it has been.
bool trp_request_abandon(uint64_t number);

// ---- while the process is not closed (between trp_process_enter and trp_process_leave)

troupe_status trp_request_ask_inside(trp_frame *frame, trp_node_request *mine);
// Notes that an answer is to come, before the request is sent. Returns its number; one for which
// nobody waits may be gone as soon as this returns.
uint64_t trp_request_enlist(trp_node_request *mine);
void trp_request_unlist(trp_node_request *mine);
// Waits for the answer to what was sent, or was not, and unlists it.
troupe_status trp_request_await(trp_node_request *mine, troupe_status sent);
// Sends one whose answer nobody waits for.
troupe_status trp_request_send(trp_frame *frame);
// Has a worker of this node ended, likewise; and the frame that asks for that.
void trp_request_end(uint32_t slot, uint64_t incarnation, const char *cause);
trp_frame trp_request_kill(uint32_t process, uint64_t incarnation, const char *cause);

// ---- for who hands out what arrives

void trp_request_answered(const trp_frame *frame);
void trp_requests_lost(void);                // No answer will come any more,
void trp_requests_lost_by(uint32_t process); // or none of that process, of another node.

// ---- in the node process

// Answers a request; a failure with the last error as the reason.
void trp_request_answer(const trp_frame *to, trp_frame *frame);
void trp_request_refuse(const trp_frame *to, troupe_status status);

// Where there is no node process (TROUPE_LOCAL), it is served here, on the calling thread; `tick`
// ends waits whose time is over.
typedef struct trp_request_service {
    void (*serve)(const trp_frame *frame);
    void (*tick)(void);
} trp_request_service;
extern trp_request_service trp_request_here;

#endif
