// test_report_html.c: the HTML report of a run: what is in it, of runs that ended, run and were
// killed; that nothing a run has given is markup; damaged folders; and a long run.
// timeout: 120
// cost: 6
// again: full slow 900 1000000
#include "line.h"

#include <math.h>
#include <page.h>
#include <runtime/text/html_text.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/html_page.h>

static char *storage;
static int long_run = 100000; // Reports.

static char *path_of(const char *run, const char *name)
{
    char *folder = support_path(storage, run), *path = support_path(folder, name);
    free(folder);
    return path;
}

static void put(const char *run, const char *name, const char *text, size_t size)
{
    char *path = path_of(run, name);
    support_write_file(path, text, size);
    free(path);
}

static void make_folder(const char *run)
{
    char *path = support_path(storage, run);
    mkdir(path, 0700);
    free(path);
}

// Makes the report of a run of the storage, and reads it.
static page report_of(const char *run)
{
    char *folder = support_path(storage, run), *path = support_path(folder, "report.html");
    troupe_must(troupe_run_report(folder, NULL));
    page it = page_read(path);
    assert_false(it.outside);
    assert_int_equal(it.scripts, 1); // The page's own.
    assert_int_equal(it.data, it.figures);
    free(path);
    free(folder);
    return it;
}

static void expect(const page *it, const char *text)
{
    if (!page_says(it, text))
        fail_msg("the page does not say '%s':\n%s", text, it->text);
}

static void check_links(const page *it, const char *run)
{
    char *folder = support_path(storage, run);
    page_check_links(it, folder);
    free(folder);
}

// ---- runs

static line_settings plain(int epochs)
{
    return (line_settings){.rate = 0.5,
                           .epochs = epochs,
                           .save_every = 1,
                           .attempts = 1,
                           .note = "<script>alert(1)</script> & \"more\""};
}

static void test_a_run_that_lost_a_rank(void **state)
{
    (void)state;
    line_settings config = plain(12);
    config.trouble = KILLED;
    config.victim = 1;
    config.at = 5;
    config.where = BEFORE_REPORT;
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .cpus_per_rank = 0.5,
                             .storage = storage, .name = "lost", .restarts = TROUPE_FOREVER,
                             .keep = 3, .keep_metric = "loss", .keep_goal = TROUPE_MINIMIZE,
                             .metadata = "{\"team\": \"<i>vision</i>\"}"));
    page it = report_of("lost");
    expect(&it, "Training run of line_fit");
    expect(&it, "lost");
    expect(&it, "Finished");
    expect(&it, "Lowest loss");
    expect(&it, "rank 1 (pid ");
    expect(&it, "was killed by signal 9");
    expect(&it, "(PEER_LOST)");
    expect(&it, "checkpoint_00000"); // From which it went on: the newest that was whole.
    expect(&it, "restart");
    expect(&it, "12 committed, 3 kept");
    expect(&it, "best");
    expect(&it, "newest");
    expect(&it, "<script>alert(1)</script> & \"more\"");
    expect(&it, "<i>vision</i>");
    expect(&it, ".restartsTROUPE_FOREVER");
    expect(&it, ".keep_goalTROUPE_MINIMIZE");
    assert_int_equal(it.figures, 3); // loss, slope, epoch
    check_links(&it, "lost");
    page_free(&it);
    troupe_result_free(&result);
}

static void test_a_run_that_failed_says_why(void **state)
{
    (void)state;
    line_settings config = plain(8);
    config.trouble = RETURNS;
    config.at = 3;
    config.where = BEFORE_REPORT;
    troupe_result *result = NULL;
    assert_int_equal(troupe_train(line_fit, &config, &result, .storage = storage, .name = "failed"),
                     TROUPE_FAILED);
    page it = report_of("failed");
    expect(&it, "It ended with FAILED");
    expect(&it, "the loss of rank 0 is not what it was");
    check_links(&it, "failed");
    page_free(&it);
    troupe_result_free(&result);
}

