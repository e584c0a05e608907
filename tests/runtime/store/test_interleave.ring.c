// test_interleave.ring.c: scenes of promises whose values name others: what they name is neither
// lost nor held twice, and no promise comes to name itself, near or far.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/row.h>

enum { SIZE = 100 };

// Of who makes one: ids[i] is its promise, and `others` hold it too.
static void promise(int i, uint32_t maker, uint32_t first, uint32_t second)
{
    trp_store_open(maker);
    EXPLORE_EXPECT(trp_store_promise(1, &ids[i]) == TROUPE_OK);
    EXPLORE_EXPECT(trp_store_hold(ids[i], first) == TROUPE_OK);
    if (second != first)
        EXPLORE_EXPECT(trp_store_hold(ids[i], second) == TROUPE_OK);
    trp_store_open(ME);
}

// What names another one, which its maker goes on to hold, and is held by it.
static trp_object make_list(trp_object named)
{
    trp_object list;
    void *data;
    EXPLORE_EXPECT(trp_store_create(sizeof named, 1, TRP_ENCODING_INNER, &list, &data) ==
                   TROUPE_OK);
    EXPLORE_EXPECT(trp_store_hold(named, trp_store_self) == TROUPE_OK);
    atomic_store((_Atomic trp_object *)data,
                 named); // So that it is as before in the next schedule.
    EXPLORE_EXPECT(trp_store_contain(list, 1) == TROUPE_OK);
    scene_seal(list);
    return list;
}

// As who has a result does (actors/ref/promised_object.c). False: it would be a ring, and fails.
static bool keep(trp_object promised, trp_object named)
{
    static const char value = 1;
    trp_object list = make_list(named);
    bool kept = trp_store_contain_list(promised, list) == TROUPE_OK;
    if (!kept)
        trp_store_release(list, trp_store_self);
    EXPLORE_EXPECT(trp_store_fulfil(promised, TRP_ENCODING_PACKED, &value, 1, !kept) == TROUPE_OK);
    return kept;
}

static bool was_kept(int i)
{
    return atomic_load(&board.posts[i]) == 2;
}

static void keep_with(int mine, int other)
{
    scene_post(mine, keep(ids[mine], ids[other]) ? 2 : 1);
}

// What of them the processes hold that live: whoever has died holds nothing.
static void drop_all(void)
{
    static const uint32_t all[] = {A, B, C};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < sizeof ids / sizeof *ids; k++)
            if (!explore_died(all[i]))
                trp_store_release(ids[k], all[i]);
}

// ---- halves of a ring

static void two_promises(void)
{
    promise(0, A, B, B);
    promise(1, B, A, A);
}

static void a_keeps(void)
{
    keep_with(0, 1);
}

static void b_keeps(void)
{
    keep_with(1, 0);
}

static void no_ring(void)
{
    EXPLORE_EXPECT(!was_kept(0) || !was_kept(1));
    drop_all();
    scene_expect_empty();
}

// What B's promise is to name names A's.
static void two_promises_and_a_box(void)
{
    two_promises();
    trp_store_open(B);
    ids[2] = make_list(ids[0]);
    EXPLORE_EXPECT(trp_store_hold(ids[2], ME) == TROUPE_OK);
    trp_store_open(ME);
}

static void b_keeps_with_the_box(void)
{
    keep_with(1, 2);
}

static void no_ring_with_the_box(void)
{
    trp_store_release(ids[2], ME);
    no_ring();
}

static void three_promises(void)
{
    promise(0, A, C, C);
    promise(1, B, A, A);
    promise(2, C, B, B);
}

static void b_keeps_with_the_third(void)
{
    keep_with(1, 2);
}

static void c_keeps(void)
{
    keep_with(2, 0);
}

static void no_ring_of_three(void)
{
    EXPLORE_EXPECT(!was_kept(0) || !was_kept(1) || !was_kept(2));
    drop_all();
    scene_expect_empty();
}

// ---- what is taken back while another walks along it

