// http_request.c: one HTTP request: what it must be before anything of its body is read, how it
// becomes a request of the service, and what it is answered.
#ifdef TROUPE_HTTP
#include <serve/http_internal.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
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

typedef enum header {
    HEADER_HOST,
    HEADER_ORIGIN,
    HEADER_AUTHORIZATION,
    HEADER_LENGTH,
    HEADER_ENCODING,
    HEADER_TYPE,
    HEADER_DTYPE,
    HEADER_SHAPE,
    HEADERS
} header;

typedef struct head {
    const char *values[HEADERS]; // NULL: not there.
    bool twice;
} head;

static enum MHD_Result note_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    static const char *const names[HEADERS] = {
        "Host",         "Origin",         "Authorization", "Content-Length", "Transfer-Encoding",
        "Content-Type", "X-Troupe-Dtype", "X-Troupe-Shape"};
    head *it = (head *)user;
    (void)kind;
    for (size_t i = 0; i < HEADERS; i++) {
        if (strcasecmp(name, names[i]) != 0)
            continue;
        it->twice = it->twice || it->values[i];
        it->values[i] = value ? value : "";
    }
    return MHD_YES;
}

static bool is_from_here(const trp_http *http, const head *head_)
{
    const char *host = head_->values[HEADER_HOST], *origin = head_->values[HEADER_ORIGIN];
    if (!host || (strcmp(host, http->hosts[0]) != 0 && strcasecmp(host, http->hosts[1]) != 0))
        return false;
    return !origin || (strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0);
}

// Takes as long for a token that is almost right as for any other of its length.
static bool has_token(const trp_http *http, const char *authorization)
{
    const char *token = http->shared->token;
    size_t length = strlen(token);
    unsigned differs = 0;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0 ||
        strlen(authorization + 7) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)authorization[7 + i] ^ (unsigned char)token[i];
    return differs == 0;
}

static bool is_media_type(const char *value, const char *type)
{
    size_t length = strlen(type);
    return value && strncasecmp(value, type, length) == 0 &&
           (value[length] == '\0' || value[length] == ';' || value[length] == ' ');
}

static unsigned no(trp_exchange *it, unsigned code, troupe_status status, const char *text)
{
    it->status = status;
    (void)snprintf(it->text, sizeof it->text, "%s", text);
    return code;
}

// A failure that the thread's last error has.
static unsigned no_by_error(trp_exchange *it, unsigned code)
{
    return no(it, code, troupe_last_error()->status, troupe_last_error()->text);
}

// Digits alone, and no more of them than any size has; SIZE_MAX: it is none.
static size_t length_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits == 0 || digits > 18 || text[digits] ? SIZE_MAX : strtoul(text, NULL, 10);
}

// 0, or what refuses the body that is announced. Takes the memory for it.
static unsigned announce_body(trp_exchange *it, const head *head_)
{
    const char *type = head_->values[HEADER_TYPE];
    if (head_->values[HEADER_ENCODING] || !head_->values[HEADER_LENGTH])
        return no(it, MHD_HTTP_LENGTH_REQUIRED, TROUPE_INVALID,
                  "expected a body of known length: Content-Length, and no Transfer-Encoding");
    it->size = length_of(head_->values[HEADER_LENGTH]);
    if (it->size == SIZE_MAX)
        return no(it, MHD_HTTP_BAD_REQUEST, TROUPE_INVALID, "Content-Length is no number");
    it->raw = is_media_type(type, "application/octet-stream");
    if (!it->raw && !is_media_type(type, "application/json"))
        return no(it, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, TROUPE_INVALID,
                  "expected Content-Type application/json or application/octet-stream");
    size_t most = it->raw ? TRP_BODY_RAW_MAX : TRP_BODY_JSON_MAX;
    if (it->size > most) {
        (void)troupe_fail(TROUPE_TOO_LARGE, "the body has %zu bytes, may have %zu", it->size, most);
        return no_by_error(it, MHD_HTTP_CONTENT_TOO_LARGE);
    }
    if (it->raw) {
        const char *dtype = head_->values[HEADER_DTYPE], *shape = head_->values[HEADER_SHAPE];
        size_t bytes;
        if (trp_body_read_shape(dtype ? dtype : "", shape ? shape : "", &it->request.x) !=
                TROUPE_OK ||
            trp_tensor_size(&it->request.x, &bytes) != TROUPE_OK)
            return no_by_error(it, MHD_HTTP_BAD_REQUEST);
        if (bytes != it->size) {
            (void)troupe_fail(TROUPE_INVALID,
                              "the body has %zu bytes where its type and shape take %zu", it->size,
                              bytes);
            return no_by_error(it, MHD_HTTP_BAD_REQUEST);
        }
    }
    if (atomic_fetch_add(&it->http->body_bytes, it->size) + it->size > BODY_BYTES_MAX ||
        !(it->body = (char *)trp_alloc(it->size + 1))) {
        atomic_fetch_sub(&it->http->body_bytes, it->size);
        it->size = 0;
        return no(it, MHD_HTTP_SERVICE_UNAVAILABLE, TROUPE_BUSY,
                  "too much is being received already");
    }
    return 0;
}

