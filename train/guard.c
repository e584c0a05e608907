// guard.c: see guard.h. What runs after the fork allocates nothing and takes no lock: this process
// has other threads, which the guard has not.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <train/alive.h>
#include <train/guard.h>
#include <unistd.h>

enum {
    GIVE_UP_MS = 10000,              // For processes that do not end when they are killed.
    LOOK_MS = 5,                     // While they are killed.
    FIRST = 3,                       // The descriptors of a guard: the ends that it was given,
    SOCKET = FIRST + TRP_GUARD_ENDS, // and the socket to its worker.
    ORDER_ASK = 'a',
    ORDER_KILL = 'k',
};

// Where the start of a program failed.
typedef enum step { STEP_LOCK, STEP_FORK, STEP_ENDS, STEP_FOLDER, STEP_EXECUTE } step;

typedef struct message {
    int news;  // trp_guard_news
    int step;  // Of a failure,
    int value; // and its errno; the program; its status.
} message;

// ---- the guard's side

static void tell(trp_guard_news news, step at, int value)
{
    message what = {(int)news, (int)at, value};
    (void)!send(SOCKET, &what, sizeof what, MSG_NOSIGNAL);
}

// All signals as they are for a program that a shell starts.
static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

// In the program's process. What fails is written to `report`, which its execution closes.
static _Noreturn void be_program(const trp_guarded *what, pid_t guard, int report)
{
    step failed = STEP_ENDS;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard)
        _exit(0);
    bool moved = true;
    for (int i = 0; i < TRP_GUARD_ENDS; i++) // None is overwritten before it is moved.
        moved = moved && dup2(FIRST + i, 1 + i) == 1 + i;
    for (int fd = 1 + TRP_GUARD_ENDS; fd <= SOCKET; fd++)
        (void)close(fd);
    if (moved) {
        failed = STEP_FOLDER;
        if (what->folder == NULL || chdir(what->folder) == 0) {
            failed = STEP_EXECUTE;
            reset_signals();
            (void)execve(what->path, what->arguments, what->environment);
        }
    }
    message said = {TRP_GUARD_FAILED, (int)failed, errno};
    (void)!write(report, &said, sizeof said);
    _exit(127);
}

// Forks the program; 0: it does not run, which the worker was told.
static pid_t start_program(const trp_guarded *what)
{
    int report[2];
    message failed;
    pid_t guard = getpid();
    pid_t program = pipe2(report, O_CLOEXEC) == 0 ? fork() : -1;
    if (program == 0)
        be_program(what, guard, report[1]);
    if (program < 0) {
        tell(TRP_GUARD_FAILED, STEP_FORK, errno);
        return 0;
    }
    (void)setpgid(program, program);         // Whoever is first.
    for (int i = 0; i < TRP_GUARD_ENDS; i++) // So that they end with the program.
        (void)close(FIRST + i);
    (void)close(report[1]);
    ssize_t got;
    do
        got = read(report[0], &failed, sizeof failed);
    while (got < 0 && errno == EINTR);
    (void)close(report[0]);
    if (got == (ssize_t)sizeof failed) {
        tell(TRP_GUARD_FAILED, (step)failed.step, failed.value);
        return 0;
    }
    tell(TRP_GUARD_STARTED, STEP_EXECUTE, (int)program);
    return program;
}

// Kills each child. What a killed one had becomes a child as well.
static void kill_children(void)
{
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, list, sizeof list - 1);
    if (fd >= 0)
        (void)close(fd);
    list[size > 0 ? size : 0] = '\0';
    char *at = list;
    for (long pid = strtol(at, &at, 10); pid > 0; pid = strtol(at, &at, 10))
        if (*at == ' ') // Else the number may have been cut.
            (void)kill((pid_t)pid, SIGKILL);
}

// Waits for what has ended, and notes how the program did. A program that has ended is waited for
// after its group was killed: as long as it is a zombie, no other group has that number. False:
// there is no child.
static bool reap(pid_t *program, int *status)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        if (info.si_pid == 0)
            return true;
        bool is_program = info.si_pid == *program;
        if (is_program)
            (void)kill(-*program, SIGKILL);
        int ended;
        if (waitpid(info.si_pid, &ended, WNOHANG) == info.si_pid && is_program) {
            *status = ended;
            *program = 0;
        }
        info.si_pid = 0;
    }
    return errno != ECHILD;
}

static void kill_all(pid_t *program, int *status)
{
    int64_t until_ms = trp_clock_ms() + GIVE_UP_MS;
    if (*program > 0)
        (void)kill(-*program, SIGKILL);
    for (;;) {
        kill_children();
        if (!reap(program, status) || trp_clock_ms() >= until_ms)
            return;
        (void)poll(NULL, 0, LOOK_MS);
    }
}

