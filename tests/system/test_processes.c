// test_processes.c: the node's processes as the runtime layer sees them, with handlers of the
// test's own instead of the actors': workers, names, deaths, frames, windows, and the loss of the
// node itself.
// timeout: 120
#include <places.h>
#include <support.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/link/batch.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/link/zmq.h>
#include <runtime/node/directory_client.h>
#include <runtime/node/keeper.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/node/worker_start.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ECHO = 1,
    HOARD = 2,
    RECORD = 3
}; // What a worker of this test does with a frame's `method`.

// What the driver has received; written by its I/O thread.
static struct {
    _Atomic uint64_t replies, in_order;
    _Atomic uint32_t dead_process;
    _Atomic int deaths;
    char cause[112];
} seen;

static void on_frame(const trp_frame *frame)
{
    static uint64_t recorded, in_order; // Of a worker.
    trp_frame reply = {.kind = TRP_FRAME_REPLY, .call = frame->call, .target = frame->target};
    if (frame->kind == TRP_FRAME_REPLY) {
        seen.in_order = frame->target;
        seen.replies++;
        return;
    }
    if (frame->method == HOARD) // Its place in the window is never given back.
        return;
    if (frame->method == RECORD) {
        in_order += frame->target == recorded++;
        reply.target = in_order;
    }
    if (frame->kind == TRP_FRAME_CALL)
        (void)trp_process_send(frame->from, frame->from_incarnation, &reply, 0);
    trp_process_credit(frame->from, frame->from_incarnation, frame->body_size);
}

static void on_death(uint32_t process, uint64_t incarnation, const char *cause)
{
    (void)incarnation;
    seen.dead_process = process;
    strcpy(seen.cause, cause);
    seen.deaths++;
}

static bool replies_reached(void *context)
{
    return seen.replies >= *(uint64_t *)context;
}

static bool deaths_reached(void *context)
{
    return seen.deaths >= *(int *)context;
}

static bool runtime_lost(void *context)
{
    (void)context;
    return trp_process_check() == TROUPE_RUNTIME_LOST;
}

static int set_up(void **state)
{
    (void)state;
    memset((void *)&seen, 0, sizeof seen);
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    return troupe_start(0, NULL, .workers = 2) == TROUPE_OK ? 0 : -1;
}

static void test_pool_and_isolated_workers(void **state)
{
    (void)state;
    uint32_t process[4];
    uint64_t incarnation[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(trp_node_worker(i == 3, &process[i], &incarnation[i]), TROUPE_OK);
    assert_int_not_equal(process[0], process[1]);
    assert_true(process[2] == process[0] || process[2] == process[1]); // The pool has two.
    assert_true(process[3] != process[0] && process[3] != process[1]);
    for (int i = 0; i < 4; i++) {
        assert_true(trp_process_alive(process[i], incarnation[i], NULL));
        assert_true(support_process_lives(trp_process_pid(process[i])));
        assert_false(trp_process_alive(process[i], incarnation[i] + 1, NULL));
    }
}

static void test_names(void **state)
{
    (void)state;
    char value[TRP_NAMED_VALUE_MAX];
    size_t size;
    assert_int_equal(trp_node_name_put("a.name/1", "value", 6), TROUPE_OK);
    assert_int_equal(trp_node_name_put("a.name/1", "other", 6), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "a.name/1"));
    assert_int_equal(trp_node_name_get("a.name/1", value, &size), TROUPE_OK);
    assert_int_equal(size, 6);
    assert_string_equal(value, "value");
    trp_node_name_drop("a.name/1");
    assert_int_equal(trp_node_name_get("a.name/1", value, &size), TROUPE_NOT_FOUND);
    assert_int_equal(trp_node_name_put("no spaces", "", 0), TROUPE_INVALID);
    assert_int_equal(trp_node_name_put("", "", 0), TROUPE_INVALID);
    assert_int_equal(trp_node_name_put("large", value, TRP_NAMED_VALUE_MAX + 1), TROUPE_TOO_LARGE);
}

