// test_gateway.c: the gateway, a process of its own, asked over HTTP, before services that may die.
// timeout: 120
#include "gateway_site.h"

#include <errno.h>
#include <pthread.h>
#include <server/web_internal.h>

// ---- who may ask what

// The cookie's header of a session that a new link begins.
static void log_in(char cookie[200])
{
    char link[TRP_GATEWAY_LINK_MAX], body[200];
    int at;
    troupe_must(trp_gateway_link(state, link));
    assert_int_equal(sscanf(link, "http://127.0.0.1:%d/login#", &at), 1);
    assert_int_equal(at, port);
    (void)snprintf(body, sizeof body, "{\"code\": \"%s\"}", strchr(link, '#') + 1);
    reply got = ask((asked){.method = "POST", .path = "/login", .body = body});
    assert_int_equal(got.code, 204);
    const char *set = strstr(got.text, "Set-Cookie: ");
    assert_non_null(set);
    assert_non_null(strstr(set, "; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200\r\n"));
    (void)snprintf(cookie, 200, "Cookie: other=1; %.*s\r\n", (int)strcspn(set + 12, ";"), set + 12);
    reply_free(&got);
}

typedef enum kind { OPEN, ROUTE, OWN, DATA, NOTHING_THERE } kind;
typedef struct row {
    const char *method;
    char path[100];
    kind kind;
} row;
typedef enum teller { NO_TOKEN, WRONG_TOKEN, ROUTES_TOKEN, ADMIN_TOKEN, COOKIE, SAID } teller;
typedef enum host { GOOD_HOST, LOCALHOST, ODD_HOST, NO_HOST, TWO_HOSTS, HOSTS } host;
typedef enum origin { NO_ORIGIN, GOOD_ORIGIN, ODD_ORIGIN, ORIGINS } origin;

// 0: an answer, or a refusal of what was asked; not of who asks.
static int code_for(const row *what, teller who, host to, origin from)
{
    bool get = strcmp(what->method, "GET") == 0;
    if (to == NO_HOST || (to == TWO_HOSTS && from != ODD_ORIGIN))
        return 400;
    if (to == ODD_HOST || from == ODD_ORIGIN || (to == LOCALHOST && from == GOOD_ORIGIN))
        return 403; // The good Origin is that of the other name.
    if (who == WRONG_TOKEN)
        return 401;
    if (who == COOKIE && !get && from == NO_ORIGIN)
        return 403;
    if (what->kind == OPEN)
        return 0;
    if (who == NO_TOKEN)
        return 401;
    if (who == ROUTES_TOKEN)
        return what->kind == DATA ? 403 : what->kind == NOTHING_THERE ? 404 : 0;
    return 0;
}

// Without the train server what needs it is answered 503.
static bool is_answer(int code)
{
    return (code >= 200 && code < 500 && code != 401 && code != 403) || code == 503;
}

static size_t list_rows(row *rows, size_t capacity)
{
    static const row own[] = {
        {"GET", "/", OPEN},         {"GET", "/login", OPEN},       {"GET", "/login.js", OPEN},
        {"GET", "/app.js", OPEN},   {"POST", "/app.js", OPEN},     {"GET", "/healthz", OWN},
        {"GET", "/doubled", ROUTE}, {"POST", "/doubled", ROUTE},   {"POST", "/login", OPEN},
        {"GET", "/api/v1/", DATA},  {"POST", "/api/v1/", DATA},    {"DELETE", "/api/v1/jobs", DATA},
        {"POST", "/metrics", DATA}, {"DELETE", "/metrics", DATA},  {"GET", "/none", NOTHING_THERE},
        {"DELETE", "/login", OPEN}, {"DELETE", "/doubled", ROUTE},
    };
    size_t count = sizeof own / sizeof *own;
    memcpy(rows, own, count * sizeof *rows);
    for (size_t i = 0; i < web_route_count; i++) {
        assert_true(count < capacity);
        row *it = &rows[count++];
        *it = (row){.method = web_routes[i].method, .kind = DATA};
        size_t used = 0;
        for (const char *at = web_routes[i].path; *at && used < sizeof it->path - 2; at++) {
            if (*at == '{') {
                it->path[used++] = '1';
                at = strchr(at, '}');
            } else {
                it->path[used++] = *at;
            }
        }
    }
    return count;
}

