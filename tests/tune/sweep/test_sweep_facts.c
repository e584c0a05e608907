// test_sweep_facts.c: drawing over itself on a terminal, lines elsewhere, and how often.
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/ioctl.h>
#include <tune/sweep/sweep_facts.h>
#include <unistd.h>

TROUPE_STRUCT(settings, (double, rate), (int, hidden));
static const troupe_param params[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                      TROUPE_CHOICE(settings, hidden, 8)};
static const troupe_trainer fit = {TROUPE_ABI, "fit", &troupe_type_settings, NULL, NULL,
                                   NULL,       {NULL}};

enum { TRIALS = 40 };

typedef struct fixture {
    troupe_sweep sweep;
    trp_trial trials[TRIALS], *places[TRIALS];
    double x[TRIALS];
    settings configs[TRIALS];
    double values[TRIALS][TRP_COLUMNS_MAX];
    char names[TRIALS][16];
    char columns[TRP_COLUMNS_MAX][TRP_METRIC_NAME];
} fixture;

static fixture it;

// A sweep of forty trials: two run, the first of all has ended, the others wait.
static int make_sweep(void **state)
{
    (void)state;
    memset(&it, 0, sizeof it);
    it.sweep = (troupe_sweep){.trainer = &fit,
                              .objectives = {{"loss", TROUPE_MINIMIZE}},
                              .objective_count = 1,
                              .scheduler = "FIFO",
                              .searcher = "auto: TPE",
                              .trials = it.places,
                              .count = TRIALS,
                              .columns = it.columns,
                              .column_count = 1,
                              .train = {.ranks = 2, .cpus_per_rank = 0.5, .gpus_per_rank = 1},
                              .cpus = 4,
                              .gpus = 8};
    trp_fair_lock_open(&it.sweep.lock);
    trp_fair_lock_take(&it.sweep.lock); // As its controller.
    strcpy(it.columns[0], "loss");
    assert_int_equal(troupe_space_open_as(&troupe_type_settings, params, 2, NULL, &it.sweep.space),
                     TROUPE_OK);
    for (int i = 0; i < TRIALS; i++) {
        sprintf(it.names[i], "fit_3d3d1_%05d", i);
        it.configs[i].rate = it.x[i] = i / 64.0;
        it.places[i] = &it.trials[i];
        it.trials[i].x = &it.x[i];
        it.trials[i].view = (troupe_trial){
            .name = it.names[i], .config = &it.configs[i], .best_metric = (double)NAN, .error = ""};
        it.trials[i].values = it.values[i];
    }
    it.trials[0].view.state = TROUPE_TRIAL_TERMINATED;
    it.trials[0].phase = TRP_TRIAL_ENDED;
    it.trials[0].view.best_metric = it.values[0][0] = 0.5;
    it.trials[0].known = 1;
    for (int i = 1; i < 3; i++) {
        it.trials[i].view.state = TROUPE_TRIAL_RUNNING;
        it.trials[i].phase = TRP_TRIAL_RUNNING;
        it.trials[i].pid = 100 + i;
    }
    return 0;
}

static int free_sweep(void **state)
{
    (void)state;
    troupe_space_free(&it.sweep.space);
    trp_fair_lock_give(&it.sweep.lock);
    trp_fair_lock_close(&it.sweep.lock);
    return 0;
}

static void test_facts_are_gathered(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_table table;
    assert_true(trp_sweep_facts(&it.sweep, 2, "now", &arena, &table));
    assert_int_equal(table.count, TRIALS);
    assert_int_equal(table.param_count, 1); // hidden has one choice.
    assert_string_equal(table.params[0], "rate");
    assert_int_equal(table.metric_count, 1);
    assert_string_equal(table.metrics[0], "loss");
    assert_true(table.cpus_used == 2 && table.cpus_total == 4);
    assert_true(table.gpus_used == 4 && table.gpus_total == 8);
    assert_true(table.rows[0].metrics[0].known && table.rows[0].metrics[0].value == 0.5);
    assert_false(table.rows[1].metrics[0].known);
    assert_true(table.rows[39].params[0].value == 39 / 64.0);
    assert_int_equal(table.rows[2].pid, 102);
    trp_arena_clear(&arena);

    int failures = 0;
    bool gathered;
    do {
        trp_memory_fail_after(failures);
        gathered = trp_sweep_facts(&it.sweep, 2, "now", &arena, &table);
        trp_memory_fail_after(-1);
        trp_arena_clear(&arena);
    } while (!gathered && ++failures < 100);
    assert_in_range(failures, 1, 99);
}

static double left(double running_s)
{
    return trp_sweep_left_s(&it.sweep, running_s);
}

