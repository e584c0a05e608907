// test_interleave.where.c: scenes of objects that go to disk and come back.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/store/eviction.h>
#include <runtime/store/read.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>

enum { SIZE = 100 };

static void save(trp_object id)
{
    uint64_t word;
    if (trp_row_find(id, &word) != NULL)
        (void)trp_where_save(trp_row_slot(id), word);
}

// ids[0] is held by A and B.
static void in_memory(void)
{
    ids[0] = scene_make(SIZE, 1);
    scene_give(ids[0], A);
    scene_give(ids[0], B);
    trp_store_release(ids[0], ME);
}

static void on_disk(void)
{
    in_memory();
    save(ids[0]);
    EXPLORE_EXPECT(trp_store_look(ids[0]).on_disk);
    scene_keep_file();
}

static void in_memory_for_b(void)
{
    in_memory();
    trp_store_release(ids[0], A);
}

static void on_disk_for_b(void)
{
    on_disk();
    trp_store_release(ids[0], A);
}

static void saves(void)
{
    save(ids[0]);
}

static void a_saves_and_drops(void)
{
    save(ids[0]);
    trp_store_release(ids[0], A);
}

static void a_drops(void)
{
    trp_store_release(ids[0], A);
}

static void a_reads(void)
{
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], A);
}

static void b_reads(void)
{
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], B);
}

static void b_reads_twice(void)
{
    scene_read(ids[0], SIZE, 1);
    b_reads();
}

static void b_drops(void)
{
    trp_store_release(ids[0], B);
}

static void b_saves_and_reads(void)
{
    save(ids[0]);
    b_reads();
}

static void b_makes_another(void)
{
    trp_store_release(ids[0], B);
    trp_object next = scene_make(SIZE, 2);
    scene_read(next, SIZE, 2);
    trp_store_release(next, B);
}

static void nothing_is_left(void)
{
    scene_expect_empty();
    scene_expect_no_files();
}

// ---- room

// The store is full of what B holds.
static void full(void)
{
    ids[0] = scene_make(PAGES * PAGE, 1);
    scene_give(ids[0], B);
    trp_store_release(ids[0], ME);
}

// As who waits for room does (actors/ref/store_wait.c).
static void a_waits_for_room(void)
{
    trp_object id = 0;
    while (id == 0) {
        uint32_t seen = trp_room_expect();
        id = scene_create(PAGE, 2);
        if (id == 0)
            trp_room_wait(seen, 1000);
    }
    scene_seal(id);
    trp_store_release(id, A);
}

const explore_scene where_scenes[] = {
    {.name = "one goes, and is read",
     .set_up = in_memory,
     .threads = {MAY_DIE(A, a_saves_and_drops), LIVES(B, b_reads_twice)},
     .check = nothing_is_left},
    {.name = "one goes, its reader dies",
     .set_up = in_memory,
     .threads = {LIVES(A, a_saves_and_drops), MAY_DIE(B, b_reads)},
     .check = nothing_is_left},
    {.name = "one goes, and is dropped",
     .set_up = in_memory_for_b,
     .threads = {MAY_DIE(A, saves), LIVES(B, b_drops)},
     .check = nothing_is_left},
    {.name = "one goes, and its place is used again",
     .set_up = in_memory_for_b,
     .threads = {MAY_DIE(A, saves), LIVES(B, b_makes_another)},
     .check = nothing_is_left},
    {.name = "two move one",
     .set_up = in_memory,
     .threads = {MAY_DIE(A, a_saves_and_drops), LIVES(B, b_saves_and_reads)},
     .check = nothing_is_left},
    {.name = "one comes for two",
     .set_up = on_disk,
     .threads = {MAY_DIE(A, a_reads), LIVES(B, b_reads)},
     .check = nothing_is_left},
    {.name = "one comes, and is dropped",
     .set_up = on_disk,
     .threads = {LIVES(A, a_drops), MAY_DIE(B, b_reads)},
     .check = nothing_is_left},
    {.name = "one comes, and goes again",
     .set_up = on_disk_for_b,
     .threads = {MAY_DIE(A, saves), LIVES(B, b_reads_twice)},
     .check = nothing_is_left},
    {.name = "one goes, is read, and is dropped",
     .set_up = in_memory,
     .threads = {MAY_DIE(C, saves), LIVES(A, a_reads), LIVES(B, b_drops)},
     .check = nothing_is_left},
    {.name = "waiting for room",
     .set_up = full,
     .threads = {MAY_DIE(A, a_waits_for_room), MAY_DIE(B, b_drops)},
     .check = nothing_is_left},
};
const size_t where_scene_count = sizeof where_scenes / sizeof *where_scenes;
