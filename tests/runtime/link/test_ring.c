// test_ring.c: one ring over plain memory: order and content across the wrap, the room that a
// record needs, moving on, waiting for room, and rings that make no sense.
#include <support.h>

#include <runtime/link/spsc_ring.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    trp_ring *ring;
    trp_ring_writer out;
    trp_ring_reader in;
} pair;

static pair make(size_t size)
{
    pair made = {.ring = aligned_alloc(128, size)};
    assert_non_null(made.ring);
    memset(made.ring, 0, size);
    made.out = trp_ring_writer_of(made.ring, size);
    made.in = trp_ring_reader_of(made.ring, size);
    return made;
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static trp_frame frame_of(uint64_t number, const unsigned char *body, size_t size)
{
    return (trp_frame){.kind = TRP_FRAME_REPLY,
                       .flags = (uint32_t)number ^ 0x5a5a,
                       .target = number * 3,
                       .method = (uint32_t)number + 1,
                       .schema = ~number,
                       .call = number,
                       .deadline_ms = (uint32_t)number * 7,
                       .status = (uint32_t)(number % TROUPE_STATUS_COUNT),
                       .outcome = (uint32_t)(number % 3),
                       .executed = (uint32_t)(number % 2),
                       .body = body,
                       .body_size = size};
}

static void expect_frame(trp_ring_reader *in, uint64_t number, const unsigned char *body,
                         size_t size)
{
    trp_frame got, wanted = frame_of(number, body, size);
    uint64_t object;
    assert_int_equal(trp_ring_read(in, &got, &object), TRP_RING_FRAME);
    assert_int_equal(got.kind, wanted.kind);
    assert_int_equal(got.flags, wanted.flags);
    assert_int_equal(got.target, wanted.target);
    assert_int_equal(got.method, wanted.method);
    assert_int_equal(got.schema, wanted.schema);
    assert_int_equal(got.call, wanted.call);
    assert_int_equal(got.deadline_ms, wanted.deadline_ms);
    assert_int_equal(got.status, wanted.status);
    assert_int_equal(got.outcome, wanted.outcome);
    assert_int_equal(got.executed, wanted.executed);
    assert_int_equal(got.body_size, size);
    if (size > 0)
        assert_memory_equal(got.body, body, size);
    (void)trp_ring_done(in);
}

// Written and read in random portions, bodies of random sizes: what comes out is what went in.
static void test_order_and_content(void **state)
{
    (void)state;
    enum { FRAMES = 100000, BODY_MAX = 3000 };
    static unsigned char bytes[BODY_MAX + 256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 256);
    pair it = make(TRP_RING_SMALL);
    uint64_t written = 0, read = 0, random = 88172645463325252u;
    size_t sizes[4096];
    while (read < FRAMES) {
        for (int n = (int)(random_next(&random) % 20); n > 0 && written < FRAMES; n--) {
            size_t size = random_next(&random) % (n % 4 == 0 ? BODY_MAX : 100);
            trp_frame frame = frame_of(written, bytes + written % 256, size);
            assert_true(trp_ring_takes(&it.out, size));
            if (!trp_ring_write(&it.out, &frame))
                break;
            sizes[written++ % 4096] = size;
        }
        for (int n = (int)(random_next(&random) % 20); n > 0 && read < written; n--, read++)
            expect_frame(&it.in, read, bytes + read % 256, sizes[read % 4096]);
    }
    assert_false(trp_ring_waits(&it.in));
    free(it.ring);
}

static void test_moving_on_always_has_room(void **state)
{
    (void)state;
    uint64_t random = 123456789;
    static unsigned char body[2000];
    for (int round = 0; round < 300; round++) {
        pair it = make(TRP_RING_SMALL);
        trp_frame frame = frame_of(1, body, 0);
        uint64_t object = 0;
        int frames = 0, skipped = (int)(random_next(&random) % 40);
        // From a random place, until it is full for a body of any size.
        for (; skipped > 0; skipped--) {
            frame.body_size = random_next(&random) % 900;
            assert_true(trp_ring_write(&it.out, &frame));
            assert_int_equal(trp_ring_read(&it.in, &frame, &object), TRP_RING_FRAME);
            (void)trp_ring_done(&it.in);
            frame = frame_of(1, body, 0);
        }
        for (size_t size = 1500;; size = random_next(&random) % 1500) {
            frame.body_size = size;
            if (trp_ring_write(&it.out, &frame))
                frames++;
            else if (size < 10)
                break;
        }
        trp_ring_move(&it.out, 4711);
        for (; frames > 0; frames--) {
            assert_int_equal(trp_ring_read(&it.in, &frame, &object), TRP_RING_FRAME);
            (void)trp_ring_done(&it.in);
        }
        assert_int_equal(trp_ring_read(&it.in, &frame, &object), TRP_RING_MOVED);
        assert_int_equal(object, 4711);
        free(it.ring);
    }
}

// Whoever waits for room in a full ring is told once half of it is free, and then has room.
static void test_waiting_for_room(void **state)
{
    (void)state;
    static unsigned char body[TRP_RING_BODY_MAX];
    static const size_t sizes[] = {0, 1000, 20000, TRP_RING_BODY_MAX};
    for (size_t filler = 0; filler < 4; filler++)
        for (size_t wanted = 0; wanted < 4; wanted++) {
            pair it = make(TRP_RING_LARGE);
            trp_frame fill = frame_of(1, body, sizes[filler]), frame;
            trp_frame waiting = frame_of(2, body, sizes[wanted]);
            assert_true(trp_ring_takes(&it.out, sizes[wanted]));
            while (trp_ring_write(&it.out, &fill))
                continue;
            uint64_t object;
            int told = 0;
            bool sent = trp_ring_write(&it.out, &waiting);
            while (!sent) {
                trp_ring_want_room(&it.out);
                if ((sent = trp_ring_write(&it.out, &waiting)))
                    break;
                do // Nothing but being told makes it try again.
                    assert_int_equal(trp_ring_read(&it.in, &frame, &object), TRP_RING_FRAME);
                while (!trp_ring_done(&it.in));
                told++;
                sent = trp_ring_write(&it.out, &waiting);
            }
            assert_true(told <= 8);
            free(it.ring);
        }
}

// Any bytes in the ring, and any tail: a reader says what it finds, and reads nothing outside.
static void test_rings_that_make_no_sense(void **state)
{
    (void)state;
    uint64_t random = 42;
    int broken = 0;
    static unsigned char body[300];
    for (int round = 0; round < 20000; round++) {
        pair it = make(2048);
        trp_frame frame = frame_of(1, body, 0);
        uint64_t object;
        for (int n = 0; n < 6; n++) {
            frame.body_size = random_next(&random) % sizeof body;
            (void)trp_ring_write(&it.out, &frame);
        }
        for (uint64_t flips = random_next(&random) % 8; flips > 0; flips--)
            it.ring->data[random_next(&random) % it.in.capacity] ^=
                (unsigned char)(1u << random_next(&random) % 8);
        if (round % 5 == 0)
            it.ring->tail = round % 10 == 0 ? random_next(&random) : it.ring->tail + 8;
        trp_ring_got got;
        int read = 0;
        while ((got = trp_ring_read(&it.in, &frame, &object)) == TRP_RING_FRAME && read++ < 100) {
            const unsigned char *at = frame.body;
            assert_true(at >= it.ring->data &&
                        at + frame.body_size <= it.ring->data + it.in.capacity);
            (void)trp_ring_done(&it.in);
        }
        broken += got == TRP_RING_BROKEN;
        free(it.ring);
    }
    assert_true(broken > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_content),
        cmocka_unit_test(test_moving_on_always_has_room),
        cmocka_unit_test(test_waiting_for_room),
        cmocka_unit_test(test_rings_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
