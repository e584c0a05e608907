// test_message.c: the forms in which values travel: as their memory, packed, or as an object of the
// store.
#include <places.h>
#include <support.h>

#include <actors/actor/message.h>
#include <actors/ref/ref.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/read.h>
#include <string.h>
#include <troupe/actor.h>

TROUPE_STRUCT(wide, (double, numbers, 40), (bool, odd), (int64_t, last));
TROUPE_STRUCT(huge, (double, numbers, 20000));
TROUPE_STRUCT(parcel, (troupe_text, label), (troupe_bytes, blob));
TROUPE_STRUCT(card, (troupe_actor, to), (int, number));
TROUPE_STRUCT(basket, (int8_t, wanted), (troupe_ref, items, 9), (int, count), (int8_t, tail, 3));

typedef struct mirror {
    int64_t seen;
    troupe_ref kept;
} mirror;

static troupe_status mirror_small(mirror *self, const int64_t *in, int64_t *out)
{
    *out = *in + self->seen++;
    return TROUPE_OK;
}

static troupe_status mirror_wide(mirror *self, const wide *in, wide *out)
{
    (void)self;
    *out = *in;
    out->last = -in->last;
    return TROUPE_OK;
}

static troupe_status mirror_huge(mirror *self, const huge *in, huge *out)
{
    (void)self;
    *out = *in;
    out->numbers[19999] *= 2;
    return TROUPE_OK;
}

