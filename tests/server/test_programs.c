// test_programs.c: which programs a train server runs jobs of, and what these have about them: run
// as they were, or refused in a sentence.
// timeout: 120
// cost: 8
// again: full slow 600 200
#include <support.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/arena.h>
#include <sched.h>
#include <server/fence.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <train/server_link.h>
#include <train/wire.h>
#include <troupe.h>
#include <unistd.h>

enum { NICE = 5, FILES = 300, CPUS = 2 };

static char *top, *storage; // Both are found in the environment by what is started.
static int rounds = 8;

// ---- the job

TROUPE_STRUCT(nap_settings, (bool, waits), (bool, ignores), (double, seconds));

static bool is_there(const char *name)
{
    char *path = support_path(top, name);
    bool there = support_exists(path);
    free(path);
    return there;
}

static troupe_status nap(troupe_rank *me, const nap_settings *config)
{
    TROUPE_TRY(troupe_report(me, {"pid", (double)getpid()}));
    while (config->ignores || (config->waits && !is_there("go"))) {
        usleep(1000);
        if (!config->ignores)
            TROUPE_TRY(troupe_report(me, {"pid", (double)getpid()}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(nap, nap_settings);

static troupe_status submit(const nap_settings *config, const char *key, troupe_job **job)
{
    return troupe_submit(nap, config, NULL, job, .key = key, .name = key, .storage = storage,
                         .console = TROUPE_CONSOLE_OFF, .server = TROUPE_SERVER_AUTO,
                         .time_limit_s = config->seconds,
                         .time_limit_grace_s = config->seconds > 0 ? 0.3 : 0);
}

// ---- what a process has about it

static void append(const char *name, const char *text, size_t size)
{
    char *path = support_path(top, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, text, size) != (ssize_t)size)
        abort();
    close(fd);
    free(path);
}

static void put_file(trp_buffer *out, const char *name, bool variables)
{
    static char text[65536];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    trp_buffer_printf(out, "%s:\n", name);
    for (char *at = text; at < text + size; at += strlen(at) + 1)
        if (!variables ||
            (strncmp(at, "TROUPE_JOB=", 11) != 0 && strncmp(at, "TROUPE_IN_JOB=", 14) != 0))
            trp_buffer_printf(out, "%s\n", at);
}

// Before the library has done anything of its own.
static void say_what_is_there(void)
{
    trp_buffer out = {0};
    char folder[4096];
    cpu_set_t cpus;
    mode_t mask = umask(0);
    (void)umask(mask);
    sched_getaffinity(0, sizeof cpus, &cpus);
    trp_buffer_printf(&out, "folder %s\numask %o\nnice %d\ncpus", getcwd(folder, sizeof folder),
                      (unsigned)mask, getpriority(PRIO_PROCESS, 0));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus))
            trp_buffer_printf(&out, " %d", i);
    trp_buffer_printf(&out, "\n");
    put_file(&out, "/proc/self/cmdline", false);
    put_file(&out, "/proc/self/environ", true);
    put_file(&out, "/proc/self/limits", false);
    trp_buffer_printf(&out, "=====\n");
    append("seen", (const char *)out.data, out.size);
    trp_buffer_free(&out);
}

// ---- what clients do

static void say(const char *what, troupe_status status)
{
    char line[600];
    snprintf(line, sizeof line, "%s: %s: %s\n", what, troupe_status_name(status),
             status == TROUPE_OK ? "" : troupe_last_error()->text);
    append("said", line, strlen(line));
}

static void say_end(const char *what, troupe_job **job)
{
    troupe_result *result;
    char line[1200];
    troupe_must(troupe_job_wait(*job, 60000, &result));
    snprintf(line, sizeof line, "%s ended: %s: %s\n", what,
             troupe_status_name(troupe_result_status(result)),
             troupe_result_error(result) != NULL ? troupe_result_error(result) : "");
    append("said", line, strlen(line));
    troupe_result_free(&result);
    troupe_job_close(job);
}

// Submits `count` jobs, and says how they ended.
static int act_some(int count)
{
    troupe_job *jobs[4];
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "some%d", i);
        troupe_must(submit(&(nap_settings){0}, key, &jobs[i]));
    }
    for (int i = 0; i < count; i++)
        say_end("some", &jobs[i]);
    return troupe_stop();
}

