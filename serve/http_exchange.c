// http_exchange.c: one HTTP request: what it must be before anything of its body is read, the body,
// and what it is answered.
#ifdef TROUPE_HTTP
#include <serve/http_connection.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/codec/tensor.h>
#include <serve/http_body.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    BODY_BYTES_MAX = 256 << 20, // Of all requests together.
    // What is refused is answered once its body has come, if that is no longer: a connection that
    // is closed with bytes that nobody has read may lose its answer.
    DROPPED_BYTES_MAX = 1 << 20,
};

// ---- heads

typedef struct head {
    const char **values;
    bool twice;
} head;

static enum MHD_Result note_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    static const char *const names[TRP_HTTP_HEADERS] = {"Host",           "Origin",
                                                        "Authorization",  "Cookie",
                                                        "Content-Length", "Transfer-Encoding",
                                                        "Content-Type",   "If-None-Match",
                                                        "X-Troupe-Dtype", "X-Troupe-Shape"};
    head *it = (head *)user;
    (void)kind;
    for (size_t i = 0; i < TRP_HTTP_HEADERS; i++) {
        if (strcasecmp(name, names[i]) != 0)
            continue;
        it->twice = it->twice || it->values[i];
        it->values[i] = value ? value : "";
    }
    return MHD_YES;
}

static bool is_from_here(const trp_http_exchange *it)
{
    const trp_http_server *server = it->server;
    const char *host = it->headers[TRP_HTTP_HOST], *origin = it->headers[TRP_HTTP_ORIGIN];
    bool known = false;
    for (size_t i = 0; i < TRP_HTTP_HOSTS && host; i++)
        known = known || (server->hosts[i][0] && strcasecmp(host, server->hosts[i]) == 0);
    if (!known)
        return false;
    size_t scheme = strlen(server->scheme);
    return !origin ||
           (strncmp(origin, server->scheme, scheme) == 0 && strcasecmp(origin + scheme, host) == 0);
}

bool trp_http_is_secret(const char *said, const char *secret)
{
    size_t length = strlen(secret);
    unsigned differs = 0;
    if (!said || length == 0 || strlen(said) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)said[i] ^ (unsigned char)secret[i];
    return differs == 0;
}

bool trp_http_has_bearer(const trp_http_exchange *it, const char *token)
{
    const char *said = it->headers[TRP_HTTP_AUTHORIZATION];
    return said && strncasecmp(said, "Bearer ", 7) == 0 && trp_http_is_secret(said + 7, token);
}

static enum MHD_Result note_argument(void *user, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    trp_buffer *out = (trp_buffer *)user;
    (void)kind;
    trp_buffer_printf(out, out->size > 0 ? "&%s" : "%s", name ? name : "");
    if (value)
        trp_buffer_printf(out, "=%s", value);
    return MHD_YES;
}

char *trp_http_query(const trp_http_exchange *it)
{
    trp_buffer out = {0};
    (void)trp_mhd.values(it->connection, MHD_GET_ARGUMENT_KIND, note_argument, &out);
    if (out.size > 0)
        trp_buffer_append(&out, "", 1);
    if (out.failed)
        trp_buffer_free(&out);
    return (char *)out.data;
}

unsigned trp_http_no(trp_http_exchange *it, unsigned code, troupe_status status, const char *text)
{
    it->status = status;
    (void)snprintf(it->text, sizeof it->text, "%s", text);
    return code;
}

unsigned trp_http_no_by_error(trp_http_exchange *it, unsigned code)
{
    return trp_http_no(it, code, troupe_last_error()->status, troupe_last_error()->text);
}

// ---- bodies

static bool is_media_type(const char *value, const char *type)
{
    size_t length = strlen(type);
    return value && strncasecmp(value, type, length) == 0 &&
           (value[length] == '\0' || value[length] == ';' || value[length] == ' ');
}

// Digits alone, and no more of them than any size has; SIZE_MAX: it is none.
static size_t length_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits == 0 || digits > 18 || text[digits] ? SIZE_MAX : strtoul(text, NULL, 10);
}

