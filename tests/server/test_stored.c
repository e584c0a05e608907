// test_stored.c: versions that are trained and served by programs without their code: this one, the
// shell and HTTP. The model is stored_program.c's.
// timeout: 180
// cost: 30
#include "pushed.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/alive.h>
#include <train/checkpoint.h>

static int start(void **state)
{
    (void)state;
    (void)pushed_begin();
    troupe_must(troupe_start(0, NULL));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)troupe_stop();
    pushed_end();
    return 0;
}

static double metric_of(const troupe_result *result, const char *name)
{
    return troupe_result_metric(result, name);
}

// ---- without a server

static void test_a_version_says_what_program_it_has(void **state)
{
    (void)state;
    char path[512];
    struct stat about;
    snprintf(path, sizeof path, "%s/slope/000001/program", models);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/bare/000001/program", models);
    assert_int_not_equal(stat(path, &about), 0);
}

static void take_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job, (void)event;
    ++*(_Atomic int *)user;
}

// G16.
static void test_a_ref_is_trained_by_a_child(void **state)
{
    (void)state;
    _Atomic int told = 0;
    troupe_follower follower = {.size = sizeof follower, .report = take_report, .user = &told};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit_stored(
        "slope@production", "{\"rate\": 0.02, \"fitting\": {\"epochs\": 5}}", &follower, &job,
        .train = TROUPE_OPTIONS(troupe_train_options, .ranks = 2, .storage = storage,
                                .name = "child", .console = TROUPE_CONSOLE_OFF)));
    assert_int_equal(troupe_job_number(job), 0);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), 5);
    assert_true(metric_of(result, "rate") == 0.02);
    assert_non_null(strstr(troupe_result_path(result), "/runs/child"));
    assert_non_null(troupe_result_checkpoint(result));
    said(troupe_job_leave(&job), TROUPE_UNSUPPORTED, "is one of this program");
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(told, 5);
}

static const troupe_train_options *plain(const char *name)
{
    static troupe_train_options options;
    options = (troupe_train_options){
        .size = sizeof options, .storage = storage, .name = name, .console = TROUPE_CONSOLE_OFF};
    return &options;
}

// The loss of the first epoch tells what the run began with.
static void test_a_run_begins_anew_or_with_the_versions_weights(void **state)
{
    (void)state;
    double first[2];
    for (int i = 0; i < 2; i++) {
        troupe_job *job;
        troupe_result *result;
        troupe_must(troupe_submit_stored(
            "slope@1", i ? "{\"fitting\": {\"epochs\": 4}}" : "{\"fitting\": {\"epochs\": 1}}",
            NULL, &job, .train = plain("weights"), .from_version = i > 0));
        troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
        assert_int_equal(troupe_result_status(result), TROUPE_OK);
        assert_int_equal(troupe_result_reports(result), 1);
        first[i] = metric_of(result, "loss");
        troupe_result_free(&result);
        troupe_job_close(&job);
    }
    assert_true(first[1] < first[0] / 10);
}

static void test_what_is_asked_of_a_child_happens(void **state)
{
    (void)state;
    troupe_job *job;
    troupe_result *result;
    troupe_job_status now;
    const char *slow = "{\"step_us\": 2000, \"fitting\": {\"epochs\": 100000}}";
    troupe_must(troupe_submit_stored("slope", slow, NULL, &job, .train = plain("slow")));
    do {
        troupe_job_status_get(job, &now);
        usleep(1000);
    } while (now.reports < 3);
    assert_int_equal(now.state, TROUPE_JOB_RUNNING);
    assert_true(now.pids[0] > 0);
    troupe_job_stop(job);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_true(troupe_result_stopped(result));
    troupe_result_free(&result);
    troupe_job_close(&job);
    // The last handle that is closed ends it.
    troupe_must(troupe_submit_stored("slope", slow, NULL, &job, .train = plain("closed")));
    do {
        troupe_job_status_get(job, &now);
        usleep(1000);
    } while (now.reports < 1);
    pid_t pid = now.pids[0];
    troupe_job_close(&job);
    for (int i = 0; i < SUPPORT_SOON_MS && support_process_lives(pid); i++)
        usleep(1000);
    assert_false(support_process_lives(pid));
}

