// test_two_nodes.far.c: the class that lives on both nodes, and the process that starts other
// nodes: drivers of their own, forked by one that never starts Troupe; and how one is stopped.
#include "two_nodes.h"
#include <stats.h>
#include <support.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

char *two_nodes_keys, *two_nodes_strange_keys;

troupe_status clerk_add(clerk *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

troupe_status clerk_reply(clerk *self, const letter *question, letter *answer)
{
    (void)self;
    char *text = troupe_arena_alloc(strlen(question->text) + 8);
    if (text == NULL)
        return TROUPE_NO_MEMORY;
    sprintf(text, "re: %s", question->text);
    *answer = (letter){.from = "clerk", .number = question->number + 1, .text = text};
    return TROUPE_OK;
}

troupe_status clerk_mirror(clerk *self, const troupe_bytes *data, troupe_bytes *back)
{
    (void)self;
    const unsigned char *from = data->data;
    unsigned char *to = troupe_arena_alloc(data->size);
    if (to == NULL)
        return TROUPE_NO_MEMORY;
    for (size_t i = 0; i < data->size; i++)
        to[i] = from[data->size - 1 - i];
    *back = (troupe_bytes){to, data->size};
    return TROUPE_OK;
}

troupe_status clerk_swell(clerk *self, const int *size, troupe_bytes *made)
{
    (void)self;
    char *bytes = troupe_arena_alloc((size_t)*size);
    if (bytes == NULL)
        return TROUPE_NO_MEMORY;
    memset(bytes, 'y', (size_t)*size);
    *made = (troupe_bytes){bytes, (size_t)*size};
    return TROUPE_OK;
}

troupe_status clerk_note(clerk *self, const int64_t *number, troupe_none *none)
{
    (void)none;
    self->wrong += *number != self->next++;
    return TROUPE_OK;
}

// How many notes were out of order, or -1 if some are missing.
troupe_status clerk_wrong(clerk *self, const troupe_none *none, int64_t *wrong)
{
    (void)none;
    *wrong = self->next == 1000 ? self->wrong : -1;
    self->next = self->wrong = 0;
    return TROUPE_OK;
}

troupe_status clerk_nap(clerk *self, const int *ms, int *slept)
{
    (void)self;
    int64_t end = support_now_ms() + *ms;
    while (support_now_ms() < end && !troupe_cancelled())
        usleep(1000);
    *slept = *ms;
    return TROUPE_OK;
}

troupe_status clerk_run(clerk *self, const errand *what, int64_t *total)
{
    (void)self;
    clerk_actor to = {what->to};
    return troupe_get(int64_t, troupe_call(to, clerk_add, what->amount), total);
}

// Has another one ask a third.
troupe_status clerk_go_round(clerk *self, const round_trip *way, int64_t *total)
{
    (void)self;
    clerk_actor there = {way->there};
    return troupe_get(int64_t, troupe_call(there, clerk_run, .to = way->back, .amount = 1), total);
}

troupe_status clerk_where(clerk *self, const troupe_none *none, troupe_actor *address)
{
    (void)self, (void)none;
    clerk_actor me;
    TROUPE_TRY(troupe_lookup(clerk, "pool", &me)); // Its own node's is the nearest.
    *address = me.address;
    return TROUPE_OK;
}

troupe_status clerk_pids(clerk *self, const troupe_none *none, pids *all)
{
    (void)self, (void)none;
    *all = (pids){.own = getpid(), .keeper = getppid()};
    return TROUPE_OK;
}

troupe_status clerk_fail(clerk *self, const troupe_text *text, int *none)
{
    (void)self, (void)none;
    return troupe_fail(TROUPE_NO_SPACE, "%s", *text);
}

troupe_status clerk_refused(clerk *self, const troupe_none *none, uint64_t *count)
{
    (void)self, (void)none;
    *count = support_stats().frames_refused;
    return TROUPE_OK;
}

troupe_status clerk_hold(clerk *self, const troupe_ref *ref, int *none)
{
    (void)self, (void)ref;
    *none = 0;
    return TROUPE_OK;
}

troupe_status clerk_count(clerk *self, const int *last, int *none)
{
    (void)self;
    *none = 0;
    for (int i = 0; i < *last; i++)
        TROUPE_TRY(troupe_yield(int, &i));
    return TROUPE_OK;
}

// ---- for test_two_nodes.hostile.c

enum { KEPT_BYTES = 200000 };

troupe_status clerk_keep(clerk *self, const troupe_none *none, uint64_t *object)
{
    (void)none;
    static unsigned char bytes[KEPT_BYTES];
    memset(bytes, 'g', sizeof bytes);
    self->kept = troupe_put_bytes(bytes, sizeof bytes);
    *object = self->kept.id;
    return self->kept.id != 0 ? TROUPE_OK : troupe_last_error()->status;
}

troupe_status clerk_kept_is_whole(clerk *self, const troupe_none *none, bool *whole)
{
    (void)none;
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(self->kept, &view, 0));
    const unsigned char *bytes = view.data;
    *whole = view.size == KEPT_BYTES;
    for (size_t i = 0; i < view.size; i++)
        *whole = *whole && bytes[i] == 'g';
    troupe_view_end(&view);
    return TROUPE_OK;
}

