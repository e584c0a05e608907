// test_soak.c: eight processes make, read, pass on and drop values of every kind for a minute, or
// as many seconds as are asked for, in a store that is held full: what does not fit is on disk.
// Each value is looked at whole whenever it is read; in the end nothing is left, and no process
// has grown. The plan follows from TROUPE_SEED, which is printed.
// timeout: 180
// cost: 60
// again: full slow 900 600 4
#include "soak.h"

#include <runtime/shm/segment.h>
#include <runtime/store/spill_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CAPACITY = 64 << 20, SECONDS = 20, OWN_BOOKS = true }; // They have memory of their own.
#else
enum { CAPACITY = 256 << 20, SECONDS = 60, OWN_BOOKS = false };
#endif

enum {
    TOTAL = CAPACITY / 100 * 120, // What is held in all, in memory and on disk.
    FILL_LEAST = 95,              // Percent of the store's memory that all of it would take.
    GROWTH_MAX = 4 << 20,         // Of a process: its pools keep what they once needed, which
    POOLS_MAX = 16 << 20,         // comes to so much, and takes a slow machine a while.
    LONG_S = 300,
    FILL_S = 90, // The longest until the store is full: then the time begins.
    TABLES_MAX = CAPACITY / 16 + (4 << 20), // Of the segment: of all pages and objects.
    SAMPLE_MS = 250,
    WATCHED = HANDS + 1, // And the node process.
};

static int seconds = SECONDS;
static uint32_t pace = 10; // Of so much time, one part is work: others' tests run beside this one.
static uint64_t dice;
static char *base;
static hand_actor hands[HANDS];
static maker_actor makers[HANDS];
static tally sums;

// ---- memory

// What was seen while the clock was in a part of the whole time.
typedef struct window {
    uint64_t anonymous[WATCHED];   // The least.
    uint64_t backed;               // The most.
    uint64_t held, taken, on_disk; // Sums: in percent of the store, and bytes.
    uint32_t count;
} window;

static pid_t watched[WATCHED];
static window early, late; // After the warm-up, and at the end.

static uint64_t anonymous_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    char *text = support_read_file(path);
    const char *line = text != NULL ? strstr(text, "RssAnon:") : NULL;
    if (line == NULL)
        fail_msg("process %d has gone", (int)pid);
    uint64_t bytes = strtoull(line + strlen("RssAnon:"), NULL, 10) * 1024;
    free(text);
    return bytes;
}

static void sample(window *in, const troupe_memory *memory, const troupe_store_usage *usage)
{
    for (int i = 0; i < WATCHED; i++) {
        uint64_t now = anonymous_of(watched[i]);
        if (in->count == 0 || now < in->anonymous[i])
            in->anonymous[i] = now;
    }
    if (usage->bytes_backed > in->backed)
        in->backed = usage->bytes_backed;
    in->held += (usage->bytes_used + usage->bytes_on_disk) * 100 / usage->bytes_max;
    in->taken += 100 - memory->bytes_free * 100 / usage->bytes_max;
    in->on_disk += usage->bytes_on_disk;
    in->count++;
}

static void print_store(const char *when, const window *seen)
{
    printf("%s: %llu %% of the store held: %llu %% of its memory taken, %llu KiB on disk; %llu KiB "
           "backed\n",
           when, (unsigned long long)seen->held / seen->count,
           (unsigned long long)seen->taken / seen->count,
           (unsigned long long)(seen->on_disk / seen->count) >> 10,
           (unsigned long long)seen->backed >> 10);
}

static void expect_flat(void)
{
    static const char *names[WATCHED] = {[0] = "driver", [HANDS] = "node"};
    int grown = 0;
    assert_true(early.count > 0 && late.count > 0);
    for (int i = 0; i < WATCHED; i++) {
        printf("%s %d: %llu KiB, then %llu KiB\n", names[i] != NULL ? names[i] : "worker",
               (int)watched[i], (unsigned long long)early.anonymous[i] >> 10,
               (unsigned long long)late.anonymous[i] >> 10);
        uint64_t most = early.anonymous[i] + GROWTH_MAX;
        if (seconds < LONG_S && most < POOLS_MAX)
            most = POOLS_MAX;
        grown += late.anonymous[i] > most;
    }
    print_store("after the warm-up", &early);
    print_store("in the end", &late);
    assert_true(OWN_BOOKS || grown == 0);
    assert_true(late.backed <= (uint64_t)CAPACITY + TABLES_MAX);
    assert_true(late.held / late.count >= FILL_LEAST && late.on_disk > 0);
}

// ---- the work

static troupe_store_usage usage(void)
{
    troupe_store_usage now;
    troupe_must(troupe_store_usage_get(&now));
    return now;
}

static void add(const tally *done)
{
    if (done->trouble != NULL)
        fail_msg("%s", done->trouble);
    for (int i = 0; i < ACTS; i++)
        sums.counts[i] += done->counts[i];
    sums.refused += done->refused;
}

static troupe_ref send_step(size_t i, bool grow, const window *seen)
{
    return troupe_call(hands[i], hand_step, .dice = roll(&dice), .grow = grow, .trim = seen != NULL,
                       .pace = pace);
}

// Which one it is time for; NULL: neither.
static window *window_at(int64_t now_ms)
{
    int64_t whole_ms = (int64_t)seconds * 1000;
    if (now_ms > whole_ms * 3 / 10 && now_ms <= whole_ms / 2)
        return &early;
    return now_ms > whole_ms * 8 / 10 ? &late : NULL;
}

