// bench_call.c: what does a call to an actor in another process cost over ZeroMQ's unix sockets,
// and how many can be under way? (Over rings in shared memory: bench_actors.)
//
// A 64-byte payload goes to an isolated actor and comes back. The driver's threads are pinned to
// CPU 0 and the actor's process to CPU 0 (one CPU) or 1 (two CPUs); the peer, raw ZeroMQ, is placed
// alike and takes turns with us.
//
//     bench_call [--quick]
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { PAYLOAD = 64, IN_FLIGHT = 1000, SECONDS_MAX = 60 };

typedef struct echo {
    int64_t calls;
} echo;

static troupe_status echo_back(echo *self, const troupe_bytes *question, troupe_bytes *answer)
{
    void *copy = troupe_arena_alloc(question->size);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes", question->size);
    memcpy(copy, question->data, question->size);
    *answer = (troupe_bytes){copy, question->size};
    self->calls++;
    return TROUPE_OK;
}

// Moves the actor's whole process to a CPU; answers how many threads it has.
static troupe_status echo_pin(echo *self, const int *cpu, int *threads)
{
    (void)self;
    *threads = bench_pin(0, *cpu);
    return *threads > 0 ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "cannot move to CPU %d", *cpu);
}

TROUPE_ACTOR(echo, (echo_back, troupe_bytes, troupe_bytes), (echo_pin, int, int));

typedef struct placement {
    const char *latency, *rate, *limit; // Names of the figures.
    const char *text;
    int driver, actor; // CPUs
} placement;

static const placement placements[] = {
    {"call.rtt.ipc.block.1cpu", "call.rate.ipc.1_1.1cpu", "limit.rtt.shm.futex.1cpu",
     "one CPU: both processes and their I/O threads on CPU 0", 0, 0},
    {"call.rtt.ipc.block.2cpu", "call.rate.ipc.1_1", "limit.rtt.shm.futex.2cpu",
     "two CPUs: the driver on CPU 0, the actor's process on CPU 1", 0, 1},
};

typedef struct workload {
    int rounds;
    size_t round_trips_1cpu, round_trips_2cpu, calls;
} workload;

static const workload full = {9, 3000, 2000, 100000}, quick = {1, 300, 200, 5000};

static const unsigned char payload[PAYLOAD] = {1, 2, 3};

static troupe_status pin_both(echo_actor actor, const placement *where)
{
    int threads = 0;
    bench_pin(0, where->driver);
    return troupe_get(int, troupe_call(actor, echo_pin, where->actor), &threads);
}

static troupe_status call_once(echo_actor actor)
{
    troupe_bytes answer = {0};
    TROUPE_TRY(
        troupe_get(troupe_bytes, troupe_call(actor, echo_back, payload, PAYLOAD), &answer, 5000));
    bool same = answer.size == PAYLOAD && memcmp(answer.data, payload, PAYLOAD) == 0;
    troupe_arena_reset();
    return same ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "the answer is not what was sent");
}

static troupe_status round_trips(echo_actor actor, size_t count, bench_rounds *rounds)
{
    bench_samples samples;
    bench_samples_open(&samples, count);
    size_t warm_up = count / 5 + 100;
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < warm_up + count && status == TROUPE_OK; i++) {
        int64_t start = bench_now_ns();
        status = call_once(actor);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
    }
    if (status == TROUPE_OK)
        bench_rounds_add(rounds, bench_round_of(&samples));
    bench_samples_close(&samples);
    return status;
}

// Keeps IN_FLIGHT calls under way: one is made for each that is answered, the oldest first.
static troupe_status keep_in_flight(echo_actor actor, size_t count, double *rate)
{
    static troupe_ref refs[IN_FLIGHT];
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count + IN_FLIGHT; i++) {
        troupe_ref *slot = &refs[i % IN_FLIGHT];
        if (i >= IN_FLIGHT) {
            troupe_bytes answer;
            TROUPE_TRY(troupe_get(troupe_bytes, *slot, &answer, 5000));
        }
        if (i < count)
            *slot = troupe_call(actor, echo_back, payload, PAYLOAD);
        if (i % IN_FLIGHT == 0)
            troupe_arena_reset();
    }
    *rate = (double)count / ((double)(bench_now_ns() - start) / 1e9);
    return TROUPE_OK;
}