// Begins to wait for the actor of its node's worker in three ways.
troupe_status clerk_wait(clerk *self, const troupe_none *none, waits *all)
{
    (void)none;
    enum { LONG_MS = 60000, MANY = 1000 };
    clerk_actor pool;
    int first;
    TROUPE_TRY(troupe_lookup(clerk, "pool", &pool));
    self->stream = troupe_stream_open(troupe_with(pool, .window = 2), clerk_count, MANY);
    TROUPE_TRY(troupe_next(int, self->stream, &first));
    self->nap = troupe_call(pool, clerk_nap, LONG_MS);
    *all = (waits){.call = self->nap.id,
                   .stream = self->stream.id_,
                   .monitor = troupe_monitor_start(pool, clerk_told)};
    return all->monitor != 0 ? TROUPE_OK : troupe_last_error()->status;
}

troupe_status clerk_waits_still(clerk *self, const troupe_none *none, bool *untouched)
{
    (void)none;
    int second = 0, third = 0, slept;
    TROUPE_TRY(troupe_next(int, self->stream, &second)); // What its maker sent,
    TROUPE_TRY(troupe_next(int, self->stream, &third));  // and nothing in between.
    *untouched = self->ends == 0 && second == 1 && third == 2 &&
                 troupe_get(int, self->nap, &slept, TROUPE_POLL) == TROUPE_TIMED_OUT;
    troupe_stream_drop(self->stream);
    troupe_ref_drop(self->nap);
    return TROUPE_OK;
}

troupe_status clerk_told(clerk *self, const troupe_down *down, troupe_none *none)
{
    (void)down, (void)none;
    self->ends++;
    return TROUPE_OK;
}

static _Noreturn void run_other(const order *what, int fd)
{
    (void)signal(SIGCHLD, SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A test that fails leaves none behind.
    troupe_must(troupe_start(0, NULL, .node_message_bytes_max = TWO_NODES_LARGEST,
                             .listen = "127.0.0.1:0",
                             .keys = what->stranger ? two_nodes_strange_keys : two_nodes_keys,
                             .workers = 1, .threads = 2, .handle_signals = true,
                             .node_timeout_ms = TIMEOUT_MS, .store_bytes_max = 32 << 20));
    troupe_must(troupe_actor_status(
        troupe_spawn(clerk, .name = "desk", .place = TROUPE_PLACE_HERE).address));
    troupe_must(troupe_actor_status(
        troupe_spawn(clerk, .name = "pool", .place = TROUPE_PLACE_WORKER).address));
    troupe_must(troupe_actor_status(
        troupe_spawn(clerk, .name = "alone", .place = TROUPE_PLACE_ISOLATED).address));
    troupe_must(troupe_actor_status(
        troupe_spawn(clerk, .name = "narrow", .place = TROUPE_PLACE_HERE, .mailbox_max = 8)
            .address));
    other made = {.pid = getpid()};
    if (what->join[0] != '\0')
        made.joined = troupe_node_join(what->join);
    snprintf(made.address, sizeof made.address, "%s", troupe_node_address());
    if (send(fd, &made, sizeof made, 0) != (ssize_t)sizeof made)
        _exit(1);
    for (;;)
        pause();
}

static _Noreturn void run_launcher(int fd)
{
    order what;
    (void)signal(SIGCHLD, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(fd, &what, sizeof what, 0) == (ssize_t)sizeof what)
        if (fork() == 0)
            run_other(&what, fd);
    _exit(0);
}

int two_nodes_launch(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        close(pair[0]);
        run_launcher(pair[1]);
    }
    close(pair[1]);
    return pair[0];
}

// ---- ended, or stopped for a while

static bool has_ended(void *pid)
{
    return kill(*(pid_t *)pid, 0) != 0 && errno == ESRCH;
}

void two_nodes_end(other *it)
{
    assert_true(it->pid > 0); // 0 would be this process and all around it.
    (void)kill(it->pid, SIGTERM);
    assert_true(support_wait_until(has_ended, &it->pid, SLACK_MS));
}

// Every thread of it: one takes the signal for all, and the others go on until it has had a CPU.
static bool is_stopped(int pid)
{
    char path[300];
    bool stopped = true;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL && stopped;) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, task->d_name);
        char *stat = support_read_file(path);
        const char *state = stat != NULL ? strrchr(stat, ')') : NULL;
        stopped = state == NULL || strchr("TZX", state[2]) != NULL;
        free(stat);
    }
    if (tasks != NULL) // Else it has just ended.
        closedir(tasks);
    return stopped;
}

// The driver, and all of its keeper's group: the node process too, which answers others.
static bool all_are_stopped(void *of)
{
    const pid_t *driver_and_group = of;
    bool stopped = is_stopped(driver_and_group[0]);
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; stopped && (entry = readdir(processes)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 0 && getpgid(pid) == driver_and_group[1])
            stopped = is_stopped(pid);
    }
    closedir(processes);
    return stopped;
}

void two_nodes_stop(const other *it, const pids *all)
{
    pid_t driver_and_group[] = {it->pid, all->keeper};
    assert_int_equal(kill(it->pid, SIGSTOP), 0);
    assert_int_equal(kill(-all->keeper, SIGSTOP), 0);
    assert_true(support_wait_until(all_are_stopped, driver_and_group, SLACK_MS));
}

void two_nodes_continue(const other *it, const pids *all)
{
    assert_int_equal(kill(it->pid, SIGCONT), 0);
    assert_int_equal(kill(-all->keeper, SIGCONT), 0);
}
