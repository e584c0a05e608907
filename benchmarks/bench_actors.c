// bench_actors.c: what do actors cost, beside CAF, Erlang, Ray, raw ZeroMQ and raw shared memory?
//
//     bench_actors [quick] [NAME...]
//
// quick: one small round of each figure. NAME: only figures whose names begin with one of these
// (with "savina", say), and failure if there is none. Ours and the peers' programs run in turns,
// each in a process of its own, on CPU 0 (rows for one thread) or on CPUs 0 and 1, and each prints
// one round. Prints one JSON object a line; a peer that is not installed is missing there. Exits
// with failure if a figure of ours is missing.
#include "harness_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 10, ROUNDS = 5, SCALE_ROUNDS = 11 };

typedef const char *command[ARGUMENTS_MAX];

typedef struct row {
    const char *name, *unit, *placement;
    bench_better better;
    int cpus; // The programs run on the first of these; 0: not pinned.
    command ours;
    const char *peer;
    command theirs;
    const char *other;
    command others;
    const char *transport; // Of ours; NULL: the default.
    const char *note;
} row;

static const char caf[] = "CAF 0.17", erlang[] = "Erlang/OTP 25";

static void set(command to, const command from)
{
    memcpy(to, from, sizeof(command));
}

// ---- Rounds

static void measure(const row *what)
{
    if (!bench_rows_wanted(what->name))
        return;
    static bench_rounds ours, theirs, others;
    ours = theirs = others = (bench_rounds){0};
    for (int i = 0; i < (bench_rows_quick() ? 1 : ROUNDS); i++) {
        if (what->transport)
            setenv("TROUPE_TRANSPORT", what->transport, 1);
        bench_rows_round(what->ours, what->cpus, &ours);
        unsetenv("TROUPE_TRANSPORT");
        bench_rows_round(what->theirs, what->cpus, &theirs);
        bench_rows_round(what->others, what->cpus, &others);
    }
    bench_rows_print(&(bench_line){.name = what->name,
                                   .unit = what->unit,
                                   .placement = what->placement,
                                   .better = what->better,
                                   .ours = &ours,
                                   .peer = what->peer,
                                   .peers = &theirs,
                                   .other = what->other,
                                   .others = &others,
                                   .note = what->note});
}

// ---- Savina: one thread on a CPU, one thread on both CPUs and two threads take turns. What the
// second thread brings is the ratio of the last two, neighbours in one place: only the number of
// threads differs.

typedef struct game {
    const char *name, *unit;
    bool no_erlang;
} game;

static const game games[] = {
    {"pingpong", "messages/s", false},
    {"count", "messages/s", false},
    {"fanin", "messages/s", false},
    {"forkjoin", "messages/s", false},
    {"forkjoin_create", "actors/s", false},
    {"ring", "messages/s", false},
    {"chameneos", "meetings/s", false},
    {"big", "messages/s", false},
    {"fib", "actors/s", false},
    {"dictionary", "requests/s", false},
    {"banking", "transactions/s", false},
    {"nqueens", "solutions/s", false},
    {"matmul", "FLOP/s", true}, // Erlang has no matrices that processes share.
};

enum { TROUPE, CAF, ERLANG, SIDES };

static const char one_thread[] = "one thread, CPU 0", two_threads[] = "two threads, CPUs 0 and 1";

static const struct setting {
    const char *threads, *placement;
    int cpus;
} settings[] = {{"1", one_thread, 1}, {"1", NULL, 2}, {"2", two_threads, 2}};
enum { ALONE, ROOMY, PAIR, SETTINGS };

static void print_scale(const game *what, bench_rounds rounds[SETTINGS][SIDES])
{
    static bench_rounds ratios[SIDES];
    for (int side = 0; side < SIDES; side++) {
        const bench_rounds *one = &rounds[ROOMY][side], *two = &rounds[PAIR][side];
        ratios[side] = (bench_rounds){0};
        if (one->missing[0] || two->missing[0])
            bench_rounds_fail(&ratios[side], "%s", one->missing[0] ? one->missing : two->missing);
        for (size_t i = 0; i < one->count && i < two->count; i++)
            bench_rounds_add(&ratios[side],
                             bench_round_plain(two->rounds[i].value / one->rounds[i].value));
    }
    char name[64];
    snprintf(name, sizeof name, "scale.%s", what->name);
    bench_rows_print(&(bench_line){.name = name,
                                   .unit = "x",
                                   .placement = "CPUs 0 and 1",
                                   .better = BENCH_HIGHER,
                                   .ours = &ratios[TROUPE],
                                   .peer = caf,
                                   .peers = &ratios[CAF],
                                   .other = what->no_erlang ? NULL : erlang,
                                   .others = &ratios[ERLANG],
                                   .note = "the rate with two threads over that with one"});
}

