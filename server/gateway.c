// gateway.c: `troupe-server gateway`: HTTP on one port: routes of services, REST, the dashboard.
#include <server/program.h>
#include <stdio.h>

#ifdef TROUPE_HTTP
#include <arpa/inet.h>
#include <getopt.h>
#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <server/child.h>
#include <server/gateway.h>
#include <server/gateway_internal.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <train/state_folder.h>
#include <unistd.h>

enum {
    END_MS = 10000, // How long what is under way is waited for.
    REPLY_MS = 200, // How long replies are sent then.
    POLLED_MAX = 3 + 2 * GATEWAY_ROUTES_MAX,
};

typedef struct options {
    int port; // 0: not given.
    const char *listen, *name, *certificate, *key;
} options;

// ---- options

static int misused(const char *what)
{
    fprintf(stderr,
            "troupe-server gateway: %s\n"
            "usage: troupe-server gateway [--port N] [--listen ADDRESS --certificate PEM --key PEM "
            "[--name HOST]]\n",
            what);
    return PROGRAM_MISUSED;
}

static int read_options(int argc, char **argv, options *how)
{
    static const struct option all[] = {
        {"port", required_argument, NULL, 'p'}, {"listen", required_argument, NULL, 'l'},
        {"name", required_argument, NULL, 'n'}, {"certificate", required_argument, NULL, 'c'},
        {"key", required_argument, NULL, 'k'},  {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", all, NULL)) != -1;) {
        char *end;
        if (c == 'p') {
            long port = strtol(optarg, &end, 10);
            if (*end || port < 1 || port > UINT16_MAX)
                return misused("--port is a number from 1 to 65535");
            how->port = (int)port;
        } else if (c == 'l') {
            how->listen = optarg;
        } else if (c == 'n') {
            how->name = optarg;
        } else if (c == 'c') {
            how->certificate = optarg;
        } else if (c == 'k') {
            how->key = optarg;
        } else {
            return misused("an option is none of these");
        }
    }
    if (optind < argc)
        return misused("expected options alone");
    if (!how->certificate != !how->key)
        return misused("--certificate and --key go together");
    if (how->listen && !how->certificate)
        return misused("beyond this machine what is said has to be encrypted: --listen needs "
                       "--certificate and --key");
    return PROGRAM_DONE;
}

// ---- start

// The port of the gateway before, so that addresses stay as they are.
static int last_port(const char *state)
{
    trp_path path;
    trp_json whole, member;
    trp_arena arena = {0};
    unsigned char *text;
    size_t size;
    int port = 0;
    if (trp_path_make(&path, "%s/gateway.json", state) != TROUPE_OK ||
        trp_file_read(path.text, &text, &size) != TROUPE_OK)
        return 0;
    if (trp_json_parse((const char *)text, size, &whole) == TROUPE_OK &&
        trp_json_member(whole, "port", &member))
        (void)trp_json_read(&troupe_type_int, member, &arena, &port);
    trp_arena_clear(&arena);
    trp_free(text);
    return port > 0 && port <= UINT16_MAX ? port : 0;
}

// Nobody is to ask the address of the gateway before, which somebody else may have by now.
static troupe_status forget_where(const char *state, int port)
{
    trp_path path;
    char text[40];
    int size = snprintf(text, sizeof text, "{\"port\": %d}\n", port);
    TROUPE_TRY(trp_path_make(&path, "%s/gateway.json", state));
    return port == 0 ? TROUPE_OK : trp_file_replace(path.text, text, (size_t)size);
}

static troupe_status listen_somewhere(const options *how, trp_http_how *http, gateway *self)
{
    const int ports[] = {last_port(self->state.text), GATEWAY_PORT, 0};
    troupe_status status = TROUPE_OK;
    if (how->port > 0) {
        http->port = (uint16_t)how->port;
        return trp_http_server_start(http, &self->http);
    }
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        if (i == 0 && ports[i] == 0)
            continue;
        http->port = (uint16_t)ports[i];
        status = trp_http_server_start(http, &self->http);
        if (status != TROUPE_IO)
            break;
    }
    return status;
}

static troupe_status read_pem(const char *path, char **text)
{
    unsigned char *data;
    size_t size;
    trp_buffer out = {0};
    *text = NULL;
    if (!path)
        return TROUPE_OK;
    TROUPE_TRY(trp_file_read(path, &data, &size));
    trp_buffer_append(&out, data, size);
    trp_buffer_append(&out, "", 1);
    explicit_bzero(data, size);
    trp_free(data);
    *text = (char *)out.data;
    return out.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path) : TROUPE_OK;
}

static troupe_status start_http(const options *how, gateway *self)
{
    char *certificate = NULL, *key = NULL;
    trp_http_how http = {.calls = &gateway_calls,
                         .user = self,
                         .name = how->name ? how->name : how->listen,
                         .polled = true,
                         .headers = gateway_headers};
    if (how->listen && inet_pton(AF_INET, how->listen, &http.address) != 1)
        return troupe_fail(TROUPE_INVALID,
                           "--listen is \"%.100s\", expected an address as 10.0.0.1", how->listen);
    troupe_status status = read_pem(how->certificate, &certificate);
    if (status == TROUPE_OK)
        status = read_pem(how->key, &key);
    http.certificate = certificate;
    http.key = key;
    if (status == TROUPE_OK)
        status = listen_somewhere(how, &http, self);
    self->encrypted = certificate != NULL;
    if (key)
        explicit_bzero(key, strlen(key));
    trp_free(certificate);
    trp_free(key);
    return status;
}

