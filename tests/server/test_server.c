// test_server.c: the train server's process: what it answers to whom, what it bears from clients,
// and that jobs outlive it.
#include "site.h"
#include <poll.h>

// ---- raw connections

static int connect_raw(const site *it)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(trp_state_folder_socket(it->folder, &address), TROUPE_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void send_raw(int fd, const void *data, size_t size)
{
    (void)!send(fd, data, size, MSG_NOSIGNAL); // It may have hung up.
}

static void send_frame(int fd, trp_wire_kind kind, uint32_t number, const troupe_type *type,
                       const void *value)
{
    trp_buffer out = {0};
    assert_int_equal(trp_wire_put(&out, kind, number, type, value), TROUPE_OK);
    send_raw(fd, out.data, out.size);
    trp_buffer_free(&out);
}

static void greet(int fd)
{
    trp_wire_hello hello = {.version = TRP_WIRE_VERSION, .pid = (int)getpid()};
    send_frame(fd, TRP_WIRE_HELLO, 1, &troupe_type_trp_wire_hello, &hello);
}

// Reads answers until the connection's end; the last one's status, or -1 without any.
static int last_answer(int fd)
{
    trp_buffer in = {0};
    int status = -1;
    char data[4096];
    for (ssize_t got; (got = recv(fd, data, sizeof data, 0)) > 0;)
        trp_buffer_append(&in, data, (size_t)got);
    size_t at = 0, used = 1;
    trp_wire_frame frame;
    while (at < in.size && used > 0 &&
           trp_wire_take(in.data + at, in.size - at, TRP_WIRE_BYTES_MAX, &frame, &used) ==
               TROUPE_OK) {
        trp_arena arena = {0};
        trp_wire_answer answer;
        if (used > 0 && frame.kind == TRP_WIRE_ANSWER &&
            trp_wire_read(&frame, &troupe_type_trp_wire_answer, &arena, &answer) == TROUPE_OK)
            status = answer.status;
        trp_arena_clear(&arena);
        at += used;
    }
    trp_buffer_free(&in);
    close(fd);
    return status;
}

static void assert_it_answers(const site *it)
{
    trp_arena arena = {0};
    trp_wire_status status;
    troupe_none none = {0};
    trp_server_link *link = site_connect(it, NULL);
    assert_int_equal(site_ask(link, TRP_WIRE_SERVER, &troupe_type_troupe_none, &none,
                              TRP_WIRE_STATUS, &troupe_type_trp_wire_status, &arena, &status),
                     TROUPE_OK);
    assert_int_equal(status.pid, it->server);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
}

// ---- tests

static void test_it_bears_any_bytes(void **state)
{
    site it;
    (void)state;
    site_open(&it, 1);
    srandom(7);
    for (int round = 0; round < 50; round++) {
        unsigned char bytes[256];
        size_t size = (size_t)random() % sizeof bytes + 1;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)random();
        int fd = connect_raw(&it);
        if (round % 2 == 0)
            greet(fd);
        send_raw(fd, bytes, size);
        shutdown(fd, SHUT_WR);
        (void)last_answer(fd);
    }
    // A request before the greeting; a kind that there is not; a body that is none.
    troupe_none none = {0};
    int fd = connect_raw(&it);
    send_frame(fd, TRP_WIRE_SERVER, 1, &troupe_type_troupe_none, &none);
    assert_int_equal(last_answer(fd), TROUPE_MALFORMED);
    fd = connect_raw(&it);
    greet(fd);
    send_frame(fd, (trp_wire_kind)31, 2, &troupe_type_troupe_none, &none);
    shutdown(fd, SHUT_WR);
    assert_int_equal(last_answer(fd), TROUPE_UNSUPPORTED);
    fd = connect_raw(&it);
    greet(fd);
    send_frame(fd, TRP_WIRE_SUBMIT, 2, &troupe_type_troupe_none, &none);
    shutdown(fd, SHUT_WR);
    assert_int_equal(last_answer(fd), TROUPE_MALFORMED);
    // Too large before it is said who it is, and at all.
    const uint32_t large[3] = {(64 << 10) + 1, TRP_WIRE_HELLO | 1 << 16, 1};
    fd = connect_raw(&it);
    send_raw(fd, large, sizeof large);
    assert_int_equal(last_answer(fd), TROUPE_MALFORMED);
    const uint32_t larger[3] = {TRP_WIRE_BYTES_MAX + 1, TRP_WIRE_SUBMIT | 1 << 16, 1};
    fd = connect_raw(&it);
    greet(fd);
    send_raw(fd, larger, sizeof larger);
    assert_int_equal(last_answer(fd), TROUPE_MALFORMED);
    assert_it_answers(&it);
    site_close(&it);
}

