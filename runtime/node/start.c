// start.c: troupe_start and troupe_stop: bringing a node up under the driver, becoming a worker in
// a worker process, and leaving no trace at the end.
//
// In order: the run folder and the segment are made, the keeper is forked (twice, so that the
// user's wait() never sees it), then the driver opens its sockets. The keeper forks the node
// process and, later, workers; each of them comes out of trp_keeper_run into run_worker here, on
// the stack of the troupe_start that the driver called.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fence.h>
#include <runtime/base/log.h>
#include <runtime/base/require.h>
#include <runtime/base/run_folder.h>
#include <runtime/host/debug_wait.h>
#include <runtime/host/signals.h>
#include <runtime/host/trace.h>
#include <runtime/host/worker_output.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/ring_carrier.h>
#include <runtime/link/zmq_acceptor.h>
#include <runtime/link/zmq_carrier.h>
#include <runtime/node/at_stop.h>
#include <runtime/node/descriptors.h>
#include <runtime/node/executed.h>
#include <runtime/node/keeper.h>
#include <runtime/node/loaded.h>
#include <runtime/node/node_client.h>
#include <runtime/node/options.h>
#include <runtime/node/query.h>
#include <runtime/node/server.h>
#include <runtime/node/takeover.h>
#include <runtime/node/worker_start.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/shm/carrier.h>
#include <runtime/shm/parallel_copy.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/spill_file.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/runtime.h>
#include <unistd.h>

enum {
    NODE_TIMEOUT_MS = 60000, // For the node process to be ready, on a machine however busy.
    END_TIMEOUT_MS = 3000,   // For the keeper to end, beyond the options' stop_timeout_ms.
    FLUSH_MS = 5000, // For a worker's last replies to arrive, where a connection begins by them,
    LINGER_MS = 100, // and for what is behind them to leave.
};

static struct {
    pthread_mutex_t lock;
    int starts; // Calls of troupe_start that were not undone by troupe_stop.
    int keeper_socket;
    bool watching_forks;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .keeper_socket = -1};

int troupe_version(void)
{
    return TROUPE_VERSION_NUMBER;
}

static void in_forked_child(void)
{
    if (trp_self.running)
        trp_self.forked = true;
}

// From now on a fork() by user code knows that it is one.
static void watch_forks(void)
{
    if (!driver.watching_forks)
        driver.watching_forks = pthread_atfork(NULL, NULL, in_forked_child) == 0;
}

// What the options ask for, for this process and those that are forked from it.
static void choose_carriers(void)
{
    bool rings = trp_self.options.transport == TROUPE_TRANSPORT_RING;
    trp_carriers.near = rings ? &trp_ring_carrier : &trp_zmq_carrier;
    trp_carriers.far = trp_listens() ? &trp_remote_carrier : &trp_no_carrier;
}

static troupe_status load_carriers(void)
{
    if (trp_carriers.near->carrier.load != NULL)
        TROUPE_TRY(trp_carriers.near->carrier.load());
    return trp_carriers.far->load != NULL ? trp_carriers.far->load() : TROUPE_OK;
}

// ---- worker processes

static _Noreturn void leave(int status)
{
    fflush(NULL);
    _exit(status);
}

// "troupe-57".
static void name_process(uint32_t slot)
{
    char name[16] = "troupe-";
    (void)trp_digits(name + strlen(name), slot);
    (void)prctl(PR_SET_NAME, name);
}

// Into a pipe, lines would be kept back until there are many, and lost by a crash.
static void print_by_lines(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)setvbuf(stderr, NULL, _IONBF, 0);
}

// Goes as far as a process can that does not know yet which worker it will be. The fence comes
// before the thread, as in start_driver, and the thread waits. With a .worker_init there is no
// thread before that: it may want to do what only one thread can.
static void prepare_worker(void)
{
    trp_fence_start();
    if (trp_carriers.near->prepare != NULL && trp_self.options.worker_init == NULL)
        trp_carriers.near->prepare();
}

