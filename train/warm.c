// warm.c: see train/warm.h.
//
// Three processes: the runner of the first job, which goes on as if nothing were; the copy, which
// has no job, no lock and no log, and a connection to the server; and its children, the runners of
// further jobs. The copy ends with its connection.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <train/job_end.h>
#include <train/server_link.h>
#include <train/warm.h>
#include <unistd.h>

enum { PRIVATE_BYTES_MAX = 64 << 20, SAID_BYTES_MAX = 64 << 10 };

static struct {
    off_t log_at; // Where the process began to write.
    trp_buffer said;
    char score[16]; // Of /proc/self/oom_score_adj, as the program has it.
    int line;
    trp_buffer in;
    struct runner {
        pid_t pid;
        int pidfd, attempt;
        int64_t job;
    } runners[TRP_WARM_RUNNERS_MAX];
    int count;
} warm;

void trp_warm_begin(void)
{
    struct stat about;
    warm.log_at = fstat(STDOUT_FILENO, &about) == 0 ? about.st_size : 0;
}

// ---- whether there can be a copy

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

static bool has_children(void)
{
    siginfo_t about;
    return waitid(P_ALL, 0, &about, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static bool has_timers(void)
{
    static const __itimer_which_t kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    struct itimerval set;
    char byte;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (getitimer(kinds[i], &set) != 0 || set.it_value.tv_sec != 0 || set.it_value.tv_usec != 0)
            return true;
    int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
    bool any = fd >= 0 && read(fd, &byte, 1) > 0;
    if (fd >= 0)
        close(fd);
    return any;
}

static bool is_file(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

// Other than the standard ones as the launcher made them, and the lock.
static bool has_descriptors(const char *folder)
{
    enum { STANDARD = 3, LOCK = 1, LISTING = 1 };
    trp_path log;
    return count_entries("/proc/self/fd") != STANDARD + LOCK + LISTING ||
           trp_path_make(&log, "%s/log", folder) != TROUPE_OK ||
           !is_file(STDIN_FILENO, "/dev/null") || !is_file(STDOUT_FILENO, log.text) ||
           !is_file(STDERR_FILENO, log.text);
}

// Memory that is shared and can be written, or much that is not.
static bool has_memory(void)
{
    char line[512], mode[8];
    long pages = 0, shared = 0;
    bool any = false;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file != NULL && !any && fgets(line, sizeof line, file) != NULL)
        any = sscanf(line, "%*s %7s", mode) == 1 && mode[1] == 'w' && mode[3] == 's';
    if (file == NULL || any || fclose(file) != 0)
        return true;
    file = fopen("/proc/self/statm", "re");
    any = file == NULL || fscanf(file, "%*d %ld %ld", &pages, &shared) != 2 ||
          (pages - shared) * sysconf(_SC_PAGESIZE) > PRIVATE_BYTES_MAX;
    if (file != NULL)
        (void)fclose(file);
    return any;
}

// What main has written to the log of the first job.
static bool keep_said(const char *folder)
{
    struct stat about;
    trp_path path;
    fflush(NULL);
    if (fstat(STDOUT_FILENO, &about) != 0 || about.st_size < warm.log_at ||
        about.st_size - warm.log_at > SAID_BYTES_MAX)
        return false;
    size_t size = (size_t)(about.st_size - warm.log_at);
    if (size == 0)
        return true;
    if (!trp_buffer_reserve(&warm.said, size) ||
        trp_path_make(&path, "%s/log", folder) != TROUPE_OK)
        return false;
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool read = fd >= 0 && pread(fd, warm.said.data, size, warm.log_at) == (ssize_t)size;
    if (fd >= 0)
        close(fd);
    warm.said.size = size;
    return read;
}

// ---- the copy

static void write_score(const char *score)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, score, strlen(score));
        close(fd);
    }
}

// It has nothing that anybody would miss: where memory is short it goes first.
static void be_first_to_go(void)
{
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, warm.score, sizeof warm.score - 1) : 0;
    warm.score[size > 0 ? size : 0] = '\0';
    if (fd >= 0)
        close(fd);
    write_score("1000");
}

static void send_all(const trp_buffer *out)
{
    for (size_t sent = 0; sent < out->size;) {
        ssize_t got = send(warm.line, out->data + sent, out->size - sent, MSG_NOSIGNAL);
        if (got < 0 && errno != EINTR)
            _exit(EXIT_SUCCESS);
        sent += got > 0 ? (size_t)got : 0;
    }
}