// The command, in a process of its own.
static int tool(const char *arguments, char *output, size_t capacity)
{
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s' report %s", storage,
             support_setting("TROUPE_TOOL"), arguments);
    return support_run(command, output, capacity);
}

// A look at a run that this very process runs must not let go of its locks.
static void test_a_run_that_runs(void **state)
{
    (void)state;
    line_settings config = plain(LINE_EPOCHS_MAX);
    config.pause_ms = 2;
    troupe_job *job, *second = NULL;
    troupe_job_status now = {0};
    char driver[64];
    troupe_must(troupe_submit(line_fit, &config, NULL, &job, .storage = storage, .name = "runs"));
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    while (now.reports < 3 && support_now_ms() < until) {
        usleep(1000);
        troupe_job_status_get(job, &now);
    }
    assert_true(now.reports >= 3);
    page it = report_of("runs");
    snprintf(driver, sizeof driver, "driver: process %d", (int)getpid());
    expect(&it, "Running");
    expect(&it, driver);
    expect(&it, "the run goes on since");
    page_free(&it);
    assert_int_equal(troupe_submit(line_fit, &config, NULL, &second, .storage = storage,
                                   .name = "runs", .open = TROUPE_OPEN_RESUME),
                     TROUPE_BUSY);
    // Another process sees it too.
    char output[256];
    assert_int_equal(tool("-o other.html runs", output, sizeof output), 0);
    char *other = support_path(storage, "other.html");
    it = page_read(other);
    expect(&it, driver);
    page_check_links(&it, storage); // They lead into the run's folder from beside it.
    page_free(&it);
    free(other);
    troupe_job_close(&job);
}

// A driver of its own, which is killed after some reports.
static int drive(char **argv)
{
    troupe_must(troupe_start(1, argv, .cpus = 2));
    line_settings config = plain(LINE_EPOCHS_MAX);
    troupe_job *job;
    troupe_job_status now = {0};
    troupe_must(troupe_submit(line_fit, &config, NULL, &job, .storage = argv[2], .name = "killed"));
    while (now.reports < 5) {
        usleep(1000);
        troupe_job_status_get(job, &now);
    }
    return raise(SIGKILL);
}

static void test_a_run_whose_driver_was_killed(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_report_html", "drive", storage, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(support_was_killed(status));
    page it = report_of("killed");
    expect(&it, "Interrupted");
    expect(&it, "TROUPE_OPEN_RESUME");
    check_links(&it, "killed");
    page_free(&it);
}

// ---- what a run has given

static const char hostile[] = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

static void add(trp_buffer *out, const char *text)
{
    trp_buffer_append(out, text, strlen(text));
}

