// prefork.c: see node/prefork.h. No allocation and no threads, as in all of the keeper.
#include <runtime/node/prefork.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/host/worker_output.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SECOND_MS = 1000,
    QUIET_MS = 3 * SECOND_MS, // Without as many requests, once or twice, before the others end.
    AFTER_FAILURE_MS = SECOND_MS,
    AFTER_REQUEST_MS = 3, // The CPUs are the new worker's first,
    AFTER_EACH_MS = 1,    // and those of all that were asked for together.
    TOGETHER_MAX = 100,
    PACE_MS = 1,       // Between two that are made, or ended, beyond the least.
    CROWD_NS = 300000, // Two asked for within less do not begin one after the other.
    CROWD_MIN = 4,
    STREAM_MIN = 16, // One after the other, for so many: CPUs are busy with those before.
    // A spare has its own pages, two stacks and what the kernel keeps for it, and page tables as
    // large as the keeper's: large if the program had much memory when it started the runtime.
    OWN_KIB = 160,
    ALL_KIB = 40 * 1024,
    DESCRIPTORS = 3,
    SHARE = 4, // Of the descriptors and processes that this process may have, for spares.
};

typedef struct spare {
    pid_t pid;
    int socket;
    int reads[2]; // Of its pipes; -1: it has none.
} spare;

static struct {
    spare all[TRP_SPARES_MAX];
    int count;
    int most;                // That there is room for; 0: that is not known yet.
    int64_t second_ms;       // When the second began that is counted in.
    int asked, asked_before; // How many were asked for in it, and in the one before.
    int64_t window_ms;       // When the time began that lasts as long as it has to be quiet.
    int peak, before;        // The most of those counts in it, and in the one before.
    int64_t last_ms;         // When one was asked for last; 0: never.
    int together;            // How many have been, none of them much later than the one before.
    int64_t last_ns;
    int crowd;        // The same for those that begin at the same time.
    int64_t again_ms; // No earlier is one made, or ended.
} spares TRP_VAST;

static int quiet_ms = QUIET_MS;

void trp_spare_quiet_set(int ms)
{
    quiet_ms = ms > 0 ? ms : QUIET_MS;
}

static void roll_window(int64_t now_ms)
{
    if (now_ms - spares.window_ms < quiet_ms)
        return;
    spares.before = now_ms - spares.window_ms < 2 * (int64_t)quiet_ms ? spares.peak : 0;
    spares.peak = 0;
    spares.window_ms = now_ms;
}

static void count_request(int64_t now_ms)
{
    roll_window(now_ms);
    if (now_ms - spares.second_ms >= SECOND_MS) {
        spares.asked_before = now_ms - spares.second_ms < 2 * SECOND_MS ? spares.asked : 0;
        spares.asked = 0;
        spares.second_ms = now_ms;
    }
    spares.asked++;
    int lately = spares.asked + spares.asked_before; // A burst may lie on both sides.
    if (spares.peak < lately)
        spares.peak = lately;
}

bool trp_spare_asked(void)
{
    int64_t now_ns = trp_clock_ns(), now_ms = now_ns / 1000000;
    spares.crowd = now_ns - spares.last_ns < CROWD_NS ? spares.crowd + 1 : spares.crowd / 2;
    spares.last_ns = now_ns;
    bool soon = now_ms - spares.last_ms <= AFTER_REQUEST_MS;
    spares.together = !soon ? 1 : spares.together + (spares.together < TOGETHER_MAX);
    spares.last_ms = now_ms;
    int64_t again_ms = now_ms + AFTER_REQUEST_MS + AFTER_EACH_MS * (int64_t)spares.together;
    if (spares.again_ms < again_ms)
        spares.again_ms = again_ms;
    count_request(now_ms);
    return spares.crowd >= CROWD_MIN || spares.together >= STREAM_MIN;
}

// KiB of this process's page tables; 0: not known.
static long page_tables_kib(void)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *row = strstr(text, "VmPTE:");
    return row != NULL ? strtol(row + strlen("VmPTE:"), NULL, 10) : 0;
}

static int share_of(int resource, int each)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur / SHARE / (rlim_t)each > TRP_SPARES_MAX)
        return TRP_SPARES_MAX;
    return (int)(limit.rlim_cur / SHARE / (rlim_t)each);
}

// How many there is room for; never less than the least.
static int find_most(void)
{
    long fit = ALL_KIB / (OWN_KIB + page_tables_kib());
    int most = fit < TRP_SPARES_MAX ? (int)fit : TRP_SPARES_MAX;
    int files = share_of(RLIMIT_NOFILE, DESCRIPTORS), processes = share_of(RLIMIT_NPROC, 2);
    most = most < files ? most : files;
    most = most < processes ? most : processes;
    return most > TRP_SPARES_MIN ? most : TRP_SPARES_MIN;
}

