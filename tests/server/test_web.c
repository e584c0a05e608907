// test_web.c: what the web interface answers: each route about a state folder made by hand and
// about a real training, requests that are wrong or hostile, damaged files, the OpenAPI document.
// timeout: 120
#include "line.h"
#include "made.h"
#include "stored.h"

#include <runtime/codec/json.h>
#include <server/web_internal.h>
#include <sys/wait.h>

static made_folders at;
static char *folder;
static trp_web *web;

// ---- requests

typedef struct answer {
    int status;
    char *text;
    trp_json value; // Of a JSON reply.
    char etag[40], allow[16];
    const char *type;
} answer;

static answer ask_as(const char *method, const char *target, const char *body, const char *etag,
                     bool admin)
{
    char path[8192];
    snprintf(path, sizeof path, "%s", target);
    char *query = strchr(path, '?');
    if (query != NULL)
        *query++ = '\0';
    const trp_web_request request = {.method = method,
                                     .path = path,
                                     .query = query,
                                     .etag = etag,
                                     .base = "http://127.0.0.1:1",
                                     .body = body,
                                     .body_size = body != NULL ? strlen(body) : 0,
                                     .admin = admin};
    trp_web_reply reply;
    answer out = {0};
    trp_web_answer(web, &request, &reply);
    out.status = reply.status;
    out.type = reply.type;
    out.text = calloc(1, reply.body.size + 1);
    memcpy(out.text, reply.body.size > 0 ? reply.body.data : (const void *)"", reply.body.size);
    memcpy(out.etag, reply.etag, sizeof out.etag);
    memcpy(out.allow, reply.allow, sizeof out.allow);
    if (reply.body.size > 0 && strcmp(reply.type, "application/json") == 0)
        assert_int_equal(trp_json_parse(out.text, strlen(out.text), &out.value), TROUPE_OK);
    trp_buffer_free(&reply.body);
    return out;
}