// The life of a worker process. Never returns to the user's main.
static _Noreturn void run_worker(uint32_t slot, uint64_t incarnation, bool isolated)
{
    trp_fence_start(); // Costs nothing where prepare_worker has done it.
    name_process(slot);
    trp_self.slot = slot;
    trp_self.incarnation = incarnation;
    trp_self.isolated = isolated;
    trp_self.ending = false;
    trp_executed_known();
    (void)pthread_mutex_init(&driver.lock,
                             NULL); // Held by the troupe_start that we were forked from.
    trp_store_open(slot);
    trp_leave_set(leave); // troupe_must in a worker skips what the driver gave to atexit.
    if (trp_self.options.worker_init != NULL)
        trp_self.options.worker_init();

    const trp_handlers *handlers = trp_process_handlers();
    trp_self.running = true;
    trp_trace_join(slot, trp_self.folder);
    troupe_status status = trp_process_open();
    if (status == TROUPE_OK && handlers->start != NULL)
        handlers->start();
    trp_debug_wait_worker(slot); // READY, so that nobody takes it for one that does not start.
    if (status == TROUPE_OK)
        status = trp_process_io_start(-1);
    if (status != TROUPE_OK) {
        trp_log(TRP_ERROR, "worker process %u could not start: %s", slot,
                troupe_last_error()->text);
        leave(EXIT_FAILURE);
    }
    if (handlers->work != NULL)
        handlers->work(isolated);
    else
        while (!trp_self.ending) // Nothing but the end can come: poll it without haste.
            (void)poll(NULL, 0, 20);
    trp_stop_time_begin();
    if (handlers->stop != NULL)
        handlers->stop();
    trp_trace_leave();
    trp_process_mute();
    trp_process_flush(FLUSH_MS);
    trp_process_io_stop();
    if (!trp_carriers.near->outlives) // Else the node takes back what is left, as after any end.
        trp_process_close(LINGER_MS);
    leave(EXIT_SUCCESS);
}

// In an executed worker: attaches to the node that TROUPE_WORKER names. Does not return.
static _Noreturn void run_executed_worker(const char *value)
{
    unsigned slot, isolated;
    unsigned long long incarnation;
    int segment_fd, folder_at = 0;
    if (sscanf(value, "%*d:%u:%llx:%u:%d:%n", &slot, &incarnation, &isolated, &segment_fd,
               &folder_at) != 4 ||
        folder_at == 0 || slot <= TRP_PROCESS_DRIVER || slot >= TRP_PROCESSES_MAX ||
        strlen(value + folder_at) >= sizeof trp_self.folder) {
        trp_log(TRP_ERROR, "the variable %s is set and malformed: '%s'", TRP_WORKER_VARIABLE,
                value);
        leave(EXIT_FAILURE);
    }
    strcpy(trp_self.folder, value + folder_at);
    (void)trp_loaded_options(trp_self.folder, &trp_self.options);
    trp_self.options.launch = TROUPE_LAUNCH_EXEC; // As those are that it asks for.
    (void)fcntl(segment_fd, F_SETFD, FD_CLOEXEC);
    if (trp_segment_attach(segment_fd) != TROUPE_OK) {
        trp_log(TRP_ERROR, "worker process %u could not start: %s", slot,
                troupe_last_error()->text);
        leave(EXIT_FAILURE);
    }
    watch_forks();
    print_by_lines();
    run_worker(slot, incarnation, isolated != 0);
}

// In an executed worker does not return.
static void enter_executed_worker(const troupe_options *how)
{
    char order[512] = "";
    if (!trp_executed_enter(order, sizeof order))
        return;
    if (trp_options_complete(how, NULL, &trp_self.options) != TROUPE_OK)
        leave(EXIT_FAILURE);
    choose_carriers();
    run_executed_worker(order);
}

// ---- the run folder

// Makes the folder of this run, 0700, and takes its lock. It has its name only once it is locked:
// whoever sweeps in a container that shares `base` does not know our process's number.
static troupe_status make_folder(const char *base, int *lock_fd)
{
    enum { SOCKET_NAME_MAX = 20 }; // "/2047.89abcdef" and some
    char fresh[128], path[144];
    unsigned user = (unsigned)getuid(), any = (unsigned)trp_random_incarnation();
    int size = snprintf(trp_self.folder, sizeof trp_self.folder, "%s/troupe-%u-%d-%08x", base, user,
                        (int)getpid(), any);
    if (size >= (int)sizeof trp_self.folder || size + SOCKET_NAME_MAX > 107)
        return troupe_fail(TROUPE_INVALID,
                           ".directory of troupe_start, '%s', is too long for unix sockets: "
                           "expected at most %d bytes",
                           base, TRP_DIRECTORY_MAX);
    snprintf(fresh, sizeof fresh, "%s/" TRP_FOLDER_FRESH "%u-%d-%x-%08x", base, user, (int)getpid(),
             (unsigned)trp_folder_space(), any);
    if (mkdir(fresh, 0700) != 0)
        return troupe_fail(TROUPE_IO, "the folder %s for sockets could not be made: %s", fresh,
                           strerror(errno));
    snprintf(path, sizeof path, "%s/lock", fresh);
    *lock_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*lock_fd >= 0 && flock(*lock_fd, LOCK_EX | LOCK_NB) == 0 &&
        rename(fresh, trp_self.folder) == 0)
        return TROUPE_OK;
    troupe_status status = trp_fail_errno(TROUPE_IO, "%s could not be made and locked", path);
    if (*lock_fd >= 0)
        close(*lock_fd);
    trp_folder_remove(fresh);
    return status;
}

