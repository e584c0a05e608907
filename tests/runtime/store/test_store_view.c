// test_store_view.c: looking at a store that others write to: what is seen of an object belongs to
// that object, and what is seen of the whole adds up.
#include "stores.h"

#include <pthread.h>
#include <runtime/base/fault.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/segment.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 5, CAPACITY = 8 << 20 };

static int set_up(void **state)
{
    (void)state;
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        return -1;
    trp_segment_process(ME)->pid = getpid();
    trp_segment_process(OTHER)->pid = 77;
    trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
    trp_store_open(ME);
    return 0;
}

static trp_object make(size_t size, uint64_t schema)
{
    return make_object(size, schema, 1);
}

static trp_store_view own_view(void)
{
    trp_store_view view;
    assert_int_equal(trp_view_open(0, &view), TROUPE_OK);
    return view;
}

static void test_an_object(void **state)
{
    (void)state;
    trp_store_view view = own_view();
    trp_object_seen seen;
    trp_object id = make(100000, 7), promise;
    uint32_t slot = trp_row_slot(id);
    assert_true(trp_view_object(&view, slot, &seen));
    assert_true(seen.id == id);
    assert_int_equal(seen.state, TRP_ROW_SEALED);
    assert_int_equal(seen.kind, TRP_KIND_VALUE);
    assert_int_equal(seen.size, 100000);
    assert_int_equal(seen.bytes, 2 * TRP_PAGE_SIZE);
    assert_int_equal(seen.schema, 7);
    assert_int_equal(seen.maker, ME);
    trp_store_kind(id, TRP_KIND_ARGUMENT);
    assert_true(trp_view_object(&view, slot, &seen));
    assert_int_equal(seen.kind, TRP_KIND_ARGUMENT);
    trp_store_release(id, ME);
    assert_false(trp_view_object(&view, slot, &seen));

    assert_int_equal(trp_store_promise(9, &promise), TROUPE_OK);
    assert_true(trp_view_object(&view, trp_row_slot(promise), &seen));
    assert_int_equal(seen.state, TRP_ROW_PROMISED);
    assert_int_equal(seen.kind, TRP_KIND_RESULT);
    assert_int_equal(seen.bytes, 0);
    trp_store_discard(promise);
}

typedef struct holds {
    trp_hold_seen seen[8];
    int count;
} holds;

static void note(const trp_hold_seen *hold, void *user)
{
    holds *all = user;
    assert_true(all->count < 8);
    all->seen[all->count++] = *hold;
}

static void test_holds(void **state)
{
    (void)state;
    trp_store_view view = own_view();
    holds all = {0};
    trp_object id = make(64, 1);
    assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK);
    assert_int_equal(trp_store_pin(id).state, TRP_OBJECT_SEALED);
    trp_view_holds(&view, note, &all);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.seen[0].process, ME);
    assert_int_equal(all.seen[0].object, trp_row_slot(id));
    assert_int_equal(all.seen[0].holds, 2);
    assert_int_equal(all.seen[0].pins, 1);
    assert_int_equal(all.seen[1].process, OTHER);
    assert_int_equal(all.seen[1].holds, 1);
    assert_int_equal(all.seen[1].pins, 0);

    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
    all.count = 0;
    trp_view_holds(&view, note, &all);
    assert_int_equal(all.count, 1);
    trp_store_unpin(id);
    trp_store_release(id, ME);
    all.count = 0;
    trp_view_holds(&view, note, &all);
    assert_int_equal(all.count, 0);
}

static void test_room(void **state)
{
    (void)state;
    enum { LARGE = 1 << 20 };
    trp_store_view view = own_view();
    uint64_t left, longest;
    trp_view_room(&view, &left, &longest);
    assert_int_equal(left, CAPACITY);
    assert_int_equal(longest, CAPACITY);
    trp_object first = make(LARGE, 0), second = make(LARGE, 0);
    trp_store_release(first, ME);
    trp_view_room(&view, &left, &longest);
    assert_int_equal(left, CAPACITY - LARGE);
    assert_int_equal(longest, CAPACITY - 2 * LARGE);
    trp_store_release(second, ME);
}

