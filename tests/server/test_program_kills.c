// test_program_kills.c: jobs of programs that train, submitted by programs, while server, gateway,
// runners, ranks and clients are killed at random moments: what was acknowledged is done once, with
// the numbers of an undisturbed run, and nothing is left.
// timeout: 120
// cost: 15
// again: full slow 900 100
#include <support.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <server/fence.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/wire.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 2, CLIENTS = 3, STEPS = 30, STEP_US = 3000, JOBS_MAX = 64 };

static char *top, *storage; // Both are found in the environment by what is started.
static int kills = 12, jobs_each = 3;
static unsigned seed = 4711;

// ---- the job

TROUPE_STRUCT(walk_settings, (int, start), (troupe_text, witness));
TROUPE_STRUCT(walk_state, (int, step), (double, sum));

// A line for each process of a rank; one more where another process has the same rank of the job.
static void witness(const walk_settings *config, const troupe_rank *me)
{
    char path[600], line[64];
    snprintf(path, sizeof path, "%s.%d", config->witness, me->rank);
    int lock = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600); // For life.
    bool alone = flock(lock, LOCK_EX | LOCK_NB) == 0;
    int size =
        snprintf(line, sizeof line, "%d %d%s\n", (int)getpid(), me->attempt, alone ? "" : " TWICE");
    if (lock < 0 || write(lock, line, (size_t)size) != size)
        abort();
}

