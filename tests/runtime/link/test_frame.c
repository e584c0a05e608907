// test_frame.c: frames written and read, versions, and what a reader of frames must survive.
#include "frames.h"

#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/frame.h>
#include <runtime/link/frame_rules.h>
#include <shapes.h>
#include <support.h>

static const trp_frame_kind kinds[] = {TRP_FRAME_FLUSH, TRP_FRAME_ASK,  TRP_FRAME_ANSWER,
                                       TRP_FRAME_DEATH, TRP_FRAME_END,  TRP_FRAME_CREDIT,
                                       TRP_FRAME_CALL,  TRP_FRAME_TELL, TRP_FRAME_REPLY,
                                       TRP_FRAME_SPAWN, TRP_FRAME_KILL, TRP_FRAME_FINISH};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), FIELDS = 16 };

static trp_frame some_frame(uint64_t seed, const void *body, size_t body_size)
{
    shapes_random random = {seed};
    return (trp_frame){.kind = kinds[seed % KINDS],
                       .flags = (uint32_t)shapes_next(&random),
                       .from = (uint32_t)shapes_next(&random),
                       .from_incarnation = shapes_next(&random),
                       .to_incarnation = shapes_next(&random),
                       .sequence = seed,
                       .target = shapes_next(&random),
                       .method = (uint32_t)seed % 64,
                       .schema = shapes_next(&random),
                       .call = shapes_next(&random) >> (seed % 64),
                       .deadline_ms = (uint32_t)shapes_next(&random),
                       .status = (uint32_t)(seed % TROUPE_STATUS_COUNT),
                       .outcome = (uint32_t)(seed % (TROUPE_OUTCOME_CANCELLED + 1)),
                       .executed = (uint32_t)(seed % (TROUPE_EXECUTED_YES + 1)),
                       .body = body,
                       .body_size = body_size};
}

static void test_frames_come_back(void **state)
{
    (void)state;
    static unsigned char body[TRP_FRAME_INLINE_MAX + 1];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (unsigned char)(i * 31);
    const size_t sizes[] = {0, 1, 255, 256, 65535, sizeof(body)};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        size_t size = sizes[seed % 6];
        trp_frame frame = some_frame(seed, size ? body : NULL, size), back;
        trp_buffer out = {0};
        trp_frame_write(&frame, &out);
        assert_false(out.failed);
        assert_int_equal(trp_frame_read(out.data, out.size, &back), TROUPE_OK);
        assert_same_frame(&frame, &back);
        // The body is lent, not copied.
        assert_true((const unsigned char *)back.body >= out.data);
        assert_true((const unsigned char *)back.body + size == out.data + out.size);
        trp_buffer_free(&out);
    }
}

// Of every kind: what carries nothing carries nothing, and what is in this node's memory stays
// here.
static void test_each_kind_carries_what_it_may(void **state)
{
    (void)state;
    static const trp_frame_kind bare[] = {
        TRP_FRAME_FLUSH, TRP_FRAME_DEATH,   TRP_FRAME_END,    TRP_FRAME_CREDIT, TRP_FRAME_PAUSE,
        TRP_FRAME_BEAT,  TRP_FRAME_KILL,    TRP_FRAME_FINISH, TRP_FRAME_WATCH,  TRP_FRAME_UNWATCH,
        TRP_FRAME_COUNT, TRP_FRAME_RESTART, TRP_FRAME_LINK,   TRP_FRAME_CANCEL, TRP_FRAME_TAKEN};
    static const uint32_t inner[] = {TRP_FRAME_STORED, TRP_FRAME_IMAGE, TRP_FRAME_OBJECT,
                                     TRP_FRAME_HELD,   TRP_FRAME_BOXED, TRP_FRAME_UNHELD};
    int known = 0;
    for (uint32_t kind = 0; kind < 64; kind++) {
        bool allowed[2][2] = {0};
        for (int far = 0; far < 2; far++)
            for (int node = 0; node < 2; node++) {
                trp_frame frame = {.kind = (trp_frame_kind)kind};
                bool may = allowed[far][node] = trp_frame_allowed(&frame, far, node);
                frame.body_size = 1;
                bool is_bare = false;
                for (size_t i = 0; i < sizeof bare / sizeof bare[0]; i++)
                    is_bare = is_bare || bare[i] == frame.kind;
                assert_int_equal(trp_frame_allowed(&frame, far, node), may && !is_bare);
                for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
                    frame.flags = inner[i];
                    assert_false(far && trp_frame_allowed(&frame, far, node));
                    frame.flags |= inner[(i + 1) % 4]; // Two forms at once.
                    if (i < 4)
                        assert_false(trp_frame_allowed(&frame, far, node));
                }
                frame.flags = 1u << 31; // Of no kind.
                assert_false(trp_frame_allowed(&frame, far, node));
            }
        bool any = allowed[0][0] || allowed[0][1] || allowed[1][0] || allowed[1][1];
        assert_int_equal(any, trp_frame_kind_known(kind));
        known += any;
        assert_false(kind >= TRP_FRAME_CALL && (allowed[0][1] || allowed[1][1]));
    }
    assert_int_equal(known, 28);
    // Deaths, ends and answers are the node process's to tell.
    trp_frame told = {.kind = TRP_FRAME_END, .from = 1};
    assert_false(trp_frame_allowed(&told, false, false));
    told.from = 0;
    assert_true(trp_frame_allowed(&told, false, false));
}