// The stored program that runs below a process; 0: none does.
static pid_t program_below(pid_t parent)
{
    pid_t found = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *it; !found && (it = readdir(processes));) {
        char path[300], exe[600];
        int above = 0;
        snprintf(path, sizeof path, "/proc/%s/exe", it->d_name);
        ssize_t size = readlink(path, exe, sizeof exe - 1);
        exe[size > 0 ? size : 0] = '\0';
        snprintf(path, sizeof path, "/proc/%s/stat", it->d_name);
        FILE *file = strstr(exe, "/slope/000001/program") ? fopen(path, "re") : NULL;
        if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &above) == 1 && above == parent)
            found = (pid_t)strtol(it->d_name, NULL, 10);
        if (file)
            fclose(file);
    }
    closedir(processes);
    return found;
}

static bool is_gone(void *pid)
{
    return !support_process_lives(*(pid_t *)pid);
}

static void test_the_death_of_a_child_is_told(void **state)
{
    (void)state;
    troupe_job *job;
    troupe_result *result;
    troupe_job_status now;
    troupe_must(troupe_submit_stored("slope",
                                     "{\"step_us\": 2000, \"fitting\": {\"epochs\": 100000}}", NULL,
                                     &job, .train = plain("killed")));
    do {
        troupe_job_status_get(job, &now);
        usleep(1000);
    } while (now.reports < 1);
    pid_t rank = now.pids[0], child = program_below(getpid());
    assert_true(child > 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_PEER_LOST);
    assert_string_equal(troupe_result_error(result), "the process that did the job has died");
    assert_false(trp_alive_has_ranks(troupe_result_path(result))); // Nothing of it is left then.
    assert_true(support_wait_until(is_gone, &rank, SUPPORT_SOON_MS));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

static bool has_reported(void *path)
{
    char *text = support_exists(path) ? support_read_file(path) : NULL;
    bool has = text && strstr(text, "\"event\": \"report\"");
    free(text);
    return has;
}

static void test_a_child_ends_with_who_asked(void **state)
{
    (void)state;
    char *journal = support_path(storage, "orphan/journal.jsonl");
    pid_t client = fork();
    if (client == 0) {
        (void)execl(support_setting("TROUPE_TOOL"), "troupe", "train", "--quiet", "--model",
                    "slope", "--name", "orphan", "--storage", storage, "--config",
                    "{\"step_us\": 2000, \"fitting\": {\"epochs\": 100000}}", (char *)NULL);
        _exit(127);
    }
    assert_true(support_wait_until(has_reported, journal, SUPPORT_SOON_MS));
    pid_t child = program_below(client);
    assert_true(child > 0);
    assert_int_equal(kill(client, SIGKILL), 0);
    assert_int_equal(waitpid(client, NULL, 0), client);
    assert_true(support_wait_until(is_gone, &child, SUPPORT_SOON_MS));
    free(journal);
}

// ---- what is wrong

static void refuses(const char *ref, const char *json, troupe_status expected, const char *text)
{
    troupe_job *job = NULL;
    said(troupe_submit_stored(ref, json, NULL, &job, .train = plain("refused")), expected, text);
    assert_null(job);
}

// G24.
static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    refuses("slope@7", NULL, TROUPE_NOT_FOUND, "slope");
    refuses("nothing", NULL, TROUPE_NOT_FOUND, "bare");
    refuses("slope", "{\"lr\": 0.1}", TROUPE_NOT_FOUND,
            "slope@1: the settings that were asked for have \"lr\", which is no member of "
            "slope_config: its members are rate, step_us, fails, label, path, fitting");
    refuses("slope", "{\"rate\": \"high\"}", TROUPE_WRONG_TYPE, "slope@1: the settings");
    refuses("slope", "{\"rate\": ", TROUPE_MALFORMED, "the settings");
    refuses("slope", "7", TROUPE_WRONG_TYPE, "expected an object");
    refuses("bare", NULL, TROUPE_UNSUPPORTED, "bare@1 was pushed without its program");
    refuses("served", NULL, TROUPE_UNSUPPORTED, "served@1 was pushed without .data");
}

static void test_a_program_that_is_not_itself_is_not_started(void **state)
{
    (void)state;
    char path[512], other[520], byte;
    snprintf(path, sizeof path, "%s/served/000001/program", models);
    snprintf(other, sizeof other, "%s.away", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, 5000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
    refuses("served", NULL, TROUPE_CORRUPT, "served/000001/program is damaged: it has ");
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
    close(fd);
    assert_int_equal(chmod(path, 0722), 0);
    refuses("served", NULL, TROUPE_INVALID, "nobody else may write to");
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(rename(path, other), 0);
    refuses("served", NULL, TROUPE_UNSUPPORTED, "served@1 has no program any more");
    assert_int_equal(symlink(other, path), 0);
    refuses("served", NULL, TROUPE_IO, "cannot open ");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, path), 0);
}