static void test_frames_may_come_byte_by_byte(void **state)
{
    site it;
    trp_buffer out = {0};
    trp_wire_hello hello = {.version = TRP_WIRE_VERSION};
    troupe_none none = {0};
    (void)state;
    site_open(&it, 1);
    assert_int_equal(trp_wire_put(&out, TRP_WIRE_HELLO, 1, &troupe_type_trp_wire_hello, &hello),
                     TROUPE_OK);
    assert_int_equal(trp_wire_put(&out, TRP_WIRE_FIND, 2, &troupe_type_trp_wire_job_name,
                                  &(trp_wire_job_name){.job = 9}),
                     TROUPE_OK);
    (void)none;
    int fd = connect_raw(&it);
    for (size_t i = 0; i < out.size; i++)
        send_raw(fd, out.data + i, 1);
    shutdown(fd, SHUT_WR);
    assert_int_equal(last_answer(fd), TROUPE_NOT_FOUND);
    trp_buffer_free(&out);
    site_close(&it);
}

static void test_others_are_refused(void **state)
{
    enum { OTHER = 65533 };
    site it;
    struct sockaddr_un address;
    int status;
    (void)state;
    if (geteuid() != 0)
        skip(); // Only root can be another user.
    site_open(&it, 1);
    assert_int_equal(trp_state_folder_socket(it.folder, &address), TROUPE_OK);
    assert_int_equal(chmod(it.folder, 0711), 0); // What keeps them out else.
    assert_int_equal(chmod(address.sun_path, 0666), 0);
    pid_t other = fork();
    if (other == 0) {
        if (setuid(OTHER) != 0)
            _exit(2);
        _exit(last_answer(connect_raw(&it)) == TROUPE_UNSUPPORTED ? 0 : 1);
    }
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(it.folder, 0700), 0);
    site_close(&it);
}

static void test_there_are_so_many_clients_at_most(void **state)
{
    enum { MOST = 4 };
    site it;
    int fds[MOST];
    (void)state;
    site_open(&it, 1);
    site_stop(&it);
    it.how.clients_max = MOST;
    site_start(&it);
    for (int i = 0; i < MOST; i++) {
        fds[i] = connect_raw(&it);
        greet(fds[i]);
    }
    assert_int_equal(last_answer(connect_raw(&it)), TROUPE_BUSY);
    for (int i = 0; i < MOST; i++)
        close(fds[i]);
    assert_it_answers(&it);
    site_close(&it);
}

// F01.
static void test_a_second_server_is_refused(void **state)
{
    site it;
    int lock;
    (void)state;
    site_open(&it, 1);
    assert_int_equal(trp_server_lock(it.folder, &lock), TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "has"));
    site_close(&it);
}

static void test_a_job_runs(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    site_open(&it, 2);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(site_submit(&it, link, &arena, &job, .submission = "a", .ranks = 2,
                                 .reports = 3, .each_ms = 1),
                     TROUPE_OK);
    assert_int_equal(job.job, 1);
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_OK);
    assert_int_equal(job.reports, 3);
    assert_int_equal(site_count_runs(&it, "a"), 1);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    site_close(&it);
}

