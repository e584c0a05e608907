// test_tensor.c: tensors as objects, arguments, fields and results, at every distance: what comes
// is what was sent, its elements are aligned, and large ones are read in the store itself.
// label: local
#include <places.h>
#include <support.h>

#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { ROWS = 300, COLUMNS = 1000, MANY = ROWS * COLUMNS }; // 1.2 MB of float32

// What a method saw of a tensor.
TROUPE_STRUCT(sight, (double, sum), (int, pid), (bool, aligned), (bool, in_store), (size_t, count));
TROUPE_STRUCT(parts, (troupe_text, label), (troupe_tensor, left),
              (troupe_array_troupe_tensor, more), (troupe_ref, extra));
TROUPE_STRUCT(halves, (troupe_tensor, low), (int, middle), (troupe_tensor, high));

typedef struct painter {
    int unused;
} painter;

// Whether an address lies in shared memory that cannot be written.
static bool lies_in_store(const void *data)
{
    char line[512];
    unsigned long long from, to, at = (uintptr_t)data;
    char rights[8];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL)
        found = sscanf(line, "%llx-%llx %7s", &from, &to, rights) == 3 && at >= from && at < to &&
                strstr(line, "memfd:") != NULL && strcmp(rights, "r--s") == 0;
    if (maps != NULL)
        (void)fclose(maps);
    return found;
}

static sight look_at(const troupe_tensor *tensor)
{
    sight seen = {.pid = getpid(),
                  .aligned = (uintptr_t)tensor->data % 64 == 0,
                  .in_store = lies_in_store(tensor->data),
                  .count = troupe_tensor_count(tensor)};
    const float *numbers = tensor->data;
    for (size_t i = 0; i < seen.count; i++)
        seen.sum += (double)numbers[i];
    return seen;
}

static troupe_status painter_look(painter *self, const troupe_tensor *tensor, sight *seen)
{
    (void)self;
    TROUPE_TRY(troupe_tensor_check(tensor, TROUPE_FLOAT32, 2));
    *seen = look_at(tensor);
    return TROUPE_OK;
}

// Of three tensors together.
static troupe_status painter_look_at_parts(painter *self, const parts *all, sight *seen)
{
    (void)self;
    if (strcmp(all->label, "parts") != 0 || all->more.count != 2)
        return troupe_fail(TROUPE_FAILED, "other parts came");
    *seen = look_at(&all->left);
    for (size_t i = 0; i < all->more.count; i++) {
        sight more = look_at(&all->more.items[i]);
        seen->sum += more.sum;
        seen->aligned &= more.aligned;
        seen->in_store &= more.in_store;
        seen->count += more.count;
    }
    return TROUPE_OK;
}

// Of a tensor behind a reference, which may be a pending call's.
static troupe_status painter_look_behind(painter *self, const troupe_ref *ref, sight *seen)
{
    (void)self;
    troupe_tensor tensor;
    troupe_view view;
    TROUPE_TRY(troupe_view_tensor(*ref, TROUPE_FLOAT32, 2, &tensor, &view, -1));
    *seen = look_at(&tensor);
    troupe_view_end(&view);
    return TROUPE_OK;
}

// A table with so many columns, and its numbers in order.
static troupe_status painter_make(painter *self, const size_t *columns, troupe_tensor *table)
{
    (void)self;
    float *numbers = troupe_arena_alloc(2 * *columns * sizeof *numbers);
    for (size_t i = 0; i < 2 * *columns; i++)
        numbers[i] = (float)i;
    *table = troupe_tensor_of(TROUPE_FLOAT32, numbers, 2, *columns);
    return TROUPE_OK;
}

// The same, written where it stays.
static troupe_status painter_make_there(painter *self, const size_t *columns, troupe_ref *table)
{
    (void)self;
    troupe_buffer buffer;
    TROUPE_TRY(troupe_tensor_create(&troupe_tensor_of(TROUPE_FLOAT32, NULL, 2, *columns), &buffer));
    for (size_t i = 0; i < 2 * *columns; i++)
        ((float *)buffer.data)[i] = (float)i;
    return troupe_buffer_seal(&buffer, table);
}

