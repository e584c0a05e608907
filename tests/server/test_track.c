// test_track.c: what is sent of jobs to a webhook and to MLflow, which a thread of this program
// stands in for, while senders, servers and receivers are killed.
// timeout: 120
#include "made.h"
#include "tracker_stand_in.h"

#include <server/child.h>
#include <server/track.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

enum { SOON = SUPPORT_SOON_MS, REPORTS = 500 };

static char *top;
static char program[4096];
static made_folders at;

static int begin(void **state)
{
    (void)state;
    top = support_directory_make();
    at = made_begin(top);
    assert_int_equal(chmod(at.state, 0700), 0);
    assert_int_equal(setenv("TROUPE_STATE", at.state, 1), 0);
    (void)snprintf(program, sizeof program, "%s", support_setting("TROUPE_TOOL"));
    (void)snprintf(strrchr(program, '/'), 20, "/troupe-server");
    receiver_clear();
    return 0;
}

static int end(void **state)
{
    (void)state;
    made_over(&at);
    support_directory_remove(top);
    return 0;
}

// ---- jobs

static void make_job(int id, const char *metadata)
{
    trp_path path = made_path("%s/jobs/%08d/job.json", at.state, id);
    made_line(path.text,
              "{\"version\": 1, \"id\": %d, \"submission\": \"sub%d\", \"name\": \"name%d\", "
              "\"trainer\": \"spiral\", \"program\": \"/bin/spiral\", \"folder\": "
              "\"%s/run%d\", \"submitted_at\": %.0f, \"config\": {\"rate\": 0.5, \"layers\": "
              "{\"width\": 32, \"kind\": \"tanh\"}}, \"metadata\": %s}",
              id, id, id, at.results, id, at.now - 100, metadata);
}

static trp_path journal_of(int id)
{
    return made_path("%s/run%d/journal.jsonl", at.results, id);
}

static void begin_run(int id)
{
    trp_path path = journal_of(id);
    made_line(path.text, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"%s\"}",
              made_at(at.now).text);
    made_line(
        path.text,
        "{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"at\": \"%s\", \"elapsed_s\": 5}",
        made_at(at.now).text);
}

static void add_reports(int id, int from, int to)
{
    trp_path path = journal_of(id);
    FILE *file = fopen(path.text, "a");
    assert_non_null(file);
    for (int i = from; i <= to; i++)
        fprintf(file,
                "{\"event\": \"report\", \"report\": %d, \"attempt\": 0, \"elapsed_s\": %d.5, "
                "\"metrics\": {\"loss\": %d.25, \"accuracy\": \"NaN\"}}\n",
                i, i + 5, i);
    assert_int_equal(fclose(file), 0);
}

static void end_job(int id, int status, const char *error)
{
    const trp_job_end how = {.version = 1,
                             .attempt = 1,
                             .status = status,
                             .error = error,
                             .reports = 3,
                             .ended_at = at.now - 10};
    made_end(&at, id, &how);
}

static void configure(const char *webhook, const char *mlflow)
{
    char url[2][100];
    (void)snprintf(url[0], 100, "http://127.0.0.1:%d%s", receiver.port, webhook ? webhook : "");
    (void)snprintf(url[1], 100, "http://127.0.0.1:%d%s", receiver.port, mlflow ? mlflow : "");
    troupe_must(trp_track_change(at.state, webhook ? url[0] : NULL, mlflow ? url[1] : NULL, NULL));
    // As if long ago.
    trp_track_how how;
    trp_arena arena = {0};
    trp_buffer text = {0};
    troupe_must(trp_track_read(at.state, &arena, &how));
    how.webhook.since = how.mlflow.since = at.now - 1000;
    trp_json_value(&text, &troupe_type_trp_track_how, &how);
    char *path = support_path(at.state, "trackers.json");
    support_write_file(path, text.data, text.size);
    free(path);
    trp_buffer_free(&text);
    trp_arena_clear(&arena);
}

// ---- who sends

