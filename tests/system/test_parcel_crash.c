// test_parcel_crash.c: references and large values between real processes, each way that they
// travel. The process that sends, answers or receives them dies at each of its steps in the store
// and in the rings: what arrives can be read, and what was under way does not stay behind.
// timeout: 120
// label: faults
#include <support.h>

#include <runtime/base/fault.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum {
    SMALL = 1000,
    LARGE = 100000, // Travels as an object, alone or with references.
    PAGES = 3,
    KEPT = 64,
    LEFT_MAX = PAGES + 2, // What one message can name, and itself.
    PATIENCE_MS = 100,    // For what is under way; what stays longer ends with the receiver.
    FILLING = 6000,       // Messages that the rings to one process have no room for,
    WINDOW = 16384,       // and those after which their sender waits.
};

static _Atomic int *sent; // Shared by all processes.

// A flat value with a reference, one that is packed, and a large one of these.
TROUPE_STRUCT(flat, (uint64_t, number), (troupe_ref, ref));
TROUPE_STRUCT(folder, (troupe_text, title), (troupe_array_troupe_ref, refs), (troupe_bytes, load));
TROUPE_STRUCT(plan, (troupe_text, name), (int64_t, point), (int, way), (troupe_actor, to),
              (int, count));

typedef enum way { FLAT, PACKED, LARGE_ALONE, LARGE_WITH_REFS, WAYS } way;

static void arm(const plan *what)
{
    trp_fault_kill_at(strcmp(what->name, "ring") == 0 ? "ring" : "store", (long)what->point);
}

// ---- values

static troupe_ref put_letters(char letter, size_t size)
{
    char bytes[SMALL];
    memset(bytes, letter, size);
    return troupe_put_bytes(bytes, size);
}

static bool are_letters(const void *data, size_t size, size_t wanted)
{
    const char *bytes = data;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != bytes[0])
            return false;
    return size == wanted;
}

static bool reads_well(troupe_ref ref)
{
    troupe_view view;
    if (troupe_view_bytes(ref, &view, -1) != TROUPE_OK)
        return false;
    bool good = are_letters(view.data, view.size, SMALL);
    troupe_view_end(&view);
    return good;
}

// ---- who keeps what comes

typedef struct shelf {
    troupe_ref kept[KEPT];
    int count, bad;
} shelf;

static void put_on(shelf *self, troupe_ref ref)
{
    self->bad += !reads_well(ref);
    if (self->count < KEPT)
        self->kept[self->count++] = troupe_ref_keep(ref);
}

static troupe_status shelf_flat(shelf *self, const flat *what, troupe_none *out)
{
    (void)out;
    put_on(self, what->ref);
    return TROUPE_OK;
}

static troupe_status shelf_folder(shelf *self, const folder *what, troupe_none *out)
{
    (void)out;
    self->bad += what->refs.count != PAGES;
    self->bad += !are_letters(what->load.data, what->load.size, what->load.size);
    for (size_t i = 0; i < what->refs.count; i++)
        put_on(self, what->refs.items[i]);
    return TROUPE_OK;
}

static troupe_status shelf_bytes(shelf *self, const troupe_bytes *what, troupe_none *out)
{
    (void)out;
    self->bad += !are_letters(what->data, what->size, LARGE);
    return TROUPE_OK;
}

static troupe_status shelf_drop(shelf *self, const troupe_none *in, int *bad)
{
    (void)in;
    while (self->count > 0)
        troupe_ref_drop(self->kept[--self->count]);
    *bad = self->bad;
    return TROUPE_OK;
}

// From now on it dies at that point: when it takes, keeps, reads and drops what comes next.
static troupe_status shelf_arm(shelf *self, const plan *what, troupe_none *out)
{
    (void)self, (void)out;
    arm(what);
    return TROUPE_OK;
}

static troupe_status shelf_disarm(shelf *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    trp_fault_kill_at("store", 0);
    return TROUPE_OK;
}