static void test_type_names(void **state)
{
    (void)state;
    trp_store_view view = own_view();
    char name[TRP_TYPE_NAME];
    assert_false(trp_view_type(&view, 5, name));
    trp_store_name_type(5, "five");
    trp_store_name_type(5 + TRP_TYPE_NAMES, "at the same place");
    trp_store_name_type(5, "another");
    assert_true(trp_view_type(&view, 5, name));
    assert_string_equal(name, "five");
    assert_true(trp_view_type(&view, 5 + TRP_TYPE_NAMES, name));
    assert_string_equal(name, "at the same place");
    // A full table takes no more, and a name that is too long is cut.
    for (uint64_t schema = 1; schema <= TRP_TYPE_NAMES + 10; schema++)
        trp_store_name_type(schema, "a name that is much longer than what there is room for here");
    assert_false(trp_view_type(&view, TRP_TYPE_NAMES + 10, name));
    assert_true(trp_view_type(&view, 4, name));
    assert_int_equal(strlen(name), TRP_TYPE_NAME - 1);
}

static void test_its_holders_are_named_when_it_is_full(void **state)
{
    (void)state;
    char expected[128];
    trp_object mine = make(2 << 20, 0), given = make(4 << 20, 0), id;
    void *data;
    snprintf(trp_segment_process(OTHER)->labels[0], TRP_LABEL_MAX, "sorter");
    trp_segment_process(OTHER)->labelled = 1;
    assert_int_equal(trp_store_hold(given, OTHER), TROUPE_OK);
    trp_store_release(given, ME);
    assert_int_equal(trp_store_create(3 << 20, 0, TRP_ENCODING_BYTES, &id, &data),
                     TROUPE_NO_MEMORY);
    snprintf(expected, sizeof expected, "held by sorter (pid 77) 4.0 MiB, driver (pid %d) 2.0 MiB",
             (int)getpid());
    assert_non_null(strstr(troupe_last_error()->text, expected));
    assert_null(strchr(troupe_last_error()->text, '\n'));
    trp_store_release(mine, ME);
    trp_store_release(given, OTHER);
}

// ---- beside writers

enum { WRITERS = 2, LOOKS = 300 };
static _Atomic bool done;

// Objects whose size is their schema's number, in ever other slots and sizes.
static void *make_and_drop(void *seed)
{
    uint32_t random = *(const uint32_t *)seed;
    while (!done) {
        trp_object made[8];
        for (int i = 0; i < 8; i++) {
            random = random * 1664525 + 1013904223;
            size_t size = random >> 8 & 0x1ffff;
            made[i] = make(size, size + 1);
        }
        for (int i = 0; i < 8; i++)
            trp_store_release(made[i], ME);
    }
    return NULL;
}

static void test_what_is_seen_belongs_together(void **state)
{
    (void)state;
    pthread_t writers[WRITERS];
    uint32_t seeds[WRITERS];
    size_t found = 0;
    trp_store_view view = own_view();
    atomic_store(&done, false);
    for (uint32_t i = 0; i < WRITERS; i++) {
        seeds[i] = i + 1;
        assert_int_equal(pthread_create(&writers[i], NULL, make_and_drop, &seeds[i]), 0);
    }
    for (int i = 0; i < LOOKS || found < LOOKS; i++)
        for (uint32_t slot = 0; slot < trp_view_objects(&view); slot++) {
            trp_object_seen seen;
            if (!trp_view_object(&view, slot, &seen) || seen.state != TRP_ROW_SEALED)
                continue;
            found++;
            assert_int_equal(seen.schema, seen.size + 1);
            assert_true(seen.bytes >= seen.size);
            assert_int_equal(seen.maker, ME);
        }
    atomic_store(&done, true);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
}

#ifdef TROUPE_FAULTS

