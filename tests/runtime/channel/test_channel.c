// test_channel.c: one writer and several readers of a channel, in processes of their own: every
// value whole and in order, the latest whole, waits that are ended, and misuse.
// timeout: 120
// label: faults
#include "channels.h"

#include <runtime/base/fault.h>
#include <runtime/channel/reader.h>
#include <runtime/channel/writer.h>
#include <runtime/link/park.h>

// ---- all alive

enum { VALUES = 20000, READERS = 3 };

// As a process: reads to the end; exits with 0 if all was right.
static _Noreturn void follow(uint32_t slot, bool ordered)
{
    trp_channel_reader reader = open_reader(slot, TRP_CHANNEL_ANY, false);
    trp_channel_value value;
    uint64_t last = 0;
    trp_channel_turn turn;
    atomic_fetch_add(&notes->ready, 1);
    while ((turn = read_one(&reader, &value)) == TRP_CHANNEL_READY) {
        bool next = ordered ? value.sequence == last + 1 : value.sequence > last;
        if (!is_whole(&value) || !next)
            _exit(1);
        if (value.sequence % 1024 == 0)
            usleep(50); // And it stays so.
        if (!is_whole(&value))
            _exit(2);
        last = value.sequence;
        trp_channel_read_end(&reader);
    }
    trp_channel_read_close(&reader);
    _exit(turn == TRP_CHANNEL_END && last == VALUES ? 0 : 3);
}

static void check_following(uint32_t slots, bool latest)
{
    pid_t pids[READERS];
    make(slots, READERS, latest);
    trp_spin_start();
    for (uint32_t i = 0; i < READERS; i++)
        if ((pids[i] = start(FIRST + i)) == 0)
            follow(FIRST + i, !latest);
    support_await_counter(&notes->ready, READERS);
    trp_channel_writer writer = open_writer(ME);
    assert_int_equal(trp_channel_see(&writer.channel).readers, READERS);
    for (int i = 0; i < VALUES; i++)
        write_one(&writer);
    trp_channel_write_close(&writer, true);
    for (uint32_t i = 0; i < READERS; i++)
        assert_int_equal(wait_for(pids[i]), 0);
    trp_channel channel = attach(ME);
    trp_channel_look look = trp_channel_see(&channel);
    assert_int_equal(look.published, VALUES);
    assert_int_equal(look.readers, 0);
    assert_true(look.closed && !look.written);
    trp_segment_close();
}

static void test_every_value_reaches_every_reader(void **state)
{
    (void)state;
    check_following(1, false);
    check_following(2, false);
    check_following(7, false);
}

static void test_the_latest_is_whole(void **state)
{
    (void)state;
    check_following(READERS + TRP_CHANNEL_SPARE, true);
    check_following(70, true);
}

static void test_the_writer_waits_for_the_slowest(void **state)
{
    (void)state;
    make(3, 2, false);
    trp_channel_writer writer = open_writer(ME);
    trp_channel_reader fast = open_reader(ME, 0, false), slow = open_reader(ME, 1, false);
    trp_channel_value value, held;
    void *data;
    char text[TRP_CHANNEL_WHO];
    uint64_t last = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    assert_int_equal(read_all(&fast, true, &last), TRP_CHANNEL_WAIT);
    assert_int_equal(last, 3);
    assert_int_equal(write_now(&writer), TRP_CHANNEL_WAIT);
    assert_int_equal(trp_channel_read_begin(&slow, false, &held), TRP_CHANNEL_READY);
    assert_int_equal(trp_channel_write_wait(&writer, trp_clock_ns() + 1000000, &data),
                     TRP_CHANNEL_WAIT);
    assert_int_equal(trp_channel_blocker(&writer, text), 1);
    assert_non_null(strstr(text, "place 1"));
    assert_true(is_whole(&held));
    trp_channel_read_end(&slow);
    assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    assert_int_equal(write_now(&writer), TRP_CHANNEL_WAIT);
    trp_channel_read_close(&slow); // Who leaves holds nobody up.
    assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    assert_int_equal(read_all(&fast, true, &last), TRP_CHANNEL_WAIT);
    assert_int_equal(last, 5);

    // Who comes late begins at the oldest, or at the newest, that is there.
    slow = open_reader(ME, 1, false);
    assert_int_equal(trp_channel_read_begin(&slow, false, &value), TRP_CHANNEL_READY);
    assert_int_equal(value.sequence, 3);
    assert_true(is_whole(&value));
    trp_channel_read_close(&slow);
    slow = open_reader(ME, TRP_CHANNEL_ANY, true);
    assert_int_equal(trp_channel_read_begin(&slow, false, &value), TRP_CHANNEL_READY);
    assert_int_equal(value.sequence, 5);
    trp_segment_close();
}

