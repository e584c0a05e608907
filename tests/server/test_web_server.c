// test_web_server.c: the web interface beside a train server: what the server says counts, wishes
// reach the runner, and the folders are enough once the server is gone.
#include "made.h"
#include "site.h"

#include <runtime/codec/json.h>
#include <server/web.h>

static int ask(trp_web *web, const char *method, const char *path, const char *body, char **text)
{
    trp_web_reply reply;
    trp_web_answer(web,
                   &(trp_web_request){.method = method,
                                      .path = path,
                                      .body = body,
                                      .body_size = body != NULL ? strlen(body) : 0,
                                      .admin = true},
                   &reply);
    *text = calloc(1, reply.body.size + 1);
    memcpy(*text, reply.body.data, reply.body.size);
    trp_buffer_free(&reply.body);
    return reply.status;
}

static void expect(trp_web *web, const char *method, const char *path, const char *body, int status,
                   const char *says)
{
    char *text;
    int got = ask(web, method, path, body, &text);
    if (got != status || strstr(text, says) == NULL)
        fail_msg("%s %s: expected %d and '%s', got %d: %.800s", method, path, status, says, got,
                 text);
    free(text);
}

typedef struct wanted {
    trp_web *web;
    const char *path, *says;
} wanted;

static bool is_said(void *context)
{
    const wanted *it = (const wanted *)context;
    char *text;
    int status = ask(it->web, "GET", it->path, NULL, &text);
    bool said = status == 200 && strstr(text, it->says) != NULL;
    free(text);
    return said;
}

static void await(trp_web *web, const char *path, const char *says)
{
    wanted it = {web, path, says};
    if (!support_wait_until(is_said, &it, SUPPORT_SOON_MS))
        expect(web, "GET", path, NULL, 200, says);
}

// F21.
static void test_jobs_of_a_server(void **state)
{
    (void)state;
    site it;
    trp_arena arena = {0};
    trp_wire_job job;
    trp_web *web;
    site_open(&it, 1);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(trp_web_open(&(trp_web_options){.state = it.folder}, &web), TROUPE_OK);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "a", .reports = 1000000, .each_ms = 1),
        TROUPE_OK);
    assert_int_equal(
        site_submit(&it, link, &arena, &job, .submission = "b", .reports = 1000000, .each_ms = 1),
        TROUPE_OK);
    await(web, "/api/v1/jobs/1", "\"state\":\"RUNNING\"");
    expect(web, "GET", "/api/v1/jobs", NULL, 200, "\"server\":true");
    expect(web, "GET", "/api/v1/server", NULL, 200, "\"alive\":true");
    expect(web, "GET", "/metrics", NULL, 200, "troupe_jobs{state=\"running\"} 1\n");
    // The other one waits, with a reason; its priority may change.
    expect(web, "GET", "/api/v1/jobs/2", NULL, 200, "\"state\":\"QUEUED\"");
    expect(web, "GET", "/api/v1/jobs/2", NULL, 200, "\"why\":\"");
    expect(web, "POST", "/api/v1/jobs/2/priority", "{\"priority\": 7}", 200, "\"revision\":");
    expect(web, "GET", "/api/v1/jobs/2", NULL, 200, "\"priority\":7");
    // It may be paused, go on, and have another number of ranks.
    expect(web, "POST", "/api/v1/jobs/2/pause", "{\"pause\": \"now\"}", 400, "pause: ");
    expect(web, "POST", "/api/v1/jobs/2/pause", "{\"wait\": true}", 400,
           "the body has the member \\\"wait\\\": expected pause");
    expect(web, "POST", "/api/v1/jobs/2/pause", "", 200, "\"revision\":");
    expect(web, "GET", "/api/v1/jobs/2", NULL, 200, "\"state\":\"PAUSED\"");
    expect(web, "POST", "/api/v1/jobs/2/pause", "{\"pause\": false}", 200, "\"revision\":");
    expect(web, "GET", "/api/v1/jobs/2", NULL, 200, "\"state\":\"QUEUED\"");
    expect(web, "POST", "/api/v1/jobs/2/ranks", "{}", 400, "no member ranks");
    expect(web, "POST", "/api/v1/jobs/2/ranks", "{\"ranks\": 0}", 400, "expected 1 to 1024");
    expect(web, "POST", "/api/v1/jobs/2/ranks", "{\"ranks\": 1}", 200, "\"revision\":");
    expect(web, "POST", "/api/v1/jobs/1/stop", "{\"nwo\": true}", 400, "expected now");
    // A stop reaches the runner.
    expect(web, "POST", "/api/v1/jobs/1/stop", "{}", 200, "\"revision\":1");
    await(web, "/api/v1/jobs/1", "\"outcome\":\"STOPPED\"");
    expect(web, "POST", "/api/v1/jobs/1/stop", "{}", 409, "has ended");
    await(web, "/api/v1/jobs/2", "\"state\":\"RUNNING\"");
    expect(web, "POST", "/api/v1/jobs/2/modify", "{\"rate\": 0.5}", 200, "\"revision\":");
    // Without the server what it has done is there still, and wishes are refused.
    trp_server_link_close(&link);
    site_kill(&it);
    expect(web, "GET", "/api/v1/jobs", NULL, 200, "\"server\":false");
    expect(web, "GET", "/api/v1/jobs/1", NULL, 200, "\"outcome\":\"STOPPED\"");
    expect(web, "GET", "/api/v1/jobs/2", NULL, 200, "\"state\":\"RUNNING\"");
    expect(web, "POST", "/api/v1/jobs/2/stop", "", 503, "no train server runs");
    // The next one is found.
    site_start(&it);
    await(web, "/api/v1/jobs", "\"server\":true");
    await(web, "/api/v1/jobs/2", "\"state\":\"RUNNING\"");
    expect(web, "POST", "/api/v1/jobs/2/stop", "{\"now\": true}", 200, "\"revision\":");
    await(web, "/api/v1/jobs/2", "\"outcome\":\"CANCELLED\"");
    trp_web_close(web);
    site_close(&it);
    trp_arena_clear(&arena);
}

