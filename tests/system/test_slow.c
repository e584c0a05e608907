// test_slow.c: a wait for something of the library that lasts is told in one line, as is its end.
// All of them go on at once.
// cost: 8
#include <support.h>

#include <pthread.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { SENDERS = 5, LARGE = 10 << 20, STORE = 16 << 20, LONG_MS = 60000 };
// One that was told before, where starting all of this took so long, keeps others quiet for 30 s.
enum { TOLD_MS = 40000 };

static struct {
    _Atomic int held, began, asleep; // Methods and inits wait while held.
    _Atomic bool slow_start;         // So do new processes.
    _Atomic int started;
} * shared;

static void wait_while_held(void)
{
    while (shared->held)
        usleep(5000);
}

typedef struct plug {
    int unused;
} plug;

static troupe_status plug_init(plug *self, const bool *slow)
{
    (void)self;
    if (*slow) {
        shared->began++;
        wait_while_held();
    }
    return TROUPE_OK;
}

static troupe_status plug_hold(plug *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    shared->asleep++;
    wait_while_held();
    return TROUPE_OK;
}

static troupe_status plug_rest(plug *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    return TROUPE_OK;
}

static troupe_status plug_leave(plug *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    _exit(3);
}

static void plug_deinit(plug *self)
{
    (void)self;
}

TROUPE_ACTOR_INIT(plug, (plug_init, bool), plug_deinit, (plug_hold, troupe_none, troupe_none),
                  (plug_rest, troupe_none, troupe_none), (plug_leave, troupe_none, troupe_none));

// ---- what was told

static char *folder, *path;
static int screen; // The standard error before.

static int count_lines(const char *what)
{
    int count = 0;
    char *text = support_read_file(path);
    for (const char *at = text; at != NULL && (at = strstr(at, what)) != NULL; at++)
        count++;
    free(text);
    return count;
}

// A part of the line of each kind of wait.
static const char *const kinds[] = {
    "room in the mailbox of actor plug 'here'",
    "room in the mailbox of actor #",
    "room in the object store",
    "the answer of the node process",
    "to be ready",
    "the init of an actor of class 'plug'",
    "which is being restarted",
    "plug 'again' has waited",
    "what is to run has waited",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool is_told(void *kind)
{
    return count_lines(kind) > 0;
}

static bool all_are_told(void *unused)
{
    (void)unused;
    for (int i = 0; i < KINDS; i++)
        if (count_lines(kinds[i]) == 0)
            return false;
    return true;
}

static bool all_are_over(void *unused)
{
    (void)unused;
    return count_lines(" no longer waits: it took ") == count_lines(" has waited ");
}

static void check(bool fine, const char *what)
{
    if (fine)
        return;
    char *text = support_read_file(path);
    (void)dup2(screen, STDERR_FILENO);
    support_fail_output(text, "%s", what);
}

// ---- the waits

static plug_actor here, there, slow, again, idle;
static troupe_ref object;

static void *send_here(void *unused)
{
    (void)unused;
    troupe_must(troupe_tell(here, plug_rest));
    return NULL;
}

static void *send_there(void *unused)
{
    (void)unused;
    troupe_must(troupe_tell(there, plug_rest));
    return NULL;
}

static troupe_ref put_large(void)
{
    char *data = calloc(1, LARGE);
    troupe_ref ref = troupe_put_bytes(data, LARGE);
    free(data);
    return ref;
}

static void *put_more(void *unused)
{
    (void)unused;
    troupe_ref more = put_large();
    troupe_view view;
    troupe_must(troupe_view_bytes(more, &view, 0));
    troupe_view_end(&view);
    troupe_ref_drop(more);
    return NULL;
}

static void *spawn_slow(void *unused)
{
    (void)unused;
    bool yes = true;
    slow = troupe_spawn_from(plug, &yes, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_actor_status(slow.address));
    return NULL;
}

static void *spawn_late(void *unused)
{
    (void)unused;
    plug_actor late = troupe_spawn(plug, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_actor_status(late.address));
    return NULL;
}

static void *call_again(void *unused)
{
    (void)unused;
    troupe_none out;
    assert_int_equal(troupe_get(troupe_none, troupe_call(again, plug_rest), &out),
                     TROUPE_NOT_EXECUTED); // It is killed while it waits for its restart.
    return NULL;
}

static void *look_up(void *unused)
{
    (void)unused;
    plug_actor found;
    assert_int_equal(troupe_lookup(plug, "nobody", &found), TROUPE_NOT_FOUND);
    return NULL;
}

// Until it has no room.
static void fill(plug_actor actor)
{
    int asleep = shared->asleep;
    troupe_must(troupe_tell(actor, plug_hold));
    support_await_counter(&shared->asleep, asleep + 1);
    while (troupe_tell(troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT), plug_rest) == TROUPE_OK)
        continue;
    assert_int_equal(troupe_last_error()->status, TROUPE_BUSY);
}

