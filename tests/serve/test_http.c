// test_http.c: services asked over HTTP, by a client of raw sockets.
#include "served_model.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <serve/http_server.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { SOON = SUPPORT_SOON_MS, REPLY_MAX = 16 << 20 };

static troupe_service service;
static troupe_service_info info;
static int port;

// ---- a client

static struct sockaddr_in address_of_it(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static int connect_to_it(void)
{
    struct sockaddr_in at = address_of_it();
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void send_all(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (now < 0)
            return; // The server has refused it; its reply says why.
        sent += (size_t)now;
    }
}

typedef struct reply {
    int code;   // 0: the connection was closed without one.
    char *text; // Head and body,
    char *body; // which is within it.
    size_t body_size, size;
} reply;

static void reply_free(reply *it)
{
    free(it->text);
    *it = (reply){0};
}

// Reads one reply, by its Content-Length.
static reply read_reply(int fd)
{
    reply it = {.text = malloc(REPLY_MAX + 1)};
    size_t wanted = SIZE_MAX;
    assert_non_null(it.text);
    while (it.size < REPLY_MAX && it.size < wanted) {
        struct pollfd until = {fd, POLLIN, 0};
        if (poll(&until, 1, SOON) != 1)
            fail_msg("no reply came within %d ms", SOON);
        size_t room = wanted == SIZE_MAX ? 1 : wanted - it.size;
        ssize_t got = recv(fd, it.text + it.size, room, 0);
        if (got <= 0)
            break;
        it.size += (size_t)got;
        it.text[it.size] = '\0';
        char *end = wanted == SIZE_MAX ? strstr(it.text, "\r\n\r\n") : NULL;
        if (!end)
            continue;
        const char *length = strcasestr(it.text, "Content-Length: ");
        it.body = end + 4;
        it.body_size = length ? strtoul(length + 16, NULL, 10) : 0;
        wanted = (size_t)(it.body - it.text) + it.body_size;
        assert_true(wanted <= REPLY_MAX);
    }
    it.text[it.size] = '\0';
    if (wanted != SIZE_MAX && it.size == wanted)
        (void)sscanf(it.text, "HTTP/1.1 %d", &it.code);
    return it;
}

static bool is_closed(int fd)
{
    struct pollfd until = {fd, POLLIN, 0};
    char byte;
    return poll(&until, 1, SOON) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

// One request on a connection of its own. NULL: the usual Host and Authorization; "": none.
typedef struct asked {
    const char *method, *path, *host, *authorization, *headers;
    const void *body;
    size_t size;
} asked;

static size_t write_head(const asked *what, char *out, size_t capacity)
{
    char host[80], authorization[160];
    (void)snprintf(host, sizeof host, "Host: 127.0.0.1:%d\r\n", port);
    (void)snprintf(authorization, sizeof authorization, "Authorization: Bearer %s\r\n", info.token);
    int used = snprintf(out, capacity, "%s %s HTTP/1.1\r\n%s%s%s", what->method, what->path,
                        what->host ? what->host : host,
                        what->authorization ? what->authorization : authorization,
                        what->headers ? what->headers : "");
    if (what->body)
        used +=
            snprintf(out + used, capacity - (size_t)used, "Content-Length: %zu\r\n", what->size);
    used += snprintf(out + used, capacity - (size_t)used, "\r\n");
    return (size_t)used;
}

static void ask_on(int fd, asked what)
{
    char head[2000];
    send_all(fd, head, write_head(&what, head, sizeof head));
    if (what.body)
        send_all(fd, what.body, what.size);
}

static reply ask(asked what)
{
    int fd = connect_to_it();
    ask_on(fd, what);
    reply got = read_reply(fd);
    (void)close(fd);
    return got;
}

#define JSON "Content-Type: application/json\r\n"
#define RAW "Content-Type: application/octet-stream\r\n"
#define SHAPE "X-Troupe-Dtype: float32\r\nX-Troupe-Shape: 2,4\r\n"

static asked post(const char *json)
{
    return (asked){"POST", "/served", .headers = JSON, .body = json, .size = strlen(json)};
}

static asked get(const char *path)
{
    return (asked){.method = "GET", .path = path};
}

static void assert_code(asked what, int code, const char *text)
{
    reply got = ask(what);
    if (got.code != code || (text && !strstr(got.text, text)))
        fail_msg("%s %s (%s): expected %d with '%s', got %d: %s", what.method, what.path,
                 what.headers ? what.headers : "", code, text ? text : "", got.code, got.text);
    if (strstr(got.text, info.token))
        fail_msg("the token is in: %s", got.text);
    reply_free(&got);
}

static void serve(const troupe_serve_options *how)
{
    troupe_must(troupe_serve_as(&troupe_model_served, NULL, "/served", &service, how));
    troupe_must(troupe_service_info_get(service, &info));
    assert_int_equal(sscanf(info.url, "http://127.0.0.1:%d/served", &port), 1);
    assert_int_equal(strlen(info.token), 64);
}
#define serve(...)                                                                                 \
    serve(TROUPE_OPTIONS(troupe_serve_options, .http = TROUPE_HTTP_LOOPBACK, __VA_ARGS__))

static int begin(void **state)
{
    (void)state;
    shared = support_zeros(shared, sizeof *shared);
    shared->driver = getpid();
    return 0;
}

// ---- predictions

// G15: POST of the route gives what forward gives, as JSON and as raw elements, to the bit.
static void test_predictions_over_http(void **state)
{
    (void)state;
    static const char json[] = "{\"instances\": [[0.1, 2, 3, 4], [5, -6.25, 7, 1e-3]]}";
    const float in[2][ROW] = {{0.1f, 2, 3, 4}, {5, -6.25f, 7, 1e-3f}};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, 2, ROW), y;
    troupe_instance *instance;
    serve(.replicas = 2);
    troupe_must(troupe_model_open(served, NULL, NULL, &instance));
    troupe_must(troupe_model_forward(instance, &x, &y));
    int fd = connect_to_it(); // All on one connection.
    for (int i = 0; i < 20; i++) {
        ask_on(fd, post(json));
        reply got = read_reply(fd);
        assert_int_equal(got.code, 200);
        assert_non_null(strstr(got.text, "Content-Type: application/json"));
        float out[2][OUT];
        assert_int_equal(sscanf(got.body, "{\"predictions\": [[%f, %f, %f], [%f, %f, %f]]}",
                                &out[0][0], &out[0][1], &out[0][2], &out[1][0], &out[1][1],
                                &out[1][2]),
                         6);
        assert_memory_equal(out, y.data, sizeof out);
        reply_free(&got);
        ask_on(fd, (asked){"POST", "/served", .headers = RAW SHAPE, .body = in, .size = sizeof in});
        got = read_reply(fd);
        assert_int_equal(got.code, 200);
        assert_non_null(strstr(got.text, "X-Troupe-Dtype: float32\r\n"));
        assert_non_null(strstr(got.text, "X-Troupe-Shape: 2,3\r\n"));
        assert_int_equal(got.body_size, sizeof out);
        assert_memory_equal(got.body, y.data, sizeof out);
        reply_free(&got);
    }
    // Of many rows, which come and go in many pieces.
    enum { MANY = 50000 };
    float *many = calloc(MANY, ROW * sizeof *many);
    assert_non_null(many);
    fill_rows(many, MANY, 1);
    x = troupe_tensor_of(TROUPE_FLOAT32, many, MANY, ROW);
    troupe_must(troupe_model_forward(instance, &x, &y));
    ask_on(fd, (asked){"POST", "/served",
                       .headers = RAW "X-Troupe-Dtype: float32\r\nX-Troupe-Shape: 50000,4\r\n",
                       .body = many, .size = MANY * ROW * sizeof *many});
    reply got = read_reply(fd);
    assert_int_equal(got.code, 200);
    assert_int_equal(got.body_size, MANY * OUT * sizeof(float));
    assert_memory_equal(got.body, y.data, got.body_size);
    reply_free(&got);
    free(many);
    (void)close(fd);
    troupe_model_close(&instance);
    troupe_must(troupe_service_info_get(service, &info));
    assert_int_equal(info.answered, 41);
    troupe_must(troupe_service_stop(service));
    troupe_arena_reset();
}

static void test_pages(void **state)
{
    (void)state;
    serve(.queue = 7);
    assert_code(post("{\"instances\": [[1, 2, 3, 4]]}"), 200, "predictions");
    assert_code(get("/served"), 200,
                "{\"route\": \"/served\", \"model\": \"served\", \"input\": {\"dtype\": "
                "\"float32\", \"shape\": [null, 4]}, \"answered\": 1, ");
    assert_code(get("/healthz"), 200, "{\"healthy\": true}");
    assert_code(get("/metrics"), 200, "\ntroupe_service_answered_total{route=\"/served\"} 1\n");
    assert_code(get("/metrics"), 200,
                "\ntroupe_service_latency_seconds_bucket{route=\"/served\",le=\"+Inf\"} 1\n");
    assert_code(get("/metrics"), 200,
                "\ntroupe_service_latency_seconds_count{route=\"/served\"} 1\n");
    troupe_must(troupe_service_stop(service));
}

// The numbers of each version are told apart, in a form that Prometheus's own checker takes.
static void test_metrics_of_versions(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "metrics");
    char *storage = support_path(folder, "a \"b\" \\c"), command[400], named[400];
    char *checkpoint = train_served(storage, "run", 4);
    serve(.replicas = 1);
    assert_code(get("/served"), 200, "\"serving\": {\"version\": \"\", \"weight\": 1, ");
    troupe_must(troupe_service_canary(service, checkpoint, 1));
    assert_code(post("{\"instances\": [[1, 2, 3, 4]]}"), 200, "predictions");
    assert_code(post("{\"instances\": [[1001, 2, 3, 4]]}"), 500, "a row that fails");
    assert_code(get("/served"), 200, "\"canary\": {\"version\": \"");
    (void)snprintf(named, sizeof named,
                   "\ntroupe_service_version_failures_total{route=\"/served\",version=\"%s/a "
                   "\\\"b\\\" \\\\c%s\",role=\"canary\"} 1\n",
                   folder, checkpoint + strlen(storage));
    reply got = ask(get("/metrics"));
    assert_non_null(strstr(got.body, named));
    assert_non_null(strstr(got.body, "\ntroupe_service_version_requests_total{route=\"/served\","
                                     "version=\"\",role=\"serving\"} 0\n"));
    assert_non_null(strstr(got.body, "role=\"canary\",le=\"+Inf\"} 1\n"));
    support_write_file(path, got.body, got.body_size);
    reply_free(&got);
    troupe_must(troupe_service_stop(service));
    bool found = system("command -v promtool >/dev/null 2>&1") == 0;
    (void)snprintf(command, sizeof command, "promtool check metrics <%s", path);
    int refused = found ? system(command) : 0;
    free(path);
    free(checkpoint);
    free(storage);
    support_directory_remove(folder);
    assert_int_equal(refused, 0);
    if (!found)
        skip();
}