// 0, or what refuses a body of that length. Its memory is not taken yet.
static unsigned look_at_length(trp_http_exchange *it)
{
    const char *length = it->headers[TRP_HTTP_LENGTH];
    if (it->headers[TRP_HTTP_ENCODING] || !length)
        return trp_http_no(it, MHD_HTTP_LENGTH_REQUIRED, TROUPE_INVALID,
                           "expected a body of known length: Content-Length, and no "
                           "Transfer-Encoding");
    it->size = length_of(length);
    if (it->size != SIZE_MAX)
        return 0;
    it->size = 0;
    return trp_http_no(it, MHD_HTTP_BAD_REQUEST, TROUPE_INVALID, "Content-Length is no number");
}

// The body is not read.
static unsigned leave_body(trp_http_exchange *it, unsigned code)
{
    it->size = 0;
    return code;
}

static unsigned take_memory(trp_http_exchange *it, size_t most)
{
    if (it->size > most) {
        (void)troupe_fail(TROUPE_TOO_LARGE, "the body has %zu bytes, may have %zu", it->size, most);
        return leave_body(it, trp_http_no_by_error(it, MHD_HTTP_CONTENT_TOO_LARGE));
    }
    if (atomic_fetch_add(&it->server->body_bytes, it->size) + it->size <= BODY_BYTES_MAX &&
        (it->body = (char *)trp_alloc(it->size + 1)))
        return 0;
    atomic_fetch_sub(&it->server->body_bytes, it->size);
    return leave_body(it, trp_http_no(it, MHD_HTTP_SERVICE_UNAVAILABLE, TROUPE_BUSY,
                                      "too much is being received already"));
}

unsigned trp_http_announce(trp_http_exchange *it, size_t most)
{
    unsigned refused = look_at_length(it);
    if (refused != 0)
        return refused;
    if (!is_media_type(it->headers[TRP_HTTP_TYPE], "application/json"))
        return leave_body(it, trp_http_no(it, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, TROUPE_INVALID,
                                          "expected Content-Type application/json"));
    return take_memory(it, most);
}

static unsigned look_at_shape(trp_http_exchange *it)
{
    const char *dtype = it->headers[TRP_HTTP_DTYPE], *shape = it->headers[TRP_HTTP_SHAPE];
    size_t bytes;
    if (trp_body_read_shape(dtype ? dtype : "", shape ? shape : "", &it->x) != TROUPE_OK ||
        trp_tensor_size(&it->x, &bytes) != TROUPE_OK)
        return trp_http_no_by_error(it, MHD_HTTP_BAD_REQUEST);
    if (bytes == it->size)
        return 0;
    (void)troupe_fail(TROUPE_INVALID, "the body has %zu bytes where its type and shape take %zu",
                      it->size, bytes);
    return trp_http_no_by_error(it, MHD_HTTP_BAD_REQUEST);
}

unsigned trp_http_announce_tensor(trp_http_exchange *it)
{
    const char *type = it->headers[TRP_HTTP_TYPE];
    unsigned refused = look_at_length(it);
    if (refused != 0)
        return refused;
    it->raw = is_media_type(type, "application/octet-stream");
    if (!it->raw && !is_media_type(type, "application/json"))
        return leave_body(it, trp_http_no(it, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, TROUPE_INVALID,
                                          "expected Content-Type application/json or "
                                          "application/octet-stream"));
    if (it->raw && it->size <= TRP_BODY_RAW_MAX && (refused = look_at_shape(it)) != 0)
        return leave_body(it, refused);
    return take_memory(it, it->raw ? TRP_BODY_RAW_MAX : TRP_BODY_JSON_MAX);
}

unsigned trp_http_announce_none(trp_http_exchange *it)
{
    const char *length = it->headers[TRP_HTTP_LENGTH];
    if (!it->headers[TRP_HTTP_ENCODING] && (!length || strcmp(length, "0") == 0))
        return 0;
    (void)troupe_fail(TROUPE_INVALID, "a %.16s has no body", it->method);
    return trp_http_no_by_error(it, MHD_HTTP_BAD_REQUEST);
}

