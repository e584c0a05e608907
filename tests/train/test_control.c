// test_control.c: all ranks stop at the same report, without meeting; none runs far ahead.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <train/control.h>
#include <train/engine_shm.h>
#include <unistd.h>

enum { WORLD_MAX = 4, REPORTS_MAX = 1000000000 };

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
                        all->world, 1000))
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
        int at = trp_control_stop(all.control);
        assert_int_equal(trp_control_stop(all.control), at); // A second stop changes nothing.
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
    assert_int_equal(trp_control_stop(all.control), 41);
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
    assert_int_equal(trp_member_open(&other, all.control, size_of(2), &trp_engine_shm, 1, 2, 1000),
                     TROUPE_OK);
    trp_member_leave(&other, TROUPE_OK, "");
    usleep(1000);
    (void)trp_control_stop(all.control);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_stop_at_the_same_report),
        cmocka_unit_test(test_a_stop_before_the_first_report_makes_it_the_last),
        cmocka_unit_test(test_no_rank_runs_far_ahead),
        cmocka_unit_test(test_an_end_lets_a_waiting_report_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
