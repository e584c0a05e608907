// test_process.c: programs that know nothing of the library train as ranks: what they are told,
// what they report, how they are stopped, and that nothing of them is left, whoever dies.
#include <support.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 2 };

static char *storage;

// Makes a config of a shell script, which has the storage as $1.
static troupe_process_config script(const char *text)
{
    static troupe_text arguments[5];
    arguments[0] = "sh";
    arguments[1] = "-c";
    arguments[2] = text;
    arguments[3] = "script";
    arguments[4] = storage;
    return (troupe_process_config){.arguments = {arguments, 5}};
}

static char *text_of(const char *name)
{
    char *path = support_path(storage, name), *text = support_read_file(path);
    free(path);
    if (text == NULL)
        fail_msg("%s was not written", name);
    return text;
}

static void expect_file(const char *name, const char *wanted)
{
    char *text = text_of(name);
    if (strstr(text, wanted) == NULL)
        fail_msg("%s has no '%s':\n%s", name, wanted, text);
    free(text);
}

static void remove_file(const char *name)
{
    char *path = support_path(storage, name);
    (void)unlink(path);
    free(path);
}

// The process whose number is in the file, once it is there.
static bool is_written(void *path)
{
    char *text = support_read_file((const char *)path);
    bool whole = text != NULL && strchr(text, '\n') != NULL;
    free(text);
    return whole;
}

static pid_t await_pid(const char *name)
{
    char *path = support_path(storage, name);
    if (!support_wait_until(is_written, path, SUPPORT_SOON_MS))
        fail_msg("%s does not come", name);
    char *text = support_read_file(path);
    pid_t pid = (pid_t)atoi(text);
    free(text);
    free(path);
    remove_file(name);
    return pid;
}

static void expect_end(pid_t pid)
{
    if (!support_processes_end(&pid, 1, SUPPORT_SOON_MS))
        fail_msg("process %d is left", (int)pid);
}

// ---- what a program is told, and says

static const char learner[] =
    "step=0\n"
    "[ -z \"$TROUPE_RESTORE_DIR\" ] || step=$(cat \"$TROUPE_RESTORE_DIR/step\")\n"
    "while [ $step -lt 4 ]; do\n"
    "    step=$((step + 1))\n"
    "    echo \"rank $RANK does step $step\"\n"
    "    [ $RANK = 1 ] || echo $step >\"$TROUPE_CHECKPOINT_DIR/step\"\n"
    "    echo $step >\"$TROUPE_CHECKPOINT_DIR/of_$RANK\"\n"
    "    echo '{\"metrics\": {\"loss\": '$((10 - step))'}, \"checkpoint\": "
    "\"'$TROUPE_CHECKPOINT_DIR'\"}' >&$TROUPE_REPORT_FD\n"
    "    read -r answer <&3\n"
    "    echo \"$TORCHELASTIC_RESTART_COUNT $answer\" >>$1/answers_$RANK\n"
    "    [ -z \"$(ls \"$TROUPE_CHECKPOINT_DIR\")\" ] || exit 9\n"
    "    if [ $RANK = 1 ] && [ $step = 3 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n"
    "        while [ ! -e $1/learner/checkpoints/checkpoint_000002 ]; do sleep 0.01; done\n"
    "        kill -9 $$\n"
    "    fi\n"
    "done\n";

// D19, G05: a program reports and has checkpoints; killed, it goes on from the last one.
static void test_a_program_trains_and_recovers(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config = script(learner);
    troupe_must(troupe_train(troupe_process, &config, &result, .ranks = RANKS, .storage = storage,
                             .name = "learner", .restarts = 1));
    assert_int_equal(troupe_result_reports(result), 4);
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_true(troupe_result_metric(result, "loss") == 6);
    char *checkpoint = strdup(troupe_result_checkpoint(result));
    assert_non_null(strstr(checkpoint, "checkpoint_000003"));
    troupe_result_free(&result);
    // Steps 1 to 3 once each, and the last one after the restart.
    char *answers = text_of("answers_1");
    assert_string_equal(answers, "0 {\"report\": 1, \"stop\": false, \"save\": true}\n"
                                 "0 {\"report\": 2, \"stop\": false, \"save\": true}\n"
                                 "0 {\"report\": 3, \"stop\": false, \"save\": true}\n"
                                 "1 {\"report\": 4, \"stop\": false, \"save\": true}\n");
    free(answers);
    expect_file("learner/log/rank_00001.log", "rank 1 does step 4");
    for (int rank = 0; rank < RANKS; rank++) {
        char name[32];
        snprintf(name, sizeof name, "of_%d", rank);
        char *path = support_path(checkpoint, name), *text = support_read_file(path);
        assert_string_equal(text, "4\n");
        free(text);
        free(path);
    }
    free(checkpoint);
    expect_file("learner/run.json", "script");
}