static answer get(const char *format, ...) __attribute__((format(printf, 1, 2)));
static answer get(const char *format, ...)
{
    char target[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(target, sizeof target, format, list);
    va_end(list);
    return ask_as("GET", target, NULL, NULL, true);
}

static void expect_status(const char *target, const answer *got, int status)
{
    if (got->status != status)
        fail_msg("%s: expected %d, got %d: %.500s", target, status, got->status, got->text);
}

// The value at "jobs/0/name": members by name, items by number.
static bool find(trp_json value, const char *way, trp_json *found)
{
    char part[64];
    while (*way != '\0') {
        size_t size = strcspn(way, "/");
        snprintf(part, sizeof part, "%.*s", (int)size, way);
        way += size + (way[size] == '/');
        if (trp_json_is_array(value)) {
            trp_json item = {0};
            for (int i = atoi(part); i >= 0; i--)
                if (!trp_json_next_item(value, &item))
                    return false;
            value = item;
        } else if (!trp_json_member(value, part, &value)) {
            return false;
        }
    }
    *found = value;
    return true;
}

static trp_json need(const answer *got, const char *way)
{
    trp_json found = {0};
    if (!find(got->value, way, &found))
        fail_msg("there is no %s in %.1500s", way, got->text);
    return found;
}

static void expect_text(const answer *got, const char *way, const char *text)
{
    trp_json found = need(got, way);
    if (!trp_json_equals(found, text))
        fail_msg("%s: expected '%s', got %.*s", way, text, (int)found.size, found.at);
}

static double number_at(const answer *got, const char *way)
{
    trp_arena arena = {0};
    double value = NAN;
    troupe_must(trp_json_read(&troupe_type_double, need(got, way), &arena, &value));
    trp_arena_clear(&arena);
    return value;
}

static void expect_number(const answer *got, const char *way, double expected)
{
    double value = number_at(got, way);
    if (fabs(value - expected) > 1e-9 * fmax(1, fabs(expected)))
        fail_msg("%s: expected %g, got %g in %.800s", way, expected, value, got->text);
}

static size_t length_of(const answer *got, const char *way)
{
    trp_json list = need(got, way), item = {0};
    size_t count = 0;
    assert_true(trp_json_is_array(list));
    while (trp_json_next_item(list, &item))
        count++;
    return count;
}

static void done(answer *got)
{
    free(got->text);
}

// A failure says what and with which status.
static void refused(const char *method, const char *target, const char *body, int status,
                    const char *says)
{
    answer got = ask_as(method, target, body, NULL, true);
    expect_status(target, &got, status);
    if (strstr(got.text, says) == NULL)
        fail_msg("%s %s: expected '%s', got %.500s", method, target, says, got.text);
    (void)need(&got, "error/status");
    (void)need(&got, "error/text");
    done(&got);
}

// ---- the routes

static void test_jobs_in_each_state(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs?curves=1");
    expect_status("jobs", &got, 200);
    assert_int_equal(length_of(&got, "jobs"), 4);
    expect_number(&got, "jobs/0/id", 4);
    expect_text(&got, "jobs/0/state", "QUEUED");
    expect_text(&got, "jobs/1/outcome", "STOPPED");
    expect_text(&got, "jobs/2/outcome", "FAILED");
    expect_text(&got, "jobs/2/error",
                "rank 0: the loss at step 14000 is NaN: <script>alert(1)</script>");
    expect_number(&got, "jobs/2/restarts", 1);
    expect_text(&got, "jobs/3/outcome", "DONE");
    expect_text(&got, "jobs/3/name", "digits");
    expect_number(&got, "jobs/3/reports", 200);
    expect_number(&got, "jobs/3/expected_reports", 200);
    expect_number(&got, "jobs/3/cpus", 2);
    expect_text(&got, "jobs/3/curve/metric", "loss");
    assert_in_range(length_of(&got, "jobs/3/curve/points"), 50, 64);
    done(&got);
}

static void test_lists_are_cut_in_pages_and_by_state(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs?limit=2");
    assert_int_equal(length_of(&got, "jobs"), 2);
    expect_number(&got, "next", 3);
    done(&got);
    got = get("/api/v1/jobs?limit=2&before=3");
    assert_int_equal(length_of(&got, "jobs"), 2);
    expect_number(&got, "jobs/0/id", 2);
    done(&got);
    got = get("/api/v1/jobs?state=failed");
    assert_int_equal(length_of(&got, "jobs"), 1);
    expect_number(&got, "jobs/0/id", 2);
    done(&got);
    got = get("/api/v1/jobs?state=active");
    assert_int_equal(length_of(&got, "jobs"), 1);
    expect_number(&got, "jobs/0/id", 4);
    done(&got);
}

static void test_one_job(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs/2");
    expect_status("job", &got, 200);
    expect_number(&got, "asked/hidden", 128);
    expect_number(&got, "config/fitting/epochs", 200);
    expect_text(&got, "metadata/by", "<b>me</b>");
    assert_int_equal(length_of(&got, "attempts"), 2);
    expect_text(&got, "attempts/1/cause", "killed by signal 9");
    expect_text(&got, "attempts/1/checkpoint", "checkpoint_000003");
    expect_text(&got, "changes/0/text", "rate = 0.025");
    assert_int_equal(length_of(&got, "log_ranks"), 1);
    done(&got);
    refused("GET", "/api/v1/jobs/77", NULL, 404, "there is no job 77");
}

static void test_events_are_read_in_pieces(void **state)
{
    (void)state;
    size_t reports = 0, rounds = 0;
    double from = 0;
    bool whole = false;
    while (!whole) {
        answer got = get("/api/v1/jobs/1/reports?limit=37&from=%.0f", from);
        expect_status("reports", &got, 200);
        trp_json list = need(&got, "events"), item = {0}, event;
        size_t count = 0;
        while (trp_json_next_item(list, &item)) {
            count++;
            assert_true(trp_json_member(item, "event", &event));
            reports += trp_json_equals(event, "report");
        }
        assert_in_range(count, 1, 37);
        from = number_at(&got, "next");
        trp_json flag = need(&got, "whole");
        whole = flag.size == 4;
        done(&got);
        assert_in_range(++rounds, 1, 20);
    }
    assert_int_equal(reports, 200);
    answer got = get("/api/v1/jobs/1/reports?from=%.0f", from);
    assert_int_equal(length_of(&got, "events"), 0);
    done(&got);
    refused("GET", "/api/v1/jobs/1/reports?from=99999999", NULL, 400, "behind its end");
    refused("GET", "/api/v1/jobs/4/reports", NULL, 404, "cannot be read");
}

static void test_curves(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs/2/curves");
    expect_status("curves", &got, 200);
    assert_int_equal(length_of(&got, "metrics"), 3);
    expect_text(&got, "metrics/0/name", "loss");
    expect_number(&got, "metrics/0/count", 140);
    assert_int_equal(length_of(&got, "metrics/0/slots"), 140);
    assert_int_equal(length_of(&got, "restarts"), 1);
    assert_int_equal(length_of(&got, "changes"), 1);
    assert_int_equal(length_of(&got, "checkpoints"), 7);
    answer again = ask_as("GET", "/api/v1/jobs/2/curves", NULL, got.etag, true);
    expect_status("curves that are known", &again, 304);
    assert_int_equal(strlen(again.text), 0);
    done(&again);
    done(&got);
    got = get("/api/v1/jobs/2/curves?over=time");
    expect_text(&got, "over", "time");
    expect_number(&got, "elapsed_s", 420);
    done(&got);
    refused("GET", "/api/v1/jobs/2/curves?over=height", NULL, 400, "expected reports or time");
    refused("GET", "/api/v1/jobs/4/curves", NULL, 404, "run");
}

// What is added is seen by the next request, and a journal that another has replaced is read anew.
static void test_curves_grow_and_begin_anew(void **state)
{
    (void)state;
    trp_path path = made_run(&at, "grows", "digits", 1, 0, "{}", at.now);
    for (int i = 1; i <= 3; i++)
        made_report(path.text, i, i, 0.1);
    answer got = get("/api/v1/runs/grows/curves");
    expect_number(&got, "reports", 3);
    done(&got);
    made_report(path.text, 4, 4, 0.1);
    FILE *file = fopen(path.text, "a");
    fputs("{\"event\": \"report\", \"rep", file); // Being written.
    fclose(file);
    got = get("/api/v1/runs/grows/curves");
    expect_number(&got, "reports", 4);
    done(&got);
    trp_path other = made_path("%s/grows/other", at.results);
    made_report(other.text, 1, 1, 0.1);
    assert_int_equal(rename(other.text, path.text), 0);
    got = get("/api/v1/runs/grows/curves");
    expect_number(&got, "reports", 1);
    done(&got);
}

static void test_logs(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs/1/logs?rank=0&from=0");
    expect_number(&got, "from", 0);
    assert_non_null(strstr(got.text, "epoch 1: loss"));
    double size = number_at(&got, "size");
    expect_number(&got, "next", size);
    done(&got);
    got = get("/api/v1/jobs/1/logs?rank=0&tail=100");
    assert_null(strstr(got.text, "epoch 1: loss"));
    assert_non_null(strstr(got.text, "epoch 200: loss"));
    expect_number(&got, "next", size);
    done(&got);
    got = get("/api/v1/jobs/1/logs");
    assert_non_null(strstr(got.text, "1437 rows"));
    done(&got);
    refused("GET", "/api/v1/jobs/1/logs?rank=9", NULL, 404, "rank_00009.log");
    refused("GET", "/api/v1/jobs/1/logs?from=99999999", NULL, 400, "behind its end");
}

// Bytes that are no text, and a character that a piece would end within.
static void test_logs_of_any_bytes(void **state)
{
    (void)state;
    static const char text[] = "a\0b\xff\xfe \x1b[31m \xe2\x82\xac \xe2\x82";
    trp_path path = made_path("%s/digits/log/rank_00003.log", at.results);
    support_write_file(path.text, text, sizeof text - 1);
    answer got = get("/api/v1/jobs/1/logs?rank=3&from=0");
    expect_status("log", &got, 200);
    expect_number(&got, "next", sizeof text - 1 - 2);
    done(&got);
}

// F16.
static void test_usage_and_timeline(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs/1/usage");
    expect_number(&got, "width_s", 2);
    assert_int_equal(length_of(&got, "ranks"), 2);
    assert_int_equal(length_of(&got, "ranks/0/cpus"), 150);
    assert_true(fabs(number_at(&got, "ranks/0/cpus/60") - 0.9) < 0.08);
    assert_true(number_at(&got, "ranks/1/memory_bytes/100") > 1.4e8);
    done(&got);
    got = get("/api/v1/timeline?hours=1");
    assert_int_equal(length_of(&got, "jobs"), 4);
    assert_true(fabs(number_at(&got, "jobs/3/usage/cpus/60") - 1.75) < 0.2);
    done(&got);
    made_submit(&at, &(made_job){6, "old", "digits", "none", "{}", 1, 90000, 0});
    made_end(&at, 6, &(trp_job_end){.version = 1, .ended_at = at.now - 89000});
    got = get("/api/v1/timeline?hours=1");
    assert_int_equal(length_of(&got, "jobs"), 4);
    done(&got);
}

static void test_usage_of_any_lines(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"t\": 1000.5, \"rank\": 0, \"pid\": 1, \"cpu_s\": 1, \"rss_bytes\": 10}",
        "{\"t\": 1001.5, \"rank\": 0, \"pid\": 1, \"cpu_s\": 2, \"rss_bytes\": 30}",
        "{\"t\": \"NaN\", \"rank\": 0}", "nonsense", "{\"t\": 1e300, \"rank\": 1}",
        "{\"t\": 900, \"rank\": 0, \"pid\": 1, \"cpu_s\": 2, \"rss_bytes\": 30}",
        // Another process of the rank begins at none; ten hours pass.
        "{\"t\": 37001.5, \"rank\": 0, \"pid\": 2, \"cpu_s\": 0.5, \"rss_bytes\": 30}",
        "{\"t\": 37002.5, \"rank\": 0, \"pid\": 2, \"cpu_s\": 1.5, \"rss_bytes\": 30}"};
    web_usage usage = {0};
    double sum = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(web_usage_take(&usage, lines[i], strlen(lines[i])));
    assert_int_equal(usage.bad_lines, 4);
    assert_int_equal(usage.count, 1);
    assert_true(usage.width_s * WEB_USAGE_SLOTS > 36002);
    for (size_t i = 0; i < WEB_USAGE_SLOTS; i++)
        sum += usage.ranks[0]->cpu_s[i];
    assert_true(fabs(sum - 2) < 1e-9); // Neither lost nor twice.
    web_usage_clear(&usage);
}

