// test_damage.c: a process of the node that writes where it should not can spoil what it hits; but
// no single damaged word of a ring or of an object's row makes its reader loop for ever, take
// memory without bound, or read beyond the store.
// label: nosan
#include <stats.h>
#include <support.h>

#include <pthread.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/ring_poller.h>
#include <runtime/link/spsc_ring.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/inspect.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/row.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum { LIMIT_S = 10, CAPACITY = 4 << 20, ME = TRP_PROCESS_DRIVER, OTHER = 9 };

// Runs `act` in a process of its own, which may end itself by an assertion, but not hang, take much
// memory or touch what is not there.
static void survive(void (*act)(uint64_t what), uint64_t what)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit most = {UINT64_C(1) << 30, UINT64_C(1) << 30}, none = {0, 0};
        (void)setrlimit(RLIMIT_DATA, &most);
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)alarm(LIMIT_S);
        act(what);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT))
        fail_msg("with %llx it ended with %x", (unsigned long long)what, (unsigned)status);
}

// ---- rows

static const uint32_t values[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffff0, UINT32_MAX};
enum { VALUES = sizeof values / sizeof *values, WORDS = sizeof(trp_object_row) / 4 };

static trp_object make(size_t size, const trp_object *inside, uint32_t count)
{
    trp_object id;
    void *data;
    if (trp_store_create(size, 7, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        _exit(2);
    memset(data, 0, size);
    if (count > 0)
        memcpy(data, inside, count * sizeof *inside);
    if ((count > 0 && trp_store_contain(id, count) != TROUPE_OK) || trp_store_seal(id) != TROUPE_OK)
        _exit(2);
    return id;
}

static uint64_t touch(const volatile char *data, size_t size)
{
    uint64_t sum = 0;
    for (size_t at = 0; data != NULL && at < size; at += 4096)
        sum += (uint64_t)data[at];
    return data != NULL && size > 0 ? sum + (uint64_t)data[size - 1] : sum;
}

// Everything that is done with an object of which one word is another.
static void use_damaged(uint64_t what)
{
    static const size_t sizes[] = {100, 200000};
    trp_store_view view;
    trp_object_seen seen;
    size_t size = sizes[what & 1];
    uint32_t word = (uint32_t)(what >> 1) / VALUES, value = values[(what >> 1) % VALUES];
    if (trp_segment_create(CAPACITY) != TROUPE_OK)
        _exit(2);
    trp_store_open(ME);
    trp_object inner = make(50, NULL, 0), id = make(size, &inner, 1);
    trp_object_row *row = trp_object_row_at(trp_row_slot(id));
    memcpy((char *)row + 4 * (size_t)word, &value, sizeof value);
    (void)trp_store_look(id);
    for (int i = 0; i < 2; i++) {
        trp_object_info info = trp_store_pin_within(id, 10);
        (void)touch(info.data, info.size);
        (void)touch((const char *)info.inside, info.inside_count * sizeof *info.inside);
        if (info.state == TRP_OBJECT_SEALED || info.state == TRP_OBJECT_FAILED ||
            info.state == TRP_OBJECT_SHARED)
            trp_store_unpin(id);
    }
    if (trp_view_open(0, &view) == TROUPE_OK)
        (void)trp_view_object(&view, trp_row_slot(id), &seen);
    trp_store_release(id, ME);
    for (int i = 0; i < 8; i++) // Beside it, and in its place.
        trp_store_release(make(size, NULL, 0), ME);
    trp_segment_close();
}

static void test_every_word_of_a_row(void **state)
{
    (void)state;
    for (uint64_t what = 0; what < (uint64_t)WORDS * VALUES * 2; what++)
        survive(use_damaged, what);
}

// ---- rings

// A ring from a process that is none to this one, announced to it.
static trp_ring *announce(size_t size, trp_object *id)
{
    void *memory;
    if (trp_store_share_inner(size, sizeof(trp_ring), id, &memory) != TROUPE_OK)
        _exit(2);
    trp_ring *ring = memory;
    ring->from = OTHER;
    ring->from_incarnation = 77;
    ring->to = trp_self.slot;
    ring->to_incarnation = trp_self.incarnation;
    return ring;
}

static void ignore(const trp_frame *frame)
{
    (void)frame;
}

static bool is_refused(void *unused)
{
    (void)unused;
    return support_stats().frames_refused > 0;
}

enum { NEXT_TO_ITSELF, NEXT_ROUND, MOVED_TO_ITSELF, MOVED_ROUND, TAIL, SIZE, RINGS };

static void read_damaged(uint64_t what)
{
    trp_object one, other;
    trp_process_handlers_set(&(trp_handlers){.frame = ignore});
    if (troupe_start(0, NULL, .workers = 1, .transport = TROUPE_TRANSPORT_RING) != TROUPE_OK)
        _exit(2);
    trp_ring *first = announce(TRP_RING_LARGE, &one), *second = announce(TRP_RING_LARGE, &other);
    trp_ring_writer out = trp_ring_writer_of(first, TRP_RING_LARGE);
    trp_ring_writer back = trp_ring_writer_of(second, TRP_RING_LARGE);
    trp_frame frame = {.kind = TRP_FRAME_TELL};
    if (what == NEXT_TO_ITSELF || what == NEXT_ROUND)
        first->next = what == NEXT_ROUND ? other : one;
    second->next = what == NEXT_ROUND ? one : 0;
    if (what == MOVED_TO_ITSELF || what == MOVED_ROUND)
        trp_ring_move(&out, what == MOVED_ROUND ? other : one);
    else if (!trp_ring_write(&out, &frame))
        _exit(3);
    trp_ring_move(&back, one);
    if (what == TAIL)
        atomic_store(&first->tail, UINT64_MAX / 2);
    if (what == SIZE)
        memset(first->data, 0xff, 4);
    trp_door *door = trp_door_of(trp_self.slot);
    atomic_store(&door->announced, one);
    trp_door_ring(trp_self.slot, OTHER, true);
    if (!support_wait_until(is_refused, NULL, LIMIT_S * 500))
        _exit(4);
    uint32_t process; // And what others send is read.
    uint64_t incarnation;
    if (trp_node_worker(true, &process, &incarnation) != TROUPE_OK)
        _exit(5);
    (void)troupe_stop();
}

static void test_rings_that_lead_round(void **state)
{
    (void)state;
    for (uint64_t what = 0; what < RINGS; what++)
        survive(read_damaged, what);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_word_of_a_row),
        cmocka_unit_test(test_rings_that_lead_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