static troupe_status painter_split(painter *self, const size_t *columns, halves *result)
{
    result->middle = 7;
    TROUPE_TRY(painter_make(self, columns, &result->low));
    return painter_make(self, &(size_t){*columns * 2}, &result->high);
}

static troupe_status painter_make_odd(painter *self, const uint32_t *ndim, troupe_tensor *odd)
{
    (void)self;
    *odd = (troupe_tensor){.dtype = TROUPE_FLOAT32, .ndim = *ndim, .shape = {5}};
    return TROUPE_OK;
}

TROUPE_ACTOR(painter, (painter_look, troupe_tensor, sight), (painter_look_at_parts, parts, sight),
             (painter_look_behind, troupe_ref, sight), (painter_make, size_t, troupe_tensor),
             (painter_make_there, size_t, troupe_ref), (painter_split, size_t, halves),
             (painter_make_odd, uint32_t, troupe_tensor));

static float *numbers; // MANY of them

static int set_up(void **state)
{
    (void)state;
    numbers = malloc(MANY * sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < MANY; i++)
        numbers[i] = (float)(i % 17);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    int status = stop_runtime(state);
    free(numbers);
    return status;
}

static double sum_of(size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)numbers[i];
    return sum;
}

static void expect_error(troupe_status status, troupe_status wanted, const char *part)
{
    assert_int_equal(status, wanted);
    if (strstr(troupe_last_error()->text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, troupe_last_error()->text);
}

// ---- objects

static void test_put_view_and_get(void **state)
{
    (void)state;
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT32, numbers, ROWS, COLUMNS), seen, copy;
    troupe_view view, other;
    troupe_ref ref = troupe_put(troupe_tensor, &table);
    troupe_must(troupe_view_tensor(ref, TROUPE_FLOAT32, 2, &seen, &view, -1));
    assert_int_equal((uintptr_t)seen.data % 64, 0);
    assert_true(lies_in_store(seen.data));
    assert_ptr_equal(seen.data, view.data);
    assert_int_equal(view.size, MANY * sizeof(float));
    assert_int_equal(seen.ndim, 2);
    assert_int_equal(seen.shape[0], ROWS);
    assert_int_equal(troupe_tensor_stride(&seen, 0), COLUMNS);
    assert_memory_equal(seen.data, numbers, view.size);

    troupe_must(troupe_view_tensor(ref, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, &copy, &other, 0));
    assert_ptr_equal(copy.data, seen.data); // Nothing was copied.
    troupe_view_end(&other);
    troupe_must(troupe_get(troupe_tensor, ref, &copy));
    assert_ptr_not_equal(copy.data, seen.data);
    assert_int_equal((uintptr_t)copy.data % 64, 0);
    assert_memory_equal(copy.data, numbers, view.size);
    assert_memory_equal(seen.data, numbers, view.size); // The view holds it still.
    troupe_view_end(&view);
    assert_int_equal(troupe_view_tensor(ref, TROUPE_FLOAT32, 2, &seen, &view, 0), TROUPE_INVALID);
    troupe_arena_reset();
    assert_store_empty();
}

static void test_every_type_and_rank(void **state)
{
    (void)state;
    static unsigned char bytes[2 * 3 * 8];
    for (int dtype = TROUPE_BOOL; dtype <= TROUPE_FLOAT64; dtype++) {
        for (uint32_t ndim = 0; ndim <= TROUPE_DIMS_MAX; ndim++) {
            troupe_tensor sent = {.data = bytes, .dtype = (troupe_dtype)dtype, .ndim = ndim}, seen;
            for (uint32_t i = 0; i < ndim; i++)
                sent.shape[i] = i == 0 ? 2 : i == 4 ? 3 : 1;
            size_t size = troupe_tensor_count(&sent) * troupe_dtype_size(sent.dtype);
            for (size_t i = 0; i < size; i++)
                bytes[i] = (unsigned char)(dtype == TROUPE_BOOL ? i % 2 : i + ndim);
            troupe_view view;
            troupe_ref ref = troupe_put(troupe_tensor, &sent);
            troupe_must(troupe_view_tensor(ref, (troupe_dtype)dtype, (int)ndim, &seen, &view, -1));
            assert_memory_equal(seen.shape, sent.shape, sizeof sent.shape);
            assert_int_equal(view.size, size);
            assert_memory_equal(view.data, bytes, size);
            troupe_view_end(&view);
            troupe_ref_drop(ref);
        }
    }
    // Without elements, and none at all.
    troupe_tensor empty = troupe_tensor_of(TROUPE_INT64, NULL, 4, 0, 2), none = {0}, seen;
    troupe_view view;
    troupe_ref ref = troupe_put(troupe_tensor, &empty);
    troupe_must(troupe_view_tensor(ref, TROUPE_INT64, 3, &seen, &view, -1));
    assert_int_equal(seen.shape[2], 2);
    assert_int_equal(view.size, 0);
    troupe_view_end(&view);
    troupe_ref_drop(ref);
    seen = empty;
    troupe_must(troupe_get(troupe_tensor, troupe_put(troupe_tensor, &none), &seen));
    assert_int_equal(seen.dtype, TROUPE_DTYPE_NONE);
    assert_store_empty();
}

