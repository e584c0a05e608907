// channels.h: what tests of channels share: processes as the node makes them and sees them end, one
// channel, and values whose bytes follow from their sequences.
#ifndef TROUPE_TEST_CHANNELS_H
#define TROUPE_TEST_CHANNELS_H

#include <support.h>

#include <errno.h>
#include <runtime/base/clock.h>
#include <runtime/channel/channel.h>
#include <runtime/channel/reader.h>
#include <runtime/channel/writer.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, FIRST = 10, CAPACITY = 4 << 20, BYTES = 1000 };

TROUPE_UNUSED static void *region;
TROUPE_UNUSED static size_t region_size;
static struct notes {
    _Atomic int ready, count;
    _Atomic uint64_t last;
} * notes;

// ---- processes, as the node makes them and sees them end

static uint64_t incarnations = 1000;

TROUPE_UNUSED static void make_row(uint32_t slot)
{
    trp_process_row *row = trp_segment_process(slot);
    row->incarnation = ++incarnations;
    row->state = TRP_PROCESS_READY;
}

TROUPE_UNUSED static pid_t start(uint32_t slot)
{
    make_row(slot);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A failed test leaves nobody running.
    return child;
}

TROUPE_UNUSED static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

TROUPE_UNUSED static void bury(uint32_t slot)
{
    trp_process_row *row = trp_segment_process(slot);
    (void)snprintf(row->cause, sizeof row->cause, "was killed by signal 9 (Killed)");
    row->state = TRP_PROCESS_DEAD;
}

// ---- channels

TROUPE_UNUSED static void make(uint32_t slots, uint32_t readers, bool latest)
{
    trp_object id;
    trp_channel_shape shape = {
        .bytes = BYTES, .slots = slots, .readers = readers, .latest = latest};
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_store_open(ME);
    make_row(ME);
    trp_process_gate_open();
    assert_int_equal(trp_channel_size(&shape, &region_size), TROUPE_OK);
    assert_int_equal(trp_store_share(region_size, &id, &region), TROUPE_OK);
    trp_channel_init(region, &shape);
    notes = support_zeros(notes, sizeof *notes);
}

TROUPE_UNUSED static trp_channel attach(uint32_t process)
{
    trp_channel channel;
    assert_int_equal(trp_channel_attach(region, region_size, process, &channel), TROUPE_OK);
    return channel;
}

TROUPE_UNUSED static trp_channel_writer open_writer(uint32_t process)
{
    trp_channel channel = attach(process);
    trp_channel_writer writer;
    assert_int_equal(trp_channel_write_open(&channel, &writer), TROUPE_OK);
    return writer;
}

TROUPE_UNUSED static trp_channel_reader open_reader(uint32_t process, int place, bool newest)
{
    trp_channel channel = attach(process);
    trp_channel_reader reader;
    assert_int_equal(trp_channel_read_open(&channel, place, newest, &reader), TROUPE_OK);
    return reader;
}

// ---- values: their sizes and bytes follow from their sequences

TROUPE_UNUSED static size_t size_of(uint64_t sequence)
{
    return (size_t)(sequence * 7919) % (BYTES + 1);
}

TROUPE_UNUSED static bool is_whole(const trp_channel_value *value)
{
    const unsigned char *bytes = value->data;
    if (value->size != size_of(value->sequence))
        return false;
    for (size_t i = 0; i < value->size; i++)
        if (bytes[i] != (unsigned char)(value->sequence * 31 + i))
            return false;
    return true;
}

TROUPE_UNUSED static void fill(const trp_channel_writer *writer, unsigned char *bytes)
{
    for (size_t i = 0; i < size_of(writer->next); i++)
        bytes[i] = (unsigned char)(writer->next * 31 + i);
}

TROUPE_UNUSED static trp_channel_turn write_now(trp_channel_writer *writer)
{
    void *data;
    trp_channel_turn turn = trp_channel_write_begin(writer, &data);
    if (turn != TRP_CHANNEL_READY)
        return turn;
    fill(writer, data);
    if (trp_channel_publish(writer, size_of(writer->next)) != TROUPE_OK)
        abort();
    return turn;
}

// Waits for as long as it takes.
TROUPE_UNUSED static void write_one(trp_channel_writer *writer)
{
    void *data;
    trp_channel_turn turn = trp_channel_write_spin(writer, &data);
    while (turn == TRP_CHANNEL_WAIT)
        turn = trp_channel_write_wait(writer, -1, &data);
    if (write_now(writer) != TRP_CHANNEL_READY)
        abort();
}

TROUPE_UNUSED static trp_channel_turn read_one(trp_channel_reader *reader, trp_channel_value *value)
{
    trp_channel_turn turn = trp_channel_read_spin(reader, false, value);
    while (turn == TRP_CHANNEL_WAIT)
        turn = trp_channel_read_wait(reader, false, -1, value);
    return turn;
}

// Reads what is there now, to the last: whole values that rise, by one each if the channel is
// ordered. What ended it; *last is the last sequence.
TROUPE_UNUSED static trp_channel_turn read_all(trp_channel_reader *reader, bool ordered,
                                               uint64_t *last)
{
    trp_channel_value value;
    trp_channel_turn turn;
    while ((turn = trp_channel_read_begin(reader, false, &value)) == TRP_CHANNEL_READY) {
        if (!is_whole(&value) || value.sequence <= *last ||
            (ordered && *last != 0 && value.sequence != *last + 1)) {
            print_error("sequence %llu of %zu bytes after %llu\n",
                        (unsigned long long)value.sequence, value.size, (unsigned long long)*last);
            return TRP_CHANNEL_STOPPED;
        }
        *last = value.sequence;
        trp_channel_read_end(reader);
    }
    return turn;
}

#endif
