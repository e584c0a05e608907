// fuzz_http.c: any bytes, read as what a client sends to the gateway: request lines, headers,
// bodies.
// "@@@@@" becomes the port, so that a Host can be good. What gets through has said who it is, and
// each answer is one that the gateway gives.
#ifdef TROUPE_HTTP
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <server/gateway_internal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// As the corpus has them.
#define ADMIN "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ROUTES "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum { ANSWERS_MAX = 1 << 20, LATE_MS = 20000, QUIET_TURNS = 2 };

static gateway self; // Without threads that read files: what gets so far is refused with 503.
static trp_buffer sent;

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool has(const char *text)
{
    return memmem(sent.data, sent.size, text, strlen(text)) != NULL;
}

// Who has no token gets the files of the page and the way to one.
static enum MHD_Result answer(trp_http_exchange *it)
{
    bool open = trp_web_has_page(it->path) || strcmp(it->path, "/login") == 0 ||
                strcmp(it->path, "/login.js") == 0;
    bool data = strncmp(it->path, "/api/", 5) == 0 || strcmp(it->path, "/metrics") == 0;
    require(open || has(ADMIN) || (!data && has(ROUTES)));
    require(it->headers[TRP_HTTP_HOST] != NULL);
    return gateway_calls.answer(it);
}

static void start(void)
{
    static trp_http_calls calls;
    calls = gateway_calls;
    calls.answer = answer;
    const trp_http_how how = {
        .calls = &calls, .user = &self, .polled = true, .headers = gateway_headers};
    require(trp_http_server_start(&how, &self.http) == TROUPE_OK);
    self.tokens.state = "/nonexistent"; // No code is good.
    strcpy(self.tokens.admin, ADMIN);
    strcpy(self.tokens.routes, ROUTES);
    gateway_tokens_at(&self.tokens, trp_http_server_port(self.http));
}

static int connect_to_it(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(trp_http_server_port(self.http))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static void put_bytes(const uint8_t *data, size_t size)
{
    char port[8];
    (void)snprintf(port, sizeof port, "%05u", trp_http_server_port(self.http));
    sent.size = 0;
    trp_buffer_append(&sent, data, size);
    for (size_t i = 0; i + 5 <= sent.size; i++)
        if (memcmp(sent.data + i, "@@@@@", 5) == 0)
            memcpy(sent.data + i, port, 5);
    require(!sent.failed);
}

// Sends all and takes all answers, until there is nothing more to do on either side: both are in
// this thread.
static void converse(int fd, trp_buffer *answers)
{
    size_t done = 0;
    for (int quiet = 0; quiet < QUIET_TURNS;) {
        char bytes[8192];
        struct pollfd ready[] = {{fd, (short)(POLLIN | (done < sent.size ? POLLOUT : 0)), 0},
                                 {trp_http_server_fd(self.http), POLLIN, 0}};
        trp_http_server_turn(self.http);
        int count = poll(ready, 2, 1);
        quiet = count == 0 ? quiet + 1 : 0;
        if ((ready[0].revents & POLLOUT) != 0) {
            ssize_t now = send(fd, sent.data + done, sent.size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
            done = now < 0 ? sent.size : done + (size_t)now;
        }
        ssize_t got = count > 0 ? recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) : -1;
        if (got > 0 && answers->size < ANSWERS_MAX)
            trp_buffer_append(answers, bytes, (size_t)got);
        if (got == 0)
            return;
    }
}

// A client that has gone leaves nothing.
static void leave(int fd)
{
    int64_t late_ms = trp_clock_ms() + LATE_MS;
    (void)close(fd);
    do {
        trp_http_server_turn(self.http);
        require(trp_clock_ms() < late_ms);
    } while (self.under_way > 0);
}

// Where an answer has a line of a status, it is one of those.
static void check(const trp_buffer *answers)
{
    static const int codes[] = {100, 200, 204, 400, 401, 403, 404, 405, 408,
                                411, 413, 414, 415, 431, 501, 503, 505};
    static const char version[] = "HTTP/1.";
    int code = 0;
    bool known = answers->size == 0;
    if (known)
        return;
    require(answers->size > 12 && memcmp(answers->data, version, strlen(version)) == 0);
    require(sscanf((const char *)answers->data + 8, " %3d", &code) == 1);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        known = known || codes[i] == code;
    require(known);
    require(memmem(answers->data, answers->size, ADMIN, 64) == NULL || has(ADMIN));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_buffer answers = {0};
    if (self.http == NULL)
        start();
    put_bytes(data, size);
    int fd = connect_to_it();
    converse(fd, &answers);
    leave(fd);
    trp_buffer_append(&answers, "", 1); // Also a text.
    answers.size--;
    check(&answers);
    trp_buffer_free(&answers);
    return 0;
}
#else
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}
#endif
