// gateway_client.h: a client of raw sockets for tests of the gateway.
#ifndef GATEWAY_CLIENT_H
#define GATEWAY_CLIENT_H

#include <support.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOON = SUPPORT_SOON_MS, REPLY_MAX = 1 << 20 };

static atomic_int port; // Clients of other threads read it while a gateway is started.

static inline int connect_to_it(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static inline void send_all(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (now < 0)
            return;
        sent += (size_t)now;
    }
}

typedef struct reply {
    int code; // 0: none came.
    char *text, *body;
    size_t body_size;
} reply;

static inline void reply_free(reply *it)
{
    free(it->text);
    *it = (reply){0};
}

static inline reply read_reply(int fd)
{
    reply it = {.text = malloc(REPLY_MAX + 1)};
    size_t size = 0, wanted = SIZE_MAX;
    assert_non_null(it.text);
    while (size < REPLY_MAX && size < wanted) {
        struct pollfd until = {fd, POLLIN, 0};
        if (poll(&until, 1, SOON) != 1)
            fail_msg("no reply came within %d ms", SOON);
        ssize_t got = recv(fd, it.text + size, wanted == SIZE_MAX ? 1 : wanted - size, 0);
        if (got <= 0)
            break;
        size += (size_t)got;
        it.text[size] = '\0';
        char *stop = wanted == SIZE_MAX ? strstr(it.text, "\r\n\r\n") : NULL;
        if (!stop)
            continue;
        const char *length = strcasestr(it.text, "Content-Length: ");
        it.body = stop + 4;
        it.body_size = length ? strtoul(length + 16, NULL, 10) : 0;
        wanted = (size_t)(it.body - it.text) + it.body_size;
    }
    it.text[size] = '\0';
    if (wanted != SIZE_MAX && size == wanted)
        (void)sscanf(it.text, "HTTP/1.1 %d", &it.code);
    return it;
}

typedef struct asked {
    const char *method, *path, *host, *headers, *body; // NULL: the usual Host, "" none.
    const char *token;                                 // NULL: none.
} asked;

#define JSON "Content-Type: application/json\r\n"

static inline void ask_on(int fd, asked what)
{
    char head[2000], host[80];
    (void)snprintf(host, sizeof host, "Host: 127.0.0.1:%d\r\n", port);
    int used = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\n%s%s%s%s%s", what.method, what.path,
                        what.host ? what.host : host, what.token ? "Authorization: Bearer " : "",
                        what.token ? what.token : "", what.token ? "\r\n" : "",
                        what.headers ? what.headers : "");
    if (what.body)
        used += snprintf(head + used, sizeof head - (size_t)used, JSON "Content-Length: %zu\r\n",
                         strlen(what.body));
    used += snprintf(head + used, sizeof head - (size_t)used, "\r\n");
    send_all(fd, head, (size_t)used);
    if (what.body)
        send_all(fd, what.body, strlen(what.body));
}

static inline reply ask(asked what)
{
    int fd = connect_to_it();
    assert_true(fd >= 0);
    ask_on(fd, what);
    reply got = read_reply(fd);
    (void)close(fd);
    return got;
}

#endif
