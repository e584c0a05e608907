// test_refused.c: invalid input is refused and counted, and the node goes on: frames over a socket,
// a ring of garbage; and error texts that were cut within a character still arrive.
#include <stats.h>
#include <support.h>

#include <runtime/codec/msgpack.h>
#include <runtime/link/batch.h>
#include <runtime/link/spsc_ring.h>
#include <runtime/link/zmq.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>

typedef struct clerk {
    int calls;
} clerk;

static troupe_status clerk_count(clerk *self, const troupe_none *none, int *calls)
{
    (void)none;
    *calls = ++self->calls;
    return TROUPE_OK;
}

// Fails with a sentence whose limit of bytes lies within a character.
static troupe_status clerk_fail(clerk *self, const troupe_text *sentence, int *none)
{
    (void)self, (void)none;
    return troupe_fail(TROUPE_INVALID, "%s", *sentence);
}

static troupe_status clerk_mumble(clerk *self, const troupe_none *nothing, int *none)
{
    (void)self, (void)nothing, (void)none;
    return troupe_fail(TROUPE_INVALID, "before that byte \xff behind it");
}

static troupe_status clerk_refused(clerk *self, const troupe_none *none, uint64_t *count)
{
    (void)self, (void)none;
    *count = support_stats().frames_refused;
    return TROUPE_OK;
}

TROUPE_ACTOR(clerk, (clerk_count, troupe_none, int), (clerk_fail, troupe_text, int),
             (clerk_mumble, troupe_none, int), (clerk_refused, troupe_none, uint64_t));

static bool refused_at_least(void *wanted)
{
    return support_stats().frames_refused >= *(const uint64_t *)wanted;
}

static void await_refused(uint64_t count)
{
    assert_true(support_wait_until(refused_at_least, &count, SUPPORT_SOON_MS));
    assert_int_equal(support_stats().frames_refused, count);
}

static void expect_alive(clerk_actor actor)
{
    int calls = 0;
    troupe_must(troupe_get(int, troupe_call(actor, clerk_count), &calls));
    assert_true(calls > 0);
}

// ---- sockets

static void send_bytes(trp_outbound *out, const void *data, size_t size)
{
    trp_buffer bytes = {0};
    trp_buffer_append(&bytes, data, size);
    assert_false(bytes.failed);
    assert_int_equal(trp_outbound_send(out, &bytes), TROUPE_OK);
    trp_buffer_free(&bytes);
}

// A frame that this process would take if it came from a process that lives.
static trp_frame some_frame(uint64_t to, uint64_t from)
{
    return (trp_frame){.kind = TRP_FRAME_DOWN,
                       .from = TRP_PROCESS_NODE,
                       .from_incarnation = from,
                       .to_incarnation = to,
                       .sequence = 1,
                       .call = 999999,
                       .body = "body",
                       .body_size = 4};
}

// What is refused counts once for each message.
static void test_sockets(void **state)
{
    (void)state;
    char path[128];
    assert_int_equal(
        troupe_start(0, NULL, .workers = 1, .threads = 1, .transport = TROUPE_TRANSPORT_IPC),
        TROUPE_OK);
    clerk_actor actor = troupe_spawn(clerk, .place = TROUPE_PLACE_WORKER);
    expect_alive(actor);
    trp_socket_path(trp_self.slot, trp_self.incarnation, path);
    trp_outbound *out = trp_outbound_open(path);
    assert_non_null(out);
    uint64_t count = support_stats().frames_refused;
    trp_buffer good = {0};
    trp_frame frame = some_frame(trp_self.incarnation, 4711), second = frame;
    second.sequence++;
    trp_batch_add(&good, &frame);
    trp_batch_add(&good, &second);
    for (size_t size = 1; size < good.size; size++) // Cut off anywhere.
        send_bytes(out, good.data, size);
    await_refused(count += good.size - 1);
    send_bytes(out, good.data, good.size); // From a dead process.
    await_refused(++count);
    good.data[1] = TRP_BATCH_VERSION + 1; // Of a version that nobody here can read.
    send_bytes(out, good.data, good.size);
    await_refused(++count);
    good.size = 0;
    frame = some_frame(trp_self.incarnation + 1, // For an earlier process than this.
                       trp_segment_process(TRP_PROCESS_NODE)->incarnation);
    trp_batch_add(&good, &frame);
    send_bytes(out, good.data, good.size);
    await_refused(++count);
    good.size = 0;
    frame = some_frame(trp_self.incarnation, trp_segment_process(TRP_PROCESS_NODE)->incarnation);
    trp_frame_write(&frame, &good); // In the form between machines, which does not come here.
    send_bytes(out, good.data, good.size);
    await_refused(++count);
    trp_buffer_free(&good);
    trp_outbound_close(out, 0);
    expect_alive(actor);
    assert_int_equal(support_stats().frames_refused, count);
    assert_int_equal(troupe_stop(), 0);
}