static void test_the_latest_alone(void **state)
{
    (void)state;
    make(3, 1, true);
    trp_channel_writer writer = open_writer(ME);
    trp_channel_reader reader = open_reader(ME, 0, false);
    trp_channel_value held, value;
    assert_int_equal(trp_channel_read_begin(&reader, true, &held), TRP_CHANNEL_WAIT);
    assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    assert_int_equal(trp_channel_read_begin(&reader, false, &held), TRP_CHANNEL_READY);
    for (int i = 0; i < 10; i++)
        assert_int_equal(write_now(&writer), TRP_CHANNEL_READY);
    assert_int_equal(held.sequence, 1);
    assert_true(is_whole(&held));
    trp_channel_read_end(&reader);
    assert_int_equal(trp_channel_read_begin(&reader, false, &value), TRP_CHANNEL_READY);
    assert_int_equal(value.sequence, 11);
    trp_channel_read_end(&reader);
    assert_int_equal(trp_channel_read_begin(&reader, false, &value), TRP_CHANNEL_WAIT);
    assert_int_equal(trp_channel_read_begin(&reader, true, &value), TRP_CHANNEL_READY);
    assert_int_equal(value.sequence, 11);
    assert_true(is_whole(&value));
    trp_channel_read_end(&reader);
    trp_channel_write_close(&writer, true);
    assert_int_equal(trp_channel_read_begin(&reader, true, &value), TRP_CHANNEL_END);
    trp_segment_close();
}

// ---- waits that nobody ends

// The writer is killed after it has published, and before it wakes who sleeps.
static void test_a_wake_up_that_never_comes(void **state)
{
    (void)state;
    enum { READER = FIRST, VICTIM = FIRST + 1 };
    for (long point = 1; point <= 12; point++) {
        make(2, 1, false);
        pid_t reader = start(READER);
        if (reader == 0) {
            trp_channel_reader it = open_reader(READER, 0, false);
            trp_channel_value value;
            notes->ready = 1;
            while (read_one(&it, &value) == TRP_CHANNEL_READY) {
                notes->last = value.sequence;
                trp_channel_read_end(&it);
            }
            _exit(notes->last == trp_channel_see(&it.channel).published ? 0 : 1);
        }
        support_await_counter(&notes->ready, 1);
        pid_t writer = start(VICTIM);
        if (writer == 0) {
            trp_channel_writer it = open_writer(VICTIM);
            trp_fault_kill_at("channel", point);
            write_one(&it);
            write_one(&it);
            _exit(0);
        }
        assert_true(support_was_killed(wait_for(writer)) || point > 8);
        bury(VICTIM); // It is told that the writer is lost, having read all.
        assert_int_equal(wait_for(reader), 0);
        trp_segment_close();
    }
}

static void test_a_writer_that_sleeps_for_a_dead_reader(void **state)
{
    (void)state;
    enum { VICTIM = FIRST };
    make(1, 1, false);
    trp_channel_writer writer = open_writer(ME);
    pid_t child = start(VICTIM);
    if (child == 0) {
        trp_channel_reader reader = open_reader(VICTIM, 0, false);
        trp_channel_value value;
        notes->ready = 1;
        (void)read_one(&reader, &value);
        notes->count = 1;
        for (;;)
            pause();
    }
    support_await_counter(&notes->ready, 1);
    write_one(&writer);
    support_await_counter(&notes->count, 1);
    void *data;
    assert_int_equal(trp_channel_write_begin(&writer, &data), TRP_CHANNEL_WAIT);
    assert_int_equal(kill(child, SIGKILL), 0);
    (void)wait_for(child);
    assert_int_equal(trp_channel_write_begin(&writer, &data), TRP_CHANNEL_WAIT);
    bury(VICTIM);
    assert_int_equal(trp_channel_write_wait(&writer, -1, &data), TRP_CHANNEL_READY);
    trp_segment_close();
}

// ---- misuse