static pid_t start_sender(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *log = support_path(at.state, "track.log");
        if (!freopen(log, "a", stderr))
            _exit(9);
        (void)execl(program, "troupe-server", "track", (char *)NULL);
        _exit(9);
    }
    return child;
}

static int await_sender(pid_t sender)
{
    int status;
    assert_int_equal(waitpid(sender, &status, 0), sender);
    receiver_settle();
    return status;
}

static void send_all_there_is(void)
{
    receiver_settle(); // What was read of it before.
    if (await_sender(start_sender()) != 0) {
        char *log = support_path(at.state, "track.log");
        support_print(support_read_file(log));
        fail_msg("who sends has failed");
    }
}

static void expect_text(const char *text, const char *has)
{
    if (strstr(text, has) == NULL)
        fail_msg("expected '%s' in: %s", has, text);
}

// ---- the webhook

// F15.
static void test_a_webhook_is_told_of_the_end(void **state)
{
    (void)state;
    char own[200];
    (void)snprintf(own, sizeof own, "{\"webhook\": \"http://127.0.0.1:%d/own\"}", receiver.port);
    make_job(1, "null");
    begin_run(1);
    add_reports(1, 1, 3);
    end_job(1, TROUPE_OK, NULL);
    make_job(2, own);
    end_job(2, TROUPE_PEER_LOST, "rank 0 was killed by \"signal\" 9");
    make_job(3, "null"); // Waits.
    configure("/hook", NULL);
    send_all_there_is();
    assert_int_equal(receiver.hook_count, 2);
    const told_hook *first = &receiver.hooks[0], *second = &receiver.hooks[1];
    assert_string_equal(first->path, "/hook");
    expect_text(first->head, "X-Troupe-Event: sub1.end");
    expect_text(first->body, "{\"event\": \"job.end\", \"id\": \"sub1.end\", \"job\": 1, \"name\": "
                             "\"name1\", \"trainer\": \"spiral\", \"state\": \"DONE\"");
    expect_text(first->body, "\"error\": null");
    expect_text(first->body, "\"metrics\": {\"loss\": 3.25, \"accuracy\": \"NaN\"}");
    expect_text(first->body, "\"submitted_at\": ");
    assert_string_equal(second->path, "/own");
    expect_text(second->body, "\"state\": \"FAILED\", \"status\": \"TROUPE_PEER_LOST\", \"error\": "
                              "\"rank 0 was killed by \\\"signal\\\" 9\"");
    expect_text(second->body, "\"metrics\": {}");
    // Once, and what had ended before it was configured not at all.
    send_all_there_is();
    assert_int_equal(receiver.hook_count, 2);
    make_job(4, "null");
    end_job(4, TROUPE_OK, NULL);
    configure("/other", NULL);
    troupe_must(trp_track_change(at.state, "http://127.0.0.1:1/", NULL, NULL));
    send_all_there_is();
    assert_int_equal(receiver.hook_count, 2);
}

static void test_a_receiver_that_fails_is_tried_again(void **state)
{
    (void)state;
    make_job(1, "null");
    end_job(1, TROUPE_OK, NULL);
    configure("/hook", NULL);
    receiver_refuse(1, 503, 0);
    send_all_there_is();
    assert_int_equal(receiver.requests, 2);
    assert_int_equal(receiver.hook_count, 1);
    // What is refused is not.
    make_job(2, "null");
    end_job(2, TROUPE_OK, NULL);
    receiver_refuse(100, 410, 0);
    send_all_there_is();
    assert_int_equal(receiver.requests, 3);
    receiver_refuse(0, 0, 0);
    send_all_there_is();
    assert_int_equal(receiver.requests, 3);
}

// It may be cut; what was said is known before.
static void test_a_long_answer_is_an_answer(void **state)
{
    (void)state;
    make_job(1, "null");
    end_job(1, TROUPE_OK, NULL);
    configure("/hook", NULL);
    pthread_mutex_lock(&receiver.lock);
    receiver.padding = 5 << 20;
    pthread_mutex_unlock(&receiver.lock);
    send_all_there_is();
    assert_int_equal(receiver.requests, 1);
    assert_int_equal(receiver.hook_count, 1);
}

