// test_tls.c: services over HTTP with TLS, asked by curl.
#include "served_model.h"

#include <stdio.h>

static char *folder, *certificate, *key, *other_key, *text;
static char output[4096];

static int run(const char *command)
{
    return support_run(command, output, sizeof output);
}

static bool there_is(const char *program)
{
    char command[100];
    (void)snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return run(command) == 0;
}

static int begin(void **state)
{
    char command[1000];
    (void)state;
    shared = support_zeros(shared, sizeof *shared);
    shared->driver = getpid();
    folder = support_directory_make();
    certificate = support_path(folder, "certificate.pem");
    key = support_path(folder, "key.pem");
    other_key = support_path(folder, "other.pem");
    text = support_path(folder, "text");
    support_write_file(text, "no certificate", 14);
    if (!there_is("openssl") || !there_is("curl"))
        return 0;
    (void)snprintf(command, sizeof command,
                   "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                   "-keyout %s -out %s -days 2 -subj /CN=here -addext "
                   "subjectAltName=IP:127.0.0.1,IP:127.0.0.2,DNS:models.example 2>&1 && openssl "
                   "ecparam -name prime256v1 -genkey -noout -out %s 2>&1",
                   key, certificate, other_key);
    if (run(command) != 0)
        fail_msg("openssl: %s", output);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(certificate);
    free(key);
    free(other_key);
    free(text);
    support_directory_remove(folder);
    return 0;
}

static void needs_programs(void)
{
    if (!there_is("openssl") || !there_is("curl"))
        skip();
}

static troupe_service_info info_of(troupe_service service)
{
    troupe_service_info info;
    troupe_must(troupe_service_info_get(service, &info));
    return info;
}

static int curl(const char *arguments, const char *token, const char *url)
{
    char command[1500];
    (void)snprintf(command, sizeof command,
                   "curl -s -S -m 10 %s -H 'Authorization: Bearer %s' -H 'Content-Type: "
                   "application/json' -d '{\"instances\": [[0, 7, 0, 0]]}' %s 2>&1",
                   arguments, token, url);
    return run(command);
}

static void test_curl_asks_over_tls(void **state)
{
    (void)state;
    needs_programs();
    char with[500], plain[300];
    troupe_service service;
    troupe_must(troupe_serve(served, NULL, "/served", &service, .http_listen = "127.0.0.2",
                             .http_name = "models.example", .certificate = certificate,
                             .certificate_key = key));
    troupe_service_info info = info_of(service);
    assert_int_equal(strncmp(info.url, "https://models.example:", 23), 0);
    const char *port = strrchr(info.url, ':') + 1;
    (void)snprintf(with, sizeof with, "--cacert %s --resolve models.example:%.*s:127.0.0.2",
                   certificate, (int)strcspn(port, "/"), port);
    if (curl(with, info.token, info.url) != 0 || !strstr(output, "{\"predictions\": [[1.5"))
        fail_msg("curl: %s", output);
    // By its address, too; a certificate that is not known is the client's to refuse.
    (void)snprintf(plain, sizeof plain, "https://127.0.0.2:%s", port);
    if (curl(with, info.token, plain) != 0 || !strstr(output, "{\"predictions\": "))
        fail_msg("curl: %s", output);
    assert_int_not_equal(curl("", info.token, plain), 0);
    assert_non_null(strstr(output, "certificate"));
    // Neither without a token, nor without TLS, nor by another name.
    (void)curl(with, "x", plain);
    assert_non_null(strstr(output, "expected the service's token"));
    (void)snprintf(with, sizeof with, "-k -H 'Host: elsewhere.example:%.*s'",
                   (int)strcspn(port, "/"), port);
    (void)curl(with, info.token, plain);
    assert_non_null(strstr(output, "own Host"));
    (void)snprintf(plain, sizeof plain, "http://127.0.0.2:%s", port);
    (void)curl("", info.token, plain);
    assert_null(strstr(output, "predictions"));
    assert_int_equal(info_of(service).answered, 2);
    troupe_must(troupe_service_stop(service));
}

static void assert_refused(troupe_status status, troupe_status expected, const char *said)
{
    assert_int_equal(status, expected);
    if (!strstr(troupe_last_error()->text, said))
        fail_msg("expected '%s' in: %s", said, troupe_last_error()->text);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    troupe_service it;
    assert_refused(troupe_serve(served, NULL, "/served", &it, .http_listen = "192.0.2.1"),
                   TROUPE_INVALID, ".http_listen is 192.0.2.1, where others could read along");
    assert_refused(troupe_serve(served, NULL, "/served", &it, .http_listen = "somewhere"),
                   TROUPE_INVALID, "must be an address of this machine");
    assert_refused(troupe_serve(served, NULL, "/served", &it, .http_listen = "127.0.0.1",
                                .certificate = certificate),
                   TROUPE_INVALID, ".certificate_key is not set");
    assert_refused(troupe_serve(served, NULL, "/served", &it, .http_listen = "127.0.0.1",
                                .certificate = "/no/such", .certificate_key = "/no/such"),
                   TROUPE_NOT_FOUND, "/no/such");
    assert_refused(troupe_serve(served, NULL, "/served", &it, .http_listen = "127.0.0.1",
                                .certificate = text, .certificate_key = text),
                   TROUPE_INVALID, "does not take that certificate and key");
    needs_programs();
    assert_refused(troupe_serve(served, NULL, "/served", &it, .http_listen = "127.0.0.1",
                                .certificate = certificate, .certificate_key = other_key),
                   TROUPE_INVALID, "does not take that certificate and key");
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_curl_asks_over_tls, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_refused, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return troupe_stop() + failed;
}
