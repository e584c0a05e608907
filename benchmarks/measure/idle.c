// idle.c: memory and creation of light actors.
//
//     idle bytes <threads> <actors>    resident bytes an actor, each having answered a message
//     idle spawn <threads> <actors>    actors made a second
//     idle named <threads> <actors>    actors with names made, looked up and called a second
//
// Prints one round.
#include <harness.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

typedef struct idler {
    int64_t asked;
} idler;

static troupe_status idler_ask(idler *self, const int *question, int *answer)
{
    self->asked++;
    *answer = *question + 1;
    return TROUPE_OK;
}

TROUPE_ACTOR(idler, (idler_ask, int, int));

static double resident_bytes(void)
{
    long pages, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        bench_die("idle: /proc/self/statm cannot be read");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void ask(idler_actor actor)
{
    int answer = 0;
    troupe_must(troupe_get(int, troupe_call(actor, idler_ask, 1), &answer));
    if (answer != 2)
        bench_die("idle: the answer is %d", answer);
}

static double bytes(idler_actor *actors, int count)
{
    ask(troupe_spawn(idler, .place = TROUPE_PLACE_HERE)); // Threads and arenas are there now.
    double before = resident_bytes();
    for (int i = 0; i < count; i++)
        actors[i] = troupe_spawn(idler, .place = TROUPE_PLACE_HERE);
    for (int i = 0; i < count; i++)
        ask(actors[i]);
    return (resident_bytes() - before) / count;
}

static double spawn(idler_actor *actors, int count)
{
    int64_t start = bench_now_ns();
    for (int i = 0; i < count; i++)
        actors[i] = troupe_spawn(idler, .place = TROUPE_PLACE_HERE);
    int64_t passed = bench_now_ns() - start;
    ask(actors[count - 1]);
    return count / ((double)passed / 1e9);
}

static double named(int count)
{
    char name[32];
    int64_t start = bench_now_ns();
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "actor-%d", i);
        (void)troupe_spawn(idler, .place = TROUPE_PLACE_HERE, .name = name);
    }
    for (int i = 0; i < count; i++) {
        idler_actor found;
        snprintf(name, sizeof name, "actor-%d", i);
        troupe_must(troupe_lookup(idler, name, &found));
        ask(found);
    }
    return count / ((double)(bench_now_ns() - start) / 1e9);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        bench_die("usage: idle bytes|spawn|named <threads> <actors>");
    int count = atoi(argv[3]);
    troupe_must(troupe_start(argc, argv, .threads = atoi(argv[2]), .workers = TROUPE_NONE));
    idler_actor *actors = malloc((size_t)count * sizeof *actors);
    if (!actors)
        bench_die("idle: no memory for %d addresses", count);
    memset(actors, 0, (size_t)count * sizeof *actors); // Its pages are there before the counting.
    double value = strcmp(argv[1], "bytes") == 0   ? bytes(actors, count)
                   : strcmp(argv[1], "spawn") == 0 ? spawn(actors, count)
                                                   : named(count);
    bench_round_print(bench_round_plain(value));
    free(actors);
    return troupe_stop();
}
