// test_ring_crash.c: a process may die between any two steps of sending over a ring: what it had
// published is read, in order and without a gap, before its death is told; and no ring is left, nor
// what it had not published.
// timeout: 120
// label: faults
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <runtime/base/fault.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/park.h>
#include <runtime/link/peer.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/link/ring_poller.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <string.h>
#include <troupe/object.h>
#include <unistd.h>

enum { REPLIES = 300, BODY = 200 };
// A target: fills the ring, leaves large bodies in the queue behind it, and dies.
enum { BULK = 3000000, BULK_REPLIES = 12000 }; // As HOARD, of which see below, but lives on.
enum { HOARD = 2000000, FILLING = 3000, LARGE = 50, LARGE_BODY = 100000 };

static struct {
    _Atomic uint64_t replies;
    _Atomic bool in_order;
    _Atomic int deaths;
    _Atomic uint64_t replies_at_death;
} seen;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; // Who reads waits here.

static void hoard(const trp_frame *frame)
{
    static const unsigned char body[LARGE_BODY];
    for (uint64_t i = 0; i < FILLING + LARGE; i++) {
        trp_frame reply = {.kind = TRP_FRAME_REPLY,
                           .target = i,
                           .body = body,
                           .body_size = i < FILLING ? BODY : LARGE_BODY};
        if (trp_process_send(frame->from, frame->from_incarnation, &reply, 0) != TROUPE_OK)
            _exit(3);
    }
    kill(getpid(), SIGKILL);
}

// Sends far more than the rings have room for, dies at the step that the frame's target says, and
// makes an object when all is sent.
static void send_bulk(const trp_frame *frame)
{
    static const unsigned char body[BODY];
    trp_object mark;
    void *data;
    if (frame->target > BULK)
        trp_fault_kill_at("ring", (long)(frame->target - BULK));
    for (uint64_t i = 0; i < BULK_REPLIES; i++) {
        trp_frame reply = {
            .kind = TRP_FRAME_REPLY, .target = i, .body = body, .body_size = sizeof body};
        if (trp_process_send(frame->from, frame->from_incarnation, &reply, 0) != TROUPE_OK)
            _exit(3);
    }
    if (trp_store_create(1, 0, TRP_ENCODING_BYTES, &mark, &data) != TROUPE_OK)
        _exit(4);
}

// In a worker: answers with REPLIES frames, and dies at the step that the frame's target says.
static void on_frame(const trp_frame *frame)
{
    static const unsigned char body[BODY];
    if (frame->kind == TRP_FRAME_REPLY) {
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
        if (frame->target != seen.replies || frame->body_size != BODY || seen.deaths > 0)
            seen.in_order = false;
        seen.replies++;
        return;
    }
    if (frame->target == HOARD)
        hoard(frame);
    if (frame->target >= BULK) {
        send_bulk(frame);
        return;
    }
    trp_fault_kill_at("ring", (long)frame->target);
    for (uint64_t i = 0; i < REPLIES; i++) {
        trp_frame reply = {
            .kind = TRP_FRAME_REPLY, .target = i, .body = body, .body_size = sizeof body};
        if (trp_process_send(frame->from, frame->from_incarnation, &reply, 0) != TROUPE_OK)
            _exit(3);
    }
    _exit(0);
}

static void on_death(uint32_t process, uint64_t incarnation, const char *cause)
{
    (void)process, (void)incarnation, (void)cause;
    seen.replies_at_death = seen.replies;
    seen.deaths++;
}

static bool died(void *unused)
{
    (void)unused;
    return seen.deaths > 0;
}

static int count_rings(void)
{
    enum { STATE_MASK = 7 };
    int count = 0;
    uint32_t rows = trp_segment.header->objects_backed;
    for (uint32_t slot = 0; slot < rows; slot++)
        count += (trp_object_row_at(slot)->word & STATE_MASK) != 0;
    return count;
}

// Between the node process and this one; what a dead worker left is given back by both, at leisure.
static bool only_ours_left(void *unused)
{
    (void)unused;
    return count_rings() <= 2;
}

static uint64_t run_killed_at(uint64_t step)
{
    uint32_t process;
    uint64_t incarnation;
    memset((void *)&seen, 0, sizeof seen);
    seen.in_order = true;
    assert_int_equal(trp_node_worker(true, &process, &incarnation), TROUPE_OK);
    trp_frame frame = {.kind = TRP_FRAME_TELL, .target = step};
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_OK);
    assert_true(support_wait_until(died, NULL, SUPPORT_SOON_MS));
    assert_true(seen.in_order);
    assert_int_equal(seen.replies, seen.replies_at_death);
    assert_int_equal(trp_process_send(process, incarnation, &frame, 0), TROUPE_NOT_EXECUTED);
    return seen.replies;
}

static void test_a_sender_killed_at_every_step(void **state)
{
    (void)state;
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_RING),
                     TROUPE_OK);
    uint64_t most = 0, replies;
    for (uint64_t step = 1; step < 130; step += step == 24 ? 40 : 1) {
        replies = run_killed_at(step);
        if (replies > most)
            most = replies;
    }
    assert_true(most > 64); // It went on in the larger ring.
    assert_int_equal(run_killed_at(1000000), REPLIES);
    assert_int_equal(troupe_stop(), 0);
}