// A copy that does not get to its start is not stored.
static void test_a_program_that_cannot_be_asked_is_not_kept(void **state)
{
    (void)state;
    char arguments[600];
    snprintf(arguments, sizeof arguments, "early %s %s/once", checkpoints, top);
    assert_int_equal(run_program(arguments), 1);
    if (!strstr(output, "has ended with status 7 before it answered"))
        support_fail_output(output, "expected why it was not pushed");
    snprintf(arguments, sizeof arguments, "early %s %s/twice 127", checkpoints, top);
    assert_int_equal(run_program(arguments), 1);
    if (!strstr(output, "ended with status 127, as one does that lacks a shared library"))
        support_fail_output(output, "expected a word of its libraries");
    troupe_versions versions;
    troupe_must(troupe_repository_list("slope", &versions));
    assert_int_equal(versions.count, 1);
}

static void test_an_import_takes_a_program_only_when_it_is_told_to(void **state)
{
    (void)state;
    troupe_model_ref ref;
    troupe_job *job;
    troupe_result *result;
    char *out = support_path(top, "out"), *program = support_path(top, "out/program");
    troupe_must(troupe_repository_export("slope", out));
    troupe_must(troupe_repository_import(out, "without", &ref));
    refuses(ref.text, NULL, TROUPE_UNSUPPORTED, "or left out by an import");
    expect_tool(0, "models show without", "kept         no program: it is trained, ");
    expect_tool(0, "models show slope --json", "\"kept_program_bytes\": ");
    if (strstr(output, "\"kept_program_bytes\": 0"))
        support_fail_output(output, "the program of slope was kept");
    troupe_must(troupe_repository_import(out, "with", &ref, .with_program = true));
    troupe_must(troupe_submit_stored(ref.text, NULL, NULL, &job, .train = plain("imported")));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(truncate(program, 5000), 0);
    said(troupe_repository_import(out, "cut", &ref, .with_program = true), TROUPE_CORRUPT,
         "out/program is damaged");
    expect_tool(1, "models import --with-program out cut", "out/program is damaged");
    expect_tool(0, "models import out cut", "cut@");
    free(out), free(program);
}

// Lists the program among the files of an exported version, with its right size and checksum.
static void list_program(const char *exported, const char *program)
{
    unsigned char *data;
    size_t size;
    trp_buffer text = {0};
    char *path = support_path(exported, "manifest.json"), *was = support_read_file(path);
    const char *first = strstr(was, "{\"path\": "), *end = strstr(was, ",\n\"checksum\"");
    assert_true(first && end);
    troupe_must(trp_file_read(program, &data, &size));
    trp_buffer_append(&text, was, (size_t)(first - was));
    trp_buffer_printf(&text,
                      "{\"path\": \"program\", \"rank\": 0, \"size\": %zu, \"xxh64\": "
                      "\"%016" PRIx64 "\", \"kind\": \"file\"},\n",
                      size, trp_digest(data, size));
    trp_buffer_append(&text, first, (size_t)(end - first));
    trp_manifest_seal(&text);
    support_write_file(path, text.data, text.size);
    trp_buffer_free(&text);
    trp_free(data);
    free(path), free(was);
}

static void test_an_import_takes_no_program_as_another_file(void **state)
{
    (void)state;
    troupe_model_ref ref;
    char *out = support_path(top, "listed"), *program = support_path(top, "listed/program");
    troupe_must(troupe_repository_export("slope", out));
    list_program(out, program);
    for (int i = 0; i < 2; i++)
        said(troupe_repository_import(out, "listed", &ref, .with_program = i > 0),
             TROUPE_WRONG_TYPE, "listed has 'program', which is not a plain file of a version");
    free(out), free(program);
}

// ---- services

static double predict(troupe_stored_service *service, double x)
{
    troupe_tensor in = troupe_tensor_of(TROUPE_FLOAT64, &x, 1), y;
    troupe_must(troupe_stored_predict(service, &in, &y));
    assert_int_equal(y.shape[0], 1);
    double got = *(const double *)y.data;
    troupe_arena_reset();
    return got;
}

