// test_derived.c: the files of a run for other programs: what is in them, that they are made anew
// where a run goes on, and that none of it can fail a run. TensorBoard's own reader is asked by
// tests/train/readers.sh; here its format is taken apart.
#include <support.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/derived.h>
#include <train/tensorboard.h>
#include <troupe.h>
#include <unistd.h>

// ---- the pure part

static void test_the_checksum_is_castagnolis(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0}, ones[32];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(trp_crc32c("123456789", 9), 0xe3069283); // RFC 3720, B.4.
    assert_int_equal(trp_crc32c(zeros, sizeof zeros), 0x8a9136aa);
    assert_int_equal(trp_crc32c(ones, sizeof ones), 0x62a8ab43);
    assert_int_equal(trp_crc32c("", 0), 0);
}

typedef struct outcome {
    trp_derived_state state;
    trp_buffer out[TRP_DERIVED_FILES];
} outcome;

static void take(outcome *into, const char *line)
{
    trp_derived_take(&into->state, line, strlen(line), into->out);
}

static void take_number(outcome *all, const char *event, int number, const char *rest)
{
    char line[256];
    snprintf(line, sizeof line, "{\"event\": \"%s\", \"report\": %d%s}", event, number, rest);
    take(all, line);
}

static const char *text_of(outcome *of, int file)
{
    assert_false(of->out[file].failed);
    trp_buffer_append(&of->out[file], "", 1);
    return (const char *)of->out[file].data;
}

static void free_outcome(outcome *it)
{
    trp_derived_state_free(&it->state);
    for (int i = 0; i < TRP_DERIVED_FILES; i++)
        trp_buffer_free(&it->out[i]);
}

static void test_lines_of_the_journal_become_rows(void **state)
{
    (void)state;
    outcome all = {0};
    setenv("TZ", "UTC", 1);
    take(&all, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"2026-11-24T12:00:00.500Z\"}");
    take(&all, "{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"checkpoint\": null}");
    take(&all, "{\"event\": \"report\", \"report\": 1, \"attempt\": 0, \"elapsed_s\": 1.25, "
               "\"metrics\": {\"loss\": 0.5, \"a,\\\"b\": \"NaN\"}, \"checkpoint\": null}");
    take(&all, "no line of a journal");
    take(&all, "{\"event\": \"report\"");
    // The run goes on an hour later. What is new is in no column, and what is gone is empty.
    take(&all, "{\"event\": \"open\", \"epoch\": 2, \"at\": \"2026-11-24T13:00:00.000Z\"}");
    take(&all, "{\"event\": \"report\", \"report\": 2, \"attempt\": 1, \"elapsed_s\": 3.25, "
               "\"source\": \"validate\", "
               "\"metrics\": {\"a,\\\"b\": \"-Infinity\", \"timestamp\": 7}, "
               "\"checkpoint\": \"checkpoint_000003\"}");
    assert_string_equal(
        text_of(&all, TRP_DERIVED_JSON),
        "{\"loss\": 0.5, \"a,\\\"b\": \"NaN\", \"training_iteration\": 1, \"time_total_s\": 1.25, "
        "\"time_this_iter_s\": 1.25, \"timestamp\": 1795521601, \"date\": \"2026-11-24_12-00-01\", "
        "\"checkpoint_dir_name\": null}\n"
        "{\"a,\\\"b\": \"-Infinity\", \"timestamp\": 7, \"training_iteration\": 2, "
        "\"time_total_s\": 3.25, \"time_this_iter_s\": 2, \"date\": \"2026-11-24_13-00-02\", "
        "\"checkpoint_dir_name\": \"checkpoint_000003\", \"source\": \"validate\"}\n");
    assert_string_equal(text_of(&all, TRP_DERIVED_CSV),
                        "training_iteration,time_total_s,time_this_iter_s,timestamp,"
                        "checkpoint_dir_name,source,loss,\"a,\"\"b\"\n"
                        "1,1.25,1.25,1795521601,,,0.5,nan\n"
                        "2,3.25,2,1795525202,checkpoint_000003,validate,,-inf\n");
    free_outcome(&all);
}

