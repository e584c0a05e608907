// test_spill_stopped.c: a process is stopped, not killed, while it brings an object to disk or
// back: a reader of the object meanwhile gets an error text that names the process, in the time
// that was given, and the object when it goes on.
// timeout: 120
// cost: 9
// label: faults
#include <support.h>

#include <runtime/base/fault.h>
#include <runtime/shm/layout.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { MB = 1 << 20, CAPACITY = 8 * MB, SIZE = MB - 100, MOST = 4 * CAPACITY / MB, WAIT_MS = 300 };
enum { LONG_WAIT_MS = 2500 };

static char *base;
static char bytes[SIZE];

static uint32_t where_of(uint64_t object)
{
    return atomic_load(&trp_object_row_at(trp_row_slot(object))->where);
}

// ---- an actor that is stopped while it moves an object

static uint64_t watched;

static void stop_when_moving(void)
{
    uint32_t where = where_of(watched);
    if (trp_where_is_moved(where) && trp_where_process(where) == trp_store_self)
        (void)kill(getpid(), SIGSTOP);
    else
        trp_fault_call_at("store", 1, stop_when_moving);
}

TROUPE_STRUCT(piece, (troupe_ref, ref), (uint64_t, object));

typedef struct mover {
    troupe_ref refs[MOST];
    int count;
} mover;

static troupe_status mover_read(mover *self, const piece *in, troupe_none *out)
{
    (void)self;
    (void)out;
    troupe_view view;
    watched = in->object;
    trp_fault_call_at("store", 1, stop_when_moving);
    troupe_status status = troupe_view_bytes(in->ref, &view, -1);
    trp_fault_call_at("store", 0, NULL);
    troupe_view_end(&view);
    return status;
}

// Puts others until that one is on disk.
static troupe_status mover_push_out(mover *self, const uint64_t *object, troupe_none *out)
{
    (void)out;
    watched = *object;
    trp_fault_call_at("store", 1, stop_when_moving);
    while (trp_where_state(where_of(watched)) == TRP_WHERE_MEMORY && self->count < MOST)
        self->refs[self->count++] = troupe_put_bytes(bytes, SIZE);
    trp_fault_call_at("store", 0, NULL);
    while (self->count > 0)
        troupe_ref_drop(self->refs[--self->count]);
    return TROUPE_OK;
}

static troupe_status mover_make(mover *self, const troupe_none *in, troupe_bytes *out)
{
    (void)self;
    (void)in;
    *out = (troupe_bytes){bytes, SIZE};
    return TROUPE_OK;
}

static troupe_status mover_pid(mover *self, const troupe_none *in, int *out)
{
    (void)self;
    (void)in;
    *out = getpid();
    return TROUPE_OK;
}

static troupe_status mover_size(mover *self, const troupe_ref *ref, uint64_t *out)
{
    (void)self;
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(*ref, &view, -1));
    *out = view.size;
    troupe_view_end(&view);
    return TROUPE_OK;
}

TROUPE_ACTOR(mover, (mover_size, troupe_ref, uint64_t), (mover_read, piece, troupe_none),
             (mover_push_out, uint64_t, troupe_none), (mover_make, troupe_none, troupe_bytes),
             (mover_pid, troupe_none, int));

// ----

static mover_actor other;
static int other_pid;

static int begin(int wait_ms)
{
    base = support_directory_make();
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 1, .store_bytes_max = CAPACITY,
                             .spill_dir = base, .store_wait_ms = wait_ms));
    other = troupe_spawn(mover, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_get(int, troupe_call(other, mover_pid), &other_pid));
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return begin(WAIT_MS);
}

static int set_up_patiently(void **state)
{
    (void)state;
    return begin(LONG_WAIT_MS);
}

static int tear_down(void **state)
{
    (void)state;
    troupe_must(troupe_actor_stop(other));
    assert_int_equal(troupe_stop(), 0);
    support_directory_remove(base);
    return 0;
}

static bool is_stopped(void *unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", other_pid);
    char *status = support_read_file(path);
    bool stopped = status != NULL && strstr(status, "\nState:\tT") != NULL;
    free(status);
    return stopped;
}

static void expect_named(const char *what)
{
    char name[32];
    const char *text = troupe_last_error()->text;
    snprintf(name, sizeof name, "(pid %d)", other_pid);
    if (strstr(text, name) == NULL || strstr(text, what) == NULL)
        fail_msg("%s", text);
}

static void read_in_time(troupe_ref ref, const char *what)
{
    troupe_view view;
    troupe_bytes value;
    int64_t began_ms = support_now_ms();
    assert_int_equal(troupe_view_bytes(ref, &view, 100), TROUPE_TIMED_OUT);
    expect_named(what);
    assert_int_equal(troupe_get(troupe_bytes, ref, &value, 100), TROUPE_TIMED_OUT);
    expect_named(what);
    int64_t took_ms = support_now_ms() - began_ms;
    assert_true(took_ms >= 200 && took_ms < SUPPORT_SOON_MS);
    assert_int_equal(troupe_view_bytes(ref, &view, 0), TROUPE_TIMED_OUT); // After a moment.
    expect_named(what);
    assert_int_equal(troupe_view_bytes(ref, &view, TROUPE_FOREVER), TROUPE_TIMED_OUT);
    expect_named("which is stopped");
    assert_int_equal(troupe_get(troupe_bytes, ref, &value), TROUPE_TIMED_OUT);
    expect_named("which is stopped"); // The reference stays, as go_on sees.
}