// ---- who may ask

static void test_each_route_wants_the_token(void **state)
{
    (void)state;
    static const char json[] = "{\"instances\": [[1, 2, 3, 4]]}";
    char almost[100], shorter[100], basic[100], twice[300], right[100];
    serve(.replicas = 1);
    (void)snprintf(right, sizeof right, "Authorization: Bearer %s\r\n", info.token);
    (void)snprintf(almost, sizeof almost, "Authorization: Bearer %s\r\n", info.token);
    almost[22 + 63] = almost[22 + 63] == '0' ? '1' : '0';
    (void)snprintf(shorter, sizeof shorter, "Authorization: Bearer %.63s\r\n", info.token);
    (void)snprintf(basic, sizeof basic, "Authorization: Basic %s\r\n", info.token);
    (void)snprintf(twice, sizeof twice, "%s%s", right, right);
    const struct {
        const char *authorization;
        int code;
    } tokens[] = {
        {"", 401},
        {"Authorization: \r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {almost, 401},
        {shorter, 401},
        {basic, 401},
        {twice, 400},
        {right, 200},
    };
    const asked routes[] = {
        {.method = "GET", .path = "/served"},
        {.method = "GET", .path = "/healthz"},
        {.method = "GET", .path = "/metrics"},
        {"POST", "/served", .headers = JSON, .body = json, .size = sizeof json - 1},
        {.method = "GET", .path = "/nothing"},
        {.method = "DELETE", .path = "/served"},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        for (size_t j = 0; j < sizeof tokens / sizeof *tokens; j++) {
            asked what = routes[i];
            what.authorization = tokens[j].authorization;
            int code = tokens[j].code;
            if (code == 200)
                code = i == 4 ? 404 : i == 5 ? 405 : 200;
            assert_code(what, code, code == 401 ? "WWW-Authenticate: Bearer" : NULL);
        }
    troupe_must(troupe_service_info_get(service, &info));
    assert_int_equal(info.answered, 1);
    troupe_must(troupe_service_stop(service));
}

// Whoever was refused is heard again on the same connection.
static void test_a_refusal_closes_nothing(void **state)
{
    (void)state;
    serve(.replicas = 1);
    int fd = connect_to_it();
    const asked all[] = {
        {"POST", "/served", .authorization = "", .headers = JSON, .body = "{}", .size = 2},
        {"GET", "/nothing", .headers = NULL},
        {"POST", "/served", .headers = "Content-Type: text/html\r\n", .body = "{}", .size = 2},
        {"POST", "/served", .headers = JSON, .body = "{}", .size = 2},
        {"GET", "/healthz", .headers = NULL},
    };
    const int codes[] = {401, 404, 415, 400, 200};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        ask_on(fd, all[i]);
        reply got = read_reply(fd);
        assert_int_equal(got.code, codes[i]);
        reply_free(&got);
    }
    (void)close(fd);
    troupe_must(troupe_service_stop(service));
}

static void test_only_this_host_and_origin(void **state)
{
    (void)state;
    serve(.replicas = 1);
    char texts[10][120];
    const struct {
        const char *format;
        int code;
    } hosts[] = {
        {"Host: 127.0.0.1:%d\r\n", 200},
        {"Host: localhost:%d\r\n", 200},
        {"Host: 127.0.0.1\r\n", 403},
        {"Host: evil.example:%d\r\n", 403},
        {"Host: 127.0.0.1.evil.example:%d\r\n", 403},
        {"Host: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\n", 200},
        {"Host: 127.0.0.1:%d\r\nOrigin: http://localhost:%d\r\n", 403},
        {"Host: 127.0.0.1:%d\r\nOrigin: null\r\n", 403},
        {"Host: 127.0.0.1:%d\r\nOrigin: https://127.0.0.1:%d\r\n", 403},
        {"Host: 127.0.0.1:%d\r\nOrigin: http://evil.example\r\n", 403},
    };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(texts[i], sizeof texts[i], hosts[i].format, port, port);
#pragma GCC diagnostic pop
        assert_code((asked){"GET", "/healthz", .host = texts[i]}, hosts[i].code, NULL);
        // Before the token is looked at.
        if (hosts[i].code == 403)
            assert_code((asked){"GET", "/healthz", .host = texts[i], .authorization = ""}, 403,
                        NULL);
    }
    assert_code((asked){"GET", "/healthz", .host = ""}, 400, NULL); // libmicrohttpd's own.
    troupe_must(troupe_service_stop(service));
}

