// test_interleave.store.c: scenes of objects' lives: making, holding, passing on and dropping them.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/store/holds.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/row.h>

enum { SIZE = 100 };

// ids[0], sealed, is held by A and B.
static void held_by_two(void)
{
    ids[0] = scene_make(SIZE, 1);
    scene_give(ids[0], A);
    scene_give(ids[0], B);
    trp_store_release(ids[0], ME);
}

static void a_drops(void)
{
    trp_store_release(ids[0], A);
}

static void b_drops(void)
{
    trp_store_release(ids[0], B);
}

static void nothing_is_left(void)
{
    scene_expect_empty();
}

// ---- a hold that wanders

static void b_passes_on_to_c(void)
{
    scene_give(ids[0], C);
    scene_post(0, ids[0]);
    trp_store_release(ids[0], B);
}

static void c_reads_what_comes(void)
{
    if (scene_await(0, B) == 0)
        return;
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], C);
}

// Who died between the hold and the message has left a hold, until the receiver ends.
static void nothing_is_left_but_for_c(void)
{
    if (explore_died(B))
        trp_store_sweep(C);
    scene_expect_empty();
}

// The reader of the holds looks at C first, and the hold is passed behind its back.
static void held_by_a_and_c(void)
{
    ids[0] = scene_make(SIZE, 1);
    scene_give(ids[0], A);
    scene_give(ids[0], C);
    trp_store_release(ids[0], ME);
}

static void c_passes_on_to_b(void)
{
    scene_give(ids[0], B);
    scene_post(0, ids[0]);
    trp_store_release(ids[0], C);
}

static void b_reads_what_comes(void)
{
    if (scene_await(0, C) == 0)
        return;
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], B);
}

static void nothing_is_left_but_for_b(void)
{
    if (explore_died(C))
        trp_store_sweep(B);
    scene_expect_empty();
}

// ---- drops, and the row is used again

static void b_drops_and_makes_another(void)
{
    trp_store_release(ids[0], B);
    trp_object next = scene_make(SIZE, 2);
    EXPLORE_EXPECT(next != ids[0]);
    scene_read(next, SIZE, 2);
    trp_store_release(next, B);
}

static void a_reads_and_drops(void)
{
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], A);
}

static void held_by_three(void)
{
    held_by_two();
    scene_give(ids[0], C);
}

static void c_drops(void)
{
    trp_store_release(ids[0], C);
}

// ---- what nobody else knows of

// A has made it, and holds it twice.
static void a_makes_and_gives(void)
{
    trp_object id = scene_make(SIZE, 1);
    EXPLORE_EXPECT(trp_store_hold(id, A) == TROUPE_OK);
    scene_post(1, id);
    scene_give(id, B);
    scene_post(0, id);
    trp_store_release(id, A);
}

static void a_drops_the_second(void)
{
    uint64_t id = scene_await(1, A);
    if (id != 0)
        trp_store_release(id, A);
}

static void b_reads_what_is_posted(void)
{
    uint64_t id = scene_await(0, A);
    if (id == 0)
        return;
    scene_read(id, SIZE, 1);
    trp_store_release(id, B);
}

static void nothing(void)
{
}

static void nothing_is_left_but_for_the_given(void)
{
    if (explore_died(A))
        trp_store_sweep(B);
    scene_expect_empty();
}

// ---- gifts to the dead

static void a_gives_to_c_and_drops(void)
{
    (void)trp_store_hold(ids[0], C);
    scene_post(0, ids[0]);
    trp_store_release(ids[0], A);
}

static void c_makes_and_reads(void)
{
    trp_object id = scene_make(SIZE, 3);
    trp_store_release(id, C);
    if (scene_await(0, A) == 0)
        return;
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], C);
}

static void held_by_four(void)
{
    held_by_two();
    scene_give(ids[0], ME);
}

// The next process of C's number is not taken for the holder of what C was given.
static void nothing_is_left_to_the_next(void)
{
    if (explore_died(C))
        trp_store_admit(C);
    else
        trp_store_release(ids[0], C);
    trp_store_release(ids[0], ME);
    scene_expect_empty();
}

// ---- what was lent is taken back, while the number is given to another process

