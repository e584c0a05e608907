// worker_start.c: see worker_start.h.
#include <runtime/node/worker_start.h>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/slow.h>
#include <runtime/link/resolve.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 100 };
int trp_worker_ready_ms = 5000;

// What a process that is waited for has had of the time.
typedef struct watched {
    int64_t idle_ms; // Without a CPU or a disk to wait for, and without having run,
    int64_t ran_ms;  // and how long it has run.
    char doing;
} watched;

// On a busy machine it takes as long as it takes: what somebody waits for a CPU or a disk does not
// count.
static void look_at(int pid, watched *it)
{
    it->doing = trp_process_doing(pid, &it->ran_ms);
    it->idle_ms += it->doing == 0 || it->doing == 'R' || it->doing == 'D' ? 0 : LOOK_MS;
}

static troupe_status late_keeper(uint32_t slot, int pid, const watched *keeper)
{
    return troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                       "the node's keeper (pid %d) has not made worker process %u in time%s", pid,
                       slot, keeper->doing == 'T' ? ": it is stopped" : "");
}

// TROUPE_OK: it need not be given up yet.
static troupe_status judge(uint32_t slot, uint64_t incarnation, watched *keeper, watched *worker)
{
    int pid = trp_process_pid(slot), limit_ms = trp_self.options.request_timeout_ms;
    if (pid == 0) {
        int keeper_pid = trp_process_parent(trp_process_pid(TRP_PROCESS_NODE));
        look_at(keeper_pid, keeper);
        return keeper->idle_ms < limit_ms ? TROUPE_OK : late_keeper(slot, keeper_pid, keeper);
    }
    look_at(pid, worker);
    if (worker->doing == 'T' && worker->idle_ms >= limit_ms)
        return troupe_fail(TROUPE_DEADLINE_EXCEEDED, "worker process %u (pid %d) is stopped", slot,
                           pid);
    // Only one that was executed may fail to come to troupe_start.
    if (trp_self.options.launch != TROUPE_LAUNCH_EXEC ||
        worker->idle_ms + worker->ran_ms < trp_worker_ready_ms)
        return TROUPE_OK;
    (void)trp_node_end(slot, incarnation, "did not reach troupe_start in time");
    return troupe_fail(TROUPE_IO,
                       "worker process %u (pid %d) did not reach troupe_start within %d s: "
                       "troupe_start must come first in main, in workers too",
                       slot, pid, trp_worker_ready_ms / 1000);
}

static troupe_status ended(uint32_t slot, uint64_t incarnation)
{
    char cause[112];
    if (trp_process_alive(slot, incarnation, cause))
        return troupe_fail(TROUPE_NOT_STARTED,
                           "the runtime was stopped before worker process %u was ready", slot);
    return troupe_fail(TROUPE_IO, "worker process %u (pid %d) %s before it was ready", slot,
                       trp_process_pid(slot), cause);
}

static void tell_slow(uint32_t slot, trp_slow *slow)
{
    int pid = trp_process_pid(slot), keeper = trp_process_parent(trp_process_pid(TRP_PROCESS_NODE));
    int maker = pid != 0 ? pid : keeper;
    const char *stopped = trp_process_is_stopped(maker) ? ", which is stopped" : "";
    if (pid != 0)
        trp_slow_tell(slow, "worker process %u (pid %d) to be ready%s", slot, pid, stopped);
    else
        trp_slow_tell(slow, "worker process %u to be made by the keeper (pid %d)%s", slot, keeper,
                      stopped);
}

static troupe_status await_ready(uint32_t slot, uint64_t incarnation, int64_t until_ns,
                                 trp_slow *slow)
{
    watched keeper = {0}, worker = {0};
    for (;;) {
        int64_t left_ns = until_ns != 0 ? until_ns - trp_clock_ns() : INT64_MAX;
        int look_ms = left_ns / 1000000 < LOOK_MS ? (int)(left_ns / 1000000) + 1 : LOOK_MS;
        if (trp_slow_is_due(slow))
            tell_slow(slot, slow);
        trp_process_state state = trp_process_await(slot, incarnation, left_ns > 0 ? look_ms : 0);
        if (state == TRP_PROCESS_READY)
            return TROUPE_OK;
        if (state != TRP_PROCESS_STARTING)
            return ended(slot, incarnation);
        if (left_ns <= 0)
            return troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                               "worker process %u (pid %d) was not ready in time", slot,
                               trp_process_pid(slot));
        TROUPE_TRY(judge(slot, incarnation, &keeper, &worker));
    }
}

troupe_status trp_worker_await(uint32_t slot, uint64_t incarnation, int64_t until_ns)
{
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_PROCESS);
    troupe_status status = await_ready(slot, incarnation, until_ns, &slow);
    trp_slow_end(&slow);
    return status;
}

// ---- forked or executed

// Whether it looks up a name that an earlier troupe_start was given, and has given up.
static bool is_looking_up(DIR *tasks, const char *task)
{
    char path[NAME_MAX + 16], name[sizeof TRP_RESOLVER_NAME + 1] = "";
    snprintf(path, sizeof path, "%s/comm", task);
    int fd = openat(dirfd(tasks), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is = read(fd, name, sizeof name) == sizeof TRP_RESOLVER_NAME &&
              strcmp(name, TRP_RESOLVER_NAME "\n") == 0;
    close(fd);
    return is;
}

// Of the program.
static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return 1;
    int count = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.' && !is_looking_up(tasks, task->d_name);
    closedir(tasks);
#if defined(__SANITIZE_THREAD__)
    count--; // Its own thread survives a fork.
#endif
    return count;
}

troupe_launch trp_launch_choose(void)
{
    static bool told;
    int threads = count_threads();
    if (threads <= 1)
        return TROUPE_LAUNCH_FORK;
    if (!told && !trp_self.local)
        trp_log(TRP_WARN,
                "the program had %d threads at troupe_start, so its workers are executed again: "
                "what comes before troupe_start in main runs in each of them",
                threads);
    told = told || !trp_self.local;
    return TROUPE_LAUNCH_EXEC;
}
