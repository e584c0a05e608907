// test_models_tool.c: `troupe models`: a repository of models from the shell.
// label: nosan
#include <support.h>

#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

TROUPE_STRUCT(point_config, (int64_t, unused), (troupe_fitting, fitting));
TROUPE_STRUCT(point, (double, at));

static troupe_status point_setup(point *self, const point_config *config, troupe_use *use)
{
    (void)self, (void)config, (void)use;
    return TROUPE_OK;
}

static troupe_status point_forward(point *self, const troupe_tensor *x, troupe_tensor *y)
{
    (void)self;
    *y = *x;
    return TROUPE_OK;
}

static troupe_status point_train_step(point *self, troupe_rank *me, const troupe_batch *batch)
{
    self->at += 1;
    troupe_note(me, "loss", (double)batch->rows / self->at);
    return TROUPE_OK;
}

TROUPE_MODEL(point, point_config, point, point_setup, point_forward, .train_step = point_train_step,
             .input = {TROUPE_FLOAT64, 0, {0}}, .defaults = {.fitting = {.epochs = 1, .batch = 2}});

TROUPE_STRUCT(rows_source, (int, count));

static troupe_status rows_setup(troupe_data *data, const rows_source *source)
{
    double values[4] = {0};
    troupe_tensor tensor = troupe_tensor_of(TROUPE_FLOAT64, values, (size_t)source->count);
    troupe_ref ref = troupe_put(troupe_tensor, &tensor);
    return troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
                               troupe_from_tensor("value", ref));
}
TROUPE_DATA(rows, rows_source, rows_setup);

static char output[1 << 14];
static char *folder;

static void run(const char *arguments, int expected, const char *wanted)
{
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && TROUPE_MODELS=models '%s' models %s 2>&1", folder,
             support_setting("TROUPE_TOOL"), arguments);
    int status = support_run(command, output, sizeof output);
    if (status != expected || strstr(output, wanted) == NULL)
        fail_msg("troupe models %s ended with %d, not %d, or does not say '%s':\n%s", arguments,
                 status, expected, wanted, output);
}

static void assert_says(const char *text)
{
    if (strstr(output, text) == NULL)
        fail_msg("expected '%s' in:\n%s", text, output);
}

// Whether what was printed is JSON with that value at that path, "keys.0.key".
static void assert_json(const char *path, const char *value)
{
    trp_json at;
    char part[64];
    if (trp_json_parse(output, strlen(output), &at) != TROUPE_OK)
        fail_msg("%s:\n%s", troupe_last_error()->text, output);
    for (const char *next = path; *next != '\0'; next += *next == '.') {
        size_t length = strcspn(next, ".");
        assert_true(length < sizeof part);
        memcpy(part, next, length);
        part[length] = '\0';
        next += length;
        trp_json item = {0};
        bool there = true;
        if (trp_json_is_array(at))
            for (int count = atoi(part); there && count >= 0; count--)
                there = trp_json_next_item(at, &item);
        else
            there = trp_json_member(at, part, &item);
        if (!there)
            fail_msg("no '%s' of %s in:\n%s", part, path, output);
        at = item;
    }
    if (at.size != strlen(value) || memcmp(at.at, value, at.size) != 0)
        fail_msg("%s is %.*s, expected %s, in:\n%s", path, (int)at.size, at.at, value, output);
}

// A run is pushed three times.
static int set_up(void **state)
{
    (void)state;
    char *runs = support_path(folder, "runs"), *models = support_path(folder, "models");
    troupe_result *result;
    point_config config = troupe_defaults(point);
    rows_source source = {4};
    troupe_must(troupe_train(point, &config, &result, .storage = runs, .name = "first",
                             .data = troupe_data_with(rows, &source)));
    const char *checkpoint = troupe_result_checkpoint(result);
    troupe_must(troupe_push(point, "digits", checkpoint, NULL, .repository = models,
                            .metadata = "{\"by\": \"me \\u001b[2J\"}", .alias = "old"));
    troupe_must(troupe_push(point, "digits", checkpoint, NULL, .repository = models));
    troupe_must(troupe_push(point, "text", checkpoint, NULL, .repository = models));
    troupe_result_free(&result);
    free(runs);
    free(models);
    return 0;
}

static void test_keys_and_versions_are_listed(void **state)
{
    (void)state;
    run("", 0, "key");
    assert_says("digits                           2        2");
    assert_says(" old@1\n");
    assert_says("text                             1        1");
    run("list digits", 0, "version");
    assert_says("loss=0.75 epoch=1");
    run("--json", 0, "");
    assert_json("keys.0.key", "\"digits\"");
    assert_json("keys.0.versions.0.aliases", "[\"old\"]");
    run("list digits --json", 0, "");
    assert_json("versions.1.version", "2");
    assert_json("versions.1.metrics.epoch", "1");
    run("list digitz", 1, "troupe models: there is no model 'digitz' in ");
    assert_says("those that there are: digits, text");
    run("-r /no/such list digits", 1, "there is no repository of models at /no/such");
    run("-r /no/such", 0, "no models in /no/such\n");
    run("-r /dev/null", 1, "troupe models: the repository /dev/null is not a folder\n");
    run("-r /dev/null/x", 1, "cannot use the repository /dev/null/x: Not a directory\n");
    run("-r /no/such --json", 0, "{\"keys\": []}");
}