static void test_created_in_place(void **state)
{
    (void)state;
    troupe_buffer buffer;
    troupe_tensor like = troupe_tensor_of(TROUPE_FLOAT32, NULL, 100, 200), seen;
    troupe_view view;
    troupe_ref ref;
    troupe_must(troupe_tensor_create(&like, &buffer));
    assert_int_equal((uintptr_t)buffer.data % 64, 0);
    assert_int_equal(buffer.size, 100 * 200 * sizeof(float));
    memcpy(buffer.data, numbers, buffer.size);
    troupe_must(troupe_buffer_seal(&buffer, &ref));
    assert_null(buffer.data);
    assert_int_equal(troupe_buffer_seal(&buffer, &ref), TROUPE_INVALID);
    troupe_must(troupe_view_tensor(ref, TROUPE_FLOAT32, 2, &seen, &view, 0));
    assert_memory_equal(seen.data, numbers, view.size);
    troupe_view_end(&view);
    expect_error(troupe_view_bytes(ref, &view, 0), TROUPE_WRONG_TYPE, "'troupe_tensor'");
    troupe_ref_drop(ref);

    troupe_must(troupe_tensor_create(&like, &buffer));
    troupe_buffer_discard(&buffer);
    troupe_buffer_discard(&buffer);
    like.ndim = 9;
    expect_error(troupe_tensor_create(&like, &buffer), TROUPE_INVALID, "9 dimensions");
    like = (troupe_tensor){0};
    expect_error(troupe_tensor_create(&like, &buffer), TROUPE_INVALID, "element type");
    assert_int_equal(troupe_tensor_create(NULL, &buffer), TROUPE_INVALID);
    like = troupe_tensor_of(TROUPE_FLOAT64, NULL, (size_t)1 << 50);
    assert_int_equal(troupe_tensor_create(&like, &buffer), TROUPE_TOO_LARGE);
    like = troupe_tensor_of(TROUPE_FLOAT64, NULL, (size_t)1 << 32, (size_t)1 << 32);
    expect_error(troupe_tensor_create(&like, &buffer), TROUPE_INVALID, "than memory can hold");
    assert_store_empty();
}

