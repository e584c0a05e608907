// launch.c: the program `troupe-launch`: becomes a program that a job of the train server runs.
//
// The server starts it with a record on standard input, texts that each end with a NUL byte, in the
// order in which main reads them, and with the runner's order as descriptor 3 (server/launcher.c
// writes both). It takes the job's lock and looks whether its attempt is the one that may run
// (server/fence.h); then it makes of itself what the program had about it when the job was
// submitted, and executes it. Why it could not goes to the file `end` of the job's folder, packed
// as a trp_job_end (train/job_end.h). It is C's library alone, since it is in every start.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <troupe/status.h>
#include <unistd.h>

enum { RECORD_VERSION = 1, END_VERSION = 1, FAILED = 1, MISUSED = 2, ORDER_FD = 3 };
enum { ERROR_BYTES = 3500, PATH_BYTES = 4200 };

static struct {
    const char *at, *end; // What is left of the record.
    const char *folder;   // Of the job.
    int attempt;
    int end_fd; // Of `end.new`, opened while descriptors are not limited yet. -1: not yet.
} launch = {.end_fd = -1};

// A file in the job's folder.
static const char *job_file(const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", launch.folder, name);
    return path;
}

// ---- the file `end`

// As MessagePack: a record is an array of its members.
static size_t pack_number(unsigned char *out, uint32_t number)
{
    out[0] = 0xce;
    for (int i = 0; i < 4; i++)
        out[1 + i] = (unsigned char)(number >> (24 - 8 * i));
    return 5;
}

static size_t pack_text(unsigned char *out, const char *text, size_t size)
{
    out[0] = 0xda;
    out[1] = (unsigned char)(size >> 8);
    out[2] = (unsigned char)size;
    memcpy(out + 3, text, size);
    return 3 + size;
}

static size_t pack_double(unsigned char *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    out[0] = 0xcb;
    for (int i = 0; i < 8; i++)
        out[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
    return 9;
}

// {version, attempt, status, error, stopped, reports, restarts, ended_at}
static size_t pack_end(unsigned char *out, troupe_status status, const char *error, size_t length)
{
    enum { MEMBERS = 8, FALSE = 0xc2 };
    struct timespec now;
    size_t size = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    out[size++] = 0x90 | MEMBERS;
    size += pack_number(out + size, END_VERSION);
    size += pack_number(out + size, (uint32_t)launch.attempt);
    size += pack_number(out + size, (uint32_t)status);
    size += pack_text(out + size, error, length);
    out[size++] = FALSE;
    size += pack_number(out + size, 0);
    size += pack_number(out + size, 0);
    return size + pack_double(out + size, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
}

static bool write_end(const unsigned char *data, size_t size)
{
    char fresh[PATH_BYTES];
    int fd = launch.end_fd;
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || ftruncate(fd, (off_t)size) != 0 ||
        fsync(fd) != 0)
        return false;
    snprintf(fresh, sizeof fresh, "%s", job_file("end.new"));
    if (rename(fresh, job_file("end")) != 0)
        return false;
    int folder = open(launch.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = folder >= 0 && fsync(folder) == 0;
    return (folder < 0 || close(folder) == 0) && synced;
}

// Says why the program does not run, here and to the server. With the job's lock.
static _Noreturn void fail(troupe_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static _Noreturn void fail(troupe_status status, const char *format, ...)
{
    char error[ERROR_BYTES];
    unsigned char packed[ERROR_BYTES + 64];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error, sizeof error, format, arguments);
    va_end(arguments);
    fprintf(stderr, "troupe-launch: %s\n", error);
    if (!write_end(packed, pack_end(packed, status, error, strlen(error))))
        fprintf(stderr, "troupe-launch: %s cannot be written: %s\n", job_file("end"),
                strerror(errno));
    exit(FAILED);
}

// ---- the record

static _Noreturn void be_misused(void)
{
    fprintf(stderr,
            "troupe-launch: its standard input is not the record of a job: it is run by the "
            "train server, and not by hand\n");
    exit(MISUSED);
}

static void read_record(void)
{
    struct stat about;
    if (fstat(STDIN_FILENO, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= 0)
        be_misused();
    size_t size = (size_t)about.st_size, used = 0;
    char *data = (char *)malloc(size);
    if (data == NULL)
        be_misused();
    while (used < size) {
        ssize_t got = pread(STDIN_FILENO, data + used, size - used, (off_t)used);
        if (got <= 0)
            be_misused();
        used += (size_t)got;
    }
    if (data[size - 1] != '\0')
        be_misused();
    launch.at = data;
    launch.end = data + size;
}

static const char *next_text(void)
{
    if (launch.at >= launch.end)
        be_misused();
    const char *text = launch.at;
    launch.at += strlen(text) + 1;
    return text;
}

static long long next_number(void)
{
    char *end;
    const char *text = next_text();
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        be_misused();
    return number;
}

// A list: its length, and that many texts. `more` is room for others behind them.
static char **next_texts(size_t more, size_t *count)
{
    long long length = next_number();
    if (length < 0 || length > launch.end - launch.at)
        be_misused();
    char **texts = (char **)calloc((size_t)length + more + 1, sizeof *texts);
    if (texts == NULL)
        be_misused();
    for (long long i = 0; i < length; i++)
        texts[i] = (char *)next_text();
    *count = (size_t)length;
    return texts;
}

// ---- what the program has about it

// Whoever starts the server may ignore or block signals, which would last over exec. By the system
// call, since the C library leaves two of them out.
static void reset_signals(void)
{
    static const uint64_t defaults[8]; // SIG_DFL, no flags, an empty mask.
    enum { SIGNALS = 64, SET_BYTES = 8 };
    sigset_t none;
    for (int number = 1; number <= SIGNALS; number++)
        (void)syscall(SYS_rt_sigaction, number, defaults, NULL, SET_BYTES);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int open_file(const char *name, int flags)
{
    int fd = open(job_file(name), flags | O_CREAT | O_NOFOLLOW, 0600);
    if (fd >= 0)
        return fd;
    fprintf(stderr, "troupe-launch: %s cannot be opened: %s\n", job_file(name), strerror(errno));
    exit(FAILED);
}

// The job's lock, which the process keeps over exec. Another one has it: that one is the run.
static int take_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int fd = open_file("alive", O_RDWR);
    if (fcntl(fd, F_SETLK, &lock) == 0)
        return fd;
    if (errno == EACCES || errno == EAGAIN)
        exit(EXIT_SUCCESS);
    fprintf(stderr, "troupe-launch: %s cannot be locked: %s\n", job_file("alive"), strerror(errno));
    exit(FAILED);
}

// Whether the attempt is the one that may run: this one may have been held up for long.
static bool may_run(int lock)
{
    char text[16] = "";
    (void)!pread(lock, text, sizeof text - 1, 0);
    return atoi(text) == launch.attempt && access(job_file("end"), F_OK) != 0;
}

static void set_output(int log)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0)
        fail(TROUPE_IO, "/dev/null cannot be opened: %s", strerror(errno));
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        fail(TROUPE_IO, "%s cannot be made the program's output: %s", job_file("log"),
             strerror(errno));
}

// All but the standard ones, the order, the lock and `end.new`, which exec closes.
static void close_others(int lock)
{
    unsigned low = (unsigned)(lock < launch.end_fd ? lock : launch.end_fd);
    unsigned high = (unsigned)(lock < launch.end_fd ? launch.end_fd : lock);
    if (low > ORDER_FD + 1)
        (void)close_range(ORDER_FD + 1, low - 1, 0);
    if (high > low + 1)
        (void)close_range(low + 1, high - 1, 0);
    (void)close_range(high + 1, ~0U, 0);
}

// The mask of CPUs, in hexadecimal digits. CPUs that are gone are left out by the kernel; where
// none is left, those that there are have to do.
static void set_affinity(const char *digits)
{
    size_t size = strlen(digits) / 2;
    unsigned char *mask = (unsigned char *)calloc(size + sizeof(cpu_set_t), 1);
    for (size_t i = 0; mask != NULL && i < size; i++) {
        unsigned byte = 0;
        (void)sscanf(digits + 2 * i, "%2x", &byte);
        mask[i] = (unsigned char)byte;
    }
    if (mask != NULL && size > 0)
        (void)sched_setaffinity(0, size, (cpu_set_t *)(void *)mask);
    free(mask);
}

// Who may not raise a limit keeps the one it has.
static void set_limits(char **limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int which;
        unsigned long long soft, hard;
        struct rlimit now;
        if (sscanf(limits[i], "%d %llu %llu", &which, &soft, &hard) != 3 ||
            getrlimit((__rlimit_resource_t)which, &now) != 0)
            continue;
        struct rlimit wanted = {(rlim_t)soft, (rlim_t)hard};
        if (setrlimit((__rlimit_resource_t)which, &wanted) == 0)
            continue;
        now.rlim_cur = wanted.rlim_cur < now.rlim_max ? wanted.rlim_cur : now.rlim_max;
        (void)setrlimit((__rlimit_resource_t)which, &now);
    }
}