static void test_what_a_run_has_given_is_text(void **state)
{
    (void)state;
    trp_buffer text = {0}, journal = {0}, end = {0};
    make_folder("hostile <b>&\"' run");
    make_folder("hostile <b>&\"' run/log");
    make_folder("hostile <b>&\"' run/checkpoints");
    make_folder("hostile <b>&\"' run/checkpoints/checkpoint_000000");
    const char *run = "hostile <b>&\"' run";
    add(&text, "{\"version\": 1, \"program\": ");
    trp_json_text(&text, hostile);
    add(&text, ", \"trainer\": ");
    trp_json_text(&text, hostile);
    add(&text, ", \"created\": ");
    trp_json_text(&text, hostile);
    add(&text, ", \"from\": ");
    trp_json_text(&text, hostile);
    add(&text, ", \"options\": {\"ranks\": 2, \"new_option\": ");
    trp_json_text(&text, hostile);
    add(&text, ", \"keep_metric\": ");
    trp_json_text(&text, hostile);
    add(&text, "}, \"config\": {");
    trp_json_text(&text, hostile);
    add(&text, ": [1, {\"a\": ");
    trp_json_text(&text, hostile);
    add(&text, "}]}, \"metadata\": {\"bell\": \"\\u0007\\u202e\"}}\n");
    put(run, "run.json", (char *)text.data, text.size);

    add(&journal, "{\"event\": \"open\", \"epoch\": 1, \"process\": 5, \"at\": ");
    trp_json_text(&journal, hostile);
    add(&journal, "}\n{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"at\": ");
    trp_json_text(&journal, hostile);
    add(&journal, ", \"checkpoint\": ");
    trp_json_text(&journal, "checkpoint_000000");
    add(&journal, "}\n{\"event\": \"report\", \"report\": 1, \"elapsed_s\": 1, \"metrics\": {");
    trp_json_text(&journal, hostile);
    add(&journal, ": 1}}\n{\"event\": \"attempt\", \"attempt\": 1, \"cause\": {\"rank\": 0, "
                  "\"status\": ");
    trp_json_text(&journal, hostile);
    add(&journal, ", \"text\": ");
    trp_json_text(&journal, hostile);
    add(&journal, "}}\n{\"event\": \"unheard of\", \"what\": ");
    trp_json_text(&journal, hostile);
    add(&journal, "}\n");
    put(run, "journal.jsonl", (char *)journal.data, journal.size);

    add(&end, "{\"version\": 1, \"status\": \"FAILED\", \"error\": ");
    trp_json_text(&end, hostile);
    add(&end, "}\n");
    put(run, "end", (char *)end.data, end.size);
    static const char printed[] = "\x1b]0;title\x07\xff\xfe<script>\n\xe2\x80\xae&amp;\r\nlast\n";
    put(run, "log/rank_00000.log", printed, sizeof printed - 1);
    put(run, "log/a <\"'&#?%20 name.log", printed, sizeof printed - 1);
    put(run, "checkpoints/checkpoint_000000/manifest.json", hostile, sizeof hostile - 1);

    page it = report_of(run);
    int seen = 0;
    for (const char *at = it.text; (at = strstr(at, hostile)) != NULL; at++)
        seen++;
    assert_true(seen >= 12); // Once for each place at least.
    expect(&it, "\\x1b]0;title\\x07\\xff\\xfe<script>");
    expect(&it, "&amp;\\r");
    expect(&it, "new_option");
    expect(&it, "unheard of");
    check_links(&it, run);
    page_free(&it);
    trp_buffer_free(&text);
    trp_buffer_free(&journal);
    trp_buffer_free(&end);
}

// ---- damage

static const char small_run[] =
    "{\"version\": 1, \"program\": \"p\", \"trainer\": \"fit\", \"options\": {\"ranks\": 2, "
    "\"keep_metric\": \"loss\", \"keep_goal\": 1}, \"config\": {\"rate\": 0.5}}\n";

// A journal with all kinds of lines.
static void write_journal(trp_buffer *out, int reports)
{
    add(out, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"2026-11-24T12:00:00.500Z\", "
             "\"process\": 4711}\n{\"event\": \"state\", \"state\": \"QUEUED\"}\n"
             "{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"pids\": [1, 2], "
             "\"checkpoint\": null}\n");
    for (int i = 1; i <= reports; i++) {
        trp_buffer_printf(out,
                          "{\"event\": \"report\", \"report\": %d, \"attempt\": 0, \"elapsed_s\": "
                          "%.3f, \"metrics\": {\"loss\": %.9g, \"odd\": %s}, \"checkpoint\": "
                          "null}\n",
                          i, i * 0.25, 2.0 / i, i % 7 == 0 ? "\"NaN\"" : "1e-3");
        if (i % 10 == 0)
            trp_buffer_printf(out,
                              "{\"event\": \"commit\", \"report\": %d, \"elapsed_s\": %.3f, "
                              "\"metrics\": {\"loss\": %.9g}, \"checkpoint\": "
                              "\"checkpoint_%06d\"}\n",
                              i, i * 0.25, 2.0 / i, i / 10);
        if (i % 30 == 0)
            trp_buffer_printf(
                out,
                "{\"event\": \"attempt\", \"attempt\": %d, \"report\": %d, "
                "\"elapsed_s\": %.3f, \"at\": \"2026-11-24T12:00:09.500Z\", \"pids\": "
                "[3, 4], \"cause\": {\"rank\": 1, \"status\": \"PEER_LOST\", "
                "\"text\": \"rank 1 was lost\"}, \"checkpoint\": null}\n",
                i / 30, i, i * 0.25);
    }
    add(out, "{\"event\": \"end\", \"status\": \"OK\", \"stopped\": false}\n");
    assert_false(out->failed);
}

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