static char *variable(const char *file, const char *key)
{
    char *text = text_of(file), line[128], *value = NULL;
    snprintf(line, sizeof line, "\n%s=", key);
    char *at = strstr(text, line);
    if (at == NULL)
        fail_msg("%s has no %s:\n%s", file, key, text);
    at += strlen(line);
    value = strndup(at, strcspn(at, "\n"));
    free(text);
    return value;
}

static void expect_variable(const char *file, const char *key, const char *wanted)
{
    char *value = variable(file, key);
    if (strcmp(value, wanted) != 0)
        fail_msg("%s: %s is %s, expected %s", file, key, value, wanted);
    free(value);
}

// D19: torchrun's environment. MASTER_PORT is of the group, and another one in each attempt.
static void test_the_environment_is_that_of_torchrun(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config =
        script("own=$1/env_$TORCHELASTIC_RESTART_COUNT; (echo; env; echo \"at=$(pwd)\") "
               ">$own.new$RANK; mv $own.new$RANK $own$RANK\n"
               "while [ ! -e ${own}0 ] || [ ! -e ${own}1 ]; do sleep 0.01; done\n"
               "[ $TORCHELASTIC_RESTART_COUNT = 1 ]\n");
    static const troupe_text more[] = {"OWN=a = b", "ROLE_NAME=trainer"};
    config.environment = (troupe_array_troupe_text){more, 2};
    config.json = "{\"rate\": 0.5}";
    config.folder = "/";
    troupe_must(troupe_train(troupe_process, &config, &result, .ranks = RANKS, .storage = storage,
                             .name = "where", .restarts = 3, .env = "FROM_ENV=1",
                             .gpus_per_rank = 1));
    troupe_result_free(&result);
    static const char *const wanted[][2] = {
        {"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"GROUP_RANK", "0"},
        {"GROUP_WORLD_SIZE", "1"},
        {"ROLE_RANK", "1"},
        {"ROLE_WORLD_SIZE", "2"},
        {"ROLE_NAME", "trainer"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"TORCHELASTIC_RESTART_COUNT", "1"},
        {"TORCHELASTIC_MAX_RESTARTS", "3"},
        {"TORCHELASTIC_RUN_ID", "where"},
        {"TROUPE_REPORT_FD", "3"},
        {"TROUPE_SAVE_DUE", "1"},
        {"TROUPE_CONFIG", "{\"rate\": 0.5}"},
        {"OWN", "a = b"},
        {"FROM_ENV", "1"},
        {"PYTHONUNBUFFERED", "1"},
        {"OMP_NUM_THREADS", "1"},
        {"CUDA_VISIBLE_DEVICES", "0,1"}, // LOCAL_RANK is the number of its own.
        {"at", "/"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        expect_variable("env_11", wanted[i][0], wanted[i][1]);
    char *one = variable("env_10", "MASTER_PORT"), *other = variable("env_11", "MASTER_PORT"),
         *last = variable("env_01", "MASTER_PORT");
    assert_string_equal(one, other);
    assert_string_not_equal(one, last);
    free(one);
    free(other);
    free(last);
}

// Lines of output, without a descriptor; what is printed besides is in the log.
static void test_marked_lines_are_reports(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config = script(
        "mkdir -p $1/own_$RANK; echo hello >$1/own_$RANK/file_$RANK; echo before; echo oops >&2\n"
        "echo 'TROUPE_REPORT {\"metrics\": {\"loss\": 3}, \"checkpoint\": \"'$1/own_$RANK'\"}'\n"
        "printf 'TROUPE_REPORT {\"metrics\": {\"loss\": NaN}}'\n");
    troupe_must(troupe_train(troupe_process, &config, &result, .ranks = RANKS, .storage = storage,
                             .name = "marked"));
    assert_int_equal(troupe_result_reports(result), 2);
    double loss = troupe_result_metric(result, "loss");
    assert_true(loss != loss);
    char *file = support_path(troupe_result_checkpoint(result), "file_1");
    assert_true(support_exists(file));
    free(file);
    troupe_result_free(&result);
    expect_file("marked/log/rank_00000.log", "before\n");
    expect_file("marked/log/rank_00000.log", "oops\n");
    char *log = text_of("marked/log/rank_00000.log");
    assert_null(strstr(log, "TROUPE_REPORT"));
    free(log);
    expect_file("own_1/file_1", "hello"); // It was copied.
}

// A program that knows nothing of Troupe and prints its metrics for whoever reads them.
static void test_lines_of_json_are_reports(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config =
        script("echo 'step 1'; echo '{\"epoch\": 1, \"loss\": 3, \"name\": \"x\", \"of\": [1]}'\n"
               "echo '{\"name\": \"no number\"}'; echo '{broken'; echo '[1]'; echo '{}'\n"
               "printf ' {\"loss\": NaN, \"good\": true}\\n{\"loss\": 1e-3}'\n");
    config.json_lines = true;
    troupe_must(
        troupe_train(troupe_process, &config, &result, .storage = storage, .name = "lines"));
    assert_int_equal(troupe_result_reports(result), 3);
    assert_true(troupe_result_metric(result, "loss") == 1e-3);
    troupe_result_free(&result);
    expect_file("lines/log/rank_00000.log", "step 1\n");
    expect_file("lines/log/rank_00000.log", "{\"epoch\": 1, ");
    expect_file("lines/journal.jsonl", "\"good\": 1");
    config.json_lines = false; // Then they are lines like any others.
    troupe_must(
        troupe_train(troupe_process, &config, &result, .storage = storage, .name = "plain"));
    assert_int_equal(troupe_result_reports(result), 0);
    troupe_result_free(&result);
}

static void test_what_is_no_report_is_answered_and_counted(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config = script(
        "head -c 3000 /dev/urandom >&2; say() { printf '%s\\n' \"$1\" >&3; read -r answer <&3; "
        "echo \"$answer\" >>$file; }; file=$1/said\n"
        "say 'loss 3'; say '{\"metrics\": {\"loss\": \"low\"}}'\n"
        "say \"$(head -c 100000 /dev/zero | tr '\\0' x)\"\n"
        "say '{\"metrics\": {\"loss\": 2}, \"epoch\": 1}'\n"
        "for i in 1 2 3 4 5 6; do say more; done; printf '{\"metrics\"' >&3\n");
    troupe_must(troupe_train(troupe_process, &config, &result, .storage = storage));
    assert_int_equal(troupe_result_reports(result), 1);
    assert_true(troupe_result_metric(result, "loss") == 2);
    troupe_result_free(&result);
    expect_file("said", "{\"error\": \"JSON");
    expect_file("said", "metric 'loss' is \\\"low\\\", expected a number\"}\n");
    expect_file("said", "{\"error\": \"it has more than 65536 bytes\"}\n");
    expect_file("said", "{\"report\": 1, \"stop\": false, \"save\": true}\n");
}

static void test_a_program_that_says_nothing_ends_well(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config = script("exec 3>&-; true");
    troupe_must(troupe_train(troupe_process, &config, &result, .ranks = RANKS, .storage = storage));
    assert_int_equal(troupe_result_reports(result), 0);
    troupe_result_free(&result);
}

// One that reads none of its answers is held up by nothing.
static void test_answers_need_not_be_read(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config = script("i=0; while [ $i -lt 8000 ]; do i=$((i + 1)); echo '{}'; "
                                          "done >&3");
    troupe_must(troupe_train(troupe_process, &config, &result, .storage = storage));
    assert_int_equal(troupe_result_reports(result), 8000);
    troupe_result_free(&result);
}

// As most scripts do; the others are never further behind than rank 0 waits for.
static void test_rank_0_alone_may_report(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_process_config config = script(
        "[ $RANK = 0 ] || { echo '{}' >&3; read -r answer <&3; echo \"$answer\" >$1/refused; "
        "exit; }\n"
        "i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo $i >$TROUPE_CHECKPOINT_DIR/step; "
        "echo '{\"checkpoint\": \"'$TROUPE_CHECKPOINT_DIR'\"}' >&3; read -r answer <&3; done");
    config.rank_0_reports = true;
    troupe_must(troupe_train(troupe_process, &config, &result, .ranks = RANKS, .storage = storage,
                             .keep = 1));
    assert_int_equal(troupe_result_reports(result), 40);
    assert_non_null(troupe_result_checkpoint(result));
    troupe_result_free(&result);
    expect_file("refused", "only rank 0 reports");
}

// ---- failures

static void expect_failure(troupe_process_config config, int ranks, troupe_status expected,
                           const char *wanted)
{
    troupe_result *result;
    troupe_status status =
        troupe_train(troupe_process, &config, &result, .ranks = ranks, .storage = storage);
    if (status != expected || strstr(troupe_last_error()->text, wanted) == NULL)
        fail_msg("status %d, '%s'; expected %d and '%s'", status, troupe_last_error()->text,
                 expected, wanted);
    troupe_result_free(&result);
}

static void test_a_program_that_fails_is_named(void **state)
{
    (void)state;
    expect_failure(script("echo early >&2; echo 'ValueError: no \x1b[1mway' >&2; exit 3"), 1,
                   TROUPE_FAILED,
                   "sh exited with status 3, and last wrote to its errors: early | ValueError: no "
                   "\\x1b[1mway");
    // The other rank's program is ended with its rank.
    expect_failure(script("[ $RANK = 1 ] && kill -11 $$; sleep 1000"), RANKS, TROUPE_FAILED,
                   "rank 1");
    assert_non_null(strstr(troupe_last_error()->text, "was killed by signal 11 (Segmentation "
                                                      "fault)"));
    troupe_process_config config = script("[ $RANK = 0 ] || exit 7; sleep 1000");
    config.rank_0_reports = true; // That does not wait for rank 0.
    expect_failure(config, RANKS, TROUPE_FAILED, "exited with status 7");
    expect_failure(script("echo '{\"checkpoint\": \"/not/there\"}' >&3; sleep 1000"), 1,
                   TROUPE_NOT_FOUND, "/not/there");
}

static void test_a_config_that_is_wrong_is_refused(void **state)
{
    (void)state;
    troupe_process_config config = script("true");
    static const troupe_text missing[] = {"no-such-program"}, folder[] = {"/tmp"}, bad[] = {"KEY"};
    config.arguments = (troupe_array_troupe_text){missing, 1};
    expect_failure(config, 1, TROUPE_NOT_FOUND, "there is no program 'no-such-program' in PATH");
    config.arguments = (troupe_array_troupe_text){folder, 1};
    expect_failure(config, 1, TROUPE_NOT_FOUND, "/tmp is no program");
    config.arguments = (troupe_array_troupe_text){NULL, 0};
    expect_failure(config, 1, TROUPE_INVALID, ".arguments of troupe_process are empty");
    config = script("true");
    config.environment = (troupe_array_troupe_text){bad, 1};
    expect_failure(config, 1, TROUPE_INVALID, "'KEY': expected KEY=VALUE");
    config = script("true");
    config.json = "{rate: 1}";
    expect_failure(config, 1, TROUPE_INVALID, ".json of troupe_process: ");
    config = script("true");
    config.folder = "/no/such";
    expect_failure(config, 1, TROUPE_NOT_FOUND, "/no/such cannot be entered");
    config = script("true");
    config.grace_s = -1;
    expect_failure(config, 1, TROUPE_INVALID, ".grace_s of troupe_process is -1");
}

// ---- stops

static troupe_job *submit(const troupe_process_config *config, int ranks)
{
    troupe_job *job;
    troupe_must(troupe_submit(troupe_process, config, NULL, &job, .ranks = ranks,
                              .storage = storage, .name = "stopped"));
    return job;
}

static int reports_of_stopped(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s", troupe_result_error(result));
    assert_true(troupe_result_stopped(result));
    int reports = troupe_result_reports(result);
    troupe_result_free(&result);
    troupe_job_close(&job);
    return reports;
}

// All ranks are told at the same report.
static void test_an_answer_tells_to_stop(void **state)
{
    (void)state;
    troupe_process_config config = script(
        "n=0; while true; do n=$((n + 1)); echo '{}' >&3; read -r answer <&3; [ $n = 3 ] && echo "
        "$$ >$1/going_$RANK; case $answer in *'\"stop\": true'*) echo $n >$1/last_$RANK; exit 0;; "
        "esac; done");
    troupe_job *job = submit(&config, RANKS);
    (void)await_pid("going_0");
    troupe_job_stop(job);
    int reports = reports_of_stopped(job);
    assert_true(reports > 3);
    assert_int_equal(await_pid("last_0"), reports);
    assert_int_equal(await_pid("last_1"), reports);
}

static void test_others_are_told_by_a_signal(void **state)
{
    (void)state;
    // It has not reported.
    troupe_process_config config =
        script("trap 'echo $$ >$1/told_$RANK; exit 5' TERM; echo $$ >$1/up_$RANK; sleep 1000 & "
               "while true; do wait; done");
    troupe_job *job = submit(&config, RANKS);
    (void)await_pid("up_0");
    (void)await_pid("up_1");
    troupe_job_stop(job);
    (void)reports_of_stopped(job);
    (void)await_pid("told_0");
    (void)await_pid("told_1");
    // Alone it makes no report for others.
    config = script("echo $$ >$1/alone; exec sleep 1000");
    job = submit(&config, 1);
    (void)await_pid("alone");
    troupe_job_stop(job);
    assert_int_equal(reports_of_stopped(job), 0);
    // It has, without a descriptor, and does not care for signals.
    config = script("trap '' TERM; while true; do echo 'TROUPE_REPORT {}'; echo $$ >$1/deaf; "
                    "sleep 0.02; done");
    config.grace_s = 0.05;
    job = submit(&config, 1);
    pid_t deaf = await_pid("deaf");
    troupe_job_stop(job);
    assert_true(reports_of_stopped(job) > 0);
    expect_end(deaf);
}

// Of those that do not report, one ends when the other does, and one is asked.
static void test_who_does_not_report_is_stopped_too(void **state)
{
    (void)state;
    troupe_process_config config = script(
        "case $RANK in 0) while true; do echo '{}' >&3; read -r answer <&3; echo $$ >$1/goes; case "
        "$answer in *true,*) exit;; esac; done;; esac; while true; do sleep 1000; done");
    config.rank_0_reports = true;
    config.grace_s = 0.05;
    troupe_job *job = submit(&config, RANKS);
    (void)await_pid("goes");
    troupe_job_stop(job);
    assert_true(reports_of_stopped(job) > 0);
}

static bool is_paused(void *job)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)job, &status);
    return status.state == TROUPE_JOB_PAUSED;
}