// G16.
static void test_a_ref_is_served_by_its_program(void **state)
{
    (void)state;
    troupe_stored_service *service, *other = NULL;
    troupe_stored_service_where where;
    float single = 1;
    troupe_tensor odd = troupe_tensor_of(TROUPE_FLOAT32, &single, 1), y;
    char *socket = support_path(top, "routes/slope.sock");
    troupe_must(troupe_serve_stored("served@1", "/slope", &service, .socket = socket));
    troupe_stored_service_where_get(service, &where);
    assert_string_equal(where.socket, socket);
    assert_string_equal(where.url, "");
    assert_true(predict(service, 3) > 5.5 && predict(service, 3) < 6.5); // It has learned 2 x.
    said(troupe_stored_predict(service, &odd, &y), TROUPE_WRONG_TYPE, "");
    said(troupe_serve_stored("served@1", "/slope", &other, .socket = socket), TROUPE_EXISTS,
         "served@1: ");
    assert_null(other);
    troupe_must(troupe_stored_service_stop(&service, 5000));
    assert_false(support_exists(socket));
    said(troupe_serve_stored("served", "slope", &other, .socket = socket), TROUPE_INVALID, "route");
    said(troupe_serve_stored("served", "/a", &other, .config = "{\"lr\": 1}", .socket = socket),
         TROUPE_NOT_FOUND, "its members are rate, ");
    said(troupe_serve_stored("bare", "/a", &other, .socket = socket), TROUPE_UNSUPPORTED,
         "was pushed without its program");
    // Where it has died that is said.
    troupe_must(troupe_serve_stored("served@1", "/slope", &service, .socket = socket));
    troupe_stored_service_where_get(service, &where);
    assert_true(predict(service, 1) > 0);
    assert_int_equal(kill(where.pid, SIGKILL), 0);
    troupe_tensor in = troupe_tensor_of(TROUPE_FLOAT64, (double[]){1}, 1);
    said(troupe_stored_predict(service, &in, &y), TROUPE_PEER_LOST, "");
    said(troupe_stored_service_stop(&service, 5000), TROUPE_PEER_LOST, "has died");
    free(socket);
}

// ---- sweeps

// G16.
static void test_a_ref_is_tuned(void **state)
{
    (void)state;
    const troupe_param space[] = {TROUPE_NAMED_LOG_UNIFORM("rate", 1e-4, 0.05),
                                  TROUPE_NAMED_CHOICE("fitting.batch", 4, 6)};
    const troupe_param odd[] = {TROUPE_NAMED_UNIFORM("lr", 0, 1)};
    const troupe_param twice[] = {TROUPE_NAMED_UNIFORM("rate", 0, 1),
                                  TROUPE_NAMED_UNIFORM("rate", 0, 1)};
    troupe_train_options options = *plain(NULL);
    troupe_sweep *sweep;
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_tune_stored("slope@production", "{\"fitting\": {\"epochs\": 2}}", space,
                                   &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 4,
                                   .concurrent = 2, .seed = 7, .train = &options));
    assert_int_equal(troupe_sweep_count(sweep), 4);
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->reports, 2);
    }
    const troupe_trial *best = troupe_sweep_best(sweep);
    const char *json = troupe_sweep_best_json(sweep);
    if (!strstr(json, "\"fitting\": {\"epochs\": 2, \"batch\": ") || !strstr(json, "\"rate\": "))
        fail_msg("the best trial's settings are %s", json);
    // The sweep's record says so, too.
    char *sweep_folder = support_path(troupe_result_path(best->result), "..");
    troupe_best_trial found;
    troupe_must(troupe_best_trial_get(sweep_folder, &found));
    assert_string_equal(found.model, "slope@1");
    assert_string_equal(found.config, json);
    free(sweep_folder);
    // They train the same again.
    troupe_must(troupe_submit_stored("slope@1", json, NULL, &job, .train = plain("again")));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_true(metric_of(result, "loss") == best->best_metric);
    troupe_result_free(&result);
    troupe_job_close(&job);
    troupe_sweep_free(&sweep);
    said(troupe_tune_stored("slope", NULL, odd, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                            .train = &options),
         TROUPE_INVALID, "its members are rate, ");
    said(troupe_tune_stored("slope", NULL, twice, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                            .scheduler = troupe_asha(.grace = 1)),
         TROUPE_INVALID, "space[1] (rate): it is in the space already");
    said(troupe_tune_stored("bare", NULL, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE),
         TROUPE_UNSUPPORTED, "was pushed without its program");
}