// F21.
static void test_who_may_ask_what(void **context)
{
    (void)context;
    row rows[100];
    char cookie[200], headers[600], hosts[HOSTS][200], origins[ORIGINS][100], wrong[65];
    size_t refused = 0;
    serve_doubled();
    log_in(cookie);
    memcpy(wrong, admin, sizeof wrong);
    wrong[63] = wrong[63] == '0' ? '1' : '0';
    (void)snprintf(hosts[GOOD_HOST], 200, "Host: 127.0.0.1:%d\r\n", port);
    (void)snprintf(hosts[LOCALHOST], 200, "Host: localhost:%d\r\n", port);
    (void)snprintf(hosts[ODD_HOST], 200, "Host: evil.example:%d\r\n", port);
    (void)snprintf(hosts[NO_HOST], 200, "X-Host: 1\r\n");
    (void)snprintf(hosts[TWO_HOSTS], 200, "Host: 127.0.0.1:%d\r\nHost: 127.0.0.1:%d\r\n", port,
                   port);
    origins[NO_ORIGIN][0] = '\0';
    (void)snprintf(origins[GOOD_ORIGIN], 100, "Origin: http://127.0.0.1:%d\r\n", port);
    (void)snprintf(origins[ODD_ORIGIN], 100, "Origin: http://127.0.0.1:%d\r\n", port + 1);
    const char *tokens[SAID] = {NULL, wrong, routes_token, admin, NULL};
    size_t count = list_rows(rows, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < count; i++)
        for (int who = 0; who < SAID; who++)
            for (int to = 0; to < HOSTS; to++)
                for (int from = 0; from < ORIGINS; from++) {
                    const row *what = &rows[i];
                    bool post = strcmp(what->method, "POST") == 0;
                    int expected = code_for(what, (teller)who, (host)to, (origin)from);
                    (void)snprintf(headers, sizeof headers, "%s%s", origins[from],
                                   who == COOKIE ? cookie : "");
                    reply got =
                        ask((asked){what->method, what->path, hosts[to], headers,
                                    post ? "{\"instances\": [[1, 2, 3]]}" : NULL, tokens[who]});
                    bool good = expected ? got.code == expected : is_answer(got.code);
                    if (!good)
                        fail_msg("%s %s (token %d, host %d, origin %d): expected %d, got %d: %s",
                                 what->method, what->path, who, to, from, expected, got.code,
                                 got.text);
                    // libmicrohttpd's own refusals have none of these.
                    if (to != NO_HOST &&
                        (!strstr(got.text, "\r\nX-Content-Type-Options: nosniff") ||
                         !strstr(got.text, "frame-ancestors 'none'")))
                        fail_msg("a header is missing: %s", got.text);
                    refused += expected != 0;
                    reply_free(&got);
                }
    assert_true(refused > 1000);
    assert_code((asked){.method = "GET", .path = "/api/v1/jobs", .token = admin}, 200, "\"jobs\"");
    assert_code((asked){.method = "GET", .path = "/metrics", .token = admin}, 200, "# HELP ");
    assert_code((asked){.method = "DELETE", .path = "/api/v1/jobs", .token = admin}, 405,
                "Allow: ");
    assert_code((asked){.method = "GET", .path = "/doubled", .token = routes_token}, 200,
                "\"model\": \"doubled\", \"input\"");
}