static void test_no_ring_is_left(void **state)
{
    (void)state;
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_RING),
                     TROUPE_OK);
    for (uint64_t step = 1; step < 100; step += step < 24 ? 1 : 9) {
        (void)run_killed_at(step);
        if (!support_wait_until(only_ours_left, NULL, SUPPORT_SOON_MS))
            fail_msg("%d rings are left after step %d", count_rings(), (int)step);
    }
    assert_int_equal(run_killed_at(1000000), REPLIES);
    assert_true(support_wait_until(only_ours_left, NULL, SUPPORT_SOON_MS));
    assert_int_equal(troupe_stop(), 0);
}

static struct {
    uint32_t process;
    uint64_t incarnation;
} hoarder;

static bool is_dead(void *unused)
{
    (void)unused;
    return !trp_process_alive(hoarder.process, hoarder.incarnation, NULL);
}

static void test_what_waited_for_room_goes_with_its_sender(void **state)
{
    (void)state;
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_RING),
                     TROUPE_OK);
    memset((void *)&seen, 0, sizeof seen);
    seen.in_order = true;
    assert_int_equal(trp_node_worker(true, &hoarder.process, &hoarder.incarnation), TROUPE_OK);
    pthread_mutex_lock(&gate);
    trp_frame frame = {.kind = TRP_FRAME_TELL, .target = HOARD};
    assert_int_equal(trp_process_send(hoarder.process, hoarder.incarnation, &frame, 0), TROUPE_OK);
    assert_true(support_wait_until(is_dead, NULL, SUPPORT_SOON_MS));
    assert_store_empty();
    assert_int_equal(seen.deaths, 0);
    pthread_mutex_unlock(&gate);
    assert_true(support_wait_until(died, NULL, SUPPORT_SOON_MS));
    assert_true(seen.in_order);
    assert_in_range(seen.replies, 1, FILLING);
    assert_int_equal(troupe_stop(), 0);
}

static bool bulk_is_sent(void *unused)
{
    return !store_is_empty(unused) || is_dead(unused);
}

static bool bulk_is_read(void *unused)
{
    (void)unused;
    return seen.replies == BULK_REPLIES || seen.deaths > 0;
}

static bool is_huge(uint32_t slot)
{
    return trp_object_row_at(slot)->size == TRP_RING_HUGE;
}

static int count_huge(void)
{
    int count = 0;
    for (uint32_t slot = 0; slot < trp_segment.header->objects_backed; slot++)
        count += is_huge(slot) && (trp_object_row_at(slot)->word & 7) != 0;
    return count;
}

// What a reader that slept finds: two rings full, and the rest in the sender's queue.
static void run_bulk(uint64_t step)
{
    memset((void *)&seen, 0, sizeof seen);
    seen.in_order = true;
    assert_int_equal(trp_node_worker(true, &hoarder.process, &hoarder.incarnation), TROUPE_OK);
    pthread_mutex_lock(&gate);
    trp_frame frame = {.kind = TRP_FRAME_TELL, .target = BULK + step};
    assert_int_equal(trp_process_send(hoarder.process, hoarder.incarnation, &frame, 0), TROUPE_OK);
    assert_true(support_wait_until(bulk_is_sent, NULL, SUPPORT_SOON_MS));
    pthread_mutex_unlock(&gate);
    assert_true(support_wait_until(bulk_is_read, NULL, SUPPORT_SOON_MS));
    assert_true(seen.in_order);
}

static void end_bulk(void)
{
    if (seen.deaths == 0)
        (void)kill(trp_process_pid(hoarder.process), SIGKILL);
    assert_true(support_wait_until(died, NULL, SUPPORT_SOON_MS));
    assert_true(seen.in_order);
    assert_int_equal(seen.replies, seen.replies_at_death);
    assert_true(support_wait_until(only_ours_left, NULL, SUPPORT_SOON_MS));
    assert_int_equal(count_huge(), 0);
}

// Whose receiver does not keep up gets a ring with more room, if the store has it.
static void test_much_that_waits(void **state)
{
    (void)state;
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    for (int roomy = 0; roomy < 2; roomy++) {
        size_t limit = roomy ? 0 : (size_t)TRP_RING_HUGE;
        assert_int_equal(troupe_start(0, NULL, .workers = 1, .store_bytes_max = limit,
                                      .transport = TROUPE_TRANSPORT_RING),
                         TROUPE_OK);
        run_bulk(0);
        assert_int_equal(seen.replies, BULK_REPLIES);
        assert_int_equal(count_huge(), roomy);
        end_bulk();
        assert_int_equal(troupe_stop(), 0);
    }
}

static void test_a_sender_killed_with_much_that_waits(void **state)
{
    (void)state;
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_RING),
                     TROUPE_OK);
    for (uint64_t step = 1050; step < 2600; step += 75) {
        run_bulk(step);
        end_bulk();
    }
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sender_killed_at_every_step),
        cmocka_unit_test(test_no_ring_is_left),
        cmocka_unit_test(test_what_waited_for_room_goes_with_its_sender),
        cmocka_unit_test(test_much_that_waits),
        cmocka_unit_test(test_a_sender_killed_with_much_that_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
