// spare.c: see spare.h. No allocation and no threads, as in all of the keeper.
#include <runtime/spare.h>

#include <errno.h>
#include <runtime/clock.h>
#include <runtime/output.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SECOND_MS = 1000,
    QUIET_MS = 10 * SECOND_MS, // Without a request, before those above the least are ended.
    AFTER_FAILURE_MS = SECOND_MS,
    AFTER_REQUEST_MS = 3, // The CPUs are the new worker's first,
    AFTER_EACH_MS = 1,    // and those of all that were asked for together.
    TOGETHER_MAX = 100,
};

typedef struct spare {
    pid_t pid;
    int socket;
    int reads[2]; // Of its pipes; -1: it has none.
} spare;

static struct {
    spare all[TRP_SPARES_MAX];
    int count;
    int64_t second_ms; // When the second began that is counted in.
    int asked, before; // How many were asked for in it and in the one before.
    int64_t last_ms;   // When one was asked for last; 0: never.
    int together;      // How many have been, none of them much later than the one before.
    int64_t again_ms;  // No earlier is one made.
} spares;

void trp_spare_asked(void)
{
    int64_t now_ms = trp_clock_ms();
    bool soon = now_ms - spares.last_ms <= AFTER_REQUEST_MS;
    spares.together = !soon ? 1 : spares.together + (spares.together < TOGETHER_MAX);
    spares.last_ms = now_ms;
    int64_t again_ms = now_ms + AFTER_REQUEST_MS + AFTER_EACH_MS * (int64_t)spares.together;
    if (spares.again_ms < again_ms)
        spares.again_ms = again_ms;
    if (spares.last_ms - spares.second_ms >= SECOND_MS) {
        spares.before = spares.last_ms - spares.second_ms < 2 * SECOND_MS ? spares.asked : 0;
        spares.asked = 0;
        spares.second_ms = spares.last_ms;
    }
    spares.asked++;
}

static int wanted(int64_t now_ms)
{
    int most = spares.asked > spares.before ? spares.asked : spares.before;
    if (spares.last_ms == 0)
        return 0;
    if (now_ms - spares.last_ms >= QUIET_MS || most < TRP_SPARES_MIN)
        return TRP_SPARES_MIN;
    return most < TRP_SPARES_MAX ? most : TRP_SPARES_MAX;
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

static void make_one(int output_socket, int64_t now_ms, pid_t (*make)(const int *, int))
{
    spare made = {.reads = {-1, -1}};
    int pair[2], ends[2] = {-1, -1};
    spares.again_ms = now_ms + AFTER_FAILURE_MS;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return;
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
        return;
    }
    spares.all[spares.count++] = made;
    spares.again_ms = 0;
}

int trp_spare_tend(int output_socket, pid_t (*make)(const int ends[2], int socket))
{
    int64_t now_ms = trp_clock_ms();
    int want = wanted(now_ms);
    if (want == 0)
        return -1;
    while (spares.count > want) { // It ends by itself when the other end of its socket is closed.
        spare retired = take_out(spares.count - 1);
        close(retired.socket);
        close_pair(retired.reads);
    }
    if (spares.count < want && spares.again_ms <= now_ms)
        make_one(output_socket, now_ms, make);
    if (spares.count < want)
        return spares.again_ms > now_ms ? (int)(spares.again_ms - now_ms) : 0;
    return want > TRP_SPARES_MIN ? (int)(spares.last_ms + QUIET_MS - now_ms) : -1;
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