// Heads as no client should send them. "$H" is a good Host with its end of line, "$A" the token for
// all with its; "$L" and "$M" are long.
static const struct odd {
    const char *text;
    int code; // 0: the connection is closed without an answer.
} odd_requests[] = {
    {"GET /healthz HTTP/1.1\r\n$H$A\r\n", 200},
    {"GET /healthz HTTP/1.0\r\n$H$A\r\n", 200},
    {"\r\nGET /healthz HTTP/1.1\r\n$H$A\r\n", 200},
    {"GET /healthz?a=1&a=2&=&&%zz HTTP/1.1\r\n$H$A\r\n", 200},
    {"GET http://127.0.0.1/healthz HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET //healthz HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /healthz/ HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /healthz%00 HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /%68ealthz HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /../token HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /%2e%2e/token HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /api/v1/jobs/%2e%2e HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /api/v1/jobs/1%00 HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /api/v1/jobs/%ff HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET /api/v1/jobs/% HTTP/1.1\r\n$H$A\r\n", 404},
    {"GET * HTTP/1.1\r\n$H$A\r\n", 404},
    {"OPTIONS * HTTP/1.1\r\n$H$A\r\n", 405},
    {"get /healthz HTTP/1.1\r\n$H$A\r\n", 405},
    {"TRACE /healthz HTTP/1.1\r\n$H$A\r\n", 405},
    {"CONNECT /healthz HTTP/1.1\r\n$H$A\r\n", 405},
    {"GET /healthz\r\n$H$A\r\n", 400},
    {"GET /healthz HTTP/9.9\r\n$H$A\r\n", 505},
    {"GET /healthz HTTP/1.1 x\r\n$H$A\r\n", 400},
    {"GET\r\n\r\n", 0},
    {"\x16\x03\x01\x02\r\n\r\n", 0},
    {"GET /healthz HTTP/1.1\r\n$A\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: \r\n$A\r\n", 403},
    {"GET /healthz HTTP/1.1\r\n$H$H$A\r\n", 400},
    {"GET /healthz HTTP/1.1\r\n$H$A$A\r\n", 400},
    {"GET /healthz HTTP/1.1\r\n$HCookie: a=1\r\nCookie: b=2\r\n$A\r\n", 400},
    {"GET /healthz HTTP/1.1\r\n$HOrigin: null\r\n$A\r\n", 403},
    {"GET /healthz HTTP/1.1\r\n$HAuthorization: Bearer\r\n\r\n", 401},
    {"GET /healthz HTTP/1.1\r\n$HAuthorization: Basic YTph\r\n\r\n", 401},
    {"GET /healthz HTTP/1.1\r\n$Hno colon\r\n$A\r\n", 400},
    {"GET /healthz HTTP/1.1\r\n$HX-Long: $L\r\n$A\r\n", 431},
    {"GET /$L HTTP/1.1\r\n$H$A\r\n", 414},
    {"GET /healthz HTTP/1.1\r\n$H$M$A\r\n", 431},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "Content-Length: -1\r\n\r\n{}", 400},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "Content-Length: 0x2\r\n\r\n{}", 400},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "Content-Length: 2, 2\r\n\r\n{}", 400},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "Content-Length: 99999999999999999999\r\n\r\n{}", 413},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON
     "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
     411},
    {"POST /doubled HTTP/1.1\r\n$H$A" JSON "\r\n", 411},
    {"POST /doubled HTTP/1.1\r\n$H$AContent-Length: 2\r\n\r\n{}", 415},
    {"GET /healthz HTTP/1.1\r\n$H$AContent-Length: 2\r\n\r\n{}", 400},
};

static void expand(const char *text, trp_buffer *out)
{
    for (const char *at = text; *at; at++) {
        if (*at != '$') {
            trp_buffer_append(out, at, 1);
            continue;
        }
        at++;
        if (*at == 'H')
            trp_buffer_printf(out, "Host: 127.0.0.1:%d\r\n", port);
        else if (*at == 'A')
            trp_buffer_printf(out, "Authorization: Bearer %s\r\n", admin);
        for (int i = 0; *at == 'L' && i < 40000; i++)
            trp_buffer_append(out, "x", 1);
        for (int i = 0; *at == 'M' && i < 4000; i++)
            trp_buffer_printf(out, "X-%d: many\r\n", i);
    }
}

static void test_odd_requests(void **context)
{
    (void)context;
    serve_doubled();
    for (size_t i = 0; i < sizeof odd_requests / sizeof *odd_requests; i++) {
        const struct odd *it = &odd_requests[i];
        trp_buffer text = {0};
        expand(it->text, &text);
        assert_false(text.failed);
        int fd = connect_to_it();
        send_all(fd, text.data, text.size);
        reply got = read_reply(fd);
        if (got.code != it->code)
            fail_msg("%.100s: expected %d, got %d: %.200s", it->text, it->code, got.code, got.text);
        reply_free(&got);
        trp_buffer_free(&text);
        (void)close(fd);
    }
    assert_code((asked){.method = "GET", .path = "/healthz", .token = admin}, 200, NULL);
}

