// stranger.c: see stranger.h.
#include "stranger.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BURST_NS = 10000000,
    LIMIT_MS = 200, // A full queue of those who want to come in takes nobody.
};

uint64_t stranger_roll(uint64_t *state) // Steele, Lea, Flood: SplitMix64.
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

// ---- how much it may work

static int64_t clock_of(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void stranger_budget_begin(stranger_budget *budget, double share)
{
    *budget = (stranger_budget){.share = share,
                                .began_ns = clock_of(CLOCK_MONOTONIC),
                                .cpu_began_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID)};
}

void stranger_pace(stranger_budget *budget)
{
    for (;;) {
        int64_t used = clock_of(CLOCK_PROCESS_CPUTIME_ID) - budget->cpu_began_ns;
        int64_t now = clock_of(CLOCK_MONOTONIC);
        int64_t due = (int64_t)((double)used / budget->share) - (now - budget->began_ns);
        if (due < -(int64_t)(BURST_NS / budget->share)) // Nothing is saved up.
            budget->began_ns = now - (int64_t)((double)(used + BURST_NS) / budget->share);
        if (due <= 0)
            return;
        struct timespec rest = {due / 1000000000, due % 1000000000};
        (void)nanosleep(&rest, NULL);
    }
}

// ---- connections

int stranger_connect(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[32];
    const char *port = strrchr(address, ':');
    if (port == NULL || (size_t)(port - address) >= sizeof host)
        return -1;
    memcpy(host, address, (size_t)(port - address));
    host[port - address] = '\0';
    to.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || ntohl(to.sin_addr.s_addr) >> 24 != 127)
        abort(); // These programs are for oneself alone.
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    int error = errno == EINPROGRESS && poll(&item, 1, LIMIT_MS) == 1 ? 0 : ETIMEDOUT;
    socklen_t size = sizeof error;
    if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)
        return fd;
    (void)close(fd);
    return -1;
}

bool stranger_send(int fd, const void *data, size_t size)
{
    return send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

bool stranger_greet(int fd, const char *mechanism)
{
    unsigned char greeting[64] = {0xff, [9] = 0x7f, [10] = 3}; // And the minor version, 0.
    memcpy(greeting + 12, mechanism, strlen(mechanism) <= 20 ? strlen(mechanism) : 20);
    return stranger_send(fd, greeting, sizeof greeting);
}

bool stranger_claim(int fd, uint8_t flags, uint64_t size)
{
    unsigned char head[9] = {flags};
    for (int i = 0; i < 8; i++)
        head[1 + i] = (unsigned char)(size >> (56 - 8 * i));
    return stranger_send(fd, head, sizeof head);
}

bool stranger_command(int fd, const void *body, size_t size)
{
    unsigned char frame[257] = {4, (unsigned char)size};
    if (size > 255)
        abort();
    memcpy(frame + 2, body, size);
    return stranger_send(fd, frame, 2 + size);
}

// "HELLO", version 1.0, 72 bytes of nothing, a key, a nonce of 8 bytes, a box of 80.
bool stranger_hello(int fd, uint64_t *state)
{
    unsigned char hello[200] = "\5HELLO\1";
    for (size_t i = 80; i < sizeof hello; i += 8) {
        uint64_t any = stranger_roll(state);
        memcpy(hello + i, &any, sizeof any);
    }
    return stranger_command(fd, hello, sizeof hello);
}

bool stranger_is_shut(int fd)
{
    char some[4096];
    ssize_t got;
    do
        got = recv(fd, some, sizeof some, MSG_DONTWAIT);
    while (got > 0 || (got < 0 && errno == EINTR));
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOTCONN);
}

void stranger_drop(int fd)
{
    struct linger none = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    (void)close(fd);
}