// G14: the space that the model brought along travels with the version.
static void test_a_ref_is_tuned_over_its_own_space(void **state)
{
    (void)state;
    troupe_train_options options = *plain(NULL);
    troupe_sweep *sweep;
    troupe_best_trial best;
    int batches = 0;
    options.name = NULL;
    troupe_must(troupe_tune_stored_own(
        "slope@production", NULL, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 6,
        .seed = 3, .name = "own", .search = TROUPE_SEARCH_RANDOM, .train = &options));
    char *folder = support_path(storage, "own"), *path = support_path(folder, "trials.jsonl");
    char *text = support_read_file(path);
    for (const char *at = text; (at = strstr(at, "\"params\": {")) != NULL; at++) {
        static const char says[] = "\"params\": {\"label\": \"any\"";
        bool any = strncmp(at, says, sizeof says - 1) == 0;
        const char *batch = strstr(at, "fitting.batch"), *end = strchr(at, '\n');
        assert_int_equal(batch != NULL && batch < end, any);
        batches += any;
    }
    assert_in_range(batches, 1, 5);
    assert_null(strstr(text, "\"ranks\": {"));
    troupe_must(troupe_best_trial_get(folder, &best));
    assert_non_null(strstr(best.config, "\"fitting\": {"));
    assert_non_null(strstr(best.config, "\"epochs\": 2"));
    assert_string_equal(best.config, troupe_sweep_best_json(sweep));
    free(text), free(path), free(folder);
    troupe_sweep_free(&sweep);
    said(troupe_tune_stored_own("spaceless", NULL, &sweep, .metric = "loss",
                                .goal = TROUPE_MINIMIZE),
         TROUPE_NOT_FOUND, "spaceless@1 was pushed without a space (TROUPE_SPACE)");
}

// From the shell, over its own space and over one that a file says.
static void test_a_ref_is_tuned_from_the_shell(void **state)
{
    (void)state;
    expect_tool(0,
                "tune -n 3 --name shell --storage runs --model slope - <<'END'\n"
                "{\"metric\": \"loss\", \"goal\": \"min\"}\nEND",
                "with {");
    assert_non_null(strstr(output, "\"epochs\": 2"));
    expect_tool(0, "tune train-best runs/shell", "Run name | status");
    expect_tool(0, "models list && ls runs/shell/best/run.json", "run.json");
    expect_tool(0,
                "tune -n 2 --json --name said --storage runs --model slope@1 - <<'END'\n"
                "{\"metric\": \"loss\", \"goal\": \"min\", \"space\": {\"rate\": {\"uniform\": [0, "
                "0.05]}, \"fitting.epochs\": 1}}\nEND",
                "\"fitting\": {\"epochs\": 1}}");
    expect_tool(1, "tune --model none@1 - <<'END'\n{\"metric\": \"loss\", \"goal\": \"min\"}\nEND",
                "none");
    expect_tool(1,
                "tune --storage runs --model slope - <<'END'\n"
                "{\"metric\": \"loss\", \"goal\": \"min\", \"space\": {\"w[2]\": 1}}\nEND",
                "an item of an array");
    expect_tool(1, "tune --model slope - <<'END'\n{\"goal\": \"min\"}\nEND", "no \"metric\"");
    expect_tool(2, "tune --model slope - -- true", "usage: ");
}