// ---- the driver

// Forks the keeper as nobody's child of ours: the process between exits at once and is waited for.
static troupe_status fork_keeper(trp_keeper_setup *setup)
{
    pid_t between = fork();
    if (between < 0)
        return troupe_fail(TROUPE_IO, "the keeper process could not be forked: %s",
                           strerror(errno));
    if (between == 0) {
        if (fork() == 0) {
            print_by_lines(); // Its children do.
            trp_keeper_run(setup);
        }
        _exit(0);
    }
    while (waitpid(between, NULL, 0) < 0 && errno == EINTR)
        continue;
    return TROUPE_OK;
}

static troupe_status launch_keeper(int argc, char **argv, int lock_fd, int output_socket)
{
    static trp_loaded_command loaded;
    bool loads = trp_self.options.worker_library != NULL;
    int pair[2], pidfd;
    if (loads)
        TROUPE_TRY(trp_loaded_prepare(&trp_self.options, trp_self.folder, &loaded));
    TROUPE_TRY(trp_descriptor_of_self(&pidfd));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        troupe_status failure = trp_fail_errno(TROUPE_IO, "the keeper's socket could not be made");
        close(pidfd);
        return failure;
    }
    static char *no_arguments[] = {(char *)"troupe-worker", NULL};
    const trp_takeover *takeover = trp_takeover_of();
    trp_keeper_setup setup = {
        .driver_pidfd = pidfd,
        .driver_socket = pair[1],
        .lock_fd = lock_fd,
        .output_socket = output_socket,
        .folder = trp_self.folder,
        .spill_folder = trp_spill_folder(),
        .guard = takeover != NULL ? takeover->guard() : NULL,
        .execute = trp_self.options.launch == TROUPE_LAUNCH_EXEC,
        .program = loads ? loaded.program : "/proc/self/exe",
        .argv = loads                      ? loaded.argv
                : argc > 0 && argv != NULL ? argv
                                           : no_arguments,
        .run_node = trp_node_run,
        .prepare_worker = prepare_worker,
        .run_worker = run_worker,
    };
    (void)sigprocmask(SIG_SETMASK, NULL, &setup.mask);
    (void)sigaction(SIGCHLD, NULL, &setup.child_action);
    fflush(NULL); // Else each child would have, and might write, what is buffered now.
    troupe_status status = fork_keeper(&setup);
    close(pair[1]);
    close(pidfd);
    if (status == TROUPE_OK)
        driver.keeper_socket = pair[0];
    else
        close(pair[0]);
    return status;
}

// Waits for the end of the keeper, which is the end of the node; false: it did not come in time.
static bool await_keeper_end(int64_t timeout_ms)
{
    struct pollfd keeper = {.fd = driver.keeper_socket, .events = POLLIN};
    int64_t give_up = trp_clock_ms() + timeout_ms;
    for (;;) {
        int64_t left = give_up - trp_clock_ms();
        int got = poll(&keeper, 1, left <= 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX);
        if (got > 0 || (got == 0 && left <= 0))
            return got > 0;
    }
}

// Ends what was started so far. With the lock held.
static void tear_down(void)
{
    TRP_USE_SEGMENT_IF_OPEN(used); // Which nobody else may from trp_process_close on.
    trp_self.running = false;
    trp_process_close(0);
    if (trp_process_handlers()->closed != NULL)
        trp_process_handlers()->closed();
    trp_query_stop(); // What it waits for has failed by now.
    if (driver.keeper_socket >= 0) {
        (void)shutdown(driver.keeper_socket, SHUT_RDWR); // Tells the keeper to end, if nothing did.
        (void)await_keeper_end(END_TIMEOUT_MS);
        close(driver.keeper_socket);
        driver.keeper_socket = -1;
    }
    trp_trace_finish();
    trp_output_stop(); // After the last worker, before the segment, which has their names.
    trp_folder_remove(trp_spill_folder()); // The keeper has done it, unless it was killed.
    trp_folder_remove(trp_self.folder);
    trp_copy_stop();
    trp_segment_close();
    trp_self.runtime_lost = false;
    trp_self.ending = false;
}

