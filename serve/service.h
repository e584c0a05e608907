// service.h: what a service is made of: requests, what its actor and its HTTP server share, and
// the actor's messages.
#ifndef TRP_SERVE_SERVICE_H
#define TRP_SERVE_SERVICE_H

#include <actors/class/histogram.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <stdatomic.h>
#include <troupe/async.h>
#include <troupe/serve.h>

enum {
    TRP_ROUTE_MAX = 128,
    TRP_TOKEN_TEXT = 65,
    TRP_WAITING_BYTES_MAX = 256 << 20, // Of requests that wait; one alone may be larger.
    TRP_VERSION_NAME = sizeof((troupe_service_version){0}.name),
};

// ---- request.c

typedef struct trp_inference trp_inference;
// Told the answer once: y, or a status with its text. The request is its owner's again.
typedef void (*trp_inference_done)(trp_inference *request, troupe_status status, const char *text,
                                   const troupe_tensor *y);

struct trp_inference {
    trp_inference *next;
    troupe_tensor x;
    void *memory; // That its elements are in.
    size_t rows, bytes;
    int64_t accepted_ns;
    bool alone;            // It is asked in a batch of its own,
    bool repeated;         // and for the second time.
    troupe_deferred later; // It is answered so, and freed then, if `done` is NULL.
    trp_inference_done done;
};

typedef struct trp_inferences {
    trp_inference *first, **last;
    size_t count;
} trp_inferences;

// Fills in what follows from its tensor, which it needs to have. TROUPE_WRONG_TYPE: no rows, or not
// of the model's input.
troupe_status trp_inference_check(const troupe_model *model, trp_inference *request);
// A request with a copy of the tensor; NULL: no memory.
trp_inference *trp_inference_make(const troupe_tensor *x);
void trp_inference_free(trp_inference *request);
void trp_inference_answer(trp_inference *request, const troupe_tensor *y);
void trp_inference_refuse(trp_inference *request, troupe_status status, const char *text);

void trp_inferences_begin(trp_inferences *list);
void trp_inferences_push(trp_inferences *list, trp_inference *request);
void trp_inferences_push_front(trp_inferences *list, trp_inference *request);
trp_inference *trp_inferences_pop(trp_inferences *list);
// Takes from the front what is asked together: at most so many rows, but at least one request.
size_t trp_inferences_take_batch(trp_inferences *from, size_t rows_max, trp_inferences *batch);
// Sets *x to the rows of all of them. Its elements are *memory, to be freed, or the first one's.
troupe_status trp_inferences_join(const trp_inferences *batch, size_t rows, troupe_tensor *x,
                                  void **memory);
// The part of a result that is the request's, which begins with that row.
troupe_tensor trp_inference_part(const trp_inference *request, const troupe_tensor *y, size_t row);

// ---- service_shared.c

// What is known of a checkpoint that is served.
typedef struct trp_version_stats {
    char name[TRP_VERSION_NAME];
    double weight; // Of all requests; written where the version is not seen by others.
    atomic_uint alive;
    _Atomic uint64_t answered, failed;
    trp_histogram latency;
} trp_version_stats;

// What the actor and its servers share. Made before both and freed after both.
typedef struct trp_service_shared {
    const troupe_model *model;
    char route[TRP_ROUTE_MAX + 1];
    char token[TRP_TOKEN_TEXT];
    uint32_t replicas, queue, deadline_ms;
    troupe_actor service;
    pthread_mutex_t lock;
    trp_inferences inbox; // From the servers, under the lock.
    bool closed;          // Nothing more gets in. Under the lock.
    atomic_bool stopping;
    atomic_uint alive;                       // Of the version that serves.
    _Atomic uint64_t waiting, waiting_bytes; // In the inbox and the queues.
    _Atomic uint64_t under_way, answered, failed, refused, batches, rows, restarts, rolls;
    atomic_uint served; // Requests of servers that were accepted and not sent their answers yet.
    trp_histogram latency;
    // Who reads what these point to has this lock; the actor changes them under it. NULL: none.
    pthread_mutex_t versions;
    const trp_version_stats *serving, *canary;
} trp_service_shared;

troupe_status trp_service_make_token(char token[TRP_TOKEN_TEXT]);
// Counts a request in, or refuses it: TROUPE_STOPPED, TROUPE_BUSY.
troupe_status trp_service_admit(trp_service_shared *shared, const trp_inference *request);
void trp_service_count_out(trp_service_shared *shared, const trp_inference *request);
// From a server: hands an admitted request to the actor. TROUPE_STOPPED, TROUPE_BUSY: it is
// the caller's still, and counted out.
troupe_status trp_service_hand(trp_service_shared *shared, trp_inference *request);
// From a server: an accepted request was sent its answer, or its client has gone.
void trp_service_served(trp_service_shared *shared);
// {"dtype": "float32", "shape": [null, 64]}, or null.
void trp_service_write_input(const troupe_model *model, trp_buffer *out);
void trp_service_percentiles(const trp_histogram *histogram, double *p50_s, double *p99_s,
                             double *longest_s);

// ---- service.c

TROUPE_STRUCT(trp_service_how, (troupe_text, model), (troupe_text, route),
              (troupe_text, checkpoint), (troupe_text, version), (troupe_text, config),
              (uint32_t, replicas), (uint32_t, batch), (uint32_t, queue), (uint32_t, deadline_ms),
              (bool, repeatable), (uint32_t, http), (uint32_t, port), (troupe_text, socket),
              (troupe_text, listen), (troupe_text, name), (troupe_text, certificate),
              (troupe_text, certificate_key));
// Another checkpoint, to serve or as the canary.
TROUPE_STRUCT(trp_change_how, (bool, canary), (bool, reweigh), (double, weight),
              (troupe_text, checkpoint), (troupe_text, version), (troupe_text, config));
TROUPE_STRUCT(trp_version_state, (troupe_text, name), (double, weight), (uint32_t, alive),
              (uint64_t, answered), (uint64_t, failed), (double, p50_s), (double, p99_s),
              (double, longest_s));
TROUPE_STRUCT(trp_service_state, (troupe_text, model), (troupe_text, route), (troupe_text, url),
              (troupe_text, token), (troupe_text, socket), (uint32_t, replicas), (uint32_t, alive),
              (bool, stopping), (uint64_t, queued), (uint64_t, under_way), (uint64_t, answered),
              (uint64_t, failed), (uint64_t, refused), (uint64_t, batches), (uint64_t, rows),
              (uint64_t, restarts), (uint64_t, rolls), (double, p50_s), (double, p99_s),
              (double, longest_s), (trp_version_state, serving), (trp_version_state, canary));

// Has the actor look at what was handed over, without waiting for anything.
troupe_status trp_service_wake(const trp_service_shared *shared);

// What the public functions do.
troupe_status trp_service_start(const trp_service_how *how, troupe_actor *service);
troupe_ref trp_service_ask(troupe_actor service, const troupe_tensor *x);
troupe_status trp_service_make_change(troupe_actor service, const trp_change_how *how);
troupe_status trp_service_state_of(troupe_actor service, trp_service_state *state);
troupe_status trp_service_end(troupe_actor service, int force_after_ms);

#endif
