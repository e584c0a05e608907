// test_keys_tool.c: `troupe keys`, and certificates of CZMQ that a zauth peer believes.
// label: nosan
#include <support.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>
#ifdef TROUPE_CZMQ
#include <czmq.h>
#endif

static char output[1 << 13];
static char *folder;

static int run(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s' keys %s 2>&1", folder,
             support_setting("TROUPE_TOOL"), arguments);
    return support_run(command, output, sizeof output);
}

static void expect_run(const char *arguments, int expected, const char *wanted)
{
    int status = run(arguments);
    if (status != expected || strstr(output, wanted) == NULL)
        fail_msg("troupe keys %s ended with %d, not %d, or does not say '%s':\n%s", arguments,
                 status, expected, wanted, output);
}

static mode_t mode_of(const char *name)
{
    struct stat about;
    char *path = support_path(folder, name);
    assert_int_equal(stat(path, &about), 0);
    free(path);
    return about.st_mode & 0777;
}

static char *text_of(const char *name)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    free(path);
    assert_non_null(text);
    return text;
}

static bool is_there(const char *name)
{
    char *path = support_path(folder, name);
    bool is = support_exists(path);
    free(path);
    return is;
}

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

static void test_keys_are_made_and_shown(void **state)
{
    (void)state;
    expect_run("make a.keys", 0, "");
    assert_int_equal(mode_of("a.keys"), 0600);
    char *text = text_of("a.keys");
    expect_run("show a.keys", 0, "\n");
    assert_memory_equal(output, text, 41); // The first line alone.
    assert_int_equal(strlen(output), 41);
    free(text);
    expect_run("make a.keys", 1, "exists");
    expect_run("show nothing.keys", 1, "nothing.keys could not be read: No such file");
    expect_run("", 2, "usage: troupe keys");
    expect_run("export a.keys", 2, "usage: troupe keys");
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    expect_run("make a.keys", 0, "");
    char *path = support_path(folder, "a.keys");
    assert_int_equal(chmod(path, 0640), 0);
    expect_run("show a.keys", 1, "(mode 600)");
    expect_run("export a.keys cert", 1, "(mode 600)");
    assert_int_equal(chmod(path, 0600), 0);
    support_write_file(path, "none\n", 5);
    expect_run("show a.keys", 1, "does not hold two keys");
    free(path);
    assert_false(is_there("cert"));
}

#ifdef TROUPE_CZMQ

static void test_certificates_there_and_back(void **state)
{
    (void)state;
    expect_run("make a.keys", 0, "");
    expect_run("export a.keys cert", 0, "");
    assert_int_equal(mode_of("cert_secret"), 0600);
    assert_int_equal(mode_of("cert"), 0644);
    expect_run("import cert b.keys", 0, "");
    assert_int_equal(mode_of("b.keys"), 0600);
    char *one = text_of("a.keys"), *other = text_of("b.keys"), *cert = text_of("cert");
    assert_string_equal(one, other);
    other[81] = '\0'; // The secret key is its second line.
    assert_null(strstr(cert, other + 41));
    expect_run("export a.keys cert", 1, "cert exists already");
    expect_run("import cert b.keys", 1, "b.keys could not be made: File exists");
    expect_run("export --public a.keys public", 0, "");
    assert_false(is_there("public_secret"));
    expect_run("import public c.keys", 1, "has no secret key");
    assert_false(is_there("c.keys"));
    expect_run("import a.keys c.keys", 1, "a.keys");
    free(one);
    free(other);
    free(cert);
}

// A zauth peer that knows the certificates of a folder.
typedef struct server {
    zactor_t *auth;
    zcert_t *cert;
    zsock_t *socket;
    char *known;
    int port;
} server;

static server start_server(void)
{
    server it = {.auth = zactor_new(zauth, NULL),
                 .cert = zcert_new(),
                 .socket = zsock_new(ZMQ_PULL),
                 .known = support_path(folder, "known")};
    assert_int_equal(mkdir(it.known, 0700), 0);
    assert_non_null(it.auth);
    zstr_sendx(it.auth, "CURVE", it.known, NULL);
    zsock_wait(it.auth);
    zsock_set_zap_domain(it.socket, "global");
    zcert_apply(it.cert, it.socket);
    zsock_set_curve_server(it.socket, 1);
    it.port = zsock_bind(it.socket, "tcp://127.0.0.1:*");
    assert_true(it.port > 0);
    return it;
}

