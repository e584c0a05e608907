// test_released.c: jobs of a real train server run, are stopped, killed and lost in turn: each time
// all that they had is given back: processes, memory, sockets, ports, locks, descriptors, grants.
// timeout: 120
// cost: 20
// again: full slow 1800 200
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <runtime/node/at_stop.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <train/server_link.h>
#include <train/state_folder.h>
#include <troupe.h>
#include <unistd.h>

enum { RANKS = 2, FIRST = 8 };

static int rounds = 8;
static char *top;     // In the environment of all that is started here, which is known by that.
static bool is_alone; // Has a network and a /dev/shm of its own.

TROUPE_STRUCT(plan, (int, reports));

static troupe_status walk(troupe_rank *me, const plan *config)
{
    for (int i = 0; i < config->reports; i++) {
        double sum = 1;
        TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
        TROUPE_TRY(troupe_report(me, {"sum", sum}));
        if (i > 2)
            usleep(1000);
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(walk, plan);

// ---- what there is

typedef struct amounts {
    int processes, shared, sockets, descriptors, locks, running;
    double cpus_free;
    long memory_kib; // Of the server.
    bool gateway;    // It has one.
} amounts;

static pid_t server;

// Whether the process was started here.
static bool is_ours(const char *pid)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    bool ours = false;
    while (file != NULL && !ours && getdelim(&text, &size, '\0', file) > 0)
        ours = strncmp(text, "TEST_RELEASED_TOP=", 18) == 0 && strcmp(text + 18, top) == 0;
    free(text);
    if (file != NULL)
        fclose(file);
    return ours;
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *it; folder != NULL && (it = readdir(folder)) != NULL;)
        count += it->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return count;
}

// Lines of a table of the kernel's, but for connections that wait for nothing but time.
static int count_sockets(const char *table)
{
    char path[64], *line = NULL;
    size_t size = 0;
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/net/%s", table);
    FILE *file = fopen(path, "re");
    while (file != NULL && getline(&line, &size, file) > 0) {
        unsigned state;
        bool waits = sscanf(line, "%*d: %*s %*s %x", &state) == 1 && state == 6;
        count += !waits;
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return count;
}

// Of processes that were started here.
static int count_locks(void)
{
    char *line = NULL, pid[16];
    size_t size = 0;
    int count = 0;
    FILE *file = fopen("/proc/locks", "re");
    while (file != NULL && getline(&line, &size, file) > 0)
        count += sscanf(line, "%*d: %*s %*s %*s %15s", pid) == 1 && is_ours(pid);
    free(line);
    if (file != NULL)
        fclose(file);
    return count;
}

static long memory_of(pid_t pid)
{
    char path[64], *line = NULL;
    size_t size = 0;
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && getline(&line, &size, file) > 0)
        (void)sscanf(line, "RssAnon: %ld kB", &kib);
    free(line);
    if (file != NULL)
        fclose(file);
    return kib;
}

static void ask(trp_wire_kind kind, const troupe_type *type, const void *value,
                trp_wire_kind answer, const troupe_type *has, trp_arena *arena, void *out)
{
    trp_path folder;
    trp_server_link *link;
    trp_server_question question = {.kind = kind,
                                    .type = type,
                                    .value = value,
                                    .timeout_ms = SUPPORT_SOON_MS,
                                    .answer = answer,
                                    .has = has};
    troupe_must(trp_state_folder_find(&folder));
    troupe_must(trp_server_link_open(folder.text, NULL, &link));
    troupe_must(trp_server_link_ask(link, &question, arena, out));
    trp_server_link_close(&link);
}

static amounts look(void)
{
    trp_arena arena = {0};
    trp_wire_status status;
    amounts now = {0};
    ask(TRP_WIRE_SERVER, &troupe_type_troupe_none, &(troupe_none){0}, TRP_WIRE_STATUS,
        &troupe_type_trp_wire_status, &arena, &status);
    server = status.pid;
    now.running = status.running + status.waiting;
    now.cpus_free = status.cpus_free;
    now.gateway = status.gateway != NULL && status.gateway[0] != '\0';
    trp_arena_clear(&arena);
    DIR *folder = opendir("/proc");
    for (struct dirent *it; (it = readdir(folder)) != NULL;)
        if (it->d_name[0] >= '0' && it->d_name[0] <= '9' && is_ours(it->d_name)) {
            char path[300];
            snprintf(path, sizeof path, "/proc/%s/fd", it->d_name);
            now.descriptors += count_entries(path);
            now.processes++;
        }
    closedir(folder);
    now.locks = count_locks();
    now.memory_kib = memory_of(server);
    if (is_alone) {
        static const char *const tables[] = {"tcp", "tcp6", "udp", "unix"};
        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
            now.sockets += count_sockets(tables[i]);
        now.shared = count_entries("/dev/shm");
    }
    return now;
}

// What is kept for a while has gone: the server is alone with its gateway.
static bool is_at_rest(void *user)
{
    amounts *now = user;
    *now = look();
    return now->running == 0 && now->processes == (now->gateway ? 2 : 1);
}

static amounts before;

static bool is_as_before(void *user)
{
    amounts *now = user;
    *now = look();
    return now->processes == before.processes && now->shared == before.shared &&
           now->sockets == before.sockets && now->descriptors == before.descriptors &&
           now->locks == before.locks && now->running == 0 && now->cpus_free == before.cpus_free;
}