static void test_what_is_refused(void **state)
{
    (void)state;
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT32, numbers, 3, 4), seen;
    troupe_view view;
    double number = 1;
    troupe_ref ref = troupe_put(troupe_tensor, &table);
    expect_error(troupe_view_tensor(ref, TROUPE_FLOAT64, 1, &seen, &view, -1), TROUPE_WRONG_TYPE,
                 "float32[3,4] where float64[?] was expected");
    expect_error(troupe_view_tensor(ref, TROUPE_FLOAT32, 3, &seen, &view, -1), TROUPE_WRONG_TYPE,
                 "float32[3,4] where float32[?,?,?] was expected");
    expect_error(troupe_get(double, ref, &number), TROUPE_WRONG_TYPE, "'troupe_tensor'");
    ref = troupe_put(double, &number);
    expect_error(troupe_view_tensor(ref, TROUPE_FLOAT64, 0, &seen, &view, -1), TROUPE_WRONG_TYPE,
                 "'double'");
    troupe_ref_drop(ref);
    table.data = NULL;
    expect_error(troupe_get(troupe_tensor, troupe_put(troupe_tensor, &table), &seen),
                 TROUPE_INVALID, "expected the 48 bytes of float32[3,4], found a null pointer");
    table.ndim = 9;
    expect_error(troupe_get(troupe_tensor, troupe_put(troupe_tensor, &table), &seen),
                 TROUPE_INVALID, "9 dimensions");
    for (int p = 0; p < PLACES; p++) {
        painter_actor actor = troupe_spawn(painter, .place = places[p]);
        sight unseen;
        troupe_tensor flat = troupe_tensor_of(TROUPE_INT16, numbers, 6);
        expect_error(troupe_get(sight, troupe_call_from(actor, painter_look, &flat), &unseen),
                     TROUPE_WRONG_TYPE, "int16[6] where float32[?,?] was expected");
        expect_error(troupe_get(sight, troupe_call_from(actor, painter_look, &table), &unseen),
                     TROUPE_INVALID, "9 dimensions");
        // A result, too, before anybody reads it.
        expect_error(troupe_get(troupe_tensor, troupe_call(actor, painter_make_odd, 9), &seen),
                     TROUPE_INVALID, "9 dimensions");
        expect_error(troupe_get(troupe_tensor, troupe_call(actor, painter_make_odd, 1), &seen),
                     TROUPE_INVALID, "20 bytes of float32[5]");
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

static void test_packed_for_others(void **state)
{
    (void)state;
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT32, numbers, 3, 4), back;
    troupe_bytes packed;
    troupe_must(troupe_get_packed(troupe_put(troupe_tensor, &table), &packed));
    troupe_must(troupe_unpack(troupe_tensor, packed.data, packed.size, &back));
    assert_int_equal(troupe_tensor_check(&back, TROUPE_FLOAT32, 2), TROUPE_OK);
    assert_memory_equal(back.data, numbers, 48);
    troupe_arena_reset();
    assert_store_empty();
}

// ---- messages

static void expect_seen(const sight *seen, size_t count, bool large)
{
    bool lent = !trp_memory_watched(); // Else copied, so that uses after the end are seen.
    assert_int_equal(seen->count, count);
    assert_true(seen->sum == sum_of(count));
    assert_true(seen->aligned);
    assert_int_equal(seen->in_store, lent && large && seen->pid != getpid());
}

