// resolve.c: see resolve.h.
//
// getaddrinfo has no limit of time: a name server that is silent holds it for half a minute. So it
// runs on a thread of its own, which is left alone when its time is over, and there are only so
// many of them.
#include <runtime/link/resolve.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ASKING_MAX = 8, PORT_MAX = 65535 };

// A name that is asked for: of the thread that asks and of the one that waits.
typedef struct question {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool over, left; // It has ended; nobody waits for it any more.
    int failure;     // Of getaddrinfo.
    struct in_addr found;
    char host[TRP_NODE_ADDRESS_MAX];
} question;

static atomic_int asking;
static _Atomic(trp_resolver *) look_up = getaddrinfo;

void trp_resolve_by(trp_resolver *lookup)
{
    atomic_store(&look_up, lookup != NULL ? lookup : getaddrinfo);
}

// The port's number; -1: it is none.
static int port_of(const char *text)
{
    char *end;
    if (text[0] < '0' || text[0] > '9' || strlen(text) > 5)
        return -1;
    long port = strtol(text, &end, 10);
    return *end == '\0' && port <= PORT_MAX ? (int)port : -1;
}

// Splits "host:port"; false: it is none.
static bool split(const char *address, char host[TRP_NODE_ADDRESS_MAX], int *port)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || strlen(address) >= TRP_NODE_ADDRESS_MAX)
        return false;
    *port = port_of(colon + 1);
    snprintf(host, TRP_NODE_ADDRESS_MAX, "%.*s", (int)(colon - address), address);
    return *port >= 0;
}

// 0.0.0.0, 255.255.255.255 and groups are no machine's.
static bool is_one(struct in_addr host)
{
    uint32_t number = ntohl(host.s_addr);
    return number >> 24 != 0 && number >> 28 < 0xe;
}

bool trp_address_is_numeric(const char *address)
{
    char host[TRP_NODE_ADDRESS_MAX];
    struct in_addr number;
    int port;
    const char *colon = strrchr(address, ':');
    if (colon != NULL && colon[1] == '0') // Two addresses are the same if their texts are.
        return false;
    return split(address, host, &port) && port > 0 && inet_pton(AF_INET, host, &number) == 1 &&
           is_one(number);
}

bool trp_address_read(const void *text, size_t size, char address[TRP_NODE_ADDRESS_MAX])
{
    if (size == 0 || size >= TRP_NODE_ADDRESS_MAX || memchr(text, '\0', size) != NULL)
        return false;
    memcpy(address, text, size);
    address[size] = '\0';
    return trp_address_is_numeric(address);
}

static bool is_interface(const char *name, struct in_addr *found)
{
    struct ifaddrs *all;
    bool is = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *it = all; it != NULL && !is; it = it->ifa_next) {
        is = it->ifa_addr != NULL && it->ifa_addr->sa_family == AF_INET &&
             strcmp(it->ifa_name, name) == 0;
        if (is)
            *found = ((const struct sockaddr_in *)(const void *)it->ifa_addr)->sin_addr;
    }
    freeifaddrs(all);
    return is;
}

static void free_question(question *it)
{
    pthread_cond_destroy(&it->answered);
    pthread_mutex_destroy(&it->lock);
    trp_free(it);
}