// The variable by which the program knows itself as the runner of the job (train/job_mode.h).
static char *job_variable(int lock, const char *job)
{
    char *text = NULL;
    if (asprintf(&text, "TROUPE_JOB=%d:%d:%d:%s:%d:%s", (int)getpid(), lock, ORDER_FD, job,
                 launch.attempt, launch.folder) < 0)
        fail(TROUPE_NO_MEMORY, "no memory for the environment of a program");
    return text;
}

int main(void)
{
    static char **limits, **arguments,
        **environment; // Never freed, and found by who looks for leaks.
    size_t limit_count, argument_count, variable_count;
    read_record();
    if (next_number() != RECORD_VERSION)
        be_misused();
    launch.folder = next_text();
    const char *job = next_text();
    launch.attempt = (int)next_number();
    const char *program = next_text(), *folder = next_text();
    mode_t mask = (mode_t)next_number();
    int niceness = (int)next_number();
    const char *affinity = next_text();
    limits = next_texts(0, &limit_count);
    arguments = next_texts(0, &argument_count);
    environment = next_texts(1, &variable_count);
    if (launch.at != launch.end || strlen(launch.folder) > PATH_BYTES - 16 ||
        fcntl(ORDER_FD, F_GETFD) < 0)
        be_misused();

    (void)setsid(); // Fails for the leader of a group, which is in no other's then.
    reset_signals();
    int lock = take_lock();
    if (!may_run(lock))
        exit(EXIT_SUCCESS);
    int log = open_file("log", O_WRONLY | O_APPEND | O_CLOEXEC);
    launch.end_fd = open_file("end.new", O_WRONLY | O_CLOEXEC);
    set_output(log);
    close_others(lock);
    if (chdir(folder) != 0)
        fail(TROUPE_NOT_FOUND,
             "the folder %s, in which %s was when it submitted the job, cannot be entered: %s",
             folder, program, strerror(errno));
    (void)setpriority(PRIO_PROCESS, 0, niceness); // Who may not be less nice stays as it is.
    set_affinity(affinity);
    environment[variable_count] = job_variable(lock, job);
    (void)umask(mask);
    set_limits(limits, limit_count);
    execve(program, arguments, environment);
    fail(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "the program %s cannot be executed: %s",
         program, strerror(errno));
}
