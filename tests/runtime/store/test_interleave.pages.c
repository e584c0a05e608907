// test_interleave.pages.c: scenes of space: runs of pages that run into each other, and slabs that
// are made, shared and given back.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/shm/layout.h>

enum { SMALL = 10000, HALF = PAGE / 2 }; // Six to a page, and two.

static void nothing(void)
{
}

// No page has memory yet: they find that as they go.
static void no_memory_yet(void)
{
    atomic_store(&trp_segment.header->pages_backed, 0);
    EXPLORE_EXPECT(scene_unback(trp_segment.header->data_at, PAGES * PAGE));
}

// Makes one of that size, if there is room, and drops it. Says with what success in that place.
static void make_and_drop(size_t size, int value, uint32_t self, int place)
{
    trp_object id = scene_create(size, value);
    scene_post(place, id != 0 ? 2 : 1);
    if (id == 0)
        return;
    scene_seal(id);
    scene_read(id, size, value);
    trp_store_release(id, self);
}

static bool had_room(int place)
{
    return atomic_load(&board.posts[place]) == 2;
}

static void a_takes_half_of_all(void)
{
    make_and_drop(PAGES / 2 * PAGE, 1, A, 0);
}

static void b_takes_half_of_all(void)
{
    make_and_drop(PAGES / 2 * PAGE, 2, B, 1);
}

static void b_takes_all(void)
{
    make_and_drop(PAGES * PAGE, 2, B, 1);
}

static void a_takes_a_page(void)
{
    make_and_drop(PAGE, 1, A, 0);
}

static void b_takes_a_page(void)
{
    make_and_drop(PAGE, 2, B, 1);
}

static void a_takes_a_block(void)
{
    make_and_drop(SMALL, 1, A, 0);
}

static void b_takes_a_block(void)
{
    make_and_drop(SMALL, 2, B, 1);
}

static void a_takes_half_a_page(void)
{
    make_and_drop(HALF, 1, A, 0);
}

static void b_takes_half_a_page(void)
{
    make_and_drop(HALF, 2, B, 1);
}

static void c_takes_half_a_page(void)
{
    make_and_drop(HALF, 3, C, 2);
}

static void both_had_room(void)
{
    EXPLORE_EXPECT(explore_any_died() || (had_room(0) && had_room(1)));
    scene_expect_empty();
}

static void one_had_room(void)
{
    EXPLORE_EXPECT(explore_any_died() || had_room(0) || had_room(1));
    scene_expect_empty();
}

// One page is left, and it is a slab of blocks of that size.
static void all_but_an_empty_slab(size_t size)
{
    ids[0] = scene_make((PAGES - 1) * PAGE, 9);
    trp_store_release(scene_make(size, 8), ME);
}

static void all_but_a_slab_of_small_ones(void)
{
    all_but_an_empty_slab(SMALL);
}

static void all_but_a_slab_of_halves(void)
{
    all_but_an_empty_slab(HALF);
}

static void all_but_one_page(void)
{
    ids[0] = scene_make((PAGES - 1) * PAGE, 9);
}

// ... of which one block is taken.
static void all_but_half_a_page(void)
{
    ids[0] = scene_make((PAGES - 1) * PAGE, 9);
    ids[1] = scene_make(HALF, 8);
    scene_give(ids[1], B);
    trp_store_release(ids[1], ME);
}

static void b_frees_a_half(void)
{
    trp_store_release(ids[1], B);
}

static void the_rest_is_as_it_was(void)
{
    scene_read(ids[0], (PAGES - 1) * PAGE, 9);
    trp_store_release(ids[0], ME);
}

static void one_had_the_rest(void)
{
    the_rest_is_as_it_was();
    one_had_room();
}

static void both_had_the_rest(void)
{
    the_rest_is_as_it_was();
    both_had_room();
}

static void a_had_the_rest(void)
{
    the_rest_is_as_it_was();
    EXPLORE_EXPECT(explore_any_died() || had_room(0));
    scene_expect_empty();
}

static void somebody_had_the_rest(void)
{
    the_rest_is_as_it_was();
    EXPLORE_EXPECT(explore_any_died() || had_room(0) || had_room(1) || had_room(2));
    scene_expect_empty();
}

const explore_scene page_scenes[] = {
    {.name = "two halves of the store",
     .set_up = no_memory_yet,
     .threads = {MAY_DIE(A, a_takes_half_of_all), LIVES(B, b_takes_half_of_all)},
     .check = both_had_room},
    {.name = "half of the store and all of it",
     .set_up = no_memory_yet,
     .threads = {MAY_DIE(A, a_takes_half_of_all), LIVES(B, b_takes_all)},
     .check = one_had_room},
    {.name = "a block and a page",
     .set_up = nothing,
     .threads = {MAY_DIE(A, a_takes_a_block), LIVES(B, b_takes_a_page)},
     .check = both_had_room},
    {.name = "two blocks of one kind",
     .set_up = nothing,
     .threads = {MAY_DIE(A, a_takes_a_block), LIVES(B, b_takes_a_block)},
     .check = both_had_room},
    {.name = "a slab ends while it is used",
     .set_up = all_but_a_slab_of_small_ones,
     .threads = {MAY_DIE(A, a_takes_a_block), LIVES(B, b_takes_a_page)},
     .check = one_had_the_rest},
    {.name = "who ends a slab dies",
     .set_up = all_but_a_slab_of_small_ones,
     .threads = {MAY_DIE(A, a_takes_a_page), LIVES(B, b_takes_a_block)},
     .check = one_had_the_rest},
    {.name = "two end a slab",
     .set_up = all_but_a_slab_of_small_ones,
     .threads = {MAY_DIE(A, a_takes_a_page), LIVES(B, b_takes_a_page)},
     .check = one_had_the_rest},
    {.name = "two make the last slab",
     .set_up = all_but_one_page,
     .threads = {MAY_DIE(A, a_takes_a_block), LIVES(B, b_takes_a_block)},
     .check = one_had_the_rest},
    {.name = "two share the last slab",
     .set_up = all_but_a_slab_of_halves,
     .threads = {MAY_DIE(A, a_takes_half_a_page), LIVES(B, b_takes_half_a_page)},
     .check = both_had_the_rest},
    {.name = "three and the last slab of two",
     .set_up = all_but_a_slab_of_halves,
     .threads = {MAY_DIE(A, a_takes_half_a_page), LIVES(B, b_takes_half_a_page),
                 LIVES(C, c_takes_half_a_page)},
     .check = somebody_had_the_rest},
    {.name = "a slab becomes full, and has room again",
     .set_up = all_but_half_a_page,
     .threads = {MAY_DIE(A, a_takes_half_a_page), LIVES(B, b_frees_a_half)},
     .check = a_had_the_rest},
};
const size_t page_scene_count = sizeof page_scenes / sizeof *page_scenes;
