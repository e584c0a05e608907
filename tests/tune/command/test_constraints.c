// test_constraints.c: what must hold of parameters, as texts: read, refused and worked out.
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/command/constraints.h>

static void test_what_holds(void **state)
{
    (void)state;
    static const char params[] =
        "{\"a\": 2, \"b\": 3.5, \"plan.steps\": 4, \"kind\": \"sgd\", \"on\": true}";
    static const struct {
        const char *text;
        bool holds;
    } rows[] = {
        {"a < b", true},
        {"a>b", false},
        {"a * b <= 7", true},
        {"a * b < 7", false},
        {"a + b * 2 == 9", true},
        {"(a + b) * 2 == 11", true},
        {"a - b - 1 == -2.5", true},
        {"plan.steps / a / 2 == 1", true},
        {"a != 2", false},
        {"--a >= 2", true},
        {"-(a) >= 2", false},
        {"1e3 > a", true},
        {"  a  <=  2  ", true},
        {"gone > 100", true}, // It does not count.
        {"gone > a", true},
        {"a > gone", true},
        {"kind < 1", true},
        {"a / 0 > 1", true},
        {"0 / 0 == 0 / 0", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp_constraints one = {&rows[i].text, 1};
        if (trp_constraints_allow(&one, params) != rows[i].holds)
            fail_msg("%s", rows[i].text);
    }
    const char *both[] = {"a < b", "a > b"};
    assert_false(trp_constraints_allow(&(trp_constraints){both, 2}, params));
    assert_true(trp_constraints_allow(&(trp_constraints){both, 1}, params));
    assert_true(trp_constraints_allow(&(trp_constraints){both, 0}, params));
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const char space[] = "{\"a\": {\"uniform\": [0, 1]}, \"b\": 1}";
    static const char *const rows[][2] = {
        {"", "has 'its end' at byte 0: expected a number, the name of a parameter or '('"},
        {"a", "expected <, <=, >, >=, == or !="},
        {"a <", "has 'its end' at byte 3: expected a number"},
        {"a < b < 1", "has '< 1' at byte 6: expected its end"},
        {"a = b", "has '= b' at byte 2: expected <, <="},
        {"(a < b", "expected ')'"},
        {"a < (b", "expected ')'"},
        {"c < b", "has 'c < b' at byte 0: expected the name of a parameter of the space"},
        {"a < .", "expected a number"},
        {"a && b", "has '&& b'"},
        {"a ** 2 < 1", "has '* 2 < 1'"},
    };
    trp_json names;
    troupe_must(trp_json_parse(space, sizeof space - 1, &names));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(trp_constraint_check(rows[i][0], &names), TROUPE_INVALID);
        if (strstr(troupe_last_error()->text, rows[i][1]) == NULL)
            fail_msg("%s: %s", rows[i][0], troupe_last_error()->text);
    }
    char deep[200];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(trp_constraint_check(deep, &names), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "fewer parentheses"));
    troupe_must(trp_constraint_check("a * 2 <= b + 1", &names));
    troupe_must(trp_constraint_check("c < b", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_holds),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
