// test_launcher.c: what a program that troupe-launch starts has about it, the job's lock, and what
// is said where it cannot be started.
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/arena.h>
#include <runtime/codec/unpack.h>
#include <sched.h>
#include <server/fence.h>
#include <server/launcher.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { JOB = 7, ATTEMPT = 3, NICE = 5, FILES = 200 };

// ---- the program: this one, with "look" as its first argument

static void print_status_line(const char *name)
{
    char *text = support_read_file("/proc/self/status");
    char *line = strstr(text, name);
    printf("%.*s\n", (int)strcspn(line, "\n"), line);
    free(text);
}

static void print_descriptors(void)
{
    printf("descriptors");
    for (int fd = 0; fd < FILES; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf(" %d", fd > 2 ? -1 : fd);
    printf("\n");
}

static void print_variable(const char *name)
{
    const char *value = getenv(name);
    printf("%s=%s\n", name, value != NULL ? value : "(none)");
}

// In the environment that the program was executed with.
static void find_variable(const char *name, char *value, size_t size)
{
    char all[16384];
    int fd = open("/proc/self/environ", O_RDONLY);
    ssize_t length = read(fd, all, sizeof all - 1);
    close(fd);
    value[0] = '\0';
    all[length > 0 ? length : 0] = '\0';
    for (char *at = all; at < all + length; at += strlen(at) + 1)
        if (strncmp(at, name, strlen(name)) == 0)
            snprintf(value, size, "%s", at + strlen(name));
}

static void print_order(int fd)
{
    char data[4096];
    trp_arena arena = {0};
    trp_wire_order order = {0};
    ssize_t size = pread(fd, data, sizeof data, 0);
    if (size > 0 && trp_unpack_whole(&troupe_type_trp_wire_order, data, (size_t)size, &arena,
                                     &order) == TROUPE_OK)
        printf("order %d of %s\n", order.attempt, order.submission);
    if (write(fd, "x", 1) != 1)
        printf("sealed\n");
    trp_arena_clear(&arena);
}

static int look(int argc, char **argv)
{
    char folder[4096], input[64] = "";
    struct rlimit files;
    cpu_set_t cpus;
    int pid = 0, lock = 0, order = 0, used = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < argc; i++)
        printf("argument %s\n", argv[i]);
    mode_t mask = umask(0);
    (void)umask(mask);
    getrlimit(RLIMIT_NOFILE, &files);
    sched_getaffinity(0, sizeof cpus, &cpus);
    (void)!readlink("/proc/self/fd/0", input, sizeof input - 1);
    printf("folder %s\n", getcwd(folder, sizeof folder));
    printf("umask %o nice %d files %d cpus %d input %s\n", (unsigned)mask,
           getpriority(PRIO_PROCESS, 0), (int)files.rlim_cur, CPU_COUNT(&cpus), input);
    printf("session %s\n", getsid(0) == getpid() ? "own" : "another's");
    print_status_line("SigBlk");
    print_status_line("SigIgn");
    print_descriptors();
    print_variable("GIVEN");
    print_variable("TROUPE_LOCAL");
    print_variable("TROUPE_WORKER");
    print_variable("TROUPE_IN_JOB");
    print_variable("CUDA_VISIBLE_DEVICES");
    char job[512]; // Of the library that this program has, a constructor has taken it away.
    find_variable("TROUPE_JOB=", job, sizeof job);
    if (sscanf(job, "%d:%d:%d:%n", &pid, &lock, &order, &used) == 3)
        printf("job %s %s %s\n", pid == getpid() ? "mine" : "another's",
               fcntl(lock, F_GETFD) >= 0 ? "locked" : "without a lock", job + used);
    print_order(order);
    fprintf(stderr, "error\n");
    char *go = support_path(argv[2], "go"), *looked = support_path(argv[2], "looked");
    support_write_file(looked, "", 0);
    while (!support_exists(go))
        usleep(1000);
    free(go);
    free(looked);
    return 0;
}

// ---- the job

typedef struct fixture {
    char *folder; // The job's,
    char *work;   // and the one where its program was.
    char self[4096];
    const char *arguments[4], *environment[6];
    trp_wire_limit limit;
    trp_wire_object object;
    cpu_set_t cpus;
    trp_wire_launch launch;
    trp_wire_order order;
    pid_t pid;
    int pidfd;
} fixture;

static trp_wire_object object_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (trp_wire_object){path, about.st_dev, about.st_ino,
                             about.st_ctim.tv_sec * INT64_C(1000000000) + about.st_ctim.tv_nsec,
                             (uint64_t)about.st_size};
}

