// test_route_client.c: connections to a service's socket, whose other end is the test's own.
#include "support.h"

#include <poll.h>
#include <serve/route_client.h>
#include <serve/route_frame.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <troupe.h>
#include <unistd.h>

enum { SOON = SUPPORT_SOON_MS };

static char *folder;
static char path[100];
static int listener;
static trp_route_stream server;
static trp_route_client *client;

// ---- the other end

static int begin(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)state;
    folder = support_directory_make();
    (void)snprintf(path, sizeof path, "%s/it", folder);
    memcpy(name.sun_path, path, sizeof path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 4), 0);
    troupe_must(trp_route_client_open(path, &client));
    server = (trp_route_stream){.fd = accept(listener, NULL, NULL), .reader.from_client = true};
    assert_true(server.fd >= 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    trp_route_client_close(&client);
    assert_null(client);
    trp_route_stream_clear(&server);
    (void)close(listener);
    support_directory_remove(folder);
    return 0;
}

enum { HEARD_MAX = 20 };
typedef struct heard {
    uint64_t ids[HEARD_MAX];
    float first[HEARD_MAX];
    size_t count;
} heard;

static bool hear(void *user, trp_route_reader *reader)
{
    heard *it = user;
    assert_true(it->count < HEARD_MAX);
    it->ids[it->count] = reader->head.id;
    if (reader->head.size > 0)
        it->first[it->count] = *(const float *)(const void *)reader->body;
    it->count++;
    return true;
}

// Takes requests until there are so many.
static void hear_until(heard *it, size_t count)
{
    int64_t until = support_now_ms() + SOON;
    while (it->count < count) {
        assert_true(support_now_ms() < until);
        struct pollfd there = {server.fd, POLLIN, 0};
        (void)poll(&there, 1, 10);
        troupe_must(trp_route_receive(&server, hear, it));
        if (trp_route_client_unsent(client) > 0)
            troupe_must(trp_route_client_turn(client, POLLOUT));
    }
}

// ---- this end

typedef struct told {
    int times;
    troupe_status status;
    char text[600];
    float first;
    size_t rows;
} told;

static void on_answer(void *user, troupe_status status, const char *text, const troupe_tensor *y)
{
    told *it = user;
    it->times++;
    it->status = status;
    (void)snprintf(it->text, sizeof it->text, "%s", text ? text : "");
    if (y) {
        it->rows = y->shape[0];
        it->first = *(const float *)y->data;
    }
}

static uint64_t ask(float first, told *answer)
{
    float row[3] = {first, 0, 0};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, row, 1, 3);
    uint64_t id;
    troupe_must(trp_route_client_send(client, &x, on_answer, answer, &id));
    return id;
}

static void answer(uint64_t id, float first)
{
    float rows[2] = {first, 1};
    troupe_tensor y = troupe_tensor_of(TROUPE_FLOAT32, rows, 2, 1);
    troupe_must(trp_route_put_tensor(&server, TRP_ROUTE_ANSWER, id, &y));
    troupe_must(trp_route_flush(&server));
}

static troupe_status turn(void)
{
    struct pollfd it = {trp_route_client_fd(client), trp_route_client_events(client), 0};
    assert_int_equal(poll(&it, 1, SOON), 1);
    return trp_route_client_turn(client, it.revents);
}

// ---- tests

static void test_answers_come_in_any_order(void **state)
{
    (void)state;
    told answers[4] = {0};
    heard got = {0};
    for (int i = 0; i < 4; i++)
        (void)ask((float)i, &answers[i]);
    assert_int_equal(trp_route_client_under_way(client), 4);
    hear_until(&got, 4);
    for (int i = 0; i < 4; i++)
        assert_true(got.first[i] == (float)i);
    answer(got.ids[2], 20);
    answer(got.ids[0], 0);
    troupe_must(trp_route_put_failure(&server, got.ids[3], TROUPE_BUSY, "much waits"));
    answer(got.ids[1], 10);
    while (trp_route_client_under_way(client) > 0)
        troupe_must(turn());
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answers[i].times, 1);
        assert_int_equal(answers[i].status, TROUPE_OK);
        assert_int_equal(answers[i].rows, 2);
        assert_true(answers[i].first == (float)(10 * i));
    }
    assert_int_equal(answers[3].times, 1);
    assert_int_equal(answers[3].status, TROUPE_BUSY);
    assert_string_equal(answers[3].text, "much waits");
}

static void test_what_is_cancelled_is_not_told(void **state)
{
    (void)state;
    told first = {0}, second = {0};
    heard got = {0};
    uint64_t id = ask(1, &first);
    (void)ask(2, &second);
    trp_route_client_cancel(client, id);
    trp_route_client_cancel(client, id + 100);
    hear_until(&got, 2);
    answer(got.ids[0], 1);
    answer(got.ids[1], 2);
    while (second.times == 0)
        troupe_must(turn());
    assert_int_equal(first.times, 0);
    assert_int_equal(trp_route_client_under_way(client), 0);
}

