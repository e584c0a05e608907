// test_interleave.inside.c: scenes of objects that hold references: their keeper, others, and the
// node process, which adopts and frees what is left to it.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <string.h>

enum { SIZE = 100 };

// A list of one object, of 100 ones, that this process holds and gives to it.
static trp_object make_list(trp_object inside)
{
    trp_object list;
    void *data;
    EXPLORE_EXPECT(trp_store_create(sizeof inside + 1, 1, TRP_ENCODING_BYTES, &list, &data) ==
                   TROUPE_OK);
    memcpy(data, &inside, sizeof inside);
    ((char *)data)[sizeof inside] = 7;
    EXPLORE_EXPECT(trp_store_contain(list, 1) == TROUPE_OK);
    scene_seal(list);
    return list;
}

// ids[0] is a list of ids[1], kept by A; A and B hold it.
static void kept_by_a(void)
{
    trp_store_open(A);
    ids[1] = scene_make(SIZE, 1);
    ids[0] = make_list(ids[1]);
    EXPLORE_EXPECT(trp_store_hold(ids[0], B) == TROUPE_OK);
    trp_store_open(ME);
}

// ids[0] is a list of a list of ids[1].
static void deep_kept_by_a(void)
{
    trp_store_open(A);
    ids[1] = scene_make(SIZE, 1);
    ids[0] = make_list(make_list(ids[1]));
    EXPLORE_EXPECT(trp_store_hold(ids[0], B) == TROUPE_OK);
    trp_store_open(ME);
}

static void a_drops(void)
{
    trp_store_release(ids[0], A);
}

static void b_drops(void)
{
    trp_store_release(ids[0], B);
}

// Takes a hold of what is inside, and reads it after it has dropped the list.
static void take_from_list(uint32_t self)
{
    trp_object_info info = trp_store_pin(ids[0]);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED && info.inside_count == 1);
    EXPLORE_EXPECT(info.size == 1 && *(const char *)info.data == 7);
    trp_object inner = info.inside[0];
    EXPLORE_EXPECT(trp_store_hold(inner, self) == TROUPE_OK);
    trp_store_unpin(ids[0]);
    trp_store_release(ids[0], self);
    scene_read(inner, SIZE, 1);
    trp_store_release(inner, self);
}

static void b_takes(void)
{
    take_from_list(B);
}

static void a_makes_a_list(void)
{
    trp_object list = make_list(scene_make(SIZE, 1));
    scene_post(0, list);
    trp_store_release(list, A);
}

static void a_passes_on_to_c(void)
{
    EXPLORE_EXPECT(trp_store_hold(ids[0], C) == TROUPE_OK);
    scene_post(0, ids[0]);
    trp_store_release(ids[0], A);
}

static void c_takes_what_comes(void)
{
    if (scene_await(0, A) != 0)
        take_from_list(C);
}

// As the thread of the node process.
static pthread_mutex_t *const node_lock = &scene_sweeping;

static void node_drains(void)
{
    for (uint32_t seen = 0;;) {
        seen = trp_store_await_work(seen);
        pthread_mutex_lock(node_lock);
        trp_store_drain();
        pthread_mutex_unlock(node_lock);
    }
}

#define DRAIN                                                                                      \
    {                                                                                              \
        .process = TRP_PROCESS_NODE, .run = node_drains, .daemon = true                            \
    }

static void nothing(void)
{
}

static void nothing_is_left(void)
{
    scene_expect_empty();
}

static void nothing_is_left_but_for_c(void)
{
    if (explore_died(A))
        trp_store_sweep(C);
    scene_expect_empty();
}

// A is only the keeper: it holds the list no more.
static void held_by_b_alone(void)
{
    kept_by_a();
    trp_store_open(A);
    trp_store_release(ids[0], A);
    trp_store_open(ME);
}

static void held_by_b_and_c(void)
{
    held_by_b_alone();
    EXPLORE_EXPECT(trp_store_hold(ids[0], C) == TROUPE_OK);
}

static void c_drops(void)
{
    trp_store_release(ids[0], C);
}

// B holds what is inside as well: it drops that while the keeper dies, and takes it again.
static void held_with_what_is_inside(void)
{
    held_by_b_alone();
    trp_store_open(A);
    EXPLORE_EXPECT(trp_store_hold(ids[1], B) == TROUPE_OK);
    trp_store_open(ME);
}