// ---- MLflow

static bool log_says(void *context)
{
    char *log = support_path(at.state, "track.log"), *text = support_read_file(log);
    bool there = strstr(text, (const char *)context) != NULL;
    free(text);
    free(log);
    return there;
}

// What refuses is asked less and less often: a wrong token, and what is no MLflow.
static void test_what_refuses_is_asked_less_often(void **state)
{
    (void)state;
    make_job(1, "null");
    begin_run(1);
    end_job(1, TROUPE_OK, NULL);
    configure(NULL, "");
    receiver_refuse(1000, 401, 200);
    char *log = support_path(at.state, "track.log");
    support_write_file(log, "", 0);
    free(log);
    pid_t sender = start_sender();
    bool refused = support_wait_until(log_says, "answered 401", SOON);
    bool doubled = support_wait_until(log_says, "it is no MLflow: it is tried again in 2 s", SOON);
    assert_int_equal(kill(sender, SIGKILL), 0);
    (void)await_sender(sender);
    assert_true(refused && doubled);
}

static void test_a_long_token_is_sent(void **state)
{
    (void)state;
    char token[3001];
    memset(token, 'x', sizeof token - 1);
    token[sizeof token - 1] = '\0';
    make_job(1, "null");
    begin_run(1);
    end_job(1, TROUPE_OK, NULL);
    configure(NULL, "");
    assert_int_equal(setenv("MLFLOW_TRACKING_TOKEN", token, 1), 0);
    send_all_there_is();
    assert_int_equal(unsetenv("MLFLOW_TRACKING_TOKEN"), 0);
    assert_string_equal(receiver.token, token);
}

static bool has_steps(void *context)
{
    pthread_mutex_lock(&receiver.lock);
    bool there = receiver.run_count > 0 && receiver.runs[0].highest >= *(int *)context;
    pthread_mutex_unlock(&receiver.lock);
    return there;
}

// Of the first run, while its sender goes on.
static void expect_status(const char *status)
{
    pthread_mutex_lock(&receiver.lock);
    bool right = strcmp(receiver.runs[0].status, status) == 0;
    pthread_mutex_unlock(&receiver.lock);
    assert_true(right);
}

static int lock_alive(int id)
{
    struct flock first = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    trp_path path = made_path("%s/jobs/%08d/alive", at.state, id);
    support_write_file(path.text, "1\n", 2);
    int fd = open(path.text, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_SETLK, &first), 0);
    return fd;
}

// F15.
static void test_a_run_is_followed(void **state)
{
    (void)state;
    int first = 3, last = 7;
    make_job(1, "null");
    begin_run(1);
    add_reports(1, 1, 3);
    int alive = lock_alive(1);
    configure(NULL, "");
    pid_t sender = start_sender();
    assert_true(support_wait_until(has_steps, &first, SOON));
    add_reports(1, 4, 7);
    assert_true(support_wait_until(has_steps, &last, SOON));
    expect_status("RUNNING");
    end_job(1, TROUPE_OK, NULL);
    (void)close(alive);
    assert_int_equal(await_sender(sender), 0);
    const told_run *run = &receiver.runs[0];
    assert_int_equal(receiver.run_count, 1);
    assert_string_equal(run->status, "FINISHED");
    assert_true(run->end_time == (at.now - 10) * 1000);
    assert_string_equal(run->name, "name1");
    assert_string_equal(receiver.experiments[0], "spiral");
    expect_text(run->tags, "{\"key\": \"troupe.job\", \"value\": \"1\"}");
    expect_text(run->parameters, "{\"key\": \"rate\", \"value\": \"0.5\"}, {\"key\": "
                                 "\"layers.width\", \"value\": \"32\"}, {\"key\": \"layers.kind\", "
                                 "\"value\": \"tanh\"}");
    for (int i = 1; i <= 7; i++) {
        assert_int_equal(run->times[i], 1);
        assert_true(run->losses[i] == i + 0.25);
        assert_true(run->when[i] == at.now * 1000 + i * 1000 + 500);
    }
}

