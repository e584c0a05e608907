// test_spill.c: processes put three times what the store holds and read it all back, while views
// stay as they are; what waits for room gets it; what is lost with its file is one value; and
// nothing is left on the disk, however the node ends.
// timeout: 120
#include <support.h>

#include <pthread.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/spill_file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { MB = 1 << 20, CAPACITY = 8 * MB, PROCESSES = 3, EACH = 8, SIZE = MB - 100 };

static char *base;

static bool is_good(const void *data, size_t size, uint64_t seed)
{
    return size == SIZE && support_is_filled(data, SIZE, seed);
}

static troupe_status put(uint64_t seed, troupe_ref *ref)
{
    troupe_buffer buffer;
    TROUPE_TRY(troupe_buffer_create(SIZE, &buffer));
    support_fill(buffer.data, SIZE, seed);
    return troupe_buffer_seal(&buffer, ref);
}

static troupe_status check(troupe_ref ref, uint64_t seed)
{
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(ref, &view, -1));
    bool good = is_good(view.data, view.size, seed);
    troupe_view_end(&view);
    return good ? TROUPE_OK : troupe_fail(TROUPE_CORRUPT, "object %d", (int)seed);
}

// ---- an actor that holds values

TROUPE_STRUCT(lot, (int, first), (int, count));
TROUPE_STRUCT(piece, (troupe_ref, ref), (int, seed));
TROUPE_STRUCT(folio, (troupe_bytes, data), (troupe_array_troupe_ref, notes));

typedef struct hoarder {
    troupe_ref refs[64];
    int count, first;
    troupe_view view;
} hoarder;

static troupe_status hoarder_put(hoarder *self, const lot *in, troupe_none *out)
{
    (void)out;
    self->first = in->first;
    for (int i = 0; i < in->count; i++) {
        TROUPE_TRY(put((uint64_t)(in->first + i), &self->refs[i]));
        self->count++;
    }
    return TROUPE_OK;
}

static troupe_status hoarder_check(hoarder *self, const troupe_none *in, troupe_none *out)
{
    (void)out;
    (void)in;
    for (int i = 0; i < self->count; i++)
        TROUPE_TRY(check(self->refs[i], (uint64_t)(self->first + i)));
    return TROUPE_OK;
}

static troupe_status hoarder_drop(hoarder *self, const troupe_none *in, troupe_none *out)
{
    (void)out;
    (void)in;
    troupe_view_end(&self->view);
    while (self->count > 0)
        troupe_ref_drop(self->refs[--self->count]);
    return TROUPE_OK;
}

// Another's.
static troupe_status hoarder_read(hoarder *self, const piece *in, troupe_none *out)
{
    (void)out;
    (void)self;
    return check(in->ref, (uint64_t)in->seed);
}