// ids[0] is held by A, which has lent it to C, and by B.
static void lent_to_c(void)
{
    held_by_two();
    scene_give(ids[0], C);
    scene_reuse_numbers();
}

static void a_takes_back(void)
{
    trp_store_take_back(ids[0], C, SCENE_INCARNATION + C);
    trp_store_release(ids[0], A);
}

static void c_idles(void)
{
    explore_point();
}

// Lends it to the next process of C's number, if there is one.
static void b_lends_to_the_next(void)
{
    if (explore_any_died() && scene_await(SCENE_REUSED, C + 1) != 0) {
        EXPLORE_EXPECT(trp_store_lend(ids[0], C, SCENE_INCARNATION + C + 1) == TROUPE_OK);
        scene_post(0, 1);
    }
    trp_store_release(ids[0], B);
}

static void the_next_has_what_was_lent(void)
{
    if (atomic_load(&board.posts[0]) != 0)
        EXPLORE_EXPECT(trp_ledger_holds(C, trp_row_slot(ids[0])));
    trp_store_release(ids[0], C);
    scene_expect_empty();
}

// ---- promises

static void promised_by_a_to_b(void)
{
    // By A, as its row says: this process makes it in its name.
    trp_store_open(A);
    EXPLORE_EXPECT(trp_store_promise(1, &ids[0]) == TROUPE_OK);
    trp_store_open(ME);
    scene_give(ids[0], B);
}

static void a_fulfils(void)
{
    static const char value[SIZE] = {1};
    if (trp_store_fulfil(ids[0], TRP_ENCODING_BYTES, value, SIZE, false) == TROUPE_OK)
        scene_post(2, atomic_load(&board.posts[2]) + 1);
}

static void a_fulfils_and_drops(void)
{
    a_fulfils();
    trp_store_release(ids[0], A);
}

static void a_gives_up(void)
{
    trp_store_discard(ids[0]);
}

static void b_waits_and_drops(void)
{
    trp_object_info info = trp_store_wait(ids[0], -1);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED || info.state == TRP_OBJECT_FAILED);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED || explore_any_died());
    if (info.state == TRP_OBJECT_SEALED) {
        info = trp_store_pin(ids[0]);
        EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED && *(const char *)info.data == 1);
        trp_store_unpin(ids[0]);
    }
    trp_store_release(ids[0], B);
}

static void b_waits_for_a_failure(void)
{
    trp_object_info info = trp_store_wait(ids[0], -1);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_FAILED);
    trp_store_release(ids[0], B);
}

static void one_has_fulfilled(void)
{
    if (!explore_any_died())
        EXPLORE_EXPECT(atomic_load(&board.posts[2]) == 1);
    trp_store_release(ids[0], A);
    scene_expect_empty();
}

// ---- sealing

static void filled_by_a(void)
{
    trp_store_open(A);
    ids[0] = scene_create(SIZE, 1);
    trp_store_open(ME);
    EXPLORE_EXPECT(ids[0] != 0);
}

static void a_seals(void)
{
    scene_seal(ids[0]);
}

// ---- pins

static void b_views_and_drops(void)
{
    scene_read(ids[0], SIZE, 1);
    trp_store_release(ids[0], B);
}

// ---- many at once

static void a_makes_two(void)
{
    trp_object first = scene_make(SIZE, 4), second = scene_make(SIZE, 5);
    scene_read(first, SIZE, 4);
    trp_store_release(first, A);
    scene_read(second, SIZE, 5);
    trp_store_release(second, A);
}

static void b_makes_one(void)
{
    trp_object id = scene_make(SIZE, 6);
    scene_read(id, SIZE, 6);
    trp_store_release(id, B);
}

static void b_looks_at_a_stale_one(void)
{
    trp_object_info info = trp_store_look(ids[0]);
    if (info.state == TRP_OBJECT_GONE)
        EXPLORE_EXPECT(trp_store_hold(ids[0], B) != TROUPE_OK);
}

