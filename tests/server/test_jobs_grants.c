// test_jobs_grants.c: what attempts of jobs of the train server are granted: fewer and more ranks,
// what goes on by another attempt without a restart, and what is known of it when the books are
// lost.
#include "shop.h"

static trp_wire_wishes wishes_of(trp_entry *job)
{
    static trp_arena arena;
    trp_wire_wishes wishes;
    trp_arena_clear(&arena);
    assert_int_equal(trp_jobs_wishes(job, &arena, &wishes), TROUPE_OK);
    return wishes;
}

// The runner says how many ranks it has, as one that was told all that is wished.
static void say_ranks(shop *it, trp_entry *job, int ranks)
{
    trp_wire_progress told = {.state = TRP_JOB_RUNNING, .ranks = ranks, .echo = job->row.revision};
    trp_jobs_progress(it->jobs, job, &told);
    shop_turn(it);
}

static void test_fewer_ranks_are_given_back_and_stay_so(void **state)
{
    shop it;
    trp_entry *first, *second;
    (void)state;
    shop_open(&it, 3);
    it.gpus = 3;
    shop_reopen(&it);
    assert_int_equal(
        shop_submit(&it, &first, .submission = "a", .ranks = 3, .gpus = 1, .restarts = 3),
        TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "b", .gpus = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    assert_int_equal(shop_wish(&it, first, TRP_WISH_RANKS, 2), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(wishes_of(first).ranks, 2);
    assert_int_equal(first->row.granted_ranks, 3); // Their processes may still be there.
    assert_int_equal(second->row.state, TRP_JOB_QUEUED);
    say_ranks(&it, first, 2);
    assert_int_equal(first->row.granted_ranks, 2);
    assert_int_equal(second->row.state, TRP_JOB_STARTING);
    // A later wish for still fewer.
    assert_int_equal(shop_wish(&it, first, TRP_WISH_RANKS, 1), TROUPE_OK);
    assert_int_equal(wishes_of(first).resizes, 2);
    say_ranks(&it, first, 1);
    assert_int_equal(first->row.granted_ranks, 1);
    char *gpus = strdup(first->row.gpu_ids), *others = strdup(second->row.gpu_ids);
    assert_true(strlen(gpus) < 4); // One.
    // The next server counts these, and no others.
    shop_reopen(&it);
    first = shop_job(&it, "a");
    assert_string_equal(first->row.gpu_ids, gpus);
    shop_end(&it, shop_job(&it, "b"), TROUPE_OK, 1);
    assert_int_equal(shop_submit(&it, &second, .submission = "c", .gpus = 1, .ranks = 2),
                     TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(second->row.state, TRP_JOB_STARTING);
    assert_null(strstr(it.gpu_ids, gpus));
    // And so has the next attempt.
    shop_die(&it, first);
    shop_turn(&it);
    assert_int_equal(first->row.attempt, 2);
    assert_int_equal(first->row.granted_ranks, 1);
    free(gpus);
    free(others);
    shop_close(&it);
}

// What a runner is told is what is booked, rank by rank: its own node would put both parts on one.
static void test_ranks_are_told_their_gpus(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 8);
    it.gpus = 2;
    shop_reopen(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "half", .gpus = 0.5), TROUPE_OK);
    shop_turn(&it);
    assert_string_equal(it.rank_gpus, "0");
    assert_int_equal(shop_submit(&it, &job, .submission = "halves", .ranks = 2, .gpus = 0.5),
                     TROUPE_OK);
    shop_turn(&it);
    assert_string_equal(it.rank_gpus, "0,1");
    assert_int_equal(shop_submit(&it, &job, .submission = "last", .gpus = 0.5), TROUPE_OK);
    shop_turn(&it);
    assert_string_equal(it.rank_gpus, "1");
    shop_end(&it, shop_job(&it, "half"), TROUPE_OK, 1);
    shop_end(&it, shop_job(&it, "halves"), TROUPE_OK, 1);
    shop_end(&it, shop_job(&it, "last"), TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "thirds", .ranks = 3, .gpus = 0.25),
                     TROUPE_OK);
    shop_turn(&it);
    assert_string_equal(it.rank_gpus, "0,0,0");
    shop_close(&it);
}