static void test_a_stop_reaches_a_job(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    site_open(&it, 2);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "a", .reports = 1000000, .each_ms = 1),
        TROUPE_OK);
    site_await(link, 1, TRP_JOB_RUNNING, &arena, &job);
    assert_int_equal(site_wish(link, 1, TRP_WISH_STOP, 0, &arena), TROUPE_OK);
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    assert_true(job.stopped);
    // A kill of one that does not listen.
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "b", .reports = 1000000, .each_ms = 1),
        TROUPE_OK);
    site_await(link, 2, TRP_JOB_RUNNING, &arena, &job);
    assert_true(job.runner > 0);
    kill(job.runner, SIGSTOP);
    assert_int_equal(site_wish(link, 2, TRP_WISH_KILL, TROUPE_CANCELLED, &arena), TROUPE_OK);
    site_await(link, 2, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_CANCELLED);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    site_close(&it);
}

static void test_jobs_outlive_the_server(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    site_open(&it, 1);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "a", .reports = 100, .each_ms = 5),
        TROUPE_OK);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "b", .reports = 1, .each_ms = 1),
        TROUPE_OK);
    site_await(link, 1, TRP_JOB_RUNNING, &arena, &job);
    site_kill(&it);
    site_start(&it);
    // The same runner, which comes back by itself.
    site_await(link, 1, TRP_JOB_RUNNING, &arena, &job);
    assert_int_equal(job.attempt, 1);
    // One that ends while there is no server.
    site_stop(&it);
    assert_true(support_processes_end(&(pid_t){job.runner}, 1, SUPPORT_SOON_MS));
    site_start(&it);
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_OK);
    assert_int_equal(job.reports, 100);
    site_await(link, 2, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.status, TROUPE_OK);
    assert_int_equal(site_count_runs(&it, "a"), 1);
    assert_int_equal(site_count_runs(&it, "b"), 1);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    site_close(&it);
}

// One that watches and does not read holds up nobody, and gets the newest in the end.
static void test_a_slow_watcher_holds_up_nothing(void **state)
{
    enum { REPORTS = 3000 };
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    (void)state;
    site_open(&it, 1);
    trp_server_link *link = site_connect(&it, NULL);
    int fd = connect_raw(&it), small = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    greet(fd);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "a", .reports = REPORTS, .each_ms = 0),
        TROUPE_OK);
    send_frame(fd, TRP_WIRE_WATCH, 2, &troupe_type_trp_wire_job_name,
               &(trp_wire_job_name){.job = 1});
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    assert_int_equal(job.reports, REPORTS);
    trp_buffer in = {0};
    bool ended = false;
    size_t at = 0;
    while (!ended) {
        char data[4096];
        size_t used = 1;
        trp_wire_frame frame;
        ssize_t got = recv(fd, data, sizeof data, 0);
        assert_true(got > 0);
        trp_buffer_append(&in, data, (size_t)got);
        while (trp_wire_take(in.data + at, in.size - at, TRP_WIRE_BYTES_MAX, &frame, &used) ==
                   TROUPE_OK &&
               used > 0) {
            at += used;
            if (frame.kind == TRP_WIRE_JOB) {
                assert_int_equal(trp_wire_read(&frame, &troupe_type_trp_wire_job, &arena, &job),
                                 TROUPE_OK);
                ended = job.state == TRP_JOB_ENDED;
            }
        }
    }
    assert_int_equal(job.reports, REPORTS);
    close(fd);
    trp_buffer_free(&in);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    site_close(&it);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_bears_any_bytes),
        cmocka_unit_test(test_frames_may_come_byte_by_byte),
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_there_are_so_many_clients_at_most),
        cmocka_unit_test(test_a_second_server_is_refused),
        cmocka_unit_test(test_a_job_runs),
        cmocka_unit_test(test_a_stop_reaches_a_job),
        cmocka_unit_test(test_jobs_outlive_the_server),
        cmocka_unit_test(test_a_slow_watcher_holds_up_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
