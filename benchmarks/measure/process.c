// process.c: actors with processes of their own.
//
//     process <actors>           from the first spawn until each has answered its first call, us
//     process <actors> again     the same, a second after the like has been made and ended
//     process <actors> bytes     PSS of one of them
//     process <actors> end       from the first kill until their processes are gone, us
//
// Prints one round.
#include <harness.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

typedef struct loner {
    int unused;
} loner;

static troupe_status loner_pid(loner *self, const troupe_none *none, int *pid)
{
    (void)self, (void)none;
    *pid = (int)getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(loner, (loner_pid, troupe_none, int));

enum { MANY = 2000 };

static loner_actor actors[MANY];
static troupe_ref refs[MANY];
static int pids[MANY];

static double pss_of(int pid)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        bench_die("process: %s cannot be read", path);
    while (fgets(line, sizeof line, file) && sscanf(line, "Pss: %lf kB", &kib) != 1)
        ;
    fclose(file);
    return kib * 1024;
}

static double make(int count)
{
    int64_t start = bench_now_ns();
    troupe_must(troupe_spawn_many(loner, (size_t)count, actors, .place = TROUPE_PLACE_ISOLATED));
    for (int i = 0; i < count; i++)
        refs[i] = troupe_call(actors[i], loner_pid, 0);
    for (int i = 0; i < count; i++)
        troupe_must(troupe_get(int, refs[i], &pids[i]));
    return (double)(bench_now_ns() - start) / 1e3;
}

static double end(int count)
{
    int64_t start = bench_now_ns();
    for (int i = 0; i < count; i++)
        troupe_actor_kill(actors[i]);
    for (int i = 0; i < count; i++) {
        while (kill(pids[i], 0) == 0)
            usleep(50);
    }
    return (double)(bench_now_ns() - start) / 1e3;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MANY)
        bench_die("usage: process <actors, up to %d> [again|bytes|end]", MANY);
    troupe_must(troupe_start(argc, argv));
    int first; // The runtime has started, and the code of all this is in memory.
    troupe_must(troupe_get(
        int, troupe_call(troupe_spawn(loner, .place = TROUPE_PLACE_ISOLATED), loner_pid, 0),
        &first));
    double value = make(count);
    if (argc > 2 && strcmp(argv[2], "again") == 0) {
        (void)end(count);
        sleep(1); // As many processes are being forked ahead.
        value = make(count);
    }
    if (argc > 2 && strcmp(argv[2], "bytes") == 0) {
        value = 0;
        for (int i = 0; i < count; i++)
            value += pss_of(pids[i]) / count;
    } else if (argc > 2 && strcmp(argv[2], "end") == 0) {
        value = end(count);
    }
    bench_round_print(bench_round_plain(value));
    return troupe_stop();
}