// ZeroMQ refuses by itself what is above the limit, and closes the connection, with what followed.
// The next frame on the link shows the gap.
static void test_too_large(void **state)
{
    (void)state;
    enum { LIMIT = 1 << 20 };
    static char large[3 * LIMIT];
    char path[128];
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .threads = 1, .message_bytes_max = LIMIT,
                                  .transport = TROUPE_TRANSPORT_IPC),
                     TROUPE_OK);
    clerk_actor actor = troupe_spawn(clerk, .place = TROUPE_PLACE_ISOLATED);
    clerk_actor other = troupe_spawn(clerk, .place = TROUPE_PLACE_WORKER);
    expect_alive(actor);
    expect_alive(other);
    trp_socket_path(trp_self.slot, trp_self.incarnation, path);
    trp_outbound *out = trp_outbound_open(path);
    assert_non_null(out);
    uint64_t count = support_stats().frames_refused;
    send_bytes(out, large, sizeof large);
    // As if the isolated actor's process went on. What comes before the connection is there again
    // may be lost with it.
    trp_frame frame = some_frame(trp_self.incarnation, actor.address.incarnation);
    frame.from = actor.address.process;
    frame.sequence = 1000;
    int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
    while (support_stats().frames_refused == count && support_now_ms() < give_up) {
        trp_buffer bytes = {0};
        frame.sequence++;
        trp_batch_add(&bytes, &frame);
        send_bytes(out, bytes.data, bytes.size);
        trp_buffer_free(&bytes);
        uint64_t more = count + 1;
        (void)support_wait_until(refused_at_least, &more, 20);
    }
    assert_int_equal(support_stats().frames_refused,
                     count + 1); // It was no frame, and is not there.
    trp_outbound_close(out, 0);
    assert_int_equal(troupe_actor_kill(actor), TROUPE_OK); // Nobody listens to it any more.
    expect_alive(other);
    assert_int_equal(troupe_stop(), 0);
}

// ---- rings

// A second ring to the worker, as if the driver had damaged it.
static void announce_garbage(troupe_actor to)
{
    trp_object object;
    void *data;
    assert_int_equal(trp_store_share_inner(TRP_RING_SMALL, TRP_RING_SMALL, &object, &data),
                     TROUPE_OK);
    trp_ring *ring = data;
    ring->from = trp_self.slot;
    ring->to = to.process;
    ring->from_incarnation = trp_self.incarnation;
    ring->to_incarnation = to.incarnation;
    memset(ring->data, 0xab, 512);
    ring->tail = 512;
    assert_int_equal(trp_store_hold(object, to.process), TROUPE_OK);
    trp_door *door = trp_door_of(to.process);
    ring->next = atomic_load(&door->announced);
    while (!atomic_compare_exchange_weak(&door->announced, &ring->next, object))
        continue;
    trp_door_ring(to.process, trp_self.slot, true);
    trp_store_release(object, trp_self.slot);
}

static bool worker_refused_one(void *actor)
{
    uint64_t count = 0;
    assert_int_equal(
        troupe_get(uint64_t, troupe_call(*(clerk_actor *)actor, clerk_refused), &count), TROUPE_OK);
    return count == 1;
}

static void test_ring(void **state)
{
    (void)state;
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .threads = 1), TROUPE_OK);
    clerk_actor actor = troupe_spawn(clerk, .place = TROUPE_PLACE_WORKER);
    expect_alive(actor);
    uint64_t count = 1;
    assert_int_equal(troupe_get(uint64_t, troupe_call(actor, clerk_refused), &count), TROUPE_OK);
    assert_int_equal(count, 0);
    announce_garbage(actor.address);
    // The good ring beside it is read on.
    assert_true(support_wait_until(worker_refused_one, &actor, SUPPORT_SOON_MS));
    expect_alive(actor);
    assert_int_equal(troupe_stop(), 0);
}

// ---- sentences

static void test_cut_sentences(void **state)
{
    (void)state;
    char long_one[2000] = "";
    int none = 0;
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .threads = 1), TROUPE_OK);
    clerk_actor actor = troupe_spawn(clerk, .place = TROUPE_PLACE_WORKER);
    // One byte more or less before characters of two: one of the two is cut within one.
    for (int before = 0; before < 2; before++) {
        snprintf(long_one, sizeof long_one, "%.*s", before, "x");
        for (int i = 0; i < 900; i++)
            strcat(long_one, "é");
        troupe_text sentence = long_one;
        troupe_ref call = troupe_call_from(actor, clerk_fail, &sentence);
        assert_int_equal(troupe_get(int, call, &none), TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, "éééééééé"));
        size_t size = strlen(troupe_last_error()->text);
        assert_int_equal(trp_text_good(troupe_last_error()->text, size), size);
    }
    // A program's sentence need not be text at all.
    assert_int_equal(troupe_get(int, troupe_call(actor, clerk_mumble), &none), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "before that byte"));
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_cut_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
