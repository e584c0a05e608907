// test_waits_and_losses.c: every kind of wait against every kind of loss. A cell of the table is a
// program of its own, which waits in one way and loses something meanwhile; it says how the wait
// must end, which it does soon: no wait outlasts what it waits for. With the variables
// TROUPE_TEST_ROW="set", TROUPE_TEST_LOSS="node killed" these cells alone, with TROUPE_TEST_ALL=1
// each says what came of it.
// timeout: 120
// cost: 12
#include "waits_and_losses.h"

#include <poll.h>
#include <pthread.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

static const char *const loss_names[] = {"worker killed", "worker stopped", "node killed",
                                         "node stopped",  "keeper killed",  "keeper stopped",
                                         "troupe_stop"};

cell *mine;
char *storage;
static char keys[256]; // A file.

static void nap(int ms)
{
    (void)poll(NULL, 0, ms);
}

typedef struct row {
    const char *name;
    troupe_status (*wait)(void);
    int expected[LOSSES];
    bool after;  // The wait begins after the loss.
    int soon_ms; // Until it must have ended; 0: SOON_MS.
} row;

// Short, for the table.
enum {
    OK = TROUPE_OK,
    MAYBE = TROUPE_MAYBE_EXECUTED,
    NOTEX = TROUPE_NOT_EXECUTED,
    LATER = TROUPE_TIMED_OUT,
    LATE = TROUPE_DEADLINE_EXCEEDED,
    LOST = TROUPE_RUNTIME_LOST,
    STOPD = TROUPE_NOT_STARTED,
    CANC = TROUPE_CANCELLED,
    INVAL = TROUPE_INVALID, // A reference that has gone with the runtime.
    FAIL = TROUPE_FAILED,
};

// Where it depends on who is faster.
#define EITHER(one, other) ((one) | ((other) + 1) << 8)

