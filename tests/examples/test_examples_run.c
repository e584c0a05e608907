// test_examples_run.c: the example programs, as they were built, print what they promise and end
// well, with no reference left over; digits runs from command line to final test on both forms of
// data, the transformer from command line to a text of its own, and both refuse what they must.
// timeout: 900
#include "support.h"

#include <digits/data.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder;
static char output[65536];
static double ran_s; // The last example.

static int setup(void **state)
{
    (void)state;
    folder = support_directory_make();
    return setenv("TROUPE_LEAKS", "1", 1);
}

static int teardown(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

// Runs an example in the test's folder with the given arguments; what it wrote is in `output`. One
// that hangs is ended (with 124) before the whole test is, so that it is told with what it wrote.
// They take seconds; but some have hundreds of checkpoints synced one after the other, for which a
// busy disk may need minutes.
static int run(const char *example, const char *arguments)
{
    enum { SECONDS_MAX = 300 };
    char command[4096];
    snprintf(command, sizeof command, "cd '%s' && exec timeout -k 10 %d '%s/%s' %s", folder,
             SECONDS_MAX, support_setting("TROUPE_EXAMPLES"), example, arguments);
    int64_t begun_ms = support_now_ms();
    int status = support_run(command, output, sizeof output);
    ran_s = (double)(support_now_ms() - begun_ms) / 1e3;
    return status;
}

static void expect_run(const char *example, const char *arguments, int status, const char *text)
{
    int got = run(example, arguments);
    if (got != status || !strstr(output, text) || strstr(output, "leaks:"))
        support_fail_output(output, "%s %s ended with %d, expected %d and '%s', and no leaks",
                            example, arguments, got, status, text);
}

// Of what the last example wrote.
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            support_fail_output(output, "expected %s", #condition);                                \
    } while (0)

static void test_the_counter_counts(void **state)
{
    (void)state;
    expect_run("01_counter", "", 0, "total 55\n");
    EXPECT(strcmp(output, "total 55\n") == 0);
}

static void test_the_line_is_found(void **state)
{
    (void)state;
    expect_run("02_line", "", 0, "y = 3.000 x + 2.000, loss ");
    EXPECT(strstr(output, " after 150 reports\n") != NULL);
}

static void test_the_sweep_finds_a_good_rate(void **state)
{
    (void)state;
    expect_run("03_sweep", "", 0, "best rate ");
    double rate = 0, loss = 1;
    size_t stopped = 0;
    const char *last = strstr(output, "best rate ");
    EXPECT(sscanf(last, "best rate %lf, loss %lf, %zu of 18", &rate, &loss, &stopped) == 3);
    EXPECT(rate > 0.3 && rate < 0.8); // Slower ones lag behind, faster ones overshoot.
    EXPECT(loss < 0.05);
    EXPECT(stopped >= 1 && stopped <= 17); // 16, but for those that end before they are told to.
}

static void test_the_pool_shares_out(void **state)
{
    (void)state;
    expect_run("04_pool", "", 0,
               "5040 has 60 divisors\n168 primes below 1000\n"
               "1000 tested by 4 actors\n");
}

static void test_the_table_is_multiplied(void **state)
{
    (void)state;
    expect_run("05_tensor", "", 0, "4 times <float64[250]>, the sum of all is 999000000\n");
}

static void test_the_frames_are_watched(void **state)
{
    (void)state;
    expect_run("06_channel", "", 0, "brightest of 100 frames: 30 above, 40 below\n");
}

static void read_lowest(size_t *count, double *height)
{
    double x = NAN, y = NAN;
    EXPECT(sscanf(output, "lowest of %zu: %lf at (%lf, %lf)", count, height, &x, &y) == 4);
    EXPECT(*height >= 0 && *height < 3);
    double a = x * x + y - 11, b = x + y * y - 7;
    EXPECT(fabs(a * a + b * b - *height) < 0.5); // Of two decimals.
}

// And again, with what it has in its file.
static void test_the_study_finds_a_low_place(void **state)
{
    (void)state;
    size_t count = 0;
    double height = NAN, again = NAN;
    expect_run("07_study", "", 0, "lowest of 200: ");
    read_lowest(&count, &height);
    for (int life = 0; life < 2; life++) {
        expect_run("07_study", "study.jsonl", 0, "lowest of 200: ");
        read_lowest(&count, &again);
        EXPECT(again == height);
    }
}

// The last line's numbers, which must have the promised form.
static double demo_accuracy(size_t trials)
{
    char *line = output, *next;
    while ((next = strchr(line, '\n')) && next[1])
        line = next + 1;
    double accuracy = NAN, seconds = NAN;
    size_t count = 0, stopped = 0;
    char end = 0;
    int fields = sscanf(line, "demo: test accuracy %lf, %zu trials (%zu stopped early), %lf s%c",
                        &accuracy, &count, &stopped, &seconds, &end);
    if (fields != 5 || end != '\n')
        support_fail_output(output, "the last line is '%s'", line);
    EXPECT(count == trials);
    EXPECT(stopped < trials);
    EXPECT(seconds >= 0 && seconds <= ran_s + 0.1); // Written to a tenth: 0.0 on a fast machine.
    return accuracy;
}

// Each accuracy says of which images it is, and of when.
static void expect_named_accuracies(void)
{
    double best = NAN, at_best = NAN, at_last = NAN;
    const char *sweep = strstr(output, "Best val_accuracy of all reports: ");
    const char *trial = strstr(output, "\nValidation accuracy: ");
    EXPECT(sweep != NULL && sscanf(sweep, "%*[^:]: %lf", &best) == 1);
    EXPECT(trial != NULL && sscanf(trial, "%*[^:]: %lf at its best report, %lf at its last\n",
                                   &at_best, &at_last) == 2);
    EXPECT(fabs(best - at_best) < 1e-4 && at_last <= at_best && at_last > 0);
    EXPECT(strstr(output, "best accuracy") == NULL);
}

// The sum of the table that is printed before the last line.
static long table_sum(void)
{
    const char *at = strstr(output, "a column for each answer\n");
    EXPECT(at != NULL);
    at = strchr(at, '\n') + 1;
    at = strchr(at, '\n') + 1; // Beyond the answers' heads.
    long sum = 0, value = 0;
    for (int label = 0; label < 10; label++)
        for (int column = 0; column < 11; column++) {
            char *end;
            value = strtol(at, &end, 10);
            EXPECT(at != end);
            at = end;
            if (column == 0)
                EXPECT(value == label);
            else
                sum += value;
        }
    return sum;
}

static void test_digits_learns_the_csv(void **state)
{
    (void)state;
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "--data '%s' --trials 4 --epochs 10 --storage here",
             support_setting("TROUPE_DIGITS_CSV"));
    expect_run("digits", arguments, 0, "1797 images of 8 x 8 pixels");
    double accuracy = demo_accuracy(4);
    EXPECT(accuracy > 0.9 && accuracy <= 1);
    expect_named_accuracies();
    EXPECT(table_sum() == 355);
    // A trial lost a process on its way, and the best one has a page.
    EXPECT(strstr(output, "digits kills rank 1 (pid ") != NULL);
    EXPECT(strstr(output, "the group is restarted (restart 1) from checkpoint_0") != NULL);
    EXPECT(strstr(output, "\nRestarts of the best trial: ") != NULL);
    char page[1024] = "";
    const char *report = strstr(output, "Its report, for a browser: ");
    EXPECT(report != NULL && sscanf(report, "%*[^:]: %1023s", page) == 1);
    EXPECT(support_exists(page));
    const char *of_sweep = strstr(output, "The sweep's report: ");
    EXPECT(of_sweep != NULL && sscanf(of_sweep, "%*[^:]: %1023s", page) == 1);
    EXPECT(support_exists(page));
    char *runs = support_path(folder, "here/digits");
    assert_true(support_exists(runs));
    free(runs);
}