static void test_frames_are_appended(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_frame one = some_frame(1, "one", 3), two = some_frame(2, "two", 3), back;
    trp_frame_write(&one, &out);
    size_t first = out.size;
    trp_frame_write(&two, &out);
    assert_int_equal(trp_frame_read(out.data, first, &back), TROUPE_OK);
    assert_same_frame(&one, &back);
    assert_int_equal(trp_frame_read(out.data + first, out.size - first, &back), TROUPE_OK);
    assert_same_frame(&two, &back);
    assert_int_equal(trp_frame_read(out.data, out.size, &back), TROUPE_MALFORMED);
    trp_buffer_free(&out);
}

// A frame of another version: `count` fields, of which the ones that we do not know are arrays.
static troupe_status read_version(uint64_t version, uint32_t count, trp_frame *frame)
{
    trp_buffer out = {0};
    trp_write_array(&out, count);
    trp_write_uint(&out, version);
    trp_write_uint(&out, TRP_FRAME_TELL);
    for (uint32_t i = 2; i + 1 < count; i++) {
        if (i < FIELDS - 1) {
            trp_write_uint(&out, i == FIELDS - 2 ? 1 : i == FIELDS - 3 ? 2 : i);
        } else {
            trp_write_array(&out, 2);
            trp_write_text(&out, "later");
            trp_write_nil(&out);
        }
    }
    trp_write_bytes(&out, "body", 4);
    static unsigned char kept[512];
    assert_in_range(out.size, 1, sizeof(kept));
    memcpy(kept, out.data, out.size);
    troupe_status status = trp_frame_read(kept, out.size, frame);
    trp_buffer_free(&out);
    return status;
}

static void test_neighbours_understand_each_other(void **state)
{
    (void)state;
    for (uint64_t version = TRP_FRAME_VERSION - 1; version <= TRP_FRAME_VERSION + 1; version++) {
        for (uint32_t more = 0; more < 3; more++) {
            trp_frame frame = {0};
            troupe_status status = read_version(version, FIELDS + more, &frame);
            if (version == TRP_FRAME_VERSION && more > 0) {
                assert_int_equal(status, TROUPE_MALFORMED);
                continue;
            }
            assert_int_equal(status, TROUPE_OK);
            assert_int_equal(frame.kind, TRP_FRAME_TELL);
            assert_int_equal(frame.sequence, 6);
            assert_int_equal(frame.body_size, 4);
            assert_memory_equal(frame.body, "body", 4);
        }
    }
}

static void test_others_are_refused_by_both_versions(void **state)
{
    (void)state;
    trp_frame frame = {0};
    assert_int_equal(read_version(7, FIELDS, &frame), TROUPE_VERSION);
    assert_string_equal(troupe_last_error()->text,
                        "the sender speaks protocol version 7 with 16 fields, this library version "
                        "1 with 16, and they do not understand each other");
    assert_int_equal(read_version(UINT64_MAX, FIELDS, &frame), TROUPE_VERSION);
    assert_int_equal(read_version(TRP_FRAME_VERSION + 1, FIELDS - 1, &frame), TROUPE_VERSION);
    assert_int_equal(read_version(TRP_FRAME_VERSION - 1, 4, &frame), TROUPE_VERSION);
    assert_int_equal(read_version(TRP_FRAME_VERSION, FIELDS - 1, &frame), TROUPE_MALFORMED);
    assert_int_equal(frame.kind, 0);
}

static troupe_status read_exact(const void *data, size_t size, trp_frame *frame)
{
    void *exact = trp_alloc(size);
    assert_non_null(exact);
    if (size > 0)
        memcpy(exact, data, size);
    troupe_status status = trp_frame_read(exact, size, frame);
    frame->body = NULL; // It pointed into `exact`.
    trp_free(exact);
    return status;
}