static void go_on(troupe_ref call, troupe_ref ref)
{
    troupe_view view;
    assert_int_equal(kill(other_pid, SIGCONT), 0);
    troupe_must(troupe_get(troupe_none, call, &(troupe_none){0}, SUPPORT_SOON_MS));
    troupe_must(troupe_view_bytes(ref, &view, -1));
    assert_int_equal(view.size, SIZE);
    assert_memory_equal(view.data, bytes, SIZE);
    troupe_view_end(&view);
    troupe_ref_drop(ref);
}

static void test_stopped_while_it_comes(void **state)
{
    (void)state;
    troupe_ref first = troupe_put_bytes(bytes, SIZE), others[MOST];
    int count = 0;
    while (trp_where_state(where_of(first.id)) == TRP_WHERE_MEMORY && count < MOST)
        others[count++] = troupe_put_bytes(bytes, SIZE);
    troupe_ref call = troupe_call(other, mover_read, .ref = first, .object = first.id);
    assert_true(support_wait_until(is_stopped, NULL, SUPPORT_SOON_MS));
    read_in_time(first, "is being read back from disk by");
    go_on(call, first);
    while (count > 0)
        troupe_ref_drop(others[--count]);
}

static void test_stopped_while_it_goes(void **state)
{
    (void)state;
    troupe_ref mine = troupe_put_bytes(bytes, SIZE);
    troupe_ref call = troupe_call(other, mover_push_out, mine.id);
    assert_true(support_wait_until(is_stopped, NULL, SUPPORT_SOON_MS));
    read_in_time(mine, "is being brought to disk by");
    go_on(call, mine);
}

// The same of a call's result, which has an object of its own; and, if `passed_on`, of who passes
// that on, and whom it is passed on to.
static void read_the_result_of_a_call(bool passed_on)
{
    bool ready;
    uint64_t size;
    mover_actor here = troupe_spawn(mover, .place = TROUPE_PLACE_WORKER);
    troupe_ref made = troupe_call(here, mover_make);
    troupe_must(troupe_wait(&made, 1, 1, SUPPORT_SOON_MS, &ready, NULL));
    troupe_view view;
    troupe_must(troupe_view_bytes(made, &view, 0));
    uint64_t object = view.id_;
    troupe_view_end(&view);
    troupe_ref call = troupe_call(other, mover_push_out, object);
    assert_true(support_wait_until(is_stopped, NULL, SUPPORT_SOON_MS));
    if (passed_on) {
        troupe_ref sized = troupe_call_from(here, mover_size, &made);
        assert_int_equal(troupe_get(uint64_t, sized, &size, SUPPORT_SOON_MS),
                         TROUPE_DEADLINE_EXCEEDED);
        expect_named("which is stopped"); // The promise has failed.
        expect_named("which is stopped");
    } else {
        read_in_time(made, "is being brought to disk by");
    }
    go_on(call, made);
    troupe_must(troupe_actor_stop(here));
}

static void test_the_result_of_a_call(void **state)
{
    (void)state;
    read_the_result_of_a_call(false);
}

static void test_a_result_that_is_passed_on(void **state)
{
    (void)state;
    read_the_result_of_a_call(true);
}

// Who waits for a stopped process for long says so, and when that is over.
static void test_a_long_wait_is_told(void **state)
{
    (void)state;
    char told[96], *path = support_path(base, "errors");
    troupe_view view;
    int screen = dup(STDERR_FILENO);
    troupe_ref mine = troupe_put_bytes(bytes, SIZE);
    troupe_ref call = troupe_call(other, mover_push_out, mine.id);
    assert_true(support_wait_until(is_stopped, NULL, SUPPORT_SOON_MS));
    assert_non_null(freopen(path, "a", stderr));
    troupe_status status = troupe_view_bytes(mine, &view, -1);
    (void)dup2(screen, STDERR_FILENO);
    close(screen);
    assert_int_equal(status, TROUPE_TIMED_OUT);
    char *text = support_read_file(path);
    snprintf(told, sizeof told, "s for an object that process %u (pid %d) moves to disk or back",
             other.address.process, other_pid);
    const char *line = strstr(text, told);
    if (line == NULL || strstr(line + 1, told) == NULL || strstr(line, "it is stopped") == NULL ||
        strstr(text, " has waited 2.") == NULL || strstr(text, " no longer waits: ") == NULL)
        fail_msg("%s", text);
    free(text);
    (void)unlink(path);
    free(path);
    go_on(call, mine);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    memset(bytes, 7, sizeof bytes);
    const struct CMUnitTest tests[] = {
        TEST(test_stopped_while_it_comes),
        TEST(test_stopped_while_it_goes),
        TEST(test_the_result_of_a_call),
        TEST(test_a_result_that_is_passed_on),
        cmocka_unit_test_setup_teardown(test_a_long_wait_is_told, set_up_patiently, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