// ---- what may be asked

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    static const float in[2][ROW];
    static const char small[] = "{\"instances\": [[1, 2, 3, 4]]}";
    serve(.replicas = 1);
    assert_code(get("/serve"), 404, "no such route");
    assert_code(get("/served/"), 404, NULL);
    assert_code(get("/"), 404, NULL);
    assert_code((asked){"POST", "/healthz", .headers = JSON, .body = small, .size = 4}, 405,
                "Allow: GET\r\n");
    assert_code((asked){"PUT", "/served", .headers = JSON, .body = small, .size = 4}, 405,
                "Allow: GET, POST\r\n");
    assert_code((asked){"GET", "/served", .body = small, .size = 4}, 400, "no body");
    assert_code((asked){"POST", "/served", .headers = JSON}, 411, NULL);
    assert_code((asked){"POST", "/served", .headers = JSON "Transfer-Encoding: chunked\r\n"}, 411,
                NULL);
    assert_code((asked){"POST", "/served", .headers = "Content-Type: text/plain\r\n", .body = small,
                        .size = 4},
                415, "application/json");
    assert_code((asked){"POST", "/served", .body = small, .size = 4}, 415, NULL);
    assert_code((asked){"POST", "/served", .headers = JSON "Content-Length: 1048577\r\n"}, 413,
                "1048577 bytes, may have 1048576");
    assert_code((asked){"POST", "/served",
                        .headers = RAW "X-Troupe-Dtype: float32\r\nX-Troupe-Shape: 4194305,4\r\n"
                                       "Content-Length: 67108880\r\n"},
                413, "may have 67108864");
    assert_code((asked){"POST", "/served", .headers = JSON "Content-Length: -1\r\n"}, 400, NULL);
    assert_code((asked){"POST", "/served", .headers = RAW, .body = in, .size = sizeof in}, 400,
                "X-Troupe-Dtype");
    assert_code((asked){"POST", "/served", .headers = RAW SHAPE, .body = in, .size = 12}, 400,
                "12 bytes where its type and shape take 32");
    assert_code((asked){"POST", "/served",
                        .headers = RAW "X-Troupe-Dtype: float64\r\nX-Troupe-Shape: 1,4\r\n",
                        .body = in, .size = sizeof in},
                400, "float64[1,4] where float32[?,4] was expected");
    assert_code(post("{\"instances\": [[1, 2, 3]]}"), 400,
                "float32[1,3] where float32[?,4] was expected");
    assert_code(post("{\"instances\": [[1, 2, 3, 4], [1]]}"), 400, "ragged in row 1");
    assert_code(post("{\"instances\": []}"), 400, "expected");
    assert_code(post("[[[[[[[[[[[[[[[[[[[["), 400, "deeper than 16");
    assert_code(post("nonsense"), 400, "TROUPE_MALFORMED");
    assert_code(post("{\"instances\": [[1001, 2, 3, 4]]}"), 500, "forward: a row that fails");
    assert_code(post("{\"instances\": [[1002, 2, 3, 4]]}"), 502, "TROUPE_PEER_LOST");
    assert_code(post(small), 200, NULL);
    troupe_must(troupe_service_stop(service));
}

