// 04_pool.c: functions and actors that share out work: tasks on the pool of workers, a map over a
// pool of actors, and one message to all of them.
#include <inttypes.h>
#include <stdio.h>
#include <troupe.h>

// A task is a plain function of one argument and one result.
static troupe_status divisors(const int64_t *number, int64_t *count)
{
    *count = 0;
    for (int64_t i = 1; i <= *number; i++)
        *count += *number % i == 0;
    return TROUPE_OK;
}

TROUPE_TASK(divisors, int64_t, int64_t);

typedef struct tester {
    int64_t tested;
} tester;

static troupe_status tester_is_prime(tester *self, const int64_t *number, bool *prime)
{
    self->tested++;
    *prime = *number > 1;
    for (int64_t i = 2; i * i <= *number && *prime; i++)
        *prime = *number % i != 0;
    return TROUPE_OK;
}

static troupe_status tester_tested(tester *self, const troupe_none *nothing, int64_t *count)
{
    (void)nothing;
    *count = self->tested;
    return TROUPE_OK;
}

TROUPE_ACTOR(tester, (tester_is_prime, int64_t, bool), (tester_tested, troupe_none, int64_t));

enum { NUMBERS = 1000, TESTERS = 4 };

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));

    int64_t count;
    troupe_ref answer = troupe_run(divisors, 5040); // In whichever worker has least to do.
    troupe_must(troupe_get(int64_t, answer, &count));
    printf("5040 has %" PRId64 " divisors\n", count);

    tester_actor testers[TESTERS];
    troupe_actor addresses[TESTERS];
    for (int i = 0; i < TESTERS; i++) {
        testers[i] = troupe_spawn(tester);
        addresses[i] = testers[i].address;
    }
    troupe_pool *pool;
    troupe_must(troupe_pool_open(tester, &pool, .actors = addresses, .actor_count = TESTERS));

    int64_t numbers[NUMBERS], primes = 0;
    for (int64_t i = 0; i < NUMBERS; i++)
        numbers[i] = i;
    bool prime; // The results come as they are ready.
    troupe_map *map = troupe_pool_map(pool, tester_is_prime, numbers, NUMBERS, .unordered = true);
    troupe_status status;
    while ((status = troupe_map_next(bool, map, &prime, NULL)) != TROUPE_END) {
        troupe_must(status);
        primes += prime;
    }
    troupe_map_close(map);
    troupe_pool_close(pool);
    printf("%" PRId64 " primes below %d\n", primes, NUMBERS);

    troupe_ref refs[TESTERS];
    int64_t tested[TESTERS], all = 0;
    troupe_group_call(testers, TESTERS, refs, tester_tested);    // One question to each,
    troupe_must(troupe_get_all(int64_t, refs, TESTERS, tested)); // and all the answers.
    for (int i = 0; i < TESTERS; i++)
        all += tested[i];
    printf("%" PRId64 " tested by %d actors\n", all, TESTERS);
    return troupe_stop();
}
