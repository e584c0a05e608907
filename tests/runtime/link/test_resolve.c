// test_resolve.c: addresses of nodes: what is one, and names that no server answers for.
#include <netdb.h>
#include <pthread.h>
#include <runtime/link/resolve.h>
#include <runtime/node/worker_start.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <unistd.h>

static char numeric[TRP_NODE_ADDRESS_MAX];

static troupe_status resolve(const char *address, bool wild)
{
    return trp_address_resolve("it", address, wild, 1000, numeric);
}

static void test_what_is_in_numbers(void **state)
{
    (void)state;
    static const char *const good[] = {"127.0.0.1:1", "10.0.0.7:4500", "192.168.0.255:65535"};
    static const char *const bad[] = {"",
                                      ":",
                                      "1.2.3.4",
                                      "1.2.3.4:",
                                      "1.2.3.4:0",
                                      "1.2.3.4:65536",
                                      "1.2.3.4:+5",
                                      "1.2.3.4:05", // Another text for the same address.
                                      "1.2.3.4:5 ",
                                      "0.0.0.0:4500",
                                      "0:4500",
                                      "1.2.3:4500",
                                      "01.2.3.4:4500",
                                      "224.0.0.1:4500",
                                      "255.255.255.255:4500",
                                      "localhost:4500",
                                      "*:4500",
                                      "[::1]:4500",
                                      "1.2.3.4;127.0.0.1:4500",
                                      "nosuch.example:4500"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(trp_address_is_numeric(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(trp_address_is_numeric(bad[i]));
}

// Whatever they are written as.
// As others write them, who need not end them.
static void test_text_of_other_programs(void **state)
{
    (void)state;
    static const char text[] = "10.0.0.7:4500and more", inside[] = "10.0.0.7:45\0";
    char longer[2 * TRP_NODE_ADDRESS_MAX];
    memset(longer, '1', sizeof longer);
    assert_true(trp_address_read(text, 13, numeric));
    assert_string_equal(numeric, "10.0.0.7:4500");
    assert_true(trp_address_read(text, 12, numeric));
    assert_string_equal(numeric, "10.0.0.7:450");
    assert_false(trp_address_read(text, 14, numeric));
    assert_false(trp_address_read(text, 0, numeric));
    assert_false(trp_address_read(NULL, 0, numeric));
    assert_false(trp_address_read(inside, sizeof inside, numeric));
    assert_false(trp_address_read(longer, TRP_NODE_ADDRESS_MAX, numeric));
    assert_false(trp_address_read(longer, sizeof longer, numeric));
}

static void test_addresses_of_all_are_refused(void **state)
{
    (void)state;
    static const char *const all[] = {"0.0.0.0:4711", "0:4711",     "0.0:4711", "000.0.0.0:4711",
                                      "*:4711",       "0x0.0:4711", "00:0"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(resolve(all[i], true), TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, all[i]));
        assert_non_null(strstr(troupe_last_error()->text, "one machine"));
    }
    assert_int_equal(resolve("127.0.0.1:0", false), TROUPE_INVALID);
    assert_int_equal(resolve("[::1]:4711", false), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "IPv4"));
}

static void test_names_become_numbers(void **state)
{
    (void)state;
    assert_int_equal(resolve("localhost:4600", false), TROUPE_OK);
    assert_string_equal(numeric, "127.0.0.1:4600");
    assert_int_equal(resolve("lo:0", true), TROUPE_OK); // An interface.
    assert_string_equal(numeric, "127.0.0.1:0");
    assert_int_equal(resolve("127.0.0.1:04500", false), TROUPE_OK);
    assert_string_equal(numeric, "127.0.0.1:4500");
}

static atomic_bool silent;
static atomic_int asked, answered;

static int never(const char *host, const char *service, const struct addrinfo *hints,
                 struct addrinfo **found)
{
    (void)host, (void)service, (void)hints, (void)found;
    atomic_fetch_add(&asked, 1);
    while (atomic_load(&silent))
        usleep(1000);
    atomic_fetch_add(&answered, 1);
    return EAI_AGAIN;
}

static bool all_answered(void *count)
{
    return atomic_load(&answered) == *(int *)count;
}

// A server that is silent costs whoever asks his time, and no more than so many threads.
static void test_a_silent_name_server_is_not_waited_for(void **state)
{
    (void)state;
    enum { MOST = 8, LIMIT_MS = 50, SLACK_MS = 2000 };
    int64_t began = support_now_ms();
    atomic_store(&silent, true);
    trp_resolve_by(never);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(trp_address_resolve("it", "far.example:1", false, LIMIT_MS, numeric),
                         TROUPE_DEADLINE_EXCEEDED);
        assert_non_null(strstr(troupe_last_error()->text, "far.example"));
    }
    assert_true(support_now_ms() - began < MOST * LIMIT_MS + SLACK_MS);
    assert_int_equal(trp_address_resolve("it", "far.example:1", false, LIMIT_MS, numeric),
                     TROUPE_BUSY);
    assert_int_equal(resolve("127.0.0.1:1", false), TROUPE_OK); // Needs nobody.
    atomic_store(&silent, false);
    assert_true(support_wait_until(all_answered, &(int){MOST}, SUPPORT_SOON_MS));
    began = support_now_ms();
    while (trp_address_resolve("it", "far.example:1", false, SUPPORT_SOON_MS, numeric) ==
           TROUPE_BUSY) // The threads are about to end.
        assert_true(support_now_ms() - began < SUPPORT_SOON_MS);
    assert_int_equal(troupe_last_error()->status, TROUPE_NOT_FOUND);
    trp_resolve_by(NULL);
}

