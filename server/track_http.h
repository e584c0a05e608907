// track_http.h: requests over HTTP to other machines, by libcurl, which is loaded when the first
// one is made.
#ifndef TRP_SERVER_TRACK_HTTP_H
#define TRP_SERVER_TRACK_HTTP_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <troupe/status.h>

enum {
    TRACK_HTTP_TIMEOUT_MS = 10000,
    TRACK_HTTP_REPLY_MAX = 4 << 20, // What is longer is cut.
};

typedef struct track_request {
    const char *url, *token; // `token`: NULL: none.
    const char *header;      // A further one; NULL.
    const char *body;        // JSON, of a POST; NULL: a GET.
    bool direct;             // Past any proxy that the environment names.
    bool (*is_over)(void);   // Asked now and then: whether to give up; NULL.
} track_request;

// How long an answer is waited for, for tests to shorten.
extern int track_http_timeout_ms;

// Makes it, and sets *code and the reply's body, for the caller to free. TROUPE_UNSUPPORTED: there
// is no libcurl; TROUPE_TIMED_OUT, TROUPE_PEER_LOST: no answer came.
troupe_status track_http(const track_request *it, int *code, trp_buffer *reply);

#endif