// F16: GPUs that a job used, each and together.
static void test_usage_of_gpus(void **state)
{
    (void)state;
    answer got = get("/api/v1/jobs/2/usage");
    assert_int_equal(length_of(&got, "gpus"), 2);
    expect_text(&got, "gpus/1/gpu", "1");
    expect_text(&got, "gpus/1/name", "Standin A100");
    expect_number(&got, "gpus/1/total_bytes", 85899345920.0);
    assert_int_equal(length_of(&got, "gpus/1/busy"), length_of(&got, "ranks/0/cpus"));
    assert_true(fabs(number_at(&got, "gpus/1/busy/60") - 0.8) < 0.25);
    assert_true(number_at(&got, "gpus/1/memory_bytes/60") > 2e10);
    done(&got);
    got = get("/api/v1/timeline?hours=1");
    double both = number_at(&got, "jobs/2/usage/gpus/60");
    assert_true(both > 1 && both < 2);
    assert_true(number_at(&got, "jobs/2/usage/gpu_memory_bytes/60") > 4e10);
    done(&got);
    got = get("/api/v1/jobs/1/usage"); // It has none.
    assert_null(strstr(got.text, "gpus"));
    done(&got);
}

static void test_gpu_lines_that_are_wrong(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"t\": 1e12, \"gpu\": \"0\", \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": \"0\", \"busy\": \"Infinity\"}",
        "{\"t\": 1001, \"gpu\": \"0\", \"busy\": \"NaN\"}",
        "{\"t\": 1001, \"gpu\": \"0\", \"busy\": 1.5}",
        "{\"t\": 1001, \"gpu\": \"0\", \"busy\": -0.5}",
        "{\"t\": 1001, \"gpu\": \"0\", \"busy\": \"much\"}",
        "{\"t\": 1001, \"gpu\": \"0\", \"used_bytes\": -1}",
        "{\"t\": 1001, \"gpu\": \"0\", \"used_bytes\": 1e999}",
        "{\"t\": 1001, \"gpu\": \"0\", \"total_bytes\": \"Infinity\"}",
        "{\"t\": \"NaN\", \"gpu\": \"0\", \"busy\": 0.5}",
        "{\"t\": 900, \"gpu\": \"0\", \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": \"\", \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": 7, \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": null, \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": \"0\\\"} 1\\n\", \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": \"0\", \"name\": \"\\u001b[2J\", \"busy\": 0.5}",
        "{\"t\": 1001, \"gpu\": \"0\", \"busy\": ",
        "{\"t\": 1001, \"gpu\": "
        "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
    };
    static const char *const good[] = {
        "{\"t\": 1000, \"rank\": 0, \"pid\": 1, \"cpu_s\": 1, \"rss_bytes\": 10}",
        "{\"t\": 1001, \"gpu\": \"0\", \"name\": \"A\", \"busy\": 0.25, \"used_bytes\": 8, "
        "\"total_bytes\": 16}",
        "{\"t\": 1001.5, \"gpu\": \"0\", \"busy\": 0.75}",
        "{\"t\": 1002, \"gpu\": \"0\", \"used_bytes\": 4}",
        // Ten hours pass.
        "{\"t\": 37002, \"gpu\": \"0\", \"busy\": 1, \"used_bytes\": 16}"};
    web_usage usage = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(web_usage_take(&usage, good[i], strlen(good[i])));
        assert_int_equal(usage.bad_lines, i * sizeof bad / sizeof *bad);
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            assert_true(web_usage_take(&usage, bad[k], strlen(bad[k])));
            if (usage.bad_lines != i * sizeof bad / sizeof *bad + k + 1)
                fail_msg("it was taken: %s", bad[k]);
        }
    }
    assert_int_equal(usage.count, 1);
    assert_int_equal(usage.gpu_count, 1);
    const web_usage_gpu *it = usage.gpus[0];
    assert_string_equal(it->id, "0");
    assert_true(it->total_bytes == 16 && it->last_busy == 1 && it->last_used == 16);
    // The means of what was measured, each by its own number of samples.
    assert_int_equal(it->busy_samples[0], 2);
    assert_true(it->busy[0] == 0.5 && it->memory[0] == 6);
    size_t last = (size_t)(36002 / usage.width_s);
    assert_int_equal(it->busy_samples[last], 1);
    assert_true(it->busy[last] == 1 && it->memory[last] == 16);
    web_usage_clear(&usage);
    assert_int_equal(usage.gpu_count, 0);
}