// What came before the end is told as it was; all else is lost, once.
static void test_a_lost_connection_is_told(void **state)
{
    (void)state;
    told answers[3] = {0};
    heard got = {0};
    for (int i = 0; i < 3; i++)
        (void)ask((float)i, &answers[i]);
    hear_until(&got, 3);
    answer(got.ids[1], 7);
    trp_route_stream_clear(&server);
    troupe_status status;
    while ((status = turn()) == TROUPE_OK)
        ;
    assert_int_equal(status, TROUPE_PEER_LOST);
    assert_int_equal(answers[1].status, TROUPE_OK);
    assert_true(answers[1].first == 7);
    for (int i = 0; i < 3; i++)
        assert_int_equal(answers[i].times, 1);
    assert_int_equal(answers[0].status, TROUPE_PEER_LOST);
    assert_non_null(strstr(answers[0].text, "may have been computed"));
    assert_int_equal(trp_route_client_turn(client, POLLIN), TROUPE_PEER_LOST);
    float row[1] = {0};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, row, 1, 1);
    assert_int_equal(trp_route_client_send(client, &x, on_answer, &answers[0], NULL),
                     TROUPE_PEER_LOST);
    assert_int_equal(answers[0].times, 1);
}

static void test_a_close_tells_what_was_under_way(void **state)
{
    (void)state;
    told it = {0};
    (void)ask(1, &it);
    trp_route_client_close(&client);
    assert_int_equal(it.times, 1);
    assert_int_equal(it.status, TROUPE_PEER_LOST);
}

static void test_answers_that_are_none_end_it(void **state)
{
    (void)state;
    told it = {0};
    (void)ask(1, &it);
    answer(4711, 1); // Nobody asked.
    assert_int_equal(turn(), TROUPE_MALFORMED);
    assert_int_equal(it.status, TROUPE_PEER_LOST);
    assert_non_null(strstr(it.text, "was not asked for"));
    trp_route_client_close(&client);
    trp_route_stream_clear(&server);
    troupe_must(trp_route_client_open(path, &client));
    server.fd = accept(listener, NULL, NULL);
    static const char other[TRP_ROUTE_HEAD] = "HTTP/1.1 400 Bad Request";
    assert_int_equal(send(server.fd, other, sizeof other, 0), sizeof other);
    assert_int_equal(turn(), TROUPE_MALFORMED);
}

// Neither side waits: what does not fit into the socket goes as the other one takes it.
static void test_a_large_request_goes_in_pieces(void **state)
{
    (void)state;
    enum { ROWS = 2 << 20 };
    float *rows = calloc(ROWS, sizeof *rows);
    told it = {0};
    heard got = {0};
    assert_non_null(rows);
    rows[0] = 5;
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT32, rows, ROWS, 1);
    troupe_must(trp_route_client_send(client, &x, on_answer, &it, NULL));
    free(rows);
    assert_true(trp_route_client_unsent(client) > 0);
    assert_int_equal(trp_route_client_events(client), POLLIN | POLLOUT);
    hear_until(&got, 1);
    assert_true(got.first[0] == 5);
    assert_int_equal(server.reader.head.shape[0], ROWS);
    assert_int_equal(trp_route_client_unsent(client), 0);
    x.shape[0] = (TRP_ROUTE_REQUEST_MAX >> 2) + 1;
    assert_int_equal(trp_route_client_send(client, &x, on_answer, &it, NULL), TROUPE_TOO_LARGE);
    answer(got.ids[0], 6);
    while (it.times == 0)
        troupe_must(turn());
    assert_true(it.first == 6);
}

static void test_nobody_there(void **state)
{
    (void)state;
    trp_route_client *other = NULL;
    char long_one[200];
    memset(long_one, 'a', sizeof long_one);
    long_one[sizeof long_one - 1] = '\0';
    assert_int_equal(trp_route_client_open("/no/such/socket", &other), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "/no/such/socket"));
    assert_int_equal(trp_route_client_open(long_one, &other), TROUPE_INVALID);
    (void)close(listener); // As after a kill: the file stays.
    assert_int_equal(trp_route_client_open(path, &other), TROUPE_NOT_FOUND);
    assert_null(other);
    listener = -1;
}

// What may be announced is bounded over all readers; what is beyond is read and thrown away.
static void test_announced_bytes_are_bounded(void **state)
{
    (void)state;
    enum { READERS = TRP_ROUTE_HELD_MAX / TRP_ROUTE_REQUEST_MAX + 1 };
    _Atomic uint64_t held = 0;
    trp_route_reader readers[READERS];
    trp_route_head head = {.magic = TRP_ROUTE_MAGIC,
                           .kind = TRP_ROUTE_REQUEST,
                           .dtype = TROUPE_UINT8,
                           .ndim = 1,
                           .size = TRP_ROUTE_REQUEST_MAX,
                           .shape = {TRP_ROUTE_REQUEST_MAX}};
    size_t used;
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (trp_route_reader){.from_client = true, .held = &held};
        troupe_must(trp_route_read(&readers[i], &head, sizeof head, &used));
        assert_int_equal(used, sizeof head);
        assert_int_equal(readers[i].dropped, i == READERS - 1);
    }
    char bytes[4096] = {0};
    trp_route_reader *last = &readers[READERS - 1];
    while (!last->whole)
        troupe_must(trp_route_read(last, bytes, sizeof bytes, &used));
    for (size_t i = 0; i < READERS; i++)
        trp_route_reader_clear(&readers[i]);
    assert_int_equal(held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers_come_in_any_order, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_cancelled_is_not_told, begin, end),
        cmocka_unit_test_setup_teardown(test_a_lost_connection_is_told, begin, end),
        cmocka_unit_test_setup_teardown(test_a_close_tells_what_was_under_way, begin, end),
        cmocka_unit_test_setup_teardown(test_answers_that_are_none_end_it, begin, end),
        cmocka_unit_test_setup_teardown(test_a_large_request_goes_in_pieces, begin, end),
        cmocka_unit_test_setup_teardown(test_nobody_there, begin, end),
        cmocka_unit_test(test_announced_bytes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