static troupe_status walk(troupe_rank *me, const walk_settings *config)
{
    walk_state now = {0, config->start};
    if (config->witness != NULL)
        witness(config, me);
    TROUPE_TRY(troupe_restore(walk_state, me, &now));
    while (now.step < STEPS) {
        double part = (now.step + 1.0) / (me->rank + 3);
        if (config->witness != NULL)
            usleep(STEP_US);
        TROUPE_TRY(troupe_allreduce(me, &part, 1, TROUPE_SUM));
        now.sum = now.sum * 0.9 + part;
        now.step++;
        if (now.step % 3 == 0)
            TROUPE_TRY(troupe_save(walk_state, me, &now));
        TROUPE_TRY(troupe_report(me, {"sum", now.sum}, {"step", now.step}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(walk, walk_settings);

// ---- the client

static void append(const char *name, const char *line)
{
    char *path = support_path(top, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
        abort();
    close(fd);
    free(path);
}

// Submits job `number` of a client, by its key, and says which number it was acknowledged with.
static troupe_job *submit(int client, int number)
{
    char key[32], line[128];
    troupe_job *job;
    snprintf(key, sizeof key, "c%d-%d", client, number);
    char *path = support_path(top, key);
    walk_settings config = {.start = client * 100 + number, .witness = path};
    troupe_must(troupe_submit(walk, &config, NULL, &job, .key = key, .name = key, .ranks = RANKS,
                              .cpus_per_rank = 0.5, .restarts = TROUPE_FOREVER, .storage = storage,
                              .console = TROUPE_CONSOLE_OFF, .server = TROUPE_SERVER_AUTO));
    snprintf(line, sizeof line, "%s %" PRId64 "\n", key, troupe_job_number(job));
    append("acknowledged", line);
    free(path);
    return job;
}

static void say_result(const char *file, int client, int number, const troupe_result *result)
{
    char line[256];
    snprintf(line, sizeof line, "c%d-%d %s %d %a\n", client, number,
             troupe_status_name(troupe_result_status(result)), troupe_result_reports(result),
             troupe_result_metric(result, "sum"));
    append(file, line);
}

static int act_client(int client)
{
    troupe_job *jobs[JOBS_MAX];
    for (int i = 0; i < jobs_each; i++)
        jobs[i] = submit(client, i);
    for (int i = 0; i < jobs_each; i++) {
        troupe_result *result;
        troupe_must(troupe_job_wait(jobs[i], 300000, &result));
        say_result("results", client, i, result);
        troupe_result_free(&result);
        troupe_must(troupe_job_leave(&jobs[i]));
    }
    char *over = support_path(top, "over");
    while (!support_exists(over)) // It may be killed now, too.
        usleep(1000);
    free(over);
    return troupe_stop();
}

// What the jobs come to where nothing is killed.
static int act_alone(void)
{
    for (int client = 0; client < CLIENTS; client++)
        for (int i = 0; i < jobs_each; i++) {
            walk_settings config = {.start = client * 100 + i};
            troupe_result *result;
            troupe_must(troupe_train(walk, &config, &result, .name = "alone", .ranks = RANKS,
                                     .storage = storage, .console = TROUPE_CONSOLE_OFF,
                                     .server = TROUPE_SERVER_NONE));
            say_result("expected", client, i, result);
            troupe_result_free(&result);
        }
    return troupe_stop();
}

// Starts this program again, to do that.
static pid_t start_again(const char *act, int number)
{
    pid_t pid;
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%d", number);
    snprintf(text[1], sizeof text[1], "%d", jobs_each);
    const char *argv[] = {"test_program_kills", act, text[0], text[1], NULL};
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, (char *const *)argv, environ),
                     0);
    return pid;
}

// ---- who is there

typedef enum kind { SERVER, GATEWAY, RUNNER, RANK, CLIENT, KINDS, OTHER } kind;
static const char *const kind_names[] = {"server", "gateway", "runner", "rank", "client"};

typedef struct found {
    struct {
        pid_t pid;
        kind kind;
    } items[512];
    size_t count;
} found;

static size_t read_of(pid_t pid, const char *name, char *text, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, capacity - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    return size > 0 ? (size_t)size : 0;
}

// Whether a rank has said so of itself.
static bool is_rank(pid_t pid)
{
    for (int i = 0; i < CLIENTS * jobs_each * RANKS; i++) {
        char name[64], line[32];
        snprintf(name, sizeof name, "%s/c%d-%d.%d", top, i / RANKS / jobs_each,
                 i / RANKS % jobs_each, i % RANKS);
        char *text = support_read_file(name);
        snprintf(line, sizeof line, "%d ", (int)pid);
        const char *at = text != NULL ? strstr(text, line) : NULL;
        bool is = at != NULL && (at == text || at[-1] == '\n');
        free(text);
        if (is)
            return true;
    }
    return false;
}

// Whether it has the lock of a job.
static bool is_runner(pid_t pid)
{
    char path[600];
    for (int i = 1; i <= CLIENTS * jobs_each; i++) {
        trp_fence fence;
        snprintf(path, sizeof path, "%s/jobs/%08d", getenv("TROUPE_STATE"), i);
        if (trp_fence_look(path, &fence) == TROUPE_OK && fence.runner == pid)
            return true;
    }
    return false;
}

// What a process of this test's state folder is; OTHER too for those of other folders.
static kind kind_of(pid_t pid, bool *ours)
{
    static char environment[65536], arguments[4096];
    char wanted[600], path[64], program[4096];
    bool job = false;
    size_t size = read_of(pid, "environ", environment, sizeof environment);
    snprintf(wanted, sizeof wanted, "TROUPE_STATE=%s", getenv("TROUPE_STATE"));
    *ours = false;
    for (char *at = environment; at < environment + size; at += strlen(at) + 1) {
        *ours |= strcmp(at, wanted) == 0;
        job |= strncmp(at, "TROUPE_JOB=", 11) == 0;
    }
    if (!*ours)
        return OTHER;
    if (job)
        return is_rank(pid) ? RANK : is_runner(pid) ? RUNNER : OTHER;
    size = read_of(pid, "cmdline", arguments, sizeof arguments);
    const char *second = size > 0 ? arguments + strlen(arguments) + 1 : "";
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    const char *name = strrchr(program, '/');
    if (name != NULL && strcmp(name, "/troupe-server") == 0)
        return strcmp(second, "gateway") == 0 ? GATEWAY : SERVER;
    return OTHER;
}

static void find_all(found *all)
{
    DIR *folder = opendir("/proc");
    assert_non_null(folder);
    all->count = 0;
    for (struct dirent *at; (at = readdir(folder)) != NULL;) {
        bool ours;
        pid_t pid = atoi(at->d_name);
        kind is = pid > 0 && pid != getpid() ? kind_of(pid, &ours) : OTHER;
        if (pid <= 0 || pid == getpid() || !ours || all->count == 512)
            continue;
        all->items[all->count].pid = pid;
        all->items[all->count++].kind = is;
    }
    closedir(folder);
}

// ---- killing

static int killed[KINDS];
static pid_t clients[CLIENTS];

static bool kill_one(kind what)
{
    static found all;
    size_t count = 0;
    if (what == CLIENT) {
        int client = (int)(rand_r(&seed) % CLIENTS);
        if (clients[client] == 0)
            return false;
        int status;
        (void)kill(clients[client], SIGKILL);
        assert_int_equal(waitpid(clients[client], &status, 0), clients[client]);
        clients[client] = start_again("client", client);
        return true;
    }
    find_all(&all);
    for (size_t i = 0; i < all.count; i++)
        count += all.items[i].kind == what;
    if (count == 0)
        return false;
    size_t which = rand_r(&seed) % count;
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].kind == what && which-- == 0)
            return kill(all.items[i].pid, SIGKILL) == 0;
    return false;
}

static void run_tool(const char *what, char *output, size_t capacity)
{
    char command[600];
    snprintf(command, sizeof command, "%s %s", support_setting("TROUPE_TOOL"), what);
    if (support_run(command, output, capacity) != 0)
        support_fail_output(output, "%s has failed", command);
}

static void start_server(void)
{
    char output[4000];
    run_tool("server start --cpus 4", output, sizeof output);
}

// Also while some have ended already.
static bool clients_run(void)
{
    bool any = false;
    for (int i = 0; i < CLIENTS; i++) {
        int status;
        if (clients[i] == 0)
            continue;
        if (waitpid(clients[i], &status, WNOHANG) == clients[i]) {
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("client %d ended with status %x", i, status);
            clients[i] = 0;
        }
        any |= clients[i] != 0;
    }
    return any;
}

static void kill_at_random(void)
{
    int done = 0;
    while (done < kills && clients_run()) {
        kind what = (kind)(rand_r(&seed) % KINDS);
        usleep(rand_r(&seed) % 60000);
        if (!kill_one(what))
            continue;
        killed[what]++;
        done++;
        if (what == SERVER)
            start_server();
    }
    assert_int_equal(done, kills);
    append("over", "");
}

// ---- what has to hold at the end

// The text after the last line of that key, or NULL.
static const char *last_of(const char *text, const char *key)
{
    const char *last = NULL;
    size_t length = strlen(key);
    for (const char *at = text; at != NULL && *at != '\0'; at = strchr(at, '\n') + 1)
        if (strncmp(at, key, length) == 0 && at[length] == ' ')
            last = at + length + 1;
    return last;
}

static char *read_top(const char *name)
{
    char *path = support_path(top, name), *text = support_read_file(path);
    free(path);
    if (text == NULL)
        fail_msg("there is no file %s", name);
    return text;
}

// All lines of a key have one number, which no other key has.
static void assert_acknowledged_once(void)
{
    char *text = read_top("acknowledged");
    int64_t of[CLIENTS * JOBS_MAX] = {0};
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        int client, number;
        int64_t job;
        assert_int_equal(sscanf(at, "c%d-%d %" SCNd64, &client, &number, &job), 3);
        int64_t *known = &of[client * jobs_each + number];
        if (job <= 0 || (*known != 0 && *known != job))
            fail_msg("c%d-%d was acknowledged as job %" PRId64 " and %" PRId64, client, number,
                     *known, job);
        *known = job;
    }
    for (int i = 0; i < CLIENTS * jobs_each; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(of[i], of[j]);
    free(text);
}

static void assert_results_are_undisturbed(void)
{
    char *results = read_top("results"), *expected = read_top("expected");
    for (int i = 0; i < CLIENTS * jobs_each; i++) {
        char key[32];
        snprintf(key, sizeof key, "c%d-%d", i / jobs_each, i % jobs_each);
        const char *got = last_of(results, key), *wanted = last_of(expected, key);
        assert_non_null(wanted);
        if (got == NULL || strncmp(got, wanted, (size_t)(strchr(wanted, '\n') - wanted)) != 0)
            fail_msg("%s came to %.60s and not to %.60s", key, got != NULL ? got : "nothing",
                     wanted);
    }
    free(results);
    free(expected);
}

static void assert_never_two(void)
{
    for (int i = 0; i < CLIENTS * jobs_each * RANKS; i++) {
        char name[64];
        snprintf(name, sizeof name, "c%d-%d.%d", i / RANKS / jobs_each, i / RANKS % jobs_each,
                 i % RANKS);
        char *text = read_top(name);
        if (strstr(text, "TWICE") != NULL)
            fail_msg("two processes had rank %s at once:\n%s", name, text);
        free(text);
    }
}

// When a job was granted what it needs, and how often something was wished of it, are facts of the
// books alone.
static void leave_out(char *text, const char *name)
{
    for (char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name)) {
        char *value = at + strlen(name), *rest = value + strcspn(value, ",");
        memmove(value, rest, strlen(rest) + 1);
    }
}