static void b_drops_what_is_inside_and_takes(void)
{
    trp_store_release(ids[1], B);
    take_from_list(B);
}

// ids[0] is kept by C and held by A, and B holds what is inside.
static void kept_by_c(void)
{
    trp_store_open(C);
    ids[1] = scene_make(SIZE, 1);
    ids[0] = make_list(ids[1]);
    EXPLORE_EXPECT(trp_store_hold(ids[1], B) == TROUPE_OK);
    EXPLORE_EXPECT(trp_store_hold(ids[0], A) == TROUPE_OK);
    trp_store_release(ids[0], C);
    trp_store_open(ME);
}

// A takes its first hold of what is inside, and gives up what was held for it.
static void a_takes_and_waits(void)
{
    EXPLORE_EXPECT(trp_store_hold(ids[1], A) == TROUPE_OK);
    trp_store_release(ids[0], A);
    (void)scene_await(0, B);
    scene_read(ids[1], SIZE, 1);
    trp_store_release(ids[1], A);
}

static void b_drops_what_is_inside(void)
{
    trp_store_release(ids[1], B);
    scene_post(0, 1);
}

// A holds one list, and B another.
static void two_kept_by_c(void)
{
    trp_store_open(C);
    for (int i = 0; i < 2; i++) {
        ids[i] = make_list(scene_make(SIZE, 1));
        EXPLORE_EXPECT(trp_store_hold(ids[i], i == 0 ? A : B) == TROUPE_OK);
        trp_store_release(ids[i], C);
    }
    trp_store_open(ME);
}

static void b_drops_the_other(void)
{
    trp_store_release(ids[1], B);
}

static void a_idles(void)
{
    explore_point();
}

const explore_scene inside_scenes[] = {
    {.name = "a list is made and dropped",
     .set_up = nothing,
     .threads = {MAY_DIE(A, a_makes_a_list), DRAIN},
     .check = nothing_is_left},
    {.name = "a list and two drops",
     .set_up = kept_by_a,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops), DRAIN},
     .check = nothing_is_left},
    {.name = "a list, its reader dies",
     .set_up = kept_by_a,
     .threads = {LIVES(A, a_drops), MAY_DIE(B, b_takes), DRAIN},
     .check = nothing_is_left},
    {.name = "a list is read, its keeper drops it",
     .set_up = kept_by_a,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_takes), DRAIN},
     .check = nothing_is_left},
    {.name = "a keeper dies while others drop",
     .set_up = held_by_b_and_c,
     .threads = {MAY_DIE(A, a_idles), LIVES(B, b_drops), LIVES(C, c_drops), DRAIN},
     .check = nothing_is_left},
    {.name = "a keeper dies while another takes",
     .set_up = held_by_b_alone,
     .threads = {MAY_DIE(A, a_idles), LIVES(B, b_takes), DRAIN},
     .check = nothing_is_left},
    {.name = "a keeper dies, what is inside is dropped",
     .set_up = held_with_what_is_inside,
     .threads = {MAY_DIE(A, a_idles), LIVES(B, b_drops_what_is_inside_and_takes), DRAIN},
     .check = nothing_is_left},
    {.name = "a first hold behind a drop",
     .set_up = kept_by_c,
     .threads = {LIVES(A, a_takes_and_waits), MAY_DIE(B, b_drops_what_is_inside), DRAIN},
     .check = nothing_is_left},
    {.name = "two are left to the node process",
     .set_up = two_kept_by_c,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops_the_other), DRAIN},
     .check = nothing_is_left},
    {.name = "a list of a list and two drops",
     .set_up = deep_kept_by_a,
     .threads = {MAY_DIE(A, a_drops), LIVES(B, b_drops), DRAIN},
     .check = nothing_is_left},
    {.name = "a list is passed on",
     .set_up = kept_by_a,
     .threads = {MAY_DIE(A, a_passes_on_to_c), LIVES(B, b_drops), LIVES(C, c_takes_what_comes),
                 DRAIN},
     .check = nothing_is_left_but_for_c},
};
const size_t inside_scene_count = sizeof inside_scenes / sizeof *inside_scenes;