// What changes while an object is looked at.
static struct {
    trp_object object;
    int times;
} change;

static void replace_object(void)
{
    trp_store_release(change.object, ME);
    change.object = make(70, 70); // In the same slot, which was freed last.
    if (--change.times > 0)
        trp_fault_call_at("store view", 1, replace_object);
}

static void look_while_it_is_replaced(int times, bool expected)
{
    trp_store_view view = own_view();
    trp_object_seen seen;
    change.object = make(50, 50);
    change.times = times;
    uint32_t slot = trp_row_slot(change.object);
    trp_fault_call_at("store view", 1, replace_object);
    assert_int_equal(trp_view_object(&view, slot, &seen), expected);
    trp_fault_call_at("store view", 0, NULL);
    assert_int_equal(trp_row_slot(change.object), slot);
    if (expected) {
        assert_true(seen.id == change.object);
        assert_int_equal(seen.size, 70);
        assert_int_equal(seen.schema, 70);
    }
    trp_store_release(change.object, ME);
}

static void test_an_object_that_changes_is_looked_at_again(void **state)
{
    (void)state;
    look_while_it_is_replaced(1, true);
    look_while_it_is_replaced(3, true);
    look_while_it_is_replaced(1000, false);
}

#endif

// ---- from outside

static void test_the_tables_can_be_mapped_alone(void **state)
{
    (void)state;
    trp_store_view view;
    trp_object_seen seen;
    trp_object id = make(5, 3);
    assert_int_equal(trp_view_open(getpid(), &view), TROUPE_OK);
    assert_true(view.mapped > 0);
    assert_true(view.base != trp_segment.base);
    assert_true(trp_view_object(&view, trp_row_slot(id), &seen));
    assert_true(seen.id == id);
    assert_int_equal(seen.schema, 3);
    trp_view_close(&view);
    assert_int_equal(trp_view_open(1 << 30, &view), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "No such file"));
    trp_store_release(id, ME);
    // No descriptor is left behind.
    int before = support_count_descriptors();
    assert_int_equal(trp_view_open(getpid(), &view), TROUPE_OK);
    trp_view_close(&view);
    assert_int_equal(support_count_descriptors(), before);
}

// What a hostile process does to its segment once that was looked at and found good.
static void damage(void)
{
    trp_header *header = trp_segment.header;
    static const char wild[] = "\x1b]0;owned\a\n";
    for (uint32_t i = 0; i < TRP_TYPE_NAMES; i++) {
        atomic_store(&header->types[i].schema, 7);
        memset(header->types[i].name, 'x', TRP_TYPE_NAME); // Without an end.
        memcpy(header->types[i].name, wild, sizeof wild - 1);
        atomic_store(&header->types[i].named, 1);
    }
    memset(trp_segment_process(OTHER)->labels[0], 'y', TRP_LABEL_MAX);
    memcpy(trp_segment_process(OTHER)->labels[0], wild, sizeof wild - 1);
    trp_segment_process(OTHER)->labelled = 1;
    for (uint32_t slot = 0; slot < TRP_OBJECT_CHUNK; slot++) {
        trp_object_row *row = trp_object_row_at(slot);
        atomic_store(&row->place, (uint64_t)2 << 62 | ((UINT64_C(1) << 62) - 1)); // Any class.
        atomic_store(&row->maker, UINT16_MAX);
    }
    memset(header->present, 0xff, sizeof header->present);
    for (uint32_t i = 0; i < TRP_PROCESSES_MAX; i++)
        atomic_store(&header->ledger_backed[i], UINT64_MAX);
    atomic_store(&header->objects_backed, UINT32_MAX);
    atomic_store(&header->pages_backed, UINT32_MAX);
    header->pages_max = UINT32_MAX;
    header->capacity = header->data_at = header->end_at = UINT64_MAX / 2;
    header->objects_at = header->ledgers_at = header->pages_at = header->blocks_at = UINT64_MAX / 3;
}