// Changes, takes out or doubles some bytes.
static void damage(trp_buffer *text, uint64_t *random)
{
    static const char bytes[] = "{}[]\",:0123456789eE+-.\\\n \x00\xff<>&'N";
    int count = 1 + (int)(next_random(random) % 8);
    for (int i = 0; i < count && text->size > 2; i++) {
        size_t at = next_random(random) % text->size;
        size_t size = next_random(random) % 40;
        size = size < text->size - at ? size : text->size - at;
        switch (next_random(random) % 4) {
        case 0:
            text->data[at] = (unsigned char)bytes[next_random(random) % (sizeof bytes - 1)];
            break;
        case 1:
            text->data[at] = (unsigned char)next_random(random);
            break;
        case 2:
            memmove(text->data + at, text->data + at + size, text->size - at - size);
            text->size -= size;
            break;
        default:
            memmove(text->data + at, text->data + next_random(random) % (text->size - size), size);
        }
    }
}

static void damage_file(const char *name, const trp_buffer *text, uint64_t *random)
{
    trp_buffer copy = {0};
    trp_buffer_append(&copy, text->data, text->size);
    damage(&copy, random);
    put("damaged", name, (char *)copy.data, copy.size);
    trp_buffer_free(&copy);
}

// Whether the page has a curve.
static bool damaged_page(void)
{
    char *folder = support_path(storage, "damaged");
    trp_facts facts;
    trp_buffer out = {0};
    troupe_must(trp_facts_read(folder, &facts));
    trp_html_page(&facts, "", "now", &out);
    trp_buffer_append(&out, "", 1);
    assert_false(out.failed);
    page it = page_parse((char *)out.data);
    assert_false(it.outside);
    assert_int_equal(it.scripts, 1);
    bool has = it.figures >= 1;
    page_free(&it);
    trp_buffer_free(&out);
    trp_facts_free(&facts);
    free(folder);
    return has;
}

static void test_damaged_files_are_read_as_far_as_they_can_be(void **state)
{
    (void)state;
    trp_buffer journal = {0}, run = {0}, end = {0};
    uint64_t random = 88172645463325252u;
    int whole = 0;
    make_folder("damaged");
    write_journal(&journal, 90);
    add(&run, small_run);
    add(&end, "{\"version\": 1, \"status\": \"OK\", \"error\": \"\", \"best\": "
              "\"checkpoint_000001\", \"at\": \"2026-11-24T12:00:00.123Z\"}\n");
    for (int round = 0; round < 400; round++) {
        damage_file("journal.jsonl", &journal, &random);
        damage_file("end", &end, &random);
        if (round % 4 == 0)
            damage_file("run.json", &run, &random);
        whole += damaged_page();
    }
    assert_true(whole > 350);
    trp_buffer_free(&journal);
    trp_buffer_free(&run);
    trp_buffer_free(&end);
}

static void test_sources_and_ranks_are_seen(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"event\": \"open\", \"epoch\": 1}\n"
        "{\"event\": \"report\", \"report\": 1, \"elapsed_s\": 1, \"metrics\": {\"loss\": 2}, "
        "\"ranks\": [{\"loss\": 2}, {\"loss\": 0.25, \"own\": 1}, {\"loss\": \"NaN\"}]}\n"
        "{\"event\": \"report\", \"report\": 2, \"elapsed_s\": 2, \"source\": \"validate\", "
        "\"metrics\": {\"loss\": 1}}\n";
    make_folder("ranks");
    put("ranks", "run.json", small_run, sizeof small_run - 1);
    put("ranks", "journal.jsonl", lines, sizeof lines - 1);
    char *folder = support_path(storage, "ranks");
    trp_facts facts;
    troupe_must(trp_facts_read(folder, &facts));
    assert_int_equal(facts.bad_lines, 0);
    assert_int_equal(facts.metric_count, 2); // Not one that only another rank has.
    assert_string_equal(facts.metrics[0]->name, "loss");
    assert_string_equal(facts.metrics[1]->name, "validate/loss");
    const trp_slot *slot = &facts.metrics[0]->over_reports.slots[1];
    assert_true(slot->count == 1 && slot->low == 0.25 && slot->high == 2 && slot->sum == 2);
    assert_true(facts.metrics[0]->low == 2); // The figures are rank 0's.
    trp_facts_free(&facts);
    page it = report_of("ranks");
    expect(&it, "lowest to highest of all ranks");
    page_free(&it);
    free(folder);
}