static void test_runs_and_sweeps(void **state)
{
    (void)state;
    answer got = get("/api/v1/runs");
    assert_true(length_of(&got, "runs") >= 4);
    done(&got);
    got = get("/api/v1/runs/alone");
    expect_text(&got, "trainer", "spiral");
    expect_text(&got, "state", "LOST");
    expect_number(&got, "reports", 30);
    done(&got);
    got = get("/api/v1/runs/digits");
    expect_text(&got, "status", "TROUPE_OK"); // As of a job.
    done(&got);
    got = get("/api/v1/runs/alone/reports?limit=1");
    expect_text(&got, "events/0/event", "open");
    done(&got);
    got = get("/api/v1/runs/digits/logs?tail=60");
    assert_non_null(strstr(got.text, "epoch 200"));
    done(&got);
    refused("GET", "/api/v1/runs/none", NULL, 404, "there is no run 'none'");
    got = get("/api/v1/sweeps");
    expect_text(&got, "sweeps/0/name", "digits_sweep");
    expect_number(&got, "sweeps/0/begun", 27);
    expect_number(&got, "sweeps/0/failed", 1);
    expect_number(&got, "sweeps/0/running", 2);
    done(&got);
    got = get("/api/v1/sweeps/digits_sweep?limit=1");
    expect_text(&got, "importance/0/name", "fitting.batch"); // As it is made up.
    expect_text(&got, "importance/3/name", "activation");
    assert_true(number_at(&got, "importance/0/share") > 0.5);
    assert_true(number_at(&got, "importance/3/share") > 0);
    done(&got);
    got = get("/api/v1/sweeps/digits_sweep?limit=5&from=10");
    assert_int_equal(length_of(&got, "trials"), 5);
    expect_text(&got, "trials/1/state", "ERROR");
    expect_text(&got, "trials/1/error", "rank 0 was killed by signal 9");
    expect_number(&got, "trials/2/reports", 60);
    assert_int_equal(length_of(&got, "trials/2/points"), 60);
    expect_number(&got, "next", 15);
    expect_text(&got, "metric", "loss");
    expect_text(&got, "searcher", "auto: TPE");
    done(&got);
    refused("GET", "/api/v1/sweeps/none", NULL, 404, "there is no sweep 'none'");
}

