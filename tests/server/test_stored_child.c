// test_stored_child.c: a job that a stored program runs itself, below who asks: how it is asked
// for, what several threads ask of it, and a handle that is closed where its own follower is
// called.
// timeout: 120
// cost: 10
#include "pushed.h"

#include <fcntl.h>
#include <models/stored.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    static closer own = {.lock = PTHREAD_MUTEX_INITIALIZER}; // Its last user is the follower.
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

// ---- a run that goes on

static void count_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job, (void)event;
    atomic_fetch_add((atomic_int *)user, 1);
}

// A follower is told what is new, wherever the run is.
static void test_what_was_told_is_not_told_again(void **state)
{
    (void)state;
    static const char *const storages[] = {NULL, "~/of_home"};
    for (int i = 0; i < 2; i++) {
        atomic_int told = 0;
        troupe_follower follower = {.size = sizeof follower, .report = count_report, .user = &told};
        for (int again = 0; again < 2; again++) {
            troupe_train_options options = {.size = sizeof options,
                                            .storage = storages[i],
                                            .console = TROUPE_CONSOLE_OFF,
                                            .open = again ? TROUPE_OPEN_RESUME : TROUPE_OPEN_NEW};
            troupe_job *job;
            troupe_result *result;
            troupe_must(troupe_submit_stored("slope", NULL, &follower, &job, .train = &options));
            troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
            assert_string_equal(troupe_result_error(result), "");
            troupe_result_free(&result);
            troupe_job_close(&job);
            assert_int_equal(told, 3);
        }
    }
}

// ---- asking

static void test_a_main_that_closes_the_socket_is_said_to(void **state)
{
    (void)state;
    troupe_job *job = NULL;
    setenv("STORED_CLOSES", "1", 1);
    troupe_status status = troupe_submit_stored("slope", NULL, NULL, &job);
    unsetenv("STORED_CLOSES");
    said(status, TROUPE_IO, "the program of slope@1 has closed the socket that it is asked by");
}

static bool has_line(void *path)
{
    char *text = support_exists(path) ? support_read_file(path) : NULL;
    bool has = text && strchr(text, '\n');
    free(text);
    return has;
}

static bool is_gone(void *pid)
{
    return !support_process_lives(*(pid_t *)pid);
}

static void test_what_nobody_waits_for_is_not_done(void **state)
{
    (void)state;
    char *waits = support_path(top, "waits"), *who = support_path(top, "waits.waits");
    char *run = support_path(storage, "unasked");
    support_write_file(waits, "", 0);
    setenv("STORED_WAITS", waits, 1);
    pid_t client = fork();
    if (client == 0) {
        (void)execl(support_setting("TROUPE_TOOL"), "troupe", "train", "--quiet", "--model",
                    "slope", "--name", "unasked", "--storage", storage, (char *)NULL);
        _exit(127);
    }
    unsetenv("STORED_WAITS");
    assert_true(support_wait_until(has_line, who, SUPPORT_SOON_MS));
    char *text = support_read_file(who);
    pid_t program = (pid_t)strtol(text, NULL, 10);
    assert_true(support_process_lives(program));
    assert_int_equal(kill(client, SIGKILL), 0);
    assert_int_equal(waitpid(client, NULL, 0), client);
    assert_int_equal(unlink(waits), 0);
    assert_true(support_wait_until(is_gone, &program, SUPPORT_SOON_MS));
    assert_false(support_exists(run));
    free(text), free(run), free(who), free(waits);
}

// This program as a stored one that dies once it has begun.
static int die_begun(void)
{
    enum { SOCKET = 3 };
    static const char begun[] = "{\"begun\": true}";
    char request[1000];
    if (recv(SOCKET, request, sizeof request, 0) <= 0 ||
        send(SOCKET, begun, strlen(begun), 0) != (ssize_t)strlen(begun))
        return 1;
    return raise(SIGKILL);
}

static void test_a_job_that_is_not_answered_for_may_be_there(void **state)
{
    (void)state;
    trp_arena arena = {0};
    const char *arguments[] = {"program", "die"};
    char *folder = support_path(top, "dies"), *program = support_path(top, "dies/program");
    const trp_push_program record = {.arguments = {arguments, 2}};
    const trp_stored_request request = {.action = "submit"};
    trp_stored_of of = {.ref = "dies@1", .folder = folder, .record = &record};
    trp_stored_answer answer;
    trp_child_process process;
    char self[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(size > 0);
    self[size] = '\0';
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink(self, program), 0);
    said(trp_stored_ask(&of, &request, &arena, &answer, &process), TROUPE_IO,
         "the program of dies@1 has died by signal 9 before it answered");
    assert_null(strstr(troupe_last_error()->text, "may have taken"));
    of.server = state_folder;
    said(trp_stored_ask(&of, &request, &arena, &answer, &process), TROUPE_IO,
         "has died by signal 9 before it answered; the train server may have taken its job");
    trp_arena_clear(&arena);
    free(folder), free(program);
}

// What the program answers to a request as other libraries may send it.
static void ask_program(const char *request, int count, trp_stored_answer *answers,
                        trp_arena *arena)
{
    char *program = support_path(models, "slope/000001/program"), asker[40];
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    (void)snprintf(asker, sizeof asker, "%d:9", (int)getpid());
    setenv("TROUPE_STORED", asker, 1);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], 9);
        (void)fcntl(9, F_SETFD, 0); // Where it was that one.
        (void)execl(program, program, (char *)NULL);
        _exit(127);
    }
    unsetenv("TROUPE_STORED");
    close(ends[1]);
    assert_int_equal(send(ends[0], request, strlen(request), 0), strlen(request));
    for (int i = 0; i < count; i++)
        troupe_must(trp_packet_receive(ends[0], SUPPORT_SOON_MS, &troupe_type_trp_stored_answer,
                                       arena, &answers[i]));
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    free(program);
}

static void test_a_request_of_a_later_library_is_refused(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_stored_answer answers[2] = {0};
    ask_program("{\"version\": 99, \"action\": \"check\"}", 1, answers, &arena);
    assert_int_equal(answers[0].status, TROUPE_VERSION);
    assert_non_null(strstr(answers[0].text, "is asked in version 99, expected at most 2"));
    // An earlier one knows the answer alone; to the present one it says before that it is there.
    ask_program("{\"version\": 1, \"action\": \"odd\"}", 1, answers, &arena);
    assert_false(answers[0].begun);
    assert_int_equal(answers[0].status, TROUPE_UNSUPPORTED);
    ask_program("{\"version\": 2, \"action\": \"odd\"}", 2, answers, &arena);
    assert_true(answers[0].begun);
    assert_int_equal(answers[1].status, TROUPE_UNSUPPORTED);
    trp_arena_clear(&arena);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        return die_begun();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wish_that_is_refused_is_said_to_be),
        cmocka_unit_test(test_a_follower_that_closes_its_job_stops_it),
        cmocka_unit_test(test_what_was_told_is_not_told_again),
        cmocka_unit_test(test_a_main_that_closes_the_socket_is_said_to),
        cmocka_unit_test(test_what_nobody_waits_for_is_not_done),
        cmocka_unit_test(test_a_job_that_is_not_answered_for_may_be_there),
        cmocka_unit_test(test_a_request_of_a_later_library_is_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
