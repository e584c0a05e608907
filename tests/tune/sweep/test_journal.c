// test_journal.c: the files that a sweep leaves, and what is shown of it.
#include "fake_train.h"

#include <math.h>
#include <runtime/base/memory.h>

static int count_text(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static void test_the_folder_tells_the_sweep(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 3, .name = "first.sweep"));
    char path[600];
    snprintf(path, sizeof path, "%s/first.sweep/trials.jsonl", storage);
    char *text = support_read_file(path);
    assert_non_null(text);
    // Beside the study's: its first line, and where each trial begins.
    assert_int_equal(count_text(text, "\n"), 1 + 3 + 3 * 9 + 3 + 1 + 3);
    assert_int_equal(count_text(text, "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": "
                                      "\"loss\", \"goal\": \"minimize\", \"trials\": 3, \"seed\": "
                                      "1, \"scheduler\": \"FIFO\"}\n"),
                     1);
    assert_int_equal(count_text(text, "{\"event\": \"submitted\""), 3);
    assert_int_equal(count_text(text, "\"metrics\": {\"epoch\": 9, \"loss\": "), 3);
    assert_int_equal(count_text(text, "checkpoint_000008\"}"), 3);
    assert_int_equal(count_text(text, "\"state\": \"TERMINATED\", \"reports\": 9"), 3);
    free(text);

    troupe_sweep_free(&sweep);
    fake_shut();
}

// B17.
static void test_a_taken_name_gets_a_number_and_names_are_deterministic(void **state)
{
    (void)state;
    char *other = support_directory_make(), *third = support_directory_make(), names[4][64];
    const char *homes[] = {storage, storage, other, third};
    for (int i = 0; i < 4; i++) {
        troupe_sweep *sweep;
        fake_open(2);
        ok(SWEEP(&sweep, .trials = 1, .name = "again", .seed = i == 3 ? 5 : 4,
                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = homes[i])));
        snprintf(names[i], sizeof names[i], "%s", troupe_sweep_trial(sweep, 0)->name);
        char path[600];
        snprintf(path, sizeof path, "%s/again%s/%s", homes[i], i == 1 ? "_1" : "", names[i]);
        assert_true(support_exists(path));
        troupe_sweep_free(&sweep);
        fake_shut();
    }
    assert_string_not_equal(names[0], names[1]); // Another folder is another sweep.
    assert_string_equal(names[0], names[2]);     // The same name elsewhere gives the same trials.
    assert_string_not_equal(names[0], names[3]); // Another seed is another sweep.
    support_directory_remove(third);
    support_directory_remove(other);
}

// The trials take hours by the sweep's clock, beside which all else that it does is nothing.
static double curve_of_hours(const fake_settings *config, int report)
{
    atomic_fetch_add(&fake.ahead_ns, (int64_t)1000 * 1000000000);
    return fake_quadratic(config, report);
}

// E01, E06.
static void test_progress_is_a_line_and_the_table_is_whole(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    FILE *progress = tmpfile(), *printed = tmpfile();
    assert_true(progress != NULL && printed != NULL);
    fake_open(2);
    fake.restart_at = 4;
    fake.curve = curve_of_hours;
    ok(SWEEP(&sweep, .trials = 3, .progress = progress));
    char line[512], last[512] = "";
    rewind(progress);
    while (fgets(line, sizeof line, progress) != NULL && line[0] == '[') {
        assert_non_null(strstr(line, " s] "));
        assert_null(strchr(line, '\033'));
        memcpy(last, line, sizeof last);
    }
    assert_non_null(strstr(last, " s] 3 terminated; best loss "));
    double written, total, loop;
    char folder[256];
    assert_int_equal(sscanf(line,
                            "Wrote the latest version of all result files and the sweep's record "
                            "to '%255[^']' in %lfs.",
                            folder, &written),
                     2);
    assert_true(support_exists(folder) && written >= 0);
    assert_non_null(fgets(line, sizeof line, progress));
    assert_int_equal(sscanf(line, "Total run time: %lf seconds (%lf seconds for the tuning loop).",
                            &total, &loop),
                     2);
    assert_true(loop >= 3 * 9 * 1000 && loop <= total && fabs(total - written - loop) < 100);
    assert_null(fgets(line, sizeof line, progress));

    troupe_sweep_print(sweep, printed);
    char text[8192];
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = '\0';
    double used, all;
    assert_non_null(strstr(text, "\nMemory: "));
    assert_int_equal(sscanf(strstr(text, "\nMemory: "), "\nMemory: %lf/%lf GiB\n", &used, &all), 2);
    assert_true(used > 0 && used <= all);
    assert_int_equal(count_text(text, " | TERMINATED | 127.0.0.1:4001 | "), 3);
    assert_int_equal(count_text(text, "Logical resource usage: 0.0/2 CPUs\n"), 1);
    assert_int_equal(count_text(text, "Using FIFO scheduling."), 1);
    assert_int_equal(count_text(text, "\nSearched by "), 1);
    if (strstr(text, "| loc            |     rate | hidden | iter | total time (s) | epoch | ") ==
        NULL)
        print_message("%s", text);
    assert_int_equal(count_text(text, "hidden | iter | total time (s) | epoch |"), 1);
    fclose(progress);
    fclose(printed);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_columns_are_those_asked_for(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    FILE *printed = tmpfile();
    assert_non_null(printed);
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 1, .columns = "loss , absent"));
    troupe_sweep_print(sweep, printed);
    char text[8192];
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = '\0';
    assert_null(strstr(text, "epoch"));
    assert_non_null(strstr(text, " loss | absent\n"));
    fclose(printed);
    troupe_sweep_free(&sweep);
    fake_shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_folder_tells_the_sweep),
        cmocka_unit_test(test_a_taken_name_gets_a_number_and_names_are_deterministic),
        cmocka_unit_test(test_progress_is_a_line_and_the_table_is_whole),
        cmocka_unit_test(test_columns_are_those_asked_for),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
