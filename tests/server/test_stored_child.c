// test_stored_child.c: a job that a stored program runs itself, below who asks: what is asked of it
// by several threads, and a handle that is closed where its own follower is called.
// timeout: 120
// cost: 10
#include "pushed.h"

#include <pthread.h>
#include <stdatomic.h>

static const char slow[] = "{\"step_us\": 2000, \"fitting\": {\"epochs\": 100000}}";

static int start(void **state)
{
    (void)state;
    (void)pushed_begin();
    troupe_must(troupe_start(0, NULL));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)troupe_stop();
    pushed_end();
    return 0;
}

static troupe_job *submit(const char *name, const troupe_follower *follower)
{
    troupe_job *job;
    troupe_must(
        troupe_submit_stored("slope", slow, follower, &job,
                             .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage,
                                                     .name = name, .console = TROUPE_CONSOLE_OFF)));
    return job;
}

// ---- wishes

enum { WISHES = 20 };

typedef struct wisher {
    troupe_job *job;
    int ranks;
    troupe_status expected;
    atomic_int wrong;
} wisher;

static void *wish(void *user)
{
    wisher *own = user;
    for (int i = 0; i < WISHES; i++)
        if (troupe_job_resize(own->job, own->ranks) != own->expected)
            atomic_fetch_add(&own->wrong, 1);
    return NULL;
}

static bool runs(void *job)
{
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    return now.reports > 0;
}

// Each is told what became of its own wish.
static void test_a_wish_that_is_refused_is_said_to_be(void **state)
{
    (void)state;
    troupe_job *job = submit("wishes", NULL);
    assert_true(support_wait_until(runs, job, SUPPORT_SOON_MS));
    wisher wishers[] = {{job, 1, TROUPE_OK, 0},
                        {job, -5, TROUPE_INVALID, 0},
                        {job, 1, TROUPE_OK, 0},
                        {job, -5, TROUPE_INVALID, 0}};
    enum { COUNT = sizeof wishers / sizeof *wishers };
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wish, &wishers[i]), 0);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < COUNT; i++)
        if (wishers[i].wrong > 0)
            fail_msg("%d of %d wishes for %d ranks did not give %s", (int)wishers[i].wrong, WISHES,
                     wishers[i].ranks, troupe_status_name(wishers[i].expected));
    troupe_job_close(&job);
}

// ---- closing

typedef struct closer {
    pthread_mutex_t lock;
    troupe_job *job; // Set once it is submitted.
    atomic_bool closed;
} closer;

static void close_it(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job, (void)event;
    closer *own = user;
    pthread_mutex_lock(&own->lock);
    if (own->job) {
        troupe_job_close(&own->job);
        atomic_store(&own->closed, true);
    }
    pthread_mutex_unlock(&own->lock);
}

static bool is_closed(void *user)
{
    return atomic_load(&((closer *)user)->closed);
}

static bool is_there(void *path)
{
    return support_exists(path);
}

// The run is stopped then, as one of this process is: it ends, with its last checkpoint.
static void test_a_follower_that_closes_its_job_stops_it(void **state)
{
    (void)state;
    closer own = {.lock = PTHREAD_MUTEX_INITIALIZER};
    troupe_follower follower = {.size = sizeof follower, .report = close_it, .user = &own};
    char *end = support_path(storage, "closed/end");
    troupe_job *job = submit("closed", &follower);
    pthread_mutex_lock(&own.lock);
    own.job = job;
    pthread_mutex_unlock(&own.lock);
    assert_true(support_wait_until(is_closed, &own, SUPPORT_SOON_MS));
    assert_true(support_wait_until(is_there, end, SUPPORT_SOON_MS));
    char *text = support_read_file(end);
    if (!strstr(text, "\"stopped\": true"))
        fail_msg("the run has ended by: %s", text);
    free(text), free(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wish_that_is_refused_is_said_to_be),
        cmocka_unit_test(test_a_follower_that_closes_its_job_stops_it),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
