// test_interleave.small.c: scenes of small objects that go to the file that they share: each has a
// part of its own there, which is a hole again when the object is gone.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/shm/layout.h>
#include <runtime/store/read.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <string.h>

enum { SIZE = 100 };

static void save(trp_object id)
{
    uint64_t word;
    if (trp_row_find(id, &word) != NULL)
        (void)trp_where_save(trp_row_slot(id), word);
}

static void share(trp_spill_sharing sharing)
{
    atomic_store(&trp_segment.header->spill_sharing, sharing);
}

// ids[i], held by the first and by the second.
static void make(int i, int value, uint32_t first, uint32_t second)
{
    ids[i] = scene_make(SIZE, value);
    scene_give(ids[i], first);
    if (second != first)
        scene_give(ids[i], second);
    trp_store_release(ids[i], ME);
}

// A's and B's, and nobody has asked yet whether files have holes here.
static void one_for_each(void)
{
    make(0, 1, A, A);
    make(1, 2, B, B);
    share(TRP_SPILL_UNDECIDED);
}

static void one_for_b(void)
{
    make(0, 1, B, B);
    share(TRP_SPILL_TOGETHER);
}

static void one_on_disk(void)
{
    make(0, 1, A, B);
    share(TRP_SPILL_TOGETHER);
    save(ids[0]);
    EXPLORE_EXPECT(trp_store_look(ids[0]).on_disk);
    scene_keep_file();
}

static void one_on_disk_and_one_for_b(void)
{
    one_on_disk();
    make(1, 2, B, B);
}

static void a_saves_and_reads(void)
{
    save(ids[0]);
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], A);
}

static void a_saves(void)
{
    save(ids[0]);
}

static void a_drops(void)
{
    trp_store_release(ids[0], A);
}

static void a_reads_and_drops(void)
{
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], A);
}

static void b_saves_and_reads_its_own(void)
{
    save(ids[1]);
    scene_read(ids[1], SIZE, 2);
    trp_store_release(ids[1], B);
}

static void b_reads(void)
{
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], B);
}

// Which most often has the same row, and so the same part of the file.
static void b_drops_and_saves_another(void)
{
    trp_store_release(ids[0], B);
    trp_object next = scene_make(SIZE, 3);
    save(next);
    scene_read(next, SIZE, 3);
    trp_store_release(next, B);
}

static void b_drops_all_and_saves(void)
{
    trp_store_release(ids[0], B);
    b_saves_and_reads_its_own();
}

static void nothing_is_left(void)
{
    scene_expect_empty();
    scene_expect_no_files();
}

// ---- files alone: whoever asks late whether they have holes may find others' parts in use

static void nobody_has_asked(void)
{
    share(TRP_SPILL_UNDECIDED);
}

// As the row of that number would.
static void write_and_read(uint32_t slot, char value)
{
    trp_spill_object object = {.id = trp_row_id(slot, 1), .size = SIZE, .schema = 1};
    char bytes[SIZE], back[SIZE];
    memset(bytes, value, SIZE);
    EXPLORE_EXPECT(trp_spill_write(&object, bytes) == TROUPE_OK);
    explore_point();
    if (trp_spill_read(&object, back) != TROUPE_OK)
        explore_fail("%s", troupe_last_error()->text);
    EXPLORE_EXPECT(memcmp(bytes, back, SIZE) == 0);
    trp_spill_remove(&object);
}

static void a_uses_the_first_part(void)
{
    write_and_read(0, 1);
}

static void b_uses_the_last_part(void)
{
    write_and_read(TRP_OBJECTS_MAX - 1, 2);
}

static void no_part_is_left(void)
{
    scene_expect_no_files();
}

const explore_scene small_scenes[] = {
    {.name = "the first and the last part",
     .set_up = nobody_has_asked,
     .threads = {LIVES(A, a_uses_the_first_part), LIVES(B, b_uses_the_last_part)},
     .check = no_part_is_left},
    {.name = "two go to one file",
     .set_up = one_for_each,
     .threads = {MAY_DIE(A, a_saves_and_reads), LIVES(B, b_saves_and_reads_its_own)},
     .check = nothing_is_left},
    {.name = "one goes, and its part is used again",
     .set_up = one_for_b,
     .threads = {MAY_DIE(A, a_saves), LIVES(B, b_drops_and_saves_another)},
     .check = nothing_is_left},
    {.name = "one comes, and its part is used again",
     .set_up = one_on_disk,
     .threads = {MAY_DIE(A, a_reads_and_drops), LIVES(B, b_drops_and_saves_another)},
     .check = nothing_is_left},
    {.name = "one is dropped, another goes",
     .set_up = one_on_disk_and_one_for_b,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops_all_and_saves)},
     .check = nothing_is_left},
    {.name = "one comes for two from the file of all",
     .set_up = one_on_disk,
     .threads = {LIVES(A, a_reads_and_drops), MAY_DIE(B, b_reads)},
     .check = nothing_is_left},
};
const size_t small_scene_count = sizeof small_scenes / sizeof *small_scenes;