// Where it is, for those who look for it.
static troupe_status say_where(const options *how, gateway *self)
{
    trp_path path;
    uint16_t port = trp_http_server_port(self->http);
    trp_buffer text = {0};
    (void)snprintf(self->base, sizeof self->base, "%s://%.80s:%u",
                   self->encrypted ? "https" : "http",
                   how->name     ? how->name
                   : how->listen ? how->listen
                                 : "127.0.0.1",
                   port);
    gateway_tokens_at(&self->tokens, port);
    trp_buffer_printf(&text, "{\"port\": %u, \"pid\": %d, \"url\": ", port, (int)getpid());
    trp_json_text(&text, self->base);
    trp_buffer_printf(&text, "}\n");
    troupe_status status = trp_path_make(&path, "%s/gateway.json", self->state.text);
    if (status == TROUPE_OK)
        status = trp_file_replace(path.text, text.data, text.size);
    trp_buffer_free(&text);
    return status;
}

static troupe_status start(const options *how, gateway *self)
{
    TROUPE_TRY(trp_state_folder_open(&self->state));
    TROUPE_TRY(trp_child_lock(self->state.text, "gateway", &self->lock));
    TROUPE_TRY(forget_where(self->state.text, last_port(self->state.text)));
    TROUPE_TRY(gateway_tokens_open(&self->tokens, self->state.text));
    TROUPE_TRY(gateway_routes_open(&self->routes, self->state.text));
    const trp_web_options web = {
        .state = self->state.text, .figures = gateway_routes_figures, .user = &self->routes};
    TROUPE_TRY(gateway_pool_open(&web, GATEWAY_WORKERS, &self->pool));
    TROUPE_TRY(gateway_pool_open(&web, 1, &self->submits));
    TROUPE_TRY(start_http(how, self));
    return say_where(how, self);
}

// ---- turns

// How long to wait: until what is due, of the gateway's own and of libmicrohttpd.
static int wait_ms(const gateway *self, int64_t until_ms)
{
    int most = trp_http_server_timeout_ms(self->http);
    int64_t left = until_ms < 0 ? -1 : until_ms - trp_clock_ms();
    if (until_ms >= 0 && left < 0)
        left = 0;
    if (left < 0 || (most >= 0 && most < left))
        return most;
    return (int)left;
}

static void turn(gateway *self, int signals, int64_t until_ms)
{
    struct pollfd polled[POLLED_MAX] = {{signals, POLLIN, 0},
                                        {trp_http_server_fd(self->http), POLLIN, 0}};
    size_t count = 2;
    gateway_routes_poll(&self->routes, polled, POLLED_MAX, &count, &until_ms);
    if (poll(polled, count, wait_ms(self, until_ms)) < 0)
        return; // Interrupted.
    if (polled[0].revents != 0) {
        struct signalfd_siginfo said;
        (void)!read(signals, &said, sizeof said);
        self->ending = true;
    }
    gateway_routes_turn(&self->routes, polled + 2);
    trp_http_server_turn(self->http); // Also of what was resumed in this turn.
}

// What is under way is answered, or told that it was lost, and sent. What hangs is left.
static void end(gateway *self, int signals)
{
    int64_t until_ms = trp_clock_ms() + END_MS;
    self->ending = true; // Also where its folder was removed: nothing new is taken on.
    while (self->under_way > 0 && trp_clock_ms() < until_ms)
        turn(self, signals, until_ms);
    bool hangs = !gateway_pool_close(&self->pool, REPLY_MS);
    hangs = !gateway_pool_close(&self->submits, REPLY_MS) || hangs;
    gateway_routes_close(&self->routes);
    until_ms = trp_clock_ms() + REPLY_MS;
    do
        trp_http_server_turn(self->http);
    while (self->under_way > 0 && trp_clock_ms() < until_ms && usleep(1000) == 0);
    if (!hangs) {
        trp_http_server_stop(&self->http);
        return;
    }
    // The process may stay as long as its thread waits in the kernel: the next gateway needs not.
    fprintf(stderr, "troupe-server gateway: a disk, the train server or a stored program hangs: "
                    "requests that wait for it are not answered\n");
    trp_http_server_leave(self->http);
    (void)close(self->lock);
    _exit(PROGRAM_DONE);
}

static int open_signals(void)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

int program_gateway(int argc, char **argv)
{
    static gateway self;
    options how = {0};
    int misuse = read_options(argc, argv, &how), signals = open_signals();
    if (misuse != PROGRAM_DONE)
        return misuse;
    (void)prctl(PR_SET_DUMPABLE, 0); // Tokens are in no core, and no debugger's.
    troupe_status status = start(&how, &self);
    if (status != TROUPE_OK) {
        fprintf(stderr, "troupe-server gateway: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    // Where its folder is removed it is not made again under the hands of who does that.
    while (!self.ending && !self.routes.lost)
        turn(&self, signals, -1);
    end(&self, signals);
    return PROGRAM_DONE;
}

#else

int program_gateway(int argc, char **argv)
{
    (void)argc, (void)argv;
    fprintf(stderr, "troupe-server gateway: this program was built without libmicrohttpd, which "
                    "HTTP needs\n");
    return PROGRAM_FAILED;
}

#endif