static void say(trp_wire_kind kind, const troupe_type *type, const void *value)
{
    trp_buffer out = {0};
    if (trp_wire_put(&out, kind, 0, type, value) != TROUPE_OK)
        _exit(EXIT_SUCCESS);
    send_all(&out);
    trp_buffer_free(&out);
}

static void say_gone(int64_t job, int attempt, int status)
{
    trp_wire_gone gone = {.job = job, .attempt = attempt, .status = status};
    say(TRP_WIRE_GONE, &troupe_type_trp_wire_gone, &gone);
}

static void go_to_server(const char *state_folder, const trp_wire_order *order)
{
    trp_buffer out = {0};
    trp_wire_warm about = {.token = order->warm};
    if (trp_server_connect(state_folder, &warm.line) != TROUPE_OK ||
        fcntl(warm.line, F_SETFL, 0) != 0 || trp_server_put_hello(&out, 1) != TROUPE_OK ||
        trp_wire_put(&out, TRP_WIRE_WARM, 2, &troupe_type_trp_wire_warm, &about) != TROUPE_OK)
        _exit(EXIT_SUCCESS);
    send_all(&out);
    trp_buffer_free(&out);
}

static void reap(struct pollfd *events)
{
    for (int i = warm.count; i-- > 0;) {
        struct runner it = warm.runners[i];
        int status = -1; // What stays so if the program has children reaped in another way.
        if (events[i].revents == 0 || waitpid(it.pid, &status, WNOHANG) == 0)
            continue;
        close(it.pidfd);
        warm.runners[i] = warm.runners[--warm.count];
        say_gone(it.job, it.attempt, status);
    }
}

// ---- a runner that is made of it

// As troupe-launch: whoever has the lock, and is the attempt that the file names, is the run.
static bool take_lock(const trp_wire_handover *what, trp_alive **lock)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    char text[16] = "";
    trp_path path, end;
    if (trp_path_make(&path, "%s/alive", what->folder) != TROUPE_OK ||
        trp_path_make(&end, "%s/end", what->folder) != TROUPE_OK)
        return false;
    int fd = open(path.text, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fcntl(fd, F_SETLK, &whole) == 0 && pread(fd, text, sizeof text - 1, 0) > 0 &&
           atoi(text) == what->attempt && access(end.text, F_OK) != 0 &&
           trp_alive_adopt(fd, lock) == TROUPE_OK;
}

