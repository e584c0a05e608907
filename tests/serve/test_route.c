// test_route.c: services asked on a unix socket.
#include "served_model.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <serve/route.h>
#include <serve/route_client.h>
#include <serve/route_frame.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { SOON = SUPPORT_SOON_MS };

static char *folder, *path, *note;
static troupe_service service;

static int begin(void **state)
{
    (void)state;
    shared = support_zeros(shared, sizeof *shared);
    shared->driver = getpid();
    folder = support_directory_make();
    path = support_path(folder, "routes/served.sock"); // The folder is made.
    note = support_path(folder, "routes/served.json");
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(path);
    free(note);
    support_directory_remove(folder);
    troupe_arena_reset();
    return 0;
}

static troupe_service_info info_of_it(void)
{
    troupe_service_info info;
    troupe_must(troupe_service_info_get(service, &info));
    return info;
}

// ---- asking

typedef struct told {
    int times;
    troupe_status status;
    char text[600];
    size_t rows;
    float first;
} told;

static void on_answer(void *user, troupe_status status, const char *text, const troupe_tensor *y)
{
    told *it = user;
    it->times++;
    it->status = status;
    (void)snprintf(it->text, sizeof it->text, "%s", text ? text : "");
    if (y) {
        assert_int_equal(y->dtype, TROUPE_FLOAT32);
        assert_int_equal(y->shape[1], OUT);
        it->rows = y->shape[0];
        it->first = *(const float *)y->data;
    }
}

static void ask(trp_route_client *client, size_t rows, float first, told *answer)
{
    float in[64 * ROW] = {0};
    for (size_t i = 0; i < rows; i++)
        in[i * ROW] = in[i * ROW + 1] = first; // The model's weight of the first column is 0.
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, in, rows, ROW);
    *answer = (told){0};
    troupe_must(trp_route_client_send(client, &x, on_answer, answer, NULL));
}

static troupe_status turn(trp_route_client *client)
{
    struct pollfd it = {trp_route_client_fd(client), trp_route_client_events(client), 0};
    assert_int_equal(poll(&it, 1, SOON), 1);
    return trp_route_client_turn(client, it.revents);
}

static void await_all(trp_route_client *client)
{
    while (trp_route_client_under_way(client) > 0)
        troupe_must(turn(client));
}

// What the model gives first for a row of `first`, `first`, 0, 0.
static void assert_answer(const told *it, size_t rows, float first)
{
    assert_int_equal(it->times, 1);
    if (it->status != TROUPE_OK)
        fail_msg("%d: %s", it->status, it->text);
    assert_int_equal(it->rows, rows);
    assert_true(it->first == 1.5f * first * (1.f / 7));
}

static void assert_failure(const told *it, troupe_status status, const char *text)
{
    assert_int_equal(it->times, 1);
    assert_int_equal(it->status, status);
    if (!strstr(it->text, text))
        fail_msg("expected '%s' in: %s", text, it->text);
}

// ---- tests

static void test_requests_are_answered_by_their_numbers(void **state)
{
    enum { CLIENTS = 3, EACH = 20 };
    (void)state;
    trp_route_client *clients[CLIENTS];
    static told answers[CLIENTS][EACH];
    troupe_must(troupe_serve(served, NULL, "/served", &service, .replicas = 2, .socket = path));
    assert_string_equal(info_of_it().socket, path);
    for (int c = 0; c < CLIENTS; c++)
        troupe_must(trp_route_client_open(path, &clients[c]));
    for (int i = 0; i < EACH; i++)
        for (int c = 0; c < CLIENTS; c++)
            ask(clients[c], 1 + (size_t)(i + c) % 40, (float)i, &answers[c][i]);
    for (int c = 0; c < CLIENTS; c++)
        await_all(clients[c]);
    for (int i = 0; i < EACH; i++)
        for (int c = 0; c < CLIENTS; c++)
            assert_answer(&answers[c][i], 1 + (size_t)(i + c) % 40, (float)i);
    for (int c = 0; c < CLIENTS; c++)
        trp_route_client_close(&clients[c]);
    troupe_service_info info = info_of_it();
    assert_int_equal(info.answered, CLIENTS * EACH);
    assert_int_equal(info.failed + info.refused, 0);
    troupe_must(troupe_service_stop(service));
    assert_false(support_exists(path));
    assert_false(support_exists(note));
}

