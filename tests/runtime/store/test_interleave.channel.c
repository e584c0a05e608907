// test_interleave.channel.c: scenes of a channel: one writes, others come, read, and go; and whose
// place it was may die.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/channel/channel.h>
#include <runtime/channel/reader.h>
#include <runtime/channel/writer.h>
#include <string.h>

enum { BYTES = 64, VALUE = 40 };

static void *region;
static size_t region_size;

static void make(uint32_t slots, uint32_t readers, bool latest)
{
    trp_channel_shape shape = {
        .bytes = BYTES, .slots = slots, .readers = readers, .latest = latest};
    EXPLORE_EXPECT(trp_channel_size(&shape, &region_size) == TROUPE_OK);
    EXPLORE_EXPECT(trp_store_share(region_size, &ids[0], &region) == TROUPE_OK);
    trp_channel_init(region, &shape);
}

static trp_channel attach(uint32_t process)
{
    trp_channel channel;
    EXPLORE_EXPECT(trp_channel_attach(region, region_size, process, &channel) == TROUPE_OK);
    return channel;
}

static void nothing_is_left(void)
{
    trp_store_release(ids[0], ME);
    scene_expect_empty();
}

static void all_was_read(void)
{
    // Who read to the end has read the last value; none, where that was half overwritten.
    trp_channel channel = attach(ME);
    uint64_t last = atomic_load(&board.posts[3]) - 1;
    if (last != UINT64_MAX)
        EXPLORE_EXPECT(last == trp_channel_see(&channel).published ||
                       (last == 0 && explore_any_died()));
    nothing_is_left();
}

// ---- writing

static trp_channel_writer open_writer(uint32_t process)
{
    trp_channel channel = attach(process);
    trp_channel_writer writer;
    EXPLORE_EXPECT(trp_channel_write_open(&channel, &writer) == TROUPE_OK);
    return writer;
}

// A has the writer's place already: readers wait for one that never comes for ever.
static trp_channel_writer first;

static void one_slot(void)
{
    make(1, 1, false);
    first = open_writer(A);
}

static void one_slot_and_no_writer(void)
{
    make(1, 1, false);
}

static void two_slots(void)
{
    make(2, 1, false);
    first = open_writer(A);
}

static void two_slots_for_two(void)
{
    make(2, 2, false);
    first = open_writer(A);
}

static void the_latest(void)
{
    make(3, 1, true);
    first = open_writer(A);
}

static void write_one(trp_channel_writer *writer)
{
    void *data;
    trp_channel_turn turn = trp_channel_write_spin(writer, &data);
    while (turn == TRP_CHANNEL_WAIT)
        turn = trp_channel_write_wait(writer, -1, &data);
    EXPLORE_EXPECT(turn == TRP_CHANNEL_READY);
    memset(data, 0, VALUE / 2); // Half a value, for a moment.
    explore_point();
    memset(data, (int)writer->next, VALUE);
    EXPLORE_EXPECT(trp_channel_publish(writer, VALUE) == TROUPE_OK);
}

static void write_and_end(int count)
{
    trp_channel_writer writer = first;
    for (int i = 0; i < count; i++)
        write_one(&writer);
    trp_channel_write_close(&writer, true);
}

static void a_writes_one(void)
{
    write_and_end(1);
}

static void a_writes_two(void)
{
    write_and_end(2);
}

static void a_writes_three(void)
{
    write_and_end(3);
}

static void a_writes_five(void)
{
    write_and_end(5);
}

// A gives its place up to the next writer.
static void a_writes_one_for_c(void)
{
    trp_channel_writer writer = first;
    write_one(&writer);
    trp_channel_write_close(&writer, false);
    scene_post(0, 1);
}

static void c_writes_after_a(void)
{
    trp_channel channel = attach(C);
    trp_channel_writer writer;
    if (scene_await(0, A) ==
        0) // A has died: its place is free when the node process has seen that.
        while (trp_channel_write_open(&channel, &writer) != TROUPE_OK)
            explore_wait(&board.posts[2], 0, true);
    else
        EXPLORE_EXPECT(trp_channel_write_open(&channel, &writer) == TROUPE_OK);
    write_one(&writer);
    trp_channel_write_close(&writer, true);
}

static void a_opens(void)
{
    trp_channel channel = attach(A);
    trp_channel_writer writer;
    if (trp_channel_write_open(&channel, &writer) != TROUPE_OK)
        return;
    scene_post(0, 1);
    EXPLORE_EXPECT(atomic_load(&board.posts[1]) == 0 || explore_any_died());
    scene_post(0, 0);
    trp_channel_write_close(&writer, false);
}

static void b_opens(void)
{
    trp_channel channel = attach(B);
    trp_channel_writer writer;
    if (trp_channel_write_open(&channel, &writer) != TROUPE_OK)
        return;
    scene_post(1, 1);
    EXPLORE_EXPECT(atomic_load(&board.posts[0]) == 0 || explore_any_died());
    scene_post(1, 0);
    trp_channel_write_close(&writer, false);
}

// ---- reading

static bool is_whole(const trp_channel_value *value)
{
    const unsigned char *bytes = value->data;
    return value->size == VALUE && bytes[0] == (unsigned char)value->sequence &&
           memcmp(bytes, bytes + 1, VALUE - 1) == 0;
}

