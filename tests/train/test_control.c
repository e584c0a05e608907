// test_control.c: all ranks stop, and take newer values, with the same report, without meeting;
// none runs far ahead.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <train/control.h>
#include <train/engine_shm.h>
#include <unistd.h>

enum { WORLD_MAX = 4, REPORTS_MAX = 1000000000, LONG_MS = 60000 };

// Beside the group, so that the test sees what the ranks did.
typedef struct notes {
    _Atomic int last[WORLD_MAX];
    _Atomic int entered[WORLD_MAX];
} notes;

typedef struct scene {
    trp_control *control;
    notes *notes;
    int world;
    pid_t pids[WORLD_MAX];
} scene;

static void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static size_t size_of(int world)
{
    return trp_control_size(&trp_engine_shm, world);
}

static scene scene_make(int world, int first)
{
    return (scene){.control =
                       trp_control_init(shared(size_of(world)), &trp_engine_shm, world, first),
                   .notes = (notes *)shared(sizeof(notes)),
                   .world = world};
}

static void scene_end(scene *all)
{
    munmap(all->control, size_of(all->world));
    munmap(all->notes, sizeof(notes));
}

// Reports until it is stopped; `pause_us` is different for each rank.
static int run_rank(scene *all, int rank, int first, useconds_t pause_us)
{
    trp_member member;
    if (trp_member_open(&member, all->control, size_of(all->world), &trp_engine_shm, rank,
                        all->world, LONG_MS, 0))
        return 2;
    for (int number = first; number < first + REPORTS_MAX; number++) {
        trp_report_turn turn;
        if (trp_member_report(&member, number, &turn))
            return 3;
        if (turn == TRP_REPORT_PAST)
            return 4;
        atomic_store(&all->notes->entered[rank], number);
        if (turn == TRP_REPORT_LAST) {
            atomic_store(&all->notes->last[rank], number);
            trp_report_turn after = TRP_REPORT_OPEN;
            return trp_member_report(&member, number + 1, &after) || after != TRP_REPORT_PAST ? 5
                                                                                              : 0;
        }
        if (pause_us)
            usleep(pause_us);
    }
    return 6;
}

static void start_rank(scene *all, int rank, int first, useconds_t pause_us)
{
    all->pids[rank] = fork();
    assert_true(all->pids[rank] >= 0);
    if (all->pids[rank] == 0)
        _exit(run_rank(all, rank, first, pause_us));
}

static int wait_rank(scene *all, int rank)
{
    int status = 0;
    assert_int_equal(waitpid(all->pids[rank], &status, 0), all->pids[rank]);
    return status;
}

static void test_all_ranks_stop_at_the_same_report(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        int world = 1 + round % WORLD_MAX;
        int first = 1 + round * 100;
        scene all = scene_make(world, first);
        for (int rank = 0; rank < world; rank++)
            start_rank(&all, rank, first, (useconds_t)((rank * 37 + round) % 90));
        usleep((useconds_t)(round % 7) * 300);
        int at = trp_control_stop(all.control, 0);
        assert_int_equal(trp_control_stop(all.control, 0), at); // A second stop changes nothing.
        for (int rank = 0; rank < world; rank++)
            assert_int_equal(wait_rank(&all, rank), 0);
        assert_true(at >= first);
        for (int rank = 0; rank < world; rank++)
            assert_int_equal(atomic_load(&all.notes->last[rank]), at);
        scene_end(&all);
    }
}

static void test_a_stop_before_the_first_report_makes_it_the_last(void **state)
{
    (void)state;
    scene all = scene_make(2, 41);
    assert_int_equal(trp_control_stop(all.control, 0), 41);
    for (int rank = 0; rank < 2; rank++)
        start_rank(&all, rank, 41, 0);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(wait_rank(&all, rank), 0);
    assert_int_equal(atomic_load(&all.notes->last[1]), 41);
    scene_end(&all);
}

static bool first_has_gone_ahead(void *context)
{
    scene *all = (scene *)context;
    return atomic_load(&all->notes->entered[0]) >= TRP_REPORTS_AHEAD;
}

// Rank 1 has reported nothing, so rank 0 must be held back; when rank 1 leaves it is let go.
static void test_no_rank_runs_far_ahead(void **state)
{
    (void)state;
    scene all = scene_make(2, 1);
    start_rank(&all, 0, 1, 0);
    assert_true(support_wait_until(first_has_gone_ahead, &all, SUPPORT_SOON_MS));
    usleep(20000);
    assert_int_equal(atomic_load(&all.notes->entered[0]), TRP_REPORTS_AHEAD);
    trp_member other;
    assert_int_equal(
        trp_member_open(&other, all.control, size_of(2), &trp_engine_shm, 1, 2, 1000, 0),
        TROUPE_OK);
    trp_member_leave(&other, TROUPE_OK, "");
    usleep(1000);
    (void)trp_control_stop(all.control, 0);
    assert_int_equal(wait_rank(&all, 0), 0);
    assert_true(atomic_load(&all.notes->last[0]) > TRP_REPORTS_AHEAD);
    scene_end(&all);
}