static void test_frames_arrive_in_order(void **state)
{
    (void)state;
    enum { COUNT = 50000 }; // More than the window holds.
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(false, &process, &incarnation), TROUPE_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        trp_frame frame = {.kind = i + 1 < COUNT ? TRP_FRAME_TELL : TRP_FRAME_CALL,
                           .method = RECORD,
                           .target = i,
                           .call = i + 1};
        assert_int_equal(trp_process_send(process, incarnation, &frame, SUPPORT_SOON_MS),
                         TROUPE_OK);
    }
    uint64_t one = 1;
    assert_true(support_wait_until(replies_reached, &one, SUPPORT_SOON_MS));
    assert_int_equal(seen.in_order, COUNT);
}

static void test_full_window_is_busy(void **state)
{
    (void)state;
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(false, &process, &incarnation), TROUPE_OK);
    trp_frame frame = {.kind = TRP_FRAME_TELL, .method = HOARD};
    int sent = 0;
    troupe_status status;
    while ((status = trp_process_send(process, incarnation, &frame, 0)) == TROUPE_OK)
        sent++;
    assert_int_equal(status, TROUPE_BUSY);
    assert_int_equal(sent, 16384);
    assert_int_equal(trp_process_send(process, incarnation, &frame, 20), TROUPE_BUSY);
    // Other kinds of frames take no room.
    trp_frame kill_frame = {.kind = TRP_FRAME_KILL, .method = HOARD};
    assert_int_equal(trp_process_send(process, incarnation, &kill_frame, 0), TROUPE_OK);
}

static void test_death_is_reported_with_its_cause(void **state)
{
    (void)state;
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    trp_frame frame = {.kind = TRP_FRAME_CALL, .method = ECHO};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_OK);
    uint64_t replies = 1;
    assert_true(support_wait_until(replies_reached, &replies, SUPPORT_SOON_MS));

    int64_t before = support_now_ms();
    assert_int_equal(kill(trp_process_pid(process), SIGKILL), 0);
    int one = 1;
    assert_true(support_wait_until(deaths_reached, &one, 1000));
    print_message("death known after %d ms\n", (int)(support_now_ms() - before));
    assert_int_equal(seen.dead_process, process);
    assert_string_equal(seen.cause, "was killed by signal 9 (Killed)");
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_NOT_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "was killed by signal 9"));

    // A kill by order has its orderer's words as the cause.
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    assert_int_equal(trp_node_kill(process, incarnation, "was ended by the test"), TROUPE_OK);
    int two = 2;
    assert_true(support_wait_until(deaths_reached, &two, 1000));
    assert_string_equal(seen.cause, "was ended by the test");
    assert_int_equal(trp_node_kill(process, incarnation, "again"), TROUPE_OK); // Harmless.
    assert_int_equal(trp_node_kill(TRP_PROCESS_DRIVER, 1, "never"), TROUPE_INVALID);
}

static void test_malformed_and_foreign_frames_are_refused(void **state)
{
    (void)state;
    char path[128];
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .transport = TROUPE_TRANSPORT_IPC),
                     TROUPE_OK);
    trp_socket_path(TRP_PROCESS_DRIVER, trp_process_incarnation(), path);
    trp_outbound *intruder = trp_outbound_open(path);
    assert_non_null(intruder);
    trp_buffer buffer = {0};
    for (int i = 0; i < 100; i++) {
        unsigned char garbage[64];
        for (size_t k = 0; k < sizeof garbage; k++)
            garbage[k] = (unsigned char)(i * 37 + (int)k * 101);
        trp_buffer_append(&buffer, garbage, (size_t)i % sizeof garbage);
        assert_int_equal(trp_outbound_send(intruder, &buffer), TROUPE_OK);
    }
    // Well-formed, but from an incarnation that never was, or for one that is not us.
    for (int i = 0; i < 2; i++) {
        trp_frame frame = {.kind = TRP_FRAME_REPLY,
                           .from = 7,
                           .from_incarnation = 12345,
                           .to_incarnation = trp_process_incarnation() + (uint64_t)i,
                           .sequence = 1};
        trp_batch_add(&buffer, &frame);
        assert_int_equal(trp_outbound_send(intruder, &buffer), TROUPE_OK);
    }
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    trp_frame frame = {.kind = TRP_FRAME_CALL, .method = ECHO};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_OK);
    uint64_t one = 1;
    assert_true(support_wait_until(replies_reached, &one, SUPPORT_SOON_MS));
    assert_int_equal(seen.replies, 1); // The intruder's were not handed out.
    trp_outbound_close(intruder, 0);
    trp_buffer_free(&buffer);
}