static troupe_status hoarder_make(hoarder *self, const int *seed, troupe_bytes *out)
{
    (void)self;
    void *data = troupe_arena_alloc(SIZE);
    if (data == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %d bytes", SIZE);
    support_fill(data, SIZE, (uint64_t)*seed);
    *out = (troupe_bytes){data, SIZE};
    return TROUPE_OK;
}

// Puts one that fills nearly all, and reads it until it is dropped.
static troupe_status hoarder_fill(hoarder *self, const troupe_none *in, troupe_none *out)
{
    (void)out;
    (void)in;
    troupe_buffer buffer;
    TROUPE_TRY(troupe_buffer_create(CAPACITY - MB / 2, &buffer));
    TROUPE_TRY(troupe_buffer_seal(&buffer, &self->refs[0]));
    self->count = 1;
    return troupe_view_bytes(self->refs[0], &self->view, 0);
}

enum { NOTES = 3 };

// As `put`, with references besides, to things that are the folio's alone.
static troupe_status put_folio(uint64_t seed, troupe_ref *ref)
{
    troupe_ref notes[NOTES];
    void *data = malloc(SIZE);
    if (data == NULL)
        return TROUPE_NO_MEMORY;
    support_fill(data, SIZE, seed);
    for (uint64_t i = 0; i < NOTES; i++)
        notes[i] = troupe_put(uint64_t, &(uint64_t){seed + i});
    folio value = {.data = {data, SIZE}, .notes = {notes, NOTES}};
    *ref = troupe_put(folio, &value);
    for (int i = 0; i < NOTES; i++)
        troupe_ref_drop(notes[i]);
    free(data);
    return TROUPE_OK;
}

static troupe_status check_folio(troupe_ref ref, uint64_t seed)
{
    folio value;
    TROUPE_TRY(troupe_get(folio, troupe_ref_keep(ref), &value));
    bool good = is_good(value.data.data, value.data.size, seed) && value.notes.count == NOTES;
    for (uint64_t i = 0; i < NOTES && good; i++) {
        uint64_t note;
        TROUPE_TRY(troupe_get(uint64_t, value.notes.items[i], &note));
        good = note == seed + i;
    }
    troupe_arena_reset();
    return good ? TROUPE_OK : troupe_fail(TROUPE_CORRUPT, "folio %d", (int)seed);
}

static troupe_status hoarder_bind(hoarder *self, const lot *in, troupe_array_troupe_ref *out)
{
    for (int i = 0; i < in->count; i++)
        TROUPE_TRY(put_folio((uint64_t)(in->first + i), &self->refs[i]));
    *out = (troupe_array_troupe_ref){self->refs, (size_t)in->count}; // They are the caller's now.
    return TROUPE_OK;
}

TROUPE_ACTOR(hoarder, (hoarder_bind, lot, troupe_array_troupe_ref), (hoarder_put, lot, troupe_none),
             (hoarder_check, troupe_none, troupe_none), (hoarder_drop, troupe_none, troupe_none),
             (hoarder_read, piece, troupe_none), (hoarder_make, int, troupe_bytes),
             (hoarder_fill, troupe_none, troupe_none));

// ----

static troupe_store_usage usage(void)
{
    troupe_store_usage now;
    assert_int_equal(troupe_store_usage_get(&now), TROUPE_OK);
    return now;
}

static bool is_empty(void *unused)
{
    (void)unused;
    return usage().objects == 0 && usage().bytes_used == 0 && usage().bytes_on_disk == 0 &&
           support_count_files(trp_spill_folder()) == 0;
}

static bool base_is_empty(void *unused)
{
    (void)unused;
    return support_count_files(base) == 0;
}

static void start(int store_wait_ms)
{
    base = support_directory_make();
    troupe_must(troupe_start(0, NULL, .workers = 2, .threads = 1, .store_bytes_max = CAPACITY,
                             .spill_dir = base, .store_wait_ms = store_wait_ms));
}

static int set_up(void **state)
{
    (void)state;
    start(20000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(support_wait_until(is_empty, NULL, SUPPORT_SOON_MS));
    assert_int_equal(troupe_stop(), 0);
    assert_true(base_is_empty(NULL)); // Nothing stays behind.
    support_directory_remove(base);
    return 0;
}

static void test_three_times_what_there_is(void **state)
{
    (void)state;
    static const troupe_place where[] = {TROUPE_PLACE_ISOLATED, TROUPE_PLACE_WORKER,
                                         TROUPE_PLACE_HERE};
    hoarder_actor actors[PROCESSES];
    troupe_ref put_by[PROCESSES], mine, calls[PROCESSES];
    troupe_view view;
    assert_int_equal(put(1, &mine), TROUPE_OK);
    assert_int_equal(troupe_view_bytes(mine, &view, 0), TROUPE_OK);
    for (int i = 0; i < PROCESSES; i++) {
        actors[i] = troupe_spawn(hoarder, .place = where[i]);
        put_by[i] = troupe_call(actors[i], hoarder_put, .first = 100 * i, .count = EACH);
    }
    for (int i = 0; i < PROCESSES; i++)
        troupe_must(troupe_get(troupe_none, put_by[i], &(troupe_none){0}));
    assert_int_equal(usage().objects, PROCESSES * EACH + 1);
    assert_true(usage().objects_on_disk >= PROCESSES * EACH + 1 - CAPACITY / MB);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PROCESSES; i++)
            calls[i] = troupe_call(actors[i], hoarder_check);
        for (int i = 0; i < PROCESSES; i++)
            troupe_must(troupe_get(troupe_none, calls[i], &(troupe_none){0}));
    }
    assert_true(is_good(view.data, view.size, 1)); // It has not moved.
    troupe_view_end(&view);
    troupe_ref_drop(mine);
    for (int i = 0; i < PROCESSES; i++)
        troupe_must(
            troupe_get(troupe_none, troupe_call(actors[i], hoarder_drop), &(troupe_none){0}));
    for (int i = 0; i < PROCESSES; i++)
        troupe_must(troupe_actor_stop(actors[i]));
}