// Values of a long trial keep their places.
static void test_a_long_trial(void **state)
{
    (void)state;
    trp_path path = made_path("%s/long/trials.jsonl", at.results);
    made_line(path.text, "{\"event\": \"sweep\", \"metric\": \"loss\", \"trials\": 1}");
    for (int i = 1; i <= 1000; i++)
        made_line(path.text,
                  "{\"event\": \"report\", \"trial\": \"t\", \"number\": %d, "
                  "\"elapsed_s\": 1, \"metrics\": {\"loss\": %d}}",
                  i, i);
    answer got = get("/api/v1/sweeps/long");
    expect_number(&got, "trials/0/stride", 16);
    expect_number(&got, "trials/0/points/0", 1);
    expect_number(&got, "trials/0/points/1", 17);
    expect_number(&got, "trials/0/points/62", 993);
    done(&got);
}

// What is kept of a sweep has a bound in bytes, however long the configs and errors of its trials.
static void test_a_large_sweep(void **state)
{
    (void)state;
    enum { TRIALS = 60, SIZE = 500 << 10 };
    trp_path path = made_path("%s/large/trials.jsonl", at.results);
    char *long_one = calloc(1, SIZE + 1);
    assert_non_null(long_one);
    memset(long_one, 'x', SIZE);
    FILE *file = fopen(path.text, "we");
    assert_non_null(file);
    fprintf(file, "{\"event\": \"sweep\", \"metric\": \"loss\", \"trials\": %d}\n", TRIALS);
    for (int i = 0; i < TRIALS; i++)
        fprintf(file,
                "{\"event\": \"submitted\", \"trial\": \"t%d\", \"config\": \"%s\"}\n"
                "{\"event\": \"report\", \"trial\": \"t%d\", \"number\": 1, \"metrics\": "
                "{\"loss\": %d}}\n",
                i, long_one, i, TRIALS - i);
    fprintf(file, "{\"event\": \"ended\", \"trial\": \"t%d\", \"state\": \"ERROR\"}\n", TRIALS - 1);
    assert_int_equal(fclose(file), 0);
    free(long_one);
    answer got = {0};
    for (bool whole = false; !whole; done(&got)) {
        got = get("/api/v1/sweeps/large?limit=1");
        whole = need(&got, "whole").size == strlen("true");
        size_t kept = trp_arena_size(&web->sweeps.first->arena);
        if (kept > WEB_SWEEP_BYTES_MAX)
            fail_msg("%zu bytes are kept of a sweep", kept);
    }
    got = get("/api/v1/sweeps/large?from=59");
    expect_number(&got, "begun", TRIALS); // Trials are small.
    expect_number(&got, "best_value", 2); // The best of those that have not failed.
    expect_number(&got, "trials/0/reports", 1);
    assert_true(number_at(&got, "texts_left_out") > 0);
    done(&got);
    size_t all = 0;
    for (const web_sweep *it = web->sweeps.first; it != NULL; it = it->next)
        all += trp_arena_size(&it->arena);
    assert_true(all <= WEB_SWEEPS_BYTES_MAX);
    assert_int_equal(unlink(path.text), 0);
}

// G20.
static void test_models(void **state)
{
    (void)state;
    answer got = get("/api/v1/models");
    assert_string_equal(got.text, "{\"digits\":[1,2,3]}");
    done(&got);
    got = get("/api/v1/models/digits?limit=2");
    assert_int_equal(length_of(&got, "versions"), 2);
    expect_number(&got, "versions/0/version", 3);
    expect_number(&got, "next", 2);
    done(&got);
    got = get("/api/v1/models/digits?before=2");
    assert_int_equal(length_of(&got, "versions"), 1);
    expect_number(&got, "versions/0/version", 1);
    done(&got);
    const char *const names[] = {"2", "production"};
    for (int i = 0; i < 2; i++) {
        got = get("/api/v1/models/digits/%s", names[i]);
        expect_number(&got, "version", 2);
        expect_text(&got, "aliases/0", "production");
        expect_number(&got, "metrics/loss", 0.5);
        expect_number(&got, "lineage/job", 1);
        expect_number(&got, "lineage/checkpoint", 1);
        expect_number(&got, "lineage/kept_program_bytes", 0);
        expect_text(&got, "files/0/name", "weights.safetensors");
        done(&got);
    }
    got = get("/api/v1/models/digits/latest");
    expect_number(&got, "version", 3);
    done(&got);
    refused("GET", "/api/v1/models/nets", NULL, 404, "nets");
    refused("GET", "/api/v1/models/digits/9", NULL, 404, "9");
    refused("GET", "/api/v1/models/digits/a%40b", NULL, 400, "@");
}

static void figures(void *user, const char *route, trp_buffer *out)
{
    (void)user;
    trp_buffer_printf(out, ", \"of\": \"%s\"", route);
}

static void test_routes_without_their_tokens(void **state)
{
    (void)state;
    answer got = get("/api/v1/routes");
    expect_text(&got, "routes/0/route", "/digits");
    expect_text(&got, "routes/0/of", "/digits");
    expect_number(&got, "routes/0/answered", 18211);
    assert_null(strstr(got.text, "not to be seen"));
    done(&got);
}