static void test_a_link_is_good_once(void **context)
{
    (void)context;
    char first[TRP_GATEWAY_LINK_MAX], second[TRP_GATEWAY_LINK_MAX], body[2][200], cookie[200];
    char headers[400];
    troupe_must(trp_gateway_link(state, first));
    troupe_must(trp_gateway_link(state, second)); // The first is good no more.
    (void)snprintf(body[0], 200, "{\"code\": \"%s\"}", strchr(first, '#') + 1);
    (void)snprintf(body[1], 200, "{\"code\": \"%s\"}", strchr(second, '#') + 1);
    assert_code((asked){.method = "POST", .path = "/login", .body = body[0]}, 403, "not good");
    assert_code((asked){.method = "POST", .path = "/login", .body = "{\"code\": \"\"}"}, 403, NULL);
    assert_code((asked){.method = "POST", .path = "/login", .body = "{\"code\": 1}"}, 400, NULL);
    assert_code((asked){.method = "POST", .path = "/login", .body = "[[[["}, 400, NULL);
    assert_code((asked){.method = "GET", .path = "/login"}, 200, "script src"); // Uses up nothing.
    assert_code((asked){.method = "POST", .path = "/login", .body = body[1]}, 204, "HttpOnly");
    assert_code((asked){.method = "POST", .path = "/login", .body = body[1]}, 403, "not good");
    // One that is too old: its time is of the machine's start.
    char *path = support_path(state, "gateway.code"), text[100];
    troupe_must(trp_gateway_link(state, first));
    (void)snprintf(text, sizeof text, "%s 0\n", strchr(first, '#') + 1);
    support_write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
    (void)snprintf(body[0], 200, "{\"code\": \"%s\"}", strchr(first, '#') + 1);
    assert_code((asked){.method = "POST", .path = "/login", .body = body[0]}, 403, "not good");
    assert_false(support_exists(path));
    free(path);
    // A session ends where it is told to.
    log_in(cookie);
    (void)snprintf(headers, sizeof headers, "%sOrigin: http://127.0.0.1:%d\r\n", cookie, port);
    const asked jobs = {.method = "GET", .path = "/api/v1/jobs", .headers = headers};
    assert_code(jobs, 200, NULL);
    assert_code((asked){.method = "POST", .path = "/logout", .headers = headers}, 204, "Max-Age=0");
    assert_code(jobs, 401, NULL);
}

static void test_the_dashboard_is_cached(void **context)
{
    (void)context;
    char headers[200];
    reply got = ask((asked){.method = "GET", .path = "/"});
    const char *tag = strstr(got.text, "ETag: ");
    assert_int_equal(got.code, 200);
    assert_non_null(tag);
    (void)snprintf(headers, sizeof headers, "If-None-Match: %.*s\r\n", (int)strcspn(tag + 6, "\r"),
                   tag + 6);
    reply_free(&got);
    assert_code((asked){.method = "GET", .path = "/", .headers = headers}, 304, NULL);
}

// ---- services

static void test_predictions(void **context)
{
    (void)context;
    char text[300];
    serve_doubled();
    int fd = connect_to_it(); // All on one connection.
    for (int i = 0; i < 50; i++) {
        ask_on(fd, predict((float)i, text));
        reply got = read_reply(fd);
        float y;
        int all = 0; // Set if the text came to its end.
        assert_int_equal(got.code, 200);
        assert_int_equal(sscanf(got.body, "{\"predictions\": [[%f, 4, 6]]}%n", &y, &all), 1);
        assert_true(y == (float)(2 * i) && all > 0);
        reply_free(&got);
    }
    // Raw elements come back raw, to the bit.
    const float x[6] = {0.1f, 2, -3, 1e-30f, 5, 6};
    char head[500];
    int used = snprintf(head, sizeof head,
                        "POST /doubled HTTP/1.1\r\nHost: localhost:%d\r\nAuthorization: Bearer "
                        "%s\r\nContent-Type: application/octet-stream\r\nX-Troupe-Dtype: float32"
                        "\r\nX-Troupe-Shape: 2,3\r\nContent-Length: %zu\r\n\r\n",
                        port, routes_token, sizeof x);
    send_all(fd, head, (size_t)used);
    send_all(fd, x, sizeof x);
    reply got = read_reply(fd);
    assert_int_equal(got.code, 200);
    assert_non_null(strstr(got.text, "X-Troupe-Shape: 2,3\r\n"));
    assert_int_equal(got.body_size, sizeof x);
    for (size_t i = 0; i < 6; i++) {
        float y;
        memcpy(&y, got.body + i * sizeof y, sizeof y);
        assert_true(y == 2 * x[i]);
    }
    reply_free(&got);
    (void)close(fd);
    assert_code(predict(ROW_BUSY, text), 503, "Retry-After: 1");
    assert_code(predict(ROW_FAILS, text), 500, "a row that fails");
    assert_code((asked){.method = "POST", .path = "/doubled", .body = "{}", .token = routes_token},
                400, "instances");
    assert_code((asked){.method = "GET", .path = "/api/v1/routes", .token = admin}, 200,
                "\"answered\": 51");
    (void)snprintf(
        text, sizeof text,
        "/token.routes')\\\" -H 'Content-Type: application/json' -d '{\\\"instances\\\": "
        "[[0, 0, 0]]}' 'http://127.0.0.1:%d/doubled'\"",
        port);
    assert_code((asked){.method = "GET", .path = "/api/v1/routes", .token = admin}, 200, text);
}

