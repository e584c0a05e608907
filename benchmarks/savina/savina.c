// savina.c: see savina.h.
#include "savina.h"

#include <harness.h>

#include <semaphore.h>
#include <stdlib.h>

static sem_t over;

void savina_over(void)
{
    sem_post(&over);
}

void savina_wait(void)
{
    while (sem_wait(&over) != 0)
        ;
}

void savina_wrong(const char *what, int64_t is, int64_t expected)
{
    bench_die("%s: %lld, where %lld was expected", what, (long long)is, (long long)expected);
}

int savina_main(int argc, char **argv, double units, void (*play)(void))
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    int64_t wanted_ns = (int64_t)((argc > 2 ? atof(argv[2]) : 0.4) * 1e9);
    sem_init(&over, 0, 0);
    troupe_must(troupe_start(argc, argv, .threads = threads, .workers = TROUPE_NONE));
    if (wanted_ns > 0)
        play();
    int games = 0;
    int64_t start = bench_now_ns(), passed;
    do {
        play();
        games++;
    } while ((passed = bench_now_ns() - start) < wanted_ns);
    bench_round_print(bench_round_plain(units * games / ((double)passed / 1e9)));
    return troupe_stop();
}