static troupe_status node_failed(void)
{
    return troupe_fail(TROUPE_IO, "the node process could not start: %s",
                       trp_segment_process(TRP_PROCESS_NODE)->cause);
}

static troupe_status await_node(void)
{
    enum { LOOK_MS = 20 };
    uint64_t node = trp_segment_process(TRP_PROCESS_NODE)->incarnation;
    for (int waited = 0; waited < NODE_TIMEOUT_MS; waited += LOOK_MS) {
        trp_process_state state = trp_process_await(TRP_PROCESS_NODE, node, LOOK_MS);
        if (state == TRP_PROCESS_READY)
            return TROUPE_OK;
        if (state == TRP_PROCESS_DEAD)
            return node_failed();
        if (await_keeper_end(0))
            return troupe_fail(TROUPE_IO, "the keeper or the node process could not be made, or "
                                          "ended before it was ready");
    }
    return troupe_fail(TROUPE_IO, "the node process did not start within %d s",
                       NODE_TIMEOUT_MS / 1000);
}

static troupe_status open_driver(void)
{
    troupe_status status = trp_process_open();
    // After the node process's end the keeper removes the files that this process reads.
    if (status == TROUPE_IO && trp_segment_process(TRP_PROCESS_NODE)->state == TRP_PROCESS_DEAD)
        return node_failed();
    TROUPE_TRY(status);
    TROUPE_TRY(await_node());
    const trp_handlers *handlers = trp_process_handlers();
    trp_trace_join(TRP_PROCESS_DRIVER, trp_self.folder);
    if (handlers->start != NULL)
        handlers->start();
    TROUPE_TRY(trp_process_io_start(driver.keeper_socket));
    return trp_query_start();
}

// The rows of this process and of the node process.
static void take_places(void)
{
    trp_self.slot = TRP_PROCESS_DRIVER;
    trp_self.incarnation = trp_random_incarnation();
    trp_self.options.directory = trp_self.folder; // The caller's text may not live long.
    trp_self.options.spill_dir = trp_spill_folder();
    trp_segment_process(TRP_PROCESS_DRIVER)->incarnation = trp_self.incarnation;
    trp_process_row_set(TRP_PROCESS_DRIVER, TRP_PROCESS_STARTING);
    trp_segment_process(TRP_PROCESS_NODE)->incarnation = trp_random_incarnation();
    trp_process_row_set(TRP_PROCESS_NODE, TRP_PROCESS_STARTING);
    trp_segment_nodes()->id = (uint32_t)(trp_random_incarnation() >> 32) | 1;
}

// Everything in this process, for a debugger: no keeper, no node process, no workers.
static troupe_status start_local(void)
{
    trp_self.folder[0] = '\0';
    TROUPE_TRY(trp_segment_create(trp_self.options.store_bytes_max));
    troupe_status status = trp_trace_create(trp_self.options.trace, "");
    if (status != TROUPE_OK) {
        trp_segment_close();
        return status;
    }
    trp_spill_plan(&trp_self.options);
    take_places();
    trp_process_row_set(TRP_PROCESS_NODE, TRP_PROCESS_READY);
    trp_node_reset_here();
    trp_store_open(TRP_PROCESS_DRIVER);
    trp_self.running = true;
    trp_trace_join(TRP_PROCESS_DRIVER, trp_self.folder);
    status = trp_process_open();
    if (status == TROUPE_OK && trp_process_handlers()->start != NULL)
        trp_process_handlers()->start();
    if (status == TROUPE_OK)
        status = trp_process_io_start(-1);
    if (status != TROUPE_OK)
        tear_down();
    return status;
}

// Ends the node in order. With the lock held.
static void stop_driver(void)
{
    trp_stop_time_begin();
    trp_self.ending = true;
    if (trp_process_handlers()->stop != NULL)
        trp_process_handlers()->stop();
    trp_process_mute();
    int node = trp_process_pid(TRP_PROCESS_NODE), keeper = trp_process_parent(node);
    int64_t left_ms = trp_stop_time_left_ms();
    bool ended = trp_self.local || trp_self.runtime_lost || trp_node_stop(left_ms) != TROUPE_OK ||
                 await_keeper_end(left_ms);
    if (!ended && trp_process_is_stopped(keeper))
        (void)kill(keeper, SIGKILL); // With it all its children end.
    else if (!ended && !trp_process_is_stopped(node))
        (void)await_keeper_end(END_TIMEOUT_MS);
    trp_process_io_stop();
    tear_down();
    trp_at_stop_run();
}