// F12.
static void test_more_ranks_are_another_attempt(void **state)
{
    shop it;
    trp_entry *first, *second;
    (void)state;
    shop_open(&it, 4);
    it.gpus = 4;
    shop_reopen(&it);
    assert_int_equal(shop_submit(&it, &first, .submission = "a", .ranks = 2, .gpus = 1), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "b", .gpus = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    assert_int_equal(shop_wish(&it, first, TRP_WISH_RANKS, 5), TROUPE_TOO_LARGE);
    assert_int_equal(shop_wish(&it, first, TRP_WISH_RANKS, 4), TROUPE_OK);
    shop_turn(&it);
    // Not yet: it goes on as it is, and is not given a part of them.
    assert_int_equal(first->row.granted_ranks, 2);
    assert_false(wishes_of(first).grown);
    assert_int_equal(shop_free_cpus(&it), 1);
    // The wish is in the books.
    shop_reopen(&it);
    first = shop_job(&it, "a");
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    say_ranks(&it, first, 2);
    shop_end(&it, shop_job(&it, "b"), TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(first->row.granted_ranks, 4);
    assert_true(wishes_of(first).grown);
    assert_int_equal(wishes_of(first).ranks, 4);
    assert_int_equal(it.launches, 2); // It has to leave first.
    // So is the grant: nobody else gets it, whatever happens to the server.
    assert_int_equal(shop_submit(&it, &second, .submission = "c"), TROUPE_OK);
    shop_reopen(&it);
    first = shop_job(&it, "a");
    assert_int_equal(first->row.granted_ranks, 4);
    assert_true(wishes_of(first).grown);
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "c"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(second->row.state, TRP_JOB_QUEUED);
    shop_leave(&it, first);
    shop_turn(&it);
    assert_int_equal(it.launches, 3);
    assert_int_equal(first->row.attempt, 2);
    assert_int_equal(first->row.counted, 0);
    assert_int_equal(it.order.ranks, 4);
    assert_true(it.order.cpus == 4);
    assert_int_equal(strlen(it.gpu_ids), 7); // "0,1,2,3", in any order.
    assert_false(wishes_of(first).grown);
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    shop_end(&it, first, TROUPE_OK, 9);
    shop_turn(&it);
    assert_int_equal(second->row.state, TRP_JOB_STARTING);
    shop_close(&it);
}

// It could go on with that number alone which it has.
static void test_more_ranks_that_its_run_refuses_are_free_again(void **state)
{
    shop it;
    trp_entry *job, *other;
    (void)state;
    shop_open(&it, 4);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .ranks = 2), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 4), TROUPE_OK);
    shop_turn(&it);
    assert_true(wishes_of(job).grown);
    trp_wire_progress told = {.state = TRP_JOB_RUNNING,
                              .ranks = 2,
                              .echo = job->row.revision,
                              .refused = "a live value, which is another thing"};
    trp_jobs_progress(it.jobs, job, &told);
    assert_int_equal(job->row.granted_ranks, 4);
    told.refused = "parts of 2 ranks";
    told.not_more = true;
    trp_jobs_progress(it.jobs, job, &told);
    assert_int_equal(shop_submit(&it, &other, .submission = "b", .ranks = 2), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(job->row.granted_ranks, 2);
    assert_false(wishes_of(job).grown);
    assert_int_equal(other->row.state, TRP_JOB_STARTING);
    shop_end(&it, other, TROUPE_OK, 1);
    shop_turn(&it);
    assert_false(wishes_of(job).grown); // Nor once more.
    shop_close(&it);
}

// What was wished of the attempt before it does not count against them.
static void test_more_ranks_before_the_start(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 4);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .ranks = 3, .restarts = 1),
                     TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 2), TROUPE_OK);
    shop_turn(&it);
    trp_wire_progress told = {.state = TRP_JOB_RUNNING, .ranks = 2, .echo = job->row.revision};
    trp_jobs_progress(it.jobs, job, &told);
    shop_turn(&it);
    assert_int_equal(job->row.granted_ranks, 2);
    it.refuses = TROUPE_IO;
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 4), TROUPE_OK);
    shop_turn(&it);
    it.refuses = TROUPE_OK;
    shop_pass(&it, 60000);
    assert_int_equal(it.order.ranks, 4);
    trp_wire_wishes wishes = wishes_of(job);
    assert_true(wishes.ranks == 0 || wishes.ranks == 4);
    assert_false(wishes.grown);
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    shop_close(&it);
}

