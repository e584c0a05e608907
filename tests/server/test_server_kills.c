// test_server_kills.c: the train server is killed at each step and at any moment, and runners too:
// what was acknowledged is not lost, nothing runs twice, and the books say what the folders say.
// label: faults
// timeout: 120
// cost: 15
// again: full slow 900 100
#include "site.h"

static int kills = 12 / SUPPORT_SLOWER;
static bool full; // Each point each time that it is reached, and not the first time alone.

// ---- a client in a process of its own

typedef struct plan {
    int client, jobs, ranks, reports, each_ms, restarts;
    bool again; // Each is submitted twice, by its key.
} plan;

static void assert_ended(trp_server_link *link, int64_t id, trp_arena *arena)
{
    trp_wire_job job;
    site_await(link, id, TRP_JOB_ENDED, arena, &job);
    if (job.state != TRP_JOB_ENDED || job.status != TROUPE_OK)
        fail_msg("job %" PRId64 " ended with status %d: %s", id, job.status,
                 job.error != NULL ? job.error : "");
}

static int run_client(const site *it, const plan *how)
{
    trp_arena arena = {0};
    int64_t ids[128];
    trp_server_link *link = NULL;
    while (trp_server_link_open(it->folder, NULL, &link) != TROUPE_OK)
        nap_ms(1);
    for (int i = 0; i < how->jobs; i++) {
        char name[32], other[40];
        trp_wire_job job, same;
        snprintf(name, sizeof name, "c%d-%d", how->client, i);
        snprintf(other, sizeof other, "%s-again", name);
        site_asks asks = {.submission = name,
                          .key = name,
                          .ranks = how->ranks,
                          .reports = how->reports,
                          .each_ms = how->each_ms,
                          .restarts = how->restarts};
        if (site_submit_as(it, link, &asks, &arena, &job) != TROUPE_OK)
            fail_msg("%s: %s", name, troupe_last_error()->text);
        ids[i] = job.job;
        asks.submission = other;
        if (how->again) {
            assert_int_equal(site_submit_as(it, link, &asks, &arena, &same), TROUPE_OK);
            assert_int_equal(same.job, job.job);
        }
    }
    for (int i = 0; i < how->jobs; i++)
        assert_ended(link, ids[i], &arena);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    return 0;
}

static pid_t start_client(const site *it, const plan *how)
{
    (void)fflush(NULL);
    pid_t client = fork();
    if (client != 0)
        return client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(run_client(it, how));
}

// ---- what has to hold at the end

// The books say of each job what its folder says, and there is no other folder.
static void assert_books_are_as_folders(const site *it, int count)
{
    trp_arena arena = {0};
    trp_wire_jobs all;
    trp_wire_list list = {.ended = true};
    trp_server_link *link = site_connect(it, NULL);
    assert_int_equal(site_ask(link, TRP_WIRE_LIST, &troupe_type_trp_wire_list, &list, TRP_WIRE_JOBS,
                              &troupe_type_trp_wire_jobs, &arena, &all),
                     TROUPE_OK);
    assert_int_equal(all.jobs.count, count);
    for (size_t i = 0; i < all.jobs.count; i++) {
        const trp_wire_job *job = &all.jobs.items[i];
        trp_job_end end;
        char path[600];
        assert_int_equal(trp_job_end_read(job->folder, &arena, &end), TROUPE_OK);
        assert_int_equal(job->state, TRP_JOB_ENDED);
        assert_int_equal(job->status, end.status);
        assert_int_equal(job->reports, end.reports);
        assert_int_equal(job->stopped, end.stopped);
        snprintf(path, sizeof path, "%s/launch", job->folder);
        assert_false(support_exists(path));
    }
    char *jobs = support_path(it->folder, "jobs");
    assert_int_equal(support_count_files(jobs), count);
    free(jobs);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
}

// ---- each step

static const struct {
    const char *name;
    int most; // Times that it is reached below, at least.
} points[] = {{"job folder made", 2}, {"job files written", 2}, {"job folder whole", 2},
              {"before commit", 6},   {"after commit", 6},      {"before fence", 2},
              {"before launch", 2},   {"after launch", 2},      {"before end", 1},
              {"after end", 1}};

// Two jobs that run and one that is stopped before it could.
static int run_steps(const site *it)
{
    trp_arena arena = {0};
    trp_wire_job first, second, third;
    trp_server_link *link = NULL;
    while (trp_server_link_open(it->folder, NULL, &link) != TROUPE_OK)
        nap_ms(1);
    assert_int_equal(site_submit(it, link, &arena, &first, .submission = "a", .key = "a",
                                 .reports = 4, .each_ms = 5),
                     TROUPE_OK);
    assert_int_equal(site_submit(it, link, &arena, &second, .submission = "b", .key = "b",
                                 .reports = 1, .each_ms = 1),
                     TROUPE_OK);
    assert_int_equal(site_submit(it, link, &arena, &third, .submission = "c", .ranks = 2,
                                 .reports = 1, .each_ms = 1),
                     TROUPE_TOO_LARGE);
    assert_int_equal(
        site_submit(it, link, &arena, &third, .submission = "d", .reports = 1000000, .each_ms = 1),
        TROUPE_OK);
    assert_int_equal(site_wish(link, third.job, TRP_WISH_STOP, 0, &arena), TROUPE_OK);
    assert_ended(link, first.job, &arena);
    assert_ended(link, second.job, &arena);
    assert_ended(link, third.job, &arena);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    return 0;
}

