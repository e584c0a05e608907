// peer_zmq.c: raw ZeroMQ as a peer of calls: a DEALER in one process and a ROUTER that echoes in
// another, over ipc, with zmq_msg and no copies beyond it.
//
//     peer_zmq rtt <client cpu> <server cpu> <payload bytes> <round trips>
//     peer_zmq rate <client cpu> <server cpu> <payload bytes> <round trips> <in flight>
//
// Each end is pinned before its context exists, so that its I/O thread is on the same CPU. Prints
// one round: microseconds (rtt) or round trips a second (rate).
#include <harness.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

static void check(bool good, const char *what)
{
    if (!good)
        bench_die("peer_zmq: %s: %s", what, zmq_strerror(zmq_errno()));
}

static void *open_socket(void *context, int type)
{
    void *socket = zmq_socket(context, type);
    check(socket != NULL, "socket");
    int unlimited = 0, linger = 0;
    check(zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited) == 0, "SNDHWM");
    check(zmq_setsockopt(socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited) == 0, "RCVHWM");
    check(zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) == 0, "LINGER");
    return socket;
}

// Echoes until it is killed: the identity frame goes back first, then the payload.
static _Noreturn void serve(const char *address, int cpu)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(0, cpu);
    void *socket = open_socket(zmq_ctx_new(), ZMQ_ROUTER);
    check(zmq_bind(socket, address) == 0, "bind");
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

static bench_round round_trips(void *socket, const char *payload, size_t size, size_t count)
{
    bench_samples samples;
    bench_samples_open(&samples, count);
    size_t warm_up = count / 5 + 100;
    for (size_t i = 0; i < warm_up + count; i++) {
        int64_t start = bench_now_ns();
        send_one(socket, payload, size);
        receive_one(socket, size);
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

int main(int argc, char **argv)
{
    bool rate = argc == 7 && strcmp(argv[1], "rate") == 0;
    if (!rate && !(argc == 6 && strcmp(argv[1], "rtt") == 0))
        bench_die("usage: peer_zmq rtt|rate <client cpu> <server cpu> <bytes> <count> [in flight]");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char path[64], address[80];
    snprintf(path, sizeof path, "/tmp/bench-peer-%d.ipc", (int)getpid());
    snprintf(address, sizeof address, "ipc://%s", path);
    pid_t server = fork();
    if (server == 0)
        serve(address, atoi(argv[3]));
    check(server > 0, "fork");

    bench_pin(0, atoi(argv[2]));
    size_t size = strtoul(argv[4], NULL, 10), count = strtoul(argv[5], NULL, 10);
    char *payload = calloc(1, size + 1);
    void *context = zmq_ctx_new();
    void *socket = open_socket(context, ZMQ_DEALER);
    check(zmq_connect(socket, address) == 0, "connect");
    if (rate) {
        size_t in_flight = strtoul(argv[6], NULL, 10);
        keep_in_flight(socket, payload, size, count / 5 + 100, in_flight);
        bench_round_print(
            bench_round_plain(keep_in_flight(socket, payload, size, count, in_flight)));
    } else {
        bench_round_print(round_trips(socket, payload, size, count));
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(path);
    free(payload);
    return 0;
}
