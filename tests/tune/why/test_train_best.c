// test_train_best.c: `troupe tune train-best` over programs that have a trainer of their own: these
// are this one, started once more.
// timeout: 120
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(hill, (double, x), (int, steps), (int, fails), (troupe_ref, start));

// From where main has put it, towards x.
static troupe_status climb(troupe_rank *me, const hill *config)
{
    troupe_view view;
    double start;
    if (config->fails != 0 && getenv("FAILS") != NULL)
        return troupe_fail(TROUPE_FAILED, "it was to fail");
    TROUPE_TRY(troupe_view_bytes(config->start, &view, TROUPE_FOREVER));
    memcpy(&start, view.data, sizeof start);
    troupe_view_end(&view);
    for (int i = 1; i <= config->steps; i++)
        TROUPE_TRY(troupe_report(me, {"loss", (config->x - 3) * (config->x - 3) + start / i},
                                 {"ranks", me->world}));
    return TROUPE_OK;
}
TROUPE_TRAINER(climb, hill);

// ---- the program

static int sweep_over(const char *name, troupe_ref start)
{
    const hill base = {.steps = 4, .fails = 1, .start = start};
    const troupe_param space[] = {
        TROUPE_GRID(hill, x, 1, 2, 4.5),
        TROUPE_CHOICE(troupe_train_options, ranks, 2, 2),
    };
    troupe_sweep *sweep;
    troupe_must(troupe_tune(
        climb, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .name = name,
        .base = &base, .search = TROUPE_SEARCH_GRID,
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = "runs", .cpus_per_rank = 0.5)));
    printf("swept %s\n", name);
    troupe_sweep_free(&sweep);
    return 0;
}

static int act(int count, char **names)
{
    const double one = 1;
    troupe_ref start = troupe_put_bytes(&one, sizeof one);
    for (int i = 0; getenv("ENDS") == NULL && i < count; i++)
        sweep_over(names[i], start);
    troupe_ref_drop(start);
    return troupe_stop();
}

// ---- the test

static char *top;
static char output[65536];

static int shell(const char *line)
{
    char command[8192], self[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(size > 0);
    self[size] = '\0';
    snprintf(command, sizeof command, "cd %s && T=%s && S=%s && %s", top,
             support_setting("TROUPE_TOOL"), self, line);
    return support_run(command, output, sizeof output);
}

static void expect(int status, const char *line, const char *has)
{
    int ends = shell(line);
    if (ends != status || strstr(output, has) == NULL)
        support_fail_output(output, "%s ends with %d, expected %d and \"%s\"", line, ends, status,
                            has);
}

static int start(void **state)
{
    (void)state;
    top = support_directory_make();
    expect(0, "$S fit", "swept fit");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    support_directory_remove(top);
    return 0;
}

// With the values that main has made and the options that were drawn, from another folder.
static void test_the_best_is_trained_again(void **state)
{
    (void)state;
    expect(0, "mkdir -p away && cd away && $T tune train-best ../runs/fit",
           "trained again: loss 1.25, ranks 2, in ");
    assert_null(strstr(output, "swept"));
    assert_null(strstr(output, "leaks"));
    expect(0, "ls runs/fit/best/run.json && ! ls runs/fit_1", "runs/fit/best/run.json");
    expect(0, "$T tune train-best runs/fit", "runs/fit/best_1\n");
    expect(0, "$T tune best runs/fit", "\"x\": 2"); // The sweep is as it was.
    expect(0, "$T tune train-best --goal max runs/fit", "trained again: loss 4.25, ranks 2, in ");
    expect(0, "$T tune train-best runs/fit --scope avg --metric loss", "trained again: loss 1.25");
    expect(1, "$T tune train-best runs/fit --metric ranks", "was not about ranks");
    expect(1, "$T tune train-best runs/fit --metric none --goal min", "reports have loss, ranks");
    expect(2, "$T tune train-best runs/fit --scope most", "train-best: --scope is \"most\"");
}

// What its main does before that sweep, it does again.
static void test_the_sweep_is_found_by_its_name(void **state)
{
    (void)state;
    expect(0, "$S one two", "swept two");
    expect(0, "$T tune train-best runs/two", "runs/two/best\n");
    assert_non_null(strstr(output, "swept one\n"));
    expect(0, "ls runs", "one_1");
    expect(0, "$T tune train-best runs/one", "runs/one/best\n");
    assert_null(strstr(output, "swept"));
    assert_null(strstr(output, "leaks"));
}

static void test_where_it_cannot_be_trained(void **state)
{
    (void)state;
    expect(1, "FAILS=1 $T tune train-best runs/fit", "it was to fail");
    // Without Train's advice, which its console has.
    expect(0, "FAILS=1 $T tune train-best runs/fit 2>&1 | grep 'train-best: '", "to fail\n");
    expect(1, "ENDS=1 $T tune train-best runs/fit",
           "the program has ended before its sweep 'fit' over trainer 'climb'");
    expect(2, "$T tune train-best runs/fit -- --ranks 3", "OPTIONs are for a version");
    expect(0,
           "for i in old other gone nowhere; do mkdir $i; done; "
           "sed 's/, \"program\": {[^}]*}//' runs/fit/trials.jsonl >old/trials.jsonl; "
           "sed 's/\"schema\": \"[^\"]*/&0/' runs/fit/trials.jsonl >other/trials.jsonl; "
           "sed 's/\"path\": \"[^\"]*/&0/' runs/fit/trials.jsonl >gone/trials.jsonl; "
           "sed 's/\"folder\": \"[^\"]*/&0/' runs/fit/trials.jsonl >nowhere/trials.jsonl",
           "");
    expect(1, "$T tune train-best old", "is of an earlier library, which put down no program");
    expect(1, "$T tune train-best other", "the config of trainer 'climb' is another struct");
    expect(1, "$T tune train-best gone", "test_train_best0, is not there");
    expect(1, "$T tune train-best nowhere", "the folder that the program of the sweep was");
    expect(1, "$T tune train-best runs", "runs is no folder of a sweep");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_is_trained_again),
        cmocka_unit_test(test_the_sweep_is_found_by_its_name),
        cmocka_unit_test(test_where_it_cannot_be_trained),
    };
    if (argc == 1)
        return cmocka_run_group_tests(tests, start, stop);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    return act(argc - 1, argv + 1);
}
