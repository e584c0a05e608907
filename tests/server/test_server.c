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

static char last_text[512]; // Of the last answer.
static int64_t last_revision;

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
            trp_wire_read(&frame, &troupe_type_trp_wire_answer, &arena, &answer) == TROUPE_OK) {
            status = answer.status;
            last_revision = answer.revision;
            snprintf(last_text, sizeof last_text, "%s", answer.text != NULL ? answer.text : "");
        }
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
    const uint32_t large[3] = {(64 << 10) + 1, TRP_WIRE_HELLO | TRP_WIRE_FORMAT << 16, 1};
    fd = connect_raw(&it);
    send_raw(fd, large, sizeof large);
    assert_int_equal(last_answer(fd), TROUPE_MALFORMED);
    const uint32_t larger[3] = {TRP_WIRE_BYTES_MAX + 1, TRP_WIRE_SUBMIT | TRP_WIRE_FORMAT << 16, 1};
    fd = connect_raw(&it);
    greet(fd);
    send_raw(fd, larger, sizeof larger);
    assert_int_equal(last_answer(fd), TROUPE_MALFORMED);
    assert_it_answers(&it);
    site_close(&it);
}

// Greets as a program of another library: what it is answered.
static int greet_as(const site *it, int format, int version)
{
    trp_buffer out = {0};
    trp_wire_hello hello = {.version = version, .pid = (int)getpid()};
    uint16_t head = (uint16_t)format;
    assert_int_equal(trp_wire_put(&out, TRP_WIRE_HELLO, 1, &troupe_type_trp_wire_hello, &hello),
                     TROUPE_OK);
    memcpy(out.data + 6, &head, sizeof head);
    int fd = connect_raw(it);
    send_raw(fd, out.data, out.size);
    trp_buffer_free(&out);
    shutdown(fd, SHUT_WR);
    return last_answer(fd);
}

static void assert_says(const char *format, int one, int other)
{
    char text[200];
    snprintf(text, sizeof text, format, one, other);
    if (strstr(last_text, text) == NULL)
        fail_msg("'%s' lacks '%s'", last_text, text);
}

static void test_other_versions_are_accepted_or_told(void **state)
{
    const int own = TRP_WIRE_VERSION;
    site it;
    (void)state;
    site_open(&it, 1);
    for (int version = own - 3; version <= own + 3; version++) {
        bool near = version >= 1 && abs(version - own) <= 1;
        assert_int_equal(greet_as(&it, TRP_WIRE_FORMAT, version),
                         near ? TROUPE_OK : TROUPE_VERSION);
        assert_int_equal(last_revision, own);
        if (!near)
            assert_says("speaks version %d of the train server's protocol, and this one version %d",
                        version, own);
    }
    for (int format = TRP_WIRE_FORMAT - 1; format <= TRP_WIRE_FORMAT + 1; format += 2) {
        assert_int_equal(greet_as(&it, format, own), TROUPE_VERSION);
        assert_says("in format %d, and this one in format %d", format, TRP_WIRE_FORMAT);
    }
    // Also behind a greeting.
    uint32_t head[3] = {0, TRP_WIRE_SERVER | (uint32_t)(TRP_WIRE_FORMAT + 1) << 16, 2};
    int fd = connect_raw(&it);
    greet(fd);
    send_raw(fd, head, sizeof head);
    assert_int_equal(last_answer(fd), TROUPE_VERSION);
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
    char expected[600];
    snprintf(expected, sizeof expected, "a train server has %s already (process %d)", it.folder,
             (int)it.server);
    assert_string_equal(troupe_last_error()->text, expected);
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

// ---- those who watch

typedef struct told {
    _Atomic size_t bytes; // Of all that was told of the job.
} told;

static void take_told(void *user, const trp_wire_frame *frame)
{
    if (frame->kind == TRP_WIRE_JOB && frame->number == 0)
        ((told *)user)->bytes += frame->size;
}

enum { ENOUGH = 2 << 20 };

static bool is_told_enough(void *user)
{
    return ((told *)user)->bytes > ENOUGH;
}

// Reads until it is told that the job has ended: how many bytes of jobs it was told.
static size_t read_to_the_end(int fd)
{
    trp_buffer in = {0};
    trp_arena arena = {0};
    size_t at = 0, bytes = 0;
    for (bool ended = false; !ended;) {
        char data[4096];
        size_t used = 1;
        trp_wire_frame frame;
        ssize_t got = recv(fd, data, sizeof data, 0);
        assert_true(got > 0);
        trp_buffer_append(&in, data, (size_t)got);
        while (trp_wire_take(in.data + at, in.size - at, TRP_WIRE_BYTES_MAX, &frame, &used) ==
                   TROUPE_OK &&
               used > 0) {
            trp_wire_job job;
            at += used;
            if (frame.kind != TRP_WIRE_JOB)
                continue;
            bytes += frame.size;
            assert_int_equal(trp_wire_read(&frame, &troupe_type_trp_wire_job, &arena, &job),
                             TROUPE_OK);
            ended = job.state == TRP_JOB_ENDED;
            trp_arena_clear(&arena);
        }
    }
    trp_buffer_free(&in);
    return bytes;
}

// One that watches and does not read holds up nobody, nor does what it is to be told grow with what
// happens: it gets the newest in the end.
static void test_a_slow_watcher_holds_up_nothing(void **state)
{
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    told fast = {0};
    trp_server_told tells = {.frame = take_told, .user = &fast};
    trp_wire_job_name name = {.job = 1};
    char name_of_it[200] = "";
    (void)state;
    site_open(&it, 1);
    trp_server_link *link = site_connect(&it, &tells);
    int fd = connect_raw(&it);
    greet(fd);
    memset(name_of_it, 'a', sizeof name_of_it - 1); // So that much is told each time.
    assert_int_equal(site_submit(&it, link, &arena, &job, .submission = name_of_it,
                                 .key = name_of_it, .reports = 100000000, .each_ms = 0),
                     TROUPE_OK);
    send_frame(fd, TRP_WIRE_WATCH, 2, &troupe_type_trp_wire_job_name, &name);
    assert_int_equal(site_ask(link, TRP_WIRE_WATCH, &troupe_type_trp_wire_job_name, &name,
                              TRP_WIRE_JOB, &troupe_type_trp_wire_job, &arena, &job),
                     TROUPE_OK);
    while (!is_told_enough(&fast)) // However long that takes: what is told comes together.
        nap_ms(1);
    assert_int_equal(site_wish(link, 1, TRP_WISH_STOP, 0, &arena), TROUPE_OK);
    site_await(link, 1, TRP_JOB_ENDED, &arena, &job);
    // What the kernel keeps for it, and the server.
    assert_true(read_to_the_end(fd) < ENOUGH / 2);
    close(fd);
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
        cmocka_unit_test(test_other_versions_are_accepted_or_told),
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
