// test_stall_books.c: methods that block outside the library, and what the scheduler's counters say
// of them: in one process, whose threads and queues can be looked at.
// label: faults
#include <support.h>

#include <actors/actor/actor.h>
#include <actors/sched/blocked_threads_internal.h>
#include <actors/sched/scheduler_internal.h>
#include <actors/task/resend.h>
#include <actors/task/task.h>
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <troupe.h>
#include <unistd.h>

enum { THREADS = 2, HELD = TRP_BLOCKED_MAX + THREADS };

static _Atomic int asleep, ran, spinning;
static _Atomic bool wake, stop;

typedef struct hand {
    char unused;
} hand;

static troupe_status hand_nap(hand *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    asleep++;
    while (!wake)
        usleep(5000);
    asleep--;
    return TROUPE_OK;
}

static troupe_status hand_note(hand *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    ran++;
    return TROUPE_OK;
}

static troupe_status hand_spin(hand *self, const troupe_none *in, troupe_none *out);
static troupe_status hand_tell(hand *self, const troupe_actor *to, troupe_none *out);
static troupe_status hand_hold(hand *self, const troupe_none *in, troupe_none *out);
static troupe_status hand_block(hand *self, const troupe_actor *to, troupe_none *out);

TROUPE_ACTOR(hand, (hand_nap, troupe_none, troupe_none), (hand_note, troupe_none, troupe_none),
             (hand_spin, troupe_none, troupe_none), (hand_tell, troupe_actor, troupe_none),
             (hand_hold, troupe_none, troupe_none), (hand_block, troupe_actor, troupe_none));

// Runs again and again, each time for so long that others share the work.
static troupe_status hand_spin(hand *self, const troupe_none *in, troupe_none *out)
{
    enum { LONG_NS = 5000 };
    (void)self, (void)in, (void)out;
    spinning++;
    for (int64_t until_ns = trp_clock_ns() + LONG_NS; trp_clock_ns() < until_ns;)
        continue;
    return stop ? TROUPE_OK : troupe_tell((hand_actor){troupe_self()}, hand_spin);
}

// Sleeps, and tells another one whenever that has run.
static troupe_status hand_tell(hand *self, const troupe_actor *to, troupe_none *out)
{
    (void)self, (void)out;
    for (int told = 0; !stop; usleep(5000))
        if (told == ran) {
            TROUPE_TRY(troupe_tell((hand_actor){*to}, hand_note));
            told++;
        }
    return TROUPE_OK;
}

// Keeps its thread busy.
static troupe_status hand_hold(hand *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    spinning = 1;
    while (!stop)
        continue;
    return TROUPE_OK;
}

static hand_actor make(void)
{
    return troupe_spawn(hand, .place = TROUPE_PLACE_HERE);
}

// ---- the books

typedef struct books {
    int active, stalled, blocked, limit, count;
} books;

static books look(void)
{
    trp_scheduler_lock();
    books seen = {.active = trp_scheduler.active,
                  .stalled = trp_scheduler.stalled,
                  .blocked = trp_scheduler.blocked,
                  .limit = trp_queues.limit,
                  .count = trp_queues.count};
    trp_scheduler_unlock();
    return seen;
}

static bool is_quiet(void *unused)
{
    (void)unused;
    return look().active == 0;
}

static bool are_asleep(void *count)
{
    return asleep == *(int *)count;
}

static bool has_run(void *count)
{
    return ran >= *(int *)count;
}

static bool spins(void *unused)
{
    (void)unused;
    return spinning > 0;
}

static void begin(int threads)
{
    asleep = ran = spinning = 0;
    wake = stop = false;
    troupe_must(troupe_start(0, NULL, .threads = threads, .workers = TROUPE_NONE));
}

// What began has ended: then nothing runs, and the books are as at the start.
static void end(int threads)
{
    wake = stop = true;
    bool quiet = support_wait_until(is_quiet, NULL, SUPPORT_SOON_MS);
    books last = look();
    assert_int_equal(troupe_stop(), 0);
    assert_true(quiet);
    assert_int_equal(last.stalled, 0);
    assert_int_equal(last.blocked, 0);
    assert_int_equal(last.limit, threads);
    assert_int_equal(last.count, threads);
}

// ---- the tests

// While all places are busy for ever, what a method that sleeps wakes is run all the same.
static void test_what_one_that_sleeps_wakes(void **state)
{
    (void)state;
    enum { BUSY = 2 * THREADS };
    int some = 30;
    begin(THREADS);
    hand_actor told = make(), teller = make();
    for (int i = 0; i < BUSY; i++)
        troupe_tell(make(), hand_spin);
    assert_true(support_wait_until(spins, NULL, SUPPORT_SOON_MS));
    troupe_must(troupe_tell_from(teller, hand_tell, &told.address));
    assert_true(support_wait_until(has_run, &some, SUPPORT_SOON_MS));
    end(THREADS);
}