static void test_a_restart_from_memory(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"event\": \"open\", \"epoch\": 1}\n{\"event\": \"attempt\", \"attempt\": 0, \"pids\": "
        "[11, 12, 13], \"replaced\": [0, 1, 2]}\n{\"event\": \"no_commit\", \"report\": 3}\n"
        "{\"event\": \"attempt\", \"attempt\": 1, \"report\": 2, \"pids\": [11, 14, 13], "
        "\"memory\": "
        "true, \"replaced\": [1], \"checkpoint\": null}\n";
    make_folder("memory");
    put("memory", "run.json", small_run, sizeof small_run - 1);
    put("memory", "journal.jsonl", lines, sizeof lines - 1);
    page it = report_of("memory");
    expect(&it, "a commit in memory");
    expect(&it, "11, 14, 13replaced: rank 1");
    assert_null(strstr(it.text, "rank 0, 1, 2")); // All are new at first.
    assert_false(page_says(&it, "Other events"));
    page_free(&it);
}

// What was asked of a run is a row between its attempts and a mark in its curves; what follows from
// a pause is no restart.
static void test_pauses_sizes_and_live_values_are_seen(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"event\": \"open\", \"epoch\": 1}\n"
        "{\"event\": \"state\", \"state\": \"QUEUED\"}\n"
        "{\"event\": \"attempt\", \"attempt\": 0, \"pids\": [11, 12]}\n"
        "{\"event\": \"report\", \"report\": 1, \"elapsed_s\": 1, \"metrics\": {\"loss\": 2}}\n"
        "{\"event\": \"modify\", \"revision\": 1, \"member\": \"rate\", \"value\": 0.25}\n"
        "{\"event\": \"modify\", \"revision\": 2, \"member\": \"note\", \"value\": \"<b>\"}\n"
        "{\"event\": \"report\", \"report\": 2, \"elapsed_s\": 2, \"metrics\": {\"loss\": 1}}\n"
        "{\"event\": \"live\", \"revision\": 2, \"report\": 2}\n"
        "{\"event\": \"state\", \"state\": \"PAUSED\"}\n"
        "{\"event\": \"resize\", \"ranks\": 3}\n"
        "{\"event\": \"state\", \"state\": \"QUEUED\"}\n"
        "{\"event\": \"attempt\", \"attempt\": 1, \"report\": 2, \"pids\": [13, 14, 15]}\n"
        "{\"event\": \"report\", \"report\": 3, \"elapsed_s\": 3, \"metrics\": {\"loss\": 1}}\n"
        "{\"event\": \"attempt\", \"attempt\": 2, \"report\": 2, \"pids\": [16, 17, 18], "
        "\"cause\": {\"rank\": 1, \"status\": \"PEER_LOST\", \"text\": \"rank 1 fell\"}}\n"
        "{\"event\": \"modify\", \"revision\": 3, \"member\": \"rate\", \"value\": 0.5}\n";
    make_folder("changes");
    put("changes", "run.json", small_run, sizeof small_run - 1);
    put("changes", "journal.jsonl", lines, sizeof lines - 1);
    char *folder = support_path(storage, "changes");
    trp_facts facts;
    troupe_must(trp_facts_read(folder, &facts));
    assert_int_equal(facts.bad_lines, 0);
    assert_int_equal(facts.restarts, 1);
    assert_int_equal(facts.changes, 5);
    trp_buffer marks = {0};
    trp_html_curves(&facts, &marks);
    trp_buffer_append(&marks, "", 1);
    int found = 0;
    for (const char *at = (char *)marks.data; (at = strstr(at, "<line class=\"change\"")) != NULL;
         at++)
        found++;
    assert_int_equal(found, 1 + 2 * 4); // In the key, and on either axis all but the last.
    trp_buffer_free(&marks);
    trp_facts_free(&facts);
    page it = report_of("changes");
    expect(&it, "modifiedrate = 0.25 since report 3");
    expect(&it, "modifiednote = \"<b>\" since report 3");
    expect(&it, "pausedafter report 2");
    expect(&it, "resizedto 3 ranks after report 2");
    expect(&it, "Formed anew");
    expect(&it, "rank 1 fell");
    expect(&it, "modifiedrate = 0.5 asked for after report 3, not in effect");
    assert_false(page_says(&it, "Other events"));
    page_free(&it);
    free(folder);
}