// References go on meaning the same; so do the results of calls that nobody has fetched yet.
static void test_what_others_made(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    troupe_ref mine[COUNT], made[COUNT];
    hoarder_actor actor = troupe_spawn(hoarder, .place = TROUPE_PLACE_ISOLATED);
    for (int i = 0; i < COUNT; i++) {
        mine[i] = troupe_call(actor, hoarder_make, i);
        assert_int_equal(put((uint64_t)i, &made[i]), TROUPE_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        troupe_must(troupe_get(troupe_none,
                               troupe_call(actor, hoarder_read, .ref = made[i], .seed = i),
                               &(troupe_none){0}));
        if (check(mine[i], (uint64_t)i) != TROUPE_OK)
            fail_msg("result %d: %s", i, troupe_last_error()->text);
        troupe_ref_drop(mine[i]);
        troupe_ref_drop(made[i]);
    }
    troupe_must(troupe_actor_stop(actor));
}

// What a process needs in the store to be talked with, it gets there.
static void test_a_new_process_while_it_is_full(void **state)
{
    (void)state;
    enum { PIECE = 1 << 16, MOST = 2 * CAPACITY / PIECE };
    static char bytes[PIECE];
    static troupe_ref refs[MOST];
    troupe_memory memory;
    int count = 0;
    do {
        assert_true(count < MOST);
        refs[count++] = troupe_put_bytes(bytes, sizeof bytes);
        troupe_must(troupe_memory_get(&memory, .most = 1));
    } while (memory.bytes_free > 0);
    hoarder_actor actor = troupe_spawn(hoarder, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_get(troupe_none, troupe_call(actor, hoarder_check), &(troupe_none){0},
                           SUPPORT_SOON_MS));
    troupe_must(troupe_actor_stop(actor));
    while (count > 0)
        troupe_ref_drop(refs[--count]);
}

// ---- no room

static _Atomic int waiting;

static void *put_when_there_is_room(void *status)
{
    troupe_ref ref;
    waiting = 1;
    *(troupe_status *)status = put(3, &ref);
    if (*(troupe_status *)status == TROUPE_OK)
        troupe_ref_drop(ref);
    return NULL;
}

static void test_a_waiter_gets_room(void **state)
{
    (void)state;
    troupe_status status = TROUPE_TIMED_OUT;
    pthread_t thread;
    hoarder_actor wall = troupe_spawn(hoarder, .place = TROUPE_PLACE_HERE);
    hoarder_actor other = troupe_spawn(hoarder, .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_get(troupe_none, troupe_call(wall, hoarder_fill), &(troupe_none){0}));
    assert_int_equal(pthread_create(&thread, NULL, put_when_there_is_room, &status), 0);
    // A method that waits leaves the only thread to the one that makes room.
    troupe_ref put_later = troupe_call(other, hoarder_put, .first = 5, .count = 1);
    bool ready;
    assert_int_equal(troupe_wait(&put_later, 1, 1, 100, &ready, NULL), TROUPE_TIMED_OUT);
    troupe_must(troupe_get(troupe_none, troupe_call(wall, hoarder_drop), &(troupe_none){0}));
    troupe_must(troupe_get(troupe_none, put_later, &(troupe_none){0}));
    pthread_join(thread, NULL);
    assert_int_equal(status, TROUPE_OK);
    troupe_must(troupe_get(troupe_none, troupe_call(other, hoarder_drop), &(troupe_none){0}));
    troupe_must(troupe_actor_stop(wall));
    troupe_must(troupe_actor_stop(other));
}

static int set_up_hasty(void **state)
{
    (void)state;
    start(200);
    return 0;
}

static int set_up_at_once(void **state)
{
    (void)state;
    start(TROUPE_NONE);
    return 0;
}

static void expect_no_room(int64_t at_least_ms, int64_t below_ms)
{
    troupe_ref ref;
    hoarder_actor wall = troupe_spawn(hoarder, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(troupe_none, troupe_call(wall, hoarder_fill), &(troupe_none){0}));
    int64_t began_ms = support_now_ms();
    assert_int_equal(put(1, &ref), TROUPE_NO_MEMORY);
    int64_t took_ms = support_now_ms() - began_ms;
    assert_true(took_ms >= at_least_ms && took_ms < below_ms);
    const char *text = troupe_last_error()->text;
    assert_non_null(strstr(text, "; it is held by worker "));
    assert_non_null(strstr(text, "what is left is being read"));
    troupe_must(troupe_get(troupe_none, troupe_call(wall, hoarder_drop), &(troupe_none){0}));
    troupe_must(troupe_actor_stop(wall));
}

static void test_no_room_in_time(void **state)
{
    (void)state;
    expect_no_room(200, SUPPORT_SOON_MS);
}

static void test_no_put_waits(void **state)
{
    (void)state;
    expect_no_room(0, 5000);
}

// ---- lost

static uint64_t count_states(int state)
{
    troupe_memory memory;
    uint64_t count = 0;
    troupe_must(troupe_memory_get(&memory));
    for (size_t i = 0; i < memory.items.count; i++)
        count += memory.items.items[i].state == state;
    return count;
}

static void test_a_lost_file_is_one_lost_value(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    troupe_ref refs[COUNT];
    troupe_bytes value;
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(put((uint64_t)i, &refs[i]), TROUPE_OK);
    assert_int_equal(count_states(TROUPE_OBJECT_ON_DISK), usage().objects_on_disk);
    assert_int_equal(count_states(TROUPE_OBJECT_LOST), 0);
    // The one that was used longest ago.
    trp_spill_remove(&(trp_spill_object){.id = refs[0].id, .size = SIZE});
    assert_true(usage().objects_on_disk > 1);
    troupe_ref again = troupe_ref_keep(refs[0]);
    assert_int_equal(troupe_get(troupe_bytes, refs[0], &value), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "it is incomplete"));
    assert_non_null(strstr(troupe_last_error()->text, base));
    assert_int_equal(count_states(TROUPE_OBJECT_LOST), 1);
    troupe_ref_drop(again);
    for (int i = 1; i < COUNT; i++) {
        assert_int_equal(check(refs[i], (uint64_t)i), TROUPE_OK);
        troupe_ref_drop(refs[i]);
    }
}

