// test_spares.c: worker processes that are forked ahead: when there are any and how many, that a
// spawn takes one, that it is then like any other worker, and what happens if one dies or none can
// be forked. Bursts of more than a hundred processes: nothing runs beside it.
// label: alone
#include <support.h>

#include <dirent.h>
#include <fcntl.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/node/node_client.h>
#include <runtime/node/prefork.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    _Atomic int deaths;
    _Atomic uint64_t replies;
    _Atomic uint64_t answer, threads;
} seen;

static uint32_t threads_at_init; // Of a worker: how many it had in .worker_init.

static uint32_t count_entries(const char *path)
{
    uint32_t count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return count;
}

static void count_threads(void)
{
    threads_at_init = count_entries("/proc/self/task");
}

// A worker answers with whether its variable and its folder are what the test asked for.
static void on_frame(const trp_frame *frame)
{
    if (frame->kind == TRP_FRAME_REPLY) {
        seen.threads = frame->method;
        seen.answer = frame->target;
        seen.replies++;
        return;
    }
    char folder[64] = "";
    const char *value = getenv("SPARE_TEST");
    bool right = value != NULL && strcmp(value, "its own") == 0 &&
                 getcwd(folder, sizeof folder) != NULL && strcmp(folder, "/proc") == 0;
    trp_frame reply = {
        .kind = TRP_FRAME_REPLY, .call = frame->call, .target = right, .method = threads_at_init};
    (void)trp_process_send(frame->from, frame->from_incarnation, &reply, 0);
    trp_process_credit(frame->from, frame->from_incarnation, frame->body_size);
}

static void on_death(uint32_t process, uint64_t incarnation, const char *cause)
{
    (void)process, (void)incarnation, (void)cause;
    seen.deaths++;
}

static int set_up(void **state)
{
    (void)state;
    memset((void *)&seen, 0, sizeof seen);
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    return troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_FORK) == TROUPE_OK ? 0 : -1;
}

static int set_up_with_init(void **state)
{
    (void)state;
    memset((void *)&seen, 0, sizeof seen);
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    return troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_FORK,
                        .worker_init = count_threads) == TROUPE_OK
               ? 0
               : -1;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; // Page tables are large then, and the stock smaller.
#else
enum { SANITIZED = 0 };
#endif

enum { BURST = 20, SHORT_QUIET_MS = 700, LONG_QUIET_MS = 600000 };

static int set_up_quiet(int quiet_ms)
{
    trp_spare_quiet_set(quiet_ms);
    int status = set_up(NULL);
    trp_spare_quiet_set(0);
    return status;
}

static int set_up_short(void **state)
{
    (void)state;
    return set_up_quiet(SHORT_QUIET_MS);
}

static int set_up_long(void **state)
{
    (void)state;
    return set_up_quiet(LONG_QUIET_MS);
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

static int parent_of(int pid, char *name)
{
    char path[64], text[512] = {0};
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    const char *begin = strchr(text, '('), *end = strrchr(text, ')');
    if (size <= 0 || begin == NULL || end == NULL || end - begin > 32)
        return 0;
    memcpy(name, begin + 1, (size_t)(end - begin - 1));
    name[end - begin - 1] = '\0';
    char kind;
    return sscanf(end, ") %c %d", &kind, &parent) == 2 && kind != 'Z' ? parent : 0;
}

static int keeper_pid(void)
{
    char name[33];
    return parent_of(trp_process_pid(TRP_PROCESS_NODE), name);
}

// Those of this test's node that wait.
static int list_spares(int pids[TRP_SPARES_MAX])
{
    int count = 0, keeper = keeper_pid();
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        char name[33] = "";
        int pid = atoi(entry->d_name);
        if (pid > 0 && parent_of(pid, name) == keeper && strcmp(name, "troupe-spare") == 0) {
            if (count < TRP_SPARES_MAX)
                pids[count] = pid;
            count++;
        }
    }
    closedir(processes);
    return count;
}

static bool there_are(void *context)
{
    int pids[TRP_SPARES_MAX];
    return list_spares(pids) == *(int *)context;
}

static void await_spares(int wanted, int pids[TRP_SPARES_MAX])
{
    assert_true(support_wait_until(there_are, &wanted, SUPPORT_SOON_MS));
    assert_int_equal(list_spares(pids), wanted);
}