static void test_failures_have_their_sentence(void **state)
{
    (void)state;
    trp_route_client *client;
    told it;
    double wrong[3] = {0};
    troupe_must(troupe_serve(served, NULL, "/served", &service, .socket = path, .queue = 2));
    troupe_must(trp_route_client_open(path, &client));
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT64, wrong, 1, 3);
    it = (told){0};
    troupe_must(trp_route_client_send(client, &x, on_answer, &it, NULL));
    await_all(client);
    assert_failure(&it, TROUPE_WRONG_TYPE, "float64[1,3] where float32[?,4] was expected");
    ask(client, 0, 0, &it);
    await_all(client);
    assert_failure(&it, TROUPE_WRONG_TYPE, "at least one row");
    ask(client, 1, ROW_FAILS, &it);
    await_all(client);
    assert_failure(&it, TROUPE_UNSUPPORTED, "a row that fails");
    ask(client, 1, ROW_CRASHES, &it);
    await_all(client);
    assert_failure(&it, TROUPE_PEER_LOST, "was lost with this request under way");
    // The queue is bounded, and what is refused is told at once.
    told many[6];
    atomic_store(&shared->gate, 1);
    ask(client, 1, 1, &many[0]);
    support_await_counter(&shared->at_gate, 1);
    for (int i = 1; i < 6; i++)
        ask(client, 1, 1, &many[i]);
    while (trp_route_client_under_way(client) > 3)
        troupe_must(turn(client));
    for (int i = 3; i < 6; i++)
        assert_failure(&many[i], TROUPE_BUSY, "2 requests wait for service '/served': 2 may");
    atomic_store(&shared->gate, 0);
    await_all(client);
    for (int i = 0; i < 3; i++)
        assert_answer(&many[i], 1, 1);
    trp_route_client_close(&client);
    troupe_must(troupe_service_stop(service));
}

static bool says(void *text)
{
    char *now = support_read_file(note);
    bool found = now && strstr(now, text);
    free(now);
    return found;
}

// The file beside the socket says what is served, also after a roll.
static void test_the_note_says_what_is_served(void **state)
{
    (void)state;
    char *storage = support_path(folder, "storage"), expected[1000];
    char *first = train_served(storage, "a", 4), *second = train_served(storage, "b", 4);
    troupe_must(
        troupe_serve(served, first, "/served", &service, .socket = path, .deadline_ms = 2500));
    (void)snprintf(expected, sizeof expected,
                   "{\"route\": \"/served\", \"socket\": \"%s\", \"model\": \"served\", "
                   "\"version\": \"%s\", \"replicas\": 1, \"input\": {\"dtype\": \"float32\", "
                   "\"shape\": [null, "
                   "4]}, \"deadline_ms\": 2500, \"pid\": %d}\n",
                   path, first, (int)getpid());
    char *now = support_read_file(note);
    assert_non_null(now);
    assert_string_equal(now, expected);
    free(now);
    troupe_must(troupe_service_roll(service, second));
    assert_true(support_wait_until(says, second, SOON));
    (void)snprintf(expected, sizeof expected, "\"canary\": {\"version\": \"%s\", \"weight\": 0.25}",
                   first);
    troupe_must(troupe_service_canary(service, first, 0.25));
    assert_true(support_wait_until(says, expected, SOON));
    troupe_must(troupe_service_stop(service));
    assert_false(support_exists(note));
    free(first);
    free(second);
    free(storage);
}

static void test_a_stop_answers_what_was_accepted(void **state)
{
    (void)state;
    trp_route_client *client;
    told many[5];
    troupe_must(troupe_serve(served, NULL, "/served", &service, .socket = path, .batch = 1));
    troupe_must(trp_route_client_open(path, &client));
    atomic_store(&shared->gate, 1);
    for (int i = 0; i < 5; i++)
        ask(client, 1, 1, &many[i]);
    support_await_counter(&shared->at_gate, 1);
    while (info_of_it().queued < 4)
        ;
    atomic_store(&shared->gate, 0);
    troupe_must(troupe_service_stop(service));
    troupe_status status = TROUPE_OK;
    while (status == TROUPE_OK)
        status = turn(client);
    assert_int_equal(status, TROUPE_PEER_LOST);
    for (int i = 0; i < 5; i++)
        assert_answer(&many[i], 1, 1);
    trp_route_client_close(&client);
}