static void test_what_is_left_follows_from_what_was_done(void **state)
{
    (void)state;
    assert_true(left(10) == 0); // It is not known how many there will be.
    it.sweep.wanted = 41;
    assert_true(left(10) == 400);  // One of them took 10 s, and 40 are left.
    it.trials[0].view.reports = 8; // Those that run have done parts of it.
    it.trials[1].view.reports = 4;
    it.trials[2].view.reports = 2;
    assert_true(left(7) == 7 * (41 - 1.75) / 1.75);
    it.trials[2].view.reports = 100; // It does not count as ended.
    assert_true(fabs(left(10) - 10 * (41 - 2.45) / 2.45) < 1e-9);
    it.trials[0].ended_before = true; // In the time that the sweep's lives have taken together.
    assert_true(fabs(left(10) - 10 * (41 - 2.45) / 2.45) < 1e-9);
    it.sweep.how.time_budget_s = 30;
    assert_true(left(10) == 20);
    assert_true(left(31) == 0);
    it.sweep.wanted = 0;
    assert_true(left(29) == 1);
    it.sweep.over = true;
    assert_true(left(10) == 0);
}

// Before any trial has ended it is how many reports a trial makes at most that says how far one is.
static void test_what_is_left_before_a_trial_has_ended(void **state)
{
    (void)state;
    it.trials[0].phase = TRP_TRIAL_RUNNING;
    it.sweep.wanted = 40;
    it.trials[1].view.reports = 20;
    assert_true(left(10) == 0);
    it.sweep.reports_most = 40;
    assert_true(left(10) == 790);
}

static void test_it_is_shown_once_a_second_and_only_when_changed(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    trp_progress progress;
    trp_progress_open(&progress, NULL);
    progress.changed = true;
    assert_true(trp_progress_due_ns(&progress) < 0);
    trp_sweep_show(&progress, &it.sweep, 1);

    trp_progress_open(&progress, file);
    assert_false(progress.terminal);
    assert_true(trp_progress_due_ns(&progress) < 0);
    progress.changed = true;
    assert_int_equal(trp_progress_due_ns(&progress), 0);
    int64_t now = 5000000000;
    trp_sweep_show(&progress, &it.sweep, now);
    assert_true(trp_progress_due_ns(&progress) < 0);
    progress.changed = true;
    assert_int_equal(trp_progress_due_ns(&progress), now + 1000000000);

    char text[256];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_string_equal(text, "[5.0 s] 1 terminated, 2 running, 37 pending; best loss 0.5 "
                              "(fit_3d3d1_00000)\n");
    fclose(file);
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

// Draws on a terminal of that height and reads what it got.
static void draw(trp_progress *progress, int master, int height, char *text, size_t size)
{
    struct winsize window = {.ws_row = (unsigned short)height, .ws_col = 72};
    assert_int_equal(ioctl(fileno(progress->out), TIOCSWINSZ, &window), 0);
    trp_sweep_show(progress, &it.sweep, 5000000000);
    // The kernel hands a drawing over in pieces.
    size_t got = 0;
    text[0] = '\0';
    while (count(text, "\n") < progress->lines) {
        struct pollfd ready = {.fd = master, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, SUPPORT_SOON_MS), 1);
        ssize_t piece = read(master, text + got, size - 1 - got);
        assert_true(piece > 0);
        got += (size_t)piece;
        text[got] = '\0';
    }
}

static void test_a_terminal_is_drawn_over(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    FILE *terminal = fopen(ptsname(master), "w");
    assert_non_null(terminal);
    trp_progress progress;
    trp_progress_open(&progress, terminal);
    assert_true(progress.terminal);

    char text[8192], up[32];
    draw(&progress, master, 50, text, sizeof text);
    assert_null(strchr(text, '\033'));
    assert_int_equal(count(text, "fit_3d3d1_"), 1 + 20); // The best is named above the table.
    assert_int_equal(count(text, "... and 20 more"), 1);
    assert_true(strstr(text, "RUNNING") < strstr(text, "TERMINATED"));
    int lines = count(text, "\n");
    assert_int_equal(progress.lines, lines);

    // The second time it goes up as many lines as it wrote, and wipes them out.
    draw(&progress, master, 24, text, sizeof text);
    snprintf(up, sizeof up, "\033[%dA\r\033[J", lines);
    assert_int_equal(strncmp(text, up, strlen(up)), 0);
    assert_int_equal(count(text, "fit_3d3d1_"), 1 + 9);
    assert_int_equal(count(text, "Searched by auto: TPE"), 1);
    assert_true(progress.lines < 24);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        assert_in_range(strcspn(line, "\r\n"), 0, 73);
    draw(&progress, master, 5, text, sizeof text);
    assert_int_equal(count(text, "fit_3d3d1_"), 1 + 3);
    fclose(terminal);
    close(master);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_sweep, free_sweep)
    const struct CMUnitTest tests[] = {
        TEST(test_facts_are_gathered),
        TEST(test_what_is_left_follows_from_what_was_done),
        TEST(test_what_is_left_before_a_trial_has_ended),
        TEST(test_it_is_shown_once_a_second_and_only_when_changed),
        TEST(test_a_terminal_is_drawn_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