static void test_lines_have_what_the_run_was_configured_with(void **state)
{
    (void)state;
    outcome all = {0};
    setenv("TZ", "UTC", 1);
    trp_derived_begin(&all.state, "fit_00001", "box,1",
                      "{\"rate\": 0.5, \"of\": {\"kind\": \"a,b\"}}");
    take(&all, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"2026-11-24T12:00:00.000Z\"}");
    take(&all, "{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"pids\": [41, 42]}");
    take(&all, "{\"event\": \"report\", \"report\": 1, \"elapsed_s\": 1, \"metrics\": "
               "{\"loss\": 2, \"done\": 1}}");
    assert_string_equal(text_of(&all, TRP_DERIVED_PARAMS),
                        "{\"rate\": 0.5, \"of\": {\"kind\": \"a,b\"}}\n");
    assert_string_equal(
        text_of(&all, TRP_DERIVED_JSON),
        "{\"loss\": 2, \"done\": 1, \"training_iteration\": 1, \"time_total_s\": 1, "
        "\"time_this_iter_s\": 1, \"timestamp\": 1795521601, \"date\": \"2026-11-24_12-00-01\", "
        "\"checkpoint_dir_name\": null, \"trial_id\": \"fit_00001\", \"hostname\": \"box,1\", "
        "\"pid\": 41, \"config\": {\"rate\": 0.5, \"of\": {\"kind\": \"a,b\"}}}\n");
    assert_string_equal(text_of(&all, TRP_DERIVED_CSV),
                        "training_iteration,time_total_s,time_this_iter_s,timestamp,"
                        "checkpoint_dir_name,source,loss,done,date,trial_id,hostname,pid,done,"
                        "config/rate,config/of/kind\n"
                        "1,1,1,1795521601,,,2,1,2026-11-24_12-00-01,fit_00001,\"box,1\",41,false,"
                        "0.5,\"a,b\"\n");
    size_t before = all.out[TRP_DERIVED_EVENTS].size;
    trp_derived_finish(&all.state, all.out); // It has not ended.
    assert_int_equal(all.out[TRP_DERIVED_EVENTS].size, before);
    take(&all, "{\"event\": \"end\", \"status\": \"OK\", \"stopped\": false}");
    trp_derived_finish(&all.state, all.out);
    assert_true(all.out[TRP_DERIVED_EVENTS].size > before);
    free_outcome(&all);
}

// What has no beginning on TensorBoard's page of hyperparameters has no end there.
static void test_params_that_are_all_null_begin_no_session(void **state)
{
    (void)state;
    outcome all = {0};
    trp_derived_begin(&all.state, "fit", "box", "{\"data\": null, \"of\": {\"more\": null}}");
    take(&all, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"2026-11-24T12:00:00.000Z\"}");
    take(&all, "{\"event\": \"end\", \"status\": \"OK\", \"stopped\": false}");
    size_t before = all.out[TRP_DERIVED_EVENTS].size;
    trp_derived_finish(&all.state, all.out);
    assert_int_equal(all.out[TRP_DERIVED_EVENTS].size, before);
    free_outcome(&all);
}

// Params that are long are in their own file alone.
static void test_long_params_are_in_no_line(void **state)
{
    (void)state;
    outcome all = {0};
    trp_buffer params = {0};
    trp_buffer_printf(&params, "{\"long\": \"%0*d\"}", TRP_DERIVED_PARAMS_MAX, 0);
    trp_buffer_append(&params, "", 1);
    trp_derived_begin(&all.state, "fit", "box", (const char *)params.data);
    take(&all, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"2026-11-24T12:00:00.000Z\"}");
    take_number(&all, "report", 1, ", \"metrics\": {\"loss\": 2}");
    assert_int_equal(all.out[TRP_DERIVED_PARAMS].size, params.size);
    assert_null(strstr(text_of(&all, TRP_DERIVED_JSON), "config"));
    assert_null(strstr(text_of(&all, TRP_DERIVED_CSV), "config"));
    trp_buffer_free(&params);
    free_outcome(&all);
}

// The rows of result.json so far, as "1:name 2: ": numbers and the names of their checkpoints.
static const char *rows_of(outcome *of, char *rows, size_t size)
{
    const char *at = text_of(of, TRP_DERIVED_JSON);
    size_t length = 0;
    for (rows[0] = '\0'; (at = strstr(at, "training_iteration\": ")) != NULL;) {
        int number = 0;
        char name[32] = "";
        sscanf(at, "training_iteration\": %d", &number);
        at = strstr(at, "checkpoint_dir_name\": ") + strlen("checkpoint_dir_name\": ");
        sscanf(at, "\"checkpoint_%31[0-9]", name);
        length += (size_t)snprintf(rows + length, size - length, "%d:%s ", number, name);
    }
    of->out[TRP_DERIVED_JSON].size--; // The end that text_of has put there.
    return rows;
}

