// http.c: a service over HTTP: its routes, and how requests become the service's.
#include <serve/http.h>

#include <arpa/inet.h>

// ---- where it listens

static bool read_address(const char *text, struct in_addr *address)
{
    return inet_pton(AF_INET, text ? text : "127.0.0.1", address) == 1 && address->s_addr != 0;
}

troupe_status trp_http_check_where(const trp_http_where *where)
{
    struct in_addr address;
    if (!read_address(where->address, &address))
        return troupe_fail(TROUPE_INVALID,
                           ".http_listen is \"%.80s\", must be an address of this machine, as "
                           "192.168.1.5",
                           where->address);
    if (!where->certificate != !where->key)
        return troupe_fail(TROUPE_INVALID,
                           ".certificate and .certificate_key go together: %s is "
                           "not set",
                           where->key ? ".certificate" : ".certificate_key");
    if (ntohl(address.s_addr) >> 24 != 127 && !where->certificate)
        return troupe_fail(TROUPE_INVALID,
                           ".http_listen is %s, where others could read along: expected "
                           ".certificate and .certificate_key, or an address of 127.0.0.0/8",
                           where->address);
    return TROUPE_OK;
}

#ifdef TROUPE_HTTP
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <serve/http_pages.h>
#include <serve/http_server.h>
#include <stdio.h>
#include <string.h>

struct trp_http {
    trp_service_shared *shared;
    trp_http_server *server;
    char base[TRP_HTTP_HOST_MAX + 24];
};

typedef struct exchange {
    trp_http_exchange http;
    trp_inference request;
    bool handed, served; // It was given to the service; it counts there still.
    bool page;           // And not a prediction.
} exchange;

static trp_service_shared *shared_of(const exchange *it)
{
    return ((trp_http *)trp_http_server_user(it->http.server))->shared;
}

// ---- heads

static unsigned look_at_head(trp_http_exchange *it)
{
    const trp_service_shared *shared = shared_of((exchange *)it);
    if (!trp_http_has_bearer(it, shared->token))
        return trp_http_no(it, MHD_HTTP_UNAUTHORIZED, TROUPE_INVALID,
                           "expected the service's token: Authorization: Bearer TOKEN");
    bool route = strcmp(it->path, shared->route) == 0;
    if (!route && strcmp(it->path, "/healthz") != 0 && strcmp(it->path, "/metrics") != 0)
        return trp_http_no(it, MHD_HTTP_NOT_FOUND, TROUPE_NOT_FOUND, "there is no such route");
    bool post = strcmp(it->method, "POST") == 0;
    it->allow = route ? "GET, POST" : "GET";
    if (strcmp(it->method, "GET") != 0 && !(post && route))
        return trp_http_no(it, MHD_HTTP_METHOD_NOT_ALLOWED, TROUPE_UNSUPPORTED,
                           route ? "expected GET or POST" : "expected GET");
    if (post)
        return trp_http_announce_tensor(it);
    ((exchange *)it)->page = true;
    unsigned refused = trp_http_announce_none(it);
    if (refused == 0 && strcmp(it->path, "/healthz") == 0 &&
        (atomic_load(&shared->alive) == 0 || atomic_load(&shared->stopping)))
        return trp_http_no(it, MHD_HTTP_SERVICE_UNAVAILABLE, TROUPE_BUSY, "no replica is there");
    return refused;
}

// ---- answers

static enum MHD_Result send_page(trp_http_exchange *it)
{
    trp_service_shared *shared = shared_of((exchange *)it);
    trp_buffer body = {0};
    bool metrics = strcmp(it->path, "/metrics") == 0;
    if (metrics)
        trp_http_metrics(shared, &body);
    else if (strcmp(it->path, "/healthz") == 0)
        trp_buffer_printf(&body, "{\"healthy\": true}\n");
    else
        trp_http_describe(shared, &body);
    it->code = MHD_HTTP_OK;
    return trp_http_reply(it, &body, metrics ? "text/plain; version=0.0.4" : "application/json",
                          NULL);
}

// In the turn of the service.
static void on_answer(trp_inference *request, troupe_status status, const char *text,
                      const troupe_tensor *y)
{
    exchange *it = (exchange *)((char *)request - offsetof(exchange, request));
    trp_http_keep(&it->http, status, text, y);
    trp_http_resume(&it->http);
}