static troupe_status mirror_bytes(mirror *self, const troupe_bytes *in, troupe_bytes *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

static troupe_status mirror_parcel(mirror *self, const parcel *in, parcel *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

static troupe_status mirror_none(mirror *self, const troupe_none *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    return TROUPE_OK;
}

// The options of calls that a handle has are its owner's affair: what does this one have?
static troupe_status mirror_card(mirror *self, const card *in, int *deadline_ms)
{
    (void)self;
    *deadline_ms = (int)in->to.deadline_ms;
    return TROUPE_OK;
}

// What a call's reference stands for, got in another process than the caller's.
static troupe_status mirror_sum(mirror *self, const troupe_ref *of, double *sum)
{
    huge value;
    (void)self;
    TROUPE_TRY(troupe_get(huge, *of, &value));
    for (int i = 0; i < 20000; i++)
        *sum += value.numbers[i];
    return TROUPE_OK;
}

static troupe_status mirror_double(mirror *self, const troupe_ref *of, int64_t *twice)
{
    (void)self;
    TROUPE_TRY(troupe_get(int64_t, *of, twice));
    *twice *= 2;
    return TROUPE_OK;
}

// The sum of what its references stand for; one of them is kept, and given up with the next.
static troupe_status mirror_basket(mirror *self, const basket *in, int64_t *sum)
{
    int count = 0;
    for (int i = 0; i < 9; i++) {
        int64_t number;
        if (in->items[i].id == 0)
            continue;
        TROUPE_TRY(troupe_get(int64_t, in->items[i], &number));
        *sum += number;
        count++;
    }
    if (count != in->count || in->tail[2] != 3)
        return troupe_fail(TROUPE_FAILED, "%d references came, not %d", count, in->count);
    if (self->kept.id != 0)
        troupe_ref_drop(self->kept);
    self->kept = in->wanted >= 0 ? troupe_ref_keep(in->items[in->wanted]) : (troupe_ref){0};
    return TROUPE_OK;
}

static troupe_status mirror_kept(mirror *self, const troupe_none *none, int64_t *number)
{
    (void)none;
    return troupe_get(int64_t, troupe_ref_keep(self->kept), number);
}

TROUPE_ACTOR(mirror, (mirror_small, int64_t, int64_t), (mirror_wide, wide, wide),
             (mirror_huge, huge, huge), (mirror_bytes, troupe_bytes, troupe_bytes),
             (mirror_parcel, parcel, parcel), (mirror_none, troupe_none, troupe_none),
             (mirror_card, card, int), (mirror_sum, troupe_ref, double),
             (mirror_double, troupe_ref, int64_t), (mirror_basket, basket, int64_t),
             (mirror_kept, troupe_none, int64_t));

enum { LARGE = 300000 };

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void end(mirror_actor actor)
{
    troupe_actor_kill(actor);
    assert_store_empty();
}

static void test_flat_values(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        mirror_actor actor = troupe_spawn(mirror, .place = places[p]);
        int64_t number;
        for (int i = 0; i < 10; i++) {
            troupe_must(troupe_get(int64_t, troupe_call(actor, mirror_small, 100), &number));
            assert_int_equal(number, 100 + i);
        }
        wide in = {.odd = true, .last = INT64_MIN + 1}, out;
        for (int i = 0; i < 40; i++)
            in.numbers[i] = i * 0.5;
        troupe_must(troupe_get(wide, troupe_call_from(actor, mirror_wide, &in), &out));
        assert_memory_equal(in.numbers, out.numbers, sizeof in.numbers);
        assert_true(out.odd && out.last == INT64_MAX);
        troupe_none none;
        troupe_must(troupe_get(troupe_none, troupe_call(actor, mirror_none), &none));
        static huge big, back; // More than fits in a frame.
        for (int i = 0; i < 20000; i++)
            big.numbers[i] = i;
        troupe_must(troupe_get(huge, troupe_call_from(actor, mirror_huge, &big), &back));
        big.numbers[19999] *= 2;
        assert_memory_equal(&big, &back, sizeof big);
        end(actor);
    }
}

static void test_large_values(void **state)
{
    (void)state;
    static char text[LARGE];
    for (int p = 0; p < PLACES; p++) {
        mirror_actor actor = troupe_spawn(mirror, .place = places[p]);
        memset(text, 'a' + p, sizeof text);
        parcel in = {"label", {text, sizeof text}}, out;
        troupe_must(troupe_get(parcel, troupe_call_from(actor, mirror_parcel, &in), &out));
        assert_string_equal(out.label, "label");
        assert_int_equal(out.blob.size, sizeof text);
        assert_memory_equal(out.blob.data, text, sizeof text);
        troupe_ref ref = troupe_call(actor, mirror_bytes, text, sizeof text);
        troupe_bytes bytes;
        troupe_must(troupe_get(troupe_bytes, ref, &bytes));
        assert_int_equal(bytes.size, sizeof text);
        assert_memory_equal(bytes.data, text, sizeof text);
        troupe_arena_reset();
        end(actor);
    }
}

// A large result is written to the store by its maker; views of it lend that memory.
static void test_views_make_no_copy(void **state)
{
    (void)state;
    static char text[LARGE];
    for (int p = 0; p < PLACES; p++) {
        mirror_actor actor = troupe_spawn(mirror, .place = places[p]);
        memset(text, '0' + p, sizeof text);
        troupe_ref ref = troupe_call(actor, mirror_bytes, text, sizeof text);
        troupe_view first, second;
        troupe_store_usage usage;
        troupe_must(troupe_view_bytes(ref, &first, 10000));
        troupe_must(troupe_view_bytes(ref, &second, 10000));
        assert_ptr_equal(first.data, second.data);
        assert_int_equal((uintptr_t)first.data % 64, 0);
        assert_int_equal(first.size, sizeof text);
        assert_memory_equal(first.data, text, sizeof text);
        // Besides it there may be the argument, until the message has gone.
        troupe_must(troupe_store_usage_get(&usage));
        assert_in_range(usage.objects, 1, 2);
        troupe_ref_drop(ref);
        troupe_view_end(&first);
        assert_memory_equal(second.data, text, sizeof text);
        troupe_view_end(&second);
        end(actor);
    }
}

static void test_handles_lose_their_options(void **state)
{
    (void)state;
    mirror_actor actor = troupe_spawn(mirror, .place = TROUPE_PLACE_WORKER);
    card in = {.to = troupe_with(actor, .deadline_ms = 77).address, .number = 1};
    int deadline_ms;
    troupe_must(troupe_get(int, troupe_call_from(actor, mirror_card, &in), &deadline_ms));
    assert_int_equal(deadline_ms, 0);
    end(actor);
}

// Who calls by name gets MessagePack, whatever the type; who has a type may ask for it as well.
static void test_packed_answers(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        mirror_actor actor = troupe_spawn(mirror, .place = places[p]);
        troupe_bytes packed;
        troupe_must(troupe_get_packed(
            troupe_call_named(actor.address, "mirror_small", (troupe_bytes){"\7", 1}), &packed,
            TROUPE_FOREVER));
        assert_int_equal(packed.size, 1);
        assert_int_equal(*(const char *)packed.data, 7);
        troupe_must(troupe_get_packed(troupe_call(actor, mirror_small, 7), &packed));
        assert_int_equal(packed.size, 1);
        assert_int_equal(*(const char *)packed.data, 8);
        static char text[LARGE];
        troupe_must(
            troupe_get_packed(troupe_call(actor, mirror_bytes, text, sizeof text), &packed));
        assert_int_equal(packed.size, sizeof text + 5);
        static huge big = {.numbers = {1, 2, 3}};
        huge back;
        troupe_must(troupe_get_packed(troupe_call_from(actor, mirror_huge, &big), &packed));
        troupe_must(troupe_unpack(huge, packed.data, packed.size, &back));
        assert_memory_equal(&big, &back, sizeof big);
        troupe_arena_reset();
        end(actor);
    }
}