// A client that goes is nobody's loss, and a replica that is killed at a forced stop is told.
static void test_clients_and_services_go(void **state)
{
    (void)state;
    trp_route_client *client, *other;
    told lost, it;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .socket = path, .batch = 1));
    troupe_must(trp_route_client_open(path, &client));
    troupe_must(trp_route_client_open(path, &other));
    atomic_store(&shared->gate, 1);
    ask(client, 1, 1, &lost);
    support_await_counter(&shared->at_gate, 1);
    trp_route_client_close(&client);
    assert_failure(&lost, TROUPE_PEER_LOST, "may have been computed");
    atomic_store(&shared->gate, 0);
    ask(other, 1, 2, &it);
    await_all(other);
    assert_answer(&it, 1, 2);
    assert_int_equal(info_of_it().answered, 2);
    ask(other, 1, ROW_HANGS, &lost);
    support_await_counter(&shared->asked, 3);
    assert_int_equal(troupe_service_stop(service, 1), TROUPE_DEADLINE_EXCEEDED);
    while (trp_route_client_under_way(other) > 0)
        (void)turn(other);
    assert_failure(&lost, TROUPE_PEER_LOST, "replica");
    trp_route_client_close(&other);
}

static int connect_plainly(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof name.sun_path);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

static void assert_is_closed(int fd)
{
    struct pollfd until = {fd, POLLIN, 0};
    char bytes[4096];
    for (;;) {
        assert_int_equal(poll(&until, 1, SOON), 1);
        if (recv(fd, bytes, sizeof bytes, 0) <= 0)
            break;
    }
    (void)close(fd);
}

// What sends no frames, or does not take its answers, is shut out; others do not notice.
static void test_hostile_clients(void **state)
{
    (void)state;
    trp_route_client *client;
    told it;
    static char junk[4096];
    memset(junk, 'x', sizeof junk);
    troupe_must(troupe_serve(served, NULL, "/served", &service, .socket = path));
    troupe_must(trp_route_client_open(path, &client));
    int fd = connect_plainly();
    assert_int_equal(send(fd, junk, sizeof junk, MSG_NOSIGNAL), sizeof junk);
    assert_is_closed(fd);
    // Half a frame, and the end.
    trp_route_head head = {TRP_ROUTE_MAGIC, TRP_ROUTE_REQUEST, TROUPE_FLOAT32, 2, 1, 0, 0, 16,
                           {1, 4}};
    fd = connect_plainly();
    assert_int_equal(send(fd, &head, sizeof head - 7, MSG_NOSIGNAL), sizeof head - 7);
    (void)close(fd);
    fd = connect_plainly();
    assert_int_equal(send(fd, &head, sizeof head, MSG_NOSIGNAL), sizeof head);
    (void)close(fd);
    // One that asks on and on and never reads: it is not read either, and then closed.
    atomic_store(&trp_route_reply_ms, 300);
    fd = connect_plainly();
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    char frame[sizeof head + 16] = {0};
    memcpy(frame, &head, sizeof head);
    int64_t until = support_now_ms() + 3 * SOON;
    size_t sent = 0;
    for (bool closed = false; !closed;) {
        assert_true(support_now_ms() < until);
        size_t at = sent % sizeof frame;
        ssize_t now = send(fd, frame + at, sizeof frame - at, MSG_NOSIGNAL);
        if (now > 0)
            sent += (size_t)now;
        else if (errno == EAGAIN)
            (void)usleep(1000);
        else
            closed = true;
    }
    (void)close(fd);
    atomic_store(&trp_route_reply_ms, 60000);
    ask(client, 2, 3, &it);
    await_all(client);
    assert_answer(&it, 2, 3);
    trp_route_client_close(&client);
    troupe_must(troupe_service_stop(service));
}

