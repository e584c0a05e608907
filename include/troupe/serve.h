// serve.h: models that answer. A service keeps a model in processes of its own, its replicas, and
// gives them what threads and actors of the program ask, and clients over HTTP, in batches.
//
//     troupe_service digits;
//     TROUPE_TRY(troupe_serve(net, troupe_result_checkpoint(result), "/digits", &digits,
//                             .replicas = 2, .batch = 32));
//
//     troupe_ref answer = troupe_predict(digits, &x);          // A reference, as of any call.
//     TROUPE_TRY(troupe_get(troupe_tensor, answer, &y));
//
//     TROUPE_TRY(troupe_service_roll(digits, "model:digits@4")); // No request is lost meanwhile.
//     TROUPE_TRY(troupe_service_stop(digits)); // Answers what it has accepted.
//
// With .http = TROUPE_HTTP_LOOPBACK programs of this machine can ask, too:
//
//     curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json"
//          -d '{"instances": [[0, 0.5, 1]]}' http://127.0.0.1:PORT/digits
//     {"predictions": [[0.1, 0.9]]}
#ifndef TROUPE_SERVE_H
#define TROUPE_SERVE_H

#include <troupe/actor.h>
#include <troupe/model.h>
#include <troupe/tensor.h>

TROUPE_BEGIN_C

// A service is an actor of the library. Its handle is a plain value that owns nothing: it can be
// copied, be a field of a TROUPE_STRUCT (as troupe_service) and be sent in messages, so that other
// processes ask it too. It ends by troupe_service_stop, or with the runtime.
typedef struct troupe_service {
    troupe_actor address;
} troupe_service;
TROUPE_ARRAY_DECLARE_(troupe_service);
TROUPE_UNUSED static uint64_t troupe_hash_troupe_service[2];
TROUPE_UNUSED static const troupe_type troupe_type_troupe_service = {TROUPE_ABI,
                                                                     TROUPE_KIND_ACTOR,
                                                                     "troupe_service",
                                                                     sizeof(troupe_service),
                                                                     NULL,
                                                                     0,
                                                                     NULL,
                                                                     &troupe_hash_troupe_service[0],
                                                                     {NULL}};
TROUPE_UNUSED static const troupe_type troupe_type_troupe_array_troupe_service = {
    TROUPE_ABI,
    TROUPE_KIND_ARRAY,
    "troupe_array_troupe_service",
    sizeof(troupe_array_troupe_service),
    NULL,
    0,
    &troupe_type_troupe_service,
    &troupe_hash_troupe_service[1],
    {NULL}};

// From where a service can be asked, besides by its handle and on a unix socket (.socket).
typedef enum troupe_http {
    TROUPE_HTTP_NONE,
    TROUPE_HTTP_LOOPBACK, // Over HTTP at 127.0.0.1, by who has the token.
} troupe_http;

typedef struct troupe_serve_options {
    size_t size;
    uint32_t replicas; // Processes that each have an instance of the model; default 1, at most 256.
    // Rows that a replica is asked at once, at most; default 32. Requests are put together as they
    // come, and none waits for others: a replica that idles takes what there is. A request that has
    // more rows is asked alone.
    uint32_t batch;
    const char *config; // JSON, laid over the checkpoint's config: as of troupe_model_open.
    // Requests that may wait, at most; default 1024. Their tensors may take 256 MiB.
    uint32_t queue;
    // How long a request may wait, and then how long a replica may take for a batch, in
    // milliseconds; default 30,000. A replica that takes longer is killed.
    uint32_t deadline_ms;
    // The model may be asked the same twice. A request whose replica died, or whose batch failed,
    // is then asked once more, alone, before it fails.
    bool repeatable;
    troupe_http http;
    int port; // Where it listens; default: any that is free (troupe_service_info_get).
    const char *repository; // Of a "model:" checkpoint; NULL: as of repository.h.
    // A unix socket to listen at, for programs of this user, at most 107 bytes. Its folder is made
    // if need be, and must be this user's alone. Beside it a file of its name with .json in place
    // of .sock says what is served there, as long as it is.
    const char *socket;
    // An IPv4 address of this machine, where it is to listen for HTTP in place of 127.0.0.1; .http
    // need not be set then. One that other machines reach needs a certificate. Clients may call it
    // by the address, and by .http_name, a name of the machine.
    const char *http_listen, *http_name;
    const char *certificate, *certificate_key; // PEM files: HTTP over TLS, "https://".
    int unused_;
} troupe_serve_options;