static int set_up(void **state)
{
    static const char *const environment[] = {"GIVEN=one two", "TROUPE_LOCAL=1",
                                              "TROUPE_WORKER=1:2", "CUDA_VISIBLE_DEVICES=3",
                                              "ASAN_OPTIONS=detect_leaks=0"};
    fixture *f = calloc(1, sizeof *f);
    f->folder = support_directory_make();
    f->work = support_directory_make();
    assert_true(readlink("/proc/self/exe", f->self, sizeof f->self - 1) > 0);
    f->arguments[0] = "its own name";
    f->arguments[1] = "look";
    f->arguments[2] = f->folder;
    f->arguments[3] = "";
    memcpy(f->environment, environment, sizeof environment);
    f->limit = (trp_wire_limit){RLIMIT_NOFILE, FILES, FILES};
    f->object = object_of(f->self);
    sched_getaffinity(0, sizeof f->cpus, &f->cpus);
    for (int cpu = 0; CPU_COUNT(&f->cpus) > 1; cpu++)
        CPU_CLR(cpu, &f->cpus);
    f->launch = (trp_wire_launch){.program = f->self,
                                  .arguments = {f->arguments, 4},
                                  .environment = {f->environment, 5},
                                  .folder = f->work,
                                  .umask = 027,
                                  .nice = NICE,
                                  .affinity = {&f->cpus, sizeof f->cpus},
                                  .limits = {&f->limit, 1},
                                  .objects = {&f->object, 1}};
    f->order = (trp_wire_order){.job = JOB, .attempt = ATTEMPT, .submission = "abc", .cpus = 1};
    f->pidfd = -1;
    troupe_must(trp_fence_set(f->folder, ATTEMPT));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    if (f->pidfd >= 0)
        close(f->pidfd);
    support_directory_remove(f->folder);
    support_directory_remove(f->work);
    free(f);
    return 0;
}

static void start(fixture *f, const char *gpus)
{
    if (f->pidfd >= 0)
        close(f->pidfd);
    f->order.gpu_ids = gpus;
    troupe_must(trp_launcher_start(&f->launch, &f->order, f->folder, &f->pid, &f->pidfd));
}