static void test_without_a_server(void **state)
{
    (void)state;
    answer got = get("/api/v1/server");
    assert_non_null(strstr(got.text, "\"alive\":false"));
    (void)need(&got, "why");
    done(&got);
    got = get("/metrics");
    assert_non_null(strstr(got.text, "\ntroupe_server_up 0\n"));
    done(&got);
    refused("POST", "/api/v1/jobs/4/stop", "", 503, "no train server runs");
    refused("POST", "/api/v1/jobs/4/modify", "{\"rate\": 1}", 503, "no train server runs");
    refused("POST", "/api/v1/jobs/4/priority", "{\"priority\": 1}", 503, "no train server runs");
    refused("POST", "/api/v1/jobs/1/stop", "", 409, "job 1 has ended");
}

// ---- the state of a job by its lock

static void test_a_job_is_alive_by_its_lock(void **state)
{
    (void)state;
    int ready[2];
    made_submit(&at, &(made_job){5, "alive", "digits", "alive", "{}", 1, 10, 0});
    made_run(&at, "alive", "digits", 1, 0, "{}", at.now - 9);
    answer got = get("/api/v1/jobs/5");
    expect_text(&got, "state", "LOST"); // It began, and nobody runs it.
    done(&got);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        char path[4096];
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
        snprintf(path, sizeof path, "%s/jobs/00000005/alive", at.state);
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        if (fcntl(fd, F_SETLK, &lock) == 0 && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    got = get("/api/v1/jobs/5");
    expect_text(&got, "state", "RUNNING");
    expect_number(&got, "runner", child);
    done(&got);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    got = get("/api/v1/jobs/5");
    expect_text(&got, "state", "LOST");
    done(&got);
    close(ready[0]);
    close(ready[1]);
}

// ---- what is wrong

static void test_paths_and_queries_that_are_wrong(void **state)
{
    (void)state;
    refused("GET", "/api/v1/nothing", NULL, 404, "openapi.json");
    refused("GET", "/api/v1/jobs/", NULL, 404, "");
    refused("GET", "/api/v1/jobs//reports", NULL, 404, "");
    refused("GET", "/api/v1/jobs/1/", NULL, 404, "");
    refused("GET", "/api/v1/jobs/one", NULL, 404, "expected its number");
    refused("GET", "/api/v1/jobs/-1", NULL, 404, "expected its number");
    refused("GET", "/api/v1/jobs/99999999999999999999999", NULL, 404, "expected its number");
    refused("GET", "/api/v1/jobs?limit=0", NULL, 400, "from 1 to 200");
    refused("GET", "/api/v1/jobs?limit=99999999999999999999", NULL, 400, "from 1 to 200");
    refused("GET", "/api/v1/jobs?limit=-3", NULL, 400, "from 1 to 200");
    refused("GET", "/api/v1/jobs?limit=2.5", NULL, 400, "from 1 to 200");
    refused("GET", "/api/v1/jobs?limit=", NULL, 400, "from 1 to 200");
    refused("GET", "/api/v1/jobs?limit=%31&limit=2", NULL, 400, "given twice");
    refused("GET", "/api/v1/jobs?lim=2", NULL, 400, "no parameter 'lim'");
    refused("GET", "/api/v1/jobs?%00=2", NULL, 400, "percent sign");
    refused("GET", "/api/v1/jobs?limit=%2", NULL, 400, "percent sign");
    refused("GET", "/api/v1/jobs?state=asleep", NULL, 400, "expected queued");
    refused("PUT", "/api/v1/jobs", NULL, 405, "expected GET");
    refused("GET", "/api/v1/jobs/1/stop", NULL, 405, "expected POST");
    refused("POST", "/", NULL, 405, "expected GET");
    refused("GET", "/api/v1/jobs", "{}", 400, "takes no body");
    answer got = ask_as("DELETE", "/api/v1/jobs/1", NULL, NULL, true);
    assert_string_equal(got.allow, "GET");
    done(&got);
}

static void test_paths_that_would_lead_elsewhere(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "..",    ".",           "%2e%2e", "..%2f..%2fetc", "%2fetc%2fpasswd", "%00",     "a%00b",
        "%",     "%zz",         "%1",     "..%5c",         "%c0%ae%c0%ae",    ".hidden", "a%0ab",
        "a%2fb", "%e2%80%aeabc"};
    static const char *const routes[] = {"/api/v1/jobs/%s",         "/api/v1/jobs/%s/logs",
                                         "/api/v1/runs/%s",         "/api/v1/runs/%s/logs",
                                         "/api/v1/sweeps/%s",       "/api/v1/models/%s",
                                         "/api/v1/models/digits/%s"};
    trp_path secret = made_path("%s/secret/run.json", folder);
    made_line(secret.text, "{\"version\": 1, \"trainer\": \"secret\"}");
    for (size_t r = 0; r < sizeof routes / sizeof *routes; r++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            char target[256];
            snprintf(target, sizeof target, "/");
            const char *mark = strstr(routes[r], "%s");
            snprintf(target, sizeof target, "%.*s%s%s", (int)(mark - routes[r]), routes[r],
                     parts[p], mark + 2);
            refused("GET", target, NULL, 404, "");
        }
    refused("GET", "/api/v1/runs/..%2fsecret", NULL, 404, "");
    // Nor by links.
    char *link = support_path(at.results, "linked"),
         *file = support_path(at.results, "digits/log/rank_00007.log");
    assert_int_equal(symlink("/etc/passwd", file), 0);
    refused("GET", "/api/v1/runs/digits/logs?rank=7", NULL, 500, "cannot be read");
    free(link);
    free(file);
}

