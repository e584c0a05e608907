// server.c: what a train server makes of jobs of this program.
//
//     server FOLDER quick|full ROW...
//
// Prints "<row> <value> <p50> <p99> <p999>" for each row; bench_server.c says what they are. Each
// has a server of its own, with two CPUs, whose state and runs lie in FOLDER. A client is a process
// of its own: this program started again, or, where no program is to be known to the server yet, a
// copy of it. It has connected before it is told to begin.
#include <harness.h>

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

enum {
    WAIT_MS = 60000,
    STEP_US = 1000,
    CLIENTS = 8,
    CLIENTS_MAX = 32,
};

static char folder[1024], runs[1100], programs[1100];
static bool quick;

// ---- The jobs

typedef enum kind { NOTHING, ONCE, STEPS, UNTIL_KILLED } kind;

TROUPE_STRUCT(plan, (int, kind), (int, count));

static troupe_status say(troupe_rank *me)
{
    return troupe_report(me, {"made", (double)bench_now_ns()});
}

static troupe_status report_steps(troupe_rank *me, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t end = bench_now_ns() + STEP_US * 1000LL;
        while (bench_now_ns() < end)
            continue;
        TROUPE_TRY(troupe_barrier(me));
        TROUPE_TRY(say(me));
    }
    return TROUPE_OK;
}

static troupe_status measured(troupe_rank *me, const plan *config)
{
    switch ((kind)config->kind) {
    case NOTHING:
        return TROUPE_OK;
    case ONCE:
        return say(me);
    case STEPS:
        return report_steps(me, config->count);
    case UNTIL_KILLED:
        TROUPE_TRY(say(me));
        for (;;)
            pause();
    }
    return troupe_fail(TROUPE_INVALID, "there is no loop %d", config->kind);
}

TROUPE_TRAINER(measured, plan);

typedef struct watcher {
    _Atomic int64_t first_ns; // 0: no report yet.
    sem_t first;              // Posted once there is one.
    bench_samples follow;     // From making to seeing, in us.
} watcher;

static void see(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    watcher *it = (watcher *)user;
    int64_t now = bench_now_ns(), none = 0;
    if (atomic_compare_exchange_strong(&it->first_ns, &none, now))
        sem_post(&it->first);
    bench_samples_add(&it->follow, ((double)now - event->metrics[0].value) / 1e3);
}

static troupe_job *submit(kind what, int count, int ranks, watcher *it)
{
    troupe_job *job;
    plan config = {(int)what, count};
    if (it) {
        atomic_store(&it->first_ns, 0);
        sem_init(&it->first, 0, 0);
    }
    troupe_follower follower = {.size = sizeof follower, .report = see, .user = it};
    troupe_must(troupe_submit(measured, &config, it ? &follower : NULL, &job, .name = "bench",
                              .storage = runs, .ranks = ranks, .console = TROUPE_CONSOLE_OFF,
                              .server = TROUPE_SERVER_AUTO));
    if (troupe_job_number(job) == 0)
        bench_die("server: the job is none of the server");
    return job;
}

static void await_end(troupe_job *job)
{
    troupe_result *result = NULL;
    troupe_must(troupe_job_wait(job, WAIT_MS, &result));
    if (troupe_result_status(result) != TROUPE_OK)
        bench_die("server: a job failed: %s", troupe_result_error(result));
    troupe_result_free(&result);
}

// Asleep: to look again and again would take the CPU from the job.
static void await_first(watcher *it)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_MS / 1000;
    if (sem_timedwait(&it->first, &end) != 0)
        bench_die("server: no report came in %d ms", WAIT_MS);
}

// So that what is measured does not begin with the connection.
static void connect_first(void)
{
    troupe_job *none;
    if (troupe_job_find("none", &none) != TROUPE_NOT_FOUND)
        bench_die("server: no server answers: %s", troupe_last_error()->text);
}

// ---- The server

static bool run_tool(const char *arguments)
{
    char command[1200];
    snprintf(command, sizeof command, "'%s' server %s >/dev/null", getenv("TROUPE_COMMAND"),
             arguments);
    return system(command) == 0; // NOLINT(cert-env33-c)
}

// It ends with this process, however that ends.
static void start_server(void)
{
    const char *tool = getenv("TROUPE_COMMAND");
    pid_t parent = getpid(), server = fork();
    if (server == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && dup2(null, STDOUT_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0)
            execl(tool, tool, "server", "start", "--foreground", "--cpus", "2", "--no-gateway",
                  NULL);
        _exit(EXIT_FAILURE);
    }
    int64_t end = bench_now_ns() + WAIT_MS * 1000000LL;
    while (!run_tool("status 2>/dev/null"))
        if (server < 0 || waitpid(server, NULL, WNOHANG) == server || bench_now_ns() > end)
            bench_die("server: no server can be started in %s", getenv("TROUPE_STATE"));
    if (mkdir(programs, 0700) != 0)
        bench_die("server: cannot make %s", programs);
}