static void test_an_end_lets_a_waiting_report_go(void **state)
{
    (void)state;
    scene all = scene_make(2, 1);
    start_rank(&all, 0, 1, 0);
    assert_true(support_wait_until(first_has_gone_ahead, &all, SUPPORT_SOON_MS));
    assert_true(trp_control_end(all.control, &trp_engine_shm, TRP_END_DIED, 1));
    assert_int_equal(WEXITSTATUS(wait_rank(&all, 0)), 3);
    scene_end(&all);
}

// ---- orders: a driver that orders at random moments, ranks that never meet

enum { ORDERED_MAX = 40000, ORDER_BYTES = 900, AN_ORDER = 512 };

typedef struct seen {
    _Atomic int ordered;                        // By the driver, which ranks do not run away from.
    _Atomic int reported[WORLD_MAX];            // As the coordinator hears of it.
    uint32_t revisions[WORLD_MAX][ORDERED_MAX]; // After each report.
    int stops[WORLD_MAX][ORDERED_MAX];          // What was known of the stop then.
    int last[WORLD_MAX];
} seen;

typedef struct orders {
    trp_control *control;
    seen *seen;
    int world;
    pid_t pids[WORLD_MAX];
} orders;

static int obey(orders *all, int rank, uint32_t first_revision, useconds_t pause_us)
{
    trp_member member;
    uint32_t revision = first_revision;
    if (trp_member_open(&member, all->control, size_of(all->world), &trp_engine_shm, rank,
                        all->world, LONG_MS, first_revision))
        return 2;
    for (int number = 1; number < ORDERED_MAX; number++) {
        while (number / AN_ORDER > atomic_load(&all->seen->ordered))
            usleep(100);
        trp_report_turn turn;
        const void *data;
        size_t size;
        if (trp_member_report(&member, number, &turn) || turn == TRP_REPORT_PAST)
            return 3;
        if (trp_member_live(&member, &data, &size)) {
            unsigned char copy[ORDER_BYTES];
            if (size < sizeof revision || size > sizeof copy)
                return 4;
            memcpy(copy, data, size);
            memcpy(&revision, copy, sizeof revision);
            for (size_t i = sizeof revision; i < size; i++)
                if (copy[i] != (unsigned char)(revision * 31 + i))
                    return 5; // It was rewritten before this rank had it.
        }
        all->seen->revisions[rank][number] = revision;
        all->seen->stops[rank][number] = trp_member_stop_at(&member);
        atomic_store(&all->seen->reported[rank], number);
        if (turn == TRP_REPORT_LAST) {
            all->seen->last[rank] = number;
            return 0;
        }
        if (pause_us > 0 && number % 8 == 0)
            usleep(pause_us);
    }
    return 6;
}

static int whole_of(const orders *all)
{
    int whole = ORDERED_MAX;
    for (int rank = 0; rank < all->world; rank++)
        if (atomic_load(&all->seen->reported[rank]) < whole)
            whole = atomic_load(&all->seen->reported[rank]);
    return whole;
}

typedef struct awaited {
    const orders *all;
    int report;
} awaited;

static bool is_whole(void *context)
{
    const awaited *what = (const awaited *)context;
    return whole_of(what->all) >= what->report;
}

static int order(const orders *all, uint32_t revision, size_t size)
{
    unsigned char data[ORDER_BYTES];
    memcpy(data, &revision, sizeof revision);
    for (size_t i = sizeof revision; i < size; i++)
        data[i] = (unsigned char)(revision * 31 + i);
    return trp_control_live(all->control, revision, data, size);
}

// Orders one revision after the other, each as soon as the last one is whole or a little later;
// puts down with which report each took effect.
static void command(const orders *all, uint32_t first, int *from, int count, unsigned *seed)
{
    for (int i = 0; i < count; i++) {
        if (rand_r(seed) % 3 == 0)
            usleep((useconds_t)(rand_r(seed) % 300));
        size_t size = sizeof first + (size_t)rand_r(seed) % (ORDER_BYTES - sizeof first);
        from[i] = order(all, first + 1 + (uint32_t)i, size);
        atomic_fetch_add(&all->seen->ordered, 1);
        awaited what = {all, from[i]};
        // The last one may still be in flight when the stop comes.
        if (i + 1 < count)
            assert_true(support_wait_until(is_whole, &what, SUPPORT_SOON_MS));
    }
}

