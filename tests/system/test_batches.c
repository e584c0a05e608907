// test_batches.c: over sockets, frames that follow each other closely leave together. Small ones
// before a large one make a message that is larger than any frame may be; it must arrive.
#include <support.h>

#include <string.h>
#include <troupe.h>

enum { LIMIT = 65536, LARGE = LIMIT - 256, SMALL = 50, LIGHT = 100, ROUNDS = 300 };

typedef struct scale {
    uint64_t weighed;
} scale;

static troupe_status scale_weigh(scale *self, const troupe_bytes *load, uint64_t *size)
{
    self->weighed++;
    *size = load->size;
    return TROUPE_OK;
}

TROUPE_ACTOR(scale, (scale_weigh, troupe_bytes, uint64_t));

static troupe_ref weigh(scale_actor to, size_t size)
{
    static const unsigned char load[LARGE];
    return troupe_call(to, scale_weigh, load, size);
}

static void expect(troupe_ref ref, size_t size)
{
    uint64_t weighed = 0;
    troupe_status status = troupe_get(uint64_t, ref, &weighed, SUPPORT_SOON_MS);
    if (status != TROUPE_OK)
        fail_msg("%zu bytes: %s", size, troupe_last_error()->text);
    assert_int_equal(weighed, size);
}

static void weigh_in_batches(troupe_transport transport)
{
    troupe_must(
        troupe_start(0, NULL, .workers = 1, .message_bytes_max = LIMIT, .transport = transport));
    scale_actor actor = troupe_spawn(scale, .place = TROUPE_PLACE_WORKER);
    for (int round = 0; round < ROUNDS; round++) {
        troupe_ref small[SMALL], large;
        for (int i = 0; i < round % SMALL; i++)
            small[i] = weigh(actor, LIGHT);
        large = weigh(actor, LARGE);
        for (int i = 0; i < round % SMALL; i++)
            expect(small[i], LIGHT);
        expect(large, LARGE);
    }
    assert_int_equal(troupe_stop(), 0);
}

static void test_a_large_frame_behind_small_ones_over_ipc(void **state)
{
    (void)state;
    weigh_in_batches(TROUPE_TRANSPORT_IPC);
}

static void test_a_large_frame_behind_small_ones_over_tcp(void **state)
{
    (void)state;
    weigh_in_batches(TROUPE_TRANSPORT_TCP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_frame_behind_small_ones_over_ipc),
        cmocka_unit_test(test_a_large_frame_behind_small_ones_over_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