static void test_lines_that_cannot_be_read_are_counted(void **state)
{
    (void)state;
    trp_buffer journal = {0};
    static char long_line[3 << 20];
    make_folder("counted");
    put("counted", "run.json", small_run, sizeof small_run - 1);
    write_journal(&journal, 20);
    add(&journal, "no line of a journal\n{\"event\": 7}\n{}\n[]\n\n");
    add(&journal, "{\"event\": \"report\", \"report\": 5, \"metrics\": {\"loss\": 1}}\n"); // Again.
    memset(long_line, 'x', sizeof long_line - 1);
    add(&journal, long_line);
    add(&journal, "\n{\"event\": \"report\", \"report\": 21, \"metrics\": {\"loss\": 0.125}}\n");
    add(&journal, "{\"event\": \"report\", \"report\": 22, \"metr"); // Being written.
    put("counted", "journal.jsonl", (char *)journal.data, journal.size);
    page it = report_of("counted");
    expect(&it, "6 of 33 lines of the journal cannot be read");
    expect(&it, "0.125");
    expect(&it, "Reports21");
    page_free(&it);
    trp_buffer_free(&journal);
}

static void test_what_is_no_run_is_refused(void **state)
{
    (void)state;
    char *file = support_path(storage, "a file"), *nowhere = support_path(storage, "no/where.html");
    support_write_file(file, "x", 1);
    make_folder("empty");
    make_folder("bare");
    char *empty = support_path(storage, "empty"), *bare = support_path(storage, "bare");
    put("bare", "run.json", small_run, sizeof small_run - 1);
    assert_int_equal(troupe_run_report(empty, NULL), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "it has no run.json"));
    assert_int_equal(troupe_run_report(nowhere, NULL), TROUPE_NOT_FOUND);
    assert_int_not_equal(troupe_run_report(file, NULL), TROUPE_OK);
    assert_int_equal(troupe_run_report(bare, nowhere), TROUPE_IO);
    page it = report_of("bare"); // Nothing has happened yet.
    expect(&it, "No report with a metric has been made");
    expect(&it, "journal.jsonl cannot be read");
    page_free(&it);
    free(file);
    free(nowhere);
    free(empty);
    free(bare);
}

// ---- curves