static int exit_status(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool has_looked(void *user)
{
    char *looked = support_path(((fixture *)user)->folder, "looked");
    bool exists = support_exists(looked);
    free(looked);
    return exists;
}

static void let_go_on(fixture *f)
{
    char *go = support_path(f->folder, "go");
    support_write_file(go, "", 0);
    free(go);
    assert_int_equal(exit_status(f->pid), 0);
}

static trp_fence fence_of(const fixture *f)
{
    trp_fence fence;
    troupe_must(trp_fence_look(f->folder, &fence));
    return fence;
}

// The server has what programs that embed it may have: a signal ignored and one blocked, files
// open.
static void test_a_program_has_what_it_had_when_it_was_submitted(void **state)
{
    fixture *f = *state;
    char expected[8192];
    sigset_t blocked;
    int open_here = open("/dev/null", O_RDONLY);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    start(f, "1,2");
    assert_true(support_wait_until(has_looked, f, SUPPORT_SOON_MS));
    let_go_on(f);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    close(open_here);
    snprintf(expected, sizeof expected,
             "argument its own name\nargument look\nargument %s\nargument \nfolder %s\n"
             "umask 27 nice %d files %d cpus 1 input /dev/null\nsession own\n"
             "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\ndescriptors 0 1 2 -1 -1\n"
             "GIVEN=one "
             "two\nTROUPE_LOCAL=(none)\nTROUPE_WORKER=(none)\nTROUPE_IN_JOB=7\nCUDA_VISIBLE_"
             "DEVICES=1,2\n"
             "job mine locked %d:%d:%s\norder %d of abc\nsealed\nerror\n",
             f->folder, f->work, NICE, FILES, JOB, ATTEMPT, f->folder, ATTEMPT);
    support_assert_file(f->folder, "log", expected);
}

static void test_its_gpus_are_those_of_the_submission_or_none(void **state)
{
    fixture *f = *state;
    char *go = support_path(f->folder, "go"), *log = support_path(f->folder, "log");
    support_write_file(go, "", 0);
    start(f, NULL);
    assert_int_equal(exit_status(f->pid), 0);
    start(f, "");
    assert_int_equal(exit_status(f->pid), 0);
    char *text = support_read_file(log); // Of both: it is appended to.
    char *first = strstr(text, "CUDA_VISIBLE_DEVICES=3\n");
    assert_non_null(first);
    assert_non_null(strstr(first, "CUDA_VISIBLE_DEVICES=\n"));
    free(text);
    free(go);
    free(log);
}

static void test_the_lock_is_kept_and_another_launcher_ends(void **state)
{
    fixture *f = *state;
    start(f, NULL);
    assert_true(support_wait_until(has_looked, f, SUPPORT_SOON_MS));
    assert_int_equal(fence_of(f).runner, f->pid);
    pid_t first = f->pid;
    char *log = support_path(f->folder, "log"), *before = support_read_file(log);
    start(f, NULL);
    assert_int_equal(exit_status(f->pid), 0);
    char *after = support_read_file(log);
    assert_string_equal(after, before);
    f->pid = first;
    let_go_on(f);
    assert_int_equal(fence_of(f).runner, 0);
    free(log);
    free(before);
    free(after);
}

static void assert_nothing_runs(fixture *f)
{
    char *log = support_path(f->folder, "log"), *go = support_path(f->folder, "go");
    support_write_file(go, "", 0); // One that did would end, and be told.
    start(f, NULL);
    assert_int_equal(exit_status(f->pid), 0);
    assert_false(support_exists(log));
    free(log);
    free(go);
}

// A launcher that was held up, by a server that died meanwhile.
static void test_a_late_launcher_runs_nothing(void **state)
{
    fixture *f = *state;
    troupe_must(trp_fence_set(f->folder, ATTEMPT + 1));
    assert_nothing_runs(f);
    troupe_must(trp_fence_set(f->folder, ATTEMPT));
    trp_job_end end = {.attempt = ATTEMPT, .status = TROUPE_PEER_LOST, .error = "lost"}, found;
    trp_arena arena = {0};
    troupe_must(trp_fence_end(f->folder, &end));
    assert_int_equal(fence_of(f).attempt, 0);
    assert_true(fence_of(f).set);
    assert_nothing_runs(f);
    troupe_must(trp_fence_set(f->folder, ATTEMPT));
    assert_nothing_runs(f); // There is an end.
    end.error = "again";
    assert_int_equal(trp_fence_end(f->folder, &end), TROUPE_EXISTS);
    troupe_must(trp_job_end_read(f->folder, &arena, &found));
    assert_string_equal(found.error, "lost");
    assert_int_equal(found.status, TROUPE_PEER_LOST);
    trp_arena_clear(&arena);
}

static void test_a_job_that_runs_is_let_alone(void **state)
{
    fixture *f = *state;
    start(f, NULL);
    assert_true(support_wait_until(has_looked, f, SUPPORT_SOON_MS));
    assert_int_equal(trp_fence_set(f->folder, ATTEMPT + 1), TROUPE_BUSY);
    assert_int_equal(trp_fence_end(f->folder, &(trp_job_end){.attempt = ATTEMPT}), TROUPE_BUSY);
    assert_int_equal(fence_of(f).attempt, ATTEMPT);
    let_go_on(f);
    troupe_must(trp_fence_set(f->folder, ATTEMPT + 1));
}

// A full disk cannot lose it: it is written where blocks were reserved, and long errors are cut.
static void test_an_end_fits_into_what_was_reserved(void **state)
{
    fixture *f = *state;
    static char long_error[8192];
    trp_arena arena = {0};
    trp_job_end found;
    struct stat reserved, written;
    char *fresh = support_path(f->folder, "end.new"), *path = support_path(f->folder, "end");
    memset(long_error, 'e', sizeof long_error - 1);
    memcpy(long_error + 3499, "\xC3\xA4", 2); // Across the cut.
    troupe_must(trp_job_end_reserve(f->folder));
    assert_int_equal(stat(fresh, &reserved), 0);
    assert_true(reserved.st_blocks * 512 >= 4096);
    assert_int_equal(trp_job_end_read(f->folder, &arena, &found), TROUPE_NOT_FOUND);
    troupe_must(trp_job_end_write(f->folder, &(trp_job_end){.attempt = 2,
                                                            .status = TROUPE_FAILED,
                                                            .error = long_error,
                                                            .stopped = true,
                                                            .reports = 3,
                                                            .restarts = 4,
                                                            .ended_at = 5.5}));
    assert_int_equal(stat(path, &written), 0);
    assert_int_equal(written.st_ino, reserved.st_ino);
    assert_true(written.st_size < 4096);
    troupe_must(trp_job_end_read(f->folder, &arena, &found));
    assert_int_equal(strlen(found.error), 3499);
    assert_int_equal(found.attempt, 2);
    assert_true(found.stopped && found.reports == 3 && found.restarts == 4);
    assert_true(found.ended_at == 5.5);
    support_write_file(path, "x", 1);
    assert_int_equal(trp_job_end_read(f->folder, &arena, &found), TROUPE_CORRUPT);
    trp_arena_clear(&arena);
    free(fresh);
    free(path);
}

// The file `end` is there, with that status and a sentence that has those parts.
static void assert_end(const fixture *f, troupe_status status, const char *what, const char *why)
{
    trp_arena arena = {0};
    trp_job_end end;
    struct stat about;
    char *path = support_path(f->folder, "end");
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    troupe_must(trp_job_end_read(f->folder, &arena, &end));
    assert_int_equal(end.version, 1);
    assert_int_equal(end.attempt, ATTEMPT);
    assert_int_equal(end.status, status);
    assert_non_null(strstr(end.error, what));
    assert_non_null(strstr(end.error, why));
    assert_false(end.stopped);
    assert_true(end.ended_at > 1e9 && end.ended_at < 1e10);
    trp_arena_clear(&arena);
    unlink(path);
    free(path);
}

static void test_what_cannot_be_executed_ends_the_job(void **state)
{
    fixture *f = *state;
    char *text = support_path(f->work, "text"), *gone = support_path(f->work, "gone");
    support_write_file(text, "no program", 10);
    f->launch.program = text;
    f->launch.objects.count = 0;
    start(f, NULL);
    assert_int_equal(exit_status(f->pid), 1);
    assert_end(f, TROUPE_IO, text, strerror(EACCES));
    assert_int_equal(fence_of(f).runner, 0);
    f->launch.program = gone;
    start(f, NULL);
    assert_int_equal(exit_status(f->pid), 1);
    assert_end(f, TROUPE_NOT_FOUND, gone, strerror(ENOENT));
    f->launch.program = f->self;
    f->launch.folder = gone;
    start(f, NULL);
    assert_int_equal(exit_status(f->pid), 1);
    assert_end(f, TROUPE_NOT_FOUND, gone, "cannot be entered");
    free(text);
    free(gone);
}

static void assert_refused(fixture *f, const char *what, const char *why)
{
    assert_int_equal(trp_launcher_start(&f->launch, &f->order, f->folder, &f->pid, &f->pidfd),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, what));
    assert_non_null(strstr(troupe_last_error()->text, why));
    assert_non_null(strstr(troupe_last_error()->text, "after the job was queued: submit it again"));
    assert_int_equal(support_count_files(f->folder), 1); // `alive`
}

