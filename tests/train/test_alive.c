// test_alive.c: who runs a run, told by locks between processes.
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <runtime/host/file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <train/alive.h>
#include <unistd.h>

enum { WAIT_MS = 50 };

// A process that does one thing, says through the pipe that it has, and stays until it is killed.
typedef enum role { DRIVES, RANK_OF_1, RANK_OF_2, CLEANS } role;
typedef struct other {
    pid_t pid;
    int status; // What its call gave.
} other;

static other start(const char *run, role as)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    other it = {.pid = fork()};
    assert_true(it.pid >= 0);
    if (it.pid == 0) {
        trp_alive *alive;
        int64_t epoch = 1;
        troupe_status status = as == DRIVES   ? trp_alive_take(run, &alive)
                               : as == CLEANS ? trp_alive_clean(run, &alive)
                                              : trp_alive_join(run, as, &alive);
        if (as == DRIVES && status == TROUPE_OK)
            status = trp_alive_begin(alive, &epoch, 0);
        int told = (int)status;
        if (write(pipes[1], &told, sizeof told) != sizeof told)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &it.status, sizeof it.status), sizeof it.status);
    close(pipes[0]);
    return it;
}

static void end(other it)
{
    assert_int_equal(kill(it.pid, SIGKILL), 0);
    assert_int_equal(waitpid(it.pid, NULL, 0), it.pid);
}

static void test_one_driver_has_a_run_until_it_dies(void **state)
{
    (void)state;
    char *run = support_directory_make(), named[40];
    trp_alive *alive, *again;
    other driver = start(run, DRIVES);
    assert_int_equal(driver.status, TROUPE_OK);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_BUSY);
    snprintf(named, sizeof named, "process %d", (int)driver.pid);
    assert_non_null(strstr(troupe_last_error()->text, named));
    end(driver);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    // In the same process locks would not tell, and closing the file again would lose the first.
    assert_int_equal(trp_alive_take(run, &again), TROUPE_BUSY);
    other second = start(run, DRIVES);
    assert_int_equal(second.status, TROUPE_BUSY);
    end(second);
    trp_alive_leave(&alive);
    assert_null(alive);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    trp_alive_leave(&alive);
    support_directory_remove(run);
}

static void test_ranks_of_a_dead_driver_are_waited_for(void **state)
{
    (void)state;
    char *run = support_directory_make(), named[40];
    trp_alive *alive;
    int64_t epoch = 1;
    other driver = start(run, DRIVES), rank = start(run, RANK_OF_1), more = start(run, RANK_OF_1);
    assert_int_equal(rank.status, TROUPE_OK);
    assert_int_equal(more.status, TROUPE_OK);
    end(driver);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    assert_true(trp_alive_await_ranks(alive, 0) != 0);
    end(more);
    assert_int_equal(trp_alive_begin(alive, &epoch, WAIT_MS), TROUPE_BUSY);
    snprintf(named, sizeof named, "process %d", (int)rank.pid);
    assert_non_null(strstr(troupe_last_error()->text, named));
    end(rank);
    epoch = 2;
    assert_int_equal(trp_alive_begin(alive, &epoch, SUPPORT_SOON_MS), TROUPE_OK);
    assert_true(epoch > 2); // The try before has used that one up.
    assert_int_equal(trp_alive_await_ranks(alive, 0), 0);
    trp_alive_leave(&alive);
    support_directory_remove(run);
}

static void test_a_late_rank_of_a_dead_driver_is_refused(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_alive *alive;
    int64_t epoch = 2;
    other driver = start(run, DRIVES);
    end(driver);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    assert_int_equal(trp_alive_begin(alive, &epoch, 0), TROUPE_OK);
    assert_int_equal(epoch, 2);
    other late = start(run, RANK_OF_1), right = start(run, RANK_OF_2);
    assert_int_equal(late.status, TROUPE_PEER_LOST);
    assert_int_equal(right.status, TROUPE_OK);
    end(late);
    end(right);
    trp_alive_leave(&alive);
    support_directory_remove(run);
}