static bool there_are_at_least(void *context)
{
    int pids[TRP_SPARES_MAX];
    return list_spares(pids) >= *(int *)context;
}

// More may be made than were asked for at once.
static int await_stock(int least, int pids[TRP_SPARES_MAX])
{
    assert_true(support_wait_until(there_are_at_least, &least, SUPPORT_SOON_MS));
    int count = list_spares(pids);
    assert_in_range(count, least, TRP_SPARES_MAX);
    return count;
}

static void start_one(bool isolated, uint32_t *process, uint64_t *incarnation)
{
    assert_int_equal(trp_node_worker(isolated, process, incarnation), TROUPE_OK);
}

static bool is_one_of(int pid, const int *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool replied(void *context)
{
    (void)context;
    return seen.replies > 0;
}

static bool all_replied(void *context)
{
    return seen.replies == (uint64_t) * (int *)context;
}

static bool there_are_more(void *context)
{
    int pids[TRP_SPARES_MAX];
    (void)context;
    return list_spares(pids) > TRP_SPARES_MIN;
}

static uint32_t count_keepers_descriptors(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", keeper_pid());
    return count_entries(path);
}

static bool is_reaped(void *pid)
{
    return kill(*(int *)pid, 0) != 0;
}

// Kills those that wait, until the keeper knows: one that has threads is a zombie before all of it
// has ended, and could still be given an order.
static void kill_spares(const int *pids, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(kill(pids[i], SIGKILL), 0);
    for (int i = 0; i < count; i++)
        assert_true(support_wait_until(is_reaped, (void *)&pids[i], SUPPORT_SOON_MS));
}

// Has the least spares made, by a first process.
static void make_spares(int pids[TRP_SPARES_MAX])
{
    uint32_t process;
    uint64_t incarnation;
    start_one(true, &process, &incarnation);
    await_spares(TRP_SPARES_MIN, pids);
}

static void test_none_before_they_are_wanted(void **state)
{
    (void)state;
    uint32_t process;
    uint64_t incarnation;
    int pids[TRP_SPARES_MAX];
    start_one(false, &process, &incarnation); // Of the pool.
    assert_int_equal(list_spares(pids), 0);
    start_one(true, &process, &incarnation);
    await_spares(TRP_SPARES_MIN, pids);
}

static void test_a_spawn_takes_one(void **state)
{
    (void)state;
    uint32_t process;
    uint64_t incarnation;
    int pids[TRP_SPARES_MAX];
    make_spares(pids);
    trp_worker_ask asked;
    assert_int_equal(trp_node_worker_begin("SPARE_TEST=its own\n", "/proc", &asked), TROUPE_OK);
    assert_int_equal(trp_node_worker_end(&asked, &process, &incarnation), TROUPE_OK);
    assert_true(is_one_of(trp_process_pid(process), pids, TRP_SPARES_MIN));
    trp_frame frame = {.kind = TRP_FRAME_CALL, .call = 1};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_OK);
    assert_true(support_wait_until(replied, NULL, SUPPORT_SOON_MS));
    assert_int_equal(seen.answer, 1);
    assert_null(getenv("SPARE_TEST"));
}

static void test_one_that_dies_is_replaced(void **state)
{
    (void)state;
    uint32_t process;
    uint64_t incarnation;
    int before[TRP_SPARES_MAX], after[TRP_SPARES_MAX];
    make_spares(before);
    kill_spares(before, TRP_SPARES_MIN);
    await_spares(TRP_SPARES_MIN, after);
    start_one(true, &process, &incarnation);
    assert_true(is_one_of(trp_process_pid(process), after, TRP_SPARES_MIN));
    assert_int_equal(seen.deaths, 0); // They were nobody yet.
}

static void test_they_end_with_the_keeper(void **state)
{
    (void)state;
    int pids[TRP_SPARES_MAX];
    make_spares(pids);
    assert_int_equal(kill(keeper_pid(), SIGKILL), 0);
    assert_true(support_processes_end(pids, TRP_SPARES_MIN, 2000));
}

static bool all_have_threads(void *context)
{
    const int *pids = context;
    char path[64];
    for (int i = 0; i < TRP_SPARES_MIN; i++) {
        snprintf(path, sizeof path, "/proc/%d/task", pids[i]);
        if (count_entries(path) < 2)
            return false;
    }
    return true;
}

