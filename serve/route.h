// route.h: a service on a unix socket.
#ifndef TRP_SERVE_ROUTE_H
#define TRP_SERVE_ROUTE_H

#include <serve/service.h>

typedef struct trp_route trp_route;

// How long a connection may take nothing of its answers, and how long a frame may take to come, for
// tests to shorten.
extern atomic_int trp_route_reply_ms, trp_route_frame_ms;

// Listens at the path, whose folder is made if need be and must be its owner's alone, and says so
// in a file beside it (trp_route_note). TROUPE_EXISTS: something is there; TROUPE_INVALID: the
// folder, or a path that is too long; TROUPE_IO.
troupe_status trp_route_start(trp_service_shared *shared, const char *path, trp_route **route);
const char *trp_route_path(const trp_route *route);
// Another version serves: the file is to say so. It is written soon, by another thread.
void trp_route_announce(trp_route *route);
// Ends it, removes both files, and clears *route. Every request that it handed on has been
// answered, and no other one gets in any more.
void trp_route_stop(trp_route **route);

// The name of the file beside a socket, which has one object: {"route": "/digits", "socket": its
// path, "model": "net", "version": "digits@3", "replicas": 2, "canary": {"version": "digits@4",
// "weight": 0.1}, "input": {"dtype": "float32", "shape": [null, 64]},
// "deadline_ms": 30000, "pid": 4711}. Without a canary it has none. The input is null if the model
// does not say it, and null dimensions are of any size. "digits.sock" has "digits.json".
// TROUPE_INVALID: it is too long.
troupe_status trp_route_note(const char *socket, char *note, size_t capacity);

#endif