static void measure_game(const game *what)
{
    char names[SETTINGS][64] = {{0}}, ours[64], scale[64];
    snprintf(ours, sizeof ours, "savina/%s", what->name);
    snprintf(scale, sizeof scale, "scale.%s", what->name);
    snprintf(names[ALONE], sizeof names[ALONE], "savina.%s.1t", what->name);
    snprintf(names[PAIR], sizeof names[PAIR], "savina.%s.2t", what->name);
    bool scaled = bench_rows_wanted(scale), shown[SETTINGS], any = scaled;
    for (int i = 0; i < SETTINGS; i++) {
        shown[i] = names[i][0] != '\0' && bench_rows_wanted(names[i]);
        any = any || shown[i];
    }
    if (!any)
        return;
    static bench_rounds rounds[SETTINGS][SIDES];
    memset(rounds, 0, sizeof rounds);
    const char *seconds = bench_rows_quick() ? "0.0" : "0.4";
    for (int i = 0; i < (bench_rows_quick() ? 1 : SCALE_ROUNDS); i++) {
        for (int at = 0; at < SETTINGS; at++) {
            if (!shown[at] && (!scaled || at == ALONE))
                continue;
            const char *threads = settings[at].threads;
            const command troupe = {ours, threads, seconds};
            const command peer = {"compare/peer_caf", what->name, threads, seconds};
            const command other = {"compare/peer_erlang", what->name, threads, seconds};
            bench_rows_round(troupe, settings[at].cpus, &rounds[at][TROUPE]);
            if (i >= ROUNDS)
                continue;
            bench_rows_round(peer, settings[at].cpus, &rounds[at][CAF]);
            if (!what->no_erlang)
                bench_rows_round(other, settings[at].cpus, &rounds[at][ERLANG]);
        }
    }
    for (int at = 0; at < SETTINGS; at++) {
        if (!shown[at])
            continue;
        bench_rows_print(&(bench_line){.name = names[at],
                                       .unit = what->unit,
                                       .placement = settings[at].placement,
                                       .better = BENCH_HIGHER,
                                       .ours = &rounds[at][TROUPE],
                                       .peer = caf,
                                       .peers = &rounds[at][CAF],
                                       .other = what->no_erlang ? NULL : erlang,
                                       .others = &rounds[at][ERLANG]});
    }
    if (scaled)
        print_scale(what, rounds);
}

// ---- Memory and creation

// clang-format off
// How many there are of what: changed by "quick".
static char many[16] = "100000", million[16] = "1000000", thousand[16] = "1000";

#define LIGHT(what, threads, count)                                                                \
    .ours = {"measure/idle", what, threads, count}, .peer = caf, .other = erlang
static const char bare[] = "posix_spawn of a bare C program", anywhere[] = "not pinned";

static const row actor_rows[] = {
    {"idle_bytes", "B", one_thread, BENCH_LOWER, 1, LIGHT("bytes", "1", many),
     .theirs = {"compare/peer_caf", "idle", "1", many},
     .others = {"compare/peer_erlang", "idle", "1", many},
     .note = "resident memory an actor, each having answered a message"},
    {"scale.million", "B", one_thread, BENCH_LOWER, 1, LIGHT("bytes", "1", million),
     .theirs = {"compare/peer_caf", "idle", "1", million},
     .others = {"compare/peer_erlang", "idle", "1", million},
     .note = "the same with a million idle actors"},
    {"spawn.light", "actors/s", one_thread, BENCH_HIGHER, 1, LIGHT("spawn", "1", many),
     .theirs = {"compare/peer_caf", "spawn", "1", many},
     .others = {"compare/peer_erlang", "spawn", "1", many},
     .note = "made from the main thread"},
    {"spawn.light.2t", "actors/s", two_threads, BENCH_HIGHER, 2, LIGHT("spawn", "2", many),
     .theirs = {"compare/peer_caf", "spawn", "2", many},
     .others = {"compare/peer_erlang", "spawn", "2", many},
     .note = "made from the main thread"},
    {"scale.named", "actors/s", two_threads, BENCH_HIGHER, 2,
     .ours = {"measure/idle", "named", "2", "10000"},
     .note = "10,000 actors with names, each made, looked up and called"},
    {"start.first_call", "us", anywhere, BENCH_LOWER, 0, .ours = {"bench_start", "--round"},
     .peer = bare, .theirs = {"compare/peer_spawn", "1"},
     .note = "a program from its fork and exec to the answer of its first call"},
    {"spawn.process", "us", anywhere, BENCH_LOWER, 0, .ours = {"measure/process", "1"},
     .peer = bare, .theirs = {"compare/peer_spawn", "1"},
     .note = "an isolated actor, from its spawn to the answer of its first call"},
    {"spawn.process.100", "us", anywhere, BENCH_LOWER, 0,
     .ours = {"measure/process", "100", "again"}, .peer = bare,
     .theirs = {"compare/peer_spawn", "100"},
     .note = "100 of them at once, a second after an earlier 100, which have ended"},
    {"spawn.process.100.cold", "us", anywhere, BENCH_LOWER, 0, .ours = {"measure/process", "100"},
     .peer = bare, .theirs = {"compare/peer_spawn", "100"},
     .note = "100 of them at once, the first of their program"},
    {"scale.process.1000", "us", anywhere, BENCH_LOWER, 0, .ours = {"measure/process", thousand},
     .peer = bare, .theirs = {"compare/peer_spawn", thousand}, .note = "1,000 of them at once"},
    {"scale.process.1000.bytes", "B", anywhere, BENCH_LOWER, 0,
     .ours = {"measure/process", thousand, "bytes"}, .note = "PSS of one of 1,000 isolated actors"},
    {"scale.process.1000.end", "us", anywhere, BENCH_LOWER, 0,
     .ours = {"measure/process", thousand, "end"},
     .note = "from the first kill of 1,000 isolated actors until none of them is left"},
};
// clang-format on