// Waits for the client, and starts the server again when it is dead.
static int tend(site *it, pid_t client)
{
    int status, deaths = 0;
    while (waitpid(client, &status, WNOHANG) == 0) {
        if (waitpid(it->server, NULL, WNOHANG) == it->server) {
            deaths++;
            site_start(it);
        }
        nap_ms(1);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the client failed");
    return deaths;
}

static void test_a_death_at_each_step_loses_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        for (int count = 1; count <= (full ? points[i].most : 1); count++) {
            site it;
            site_open(&it, 1);
            site_stop(&it);
            (void)site_start_to_die(&it, points[i].name, count);
            (void)fflush(NULL);
            pid_t client = fork();
            if (client == 0)
                _exit(run_steps(&it));
            if (tend(&it, client) != 1)
                fail_msg("the server did not die at \"%s\", time %d", points[i].name, count);
            assert_books_are_as_folders(&it, 3);
            if (site_count_runs(&it, "a") != 1 || site_count_runs(&it, "b") != 1)
                fail_msg("after a death at \"%s\", time %d, jobs ran %d and %d times",
                         points[i].name, count, site_count_runs(&it, "a"),
                         site_count_runs(&it, "b"));
            site_close(&it);
        }
}

// ---- any moment

// F14.
static void test_deaths_at_any_moment_lose_nothing(void **state)
{
    enum { CLIENTS = 3, JOBS = 20 / SUPPORT_SLOWER };
    site it;
    pid_t clients[CLIENTS];
    int status;
    unsigned seed = 4711;
    (void)state;
    site_open(&it, 4);
    for (int i = 0; i < CLIENTS; i++) {
        plan how = {i, JOBS, 1, 5, 4, TROUPE_FOREVER, i > 0};
        clients[i] = start_client(&it, &how);
    }
    for (int i = 0; i < kills; i++) {
        nap_ms((int)(rand_r(&seed) % 60));
        site_kill(&it);
        site_start(&it);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(waitpid(clients[i], &status, 0), clients[i]);
        assert_int_equal(status, 0);
    }
    assert_books_are_as_folders(&it, CLIENTS * JOBS);
    for (int i = 0; i < CLIENTS; i++)
        for (int j = 0; j < JOBS; j++) {
            char name[32];
            snprintf(name, sizeof name, "c%d-%d", i, j);
            if (site_count_runs(&it, name) != 1)
                fail_msg("%s ran %d times", name, site_count_runs(&it, name));
        }
    _Atomic int *slots = nap_slots(it.storage);
    assert_true(slots[1] <= 4);
    site_close(&it);
}

// F17: runners die as well: jobs go on as further attempts, and never two at once.
static void test_deaths_of_runners_lose_nothing(void **state)
{
    enum { JOBS = 12 / SUPPORT_SLOWER };
    site it;
    trp_arena arena = {0};
    int status;
    unsigned seed = 815;
    (void)state;
    site_open(&it, 4);
    plan how = {0, JOBS, 1, 10, 4, TROUPE_FOREVER, false};
    pid_t client = start_client(&it, &how);
    for (int i = 0; i < kills; i++) {
        nap_ms((int)(rand_r(&seed) % 30));
        if (rand_r(&seed) % 3 == 0) {
            site_kill(&it);
            site_start(&it);
            continue;
        }
        trp_wire_jobs all;
        trp_wire_list list = {0};
        trp_server_link *link = site_connect(&it, NULL);
        assert_int_equal(site_ask(link, TRP_WIRE_LIST, &troupe_type_trp_wire_list, &list,
                                  TRP_WIRE_JOBS, &troupe_type_trp_wire_jobs, &arena, &all),
                         TROUPE_OK);
        for (size_t j = 0; j < all.jobs.count; j++)
            if (all.jobs.items[j].runner > 0 && rand_r(&seed) % 2 == 0)
                kill(all.jobs.items[j].runner, SIGKILL);
        trp_server_link_close(&link);
    }
    assert_int_equal(waitpid(client, &status, 0), client);
    assert_int_equal(status, 0);
    assert_books_are_as_folders(&it, JOBS);
    for (int j = 0; j < JOBS; j++) {
        char name[32];
        snprintf(name, sizeof name, "c0-%d", j);
        assert_true(site_count_runs(&it, name) >= 1); // Fails where two ran at once.
    }
    trp_arena_clear(&arena);
    site_close(&it);
}

// F10: a hundred jobs, fewer with a sanitizer, of two ranks from three clients have eight CPUs, and
// never more.
static void test_no_more_is_given_than_there_is(void **state)
{
    enum { CLIENTS = 3, JOBS = 34 / SUPPORT_SLOWER, CPUS = 8 };
    site it;
    pid_t clients[CLIENTS];
    int status;
    (void)state;
    site_open(&it, CPUS);
    char *together = support_path(it.storage, "together");
    support_write_file(together, "", 0); // The first job waits for another one.
    free(together);
    for (int i = 0; i < CLIENTS; i++) {
        plan how = {i, JOBS, 2, 2, 2, 0, i == 1};
        clients[i] = start_client(&it, &how);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(waitpid(clients[i], &status, 0), clients[i]);
        assert_int_equal(status, 0);
    }
    _Atomic int *slots = nap_slots(it.storage);
    assert_int_equal(slots[0], 0);
    assert_true(slots[1] <= CPUS);
    assert_true(slots[1] > 2); // More than one at a time, all the same.
    assert_books_are_as_folders(&it, CLIENTS * JOBS);
    site_close(&it);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    if (argc > 1)
        kills = atoi(argv[1]);
    full = argc > 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_death_at_each_step_loses_nothing),
        cmocka_unit_test(test_deaths_at_any_moment_lose_nothing),
        cmocka_unit_test(test_deaths_of_runners_lose_nothing),
        cmocka_unit_test(test_no_more_is_given_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