static void test_long_and_odd_targets(void **state)
{
    (void)state;
    static char target[6000];
    snprintf(target, sizeof target, "/api/v1/runs/");
    memset(target + strlen(target), 'a', 5000);
    refused("GET", target, NULL, 404, "");
    snprintf(target, sizeof target, "/api/v1/jobs?state=");
    memset(target + strlen(target), 'a', 5000);
    refused("GET", target, NULL, 400, "too long");
    refused("GET", "", NULL, 404, "");
    refused("GET", "*", NULL, 404, "");
    refused("GET", "/\x1b[31m\xff", NULL, 404, "\\\\x1b");
}

static void test_bodies_that_are_wrong(void **state)
{
    (void)state;
    static char large[TRP_WEB_BODY_MAX + 2];
    refused("POST", "/api/v1/jobs/4/modify", "", 400, "no member to modify");
    refused("POST", "/api/v1/jobs/4/modify", "{", 400, "the body");
    refused("POST", "/api/v1/jobs/4/modify", "[1]", 400, "no JSON object");
    refused("POST", "/api/v1/jobs/4/modify", "{\"a\": 1, \"a\": 2}", 400, "the body");
    refused("POST", "/api/v1/jobs/4/modify", "{\"a\": \"\\u0000\"}", 400, "the body");
    refused("POST", "/api/v1/jobs/4/priority", "{}", 400, "no member priority");
    refused("POST", "/api/v1/jobs/4/priority", "{\"priority\": \"high\"}", 400, "priority");
    refused("POST", "/api/v1/jobs/4/priority", "{\"priority\": 1e99}", 400, "priority");
    refused("POST", "/api/v1/jobs/99/stop", "", 404, "there is no job 99");
    memset(large, ' ', sizeof large - 1);
    refused("POST", "/api/v1/jobs/4/stop", large, 413, "expected at most");
    memset(large, '[', sizeof large - 1);
    large[1000] = '\0';
    refused("POST", "/api/v1/jobs/4/stop", large, 400, "the body");
}

static void test_damaged_folders(void **state)
{
    (void)state;
    trp_path path = made_path("%s/jobs/00000020/job.json", at.state);
    support_write_file(path.text, "{\"version\":", 11);
    answer got = get("/api/v1/jobs/20");
    expect_status("a damaged job", &got, 200);
    (void)need(&got, "problem");
    done(&got);
    path = made_path("%s/jobs/00000021/end", at.state);
    support_write_file(path.text, "\xc1\xff\x00", 3);
    got = get("/api/v1/jobs/21");
    expect_status("a job without job.json", &got, 200);
    expect_text(&got, "state", "QUEUED");
    done(&got);
    path = made_path("%s/jobs/no number/job.json", at.state);
    support_write_file(path.text, "{}", 2);
    path = made_path("%s/broken/run.json", at.results);
    support_write_file(path.text, "[[[", 3);
    got = get("/api/v1/runs/broken");
    expect_status("a damaged run", &got, 200);
    assert_true(length_of(&got, "notes") > 0);
    done(&got);
    path = made_path("%s/routes/bad.json", at.state);
    support_write_file(path.text, "}", 1);
    got = get("/api/v1/routes");
    assert_int_equal(length_of(&got, "routes"), 1);
    done(&got);
    path = made_path("%s/pipe/run.json", at.results);
    made_line(path.text, "{\"version\": 1, \"trainer\": \"p\"}");
    path = made_path("%s/pipe/journal.jsonl", at.results);
    assert_int_equal(mkfifo(path.text, 0600), 0); // It is not waited for.
    got = get("/api/v1/runs/pipe/curves");
    expect_status("a pipe", &got, 200);
    done(&got);
}

// ---- pages and rights

// F15.
static void test_pages_and_who_may_see_what(void **state)
{
    (void)state;
    static const char *const pages[] = {"/",          "/app.js",   "/app.css",
                                        "/charts.js", "/theme.js", "/icon.svg"};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        answer got = ask_as("GET", pages[i], NULL, NULL, false);
        expect_status(pages[i], &got, 200);
        assert_true(strlen(got.text) > 100);
        // Nothing is taken from elsewhere, and nothing is inline that the policy forbids.
        if (strstr(got.type, "svg") == NULL)
            for (const char *it = got.text; (it = strstr(it, "://")) != NULL; it++)
                assert_int_equal(strncmp(it, "://www.w3.org/2000/svg", 22), 0);
        assert_null(strstr(got.text, "innerHTML"));
        assert_null(strstr(got.text, "<style"));
        assert_null(strstr(got.text, "onclick=\""));
        answer again = ask_as("GET", pages[i], NULL, got.etag, false);
        expect_status(pages[i], &again, 304);
        done(&again);
        done(&got);
    }
    for (size_t i = 0; i < web_route_count; i++) {
        answer got = ask_as(web_routes[i].method, web_routes[i].path, NULL, NULL, false);
        expect_status(web_routes[i].path, &got, 403);
        done(&got);
    }
}

