// test_predict_tool.c: `troupe predict`: a service asked from the shell.
// label: nosan
#include <support.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(adder_config, (int, unused));
typedef struct adder {
    int unused;
} adder;

static troupe_status adder_setup(adder *self, const adder_config *config, troupe_use *use)
{
    (void)self, (void)config, (void)use;
    return TROUPE_OK;
}

// Of each row its sum and its first number.
static troupe_status adder_forward(adder *self, const troupe_tensor *x, troupe_tensor *y)
{
    const double *in = x->data;
    double *out = troupe_arena_alloc(x->shape[0] * 2 * sizeof *out);
    (void)self;
    for (size_t r = 0; r < x->shape[0]; r++) {
        if (in[3 * r] < 0)
            return troupe_fail(TROUPE_INVALID, "a row is \"negative\"");
        out[2 * r] = in[3 * r] + in[3 * r + 1] + in[3 * r + 2];
        out[2 * r + 1] = in[3 * r];
    }
    *y = troupe_tensor_of(TROUPE_FLOAT64, out, x->shape[0], 2);
    return TROUPE_OK;
}

TROUPE_MODEL(adder, adder_config, troupe_none, adder_setup, adder_forward,
             .input = {TROUPE_FLOAT64, 1, {3}});

static char output[1 << 14];
static char *folder;
static troupe_service service;
static troupe_service_info info;

// Runs it in the folder, where the file `rows` has what it reads.
static void run(const char *rows, const char *environment, const char *arguments, int expected,
                const char *wanted)
{
    char command[2000], *path = support_path(folder, "rows");
    support_write_file(path, rows, strlen(rows));
    (void)snprintf(command, sizeof command, "cd '%s' && %s '%s' predict %s <rows 2>&1", folder,
                   environment, support_setting("TROUPE_TOOL"), arguments);
    int status = support_run(command, output, sizeof output);
    if (status != expected || strstr(output, wanted) == NULL)
        fail_msg("troupe predict %s ended with %d, not %d, or does not say '%s':\n%s", arguments,
                 status, expected, wanted, output);
    if (strstr(output, info.token) != NULL)
        fail_msg("the token is in:\n%s", output);
    free(path);
}

static int begin(void **state)
{
    (void)state;
    folder = support_directory_make();
    assert_int_equal(chmod(folder, 0700), 0);
    char *path = support_path(folder, "sum.sock");
    troupe_must(
        troupe_serve(adder, NULL, "/sum", &service, .http = TROUPE_HTTP_LOOPBACK, .socket = path));
    free(path);
    troupe_must(troupe_service_info_get(service, &info));
    return 0;
}

static int end(void **state)
{
    (void)state;
    support_directory_remove(folder);
    troupe_must(troupe_service_stop(service));
    return 0;
}

static char token[100];
static const char *with_token(void)
{
    (void)snprintf(token, sizeof token, "TROUPE_TOKEN=%s", info.token);
    return token;
}

static void test_rows_are_predicted(void **state)
{
    (void)state;
    run("[[1, 2, 3.5], [4, 5, 6]]\n", with_token(), info.url, 0, "[6.5, 1]\n[15, 4]\n");
    assert_string_equal(output, "[6.5, 1]\n[15, 4]\n");
    run("{\"instances\": [[1, 2, 3]]}", with_token(), info.url, 0, "[6, 1]\n");
    char arguments[400], *path = support_path(folder, "token"), line[100];
    (void)snprintf(line, sizeof line, "%s\n", info.token);
    support_write_file(path, line, strlen(line));
    free(path);
    (void)snprintf(arguments, sizeof arguments, "--csv --token-file token %s", info.url);
    run("1,2,3\r\n\n4, 5 ,6e0\n", "TROUPE_TOKEN=wrong", arguments, 0, "6,1\n15,4\n");
    assert_string_equal(output, "6,1\n15,4\n");
    // More than a socket takes at once.
    enum { ROWS = 20000 };
    char *many = calloc(ROWS, 6);
    assert_non_null(many);
    for (int i = 0; i < ROWS; i++)
        memcpy(many + 6 * i, "1,1,1\n", 6);
    many[6 * ROWS - 1] = '\0';
    char command[2000];
    path = support_path(folder, "many");
    support_write_file(path, many, 6 * ROWS - 1);
    (void)snprintf(command, sizeof command,
                   "cd '%s' && %s '%s' predict --csv %s <many | sort | uniq -c", folder,
                   with_token(), support_setting("TROUPE_TOOL"), info.url);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    assert_string_equal(output + strspn(output, " "), "20000 3,1\n");
    free(path);
    free(many);
}