static int act_submit(const char *path)
{
    const char *slash = strrchr(path, '/'), *key = slash != NULL ? slash + 1 : path;
    troupe_job *job = NULL;
    troupe_status status = submit(&(nap_settings){0}, key, &job);
    say(key, status);
    if (status == TROUPE_OK)
        say_end(key, &job);
    return troupe_stop();
}

static int act_leave(void)
{
    troupe_job *job;
    troupe_must(submit(&(nap_settings){.waits = true}, "left", &job));
    printf("submitted\n");
    troupe_must(troupe_job_leave(&job));
    return troupe_stop();
}

static int act_removed(const char *own)
{
    unlink(own);
    return act_submit("removed");
}

static int act_second_start(int argc, char **argv)
{
    (void)troupe_stop();
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    return act_submit("second");
}

// As if the trainer were of what was loaded later: its table is nowhere in the program.
static int act_elsewhere(void)
{
    troupe_job *job;
    troupe_trainer *table =
        mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(table, MAP_FAILED);
    memcpy(table, &troupe_trainer_nap, sizeof *table);
    table->name = "elsewhere";
    nap_settings config = {0};
    say("elsewhere", troupe_submit_as(table, &config, NULL, &job,
                                      &(troupe_train_options){.size = sizeof(troupe_train_options),
                                                              .storage = storage,
                                                              .server = TROUPE_SERVER_AUTO}));
    return troupe_stop();
}

static int act(int argc, char **argv)
{
    const char *what = argv[1];
    if (strcmp(what, "some") == 0)
        return act_some(atoi(argv[2]));
    if (strcmp(what, "submit") == 0)
        return act_submit(argv[2]);
    if (strcmp(what, "leave") == 0)
        return act_leave();
    if (strcmp(what, "removed") == 0)
        return act_removed(argv[2]);
    if (strcmp(what, "second") == 0)
        return act_second_start(argc, argv);
    return act_elsewhere();
}

// ---- the server, and programs

static void run_tool(const char *what, char *output, size_t capacity)
{
    char command[600];
    snprintf(command, sizeof command, "%s %s", support_setting("TROUPE_TOOL"), what);
    if (support_run(command, output, capacity) != 0)
        support_fail_output(output, "%s has failed", command);
}

static int begin(void **state)
{
    (void)state;
    char output[4000];
    run_tool("server start --no-gateway --cpus 2", output, sizeof output);
    return 0;
}

static int begin_cold(void **state)
{
    (void)state;
    char output[4000];
    run_tool("server start --no-gateway --cpus 2 --warm 0", output, sizeof output);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[900], output[4000];
    snprintf(command, sizeof command, "%s server stop --jobs", support_setting("TROUPE_TOOL"));
    (void)support_run(command, output, sizeof output);
    snprintf(command, sizeof command, "rm -rf %s/*", top);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    return 0;
}

static trp_wire_status server_status(void)
{
    trp_arena arena = {0};
    trp_wire_status status = {0};
    trp_server_link *link;
    trp_server_question question = {.kind = TRP_WIRE_SERVER,
                                    .type = &troupe_type_troupe_none,
                                    .value = &(troupe_none){0},
                                    .timeout_ms = SUPPORT_SOON_MS,
                                    .answer = TRP_WIRE_STATUS,
                                    .has = &troupe_type_trp_wire_status};
    if (trp_server_link_open(getenv("TROUPE_STATE"), NULL, &link) != TROUPE_OK)
        return status;
    (void)trp_server_link_ask(link, &question, &arena, &status);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    status.folder = status.gateway = NULL;
    return status;
}

// Starts a program with what it is to do; `set` changes what the new process has about it.
static pid_t start(const char *program, const char *act_name, const char *argument,
                   void (*set)(void))
{
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    if (set != NULL)
        set();
    execl(program, "its own name", act_name, argument, "", "two words", (char *)NULL);
    _exit(127);
}

static void await_exit(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a client ended with status %x", (unsigned)status);
}

