// test_network.c: starts where a part of the network or of the machine's set-up is missing: the
// loopback interface is down, or the folder for sockets has a long name.
#include <support.h>
#include <troupe.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Over tcp a start says what is wrong, in a limited time; it would wait for ever for its node
// process.
static void test_the_loopback_interface_is_down(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); // libzmq is not built for it.
#endif
    enum { NOT_PERMITTED = 77, LIMIT_S = 20 };
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) { // In a network of its own, in which no interface is up.
        if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0)
            _exit(NOT_PERMITTED);
        alarm(LIMIT_S);
        troupe_status status = troupe_start(0, NULL, .transport = TROUPE_TRANSPORT_TCP);
        const char *text = troupe_last_error()->text;
        bool right = status == TROUPE_IO && strstr(text, "loopback") != NULL;
        if (!right)
            fprintf(stderr, "the start ended with %s: %s\n", troupe_status_name(status), text);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_PERMITTED) {
        print_message("SKIPPED: this user may not make a network namespace (unshare)\n");
        skip();
    }
    assert_int_equal(status, 0);
}

// XDG_RUNTIME_DIR is no option: where it is too long for sockets, they live elsewhere. One that is
// given is refused by its name.
static void test_a_long_folder_for_sockets(void **state)
{
    (void)state;
    char *home = support_directory_make();
    char name[80];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    char *folder = support_path(home, name);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    troupe_must(troupe_start(0, NULL, .workers = 1));
    assert_int_equal(support_count_files(folder), 0);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(troupe_start(0, NULL, .directory = folder), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, ".directory of troupe_start"));
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    free(folder);
    support_directory_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_loopback_interface_is_down),
        cmocka_unit_test(test_a_long_folder_for_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