// A frame that does not come whole is not waited for longer than that, also where a byte of it
// comes now and then; a client that says nothing between frames is let be.
static void test_half_a_frame_is_not_held(void **state)
{
    (void)state;
    trp_route_client *quiet;
    told it;
    trp_route_head head = {TRP_ROUTE_MAGIC, TRP_ROUTE_REQUEST, TROUPE_FLOAT32, 2, 1, 0, 0, 16,
                           {1, 4}};
    troupe_must(troupe_serve(served, NULL, "/served", &service, .socket = path));
    troupe_must(trp_route_client_open(path, &quiet));
    ask(quiet, 1, 2, &it);
    await_all(quiet);
    atomic_store(&trp_route_frame_ms, 200);
    for (size_t part = 10; part <= sizeof head + 5; part += sizeof head - 5) { // Head, and body.
        char frame[sizeof head + 16] = {0};
        memcpy(frame, &head, sizeof head);
        int fd = connect_plainly();
        int64_t until = support_now_ms() + SOON;
        assert_int_equal(send(fd, frame, part, MSG_NOSIGNAL), part);
        struct pollfd closed = {fd, POLLIN, 0};
        for (size_t at = part; poll(&closed, 1, 50) == 0; at++) {
            assert_true(support_now_ms() < until);
            if (at < sizeof frame - 1)
                (void)send(fd, frame + at, 1, MSG_NOSIGNAL);
        }
        assert_is_closed(fd);
    }
    ask(quiet, 1, 3, &it);
    await_all(quiet);
    assert_answer(&it, 1, 3);
    atomic_store(&trp_route_frame_ms, 60000);
    trp_route_client_close(&quiet);
    troupe_must(troupe_service_stop(service));
}

// ---- where it listens

static void assert_refused(const char *at, troupe_status status, const char *text)
{
    assert_int_equal(troupe_serve(served, NULL, "/served", &service, .socket = at), status);
    if (!strstr(troupe_last_error()->text, text))
        fail_msg("expected '%s' in: %s", text, troupe_last_error()->text);
}

static void test_where_it_may_listen(void **state)
{
    (void)state;
    troupe_service first;
    char *open_folder = support_path(folder, "open"), *there = support_path(folder, "open/x.sock");
    char long_one[200];
    troupe_must(troupe_serve(served, NULL, "/served", &first, .socket = path));
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISSOCK(about.st_mode));
    assert_refused(path, TROUPE_EXISTS, "another service listens at");
    assert_true(support_exists(path) && support_exists(note));
    troupe_must(troupe_service_stop(first));
    assert_int_equal(mkdir(open_folder, 0755), 0);
    assert_int_equal(chmod(open_folder, 0755), 0);
    assert_refused(there, TROUPE_INVALID, "that nobody else may use (mode 0700)");
    assert_int_equal(chmod(open_folder, 0700), 0);
    support_write_file(there, "mine", 4);
    assert_refused(there, TROUPE_EXISTS, "is no socket");
    support_assert_file(open_folder, "x.sock", "mine");
    memset(long_one, 'a', sizeof long_one);
    long_one[0] = '/';
    long_one[sizeof long_one - 1] = '\0';
    assert_refused(long_one, TROUPE_INVALID, "may have 107");
    // One that a killed service has left is taken over.
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    (void)close(fd);
    assert_true(support_exists(path));
    troupe_must(troupe_serve(served, NULL, "/served", &service, .socket = path));
    (void)close(connect_plainly());
    troupe_must(troupe_service_stop(service));
    free(open_folder);
    free(there);
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests_are_answered_by_their_numbers, begin, end),
        cmocka_unit_test_setup_teardown(test_failures_have_their_sentence, begin, end),
        cmocka_unit_test_setup_teardown(test_the_note_says_what_is_served, begin, end),
        cmocka_unit_test_setup_teardown(test_a_stop_answers_what_was_accepted, begin, end),
        cmocka_unit_test_setup_teardown(test_clients_and_services_go, begin, end),
        cmocka_unit_test_setup_teardown(test_hostile_clients, begin, end),
        cmocka_unit_test_setup_teardown(test_half_a_frame_is_not_held, begin, end),
        cmocka_unit_test_setup_teardown(test_where_it_may_listen, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return troupe_stop() + failed;
}
