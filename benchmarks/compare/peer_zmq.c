// peer_zmq.c: raw ZeroMQ as a peer of calls: a DEALER in one process and a ROUTER that echoes in
// another, over ipc, with zmq_msg and no copies beyond it; or over tcp on the loopback interface,
// encrypted with CURVE.
//
//     peer_zmq rtt[.tcp] <client cpu> <server cpu> <payload bytes> <round trips> [pause us]
//     peer_zmq rate[.tcp] <client cpu> <server cpu> <payload bytes> <round trips> <in flight>
//              [clients] [servers]
//
// Each end is pinned before its context exists, so that its I/O thread is on the same CPU; -1: it
// stays where it was started. A pause before each round trip lets both ends fall asleep. Several
// clients and servers have a process each; a client is connected to all servers and takes them in
// turn, with so many in flight of its own. Prints one round: microseconds (rtt) or round trips a
// second of all clients together (rate).
#include <harness.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

enum { ENDS_MAX = 16, ADDRESS_MAX = 80, KEY_TEXT = 41 };

// Made before the first fork, so that all ends have them. Empty: over ipc.
static char public_key[KEY_TEXT], secret_key[KEY_TEXT];

typedef struct ends {
    char addresses[ENDS_MAX][ADDRESS_MAX];
    int clients, servers;
} ends;

typedef struct work {
    int pause_us;
    size_t size, count, in_flight; // in_flight: of each client.
} work;

static void check(bool good, const char *what)
{
    if (!good)
        bench_die("peer_zmq: %s: %s", what, zmq_strerror(zmq_errno()));
}

static void set_key(void *socket, int option, const char key[KEY_TEXT])
{
    check(zmq_setsockopt(socket, option, key, KEY_TEXT) == 0, "a key");
}

static void encrypt(void *socket, int serves)
{
    check(zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &serves, sizeof serves) == 0, "CURVE_SERVER");
    set_key(socket, ZMQ_CURVE_SECRETKEY, secret_key);
    if (serves)
        return;
    set_key(socket, ZMQ_CURVE_PUBLICKEY, public_key);
    set_key(socket, ZMQ_CURVE_SERVERKEY, public_key);
}

static void *open_socket(void *context, int type)
{
    void *socket = zmq_socket(context, type);
    check(socket != NULL, "socket");
    int unlimited = 0, linger = 0;
    check(zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited) == 0, "SNDHWM");
    check(zmq_setsockopt(socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited) == 0, "RCVHWM");
    check(zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) == 0, "LINGER");
    if (public_key[0] != '\0')
        encrypt(socket, type == ZMQ_ROUTER);
    return socket;
}

static void place(int cpu)
{
    if (cpu != BENCH_ANY_CPU)
        bench_pin(0, cpu);
}

// Says where it is bound, and echoes until it is killed: the identity frame goes back first, then
// the payload.
static _Noreturn void serve(const char *address, int cpu, int told_fd)
{
    char bound[ADDRESS_MAX] = "";
    size_t size = sizeof bound;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    place(cpu);
    void *socket = open_socket(zmq_ctx_new(), ZMQ_ROUTER);
    check(zmq_bind(socket, address) == 0, "bind");
    check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) == 0, "LAST_ENDPOINT");
    check(write(told_fd, bound, sizeof bound) == (ssize_t)sizeof bound, "tell");
    for (;;) {
        zmq_msg_t identity, payload;
        zmq_msg_init(&identity);
        zmq_msg_init(&payload);
        check(zmq_msg_recv(&identity, socket, 0) >= 0, "receive");
        check(zmq_msg_recv(&payload, socket, 0) >= 0, "receive");
        check(zmq_msg_send(&identity, socket, ZMQ_SNDMORE) >= 0, "send");
        check(zmq_msg_send(&payload, socket, 0) >= 0, "send");
    }
}

static void send_one(void *socket, const char *payload, size_t size)
{
    zmq_msg_t message;
    check(zmq_msg_init_size(&message, size) == 0, "message");
    memcpy(zmq_msg_data(&message), payload, size);
    check(zmq_msg_send(&message, socket, 0) >= 0, "send");
}

static void receive_one(void *socket, size_t size)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    check(zmq_msg_recv(&message, socket, 0) == (int)size, "receive");
    zmq_msg_close(&message);
}

static bench_round round_trips(void *socket, const char *payload, const work *what)
{
    bench_samples samples;
    bench_samples_open(&samples, what->count);
    size_t warm_up = what->count / 5 + 100;
    for (size_t i = 0; i < warm_up + what->count; i++) {
        bench_pause(what->pause_us);
        int64_t start = bench_now_ns();
        send_one(socket, payload, what->size);
        receive_one(socket, what->size);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
    }
    bench_round round = bench_round_of(&samples);
    bench_samples_close(&samples);
    return round;
}

// Keeps `in_flight` messages under way: one is sent for each that comes back.
static double keep_in_flight(void *socket, const char *payload, size_t size, size_t count,
                             size_t in_flight)
{
    int64_t start = bench_now_ns();
    for (size_t sent = 0, received = 0; received < count;) {
        if (sent < count && sent - received < in_flight) {
            send_one(socket, payload, size);
            sent++;
        } else {
            receive_one(socket, size);
            received++;
        }
    }
    return (double)count / ((double)(bench_now_ns() - start) / 1e9);
}