static void test_a_program_is_paused_and_goes_on(void **state)
{
    (void)state;
    troupe_process_config config = script(
        "step=0; [ -z \"$TROUPE_RESTORE_DIR\" ] || { step=$(cat \"$TROUPE_RESTORE_DIR/step\"); "
        "echo "
        "$step >$1/went_on; }\n"
        "while [ ! -e $1/enough ]; do step=$((step + 1)); [ $RANK = 1 ] || echo $step "
        ">$TROUPE_CHECKPOINT_DIR/step; echo '{\"checkpoint\": \"'$TROUPE_CHECKPOINT_DIR'\"}' >&3; "
        "read "
        "-r answer <&3; echo $step >$1/goes_$RANK; case $answer in *true,*) exit;; esac; done");
    troupe_job *job = submit(&config, 1);
    (void)await_pid("goes_0");
    troupe_job_pause(job);
    assert_true(support_wait_until(is_paused, job, SUPPORT_SOON_MS));
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    remove_file("goes_0"); // Before its first report it would be stopped without one.
    troupe_job_go_on(job);
    assert_int_equal(await_pid("went_on"), status.reports);
    (void)await_pid("goes_0");
    troupe_job_stop(job);
    assert_true(reports_of_stopped(job) > status.reports);
}

// ---- kills