static void test_a_series_hides_nothing(void **state)
{
    (void)state;
    static trp_series series;
    uint64_t values = 0, odd = 0;
    trp_series_begin(&series, 1);
    for (int i = 1; i <= 77777; i++)
        trp_series_add(&series, i, i == 50001 ? 1000 : i == 60000 ? NAN : sin(i));
    double low = 0, high = 0, last = 0;
    assert_true(trp_series_range(&series, &low, &high));
    assert_true(high == 1000 && low < -0.99999); // One value of many is seen.
    assert_true(series.used <= TRP_SLOTS && series.used >= TRP_SLOTS / 2);
    for (size_t i = 0; i < series.used; i++) {
        const trp_slot *slot = &series.slots[i];
        assert_true(slot->from > last && slot->to >= slot->from);
        assert_true(slot->to - slot->from < series.width);
        assert_true((slot->high == 1000) == (slot->from <= 50001 && slot->to >= 50001));
        last = slot->to;
        values += slot->count;
        odd += slot->odd;
    }
    assert_int_equal(values, 77776);
    assert_int_equal(odd, 1);
    trp_series_add(&series, 1e15, 1); // As far as it goes; what was there is there still.
    assert_true(series.slots[0].count == 77776 && series.slots[0].odd == 1);
    trp_series_add(&series, -1, 5000);
    trp_series_add(&series, NAN, 5000);
    trp_series_add(&series, 1e300, 5000);
    assert_true(trp_series_range(&series, &low, &high) && high == 1000);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

static char *draw(const trp_series *series, bool log)
{
    trp_buffer out = {0};
    trp_curve curve = {.series = series,
                       .axis = {.from = 1, .to = 10},
                       .log = log,
                       .kind = "linear",
                       .id = "c",
                       .marks = "m",
                       .title = "loss",
                       .about = "all"};
    trp_curve_draw(&curve, &out);
    trp_buffer_append(&out, "", 1);
    assert_false(out.failed);
    assert_null(strstr((char *)out.data, "nan"));
    assert_null(strstr((char *)out.data, "inf"));
    return (char *)out.data;
}

static void test_no_number_breaks_the_line_and_no_value_does_not(void **state)
{
    (void)state;
    static trp_series series;
    trp_series_begin(&series, 1);
    for (int i = 1; i <= 10; i++)
        if (i != 3) // Not reported there.
            trp_series_add(&series, i, i == 5 || i == 7 ? INFINITY : i);
    trp_buffer drawn = {.data = (unsigned char *)draw(&series, false), .size = 1, .capacity = 1};
    const char *line = strstr((char *)drawn.data, "class=\"curve\"");
    assert_non_null(line);
    char *copy = strndup(line, strcspn(line, ">"));
    assert_int_equal(count_of(copy, "M"), 3); // 1 to 4, 6 alone, 8 to 10.
    assert_int_equal(count_of(copy, "L"), 4); // Of 2, 4; 9, 10.
    assert_int_equal(count_of(copy, "h0"), 1);
    free(copy);
    line = strstr((char *)drawn.data, "class=\"odd\"");
    assert_non_null(line);
    trp_buffer_free(&drawn);
}

static void test_any_values_can_be_drawn(void **state)
{
    (void)state;
    static const double values[][2] = {
        {0, 0},       {1, 1},     {-1e300, 1e300}, {1e-320, 1e300},  {5e-324, 1}, {1e9, 1e9 + 1e-6},
        {-1e-300, 0}, {NAN, NAN}, {1e308, -1e308}, {123456, 1234567}};
    static trp_series series;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        trp_series_begin(&series, 1);
        trp_series_add(&series, 1, values[i][0]);
        trp_series_add(&series, 2, values[i][1]);
        for (int log = 0; log <= trp_curve_has_log(&series); log++) {
            trp_buffer drawn = {.data = (unsigned char *)draw(&series, log), .capacity = 1};
            assert_true(strlen((char *)drawn.data) < 8000); // A few ticks, not thousands.
            trp_buffer_free(&drawn);
        }
    }
}

// ---- a long run