static void test_another_program_than_was_submitted_is_refused(void **state)
{
    fixture *f = *state;
    char *part = support_path(f->work, "libpart.so");
    support_write_file(part, "one", 3);
    trp_wire_object objects[] = {f->object, object_of(part)};
    f->launch.objects = (troupe_array_trp_wire_object){objects, 2};
    unlink(part);
    assert_refused(f, part, "of which the program of the job consists, is gone");
    support_write_file(part, "two", 3); // As large as before.
    assert_refused(f, part, "was rebuilt at 2");
    f->launch.objects.count = 1;
    objects[0].changed_ns--;
    assert_refused(f, f->self, " was rebuilt at 2");
    free(part);
}

static void test_no_descriptors_are_left(void **state)
{
    fixture *f = *state;
    char *go = support_path(f->folder, "go");
    support_write_file(go, "", 0);
    int before = support_count_descriptors();
    start(f, NULL);
    assert_int_equal(support_count_descriptors(), before + 1); // pidfd
    assert_int_equal(fcntl(f->pidfd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(exit_status(f->pid), 0);
    free(go);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "look") == 0)
        return look(argc, argv);
    setenv("TROUPE_COMMAND", getenv("TROUPE_TOOL"), 1);
    const struct CMUnitTest tests[] = {
        TEST(test_a_program_has_what_it_had_when_it_was_submitted),
        TEST(test_its_gpus_are_those_of_the_submission_or_none),
        TEST(test_the_lock_is_kept_and_another_launcher_ends),
        TEST(test_a_late_launcher_runs_nothing),
        TEST(test_a_job_that_runs_is_let_alone),
        TEST(test_an_end_fits_into_what_was_reserved),
        TEST(test_what_cannot_be_executed_ends_the_job),
        TEST(test_another_program_than_was_submitted_is_refused),
        TEST(test_no_descriptors_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
