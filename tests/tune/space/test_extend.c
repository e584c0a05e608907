// test_extend.c: spaces as parts of larger ones, at random: where points of the one lie in the
// other. What is no part is in tests/tune/study/test_spaces_refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <tune/space/extend.h>
#include <tune/space/random.h>

enum { ROWS = 6, TEXT = 4096 };

// A row of JSON as it was, and as it is; nothing before: it is new.
typedef struct row {
    char was[200], is[300];
} row;

static int below(trp_random *random, int count)
{
    return (int)trp_random_below(random, (uint64_t)count);
}

static void make_real(trp_random *random, row *made)
{
    static const char *const kinds[] = {"uniform", "log_uniform"};
    const char *kind = kinds[below(random, 2)];
    double low = 0.25 + trp_random_unit(random), high = low + 1 + 5 * trp_random_unit(random);
    bool steps = below(random, 3) == 0;
    double less = steps ? low : low - 0.2 * below(random, 2);
    snprintf(made->was, sizeof made->was, "{\"%s\": [%.17g, %.17g]%s}", kind, low, high,
             steps ? ", \"step\": 0.1" : "");
    snprintf(made->is, sizeof made->is, "{\"%s\": [%.17g, %.17g]%s", kind, less,
             high + below(random, 3), steps ? ", \"step\": 0.1" : "");
}

static void make_whole(trp_random *random, row *made)
{
    int step = 1 + below(random, 3), low = 1 + below(random, 5);
    int high = low + step * (1 + below(random, 9));
    bool fixed = below(random, 3) == 0;
    if (fixed)
        snprintf(made->was, sizeof made->was, "%d", low);
    else
        snprintf(made->was, sizeof made->was, "{\"integer\": [%d, %d], \"step\": %d}", low, high,
                 step);
    snprintf(made->is, sizeof made->is, "{\"integer\": [%d, %d], \"step\": %d",
             low - step * below(random, 3), high + step * below(random, 3), step);
}

static void make_choice(trp_random *random, row *made)
{
    static const char *const kinds[] = {"choice", "ordered", "grid"};
    static const char *const values[] = {"1", "\"a\"", "[1, 2]", "{\"k\": 0.5}", "null", "7"};
    const char *kind = kinds[below(random, 3)];
    int before = 1 + below(random, 4), now = before + below(random, 6 - before);
    char list[150] = "";
    made->was[0] = '\0';
    for (int i = 0; i < now; i++) {
        if (i == before)
            snprintf(made->was, sizeof made->was, "{\"%s\": [%s]}", kind, list);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                 values[i]);
    }
    if (now == before)
        snprintf(made->was, sizeof made->was, "{\"%s\": [%s]}", kind, list);
    snprintf(made->is, sizeof made->is, "{\"%s\": [%s]", kind, list);
}

// What hangs on row `on`, a choice of 0 and 1, counts with the second; that is there in both.
static void make_space(trp_random *random, char *was, char *is)
{
    bool had = false;
    strcpy(was, "{\"on\": {\"choice\": [0, 1]}");
    strcpy(is, was);
    for (int i = 0; i < ROWS; i++) {
        row made;
        (below(random, 3) == 0   ? make_real
         : below(random, 2) == 0 ? make_whole
                                 : make_choice)(random, &made);
        const char *when = below(random, 3) == 0 ? ", \"when\": {\"on\": 1}" : "";
        bool is_new = below(random, 4) == 0, plain = made.was[0] != '{';
        if (plain) // No object, so that nothing can hang.
            when = "";
        size_t size = strlen(made.was);
        if (!is_new)
            snprintf(was + strlen(was), TEXT - strlen(was), ", \"r%d\": %.*s%s%s", i,
                     (int)(plain ? size : size - 1), made.was, when, plain ? "" : "}");
        had = had || !is_new;
        char before[220] = "";
        if (is_new && made.was[0] != '{') // What it was is the fixed value.
            snprintf(before, sizeof before, ", \"before\": %s", made.was);
        else if (is_new)
            snprintf(made.is, sizeof made.is, "{\"choice\": [3, 4], \"before\": 4");
        snprintf(is + strlen(is), TEXT - strlen(is), ", \"r%d\": %s%s%s}", i, made.is, before,
                 when);
    }
    strcat(was, "}");
    strcat(is, "}");
}

// Each member that the point had, it has in the larger space, in the same text.
static void assert_has_all(const char *was, const char *is)
{
    trp_json one, other, at = {0}, name, value, there;
    assert_int_equal(trp_json_parse(was, strlen(was), &one), TROUPE_OK);
    assert_int_equal(trp_json_parse(is, strlen(is), &other), TROUPE_OK);
    while (trp_json_next_member(one, &at, &name, &value)) {
        char text[32];
        snprintf(text, sizeof text, "%.*s", (int)name.size - 2, name.at + 1);
        if (!trp_json_member(other, text, &there) || there.size != value.size ||
            memcmp(there.at, value.at, value.size) != 0)
            fail_msg("%s of %s is another in %s", text, was, is);
    }
}

static void check_points(const troupe_space *small, const troupe_space *large,
                         const trp_extension *extension, trp_random *random)
{
    double x[ROWS + 1], y[ROWS + 1], settled[ROWS + 1];
    size_t dims;
    (void)troupe_space_dims(large, &dims);
    for (int i = 0; i < 20; i++) {
        for (size_t k = 0; k <= ROWS; k++)
            x[k] = (double)NAN;
        trp_space_complete(small, random, x);
        assert_int_equal(trp_extension_map(large, extension, x, y), TROUPE_OK);
        memcpy(settled, y, sizeof y);
        trp_space_settle(large, settled);
        assert_memory_equal(settled, y, dims * sizeof *y);
        assert_has_all(troupe_space_json(small, x), troupe_space_json(large, y));
    }
    troupe_arena_reset();
}

static void test_points_lie_where_they_were(void **state)
{
    (void)state;
    static char was[TEXT], is[TEXT];
    for (uint64_t seed = 1; seed <= 500; seed++) {
        troupe_space *small, *large;
        trp_extension extension;
        trp_json description, before;
        trp_buffer text = {0}, values = {0};
        trp_random random;
        trp_random_seed(&random, seed, 0);
        make_space(&random, was, is);
        if (troupe_space_parse(was, &small) != TROUPE_OK ||
            troupe_space_parse(is, &large) != TROUPE_OK)
            fail_msg("seed %llu: %s: %s, %s", (unsigned long long)seed, troupe_last_error()->text,
                     was, is);
        trp_space_describe(small, &text);
        assert_int_equal(trp_json_parse((const char *)text.data, text.size, &description),
                         TROUPE_OK);
        trp_extension_before(large, description, &values);
        assert_int_equal(trp_json_parse((const char *)values.data, values.size, &before),
                         TROUPE_OK);
        if (trp_extension_open(large, description, &before, 1, &extension) != TROUPE_OK)
            fail_msg("seed %llu: %s: %s, %s", (unsigned long long)seed, troupe_last_error()->text,
                     was, is);
        check_points(small, large, &extension, &random);
        trp_extension_close(&extension);
        trp_buffer_free(&text);
        trp_buffer_free(&values);
        troupe_space_free(&small);
        troupe_space_free(&large);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points_lie_where_they_were)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