static void test_rows_by_the_socket(void **state)
{
    (void)state;
    run("[[1, 2, 3.5], [4, 5, 6]]\n", "env -u TROUPE_TOKEN", "--socket sum.sock", 0,
        "[6.5, 1]\n[15, 4]\n");
    run("1,2,3\n4,5,6\n", "", "--csv --socket sum.sock", 0, "6,1\n15,4\n");
    run("\n\n", "", "--csv --socket sum.sock", 1, "standard input has no rows: expected lines of ");
    run("[[1, 2]]", "", "--socket sum.sock", 1, "where float64[?,3] was expected");
    run("[[-1, 2, 3]]", "", "--socket sum.sock", 1, "a row is \"negative\"");
    run("[[1, 2, \"x\"]]", "", "--socket sum.sock", 1, "troupe predict: ");
    run("[[1, 2, 3]]", "", "--socket none.sock", 1, "cannot connect to a service at none.sock");
    run("[[1, 2, 3]]", "", "--socket sum.sock http://127.0.0.1/x", 2,
        "troupe predict: expected options alone, found 1 argument\nusage: troupe predict");
    // More than a socket takes at once.
    char command[2000], *path = support_path(folder, "many");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 100000; i++)
        fputs("1,1,1\n", file);
    assert_int_equal(fclose(file), 0);
    free(path);
    (void)snprintf(command, sizeof command,
                   "cd '%s' && '%s' predict --csv --socket sum.sock <many | sort | uniq -c", folder,
                   support_setting("TROUPE_TOOL"));
    assert_int_equal(support_run(command, output, sizeof output), 0);
    assert_string_equal(output + strspn(output, " "), "100000 3,1\n");
}

static void test_refusals_are_sentences(void **state)
{
    (void)state;
    char arguments[400];
    run("[[1, 2, 3]]", "TROUPE_TOKEN=wrong", info.url, 1,
        "expected the service's token: Authorization: Bearer TOKEN (HTTP 401)");
    run("[[1, 2, 3]]", "env -u TROUPE_TOKEN", info.url, 1, "(HTTP 401)");
    run("[[1, 2]]", with_token(), info.url, 1, "where float64[?,3] was expected (HTTP 400)");
    run("[[-1, 2, 3]]", with_token(), info.url, 1, "a row is \"negative\" (HTTP 400)");
    (void)snprintf(arguments, sizeof arguments, "%s.not", info.url);
    run("[[1, 2, 3]]", with_token(), arguments, 1, "there is no such route (HTTP 404)");
    run("1,2,3\n", with_token(), info.url, 1, "lines of numbers need --csv");
    run("", with_token(), info.url, 1, "standard input has no rows");
    (void)snprintf(arguments, sizeof arguments, "--csv %s", info.url);
    run("1,2,3\n1,two,3\n", with_token(), arguments, 1, "line 2 of the rows has \"two\"");
    run("1,nan,3\n", with_token(), arguments, 1, "line 1 of the rows has \"nan\"");
    run("1,2,3,\n", with_token(), arguments, 1, "line 1 of the rows has \"\"");
    (void)snprintf(arguments, sizeof arguments, "--token-file nothing %s", info.url);
    run("[[1, 2, 3]]", "", arguments, 1, "cannot read the token: nothing: No such file");
    run("[[1, 2, 3]]", "TROUPE_TOKEN='a b'", info.url, 1, "the token has a byte that none has");
}

// Listens at a port of loopback; `backlog` connections are let in by the kernel alone.
static int listen_somewhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void test_places_that_are_none(void **state)
{
    (void)state;
    char arguments[400];
    int port, fd = listen_somewhere(&port);
    (void)snprintf(arguments, sizeof arguments, "--timeout 1 http://127.0.0.1:%d/x", port);
    run("[[1]]", "", arguments, 1, "the service did not answer in time");
    (void)close(fd);
    run("[[1]]", "", arguments, 1, "no service answers at 127.0.0.1:");
    run("[[1]]", "", "https://127.0.0.1/x", 2, "https is for curl");
    run("[[1]]", "", "127.0.0.1:80/x", 2, "expected http://HOST:PORT/ROUTE");
    run("[[1]]", "", "http://127.0.0.1:80", 2, "expected http://HOST:PORT/ROUTE");
    run("[[1]]", "", "'http://127.0.0.1:80/a b'", 2, "expected http://HOST:PORT/ROUTE");
    run("[[1]]", "", "http://:80/x", 2, "expected http://HOST:PORT/ROUTE");
    run("", "", "", 2, "troupe predict: expected one URL, found 0 arguments\nusage: ");
    run("", "", "--socket s --token-file t", 2, "troupe predict: --socket needs no token\n");
    run("", "", "--no-such http://127.0.0.1/x", 2, "usage: troupe predict");
    run("", "", "--timeout 0 http://127.0.0.1/x", 2, "is not a number of 1 or more");
    run("", "", "--help", 0, "usage: troupe predict");
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_predicted),
        cmocka_unit_test(test_rows_by_the_socket),
        cmocka_unit_test(test_refusals_are_sentences),
        cmocka_unit_test(test_places_that_are_none),
    };
    int failed = cmocka_run_group_tests(tests, begin, end);
    return troupe_stop() + failed;
}