// ---- Calls

typedef struct way {
    const char *name;      // Of a figure: "ring", "ipc", "tcp".
    const char *transport; // NULL: calls inside the process.
} way;

static const way ways[] = {{"inproc", NULL}, {"ring", "ring"}, {"ipc", "ipc"}, {"tcp", "tcp"}};

static bool is_tcp(const way *by)
{
    return by->transport && strcmp(by->transport, "tcp") == 0;
}

static void measure_round_trips(const way *by)
{
    const char *count = bench_rows_quick() ? "300" : "5000",
               *few = bench_rows_quick() ? "100" : "1500";
    const char *place = by->transport ? "isolated" : "here";
    bool ring = !by->transport || strcmp(by->transport, "ring") == 0;
    const char *zmq = is_tcp(by) ? "zmq dealer/router tcp, CURVE" : "zmq dealer/router ipc";
    const char *peer = ring ? "shared memory, futex" : zmq;
    const char *trip = is_tcp(by) ? "rtt.tcp" : "rtt";
    const char *peer_program = ring ? "compare/peer_shm" : "compare/peer_zmq";
    const struct {
        const char *suffix, *placement;
        int cpus;
        const char *pins[2], *pause_us, *count;
        bool spins;
    } cases[] = {
        {"spin.2cpu", "two CPUs, called without a pause", 2, {"0", "1"}, "0", count, true},
        {"block.1cpu", "one CPU", 1, {"0", "0"}, "0", count, false},
        {"block.2cpu", "two CPUs, a pause before each call", 2, {"0", "1"}, "300", few, false},
        {"free", "not pinned", 0, {"-1", "-1"}, "0", count, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        snprintf(name, sizeof name, "call.rtt.%s.%s", by->name, cases[i].suffix);
        const char *one = cases[i].pins[0], *two = cases[i].pins[1], *trips = cases[i].count;
        const char *threads = cases[i].cpus == 1 ? "1" : "2", *pause = cases[i].pause_us;
        bool spins = cases[i].spins && ring;
        row what = {.name = name,
                    .unit = "us",
                    .placement = cases[i].placement,
                    .better = BENCH_LOWER,
                    .cpus = cases[i].cpus,
                    .ours = {"measure/call", "rtt", place, one, two, trips, pause},
                    .peer = spins ? "shared memory, spinning" : peer,
                    .theirs = {peer_program, spins ? "spin" : trip, one, two},
                    .transport = by->transport,
                    .note = "64-byte payload there and back"};
        const char *const rest[] = {"64", trips, pause};
        memcpy(&what.theirs[4], ring ? rest + 1 : rest, (ring ? 2 : 3) * sizeof *rest);
        if (!by->transport) {
            what.peer = caf;
            set(what.theirs, (command){"compare/peer_caf", "call", threads, trips, pause});
        }
        // Erlang's pause is a millisecond, its shortest. Inside a process it has none: its
        // scheduler spins longer.
        bool paused = strcmp(pause, "0") != 0;
        if (by->transport) {
            what.other = "Erlang/OTP 25 distribution";
            const char *trip_there = cases[i].cpus != 2 ? "remote_call"
                                     : paused           ? "remote_call_paused"
                                                        : "remote_call_apart";
            set(what.others, (command){"compare/peer_erlang", trip_there, "1", trips});
        } else if (!paused) {
            what.other = erlang;
            set(what.others, (command){"compare/peer_erlang", "call", threads, trips});
        }
        measure(&what);
    }
}

// A call from inside a method, to an actor of the same process.
static void measure_inner_calls(void)
{
    static char count[16];
    snprintf(count, sizeof count, "%s", bench_rows_quick() ? "1000" : "20000");
    for (int t = 0; t < 2; t++) {
        const char *threads = t == 0 ? "1" : "2";
        char name[64];
        snprintf(name, sizeof name, "call.rtt.inproc.actor.%dt", t + 1);
        measure(&(row){.name = name,
                       .unit = "us",
                       .placement = t == 0 ? one_thread : two_threads,
                       .better = BENCH_LOWER,
                       .cpus = t + 1,
                       .ours = {"measure/call", "rtt", "within", threads, "-1", count},
                       .peer = erlang,
                       .theirs = {"compare/peer_erlang", "call", threads, count},
                       .note = "an actor calls another one and waits; 64-byte payload"});
    }
}

// Each caller has 1,000 calls under way.
static void measure_rates(const way *by)
{
    static const struct {
        const char *shape, *note, *bytes, *callers, *actors;
    } shapes[] = {
        {"1_1", "one caller, one actor, 64 bytes", "64", "1", "1"},
        {"1_n", "one caller, four actors in turn, 64 bytes", "64", "1", "4"},
        {"n_1", "four calling actors, one actor, 64 bytes", "64", "4", "1"},
        {"n_n", "four calling actors, four actors, 64 bytes", "64", "4", "4"},
        {"1_1_1k", "one caller, one actor, 1 KiB", "1024", "1", "1"},
        {"1_1_ref",
         "one caller, one actor, a reference to an object of 64 bytes as the argument; the peer "
         "sends the bytes",
         "64", "1", "1"},
    };
    const char *count = bench_rows_quick() ? "5000" : "200000";
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char name[64];
        snprintf(name, sizeof name, "call.rate.%s.%s", by->name, shapes[i].shape);
        const char *callers = shapes[i].callers, *actors = shapes[i].actors;
        bool pinned = strcmp(callers, "1") == 0 && strcmp(actors, "1") == 0;
        const char *one = pinned ? "0" : "-1", *two = pinned ? "1" : "-1";
        row what = {.name = name,
                    .unit = "1/s",
                    .placement = pinned ? "two CPUs: caller on 0, actor on 1"
                                        : "CPUs 0 and 1, not pinned to either",
                    .better = BENCH_HIGHER,
                    .cpus = 2,
                    .ours = {"measure/call", shapes[i].shape, "isolated", "0", "1", count},
                    .peer = is_tcp(by) ? "zmq dealer/router tcp, CURVE, 1000 in flight a caller"
                                       : "zmq dealer/router ipc, 1000 in flight a caller",
                    .theirs = {"compare/peer_zmq", is_tcp(by) ? "rate.tcp" : "rate", one, two,
                               shapes[i].bytes, count, "1000", callers, actors},
                    .transport = by->transport,
                    .note = shapes[i].note};
        measure(&what);
    }
}