// At each request in turn the sender is killed, before it is done or once it is; the next one ends
// it.
static void test_kills_of_the_sender(void **state)
{
    (void)state;
    int kills = 0;
    for (int at_request = 0, killed = 1; killed; at_request++) {
        for (int after = 0; after < 2; after++) {
            void *none = NULL;
            (void)end(&none);
            (void)begin(&none);
            make_job(1, "null");
            begin_run(1);
            add_reports(1, 1, REPORTS);
            end_job(1, TROUPE_OK, NULL);
            configure("/hook", "");
            pthread_mutex_lock(&receiver.lock); // Until its number is known.
            receiver.kill_at = at_request;
            receiver.kill_after = after;
            receiver.victim = start_sender();
            pthread_mutex_unlock(&receiver.lock);
            killed = await_sender(receiver.victim) != 0;
            kills += killed;
            send_all_there_is();
            assert_int_equal(receiver.run_count, 1);
            const told_run *run = &receiver.runs[0];
            assert_string_equal(run->status, "FINISHED");
            for (int i = 1; i <= REPORTS; i++) {
                if (run->times[i] < 1)
                    fail_msg("report %d was lost by a kill at request %d", i, at_request);
                assert_true(run->losses[i] == i + 0.25);
            }
            assert_true(receiver.hook_count >= 1 && receiver.hook_count <= 2);
            for (int i = 0; i < receiver.hook_count; i++)
                expect_text(receiver.hooks[i].body, "\"id\": \"sub1.end\"");
        }
    }
    assert_true(kills >= 2 * 8);
}

// ---- with a server

static void run_tool(const char *arguments, const char *expected)
{
    char command[9000], text[4000];
    (void)snprintf(command, sizeof command, "cd '%s' && TROUPE_COMMAND='%s' '%s' %s 2>&1", top,
                   support_setting("TROUPE_TOOL"), support_setting("TROUPE_TOOL"), arguments);
    int code = support_run(command, text, sizeof text);
    if (code != 0 || !strstr(text, expected))
        fail_msg("%s: %d: %s", arguments, code, text);
}

static bool has_hooks(void *context)
{
    pthread_mutex_lock(&receiver.lock);
    bool there = receiver.hook_count >= *(int *)context;
    pthread_mutex_unlock(&receiver.lock);
    return there;
}

static bool nobody_sends(void *context)
{
    (void)context;
    return trp_child_holder(at.state, "track") == 0;
}

static void kill_server(void)
{
    int server = 0;
    char *path = support_path(at.state, "lock"), *text = support_read_file(path);
    assert_int_equal(sscanf(text, "%d", &server), 1);
    struct pollfd ended = {pidfd_open(server, 0), POLLIN, 0};
    assert_true(ended.fd >= 0);
    assert_int_equal(kill(server, SIGKILL), 0);
    assert_int_equal(poll(&ended, 1, SOON), 1); // It gives its lock back.
    (void)close(ended.fd);
    free(text);
    free(path);
}

static bool is_finished(void *context)
{
    pthread_mutex_lock(&receiver.lock);
    const told_run *run = &receiver.runs[*(int *)context];
    bool finished = strcmp(run->status, "FINISHED") == 0;
    pthread_mutex_unlock(&receiver.lock);
    return finished;
}

static void test_the_server_has_it_sent(void **state)
{
    (void)state;
    int first = 0, one = 1, two = 2;
    char start[400];
    (void)snprintf(start, sizeof start,
                   "server start --cpus 1 --no-gateway --webhook http://127.0.0.1:%d/hook --mlflow "
                   "http://127.0.0.1:%d --experiment mine",
                   receiver.port, receiver.port);
    run_tool(start, "was started");
    run_tool("submit --follow --name done --storage runs -- sh -c 'exit 0'", "");
    assert_true(support_wait_until(has_hooks, &one, SOON));
    assert_true(support_wait_until(is_finished, &first, SOON));
    assert_string_equal(receiver.experiments[0], "mine");
    assert_true(support_wait_until(nobody_sends, NULL, SOON));
    // A job ends while the receiver is away, and the server is killed.
    receiver_end();
    run_tool("submit --follow --name lost --storage runs -- sh -c 'exit 0'", "");
    kill_server();
    receiver_begin();
    run_tool("server start --cpus 1 --no-gateway", "was started");
    assert_true(support_wait_until(has_hooks, &two, SOON));
    expect_text(receiver.hooks[1].body, "\"name\": \"lost\"");
    assert_true(support_wait_until(is_finished, &one, SOON));
    run_tool("server stop", "");
    assert_true(support_wait_until(nobody_sends, NULL, SOON));
    assert_int_equal(receiver.run_count, 2);
}

