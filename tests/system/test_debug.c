// test_debug.c: what helps to find a fault: a worker that waits for a debugger, and the words about
// one that a signal or the memory limit has ended. Each case is a driver process whose output is
// read here.
// timeout: 120
#include <support.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/actor.h>
#include <troupe/life.h>
#include <unistd.h>

typedef struct patient {
    int unused;
} patient;

static troupe_status end_by(patient *self, const int *signal, int *result)
{
    (void)self;
    *result = 0;
    (void)kill(getpid(), *signal);
    while (*result == 0)
        pause();
    return TROUPE_OK;
}

static troupe_status add(patient *self, const int *number, int *result)
{
    (void)self;
    *result = *number + 1;
    return TROUPE_OK;
}

static troupe_status eat(patient *self, const int *mebibytes, int *result)
{
    (void)self;
    *result = 0;
    for (int i = 0; i < *mebibytes; i++) {
        char *piece =
            mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED)
            return troupe_fail(TROUPE_NO_MEMORY, "no more memory after %d MiB", i);
        memset(piece, 1, 1 << 20);
    }
    return TROUPE_OK;
}

TROUPE_ACTOR(patient, (end_by, int, int), (add, int, int), (eat, int, int));

// Starts `drive` as a driver; *lines gets its errors.
static pid_t begin(int (*drive)(void), FILE **lines)
{
    int errors[2];
    assert_int_equal(pipe(errors), 0);
    fflush(NULL);
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        (void)alarm(60);
        (void)signal(SIGSEGV, SIG_DFL);
        (void)dup2(errors[1], STDERR_FILENO);
        close(errors[0]);
        close(errors[1]);
        exit(drive());
    }
    close(errors[1]);
    *lines = fdopen(errors[0], "r");
    assert_non_null(*lines);
    return driver;
}

static void end(pid_t driver, FILE *lines)
{
    int status;
    char line[512];
    assert_int_equal(waitpid(driver, &status, 0), driver);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        while (fgets(line, sizeof line, lines) != NULL)
            print_error("%s", line);
        print_error("driver: status %x\n", (unsigned)status);
    }
    fclose(lines);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- waiting for a debugger

static int drive_waiting(void)
{
    int result = 0;
    troupe_must(troupe_start(0, NULL, .workers = 1));
    patient_actor pooled = troupe_spawn(patient, .place = TROUPE_PLACE_WORKER);
    patient_actor named = troupe_spawn(patient, .place = TROUPE_PLACE_ISOLATED, .name = "mary");
    troupe_must(troupe_get(int, troupe_call(pooled, add, 1), &result));
    troupe_must(troupe_get(int, troupe_call(named, add, result), &result));
    (void)troupe_stop();
    return result == 3 ? 0 : 2;
}

static void check_waiting(const char *wanted, const char *label)
{
    char line[512], writer[64];
    int pid = 0, named = 0;
    FILE *lines;
    setenv("TROUPE_DEBUG_WAIT", wanted, 1);
    pid_t driver = begin(drive_waiting, &lines);
    unsetenv("TROUPE_DEBUG_WAIT");
    assert_non_null(fgets(line, sizeof line, lines));
    assert_int_equal(
        sscanf(line, "(%63[^=]=%d) waiting for a debugger: gdb -p %d", writer, &named, &pid), 3);
    assert_int_equal(named, pid);
    assert_memory_equal(writer, label, strlen(label));
    assert_int_equal(kill(pid, SIGCONT),
                     0); // As a debugger's "continue" would not: see host/debug_wait.h.
    end(driver, lines);
}

static void test_waiting(void **state)
{
    (void)state;
    check_waiting("mary", "mary pid");
    check_waiting("patient", "mary pid");
    check_waiting("2", "worker 2 pid");
}

static void test_waiting_ends(void **state)
{
    (void)state;
    FILE *lines;
    setenv("TROUPE_DEBUG_WAIT", "mary", 1);
    setenv("TROUPE_DEBUG_WAIT_SECONDS", "0", 1);
    pid_t driver = begin(drive_waiting, &lines);
    end(driver, lines);
    unsetenv("TROUPE_DEBUG_WAIT");
    unsetenv("TROUPE_DEBUG_WAIT_SECONDS");
}

// ---- the words about a crash

static int drive_crash(void)
{
    int result;
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE));
    patient_actor one = troupe_spawn(patient, .place = TROUPE_PLACE_ISOLATED, .name = "mary");
    troupe_status status = troupe_get(int, troupe_call(one, end_by, SIGQUIT), &result);
    bool said = strstr(troupe_last_error()->text,
                       "was killed by signal 3 (Quit) before it answered; the call may have been "
                       "executed; no core file: ulimit -c is 0") != NULL;
    if (!said)
        fprintf(stderr, "%s\n", troupe_last_error()->text);
    (void)troupe_stop();
    return status == TROUPE_MAYBE_EXECUTED && said ? 0 : 2;
}

static void test_crash(void **state)
{
    (void)state;
    FILE *lines;
    char line[512];
    pid_t driver = begin(drive_crash, &lines);
    assert_non_null(fgets(line, sizeof line, lines));
    assert_non_null(strstr(line, "(mary, pid "));
    assert_non_null(strstr(line, "was killed by signal 3 (Quit); no core file: ulimit -c is 0"));
    end(driver, lines);
}

// ---- the memory limit

enum { LIMIT_MIB = 256 };

static char group[128];

static bool write_text(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

static int drive_eating(void)
{
    int result;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", getpid());
    if (!write_text("cgroup.procs", pid))
        return 3;
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .store_bytes_max = 1 << 20));
    patient_actor one = troupe_spawn(patient, .place = TROUPE_PLACE_ISOLATED, .name = "glutton");
    troupe_status status = troupe_get(int, troupe_call(one, eat, 2 * LIMIT_MIB), &result);
    bool said = strstr(troupe_last_error()->text, "memory limit of its cgroup") != NULL;
    if (!said)
        fprintf(stderr, "%s\n", troupe_last_error()->text);
    troupe_down down;
    troupe_must(troupe_actor_await_end(one.address, SUPPORT_SOON_MS, &down));
    bool told = down.reason == TROUPE_DOWN_NO_MEMORY && down.signal == 0 &&
                strstr(down.text, "memory limit of its cgroup") != NULL;
    if (!told)
        fprintf(stderr, "%s: %s\n", troupe_down_reason_name(down.reason), down.text);
    (void)troupe_stop();
    return status == TROUPE_MAYBE_EXECUTED && said && told ? 0 : 2;
}

static bool is_removed(void *context) // Its last process may still be leaving it.
{
    (void)context;
    return rmdir(group) == 0;
}

static void test_memory_limit(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *limit;
    } versions[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                    {"/sys/fs/cgroup", "memory.max"}};
    char limit[32];
    snprintf(limit, sizeof limit, "%d", LIMIT_MIB << 20);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        snprintf(group, sizeof group, "%s/troupe-test-%d", versions[i].folder, getpid());
        if (mkdir(group, 0755) != 0)
            continue;
        if (write_text(versions[i].limit, limit)) {
            FILE *lines;
            pid_t driver = begin(drive_eating, &lines);
            end(driver, lines);
            assert_true(support_wait_until(is_removed, NULL, SUPPORT_SOON_MS));
            return;
        }
        (void)rmdir(group);
    }
    skip(); // No cgroup can be made here; test_postmortem reads files that look like one's.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_waiting_ends),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_memory_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