static void print(const char *when, const amounts *it)
{
    print_message("%s: %d processes, %d descriptors, %d locks, %d sockets, %d files in /dev/shm, "
                  "%d jobs, %g CPUs free, the server has %ld KiB\n",
                  when, it->processes, it->descriptors, it->locks, it->sockets, it->shared,
                  it->running, it->cpus_free, it->memory_kib);
}

// ---- jobs

static bool has_runner(void *user)
{
    trp_wire_job *job = user;
    trp_arena arena = {0};
    trp_wire_job_name name = {.job = job->job};
    ask(TRP_WIRE_FIND, &troupe_type_trp_wire_job_name, &name, TRP_WIRE_JOB,
        &troupe_type_trp_wire_job, &arena, job);
    trp_arena_clear(&arena); // Its texts are not looked at.
    return job->state == TRP_JOB_RUNNING && job->reports > 1 && job->runner > 0;
}

static void run_one(int round)
{
    enum { ENDS, STOPPED, KILLED, LOST, WAYS };
    int way = round % WAYS;
    char *storage = support_path(top, "runs");
    plan config = {.reports = way == ENDS ? 3 : 1000000};
    trp_wire_job about = {0};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(walk, &config, NULL, &job, .ranks = RANKS, .cpus_per_rank = 0.5,
                              .storage = storage, .console = TROUPE_CONSOLE_OFF,
                              .server = TROUPE_SERVER_AUTO));
    about.job = troupe_job_number(job);
    assert_true(about.job > 0);
    if (way != ENDS)
        assert_true(support_wait_until(has_runner, &about, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    if (way == STOPPED)
        troupe_job_stop(job);
    else if (way == KILLED)
        troupe_job_kill(job, TROUPE_FAILED, "it was to be killed");
    else if (way == LOST)
        assert_int_equal(kill(about.runner, SIGKILL), 0);
    troupe_must(troupe_job_wait(job, SUPPORT_SLOWER * SUPPORT_SOON_MS, &result));
    static const troupe_status ends[] = {TROUPE_OK, TROUPE_OK, TROUPE_FAILED, TROUPE_PEER_LOST};
    assert_int_equal(troupe_result_status(result), ends[way]);
    troupe_result_free(&result);
    troupe_job_close(&job);
    free(storage);
}

// F17.
static void test_all_that_jobs_had_is_given_back(void **state)
{
    enum { MORE_KIB = 4096, EACH_KIB = 16 };
    amounts after;
    (void)state;
    for (int i = 0; i < FIRST; i++) // What is made once is there then.
        run_one(i);
    trp_at_stop_run(); // The connection is kept for a second, and copies of runners as well.
    assert_true(support_wait_until(is_at_rest, &before, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    for (amounts again = look(); memcmp(&again, &before, offsetof(amounts, memory_kib)) != 0;
         before = again, again = look())
        usleep(300000); // The last ones are going.
    print("before", &before);
    assert_int_equal(before.running, 0);
    for (int i = 0; i < rounds; i++)
        run_one(i);
    trp_at_stop_run();
    bool same = support_wait_until(is_as_before, &after, SUPPORT_SLOWER * SUPPORT_SOON_MS);
    print("after", &after);
    assert_true(same);
    // It keeps what it knows of each job.
    if (SUPPORT_SLOWER == 1)
        assert_true(after.memory_kib < before.memory_kib + MORE_KIB + EACH_KIB * rounds);
}

// ---- the program

static void run_tool(const char *what)
{
    char command[600], output[4000];
    snprintf(command, sizeof command, "%s %s", support_setting("TROUPE_TOOL"), what);
    if (support_run(command, output, sizeof output) != 0)
        support_fail_output(output, "%s has failed", command);
}

static int begin(void **state)
{
    (void)state;
    run_tool("server start --cpus 4 --warm 1");
    return 0;
}

static int end(void **state)
{
    (void)state;
    run_tool("server stop --jobs");
    (void)troupe_stop();
    support_directory_remove(top);
    return 0;
}

// False: this process runs in a chroot, say, whose mounts cannot be made its own.
static bool has_root_mount(void)
{
    struct statx root;
    bool known = statx(AT_FDCWD, "/", 0, STATX_TYPE, &root) == 0 &&
                 (root.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
    errno = EINVAL;
    return !known || (root.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// Others use the machine, too.
static bool be_alone(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    support_allow_mounts();
    if (!has_root_mount() || unshare(CLONE_NEWNS | CLONE_NEWNET) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") != 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    close(fd);
    return up;
}

int main(int argc, char **argv)
{
    top = getenv("TEST_RELEASED_TOP");
    if (top == NULL) {
        is_alone = be_alone();
        if (!is_alone)
            print_message("sockets and /dev/shm are not counted: %s\n", strerror(errno));
        top = support_directory_make();
        char *folder = support_path(top, "state");
        setenv("TROUPE_STATE", folder, 1);
        setenv("TEST_RELEASED_TOP", top, 1);
        setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
        unsetenv("TROUPE_SERVER");
        free(folder);
    }
    troupe_must(troupe_start(argc, argv, .cpus = RANKS)); // Does not return in a job.
    if (argc > 1)
        rounds = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_jobs_had_is_given_back),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