static trp_runner *one_that_runs(void)
{
    trp_runner *one = trp_scheduler.all;
    while (one != NULL && (one->idle || one->queue == NULL))
        one = one->older;
    assert_non_null(one);
    return one;
}

static bool sleeps_in_kernel(void *runner)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", ((trp_runner *)runner)->tid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    (void)fgets(text, sizeof text, file);
    fclose(file);
    const char *state = strrchr(text, ')');
    return state != NULL && state[2] == 'S';
}

// With the scheduler's lock held.
static bool is_taken_for_stalled(void *unused)
{
    (void)unused;
    (void)trp_stalls_look();
    return trp_scheduler.stalled == 1;
}

// A thread whose turn is over waits for the scheduler's lock, and seems to have stalled.
static void test_stalled_on_the_way_to_sleep(void **state)
{
    (void)state;
    int one = 1;
    begin(1);
    hand_actor busy = make(), other = make();
    troupe_tell(busy, hand_hold);
    assert_true(support_wait_until(spins, NULL, SUPPORT_SOON_MS));
    trp_scheduler_lock();
    trp_runner *runner = one_that_runs();
    stop = true;
    trp_actor *actor = trp_actor_find(busy.address.id);
    while (!trp_mailbox_idle(&actor->run.mailbox))
        usleep(1000);
    assert_true(support_wait_until(sleeps_in_kernel, runner, SUPPORT_SOON_MS));
    troupe_tell(other, hand_note); // Something must wait.
    assert_true(support_wait_until(is_taken_for_stalled, NULL, SUPPORT_SOON_MS));
    trp_runnable *waiting = trp_runqueue_take(&trp_queues.inject); // So that it goes to sleep.
    assert_ptr_equal(waiting, &trp_actor_find(other.address.id)->run);
    trp_scheduler_unlock();
    assert_true(support_wait_until(is_quiet, NULL, SUPPORT_SOON_MS));
    assert_int_equal(look().stalled, 0);
    assert_int_equal(look().limit, 1);
    trp_scheduler_push(waiting);
    assert_true(support_wait_until(has_run, &one, SUPPORT_SOON_MS));
    end(1);
}

// ---- a start that is refused, in a worker

static struct {
    _Atomic int asleep, ran, woken;
    _Atomic bool wake;
} * shared;

typedef struct remote {
    char unused;
} remote;

static hand_actor bystander;

// On the watcher's thread: all methods end, and what is sent then wakes the watcher.
static void end_all_and_wake(void)
{
    wake = true;
    if (support_wait_until(is_quiet, NULL, SUPPORT_SOON_MS) &&
        troupe_tell(bystander, hand_note) == TROUPE_OK && !trp_me->idle)
        shared->woken++;
}

static troupe_status remote_prepare(remote *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    bystander = make();
    trp_fault_call_at("refuse", 1, end_all_and_wake);
    return TROUPE_OK;
}

static troupe_status remote_nap(remote *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    shared->asleep++;
    while (!wake)
        usleep(5000);
    shared->asleep--;
    return TROUPE_OK;
}

static troupe_status remote_active(remote *self, const troupe_none *in, int *active)
{
    (void)self, (void)in;
    shared->ran += ran;
    *active = look().active;
    return TROUPE_OK;
}

TROUPE_ACTOR(remote, (remote_prepare, troupe_none, troupe_none),
             (remote_nap, troupe_none, troupe_none), (remote_active, troupe_none, int));

static remote_actor make_there(void)
{
    return troupe_spawn(remote, .place = TROUPE_PLACE_ANY);
}

static bool all_asleep_there(void *count)
{
    return shared->asleep == *(int *)count;
}

static bool is_alone_there(void *observer)
{
    int active;
    troupe_must(troupe_get(int, troupe_call(*(remote_actor *)observer, remote_active), &active));
    return active == 1;
}

// The watcher counts once, also if it was woken while it refused a start.
static void test_a_watcher_that_is_woken(void **state)
{
    (void)state;
    int all = HELD;
    troupe_none none;
    shared = support_share(sizeof *shared);
    wake = false;
    troupe_must(troupe_start(0, NULL, .threads = THREADS, .workers = 1));
    remote_actor observer = make_there();
    troupe_must(troupe_get(troupe_none, troupe_call(observer, remote_prepare), &none));
    for (int i = 0; i < HELD; i++)
        troupe_tell(make_there(), remote_nap);
    assert_true(support_wait_until(all_asleep_there, &all, 4 * SUPPORT_SOON_MS));
    remote_actor late = make_there();
    assert_int_equal(troupe_actor_status(late.address), TROUPE_BUSY);
    assert_int_equal(shared->woken, 1);
    bool alone = support_wait_until(is_alone_there, &observer, SUPPORT_SOON_MS);
    assert_int_equal(troupe_stop(), 0);
    assert_true(alone);
    assert_true(shared->ran > 0);
}

