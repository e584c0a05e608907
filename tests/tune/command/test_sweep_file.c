// test_sweep_file.c: sweeps as files of JSON: what they say, and each mistake by its name.
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/command/sweep_file.h>

static const char space[] = "\"space\": {\"lr\": {\"log_uniform\": [1e-4, 1]}, \"epochs\": 3}";

static troupe_status read_file(const char *members, trp_arena *arena, trp_sweep_file *file)
{
    char text[2048];
    snprintf(text, sizeof text, "{%s%s%s}", space, members[0] != '\0' ? ", " : "", members);
    return trp_sweep_file_read(text, strlen(text), false, arena, file);
}

static void test_a_whole_file(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_sweep_file file;
    size_t dims;
    troupe_must(read_file(
        "\"metric\": \"acc\", \"goal\": \"max\", \"trials\": 40, \"concurrent\": "
        "3, \"retries\": 2, \"seed\": 9, \"time_budget_s\": 60.5, "
        "\"trial_timeout_s\": 5, \"name\": \"net\", \"storage\": \"runs\", "
        "\"server\": true, \"resources\": {\"cpus\": 2, \"gpus\": 0.5}, "
        "\"searcher\": {\"tpe\": {\"startup\": 5}}, \"scheduler\": {\"asha\": "
        "{\"grace\": 2, \"reduction\": 3, \"limit\": 18}}, \"target\": 0, "
        "\"patience\": 7, \"columns\": \"acc,loss\", \"first\": [{\"lr\": 0.1}, {}], \"warm\": "
        "[\"runs/a b\", \"c\"]",
        &arena, &file));
    assert_true(file.target != NULL && *file.target == 0);
    assert_int_equal(file.patience, 7);
    assert_string_equal(file.columns, "acc,loss");
    assert_int_equal(file.first_count, 2);
    assert_string_equal(file.first[0], "{\"lr\": 0.1}");
    assert_string_equal(file.first[1], "{}");
    assert_int_equal(file.warm_count, 2);
    assert_string_equal(file.warm[0], "runs/a b");
    assert_string_equal(file.metric, "acc");
    assert_int_equal(file.goal, TROUPE_MAXIMIZE);
    assert_int_equal(file.trials, 40);
    assert_int_equal(file.concurrent, 3);
    assert_int_equal(file.retries, 2);
    assert_int_equal(file.seed, 9);
    assert_true(file.time_budget_s == 60.5 && file.trial_timeout_s == 5);
    assert_string_equal(file.name, "net");
    assert_string_equal(file.storage, "runs");
    assert_true(file.server && file.cpus == 2 && file.gpus == 0.5);
    assert_string_equal(file.scheduler->describe, "ASHA (grace 2, reduction 3, limit 18)");
    assert_non_null(file.searcher);
    (void)troupe_space_dims(file.space, &dims);
    assert_int_equal(dims, 1);
    trp_sweep_file_close(&file);
    trp_arena_clear(&arena);
}

static void test_little_is_needed(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_sweep_file file;
    troupe_must(read_file("\"metric\": \"loss\", \"goal\": \"minimize\"", &arena, &file));
    assert_null(file.searcher);
    assert_null(file.scheduler);
    assert_null(file.target);
    assert_int_equal(file.first_count + file.warm_count, 0);
    assert_int_equal(file.objective_count, 1);
    trp_sweep_file_close(&file);
    troupe_must(read_file("\"objectives\": [{\"metric\": \"loss\", \"goal\": \"min\"}, "
                          "{\"metric\": \"speed\", \"goal\": \"max\"}], \"searcher\": \"nsga2\"",
                          &arena, &file));
    assert_int_equal(file.objective_count, 2);
    assert_string_equal(file.metrics[1], "speed");
    assert_int_equal(file.goals[1], TROUPE_MAXIMIZE);
    trp_sweep_file_close(&file);
    trp_arena_clear(&arena);
}