static void take_saving(outcome *all, int number)
{
    take_number(all, "report", number, ", \"saving\": true, \"checkpoint\": null");
}

static void take_commit(outcome *all, int number, int checkpoint)
{
    char rest[64];
    snprintf(rest, sizeof rest, ", \"checkpoint\": \"checkpoint_%d\"", checkpoint);
    take_number(all, "commit", number, rest);
}

static void test_a_row_waits_for_the_name_of_its_checkpoint(void **state)
{
    (void)state;
    outcome all = {0};
    char rows[256];
    take_number(&all, "report", 1, "");
    take_saving(&all, 2);
    take_number(&all, "report", 3, "");
    take_saving(&all, 4);
    assert_string_equal(rows_of(&all, rows, sizeof rows), "1: ");
    assert_int_equal(trp_derived_waits(&all.state), 2);
    take_commit(&all, 2, 7);
    assert_string_equal(rows_of(&all, rows, sizeof rows), "1: 2:7 3: ");
    take_number(&all, "no_commit", 4, "");
    assert_string_equal(rows_of(&all, rows, sizeof rows), "1: 2:7 3: 4: ");
    take_saving(&all, 5); // Its line was lost, but a later one is committed.
    take_saving(&all, 6);
    take_commit(&all, 6, 8);
    assert_string_equal(rows_of(&all, rows, sizeof rows), "1: 2:7 3: 4: 5: 6:8 ");
    // A rank dies; the next attempt makes 9 again, and commits it.
    take_saving(&all, 7);
    take_saving(&all, 8);
    take_saving(&all, 9);
    take_number(&all, "attempt", 8, "");
    assert_int_equal(trp_derived_waits(&all.state), 9);
    take_commit(&all, 9, 9);
    take_saving(&all, 10);
    take_number(&all, "end", 0, "");
    assert_string_equal(rows_of(&all, rows, sizeof rows), "1: 2:7 3: 4: 5: 6:8 7: 8: 9:9 10: ");
    assert_int_equal(trp_derived_waits(&all.state), 0);
    free_outcome(&all);
}

// A commit that does not end holds up no more than so many rows.
static void test_rows_do_not_wait_without_bound(void **state)
{
    (void)state;
    outcome all = {0};
    char rows[64];
    take_saving(&all, 1);
    for (int i = 2; i <= TRP_DERIVED_HELD; i++)
        take_number(&all, "report", i, "");
    assert_int_equal(all.out[TRP_DERIVED_JSON].size, 0);
    take_saving(&all, TRP_DERIVED_HELD + 1);
    assert_int_equal(trp_derived_waits(&all.state), TRP_DERIVED_HELD + 1);
    trp_buffer_free(&all.out[TRP_DERIVED_JSON]);
    trp_derived_give_up(&all.state, false, all.out);
    assert_string_equal(rows_of(&all, rows, sizeof rows), "4097: ");
    take_saving(&all, 1); // It is freed with the rest.
    free_outcome(&all);
}

// ---- TensorBoard's format, read by what is written of it and not by our writer

typedef struct scalar {
    int64_t step;
    double wall_s;
    char tag[64];
    float value;
} scalar;

static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        value |= (uint64_t)(**at & 0x7f) << shift;
        if (*(*at)++ < 0x80)
            return value;
    }
}

// The parts of a message: field number, and where its bytes are.
static uint64_t field(const unsigned char **at, const unsigned char **data, uint64_t *size)
{
    uint64_t key = varint(at);
    *data = *at;
    *size = 0;
    switch (key & 7) {
    case 0:
        *size = varint(at);
        break;
    case 1:
        *at += 8;
        break;
    case 2:
        *size = varint(at);
        *data = *at;
        *at += *size;
        break;
    case 5:
        *at += 4;
        break;
    default:
        fail_msg("wire type %d", (int)(key & 7));
    }
    return key >> 3;
}