static int wanted(int64_t now_ms)
{
    if (spares.last_ms == 0)
        return 0;
    if (spares.most == 0)
        spares.most = find_most();
    roll_window(now_ms);
    int want = spares.peak > spares.before ? spares.peak : spares.before;
    want = want < spares.most ? want : spares.most;
    return want > TRP_SPARES_MIN ? want : TRP_SPARES_MIN;
}

static void close_pair(const int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

// The oldest one goes first: it has been scheduled for sure.
static spare take_out(int at)
{
    spare taken = spares.all[at];
    spares.count--;
    memmove(&spares.all[at], &spares.all[at + 1], (size_t)(spares.count - at) * sizeof *spares.all);
    return taken;
}

pid_t trp_spare_take(int output_socket, const trp_start_order *message, size_t size)
{
    while (spares.count > 0) {
        const int *reads = spares.all[0].reads;
        if (reads[0] >= 0 && !trp_output_pipes_send(output_socket, message->order.slot,
                                                    message->order.incarnation, reads))
            return 0; // Without it, what the worker prints would go nowhere.
        spare taken = take_out(0);
        close_pair(taken.reads);
        bool sent = send(taken.socket, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
        close(taken.socket);
        if (sent)
            return taken.pid;
        (void)kill(taken.pid, SIGKILL); // It is dead, or will not be a worker.
    }
    return 0;
}

static bool make_one(int output_socket, pid_t (*make)(const int *, int))
{
    spare made = {.reads = {-1, -1}};
    int pair[2], ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    bool piped = output_socket >= 0 && trp_output_pipes_make(made.reads, ends);
    if (output_socket < 0 || piped) {
        made.pid = make(piped ? ends : NULL, pair[1]);
        made.socket = pair[0];
    }
    close(pair[1]);
    close_pair(ends);
    if (made.pid <= 0) {
        close(pair[0]);
        close_pair(made.reads);
        return false;
    }
    spares.all[spares.count++] = made;
    return true;
}

// It ends by itself when the other end of its socket is closed.
static void retire_one(void)
{
    spare retired = take_out(spares.count - 1);
    close(retired.socket);
    close_pair(retired.reads);
}

// Makes or ends one. Where none can be made, a process or descriptors are wanted by others too:
// half of those that wait go, at once.
static void step(int output_socket, int want, int64_t now_ms,
                 pid_t (*make)(const int ends[2], int socket))
{
    if (spares.count > want) {
        retire_one();
        spares.again_ms = now_ms + PACE_MS;
    } else if (make_one(output_socket, make)) {
        spares.again_ms = spares.count < TRP_SPARES_MIN ? 0 : now_ms + PACE_MS;
    } else {
        spares.again_ms = now_ms + AFTER_FAILURE_MS;
        spares.peak = spares.before = spares.count / 2;
        while (spares.count > wanted(now_ms))
            retire_one();
    }
}

int trp_spare_tend(int output_socket, pid_t (*make)(const int ends[2], int socket))
{
    int64_t now_ms = trp_clock_ms();
    int want = wanted(now_ms);
    if (want == 0)
        return -1;
    if (spares.count != want && spares.again_ms <= now_ms) {
        step(output_socket, want, now_ms, make);
        want = wanted(now_ms);
    }
    if (spares.count != want)
        return spares.again_ms > now_ms ? (int)(spares.again_ms - now_ms) : 0;
    return want > TRP_SPARES_MIN ? (int)(spares.window_ms + quiet_ms - now_ms) : -1;
}

void trp_spare_end_all(void)
{
    while (spares.count > 0) {
        spare last = take_out(spares.count - 1);
        (void)kill(last.pid, SIGKILL); // Not reaped yet: the number is its own.
        close(last.socket);
        close_pair(last.reads);
    }
}

bool trp_spare_ended(pid_t pid)
{
    for (int i = 0; i < spares.count; i++) {
        if (spares.all[i].pid != pid)
            continue;
        spare dead = take_out(i);
        close(dead.socket);
        close_pair(dead.reads);
        return true;
    }
    return false;
}

bool trp_spare_await(int socket, trp_start_order *message)
{
    ssize_t got;
    do // Two texts at least follow; zeros end them.
        got = recv(socket, message, sizeof *message - 2, 0);
    while (got < 0 && errno == EINTR);
    if (got < (ssize_t)sizeof message->order)
        return false;
    memset((char *)message + got, 0, 2);
    close(socket);
    return true;
}