static void test_arguments(void **state)
{
    (void)state;
    troupe_tensor small = troupe_tensor_of(TROUPE_FLOAT32, numbers, 3, 4);
    troupe_tensor large = troupe_tensor_of(TROUPE_FLOAT32, numbers, ROWS, COLUMNS);
    for (int p = 0; p < PLACES; p++) {
        painter_actor actor = troupe_spawn(painter, .place = places[p]);
        sight seen;
        troupe_must(troupe_get(sight, troupe_call_from(actor, painter_look, &small), &seen));
        expect_seen(&seen, 12, false);
        troupe_must(troupe_get(sight, troupe_call_from(actor, painter_look, &large), &seen));
        expect_seen(&seen, MANY, true);
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

// Fields are read in place, too, whether the value goes as an object of its own or, since it has a
// reference in it, as a body.
static void test_fields(void **state)
{
    (void)state;
    troupe_tensor two[2] = {troupe_tensor_of(TROUPE_FLOAT32, numbers, ROWS, COLUMNS),
                            troupe_tensor_of(TROUPE_FLOAT32, numbers, 1024)};
    double number = 1;
    double expected = 2 * sum_of(MANY) + sum_of(1024);
    for (int p = 0; p < PLACES; p++) {
        painter_actor actor = troupe_spawn(painter, .place = places[p]);
        parts all = {"parts", two[0], {two, 2}, {0}};
        for (int round = 0; round < 2; round++) {
            sight seen;
            troupe_must(
                troupe_get(sight, troupe_call_from(actor, painter_look_at_parts, &all), &seen));
            assert_true(seen.sum == expected);
            assert_int_equal(seen.count, 2 * MANY + 1024);
            assert_true(seen.aligned);
            assert_int_equal(seen.in_store, !trp_memory_watched() && seen.pid != getpid());
            if (round == 0)
                all.extra = troupe_put(double, &number);
        }
        troupe_ref_drop(all.extra);
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

static void test_objects_in_other_processes(void **state)
{
    (void)state;
    troupe_tensor large = troupe_tensor_of(TROUPE_FLOAT32, numbers, ROWS, COLUMNS);
    for (int p = 0; p < PLACES; p++) {
        painter_actor actor = troupe_spawn(painter, .place = places[p]);
        troupe_ref ref = troupe_put(troupe_tensor, &large);
        sight seen;
        troupe_must(troupe_get(sight, troupe_call_from(actor, painter_look_behind, &ref), &seen));
        assert_true(seen.sum == sum_of(MANY) && seen.aligned && seen.in_store);
        troupe_ref_drop(ref);
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

static void expect_made(const troupe_tensor *table, size_t columns)
{
    troupe_must(troupe_tensor_check(table, TROUPE_FLOAT32, 2));
    assert_int_equal(table->shape[0], 2);
    assert_int_equal(table->shape[1], columns);
    assert_int_equal((uintptr_t)table->data % 64, 0);
    for (size_t i = 0; i < 2 * columns; i++)
        assert_true(((const float *)table->data)[i] == (float)i);
}

static void test_results(void **state)
{
    (void)state;
    static const size_t widths[] = {0, 1, 1000, 8192, 100000};
    for (int p = 0; p < PLACES; p++) {
        painter_actor actor = troupe_spawn(painter, .place = places[p]);
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            troupe_tensor table;
            troupe_view view;
            troupe_ref ref = troupe_call(actor, painter_make, widths[i]);
            troupe_must(troupe_view_tensor(ref, TROUPE_FLOAT32, 2, &table, &view, -1));
            assert_true(widths[i] == 0 || lies_in_store(table.data));
            expect_error(troupe_view_tensor(ref, TROUPE_INT8, 2, &table, &view, -1),
                         TROUPE_WRONG_TYPE, "where int8[?,?] was expected");
            expect_made(&table, widths[i]); // Outputs are set on success only.
            troupe_view_end(&view);
            troupe_must(troupe_get(troupe_tensor, ref, &table));
            expect_made(&table, widths[i]);

            troupe_must(
                troupe_get(troupe_ref, troupe_call(actor, painter_make_there, widths[i]), &ref));
            troupe_must(troupe_get(troupe_tensor, ref, &table));
            expect_made(&table, widths[i]);
            troupe_arena_reset();
        }
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

// The result of a call, ready or not, that another process reads through a reference.
static void test_results_passed_on(void **state)
{
    (void)state;
    static const size_t widths[] = {10, 50000};
    for (int p = 0; p < PLACES; p++) {
        painter_actor maker = troupe_spawn(painter, .place = places[p]);
        painter_actor reader = troupe_spawn(painter, .place = places[(p + 1) % PLACES]);
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            sight seen;
            double n = (double)(2 * widths[i]);
            troupe_ref ref = troupe_call(maker, painter_make, widths[i]);
            troupe_must(
                troupe_get(sight, troupe_call_from(reader, painter_look_behind, &ref), &seen));
            assert_true(seen.sum == n * (n - 1) / 2);
            assert_int_equal(seen.count, 2 * widths[i]);
            assert_true(seen.aligned && seen.in_store);
            troupe_ref_drop(ref);
        }
        troupe_actor_kill(maker);
        troupe_actor_kill(reader);
    }
    assert_store_empty();
}

static void test_parts_of_a_result(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        painter_actor actor = troupe_spawn(painter, .place = places[p]);
        troupe_ref low, middle, high;
        troupe_ref_split(halves, troupe_call(actor, painter_split, 20000), &low, &middle, &high);
        troupe_tensor table;
        troupe_view view;
        int number;
        troupe_must(troupe_view_tensor(high, TROUPE_FLOAT32, 2, &table, &view, -1));
        expect_made(&table, 40000);
        troupe_view_end(&view);
        troupe_must(troupe_get(troupe_tensor, low, &table));
        expect_made(&table, 20000);
        troupe_must(troupe_get(int, middle, &number));
        assert_int_equal(number, 7);
        troupe_ref_drop(high);
        troupe_actor_kill(actor);
        troupe_arena_reset();
    }
    assert_store_empty();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_view_and_get),
        cmocka_unit_test(test_every_type_and_rank),
        cmocka_unit_test(test_created_in_place),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_packed_for_others),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_objects_in_other_processes),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_results_passed_on),
        cmocka_unit_test(test_parts_of_a_result),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
