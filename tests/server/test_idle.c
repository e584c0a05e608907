// test_idle.c: a train server that was started for one program ends when nobody needs it any more,
// and not before.
#include "site.h"

enum { IDLE_S = 1 };

static bool has_ended(void *context)
{
    return waitpid(((site *)context)->server, NULL, WNOHANG) == ((site *)context)->server;
}

static void test_a_server_that_nobody_needs_ends(void **state)
{
    (void)state;
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    // It is needed by a job that takes longer than that, with no client there,
    site_open(&it, 1);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "a", .reports = 1000000, .each_ms = 10),
        TROUPE_OK);
    trp_server_link_close(&link);
    site_stop(&it);
    it.how.idle_s = IDLE_S;
    site_start(&it);
    nap_ms(1300 * IDLE_S);
    assert_false(has_ended(&it));
    // and by a client that asks nothing.
    link = site_connect(&it, NULL);
    assert_int_equal(site_wish(link, job.job, TRP_WISH_STOP, 0, &arena), TROUPE_OK);
    site_await(link, job.job, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_OK);
    nap_ms(1300 * IDLE_S);
    assert_false(has_ended(&it));
    int64_t begin = support_now_ms();
    trp_server_link_close(&link);
    assert_true(support_wait_until(has_ended, &it, SUPPORT_SOON_MS));
    assert_true(support_now_ms() - begin >= 900 * IDLE_S);
    trp_arena_clear(&arena);
    support_directory_remove(it.folder);
    support_directory_remove(it.storage);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_that_nobody_needs_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