// ---- waits

static char said[sizeof(troupe_error)];

// Until it may not wait any more: first it has a thread that others want, if it has stalled.
static troupe_status block_until_refused(const troupe_actor *other, bool *crowded)
{
    int64_t until_ms = support_now_ms() + SUPPORT_SOON_MS;
    troupe_status status = TROUPE_DEADLINE_EXCEEDED;
    while (status == TROUPE_DEADLINE_EXCEEDED && support_now_ms() < until_ms) {
        hand_actor to = {*other};
        troupe_none out;
        status = troupe_get(troupe_none, troupe_call(troupe_with(to, .deadline_ms = 20), hand_note),
                            &out);
    }
    snprintf(said, sizeof said, "%s", troupe_last_error()->text);
    *crowded = trp_scheduler_crowded();
    return status;
}

static _Atomic int blocked_as;
static bool was_crowded;

static troupe_status hand_block(hand *self, const troupe_actor *to, troupe_none *out)
{
    (void)self, (void)out;
    int others = HELD - 1;
    while (!are_asleep(&others))
        usleep(1000);
    blocked_as = (int)block_until_refused(to, &was_crowded);
    return hand_nap(self, NULL, NULL);
}

static bool was_refused(void *unused)
{
    (void)unused;
    return blocked_as != TROUPE_OK;
}

// Those that have stalled count where waits are judged, and are named apart from them.
static void test_waits_beside_stalled_ones(void **state)
{
    (void)state;
    begin(THREADS);
    bystander = make();
    hand_actor blocks = make();
    troupe_must(troupe_tell_from(blocks, hand_block, &bystander.address));
    troupe_tell(bystander, hand_nap); // So that its answer is to be waited for.
    for (int i = 1; i < HELD; i++)    // One of them finds no thread, and waits.
        troupe_tell(make(), hand_nap);
    assert_true(support_wait_until(was_refused, NULL, 2 * SUPPORT_SOON_MS));
    assert_int_equal(blocked_as, TROUPE_BUSY);
    assert_true(was_crowded);
    assert_non_null(strstr(said, "0 methods of this process wait already"));
    assert_non_null(strstr(said, "256 block their threads"));
    end(THREADS);
}

static troupe_status twice(const int *in, int *out)
{
    *out = 2 * *in;
    return TROUPE_OK;
}
TROUPE_TASK(twice, int, int);

// Who sends tasks again, should that be needed, could not be made: that is told.
static void test_tasks_that_are_not_sent_again(void **state)
{
    (void)state;
    int out;
    begin(THREADS);
    trp_memory_fail_after(0);
    troupe_status status = trp_resend_start();
    trp_memory_fail_after(-1);
    assert_int_equal(status, TROUPE_NO_MEMORY);
    assert_int_equal(trp_resend_start(), TROUPE_OK);
    troupe_must(troupe_get(int, troupe_run(twice, 4), &out));
    assert_int_equal(out, 8);
    end(THREADS);
}

// Where no file can be opened, methods that sleep are known by the CPU time that they use.
static void test_without_descriptors(void **state)
{
    (void)state;
    enum { MOST = 512, NAPPERS = 2 * THREADS }; // Half of them might count as computing.
    int taken[MOST], count = 0, all = NAPPERS, one = 1;
    struct rlimit before, few;
    begin(THREADS);
    hand_actor other = make(), nappers[NAPPERS];
    for (int i = 0; i < NAPPERS; i++)
        nappers[i] = make();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){MOST, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (count < MOST && (taken[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < NAPPERS; i++)
        troupe_tell(nappers[i], hand_nap);
    bool asleep_all = support_wait_until(are_asleep, &all, SUPPORT_SOON_MS);
    troupe_tell(other, hand_note);
    bool noted = support_wait_until(has_run, &one, SUPPORT_SOON_MS);
    while (count > 0)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(asleep_all);
    assert_true(noted);
    end(THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_one_that_sleeps_wakes),
        cmocka_unit_test(test_stalled_on_the_way_to_sleep),
        cmocka_unit_test(test_a_watcher_that_is_woken),
        cmocka_unit_test(test_waits_beside_stalled_ones),
        cmocka_unit_test(test_tasks_that_are_not_sent_again),
        cmocka_unit_test(test_without_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
