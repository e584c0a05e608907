// test_wire.c: frames to and from the train server: whole, cut anywhere, several, and none.
#include <inttypes.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <train/wire.h>
#include <troupe.h>

static void answer_and_find(trp_buffer *out)
{
    trp_wire_answer answer = {.status = TROUPE_EXISTS, .text = "it differs in .ranks", .job = 7};
    trp_wire_job_name name = {.key = "night"};
    assert_int_equal(trp_wire_put(out, TRP_WIRE_ANSWER, 3, &troupe_type_trp_wire_answer, &answer),
                     TROUPE_OK);
    assert_int_equal(trp_wire_put(out, TRP_WIRE_FIND, 4, &troupe_type_trp_wire_job_name, &name),
                     TROUPE_OK);
}

static void comes_back(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_arena arena = {0};
    trp_wire_frame frame;
    trp_wire_answer answer;
    trp_wire_job_name name;
    size_t used, second;
    answer_and_find(&out);
    assert_int_equal(trp_wire_take(out.data, out.size, TRP_WIRE_BYTES_MAX, &frame, &used),
                     TROUPE_OK);
    assert_int_equal(frame.kind, TRP_WIRE_ANSWER);
    assert_int_equal(frame.number, 3);
    assert_int_equal(trp_wire_read(&frame, &troupe_type_trp_wire_answer, &arena, &answer),
                     TROUPE_OK);
    assert_int_equal(answer.status, TROUPE_EXISTS);
    assert_string_equal(answer.text, "it differs in .ranks");
    assert_int_equal(answer.job, 7);
    assert_int_equal(
        trp_wire_take(out.data + used, out.size - used, TRP_WIRE_BYTES_MAX, &frame, &second),
        TROUPE_OK);
    assert_int_equal(used + second, out.size);
    assert_int_equal(trp_wire_read(&frame, &troupe_type_trp_wire_job_name, &arena, &name),
                     TROUPE_OK);
    assert_string_equal(name.key, "night");
    assert_int_equal(trp_wire_read(&frame, &troupe_type_trp_wire_jobs, &arena, &name),
                     TROUPE_MALFORMED);
    trp_arena_clear(&arena);
    trp_buffer_free(&out);
}

static void is_cut_anywhere(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_wire_frame frame;
    size_t used, whole;
    answer_and_find(&out);
    assert_int_equal(trp_wire_take(out.data, out.size, TRP_WIRE_BYTES_MAX, &frame, &whole),
                     TROUPE_OK);
    for (size_t size = 0; size < whole; size++) {
        char *cut = trp_alloc(size + 1); // Of its own, so that a read beyond it is seen.
        memcpy(cut, out.data, size);
        assert_int_equal(trp_wire_take(cut, size, TRP_WIRE_BYTES_MAX, &frame, &used), TROUPE_OK);
        assert_int_equal(used, 0);
        trp_free(cut);
    }
    trp_buffer_free(&out);
}

static void is_refused(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_wire_frame frame;
    size_t used;
    answer_and_find(&out);
    assert_int_equal(trp_wire_take(out.data, out.size, 4, &frame, &used), TROUPE_MALFORMED);
    memset(out.data + 4, 0, 2); // No kind.
    assert_int_equal(trp_wire_take(out.data, out.size, TRP_WIRE_BYTES_MAX, &frame, &used),
                     TROUPE_MALFORMED);
    trp_buffer_free(&out);
}

// Who changes a struct of the wire changes the format with it, and then the sum here.
static void is_of_its_format(void **state)
{
    (void)state;
    static const troupe_type *const types[] = {
        &troupe_type_trp_wire_hello,  &troupe_type_trp_wire_answer,
        &troupe_type_trp_wire_object, &troupe_type_trp_wire_limit,
        &troupe_type_trp_wire_launch, &troupe_type_trp_wire_need,
        &troupe_type_trp_wire_submit, &troupe_type_trp_wire_job_name,
        &troupe_type_trp_wire_list,   &troupe_type_trp_wire_job,
        &troupe_type_trp_wire_jobs,   &troupe_type_trp_wire_live,
        &troupe_type_trp_wire_wishes, &troupe_type_trp_wire_wish,
        &troupe_type_trp_wire_runner, &troupe_type_trp_wire_progress,
        &troupe_type_trp_wire_order,  &troupe_type_trp_wire_handover,
        &troupe_type_trp_wire_warm,   &troupe_type_trp_wire_taken,
        &troupe_type_trp_wire_gone,   &troupe_type_trp_wire_stop,
        &troupe_type_trp_wire_gc,     &troupe_type_trp_wire_status,
        &troupe_type_trp_job_end};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        sum = sum * 1099511628211u + troupe_type_hash(types[i]);
    assert_int_equal(TRP_WIRE_FORMAT, 3);
    if (sum != 0x3f55430c87ccae91)
        fail_msg("the structs of train/wire.h add up to 0x%016" PRIx64
                 ": raise TRP_WIRE_FORMAT, and say so here",
                 sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(is_cut_anywhere),
        cmocka_unit_test(is_refused),
        cmocka_unit_test(is_of_its_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
