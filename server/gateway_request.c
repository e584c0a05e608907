// gateway_request.c: one request to the gateway: who may ask what, and who answers it.
#ifdef TROUPE_HTTP
#include <server/gateway_internal.h>

#include <inttypes.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>

#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "        \
    "'self'; "                                                                                     \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const trp_http_pair gateway_headers[] = {
    {"Content-Security-Policy", POLICY},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {NULL, NULL},
};

typedef enum what { LOGIN_PAGE, LOGIN_SCRIPT, LOGIN, LOGOUT, HEALTH, ROUTE, PREDICTION, WEB } what;

typedef struct exchange {
    trp_http_exchange http;
    what what;
    bool counted, handed;
    char route[sizeof((gateway_route){0}.name)];
    gateway_forward forward;
    gateway_work work;
    char *query;
    bool admin;
} exchange;

static gateway *gateway_of(const trp_http_exchange *it)
{
    return (gateway *)trp_http_server_user(it->server);
}

// ---- heads

static bool is(const char *one, const char *other)
{
    return strcmp(one, other) == 0;
}

static unsigned wrong_method(trp_http_exchange *it, const char *allow)
{
    it->allow = allow;
    (void)troupe_fail(TROUPE_UNSUPPORTED, "expected %s", allow);
    return trp_http_no_by_error(it, MHD_HTTP_METHOD_NOT_ALLOWED);
}

static unsigned unauthorized(trp_http_exchange *it)
{
    return trp_http_no(it, MHD_HTTP_UNAUTHORIZED, TROUPE_INVALID,
                       "expected a token of the state folder, Authorization: Bearer TOKEN, or a "
                       "session that begins with a link: `troupe server link`");
}

static unsigned look_at_login(exchange *it)
{
    bool post = is(it->http.method, "POST");
    if (!post && !is(it->http.method, "GET"))
        return wrong_method(&it->http, "GET, POST");
    it->what = post ? LOGIN : LOGIN_PAGE;
    return post ? trp_http_announce(&it->http, GATEWAY_LOGIN_MAX)
                : trp_http_announce_none(&it->http);
}

// What needs nobody to say who it is; true: *refused says the rest.
static bool is_open(exchange *it, unsigned *refused)
{
    const char *path = it->http.path;
    if (is(path, "/login")) {
        *refused = look_at_login(it);
        return true;
    }
    if (!is(path, "/login.js"))
        return false;
    it->what = LOGIN_SCRIPT;
    *refused = is(it->http.method, "GET") ? trp_http_announce_none(&it->http)
                                          : wrong_method(&it->http, "GET");
    return true;
}

static unsigned look_at_route(exchange *it, const gateway_route *route)
{
    bool post = is(it->http.method, "POST");
    if (!post && !is(it->http.method, "GET"))
        return wrong_method(&it->http, "GET, POST");
    it->what = post ? PREDICTION : ROUTE;
    (void)snprintf(it->route, sizeof it->route, "%s", route->name);
    return post ? trp_http_announce_tensor(&it->http) : trp_http_announce_none(&it->http);
}

static bool is_data(const char *path)
{
    return is(path, "/metrics") || strncmp(path, "/api/", 5) == 0;
}

static unsigned look_at_rest(exchange *it, gateway_may may)
{
    trp_http_exchange *http = &it->http;
    bool get = is(http->method, "GET"), post = is(http->method, "POST");
    it->what = WEB;
    it->admin = may == GATEWAY_ALL || may == GATEWAY_BROWSER;
    if (trp_web_has_page(http->path)) // For anyone.
        return get ? trp_http_announce_none(http) : wrong_method(http, "GET");
    if (may == GATEWAY_NOTHING)
        return unauthorized(http);
    if (may == GATEWAY_ROUTES)
        return is_data(http->path) ? trp_http_no(http, MHD_HTTP_FORBIDDEN, TROUPE_INVALID,
                                                 "this token is for routes of services alone")
                                   : trp_http_no(http, MHD_HTTP_NOT_FOUND, TROUPE_NOT_FOUND,
                                                 "there is no such route");
    if (!get && !post)
        return wrong_method(http, "GET, POST");
    return post ? trp_http_announce(http, TRP_WEB_BODY_MAX) : trp_http_announce_none(http);
}