static void test_a_full_queue_says_when_to_come_again(void **state)
{
    (void)state;
    static const char json[] = "{\"instances\": [[1, 2, 3, 4]]}";
    int fds[3];
    serve(.queue = 2);
    atomic_store(&shared->gate, 1);
    ask_on(fds[0] = connect_to_it(), post(json));
    support_await_counter(&shared->at_gate, 1);
    for (int i = 1; i < 3; i++)
        ask_on(fds[i] = connect_to_it(), post(json));
    while (info.queued < 2)
        troupe_must(troupe_service_info_get(service, &info));
    assert_code(post(json), 503, "Retry-After: 1\r\n");
    assert_code(post(json), 503, "2 requests wait for service '/served': 2 may");
    assert_code(get("/healthz"), 200, NULL); // Nothing else waits for the replica.
    atomic_store(&shared->gate, 0);
    for (int i = 0; i < 3; i++) {
        reply got = read_reply(fds[i]);
        assert_int_equal(got.code, 200);
        reply_free(&got);
        (void)close(fds[i]);
    }
    troupe_must(troupe_service_stop(service));
}

// ---- clients that are slow, broken or gone

static void *drip(void *user)
{
    static const char head[] =
        "GET /healthz HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int fd = *(int *)user;
    for (size_t i = 0; i < sizeof head - 1; i++) {
        if (send(fd, &head[i], 1, MSG_NOSIGNAL) != 1)
            return NULL;
        (void)usleep(20000);
    }
    fail_msg("the server heard all of a slow head");
    return NULL;
}

