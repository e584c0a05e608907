// bench_server.c: how soon does a train server do what is asked of it, a service answer over HTTP,
// and the repository keep a model?
//
//     bench_server [quick] [ROW...]
//
// server.submit: the time until a submission is acknowledged, while all CPUs are taken.
// server.submit.rate: submissions a second of eight clients, each of which waits for each.
// server.first_report.<cold|warm>: from a submission to its first report in the client. cold: the
// server has had no job of that program; warm: it has just done the same.
// server.jobs.<cold|warm>: jobs a second that do nothing, of as many programs, or of one.
// server.follow: from a report's making until its follower in another process is called with it; a
// step of the two ranks computes for 1 ms and ends at a barrier.
// The peer is Ray with two CPUs: its job server, and Ray Train (compare/peer_ray_server.py).
//
// repository.push.<bytes>: from a checkpoint on disk to a version of the repository.
// repository.open.<bytes>: from a version's name to an instance with its weights. The peer is
// MLflow (compare/peer_mlflow.py).
//
// Of the rows "serve.*" the model sums the 64 floats of a row; one replica has it, in a process of
// its own. wrk asks it over connections that are kept, one row a request (measure/load.sh), on the
// same CPUs. The peer is Ray Serve with one replica of the same (compare/peer_ray_serve.py), in
// turns with ours. Ours checks a token with each request, and Ray's has none.
//
// serve.p50: the median time of an answer, one connection, raw bytes.
// serve.rate.<connections>: requests a second, raw bytes.
// serve.json: requests a second of 16 connections, as JSON both ways.
#include "harness_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

enum {
    ROUNDS = 3,
    SECONDS_MAX = 420,
    PEER_SECONDS_MAX = 120, // For one round of Ray.
    WIDTH = 64,
    OUT_MAX = 4096,
};

TROUPE_STRUCT(adder_config, (int, unused));
typedef struct adder {
    int unused;
} adder;

static troupe_status adder_setup(adder *self, const adder_config *config, troupe_use *use)
{
    (void)use;
    self->unused = config->unused;
    return TROUPE_OK;
}

static troupe_status adder_forward(adder *self, const troupe_tensor *x, troupe_tensor *y)
{
    const float *in = x->data;
    float *out = troupe_arena_alloc(x->shape[0] * sizeof *out);
    if (!out)
        return TROUPE_NO_MEMORY;
    self->unused = 0;
    for (size_t r = 0; r < x->shape[0]; r++) {
        out[r] = 0;
        for (size_t i = 0; i < WIDTH; i++)
            out[r] += in[r * WIDTH + i];
    }
    *y = troupe_tensor_of(TROUPE_FLOAT32, out, x->shape[0], 1);
    return TROUPE_OK;
}

TROUPE_MODEL(adder, adder_config, troupe_none, adder_setup, adder_forward,
             .input = {TROUPE_FLOAT32, 1, {WIDTH}});

// ---- Rows

typedef struct row {
    const char *name, *unit;
    bench_better better;
    double floor; // 0: none.
} row;

static const row rows[] = {
    {"serve.p50", "us", BENCH_LOWER, 400},        {"serve.rate.1", "1/s", BENCH_HIGHER, 0},
    {"serve.rate.16", "1/s", BENCH_HIGHER, 5000}, {"serve.rate.64", "1/s", BENCH_HIGHER, 0},
    {"serve.json", "1/s", BENCH_HIGHER, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void add_ours(const row *what, const troupe_service_info *info, const char *seconds,
                     bench_rounds *rounds)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "wrk printed nothing";
    const char *command[] = {"measure/load", what->name, info->url, seconds, info->token, NULL};
    bench_run(command, PEER_SECONDS_MAX, out, sizeof out, reason);
    bench_rows_read(what->name, out, reason, rounds);
}

// One program measures all its rows, since starting Ray takes seconds.
static void add_peers(const bool *wanted, const char *seconds, bench_rounds *rounds)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "it printed no such row";
    const char *command[ROWS + 3] = {"compare/peer_ray_serve", seconds};
    size_t used = 2;
    for (size_t i = 0; i < ROWS; i++)
        if (wanted[i])
            command[used++] = rows[i].name;
    if (used == 2)
        return;
    // What it printed before it failed counts.
    bench_run(command, PEER_SECONDS_MAX, out, sizeof out, reason);
    for (size_t i = 0; i < ROWS; i++)
        if (wanted[i])
            bench_rows_read(rows[i].name, out, reason, &rounds[i]);
}

static void print(const row *what, const bench_rounds *ours, const bench_rounds *theirs)
{
    char note[128] = "no floor";
    double value = bench_rounds_value(ours);
    bool least = what->better == BENCH_HIGHER;
    bool holds = least ? value >= what->floor : value <= what->floor;
    if (what->floor > 0)
        snprintf(note, sizeof note, "floor: at %s %g %s, which %s", least ? "least" : "most",
                 what->floor, what->unit, holds ? "holds" : "does not hold");
    bench_rows_print(&(bench_line){.name = what->name,
                                   .unit = what->unit,
                                   .placement = "not pinned, wrk on the same CPUs",
                                   .better = what->better,
                                   .ours = ours,
                                   .peer = bench_rows_quick() ? NULL : "Ray Serve",
                                   .peers = theirs,
                                   .note = note});
}

static void bench_serve(void)
{
    static bench_rounds ours[ROWS], theirs[ROWS];
    bool wanted[ROWS], any = false;
    troupe_service service;
    troupe_service_info info;
    for (size_t i = 0; i < ROWS; i++)
        any |= wanted[i] = bench_rows_wanted(rows[i].name);
    if (!any)
        return;
    const char *seconds = bench_rows_quick() ? "1" : "4";
    troupe_must(troupe_serve(adder, NULL, "/sum", &service, .http = TROUPE_HTTP_LOOPBACK));
    troupe_must(troupe_service_info_get(service, &info));
    for (int k = 0; bench_goes_on(k, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); k++) {
        for (size_t i = 0; i < ROWS; i++)
            if (wanted[i])
                add_ours(&rows[i], &info, seconds, &ours[i]);
        if (!bench_rows_quick())
            add_peers(wanted, seconds, theirs);
    }
    troupe_must(troupe_service_info_get(service, &info));
    if (info.failed + info.refused > 0)
        bench_die("bench_server: %d requests failed or were refused",
                  (int)(info.failed + info.refused));
    troupe_must(troupe_service_stop(service));
    for (size_t i = 0; i < ROWS; i++)
        if (wanted[i])
            print(&rows[i], &ours[i], &theirs[i]);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    bench_rows_open(argc, argv); // A replica does not come here.
    bench_serve();
    troupe_stop();
    bench_jobs();
    bench_repository();
    return bench_rows_close();
}