static void test_a_rank_within_its_driver_does_not_lose_the_lock(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_alive *alive, *rank, *wrong;
    int64_t epoch = 5;
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    assert_int_equal(trp_alive_begin(alive, &epoch, 0), TROUPE_OK);
    assert_int_equal(trp_alive_join(run, 5, &rank), TROUPE_OK);
    assert_int_equal(trp_alive_join(run, 4, &wrong), TROUPE_PEER_LOST);
    trp_alive_leave(&rank);
    other second = start(run, DRIVES);
    assert_int_equal(second.status, TROUPE_BUSY);
    end(second);
    trp_alive_leave(&alive);
    support_directory_remove(run);
}

static void test_a_forked_child_has_no_part_in_it(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_alive *alive;
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    pid_t child = fork();
    if (child == 0) { // It has a copy of the table, and must not take the run for its own.
        trp_alive *own;
        _exit(trp_alive_take(run, &own) == TROUPE_BUSY &&
                      strstr(troupe_last_error()->text, "this process") == NULL
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    other second = start(run, DRIVES); // The child's end has taken nothing away.
    assert_int_equal(second.status, TROUPE_BUSY);
    end(second);
    trp_alive_leave(&alive);
    support_directory_remove(run);
}

static void *end_soon(void *user)
{
    usleep(100 * 1000);
    end(*(const other *)user);
    return NULL;
}

// What looks whether an earlier run has left something does not keep a driver from it.
static void test_a_driver_waits_for_what_cleans_its_run(void **state)
{
    (void)state;
    char *run = support_directory_make();
    trp_alive *alive;
    pthread_t thread;
    other driver = start(run, DRIVES), cleaner = start(run, CLEANS);
    assert_int_equal(cleaner.status, TROUPE_BUSY); // It lives.
    end(cleaner);
    end(driver);
    cleaner = start(run, CLEANS);
    assert_int_equal(cleaner.status, TROUPE_OK);
    assert_int_equal(trp_alive_clean(run, &alive), TROUPE_BUSY);
    int64_t start_ms = support_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, end_soon, &cleaner), 0);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    assert_true(support_now_ms() - start_ms >= 50);
    pthread_join(thread, NULL);
    trp_alive_leave(&alive);
    // The same within a process, where locks would not tell.
    assert_int_equal(trp_alive_clean(run, &alive), TROUPE_OK);
    other second = start(run, CLEANS);
    assert_int_equal(second.status, TROUPE_BUSY);
    end(second);
    trp_alive_leave(&alive);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    trp_alive_leave(&alive);
    support_directory_remove(run);
}

static void test_a_folder_that_moved_is_seen(void **state)
{
    (void)state;
    char *base = support_directory_make(), *run = support_path(base, "run"),
         *moved = support_path(base, "moved");
    trp_alive *alive, *other_run;
    assert_int_equal(trp_folder_make(run), TROUPE_OK);
    assert_int_equal(trp_alive_take(run, &alive), TROUPE_OK);
    assert_int_equal(trp_alive_check(alive, run), TROUPE_OK);
    assert_int_equal(rename(run, moved), 0);
    assert_int_equal(trp_alive_check(alive, run), TROUPE_IO);
    assert_int_equal(trp_folder_make(run), TROUPE_OK);
    assert_int_equal(trp_alive_take(run, &other_run), TROUPE_OK); // Another one.
    assert_int_equal(trp_alive_check(alive, run), TROUPE_IO);
    trp_alive_leave(&other_run);
    trp_alive_leave(&alive);
    free(run);
    free(moved);
    support_directory_remove(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_driver_has_a_run_until_it_dies),
        cmocka_unit_test(test_ranks_of_a_dead_driver_are_waited_for),
        cmocka_unit_test(test_a_late_rank_of_a_dead_driver_is_refused),
        cmocka_unit_test(test_a_rank_within_its_driver_does_not_lose_the_lock),
        cmocka_unit_test(test_a_forked_child_has_no_part_in_it),
        cmocka_unit_test(test_a_driver_waits_for_what_cleans_its_run),
        cmocka_unit_test(test_a_folder_that_moved_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