static char *own_program(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

static char *copy_program(const char *name)
{
    char *path = support_path(top, name), command[9000], output[400];
    snprintf(command, sizeof command, "cp %s %s.new && mv %s.new %s", own_program(), path, path,
             path);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    return path;
}

static char *read_top(const char *name)
{
    char *path = support_path(top, name), *text = support_read_file(path);
    free(path);
    return text;
}

static void assert_said(const char *line)
{
    char *text = read_top("said");
    if (text == NULL || strstr(text, line) == NULL)
        fail_msg("expected \"%s\", and found \"%s\"", line, text != NULL ? text : "");
    free(text);
}

static int count_lines(const char *name, const char *line)
{
    char *text = read_top(name);
    int count = 0;
    for (const char *at = text; at != NULL && (at = strstr(at, line)) != NULL; at++)
        count++;
    free(text);
    return count;
}

// ---- the program itself

// Main runs once more for each job, where there are no copies of runners, up to its first start,
// which does not return.
static void test_main_runs_again_up_to_its_start(void **state)
{
    (void)state;
    await_exit(start(own_program(), "some", "3", NULL));
    assert_int_equal(count_lines("said", "some ended: TROUPE_OK"), 3);
    assert_int_equal(count_lines("mains", "before\n"), 1 + 3);
    assert_int_equal(count_lines("mains", "after\n"), 1);
}

static void be_odd(void)
{
    struct rlimit files = {FILES, FILES}, none = {0, 0};
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int cpu = 0; CPU_COUNT(&cpus) > 1; cpu++)
        CPU_CLR(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0 || chdir(storage) != 0 ||
        setpriority(PRIO_PROCESS, 0, NICE) != 0 || setrlimit(RLIMIT_NOFILE, &files) != 0 ||
        setrlimit(RLIMIT_CORE, &none) != 0 || setenv("GIVEN", "one\ntwo =", 1) != 0)
        _exit(126);
    (void)umask(027);
}

// Arguments (empty ones too), environment, folder, umask, niceness, limits and CPUs.
static void test_a_job_has_what_its_client_had(void **state)
{
    (void)state;
    assert_int_equal(mkdir(storage, 0700), 0);
    await_exit(start(own_program(), "submit", "odd", be_odd));
    assert_said("odd ended: TROUPE_OK");
    char *text = read_top("seen"), *second = strstr(text, "=====\n");
    assert_non_null(second);
    second += strlen("=====\n");
    size_t first_size = (size_t)(second - text);
    if (strlen(second) != first_size || memcmp(text, second, first_size) != 0) {
        support_print(text);
        fail_msg("the job has other things about it than its client had");
    }
    assert_non_null(strstr(text, "\numask 27\nnice 5\n"));
    assert_non_null(strstr(text, "\nGIVEN=one\ntwo =\n"));
    free(text);
}

// ---- odd programs

static void test_a_program_that_is_gone_is_refused(void **state)
{
    (void)state;
    char *copy = copy_program("removed");
    await_exit(start(copy, "removed", copy, NULL));
    assert_said("removed: TROUPE_UNSUPPORTED: the program ");
    assert_said("was removed or replaced since it was started, and a train server would start it "
                "again: start the new one");
    free(copy);
}

static bool waits_one(void *context)
{
    (void)context;
    return server_status().waiting == 1;
}

static bool one_runs(void *context)
{
    (void)context;
    return server_status().running == 1;
}

// The job waits, for two CPUs are taken, and never runs another program than it was submitted with.
static void wait_and_change(const char *name, const char *change, const char *says)
{
    char command[9000], output[400];
    char *copy = copy_program(name), *go = support_path(top, "go");
    troupe_job *holder;
    nap_settings waits = {.waits = true};
    troupe_must(troupe_submit(nap, &waits, NULL, &holder, .ranks = CPUS, .storage = storage,
                              .console = TROUPE_CONSOLE_OFF, .server = TROUPE_SERVER_AUTO));
    assert_true(support_wait_until(one_runs, NULL, SUPPORT_SOON_MS));
    pid_t client = start(copy, "submit", name, NULL);
    assert_true(support_wait_until(waits_one, NULL, SUPPORT_SOON_MS));
    snprintf(command, sizeof command, "p=%s; %s", copy, change);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    support_write_file(go, "", 0);
    await_exit(client);
    assert_said(says);
    assert_said("after the job was queued: submit it again");
    troupe_job_close(&holder);
    free(copy);
    free(go);
}

static void test_a_program_that_was_replaced_ends_the_job(void **state)
{
    (void)state;
    wait_and_change("replaced", "cp $p $p.new && mv $p.new $p", "replaced ended: TROUPE_INVALID");
}

static void test_a_program_that_was_removed_ends_the_job(void **state)
{
    (void)state;
    wait_and_change("unlinked", "rm $p", " is gone (No such file or directory), ");
}