static bool measure_latency(echo_actor actor, const placement *where, const workload *work)
{
    bench_rounds ours = {0}, peers = {0}, limits = {0};
    size_t count = where->driver == where->actor ? work->round_trips_1cpu : work->round_trips_2cpu;
    char client[8], server[8], trips[16];
    snprintf(client, sizeof client, "%d", where->driver);
    snprintf(server, sizeof server, "%d", where->actor);
    snprintf(trips, sizeof trips, "%zu", count);
    const char *peer[] = {"compare/peer_zmq", "rtt", client, server, "64", trips, NULL};
    const char *limit[] = {"compare/peer_shm", "rtt", client, server, trips, NULL};
    troupe_status status = pin_both(actor, where);
    for (int i = 0; status == TROUPE_OK && bench_goes_on(i, work->rounds, SECONDS_MAX); i++) {
        status = round_trips(actor, count, &ours);
        bench_peer_round(peer, &peers);
        bench_peer_round(limit, &limits);
    }
    if (status != TROUPE_OK)
        bench_rounds_fail(&ours, "%s", troupe_last_error()->text);
    bench_print(&(bench_line){.name = where->limit,
                              .unit = "us",
                              .placement = where->text,
                              .better = BENCH_LOWER,
                              .ours = &limits,
                              .note = "plain shared memory and a futex: the limit of blocking"});
    return bench_print(&(bench_line){.name = where->latency,
                                     .unit = "us",
                                     .placement = where->text,
                                     .better = BENCH_LOWER,
                                     .ours = &ours,
                                     .peer = "zmq dealer/router ipc",
                                     .peers = &peers,
                                     .note = "isolated actor over ZeroMQ ipc, 64-byte payload"});
}

static bool measure_rate(echo_actor actor, const placement *where, const workload *work)
{
    bench_rounds ours = {0}, peers = {0};
    char client[8], server[8], calls[16];
    snprintf(client, sizeof client, "%d", where->driver);
    snprintf(server, sizeof server, "%d", where->actor);
    snprintf(calls, sizeof calls, "%zu", work->calls);
    const char *peer[] = {"compare/peer_zmq", "rate", client, server, "64", calls, "1000", NULL};
    double rate;
    troupe_status status = pin_both(actor, where);
    if (status == TROUPE_OK)
        status = keep_in_flight(actor, work->calls / 5 + IN_FLIGHT, &rate);
    for (int i = 0; status == TROUPE_OK && bench_goes_on(i, work->rounds, SECONDS_MAX); i++) {
        status = keep_in_flight(actor, work->calls, &rate);
        if (status == TROUPE_OK)
            bench_rounds_add(&ours, bench_round_plain(rate));
        bench_peer_round(peer, &peers);
    }
    if (status != TROUPE_OK)
        bench_rounds_fail(&ours, "%s", troupe_last_error()->text);
    return bench_print(&(bench_line){.name = where->rate,
                                     .unit = "calls/s",
                                     .placement = where->text,
                                     .better = BENCH_HIGHER,
                                     .ours = &ours,
                                     .peer = "zmq dealer/router ipc, 1000 in flight",
                                     .peers = &peers,
                                     .note =
                                         "isolated actor over ZeroMQ ipc, 64-byte payload, 1000 in "
                                         "flight"});
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 1, .transport = TROUPE_TRANSPORT_IPC));
    const workload *work = argc > 1 && strcmp(argv[1], "--quick") == 0 ? &quick : &full;
    echo_actor actor = troupe_spawn(echo, .place = TROUPE_PLACE_ISOLATED);
    bool good = true;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        const placement *where = &placements[i];
        // Without a second CPU, pinning the actor's process fails, and its figures are missing.
        good &= measure_latency(actor, where, work);
        good &= measure_rate(actor, where, work);
    }
    troupe_stop();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