static bool set_output(const char *folder)
{
    trp_path path;
    if (trp_path_make(&path, "%s/log", folder) != TROUPE_OK)
        return false;
    int fd = open(path.text, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return false;
    close(fd);
    // Where the disk is full it is missing, as what a runner that was launched says.
    (void)!write(STDOUT_FILENO, warm.said.data, warm.said.size);
    return true;
}

// What fails once it has the lock may do later.
static void be_runner(const trp_wire_handover *what, trp_warm_job *job)
{
    char number[24];
    close(warm.line);
    for (int i = 0; i < warm.count; i++)
        close(warm.runners[i].pidfd);
    (void)setsid();
    write_score(warm.score);
    if (!take_lock(what, &job->lock))
        _exit(EXIT_SUCCESS); // Another one is the run, or none is to be.
    TRP_FAULT("before warm output");
    bool output = set_output(what->folder);
    TRP_FAULT("after warm output");
    if (!output || strlen(what->folder) >= sizeof job->folder)
        _exit(TRP_JOB_NO_END);
    job->job = what->job;
    job->attempt = what->attempt;
    strcpy(job->folder, what->folder);
    trp_buffer_append(&job->order, what->order.data, what->order.size);
    snprintf(number, sizeof number, "%lld", (long long)what->job);
    if (job->order.failed || setenv("TROUPE_IN_JOB", number, 1) != 0)
        _exit(TRP_JOB_NO_END);
}

// There can be no process: the job begins later, by the launcher, and this one is of no use.
_Noreturn static void give_up(const trp_wire_handover *what, int error)
{
    trp_path path;
    int fd = trp_path_make(&path, "%s/log", what->folder) == TROUPE_OK
                 ? open(path.text, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    if (fd >= 0)
        dprintf(fd, "no process can be made for attempt %d: %s\n", what->attempt, strerror(error));
    say_gone(what->job, what->attempt, W_EXITCODE(TRP_JOB_NO_END, 0));
    _exit(EXIT_SUCCESS);
}

// true in the runner.
static bool make_runner(const trp_wire_handover *what, trp_warm_job *job)
{
    pid_t pid = fork();
    if (pid == 0) {
        be_runner(what, job);
        return true;
    }
    if (pid < 0)
        give_up(what, errno);
    int pidfd = pidfd_open(pid, 0);
    trp_wire_taken taken = {.job = what->job, .attempt = what->attempt};
    if (pidfd < 0)
        _exit(EXIT_SUCCESS); // The server finds it by its lock.
    warm.runners[warm.count++] = (struct runner){pid, pidfd, what->attempt, what->job};
    say(TRP_WIRE_TAKEN, &troupe_type_trp_wire_taken, &taken);
    return false;
}

// true in a runner.
static bool take_frame(const trp_wire_frame *frame, trp_warm_job *job)
{
    trp_arena arena = {0};
    trp_wire_handover what;
    bool runner = false;
    if (frame->kind == TRP_WIRE_HANDOVER) {
        if (trp_wire_read(frame, &troupe_type_trp_wire_handover, &arena, &what) != TROUPE_OK ||
            what.folder == NULL || warm.count >= TRP_WARM_RUNNERS_MAX)
            _exit(EXIT_SUCCESS);
        runner = make_runner(&what, job);
    }
    trp_arena_clear(&arena);
    return runner;
}

static bool take_frames(trp_warm_job *job)
{
    enum { READ_BYTES = 16 << 10 };
    size_t at = 0, used = 1;
    if (!trp_buffer_reserve(&warm.in, READ_BYTES))
        _exit(EXIT_SUCCESS);
    ssize_t got = recv(warm.line, warm.in.data + warm.in.size, READ_BYTES, 0);
    if (got <= 0) // The server has ended, or wants it no more.
        _exit(EXIT_SUCCESS);
    warm.in.size += (size_t)got;
    while (used > 0) {
        trp_wire_frame frame;
        if (trp_wire_take(warm.in.data + at, warm.in.size - at, TRP_WIRE_BYTES_MAX, &frame,
                          &used) != TROUPE_OK)
            _exit(EXIT_SUCCESS);
        if (used > 0 && take_frame(&frame, job))
            return true;
        at += used;
    }
    warm.in.size -= at;
    memmove(warm.in.data, warm.in.data + at, warm.in.size);
    return false;
}

// Returns in the runners that it makes.
static void wait_for_jobs(int idle_ms, trp_warm_job *job)
{
    for (;;) {
        struct pollfd events[TRP_WARM_RUNNERS_MAX + 1];
        for (int i = 0; i < warm.count; i++)
            events[i] = (struct pollfd){.fd = warm.runners[i].pidfd, .events = POLLIN};
        events[warm.count] = (struct pollfd){.fd = warm.line, .events = POLLIN};
        struct pollfd *line = &events[warm.count];
        int count = poll(events, (nfds_t)warm.count + 1, warm.count > 0 ? -1 : idle_ms);
        if (count == 0) // A server that does not run any more ends nothing.
            _exit(EXIT_SUCCESS);
        if (count < 0)
            continue;
        bool told = line->revents != 0;
        reap(events);
        if (told && take_frames(job))
            return;
    }
}

static void be_copy(const char *state_folder, const trp_wire_order *order, trp_alive **lock,
                    trp_warm_job *job)
{
    enum { LATE_MS = 10000 }; // Beyond what the server has it wait.
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)setsid();
    trp_alive_leave(lock); // It has none: locks are the process's.
    if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    close(nothing);
    go_to_server(state_folder, order);
    be_first_to_go(); // Behind the greeting: where this is seen, the server was told.
    wait_for_jobs(order->warm_s * 1000 + LATE_MS, job);
}

// The state folder is two above the job's.
static bool find_state_folder(const char *folder, trp_path *path)
{
    if (trp_path_make(path, "%s", folder) != TROUPE_OK)
        return false;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path->text, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    return true;
}

bool trp_warm_copy(const char *folder, const trp_wire_order *order, trp_alive **lock,
                   trp_warm_job *job)
{
    trp_path state_folder;
    *job = (trp_warm_job){0};
    if (order->warm == 0 || !find_state_folder(folder, &state_folder) ||
        count_entries("/proc/self/task") != 1 || has_children() || has_timers() ||
        has_descriptors(folder) || has_memory() || !keep_said(folder))
        return false;
    pid_t between = fork();
    if (between == 0) {
        if (fork() != 0)
            _exit(EXIT_SUCCESS); // So that the copy is nobody's child.
        be_copy(state_folder.text, order, lock, job);
        return true;
    }
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR)
        continue;
    trp_buffer_free(&warm.said);
    return false;
}
