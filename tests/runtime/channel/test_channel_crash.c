// test_channel_crash.c: each side of a channel may be killed between any two of its steps, or be
// stopped there while the other side goes on: values stay whole, and no process waits for a dead
// one.
// timeout: 120
// label: faults
#include "channels.h"

#include <runtime/base/fault.h>
#include <runtime/channel/reader.h>
#include <runtime/channel/writer.h>
#include <runtime/link/park.h>
#include <sched.h>

// ---- killed

// What the victims do, over and over: all that each side can.
static void write_and_close(trp_channel_writer *writer)
{
    for (int i = 0; i < 5; i++)
        (void)write_now(writer);
    void *data;
    if (trp_channel_write_begin(writer, &data) == TRP_CHANNEL_WAIT)
        (void)trp_channel_write_wait(writer, trp_clock_ns() + 100000, &data);
    trp_channel_write_close(writer, true);
}

// A writer that is killed at that point. Readers get all that it published, each whole, and then
// are told; another one goes on with the next. False: it came through alive.
static bool kill_writer(uint32_t slots, bool latest, long point)
{
    enum { VICTIM = FIRST };
    uint64_t last = 0;
    make(slots, 2, latest);
    trp_channel_reader reader = open_reader(ME, 0, false);
    notes->count = 0;
    pid_t child = start(VICTIM);
    if (child == 0) {
        trp_fault_kill_at("channel", point);
        trp_channel channel = attach(VICTIM);
        trp_channel_writer writer;
        if (trp_channel_write_open(&channel, &writer) == TROUPE_OK)
            write_and_close(&writer);
        _exit(0);
    }
    bool killed = support_was_killed(wait_for(child));
    trp_channel_turn turn = read_all(&reader, !latest, &last);
    assert_int_not_equal(turn, TRP_CHANNEL_STOPPED);
    uint64_t published = trp_channel_see(&reader.channel).published;
    assert_int_equal(last, published);
    bury(VICTIM);
    bool closed = trp_channel_see(&reader.channel).closed;
    assert_int_equal(read_all(&reader, !latest, &last),
                     closed ? TRP_CHANNEL_END : TRP_CHANNEL_LOST);
    char text[TRP_CHANNEL_WHO];
    if (!closed) {
        trp_channel_writer_text(&reader.channel, text);
        assert_non_null(strstr(text, "was killed by signal 9"));
        trp_channel_writer next = open_writer(ME);
        assert_int_equal(next.next, published + 1);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(write_now(&next), TRP_CHANNEL_READY);
            assert_int_equal(read_all(&reader, !latest, &last), TRP_CHANNEL_WAIT);
            assert_int_equal(last, published + 1 + (uint64_t)i);
        }
    }
    trp_segment_close();
    return killed;
}

// A reader that is killed at that point, with what it has begun: the writer goes on, its place can
// be taken, and the other reader misses nothing.
static bool kill_reader(uint32_t slots, bool latest, long point)
{
    enum { VICTIM = FIRST };
    uint64_t last = 0;
    make(slots, 2, latest);
    trp_channel_writer writer = open_writer(ME);
    trp_channel_reader other = open_reader(ME, 1, false);
    for (uint32_t i = 0; i < slots; i++)
        assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    pid_t child = start(VICTIM);
    if (child == 0) {
        trp_fault_kill_at("channel", point);
        trp_channel_reader reader = open_reader(VICTIM, 0, false);
        trp_channel_value value;
        for (int i = 0; i < 2; i++) {
            (void)trp_channel_read_begin(&reader, false, &value);
            trp_channel_read_end(&reader);
        }
        (void)trp_channel_read_wait(&reader, false, trp_clock_ns() + 100000, &value);
        trp_channel_read_close(&reader);
        _exit(0);
    }
    bool killed = support_was_killed(wait_for(child));
    bury(VICTIM);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(read_all(&other, !latest, &last), TRP_CHANNEL_WAIT);
        write_one(&writer); // Would wait for ever else.
    }
    assert_int_equal(trp_channel_see(&writer.channel).readers, 1);
    trp_channel_reader next = open_reader(ME, 0, false);
    uint64_t since = 0;
    assert_int_equal(read_all(&next, !latest, &since), TRP_CHANNEL_WAIT);
    assert_int_equal(read_all(&other, !latest, &last), TRP_CHANNEL_WAIT);
    assert_int_equal(last, slots + 10);
    assert_int_equal(since, last);
    trp_segment_close();
    return killed;
}