// References to calls whose results come as images and objects, passed on.
static void test_promised_results(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        mirror_actor maker = troupe_spawn(mirror, .place = places[p]);
        mirror_actor reader = troupe_spawn(mirror, .place = TROUPE_PLACE_WORKER);
        static huge big = {.numbers = {1, 2, 3}};
        big.numbers[19999] = 4;
        double sum;
        int64_t twice;
        troupe_ref ref = troupe_call_from(maker, mirror_huge, &big);
        troupe_must(troupe_get(double, troupe_call_from(reader, mirror_sum, &ref), &sum));
        assert_true(sum == 14);
        troupe_ref_drop(ref);
        ref = troupe_call(maker, mirror_small, 21);
        troupe_must(troupe_get(int64_t, troupe_call_from(reader, mirror_double, &ref), &twice));
        assert_int_equal(twice, 42);
        troupe_ref_drop(ref);
        troupe_actor_kill(maker);
        end(reader);
    }
}

// References inside a flat value: none, the same one twice, more than a few, of objects and of
// calls.
static void test_references_in_flat_values(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        mirror_actor actor = troupe_spawn(mirror, .place = places[p]);
        int64_t number = 1000, sum, kept;
        troupe_ref object = troupe_put(int64_t, &number);
        for (int count = 0; count <= 9; count++) {
            basket in = {.wanted = (int8_t)(count > 1 ? count - 1 : -1), .tail = {1, 2, 3}};
            troupe_ref call = troupe_call(actor, mirror_small, 0);
            for (int i = 0; i < count; i++)
                in.items[i] = i % 3 == 2 ? call : object;
            in.items[count > 4 ? 1 : 8].id = 0; // A gap.
            for (int i = 0; i < 9; i++)
                in.count += in.items[i].id != 0;
            troupe_must(troupe_get(int64_t, troupe_call_from(actor, mirror_basket, &in), &sum));
            int64_t of_call;
            troupe_must(troupe_get(int64_t, call, &of_call));
            int64_t expected = 0;
            for (int i = 0; i < 9; i++)
                expected += in.items[i].id == 0 ? 0 : in.items[i].id == call.id ? of_call : 1000;
            assert_int_equal(sum, expected);
            if (in.wanted >= 0) {
                troupe_must(troupe_get(int64_t, troupe_call(actor, mirror_kept), &kept));
                assert_int_equal(kept, in.items[in.wanted].id == call.id ? of_call : 1000);
            }
        }
        basket empty = {.wanted = -1, .tail = {1, 2, 3}};
        troupe_must(troupe_get(int64_t, troupe_call_from(actor, mirror_basket, &empty), &sum));
        // To a method that fails, and to nobody.
        basket wrong = {.items = {object, object}, .count = 5};
        assert_int_equal(troupe_get(int64_t, troupe_call_from(actor, mirror_basket, &wrong), &sum),
                         TROUPE_FAILED);
        troupe_actor_kill(actor);
        assert_int_not_equal(
            troupe_get(int64_t, troupe_call_from(actor, mirror_basket, &wrong), &sum), TROUPE_OK);
        troupe_ref_drop(object);
        assert_store_empty();
    }
}