// Of a script the interpreter is the program, which is given the script once more.
static void test_a_script_is_run_by_its_interpreter(void **state)
{
    (void)state;
    char text[5000], *script = support_path(top, "script");
    snprintf(text, sizeof text, "#!%s submit\n", own_program());
    support_write_file(script, text, strlen(text));
    assert_int_equal(chmod(script, 0755), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        execl(script, script, (char *)NULL);
        _exit(127);
    }
    await_exit(pid);
    assert_said("script ended: TROUPE_OK");
    free(script);
}

static void test_what_a_server_cannot_start_again_is_refused(void **state)
{
    (void)state;
    await_exit(start(own_program(), "second", "", NULL));
    assert_said("second: TROUPE_UNSUPPORTED: trainer 'nap' is submitted after start 2 of this "
                "program, and a train server runs programs up to their first troupe_start");
    await_exit(start(own_program(), "elsewhere", "", NULL));
    assert_said("elsewhere: TROUPE_UNSUPPORTED: trainer 'elsewhere' is no part of a file that is "
                "mapped");
}

static void be_nobody(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        _exit(126);
}

// Rights that a program has by its file are those of nobody who asks for a job.
static void test_a_program_with_rights_of_its_file_is_refused(void **state)
{
    (void)state;
    struct statvfs about;
    if (geteuid() != 0 || statvfs(top, &about) != 0 || (about.f_flag & ST_NOSUID) != 0)
        skip(); // Nobody else can be had, or such programs.
    char *copy = copy_program("setuid");
    assert_int_equal(chmod(copy, 04755), 0);
    assert_int_equal(chmod(top, 0755), 0);
    await_exit(start(copy, "submit", "setuid", be_nobody));
    assert_said("setuid: TROUPE_UNSUPPORTED: this program has rights that its user has not "
                "(AT_SECURE)");
    free(copy);
}

// ---- ends

// Who reads what a client prints, as ssh does, sees its end, whatever it has started.
static void test_a_pipe_ends_with_the_client(void **state)
{
    (void)state;
    char command[5000], output[4000], *go = support_path(top, "go");
    end(NULL); // No server runs: the client starts one.
    snprintf(command, sizeof command, "%s leave", own_program());
    assert_int_equal(support_run(command, output, sizeof output), 0); // Reads to the end.
    assert_non_null(strstr(output, "submitted\n"));
    assert_int_equal(server_status().running + server_status().waiting, 1);
    support_write_file(go, "", 0);
    troupe_job *job;
    troupe_must(troupe_job_find("left", &job));
    say_end("left", &job);
    assert_said("left ended: TROUPE_OK");
    free(go);
}

static troupe_result *result_of(troupe_job **job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(*job, 60000, &result));
    troupe_job_close(job);
    return result;
}

static trp_fence fence_of(const char *folder)
{
    trp_fence fence;
    troupe_must(trp_fence_look(folder, &fence));
    return fence;
}

static void folder_of(const troupe_job *job, char *folder, size_t capacity)
{
    snprintf(folder, capacity, "%s/jobs/%08d", getenv("TROUPE_STATE"), (int)troupe_job_number(job));
}

// F11: a loop that never looks whether it is to stop is ended when its grace is over, and so is a
// runner that is stopped and hears of nothing.
static void test_what_hangs_is_ended(void **state)
{
    (void)state;
    troupe_job *job;
    troupe_job_status now = {0};
    char folder[4096];
    troupe_must(submit(&(nap_settings){.ignores = true, .seconds = 0.5}, "ignores", &job));
    troupe_result *result = result_of(&job);
    assert_int_equal(troupe_result_status(result), TROUPE_DEADLINE_EXCEEDED);
    troupe_result_free(&result);
    troupe_must(submit(&(nap_settings){.waits = true}, "stopped", &job));
    int64_t late = support_now_ms() + SUPPORT_SOON_MS;
    do
        troupe_job_status_get(job, &now);
    while (now.reports < 1 && support_now_ms() < late && usleep(1000) == 0);
    folder_of(job, folder, sizeof folder);
    pid_t runner = fence_of(folder).runner;
    assert_true(runner > 0);
    assert_int_equal(kill(runner, SIGSTOP), 0);
    troupe_job_kill(job, TROUPE_FAILED, "it hangs");
    result = result_of(&job);
    assert_int_equal(troupe_result_status(result), TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(result), "it hangs"));
    troupe_result_free(&result);
    assert_false(support_process_lives(runner));
    assert_int_equal(server_status().cpus_free, CPUS);
}

