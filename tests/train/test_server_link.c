// test_server_link.c: asking the train server, played by a thread: answers out of order, lost
// connections, refusals.
#include <poll.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/socket.h>
#include <train/server_link.h>
#include <train/state_folder.h>
#include <troupe.h>
#include <unistd.h>

// A server: FIND of job n is answered with JOB n, but for the numbers below.
enum {
    NEVER = 1000, // Not answered, and counted.
    FAILS,        // With TROUPE_NOT_FOUND.
    HANGS_UP,     // The connection ends, each time.
    LATE,         // Answered together with the next one, after it.
    TELLS,        // Something is told first.
};

typedef struct server {
    char *folder;
    int listens;
    pthread_t thread;
    int refuses;         // The status that greetings are answered with.
    int format, version; // That it says it has; 0: ours.
    bool dies;           // When it is greeted.
    atomic_int stop, greetings, never, hung_up;
    _Atomic uint32_t late; // The number of a request; 0: none.
} server;

static void say_job(int fd, uint32_t number, int64_t job)
{
    trp_buffer out = {0};
    trp_wire_job about = {.job = job, .key = "k"};
    assert_int_equal(trp_wire_put(&out, TRP_WIRE_JOB, number, &troupe_type_trp_wire_job, &about),
                     TROUPE_OK);
    (void)send(fd, out.data, out.size, MSG_NOSIGNAL); // Who asked may be gone.
    trp_buffer_free(&out);
}

static void say_answer(int fd, uint32_t number, int status, const char *text)
{
    trp_buffer out = {0};
    trp_wire_answer answer = {.status = status, .text = text};
    assert_int_equal(
        trp_wire_put(&out, TRP_WIRE_ANSWER, number, &troupe_type_trp_wire_answer, &answer),
        TROUPE_OK);
    (void)send(fd, out.data, out.size, MSG_NOSIGNAL); // Who asked may be gone.
    trp_buffer_free(&out);
}

static void say_hello(const server *is, int fd, uint32_t number)
{
    trp_buffer out = {0};
    trp_wire_answer answer = {
        .status = is->refuses, .text = "this program is too old", .revision = is->version};
    uint16_t format = (uint16_t)is->format;
    assert_int_equal(
        trp_wire_put(&out, TRP_WIRE_ANSWER, number, &troupe_type_trp_wire_answer, &answer),
        TROUPE_OK);
    if (format != 0)
        memcpy(out.data + 6, &format, sizeof format);
    (void)send(fd, out.data, out.size, MSG_NOSIGNAL); // Who asked may be gone.
    trp_buffer_free(&out);
}

// False: the connection is to end.
static bool answer_find(server *is, int fd, uint32_t number, int64_t job)
{
    if (job == NEVER) {
        atomic_fetch_add(&is->never, 1);
    } else if (job == FAILS) {
        say_answer(fd, number, TROUPE_NOT_FOUND, "there is no job 1001");
    } else if (job == HANGS_UP) {
        atomic_fetch_add(&is->hung_up, 1);
        return false;
    } else if (job == LATE) {
        is->late = number;
    } else {
        if (job == TELLS)
            say_job(fd, 0, 77);
        say_job(fd, number, job);
        if (is->late != 0)
            say_job(fd, is->late, LATE);
        is->late = 0;
    }
    return true;
}

static bool answer(server *is, int fd, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    trp_wire_job_name name = {0};
    trp_wire_submit submit = {0};
    bool goes_on = true;
    if (frame->kind == TRP_WIRE_HELLO && is->dies) {
        close(is->listens);
        is->listens = -1;
        atomic_store(&is->stop, 1);
        goes_on = false;
    } else if (frame->kind == TRP_WIRE_HELLO) {
        atomic_fetch_add(&is->greetings, 1);
        say_hello(is, fd, frame->number);
    } else if (frame->kind == TRP_WIRE_SUBMIT) {
        assert_int_equal(trp_wire_read(frame, &troupe_type_trp_wire_submit, &arena, &submit),
                         TROUPE_OK);
        say_job(fd, frame->number, (int64_t)submit.spec.size);
    } else {
        assert_int_equal(trp_wire_read(frame, &troupe_type_trp_wire_job_name, &arena, &name),
                         TROUPE_OK);
        goes_on = answer_find(is, fd, frame->number, name.job);
    }
    trp_arena_clear(&arena);
    return goes_on;
}

static void serve_one(server *is, int fd)
{
    trp_buffer in = {0};
    bool goes_on = true;
    while (goes_on && !atomic_load(&is->stop)) {
        trp_wire_frame frame;
        size_t used;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 20) <= 0)
            continue;
        assert_true(trp_buffer_reserve(&in, 65536));
        ssize_t got = read(fd, in.data + in.size, 65536);
        goes_on = got > 0;
        in.size += got > 0 ? (size_t)got : 0;
        while (goes_on &&
               trp_wire_take(in.data, in.size, TRP_WIRE_BYTES_MAX, &frame, &used) == TROUPE_OK &&
               used > 0) {
            goes_on = answer(is, fd, &frame);
            memmove(in.data, in.data + used, in.size - used);
            in.size -= used;
        }
    }
    trp_buffer_free(&in);
    close(fd);
}