static unsigned look(exchange *it)
{
    trp_http_exchange *http = &it->http;
    gateway *self = gateway_of(http);
    unsigned refused = 0;
    if (self->ending)
        return trp_http_no(http, MHD_HTTP_SERVICE_UNAVAILABLE, TROUPE_STOPPED,
                           "the gateway ends: nothing was computed");
    gateway_may may = gateway_tokens_may(&self->tokens, http);
    if (may == GATEWAY_WRONG)
        return unauthorized(http);
    // Pages of other ports of this machine are of the same site to a browser.
    if (may == GATEWAY_BROWSER && !is(http->method, "GET") && !http->headers[TRP_HTTP_ORIGIN])
        return trp_http_no(http, MHD_HTTP_FORBIDDEN, TROUPE_INVALID,
                           "expected an Origin with a session of a browser");
    if (is_open(it, &refused))
        return refused;
    const gateway_route *route = gateway_routes_find(&self->routes, http->path);
    bool logout = is(http->path, "/logout"), health = is(http->path, "/healthz");
    if (!route && !logout && !health)
        return look_at_rest(it, may);
    if (may == GATEWAY_NOTHING)
        return unauthorized(http);
    if (route)
        return look_at_route(it, route);
    it->what = logout ? LOGOUT : HEALTH;
    if (!is(http->method, logout ? "POST" : "GET"))
        return wrong_method(http, logout ? "POST" : "GET");
    return trp_http_announce_none(http);
}

static unsigned look_at_head(trp_http_exchange *http)
{
    exchange *it = (exchange *)http;
    unsigned refused = look(it);
    it->counted = refused == 0;
    if (it->counted)
        gateway_of(http)->under_way++;
    return refused;
}

// ---- pages of its own

static const char login_page[] =
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Troupe</title>\n"
    "<p id=\"said\">Expected a link that <code>troupe server link</code> has just made: it is good "
    "once, and for a minute.</p>\n<script src=\"/login.js\"></script>\n</html>\n";

// The code is behind the "#", so that it is in no request and in no log.
static const char login_script[] =
    "const code = location.hash.slice(1);\n"
    "history.replaceState(null, '', '/login');\n"
    "if (code) {\n"
    "  const how = { method: 'POST', headers: { 'Content-Type': 'application/json' },\n"
    "                body: JSON.stringify({ code }) };\n"
    "  fetch('/login', how).then(async (reply) => {\n"
    "    if (reply.ok) location.replace('/');\n"
    "    else document.getElementById('said').textContent = (await reply.json()).error.text;\n"
    "  }).catch(() => { document.getElementById('said').textContent = 'No answer came.'; });\n"
    "}\n";

static const trp_http_pair no_store[] = {{"Cache-Control", "no-store"}, {NULL, NULL}};

static enum MHD_Result send_text(trp_http_exchange *it, const char *text, const char *type)
{
    trp_buffer body = {0};
    it->code = MHD_HTTP_OK;
    trp_buffer_append(&body, text, strlen(text));
    return trp_http_reply(it, &body, type, no_store);
}

static enum MHD_Result send_no(trp_http_exchange *it, unsigned code)
{
    it->code = code;
    return trp_http_reply_error(it);
}

static enum MHD_Result send_cookie(trp_http_exchange *it, const char *session, int seconds)
{
    const gateway *self = gateway_of(it);
    char cookie[256];
    trp_buffer body = {0};
    const trp_http_pair more[] = {
        {"Set-Cookie", cookie}, {"Cache-Control", "no-store"}, {NULL, NULL}};
    (void)snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%d%s",
                   self->tokens.cookie, session, seconds, self->encrypted ? "; Secure" : "");
    it->code = MHD_HTTP_NO_CONTENT;
    return trp_http_reply(it, &body, NULL, more);
}

static enum MHD_Result login(trp_http_exchange *it)
{
    trp_json whole, member;
    trp_arena arena = {0};
    troupe_text code = NULL;
    const char *session;
    bool good = trp_json_parse(it->body, it->size, &whole) == TROUPE_OK &&
                trp_json_member(whole, "code", &member) &&
                trp_json_read(&troupe_type_troupe_text, member, &arena, &code) == TROUPE_OK && code;
    enum MHD_Result sent;
    if (!good)
        sent = send_no(it, trp_http_no(it, MHD_HTTP_BAD_REQUEST, TROUPE_MALFORMED,
                                       "expected {\"code\": \"...\"}"));
    else if (gateway_tokens_login(&gateway_of(it)->tokens, code, &session) != TROUPE_OK)
        sent = send_no(it, trp_http_no_by_error(it, MHD_HTTP_FORBIDDEN));
    else
        sent = send_cookie(it, session, GATEWAY_SESSION_S);
    trp_arena_clear(&arena);
    return sent;
}

static enum MHD_Result logout(trp_http_exchange *it)
{
    gateway_tokens_logout(&gateway_of(it)->tokens, it);
    return send_cookie(it, "", 0);
}

// ---- services