// A crash costs a restart as ever, whatever was wished, and what was wished is not lost by it.
static void test_more_ranks_and_a_crash(void **state)
{
    shop it;
    trp_entry *job, *other;
    (void)state;
    shop_open(&it, 4);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .ranks = 2, .restarts = 2),
                     TROUPE_OK);
    assert_int_equal(shop_submit(&it, &other, .submission = "b", .ranks = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 4), TROUPE_OK);
    shop_die(&it, job); // Before there is room: it goes on at once as it was.
    shop_turn(&it);
    assert_int_equal(job->row.attempt, 2);
    assert_int_equal(job->row.granted_ranks, 2);
    assert_int_equal(job->row.counted, 1);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_end(&it, other, TROUPE_OK, 1);
    shop_turn(&it);
    assert_true(wishes_of(job).grown);
    shop_die(&it, job); // Before it has left.
    shop_turn(&it);
    assert_int_equal(job->row.attempt, 3);
    assert_int_equal(job->row.granted_ranks, 4);
    assert_int_equal(job->row.counted, 2);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    // Fewer after more, before it has left.
    assert_int_equal(shop_submit(&it, &job, .submission = "c", .ranks = 2), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 4), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 3), TROUPE_OK);
    shop_leave(&it, job);
    shop_turn(&it);
    assert_int_equal(job->row.granted_ranks, 3);
    assert_int_equal(it.order.ranks, 3);
    assert_int_equal(shop_free_cpus(&it), 1);
    shop_close(&it);
}

static void test_who_goes_on_after_a_pause_goes_to_the_end(void **state)
{
    shop it;
    trp_entry *first, *second, *third;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &first, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "b"), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &third, .submission = "c"), TROUPE_OK);
    assert_int_equal(shop_wish(&it, second, TRP_WISH_PAUSE, 0), TROUPE_OK);
    shop_pass(&it, 1000);
    assert_int_equal(shop_wish(&it, second, TRP_WISH_GO_ON, 0), TROUPE_OK);
    shop_end(&it, first, TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(third->row.state, TRP_JOB_STARTING);
    assert_int_equal(second->row.state, TRP_JOB_QUEUED);
    shop_close(&it);
}

static void test_a_reservation_keeps_what_was_reserved(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 4);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .ranks = 4, .min_ranks = 1,
                                 .limit_s = 100, .start_at = it.unix_s + 60),
                     TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(job->ticket->ranks, 4);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_PRIORITY, 3), TROUPE_OK);
    assert_int_equal(job->row.need.priority, 3);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 2), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "is reserved"));
    assert_int_equal(job->row.need.ranks, 4);
    shop_turn(&it);
    assert_int_equal(job->ticket->ranks, 4);
    shop_pass(&it, 61000);
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    assert_int_equal(job->row.granted_ranks, 4);
    shop_close(&it);
}

// What the running attempts have is not given away, of each GPU too.
static void test_lost_books_keep_the_grants(void **state)
{
    shop it;
    trp_entry *first, *second, *third;
    (void)state;
    shop_open(&it, 6);
    it.gpus = 3;
    shop_reopen(&it);
    assert_int_equal(shop_submit(&it, &first, .submission = "a", .gpus = 1), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "b", .gpus = 1, .ranks = 4),
                     TROUPE_TOO_LARGE);
    // The one that is in the folder as it was asked for, of three ranks, has got one.
    assert_int_equal(
        shop_submit(&it, &second, .submission = "b", .gpus = 1, .ranks = 3, .min_ranks = 1),
        TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(second->row.granted_ranks, 2);
    char *first_gpus = strdup(first->row.gpu_ids), *second_gpus = strdup(second->row.gpu_ids);
    shop_pass(&it, 40000);
    shop_end(&it, first, TROUPE_OK, 1);
    shop_turn(&it);
    shop_lose_books(&it);
    second = shop_job(&it, "b");
    assert_int_equal(second->row.granted_ranks, 2);
    assert_string_equal(second->row.gpu_ids, second_gpus);
    assert_true(it.unix_s - second->row.granted_at > 39);
    assert_int_equal(shop_greet(&it, second), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &first, .submission = "c", .gpus = 1), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &third, .submission = "d", .gpus = 1), TROUPE_OK);
    shop_turn(&it);
    assert_string_equal(it.gpu_ids, first_gpus); // The one that is free,
    assert_int_equal(first->row.state, TRP_JOB_STARTING);
    assert_int_equal(third->row.state, TRP_JOB_QUEUED); // and there is no other.
    free(first_gpus);
    free(second_gpus);
    shop_close(&it);
}

// A process of an older server, say, of which no folder says what it has.
static void test_a_grant_that_nobody_knows_has_each_gpu(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 4);
    it.gpus = 2;
    shop_reopen(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .gpus = 0.5), TROUPE_OK);
    shop_turn(&it);
    char *grant = support_path(job->folder, "grant");
    assert_int_equal(unlink(grant), 0);
    free(grant);
    shop_lose_books(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "b", .gpus = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_QUEUED);
    shop_end(&it, shop_job(&it, "a"), TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    shop_close(&it);
}