static void stop_server(server *it)
{
    zsock_destroy(&it->socket);
    zcert_destroy(&it->cert);
    zactor_destroy(&it->auth);
    free(it->known);
}

// Whether who has that certificate is heard.
static bool is_heard(server *it, zcert_t *cert, int timeout_ms)
{
    zsock_t *client = zsock_new(ZMQ_PUSH);
    zcert_apply(cert, client);
    zsock_set_curve_serverkey(client, zcert_public_txt(it->cert));
    zsock_set_linger(client, 0);
    zsock_set_sndtimeo(client, timeout_ms);
    zsock_set_rcvtimeo(it->socket, timeout_ms);
    assert_int_equal(zsock_connect(client, "tcp://127.0.0.1:%d", it->port), 0);
    (void)zstr_send(client, "hello");
    char *text = zstr_recv(it->socket);
    bool heard = text != NULL && strcmp(text, "hello") == 0;
    zstr_free(&text);
    zsock_destroy(&client);
    return heard;
}

static void test_zauth_believes_an_exported_certificate(void **state)
{
    (void)state;
    server it = start_server();
    expect_run("make a.keys", 0, "");
    expect_run("export a.keys cert", 0, "");
    expect_run("export --public a.keys known/cluster", 0, "");
    char *path = support_path(folder, "cert");
    zcert_t *cert = zcert_load(path), *stranger = zcert_new();
    assert_non_null(cert);
    assert_true(is_heard(&it, cert, SUPPORT_SOON_MS));
    assert_false(is_heard(&it, stranger, 300));
    zcert_destroy(&cert);
    zcert_destroy(&stranger);
    free(path);
    stop_server(&it);
}

// What CZMQ has made becomes a cluster's keys: two nodes meet by them.
static void test_nodes_take_an_imported_certificate(void **state)
{
    (void)state;
    char *path = support_path(folder, "theirs"), *keys = support_path(folder, "their.keys");
    zcert_t *cert = zcert_new();
    assert_int_equal(zcert_save(cert, path), 0);
    expect_run("import theirs their.keys", 0, "");
    expect_run("show their.keys", 0, zcert_public_txt(cert));
    zcert_destroy(&cert);
    zsys_shutdown(); // Its threads end: from here on processes are forked.
    troupe_must(
        troupe_start(0, NULL, .workers = TROUPE_NONE, .listen = "127.0.0.1:0", .keys = keys));
    int ends[2], status;
    char answer = 0, address[64];
    snprintf(address, sizeof address, "%s", troupe_node_address());
    assert_int_equal(pipe(ends), 0);
    pid_t other = fork();
    if (other == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_keys_tool", "join", address, keys, NULL);
        _exit(9);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &answer, 1), 1);
    assert_int_equal(answer, 'j');
    close(ends[0]);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_int_equal(troupe_stop(), 0);
    free(path);
    free(keys);
}

#else

static void test_certificates(void **state)
{
    (void)state;
    print_message("SKIPPED: certificates of CZMQ are not tested, since libczmq is missing here "
                  "(Debian's package libczmq-dev)\n");
    skip();
}

#endif

// The other node of a test.
static int join(const char *address, const char *keys)
{
    troupe_must(
        troupe_start(0, NULL, .workers = TROUPE_NONE, .listen = "127.0.0.1:0", .keys = keys));
    troupe_must(troupe_node_join(address));
    return write(STDOUT_FILENO, "j", 1) == 1 ? troupe_stop() : 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "join") == 0)
        return join(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_are_made_and_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files_are_refused, set_up, tear_down),
#ifdef TROUPE_CZMQ
        cmocka_unit_test_setup_teardown(test_certificates_there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_zauth_believes_an_exported_certificate, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_take_an_imported_certificate, set_up, tear_down),
#else
        cmocka_unit_test(test_certificates),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