static void check_crc(const void *data, size_t size, const void *stored)
{
    uint32_t crc = trp_crc32c(data, size), read;
    memcpy(&read, stored, sizeof read);
    uint32_t rotated = read - 0xa282ead8u;
    assert_int_equal((rotated >> 17) | (rotated << 15), crc);
}

// Whether it is a scalar. (What else there is is taken apart in test_tensorboard.)
static bool read_value(const unsigned char *at, const unsigned char *end, scalar *into)
{
    const unsigned char *data;
    uint64_t size;
    bool is_scalar = false;
    while (at < end) {
        uint64_t number = field(&at, &data, &size);
        if (number == 1)
            snprintf(into->tag, sizeof into->tag, "%.*s", (int)size, (const char *)data);
        else if (number == 2)
            memcpy(&into->value, data, sizeof into->value);
        is_scalar = is_scalar || number == 2;
    }
    return is_scalar;
}

static size_t read_event(const unsigned char *at, const unsigned char *end, scalar *into,
                         bool *version)
{
    const unsigned char *data, *inner;
    uint64_t size, inner_size;
    scalar about = {0};
    size_t count = 0;
    while (at < end) {
        uint64_t number = field(&at, &data, &size);
        if (number == 1)
            memcpy(&about.wall_s, data, sizeof about.wall_s);
        else if (number == 2)
            about.step = (int64_t)size;
        else if (number == 3)
            *version = size == 13 && memcmp(data, "brain.Event:2", 13) == 0;
        else if (number == 5)
            for (const unsigned char *part = data; part < data + size;) {
                assert_int_equal(field(&part, &inner, &inner_size), 1);
                into[count] = about;
                count += read_value(inner, inner + inner_size, &into[count]);
            }
    }
    return count;
}

// Returns how many scalars there are.
static size_t read_events(const void *bytes, size_t size, scalar *into)
{
    const unsigned char *at = bytes, *end = at + size;
    size_t count = 0;
    for (bool first = true; at < end; first = false) {
        uint64_t length;
        bool version = false;
        memcpy(&length, at, sizeof length);
        assert_true(length <= (size_t)(end - at) - 16);
        check_crc(at, 8, at + 8);
        check_crc(at + 12, length, at + 12 + length);
        count += read_event(at + 12, at + 12 + length, into + count, &version);
        assert_int_equal(version, first);
        at += 16 + length;
    }
    return count;
}

static void test_events_can_be_taken_apart(void **state)
{
    (void)state;
    const troupe_metric metrics[] = {{"loss", 0.25}, {"epoch", 1e9}, {"nan", (double)NAN}};
    scalar read[4];
    trp_buffer out = {0};
    trp_tensorboard_begin(1795521600.5, &out);
    troupe_report_event report = {
        .number = 2000000000, .metrics = metrics, .count = 3, .source = ""};
    trp_tensorboard_report(1795521601.75, &report, &out);
    trp_tensorboard_report(1795521602, &(troupe_report_event){.number = 2, .source = ""}, &out);
    report.source = "validate";
    report.count = 1;
    trp_tensorboard_report(1795521603, &report, &out);
    assert_false(out.failed);
    assert_int_equal(read_events(out.data, out.size, read), 4);
    assert_string_equal(read[3].tag, "validate/loss");
    assert_string_equal(read[0].tag, "loss");
    assert_true(read[0].value == 0.25F && read[0].wall_s == 1795521601.75);
    assert_true(read[1].step == 2000000000 && read[1].value == 1e9F);
    assert_true(isnan(read[2].value));
    trp_buffer_free(&out);
}

// ---- whole runs

TROUPE_STRUCT(plan, (int, reports), (bool, fails));
TROUPE_STRUCT(place, (int, report));

static troupe_status fit(troupe_rank *me, const plan *config)
{
    place at = {0};
    TROUPE_TRY(troupe_restore(place, me, &at));
    while (at.report < config->reports) {
        at.report++;
        TROUPE_TRY(troupe_save(place, me, &at));
        TROUPE_TRY(troupe_report(me, {"loss", 1.0 / at.report}, {"epoch", at.report}));
    }
    TROUPE_TRY(troupe_barrier(me)); // Each report has been made by all.
    return config->fails ? troupe_fail(TROUPE_FAILED, "no more data") : TROUPE_OK;
}
TROUPE_TRAINER(fit, plan);

static char *folder;