static void test_a_service_dies_and_returns(void **context)
{
    (void)context;
    char text[100], path[4200];
    serve_doubled();
    assert_code(predict(1, text), 200, NULL);
    // One is under way when the service ends.
    int fd = connect_to_it();
    ask_on(fd, predict(ROW_WAITS, text));
    assert_code(predict(ROW_ENDS, text), 502, "may have been computed");
    reply got = read_reply(fd);
    assert_int_equal(got.code, 502);
    assert_non_null(strstr(got.text, "may have been computed"));
    reply_free(&got);
    (void)close(fd);
    (void)waitpid(service, NULL, 0); // Until then its socket takes connections.
    assert_code(predict(2, text), 503, "nothing was computed");
    assert_code(predict(2, text), 503, "Retry-After: 1");
    serve_doubled();
    assert_code(predict(2, text), 200, "[[4");
    assert_int_equal(computed[2], 1);
    // Another service takes the route while one request is under way with the first.
    fd = connect_to_it();
    ask_on(fd, predict(ROW_WAITS, text));
    assert_code(predict(3, text), 200, NULL); // So it is there.
    (void)snprintf(path, sizeof path, "%s/routes/other.sock", state);
    pid_t first = service;
    service = fork();
    if (service == 0)
        serve_at(path);
    assert_true(support_wait_until(listens, path, SOON));
    write_note("doubled.json", "/doubled", "other.sock");
    do
        assert_code(predict(4, text), 200, NULL);
    while (computed[4] < 20);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(waitpid(first, NULL, 0), first);
    got = read_reply(fd);
    assert_int_equal(got.code, 502);
    reply_free(&got);
    (void)close(fd);
    assert_code(predict(5, text), 200, NULL);
    // It says that it has gone.
    (void)snprintf(path, sizeof path, "%s/routes/doubled.json", state);
    assert_int_equal(unlink(path), 0);
    assert_true(support_wait_until(is_not_served, route_name, SOON));
    assert_code(predict(5, text), 404, NULL);
}

// What is no description, and what would take the gateway's own names, is none.
static void test_odd_descriptions(void **context)
{
    (void)context;
    char path[4200];
    static char last[] = "/last";
    (void)snprintf(path, sizeof path, "%s/routes/odd.json", state);
    support_write_file(path, "{\"route\": ", 10);
    write_note("own.json", "/healthz", "doubled.sock");
    write_note("api.json", "/api/v1/jobs", "doubled.sock");
    write_note("script.json", "/app.js", "doubled.sock");
    write_note("up.json", "/up", "../other/it.sock");
    write_note("zlast.json", last, "doubled.sock");
    assert_true(support_wait_until(is_served, last, SOON));
    assert_code((asked){.method = "GET", .path = "/up", .token = admin}, 404, NULL);
    assert_code((asked){.method = "GET", .path = "/healthz", .token = admin}, 200, "healthy");
    assert_code((asked){.method = "GET", .path = "/app.js"}, 200, "text/javascript");
    assert_code((asked){.method = "GET", .path = "/api/v1/jobs", .token = admin}, 200, "\"jobs\"");
    assert_code(
        (asked){
            .method = "POST", .path = last, .body = "{\"instances\": [[1, 2, 3]]}", .token = admin},
        503, "nothing was computed"); // Nobody listens.
}

// ---- the process

static void test_there_is_one(void **context)
{
    (void)context;
    pid_t same;
    int fd, before = port;
    char command[9000], said[1000], *path;
    troupe_must(trp_gateway_start(state, program, &same, &fd));
    assert_int_equal(same, gateway);
    (void)close(fd);
    (void)snprintf(command, sizeof command, "TROUPE_STATE='%s' '%s' gateway", state, program);
    assert_int_equal(support_run(command, said, sizeof said), 1);
    assert_non_null(strstr(said, "a gateway runs in"));
    // The next one has the same port, and the same tokens.
    char token[65];
    memcpy(token, admin, sizeof token);
    assert_int_equal(kill(gateway, SIGKILL), 0);
    struct pollfd until = {ended, POLLIN, 0};
    assert_int_equal(poll(&until, 1, SOON), 1);
    reap_gateway(SIGKILL);
    assert_int_equal(trp_gateway_stop(state), TROUPE_NOT_FOUND);
    char link[TRP_GATEWAY_LINK_MAX];
    assert_int_equal(trp_gateway_link(state, link), TROUPE_NOT_FOUND);
    start_gateway();
    read_tokens();
    assert_int_equal(port, before);
    assert_string_equal(admin, token);
    troupe_must(trp_gateway_stop(state));
    reap_gateway(0);
    // Others could read the token.
    path = support_path(state, "token");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(support_run(command, said, sizeof said), 1);
    assert_non_null(strstr(said, "expected mode 0600"));
    free(path);
    (void)snprintf(command, sizeof command, "TROUPE_STATE='%s' '%s' gateway --listen 0.0.0.0",
                   state, program);
    assert_int_equal(support_run(command, said, sizeof said), 2);
    assert_non_null(strstr(said, "--listen needs --certificate"));
    (void)snprintf(command, sizeof command,
                   "cd '%s' && chmod 600 token && echo none >pem && TROUPE_STATE='%s' '%s' gateway "
                   "--certificate pem --key pem",
                   state, state, program);
    assert_int_equal(support_run(command, said, sizeof said), 1);
    assert_non_null(strstr(said, "does not take that certificate and key"));
}

