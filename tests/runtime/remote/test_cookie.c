// test_cookie.c: numbers that only this process can make of a text.
#include <support.h>

#include <runtime/remote/cookie.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Of the reference implementation: the key and the text are 0, 1, 2, ...
static void test_as_published(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t number;
    } known[] = {{0, UINT64_C(0x726fdb47dd0e0e31)},
                 {8, UINT64_C(0x93f5f5799a932462)},
                 {15, UINT64_C(0xa129ca6149be45e5)}};
    static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    unsigned char text[16];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(trp_siphash(key, text, known[i].size) == known[i].number);
}

static void test_same_here_and_nowhere_else(void **state)
{
    (void)state;
    uint64_t *theirs = support_share(sizeof *theirs);
    pid_t other = fork(); // Before a key is made here.
    if (other == 0) {
        *theirs = trp_cookie("text", 4);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    uint64_t ours = trp_cookie("text", 4);
    assert_true(ours == trp_cookie("text", 4));
    assert_true(ours != trp_cookie("texu", 4) && ours != trp_cookie("tex", 3));
    assert_true(*theirs != 0 && ours != *theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_published),
                                       cmocka_unit_test(test_same_here_and_nowhere_else)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