// It may have gone since the head came.
static enum MHD_Result no_route(trp_http_exchange *it)
{
    return send_no(it, trp_http_no(it, MHD_HTTP_NOT_FOUND, TROUPE_NOT_FOUND,
                                   "the service has gone: nothing was computed"));
}

static enum MHD_Result describe(exchange *it)
{
    gateway *self = gateway_of(&it->http);
    const gateway_route *route = gateway_routes_find(&self->routes, it->route);
    trp_buffer body = {0};
    if (!route)
        return no_route(&it->http);
    gateway_route_describe(route, &body);
    gateway_routes_figures(&self->routes, route->name, &body);
    trp_buffer_append(&body, "}\n", 2);
    it->http.code = MHD_HTTP_OK;
    return trp_http_reply(&it->http, &body, "application/json", no_store);
}

static enum MHD_Result predict(exchange *it)
{
    trp_http_exchange *http = &it->http;
    if (it->handed)
        return trp_http_reply_kept(http);
    gateway_route *route = gateway_routes_find(&gateway_of(http)->routes, it->route);
    if (!route)
        return no_route(http);
    unsigned refused = trp_http_take_tensor(http, route->dtype);
    it->forward.of = http;
    if (refused == 0)
        refused = gateway_route_send(route, &it->forward);
    if (refused != 0)
        return send_no(http, refused);
    it->handed = true;
    trp_http_suspend(http); // Answers come in another turn of this thread.
    return MHD_YES;
}

// ---- what the pool answers

static void on_reply(gateway_work *work)
{
    exchange *it = (exchange *)((char *)work - offsetof(exchange, work));
    trp_http_resume(&it->http);
}

static enum MHD_Result send_reply(exchange *it)
{
    trp_web_reply *reply = &it->work.reply;
    trp_http_pair more[4] = {{"Cache-Control", "no-cache"}};
    size_t count = 1;
    if (reply->status == 0) // The pool has refused it.
        return trp_http_reply_error(&it->http);
    it->http.code = (unsigned)reply->status;
    if (reply->etag[0])
        more[count++] = (trp_http_pair){"ETag", reply->etag};
    if (reply->allow[0])
        more[count++] = (trp_http_pair){"Allow", reply->allow};
    more[count] = (trp_http_pair){NULL, NULL};
    return trp_http_reply(&it->http, &reply->body, reply->type, more);
}

static enum MHD_Result ask_pool(exchange *it)
{
    trp_http_exchange *http = &it->http;
    gateway *self = gateway_of(http);
    if (it->handed)
        return send_reply(it);
    it->query = trp_http_query(http);
    it->work.done = on_reply;
    it->work.request = (trp_web_request){.method = http->method,
                                         .path = http->path,
                                         .query = it->query,
                                         .etag = http->headers[TRP_HTTP_MATCH],
                                         .base = self->base,
                                         .body = http->body,
                                         .body_size = http->size,
                                         .admin = it->admin};
    it->handed = true;
    gateway_pool *pool = trp_web_submits(&it->work.request) ? self->submits : self->pool;
    trp_http_suspend(http);   // First: the answer may be quick.
    bool ends = pool == NULL; // This one's body came while the gateway ends.
    if (!ends && gateway_pool_give(pool, &it->work) == TROUPE_OK)
        return MHD_YES;
    http->code = ends ? trp_http_no(http, MHD_HTTP_SERVICE_UNAVAILABLE, TROUPE_STOPPED,
                                    "the gateway ends: nothing was computed")
                      : trp_http_no_by_error(http, MHD_HTTP_SERVICE_UNAVAILABLE);
    trp_http_resume(http);
    return MHD_YES;
}

// ---- all

static enum MHD_Result answer(trp_http_exchange *http)
{
    exchange *it = (exchange *)http;
    switch (it->what) {
    case LOGIN_PAGE:
        return send_text(http, login_page, "text/html; charset=utf-8");
    case LOGIN_SCRIPT:
        return send_text(http, login_script, "text/javascript; charset=utf-8");
    case LOGIN:
        return login(http);
    case LOGOUT:
        return logout(http);
    case HEALTH:
        return send_text(http, "{\"healthy\": true}\n", "application/json");
    case ROUTE:
        return describe(it);
    case PREDICTION:
        return predict(it);
    default:
        return ask_pool(it);
    }
}

static void forget(trp_http_exchange *http)
{
    exchange *it = (exchange *)http;
    if (it->counted)
        gateway_of(http)->under_way--;
    trp_free(it->query);
    trp_buffer_free(&it->work.reply.body);
}

const trp_http_calls gateway_calls = {sizeof(exchange), look_at_head, answer, forget};
#else
extern int gateway_request_is_left_out; // A file must not be empty.
#endif
