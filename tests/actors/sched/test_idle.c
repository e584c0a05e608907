// test_idle.c: a million actors that have had a message and rest: what each takes.
// label: slow
// label: local
#include <support.h>

#include <stdlib.h>
#include <troupe/actor.h>
#include <unistd.h>

enum {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    MANY = 20000,
    BYTES_MAX = 100000, // The sanitizer's own.
#else
    MANY = 1000000,
    BYTES_MAX = 600,
#endif
    BATCH = 1000,
};

typedef struct sleeper {
    int64_t total;
    char name[24];
} sleeper;

static troupe_status sleeper_add(sleeper *self, const int64_t *in, int64_t *out)
{
    *out = self->total += *in;
    return TROUPE_OK;
}
TROUPE_ACTOR(sleeper, (sleeper_add, int64_t, int64_t));

static int64_t resident_bytes(void)
{
    char *text = support_read_file("/proc/self/statm");
    char *second = text;
    (void)strtoll(text, &second, 10);
    int64_t pages = strtoll(second, NULL, 10);
    free(text);
    return pages * sysconf(_SC_PAGESIZE);
}

static void make_all(sleeper_actor *actors, int64_t add)
{
    troupe_ref refs[BATCH];
    for (int i = 0; i < MANY; i += BATCH) {
        for (int j = 0; j < BATCH; j++) {
            if (add == 1)
                actors[i + j] = troupe_spawn(sleeper, .place = TROUPE_PLACE_HERE);
            refs[j] = troupe_call(actors[i + j], sleeper_add, add);
        }
        for (int j = 0; j < BATCH; j++) {
            int64_t total;
            troupe_must(troupe_get(int64_t, refs[j], &total));
            assert_int_equal(total, add == 1 ? 1 : 1 + add);
        }
    }
}

static void test_a_million(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = 2));
    sleeper_actor *actors = calloc(MANY, sizeof *actors);
    for (int i = 0; i < MANY; i++)
        actors[i].address.id = 1; // So that the addresses are resident before.
    int64_t before = resident_bytes();
    make_all(actors, 1);
    int64_t each = (resident_bytes() - before) / MANY;
    print_message("%lld bytes an idle actor\n", (long long)each);
    assert_true(each <= BYTES_MAX);
    make_all(actors, 2); // All are still there.
    free(actors);
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_million)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