static void *run(void *user)
{
    server *is = user;
    while (!atomic_load(&is->stop)) {
        struct pollfd wait = {.fd = is->listens, .events = POLLIN};
        if (poll(&wait, 1, 20) > 0)
            serve_one(is, accept(is->listens, NULL, NULL));
    }
    return NULL;
}

static void begin_server(server *is)
{
    struct sockaddr_un address;
    assert_int_equal(trp_state_folder_socket(is->folder, &address), TROUPE_OK);
    unlink(address.sun_path);
    is->listens = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(is->listens, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(is->listens, 16), 0);
    atomic_store(&is->stop, 0);
    assert_int_equal(pthread_create(&is->thread, NULL, run, is), 0);
}

static void end_server(server *is)
{
    atomic_store(&is->stop, 1);
    pthread_join(is->thread, NULL);
    if (is->listens >= 0)
        close(is->listens);
}

static int set_up(void **state)
{
    server *is = calloc(1, sizeof *is);
    is->folder = support_directory_make();
    *state = is;
    return 0;
}

static int tear_down(void **state)
{
    server *is = *state;
    support_directory_remove(is->folder);
    free(is);
    return 0;
}

static troupe_status find(trp_server_link *link, int64_t job, int timeout_ms, bool once,
                          int64_t *found)
{
    trp_arena arena = {0};
    trp_wire_job about = {0};
    trp_wire_job_name name = {.job = job};
    trp_server_question question = {.kind = TRP_WIRE_FIND,
                                    .type = &troupe_type_trp_wire_job_name,
                                    .value = &name,
                                    .timeout_ms = timeout_ms,
                                    .once = once,
                                    .answer = TRP_WIRE_JOB,
                                    .has = &troupe_type_trp_wire_job};
    troupe_status status = trp_server_link_ask(link, &question, &arena, &about);
    *found = about.job;
    trp_arena_clear(&arena);
    return status;
}

typedef struct asking {
    trp_server_link *link;
    int64_t job, found;
    troupe_status status;
    bool once;
} asking;

static void *ask(void *user)
{
    asking *is = user;
    is->status = find(is->link, is->job, -1, is->once, &is->found);
    return NULL;
}

static bool is_late(void *user)
{
    return ((server *)user)->late != 0;
}

static void test_answers_find_their_requests(void **state)
{
    server *is = *state;
    trp_server_link *link;
    pthread_t thread;
    int64_t found;
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "troupe server start"));
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_OK);
    assert_int_equal(find(link, 5, -1, false, &found), TROUPE_OK);
    assert_int_equal(found, 5);
    assert_int_equal(find(link, FAILS, -1, false, &found), TROUPE_NOT_FOUND);
    assert_string_equal(troupe_last_error()->text, "there is no job 1001");
    // One that waits does not hold up another, and gets its own.
    asking late = {.link = link, .job = LATE};
    assert_int_equal(pthread_create(&thread, NULL, ask, &late), 0);
    assert_true(support_wait_until(is_late, is, SUPPORT_SOON_MS));
    assert_int_equal(find(link, 6, -1, false, &found), TROUPE_OK);
    assert_int_equal(found, 6);
    pthread_join(thread, NULL);
    assert_int_equal(late.status, TROUPE_OK);
    assert_int_equal(late.found, LATE);
    assert_int_equal(find(link, NEVER, 20, false, &found), TROUPE_TIMED_OUT);
    assert_int_equal(find(link, 7, -1, false, &found), TROUPE_OK);
    trp_server_link_close(&link);
    assert_null(link);
    end_server(is);
}

// Who opens it is to start another one, and does not wait for its time.
static void test_a_server_that_dies_before_it_answers_is_none(void **state)
{
    server *is = *state;
    trp_server_link *link = NULL;
    is->dies = true;
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_NOT_FOUND);
    assert_null(link);
    end_server(is);
}

static void test_large_requests_go_in_pieces(void **state)
{
    enum { SIZE = 9 << 20 };
    server *is = *state;
    trp_server_link *link;
    trp_arena arena = {0};
    trp_wire_job about;
    void *spec = trp_alloc(SIZE);
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_OK);
    trp_wire_submit submit = {.spec = {spec, SIZE}};
    trp_server_question question = {.kind = TRP_WIRE_SUBMIT,
                                    .type = &troupe_type_trp_wire_submit,
                                    .value = &submit,
                                    .timeout_ms = -1,
                                    .answer = TRP_WIRE_JOB,
                                    .has = &troupe_type_trp_wire_job};
    assert_int_equal(trp_server_link_ask(link, &question, &arena, &about), TROUPE_OK);
    assert_int_equal(about.job, SIZE);
    trp_arena_clear(&arena);
    trp_server_link_close(&link);
    end_server(is);
    trp_free(spec);
}

typedef struct heard {
    atomic_int frames, again, job;
} heard;

