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
    site_open(&it, 1);
    site_stop(&it);
    it.how.idle_s = IDLE_S;
    site_start(&it);
    // It is needed by a job that takes longer than that, with no client there,
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(site_submit(&it, link, &arena, &job, .submission = "a", .reports = 13,
                                 .each_ms = 100 * IDLE_S),
                     TROUPE_OK);
    trp_server_link_close(&link);
    char *ends = support_path(it.folder, "jobs/00000001/end");
    int64_t late = support_now_ms() + SUPPORT_SOON_MS;
    while (!support_exists(ends) && support_now_ms() < late) {
        assert_false(has_ended(&it));
        nap_ms(1);
    }
    // and by a client that asks nothing.
    link = site_connect(&it, NULL);
    site_await(link, job.job, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_OK);
    nap_ms(1300 * IDLE_S);
    assert_false(has_ended(&it));
    trp_server_link_close(&link);
    int64_t begin = support_now_ms();
    assert_true(support_wait_until(has_ended, &it, SUPPORT_SOON_MS));
    assert_true(support_now_ms() - begin >= 900 * IDLE_S);
    free(ends);
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