// 0: the connection waits for its answer.
static unsigned hand_on(exchange *it)
{
    trp_service_shared *shared = shared_of(it);
    trp_inference *request = &it->request;
    unsigned refused = trp_http_take_tensor(&it->http, shared->model->input->dtype);
    if (refused != 0)
        return refused;
    request->x = it->http.x;
    if (trp_inference_check(shared->model, request) != TROUPE_OK) {
        atomic_fetch_add(&shared->refused, 1);
        return trp_http_no_by_error(&it->http, MHD_HTTP_BAD_REQUEST);
    }
    if (trp_service_admit(shared, request) != TROUPE_OK)
        return trp_http_no_by_error(&it->http, MHD_HTTP_SERVICE_UNAVAILABLE);
    request->done = on_answer;
    it->handed = it->served = true;
    trp_http_suspend(&it->http); // First: the answer may be quick.
    if (trp_service_hand(shared, request) == TROUPE_OK)
        return 0;
    it->served = false;
    it->http.code = trp_http_no_by_error(&it->http, MHD_HTTP_SERVICE_UNAVAILABLE);
    trp_http_resume(&it->http);
    return 0;
}

static enum MHD_Result answer(trp_http_exchange *http)
{
    exchange *it = (exchange *)http;
    if (it->page)
        return send_page(http);
    if (it->handed)
        return trp_http_reply_kept(http);
    unsigned refused = hand_on(it); // If it was handed on, its answer may be there already.
    if (refused == 0)
        return MHD_YES;
    http->code = refused;
    return trp_http_reply_error(http);
}

static void forget(trp_http_exchange *http)
{
    exchange *it = (exchange *)http;
    if (it->served)
        trp_service_served(shared_of(it));
}

// ---- start and stop

// A file's text, with a zero byte.
static troupe_status read_text(const char *path, char **text)
{
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_file_read(path, &data, &size));
    *text = (char *)trp_alloc(size + 1);
    if (*text && size > 0)
        memcpy(*text, data, size);
    explicit_bzero(data, size);
    trp_free(data);
    return *text ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path);
}

static troupe_status listen_at(trp_http *http, const trp_http_where *where)
{
    static const trp_http_calls calls = {sizeof(exchange), look_at_head, answer, forget};
    trp_http_how how = {.calls = &calls, .user = http, .port = where->port, .name = where->name};
    char *certificate = NULL, *key = NULL;
    troupe_status status = TROUPE_OK;
    if (where->address)
        (void)read_address(where->address, &how.address);
    if (where->certificate)
        status = read_text(where->certificate, &certificate);
    if (status == TROUPE_OK && where->key)
        status = read_text(where->key, &key);
    how.certificate = certificate;
    how.key = key;
    if (status == TROUPE_OK)
        status = trp_http_server_start(&how, &http->server);
    if (key)
        explicit_bzero(key, strlen(key));
    trp_free(certificate);
    trp_free(key);
    return status;
}

troupe_status trp_http_start(trp_service_shared *shared, const trp_http_where *where,
                             trp_http **http)
{
    trp_http *made = (trp_http *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the HTTP server of a service");
    made->shared = shared;
    troupe_status status = listen_at(made, where);
    if (status != TROUPE_OK) {
        trp_free(made);
        return status;
    }
    const char *host = where->name ? where->name : where->address ? where->address : "127.0.0.1";
    (void)snprintf(made->base, sizeof made->base, "%s://%.80s:%u",
                   where->certificate ? "https" : "http", host, trp_http_server_port(made->server));
    *http = made;
    return TROUPE_OK;
}

const char *trp_http_base(const trp_http *http)
{
    return http->base;
}

void trp_http_stop(trp_http **http)
{
    if (!*http)
        return;
    trp_http_server_stop(&(*http)->server);
    trp_free(*http);
    *http = NULL;
}

#else

struct trp_http {
    char base[1];
};

troupe_status trp_http_start(trp_service_shared *shared, const trp_http_where *where,
                             trp_http **http)
{
    (void)shared, (void)where, (void)http;
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "the library was built without libmicrohttpd, which HTTP needs");
}

const char *trp_http_base(const trp_http *http)
{
    return http->base;
}

void trp_http_stop(trp_http **http)
{
    *http = NULL;
}

#endif