static pid_t keeper_pid(void)
{
    char path[64], text[512] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", trp_process_pid(TRP_PROCESS_NODE));
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    int parent = 0;
    assert_int_equal(sscanf(strrchr(text, ')'), ") %*c %d", &parent), 1);
    return parent;
}

// `victim`: 0 the node process, 1 the keeper.
static void check_loss(int victim)
{
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    pid_t pids[] = {trp_process_pid(TRP_PROCESS_NODE), keeper_pid(), trp_process_pid(process)};
    assert_int_equal(kill(pids[victim], SIGKILL), 0);
    assert_true(support_processes_end(pids, 3, 2000));
    assert_true(support_wait_until(runtime_lost, NULL, 2000));
    int one = 1;
    assert_true(support_wait_until(deaths_reached, &one, 1000)); // Its pending calls would end.
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_RUNTIME_LOST);
    char folder[TRP_FOLDER_MAX];
    strcpy(folder, trp_self.folder);
    assert_int_equal(troupe_stop(), 0);
    assert_false(support_exists(folder));
    assert_int_equal(troupe_start(0, NULL, .workers = 2), TROUPE_OK);
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
}

static void test_loss_of_the_node_process(void **state)
{
    (void)state;
    check_loss(0);
}

static void test_loss_of_the_keeper(void **state)
{
    (void)state;
    check_loss(1);
}

static void test_the_user_has_no_child_of_ours(void **state)
{
    (void)state;
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_fork_in_user_code(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        bool refused = trp_process_check() == TROUPE_UNSUPPORTED &&
                       troupe_start(0, NULL) == TROUPE_UNSUPPORTED && troupe_stop() == 0;
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(trp_process_check(), TROUPE_OK);
}

static void test_starts_are_counted_and_repeatable(void **state)
{
    (void)state;
    assert_int_equal(troupe_start(0, NULL), TROUPE_OK);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(trp_process_check(), TROUPE_OK); // set_up's start still holds.
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(trp_process_check(), TROUPE_NOT_STARTED);
    int descriptors = 0, threads = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(troupe_start(0, NULL), TROUPE_OK);
        uint32_t process;
        uint64_t incarnation;
        assert_int_equal(trp_node_worker(false, &process, &incarnation), TROUPE_OK);
        assert_int_equal(troupe_stop(), 0);
        if (i == 0) {
            descriptors = support_count_descriptors();
            threads = support_count_threads();
        }
    }
    assert_int_equal(support_count_descriptors(), descriptors);
    assert_int_equal(support_count_threads(), threads);
    assert_int_equal(troupe_stop(), 0); // One too many is harmless.
    assert_int_equal(troupe_start(0, NULL, .workers = 2), TROUPE_OK);
}

static void expect_refused(troupe_status status, troupe_status wanted, const char *word)
{
    assert_int_equal(status, wanted);
    assert_non_null(strstr(troupe_last_error()->text, word));
}

