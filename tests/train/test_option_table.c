// test_option_table.c: that a run's options stand in one list, and what is made of it.
#include "support.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/option_table.h>

// The members of troupe_train_options as the public header declares them.
static size_t read_members(char names[][64], size_t most)
{
    char path[4096], line[256];
    const char *source = getenv("TROUPE_SOURCE");
    assert_non_null(source);
    snprintf(path, sizeof path, "%s/include/troupe/train.h", source);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t count = 0;
    bool inside = false;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, "typedef struct troupe_train_options {") != NULL)
            inside = true;
        else if (strstr(line, "} troupe_train_options;") != NULL)
            inside = false;
        char *end = strchr(line, ';'), *comment = strstr(line, "//");
        if (!inside || end == NULL || (comment != NULL && comment < end))
            continue;
        char *begin = end;
        while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')
            begin--;
        assert_true(count < most);
        snprintf(names[count++], 64, "%.*s", (int)(end - begin), begin);
    }
    fclose(file);
    return count;
}

// A17.
static void test_each_public_member_has_a_row_and_each_row_a_member(void **state)
{
    (void)state;
    char names[64][64];
    const char *rows[64];
    size_t count = read_members(names, 64), row = 0;
#define ROW(type, member, shape, kept, normal) rows[row++] = #member;
    TRP_OPTION_TABLE(ROW)
#undef ROW
    assert_string_equal(names[0], "size");
    assert_string_equal(names[count - 1], "unused_");
    assert_int_equal(row, count - 2);
    for (size_t i = 0; i < row; i++) {
        assert_string_equal(rows[i], names[i + 1]);
        assert_true(trp_option_is_known(rows[i], strlen(rows[i])));
    }
    assert_false(trp_option_is_known("size", 4));
    assert_false(trp_option_is_known("rank", 4));
}

// Gives each option a value that is not its default, and differs by `seed`.
static troupe_train_options fill(const char *seed)
{
    troupe_train_options options = {.size = sizeof options};
    double number = 3 + (double)(unsigned char)seed[0];
    // Through the packed form, whose members have few types.
    trp_packed_options packed = {0};
    const troupe_type *type = &troupe_type_trp_packed_options;
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        void *at = (char *)&packed + field->offset;
        if (field->type == &troupe_type_int)
            *(int *)at = (int)number;
        else if (field->type == &troupe_type_double)
            *(double *)at = number / 2;
        else if (field->type == &troupe_type_size_t)
            *(size_t *)at = (size_t)number;
        else if (field->type == &troupe_type_bool)
            *(bool *)at = seed[0] % 2 == 1;
        else if (field->type == &troupe_type_troupe_text)
            *(const char **)at = seed;
        else
            fail_msg("option %s has a type that this test does not know", field->name);
    }
    options = trp_options_unpack(&packed);
    return options;
}

// Texts are the same ones. Padding does not count.
static bool same(const troupe_type *type, const void *one, const void *other)
{
    for (size_t i = 0; i < type->field_count; i++) {
        size_t at = type->fields[i].offset;
        if (memcmp((const char *)one + at, (const char *)other + at, type->fields[i].type->size))
            return false;
    }
    return true;
}

static void test_what_is_packed_comes_back_whole(void **state)
{
    (void)state;
    troupe_train_options options = fill("a"), other = fill("b");
    trp_packed_options packed = trp_options_pack(&options), again = trp_options_pack(&other);
    troupe_train_options back = trp_options_unpack(&packed);
    trp_packed_options twice = trp_options_pack(&back);
    assert_true(same(&troupe_type_trp_packed_options, &packed, &twice));
    assert_null(trp_options_differ(&packed, &packed));
    const troupe_type *type = &troupe_type_trp_packed_options;
    for (size_t i = 0; i < type->field_count; i++) { // One member at a time.
        size_t from = type->fields[i].offset;
        trp_packed_options changed = packed;
        memcpy((char *)&changed + from, (char *)&again + from, type->fields[i].type->size);
        assert_string_equal(trp_options_differ(&packed, &changed), type->fields[i].name);
    }
}

static void test_what_is_left_out_is_taken_from_the_record(void **state)
{
    (void)state;
    troupe_train_options made = fill("a"), given = {.size = sizeof given}, all = fill("b");
    trp_saved_options saved = trp_options_save(&made);
    trp_options_merge(&given, &saved);
    trp_saved_options merged = trp_options_save(&given);
    assert_true(same(&troupe_type_trp_saved_options, &merged, &saved));
    assert_null(given.storage); // Of this opening alone,
    assert_null(given.env);     // and not written down.
    trp_saved_options before = trp_options_save(&all);
    trp_options_merge(&all, &saved); // What is given counts.
    merged = trp_options_save(&all);
    assert_true(same(&troupe_type_trp_saved_options, &merged, &before));
    // A goal belongs to its metric.
    troupe_train_options metric = {.size = sizeof metric, .keep_metric = "own"};
    trp_options_merge(&metric, &saved);
    assert_string_equal(metric.keep_metric, "own");
    assert_int_equal(metric.keep_goal, TROUPE_GOAL_NONE);
}

static void test_texts_are_copied(void **state)
{
    (void)state;
    char text[] = "mine";
    troupe_train_options options = fill(text);
    trp_arena arena = {0};
    troupe_must(trp_options_keep(&options, &arena));
    memset(text, 'x', strlen(text));
    trp_packed_options packed = trp_options_pack(&options);
    const troupe_type *type = &troupe_type_trp_packed_options;
    for (size_t i = 0; i < type->field_count; i++)
        if (type->fields[i].type == &troupe_type_troupe_text)
            assert_string_equal(*(char **)((char *)&packed + type->fields[i].offset), "mine");
    trp_arena_clear(&arena);
}

// What says where and how a run is kept, shown and begun may always be given.
static void test_a_trainer_may_forbid_what_does_not_say_where_a_run_is(void **state)
{
    (void)state;
    char told[1024] = "";
    size_t row = 0;
    troupe_train_options options = fill("a");
    for (const char *name; (name = trp_option_given(&options, &row)) != NULL;) {
        strcat(told, " ");
        strcat(told, name);
    }
    assert_string_equal(
        told, " ranks cpus_per_rank keep keep_metric keep_goal restarts collective_timeout_ms"
              " gpus_per_rank memory_per_rank_bytes resources_per_rank env coordinator_cpus"
              " time_limit_s time_limit_grace_s checkpoint_every expected_reports"
              " ranks_per_process min_ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_public_member_has_a_row_and_each_row_a_member),
        cmocka_unit_test(test_what_is_packed_comes_back_whole),
        cmocka_unit_test(test_what_is_left_out_is_taken_from_the_record),
        cmocka_unit_test(test_texts_are_copied),
        cmocka_unit_test(test_a_trainer_may_forbid_what_does_not_say_where_a_run_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