// 0: go on with the body; else what it is answered, MHD_HTTP_OK among it.
static unsigned look_at_head(trp_exchange *it, const head *head_, const char *url,
                             const char *method)
{
    const trp_service_shared *shared = it->http->shared;
    if (!is_from_here(it->http, head_))
        return no(it, MHD_HTTP_FORBIDDEN, TROUPE_INVALID,
                  "expected this server's own Host, and no other Origin");
    if (!has_token(it->http, head_->values[HEADER_AUTHORIZATION]))
        return no(it, MHD_HTTP_UNAUTHORIZED, TROUPE_INVALID,
                  "expected the service's token: Authorization: Bearer TOKEN");
    if (head_->twice)
        return no(it, MHD_HTTP_BAD_REQUEST, TROUPE_INVALID, "a header is there twice");
    bool route = strcmp(url, shared->route) == 0;
    if (!route && strcmp(url, "/healthz") != 0 && strcmp(url, "/metrics") != 0)
        return no(it, MHD_HTTP_NOT_FOUND, TROUPE_NOT_FOUND, "there is no such route");
    bool post = strcmp(method, "POST") == 0;
    if (strcmp(method, "GET") != 0 && !(post && route))
        return no(it, MHD_HTTP_METHOD_NOT_ALLOWED, TROUPE_UNSUPPORTED,
                  route ? "expected GET or POST" : "expected GET");
    if (post)
        return announce_body(it, head_);
    if (head_->values[HEADER_ENCODING] ||
        (head_->values[HEADER_LENGTH] && strcmp(head_->values[HEADER_LENGTH], "0") != 0))
        return no(it, MHD_HTTP_BAD_REQUEST, TROUPE_INVALID, "a GET has no body");
    if (strcmp(url, "/healthz") == 0 &&
        (atomic_load(&shared->alive) == 0 || atomic_load(&shared->stopping)))
        return no(it, MHD_HTTP_SERVICE_UNAVAILABLE, TROUPE_BUSY, "no replica is there");
    return MHD_HTTP_OK;
}

// Whether all of a body that is refused is to be heard first.
static bool is_short(const head *head_)
{
    const char *length = head_->values[HEADER_LENGTH];
    return !head_->values[HEADER_ENCODING] &&
           (!length || length_of(length) <= (size_t)DROPPED_BYTES_MAX);
}

// ---- answers

static enum MHD_Result reply(trp_exchange *it, trp_buffer *body, const char *type)
{
    unsigned code = it->code;
    if (body->failed) {
        trp_buffer_free(body);
        code = MHD_HTTP_INTERNAL_SERVER_ERROR;
        type = "text/plain";
    }
    struct MHD_Response *response = trp_mhd.response(
        body->size, body->data ? (void *)body->data : (void *)"", MHD_RESPMEM_MUST_COPY);
    trp_buffer_free(body);
    if (!response)
        return MHD_NO;
    (void)trp_mhd.add_header(response, "Content-Type", type);
    (void)trp_mhd.add_header(response, "Cache-Control", "no-store");
    (void)trp_mhd.add_header(response, "X-Content-Type-Options", "nosniff");
    if (code == MHD_HTTP_UNAUTHORIZED)
        (void)trp_mhd.add_header(response, "WWW-Authenticate", "Bearer");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)trp_mhd.add_header(response, "Allow", strstr(it->text, "POST") ? "GET, POST" : "GET");
    if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
        (void)trp_mhd.add_header(response, "Retry-After", "1");
    if (code == MHD_HTTP_OK && it->raw) {
        char shape[TROUPE_DIMS_MAX * 21];
        trp_body_write_shape(&it->y, shape, sizeof shape);
        (void)trp_mhd.add_header(response, "X-Troupe-Dtype", troupe_dtype_text(it->y.dtype));
        (void)trp_mhd.add_header(response, "X-Troupe-Shape", shape);
    }
    trp_http_enter(it->http, it->of, TRP_HTTP_REPLY);
    enum MHD_Result queued = trp_mhd.queue(it->connection, code, response);
    trp_mhd.destroy(response);
    it->replied = true;
    return queued;
}

static enum MHD_Result send_error(trp_exchange *it)
{
    trp_buffer body = {0};
    trp_http_error(it->status, it->text, &body);
    return reply(it, &body, "application/json");
}

static enum MHD_Result send_page(trp_exchange *it, const char *url)
{
    trp_buffer body = {0};
    bool metrics = strcmp(url, "/metrics") == 0;
    if (metrics)
        trp_http_metrics(it->http->shared, &body);
    else if (strcmp(url, "/healthz") == 0)
        trp_buffer_printf(&body, "{\"healthy\": true}\n");
    else
        trp_http_describe(it->http->shared, &body);
    return reply(it, &body, metrics ? "text/plain; version=0.0.4" : "application/json");
}

