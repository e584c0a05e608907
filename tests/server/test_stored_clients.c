// test_stored_clients.c: three kinds of clients at once: a program, the shell and HTTP submit
// trainings of a version to one server, which never runs more ranks than it has slots.
// timeout: 120
// cost: 20
// again: full slow 900 100
#include "pushed.h"

#include <pthread.h>
#include <runtime/base/clock.h>

enum { SLOTS = 8, RANKS = 2, JOBS_MAX = 400 };

static int jobs = 12;

// What a job does and who submits it, of its number: the same each time.
typedef enum kind { PROGRAM, SHELL, HTTP, KINDS } kind;
typedef struct task {
    kind kind;
    char config[120];
} task;

static task task_of(int number)
{
    uint64_t seed[2];
    task made;
    support_fill(seed, sizeof seed, (uint64_t)number + 42);
    made.kind = number < KINDS ? (kind)number : (kind)(seed[0] % KINDS);
    (void)snprintf(made.config, sizeof made.config,
                   "{\"step_us\": %d, \"fitting\": {\"epochs\": %d}}", (int)(seed[1] % 4) * 1000,
                   1 + (int)(seed[0] / KINDS % 6));
    return made;
}

// Of each thread; cmocka's own checks are for the main one.
static struct {
    char problem[600];
} threads[KINDS];
static int64_t numbers[JOBS_MAX];

static void submit_here(int number, const char *config)
{
    char name[40], key[40];
    troupe_job *job;
    (void)snprintf(name, sizeof name, "job-%03d", number);
    (void)snprintf(key, sizeof key, "key-%03d", number);
    if (troupe_submit_stored("slope", config, NULL, &job,
                             .train = TROUPE_OPTIONS(troupe_train_options, .ranks = RANKS,
                                                     .storage = storage, .name = name, .key = key,
                                                     .server = TROUPE_SERVER_AUTO)) != TROUPE_OK ||
        troupe_job_number(job) == 0) {
        (void)snprintf(threads[PROGRAM].problem, 600, "job %d: %s", number,
                       troupe_last_error()->text);
        return;
    }
    numbers[number] = troupe_job_number(job);
    troupe_must(troupe_job_leave(&job));
}

static void submit_by_shell(int number, const char *config)
{
    char arguments[400], text[1000];
    long long job = 0;
    (void)snprintf(arguments, sizeof arguments,
                   "submit --json --model slope@production --storage runs --name job-%03d "
                   "--key key-%03d -n %d --config '%s'",
                   number, number, RANKS, config);
    int ends = tool(arguments, text, sizeof text);
    if (ends != 0 || sscanf(text, "{\"job\": %lld", &job) != 1)
        (void)snprintf(threads[SHELL].problem, 600, "job %d ends with %d: %.400s", number, ends,
                       text);
    numbers[number] = job;
}

static void submit_over_http(int number, const char *config)
{
    char body[400], text[1000];
    long long job = 0;
    (void)snprintf(body, sizeof body,
                   "{\"model\": \"slope@1\", \"config\": %s, \"ranks\": %d, \"name\": "
                   "\"job-%03d\", \"key\": \"key-%03d\"}",
                   config, RANKS, number, number);
    int code = post_job(body, text, sizeof text);
    if (code != 202 || sscanf(text, "{\"job\":%lld", &job) != 1)
        (void)snprintf(threads[HTTP].problem, 600, "job %d: %d, %.400s", number, code, text);
    numbers[number] = job;
}

static void *submit_kind(void *user)
{
    static void (*const by[KINDS])(int, const char *) = {submit_here, submit_by_shell,
                                                         submit_over_http};
    kind own = *(const kind *)user;
    for (int number = 0; number < jobs && threads[own].problem[0] == '\0'; number++) {
        task it = task_of(number);
        if (it.kind == own)
            by[own](number, it.config);
    }
    return NULL;
}

static void await_end(int number)
{
    char key[40];
    troupe_job *job;
    troupe_result *result;
    (void)snprintf(key, sizeof key, "key-%03d", number);
    troupe_must(troupe_job_find(key, &job));
    assert_int_equal(troupe_job_number(job), numbers[number]);
    troupe_must(troupe_job_wait(job, 300000, &result));
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("job %d has failed: %s", number, troupe_result_error(result));
    assert_true(troupe_result_reports(result) > 0);
    troupe_result_free(&result);
    troupe_must(troupe_job_leave(&job));
}

// What the ranks have written: that each began and ended, and how many were there at once at most.
typedef struct event {
    long long at;
    int change;
} event;

static int compare_events(const void *one, const void *other)
{
    const event *a = one, *b = other;
    return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : a->change - b->change;
}

static int read_witness(const char *path, int *most)
{
    static event events[4 * RANKS * JOBS_MAX];
    int count = 0, now = 0, begun = 0;
    FILE *file = fopen(path, "re");
    char what;
    assert_non_null(file);
    for (event *at = events; fscanf(file, " %c %lld %*d", &what, &at->at) == 2;
         at = &events[count]) {
        at->change = what == '+' ? 1 : -1;
        assert_true(++count < 4 * RANKS * JOBS_MAX);
    }
    (void)fclose(file);
    qsort(events, (size_t)count, sizeof *events, compare_events);
    *most = 0;
    for (int i = 0; i < count; i++) {
        now += events[i].change;
        begun += events[i].change > 0;
        *most = now > *most ? now : *most;
    }
    assert_int_equal(now, 0);
    return begun;
}

// F07, F21, G16.
static void test_three_kinds_of_clients_at_once(void **state)
{
    (void)state;
    kind kinds[KINDS];
    pthread_t made[KINDS];
    char *path = support_path(top, "witness");
    char more[12];
    int most;
    (void)snprintf(more, sizeof more, "%d", RANKS + 1);
    setenv("STORED_WITNESS", path, 1);
    setenv("STORED_TOGETHER", more, 1); // The first job waits for another one.
    serve_jobs(SLOTS);
    for (int i = 0; i < KINDS; i++) {
        kinds[i] = (kind)i;
        assert_int_equal(pthread_create(&made[i], NULL, submit_kind, &kinds[i]), 0);
    }
    for (int i = 0; i < KINDS; i++)
        pthread_join(made[i], NULL);
    for (int i = 0; i < KINDS; i++)
        if (threads[i].problem[0])
            fail_msg("client of kind %d: %s", i, threads[i].problem);
    for (int number = 0; number < jobs; number++)
        await_end(number);
    assert_int_equal(read_witness(path, &most), RANKS * jobs);
    if (most > SLOTS)
        fail_msg("%d ranks at once, in %d slots", most, SLOTS);
    assert_true(most > RANKS); // More than one job at once.
    free(path);
}

static int start(void **state)
{
    (void)state;
    (void)pushed_begin();
    unsetenv("TROUPE_SERVER");
    troupe_must(troupe_start(0, NULL));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)tool("server stop --jobs", output, sizeof output);
    (void)troupe_stop();
    pushed_end();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_kinds_of_clients_at_once)};
    if (argc > 1)
        jobs = (int)strtol(argv[1], NULL, 10);
    return jobs >= KINDS && jobs <= JOBS_MAX ? cmocka_run_group_tests(tests, start, stop) : 2;
}