static void *ask_main(void *user)
{
    question *it = user;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int failure = atomic_load(&look_up)(it->host, NULL, &hints, &found);
    pthread_mutex_lock(&it->lock);
    it->failure = failure;
    if (failure == 0)
        it->found = ((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr;
    it->over = true;
    bool left = it->left;
    pthread_cond_signal(&it->answered);
    pthread_mutex_unlock(&it->lock);
    if (failure == 0)
        freeaddrinfo(found);
    if (left)
        free_question(it);
    atomic_fetch_sub(&asking, 1);
    return NULL;
}

// Waits for the answer, and has the thread see to its question if there is none. Whether it came.
static bool await(question *it, int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&it->lock);
    while (!it->over && pthread_cond_timedwait(&it->answered, &it->lock, &until) != ETIMEDOUT)
        continue;
    bool over = it->over;
    it->left = !over;
    pthread_mutex_unlock(&it->lock);
    return over;
}

static question *make_question(const char *host)
{
    question *it = trp_alloc(sizeof *it);
    if (it == NULL)
        return NULL;
    pthread_mutex_init(&it->lock, NULL);
    trp_cond_open(&it->answered);
    snprintf(it->host, sizeof it->host, "%s", host);
    return it;
}

static troupe_status ask(const char *what, const char *host, int timeout_ms, struct in_addr *found)
{
    pthread_t thread;
    question *it = NULL;
    troupe_status status = TROUPE_OK;
    if (atomic_fetch_add(&asking, 1) >= ASKING_MAX)
        status =
            troupe_fail(TROUPE_BUSY, "%s: %d other names are being looked up", what, ASKING_MAX);
    else if ((it = make_question(host)) == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for looking a name up", what);
    else if ((status = trp_thread_start(&thread, TRP_RESOLVER_NAME, ask_main, it)) != TROUPE_OK)
        free_question(it);
    if (status != TROUPE_OK) {
        atomic_fetch_sub(&asking, 1);
        return status;
    }
    pthread_detach(thread);
    if (!await(it, timeout_ms))
        return troupe_fail(TROUPE_DEADLINE_EXCEEDED, "%s: looking up the name '%s' took over %d ms",
                           what, host, timeout_ms);
    int failure = it->failure;
    *found = it->found;
    free_question(it);
    return failure == 0 ? TROUPE_OK
                        : troupe_fail(TROUPE_NOT_FOUND, "%s: the host '%s' is not known: %s", what,
                                      host, gai_strerror(failure));
}

// Where this node is to listen: debian's /etc/hosts, for one, has a machine's own name there.
static void warn_of_loopback(const char *what, const char *host, struct in_addr found)
{
    char text[INET_ADDRSTRLEN];
    if (ntohl(found.s_addr) >> 24 == 127 && strncmp(host, "localhost", strlen("localhost")) != 0)
        trp_log(TRP_WARN,
                "%s: the name '%s' is %s here (see /etc/hosts), which no other machine can reach: "
                "give an address or a network interface, if one is to join",
                what, host, inet_ntop(AF_INET, &found, text, sizeof text));
}

troupe_status trp_address_resolve(const char *what, const char *address, bool wild, int timeout_ms,
                                  char numeric[TRP_NODE_ADDRESS_MAX])
{
    char host[TRP_NODE_ADDRESS_MAX], text[INET_ADDRSTRLEN];
    struct in_addr found;
    int port = -1;
    if (address == NULL || !split(address, host, &port) || (port == 0 && !wild))
        return troupe_fail(TROUPE_INVALID,
                           "%s is '%.64s': expected \"host:port\" of at most %d characters, the "
                           "port a number of %d to %d",
                           what, address != NULL ? address : "(null)", TRP_NODE_ADDRESS_MAX - 1,
                           wild ? 0 : 1, PORT_MAX);
    if (host[0] == '[' || strchr(host, ':') != NULL)
        return troupe_fail(TROUPE_INVALID, "%s is '%s': expected an IPv4 address or a name", what,
                           address);
    if (strcmp(host, "*") == 0)
        found.s_addr = INADDR_ANY;
    else if (inet_pton(AF_INET, host, &found) != 1 && !is_interface(host, &found)) {
        TROUPE_TRY(ask(what, host, timeout_ms, &found));
        if (wild)
            warn_of_loopback(what, host, found);
    }
    if (!is_one(found))
        return troupe_fail(TROUPE_INVALID,
                           "%s is '%s': expected the address of one machine, under which other "
                           "nodes reach it",
                           what, address);
    snprintf(numeric, TRP_NODE_ADDRESS_MAX, "%s:%d", inet_ntop(AF_INET, &found, text, sizeof text),
             port);
    return TROUPE_OK;
}
