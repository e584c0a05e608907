// test_batch.c: batches of frames in the form within a machine: what comes back, and what is
// refused.
#include "frames.h"

#include <runtime/base/memory.h>
#include <runtime/link/batch.h>
#include <shapes.h>
#include <support.h>

enum { HEAD = 32, RECORD = 48 }; // Bytes, as batch.h promises to other builds.

static trp_frame some_frame(uint64_t sequence, const void *body, size_t body_size)
{
    static const trp_frame_kind kinds[] = {TRP_FRAME_CALL, TRP_FRAME_TELL, TRP_FRAME_REPLY,
                                           TRP_FRAME_CREDIT, TRP_FRAME_CANCEL};
    shapes_random random = {sequence};
    return (trp_frame){.kind = kinds[sequence % 5],
                       .flags = (uint32_t)shapes_next(&random),
                       .from = 2047,
                       .from_incarnation = 0x1122334455667788,
                       .to_incarnation = 0x99aabbccddeeff00,
                       .sequence = sequence,
                       .target = shapes_next(&random),
                       .method = (uint32_t)shapes_next(&random),
                       .schema = shapes_next(&random),
                       .call = shapes_next(&random),
                       .deadline_ms = (uint32_t)shapes_next(&random),
                       .status = (uint32_t)(sequence % TROUPE_STATUS_COUNT),
                       .outcome = (uint32_t)(sequence % (TROUPE_OUTCOME_CANCELLED + 1)),
                       .executed = (uint32_t)(sequence % (TROUPE_EXECUTED_YES + 1)),
                       .body = body,
                       .body_size = body_size};
}

static const char body[100000] = "a body";

// A batch of `count` frames from the number `first` on, with bodies of different sizes.
static void write_batch(trp_buffer *out, uint64_t first, uint32_t count)
{
    static const size_t sizes[] = {0, 64, 1, sizeof body};
    for (uint32_t i = 0; i < count; i++) {
        size_t size = sizes[(first + i) % 4];
        trp_frame frame = some_frame(first + i, size > 0 ? body : NULL, size);
        trp_batch_add(out, &frame);
        assert_false(out->failed);
    }
}

// Reads a copy of exactly that size, so that a sanitizer sees any byte that is read beyond it.
static troupe_status read_batch(const void *data, size_t size, uint32_t *read)
{
    unsigned char *exact = trp_alloc(size > 0 ? size : 1);
    trp_batch batch;
    assert_non_null(exact);
    memcpy(exact, data, size);
    *read = 0;
    troupe_status status = trp_batch_open(exact, size, &batch);
    while (status == TROUPE_OK && batch.count > 0) {
        trp_frame frame = {0};
        status = trp_batch_next(&batch, &frame);
        *read += status == TROUPE_OK;
        if (status == TROUPE_OK) {
            assert_true(trp_frame_valid(&frame));
            const unsigned char *at = frame.body;
            assert_true(at >= exact && at + frame.body_size <= exact + size);
        }
    }
    trp_free(exact);
    return status;
}

static void test_batches_come_back(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 40; count += 13) {
        trp_buffer out = {0};
        trp_batch batch;
        trp_frame frame;
        write_batch(&out, 1000, count);
        assert_int_equal(trp_batch_open(out.data, out.size, &batch), TROUPE_OK);
        assert_int_equal(batch.count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(trp_batch_next(&batch, &frame), TROUPE_OK);
            trp_frame expected = some_frame(1000 + i, body, frame.body_size);
            assert_same_frame(&expected, &frame);
        }
        assert_int_equal(batch.count, 0);
        assert_ptr_equal(batch.at, out.data + out.size);
        trp_buffer_free(&out);
    }
}

static void test_the_form_is_what_other_builds_expect(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_frame frame = some_frame(9, "four", 4);
    trp_batch_add(&out, &frame);
    assert_int_equal(out.size, HEAD + RECORD + 4);
    static const unsigned char head[] = {0xc1, TRP_BATCH_VERSION,
                                         0xff, 7,
                                         1,    0,
                                         0,    0,
                                         0x88, 0x77,
                                         0x66, 0x55,
                                         0x44, 0x33,
                                         0x22, 0x11,
                                         0x00, 0xff,
                                         0xee, 0xdd,
                                         0xcc, 0xbb,
                                         0xaa, 0x99,
                                         9,    0,
                                         0,    0,
                                         0,    0,
                                         0,    0};
    assert_memory_equal(out.data, head, HEAD);
    assert_memory_equal(out.data + HEAD + RECORD, "four", 4);
    // No frame between machines begins with that byte.
    assert_int_equal(trp_frame_read(out.data, out.size, &frame), TROUPE_MALFORMED);
    trp_buffer_free(&out);
}