static void test_slow_clients_are_cut_off(void **state)
{
    (void)state;
    int head_ms = trp_http_limits.head_ms, body_ms = trp_http_limits.body_ms;
    pthread_t thread;
    char head[1000];
    trp_http_limits.head_ms = 400;
    trp_http_limits.body_ms = 400;
    serve(.replicas = 1);
    // A byte every 20 ms, which a time-out of inactivity would wait for for ever; no byte at all;
    // and a whole head whose body stays away.
    int slow = connect_to_it(), silent = connect_to_it(), half = connect_to_it();
    assert_int_equal(pthread_create(&thread, NULL, drip, &slow), 0);
    asked what = post("{\"instances\": [[1, 2, 3, 4]]}");
    send_all(half, head, write_head(&what, head, sizeof head));
    send_all(half, what.body, 5);
    assert_true(is_closed(slow));
    assert_true(is_closed(silent));
    assert_true(is_closed(half));
    (void)pthread_join(thread, NULL);
    (void)close(slow);
    (void)close(silent);
    (void)close(half);
    trp_http_limits.head_ms = head_ms; // On a busy machine this client is slow as well.
    trp_http_limits.body_ms = body_ms;
    assert_code(what, 200, NULL);
    troupe_must(troupe_service_stop(service));
}

// One that waits for its answer for longer is not cut off.
static void test_a_wait_for_an_answer_is_no_slowness(void **state)
{
    (void)state;
    int head_ms = trp_http_limits.head_ms, body_ms = trp_http_limits.body_ms;
    serve(.replicas = 1);
    atomic_store(&shared->gate, 1);
    int fd = connect_to_it(), other = connect_to_it();
    ask_on(fd, post("{\"instances\": [[1, 2, 3, 4]]}"));
    support_await_counter(&shared->at_gate, 1); // Its request is whole: limits hold from now on.
    trp_http_limits.head_ms = 200;
    trp_http_limits.body_ms = 200;
    assert_true(is_closed(other)); // That one was given 200 ms.
    (void)close(other);
    other = connect_to_it();
    assert_true(is_closed(other));
    (void)close(other);
    atomic_store(&shared->gate, 0);
    reply got = read_reply(fd);
    assert_int_equal(got.code, 200);
    reply_free(&got);
    (void)close(fd);
    troupe_must(troupe_service_stop(service));
    trp_http_limits.head_ms = head_ms;
    trp_http_limits.body_ms = body_ms;
}