static int count_texts(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

static char books[1 << 20];

// A client knows the end of its job by the job's folder, and the server a moment later.
static bool all_have_ended(void *unused)
{
    (void)unused;
    run_tool("jobs --all --json", books, sizeof books);
    return count_texts(books, "\"state\": \"ENDED\"") == CLIENTS * jobs_each;
}

// The books are those that the folders alone would make.
static void assert_books_are_of_folders(void)
{
    static char again[1 << 20], output[4000];
    char command[900];
    if (!support_wait_until(all_have_ended, NULL, SUPPORT_SOON_MS))
        support_fail_output(books, "not all jobs have ended");
    assert_int_equal(count_texts(books, "\"submission\""), CLIENTS * jobs_each);
    run_tool("server stop", output, sizeof output);
    snprintf(command, sizeof command, "rm %s/books.db*", getenv("TROUPE_STATE"));
    assert_int_equal(support_run(command, output, sizeof output), 0);
    start_server();
    run_tool("jobs --all --json", again, sizeof again);
    for (int i = 0; i < 2; i++) {
        leave_out(i == 0 ? books : again, "\"granted_at\": ");
        leave_out(i == 0 ? books : again, "\"revision\": ");
    }
    if (strcmp(books, again) != 0) {
        support_print(books);
        support_print(again);
        fail_msg("the books are others than those that are made of the folders");
    }
    run_tool("server stop", output, sizeof output);
}

static bool none_is_left(void *context)
{
    found *all = (found *)context;
    find_all(all);
    return all->count == 0;
}

// F14, F17.
static void test_whatever_is_killed_jobs_are_done_once(void **state)
{
    (void)state;
    static found all;
    unsigned begun_with = seed;
    int status;
    print_message("seed %u\n", begun_with);
    pid_t alone = start_again("alone", 0);
    assert_int_equal(waitpid(alone, &status, 0), alone);
    assert_int_equal(status, 0);
    start_server();
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = start_again("client", i);
    kill_at_random();
    while (clients_run())
        usleep(1000);
    for (int i = 0; i < KINDS; i++)
        print_message("%d of %s%s", killed[i], kind_names[i], i + 1 < KINDS ? ", " : " killed\n");
    start_server(); // Unless it runs.
    assert_acknowledged_once();
    assert_results_are_undisturbed();
    assert_never_two();
    assert_books_are_of_folders();
    if (!support_wait_until(none_is_left, &all, SUPPORT_SOON_MS))
        fail_msg("%zu processes are left, the first is %d", all.count, (int)all.items[0].pid);
}

static int end(void **state)
{
    (void)state;
    char command[400], output[4000];
    snprintf(command, sizeof command, "%s server stop --jobs", support_setting("TROUPE_TOOL"));
    (void)support_run(command, output, sizeof output);
    support_directory_remove(top);
    return 0;
}

int main(int argc, char **argv)
{
    top = getenv("TEST_PROGRAM_KILLS_TOP");
    bool again = top != NULL;
    if (!again) {
        top = support_directory_make();
        char *folder = support_path(top, "state");
        setenv("TEST_PROGRAM_KILLS_TOP", top, 1);
        setenv("TROUPE_STATE", folder, 1);
        setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
        unsetenv("TROUPE_SERVER");
        free(folder);
    }
    storage = support_path(top, "runs");
    if (again) {
        jobs_each = argc > 3 ? atoi(argv[3]) : 1;
        troupe_must(troupe_start(argc, argv, .cpus = RANKS)); // Does not return in a job.
        return strcmp(argv[1], "client") == 0 ? act_client(atoi(argv[2])) : act_alone();
    }
    if (argc > 1)
        kills = atoi(argv[1]);
    if (argc > 2)
        seed = (unsigned)strtoul(argv[2], NULL, 10);
    jobs_each = kills > 50 ? 60 : 3; // So many that all these kills come in time.
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whatever_is_killed_jobs_are_done_once),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
