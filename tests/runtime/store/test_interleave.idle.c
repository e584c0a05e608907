// test_interleave.idle.c: scenes of memory that goes back to the system: a process that gives it,
// others that take the same pages meanwhile, and what is free beside them. Nothing is kept, so all
// that is free goes.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/reclaim.h>

enum { SMALL = 10000, HALF_OF_ALL = PAGES / 2 * PAGE };

// ---- what there is

static void give(uint32_t self)
{
    (void)trp_pages_give(self, 0);
}

static void free_pages(void)
{
}

static void cold_pages(void)
{
    give(ME);
}

static void holes(void)
{
    give(ME);
    give(ME);
    EXPLORE_EXPECT(board.memory == 0);
}

// Pages in the middle are B's, all others cold.
static void cold_pages_around_two(void)
{
    trp_object below = scene_make(2 * PAGE, 1);
    ids[0] = scene_make(2 * PAGE, 2);
    scene_give(ids[0], B);
    trp_store_release(ids[0], ME);
    trp_store_release(below, ME);
    give(ME);
}

static void holes_around_two(void)
{
    cold_pages_around_two();
    give(ME);
    EXPLORE_EXPECT(__builtin_popcount(board.memory) == 2);
}

// A free page lies between holes, and there is memory for two more.
static void holes_and_little_memory(void)
{
    trp_object below = scene_make(2 * PAGE, 1), one = scene_make(PAGE, 2);
    trp_store_release(below, ME);
    give(ME);
    give(ME);
    trp_store_release(one, ME);
    scene_limit_memory(3);
}

static void a_slab_without_objects(void)
{
    trp_store_release(scene_make(SMALL, 1), ME);
}

// All of it is one page of the system.
static void a_large_page(void)
{
    atomic_store(&trp_segment.header->huge, 1);
    give(ME);
}

// ---- what is done

static void a_gives(void)
{
    give(A);
}

static void a_gives_twice(void)
{
    give(A);
    give(A);
}

static void b_gives(void)
{
    give(B);
}

// Makes one, if there is room, and drops it. Says with what success in that place.
static void take(size_t size, int value, uint32_t self, int place)
{
    trp_object id = scene_create(size, value);
    scene_post(place, id != 0 ? 2 : 1);
    if (id == 0)
        return;
    scene_seal(id);
    scene_read(id, size, value);
    trp_store_release(id, self);
}

static void a_takes_half(void)
{
    take(HALF_OF_ALL, 3, A, 0);
}

static void b_takes_a_block(void)
{
    take(SMALL, 4, B, 1);
}

static void b_takes_a_page(void)
{
    take(PAGE, 4, B, 1);
}

static void b_takes_half(void)
{
    take(HALF_OF_ALL, 4, B, 1);
}

static void b_takes_all(void)
{
    take(PAGES * PAGE, 4, B, 1);
}

static void c_takes_half(void)
{
    take(HALF_OF_ALL, 5, C, 2);
}

static void b_gives_and_takes_a_page(void)
{
    give(B);
    b_takes_a_page();
}

// What it frees is a run with what is free on either side.
static void b_drops_and_takes_more(void)
{
    trp_store_release(ids[0], B);
    take(6 * PAGE, 4, B, 1);
}

// ---- what is left

static void all_can_be_had(void)
{
    scene_expect_empty();
    scene_limit_memory(PAGES);
    trp_object all = scene_make(PAGES * PAGE, 6);
    scene_read(all, PAGES * PAGE, 6);
    trp_store_release(all, ME);
    scene_expect_empty();
    give(ME);
    give(ME);
    EXPLORE_EXPECT(board.memory == 0);
}

static bool had_room(int place)
{
    return atomic_load(&board.posts[place]) == 2;
}

static void nothing_is_lost(void)
{
    all_can_be_had();
}

static void b_had_room(void)
{
    EXPLORE_EXPECT(explore_died(B) || had_room(1));
    all_can_be_had();
}

static void both_had_room(void)
{
    EXPLORE_EXPECT(explore_died(A) || had_room(0));
    b_had_room();
}

static void both_halves_were_had(void)
{
    EXPLORE_EXPECT(explore_died(C) || had_room(2));
    b_had_room();
}

const explore_scene idle_scenes[] = {
    {.name = "memory goes, and half is taken",
     .set_up = cold_pages,
     .threads = {MAY_DIE(A, a_gives), MAY_DIE(B, b_takes_half)},
     .check = b_had_room},
    {.name = "memory goes, and all is taken",
     .set_up = cold_pages,
     .threads = {MAY_DIE(A, a_gives), MAY_DIE(B, b_takes_all)},
     .check = b_had_room},
    {.name = "what is free for long, and what is not",
     .set_up = free_pages,
     .threads = {MAY_DIE(A, a_gives_twice), LIVES(B, b_takes_a_page)},
     .check = b_had_room},
    {.name = "memory goes beside what is freed",
     .set_up = cold_pages_around_two,
     .threads = {MAY_DIE(A, a_gives), MAY_DIE(B, b_drops_and_takes_more)},
     .check = b_had_room},
    {.name = "holes beside what is freed",
     .set_up = holes_around_two,
     .threads = {MAY_DIE(A, a_gives_twice), MAY_DIE(B, b_drops_and_takes_more)},
     .check = b_had_room},
    {.name = "two give",
     .set_up = cold_pages,
     .threads = {MAY_DIE(A, a_gives), LIVES(B, b_gives)},
     .check = nothing_is_lost},
    {.name = "two give, and half is taken",
     .set_up = cold_pages,
     .threads = {MAY_DIE(A, a_gives), LIVES(B, b_gives), LIVES(C, c_takes_half)},
     .check = nothing_is_lost},
    {.name = "two take holes",
     .set_up = holes,
     .threads = {MAY_DIE(A, a_takes_half), LIVES(B, b_takes_half)},
     .check = both_had_room},
    {.name = "two halves, and memory goes",
     .set_up = cold_pages,
     .threads = {MAY_DIE(A, a_gives), LIVES(B, b_takes_half), LIVES(C, c_takes_half)},
     .check = both_halves_were_had},
    {.name = "no memory for holes",
     .set_up = holes_and_little_memory,
     .threads = {MAY_DIE(A, a_takes_half), LIVES(B, b_takes_a_page)},
     .check = nothing_is_lost},
    {.name = "a slab ends, and its memory goes",
     .set_up = a_slab_without_objects,
     .threads = {MAY_DIE(A, a_gives_twice), LIVES(B, b_takes_a_block)},
     .check = b_had_room},
    {.name = "a large page goes, and a part is taken",
     .set_up = a_large_page,
     .threads = {MAY_DIE(A, a_gives), MAY_DIE(B, b_takes_a_page)},
     .check = b_had_room},
    {.name = "two give a large page",
     .set_up = a_large_page,
     .threads = {MAY_DIE(A, a_gives), MAY_DIE(B, b_gives_and_takes_a_page)},
     .check = b_had_room},
};
const size_t idle_scene_count = sizeof idle_scenes / sizeof *idle_scenes;