static troupe_status shelf_pid(shelf *self, const troupe_none *in, int *pid)
{
    (void)self, (void)in;
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(shelf, (shelf_pid, troupe_none, int), (shelf_flat, flat, troupe_none),
             (shelf_folder, folder, troupe_none), (shelf_bytes, troupe_bytes, troupe_none),
             (shelf_drop, troupe_none, int), (shelf_arm, plan, troupe_none),
             (shelf_disarm, troupe_none, troupe_none));

// ---- sending

// Tells the shelf something in that way; what is in it was made just before.
static void tell(shelf_actor to, way how)
{
    static const char letters[LARGE];
    troupe_ref refs[PAGES];
    switch (how) {
    case FLAT: {
        refs[0] = put_letters('a', SMALL);
        (void)troupe_tell(to, shelf_flat, .number = 1, .ref = refs[0]);
        troupe_ref_drop(refs[0]);
        break;
    }
    case PACKED:
    case LARGE_WITH_REFS: {
        size_t size = how == PACKED ? 10 : LARGE;
        for (int i = 0; i < PAGES; i++)
            refs[i] = put_letters((char)('b' + i), SMALL);
        (void)troupe_tell(to, shelf_folder, .title = "letters", .refs = {refs, PAGES},
                          .load = {letters, size});
        for (int i = 0; i < PAGES; i++)
            troupe_ref_drop(refs[i]);
        break;
    }
    default: {
        troupe_bytes value = {letters, LARGE};
        (void)troupe_tell_from(to, shelf_bytes, &value);
        break;
    }
    }
}

typedef struct sender {
    int unused;
} sender;

static troupe_status sender_send(sender *self, const plan *what, troupe_none *out)
{
    (void)self, (void)out;
    arm(what);
    tell((shelf_actor){what->to}, (way)what->way);
    return TROUPE_OK;
}

// One reference, again and again.
static troupe_status sender_pour(sender *self, const plan *what, troupe_none *out)
{
    (void)self, (void)out;
    shelf_actor to = {what->to};
    troupe_ref ref = put_letters('p', SMALL);
    for (int i = 0; i < what->count; i++) {
        TROUPE_TRY(troupe_tell(to, shelf_flat, .number = (uint64_t)i, .ref = ref));
        atomic_fetch_add(sent, 1);
    }
    troupe_ref_drop(ref);
    return TROUPE_OK;
}

static troupe_status sender_give_ref(sender *self, const plan *what, troupe_ref *out)
{
    (void)self;
    arm(what);
    *out = put_letters('g', SMALL);
    return TROUPE_OK;
}

static troupe_status sender_give_bytes(sender *self, const plan *what, troupe_bytes *out)
{
    (void)self;
    arm(what);
    void *data = troupe_arena_alloc(LARGE);
    *out = (troupe_bytes){data, data != NULL ? LARGE : 0};
    return TROUPE_OK;
}

static troupe_status sender_disarm(sender *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    trp_fault_kill_at("store", 0);
    return TROUPE_OK;
}

TROUPE_ACTOR(sender, (sender_send, plan, troupe_none), (sender_pour, plan, troupe_none),
             (sender_give_ref, plan, troupe_ref), (sender_give_bytes, plan, troupe_bytes),
             (sender_disarm, troupe_none, troupe_none));

// ---- what is left

typedef struct watch {
    shelf_actor shelf; // Where what came is dropped; 0: there is none.
    uint64_t objects;  // So many may be there.
} watch;

static bool has_come_down(void *of)
{
    const watch *it = of;
    troupe_store_usage usage;
    int bad = 0;
    if (it->shelf.address.id != 0) {
        troupe_must(troupe_get(int, troupe_call(it->shelf, shelf_drop), &bad));
        assert_int_equal(bad, 0);
    }
    troupe_must(troupe_store_usage_get(&usage));
    return usage.objects <= it->objects;
}

static uint64_t count_objects(void)
{
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    return usage.objects;
}

// After a death: what was under way ends; or, if the dead had given the shelf a hold and had not
// told it yet, it stays as long as the shelf: that much of one message.
static void expect_little_left(watch *it)
{
    if (support_wait_until(has_come_down, it, PATIENCE_MS))
        return;
    uint64_t objects = count_objects();
    assert_true(objects <= it->objects + LEFT_MAX);
    it->objects = objects;
}

static void expect_nothing_left(shelf_actor last)
{
    if (last.address.id != 0)
        troupe_must(troupe_actor_kill(last.address));
    if (!support_wait_until(has_come_down, &(watch){0}, SUPPORT_SOON_MS))
        fail_msg("%llu objects are left", (unsigned long long)count_objects());
}

// ---- the tests

static const char *const names[] = {"store", "ring"};
enum { NAMES = sizeof names / sizeof names[0] };

// Whether it died at its point, perhaps after it had answered; it is ended else.
static bool has_died(troupe_ref disarming, troupe_actor victim)
{
    bool died = troupe_get(troupe_none, disarming, &(troupe_none){0}) != TROUPE_OK;
    (void)troupe_actor_kill(victim);
    return died;
}

static void expect_an_end(troupe_status status)
{
    assert_true(status == TROUPE_OK || status == TROUPE_MAYBE_EXECUTED);
}

static void test_senders(void **state)
{
    (void)state;
    for (int name = 0; name < NAMES; name++)
        for (int how = 0; how < WAYS; how++) {
            bool died = true;
            watch on = {.shelf = troupe_spawn(shelf, .place = TROUPE_PLACE_ISOLATED)};
            int64_t point = 0;
            while (died) {
                sender_actor victim = troupe_spawn(sender, .place = TROUPE_PLACE_ISOLATED);
                troupe_ref call = troupe_call(victim, sender_send, .name = names[name],
                                              .point = ++point, .way = how, .to = on.shelf.address);
                expect_an_end(troupe_get(troupe_none, call, &(troupe_none){0}));
                died = has_died(troupe_call(victim, sender_disarm), victim.address);
                expect_little_left(&on);
            }
            assert_true(point > 1);
            expect_nothing_left(on.shelf);
            print_message("%s, way %d: %d points, %d objects stayed as long as the receiver\n",
                          names[name], how, (int)point - 1, (int)on.objects);
        }
}

static bool give_ref(const char *name, int64_t point)
{
    sender_actor victim = troupe_spawn(sender, .place = TROUPE_PLACE_ISOLATED);
    troupe_ref got, call = troupe_call(victim, sender_give_ref, .name = name, .point = point);
    troupe_status status = troupe_get(troupe_ref, call, &got);
    expect_an_end(status);
    if (status == TROUPE_OK) {
        assert_true(reads_well(got));
        troupe_ref_drop(got);
    }
    return has_died(troupe_call(victim, sender_disarm), victim.address);
}

static bool give_bytes(const char *name, int64_t point)
{
    sender_actor victim = troupe_spawn(sender, .place = TROUPE_PLACE_ISOLATED);
    troupe_ref ref = troupe_call(victim, sender_give_bytes, .name = name, .point = point);
    troupe_view view;
    troupe_status status = troupe_view_bytes(ref, &view, -1);
    expect_an_end(status);
    if (status == TROUPE_OK) {
        assert_true(are_letters(view.data, view.size, LARGE));
        troupe_view_end(&view);
    }
    troupe_ref_drop(ref);
    return has_died(troupe_call(victim, sender_disarm), victim.address);
}

// The driver is the receiver, and lives: what stays is counted, and little.
static void test_answers(void **state)
{
    (void)state;
    static bool (*const give[])(const char *, int64_t) = {give_ref, give_bytes};
    for (int name = 0; name < NAMES; name++)
        for (int how = 0; how < 2; how++) {
            watch on = {.objects = count_objects()};
            int64_t point = 1;
            for (; give[how](names[name], point); point++)
                expect_little_left(&on);
            expect_little_left(&on);
            print_message("%s, answer %d: %d points, %d objects stay\n", names[name], how,
                          (int)point - 1, (int)on.objects);
            assert_int_equal(troupe_stop(), 0);
            troupe_must(troupe_start(0, NULL, .workers = 1));
        }
}

static void test_receivers(void **state)
{
    (void)state;
    for (int name = 0; name < NAMES; name++)
        for (int how = 0; how < WAYS; how++) {
            bool died = true;
            int64_t point = 0;
            while (died) {
                int bad = 0;
                shelf_actor victim = troupe_spawn(shelf, .place = TROUPE_PLACE_ISOLATED);
                (void)troupe_tell(victim, shelf_arm, .name = names[name], .point = ++point);
                tell(victim, (way)how);
                troupe_status status = troupe_get(int, troupe_call(victim, shelf_drop), &bad);
                assert_true(status == TROUPE_OK || troupe_last_error()->outcome != 0);
                assert_int_equal(bad, 0);
                died = has_died(troupe_call(victim, shelf_disarm), victim.address);
                expect_nothing_left((shelf_actor){0});
            }
            assert_true(point > 1);
            print_message("%s, way %d: %d points\n", names[name], how, (int)point - 1);
        }
}

// What waits in a process for room in its ring, or in the window, ends with that process.
static void test_what_waits_goes_with_its_sender(void **state)
{
    (void)state;
    static const int counts[] = {FILLING, 2 * WINDOW};
    for (int i = 0; i < 2; i++) {
        int pid;
        *sent = 0;
        shelf_actor on = troupe_spawn(shelf, .place = TROUPE_PLACE_ISOLATED);
        sender_actor victim = troupe_spawn(sender, .place = TROUPE_PLACE_ISOLATED);
        troupe_must(troupe_get(int, troupe_call(on, shelf_pid), &pid));
        assert_int_equal(kill(pid, SIGSTOP), 0);
        troupe_ref call = troupe_call(victim, sender_pour, .to = on.address, .count = counts[i]);
        support_await_counter(sent, counts[i] < WINDOW ? counts[i] : WINDOW);
        troupe_must(troupe_actor_kill(victim.address));
        expect_an_end(troupe_get(troupe_none, call, &(troupe_none){0}));
        assert_int_equal(kill(pid, SIGCONT), 0);
        if (!support_wait_until(has_come_down, &(watch){.shelf = on}, SUPPORT_SOON_MS))
            fail_msg("after %d messages %llu objects are left", *sent,
                     (unsigned long long)count_objects());
        troupe_must(troupe_actor_kill(on.address));
    }
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

int main(void)
{
    sent = support_share(sizeof *sent);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_senders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_waits_goes_with_its_sender, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_receivers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