static void test_options_out_of_range(void **state)
{
    (void)state;
    assert_int_equal(troupe_stop(), 0);
    char long_path[200];
    memset(long_path, 'x', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    expect_refused(troupe_start(0, NULL, .workers = -3), TROUPE_INVALID, ".workers");
    expect_refused(troupe_start(0, NULL, .cpus = -1), TROUPE_INVALID, ".cpus");
    expect_refused(troupe_start(0, NULL, .threads = 100000), TROUPE_INVALID, ".threads");
    expect_refused(troupe_start(0, NULL, .store_bytes_max = 5), TROUPE_INVALID, ".store_bytes_max");
    expect_refused(troupe_start(0, NULL, .message_bytes_max = 5), TROUPE_INVALID,
                   ".message_bytes_max");
    expect_refused(troupe_start(0, NULL, .launch = (troupe_launch)9), TROUPE_INVALID, ".launch");
    expect_refused(troupe_start(0, NULL, .transport = (troupe_transport)9), TROUPE_INVALID,
                   ".transport");
    assert_int_equal(setenv("TROUPE_TRANSPORT", "carrier", 1), 0);
    expect_refused(troupe_start(0, NULL), TROUPE_INVALID, "carrier");
    assert_int_equal(unsetenv("TROUPE_TRANSPORT"), 0);
    expect_refused(troupe_start(0, NULL, .stop_timeout_ms = -1), TROUPE_INVALID,
                   ".stop_timeout_ms");
    expect_refused(troupe_start(0, NULL, .directory = long_path), TROUPE_INVALID, ".directory");
    expect_refused(troupe_start(0, NULL, .directory = "/no/such/folder"), TROUPE_IO,
                   "/no/such/folder");
    expect_refused(troupe_start(0, NULL, .store_bytes_max = (size_t)1 << 60), TROUPE_INVALID,
                   ".store_bytes_max");
    troupe_options newer = {.size = sizeof newer + 8};
    expect_refused(troupe_start_with(0, NULL, &newer), TROUPE_VERSION, "headers");
    troupe_options older = {.size = offsetof(troupe_options, cpus), .workers = 3, .cpus = -1};
    assert_int_equal(troupe_start_with(0, NULL, &older), TROUPE_OK);
    assert_int_equal(trp_process_options()->workers, 3);
    assert_true(trp_process_options()->cpus > 0); // What it does not reach is a default.
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2), TROUPE_OK);
}

static void test_a_socket_path_that_is_taken(void **state)
{
    (void)state;
    assert_int_equal(troupe_stop(), 0);
    char *base = support_directory_make();
    char *path = support_path(base, "socket");
    support_write_file(path, "precious", 8);
    trp_transport_how how = {.path = path, .message_bytes_max = 1 << 20};
    assert_int_equal(trp_transport_open(&how), TROUPE_EXISTS);
    char *text = support_read_file(path);
    assert_string_equal(text, "precious");
    free(text);
    free(path);
    support_directory_remove(base);
    assert_int_equal(troupe_start(0, NULL, .workers = 2), TROUPE_OK);
}

static void test_executed_workers(void **state)
{
    (void)state;
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_EXEC), TROUPE_OK);
    uint32_t process;
    uint64_t incarnation;
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    trp_frame frame = {.kind = TRP_FRAME_CALL, .method = ECHO};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_OK);
    uint64_t one = 1;
    assert_true(support_wait_until(replies_reached, &one, SUPPORT_SOON_MS));
}

// A program that an executed worker runs before it starts inherits what the worker was told.
static void test_a_program_that_a_worker_executed(void **state)
{
    (void)state;
    assert_int_equal(troupe_stop(), 0);
    char value[100];
    snprintf(value, sizeof value, "%d:5:1234:0:9:/tmp", (int)getppid());
    assert_int_equal(setenv(TRP_WORKER_VARIABLE, value, 1), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2), TROUPE_OK);
    assert_int_equal(unsetenv(TRP_WORKER_VARIABLE), 0);
    assert_true(trp_process_is_driver());
}

enum { READY_MS = 1000 }; // What a program that is executed is given here, not 5 s.

static int give_less_time(void **state)
{
    assert_int_equal(trp_worker_ready_ms, 5000);
    trp_worker_ready_ms = READY_MS;
    return set_up(state);
}

static int give_time(void **state)
{
    trp_worker_ready_ms = 5000;
    return stop_runtime(state);
}

static void test_an_executed_worker_that_never_starts(void **state)
{
    (void)state;
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(setenv("TEST_NEVER_STARTS", "1", 1), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_EXEC), TROUPE_OK);
    assert_int_equal(unsetenv("TEST_NEVER_STARTS"), 0);
    uint32_t process;
    uint64_t incarnation;
    expect_refused(trp_node_worker(true, &process, &incarnation), TROUPE_IO,
                   "did not reach troupe_start within 1 s");
}

enum { SLOW_MS = 2000 }; // More than a program that never starts is given.