// Beside its caller, with a row that hangs on another.
static void test_a_sweep_over_a_ref_is_started(void **state)
{
    (void)state;
    const troupe_param space[] = {TROUPE_NAMED_CHOICE_TEXT("label", "one", "other"),
                                  TROUPE_NAMED_UNIFORM("rate", 0, 0.05),
                                  TROUPE_NAMED_ONLY_WHEN_TEXT("rate", "label", "one"),
                                  TROUPE_NAMED_CHOICE("fitting.epochs", 1, 2),
                                  TROUPE_NAMED_CHOICE("fitting.batch", 4, 6),
                                  TROUPE_NAMED_ONLY_WHEN("fitting.batch", "fitting.epochs", 2)};
    troupe_train_options options = *plain(NULL);
    troupe_sweep *sweep;
    troupe_must(troupe_sweep_start_stored("slope", NULL, space, &sweep, .metric = "loss",
                                          .goal = TROUPE_MINIMIZE, .trials = 4,
                                          .search = TROUPE_SEARCH_RANDOM, .train = &options));
    troupe_must(troupe_sweep_wait(sweep, 3 * SUPPORT_SOON_MS));
    assert_int_equal(troupe_sweep_count(sweep), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
    assert_non_null(strstr(troupe_sweep_best_json(sweep), "\"label\": \""));
    troupe_sweep_free(&sweep);
}

// ---- through a train server

static int start_server(void **state)
{
    (void)state;
    serve_jobs(8);
    unsetenv("TROUPE_SERVER");
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    setenv("TROUPE_SERVER", "none", 1);
    return tool("server stop --jobs", output, sizeof output);
}

// G16, F07.
static void test_a_ref_is_trained_by_a_server(void **state)
{
    (void)state;
    _Atomic int told = 0;
    troupe_follower follower = {.size = sizeof follower, .report = take_report, .user = &told};
    troupe_train_options options = *plain("served");
    troupe_job *job, *found;
    troupe_result *result;
    options.ranks = 2;
    options.key = "night";
    for (int i = 0; i < 2; i++) { // Again it is the same job.
        troupe_must(
            troupe_submit_stored("slope", "{\"rate\": 0.03}", &follower, &job, .train = &options));
        assert_int_equal(troupe_job_number(job), 1);
        troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
        assert_string_equal(troupe_result_error(result), "");
        assert_int_equal(troupe_result_status(result), TROUPE_OK);
        assert_int_equal(troupe_result_reports(result), 3);
        assert_true(metric_of(result, "rate") == 0.03);
        troupe_result_free(&result);
        support_await_counter(&told, 3 * (i + 1)); // To leave it is not to be told the rest.
        troupe_must(troupe_job_leave(&job));
        assert_int_equal(told, 3 * (i + 1));
    }
    troupe_must(troupe_job_find("night", &found));
    assert_int_equal(troupe_job_number(found), 1);
    troupe_must(troupe_job_leave(&found));
    said(troupe_submit_stored("slope", NULL, NULL, &job, .train = &options), TROUPE_EXISTS, "rate");
    refuses("slope", "{\"lr\": 0.1}", TROUPE_NOT_FOUND, "its members are rate, ");
}

static void refuses_post(const char *body, int code, const char *text)
{
    int got = post_job(body, output, sizeof output);
    if (got != code || !strstr(output, text))
        support_fail_output(output, "%s: expected %d and \"%s\", got %d", body, code, text, got);
}

// F21.
static void test_a_ref_is_submitted_over_http(void **state)
{
    (void)state;
    troupe_job *job;
    troupe_result *result;
    refuses_post(
        "{\"model\": \"slope@production\", \"config\": {\"rate\": 0.04, \"label\": \"x\", "
        "\"fitting\": {\"epochs\": 2}}, \"ranks\": 2, \"key\": \"web\", \"name\": \"web\"}",
        202, "\"model\":\"slope@1\",\"key\":\"web\"}");
    troupe_must(troupe_job_find("web", &job));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), 2);
    assert_true(metric_of(result, "rate") == 0.04);
    char *results = support_path(top, "troupe_results/web"); // The server's folder.
    assert_string_equal(troupe_result_path(result), results);
    free(results);
    troupe_result_free(&result);
    troupe_must(troupe_job_leave(&job));
}

static void test_http_sets_what_it_may_alone(void **state)
{
    (void)state;
    static const char *const members[] = {"storage", "env",     "program", "from",   "folder",
                                          "data",    "command", "open",    "options"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char body[100], text[100];
        (void)snprintf(body, sizeof body, "{\"model\": \"slope\", \"%s\": \"/tmp\"}", members[i]);
        (void)snprintf(text, sizeof text,
                       "has the member \\\"%s\\\": expected config, model, ranks", members[i]);
        refuses_post(body, 400, text);
    }
    refuses_post("{\"model\": \"slope\", \"config\": {\"path\": \"/etc/passwd\"}}", 400,
                 "config.path is not a number or flag");
    refuses_post("{\"model\": \"slope\", \"config\": {\"lr\": 1}}", 400, "its members are rate, ");
    refuses_post("{\"model\": \"slope\", \"config\": {\"rate\": \"high\"}}", 400, "rate");
    refuses_post("{\"model\": \"slope\", \"config\": 7}", 400, "expected an object");
    refuses_post("{\"model\": \"slope\", \"name\": \"../out\"}", 400, "name");
    refuses_post("{\"model\": \"slope\", \"ranks\": -1}", 400, "ranks");
    refuses_post("{\"model\": \"slope@9\"}", 404, "slope");
    refuses_post("{\"model\": \"../models/slope\"}", 400, "");
    refuses_post("{\"model\": \"bare\"}", 501, "was pushed without its program");
    refuses_post("{}", 400, "has no member model");
    refuses_post("[]", 400, "no JSON object");
}