// Starts a service of a model with the weights of a checkpoint, and returns when all replicas have
// opened it. A checkpoint is a folder ("~/" is the home), "model:" and a ref of the repository, as
// "model:digits@production", which stands for the version that it names now, or NULL: as
// troupe_model_open. The folder must stay as long as it is served: a replica that dies is started
// again from it. `route` is the service's name and the path over HTTP: 2 to 128 of [A-Za-z0-9._/-],
// beginning with "/". TROUPE_INVALID: an option or the route, the text names it;
// TROUPE_UNSUPPORTED: HTTP without libmicrohttpd; TROUPE_IO: the port is taken; TROUPE_EXISTS: the
// socket is; else why a replica could not start: as troupe_model_open and troupe_spawn.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_serve_as(const troupe_model *model,
                                                                  const char *checkpoint,
                                                                  const char *route,
                                                                  troupe_service *service,
                                                                  const troupe_serve_options *how);
#define troupe_serve(M, checkpoint, ...) TROUPE_SERVE_(M, checkpoint, __VA_ARGS__, .unused_ = 0)
#define TROUPE_SERVE_(M, checkpoint, route, service, ...)                                          \
    troupe_serve_as(&troupe_model_##M, (checkpoint), (route), (service),                           \
                    &(troupe_serve_options){.size = sizeof(troupe_serve_options), __VA_ARGS__})

typedef struct troupe_version_options {
    size_t size;
    const char *config;     // As of troupe_serve; NULL: the one that the service was given.
    const char *repository; // Of a "model:" checkpoint; NULL: as of repository.h.
    int unused_;
} troupe_version_options;

// Has the service serve another checkpoint of its model (as of troupe_serve). New replicas are
// started, as many as there are; once all have opened it, all that waits and comes is theirs, and
// the old ones end with what they have. Then this returns. A canary ends, too; if it has that
// checkpoint and config, its replicas are the new ones. No request fails by a roll, and each is
// answered by one version. On failure all is as it was: why a replica could not start;
// TROUPE_BUSY: another change is under way; TROUPE_STOPPED; else as troupe_serve.
//     troupe_service_roll(service, "model:digits@production")
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_service_roll_with(
    troupe_service service, const char *checkpoint, const troupe_version_options *how);
#define troupe_service_roll(...) TROUPE_SERVICE_ROLL_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SERVICE_ROLL_(service, checkpoint, ...)                                             \
    troupe_service_roll_with(                                                                      \
        (service), (checkpoint),                                                                   \
        &(troupe_version_options){.size = sizeof(troupe_version_options), __VA_ARGS__})

// Gives a share of the requests that come, `weight` (0 to 1), to another checkpoint, the canary,
// which gets as many replicas as there are; while none of them is there, it gets none. One that
// was there before ends. `checkpoint` NULL, or that of the canary: its weight is changed. 0: it
// ends, and what waits for it goes to the others. TROUPE_NOT_FOUND: there is no canary to change;
// TROUPE_INVALID: the weight; else as troupe_service_roll, which also is how a canary is promoted.
//     troupe_service_canary(service, "model:digits@4", 0.05)
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_service_canary_with(troupe_service service, const char *checkpoint, double weight,
                           const troupe_version_options *how);
#define troupe_service_canary(...) TROUPE_SERVICE_CANARY_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SERVICE_CANARY_(service, checkpoint, weight, ...)                                   \
    troupe_service_canary_with(                                                                    \
        (service), (checkpoint), (weight),                                                         \
        &(troupe_version_options){.size = sizeof(troupe_version_options), __VA_ARGS__})

// Asks for the predictions of a tensor whose first dimension is its rows, at least one; it is
// copied before this returns. The reference stands for a troupe_tensor: what troupe_model_forward
// gives for these rows. It fails with TROUPE_WRONG_TYPE: not of the model's .input, the text has
// both shapes; TROUPE_BUSY: too much waits already; TROUPE_STOPPED: the service is being stopped;
// TROUPE_PEER_LOST: the replica that had it died, it may have been computed;
// TROUPE_DEADLINE_EXCEEDED: it has waited for .deadline_ms; what the model's hooks return; else as
// any call of an actor. A model whose results have not as many rows as its inputs needs .batch = 1.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_ref troupe_predict(troupe_service service,
                                                              const troupe_tensor *x);

// One checkpoint that is served.
typedef struct troupe_service_version {
    char name[256]; // "digits@3", or its folder; empty: none.
    double weight;  // Its share of what comes.
    uint32_t replicas_alive;
    uint64_t answered, failed;      // Of the requests that were given to it.
    double p50_s, p99_s, longest_s; // As below.
} troupe_service_version;