// A body whose list is not that of the references in it: it is refused, and what it lists, which
// its sender has held for us, is given back.
static void test_lists_that_are_wrong(void **state)
{
    (void)state;
    enum { GOOD, SHORT, LONG, OTHER, CUT, HUGE_COUNT, UNWANTED, WAYS };
    trp_shape shape = trp_shape_of(&troupe_type_basket);
    assert_true(shape.held && !shape.image);
    for (int way = 0; way < WAYS; way++) {
        int64_t number = 5;
        trp_object objects[3];
        for (int i = 0; i < 3; i++) {
            objects[i] = troupe_put(int64_t, &number).id;
            assert_int_equal(trp_store_hold(objects[i], trp_process_slot()), TROUPE_OK);
        }
        basket value = {.items = {{.id = objects[0]}, {.id = objects[1]}}};
        uint64_t list[3] = {objects[0], objects[1], objects[2]};
        uint64_t count = way == SHORT ? 1 : way == LONG ? 3 : 2;
        if (way == OTHER)
            list[1] = objects[2];
        trp_buffer body = {0};
        trp_buffer_append(&body, &value, sizeof value);
        trp_buffer_append(&body, list, count * sizeof *list);
        if (way == HUGE_COUNT)
            count = UINT64_MAX / 8;
        trp_buffer_append(&body, &count, sizeof count);
        trp_frame frame = {.kind = TRP_FRAME_CALL,
                           .flags = TRP_FRAME_HELD,
                           .from = trp_process_slot(),
                           .body = body.data,
                           .body_size = body.size - (way == CUT ? 12 : 0)};
        trp_message *message = NULL;
        if (way == UNWANTED)
            trp_body_refuse(&frame, 0);
        else
            assert_int_equal(trp_message_receive(TRP_MESSAGE_CALL, &frame, &shape, &message),
                             way == GOOD ? TROUPE_OK : TROUPE_MALFORMED);
        trp_message_free(message);
        trp_buffer_free(&body);
        // The first holds are this test's; of the second ones those are gone that were listed.
        for (int i = 0; i < 3; i++)
            trp_store_release(objects[i], trp_process_slot());
        for (int i = 0; i < 3; i++) {
            bool listed = i == 0   ? way != CUT && way != HUGE_COUNT
                          : i == 1 ? way == GOOD || way == LONG || way == UNWANTED
                                   : way == LONG || way == OTHER;
            assert_int_equal(trp_store_look(objects[i]).state,
                             listed ? TRP_OBJECT_GONE : TRP_OBJECT_SEALED);
            trp_store_release(objects[i], trp_process_slot());
        }
        assert_store_empty();
    }
}

// What was sent to the dead is taken back.
static void test_nothing_stays_in_the_store(void **state)
{
    (void)state;
    static char text[LARGE];
    mirror_actor actor = troupe_spawn(mirror, .place = TROUPE_PLACE_WORKER);
    troupe_bytes bytes;
    troupe_actor_kill(actor);
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            troupe_get(troupe_bytes, troupe_call(actor, mirror_bytes, text, sizeof text), &bytes),
            TROUPE_NOT_EXECUTED);
    actor = troupe_spawn(mirror, .place = TROUPE_PLACE_WORKER);
    for (int i = 0; i < 5; i++)
        troupe_ref_drop(troupe_call(actor, mirror_bytes, text, sizeof text));
    end(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_values),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_views_make_no_copy),
        cmocka_unit_test(test_handles_lose_their_options),
        cmocka_unit_test(test_packed_answers),
        cmocka_unit_test(test_promised_results),
        cmocka_unit_test(test_references_in_flat_values),
        cmocka_unit_test(test_lists_that_are_wrong),
        cmocka_unit_test(test_nothing_stays_in_the_store),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