static void test_a_line_for_curl_is_one_for_a_shell(void **state)
{
    trp_web *web;
    (void)state;
    assert_int_equal(trp_web_open(&(trp_web_options){.state = "/no/it's"}, &web), TROUPE_OK);
    expect(web, "GET", "/api/v1/openapi.json", NULL, 200, "$(cat '/no/it'\\\\''s/token')");
    trp_web_close(web);
}

// F16: the GPUs of a job that runs, as the server grants them and as they were measured.
static void test_gpus_of_a_job(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_wire_job job;
    trp_web *web;
    setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    site it = {.folder = support_directory_make(),
               .storage = support_directory_make(),
               .how = {.cpus = 1, .gpus = 4}};
    made_folders at = {it.folder, it.storage, NULL, (double)time(NULL)};
    site_start(&it);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(trp_web_open(&(trp_web_options){.state = it.folder}, &web), TROUPE_OK);
    assert_int_equal(site_submit(&it, link, &arena, &job, .submission = "a", .reports = 1000000,
                                 .each_ms = 1, .gpus = 2),
                     TROUPE_OK);
    await(web, "/api/v1/jobs/1", "\"state\":\"RUNNING\"");
    expect(web, "GET", "/api/v1/jobs/1", NULL, 200, "\"gpus\":2,\"gpu_ids\":\"0,1\"");
    expect(web, "GET", "/api/v1/timeline", NULL, 200, "\"gpus\":4,\"jobs\":");
    // Nothing has been measured.
    expect(web, "GET", "/metrics", NULL, 200, "troupe_job_gpus{job=\"1\"} 2\n");
    expect(web, "GET", "/metrics", NULL, 200,
           "# TYPE troupe_job_gpu_utilization gauge\n# HELP troupe_job_gpu_memory_bytes ");
    (void)made_run(&at, "a", "nap", 1, 0, "{\"rate\": 0.1}", at.now);
    made_gpus(&at, "a", 2, at.now - 600, 3); // Long ago.
    made_gpus(&at, "a", 1, at.now, 1);
    expect(web, "GET", "/metrics", NULL, 200,
           "troupe_job_gpu_utilization{job=\"1\",gpu=\"0\"} 0.82\n# HELP ");
    expect(web, "GET", "/metrics", NULL, 200,
           "troupe_job_gpu_memory_bytes{job=\"1\",gpu=\"0\"} 1.9e+10\n");
    expect(web, "GET", "/api/v1/jobs/1/usage", NULL, 200,
           "\"gpu\":\"1\",\"name\":\"Standin A100\",\"total_bytes\":85899345920,\"busy\":[");
    expect(web, "GET", "/api/v1/timeline", NULL, 200, "\"gpu_memory_bytes\":[");
    expect(web, "GET", "/api/v1/openapi.json", NULL, 200, "`gpu_memory_bytes` where they");
    expect(web, "POST", "/api/v1/jobs/1/stop", "{}", 200, "\"revision\":1");
    await(web, "/api/v1/jobs/1", "\"outcome\":\"STOPPED\"");
    trp_web_close(web);
    trp_server_link_close(&link);
    site_close(&it);
    trp_arena_clear(&arena);
}

// `test_web_server host FOLDER`: for who looks at the page (browser.sh): a server in FOLDER/state
// with a job that runs, and makes reports until this program is killed.
static _Noreturn void host(const char *where)
{
    made_folders at = made_begin(where);
    site it = {.folder = at.state, .storage = at.results, .how = {.cpus = 1, .gpus = TROUPE_NONE}};
    trp_arena arena = {0};
    trp_wire_job job;
    setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
    assert_int_equal(chmod(at.state, 0700), 0);
    site_start(&it);
    trp_server_link *link = site_connect(&it, NULL);
    assert_int_equal(site_submit(&it, link, &arena, &job, .submission = "live", .reports = 1000000,
                                 .each_ms = 1),
                     TROUPE_OK);
    trp_path path = made_run(&at, "live", "nap", 1, 0, "{\"rate\": 0.1}", at.now);
    for (int i = 1;; i++) {
        made_report(path.text, i, i * 0.1, 0.01);
        nap_ms(100);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "nap") == 0)
        return nap_main(argv);
    if (argc == 3 && strcmp(argv[1], "host") == 0)
        host(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_of_a_server),
        cmocka_unit_test(test_a_line_for_curl_is_one_for_a_shell),
        cmocka_unit_test(test_gpus_of_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
