// test_files.c: what a sweep leaves on the disk: below its trials' folders, and nowhere else, the
// files that other programs read.
// timeout: 120
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(settings, (double, rate), (int, epochs));

static troupe_status descend(troupe_rank *me, const settings *config)
{
    for (int epoch = 1; epoch <= config->epochs; epoch++)
        TROUPE_TRY(troupe_report(me, {"loss", config->rate / epoch}, {"epoch", epoch}));
    return TROUPE_OK;
}
TROUPE_TRAINER(descend, settings);

static char *storage;

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static bool has_entry(const char *path, const char *part)
{
    DIR *folder = opendir(path);
    bool has = false;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        has = has || strstr(entry->d_name, part) != NULL;
    closedir(folder);
    return has;
}

static char *text_of(const char *folder, const char *name)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    if (text == NULL)
        fail_msg("there is no %s", path);
    free(path);
    return text;
}

static int count_text(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

// C15.
static void test_trials_write_below_their_folders_only(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                         TROUPE_FIXED(settings, epochs, 4)};
    char *elsewhere = support_directory_make(), *here = getcwd(NULL, 0);
    const char *home = getenv("HOME");
    char *own = strdup(home != NULL ? home : "");
    troupe_sweep *sweep;
    assert_int_equal(chdir(elsewhere), 0);
    setenv("HOME", elsewhere, 1);
    troupe_must(
        troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 3,
                    .name = "below",
                    .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .ranks = 2)));
    assert_int_equal(count_entries(elsewhere), 0);
    assert_int_equal(count_entries(storage), 1);
    char *folder = support_path(storage, "below");
    assert_int_equal(count_entries(folder), 1 + 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(has_entry(folder, troupe_sweep_trial(sweep, i)->name));
    troupe_sweep_free(&sweep);
    setenv("HOME", own, 1);
    assert_int_equal(chdir(here), 0);
    support_directory_remove(folder);
    support_directory_remove(elsewhere);
    free(own);
    free(here);
}

static void test_trials_have_files_as_ray_writes_them(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                         TROUPE_FIXED(settings, epochs, 4)};
    troupe_sweep *sweep;
    troupe_must(troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                            .trials = 2, .name = "files",
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    for (size_t i = 0; i < 2; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        const char *run = troupe_result_path(trial->result);
        char *params = text_of(run, "params.json"), *results = text_of(run, "result.json");
        char *rows = text_of(run, "progress.csv"), config[128], expected[256];
        double rate;
        assert_int_equal(sscanf(params, "{\"rate\": %lf, \"epochs\": 4}", &rate), 1);
        assert_true(rate == ((const settings *)trial->config)->rate);
        snprintf(config, sizeof config, "%.*s", (int)strcspn(params, "\n"), params);
        snprintf(expected, sizeof expected, "\"config\": %s}\n", config);
        assert_int_equal(count_text(results, expected), 4);
        snprintf(expected, sizeof expected, "\"trial_id\": \"%s\", ", trial->name);
        assert_int_equal(count_text(results, expected), 4);
        assert_int_equal(count_text(rows, ",config/rate,config/epochs\n"), 1);
        assert_int_equal(count_text(rows, trial->name), 4);
        assert_true(has_entry(run, "events.out.tfevents."));
        free(params);
        free(results);
        free(rows);
    }
    troupe_sweep_free(&sweep);
}

// Of a program they have what was drawn, and not its command line.
static void test_trials_of_programs_have_what_was_drawn(void **state)
{
    (void)state;
    static const char file[] = "{\"space\": {\"rate\": {\"uniform\": [0, 1]}}, \"metric\": "
                               "\"loss\", \"goal\": \"min\", \"trials\": 1}";
    static const char *const arguments[] = {"sh", "-c", "echo '{\"loss\": {rate}}'"};
    troupe_sweep *sweep;
    troupe_must(
        troupe_tune_program(file, arguments, 3, &sweep, .name = "program",
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    troupe_must(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    const char *run = troupe_result_path(troupe_sweep_trial(sweep, 0)->result);
    char *params = text_of(run, "params.json"), *results = text_of(run, "result.json");
    double rate;
    assert_int_equal(sscanf(params, "{\"rate\":%lf}", &rate), 1);
    assert_true(rate == troupe_sweep_trial(sweep, 0)->best_metric);
    assert_non_null(strstr(results, "\"config\": {\"rate\":"));
    free(params);
    free(results);
    troupe_sweep_free(&sweep);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_write_below_their_folders_only),
        cmocka_unit_test(test_trials_have_files_as_ray_writes_them),
        cmocka_unit_test(test_trials_of_programs_have_what_was_drawn),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    troupe_status status = troupe_stop();
    return failed != 0 ? failed : (int)status;
}