static void test_they_have_made_their_thread(void **state)
{
    (void)state;
    int pids[TRP_SPARES_MAX];
    make_spares(pids);
    assert_true(support_wait_until(all_have_threads, pids, SUPPORT_SOON_MS));
}

static uint64_t threads_of_a_new_one(void)
{
    uint32_t process;
    uint64_t incarnation;
    seen.replies = 0;
    start_one(true, &process, &incarnation);
    trp_frame frame = {.kind = TRP_FRAME_CALL, .call = 1};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_OK);
    assert_true(support_wait_until(replied, NULL, SUPPORT_SOON_MS));
    return seen.threads;
}

// It may do what a process with several threads cannot: it sees what a fresh fork would.
static void test_worker_init_is_alone(void **state)
{
    (void)state;
    int pids[TRP_SPARES_MAX];
    uint64_t fresh = threads_of_a_new_one();
    assert_true(fresh >= 1);
    await_spares(TRP_SPARES_MIN, pids);
    assert_int_equal(threads_of_a_new_one(), fresh);
}

typedef struct burst {
    uint32_t processes[TRP_SPARES_MAX + 20];
    uint64_t incarnations[TRP_SPARES_MAX + 20];
    int count;
} burst;

// All at once, as troupe_spawn_many does.
static void start_burst(int count, burst *made)
{
    trp_worker_ask asked[TRP_SPARES_MAX + 20];
    made->count = count;
    for (int i = 0; i < count; i++)
        assert_int_equal(trp_node_worker_begin(NULL, NULL, &asked[i]), TROUPE_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(
            trp_node_worker_end(&asked[i], &made->processes[i], &made->incarnations[i]), TROUPE_OK);
}

static void end_burst(const burst *made)
{
    int pids[TRP_SPARES_MAX + 20];
    for (int i = 0; i < made->count; i++) {
        pids[i] = trp_process_pid(made->processes[i]);
        assert_int_equal(trp_node_kill(made->processes[i], made->incarnations[i], "was enough"),
                         TROUPE_OK);
    }
    assert_true(support_processes_end(pids, (size_t)made->count, SUPPORT_SOON_MS));
}

static void assert_all_answer(const burst *made)
{
    seen.replies = 0;
    for (int i = 0; i < made->count; i++) {
        trp_frame frame = {.kind = TRP_FRAME_CALL, .call = 1};
        assert_int_equal(trp_process_send(made->processes[i], made->incarnations[i], &frame, 0),
                         TROUPE_OK);
    }
    int wanted = made->count;
    assert_true(support_wait_until(all_replied, &wanted, SUPPORT_SOON_MS));
}

// The keeper keeps as many as were asked for at once, and the next burst is served from them.
static void test_the_stock_follows_a_burst(void **state)
{
    (void)state;
    burst first, again;
    int pids[TRP_SPARES_MAX];
    start_burst(BURST, &first);
    int count = await_stock(BURST, pids);
    start_burst(BURST, &again);
    for (int i = 0; i < BURST; i++)
        assert_true(is_one_of(trp_process_pid(again.processes[i]), pids, count));
    assert_all_answer(&again);
    (void)await_stock(BURST, pids);
}

static void test_the_stock_is_bounded(void **state)
{
    (void)state;
    burst many;
    int pids[TRP_SPARES_MAX];
    struct rlimit enough;
    assert_int_equal(prlimit(keeper_pid(), RLIMIT_NOFILE, NULL, &enough), 0);
    enough.rlim_cur = 4 * 3 * TRP_SPARES_MAX; // Of which a quarter is for spares, three each.
    assert_int_equal(prlimit(keeper_pid(), RLIMIT_NOFILE, &enough, NULL), 0);
    uint32_t before = count_keepers_descriptors();
    start_burst(TRP_SPARES_MAX + 20, &many);
    end_burst(&many);
    (void)await_stock(SANITIZED ? BURST : TRP_SPARES_MAX, pids);
    start_burst(1, &many);
    (void)await_stock(SANITIZED ? BURST : TRP_SPARES_MAX, pids);
    assert_in_range(count_keepers_descriptors(), before, before + 3 * TRP_SPARES_MAX);
}

static void test_the_stock_is_bounded_by_descriptors(void **state)
{
    (void)state;
    burst many;
    int pids[TRP_SPARES_MAX];
    struct rlimit few = {120, 120};
    assert_int_equal(prlimit(keeper_pid(), RLIMIT_NOFILE, &few, NULL), 0);
    start_burst(BURST, &many);
    await_spares(10, pids); // A quarter of the descriptors, three each.
    assert_all_answer(&many);
}

static void test_the_stock_shrinks_when_it_is_quiet(void **state)
{
    (void)state;
    burst first;
    int pids[TRP_SPARES_MAX];
    start_burst(BURST, &first);
    assert_true(support_wait_until(there_are_more, NULL, SUPPORT_SOON_MS));
    await_spares(TRP_SPARES_MIN, pids);
}

// A smaller request does not make it forget the larger one.
static void test_one_more_leaves_the_stock(void **state)
{
    (void)state;
    burst first;
    uint32_t process;
    uint64_t incarnation;
    int pids[TRP_SPARES_MAX];
    start_burst(BURST, &first);
    (void)await_stock(BURST, pids);
    for (int i = 0; i < 3; i++) {
        start_one(true, &process, &incarnation);
        (void)await_stock(BURST, pids);
    }
}

static void test_the_stock_ends_with_the_keeper(void **state)
{
    (void)state;
    burst first;
    int pids[TRP_SPARES_MAX];
    start_burst(BURST, &first);
    int count = await_stock(BURST, pids);
    assert_int_equal(kill(keeper_pid(), SIGKILL), 0);
    assert_true(support_processes_end(pids, (size_t)count, SUPPORT_SOON_MS));
}

static bool burst_is_mourned(void *unused)
{
    (void)unused;
    return seen.deaths == BURST;
}

// Of those killed while they wait nobody hears, and the next burst takes the others.
static void test_deaths_in_the_stock(void **state)
{
    (void)state;
    burst first, again;
    int pids[TRP_SPARES_MAX] = {0}, killed[BURST / 2];
    start_burst(BURST, &first);
    end_burst(&first);
    (void)await_stock(BURST, pids);
    assert_true(support_wait_until(burst_is_mourned, NULL, SUPPORT_SOON_MS));
    seen.deaths = 0;
    for (int i = 0; i < BURST / 2; i++)
        killed[i] = pids[2 * i];
    kill_spares(killed, BURST / 2);
    start_burst(BURST, &again);
    assert_all_answer(&again);
    assert_int_equal(seen.deaths, 0);
    (void)await_stock(BURST, pids);
}

// As a user whose processes are counted: root's are not.
static int refused_by_the_limit(void)
{
    struct rlimit one = {1, 1};
    uint32_t process;
    uint64_t incarnation;
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 1;
    if (troupe_start(0, NULL, .workers = 2, .launch = TROUPE_LAUNCH_FORK) != TROUPE_OK ||
        prlimit(keeper_pid(), RLIMIT_NPROC, &one, NULL) != 0)
        return 2;
    if (trp_node_worker(true, &process, &incarnation) != TROUPE_IO ||
        strstr(troupe_last_error()->text, "could not be made") == NULL)
        return 3;
    return troupe_stop();
}

static void test_no_process_can_be_made(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(refused_by_the_limit());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_process_can_be_made), // Before anything runs in this process.
        ROW(test_none_before_they_are_wanted),
        ROW(test_a_spawn_takes_one),
        ROW(test_one_that_dies_is_replaced),
        ROW(test_they_end_with_the_keeper),
        ROW(test_they_have_made_their_thread),
#define STOCK(name) cmocka_unit_test_setup_teardown(name, set_up_long, tear_down)
        STOCK(test_the_stock_follows_a_burst),
        STOCK(test_the_stock_is_bounded),
        STOCK(test_the_stock_is_bounded_by_descriptors),
        STOCK(test_one_more_leaves_the_stock),
        STOCK(test_the_stock_ends_with_the_keeper),
        STOCK(test_deaths_in_the_stock),
        cmocka_unit_test_setup_teardown(test_the_stock_shrinks_when_it_is_quiet, set_up_short,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_worker_init_is_alone, set_up_with_init, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
