// gateway_site.h: for tests of the gateway: one as a process of its own in a folder of its own, and
// a service before it that can be told to fail, to wait and to end.
#ifndef GATEWAY_SITE_H
#define GATEWAY_SITE_H

#include "gateway_client.h"

#include <runtime/host/file.h>
#include <serve/route_frame.h>
#include <server/gateway.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <troupe.h>

enum { COUNTED = 4096 };

// The first number of a row, where it is one of these, says what the service does.
#define ROW_ENDS 1001  // Its process ends.
#define ROW_BUSY 1002  // Its queue is full.
#define ROW_WAITS 1003 // There is no answer.
#define ROW_FAILS 1004 // The model fails.

static char *state;
static char program[4096];
static pid_t gateway;
static int ended = -1;
static char admin[65], routes_token[65];
static _Atomic int *computed; // How many times, by the first number of a row.
static pid_t service;

// ---- a service

static inline bool on_request(void *user, trp_route_reader *reader)
{
    trp_route_stream *stream = user;
    troupe_tensor x = trp_route_tensor(reader);
    float *rows = (float *)(void *)reader->body;
    int first = x.dtype == TROUPE_FLOAT32 && reader->head.size >= 4 ? (int)rows[0] : 0;
    uint64_t id = reader->head.id;
    if (first == ROW_ENDS)
        _exit(0);
    if (first == ROW_WAITS)
        return true;
    if (first == ROW_BUSY)
        return trp_route_put_failure(stream, id, TROUPE_BUSY, "much waits") == TROUPE_OK;
    if (first == ROW_FAILS)
        return trp_route_put_failure(stream, id, TROUPE_UNSUPPORTED, "a row that fails") ==
               TROUPE_OK;
    if (first >= 0 && first < COUNTED)
        atomic_fetch_add(&computed[first], 1);
    for (size_t i = 0; i < troupe_tensor_count(&x); i++)
        rows[i] *= 2;
    return trp_route_put_tensor(stream, TRP_ROUTE_ANSWER, id, &x) == TROUPE_OK;
}

// Answers on one connection at a time.
static inline void serve_at(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    (void)unlink(path);
    if (bind(listener, (const struct sockaddr *)&name, sizeof name) != 0 ||
        listen(listener, 16) != 0)
        _exit(1);
    for (;;) {
        trp_route_stream stream = {.fd = accept(listener, NULL, NULL), .reader.from_client = true};
        for (;;) {
            struct pollfd it = {stream.fd, POLLIN, 0};
            (void)poll(&it, 1, -1);
            if (trp_route_receive(&stream, on_request, &stream) != TROUPE_OK ||
                trp_route_flush(&stream) != TROUPE_OK)
                break;
        }
        trp_route_stream_clear(&stream);
    }
}

static inline void write_note(const char *file, const char *route, const char *socket)
{
    char text[600], path[4200];
    (void)snprintf(text, sizeof text,
                   "{\"route\": \"%s\", \"socket\": \"%s\", \"model\": \"doubled\", \"token\": "
                   "\"hidden\", \"input\": {\"dtype\": \"float32\", \"shape\": [null, 3]}}",
                   route, socket);
    (void)snprintf(path, sizeof path, "%s/routes/%s", state, file);
    troupe_must(trp_file_replace(path, text, strlen(text)));
}

static inline bool listens(void *context)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", (const char *)context);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = connect(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    (void)close(fd);
    return there;
}

static inline void start_service(void)
{
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/routes/doubled.sock", state);
    service = fork();
    if (service == 0) {
        (void)signal(SIGTERM, SIG_DFL);
        serve_at(path);
    }
    assert_true(support_wait_until(listens, path, SOON));
    write_note("doubled.json", "/doubled", "doubled.sock");
}

static inline void end_service(void)
{
    if (service > 0) {
        (void)kill(service, SIGKILL);
        (void)waitpid(service, NULL, 0);
    }
    service = 0;
}

// ---- the gateway

static inline void read_token(const char *name, char token[65])
{
    char *path = support_path(state, name), *text = support_read_file(path);
    struct stat about;
    assert_non_null(text);
    assert_int_equal(strlen(text), 65);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    memcpy(token, text, 64);
    token[64] = '\0';
    free(text);
    free(path);
}

static inline bool says_where(void *context)
{
    int pid = 0, at = 0;
    char *path = support_path(state, "gateway.json"), *text = support_read_file(path);
    (void)context;
    bool there =
        text && sscanf(text, "{\"port\": %d, \"pid\": %d", &at, &pid) == 2 && pid == gateway;
    if (there)
        atomic_store(&port, at);
    free(text);
    free(path);
    return there;
}

static inline void start_gateway(void)
{
    troupe_must(trp_gateway_start(state, program, &gateway, &ended));
    if (!support_wait_until(says_where, NULL, SOON)) {
        char *path = support_path(state, "gateway.log");
        support_print(support_read_file(path));
        fail_msg("the gateway has not come");
    }
}

static inline void read_tokens(void)
{
    read_token("token", admin);
    read_token("token.routes", routes_token);
}

static inline void reap_gateway(int expected)
{
    int status;
    assert_int_equal(waitpid(gateway, &status, 0), gateway);
    assert_int_equal(status, expected);
    (void)close(ended);
    ended = -1;
    gateway = 0;
}

// The usual port may be free for a moment, and any other test's gateway then takes it: that of the
// gateway before it is one that nobody else asks for.
static inline void choose_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    char *path = support_path(state, "gateway.json"), text[40];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    (void)close(fd);
    int length = snprintf(text, sizeof text, "{\"port\": %d}\n", ntohs(at.sin_port));
    support_write_file(path, text, (size_t)length);
    free(path);
}

static inline int begin(void **context)
{
    (void)context;
    state = support_directory_make();
    assert_int_equal(chmod(state, 0700), 0);
    choose_port();
    const char *tool = support_setting("TROUPE_TOOL");
    (void)snprintf(program, sizeof program, "%s", tool);
    (void)snprintf(strrchr(program, '/'), 20, "/troupe-server");
    computed = support_zeros(computed, COUNTED * sizeof *computed);
    start_gateway();
    read_tokens();
    return 0;
}

static inline int end(void **context)
{
    (void)context;
    if (gateway > 0) {
        troupe_must(trp_gateway_stop(state));
        reap_gateway(0);
    }
    end_service();
    support_directory_remove(state);
    return 0;
}

// ---- asking

static inline void assert_code(asked what, int code, const char *text)
{
    reply got = ask(what);
    if (got.code != code || (text && !strstr(got.text, text)))
        fail_msg("%s %s: expected %d with '%s', got %d: %s", what.method, what.path, code,
                 text ? text : "", got.code, got.text);
    if (strstr(got.text, admin) || strstr(got.text, routes_token))
        fail_msg("a token is in: %s", got.text);
    reply_free(&got);
}

static inline asked predict(float first, char text[100])
{
    (void)snprintf(text, 100, "{\"instances\": [[%g, 2, 3]]}", (double)first);
    return (asked){.method = "POST", .path = "/doubled", .body = text, .token = routes_token};
}

static inline bool is_served(void *context)
{
    reply got = ask((asked){.method = "GET", .path = context, .token = routes_token});
    bool there = got.code == 200;
    reply_free(&got);
    return there;
}

static inline bool is_not_served(void *context)
{
    return !is_served(context);
}

static char route_name[] = "/doubled";

static inline void serve_doubled(void)
{
    start_service();
    assert_true(support_wait_until(is_served, route_name, SOON));
}

#endif