static void check_obeyed(const orders *all, uint32_t first, const int *from, int count, int stop,
                         int later)
{
    for (int rank = 0; rank < all->world; rank++) {
        assert_int_equal(all->seen->last[rank], stop);
        for (int number = 1, done = 0; number <= stop; number++) {
            while (done < count && from[done] <= number)
                done++;
            assert_int_equal(all->seen->revisions[rank][number], first + (uint32_t)done);
            // Who is to save for the last report knows of it before, as all others do.
            bool known = number > stop - later - 1;
            assert_int_equal(all->seen->stops[rank][number], known ? stop : 0);
        }
    }
}

static void test_all_ranks_obey_each_order_with_the_same_report(void **state)
{
    (void)state;
    enum { ROUNDS = 12, COUNT = 60 };
    unsigned seed = 20260101;
    for (int round = 0; round < ROUNDS; round++) {
        int world = 2 + round % (WORLD_MAX - 1);
        uint32_t first = round % 2 == 0 ? 0 : UINT32_MAX - COUNT - 1;
        void *memory = shared(size_of(world));
        orders all = {.control = trp_control_init(memory, &trp_engine_shm, world, 1),
                      .seen = (seen *)shared(sizeof(seen)),
                      .world = world};
        trp_control_live_begin(all.control, first);
        for (int rank = 0; rank < world; rank++) {
            all.pids[rank] = fork();
            assert_true(all.pids[rank] >= 0);
            if (all.pids[rank] == 0)
                _exit(obey(&all, rank, first, (useconds_t)((rank * 53 + round * 17) % 120)));
        }
        int from[COUNT];
        command(&all, first, from, COUNT, &seed);
        int later = round % 3, stop = trp_control_stop(all.control, later);
        atomic_fetch_add(&all.seen->ordered, 1);
        assert_int_equal(order(&all, first + COUNT + 1, 64), 0); // Nothing follows a stop.
        for (int rank = 0; rank < world; rank++) {
            int status = 0;
            assert_int_equal(waitpid(all.pids[rank], &status, 0), all.pids[rank]);
            assert_int_equal(status, 0);
        }
        check_obeyed(&all, first, from, COUNT, stop, later);
        munmap(all.control, size_of(world));
        munmap(all.seen, sizeof(seen));
    }
}

// A rank that joins after others have reported, with an order out already.
static void test_a_rank_that_joins_late_finds_the_order(void **state)
{
    (void)state;
    const void *data;
    size_t size;
    trp_report_turn turn;
    trp_member early, late;
    trp_control *control = trp_control_init(shared(size_of(2)), &trp_engine_shm, 2, 1);
    trp_control_live_begin(control, 7);
    assert_int_equal(trp_member_open(&early, control, size_of(2), &trp_engine_shm, 0, 2, 1000, 7),
                     TROUPE_OK);
    assert_int_equal(trp_member_report(&early, 1, &turn), TROUPE_OK);
    assert_false(trp_member_live(&early, &data, &size));
    assert_int_equal(trp_control_live(control, 8, "new", 3), 2);
    assert_int_equal(trp_control_stop(control, 1), 3);
    assert_int_equal(trp_member_open(&late, control, size_of(2), &trp_engine_shm, 1, 2, 1000, 7),
                     TROUPE_OK);
    for (int number = 1; number <= 3; number++) {
        assert_int_equal(trp_member_report(&late, number, &turn), TROUPE_OK);
        assert_int_equal(turn, number == 3 ? TRP_REPORT_LAST : TRP_REPORT_OPEN);
        assert_int_equal(trp_member_live(&late, &data, &size), number == 2);
        assert_int_equal(trp_member_stop_at(&late), number == 1 ? 0 : 3);
    }
    assert_int_equal(size, 3);
    assert_memory_equal(data, "new", 3);
    assert_int_equal(trp_member_stop_at(&early), 0); // It will know when it has made report 2.
    assert_int_equal(trp_member_report(&early, 2, &turn), TROUPE_OK);
    assert_int_equal(trp_member_stop_at(&early), 3);
    trp_member_leave(&early, TROUPE_OK, "");
    trp_member_leave(&late, TROUPE_OK, "");
    munmap(control, size_of(2));
}

// It gives nobody anything, and memory for that would be zeroed while it starts.
static void test_a_rank_alone_has_no_staging_memory(void **state)
{
    (void)state;
    assert_true(size_of(1) < 64 * 1024);
    assert_true(size_of(2) > 2 * TRP_SHM_SLOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_stop_at_the_same_report),
        cmocka_unit_test(test_a_stop_before_the_first_report_makes_it_the_last),
        cmocka_unit_test(test_no_rank_runs_far_ahead),
        cmocka_unit_test(test_an_end_lets_a_waiting_report_go),
        cmocka_unit_test(test_all_ranks_obey_each_order_with_the_same_report),
        cmocka_unit_test(test_a_rank_that_joins_late_finds_the_order),
        cmocka_unit_test(test_a_rank_alone_has_no_staging_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