static void test_broken_clients_harm_nobody(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /served HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost\r\n\r\n",
        "GET /\0x HTTP/1.1\r\n\r\n",
        "POST /served HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"};
    serve(.replicas = 1);
    srand(11);
    for (int i = 0; i < 200; i++) {
        int fd = connect_to_it();
        char noise[300];
        if (i % 2 == 0) {
            const char *text = broken[i / 2 % (sizeof broken / sizeof *broken)];
            send_all(fd, text, strlen(text));
        } else {
            for (size_t j = 0; j < sizeof noise; j++)
                noise[j] = (char)rand();
            send_all(fd, noise, sizeof noise);
        }
        (void)close(fd);
    }
    // A head of 40 KiB is more than is kept of one.
    char *long_head = malloc(40001);
    memset(long_head, 'a', 40000);
    long_head[40000] = '\0';
    int fd = connect_to_it();
    send_all(fd, "GET /healthz HTTP/1.1\r\nX-Long: ", 31);
    send_all(fd, long_head, 40000);
    send_all(fd, "\r\n\r\n", 4);
    reply got = read_reply(fd);
    assert_true(got.code == 0 || got.code >= 400);
    reply_free(&got);
    (void)close(fd);
    free(long_head);
    assert_code(post("{\"instances\": [[1, 2, 3, 4]]}"), 200, NULL);
    troupe_must(troupe_service_stop(service));
}

static void test_a_client_that_goes_is_forgotten(void **state)
{
    (void)state;
    serve(.replicas = 1);
    atomic_store(&shared->gate, 1);
    for (int i = 0; i < 5; i++) {
        int fd = connect_to_it();
        ask_on(fd, post("{\"instances\": [[1, 2, 3, 4]]}"));
        support_await_counter(&shared->at_gate, 1);
        while (info.queued + info.under_way < (uint64_t)i + 1)
            troupe_must(troupe_service_info_get(service, &info));
        (void)close(fd);
    }
    atomic_store(&shared->gate, 0);
    while (info.answered < 5)
        troupe_must(troupe_service_info_get(service, &info));
    troupe_must(troupe_service_stop(service));
}

