// keeper.c: parent, sub-reaper and janitor (see keeper.h). One loop over four descriptors: the
// driver's pidfd, the node's socket, the driver's socket and a signalfd. No allocation, no stdio,
// no threads: it may have been forked from a program that had threads.
#include <runtime/node/keeper.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/run_folder.h>
#include <runtime/host/worker_output.h>
#include <runtime/link/park.h>
#include <runtime/node/prefork.h>
#include <runtime/shm/segment.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { END_TIMEOUT_MS = 1500 };

// STARTED and EXITED of each slot at most: the node gives a slot out again only after its EXITED.
enum { NEWS_MAX = 2 * TRP_PROCESSES_MAX };

static struct {
    const trp_keeper_setup *setup;
    int node_socket;
    int signal_fd;
    pid_t node_pid;
    pid_t pids[TRP_PROCESSES_MAX]; // Of workers, by slot; 0: none.
    uint64_t incarnations[TRP_PROCESSES_MAX];
    trp_order news[NEWS_MAX]; // A ring: what the node's socket had no room for yet.
    uint32_t news_first, news_count;
    bool quit;
} keeper TRP_VAST;

// Closes every descriptor but 0 to 2 and the `count` in `keep` (-1 entries are skipped).
static void close_all_but(const int *keep, size_t count)
{
    unsigned from = 3;
    for (;;) {
        unsigned next = ~0u; // The lowest kept descriptor that is not below `from`.
        for (size_t i = 0; i < count; i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        if (next == ~0u) {
            (void)syscall(SYS_close_range, from, ~0u, 0u);
            return;
        }
        if (next > from)
            (void)syscall(SYS_close_range, from, next - 1, 0u);
        from = next + 1;
    }
}

// Undoes in a child what the keeper set up for itself. The child dies with the keeper.
static void become_child(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    (void)sigaction(SIGCHLD, &keeper.setup->child_action, NULL);
    (void)sigprocmask(SIG_SETMASK, &keeper.setup->mask, NULL);
}

static _Noreturn void execute_worker(const trp_order *order)
{
    char value[256];
    int segment_fd = trp_segment_fd();
    (void)fcntl(segment_fd, F_SETFD, 0);
    snprintf(value, sizeof value, "%d:%u:%llx:%u:%d:%s", (int)getpid(), order->slot,
             (unsigned long long)order->incarnation, order->isolated, segment_fd,
             keeper.setup->folder);
    if (setenv(TRP_WORKER_VARIABLE, value, 1) == 0)
        execv(keeper.setup->program, keeper.setup->argv);
    static const char text[] = "troupe: error: a worker's program could not be executed\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(127);
}

// Sends what the node's socket has room for. Never waits: a node process that hangs, or waits for
// us to take an order, must not keep us from seeing the driver's end.
static void send_news(void)
{
    while (keeper.news_count > 0) {
        const trp_order *oldest = &keeper.news[keeper.news_first];
        if (send(keeper.node_socket, oldest, sizeof *oldest, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
            errno == EAGAIN)
            return;
        keeper.news_first = (keeper.news_first + 1) % NEWS_MAX; // Else it is dead: nobody listens.
        keeper.news_count--;
    }
}

static void tell_node(const trp_order *order)
{
    if (keeper.news_count == NEWS_MAX) { // Cannot be, see NEWS_MAX; a lost death would be worse.
        keeper.quit = true;
        return;
    }
    keeper.news[(keeper.news_first + keeper.news_count++) % NEWS_MAX] = *order;
    send_news();
}

// The environment and the folder of a new worker. Its standard error is already its own.
static void furnish(const trp_start_order *message)
{
    // Most have neither; the code that deals with them is pages that each process has to map anew.
    if (message->text[0] == '\n' && message->text[1] == '\0' && message->text[2] == '\0')
        return;
    const char *folder = message->text + strlen(message->text) + 1;
    if (trp_worker_env_apply(message->text, folder))
        return;
    dprintf(STDERR_FILENO,
            "troupe: error: a worker cannot be given its environment or its folder %s: %s\n",
            folder, strerror(errno));
    _exit(126);
}

// The rest of a worker's life, in its process. `message` is its order; a spare's comes later, from
// the socket (else -1).
static _Noreturn void be_worker(trp_start_order *message, const int ends[2], int socket)
{
    if (ends != NULL)
        trp_output_redirect(ends);
    close_all_but((int[]){trp_segment_fd(), socket}, 2);
    if (socket >= 0) {
        (void)prctl(PR_SET_NAME, "troupe-spare");
        keeper.setup->prepare_worker();
        if (!trp_spare_await(socket, message))
            _exit(0);
    }
    const trp_order *order = &message->order;
    trp_segment_process(order->slot)->pid = getpid(); // Its first line may need it.
    if (order->crowded)
        trp_park_crowded();
    furnish(message);
    if (keeper.setup->execute)
        execute_worker(order);
    keeper.setup->run_worker(order->slot, order->incarnation, order->isolated != 0);
    _exit(0);
}

static trp_start_order message TRP_VAST; // The one that is obeyed.

static pid_t fork_worker(const int ends[2], int socket)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become_child(parent);
        be_worker(&message, ends, socket);
    }
    return pid;
}