// ---- ends

// A program that is killed with objects on disk.
static void be_killed(int told)
{
    troupe_ref ref;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    troupe_must(
        troupe_start(0, NULL, .workers = 1, .store_bytes_max = CAPACITY, .spill_dir = base));
    for (uint64_t i = 0; i < 20; i++)
        troupe_must(put(i, &ref));
    (void)!write(told, support_count_files(base) == 1 ? "y" : "n", 1);
    for (;;)
        pause();
}

static void test_a_killed_program_leaves_nothing(void **state)
{
    (void)state;
    char answer = 0;
    int pair[2];
    base = support_directory_make();
    assert_int_equal(pipe(pair), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_killed(pair[1]);
    close(pair[1]); // Of a child that ends by itself nothing is waited for.
    assert_int_equal(read(pair[0], &answer, 1), 1);
    assert_int_equal(answer, 'y'); // It was there.
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(support_wait_until(base_is_empty, NULL, SUPPORT_SOON_MS));
    close(pair[0]);
    support_directory_remove(base);
}

static void expect_refused(troupe_status status, const char *word)
{
    assert_int_equal(status, TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, word));
}

static void test_options(void **state)
{
    (void)state;
    expect_refused(troupe_start(0, NULL, .spill_dir = "/nowhere"), ".spill_dir");
    expect_refused(troupe_start(0, NULL, .spill_dir = "here"), ".spill_dir");
    expect_refused(troupe_start(0, NULL, .spill_bytes_max = -3), ".spill_bytes_max");
    expect_refused(troupe_start(0, NULL, .store_wait_ms = -3), ".store_wait_ms");
    assert_int_equal(setenv("TROUPE_SPILL_DIR", "/nowhere", 1), 0);
    expect_refused(troupe_start(0, NULL), "TROUPE_SPILL_DIR");
    expect_refused(troupe_start(0, NULL, .spill_dir = ""), "TROUPE_SPILL_DIR"); // As none.
    base = support_directory_make();
    // What is asked for is what counts, and where nothing goes to disk no folder does.
    troupe_must(troupe_start(0, NULL, .workers = 1, .spill_dir = base));
    assert_memory_equal(trp_spill_folder(), base, strlen(base));
    // Who sees the run's folder, in a place that all may read, must not know this one's name from
    // it: he could make it first.
    const char *seen = strrchr(trp_self.folder, '-'), *own = strrchr(trp_spill_folder(), '-');
    assert_true(seen == NULL || strstr(trp_spill_folder(), seen) == NULL);
    assert_int_equal(strlen(own), 1 + 16);
    assert_int_equal(troupe_stop(), 0);
    troupe_must(troupe_start(0, NULL, .workers = 1, .spill_bytes_max = TROUPE_NONE));
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(setenv("TROUPE_SPILL_DIR", base, 1), 0);
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = CAPACITY));
    assert_memory_equal(trp_spill_folder(), base, strlen(base));
    assert_true(base_is_empty(NULL)); // It is not needed yet.
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(unsetenv("TROUPE_SPILL_DIR"), 0);
    // Nothing goes, and so the store is full when it is.
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = CAPACITY,
                             .spill_bytes_max = TROUPE_NONE, .store_wait_ms = TROUPE_NONE));
    troupe_ref refs[CAPACITY / MB + 1];
    int count = 0;
    while (count <= CAPACITY / MB && put(1, &refs[count]) == TROUPE_OK)
        count++;
    assert_int_equal(count, CAPACITY / MB);
    assert_non_null(strstr(troupe_last_error()->text, "objects do not go to disk"));
    while (count > 0)
        troupe_ref_drop(refs[--count]);
    assert_int_equal(troupe_stop(), 0);
    support_directory_remove(base);
}