static _Noreturn void watch(pid_t program, int children)
{
    int status = 0;
    while (program > 0) {
        struct pollfd events[] = {{.fd = SOCKET, .events = POLLIN},
                                  {.fd = children, .events = POLLIN}};
        struct signalfd_siginfo info;
        char order = 0;
        (void)poll(events, 2, -1);
        while (read(children, &info, sizeof info) > 0)
            continue;
        (void)reap(&program, &status);
        if (events[0].revents == 0 || program == 0)
            continue;
        ssize_t got = recv(SOCKET, &order, 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got > 0 && order == ORDER_ASK)
            (void)kill(-program, SIGTERM);
        else // It is to end, or its worker has.
            kill_all(&program, &status);
    }
    kill_all(&program, &status);
    tell(TRP_GUARD_ENDED, STEP_EXECUTE, status);
    _exit(0);
}

// Nothing that the worker has stays open but what is needed, under numbers that are known. Standard
// input, output and errors are /dev/null.
static bool take_descriptors(const trp_guarded *what, int socket)
{
    int copies[TRP_GUARD_ENDS + 1], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool taken = null >= 0;
    for (int i = 0; i <= TRP_GUARD_ENDS; i++) {
        copies[i] = fcntl(i < TRP_GUARD_ENDS ? what->ends[i] : socket, F_DUPFD_CLOEXEC, SOCKET + 1);
        taken = taken && copies[i] >= 0;
    }
    for (int fd = 0; fd < FIRST; fd++)
        taken = taken && dup2(null, fd) == fd;
    for (int i = 0; i <= TRP_GUARD_ENDS; i++)
        taken = taken && dup2(copies[i], FIRST + i) == FIRST + i;
    (void)syscall(SYS_close_range, (unsigned)SOCKET + 1, ~0u, 0u);
    return taken;
}

// Whether the worker still is there, after the run's lock was taken: so either the worker or the
// guard is seen by who begins another attempt.
static bool is_wanted(void)
{
    char order;
    return recv(SOCKET, &order, 1, MSG_DONTWAIT | MSG_PEEK) != 0;
}

static _Noreturn void be_guard(const trp_guarded *what, int socket)
{
    sigset_t all, child;
    (void)setsid(); // No terminal reaches it.
    (void)prctl(PR_SET_NAME, "troupe-guard");
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (!take_descriptors(what, socket))
        _exit(1);
    int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int refused = children < 0 ? errno : trp_alive_guard(what->alive);
    if (refused != 0)
        tell(TRP_GUARD_FAILED, STEP_LOCK, refused);
    else if (is_wanted())
        watch(start_program(what), children);
    _exit(0);
}

// ---- the worker's side

troupe_status trp_guard_start(const trp_guarded *what, trp_guard *guard)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return trp_fail_errno(TROUPE_IO, "a program cannot be guarded");
    pid_t pid = fork();
    if (pid == 0)
        be_guard(what, pair[1]);
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return trp_fail_errno(TROUPE_NO_MEMORY, "a program cannot be guarded");
    }
    *guard = (trp_guard){.socket = pair[0], .pid = pid};
    return TROUPE_OK;
}

// The thread's last error says what failed.
static void say_failure(const trp_guarded *what, const message *failed)
{
    errno = failed->value;
    switch ((step)failed->step) {
    case STEP_LOCK:
        (void)trp_fail_errno(TROUPE_IO, "the file %s of the run cannot be locked", what->alive);
        return;
    case STEP_FOLDER:
        (void)trp_fail_errno(TROUPE_NOT_FOUND, "the working folder %s cannot be entered",
                             what->folder);
        return;
    case STEP_EXECUTE:
        (void)trp_fail_errno(TROUPE_NOT_FOUND, "the program %s cannot be executed", what->path);
        return;
    default:
        (void)trp_fail_errno(TROUPE_NO_MEMORY, "no process can be made for %s", what->path);
        return;
    }
}

trp_guard_news trp_guard_look(trp_guard *guard, const trp_guarded *what, int *status)
{
    message news;
    ssize_t got = recv(guard->socket, &news, sizeof news, MSG_DONTWAIT);
    // A guard that ends without having read its last order resets the socket, which still has what
    // it told.
    if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
        return TRP_GUARD_NOTHING;
    if (got != (ssize_t)sizeof news) {
        if (guard->program > 0)
            (void)kill(-guard->program, SIGKILL);
        return TRP_GUARD_LOST;
    }
    if (news.news == TRP_GUARD_STARTED)
        guard->program = (pid_t)news.value;
    if (news.news == TRP_GUARD_FAILED)
        say_failure(what, &news);
    if (news.news == TRP_GUARD_ENDED)
        *status = news.value;
    return (trp_guard_news)news.news;
}

static void order(const trp_guard *guard, char what)
{
    (void)!send(guard->socket, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void trp_guard_ask(const trp_guard *guard)
{
    order(guard, ORDER_ASK);
}

void trp_guard_kill(const trp_guard *guard)
{
    order(guard, ORDER_KILL);
}

void trp_guard_close(trp_guard *guard)
{
    int status;
    (void)close(guard->socket);
    while (waitpid(guard->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    *guard = (trp_guard){.socket = -1};
}