static bool none_answers(void *unused)
{
    (void)unused;
    return support_count_threads() == 1;
}

// The thread that still asks for a name of a start that was given up is none of the program's: the
// next start forks its workers all the same.
static void test_a_start_after_one_that_was_given_up(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); // It has a thread of its own.
#endif
    assert_true(support_wait_until(none_answers, NULL, SUPPORT_SOON_MS));
    atomic_store(&silent, true);
    trp_resolve_by(never);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .listen = "far.example:1", .keys = "none",
                                  .node_timeout_ms = 200),
                     TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(support_count_threads(), 2);
    assert_int_equal(trp_launch_choose(), TROUPE_LAUNCH_FORK);
    atomic_store(&silent, false);
    trp_resolve_by(NULL);
}

static int own_name(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **found)
{
    (void)host;
    return getaddrinfo("127.0.1.1", service, hints, found);
}

// What was written to stderr while `address` was resolved.
static const char *heard(const char *address, bool wild)
{
    static char text[1024];
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(file != NULL && kept >= 0);
    (void)dup2(fileno(file), STDERR_FILENO);
    troupe_status status = resolve(address, wild);
    (void)dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(status, TROUPE_OK);
    return text;
}

static void test_a_name_for_this_machine_alone_is_warned_of(void **state)
{
    (void)state;
    trp_resolve_by(own_name);
    const char *text = heard("myhost:4600", true);
    assert_non_null(strstr(text, "'myhost' is 127.0.1.1"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_string_equal(heard("myhost:4600", false), "");
    assert_string_equal(heard("localhost:4600", true), "");
    assert_string_equal(heard("127.0.0.1:4600", true), "");
    trp_resolve_by(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_numbers),
        cmocka_unit_test(test_text_of_other_programs),
        cmocka_unit_test(test_addresses_of_all_are_refused),
        cmocka_unit_test(test_names_become_numbers),
        cmocka_unit_test(test_a_silent_name_server_is_not_waited_for),
        cmocka_unit_test(test_a_start_after_one_that_was_given_up),
        cmocka_unit_test(test_a_name_for_this_machine_alone_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