// Connections beyond half of the descriptors wait until others have gone.
static void test_too_many_connections_wait(void **state)
{
    (void)state;
    enum { FILES = 100, CLIENTS = 60 };
    struct rlimit files, few;
    int fds[CLIENTS];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = (struct rlimit){FILES, files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    serve(.replicas = 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    int before = support_count_descriptors();
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_to_it();
    ask_on(fds[CLIENTS - 1], get("/healthz"));
    ask_on(fds[0], get("/healthz"));
    reply got = read_reply(fds[0]);
    assert_int_equal(got.code, 200);
    reply_free(&got);
    assert_in_range(support_count_descriptors() - before, CLIENTS, CLIENTS + FILES / 2);
    struct pollfd last = {fds[CLIENTS - 1], POLLIN, 0};
    assert_int_equal(poll(&last, 1, 0), 0);
    for (int i = 0; i < CLIENTS / 2; i++)
        (void)close(fds[i]);
    got = read_reply(fds[CLIENTS - 1]);
    assert_int_equal(got.code, 200);
    reply_free(&got);
    for (int i = CLIENTS / 2; i < CLIENTS; i++)
        (void)close(fds[i]);
    troupe_must(troupe_service_stop(service));
}

// ---- its end

static void *stop(void *status)
{
    *(troupe_status *)status = troupe_service_stop(service);
    return NULL;
}

// No more than before. Those of replicas' processes, of earlier ones too, are closed a moment
// later.
static bool has_descriptors(void *count)
{
    return support_count_descriptors() <= *(int *)count;
}

static void test_a_stop_answers_clients_first(void **state)
{
    (void)state;
    static const char json[] = "{\"instances\": [[1, 2, 3, 4]]}";
    enum { CLIENTS = 6 };
    int fds[CLIENTS], idle, descriptors = support_count_descriptors();
    troupe_status status;
    pthread_t thread;
    serve(.batch = 1);
    idle = connect_to_it();
    atomic_store(&shared->gate, 1);
    for (int i = 0; i < CLIENTS; i++)
        ask_on(fds[i] = connect_to_it(), post(json));
    while (info.queued + info.under_way < CLIENTS)
        troupe_must(troupe_service_info_get(service, &info));
    assert_int_equal(pthread_create(&thread, NULL, stop, &status), 0);
    while (!info.stopping)
        troupe_must(troupe_service_info_get(service, &info));
    assert_code(post(json), 503, "is being stopped");
    assert_code(get("/healthz"), 503, NULL);
    atomic_store(&shared->gate, 0);
    for (int i = 0; i < CLIENTS; i++) {
        reply got = read_reply(fds[i]);
        assert_int_equal(got.code, 200);
        reply_free(&got);
        (void)close(fds[i]);
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(status, TROUPE_OK);
    assert_true(is_closed(idle));
    (void)close(idle);
    assert_true(support_wait_until(has_descriptors, &descriptors, SOON));
}

// An answer that is larger than what the system keeps of it is sent to its end.
static void test_a_stop_sends_answers_to_their_ends(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    troupe_status status;
    pthread_t thread;
    int small = 65536, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    float *many = calloc(MANY, ROW * sizeof *many);
    assert_non_null(many);
    serve(.replicas = 1);
    struct sockaddr_in at = address_of_it();
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    ask_on(fd, (asked){"POST", "/served",
                       .headers = RAW "X-Troupe-Dtype: float32\r\nX-Troupe-Shape: 1000000,4\r\n",
                       .body = many, .size = MANY * ROW * sizeof *many});
    while (info.answered < 1)
        troupe_must(troupe_service_info_get(service, &info));
    assert_int_equal(pthread_create(&thread, NULL, stop, &status), 0);
    while (troupe_service_info_get(service, &info) == TROUPE_OK && !info.stopping)
        continue;
    reply got = read_reply(fd);
    assert_int_equal(got.code, 200);
    assert_int_equal(got.body_size, MANY * OUT * sizeof(float));
    reply_free(&got);
    (void)pthread_join(thread, NULL);
    assert_int_equal(status, TROUPE_OK);
    (void)close(fd);
    free(many);
}

static void test_a_stop_by_force_tells_clients(void **state)
{
    (void)state;
    int fds[3];
    serve(.batch = 1);
    ask_on(fds[0] = connect_to_it(), post("{\"instances\": [[1003, 2, 3, 4]]}"));
    support_await_counter(&shared->asked, 1);
    for (int i = 1; i < 3; i++)
        ask_on(fds[i] = connect_to_it(), post("{\"instances\": [[1, 2, 3, 4]]}"));
    while (info.queued < 2)
        troupe_must(troupe_service_info_get(service, &info));
    assert_int_equal(troupe_service_stop(service, 50), TROUPE_DEADLINE_EXCEEDED);
    for (int i = 0; i < 3; i++) {
        reply got = read_reply(fds[i]);
        assert_true(got.code == 0 || got.code == (i == 0 ? 502 : 503));
        reply_free(&got);
        (void)close(fds[i]);
    }
}

// A port that is taken is named; two services have a port and a token each.
static void test_ports_and_tokens(void **state)
{
    (void)state;
    serve(.replicas = 1);
    troupe_service first = service, second;
    troupe_service_info of_first = info;
    assert_int_equal(
        troupe_serve(served, NULL, "/second", &second, .http = TROUPE_HTTP_LOOPBACK, .port = port),
        TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "cannot listen at 127.0.0.1:"));
    serve(.replicas = 1);
    assert_string_not_equal(info.token, of_first.token);
    assert_string_not_equal(info.url, of_first.url);
    char other[100];
    (void)snprintf(other, sizeof other, "Authorization: Bearer %s\r\n", of_first.token);
    assert_code((asked){"GET", "/healthz", .authorization = other}, 401, NULL);
    troupe_must(troupe_service_stop(service));
    troupe_must(troupe_service_stop(first));
}

// The last: the runtime's stop ends a service, and tells a client that waits.
static void test_the_runtimes_stop_ends_a_service(void **state)
{
    (void)state;
    serve(.replicas = 1);
    int fd = connect_to_it(), other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ask_on(fd, post("{\"instances\": [[1003, 2, 3, 4]]}"));
    support_await_counter(&shared->asked, 1);
    (void)troupe_stop();
    reply got = read_reply(fd);
    assert_true(got.code == 0 || got.code >= 500);
    reply_free(&got);
    struct sockaddr_in at = address_of_it();
    assert_int_equal(connect(other, (const struct sockaddr *)&at, sizeof at), -1);
    assert_int_equal(errno, ECONNREFUSED);
    (void)close(fd);
    (void)close(other);
    assert_int_equal(support_count_descendants(getpid()), 0);
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .stop_timeout_ms = 100));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_predictions_over_http, begin),
        cmocka_unit_test_setup(test_pages, begin),
        cmocka_unit_test_setup(test_metrics_of_versions, begin),
        cmocka_unit_test_setup(test_each_route_wants_the_token, begin),
        cmocka_unit_test_setup(test_a_refusal_closes_nothing, begin),
        cmocka_unit_test_setup(test_only_this_host_and_origin, begin),
        cmocka_unit_test_setup(test_what_is_wrong_is_named, begin),
        cmocka_unit_test_setup(test_a_full_queue_says_when_to_come_again, begin),
        cmocka_unit_test_setup(test_slow_clients_are_cut_off, begin),
        cmocka_unit_test_setup(test_a_wait_for_an_answer_is_no_slowness, begin),
        cmocka_unit_test_setup(test_broken_clients_harm_nobody, begin),
        cmocka_unit_test_setup(test_a_client_that_goes_is_forgotten, begin),
        cmocka_unit_test_setup(test_too_many_connections_wait, begin),
        cmocka_unit_test_setup(test_a_stop_answers_clients_first, begin),
        cmocka_unit_test_setup(test_a_stop_sends_answers_to_their_ends, begin),
        cmocka_unit_test_setup(test_a_stop_by_force_tells_clients, begin),
        cmocka_unit_test_setup(test_ports_and_tokens, begin),
        cmocka_unit_test_setup(test_the_runtimes_stop_ends_a_service, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