// clang-format off
static const row rows[] = {
    // Each with what ends it where these are lost:
    //                                        worker         node process   keeper         by
    //                                        killed stopped killed stopped killed stopped troupe_stop
    {"get of a call",      wait_get,         {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"call, deadline",     wait_deadline,    {MAYBE, LATE, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"call, retries",      wait_retries,     {MAYBE, LATE, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"call, restarts",     wait_restarts,    {GOES_ON, LATE, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"get of all",         wait_get_all,     {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, EITHER(MAYBE, INVAL)}, false, 0},
    {"wait",               wait_wait,        {OK, LATER, OK, GOES_ON, OK, GOES_ON, OK}, false, 0},
    {"set",                wait_set,         {OK, LATER, OK, GOES_ON, OK, GOES_ON, OK}, false, 0},
    {"join",               wait_join,        {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, EITHER(MAYBE, INVAL)}, false, 0},
    {"stream",             wait_stream,      {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, EITHER(MAYBE, INVAL)}, false, 0},
    {"object",             wait_object,      {MAYBE, LATER, LOST, GOES_ON, LOST, GOES_ON, STOPD}, false, 0},
    {"wait for an object", wait_objects,     {OK, LATER, OK, GOES_ON, OK, GOES_ON, EITHER(OK, LATER)}, false, 0},
    {"deferred, here",     wait_deferred,    {GOES_ON, GOES_ON, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"call in a method",   wait_inside,      {FAIL, LATER, EITHER(MAYBE, FAIL), GOES_ON, EITHER(MAYBE, FAIL), GOES_ON, EITHER(MAYBE, NOTEX)}, false, 0},
    {"task",               wait_task,        {GOES_ON, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"task, no retries",   wait_task_once,   {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"task, isolated",     wait_task_alone,  {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"task, resources",    wait_task_needs,  {GOES_ON, GOES_ON, LOST, LATER, LOST, LATER, MAYBE}, false, 0},
    {"map",                wait_map,         {GOES_ON, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"pool",               wait_pool,        {MAYBE, LATER, MAYBE, GOES_ON, MAYBE, GOES_ON, EITHER(MAYBE, INVAL)}, false, 0},
    {"full mailbox",       wait_mailbox,     {NOTEX, LATE, EITHER(NOTEX, LOST), LATE, EITHER(NOTEX, LOST), LATE, EITHER(NOTEX, STOPD)}, false, 0},
    {"spawn, alone",       wait_spawn_alone, {GOES_ON, GOES_ON, LOST, LATE, LOST, LATE, STOPD}, true, 0},
    {"spawn of many",      wait_spawn_many,  {GOES_ON, GOES_ON, LOST, LATE, LOST, LATE, STOPD}, true, 0},
    {"spawn, resources",   wait_spawn_needs, {GOES_ON, GOES_ON, LOST, LATE, LOST, GOES_ON, NONE}, false, 0},
    {"spawn, init",        wait_spawn_init,  {MAYBE, LATE, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"spawn, deadline",    wait_spawn_deadline, {MAYBE, LATE, MAYBE, GOES_ON, MAYBE, GOES_ON, MAYBE}, false, 0},
    {"name",               wait_name,        {GOES_ON, GOES_ON, LOST, LATE, LOST, GOES_ON, STOPD}, true, 0},
    {"a new name",         wait_take_name,   {GOES_ON, GOES_ON, LOST, LATE, LOST, GOES_ON, STOPD}, true, 0},
    {"resources",          wait_resources,   {GOES_ON, GOES_ON, LOST, LATE, LOST, GOES_ON, STOPD}, true, 0},
    {"channel, reading",   wait_channel_read, {LATER, LATER, LOST, LATER, LOST, LATER, STOPD}, false, 0},
    {"channel, writing",   wait_channel_write, {LATER, LATER, LOST, LATER, LOST, LATER, STOPD}, false, 0},
    {"queue here",         wait_queue_here,  {LATER, LATER, MAYBE, LATER, MAYBE, LATER, MAYBE}, false, 0},
    {"queue elsewhere",    wait_queue_there, {MAYBE, LATER, MAYBE, LATER, MAYBE, LATER, MAYBE}, false, 0},
    {"queue, putting",     wait_queue_put,   {MAYBE, LATE, MAYBE, LATER, MAYBE, LATER, MAYBE}, false, 0},
    {"end of an actor",    wait_end,         {OK, LATER, OK, LATER, OK, LATER, OK}, false, 0},
    {"end, here",          wait_end_here,    {LATER, LATER, OK, LATER, OK, LATER, OK}, false, 0},
    {"monitor",            wait_monitor,     {OK, LATER, OK, LATER, OK, LATER, NONE}, false, 0},
    {"stop of an actor",   wait_stop_actor,  {EITHER(OK, LATE), LATE, EITHER(OK, LATE), LATE, EITHER(OK, LATE), LATE, OK}, false, 1500},
    {"kill",               wait_kill,        {OK, OK, LOST, OK, LOST, OK, STOPD}, true, 0},
    {"train",              wait_train,       {GOES_ON, GOES_ON, LOST, GOES_ON, LOST, GOES_ON, CANC}, false, 0},
    {"queued job",         wait_queued_job,  {GOES_ON, GOES_ON, LOST, LATER, LOST, LATER, CANC}, false, 0},
    {"tune",               wait_tune,        {GOES_ON, NONE, LOST, GOES_ON, LOST, GOES_ON, FAIL}, false, 0},
    // Its trials are asked to stop for 2 s when their time has passed, before they are killed.
    {"tune, trial's time", wait_tune,        {NONE, FAIL, NONE, NONE, NONE, NONE, NONE}, false, 3500},
    {"restart",            wait_restart,     {OK, LATE, LOST, OK, LOST, OK, STOPD}, true, 0},
    {"retain",             wait_retain,      {EITHER(NOTEX, MAYBE), LATE, LOST, OK, LOST, OK, STOPD}, true, 0},
    {"room in the store",  wait_room,        {GOES_ON, GOES_ON, LOST, GOES_ON, LOST, GOES_ON, STOPD}, false, 0},
    {"join of a node",     wait_join_node,   {LATE, LATE, LOST, LATE, LOST, LATE, STOPD}, false, 0},
    {"stop",               wait_stop,        {OK, OK, OK, OK, OK, OK, NONE}, false, 400},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof rows[0] };

// ---- the losses

// By the parent of the node process, which its /proc/PID/stat says.
static pid_t keeper_pid(void)
{
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", trp_process_pid(TRP_PROCESS_NODE));
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL ||
        sscanf(strrchr(line, ')') + 1, " %*c %d", &parent) != 1)
        abort();
    fclose(file);
    return parent;
}

// `one`: one of them alone.
static int signal_workers(int number, bool one)
{
    int count = 0;
    if (!trp_process_try_enter()) // The wait was a stop, and is over.
        return 0;
    for (uint32_t slot = TRP_PROCESS_DRIVER + 1; slot < TRP_PROCESSES_MAX && !(one && count > 0);
         slot++)
        if (trp_segment_process(slot)->state == TRP_PROCESS_READY)
            count += kill(trp_process_pid(slot), number) == 0;
    trp_process_leave();
    return count;
}

static pid_t node, keeper;
static pid_t stopped; // To go on in the end.

static void lose(loss what)
{
    switch (what) {
    case WORKER_K:
    case WORKER_S:
        (void)signal_workers(what == WORKER_K ? SIGKILL : SIGSTOP, mine->one);
        break;
    case NODE_K:
    case NODE_S:
        stopped = what == NODE_S ? node : 0;
        (void)kill(node, what == NODE_K ? SIGKILL : SIGSTOP);
        break;
    case KEEPER_K:
    case KEEPER_S:
        stopped = what == KEEPER_S ? keeper : 0;
        (void)kill(keeper, what == KEEPER_K ? SIGKILL : SIGSTOP);
        break;
    default:
        break;
    }
}

static bool is_lost(void *unused)
{
    (void)unused;
    return trp_self.runtime_lost;
}

static bool is_stopped(void *unused)
{
    (void)unused;
    return trp_process_is_stopped(stopped);
}

// A signal takes effect some time after kill(2) has returned.
static bool workers_are_lost(void *unused)
{
    (void)unused;
    for (uint32_t slot = TRP_PROCESS_DRIVER + 1; slot < TRP_PROCESSES_MAX; slot++) {
        pid_t pid = trp_process_pid(slot);
        if (trp_segment_process(slot)->state != TRP_PROCESS_READY)
            continue;
        if (mine->what == WORKER_S ? !trp_process_is_stopped(pid) : support_process_lives(pid))
            return false;
    }
    return true;
}

static bool main_sleeps(void *unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    char *stat = support_read_file(path);
    const char *state = stat != NULL ? strrchr(stat, ')') : NULL;
    bool sleeps = state != NULL && state[1] == ' ' && state[2] == 'S';
    free(stat);
    return sleeps;
}

// Most likely the wait has begun: its thread has had time for it, and sleeps.
static void await_begun(void)
{
    nap(BEGUN_MS);
    for (int looks = 0; looks < 2; looks++) {
        (void)support_wait_until(main_sleeps, NULL, SOON_MS);
        nap(1);
    }
}

// Beside the wait: the loss, and what ends a wait that it does not concern.
static void *lose_something(void *unused)
{
    (void)unused;
    while (atomic_load(&mine->waits) == 0)
        nap(1);
    if (!mine->after) {
        await_begun();
        atomic_store(&mine->lost_ms, support_now_ms());
    }
    if (trp_process_running()) // Else the wait was a stop, and is over.
        lose(mine->what);
    if (mine->after && (mine->what == WORKER_K || mine->what == WORKER_S))
        (void)support_wait_until(workers_are_lost, NULL, SOON_MS);
    if (mine->after && stopped > 0)
        (void)support_wait_until(is_stopped, NULL, SOON_MS);
    if (mine->after && (mine->what == NODE_K || mine->what == KEEPER_K))
        (void)support_wait_until(is_lost, NULL, SOON_MS);
    if (mine->after && mine->what == STOP)
        (void)troupe_stop();
    if (mine->after)
        atomic_store(&mine->lost_ms, support_now_ms());
    if (!mine->after && mine->what == STOP)
        (void)troupe_stop();
    if (mine->expected == GOES_ON) {
        nap(BEGUN_MS);
        atomic_store(&mine->go, 1);
    }
    return NULL;
}

static _Noreturn void run_cell(const row *it)
{
    pthread_t thread;
    bool stops = mine->what == WORKER_S || mine->what == NODE_S || mine->what == KEEPER_S;
    (void)alarm(CELL_S * SUPPORT_SLOWER);
    troupe_must(troupe_start(0, NULL, .workers = 1, .cpus = 2, .stop_timeout_ms = 200,
                             .store_bytes_max = ROOM_BYTES, .spill_bytes_max = TROUPE_NONE,
                             .store_wait_ms = CELL_S * 1000, .node_timeout_ms = mine->limit_ms,
                             .listen = it->wait == wait_join_node ? "127.0.0.1:0" : NULL,
                             .keys = keys,
                             .request_timeout_ms = stops || mine->limit_ms != 0 ? LIMIT_MS : 0));
    node = trp_process_pid(TRP_PROCESS_NODE);
    keeper = keeper_pid();
    if (pthread_create(&thread, NULL, lose_something, NULL) != 0)
        abort();
    troupe_status status = it->wait();
    int64_t lost_ms = atomic_load(&mine->lost_ms);
    mine->took_ms = lost_ms != 0 ? support_now_ms() - lost_ms : 0;
    // What has a limit may be over before the loss, and so may a stop.
    mine->early = lost_ms == 0 && !it->after && mine->limit_ms == 0 && it->wait != wait_stop;
    mine->spared = lost_ms == 0 && !it->after && mine->limit_ms != 0;
    mine->status = (int)status;
    snprintf(mine->text, sizeof mine->text, "%.199s",
             mine->status != OK ? troupe_last_error()->text : "");
    mine->ended = true;
    atomic_store(&mine->go, 1);
    pthread_join(thread, NULL);
    if (stopped > 0)
        (void)kill(stopped, SIGCONT);
    if (trp_process_running())
        (void)signal_workers(SIGCONT, false);
    (void)troupe_stop();
    _exit(0);
}

// ---- the table

typedef struct child {
    pid_t pid;
    const row *row;
    cell *cell;
} child;

// What has come of a cell; false: not what was expected.
static bool judge(const child *done, int status, bool all)
{
    const cell *it = done->cell;
    int soon_ms = done->row->soon_ms > 0 ? done->row->soon_ms * SUPPORT_SLOWER : SOON_MS;
    if (it->expected == GOES_ON) // By no loss: what is waited for takes the time that it takes.
        soon_ms = GOES_ON_MS;
    int expected = it->expected == GOES_ON ? OK : it->expected & 0xff;
    bool right = it->status == expected || it->status == (it->expected >> 8) - 1;
    right = right || (it->spared && (it->status == LATER || it->status == LATE));
    bool ended = it->ended && right && !it->early && it->took_ms <= soon_ms;
    bool well = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!well || all)
        print_message("%s %-20s %-15s %s after %d ms%s, expected %s; exit status %x: %.200s\n",
                      well ? "    " : "NOT:", done->row->name, loss_names[it->what],
                      it->ended ? troupe_status_name((troupe_status)it->status) : "no end",
                      (int)it->took_ms, it->early ? ", before the loss" : "",
                      troupe_status_name((troupe_status)expected), status, it->text);
    return well;
}

static bool take_child(child *running, int *count, bool all)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; i < *count; i++)
        if (running[i].pid == pid) {
            bool well = judge(&running[i], status, all);
            running[i] = running[--*count];
            return well;
        }
    return true;
}

static bool is_wanted(const row *it, loss what)
{
    const char *wanted = getenv("TROUPE_TEST_ROW"), *column = getenv("TROUPE_TEST_LOSS");
    return it->expected[what] != NONE && (wanted == NULL || strcmp(wanted, it->name) == 0) &&
           (column == NULL || strcmp(column, loss_names[what]) == 0);
}

static void test_every_wait_ends_whatever_is_lost(void **state)
{
    (void)state;
    bool all = getenv("TROUPE_TEST_ALL") != NULL;
    child running[AT_ONCE];
    int count = 0, wrong = 0;
    cell *cells = support_share(sizeof(cell) * ROWS * LOSSES), *next = cells;
    for (int i = 0; i < ROWS * LOSSES; i++) {
        const row *it = &rows[i / LOSSES];
        loss what = (loss)(i % LOSSES);
        if (!is_wanted(it, what))
            continue;
        bool limited = what == WORKER_S || what == NODE_S || what == KEEPER_S ||
                       it->expected[what] == LATER || it->expected[what] == LATE;
        mine = next++;
        *mine = (cell){.what = what, .expected = it->expected[what], .after = it->after};
        mine->one = it->wait == wait_train; // The other ranks find out.
        mine->limit_ms = limited && mine->expected != GOES_ON ? LIMIT_MS : 0;
        while (count == AT_ONCE)
            wrong += !take_child(running, &count, all);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            run_cell(it);
        running[count++] = (child){pid, it, mine};
    }
    while (count > 0)
        wrong += !take_child(running, &count, all);
    assert_int_equal(wrong, 0);
}

static int make_storage(void **state)
{
    (void)state;
    storage = support_directory_make();
    snprintf(keys, sizeof keys, "%s/keys", storage);
    return (int)troupe_keys_make(keys);
}

static int remove_storage(void **state)
{
    (void)state;
    support_directory_remove(storage);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_wait_ends_whatever_is_lost, make_storage,
                                        remove_storage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