// ---- Clients

static void *connect_all(void *context, const ends *all)
{
    void *socket = open_socket(context, ZMQ_DEALER);
    for (int i = 0; i < all->servers; i++)
        check(zmq_connect(socket, all->addresses[i]) == 0, "connect");
    return socket;
}

static double measure_rate(void *socket, const char *payload, const work *what)
{
    keep_in_flight(socket, payload, what->size, what->count / 5 + 100, what->in_flight);
    return keep_in_flight(socket, payload, what->size, what->count, what->in_flight);
}

// Each client in a process of its own: all have warmed up when the first meeting is over, and all
// are done at the second.
static double measure_many(const ends *all, const char *payload, const work *what)
{
    pthread_barrier_t *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    check(meeting != MAP_FAILED, "shared memory");
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(meeting, &shared, (unsigned)all->clients + 1);
    size_t share = what->count / (size_t)all->clients;
    for (int i = 0; i < all->clients; i++) {
        pid_t client = fork();
        check(client >= 0, "fork");
        if (client > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        void *socket = connect_all(zmq_ctx_new(), all);
        keep_in_flight(socket, payload, what->size, share / 5 + 100, what->in_flight);
        pthread_barrier_wait(meeting);
        keep_in_flight(socket, payload, what->size, share, what->in_flight);
        pthread_barrier_wait(meeting);
        _exit(EXIT_SUCCESS);
    }
    pthread_barrier_wait(meeting);
    int64_t start = bench_now_ns();
    pthread_barrier_wait(meeting);
    double passed = (double)(bench_now_ns() - start) / 1e9;
    return (double)(share * (size_t)all->clients) / passed;
}
static void measure(const ends *all, bool rate, const work *what)
{
    char *payload = calloc(1, what->size + 1);
    if (!payload)
        bench_die("peer_zmq: no memory");
    if (all->clients > 1) {
        bench_round_print(bench_round_plain(measure_many(all, payload, what)));
    } else {
        void *context = zmq_ctx_new(), *socket = connect_all(context, all);
        bench_round_print(rate ? bench_round_plain(measure_rate(socket, payload, what))
                               : round_trips(socket, payload, what));
        zmq_close(socket);
        zmq_ctx_term(context);
    }
    free(payload);
}

// Starts a server; *address is where it then is.
static pid_t start_server(int number, int cpu, char address[ADDRESS_MAX])
{
    int told[2];
    char wanted[ADDRESS_MAX] = "tcp://127.0.0.1:*";
    if (public_key[0] == '\0')
        snprintf(wanted, sizeof wanted, "ipc:///tmp/bench-peer-%d-%d.ipc", (int)getpid(), number);
    check(pipe(told) == 0, "pipe");
    pid_t server = fork();
    if (server == 0)
        serve(wanted, cpu, told[1]);
    check(server > 0, "fork");
    close(told[1]);
    if (read(told[0], address, ADDRESS_MAX) != ADDRESS_MAX)
        bench_die("peer_zmq: a server did not start");
    close(told[0]);
    return server;
}

int main(int argc, char **argv)
{
    bool tcp = argc > 1 && strstr(argv[1], ".tcp") != NULL;
    bool rate = argc >= 7 && argc <= 9 && strcmp(argv[1], tcp ? "rate.tcp" : "rate") == 0;
    if (!rate && !((argc == 6 || argc == 7) && strcmp(argv[1], tcp ? "rtt.tcp" : "rtt") == 0))
        bench_die("usage: peer_zmq rtt[.tcp] <client cpu> <server cpu> <bytes> <count> [pause us], "
                  "or\n"
                  "       peer_zmq rate[.tcp] <client cpu> <server cpu> <bytes> <count> <in flight>"
                  " [clients] [servers]");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (tcp)
        check(zmq_curve_keypair(public_key, secret_key) == 0, "keys");
    ends all = {.clients = argc > 7 ? atoi(argv[7]) : 1, .servers = argc > 8 ? atoi(argv[8]) : 1};
    if (all.clients < 1 || all.clients > ENDS_MAX || all.servers < 1 || all.servers > ENDS_MAX)
        bench_die("peer_zmq: there may be 1 to %d clients, and as many servers", ENDS_MAX);
    work what = {.size = strtoul(argv[4], NULL, 10),
                 .count = strtoul(argv[5], NULL, 10),
                 .in_flight = rate ? strtoul(argv[6], NULL, 10) : 1,
                 .pause_us = !rate && argc > 6 ? atoi(argv[6]) : 0};
    pid_t servers[ENDS_MAX] = {0};
    for (int i = 0; i < all.servers; i++)
        servers[i] = start_server(i, atoi(argv[3]), all.addresses[i]);
    place(atoi(argv[2]));
    measure(&all, rate, &what);
    for (int i = 0; i < all.servers; i++) {
        kill(servers[i], SIGKILL);
        waitpid(servers[i], NULL, 0);
        if (!tcp)
            unlink(all.addresses[i] + strlen("ipc://"));
    }
    return 0;
}