static void test_a_long_run_has_a_small_page(void **state)
{
    (void)state;
    make_folder("long");
    put("long", "run.json", small_run, sizeof small_run - 1);
    char *path = path_of("long", "journal.jsonl"), *folder = support_path(storage, "long");
    char *html = path_of("long", "report.html"), spike[32];
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    fprintf(out, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"2026-11-24T12:00:00.500Z\"}\n");
    for (int i = 1; i <= long_run; i++) {
        fprintf(out,
                "{\"event\": \"report\", \"report\": %d, \"attempt\": 0, \"elapsed_s\": %.3f, "
                "\"metrics\": {\"loss\": %.6f, \"epoch\": %d}, \"checkpoint\": null}\n",
                i, i * 0.01, i == 777 ? 31337.5 : 1.0 / i, i);
        if (i % 100 == 0)
            fprintf(out,
                    "{\"event\": \"commit\", \"report\": %d, \"elapsed_s\": %.3f, \"checkpoint\": "
                    "\"checkpoint_%06d\"}\n{\"event\": \"attempt\", \"attempt\": %d}\n"
                    "{\"event\": \"new\", \"number\": %d}\n",
                    i, i * 0.01, i, i / 100, i);
    }
    assert_int_equal(fclose(out), 0);
    static trp_facts facts;
    int64_t begun = support_cpu_ns();
    assert_int_equal(trp_facts_read(folder, &facts), TROUPE_OK);
    int64_t took_us = (support_cpu_ns() - begun) / 1000;
    assert_int_equal(facts.bad_lines, 0);
    assert_int_equal(facts.reports, long_run);
    assert_int_equal(facts.attempts, long_run / 100);
    assert_true(trp_arena_size(&facts.arena) < 2 << 20); // Whatever the number of reports.
    trp_facts_free(&facts);
    print_message("a report takes %.1f us\n", (double)took_us / long_run);
    assert_true(took_us < 100 * SUPPORT_SLOWER * (int64_t)long_run); // 2 us without a sanitizer.
    page it = report_of("long");
    struct stat about;
    assert_int_equal(stat(html, &about), 0);
    assert_true(about.st_size < 400000);
    snprintf(spike, sizeof spike, "31337.5");
    expect(&it, spike);
    expect(&it, "The last 200 of ");
    expect(&it, "The last 50 of ");
    page_free(&it);
    free(path);
    free(folder);
    free(html);
}

// ---- the command

static void test_the_command(void **state)
{
    (void)state;
    char output[4096];
    make_folder("plain");
    put("plain", "run.json", small_run, sizeof small_run - 1);
    assert_int_equal(tool("plain", output, sizeof output), 0);
    assert_string_equal(output, "plain/report.html\n");
    assert_int_equal(tool("-o there.html plain", output, sizeof output), 0);
    assert_string_equal(output, "there.html\n");
    char *there = support_path(storage, "there.html");
    page it = page_read(there);
    assert_int_equal(it.link_count, 2);
    assert_string_equal(it.links[0], "plain/run.json");
    assert_string_equal(it.links[1], "plain/journal.jsonl");
    page_free(&it);
    free(there);
    assert_int_equal(tool("--help", output, sizeof output), 0);
    assert_int_equal(tool("", output, sizeof output), 2);
    assert_int_equal(tool("a b", output, sizeof output), 2);
    assert_int_equal(tool("no_run", output, sizeof output), 1);
    assert_non_null(strstr(output, "troupe report: the run's folder no_run does not exist"));
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "drive") == 0)
        return drive(argv);
    if (argc == 2 && atoi(argv[1]) > 0)
        long_run = atoi(argv[1]);
    storage = support_directory_make();
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_lost_a_rank),
        cmocka_unit_test(test_a_run_that_failed_says_why),
        cmocka_unit_test(test_a_run_that_runs),
        cmocka_unit_test(test_a_run_whose_driver_was_killed),
        cmocka_unit_test(test_what_a_run_has_given_is_text),
        cmocka_unit_test(test_damaged_files_are_read_as_far_as_they_can_be),
        cmocka_unit_test(test_sources_and_ranks_are_seen),
        cmocka_unit_test(test_a_restart_from_memory),
        cmocka_unit_test(test_pauses_sizes_and_live_values_are_seen),
        cmocka_unit_test(test_lines_that_cannot_be_read_are_counted),
        cmocka_unit_test(test_what_is_no_run_is_refused),
        cmocka_unit_test(test_a_series_hides_nothing),
        cmocka_unit_test(test_no_number_breaks_the_line_and_no_value_does_not),
        cmocka_unit_test(test_any_values_can_be_drawn),
        cmocka_unit_test(test_a_long_run_has_a_small_page),
        cmocka_unit_test(test_the_command),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