// Until all threads of the worker are held, and something waits for one.
static void hold_all_threads(void)
{
    troupe_status status;
    idle = troupe_spawn(plug, .place = TROUPE_PLACE_WORKER);
    do {
        plug_actor fresh = troupe_spawn(plug, .place = TROUPE_PLACE_WORKER);
        status = troupe_actor_status(fresh.address);
        if (status == TROUPE_OK)
            troupe_must(troupe_tell(fresh, plug_hold));
    } while (status == TROUPE_OK);
    assert_int_equal(status, TROUPE_BUSY);
    troupe_must(troupe_tell(idle, plug_rest));
}

static void crash_twice(void)
{
    troupe_none out;
    again = troupe_spawn(plug, .name = "again", .place = TROUPE_PLACE_ISOLATED, .restarts = 5,
                         .backoff_ms = LONG_MS, .backoff_max_ms = LONG_MS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(troupe_get(troupe_none, troupe_call(again, plug_leave), &out),
                         TROUPE_MAYBE_EXECUTED);
}

static void test_each_is_told_once(void **state)
{
    (void)state;
    static void *(*const waits[])(void *) = {send_there, put_more, spawn_slow, call_again, look_up};
    enum { WAITS = sizeof waits / sizeof *waits, THREADS = WAITS + SENDERS + 1 };
    pthread_t threads[THREADS];
    int node = trp_process_pid(TRP_PROCESS_NODE), count = 0;
    shared->held = 1;
    hold_all_threads();
    here = troupe_spawn(plug, .name = "here", .place = TROUPE_PLACE_HERE, .mailbox_max = 4);
    there = troupe_spawn(plug, .name = "there", .place = TROUPE_PLACE_ISOLATED, .mailbox_max = 4);
    fill(here);
    fill(there);
    object = put_large();
    crash_twice();
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[count++], NULL, send_here, NULL), 0);
    for (int i = 0; i < WAITS - 1; i++)
        assert_int_equal(pthread_create(&threads[count++], NULL, waits[i], NULL), 0);
    support_await_counter(&shared->began, 1);
    shared->slow_start = true;
    assert_int_equal(pthread_create(&threads[count++], NULL, spawn_late, NULL), 0);
    support_await_counter(&shared->started, 1);
    // Before the node process is stopped: until it has answered, its answer is waited for.
    (void)support_wait_until(is_told, (char[]){"to be ready"}, TOLD_MS);
    assert_int_equal(kill(node, SIGSTOP), 0);
    assert_int_equal(pthread_create(&threads[count++], NULL, look_up, NULL), 0);
    bool told = support_wait_until(all_are_told, NULL, TOLD_MS);
    assert_int_equal(kill(node, SIGCONT), 0);
    shared->slow_start = false;
    shared->held = 0;
    troupe_ref_drop(object);
    assert_int_equal(troupe_actor_kill(again), TROUPE_OK);
    check(told, "not all are told");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    check(support_wait_until(all_are_over, NULL, SUPPORT_SOON_MS), "not all are over");
    // On a busy machine other waits of these kinds may last as well, but for this one.
    check(count_lines(" for room in the mailbox of actor plug 'here'") == 2,
          "one line for five that wait, and one for the end");
    check(count_lines("'here'; so did 4 more meanwhile") == 1, "the others are counted");
    check(count_lines(", which is stopped") >= 2, "the node process is stopped");
}

// ---- around

static void start_late(void)
{
    if (shared->slow_start)
        shared->started++;
    while (shared->slow_start)
        usleep(5000);
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    folder = support_directory_make();
    path = support_path(folder, "errors");
    screen = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "a", stderr));
    return troupe_start(0, NULL, .workers = 1, .threads = 2, .store_bytes_max = STORE,
                        .store_wait_ms = LONG_MS, .request_timeout_ms = LONG_MS,
                        .spill_bytes_max = TROUPE_NONE, .worker_init = start_late,
                        .worker_output_unfolded = true) == TROUPE_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    int status = troupe_stop();
    (void)dup2(screen, STDERR_FILENO);
    free(path);
    support_directory_remove(folder);
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_told_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
