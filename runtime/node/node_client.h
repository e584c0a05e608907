// node_client.h: what a process can ask of its node: worker processes and names. Each call waits
// for the node process's answer, unless it says that it does not; TROUPE_RUNTIME_LOST if that died,
// TROUPE_DEADLINE_EXCEEDED if it does not answer within .request_timeout_ms of troupe_start.
#ifndef TRP_NODE_NODE_CLIENT_H
#define TRP_NODE_NODE_CLIENT_H

#include <runtime/base/buffer.h>
#include <runtime/link/request.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum { TRP_NAME_MAX = 128, TRP_NAMED_VALUE_MAX = 256 };

// A worker that is ready: of the pool (the one asked for least often; started if the pool is not
// full yet), or a new one of its own. TROUPE_UNSUPPORTED: there is no pool; TROUPE_IO: the process
// could not be made or did not reach troupe_start in time (the sentence says which).
troupe_status trp_node_worker(bool isolated, uint32_t *process, uint64_t *incarnation);
// The same for one of its own in two steps, so that several can start at a time: asks for it, with
// an environment ("KEY=VALUE" lines) and a folder of its own (NULL: none), without waiting, and,
// later, waits until it is ready. Who has begun must end.
typedef struct trp_worker_ask {
    struct trp_node_request *request;
} trp_worker_ask;
troupe_status trp_node_worker_begin(const char *env, const char *folder, trp_worker_ask *ask);
troupe_status trp_node_worker_end(trp_worker_ask *ask, uint32_t *process, uint64_t *incarnation);

// What an actor needs of the node (admission.h).
typedef struct trp_want {
    int64_t cpus, gpus, memory_bytes; // Ten-thousandths; bytes.
    const char *resources;            // "name=1,..."; NULL: none.
    uint32_t wait_ms;                 // How long to wait at most; 0: for ever.
    const char *who;                  // For whom, in sentences.
    bool patient;                     // It may take long: that is no news.
    uint64_t limit_ms;                // It is given back within that time; 0: nobody knows when.
} trp_want;

enum { TRP_CLAIM_GPUS_MAX = TRP_REQUEST_VALUE_MAX };
#define TRP_CLAIM_LIMIT_MAX_MS ((uint64_t)1 << 48)

// Waits until the node gives it, and returns the claim's number and the ids of its GPUs ("0,2").
// The claim is this process's. TROUPE_TOO_LARGE: it never can be given; TROUPE_DEADLINE_EXCEEDED.
troupe_status trp_node_claim(const trp_want *want, uint64_t *claim, char gpus[TRP_CLAIM_GPUS_MAX]);
// The same without waiting: `claimed` is called once, with the claim or with the status of a
// failure, and the ids of its GPUs or the sentence of the failure, by a thread of the library that
// must not be held up and holds a lock: it may not call anything of this header. *request is for
// trp_node_claim_abandon.
troupe_status trp_node_claim_begin(const trp_want *want, trp_request_told *claimed, void *user,
                                   uint64_t *request);
// `claimed` is not called any more once this returns. What it was told of is not given back. Does
// not wait.
void trp_node_claim_abandon(uint64_t request);
// Gives a claim to a process, with whose end it ends.
troupe_status trp_node_claim_give(uint64_t claim, uint32_t process, uint64_t incarnation);
// Gives it back. Does not wait.
void trp_node_claim_drop(uint64_t claim);
// What there is and who waits, as admission.c writes it.
troupe_status trp_node_claims(trp_buffer *list);

// Tells the node process that the driver wants everything to end, within that time.
troupe_status trp_node_stop(int64_t left_ms);

#endif