static void start_worker(size_t size)
{
    trp_order answer = message.order;
    int ends[2], output = keeper.setup->output_socket;
    pid_t pid = 0;
    if (answer.isolated && !keeper.setup->execute) {
        message.order.crowded = trp_spare_asked();
        pid = trp_spare_take(output, &message, size);
    }
    if (pid == 0) {
        bool piped = trp_output_pipes(output, answer.slot, answer.incarnation, ends);
        pid = fork_worker(piped ? ends : NULL, -1);
        answer.status = pid > 0 ? 0 : errno;
        if (piped) {
            close(ends[0]);
            close(ends[1]);
        }
    }
    answer.kind = TRP_ORDER_STARTED;
    answer.pid = pid > 0 ? pid : 0;
    if (pid > 0) {
        keeper.pids[answer.slot] = pid;
        keeper.incarnations[answer.slot] = answer.incarnation;
    }
    tell_node(&answer);
}

static void obey(void)
{
    // Two texts at least follow a START; zeros end them.
    ssize_t got = recv(keeper.node_socket, &message, sizeof message - 2, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    // No more than that: each page that is written here is copied again after each fork.
    memset((char *)&message + (got > 0 ? got : 0), 0, 2);
    trp_order order = message.order;
    if (got < (ssize_t)sizeof order || order.slot >= TRP_PROCESSES_MAX) {
        keeper.quit = true; // The node process has gone; its exit status may come a moment later.
        return;
    }
    switch (order.kind) {
    case TRP_ORDER_START:
        start_worker((size_t)got);
        break;
    case TRP_ORDER_KILL:
        if (keeper.pids[order.slot] > 0 && keeper.incarnations[order.slot] == order.incarnation)
            (void)kill(keeper.pids[order.slot], SIGKILL);
        break;
    default:
        keeper.quit = true;
        break;
    }
}

static void reap(void)
{
    struct signalfd_siginfo info;
    while (read(keeper.signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGTERM)
            keeper.quit = true;

    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == keeper.node_pid) {
            keeper.node_pid = 0;
            keeper.quit = true;
            continue;
        }
        if (trp_spare_ended(pid))
            continue;
        for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++) {
            if (keeper.pids[slot] != pid)
                continue;
            keeper.pids[slot] = 0;
            tell_node(&(trp_order){.kind = TRP_ORDER_EXITED,
                                   .slot = slot,
                                   .incarnation = keeper.incarnations[slot],
                                   .pid = pid,
                                   .status = status});
        }
    }
}

