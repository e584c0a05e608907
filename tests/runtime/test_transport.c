// test_transport.c: messages between two processes over unix sockets and over tcp, and strangers:
// who has other keys, none at all, or damages the files that say where to go.
#include <runtime/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

enum { LARGEST = 1 << 20, MESSAGES = 1000 };

static struct {
    int count;
    char last[64];
} taken;

static void take(const void *data, size_t size)
{
    taken.count++;
    snprintf(taken.last, sizeof taken.last, "%.*s", (int)(size < 63 ? size : 63),
             (const char *)data);
}

// Reads until `count` messages have come or `timeout_ms` have passed.
static int receive(int count, int timeout_ms)
{
    int64_t until = support_now_ms() + timeout_ms;
    while (taken.count < count && support_now_ms() < until) {
        bool ready;
        trp_transport_wait(true, -1, 20000000, &ready);
        while (trp_transport_receive(take))
            continue;
    }
    return taken.count;
}

static troupe_status open_at(const char *path, const char *keys)
{
    return trp_transport_open(
        &(trp_transport_how){.path = path, .keys_path = keys, .message_bytes_max = LARGEST});
}

// In a child: connects to `to` with those keys and sends `count` messages. Ends the child.
static void send_and_exit(const char *own, const char *keys, const char *to, int count)
{
    trp_outbound *out = NULL;
    int status = open_at(own, keys) == TROUPE_OK && (out = trp_outbound_open(to)) != NULL ? 0 : 1;
    for (int i = 1; status == 0 && i <= count; i++) {
        char text[32];
        trp_buffer bytes = {0};
        trp_buffer_append(&bytes, text, (size_t)snprintf(text, sizeof text, "message %d", i));
        if (trp_outbound_send(out, &bytes) != TROUPE_OK)
            status = 2;
        trp_buffer_free(&bytes);
    }
    if (out != NULL)
        trp_outbound_close(out, 500);
    trp_transport_close();
    _exit(status);
}

static pid_t fork_sender(const char *own, const char *keys, const char *to, int count)
{
    fflush(NULL);
    pid_t pid = fork(); // Before this process has a context: libzmq's threads survive no fork.
    if (pid != 0)
        return pid;
    for (int i = 0; i < 500 && !support_exists(to); i++)
        usleep(10000);
    send_and_exit(own, keys, to, count);
    return -1;
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void exchange(bool tcp)
{
    char *home = support_directory_make();
    char *keys = support_path(home, "keys"), *mine = support_path(home, "mine");
    char *its = support_path(home, "its");
    taken.count = 0;
    if (tcp)
        assert_int_equal(trp_transport_keys_make(keys), TROUPE_OK);
    pid_t sender = fork_sender(its, tcp ? keys : NULL, mine, MESSAGES);
    assert_int_equal(open_at(mine, tcp ? keys : NULL), TROUPE_OK);
    assert_int_equal(receive(MESSAGES, SUPPORT_SOON_MS), MESSAGES);
    assert_string_equal(taken.last, "message 1000");
    assert_int_equal(end_of(sender), 0);
    struct stat about;
    assert_int_equal(stat(tcp ? keys : mine, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(open_at(mine, NULL), TROUPE_EXISTS); // Nothing there is ever unlinked.
    trp_transport_close();
    free(keys), free(mine), free(its);
    support_directory_remove(home);
}

static void messages_travel_over_unix_sockets(void **state)
{
    (void)state;
    exchange(false);
}

static void messages_travel_over_tcp(void **state)
{
    (void)state;
    exchange(true);
}

// In a child: a client of the plain library, without keys or with a pair of its own, that knows the
// server's public key, as somebody who could read a process's memory might.
static pid_t fork_stranger(const char *to, const char *keys, bool curve)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (int i = 0; i < 500 && !support_exists(to); i++)
        usleep(10000);
    char *endpoint = support_read_file(to), *known = support_read_file(keys);
    char public_key[41], secret_key[41];
    int linger = 300;
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    known[40] = '\0';
    if (curve) {
        (void)zmq_curve_keypair(public_key, secret_key);
        (void)zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, known, 41);
        (void)zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_key, 41);
        (void)zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, 41);
    }
    (void)zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    int status = zmq_connect(socket, endpoint) == 0 && zmq_send(socket, "let me in", 9, 0) == 9;
    (void)zmq_close(socket);
    (void)zmq_ctx_term(context);
    _exit(status == 1 ? 0 : 1);
}

// The strangers' messages are not read; those of one with the right keys are.
static void strangers_are_not_heard_over_tcp(void **state)
{
    (void)state;
    char *home = support_directory_make();
    char *keys = support_path(home, "keys"), *forged = support_path(home, "forged");
    char *mine = support_path(home, "mine"), *a = support_path(home, "a"),
         *b = support_path(home, "b");
    taken.count = 0;
    assert_int_equal(trp_transport_keys_make(keys), TROUPE_OK);
    assert_int_equal(trp_transport_keys_make(forged), TROUPE_OK);
    pid_t strangers[3] = {fork_sender(a, forged, mine, 10), fork_stranger(mine, keys, false),
                          fork_stranger(mine, keys, true)};
    pid_t friend = fork_sender(b, keys, mine, 10);
    assert_int_equal(open_at(mine, keys), TROUPE_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(end_of(strangers[i]), 0);
    assert_int_equal(end_of(friend), 0);
    assert_int_equal(receive(11, 300), 10);
    assert_string_equal(taken.last, "message 10");
    trp_transport_close();
    free(keys), free(mine), free(forged), free(a), free(b);
    support_directory_remove(home);
}

static void damaged_files_are_refused_in_a_sentence(void **state)
{
    (void)state;
    char *home = support_directory_make();
    char *keys = support_path(home, "keys"), *mine = support_path(home, "mine");
    assert_int_equal(open_at(mine, keys), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "keys could not be read"));
    support_write_file(keys, "too short\n", 10);
    assert_int_equal(open_at(mine, keys), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "two keys of 40 characters"));
    char pair[82]; // Of the right length, but '~' is no digit, and five of '#' are too large.
    for (int i = 0; i < 2; i++) {
        memset(pair, i == 0 ? '~' : '#', sizeof pair);
        pair[40] = pair[81] = '\n';
        support_write_file(keys, pair, sizeof pair);
        assert_int_equal(open_at(mine, keys), TROUPE_CORRUPT);
        assert_non_null(strstr(troupe_last_error()->text, "does not hold two keys"));
    }
    assert_int_equal(unlink(keys), 0);
    assert_int_equal(trp_transport_keys_make(keys), TROUPE_OK);
    assert_int_equal(open_at(mine, keys), TROUPE_OK);
    char *gone = support_path(home, "gone"), *odd = support_path(home, "odd");
    assert_null(trp_outbound_open(gone));
    support_write_file(odd, "nowhere://", 10);
    assert_null(trp_outbound_open(odd));
    assert_non_null(strstr(troupe_last_error()->text, "cannot connect to"));
    trp_transport_close();
    free(keys), free(mine), free(gone), free(odd);
    support_directory_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_travel_over_unix_sockets),
        cmocka_unit_test(messages_travel_over_tcp),
        cmocka_unit_test(strangers_are_not_heard_over_tcp),
        cmocka_unit_test(damaged_files_are_refused_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