// What is under way when it is asked to end is answered.
static void test_an_end_answers_first(void **context)
{
    (void)context;
    char text[100];
    serve_doubled();
    int fd = connect_to_it();
    assert_int_equal(kill(service, SIGSTOP), 0);
    ask_on(fd, predict(7, text));
    assert_code((asked){.method = "GET", .path = "/healthz", .token = admin}, 200, NULL);
    troupe_must(trp_gateway_stop(state));
    assert_int_equal(kill(service, SIGCONT), 0);
    reply got = read_reply(fd);
    assert_true(got.code == 200 || got.code == 503); // 503: it was not read yet.
    reply_free(&got);
    (void)close(fd);
    reap_gateway(0);
}

static void run_tool(const char *arguments, const char *expected)
{
    char command[9000], text[2000];
    (void)snprintf(command, sizeof command, "TROUPE_STATE='%s' TROUPE_COMMAND='%s' '%s' %s 2>&1",
                   state, support_setting("TROUPE_TOOL"), support_setting("TROUPE_TOOL"),
                   arguments);
    int code = support_run(command, text, sizeof text);
    if (code != 0 || !strstr(text, expected))
        fail_msg("%s: %d: %s", arguments, code, text);
}

// As the gateway knows them, and as they say themselves; files of a service that was killed stay.
static void test_routes_are_listed(void **context)
{
    (void)context;
    char text[100], command[9000], said[4000];
    run_tool("routes", "no service has a route in ");
    serve_doubled();
    for (int i = 0; i < 5; i++)
        assert_code(predict((float)i, text), 200, NULL);
    run_tool("routes", "/doubled             doubled                  -");
    run_tool("routes", "serving\n");
    run_tool("routes --json", "[{\"state\": \"serving\", \"route\": \"/doubled\", \"model\": "
                              "\"doubled\"");
    run_tool("routes --json", "\"answered\": 5, \"failed\": 0, \"refused\": 0, \"p50_s\": ");
    (void)snprintf(command, sizeof command, "TROUPE_STATE='%s' '%s' routes --json", state,
                   support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, said, sizeof said), 0);
    assert_null(strstr(said, "hidden"));
    assert_null(strstr(said, ".sock"));
    assert_null(strstr(said, admin));
    end_service();
    run_tool("routes", "gone\n");
    serve_doubled();
    troupe_must(trp_gateway_stop(state));
    reap_gateway(0);
    run_tool("routes", "no gateway answers: requests are not known");
    run_tool("routes --json", "\"replicas\": 0, \"pid\": 0, \"canary\": null}]");
}

// The token for all goes to the gateway alone.
static void test_routes_are_asked_past_a_proxy(void **context)
{
    (void)context;
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t size = sizeof name;
    char command[9000], said[4000];
    int proxy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(proxy, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(proxy, 4), 0);
    assert_int_equal(getsockname(proxy, (struct sockaddr *)&name, &size), 0);
    serve_doubled();
    (void)snprintf(command, sizeof command,
                   "unset no_proxy NO_PROXY; export http_proxy=http://127.0.0.1:%d "
                   "all_proxy=http://127.0.0.1:%d; TROUPE_STATE='%s' '%s' routes",
                   ntohs(name.sin_port), ntohs(name.sin_port), state,
                   support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, said, sizeof said), 0);
    assert_int_equal(accept(proxy, NULL, NULL), -1);
    assert_non_null(strstr(said, "serving\n"));
    assert_null(strstr(said, "no gateway answers"));
    (void)close(proxy);
}

