// http_server.h: what the library's servers of HTTP have in common: a socket, connections that may
// take so long, heads that are checked, bodies of bounded size, tensors in them, and replies. What
// is served is the user's: a service's own front (http.h), or the gateway.
#ifndef TRP_SERVE_HTTP_SERVER_H
#define TRP_SERVE_HTTP_SERVER_H

#include <netinet/in.h>
#include <runtime/base/buffer.h>
#include <serve/http_library.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <troupe/tensor.h>

enum { TRP_HTTP_TEXT_MAX = 512, TRP_HTTP_HOST_MAX = 80 };

// Times in milliseconds, for tests to shorten: of a connection without a whole head, of a body, and
// of reading an answer.
typedef struct trp_http_times {
    atomic_int head_ms, body_ms, reply_ms;
} trp_http_times;
extern trp_http_times trp_http_limits;

// Headers that somebody looks at.
typedef enum trp_http_header {
    TRP_HTTP_HOST,
    TRP_HTTP_ORIGIN,
    TRP_HTTP_AUTHORIZATION,
    TRP_HTTP_COOKIE,
    TRP_HTTP_LENGTH,
    TRP_HTTP_ENCODING,
    TRP_HTTP_TYPE,
    TRP_HTTP_MATCH, // If-None-Match
    TRP_HTTP_DTYPE,
    TRP_HTTP_SHAPE,
    TRP_HTTP_HEADERS
} trp_http_header;

// A header of a reply; a list of them ends with a name that is NULL.
typedef struct trp_http_pair {
    const char *name, *value;
} trp_http_pair;

typedef struct trp_http_server trp_http_server;
typedef struct trp_http_connection trp_http_connection;

// One request, from its head to the end of its reply: the beginning of what the user has of it.
typedef struct trp_http_exchange {
    trp_http_server *server;
    struct MHD_Connection *connection;
    trp_http_connection *of;
    const char *method, *path;             // The path with its percent signs, without a query.
    const char *headers[TRP_HTTP_HEADERS]; // NULL: not there.
    char *body;                            // Of `size` bytes and a zero byte.
    size_t size, got;
    const char *allow; // The methods that there are, with 405; NULL: GET.
    bool refused, replied;
    // A tensor in the body: raw elements or JSON, answered as it came.
    bool raw;
    troupe_tensor x;
    void *memory; // That JSON was read to.
    // What it is answered: a code of HTTP, and a failure's status and text, or a copy of a tensor.
    unsigned code;
    troupe_status status;
    char text[TRP_HTTP_TEXT_MAX];
    troupe_tensor y;
    void *answer;
} trp_http_exchange;

// What the user does with requests. All is called by the server's thread, one at a time.
typedef struct trp_http_calls {
    size_t exchange; // Its bytes, zeroed.
    // The head is whole, Host and Origin are good, no header that counts is there twice. 0: go on,
    // with a body where it was announced by one of the functions below; else the code of what
    // refuses it, as trp_http_no gives it.
    unsigned (*head)(trp_http_exchange *it);
    // The request is whole: replies, or calls trp_http_suspend, whereupon it is called again once
    // the exchange was resumed.
    enum MHD_Result (*answer)(trp_http_exchange *it);
    // The reply was sent, or the client has gone: lets go of what the user has.
    void (*forget)(trp_http_exchange *it);
} trp_http_calls;

typedef struct trp_http_how {
    const trp_http_calls *calls;
    void *user;
    struct in_addr address; // 0: of this machine alone, 127.0.0.1.
    uint16_t port;          // 0: any that is free.
    // A Host may be localhost, 127.0.0.1, the address, and this one, without a port; NULL: no more.
    const char *name;
    const char *certificate, *key; // Texts, PEM; NULL: not encrypted.
    bool polled;                   // By trp_http_server_turn; else it has a thread of its own.
    const trp_http_pair *headers;  // Of each reply; NULL: none.
} trp_http_how;

// Starts to listen. TROUPE_UNSUPPORTED: there is no libmicrohttpd; TROUPE_IO: the port is taken;
// TROUPE_INVALID: the certificate or the key is none.
troupe_status trp_http_server_start(const trp_http_how *how, trp_http_server **server);
// Ends it, and clears *server; harmless on NULL. No exchange may be suspended.
void trp_http_server_stop(trp_http_server **server);
// Listens no more, for a process that is about to end with exchanges that are suspended.
void trp_http_server_leave(trp_http_server *server);
uint16_t trp_http_server_port(const trp_http_server *server);
void *trp_http_server_user(const trp_http_server *server);

// Where it is polled: a descriptor to poll for POLLIN, how long to wait at most (-1: without end),
// and what does all that can be done now.
int trp_http_server_fd(const trp_http_server *server);
int trp_http_server_timeout_ms(const trp_http_server *server);
void trp_http_server_turn(trp_http_server *server);

// ---- within calls

// Whether two texts are the same, in a time that says only whether they are of one length. NULL is
// like no text.
bool trp_http_is_secret(const char *said, const char *secret);
bool trp_http_has_bearer(const trp_http_exchange *it, const char *token);
// The query of a request as it was sent, but with spaces for its plus signs, to be freed by
// trp_free; NULL: there is none, or no memory for it.
char *trp_http_query(const trp_http_exchange *it);

// Keeps why it is refused, and returns the code.
unsigned trp_http_no(trp_http_exchange *it, unsigned code, troupe_status status, const char *text);
// The same, with the status and text of the thread's last error.
unsigned trp_http_no_by_error(trp_http_exchange *it, unsigned code);
unsigned trp_http_code_of(troupe_status status);

// 0: the body that the head announces will be read, in memory of its own; else what refuses it. The
// first wants JSON; the second JSON, or the elements of a tensor with their type and shape.
unsigned trp_http_announce(trp_http_exchange *it, size_t most);
unsigned trp_http_announce_tensor(trp_http_exchange *it);
// 0: there is no body; else what refuses it.
unsigned trp_http_announce_none(trp_http_exchange *it);
// Makes `x` of the body, JSON with elements of that type. 0; else what refuses it.
unsigned trp_http_take_tensor(trp_http_exchange *it, troupe_dtype dtype);

// The reply waits; from any thread it is resumed, once.
void trp_http_suspend(trp_http_exchange *it);
void trp_http_resume(trp_http_exchange *it);
// Keeps an answer, of which the tensor or the text is copied, with its code.
void trp_http_keep(trp_http_exchange *it, troupe_status status, const char *text,
                   const troupe_tensor *y);

// Replies with the code, and frees the body. `more` (NULL: none) are further headers.
enum MHD_Result trp_http_reply(trp_http_exchange *it, trp_buffer *body, const char *type,
                               const trp_http_pair *more);
// With {"error": {"status", "text"}}, and the headers that go with the code; `allow` goes with 405.
enum MHD_Result trp_http_reply_error(trp_http_exchange *it);
// With what was kept.
enum MHD_Result trp_http_reply_kept(trp_http_exchange *it);

#endif