static void work(void)
{
    int64_t begun_ms = support_now_ms(), whole_ms = (int64_t)seconds * 1000, next_ms = 0;
    troupe_ref_set *set;
    troupe_must(troupe_ref_set_open(&set));
    bool grow = true, full = false;
    size_t under_way = 0;
    for (; under_way < HANDS; under_way++)
        troupe_must(troupe_ref_set_add(set, send_step(under_way, grow, NULL), &hands[under_way]));
    while (under_way > 0) {
        troupe_ref ref;
        void *whose;
        tally done;
        troupe_must(troupe_ref_set_next(set, -1, &ref, &whose));
        troupe_must(troupe_get(tally, ref, &done));
        add(&done);
        troupe_arena_reset();
        int64_t now_ms = support_now_ms() - begun_ms;
        window *seen = full ? window_at(now_ms) : NULL;
        if (now_ms >= next_ms) {
            troupe_memory memory;
            troupe_store_usage now = usage();
            troupe_must(troupe_memory_get(&memory, .most = 1));
            if (seen != NULL)
                sample(seen, &memory, &now);
            // What came back from disk counts twice, since its file stays: what is asked for is a
            // bound of what is held. How much of the memory is taken is printed.
            grow = now.bytes_used + now.bytes_on_disk < TOTAL;
            if (!full && (!grow || now_ms > FILL_S * 1000)) {
                full = true;
                begun_ms += now_ms;
                now_ms = 0;
            }
            next_ms = now_ms + SAMPLE_MS;
        }
        under_way--;
        if (!full || now_ms < whole_ms) {
            size_t i = (size_t)((hand_actor *)whose - hands);
            troupe_must(troupe_ref_set_add(set, send_step(i, grow, seen), whose));
            under_way++;
        }
    }
    troupe_ref_set_close(set);
}

// ---- begin and end

static void meet(void)
{
    troupe_actor all_hands[HANDS], all_makers[HANDS];
    for (int i = 0; i < HANDS; i++) {
        // One of each in every process.
        troupe_place place = i == 0 ? TROUPE_PLACE_HERE : TROUPE_PLACE_WORKER;
        hands[i] = troupe_spawn(hand, .place = place);
        all_hands[i] = hands[i].address;
    }
    for (int i = 0; i < HANDS; i++) {
        troupe_place place = i == 0 ? TROUPE_PLACE_HERE : TROUPE_PLACE_WORKER;
        makers[i] = troupe_spawn(maker, .place = place);
        all_makers[i] = makers[i].address;
    }
    for (int i = 0; i < HANDS; i++) {
        troupe_must(
            troupe_get(int,
                       troupe_call(hands[i], hand_meet, .number = (uint32_t)i,
                                   .hands = {all_hands, HANDS}, .makers = {all_makers, HANDS}),
                       &watched[i]));
        for (int k = 0; k < i; k++)
            assert_int_not_equal(watched[k], watched[i]);
    }
    watched[HANDS] = trp_segment_process(TRP_PROCESS_NODE)->pid;
    for (int i = 0; i < HANDS; i++) {
        troupe_channel channel;
        troupe_must(troupe_get(troupe_channel, troupe_call(hands[i], hand_open), &channel));
        troupe_must(troupe_get(troupe_none,
                               troupe_call_from(hands[(i + 1) % HANDS], hand_listen, &channel),
                               &(troupe_none){0}));
        troupe_channel_drop(channel);
    }
}

// What was under way to a hand while it dropped all that it had is dropped the next time.
static bool is_empty(void *unused)
{
    (void)unused;
    for (int i = 0; i < HANDS; i++)
        troupe_must(troupe_get(troupe_none, troupe_call(hands[i], hand_empty), &(troupe_none){0}));
    troupe_store_usage now = usage();
    return now.objects == 0 && now.bytes_used == 0 && now.bytes_on_disk == 0 &&
           support_count_files(trp_spill_folder()) == 0;
}

static void report(void)
{
    static const char *names[ACTS] = {"put",     "passed on",       "received",         "read",
                                      "lists",   "tensors",         "results",          "arguments",
                                      "dropped", "sent by channel", "had from channels"};
    for (int i = 0; i < ACTS; i++)
        printf("%llu %s%s", (unsigned long long)sums.counts[i], names[i],
               i + 1 < ACTS ? ", " : "\n");
}

static void test_a_full_store_for_a_long_time(void **state)
{
    (void)state;
    base = support_directory_make();
    troupe_must(troupe_start(0, NULL, .workers = HANDS - 1, .threads = 2,
                             .launch = TROUPE_LAUNCH_FORK, .store_bytes_max = CAPACITY,
                             .spill_dir = base, .spill_bytes_max = (int64_t)4 * CAPACITY,
                             .store_wait_ms = 20000));
    meet();
    work();
    report();
    if (!support_wait_until(is_empty, NULL, SUPPORT_SOON_MS))
        fail_msg("%llu objects of %llu bytes, and %llu bytes on disk, are left",
                 (unsigned long long)usage().objects, (unsigned long long)usage().bytes_used,
                 (unsigned long long)usage().bytes_on_disk);
    printf("%llu KiB of the store's memory in the end\n",
           (unsigned long long)usage().bytes_backed >> 10);
    expect_flat();
    assert_int_equal(sums.refused, 0);
    for (int i = 0; i < ACTS; i++)
        assert_true(sums.counts[i] > 0);
    assert_int_equal(troupe_stop(), 0);
    support_directory_remove(base);
}

int main(int argc, char **argv)
{
    const char *given = getenv("TROUPE_SEED");
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    dice = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec ^ (uint64_t)getpid();
    if (argc > 1)
        seconds = atoi(argv[1]);
    if (argc > 2)
        pace = (uint32_t)atoi(argv[2]);
    printf("TROUPE_SEED=%llu\n", (unsigned long long)dice);
    fflush(stdout);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_full_store_for_a_long_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
