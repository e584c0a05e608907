// server_link.h: a connection to the train server: requests, each with its answer, and what the
// server tells without being asked. Any number of threads may ask at once; none holds up another.
//
// A connection that is lost is made again, and what has not been answered is sent again: requests
// are of the kind that may be. A thread of the link's own does that, and reads.
#ifndef TRP_SERVER_LINK_H
#define TRP_SERVER_LINK_H

#include <train/wire.h>

typedef struct trp_server_link trp_server_link;

// Both are called by the link's thread, which must not ask. May be NULL.
typedef struct trp_server_told {
    // What was told: number 0, or the answer to what trp_server_link_tell has sent.
    void (*frame)(void *user, const trp_wire_frame *frame);
    // The connection was lost and made again: what is watched has to be watched anew.
    void (*again)(void *user);
    void *user;
} trp_server_told;

typedef struct trp_server_question {
    trp_wire_kind kind;
    const troupe_type *type;
    const void *value;
    int timeout_ms;         // Negative: for ever, also while there is no server.
    bool once;              // Not sent again where the connection is lost: TROUPE_PEER_LOST.
    bool lasts;             // After the time-out it is still sent until it is answered.
    trp_wire_kind answer;   // Of an answer. TRP_WIRE_ANSWER with a failure is one of any request.
    const troupe_type *has; // What is in it.
} trp_server_question;

// Connects to the server that has this state folder. `told` is copied. TROUPE_NOT_FOUND: no server
// runs there, any more; TROUPE_UNSUPPORTED, TROUPE_VERSION: it is another user's, or refuses this
// program; TROUPE_TIMED_OUT: it does not answer within 5 s; TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_server_link_open(const char *state_folder, const trp_server_told *told,
                                   trp_server_link **link);
// Ends all waits with TROUPE_CANCELLED; no thread may ask any more when this returns, and none is
// called. Not by the link's thread. Clears *link; harmless on NULL.
void trp_server_link_close(trp_server_link **link);

// Whether the server that it is connected to runs, as the socket says now.
bool trp_server_link_is_up(trp_server_link *link);

// Asks and waits. What the answer points to is in the arena. The failure that the server answers
// with; TROUPE_TIMED_OUT, TROUPE_PEER_LOST, TROUPE_CANCELLED; TROUPE_MALFORMED, TROUPE_TOO_LARGE,
// TROUPE_NO_MEMORY; TROUPE_VERSION, TROUPE_UNSUPPORTED: a server that was started since refuses
// this program.
troupe_status trp_server_link_ask(trp_server_link *link, const trp_server_question *question,
                                  trp_arena *arena, void *answer);
// Sends and does not wait: the answer is told. It is lost with the connection. Also by the link's
// thread.
troupe_status trp_server_link_tell(trp_server_link *link, trp_wire_kind kind,
                                   const troupe_type *type, const void *value);

// For who speaks with the server by itself: connects, to a socket that does not block, as
// trp_server_link_open does; and adds the greeting that a connection begins with.
troupe_status trp_server_connect(const char *state_folder, int *fd);
troupe_status trp_server_put_hello(trp_buffer *out, uint32_t number);

#endif