// Runs it until that report; false: the run failed.
static bool train(int reports, bool fails, troupe_open open)
{
    troupe_result *result = NULL;
    plan config = {reports, fails};
    troupe_status status = troupe_train(fit, &config, &result, .ranks = 2, .cpus_per_rank = 0.5,
                                        .storage = folder, .name = "tour", .open = open);
    troupe_result_free(&result);
    return status == TROUPE_OK;
}

static int count_lines(const char *name)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    int lines = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at++)
        lines += *at == '\n';
    free(text);
    free(path);
    return lines;
}

static size_t read_event_file(scalar *into)
{
    char *run = support_path(folder, "tour");
    DIR *entries = opendir(run);
    size_t count = 0;
    int files = 0;
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strstr(entry->d_name, "tfevents") == NULL)
            continue;
        char *path = support_path(run, entry->d_name);
        struct stat about;
        assert_int_equal(stat(path, &about), 0);
        char *bytes = support_read_file(path);
        count = read_events(bytes, (size_t)about.st_size, into);
        files++;
        free(bytes);
        free(path);
    }
    assert_int_equal(files, 1);
    closedir(entries);
    free(run);
    return count;
}

static void test_a_run_has_them_and_they_go_on_with_it(void **state)
{
    (void)state;
    scalar read[64];
    assert_false(train(5, true, TROUPE_OPEN_NEW));
    assert_int_equal(count_lines("tour/result.json"), 5);
    assert_int_equal(count_lines("tour/progress.csv"), 1 + 5);
    assert_int_equal(read_event_file(read), 10);

    // What lies there is not read, whatever it is.
    char *path = support_path(folder, "tour/result.json");
    support_write_file(path, "somebody was here\n", 18);
    free(path);
    assert_true(train(8, false, TROUPE_OPEN_RESUME));
    assert_int_equal(count_lines("tour/result.json"), 8);
    assert_int_equal(count_lines("tour/progress.csv"), 1 + 8);
    assert_int_equal(read_event_file(read), 16);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(read[i].step, i / 2 + 1);
        assert_string_equal(read[i].tag, i % 2 == 0 ? "loss" : "epoch");
        assert_true(read[i].value == (i % 2 == 0 ? (float)(1.0 / (i / 2 + 1)) : i / 2 + 1));
        assert_true(i == 0 || read[i].wall_s >= read[i - 1].wall_s);
    }
}

static bool has_line(const char *name, const char *part)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    bool has = text != NULL && strstr(text, part) != NULL;
    free(text);
    free(path);
    return has;
}

// B20.
static void test_a_run_puts_down_what_it_was_configured_with(void **state)
{
    (void)state;
    char expected[128], host[65] = "";
    assert_true(train(2, false, TROUPE_OPEN_NEW));
    assert_true(has_line("tour/params.json", "{\"reports\": 2, \"fails\": false}\n"));
    assert_true(has_line("tour/result.json", "\"config\": {\"reports\": 2, \"fails\": false}}\n"));
    assert_true(has_line("tour/result.json", "\"trial_id\": \"tour\""));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(expected, sizeof expected, "\"hostname\": \"%s\", \"pid\": ", host);
    assert_true(has_line("tour/result.json", expected));
    assert_true(has_line("tour/progress.csv", ",config/reports,config/fails\n"));
    assert_true(has_line("tour/progress.csv", ",false,2,false\n"));

    troupe_result *result = NULL;
    plan config = {1, false};
    troupe_must(troupe_train(fit, &config, &result, .storage = folder, .name = "given",
                             .params = " {\"of\" : {\"mine\": 1}} "));
    troupe_result_free(&result);
    assert_true(has_line("given/params.json", "{\"of\":{\"mine\":1}}\n"));
    assert_true(has_line("given/progress.csv", ",config/of/mine\n"));
    assert_int_equal(
        troupe_train(fit, &config, &result, .storage = folder, .name = "refused", .params = "[1]"),
        TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, ".params is '[1]'"));
}