static int descriptors_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return support_count_files(path);
}

typedef struct held {
    pid_t server;
    int descriptors;
} held;

// No more than before: connections that this process has closed may be there for a moment.
static bool has_so_many(void *context)
{
    const held *it = (const held *)context;
    return descriptors_of(it->server) <= it->descriptors;
}

static bool nothing_is_held(void *context)
{
    trp_fence fence = fence_of((const char *)context);
    trp_wire_status now = server_status();
    return fence.runner == 0 && fence.keeper == 0 && now.running == 0 && now.cpus_free == CPUS &&
           now.memory_free_bytes == now.memory_bytes;
}

// F17: done, stopped, killed and failed by turns: the lock, the grant, what the server has open,
// and shared memory are as before.
static void test_nothing_is_held_afterwards(void **state)
{
    (void)state;
    int before = 0, shared = 0;
    char folder[4096];
    for (int i = 0; i < rounds + 4; i++) {
        char key[16];
        troupe_job *job;
        snprintf(key, sizeof key, "round%d", i);
        troupe_must(submit(&(nap_settings){.waits = i % 4 > 0}, key, &job));
        folder_of(job, folder, sizeof folder);
        if (i % 4 == 1)
            troupe_job_stop(job);
        else if (i % 4 == 2)
            troupe_job_kill(job, TROUPE_FAILED, "as the test wants it");
        else if (i % 4 == 3) {
            troupe_job_status now = {0};
            int64_t late = support_now_ms() + SUPPORT_SOON_MS;
            do
                troupe_job_status_get(job, &now);
            while (now.reports < 1 && support_now_ms() < late && usleep(1000) == 0);
            pid_t runner = fence_of(folder).runner;
            assert_true(runner > 0);
            assert_int_equal(kill(runner, SIGKILL), 0);
        }
        troupe_result *result = result_of(&job);
        assert_int_equal(troupe_result_status(result), i % 4 == 2   ? TROUPE_FAILED
                                                       : i % 4 == 3 ? TROUPE_PEER_LOST
                                                                    : TROUPE_OK);
        troupe_result_free(&result);
        if (!support_wait_until(nothing_is_held, folder, SUPPORT_SOON_MS))
            fail_msg("round %d: something is held still", i);
        if (i == 3) { // All has been used once.
            before = descriptors_of(server_status().pid);
            shared = support_count_files("/dev/shm");
        }
    }
    assert_true(before > 0);
    held what = {server_status().pid, before};
    if (!support_wait_until(has_so_many, &what, SUPPORT_SOON_MS))
        fail_msg("the server has %d descriptors, and had %d", descriptors_of(what.server), before);
    if (shared >= 0)
        assert_true(support_count_files("/dev/shm") <= shared + 1); // Others use it as well.
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(int argc, char **argv)
{
    top = getenv("TEST_PROGRAMS_TOP");
    bool again = top != NULL && argc > 1;
    if (top == NULL) {
        top = support_directory_make();
        char *folder = support_path(top, "state");
        setenv("TEST_PROGRAMS_TOP", top, 1);
        setenv("TROUPE_STATE", folder, 1);
        setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
        unsetenv("TROUPE_SERVER");
        free(folder);
        if (argc > 1)
            rounds = atoi(argv[1]);
    }
    storage = support_path(top, "runs");
    if (again) {
        say_what_is_there();
        append("mains", "before\n", 7);
    }
    troupe_must(troupe_start(argc, argv, .cpus = CPUS)); // Does not return in a job.
    if (again) {
        append("mains", "after\n", 6);
        return act(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_main_runs_again_up_to_its_start, begin_cold, end),
        TEST(test_a_job_has_what_its_client_had),
        TEST(test_a_program_that_is_gone_is_refused),
        TEST(test_a_program_that_was_replaced_ends_the_job),
        TEST(test_a_program_that_was_removed_ends_the_job),
        TEST(test_a_script_is_run_by_its_interpreter),
        TEST(test_what_a_server_cannot_start_again_is_refused),
        TEST(test_a_program_with_rights_of_its_file_is_refused),
        TEST(test_a_pipe_ends_with_the_client),
        TEST(test_what_hangs_is_ended),
        TEST(test_nothing_is_held_afterwards),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)troupe_stop();
    support_directory_remove(top);
    return failed;
}