// F15.
static void test_the_document_has_each_route(void **state)
{
    (void)state;
    answer got = get("/api/v1/openapi.json");
    expect_status("openapi", &got, 200);
    expect_text(&got, "openapi", "3.0.3");
    trp_json paths = need(&got, "paths"), path, operation, curl, list;
    for (size_t i = 0; i < web_route_count; i++) {
        const web_route *it = &web_routes[i];
        if (!trp_json_member(paths, it->path, &path) ||
            !trp_json_member(path, it->method[0] == 'G' ? "get" : "post", &operation))
            fail_msg("the document has no %s %s", it->method, it->path);
        assert_true(trp_json_member(operation, "x-curl", &curl));
        assert_true(curl.size > strlen(it->path));
        size_t wanted = 0, there = 0;
        for (const char *brace = it->path; (brace = strchr(brace, '{')) != NULL; brace++)
            wanted++;
        for (size_t p = 0; p < WEB_PARAMETERS_MAX && it->parameters[p].name != NULL; p++)
            wanted++;
        assert_true(trp_json_member(operation, "parameters", &list));
        for (trp_json item = {0}; trp_json_next_item(list, &item);)
            there++;
        assert_int_equal(there, wanted);
        assert_true(trp_json_member(operation, "requestBody", &list) == (it->body != NULL));
    }
    done(&got);
}

// ---- a real run

static void test_a_real_run(void **state)
{
    (void)state;
    char *argv[] = {"test_web", NULL};
    troupe_result *result;
    line_settings config = line_plain(12);
    troupe_must(troupe_start(1, argv, .cpus = 2));
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .storage = at.results,
                             .name = "real", .console = TROUPE_CONSOLE_OFF));
    troupe_result_free(&result);
    troupe_stop();
    answer got = get("/api/v1/runs/real");
    expect_status("a real run", &got, 200);
    expect_text(&got, "outcome", "DONE");
    expect_text(&got, "trainer", "line_fit");
    expect_number(&got, "reports", 12);
    expect_number(&got, "ranks", 2);
    expect_number(&got, "checkpoint_count", 12);
    expect_number(&got, "newest_checkpoints/0/report", 12);
    expect_text(&got, "config/note", "a \"note\" \xC3\xA4");
    done(&got);
    got = get("/api/v1/runs/real/curves");
    expect_text(&got, "metrics/1/name", "slope");
    assert_int_equal(length_of(&got, "checkpoints"), 12);
    done(&got);
    got = get("/api/v1/runs/real/reports");
    assert_true(length_of(&got, "events") >= 26);
    done(&got);
}

// ---- memory

// What is kept of runs does not grow with how many are asked for.
static void test_many_runs(void **state)
{
    (void)state;
    for (int i = 0; i < WEB_RUNS_KEPT + 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "many_%03d", i);
        trp_path path = made_run(&at, name, "digits", 1, 0, "{}", at.now);
        made_report(path.text, 1, 1, 0.1);
    }
    for (int i = 0; i < WEB_RUNS_KEPT + 20; i++) {
        answer got = get("/api/v1/runs/many_%03d/curves", i);
        expect_number(&got, "reports", 1);
        done(&got);
        assert_in_range(web->runs.count, 1, WEB_RUNS_KEPT);
    }
}

static void fill_folder(const char *where)
{
    at = made_begin(where);
    made_jobs(&at);
    made_sweep(&at, "digits_sweep", 27);
    made_route(&at);
    char *run = support_path(at.results, "digits");
    for (int i = 0; i < 3; i++) {
        char *checkpoint = stored_checkpoint(run, i, i + 1);
        troupe_must(troupe_push(line, "digits", checkpoint, NULL, .repository = at.models));
        free(checkpoint);
    }
    troupe_must(troupe_repository_alias("digits@2", "production", .repository = at.models));
    free(run);
}

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    fill_folder(folder);
    troupe_must(trp_web_open(
        &(trp_web_options){
            .state = at.state, .models = at.models, .results = at.results, .figures = figures},
        &web));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    trp_web_close(web);
    made_over(&at);
    support_directory_remove(folder);
    return 0;
}

// `test_web fill FOLDER`: for who looks at the page (browser.sh): fills it, with a job that goes on
// until this program is killed.
static int fill(const char *where)
{
    fill_folder(where);
    made_going(&at, 5, 120);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "fill") == 0)
        return fill(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_in_each_state),
        cmocka_unit_test(test_lists_are_cut_in_pages_and_by_state),
        cmocka_unit_test(test_one_job),
        cmocka_unit_test(test_events_are_read_in_pieces),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_curves_grow_and_begin_anew),
        cmocka_unit_test(test_logs),
        cmocka_unit_test(test_logs_of_any_bytes),
        cmocka_unit_test(test_usage_and_timeline),
        cmocka_unit_test(test_usage_of_any_lines),
        cmocka_unit_test(test_usage_of_gpus),
        cmocka_unit_test(test_gpu_lines_that_are_wrong),
        cmocka_unit_test(test_runs_and_sweeps),
        cmocka_unit_test(test_a_long_trial),
        cmocka_unit_test(test_a_large_sweep),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_routes_without_their_tokens),
        cmocka_unit_test(test_without_a_server),
        cmocka_unit_test(test_a_job_is_alive_by_its_lock),
        cmocka_unit_test(test_paths_and_queries_that_are_wrong),
        cmocka_unit_test(test_paths_that_would_lead_elsewhere),
        cmocka_unit_test(test_long_and_odd_targets),
        cmocka_unit_test(test_bodies_that_are_wrong),
        cmocka_unit_test(test_damaged_folders),
        cmocka_unit_test(test_pages_and_who_may_see_what),
        cmocka_unit_test(test_the_document_has_each_route),
        cmocka_unit_test(test_a_real_run),
        cmocka_unit_test(test_many_runs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