static void put_number(FILE *out, size_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(number >> shift & 255), out);
}

// Writes the images from number `from` up to `to` as a pair of IDX files.
static void write_pair(const digits *data, size_t from, size_t to, const char *images,
                       const char *labels)
{
    char *path = support_path(folder, images);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    put_number(out, 0x803);
    put_number(out, to - from);
    put_number(out, data->height);
    put_number(out, data->width);
    for (size_t i = from * data->inputs; i < to * data->inputs; i++)
        fputc(data->pixels[i] * 255 / 16, out);
    assert_int_equal(fclose(out), 0);
    free(path);
    path = support_path(folder, labels);
    out = fopen(path, "wb");
    assert_non_null(out);
    put_number(out, 0x801);
    put_number(out, to - from);
    fwrite(data->labels + from, 1, to - from, out);
    assert_int_equal(fclose(out), 0);
    free(path);
}

static void test_digits_learns_a_folder_of_idx_files(void **state)
{
    (void)state;
    digits data;
    if (digits_load(support_setting("TROUPE_DIGITS_CSV"), 1, &data) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    write_pair(&data, 0, 1400, "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    write_pair(&data, 1400, data.count, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
    digits_free(&data);
    expect_run("digits", "--data . --trials 2 --epochs 8 --workers 3 --seed 4 --network perceptron",
               0, "1797 images of 8 x 8 pixels: 1167 to learn from, 233 to compare trials, 397");
    EXPECT(demo_accuracy(2) > 0.8);
    EXPECT(table_sum() == 397);
}

static bool has_token(const char *text)
{
    for (; *text; text++)
        if (strspn(text, "0123456789abcdef") >= 64)
            return true;
    return false;
}

// The accuracy of the service's answers, which is that of the checkpoint.
static void expect_served(const char *asked)
{
    double accuracy = NAN;
    const char *line = strstr(output, asked);
    EXPECT(line != NULL && sscanf(line, "%*[^:]: accuracy %lf, each", &accuracy) == 1);
    EXPECT(accuracy == demo_accuracy(2) && accuracy > 0.5);
}

static void test_the_best_of_digits_is_served(void **state)
{
    (void)state;
    char arguments[1024];
    int length = snprintf(arguments, sizeof arguments,
                          "--data '%s' --trials 2 --epochs 2 --storage here --serve ",
                          support_setting("TROUPE_DIGITS_CSV"));
    (void)snprintf(arguments + length, sizeof arguments - (size_t)length, "1");
    expect_run("digits", arguments, 0, "Pushed as digits@1 into the repository here/models\n");
    EXPECT(strstr(output, "Served at http://127.0.0.1:") != NULL);
    expect_served("Asked over HTTP for the test images: ");
    // Who wants to ask by curl is told how, and the token stays in a file that goes with it.
    EXPECT(strstr(output, "  curl -H \"@here/curl.headers\" -d \"@here/curl.json\" http://") !=
           NULL);
    EXPECT(!has_token(output));
    char *path = support_path(folder, "here/curl.headers");
    EXPECT(!support_exists(path));
    free(path);

    // Where there is no libmicrohttpd.
    path = support_path(folder, "libmicrohttpd.so.12");
    support_write_file(path, "", 0);
    free(path);
    assert_int_equal(setenv("LD_LIBRARY_PATH", folder, 1), 0);
    // It would serve for longer than an example may take here.
    (void)snprintf(arguments + length, sizeof arguments - (size_t)length, "3600");
    expect_run("digits", arguments, 0, "Pushed as digits@2 into the repository here/models\n");
    assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
    EXPECT(strstr(output, "Not served over HTTP: HTTP needs libmicrohttpd: ") != NULL);
    EXPECT(strstr(output, "Served to this program, replicas: ") != NULL);
    expect_served("Asked by a call for the test images: ");
}

static void test_digits_refuses_in_a_sentence(void **state)
{
    (void)state;
    expect_run("digits", "--data none.csv", 1, "digits: none.csv: No such file");
    expect_run("digits", "--trials 0", 1, "digits: --trials is '0', must be a number from 1");
    expect_run("digits", "--serve for-ever", 1, "--serve is 'for-ever', must be a number from 0");
    expect_run("digits", "--epochs many", 1, "digits: --epochs is 'many'");
    expect_run("digits", "--network deep", 1, "--network is 'deep', must be perceptron, conv");
    expect_run("digits", "extra", 1, "digits: 'extra' is no option");
    expect_run("digits", "--unknown", 2, "usage: digits");
    expect_run("digits", "--help", 0, "usage: digits");
    // One epoch of one trial is not enough for what the standard data allow.
    char arguments[1024] = "--trials 1 --epochs 1";
    expect_run("digits", arguments, 1, "is below 0.96");
    EXPECT(strstr(output, "digits@") ==
           NULL); // Nothing is pushed and served that was not asked for.
}

static void test_the_transformer_writes(void **state)
{
    (void)state;
    // Seven sequences and a rest.
    char *path = support_path(folder, "text");
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (int i = 0; i < 120; i++)
        fprintf(out, "%d\n", i);
    fclose(out);
    free(path);
    const char *command = "--text text --epochs 2 --sample 30 --storage there";
    expect_run("transformer", command, 0, "epoch   2.00  loss ");
    double loss = NAN;
    const char *line = strstr(output, "epoch   2.00  loss ");
    EXPECT(sscanf(line, "epoch 2.00 loss %lf", &loss) == 1 && loss > 1 && loss < 10);
    char *sample = strdup(strchr(line, '\n') + 1);
    EXPECT(sample[0] == '\n' && strlen(sample) == 1 + 30 + 1);
    // A run that has ended is not made again: its network writes the same.
    expect_run("transformer", command, 0, sample);
    free(sample);

    expect_run("transformer", "--text none", 1, "none: No such file");
    expect_run("transformer", "--text /dev/null --storage other", 1,
               "/dev/null has 0 characters, must have more than 64");
    expect_run("transformer", "--epochs 0", 1, "transformer: --epochs is '0', must be a number");
    expect_run("transformer", "extra", 1, "transformer: 'extra' is no option");
    expect_run("transformer", "--help", 0, "usage: transformer");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_counter_counts),
        TEST(test_the_pool_shares_out),
        TEST(test_the_table_is_multiplied),
        TEST(test_the_frames_are_watched),
        TEST(test_the_study_finds_a_low_place),
        TEST(test_the_line_is_found),
        TEST(test_the_sweep_finds_a_good_rate),
        TEST(test_digits_learns_the_csv),
        TEST(test_digits_learns_a_folder_of_idx_files),
        TEST(test_the_best_of_digits_is_served),
        TEST(test_digits_refuses_in_a_sentence),
        TEST(test_the_transformer_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
