// request.h: a request to a node process, for the files that make them (node/node_client.c,
// node/directory_client.c, node/server_stop.c).
#ifndef TRP_NODE_REQUEST_H
#define TRP_NODE_REQUEST_H

#include <runtime/link/frame.h>
#include <runtime/node/node_client.h>
#include <stdatomic.h>

typedef struct trp_request {
    struct trp_request *next;
    uint32_t process; // Who is asked: a node process.
    uint64_t number;
    _Atomic uint32_t done; // Changes once.
    troupe_status status;
    char text[512]; // The sentence of a failure.
    uint64_t target, schema;
    unsigned char value[TRP_CLAIM_GPUS_MAX];
    size_t value_size;
    trp_buffer *whole;   // Where a longer answer goes; NULL: nowhere.
    trp_claimed claimed; // Nobody waits, and this is called; the request is freed then.
    void *user;
    int64_t until_ns; // A monotonic time; 0: as long as it takes, while the node process answers.
    bool tells;       // The node process tells itself what this waits for,
    bool joins;       // or another node is to answer it.
    bool starts;      // A worker, which is to be ended if nobody waits for it any more.
    bool late;        // Nobody waits for that worker any more: freed when the answer has come.
} trp_request;

// Sends the request and waits for its answer, at most for .request_timeout_ms of troupe_start.
troupe_status trp_request_ask(trp_frame *frame, trp_request *mine);
// Asks for what has no answer, unless this process is being closed.
void trp_request_tell(trp_frame *frame);
// As trp_request_ask, to the node process of another node.
troupe_status trp_request_ask_far(uint32_t node, trp_frame *frame, trp_request *mine);
// Sends one whose answer nobody waits for. While the process is not closed.
troupe_status trp_request_send(trp_frame *frame);
// Has a worker of this node ended, likewise.
void trp_request_end(uint32_t slot, uint64_t incarnation, const char *cause);

#endif