// Kills whatever is our child now: workers, the node process, and orphans that user code made.
static bool kill_children(void)
{
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, list, sizeof list - 1);
    if (fd >= 0)
        close(fd);
    if (size > 0) {
        list[size] = '\0';
        char *at = list;
        for (long pid = strtol(at, &at, 10); pid > 0; pid = strtol(at, &at, 10))
            if (*at == ' ') // Else the number may have been cut.
                (void)kill((pid_t)pid, SIGKILL);
    }
    for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++)
        if (keeper.pids[slot] > 0)
            (void)kill(keeper.pids[slot], SIGKILL);
    if (keeper.node_pid > 0)
        (void)kill(keeper.node_pid, SIGKILL);

    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == keeper.node_pid)
            keeper.node_pid = 0;
        for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++)
            if (keeper.pids[slot] == pid)
                keeper.pids[slot] = 0;
    }
    return pid < 0 && errno == ECHILD;
}

static _Noreturn void end(void)
{
    int64_t give_up = trp_clock_ms() + END_TIMEOUT_MS;
    trp_spare_end_all();
    while (!kill_children() && (trp_clock_ms() < give_up || keeper.setup->guard != NULL)) {
        struct pollfd child = {.fd = keeper.signal_fd, .events = POLLIN};
        (void)poll(&child, 1, 10);
        struct signalfd_siginfo info;
        (void)!read(keeper.signal_fd, &info, sizeof info);
    }
    trp_folder_remove(keeper.setup->spill_folder);
    trp_folder_remove(keeper.setup->folder);
    _exit(0);
}

// Locks byte 1 of the file, which says that processes live below this one. No other descriptor of
// the file is open here: closing one would let go of it.
static void take_guard(const char *file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    int fd = open(file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0)
        return;
    dprintf(STDERR_FILENO, "troupe: error: %s cannot be locked: %s\n", file, strerror(errno));
    end();
}

static void start_node(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        end();
    pid_t parent = getpid();
    keeper.node_pid = fork();
    if (keeper.node_pid == 0) {
        become_child(parent);
        (void)prctl(PR_SET_NAME, "troupe-node");
        close_all_but((int[]){trp_segment_fd(), pair[1]}, 2);
        keeper.setup->run_node(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    keeper.node_socket = pair[0];
    if (keeper.node_pid < 0)
        end();
}

void trp_keeper_run(const trp_keeper_setup *setup)
{
    keeper.setup = setup;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "troupe-keeper");
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);

    // Everything but what cannot be blocked: the driver's end is what ends the keeper, or SIGTERM.
    sigset_t all, wanted;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    close_all_but((int[]){setup->driver_pidfd, setup->driver_socket, setup->lock_fd,
                          setup->output_socket, trp_segment_fd()},
                  5);
    keeper.signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (setup->guard != NULL)
        take_guard(setup->guard);
    start_node();

    int wait_ms = -1; // 0: a spare is to be made once there is nothing else to do.
    while (!keeper.quit) {
        struct pollfd events[] = {
            {.fd = setup->driver_pidfd, .events = POLLIN},
            {.fd = keeper.node_socket, .events = keeper.news_count > 0 ? POLLIN | POLLOUT : POLLIN},
            {.fd = keeper.signal_fd, .events = POLLIN},
            {.fd = setup->driver_socket, .events = POLLIN},
        };
        int happened = poll(events, sizeof events / sizeof *events, wait_ms);
        if (happened == 0)
            wait_ms = trp_spare_tend(setup->output_socket, fork_worker);
        if (happened <= 0)
            continue;
        if (events[0].revents != 0 || events[3].revents != 0)
            break;
        if (events[2].revents != 0)
            reap();
        if ((events[1].revents & POLLOUT) != 0)
            send_news();
        if ((events[1].revents & ~POLLOUT) != 0)
            obey();
        wait_ms = 0;
    }
    end();
}