// They were committed by a thread, after the lines of their reports.
static void test_each_row_names_its_checkpoint(void **state)
{
    (void)state;
    assert_true(train(8, false, TROUPE_OPEN_NEW));
    char *json = support_path(folder, "tour/result.json"), *results = support_read_file(json);
    char *csv = support_path(folder, "tour/progress.csv"), *rows = support_read_file(csv);
    const char *result = results, *row = rows;
    for (int i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, "\"checkpoint_dir_name\": \"checkpoint_%06d\"", i);
        result = strstr(result, name);
        assert_non_null(result);
        snprintf(name, sizeof name, ",checkpoint_%06d,", i);
        row = strstr(row, name);
        assert_non_null(row);
    }
    free(json);
    free(csv);
    free(results);
    free(rows);
}

static void test_what_cannot_be_written_fails_no_run(void **state)
{
    (void)state;
    assert_false(train(2, true, TROUPE_OPEN_NEW));
    char *path = support_path(folder, "tour/progress.csv");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(train(4, false, TROUPE_OPEN_RESUME));
    assert_int_equal(count_lines("tour/result.json"), 4);
    assert_int_equal(rmdir(path), 0);
    free(path);
}

static void test_many_reports_are_all_there(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    plan config = {3000, false};
    troupe_must(troupe_train(fit, &config, &result, .storage = folder, .name = "tour",
                             .keep = TROUPE_NONE));
    troupe_result_free(&result);
    assert_int_equal(count_lines("tour/result.json"), 3000);
    assert_int_equal(count_lines("tour/progress.csv"), 3001);
}

// So its folder can be removed, or read.
static void test_nothing_is_written_after_the_close(void **state)
{
    (void)state;
    troupe_job *job = NULL;
    troupe_result *result = NULL;
    plan config = {3000, false};
    troupe_must(troupe_submit(fit, &config, NULL, &job, .storage = folder, .name = "closed",
                              .keep = TROUPE_NONE));
    troupe_must(troupe_job_wait(job, -1, &result));
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(count_lines("closed/result.json"), 3000);
    assert_int_equal(count_lines("closed/progress.csv"), 3001);
}

// Of many ranks a line is longer than what is read at once.
static void test_a_long_line_becomes_a_row(void **state)
{
    (void)state;
    trp_buffer text = {0};
    char *path = support_path(folder, "journal.jsonl");
    trp_buffer_printf(&text, "{\"event\": \"open\", \"at\": \"2026-11-24T12:00:00.500Z\"}\n"
                             "{\"event\": \"report\", \"report\": 1, \"ranks\": [{}");
    for (int i = 0; i < 200000; i++)
        trp_buffer_printf(&text, ", {}");
    trp_buffer_printf(&text, "], \"metrics\": {\"a\": 1}}\n"
                             "{\"event\": \"report\", \"report\": 2}\n");
    support_write_file(path, (const char *)text.data, text.size);
    trp_derived *derived = trp_derived_open(folder, NULL);
    trp_derived_end(derived);
    trp_derived_await(derived);
    assert_int_equal(count_lines("result.json"), 2);
    trp_derived_close(derived);
    trp_derived_settle();
    trp_buffer_free(&text);
    free(path);
}

static int make_folder(void **state)
{
    (void)state;
    folder = support_directory_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

// With "--leave FOLDER": a run of 8 reports is made there and left, for other programs to read.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_checksum_is_castagnolis),
        cmocka_unit_test(test_lines_of_the_journal_become_rows),
        cmocka_unit_test(test_lines_have_what_the_run_was_configured_with),
        cmocka_unit_test(test_params_that_are_all_null_begin_no_session),
        cmocka_unit_test(test_long_params_are_in_no_line),
        cmocka_unit_test(test_a_row_waits_for_the_name_of_its_checkpoint),
        cmocka_unit_test(test_rows_do_not_wait_without_bound),
        cmocka_unit_test(test_events_can_be_taken_apart),
        cmocka_unit_test_setup_teardown(test_a_run_puts_down_what_it_was_configured_with,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_row_names_its_checkpoint, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_run_has_them_and_they_go_on_with_it, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written_fails_no_run, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_nothing_is_written_after_the_close, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_long_line_becomes_a_row, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_many_reports_are_all_there, make_folder,
                                        remove_folder),
    };
    troupe_must(troupe_start(0, NULL, .cpus = 4));
    int failed = 0;
    if (argc == 3 && strcmp(argv[1], "--leave") == 0) {
        folder = argv[2];
        failed = !train(8, false, TROUPE_OPEN_NEW);
    } else {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    troupe_must(troupe_stop());
    return failed;
}
