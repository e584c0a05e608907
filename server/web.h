// web.h: what the gateway serves beside the routes of services: the files of the dashboard and REST
// below /api/v1, as functions that know neither sockets nor a library for HTTP
// (docs/internals/server/dashboard.md).
//
// Host, Origin, tokens and the size of bodies are checked before: by the gateway. Paths, queries
// and bodies are not trusted here.
#ifndef TRP_SERVER_WEB_H
#define TRP_SERVER_WEB_H

#include <runtime/base/buffer.h>
#include <troupe/status.h>

enum { TRP_WEB_BODY_MAX = 64 << 10 }; // Of a request. A larger one need not be read: 413.

typedef struct trp_web_request {
    const char *method; // "GET", "POST".
    const char *path;   // As in the request's first line: still with its percent signs, without
    const char *query;  // what is behind "?", which is this; NULL: there is none.
    const char *etag;   // Of If-None-Match; NULL: none.
    const char *base;   // How who asks names the server: "http://127.0.0.1:8787"; NULL: not known.
    const void *body;
    size_t body_size;
    bool admin; // With the token for all. Without it the files of the dashboard are given, which
                // say nothing of anyone, and all else is refused: 403.
} trp_web_request;

typedef struct trp_web_reply {
    int status;       // Of HTTP.
    const char *type; // Content-Type: lives as long as the program.
    trp_buffer body;  // Freed by who has asked: trp_buffer_free.
    char etag[40];    // With its quotes; "": none.
    char allow[16];   // The methods that the path has, with status 405; else "".
} trp_web_reply;

// What the gateway knows of a route beside its description: adds members of a JSON object, each
// behind a comma: `, "answered": 12, "latency": [[0.001, 7], [0.0025, 12]]`, the latter being upper
// bounds in seconds and how many took no longer.
typedef void (*trp_web_figures)(void *user, const char *route, trp_buffer *out);

typedef struct trp_web_options {
    const char *state;   // The state folder.
    const char *models;  // The repository of models; NULL: as of troupe/repository.h.
    const char *results; // Where runs and sweeps lie beside those of jobs; NULL: as TROUPE_RESULTS
                         // says, else ~/troupe_results.
    trp_web_figures figures; // NULL: none.
    void *user;
} trp_web_options;

typedef struct trp_web trp_web;

// Texts are copied. Nothing is read yet, and nothing need be there. TROUPE_INVALID,
// TROUPE_NO_MEMORY.
troupe_status trp_web_open(const trp_web_options *how, trp_web **web);
// Harmless on NULL.
void trp_web_close(trp_web *web);

// Whether the path is that of a file of the dashboard.
bool trp_web_has_page(const char *path);

// Whether the answer waits for another program, which may hang.
bool trp_web_submits(const trp_web_request *request);
// Answers a request: always, a failure by {"error": {"status", "text"}}. *reply is filled in anew.
// Of one thread at a time: it reads files, at most some MiB a request, and asks the server by its
// socket, so it may take a while where the disk or the server does.
void trp_web_answer(trp_web *web, const trp_web_request *request, trp_web_reply *reply);

#endif