// What names others goes to disk as anything else does, is read there, and is freed with all that
// it names, also where the process that made it has died meanwhile.
static void test_what_holds_references(void **state)
{
    (void)state;
    enum { COUNT = 3 * CAPACITY / MB };
    static const troupe_place where[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_ISOLATED};
    for (int p = 0; p < 2; p++) {
        hoarder_actor actor = troupe_spawn(hoarder, .place = where[p]);
        troupe_array_troupe_ref all;
        troupe_must(
            troupe_get(troupe_array_troupe_ref, troupe_call(actor, hoarder_bind, 7, COUNT), &all));
        troupe_ref refs[COUNT];
        assert_int_equal(all.count, COUNT);
        memcpy(refs, all.items, sizeof refs);
        assert_true(usage().objects_on_disk >= COUNT - CAPACITY / MB);
        troupe_actor_kill(actor);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(check_folio(refs[i], (uint64_t)(7 + i)), TROUPE_OK);
        assert_int_equal(usage().objects, COUNT * (NOTES + 1));
        assert_true(usage().objects_on_disk > 0);
        for (int i = 0; i < COUNT; i++)
            troupe_ref_drop(refs[i]);
        assert_true(support_wait_until(is_empty, NULL, SUPPORT_SOON_MS));
    }
}

#define TEST(function, begin) cmocka_unit_test_setup_teardown(function, begin, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_a_killed_program_leaves_nothing),
        TEST(test_three_times_what_there_is, set_up),
        TEST(test_what_others_made, set_up),
        TEST(test_what_holds_references, set_up),
        TEST(test_a_new_process_while_it_is_full, set_up),
        TEST(test_a_waiter_gets_room, set_up),
        TEST(test_no_room_in_time, set_up_hasty),
        TEST(test_no_put_waits, set_up_at_once),
        TEST(test_a_lost_file_is_one_lost_value, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