typedef struct troupe_service_info {
    char route[132];
    char url[256];  // "http://127.0.0.1:41523/digits"; empty without HTTP.
    char token[68]; // What clients must show, as "Authorization: Bearer TOKEN". A secret.
    uint32_t replicas, replicas_alive; // Asked for; there now, of the version that serves.
    bool stopping;
    uint64_t queued, under_way; // Requests that wait; that replicas have.
    uint64_t answered;          // With a prediction,
    uint64_t failed;            // with a failure after they were accepted,
    uint64_t refused;           // and without being accepted.
    uint64_t batches, rows;     // That were asked.
    uint64_t restarts;          // Of replicas.
    // From when a request was accepted to its prediction, in seconds: half of them took at most
    // p50_s; 0 where there was none.
    double p50_s, p99_s, longest_s;
    troupe_service_version serving, canary; // The others are of all versions together.
    uint64_t rolls;
    char socket[108]; // Where it listens; empty without one.
} troupe_service_info;
// What the service is and has done. Errors as those of a call of an actor.
TROUPE_EXPERIMENTAL troupe_status troupe_service_info_get(troupe_service service,
                                                          troupe_service_info *info, size_t size);
#define troupe_service_info_get(service, info)                                                     \
    troupe_service_info_get((service), (info), sizeof(troupe_service_info))

// Ends a service: new requests are refused, those that it has accepted are answered, then its
// replicas and its HTTP server end, and this returns. After `force_after_ms` (TROUPE_FOREVER:
// never) what has no answer yet is refused and the replicas are killed: TROUPE_DEADLINE_EXCEEDED.
// TROUPE_NOT_EXECUTED: it has ended already.
TROUPE_EXPERIMENTAL troupe_status troupe_service_stop(troupe_service service, int force_after_ms);
// troupe_service_stop(service): never by force; troupe_service_stop(service, 500)
#define troupe_service_stop(...) TROUPE_SERVICE_STOP_(__VA_ARGS__, )
#define TROUPE_SERVICE_STOP_(service, ...)                                                         \
    troupe_service_stop((service), TROUPE_TIMEOUT_(__VA_ARGS__))

// ---- Versions whose code is another program's

// A service that a stored program keeps (stored.h). It ends with this process.
typedef struct troupe_stored_service troupe_stored_service;

// Has the program that was kept with a version of the repository serve it, as troupe_serve would,
// and returns when all replicas have opened it. Without .socket it listens at ROUTE.sock in the
// folder `routes` of the train server's state folder, where the gateway finds it: "/digits" at
// digits.sock. *service is for the caller to stop. Errors as those of troupe_submit_stored and
// troupe_serve.
//     troupe_serve_stored("digits@production", "/digits", &service, .replicas = 2)
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_serve_stored_with(const char *ref, const char *route, troupe_stored_service **service,
                         const troupe_serve_options *how);
#define troupe_serve_stored(...) TROUPE_SERVE_STORED_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SERVE_STORED_(ref, route, service, ...)                                             \
    troupe_serve_stored_with(                                                                      \
        (ref), (route), (service),                                                                 \
        &(troupe_serve_options){.size = sizeof(troupe_serve_options), __VA_ARGS__})

// Sets *y to the predictions for x, as of troupe_predict, and waits for them; its elements belong
// to the thread's arena. By one thread at a time; others wait. Errors as those of troupe_predict;
// TROUPE_PEER_LOST: the service has died.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_stored_predict(troupe_stored_service *service, const troupe_tensor *x, troupe_tensor *y);

// Where it listens: its unix socket; with .http also the address, else "", and what clients must
// show, as "Authorization: Bearer TOKEN". Texts live as long as the service.
typedef struct troupe_stored_service_where {
    const char *socket, *url, *token;
    int pid; // The process of the stored program.
} troupe_stored_service_where;
TROUPE_EXPERIMENTAL void troupe_stored_service_where_get(const troupe_stored_service *service,
                                                         troupe_stored_service_where *where,
                                                         size_t size);
#define troupe_stored_service_where_get(service, where)                                            \
    troupe_stored_service_where_get((service), (where), sizeof(troupe_stored_service_where))

// Ends the service, as troupe_service_stop does, and clears *service, whatever comes of it.
// Harmless on NULL. TROUPE_PEER_LOST: it had died.
TROUPE_EXPERIMENTAL troupe_status troupe_stored_service_stop(troupe_stored_service **service,
                                                             int force_after_ms);

TROUPE_END_C

#endif