// What moves a terminal's cursor is shown as what it is.
static void test_routes_are_shown_as_text(void **context)
{
    (void)context;
    char path[4200], command[9000], said[4000];
    static const char text[] = "{\"route\": \"/odd\", \"version\": \"v\\u001b[2J\", \"canary\": "
                               "{\"version\": \"w\\u001b[1m\", \"weight\": 0.5}}";
    (void)snprintf(path, sizeof path, "%s/routes/odd.json", state);
    support_write_file(path, text, sizeof text - 1);
    troupe_must(trp_gateway_stop(state));
    reap_gateway(0);
    (void)snprintf(command, sizeof command, "TROUPE_STATE='%s' '%s' routes", state,
                   support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, said, sizeof said), 0);
    assert_null(strchr(said, 0x1b));
    assert_non_null(strstr(said, "v\\x1b[2J "));
    assert_non_null(strstr(said, "w\\x1b[1m 50 %"));
}

static bool has_no_gateway(void *context)
{
    char url[TRP_GATEWAY_LINK_MAX];
    (void)context;
    return trp_gateway_url(state, url) == TROUPE_NOT_FOUND;
}

// Than that process.
static bool has_another(void *context)
{
    int pid = 0, at = 0;
    char *path = support_path(state, "gateway.json"), *text = support_read_file(path);
    bool there = text && sscanf(text, "{\"port\": %d, \"pid\": %d", &at, &pid) == 2 &&
                 pid != *(pid_t *)context && !has_no_gateway(NULL);
    if (there)
        atomic_store(&port, at);
    free(text);
    free(path);
    return there;
}

// The server finds the gateway that runs, starts the next one, and ends it with itself; where it is
// killed the gateway stays.
static void test_the_server_starts_it(void **context)
{
    (void)context;
    char *path = support_path(state, "lock"), *text;
    int server = 0;
    pid_t first = gateway;
    run_tool("server start --cpus 1", "was started");
    assert_code((asked){.method = "GET", .path = "/api/v1/jobs", .token = admin}, 200,
                "\"server\":true");
    run_tool("server status", "gateway  http://127.0.0.1:");
    assert_int_equal(kill(gateway, SIGKILL), 0);
    reap_gateway(SIGKILL);
    assert_true(support_wait_until(has_another, &first, SOON));
    text = support_read_file(path);
    assert_int_equal(sscanf(text, "%d", &server), 1);
    free(text);
    free(path);
    assert_int_equal(kill(server, SIGKILL), 0);
    serve_doubled(); // The gateway sees it without the server.
    run_tool("server start --cpus 1", "was started");
    run_tool("server stop", "");
    assert_true(support_wait_until(has_no_gateway, NULL, SOON));
}

// A stop that follows a start at once ends also a gateway that has only begun.
static void test_a_stop_at_once_leaves_none(void **context)
{
    (void)context;
    troupe_must(trp_gateway_stop(state));
    reap_gateway(0);
    for (int i = 0; i < 5; i++) {
        run_tool("server start --cpus 1", "was started");
        run_tool("server stop", "");
    }
    (void)usleep(300000); // Of one that was left it would be the beginning.
    assert_true(support_wait_until(has_no_gateway, NULL, SOON));
}

// Who removes the folders has nobody make them again meanwhile.
static void test_it_ends_with_its_folder(void **context)
{
    (void)context;
    char *path = support_path(state, "routes");
    assert_int_equal(rmdir(path), 0);
    struct pollfd until = {ended, POLLIN, 0};
    assert_int_equal(poll(&until, 1, SOON), 1);
    reap_gateway(0);
    assert_false(support_exists(path));
    free(path);
}

// ---- kill -9 under load

enum { CLIENTS = 4, LOAD_MAX = 1000 };
static atomic_int next_number;
static atomic_int answers[COUNTED];
static atomic_bool over;

static void *load(void *user)
{
    (void)user;
    while (!atomic_load(&over)) {
        char text[100];
        int fd = connect_to_it();
        if (fd < 0) {
            (void)usleep(1000);
            continue;
        }
        int number = atomic_fetch_add(&next_number, 1);
        if (number >= LOAD_MAX) {
            (void)close(fd);
            break;
        }
        asked what = predict((float)number, text);
        ask_on(fd, what);
        reply got = read_reply(fd);
        if (got.code == 200)
            atomic_fetch_add(&answers[number], 1);
        reply_free(&got);
        (void)close(fd);
    }
    return NULL;
}