// A child that left group and session, and whose parent has ended.
static const char family[] =
    "setsid sh -c 'sleep 1000 & echo $! >'$1'/hidden.new; mv '$1'/hidden.new "
    "'$1'/hidden'\n"
    "echo $PPID >$1/guard; echo $$ >$1/program; while true; do sleep 1000; "
    "done";

typedef struct relatives {
    pid_t worker, guard, program, hidden;
} relatives;

static relatives await_family(troupe_job *job)
{
    relatives all = {.guard = await_pid("guard")};
    all.program = await_pid("program");
    all.hidden = await_pid("hidden");
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    all.worker = status.pids[0];
    assert_true(all.worker > 0 && all.guard != all.worker);
    return all;
}

static char *error_of(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    char *text = strdup(troupe_result_error(result));
    troupe_result_free(&result);
    troupe_job_close(&job);
    return text;
}

static pid_t unguarded; // It ends with the node.

static void kill_one(int which, const char *wanted, bool finds_hidden)
{
    troupe_process_config config = script(family);
    troupe_job *job = submit(&config, 1);
    relatives all = await_family(job);
    pid_t pids[] = {all.worker, all.guard, all.program};
    assert_int_equal(kill(pids[which], SIGKILL), 0);
    char *error = error_of(job);
    if (strstr(error, wanted) == NULL)
        fail_msg("'%s' has no '%s'", error, wanted);
    free(error);
    expect_end(all.guard);
    expect_end(all.program);
    if (finds_hidden)
        expect_end(all.hidden);
    else
        unguarded = all.hidden;
}