// Runners pass over wishes that they were told: what is wished anew has a higher number.
static void test_wishes_after_lost_books_are_new(void **state)
{
    shop it;
    trp_entry *job;
    trp_wire_progress told = {.state = TRP_JOB_RUNNING, .ranks = 1};
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 1), TROUPE_OK);
    shop_turn(&it);
    told.echo = job->row.revision;
    assert_int_equal(shop_submit(&it, &job, .submission = "b"), TROUPE_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(shop_wish(&it, job, TRP_WISH_PRIORITY, i), TROUPE_OK);
    int64_t of_paused = job->row.revision;
    shop_turn(&it);
    shop_lose_books(&it);
    job = shop_job(&it, "a");
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    trp_jobs_progress(it.jobs, job, &told);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_STOP, 0), TROUPE_OK);
    assert_true(job->row.revision > told.echo);
    job = shop_job(&it, "b");
    assert_int_equal(shop_wish(&it, job, TRP_WISH_GO_ON, 0), TROUPE_OK);
    assert_true(job->row.revision > of_paused);
    shop_close(&it);
}

// As its runner does where SIGTERM asks it to end.
static void say_left(const trp_entry *job)
{
    char text[32];
    char *path = support_path(job->folder, "alive");
    int size = snprintf(text, sizeof text, "%d left\n", job->row.attempt);
    support_write_file(path, text, (size_t)size);
    free(path);
}

// It is told apart from one that is lost, whoever hears of it.
static void test_an_attempt_that_was_asked_to_end_is_not_counted(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    say_left(job);
    shop_leave(&it, job); // No restarts are left.
    shop_turn(&it);
    assert_int_equal(job->row.attempt, 2);
    // While the server is away.
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_turn(&it);
    say_left(job);
    kill(job->process, SIGKILL);
    assert_int_equal(waitpid(job->process, NULL, 0), job->process);
    shop_reopen(&it);
    job = shop_job(&it, "a");
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    assert_int_equal(job->row.attempt, 3);
    assert_int_equal(job->row.counted, 0);
    // The next attempt has not been asked.
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.status, TROUPE_PEER_LOST);
    // Before it has come to troupe_start: later.
    assert_int_equal(shop_submit(&it, &job, .submission = "b"), TROUPE_OK);
    shop_turn(&it);
    kill(job->process, SIGTERM);
    int status;
    assert_int_equal(waitpid(job->process, &status, 0), job->process);
    trp_jobs_exited(it.jobs, job, status);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_QUEUED);
    shop_pass(&it, 1100);
    assert_int_equal(job->row.attempt, 2);
    assert_int_equal(job->row.counted, 0);
    shop_close(&it);
}

// Nor where the server is killed before it has stored what follows.
static void test_that_it_was_asked_to_end_outlives_the_server(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_turn(&it);
    say_left(job);
    assert_int_equal(trp_fence_set(job->folder, 0), TROUPE_BUSY);
    kill(job->process, SIGKILL);
    assert_int_equal(waitpid(job->process, NULL, 0), job->process);
    assert_int_equal(trp_fence_set(job->folder, 0), TROUPE_OK); // And no more.
    shop_reopen(&it);
    job = shop_job(&it, "a");
    assert_int_equal(job->row.attempt, 2);
    assert_int_equal(job->row.counted, 0);
    shop_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_ranks_are_given_back_and_stay_so),
        cmocka_unit_test(test_more_ranks_are_another_attempt),
        cmocka_unit_test(test_more_ranks_that_its_run_refuses_are_free_again),
        cmocka_unit_test(test_more_ranks_before_the_start),
        cmocka_unit_test(test_ranks_are_told_their_gpus),
        cmocka_unit_test(test_more_ranks_and_a_crash),
        cmocka_unit_test(test_who_goes_on_after_a_pause_goes_to_the_end),
        cmocka_unit_test(test_a_reservation_keeps_what_was_reserved),
        cmocka_unit_test(test_lost_books_keep_the_grants),
        cmocka_unit_test(test_a_grant_that_nobody_knows_has_each_gpu),
        cmocka_unit_test(test_wishes_after_lost_books_are_new),
        cmocka_unit_test(test_an_attempt_that_was_asked_to_end_is_not_counted),
        cmocka_unit_test(test_that_it_was_asked_to_end_outlives_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