// B has two promises, and has begun to keep one with the other.
static void half_of_what_is_taken_back(void)
{
    two_promises();
    promise(2, B, ME, ME);
    trp_store_open(B);
    ids[3] = make_list(ids[2]);
    EXPLORE_EXPECT(trp_store_contain_list(ids[1], ids[3]) == TROUPE_OK);
    trp_store_open(ME);
}

// It fails, and makes something that names A's promise, most often where the list was: who has read
// half of it must not go on there.
static void b_fails_and_makes_another(void)
{
    static const char failure = 2;
    EXPLORE_EXPECT(trp_store_fulfil(ids[1], TRP_ENCODING_PACKED, &failure, 1, true) == TROUPE_OK);
    trp_store_release(ids[3], B);
    scene_post(3, make_list(ids[0]));
}

static void a_kept_its_promise(void)
{
    EXPLORE_EXPECT(explore_any_died() || was_kept(0));
    if (!explore_died(B)) {
        trp_store_open(B);
        trp_store_discard(ids[2]);
        trp_store_open(ME);
        trp_store_release(atomic_load(&board.posts[3]), B);
    }
    drop_all();
    trp_store_release(ids[2], ME);
    scene_expect_empty();
}

// ---- a value that names another

static void a_promise_to_b(void)
{
    promise(0, A, B, B);
}

static void a_keeps_with_what_it_makes(void)
{
    trp_object inner = scene_make(SIZE, 3);
    scene_post(0, keep(ids[0], inner) ? 2 : 1);
    trp_store_release(inner, A);
    trp_store_release(ids[0], A);
}

// Takes what is inside, drops what was promised, and reads that.
static void b_waits_and_takes(void)
{
    trp_object_info info = trp_store_wait(ids[0], -1);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED || explore_any_died());
    if (info.state != TRP_OBJECT_SEALED) {
        EXPLORE_EXPECT(info.state == TRP_OBJECT_FAILED);
        trp_store_release(ids[0], B);
        return;
    }
    info = trp_store_pin(ids[0]);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED && info.inside_count == 1 && info.size == 1);
    trp_object inner = info.inside[0];
    EXPLORE_EXPECT(trp_store_hold(inner, B) == TROUPE_OK);
    trp_store_unpin(ids[0]);
    trp_store_release(ids[0], B);
    scene_read(inner, SIZE, 3);
    trp_store_release(inner, B);
}

static void b_drops(void)
{
    trp_store_release(ids[0], B);
}

static void it_was_kept(void)
{
    EXPLORE_EXPECT(explore_any_died() || was_kept(0));
    scene_expect_empty();
}

const explore_scene ring_scenes[] = {
    {.name = "a promise is kept with a list",
     .set_up = a_promise_to_b,
     .threads = {MAY_DIE(A, a_keeps_with_what_it_makes), LIVES(B, b_waits_and_takes)},
     .check = it_was_kept},
    {.name = "a promise is kept with a list, and dropped",
     .set_up = a_promise_to_b,
     .threads = {MAY_DIE(A, a_keeps_with_what_it_makes), LIVES(B, b_drops)},
     .check = it_was_kept},
    {.name = "two halves of a ring",
     .set_up = two_promises,
     .threads = {MAY_DIE(A, a_keeps), LIVES(B, b_keeps)},
     .check = no_ring},
    {.name = "two halves of a ring, one in a box",
     .set_up = two_promises_and_a_box,
     .threads = {LIVES(A, a_keeps), MAY_DIE(B, b_keeps_with_the_box)},
     .check = no_ring_with_the_box},
    {.name = "three parts of a ring",
     .set_up = three_promises,
     .threads = {MAY_DIE(A, a_keeps), LIVES(B, b_keeps_with_the_third), LIVES(C, c_keeps)},
     .check = no_ring_of_three},
    {.name = "one half of a ring is taken back",
     .set_up = half_of_what_is_taken_back,
     .threads = {MAY_DIE(A, a_keeps), MAY_DIE(B, b_fails_and_makes_another)},
     .check = a_kept_its_promise},
};
const size_t ring_scene_count = sizeof ring_scenes / sizeof *ring_scenes;