static trp_channel_turn read_one(trp_channel_reader *reader, uint64_t *last, bool ordered)
{
    trp_channel_value value;
    trp_channel_turn turn = trp_channel_read_spin(reader, false, &value);
    while (turn == TRP_CHANNEL_WAIT)
        turn = trp_channel_read_wait(reader, false, -1, &value);
    if (turn != TRP_CHANNEL_READY)
        return turn;
    EXPLORE_EXPECT(is_whole(&value));
    explore_point();
    EXPLORE_EXPECT(is_whole(&value));
    EXPLORE_EXPECT(value.sequence > *last);
    EXPLORE_EXPECT(!ordered || *last == 0 || value.sequence == *last + 1);
    *last = value.sequence;
    trp_channel_read_end(reader);
    return turn;
}

// Reads to the end. Returns the last sequence.
static uint64_t read_all(uint32_t process, int place, bool newest, bool ordered)
{
    trp_channel channel = attach(process);
    trp_channel_reader reader;
    uint64_t last = 0;
    EXPLORE_EXPECT(trp_channel_read_open(&channel, place, newest, &reader) == TROUPE_OK);
    trp_channel_turn turn;
    while ((turn = read_one(&reader, &last, ordered)) == TRP_CHANNEL_READY)
        continue;
    EXPLORE_EXPECT(turn == TRP_CHANNEL_END || (turn == TRP_CHANNEL_LOST && explore_any_died()));
    scene_post(3, last + 1);
    trp_channel_read_close(&reader);
    return last;
}

static void b_reads_all(void)
{
    (void)read_all(B, TRP_CHANNEL_ANY, false, true);
}

static void b_reads_the_newest(void)
{
    (void)read_all(B, TRP_CHANNEL_ANY, true, true);
}

static void b_reads_the_latest(void)
{
    (void)read_all(B, TRP_CHANNEL_ANY, false, false);
}

static void c_reads_all(void)
{
    (void)read_all(C, TRP_CHANNEL_ANY, false, true);
}

// Was there before the writer: it misses nothing.
static void b_reads_from_the_start(void)
{
    trp_channel channel = attach(B);
    trp_channel_reader reader;
    uint64_t last = 0;
    EXPLORE_EXPECT(trp_channel_read_open(&channel, 0, false, &reader) == TROUPE_OK);
    scene_post(0, 1);
    while (read_one(&reader, &last, true) == TRP_CHANNEL_READY)
        continue;
    EXPLORE_EXPECT(last == 3 || explore_any_died());
    trp_channel_read_close(&reader);
}

static void a_writes_when_b_is_there(void)
{
    if (scene_await(0, B) != 0)
        a_writes_three();
}

static void b_reads_one_and_goes(void)
{
    trp_channel channel = attach(B);
    trp_channel_reader reader;
    uint64_t last = 0;
    if (trp_channel_read_open(&channel, 0, false, &reader) != TROUPE_OK)
        return;
    (void)read_one(&reader, &last, true);
    trp_channel_read_close(&reader);
}

// Has the place after B, or before, or not at all.
static void c_follows_b(void)
{
    trp_channel channel = attach(C);
    trp_channel_reader reader;
    uint64_t last = 0;
    if (trp_channel_read_open(&channel, 0, false, &reader) != TROUPE_OK)
        return;
    while (read_one(&reader, &last, true) == TRP_CHANNEL_READY)
        continue;
    trp_channel_read_close(&reader);
}

const explore_scene channel_scenes[] = {
    {.name = "one slot, in order",
     .set_up = one_slot,
     .threads = {MAY_DIE(A, a_writes_two), LIVES(B, b_reads_all)},
     .check = all_was_read},
    {.name = "one slot, its reader dies",
     .set_up = one_slot,
     .threads = {LIVES(A, a_writes_two), MAY_DIE(B, b_reads_all)},
     .check = all_was_read},
    {.name = "a reader comes",
     .set_up = two_slots,
     .threads = {LIVES(A, a_writes_three), MAY_DIE(B, b_reads_all)},
     .check = all_was_read},
    {.name = "a reader of the newest comes",
     .set_up = two_slots,
     .threads = {LIVES(A, a_writes_three), LIVES(B, b_reads_the_newest)},
     .check = all_was_read},
    {.name = "a reader misses nothing",
     .set_up = two_slots,
     .threads = {MAY_DIE(A, a_writes_when_b_is_there), LIVES(B, b_reads_from_the_start)},
     .check = all_was_read},
    {.name = "two readers",
     .set_up = two_slots_for_two,
     .threads = {MAY_DIE(A, a_writes_two), LIVES(B, b_reads_all), LIVES(C, c_reads_all)},
     .check = all_was_read},
    {.name = "a reader goes, another takes its place",
     .set_up = one_slot,
     .threads = {LIVES(A, a_writes_two), MAY_DIE(B, b_reads_one_and_goes), LIVES(C, c_follows_b)},
     .check = all_was_read},
    {.name = "the latest alone",
     .set_up = the_latest,
     .threads = {MAY_DIE(A, a_writes_five), LIVES(B, b_reads_the_latest)},
     .check = all_was_read},
    {.name = "the latest, its reader dies",
     .set_up = the_latest,
     .threads = {LIVES(A, a_writes_five), MAY_DIE(B, b_reads_the_latest)},
     .check = all_was_read},
    {.name = "two want to write",
     .set_up = one_slot_and_no_writer,
     .threads = {MAY_DIE(A, a_opens), LIVES(B, b_opens)},
     .check = all_was_read},
    {.name = "a writer follows a writer",
     .set_up = two_slots,
     .threads = {MAY_DIE(A, a_writes_one_for_c), LIVES(C, c_writes_after_a), LIVES(B, b_reads_all)},
     .check = nothing_is_left},
    {.name = "one value and the end",
     .set_up = two_slots,
     .threads = {MAY_DIE(A, a_writes_one), LIVES(B, b_reads_all)},
     .check = all_was_read},
};
const size_t channel_scene_count = sizeof channel_scenes / sizeof *channel_scenes;