static void test_whoever_is_killed_nothing_is_left(void **state)
{
    (void)state;
    kill_one(0, "was killed by signal 9", true);
    kill_one(1, "guard of rank 0's program was killed", false); // With the node, that is.
    kill_one(2, "sh was killed by signal 9 (Killed)", true);
}

// A run that is killed, and a program that ends and leaves others behind.
static void test_what_a_program_leaves_is_ended(void **state)
{
    (void)state;
    troupe_process_config config = script(family);
    troupe_job *job = submit(&config, 1);
    relatives all = await_family(job);
    troupe_job_kill(job, TROUPE_CANCELLED, "enough");
    free(error_of(job));
    expect_end(all.program);
    expect_end(all.hidden);
    troupe_result *result;
    config = script("setsid sleep 1000 & echo $! >$1/left; sleep 0.01");
    troupe_must(troupe_train(troupe_process, &config, &result, .storage = storage));
    troupe_result_free(&result);
    pid_t left = await_pid("left");
    assert_false(support_process_lives(left)); // Before the rank had ended.
}

static void test_a_killed_driver_leaves_nothing(void **state)
{
    (void)state;
    pid_t driver = fork();
    if (driver == 0) {
        troupe_result *result;
        troupe_process_config config = script(family);
        (void)!freopen("/dev/null", "w", stdout);
        troupe_must(troupe_start(0, NULL, .cpus = 1, .store_bytes_max = 16 << 20));
        troupe_status status = troupe_train(troupe_process, &config, &result, .storage = storage);
        _exit((int)status);
    }
    int status;
    pid_t guard = await_pid("guard"), program = await_pid("program"), hidden = await_pid("hidden");
    assert_int_equal(kill(driver, SIGKILL), 0);
    assert_int_equal(waitpid(driver, &status, 0), driver);
    expect_end(guard);
    expect_end(program);
    expect_end(hidden);
}