// Nobody of this node: its segment is `damage`d when it is told to.
static _Noreturn void be_hostile(int told, int tells)
{
    char byte = 0;
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        _exit(1);
    trp_segment_process(OTHER)->pid = getpid();
    trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
    trp_store_open(OTHER);
    (void)make(100, 7);
    do {
        if (byte == 'd')
            damage();
        if (write(tells, "r", 1) != 1)
            _exit(1);
    } while (read(told, &byte, 1) == 1);
    _exit(0);
}

static void no_more(const trp_hold_seen *hold, void *count)
{
    assert_true(hold->process < TRP_PROCESSES_MAX && hold->object < TRP_OBJECTS_MAX);
    ++*(size_t *)count;
}

// All that is read after the header was checked may have changed since: nothing is looked for where
// it says now, and no text goes on or reaches a terminal as it is.
static void test_what_strangers_write_is_not_believed(void **state)
{
    (void)state;
    int tell[2], hear[2], status;
    char byte, name[TRP_TYPE_NAME];
    trp_store_view view;
    trp_object_seen seen;
    uint64_t left, longest, before, after;
    size_t held = 0, objects = 0;
    assert_int_equal(pipe(tell), 0);
    assert_int_equal(pipe(hear), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(tell[1]);
        be_hostile(tell[0], hear[1]);
    }
    close(tell[0]);
    assert_int_equal(read(hear[0], &byte, 1), 1);
    assert_int_equal(trp_view_open(child, &view), TROUPE_OK);
    assert_int_equal(write(tell[1], "d", 1), 1);
    assert_int_equal(read(hear[0], &byte, 1), 1);
    assert_int_equal(trp_view_objects(&view), TRP_OBJECTS_MAX);
    for (uint32_t slot = 0; slot < TRP_OBJECT_CHUNK; slot++)
        objects += trp_view_object(&view, slot, &seen);
    assert_int_equal(objects, 1);
    assert_int_equal(trp_view_backed(&view, &before), TROUPE_OK);
    trp_view_holds(&view, no_more, &held);
    assert_int_equal(held, 1);
    assert_int_equal(trp_view_backed(&view, &after), TROUPE_OK);
    assert_true(after - before < 1 << 20); // A look takes no memory.
    trp_view_room(&view, &left, &longest);
    assert_true(left <= CAPACITY && longest <= left);
    assert_true(trp_view_type(&view, 7, name));
    assert_memory_equal(name, "\\x1b]0;owned\\x07\\nxx", 20);
    assert_true(strlen(name) < sizeof name);
    assert_memory_equal(trp_view_process(&view, OTHER).label, "\\x1b]0;owned\\x07\\nyy", 20);
    trp_view_close(&view);
    close(tell[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(hear[0]);
    close(hear[1]);
}

static void test_without_a_store(void **state)
{
    (void)state;
    trp_store_view view;
    char text[64] = "something";
    assert_int_equal(trp_view_open(0, &view), TROUPE_NOT_STARTED);
    assert_int_equal(trp_view_open(getpid(), &view), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "it has no store open"));
    trp_store_holders(text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_object, set_up, close_store),
        cmocka_unit_test_setup_teardown(test_holds, set_up, close_store),
        cmocka_unit_test_setup_teardown(test_room, set_up, close_store),
        cmocka_unit_test_setup_teardown(test_type_names, set_up, close_store),
        cmocka_unit_test_setup_teardown(test_its_holders_are_named_when_it_is_full, set_up,
                                        close_store),
        cmocka_unit_test_setup_teardown(test_what_is_seen_belongs_together, set_up, close_store),
#ifdef TROUPE_FAULTS
        cmocka_unit_test_setup_teardown(test_an_object_that_changes_is_looked_at_again, set_up,
                                        close_store),
#endif
        cmocka_unit_test_setup_teardown(test_the_tables_can_be_mapped_alone, set_up, close_store),
        cmocka_unit_test(test_what_strangers_write_is_not_believed),
        cmocka_unit_test(test_without_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