// Each by its name and its options, alone and with what stops trials.
static void test_every_searcher_and_scheduler(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "\"searcher\": \"auto\"",
        "\"searcher\": \"random\"",
        "\"searcher\": \"sobol\"",
        "\"searcher\": {\"grid\": {\"points\": 4}}",
        "\"searcher\": {\"tpe\": {\"startup\": 4, \"budgets\": true}}",
        "\"searcher\": {\"cmaes\": {\"population\": 12, \"restarts\": true}}",
        "\"searcher\": {\"gp\": {}}",
        "\"searcher\": {\"nsga2\": {\"population\": 20}}",
        "\"searcher\": {\"tpe\": {}, \"repeats\": 3}",
        "\"searcher\": {\"repeats\": 2}",
        "\"scheduler\": {\"stop\": {\"reports\": 4}}",
        "\"scheduler\": \"fifo\"",
        "\"scheduler\": {\"asha\": {\"promote\": true}}",
        "\"scheduler\": {\"hyperband\": {\"limit\": 27}}",
        "\"scheduler\": {\"median\": {\"grace\": 3}, \"stop\": {\"patience\": 4}}",
        "\"scheduler\": {\"stop\": {\"reports\": 4}, \"fifo\": {}}",
        "\"scheduler\": {\"pbt\": {\"interval\": 2, \"mutate\": \"lr\"}}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char members[512];
        trp_arena arena = {0};
        trp_sweep_file file;
        snprintf(members, sizeof members, "\"metric\": \"loss\", \"goal\": \"min\", %s", rows[i]);
        if (read_file(members, &arena, &file) != TROUPE_OK)
            fail_msg("%s: %s", rows[i], troupe_last_error()->text);
        trp_sweep_file_close(&file);
        trp_arena_clear(&arena);
    }
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "the sweep has no \"metric\""},
        {"\"metric\": \"loss\"", "the sweep has no \"goal\""},
        {"\"metric\": \"loss\", \"goal\": \"low\"", "\"goal\" of the sweep is \"low\""},
        {"\"metrics\": \"loss\"",
         "the sweep has \"metrics\", which means nothing: expected one of"},
        {"\"metric\": 3", "metric"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"trials\": -1", "\"trials\" is -1"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"trials\": 1.5", "trials"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"trials\": 0",
         "\"trials\" is 0: expected a number above 0"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"retries\": -1",
         "\"retries\" is -1: expected a number that is not negative"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"resources\": {\"cpus\": 0}", "\"cpus\" is 0"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"first\": {}", "\"first\" is no list"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"first\": [1]", "\"first\" has 1"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"warm\": \"a\"", "\"warm\" is no list"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"constraints\": 1", "\"constraints\" is no list"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"constraints\": [1]", "\"constraints\" has 1"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"constraints\": [\"lr < momentum\"]",
         "has 'momentum' at byte 5: expected the name of a parameter"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"warm\": [{}]", "\"warm\" has {}"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"target\": \"low\"", "target"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"searcher\": {\"gp\": {}, \"repeats\": 1}",
         "1 repeats of each point"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"searcher\": {\"repeats\": 2, \"odd\": 1}",
         "\"odd\""},
        {"\"metric\": \"a\", \"goal\": \"min\", \"resources\": {\"cpu\": 1}", "\"cpu\""},
        {"\"metric\": \"a\", \"goal\": \"min\", \"resources\": 2", "\"resources\" is no object"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"searcher\": \"optuna\"",
         "\"searcher\" is \"optuna\": expected one of auto, random"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"searcher\": {\"tpe\": {}, \"gp\": {}}",
         "no more than one"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"searcher\": {\"tpe\": {\"start\": 1}}",
         "tpe has \"start\", which means nothing: expected one of startup"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"searcher\": {\"tpe\": 3}",
         "the options of tpe are 3"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"scheduler\": {\"asha\": {\"reduction\": 1}}",
         "asha: reduction is 1, must be at least 2"},
        {"\"metric\": \"a\", \"goal\": \"min\", \"scheduler\": {\"asha\": {}, \"halt\": {}}",
         "\"halt\""},
        {"\"objectives\": []", "\"objectives\" is empty"},
        {"\"objectives\": [{\"goal\": \"min\"}]", "objective 0 has no \"metric\""},
        {"\"objectives\": [{\"metric\": \"a\", \"goal\": \"min\"}], \"metric\": \"a\"",
         "expected either"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp_arena arena = {0};
        trp_sweep_file file;
        troupe_status status = read_file(rows[i][0], &arena, &file);
        if (status == TROUPE_OK || strstr(troupe_last_error()->text, rows[i][1]) == NULL)
            fail_msg("%s: %s; expected '%s'", rows[i][0],
                     status == TROUPE_OK ? "it was taken" : troupe_last_error()->text, rows[i][1]);
        trp_arena_clear(&arena);
    }
    trp_arena arena = {0};
    trp_sweep_file file;
    static const char broken[] = "{\"metric\": ", other[] = "[1]",
                      no_space[] = "{\"metric\": \"a\", \"goal\": \"min\"}";
    assert_int_equal(trp_sweep_file_read(broken, sizeof broken - 1, false, &arena, &file),
                     TROUPE_MALFORMED);
    assert_int_equal(trp_sweep_file_read(other, sizeof other - 1, false, &arena, &file),
                     TROUPE_WRONG_TYPE);
    assert_int_equal(trp_sweep_file_read(no_space, sizeof no_space - 1, false, &arena, &file),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "the sweep has no \"space\""));
    trp_arena_clear(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_file),
        cmocka_unit_test(test_little_is_needed),
        cmocka_unit_test(test_every_searcher_and_scheduler),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