static void test_misuse(void **state)
{
    (void)state;
    static const struct {
        trp_channel_shape shape;
        troupe_status status;
        const char *text;
    } wrong[] = {
        {{0, 2, 1, false}, TROUPE_INVALID, "0 bytes"},
        {{8, 0, 1, false}, TROUPE_INVALID, "0 slots"},
        {{8, 1025, 1, false}, TROUPE_INVALID, "1 to 1024"},
        {{8, 2, 0, false}, TROUPE_INVALID, "0 readers"},
        {{8, 2, 1023, false}, TROUPE_INVALID, "1023 readers"},
        {{8, 3, 2, true}, TROUPE_INVALID, "4 to 1024"},
        {{SIZE_MAX / 4, 2, 1, false}, TROUPE_TOO_LARGE, "expected at most "},
        {{SIZE_MAX, 1, 1, false}, TROUPE_TOO_LARGE, "bytes"},
    };
    size_t size;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(trp_channel_size(&wrong[i].shape, &size), wrong[i].status);
        assert_non_null(strstr(troupe_last_error()->text, wrong[i].text));
    }
    make(2, 2, false);
    trp_channel channel = attach(ME), none;
    trp_channel_writer writer = open_writer(ME), second;
    trp_channel_reader reader = open_reader(ME, 1, false), more = open_reader(ME, 0, false);
    assert_int_equal(trp_channel_write_open(&channel, &second), TROUPE_EXISTS);
    assert_int_equal(trp_channel_read_open(&channel, 1, false, &more), TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "place 1"));
    assert_int_equal(trp_channel_read_open(&channel, TRP_CHANNEL_ANY, false, &more), TROUPE_EXISTS);
    assert_int_equal(trp_channel_read_open(&channel, 2, false, &more), TROUPE_INVALID);
    assert_int_equal(trp_channel_read_open(&channel, -2, false, &more), TROUPE_INVALID);
    assert_int_equal(trp_channel_publish(&writer, 1), TROUPE_INVALID);
    void *data, *again;
    assert_int_equal(trp_channel_write_begin(&writer, &data), TRP_CHANNEL_READY);
    assert_int_equal((uintptr_t)data % 64, 0);
    assert_int_equal(trp_channel_publish(&writer, BYTES + 1), TROUPE_TOO_LARGE);
    assert_int_equal(trp_channel_write_begin(&writer, &again), TRP_CHANNEL_READY);
    assert_ptr_equal(data, again);
    assert_int_equal(trp_channel_publish(&writer, BYTES), TROUPE_OK);
    trp_channel_write_close(&writer, true);
    assert_int_equal(trp_channel_write_open(&channel, &second), TROUPE_STOPPED);
    trp_channel_value value;
    assert_int_equal(trp_channel_read_begin(&reader, false, &value), TRP_CHANNEL_READY);
    assert_int_equal(value.size, BYTES);
    trp_channel_read_end(&reader);
    assert_int_equal(trp_channel_read_begin(&reader, false, &value), TRP_CHANNEL_END);
    assert_int_equal(trp_channel_attach(region, 64, ME, &none), TROUPE_WRONG_TYPE);
    assert_int_equal(trp_channel_attach(region, region_size - 1, ME, &none), TROUPE_CORRUPT);
    memset(region, 0, 8);
    assert_int_equal(trp_channel_attach(region, region_size, ME, &none), TROUPE_WRONG_TYPE);
    trp_segment_close();
}

static void test_a_view_cannot_be_written(void **state)
{
    (void)state;
    make(2, 1, false);
    trp_channel_writer writer = open_writer(ME);
    trp_channel_reader reader = open_reader(ME, 0, false);
    trp_channel_value value;
    write_one(&writer);
    write_one(&writer);
    assert_int_equal(read_one(&reader, &value), TRP_CHANNEL_READY);
    pid_t child = start(FIRST);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)value.data = 1;
        _exit(0);
    }
    int status = wait_for(child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    trp_segment_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_value_reaches_every_reader),
        cmocka_unit_test(test_the_latest_is_whole),
        cmocka_unit_test(test_the_writer_waits_for_the_slowest),
        cmocka_unit_test(test_the_latest_alone),
        cmocka_unit_test(test_a_wake_up_that_never_comes),
        cmocka_unit_test(test_a_writer_that_sleeps_for_a_dead_reader),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_a_view_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