static bool has_sent(void *context)
{
    char *path = support_path(at.state, "track.lock");
    bool there = support_exists(path) && nobody_sends(context);
    free(path);
    return there;
}

// Who was started with the server has found nothing and ended by then.
static void test_the_server_has_a_run_followed(void **state)
{
    (void)state;
    int first = 0, last = 3;
    char start[200];
    char *program_path = support_path(top, "program.sh"), *go = support_path(top, "go");
    static const char text[] = "for i in 1 2 3; do\n"
                               "    echo \"{\\\"metrics\\\": {\\\"loss\\\": $i.25}}\" >&3\n"
                               "    read -r answer <&3\n"
                               "done\n"
                               "while [ ! -e go ]; do sleep 0.02; done\n";
    support_write_file(program_path, text, sizeof text - 1);
    (void)snprintf(start, sizeof start,
                   "server start --cpus 1 --no-gateway --mlflow http://127.0.0.1:%d",
                   receiver.port);
    run_tool(start, "was started");
    assert_true(support_wait_until(has_sent, NULL, SOON));
    run_tool("submit --name night --storage runs -- sh program.sh", "");
    assert_true(support_wait_until(has_steps, &last, SOON));
    expect_status("RUNNING");
    support_write_file(go, "", 0);
    assert_true(support_wait_until(is_finished, &first, SOON));
    run_tool("server stop", "");
    assert_true(support_wait_until(nobody_sends, NULL, SOON));
    assert_int_equal(receiver.run_count, 1);
    free(program_path);
    free(go);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    char command[9000], text[2000];
    (void)snprintf(command, sizeof command, "'%s' server start --webhook ftp://x 2>&1",
                   support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, text, sizeof text), 1);
    expect_text(text, "the address of the webhook is \"ftp://x\": expected http://");
    char *path = support_path(at.state, "trackers.json");
    assert_false(support_exists(path));
    troupe_must(trp_track_change(at.state, "https://example.org/hook", NULL, NULL));
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    bool runs;
    assert_true(trp_track_is_wanted(at.state, &runs) && !runs);
    troupe_must(trp_track_change(at.state, "none", NULL, NULL));
    assert_false(trp_track_is_wanted(at.state, &runs));
    // A wrong one that an editor has put there is taken out.
    static const char wrong[] = "{\"webhook\": {\"url\": \"ftp://x\"}}";
    support_write_file(path, wrong, sizeof wrong - 1);
    troupe_must(trp_track_change(at.state, "none", NULL, NULL));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_webhook_is_told_of_the_end, begin, end),
        cmocka_unit_test_setup_teardown(test_a_receiver_that_fails_is_tried_again, begin, end),
        cmocka_unit_test_setup_teardown(test_a_long_answer_is_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_what_refuses_is_asked_less_often, begin, end),
        cmocka_unit_test_setup_teardown(test_a_long_token_is_sent, begin, end),
        cmocka_unit_test_setup_teardown(test_a_run_is_followed, begin, end),
        cmocka_unit_test_setup_teardown(test_kills_of_the_sender, begin, end),
        cmocka_unit_test_setup_teardown(test_the_server_has_it_sent, begin, end),
        cmocka_unit_test_setup_teardown(test_the_server_has_a_run_followed, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_wrong_is_said, begin, end),
    };
    receiver_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    receiver_end();
    return failed;
}