static void test_kills_under_load(void **context)
{
    (void)context;
    pthread_t threads[CLIENTS];
    int answered = 0;
    serve_doubled();
    atomic_store(&next_number, 0);
    atomic_store(&over, false);
    memset((void *)answers, 0, sizeof answers);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load, NULL), 0);
    for (int kills = 1; kills <= 3; kills++) {
        int until = kills * 60;
        int64_t late = support_now_ms() + SOON;
        while (atomic_load(&next_number) < until && support_now_ms() < late)
            (void)usleep(1000);
        assert_int_equal(kill(gateway, SIGKILL), 0);
        reap_gateway(SIGKILL);
        start_gateway();
    }
    int after = atomic_load(&next_number) + 50;
    int64_t late = support_now_ms() + SOON;
    while (atomic_load(&next_number) < after && atomic_load(&next_number) < LOAD_MAX &&
           support_now_ms() < late)
        (void)usleep(1000);
    atomic_store(&over, true);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < LOAD_MAX; i++) {
        answered += atomic_load(&answers[i]);
        assert_true(computed[i] <= 1); // Nothing twice,
        assert_true(atomic_load(&answers[i]) <= computed[i]);
    }
    assert_true(answered > 100);
}

// ---- a service of the library

TROUPE_STRUCT(tripled_config, (double, scale));
typedef struct tripled {
    float scale;
} tripled;

static troupe_status tripled_setup(tripled *self, const tripled_config *config, troupe_use *use)
{
    (void)use;
    self->scale = (float)config->scale;
    return TROUPE_OK;
}

static troupe_status tripled_forward(tripled *self, const troupe_tensor *x, troupe_tensor *y)
{
    size_t count = troupe_tensor_count(x);
    const float *in = x->data;
    float *out = troupe_arena_alloc(count * sizeof *out + 1);
    if (!out)
        return TROUPE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        out[i] = self->scale * in[i];
    *y = *x;
    y->data = out;
    return TROUPE_OK;
}

TROUPE_MODEL(tripled, tripled_config, troupe_none, tripled_setup, tripled_forward,
             .defaults = {.scale = 3}, .input = {TROUPE_FLOAT32, 1, {2}});

static void test_a_service_of_the_library(void **context)
{
    (void)context;
    static char route[] = "/tripled";
    char *path = support_path(state, "routes/tripled.sock");
    troupe_service tripler;
    asked what = {.method = "POST",
                  .path = route,
                  .token = routes_token,
                  .body = "{\"instances\": [[1, 2], [-3, 0.5]]}"};
    troupe_must(troupe_serve(tripled, NULL, route, &tripler, .socket = path));
    assert_true(support_wait_until(is_served, route, SOON));
    assert_code(what, 200, "{\"predictions\": [[3, 6], [-9, 1.5]]}");
    assert_code((asked){.method = "GET", .path = route, .token = routes_token}, 200,
                "\"model\": \"tripled\"");
    run_tool("routes --json", "\"replicas\": 1, \"pid\": ");
    what.body = "{\"instances\": [[1, 2, 3]]}";
    assert_code(what, 400, "float32[1,3] where float32[?,2] was expected");
    troupe_must(troupe_service_stop(tripler));
    assert_true(support_wait_until(is_not_served, route, SOON));
    assert_code(what, 404, NULL);
    free(path);
    troupe_arena_reset();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_may_ask_what, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_requests, begin, end),
        cmocka_unit_test_setup_teardown(test_a_link_is_good_once, begin, end),
        cmocka_unit_test_setup_teardown(test_the_dashboard_is_cached, begin, end),
        cmocka_unit_test_setup_teardown(test_predictions, begin, end),
        cmocka_unit_test_setup_teardown(test_a_service_dies_and_returns, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_descriptions, begin, end),
        cmocka_unit_test_setup_teardown(test_there_is_one, begin, end),
        cmocka_unit_test_setup_teardown(test_an_end_answers_first, begin, end),
        cmocka_unit_test_setup_teardown(test_routes_are_listed, begin, end),
        cmocka_unit_test_setup_teardown(test_routes_are_asked_past_a_proxy, begin, end),
        cmocka_unit_test_setup_teardown(test_routes_are_shown_as_text, begin, end),
        cmocka_unit_test_setup_teardown(test_the_server_starts_it, begin, end),
        cmocka_unit_test_setup_teardown(test_a_stop_at_once_leaves_none, begin, end),
        cmocka_unit_test_setup_teardown(test_it_ends_with_its_folder, begin, end),
        cmocka_unit_test_setup_teardown(test_kills_under_load, begin, end),
    };
    const struct CMUnitTest real[] = {
        cmocka_unit_test_setup_teardown(test_a_service_of_the_library, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL); // Forks, so before the runtime.
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    failed += cmocka_run_group_tests(real, NULL, NULL);
    return troupe_stop() + failed;
}