static int begin(void **state)
{
    (void)state;
    storage = support_directory_make();
    (void)unsetenv("OMP_NUM_THREADS");
    (void)unsetenv("PYTHONUNBUFFERED");
    return 0;
}

static int begin_node(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .cpus = RANKS, .gpus = RANKS, .store_bytes_max = 16 << 20));
    return 0;
}

static int end_node(void **state)
{
    (void)state;
    (void)troupe_stop();
    expect_end(unguarded);
    return 0;
}

int main(void)
{
    const struct CMUnitTest first[] = {cmocka_unit_test(test_a_killed_driver_leaves_nothing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_trains_and_recovers),
        cmocka_unit_test(test_the_environment_is_that_of_torchrun),
        cmocka_unit_test(test_marked_lines_are_reports),
        cmocka_unit_test(test_lines_of_json_are_reports),
        cmocka_unit_test(test_what_is_no_report_is_answered_and_counted),
        cmocka_unit_test(test_a_program_that_says_nothing_ends_well),
        cmocka_unit_test(test_answers_need_not_be_read),
        cmocka_unit_test(test_rank_0_alone_may_report),
        cmocka_unit_test(test_a_program_that_fails_is_named),
        cmocka_unit_test(test_a_config_that_is_wrong_is_refused),
        cmocka_unit_test(test_an_answer_tells_to_stop),
        cmocka_unit_test(test_others_are_told_by_a_signal),
        cmocka_unit_test(test_who_does_not_report_is_stopped_too),
        cmocka_unit_test(test_a_program_is_paused_and_goes_on),
        cmocka_unit_test(test_whoever_is_killed_nothing_is_left),
        cmocka_unit_test(test_what_a_program_leaves_is_ended),
    };
    int failed = cmocka_run_group_tests(first, begin, NULL); // Before this process has threads.
    failed += cmocka_run_group_tests(tests, begin_node, end_node);
    support_directory_remove(storage);
    return failed;
}