static bool is_routed(void *unused)
{
    (void)unused;
    reply got = ask((asked){"POST", "/shell", NULL, NULL, "{\"instances\": [3]}", token});
    bool is = got.code == 200 && strstr(got.body, "\"predictions\"");
    reply_free(&got);
    return is;
}

static void test_a_ref_is_served_from_the_shell(void **state)
{
    (void)state;
    char command[600], line[400] = "", pid[32] = "";
    snprintf(command, sizeof command, "sh -c 'echo $$; exec %s serve slope@production /shell'",
             support_setting("TROUPE_TOOL"));
    FILE *shell = popen(command, "r");
    assert_non_null(fgets(pid, sizeof pid, shell));
    assert_non_null(fgets(line, sizeof line, shell));
    assert_non_null(strstr(line, "/shell is served at "));
    assert_true(support_wait_until(is_routed, NULL, SUPPORT_SOON_MS));
    assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), SIGTERM), 0);
    assert_int_equal(pclose(shell), 0);
    expect_tool(1, "serve slope@7 /shell", "troupe serve: ");
    expect_tool(
        2, "serve slope",
        "troupe serve: expected a version and a route, found 1 argument\nusage: troupe serve");
    expect_tool(2, "serve slope /a --port 8000", "--port is of --http, which is not there");
    expect_tool(2, "serve slope /a --replicas 0", "is not a number of 1 or more");
    expect_tool(0, "serve --help", "--replicas N");
}

static void test_a_ref_is_trained_from_the_shell(void **state)
{
    (void)state;
    expect_tool(0,
                "submit --follow --key shell --name shell --storage runs -n 2 --model slope@1 "
                "--config '{\"rate\": 0.01}'",
                "key shell: ");
    expect_tool(0,
                "train --model slope --name local --storage runs -n 2 --from-version --config "
                "'{\"fitting\": {\"epochs\": 5}}'",
                "");
    char *path = support_path(storage, "local/end");
    assert_true(support_exists(path));
    free(path);
    expect_tool(1, "train --model slope --config '{\"lr\": 1}'", "its members are rate, ");
    expect_tool(1, "submit --model nothing", "troupe submit: ");
    expect_tool(2, "train --model slope -- true", "--model, which has its own");
    expect_tool(2, "train --from-version -- true", "--from-version is of no use without --model");
    expect_tool(2, "train --model slope --folder /", "--folder is of no use with --model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_version_says_what_program_it_has),
        cmocka_unit_test(test_a_ref_is_trained_by_a_child),
        cmocka_unit_test(test_a_run_begins_anew_or_with_the_versions_weights),
        cmocka_unit_test(test_what_is_asked_of_a_child_happens),
        cmocka_unit_test(test_the_death_of_a_child_is_told),
        cmocka_unit_test(test_a_child_ends_with_who_asked),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_a_program_that_is_not_itself_is_not_started),
        cmocka_unit_test(test_a_program_that_cannot_be_asked_is_not_kept),
        cmocka_unit_test(test_an_import_takes_a_program_only_when_it_is_told_to),
        cmocka_unit_test(test_an_import_takes_no_program_as_another_file),
        cmocka_unit_test(test_a_ref_is_served_by_its_program),
        cmocka_unit_test(test_a_ref_is_tuned),
        cmocka_unit_test(test_a_ref_is_tuned_over_its_own_space),
        cmocka_unit_test(test_a_ref_is_tuned_from_the_shell),
        cmocka_unit_test(test_a_sweep_over_a_ref_is_started),
        cmocka_unit_test_setup(test_a_ref_is_trained_by_a_server, start_server),
        cmocka_unit_test(test_a_ref_is_submitted_over_http),
        cmocka_unit_test(test_http_sets_what_it_may_alone),
        cmocka_unit_test(test_a_ref_is_served_from_the_shell),
        cmocka_unit_test_teardown(test_a_ref_is_trained_from_the_shell, stop_server),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