static void test_killed_at_every_step(void **state)
{
    (void)state;
    static const struct {
        uint32_t slots;
        bool latest;
    } shapes[] = {{1, false}, {2, false}, {5, false}, {4, true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        long writes = 1, reads = 1;
        while (kill_writer(shapes[i].slots, shapes[i].latest, writes))
            writes++;
        while (kill_reader(shapes[i].slots, shapes[i].latest, reads))
            reads++;
        print_message("%u slots%s: a writer's %ld steps, a reader's %ld\n", shapes[i].slots,
                      shapes[i].latest ? ", the latest" : "", writes - 1, reads - 1);
        assert_true(writes > 10 && reads > 5);
    }
}

// ---- stopped

static void stop_here(void)
{
    (void)kill(getpid(), SIGSTOP);
}

// Whether the child was stopped, and is now.
static bool is_stopped(pid_t child, int *status)
{
    assert_int_equal(waitpid(child, status, WUNTRACED), child);
    return WIFSTOPPED(*status);
}

// Who is stopped at each step is not alone with its steps: the other side does all that it can
// meanwhile. A reader must find whole values that rise by one, a writer must lose none.
static bool stop_reader(uint32_t slots, bool latest, bool newest, long point)
{
    enum { VICTIM = FIRST };
    int status;
    make(slots, 2, latest);
    trp_channel_writer writer = open_writer(ME);
    for (uint32_t i = 0; i < slots + 2; i++)
        assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    pid_t child = start(VICTIM);
    if (child == 0) {
        uint64_t last = 0;
        trp_fault_call_at("channel", point, stop_here);
        trp_channel_reader reader = open_reader(VICTIM, 0, newest);
        bool right = false;
        for (int i = 0; i < 3 || (!right && i < 6); i++) {
            if (read_all(&reader, !latest, &last) != TRP_CHANNEL_WAIT)
                _exit(1);
            // The only slot may be being rewritten.
            right = (slots == 1 && last == 0) || last == trp_channel_see(&reader.channel).published;
        }
        trp_channel_read_close(&reader);
        trp_fault_kill_at("channel", 0);
        _exit(right ? 0 : 2);
    }
    bool stopped = is_stopped(child, &status);
    if (stopped) {
        for (uint32_t i = 0; i < 3 * slots; i++) {
            void *data;
            if (trp_channel_write_begin(&writer, &data) != TRP_CHANNEL_READY)
                break;
            memset(data, 0xee, BYTES); // Whoever read it now would not find it whole.
            (void)write_now(&writer);
        }
        void *data;
        if (trp_channel_write_begin(&writer, &data) == TRP_CHANNEL_READY)
            memset(data, 0xee, BYTES);
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (status != 0)
        print_error("%u slots, point %ld: status %x\n", slots, point, (unsigned)status);
    assert_int_equal(status, 0);
    trp_segment_close();
    return stopped;
}

static bool stop_writer(uint32_t slots, bool latest, bool newest, long point)
{
    enum { VICTIM = FIRST };
    int status;
    uint64_t last = 0;
    make(slots, 2, latest);
    pid_t child = start(VICTIM);
    if (child == 0) {
        trp_channel_writer writer = open_writer(VICTIM);
        for (uint32_t i = 0; i < slots + 2; i++)
            (void)write_now(&writer);
        trp_fault_call_at("channel", point, stop_here);
        for (uint32_t i = 0; i < 3; i++)
            write_one(&writer);
        trp_fault_kill_at("channel", 0);
        trp_channel_write_close(&writer, true);
        _exit(0);
    }
    bool stopped = is_stopped(child, &status);
    trp_channel_reader reader = open_reader(ME, 0, newest);
    trp_channel_value value;
    bool held = trp_channel_read_begin(&reader, false, &value) == TRP_CHANNEL_READY;
    assert_true(held || stopped);
    if (stopped) {
        assert_int_equal(kill(child, SIGCONT), 0);
        for (int i = 0; i < 100; i++) {
            if (held)
                assert_true(is_whole(&value));
            if (i % 10 == 0)
                sched_yield();
        }
        trp_channel_turn turn;
        trp_channel_read_end(&reader);
        last = held ? value.sequence : 0;
        while ((turn = read_all(&reader, !latest, &last)) == TRP_CHANNEL_WAIT)
            if (trp_channel_read_wait(&reader, false, trp_clock_ns() + 1000000, &value) ==
                TRP_CHANNEL_READY) {
                assert_true(is_whole(&value));
                last = value.sequence;
                trp_channel_read_end(&reader);
            }
        assert_int_equal(turn, TRP_CHANNEL_END);
        assert_int_equal(last, slots + 5);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_int_equal(status, 0);
    trp_segment_close();
    return stopped;
}

static void test_stopped_at_every_step(void **state)
{
    (void)state;
    for (uint32_t slots = 1; slots <= 3; slots++)
        for (int newest = 0; newest < 2; newest++) {
            long reads = 1, writes = 1;
            while (stop_reader(slots, false, newest != 0, reads))
                reads++;
            while (stop_writer(slots, false, newest != 0, writes))
                writes++;
            assert_true(reads > 8 && writes > 8);
        }
    long reads = 1, writes = 1;
    while (stop_reader(4, true, false, reads))
        reads++;
    while (stop_writer(4, true, false, writes))
        writes++;
    assert_true(reads > 3 && writes > 8);
}

// ---- one that looks, and one that publishes and dies meanwhile

static void publish_and_die(void)
{
    enum { VICTIM = FIRST };
    pid_t child = start(VICTIM);
    if (child == 0) {
        trp_channel_writer writer = open_writer(VICTIM);
        write_one(&writer);
        (void)kill(getpid(), SIGKILL);
    }
    assert_true(support_was_killed(wait_for(child)));
    bury(VICTIM);
}

static void test_published_just_before_the_death(void **state)
{
    (void)state;
    for (int latest = 0; latest < 2; latest++) {
        make(3, 1, latest != 0);
        trp_channel_reader reader = open_reader(ME, 0, false);
        trp_channel_value value;
        trp_fault_call_at("channel", 1, publish_and_die);
        assert_int_equal(trp_channel_read_begin(&reader, false, &value), TRP_CHANNEL_READY);
        trp_fault_kill_at("channel", 0);
        assert_int_equal(value.sequence, 1);
        assert_true(is_whole(&value));
        trp_channel_read_end(&reader);
        assert_int_equal(trp_channel_read_begin(&reader, false, &value), TRP_CHANNEL_LOST);
        trp_segment_close();
    }
}

// ---- random instants

enum { SIDES = 4, DEATHS = 120, PLACES = SIDES - 1 };

// Side 0 writes, the others read, for ever; whoever comes after a dead one goes on.
static _Noreturn void play(uint32_t side, uint32_t slot, bool latest)
{
    trp_channel channel = attach(slot);
    if (side == 0) {
        trp_channel_writer writer;
        if (trp_channel_write_open(&channel, &writer) != TROUPE_OK)
            _exit(1);
        for (;;)
            write_one(&writer);
    }
    trp_channel_reader reader;
    if (trp_channel_read_open(&channel, (int)side - 1, slot % 2 == 0, &reader) != TROUPE_OK)
        _exit(2);
    uint64_t last = 0;
    for (;;) {
        trp_channel_turn turn = read_all(&reader, !latest, &last);
        if (turn == TRP_CHANNEL_STOPPED || turn == TRP_CHANNEL_END)
            _exit(3);
        trp_channel_value value;
        if (turn == TRP_CHANNEL_LOST)
            usleep(100);
        else
            (void)trp_channel_read_wait(&reader, false, -1, &value);
        notes->last = last;
    }
}

static bool has_moved(void *before)
{
    return notes->last > *(uint64_t *)before + 100;
}

static void play_and_die(uint32_t slots, bool latest)
{
    unsigned seed = 20260301;
    pid_t pids[SIDES];
    uint32_t places[SIDES], next = FIRST;
    make(slots, PLACES, latest);
    trp_spin_start();
    for (uint32_t side = 0; side < SIDES; side++) {
        places[side] = next++;
        if ((pids[side] = start(places[side])) == 0)
            play(side, places[side], latest);
    }
    for (int deaths = 0; deaths < DEATHS; deaths++) {
        usleep((unsigned)rand_r(&seed) % 3000);
        uint32_t side = (uint32_t)rand_r(&seed) % SIDES;
        assert_int_equal(kill(pids[side], SIGKILL), 0);
        assert_true(support_was_killed(wait_for(pids[side])));
        bury(places[side]);
        places[side] = next++ % 500 + FIRST;
        if ((pids[side] = start(places[side])) == 0)
            play(side, places[side], latest);
        if (deaths % 20 == 19) {
            uint64_t before = notes->last;
            assert_true(support_wait_until(has_moved, &before, SUPPORT_SOON_MS));
        }
    }
    for (uint32_t side = 0; side < SIDES; side++) {
        assert_int_equal(kill(pids[side], SIGKILL), 0);
        assert_true(support_was_killed(wait_for(pids[side])));
        bury(places[side]);
    }
    trp_segment_close();
}

static void test_random_instants(void **state)
{
    (void)state;
    play_and_die(2, false);
    play_and_die(16, false);
    play_and_die(PLACES + TRP_CHANNEL_SPARE, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_every_step),
        cmocka_unit_test(test_stopped_at_every_step),
        cmocka_unit_test(test_published_just_before_the_death),
        cmocka_unit_test(test_random_instants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