// ---- Ray

static const char *const ray_rows[] = {
    "single_client_get_calls",
    "single_client_put_calls",
    "single_client_put_gigabytes",
    "single_client_tasks_sync",
    "single_client_tasks_async",
    "single_client_tasks_and_get_batch",
    "single_client_wait_1k_refs",
    "1_1_actor_calls_sync",
    "1_1_actor_calls_async",
    "1_n_actor_calls_async",
    "n_n_actor_calls_async",
    "n_n_actor_calls_with_arg_async",
    "actor_creation",
};

int main(int argc, char **argv)
{
    bench_rows_open(argc, argv);
    for (size_t i = 0; i < sizeof games / sizeof *games; i++)
        measure_game(&games[i]);
    if (bench_rows_quick()) {
        strcpy(many, "10000");
        strcpy(million, "100000");
        strcpy(thousand, "100");
    }
    for (size_t i = 0; i < sizeof actor_rows / sizeof *actor_rows; i++)
        measure(&actor_rows[i]);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        measure_round_trips(&ways[i]);
    measure_inner_calls();
    for (size_t i = 1; i < sizeof ways / sizeof *ways; i++)
        measure_rates(&ways[i]);
    bench_ray(ray_rows, sizeof ray_rows / sizeof *ray_rows, "2");
    return bench_rows_close();
}