static void start_slowly(void)
{
    if (getenv("TEST_STARTS_SLOWLY") != NULL)
        (void)poll(NULL, 0, SLOW_MS);
}

// One that was forked has come to troupe_start, and what .worker_init does takes its time.
static void test_a_forked_worker_that_starts_slowly(void **state)
{
    (void)state;
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(setenv("TEST_STARTS_SLOWLY", "1", 1), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_FORK,
                                  .worker_init = start_slowly),
                     TROUPE_OK);
    assert_int_equal(unsetenv("TEST_STARTS_SLOWLY"), 0);
    uint32_t process;
    uint64_t incarnation;
    int64_t began = support_now_ms();
    if (trp_node_worker(true, &process, &incarnation) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_true(support_now_ms() - began >= SLOW_MS);
}

// For a while on one CPU, behind all that runs there.
static void be_starved(void)
{
    cpu_set_t before, one;
    unsigned cpu = (unsigned)atoi(getenv("TEST_STARVES_ON"));
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_getaffinity(0, sizeof before, &before) != 0 ||
        sched_setaffinity(0, sizeof one, &one) != 0 || nice(19) != 19)
        _exit(1);
    for (int64_t until = support_now_ms() + SLOW_MS; support_now_ms() < until;)
        continue;
    CPU_CLR(cpu, &before);
    (void)sched_setaffinity(0, sizeof before, &before); // Without another one it stays.
}

static pid_t fork_hog(int cpu)
{
    pid_t parent = getpid(), hog = fork();
    if (hog != 0)
        return hog;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sched_setaffinity(0, sizeof one, &one);
    while (getppid() == parent)
        continue;
    _exit(0);
}

// The time in which it has no CPU is not its own.
static void test_an_executed_worker_without_a_cpu(void **state)
{
    (void)state;
    cpu_set_t mine;
    char text[16];
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    while (!CPU_ISSET((unsigned)cpu, &mine))
        cpu++;
    snprintf(text, sizeof text, "%d", cpu);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(setenv("TEST_STARVES_ON", text, 1), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_EXEC), TROUPE_OK);
    assert_int_equal(unsetenv("TEST_STARVES_ON"), 0);
    uint32_t process;
    uint64_t incarnation;
    pid_t hog = fork_hog(cpu);
    assert_true(hog > 0);
    troupe_status status = trp_node_worker(true, &process, &incarnation);
    assert_int_equal(kill(hog, SIGKILL), 0);
    assert_int_equal(waitpid(hog, NULL, 0), hog);
    if (status != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
}

int main(int argc, char **argv)
{
    if (getenv(TRP_WORKER_VARIABLE) != NULL) { // An executed worker.
        while (getenv("TEST_NEVER_STARTS") != NULL)
            pause();
        if (getenv("TEST_STARVES_ON") != NULL)
            be_starved();
        trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
        troupe_must(troupe_start(argc, argv, .workers = 2));
    }
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, stop_runtime)
    const struct CMUnitTest tests[] = {
        ROW(test_pool_and_isolated_workers),
        ROW(test_names),
        ROW(test_frames_arrive_in_order),
        ROW(test_full_window_is_busy),
        ROW(test_death_is_reported_with_its_cause),
        ROW(test_malformed_and_foreign_frames_are_refused),
        ROW(test_loss_of_the_node_process),
        ROW(test_loss_of_the_keeper),
        ROW(test_the_user_has_no_child_of_ours),
        ROW(test_fork_in_user_code),
        ROW(test_starts_are_counted_and_repeatable),
        ROW(test_options_out_of_range),
        ROW(test_a_socket_path_that_is_taken),
        ROW(test_executed_workers),
        ROW(test_a_program_that_a_worker_executed),
        cmocka_unit_test_setup_teardown(test_an_executed_worker_that_never_starts, give_less_time,
                                        give_time),
        cmocka_unit_test_setup_teardown(test_a_forked_worker_that_starts_slowly, give_less_time,
                                        give_time),
        cmocka_unit_test_setup_teardown(test_an_executed_worker_without_a_cpu, give_less_time,
                                        give_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