static void test_cut_batches_are_refused(void **state)
{
    (void)state;
    trp_buffer out = {0};
    uint32_t read;
    trp_frame frames[] = {some_frame(1, "abc", 3), some_frame(2, NULL, 0), some_frame(3, "d", 1)};
    for (int i = 0; i < 3; i++)
        trp_batch_add(&out, &frames[i]);
    for (size_t size = 0; size < out.size; size++) {
        assert_int_equal(read_batch(out.data, size, &read), TROUPE_MALFORMED);
        assert_true(read <= 2);
    }
    assert_int_equal(read_batch(out.data, out.size, &read), TROUPE_OK);
    assert_int_equal(read, 3);
    trp_buffer_append(&out, "x", 1); // Something behind it.
    assert_int_equal(read_batch(out.data, out.size, &read), TROUPE_MALFORMED);
    assert_int_equal(read, 2);
    trp_buffer_free(&out);
}

static void test_changed_batches_are_survived(void **state)
{
    (void)state;
    trp_buffer out = {0};
    uint32_t read, refused = 0;
    trp_frame frames[] = {some_frame(1, "abc", 3), some_frame(2, "def", 3)};
    for (int i = 0; i < 2; i++)
        trp_batch_add(&out, &frames[i]);
    for (size_t at = 0; at < out.size; at++)
        for (unsigned mask = 1; mask < 256; mask++) {
            out.data[at] ^= (unsigned char)mask;
            troupe_status status = read_batch(out.data, out.size, &read);
            out.data[at] ^= (unsigned char)mask;
            assert_true(status == TROUPE_OK || status == TROUPE_MALFORMED ||
                        status == TROUPE_VERSION);
            assert_true(status != TROUPE_OK || read == 2);
            refused += status != TROUPE_OK;
        }
    assert_true(refused > 10 * 255);
    trp_buffer_free(&out);
}

static void expect_refused(size_t at, unsigned char byte, const char *sentence)
{
    trp_buffer out = {0};
    uint32_t read;
    trp_frame frame = some_frame(5, "b", 1);
    trp_batch_add(&out, &frame);
    out.data[at] = byte;
    assert_int_equal(read_batch(out.data, out.size, &read),
                     at == 1 ? TROUPE_VERSION : TROUPE_MALFORMED);
    assert_string_equal(troupe_last_error()->text, sentence);
    assert_int_equal(read, 0);
    trp_buffer_free(&out);
}

static void test_what_makes_no_sense_is_refused_in_a_sentence(void **state)
{
    (void)state;
    expect_refused(0, 0xc0, "81 bytes are not a batch of frames");
    expect_refused(1, TRP_BATCH_VERSION + 1,
                   "the sender speaks version 2 of the form within a machine, this library "
                   "version 1, and they do not understand each other");
    expect_refused(4, 0, "a batch of 81 bytes claims 0 frames, expected 1 to 1");
    expect_refused(7, 0xff, "a batch of 81 bytes claims 4278190081 frames, expected 1 to 1");
    expect_refused(HEAD, 48, "a frame of 48 bytes begins at byte 32 of a batch, expected 49");
    expect_refused(HEAD + 3, 0xff,
                   "a frame of 4278190129 bytes begins at byte 32 of a batch, expected 49");
    expect_refused(HEAD + 4, 0,
                   "no frame has the kind 0, status 5, outcome 5 and executed 2, at byte 32 of a "
                   "batch");
    expect_refused(HEAD + 6, 7,
                   "no frame has the kind 16, status 5, outcome 7 and executed 2, at byte 32 of a "
                   "batch");
    expect_refused(HEAD + RECORD - 4, TROUPE_STATUS_COUNT,
                   "no frame has the kind 16, status 26, outcome 5 and executed 2, at byte 32 of "
                   "a batch");
}

// What was in the batch before is a batch still.
static void test_without_memory_the_batch_stays_as_it_was(void **state)
{
    (void)state;
    trp_buffer out = {0};
    uint32_t read;
    trp_frame small = some_frame(1, "small", 5), large = some_frame(2, body, sizeof body);
    trp_batch_add(&out, &small);
    trp_memory_fail_after(0);
    trp_batch_add(&out, &large);
    trp_memory_fail_after(-1);
    assert_true(out.failed);
    out.failed = false;
    assert_int_equal(read_batch(out.data, out.size, &read), TROUPE_OK);
    assert_int_equal(read, 1);
    trp_batch_add(&out, &large);
    assert_int_equal(read_batch(out.data, out.size, &read), TROUPE_OK);
    assert_int_equal(read, 2);
    trp_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_come_back),
        cmocka_unit_test(test_the_form_is_what_other_builds_expect),
        cmocka_unit_test(test_cut_batches_are_refused),
        cmocka_unit_test(test_changed_batches_are_survived),
        cmocka_unit_test(test_what_makes_no_sense_is_refused_in_a_sentence),
        cmocka_unit_test(test_without_memory_the_batch_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