unsigned trp_http_take_tensor(trp_http_exchange *it, troupe_dtype dtype)
{
    if (it->raw) {
        it->x.data = it->body;
        return 0;
    }
    troupe_status status = trp_body_read_json(it->body, it->size, dtype, &it->x, &it->memory);
    return status == TROUPE_OK ? 0 : trp_http_no_by_error(it, trp_http_code_of(status));
}

// Whether all of a body that is refused is to be heard first.
static bool is_short(const trp_http_exchange *it)
{
    const char *length = it->headers[TRP_HTTP_LENGTH];
    return !it->headers[TRP_HTTP_ENCODING] &&
           (!length || length_of(length) <= (size_t)DROPPED_BYTES_MAX);
}

// ---- replies

static void add_all(struct MHD_Response *response, const trp_http_pair *pairs)
{
    for (; pairs && pairs->name; pairs++)
        (void)trp_mhd.add_header(response, pairs->name, pairs->value);
}

enum MHD_Result trp_http_reply(trp_http_exchange *it, trp_buffer *body, const char *type,
                               const trp_http_pair *more)
{
    static const trp_http_pair usual[] = {
        {"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}, {NULL, NULL}};
    unsigned code = it->code;
    if (body->failed) {
        trp_buffer_free(body);
        code = MHD_HTTP_INTERNAL_SERVER_ERROR;
        type = "text/plain";
        more = NULL;
    }
    struct MHD_Response *response = trp_mhd.response(
        body->size, body->data ? (void *)body->data : (void *)"", MHD_RESPMEM_MUST_COPY);
    trp_buffer_free(body);
    if (!response)
        return MHD_NO;
    if (type)
        (void)trp_mhd.add_header(response, "Content-Type", type);
    add_all(response, it->server->headers ? it->server->headers : usual);
    add_all(response, more);
    trp_http_enter(it->server, it->of, TRP_HTTP_REPLY);
    enum MHD_Result queued = trp_mhd.queue(it->connection, code, response);
    trp_mhd.destroy(response);
    it->replied = true;
    return queued;
}

enum MHD_Result trp_http_reply_error(trp_http_exchange *it)
{
    trp_buffer body = {0};
    trp_http_pair more[2] = {{NULL, NULL}, {NULL, NULL}};
    trp_buffer_printf(
        &body, "{\"error\": {\"status\": \"%s\", \"text\": ", troupe_status_name(it->status));
    trp_json_text(&body, it->text);
    trp_buffer_printf(&body, "}}\n");
    if (it->code == MHD_HTTP_UNAUTHORIZED)
        more[0] = (trp_http_pair){"WWW-Authenticate", "Bearer"};
    else if (it->code == MHD_HTTP_METHOD_NOT_ALLOWED)
        more[0] = (trp_http_pair){"Allow", it->allow ? it->allow : "GET"};
    else if (it->code == MHD_HTTP_SERVICE_UNAVAILABLE)
        more[0] = (trp_http_pair){"Retry-After", "1"};
    return trp_http_reply(it, &body, "application/json", more);
}

enum MHD_Result trp_http_reply_kept(trp_http_exchange *it)
{
    trp_buffer body = {0};
    if (it->code != MHD_HTTP_OK)
        return trp_http_reply_error(it);
    if (it->raw) {
        char shape[TROUPE_DIMS_MAX * 21];
        trp_body_write_shape(&it->y, shape, sizeof shape);
        const trp_http_pair more[] = {{"X-Troupe-Dtype", troupe_dtype_text(it->y.dtype)},
                                      {"X-Troupe-Shape", shape},
                                      {NULL, NULL}};
        trp_buffer_append(&body, it->answer,
                          troupe_tensor_count(&it->y) * troupe_dtype_size(it->y.dtype));
        return trp_http_reply(it, &body, "application/octet-stream", more);
    }
    if (trp_body_write_json(&it->y, &body) == TROUPE_OK)
        return trp_http_reply(it, &body, "application/json", NULL);
    trp_buffer_free(&body);
    it->code = trp_http_no_by_error(it, MHD_HTTP_INTERNAL_SERVER_ERROR);
    return trp_http_reply_error(it);
}

unsigned trp_http_code_of(troupe_status status)
{
    switch (status) {
    case TROUPE_OK:
        return MHD_HTTP_OK;
    case TROUPE_BUSY:
    case TROUPE_STOPPED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case TROUPE_WRONG_TYPE:
    case TROUPE_MALFORMED:
    case TROUPE_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case TROUPE_PEER_LOST:
        return MHD_HTTP_BAD_GATEWAY;
    case TROUPE_DEADLINE_EXCEEDED:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void trp_http_keep(trp_http_exchange *it, troupe_status status, const char *text,
                   const troupe_tensor *y)
{
    it->status = status;
    if (status == TROUPE_OK) {
        size_t size = troupe_tensor_count(y) * troupe_dtype_size(y->dtype);
        it->y = *y;
        it->y.data = it->answer = trp_alloc(size + 1);
        if (it->answer && size > 0)
            memcpy(it->answer, y->data, size);
        if (!it->answer)
            it->status = TROUPE_NO_MEMORY, text = "no memory for the prediction";
    }
    it->code = trp_http_code_of(it->status);
    if (it->status != TROUPE_OK)
        (void)snprintf(it->text, sizeof it->text, "%s", text);
}

void trp_http_suspend(trp_http_exchange *it)
{
    trp_http_enter(it->server, it->of, TRP_HTTP_ANSWER);
    trp_mhd.suspend(it->connection);
}

void trp_http_resume(trp_http_exchange *it)
{
    trp_http_server *server = it->server; // The exchange may be over at once.
    trp_mhd.resume(it->connection);
    trp_http_server_wake(server);
}

// ---- requests

static trp_http_exchange *begin(trp_http_server *server, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        trp_mhd.connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    trp_http_exchange *it = info && info->socket_context
                                ? (trp_http_exchange *)trp_alloc(server->calls.exchange)
                                : NULL;
    if (it) {
        it->server = server;
        it->connection = connection;
        it->of = (trp_http_connection *)info->socket_context;
    }
    return it;
}

static unsigned look_at_head(trp_http_exchange *it)
{
    head head_ = {it->headers, false};
    (void)trp_mhd.values(it->connection, MHD_HEADER_KIND, note_header, &head_);
    if (!is_from_here(it))
        return trp_http_no(it, MHD_HTTP_FORBIDDEN, TROUPE_INVALID,
                           "expected this server's own Host, and no other Origin");
    if (head_.twice)
        return trp_http_no(it, MHD_HTTP_BAD_REQUEST, TROUPE_INVALID, "a header is there twice");
    return it->server->calls.head(it);
}

enum MHD_Result trp_http_handle(void *user, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **exchange)
{
    trp_http_exchange *it = (trp_http_exchange *)*exchange;
    (void)version;
    if (!it) { // The head is whole.
        it = begin((trp_http_server *)user, connection);
        *exchange = it;
        if (!it)
            return MHD_NO;
        it->method = method;
        it->path = url;
        it->code = look_at_head(it);
        it->refused = it->code != 0;
        if (it->refused && !is_short(it))
            return trp_http_reply_error(it); // libmicrohttpd closes the connection after this.
        trp_http_enter(it->server, it->of, TRP_HTTP_BODY);
        return MHD_YES;
    }
    if (*size > 0) {
        if (!it->replied && !it->refused) {
            if (*size > it->size - it->got)
                return MHD_NO; // Never: libmicrohttpd keeps to the length.
            memcpy(it->body + it->got, data, *size);
            it->got += *size;
        }
        *size = 0;
        return MHD_YES;
    }
    if (it->replied)
        return MHD_YES;
    return it->refused ? trp_http_reply_error(it) : it->server->calls.answer(it);
}

void trp_http_completed(void *user, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode why)
{
    trp_http_server *server = (trp_http_server *)user;
    trp_http_exchange *it = (trp_http_exchange *)*exchange;
    (void)connection, (void)why;
    *exchange = NULL;
    if (!it)
        return;
    trp_http_enter(server, it->of, TRP_HTTP_HEAD);
    if (it->body)
        atomic_fetch_sub(&server->body_bytes, it->size);
    server->calls.forget(it);
    trp_free(it->body);
    trp_free(it->memory);
    trp_free(it->answer);
    trp_free(it);
}
#else
extern int trp_http_exchange_is_left_out; // A file must not be empty.
#endif