static void stop_server(void)
{
    if (!run_tool("stop --jobs"))
        bench_die("server: the server cannot be stopped");
    bench_remove(getenv("TROUPE_STATE"));
    bench_remove(runs);
    bench_remove(programs);
}

// ---- Clients

typedef struct clients {
    int count, go, said; // The ends of pipes: closing `go` lets all begin.
    FILE *lines;
    pid_t pids[CLIENTS_MAX];
} clients;

static void copy_program(const char *path)
{
    static char bytes[1 << 16];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, (size_t)got) != got)
            break;
    if (from < 0 || to < 0 || got != 0)
        bench_die("server: cannot copy the program to %s", path);
    close(from);
    close(to);
}

static void spawn_client(clients *all, const char *path, const char *act, int in, int out)
{
    posix_spawn_file_actions_t actions;
    const char *arguments[] = {path, folder, quick ? "quick" : "full", act, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (posix_spawn(&all->pids[all->count++], path, &actions, NULL, (char *const *)arguments,
                    environ) != 0)
        bench_die("server: cannot start %s", path);
    posix_spawn_file_actions_destroy(&actions);
}

// Starts them, and waits until each is ready.
static void open_clients(clients *all, int count, const char *act, bool own_program)
{
    static int copies;
    int go[2], said[2];
    char path[1200], line[64];
    *all = (clients){0};
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0)
        bench_die("server: no pipe");
    for (int i = 0; i < count; i++) {
        if (!bench_path("server", path, sizeof path))
            bench_die("server: the path of the program is too long");
        if (own_program) {
            snprintf(path, sizeof path, "%s/copy%d", programs, copies++);
            copy_program(path);
        }
        spawn_client(all, path, act, go[0], said[1]);
    }
    close(go[0]);
    close(said[1]);
    all->go = go[1];
    all->lines = fdopen(said[0], "r");
    for (int i = 0; i < count; i++)
        if (!fgets(line, sizeof line, all->lines) || strcmp(line, "ready\n") != 0)
            bench_die("server: a client is not ready");
}

// Lets them begin; returns how long it took from the first one's start to the last one's end.
static double run_clients(clients *all)
{
    int64_t begin = INT64_MAX, end = 0, one_begin, one_end;
    close(all->go);
    for (int i = 0; i < all->count; i++) {
        int status;
        if (fscanf(all->lines, "%" SCNd64 " %" SCNd64 "\n", &one_begin, &one_end) != 2)
            bench_die("server: a client failed");
        begin = one_begin < begin ? one_begin : begin;
        end = one_end > end ? one_end : end;
        waitpid(all->pids[i], &status, 0);
    }
    fclose(all->lines);
    return (double)(end - begin) / 1e9;
}

// ---- What clients do

static void act_submit(void)
{
    for (int i = 0; i < (quick ? 2 : 200); i++) {
        troupe_job *job = submit(NOTHING, 0, 1, NULL);
        troupe_must(troupe_job_leave(&job));
    }
}

static void act_job(void)
{
    troupe_job *job = submit(NOTHING, 0, 1, NULL);
    await_end(job);
    troupe_job_close(&job);
}

static void act_first(void)
{
    watcher it = {0};
    troupe_job *job = submit(ONCE, 0, 1, &it);
    await_first(&it);
    int64_t seen = atomic_load(&it.first_ns);
    printf("%" PRId64 "\n", seen);
    await_end(job);
    troupe_job_close(&job);
}

static void act(const char *what)
{
    connect_first();
    printf("ready\n");
    fflush(stdout);
    (void)!getchar(); // Until it may begin.
    int64_t begin = bench_now_ns();
    printf("%" PRId64 " ", begin);
    if (strcmp(what, "first") == 0) {
        act_first();
        return;
    }
    if (strcmp(what, "submit") == 0)
        act_submit();
    else
        act_job();
    printf("%" PRId64 "\n", bench_now_ns());
}

// ---- The rows

// A job that has all CPUs, so that what comes after it waits.
static troupe_job *hold_cpus(void)
{
    static watcher it;
    troupe_job *job = submit(UNTIL_KILLED, 0, 2, &it);
    await_first(&it);
    return job;
}

static bench_round submissions(void)
{
    int count = quick ? 3 : 400;
    bench_samples times;
    bench_samples_open(&times, (size_t)count);
    troupe_job *holder = hold_cpus();
    for (int i = 0; i < count; i++) {
        int64_t start = bench_now_ns();
        troupe_job *job = submit(NOTHING, 0, 1, NULL);
        bench_samples_add(&times, (double)(bench_now_ns() - start) / 1e3);
        troupe_must(troupe_job_leave(&job));
    }
    troupe_must(troupe_job_leave(&holder));
    bench_round round = bench_round_of(&times);
    bench_samples_close(&times);
    return round;
}