const explore_scene store_scenes[] = {
    {.name = "two drops",
     .set_up = held_by_two,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops)},
     .check = nothing_is_left},
    {.name = "three drops",
     .set_up = held_by_three,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops), LIVES(C, c_drops)},
     .check = nothing_is_left},
    {.name = "a drop, and the place is used again",
     .set_up = held_by_two,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops_and_makes_another)},
     .check = nothing_is_left},
    {.name = "a hold wanders up",
     .set_up = held_by_two,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_passes_on_to_c), LIVES(C, c_reads_what_comes)},
     .check = nothing_is_left},
    {.name = "a hold wanders down",
     .set_up = held_by_a_and_c,
     .threads = {MAY_DIE(A, a_drops), LIVES(C, c_passes_on_to_b), LIVES(B, b_reads_what_comes)},
     .check = nothing_is_left},
    {.name = "a giver dies",
     .set_up = held_by_two,
     .threads = {LIVES(A, a_drops), MAY_DIE(B, b_passes_on_to_c), LIVES(C, c_reads_what_comes)},
     .check = nothing_is_left_but_for_c},
    {.name = "a giver below dies",
     .set_up = held_by_a_and_c,
     .threads = {LIVES(A, a_drops), MAY_DIE(C, c_passes_on_to_b), LIVES(B, b_reads_what_comes)},
     .check = nothing_is_left_but_for_b},
    {.name = "a receiver dies",
     .set_up = held_by_two,
     .threads = {LIVES(A, a_gives_to_c_and_drops), LIVES(B, b_drops),
                 MAY_DIE(C, c_makes_and_reads)},
     .check = nothing_is_left},
    {.name = "a receiver dies, another takes its number",
     .set_up = held_by_four,
     .threads = {LIVES(A, a_gives_to_c_and_drops), LIVES(B, b_drops), MAY_DIE(C, c_idles)},
     .check = nothing_is_left_to_the_next},
    {.name = "a reader and a drop",
     .set_up = held_by_two,
     .threads = {MAY_DIE(A, a_reads_and_drops), LIVES(B, b_views_and_drops)},
     .check = nothing_is_left},
    {.name = "two threads of one maker",
     .set_up = nothing,
     .threads = {MAY_DIE(A, a_makes_and_gives), MAY_DIE(A, a_drops_the_second),
                 LIVES(B, b_reads_what_is_posted)},
     .check = nothing_is_left_but_for_the_given},
    {.name = "what was lent is taken back",
     .set_up = lent_to_c,
     .threads = {LIVES(A, a_takes_back), LIVES(B, b_lends_to_the_next), MAY_DIE(C, c_idles)},
     .check = the_next_has_what_was_lent},
    {.name = "a promise is kept",
     .set_up = promised_by_a_to_b,
     .threads = {MAY_DIE(A, a_fulfils_and_drops), LIVES(B, b_waits_and_drops)},
     .check = nothing_is_left},
    {.name = "two keep a promise",
     .set_up = promised_by_a_to_b,
     .threads = {MAY_DIE(A, a_fulfils), MAY_DIE(A, a_fulfils), LIVES(B, b_waits_and_drops)},
     .check = one_has_fulfilled},
    {.name = "a promise is given up",
     .set_up = promised_by_a_to_b,
     .threads = {MAY_DIE(A, a_gives_up), LIVES(B, b_waits_for_a_failure)},
     .check = nothing_is_left},
    {.name = "a promise that was dropped is kept",
     .set_up = promised_by_a_to_b,
     .threads = {MAY_DIE(A, a_fulfils), MAY_DIE(A, a_drops), LIVES(B, b_drops)},
     .check = nothing_is_left},
    {.name = "sealing and dropping",
     .set_up = filled_by_a,
     .threads = {MAY_DIE(A, a_seals), MAY_DIE(A, a_drops)},
     .check = nothing_is_left},
    {.name = "two make",
     .set_up = nothing,
     .threads = {MAY_DIE(A, a_makes_two), LIVES(B, b_makes_one)},
     .check = nothing_is_left},
    {.name = "a stale look",
     .set_up = held_by_two,
     .threads = {LIVES(A, a_drops), MAY_DIE(B, b_drops_and_makes_another),
                 LIVES(C, b_looks_at_a_stale_one)},
     .check = nothing_is_left},
};
const size_t store_scene_count = sizeof store_scenes / sizeof *store_scenes;