static enum MHD_Result send_prediction(trp_exchange *it)
{
    trp_buffer body = {0};
    if (it->raw) {
        trp_buffer_append(&body, it->answer,
                          troupe_tensor_count(&it->y) * troupe_dtype_size(it->y.dtype));
        return reply(it, &body, "application/octet-stream");
    }
    if (trp_body_write_json(&it->y, &body) == TROUPE_OK)
        return reply(it, &body, "application/json");
    trp_buffer_free(&body);
    it->code = no_by_error(it, MHD_HTTP_INTERNAL_SERVER_ERROR);
    return send_error(it);
}

static unsigned code_of(troupe_status status)
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

// In the turn of the service.
static void on_answer(trp_inference *request, troupe_status status, const char *text,
                      const troupe_tensor *y)
{
    trp_exchange *it = (trp_exchange *)request;
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
    it->code = code_of(it->status);
    if (it->status != TROUPE_OK)
        (void)snprintf(it->text, sizeof it->text, "%s", text);
    trp_mhd.resume(it->connection);
}

// ---- requests

// The body is whole. 0: the connection waits for its answer.
static unsigned hand_on(trp_exchange *it)
{
    trp_service_shared *shared = it->http->shared;
    trp_inference *request = &it->request;
    if (it->raw) {
        request->x.data = it->body;
    } else {
        troupe_status status = trp_body_read_json(it->body, it->size, shared->model->input->dtype,
                                                  &request->x, &request->memory);
        if (status != TROUPE_OK)
            return no_by_error(it, code_of(status));
    }
    if (trp_inference_check(shared->model, request) != TROUPE_OK) {
        atomic_fetch_add(&shared->refused, 1);
        return no_by_error(it, MHD_HTTP_BAD_REQUEST);
    }
    if (trp_service_admit(shared, request) != TROUPE_OK)
        return no_by_error(it, MHD_HTTP_SERVICE_UNAVAILABLE);
    request->done = on_answer;
    it->handed = it->served = true;
    trp_http_enter(it->http, it->of, TRP_HTTP_ANSWER);
    trp_mhd.suspend(it->connection); // First: the answer may be quick.
    if (trp_service_hand(shared, request) == TROUPE_OK)
        return 0;
    it->served = false;
    it->code = no_by_error(it, MHD_HTTP_SERVICE_UNAVAILABLE);
    trp_mhd.resume(it->connection);
    return 0;
}

static trp_exchange *begin(trp_http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        trp_mhd.connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    trp_exchange *it = info && info->socket_context ? (trp_exchange *)trp_alloc(sizeof *it) : NULL;
    if (it) {
        it->http = http;
        it->connection = connection;
        it->of = (trp_http_connection *)info->socket_context;
    }
    return it;
}

enum MHD_Result trp_http_handle(void *user, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **exchange)
{
    trp_exchange *it = (trp_exchange *)*exchange;
    (void)version;
    if (!it) { // The head is whole.
        it = begin((trp_http *)user, connection);
        *exchange = it;
        if (!it)
            return MHD_NO;
        head head_ = {0};
        (void)trp_mhd.values(connection, MHD_HEADER_KIND, note_header, &head_);
        it->code = look_at_head(it, &head_, url, method);
        it->page = it->code == MHD_HTTP_OK;
        it->refused = it->code != 0 && !it->page;
        if (it->refused && !is_short(&head_))
            return send_error(it); // libmicrohttpd closes the connection after this.
        trp_http_enter(it->http, it->of, TRP_HTTP_BODY);
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
    if (it->page)
        return send_page(it, url);
    if (it->refused)
        return send_error(it);
    if (!it->handed) {
        unsigned refused = hand_on(it); // If it was handed on, its answer may be there already.
        if (refused == 0)
            return MHD_YES;
        it->code = refused;
        return send_error(it);
    }
    return it->code == MHD_HTTP_OK ? send_prediction(it) : send_error(it);
}

void trp_http_completed(void *user, struct MHD_Connection *connection, void **exchange,
                        enum MHD_RequestTerminationCode why)
{
    trp_http *http = (trp_http *)user;
    trp_exchange *it = (trp_exchange *)*exchange;
    (void)connection, (void)why;
    *exchange = NULL;
    if (!it)
        return;
    trp_http_enter(http, it->of, TRP_HTTP_HEAD);
    if (it->body)
        atomic_fetch_sub(&http->body_bytes, it->size);
    if (it->served)
        trp_service_served(http->shared);
    trp_free(it->body);
    trp_free(it->request.memory);
    trp_free(it->answer);
    trp_free(it);
}
#else
extern int trp_http_request_is_left_out; // A file must not be empty.
#endif