static bench_round submission_rate(void)
{
    clients all;
    troupe_job *holder = hold_cpus();
    open_clients(&all, quick ? 2 : CLIENTS, "submit", false);
    double seconds = run_clients(&all);
    troupe_must(troupe_job_leave(&holder));
    return bench_round_plain(all.count * (quick ? 2 : 200) / seconds);
}

static bench_round first_cold(void)
{
    int count = quick ? 1 : 10;
    bench_samples times;
    bench_samples_open(&times, (size_t)count);
    for (int i = 0; i < count; i++) {
        clients one;
        open_clients(&one, 1, "first", true);
        bench_samples_add(&times, run_clients(&one) * 1e3);
    }
    bench_round round = bench_round_of(&times);
    bench_samples_close(&times);
    return round;
}

// Behind the first, which is not counted.
static bench_round first_warm(void)
{
    int count = quick ? 1 : 20;
    bench_samples times;
    bench_samples_open(&times, (size_t)count);
    for (int i = 0; i <= count; i++) {
        watcher it = {0};
        int64_t start = bench_now_ns();
        troupe_job *job = submit(ONCE, 0, 1, &it);
        await_first(&it);
        if (i > 0)
            bench_samples_add(&times, (double)(atomic_load(&it.first_ns) - start) / 1e6);
        await_end(job);
        troupe_job_close(&job);
    }
    bench_round round = bench_round_of(&times);
    bench_samples_close(&times);
    return round;
}

static bench_round jobs_cold(void)
{
    clients all;
    open_clients(&all, quick ? 2 : 24, "job", true);
    double seconds = run_clients(&all);
    return bench_round_plain(all.count / seconds);
}

static bench_round jobs_warm(void)
{
    enum { MOST = 120 };
    troupe_job *jobs[MOST];
    int count = quick ? 2 : MOST;
    act_job();
    int64_t start = bench_now_ns();
    for (int i = 0; i < count; i++)
        jobs[i] = submit(NOTHING, 0, 1, NULL);
    for (int i = 0; i < count; i++)
        await_end(jobs[i]);
    double seconds = (double)(bench_now_ns() - start) / 1e9;
    for (int i = 0; i < count; i++)
        troupe_job_close(&jobs[i]);
    return bench_round_plain(count / seconds);
}

static bench_round follow(void)
{
    int count = quick ? 20 : 2000;
    watcher it = {0};
    bench_samples_open(&it.follow, (size_t)count);
    troupe_job *job = submit(STEPS, count, 2, &it);
    await_end(job);
    troupe_job_close(&job);
    bench_round round = bench_round_of(&it.follow);
    bench_samples_close(&it.follow);
    return round;
}

static const struct {
    const char *name;
    bench_round (*measure)(void);
} rows[] = {
    {"server.submit", submissions},
    {"server.submit.rate", submission_rate},
    {"server.first_report.cold", first_cold},
    {"server.first_report.warm", first_warm},
    {"server.jobs.cold", jobs_cold},
    {"server.jobs.warm", jobs_warm},
    {"server.follow", follow},
};

static void measure(const char *row)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(row, rows[i].name) == 0) {
            start_server();
            connect_first();
            bench_round round = rows[i].measure();
            printf("%s ", row);
            bench_round_print(round);
            fflush(stdout);
            stop_server();
            return;
        }
    bench_die("server: there is no row %s", row);
}

static void settle(const char *state)
{
    char tool[1024];
    if (!bench_path("../../tools/troupe", tool, sizeof tool))
        bench_die("server: the path of the program is too long");
    setenv("TROUPE_COMMAND", tool, 1);
    setenv("TROUPE_STATE", state, 1);
    unsetenv("TROUPE_SERVER");
}

int main(int argc, char **argv)
{
    char state[1100];
    if (argc < 4)
        bench_die("usage: server FOLDER quick|full ROW...");
    snprintf(folder, sizeof folder, "%s", argv[1]);
    snprintf(state, sizeof state, "%s/state", folder);
    snprintf(runs, sizeof runs, "%s/runs", folder);
    snprintf(programs, sizeof programs, "%s/programs", folder);
    quick = strcmp(argv[2], "quick") == 0;
    bool is_client = strchr(argv[3], '.') == NULL;
    if (!is_client || strcmp(argv[3], "stop") == 0) // Clients and jobs have it of this one.
        settle(state);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE)); // Does not return in a job.
    if (strcmp(argv[3], "stop") == 0)
        stop_server();
    else if (is_client)
        act(argv[3]);
    for (int i = 3; i < argc && !is_client; i++)
        measure(argv[i]);
    return troupe_stop();
}
