// http_connection.h: what the parts of a server of HTTP share.
#ifndef TRP_SERVE_HTTP_CONNECTION_H
#define TRP_SERVE_HTTP_CONNECTION_H

#include <pthread.h>
#include <serve/http_server.h>

// What a connection is doing, which says how long it may take.
typedef enum trp_http_phase {
    TRP_HTTP_HEAD,   // Nothing, or it sends a head.
    TRP_HTTP_BODY,   // It sends a body,
    TRP_HTTP_ANSWER, // waits for its answer,
    TRP_HTTP_REPLY,  // is sent it.
} trp_http_phase;

struct trp_http_connection {
    struct trp_http_connection *next, **link;
    int socket;
    trp_http_phase phase;
    int64_t since_ms;
};

enum { TRP_HTTP_HOSTS = 4 };

struct trp_http_server {
    trp_http_calls calls;
    void *user;
    const trp_http_pair *headers;
    struct MHD_Daemon *daemon;
    int listener; // Closed by libmicrohttpd.
    uint16_t port;
    const char *scheme;
    char hosts[TRP_HTTP_HOSTS][TRP_HTTP_HOST_MAX]; // What a Host header may be; "": nothing.
    _Atomic uint64_t body_bytes;
    // Where it is polled: libmicrohttpd tells nobody then that a connection was resumed.
    bool polled;
    int poll; // epoll: libmicrohttpd's, and
    int wake; // an eventfd, for other threads than that which polls,
    pthread_t poller;
    atomic_bool resumed; // whose next turn has to look, or this one's.
    pthread_t watch;
    bool watched;
    pthread_mutex_t lock; // Of the connections, and of the end.
    pthread_cond_t changed;
    trp_http_connection *connections;
    bool ends;
};

void trp_http_enter(trp_http_server *server, trp_http_connection *connection, trp_http_phase phase);

// A connection of it was resumed.
void trp_http_server_wake(trp_http_server *server);

// ---- http_exchange.c

// As MHD_AccessHandlerCallback and MHD_RequestCompletedCallback; the first argument is a
// trp_http_server.
enum MHD_Result trp_http_handle(void *user, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **exchange);
void trp_http_completed(void *user, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode why);

#endif