static void test_truncated_and_changed_frames_are_survived(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_frame frame = some_frame(77, "some body of a frame", 20), back = {0};
    trp_frame_write(&frame, &out);
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(read_exact(out.data, size, &back), TROUPE_MALFORMED);
    size_t refused = 0;
    for (size_t at = 0; at < out.size; at++) {
        for (unsigned mask = 1; mask < 256; mask++) {
            out.data[at] ^= (unsigned char)mask;
            troupe_status status = read_exact(out.data, out.size, &back);
            out.data[at] ^= (unsigned char)mask;
            assert_true(status == TROUPE_OK || status == TROUPE_MALFORMED ||
                        status == TROUPE_VERSION);
            refused += status != TROUPE_OK;
            if (status == TROUPE_OK) {
                assert_in_range(back.status, 0, TROUPE_STATUS_COUNT - 1);
                assert_in_range(back.outcome, 0, TROUPE_OUTCOME_CANCELLED);
                assert_in_range(back.executed, 0, TROUPE_EXECUTED_YES);
            }
        }
    }
    assert_true(refused > 255);
    trp_buffer_free(&out);
}

static void expect_refused(void (*spoil)(trp_frame *frame), const char *sentence)
{
    trp_buffer out = {0};
    trp_frame frame = {.kind = TRP_FRAME_CALL, .sequence = 1, .body = "b", .body_size = 1};
    spoil(&frame);
    trp_frame_write(&frame, &out);
    trp_frame back = {.sequence = 99};
    assert_int_equal(trp_frame_read(out.data, out.size, &back), TROUPE_MALFORMED);
    assert_string_equal(troupe_last_error()->text, sentence);
    assert_int_equal(back.sequence, 99);
    trp_buffer_free(&out);
}

static void spoil_kind(trp_frame *frame)
{
    frame->kind = (trp_frame_kind)15;
}
static void spoil_status(trp_frame *frame)
{
    frame->status = TROUPE_STATUS_COUNT;
}
static void spoil_outcome(trp_frame *frame)
{
    frame->outcome = 7;
}
static void spoil_executed(trp_frame *frame)
{
    frame->executed = 3;
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    expect_refused(spoil_kind, "frame.kind: there is no kind 15");
    expect_refused(spoil_status,
                   "frame.status: expected a number below 26, found 26 before byte 16");
    expect_refused(spoil_outcome,
                   "frame.outcome: expected a number below 7, found 7 before byte 17");
    expect_refused(spoil_executed,
                   "frame.executed: expected a number below 3, found 3 before byte 18");
    trp_frame back;
    assert_int_equal(trp_frame_read(NULL, 0, &back), TROUPE_MALFORMED);
    assert_string_equal(troupe_last_error()->text,
                        "frame: expected an array, found the end at byte 0");
    assert_int_equal(trp_frame_read("\x90", 1, &back), TROUPE_MALFORMED);
    assert_int_equal(trp_frame_read("\x91\xa1v", 3, &back), TROUPE_MALFORMED);
    assert_string_equal(troupe_last_error()->text,
                        "frame.version: expected an integer, found text at byte 1");
}

static void test_random_bytes_are_survived(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        shapes_random random = {seed};
        unsigned char bytes[96];
        size_t size = shapes_below(&random, sizeof(bytes));
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)(shapes_next(&random) >> shapes_below(&random, 8));
        if (size > 4 && seed % 2) // A head that gets past the versions.
            memcpy(bytes, "\xdc\x00\x10\x01\x10", 5);
        trp_frame back;
        (void)read_exact(bytes, size, &back);
    }
}

static void test_writing_without_memory_fails_the_buffer(void **state)
{
    (void)state;
    trp_buffer out = {0};
    static const char body[1000]; // Small buffers come from cells that the thread has already.
    trp_frame frame = some_frame(1, body, sizeof body);
    trp_memory_fail_after(0);
    trp_frame_write(&frame, &out);
    trp_memory_fail_after(-1);
    assert_true(out.failed);
    trp_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_come_back),
        cmocka_unit_test(test_each_kind_carries_what_it_may),
        cmocka_unit_test(test_frames_are_appended),
        cmocka_unit_test(test_neighbours_understand_each_other),
        cmocka_unit_test(test_others_are_refused_by_both_versions),
        cmocka_unit_test(test_truncated_and_changed_frames_are_survived),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
        cmocka_unit_test(test_random_bytes_are_survived),
        cmocka_unit_test(test_writing_without_memory_fails_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