static void hear(void *user, const trp_wire_frame *frame)
{
    heard *is = user;
    trp_arena arena = {0};
    trp_wire_job about = {0};
    if (trp_wire_read(frame, &troupe_type_trp_wire_job, &arena, &about) == TROUPE_OK)
        atomic_store(&is->job, (int)about.job);
    trp_arena_clear(&arena);
    atomic_fetch_add(&is->frames, 1);
}

static void hear_again(void *user)
{
    atomic_fetch_add(&((heard *)user)->again, 1);
}

static bool is_asked(void *user)
{
    return atomic_load(&((server *)user)->never) > 0;
}

static void test_a_lost_connection_is_made_again(void **state)
{
    server *is = *state;
    heard ear = {0};
    trp_server_told told = {hear, hear_again, &ear};
    trp_server_link *link;
    pthread_t thread;
    int64_t found;
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, &told, &link), TROUPE_OK);
    assert_int_equal(find(link, TELLS, -1, false, &found), TROUPE_OK);
    support_await_counter(&ear.frames, 1);
    assert_int_equal(ear.job, 77);
    assert_int_equal(find(link, HANGS_UP, -1, true, &found), TROUPE_PEER_LOST);
    support_await_counter(&ear.again, 1);
    assert_int_equal(atomic_load(&is->hung_up), 1);

    // The server ends while a request is under way, and another one answers it.
    asking waits = {.link = link, .job = NEVER, .once = true};
    assert_int_equal(pthread_create(&thread, NULL, ask, &waits), 0);
    assert_true(support_wait_until(is_asked, is, SUPPORT_SOON_MS));
    asking goes_on = {.link = link, .job = LATE};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, ask, &goes_on), 0);
    assert_true(support_wait_until(is_late, is, SUPPORT_SOON_MS));
    end_server(is);
    pthread_join(thread, NULL);
    assert_int_equal(waits.status, TROUPE_PEER_LOST);
    is->late = 0;
    begin_server(is);
    assert_true(support_wait_until(is_late, is, SUPPORT_SOON_MS));
    assert_int_equal(find(link, 9, -1, false, &found), TROUPE_OK);
    pthread_join(other, NULL);
    assert_int_equal(goes_on.status, TROUPE_OK);
    assert_int_equal(goes_on.found, LATE);
    assert_int_equal(ear.again, 2);
    trp_server_link_close(&link);
    end_server(is);
}

static void test_what_lasts_is_sent_to_the_next_server(void **state)
{
    server *is = *state;
    trp_server_link *link;
    trp_arena arena = {0};
    trp_wire_job about;
    trp_wire_job_name name = {.job = NEVER};
    trp_server_question question = {.kind = TRP_WIRE_FIND,
                                    .type = &troupe_type_trp_wire_job_name,
                                    .value = &name,
                                    .timeout_ms = 10,
                                    .lasts = true,
                                    .answer = TRP_WIRE_JOB,
                                    .has = &troupe_type_trp_wire_job};
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_OK);
    end_server(is);
    assert_int_equal(trp_server_link_ask(link, &question, &arena, &about), TROUPE_TIMED_OUT);
    int before = atomic_load(&is->never);
    begin_server(is);
    support_await_counter(&is->never, before + 1);
    trp_server_link_close(&link);
    end_server(is);
}

static void test_a_server_that_refuses_says_why(void **state)
{
    server *is = *state;
    trp_server_link *link;
    is->refuses = TROUPE_VERSION;
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_VERSION);
    assert_string_equal(troupe_last_error()->text, "this program is too old");
    end_server(is);
    // A later one, of a program that goes on.
    is->refuses = TROUPE_OK;
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_OK);
    end_server(is);
    is->refuses = TROUPE_VERSION;
    begin_server(is);
    int64_t found;
    assert_int_equal(find(link, 3, -1, false, &found), TROUPE_VERSION);
    trp_server_link_close(&link);
    end_server(is);
}

static void assert_refused(server *is, const char *why)
{
    trp_server_link *link;
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_VERSION);
    if (strstr(troupe_last_error()->text, why) == NULL)
        fail_msg("'%s' lacks '%s'", troupe_last_error()->text, why);
    end_server(is);
}

static void test_a_server_of_another_version(void **state)
{
    server *is = *state;
    trp_server_link *link;
    char why[100];
    is->version = TRP_WIRE_VERSION + 1;
    begin_server(is);
    assert_int_equal(trp_server_link_open(is->folder, NULL, &link), TROUPE_OK);
    trp_server_link_close(&link);
    end_server(is);
    is->version = TRP_WIRE_VERSION + 2;
    snprintf(why, sizeof why, "version %d of the train server's protocol, and this one version %d",
             is->version, (int)TRP_WIRE_VERSION);
    assert_refused(is, why);
    is->version = TRP_WIRE_VERSION;
    is->format = TRP_WIRE_FORMAT + 1;
    snprintf(why, sizeof why, "in format %d, and this one in format %d", is->format,
             (int)TRP_WIRE_FORMAT);
    assert_refused(is, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers_find_their_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_dies_before_it_answers_is_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_large_requests_go_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lost_connection_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_lasts_is_sent_to_the_next_server, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_refuses_says_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_of_another_version, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
