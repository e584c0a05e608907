// http_internal.h: what the parts of the HTTP server share.
#ifndef TRP_SERVE_HTTP_INTERNAL_H
#define TRP_SERVE_HTTP_INTERNAL_H

#include <runtime/base/buffer.h>
#include <serve/http.h>
#include <serve/http_library.h>

// What a connection is doing, which says how long it may take.
typedef enum trp_http_phase {
    TRP_HTTP_HEAD,   // Nothing, or it sends a head.
    TRP_HTTP_BODY,   // It sends a body,
    TRP_HTTP_ANSWER, // waits for its answer,
    TRP_HTTP_REPLY,  // is sent it.
} trp_http_phase;

typedef struct trp_http_connection {
    struct trp_http_connection *next, **link;
    int socket;
    trp_http_phase phase;
    int64_t since_ms;
} trp_http_connection;

struct trp_http {
    trp_service_shared *shared;
    struct MHD_Daemon *daemon;
    uint16_t port;
    char hosts[2][32]; // What a Host header may be.
    _Atomic uint64_t body_bytes;
    pthread_t watch;
    bool watched;
    pthread_mutex_t lock; // Of the connections, and of the end.
    pthread_cond_t changed;
    trp_http_connection *connections;
    bool ends;
};

// One request, from its head to the end of its answer.
typedef struct trp_exchange {
    trp_inference request; // Its memory is the body of raw elements, or what JSON was read to.
    trp_http *http;
    struct MHD_Connection *connection;
    trp_http_connection *of;
    char *body;
    size_t size, got;
    bool raw, handed, served;    // It was given to the service; it counts there still.
    bool page, refused, replied; // By its head: a page, or refused.
    // The answer.
    unsigned code;
    troupe_status status;
    char text[512];
    troupe_tensor y; // A copy, in `answer`.
    void *answer;
} trp_exchange;

void trp_http_enter(trp_http *http, trp_http_connection *connection, trp_http_phase phase);

// ---- http_request.c

// As MHD_AccessHandlerCallback and MHD_RequestCompletedCallback; the first argument is a trp_http.
enum MHD_Result trp_http_handle(void *user, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **exchange);
void trp_http_completed(void *user, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode why);

// ---- http_pages.c

void trp_http_describe(trp_service_shared *shared, trp_buffer *out);
void trp_http_metrics(trp_service_shared *shared, trp_buffer *out);
void trp_http_error(troupe_status status, const char *text, trp_buffer *out);

#endif