// A signal came: whoever started the runtime, and however often, it ends. The process follows.
static void stop_by_signal(void)
{
    pthread_mutex_lock(&driver.lock);
    if (driver.starts > 0) {
        driver.starts = 0;
        stop_driver();
    }
    pthread_mutex_unlock(&driver.lock);
}

static troupe_status start_driver(int argc, char **argv, const troupe_options *how)
{
    TROUPE_TRY(trp_options_complete(how, NULL, &trp_self.options));
    trp_fence_start(); // Before our first thread: with two, the kernel takes milliseconds for it.
    const char *local = getenv("TROUPE_LOCAL");
    trp_self.local = local != NULL && strcmp(local, "1") == 0;
    if (trp_self.options.launch == TROUPE_LAUNCH_AUTO)
        trp_self.options.launch = trp_launch_choose();
    TROUPE_TRY(trp_descriptors_plan(&trp_self.workers_max));
    if (trp_self.local && trp_listens())
        return troupe_fail(TROUPE_UNSUPPORTED, "TROUPE_LOCAL has no processes that could listen "
                                               "for other nodes (.listen of troupe_start)");
    TROUPE_TRY(trp_options_listen(&trp_self.options));
    choose_carriers();
    TROUPE_TRY(load_carriers()); // Once, for all who are forked from here.
    watch_forks();
    trp_descriptors_hold_standard();
    if (trp_self.local)
        return start_local();

    int lock_fd;
    trp_folder_sweep(trp_self.options.directory);
    TROUPE_TRY(make_folder(trp_self.options.directory, &lock_fd));
    troupe_status status = trp_segment_create(trp_self.options.store_bytes_max);
    if (status == TROUPE_OK &&
        (status = trp_trace_create(trp_self.options.trace, trp_self.folder)) != TROUPE_OK)
        trp_segment_close();
    if (status != TROUPE_OK) {
        close(lock_fd);
        trp_folder_remove(trp_self.folder);
        return status;
    }
    trp_spill_plan(&trp_self.options);
    take_places();

    int output_socket = -1;
    if (trp_self.options.transport == TROUPE_TRANSPORT_TCP) {
        char keys[128];
        trp_socket_keys_path(keys);
        status = trp_transport_keys_make(keys);
    }
    if (status == TROUPE_OK)
        status = trp_output_open(&trp_self.options, &output_socket);
    if (status == TROUPE_OK)
        status = launch_keeper(argc, argv, lock_fd, output_socket);
    close(lock_fd); // The keeper has it.
    if (status == TROUPE_OK)
        status = trp_output_start(output_socket);
    else if (output_socket >= 0)
        close(output_socket);
    trp_store_open(TRP_PROCESS_DRIVER);
    trp_self.running = true;
    if (status == TROUPE_OK)
        status = open_driver();
    if (status != TROUPE_OK)
        tear_down();
    return status;
}

troupe_status troupe_start_with(int argc, char **argv, const troupe_options *how)
{
    if (argc > 0)
        TRP_REQUIRE(argv);
    enter_executed_worker(how);
    if (trp_self.forked)
        return trp_process_check();
    if (trp_self.slot > TRP_PROCESS_DRIVER)
        return TROUPE_OK; // A library that a worker process loads may start what runs there anyway.
    const trp_takeover *takeover = trp_takeover_of();
    troupe_options own;
    if (takeover != NULL) {
        TROUPE_TRY(takeover->begin(how, &own));
        how = &own;
    }
    pthread_mutex_lock(&driver.lock);
    troupe_status status = driver.starts > 0 ? TROUPE_OK : start_driver(argc, argv, how);
    if (status == TROUPE_OK && driver.starts == 0 && trp_self.options.handle_signals &&
        (status = trp_signals_on(stop_by_signal, trp_self.options.stop_timeout_ms)) != TROUPE_OK)
        stop_driver();
    if (status == TROUPE_OK && driver.starts++ == 0)
        trp_self.starts++;
    pthread_mutex_unlock(&driver.lock);
    if (takeover != NULL)
        takeover->run(status);
    return status;
}

int troupe_stop(void)
{
    if (trp_self.forked || trp_self.slot > TRP_PROCESS_DRIVER)
        return 0;
    pthread_mutex_lock(&driver.lock);
    if (driver.starts > 0 && --driver.starts == 0) {
        trp_signals_off();
        stop_driver();
    }
    pthread_mutex_unlock(&driver.lock);
    trp_signals_end();
    return 0;
}
