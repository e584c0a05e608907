// test_carrier.c: what sending asks of a carrier, and in which order: a made-up one takes the place
// of those that there are, and nothing else has to know it.
#include <support.h>

#include <runtime/base/error.h>
#include <runtime/link/frame.h>
#include <runtime/link/peer.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/shm/carrier.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum { PEER = 7, FAR = TRP_PROCESSES_MAX + 3, LIFE = 4711 };

static struct {
    char log[256];
    bool dead, announces;
    uint64_t to;
    bool first;
} made;

static void note(const char *what)
{
    strcat(made.log, what);
}

static bool alive(uint32_t process, uint64_t incarnation, char *cause)
{
    (void)process, (void)incarnation;
    note("alive ");
    if (made.dead && cause != NULL)
        strcpy(cause, "was never there");
    return !made.dead;
}

static void describe(uint32_t process, char *text, size_t size)
{
    snprintf(text, size, "pigeon %u", process);
}

static void meet(uint32_t process)
{
    (void)process;
    note("meet ");
}

static troupe_status send_by_pigeon(trp_peer *peer, uint32_t process, trp_frame *frame)
{
    (void)process;
    note("send ");
    made.to = frame->to_incarnation;
    peer->announced = made.announces;
    return TROUPE_OK;
}

static void notify(uint32_t process, bool first)
{
    (void)process;
    made.first = first;
    note("notify ");
}

static void disconnect(trp_peer *peer, int linger_ms)
{
    (void)linger_ms;
    peer->announced = false;
    note("disconnect ");
}

static const size_t limit = 100;
static const trp_near_carrier pigeons = {
    .carrier = {.name = "pigeons",
                .message_bytes_max = &limit,
                .limit = "what a pigeon can carry",
                .pauses_max = 2,
                .alive = alive,
                .describe = describe,
                .meet = meet,
                .send = send_by_pigeon,
                .notify = notify,
                .disconnect = disconnect},
};

static troupe_status tell(uint32_t process, size_t size)
{
    static const char body[200];
    trp_frame frame = {.kind = TRP_FRAME_TELL, .target = 1, .body = body, .body_size = size};
    made.log[0] = '\0';
    return trp_process_send(process, LIFE, &frame, 0);
}

static void test_one_after_another(void **state)
{
    (void)state;
    made.announces = true;
    assert_int_equal(tell(PEER, 10), TROUPE_OK);
    // Another incarnation, if it lives, makes the peer anew; it is met before it is asked again.
    assert_string_equal(made.log, "alive disconnect meet alive send notify ");
    assert_true(made.first);
    assert_int_equal(made.to, LIFE);
    assert_int_equal(tell(PEER, 10), TROUPE_OK);
    assert_string_equal(made.log, "alive send notify ");
    assert_false(made.first);
    made.announces = false; // One that tells its peers by itself.
    assert_int_equal(tell(PEER, 10), TROUPE_OK);
    assert_string_equal(made.log, "alive send ");
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(tell(PEER, limit + 1), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "what a pigeon can carry"));
    assert_string_equal(made.log, "");
    assert_int_equal(tell(PEER, limit), TROUPE_OK);
    for (uint64_t target = 1; target <= 3; target++)
        assert_int_equal(trp_peer_pause(&(trp_frame){.kind = TRP_FRAME_PAUSE,
                                                     .from = PEER,
                                                     .from_incarnation = LIFE,
                                                     .target = target + 100}),
                         target <= pigeons.carrier.pauses_max);
}

static void test_deaths(void **state)
{
    (void)state;
    made.dead = true;
    assert_int_equal(tell(PEER, 10), TROUPE_NOT_EXECUTED);
    assert_string_equal(made.log, "alive alive ");
    assert_string_equal(troupe_last_error()->text, "pigeon 7 was never there");
    made.dead = false;
    made.log[0] = '\0';
    trp_process_forget(PEER, LIFE);
    assert_string_equal(made.log, "disconnect ");
    assert_int_equal(tell(PEER, 10), TROUPE_NOT_EXECUTED);
}

// Numbers above the table's have the other carrier, which is none here.
static void test_another_node(void **state)
{
    (void)state;
    char cause[112];
    assert_false(trp_process_alive(FAR, LIFE, cause));
    assert_string_equal(cause, "has ended");
    assert_int_equal(tell(FAR, 10), TROUPE_NOT_EXECUTED);
    assert_string_equal(made.log, "");
    trp_carriers.far = &pigeons.carrier;
    assert_true(trp_process_alive(FAR, LIFE, cause));
    char text[32];
    snprintf(text, sizeof text, "pigeon %d", (int)FAR);
    assert_string_equal(trp_process_text(FAR).text, text);
    trp_carriers.far = &trp_no_carrier;
}

static int begin(void **state)
{
    (void)state;
    trp_self.slot = TRP_PROCESS_DRIVER;
    trp_self.incarnation = 12;
    troupe_must(trp_segment_create(8 << 20));
    trp_self.options.node_message_bytes_max = limit;
    trp_carriers.near = &pigeons;
    trp_process_gate_open();
    return 0;
}

static int end(void **state)
{
    (void)state;
    trp_process_gate_close();
    trp_peers_free(0);
    trp_carriers.near = &trp_no_near_carrier;
    trp_segment_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_another_node),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