static void test_a_version_is_shown(void **state)
{
    (void)state;
    run("show digits@old", 0, "digits@1\n");
    assert_says("aliases      old\n");
    assert_says("model        point\n");
    assert_says("state        point, schema ");
    assert_says("data         rows: train\n");
    assert_says("/runs/first\n");
    assert_says("file         weights.safetensors, ");
    assert_null(strchr(output, '\x1b'));
    run("show digits@1 --json", 0, "");
    assert_json("metadata.by", "\"me \\u001b[2J\"");
    assert_json("config.fitting.batch", "2");
    assert_json("data_keys", "[\"train\"]");
    assert_json("problem", "null");
    run("show digits@9", 1, "'digits' has no version 9: there are the versions 1, 2");
}

static void test_aliases_and_versions_come_and_go(void **state)
{
    (void)state;
    run("alias digits new", 0, "");
    run("show digits@new", 0, "digits@2\n");
    run("alias digits@1 new --json", 0, "{\"ref\": \"digits@1\", \"alias\": \"new\"}\n");
    run("show digits@new", 0, "digits@1\n");
    run("alias digits latest", 1, "is always the highest version");
    run("delete digits@1", 1, "move or remove it first");
    run("alias --remove digits new", 0, "");
    run("alias --remove digits new", 1, "has no alias 'new'");
    run("delete digits", 1, "a version is deleted by its number");
    run("delete digits@2 --json", 0, "{\"deleted\": \"digits@2\"}\n");
    run("list digits --json", 0, "");
    assert_json("versions.0.version", "1");
    assert_null(strstr(output, "\"version\": 2"));
    run("export digits@1 out", 0, "");
    run("export digits@1 out", 1, "out");
    run("import out numbers", 0, "numbers@1\n");
    run("import out numbers --json", 0, "{\"ref\": \"numbers@2\"}\n");
    run("import /tmp numbers", 1, "manifest.json");
    run("delete --all numbers", 0, "");
    run("list numbers", 1, "there is no model 'numbers'");
    run("gc", 0, "0 half done versions removed\n");
    char *half = support_path(folder, "models/text/000002");
    char command[600];
    snprintf(command, sizeof command, "mkdir '%s' && touch '%s/weights.safetensors'", half, half);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    run("gc --json", 0, "{\"removed\": 1}\n");
    free(half);
}

// The folder of a version is a checkpoint that a run starts from.
static void test_a_run_starts_from_a_version(void **state)
{
    (void)state;
    char *runs = support_path(folder, "runs"), *models = support_path(folder, "models");
    troupe_version_info info;
    troupe_result *result;
    troupe_instance *last;
    point_config config = troupe_defaults(point);
    rows_source source = {4};
    config.fitting.epochs = 3;
    troupe_must(troupe_repository_describe("text", &info, .repository = models));
    troupe_must(troupe_train(point, &config, &result, .storage = runs, .name = "second",
                             .from = info.path, .data = troupe_data_with(rows, &source)));
    troupe_must(troupe_model_open(point, troupe_result_checkpoint(result), NULL, &last));
    assert_true(troupe_model_self(point, last)->at == 6); // Two steps of the first run, and four.
    troupe_model_close(&last);
    troupe_result_free(&result);
    free(runs);
    free(models);
}

static void test_wrong_lines_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"lst", "troupe models: there is no command \"lst\"\n"},
        {"show", "troupe models: show has 0 arguments\n"},
        {"show a b", "show has 2 arguments\n"},
        {"alias digits", "alias has 1 argument\n"},
        {"gc digits", "gc has 1 argument\n"},
        {"--all list", "list has no option --all\n"},
        {"delete", "delete has 0 arguments\n"},
        {"--remove delete x", "delete has no option --remove\n"},
        {"export --with-program a b", "export has no option --with-program\n"},
        {"--odd", "troupe models: unrecognized option '--odd'\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run(wrong[i][0], 2, wrong[i][1]);
        assert_says("usage: troupe models");
        assert_null(strstr(output, "removes what killed programs")); // Not all that --help says.
    }
    run("--help", 0, "removes what killed programs");
}

int main(int argc, char **argv)
{
    folder = support_directory_make();
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_and_versions_are_listed),
        cmocka_unit_test(test_a_version_is_shown),
        cmocka_unit_test(test_aliases_and_versions_come_and_go),
        cmocka_unit_test(test_a_run_starts_from_a_version),
        cmocka_unit_test(test_wrong_lines_are_refused),
    };
    int failures = cmocka_run_group_tests(tests, set_up, NULL);
    int stopped = troupe_stop();
    support_directory_remove(folder);
    return failures != 0 ? failures : stopped;
}
