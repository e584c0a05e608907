// gateway_internal.h: what the parts of the gateway share. All but its pool belongs to one thread,
// and polls.
#ifndef TRP_SERVER_GATEWAY_INTERNAL_H
#define TRP_SERVER_GATEWAY_INTERNAL_H

#include <actors/class/histogram.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/host/file.h>
#include <serve/http_server.h>
#include <serve/route_client.h>
#include <server/web.h>
#include <sys/un.h>

enum {
    GATEWAY_PORT = 8640,
    GATEWAY_SECRET = 65, // Characters of a token, with its zero byte.
    GATEWAY_SESSIONS_MAX = 64,
    GATEWAY_SESSION_S = 12 * 3600,
    GATEWAY_CODE_MS = 60000,
    GATEWAY_ROUTES_MAX = 256,
    GATEWAY_DESCRIPTION_MAX = 64 << 10,
    GATEWAY_UNDER_WAY_MAX = 1024,    // Requests of a route,
    GATEWAY_UNSENT_MAX = 64 << 20,   // and bytes that its socket has not taken.
    GATEWAY_DEADLINE_MS = 30000,     // Of a service that says none: of a wait, and of a batch.
    GATEWAY_DEADLINE_MORE_MS = 5000, // Beyond both it is not waited for.
    GATEWAY_LOGIN_MAX = 1024,        // Bytes of a body.
    GATEWAY_WORKERS = 2,
    GATEWAY_WAITING_MAX = 64, // Requests for them; and for the one that submits jobs.
};

// ---- gateway_tokens.c: who may do what

typedef struct gateway_session {
    char id[GATEWAY_SECRET];
    int64_t until_ms; // 0: none.
} gateway_session;

typedef struct gateway_tokens {
    const char *state;
    char cookie[32]; // Its name.
    char admin[GATEWAY_SECRET], routes[GATEWAY_SECRET];
    gateway_session sessions[GATEWAY_SESSIONS_MAX];
} gateway_tokens;

typedef enum gateway_may {
    GATEWAY_NOTHING,
    GATEWAY_WRONG,   // It said who it is, and that is nobody.
    GATEWAY_ROUTES,  // It may use routes of services,
    GATEWAY_ALL,     // or all;
    GATEWAY_BROWSER, // so may a browser with a session.
} gateway_may;

// Reads the two tokens, or makes them. TROUPE_UNSUPPORTED: others can read them; TROUPE_MALFORMED.
troupe_status gateway_tokens_open(gateway_tokens *tokens, const char *state);
// The cookie is of that port: those of one host are not kept apart by browsers.
void gateway_tokens_at(gateway_tokens *tokens, uint16_t port);
gateway_may gateway_tokens_may(gateway_tokens *tokens, const trp_http_exchange *it);
// A session for a code, which is used up. TROUPE_NOT_FOUND: it is not the code, or too old.
troupe_status gateway_tokens_login(gateway_tokens *tokens, const char *code, const char **session);
void gateway_tokens_logout(gateway_tokens *tokens, const trp_http_exchange *it);
// Makes the file with the code.
troupe_status gateway_code_make(const char *state, char code[GATEWAY_SECRET]);

// ---- gateway_routes.c: the routes of services

typedef struct gateway_forward gateway_forward;

typedef struct gateway_route {
    struct gateway_route *next;
    char name[160];
    char *text; // Its description.
    size_t size;
    char socket[sizeof((struct sockaddr_un){0}.sun_path)];
    troupe_dtype dtype; // Of the model's input; none: any.
    int64_t deadline_ms;
    int64_t changed_ns;
    bool seen, polled;
    trp_route_client *client;       // NULL: not connected.
    gateway_forward *first, **last; // Under way, the first deadline first.
    _Atomic uint64_t answered, failed, refused;
    trp_histogram latency;
} gateway_route;

// A request that is with a service: part of an exchange.
struct gateway_forward {
    gateway_forward *next, **link;
    gateway_route *route;
    trp_http_exchange *of;
    uint64_t id;
    int64_t began_ns, until_ms;
};

typedef struct gateway_routes {
    trp_path folder;
    int watch;            // inotify.
    pthread_mutex_t lock; // Of the list, for those who write figures.
    gateway_route *first;
    bool lost;              // The folder is gone.
    gateway_route *leaving; // Their descriptions are gone, their requests are not.
} gateway_routes;

troupe_status gateway_routes_open(gateway_routes *routes, const char *state);
// Tells what is under way that it was lost.
void gateway_routes_close(gateway_routes *routes);
gateway_route *gateway_routes_find(const gateway_routes *routes, const char *name);
// Sends the exchange's tensor. 0: it was sent, and the exchange has to be suspended before the turn
// ends: in a later one its answer is kept there and it is resumed. Else what refuses it.
unsigned gateway_route_send(gateway_route *route, gateway_forward *forward);
void gateway_route_describe(const gateway_route *route, trp_buffer *out);
// As trp_web_figures; by any thread.
void gateway_routes_figures(void *user, const char *name, trp_buffer *out);

// What to poll for, and until when: adds to *count, up to the capacity.
void gateway_routes_poll(gateway_routes *routes, struct pollfd *polled, size_t capacity,
                         size_t *count, int64_t *until_ms);
// Does what poll(2) has said of them, the first of which is at `polled`, and what is due.
void gateway_routes_turn(gateway_routes *routes, const struct pollfd *polled);

// ---- gateway_pool.c: threads that read files

typedef struct gateway_work {
    struct gateway_work *next;
    trp_web_request request;
    trp_web_reply reply;
    void (*done)(struct gateway_work *work); // By the pool's thread.
} gateway_work;

typedef struct gateway_pool gateway_pool;
// At most so many threads: GATEWAY_WORKERS.
troupe_status gateway_pool_open(const trp_web_options *how, size_t threads, gateway_pool **pool);
// What waits is done first. False: a thread was not done after so long (a disk hangs): nothing is
// freed, and what it has is not answered. Harmless on NULL.
bool gateway_pool_close(gateway_pool **pool, int wait_ms);
// TROUPE_BUSY: too many wait.
troupe_status gateway_pool_give(gateway_pool *pool, gateway_work *work);

// ---- gateway_request.c: requests

typedef struct gateway {
    trp_path state;
    int lock; // The file's descriptor.
    gateway_tokens tokens;
    gateway_routes routes;
    gateway_pool *pool;
    gateway_pool *submits; // For what waits for other programs.
    trp_http_server *http;
    bool encrypted, ending;
    size_t under_way; // Exchanges.
    char base[128];   // Of URLs.
} gateway;

extern const trp_http_calls gateway_calls;
extern const trp_http_pair gateway_headers[];

#endif
