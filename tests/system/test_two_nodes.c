// test_two_nodes.c: nodes that talk over tcp: calls both ways, values of all sizes, names, ends of
// calls and of nodes, and which peers are admitted.
// timeout: 120
// cost: 25
#include "two_nodes.h"
#include <places.h>
#include <stats.h>
#include <support.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int launcher_fd;
static char *damaged_keys;

other two_nodes_order(const order *what)
{
    other made;
    assert_int_equal(send(launcher_fd, what, sizeof *what, 0), sizeof *what);
    assert_int_equal(recv(launcher_fd, &made, sizeof made, 0), sizeof made);
    return made;
}

other two_nodes_start(void)
{
    return two_nodes_order(&(order){.stranger = false});
}

static other first; // The node that most tests talk to.

clerk_actor two_nodes_find(const char *name, const char *address)
{
    char full[128];
    clerk_actor found;
    snprintf(full, sizeof full, "%s@%s", name, address);
    troupe_must(troupe_lookup(clerk, full, &found));
    return found;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(troupe_start(0, NULL, .listen = "127.0.0.1:0", .keys = two_nodes_keys,
                                  .workers = 1, .threads = 2, .node_timeout_ms = TIMEOUT_MS,
                                  .node_message_bytes_max = TWO_NODES_LARGEST),
                     TROUPE_OK);
    first = two_nodes_start();
    troupe_must(troupe_node_join(first.address));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    two_nodes_end(&first);
    return troupe_stop();
}

bool two_nodes_joined(const char *address)
{
    troupe_node_info nodes[64];
    size_t count = troupe_nodes_list(nodes, 64);
    for (size_t i = 0; i < count; i++)
        if (strcmp(nodes[i].address, address) == 0)
            return nodes[i].joined;
    return false;
}

static bool is_gone(void *address)
{
    return !two_nodes_joined(address);
}

// ---- calls

static void test_calls_to_every_kind_of_process(void **state)
{
    (void)state;
    static const char *const names[] = {"desk", "pool", "alone"};
    for (int i = 0; i < 3; i++) {
        clerk_actor there = two_nodes_find(names[i], first.address);
        int64_t total = 0;
        letter answer;
        assert_int_not_equal(there.address.node, 0);
        troupe_must(troupe_get(int64_t, troupe_call(there, clerk_add, 5), &total));
        troupe_must(troupe_get(int64_t, troupe_call(there, clerk_add, 6), &total));
        assert_int_equal(total, 11);
        letter question = {.from = "test", .number = 41, .text = "wo sind die Schl\xc3\xbcssel?"};
        troupe_must(troupe_get(letter, troupe_call_from(there, clerk_reply, &question), &answer));
        assert_int_equal(answer.number, 42);
        assert_string_equal(answer.text, "re: wo sind die Schl\xc3\xbcssel?");
        troupe_ref failed = troupe_call(there, clerk_fail, "no paper left");
        int none;
        assert_int_equal(troupe_get(int, failed, &none), TROUPE_NO_SPACE);
        assert_non_null(strstr(troupe_last_error()->text, "no paper left"));
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED);
        troupe_arena_reset();
    }
}

static void test_calls_back(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("alone", first.address);
    for (int i = 0; i < 3; i++) {
        clerk_actor here = troupe_spawn(clerk, .place = places[i]);
        int64_t total = 0;
        for (int64_t k = 1; k <= 10; k++) {
            errand what = {.to = here.address, .amount = 7};
            troupe_must(troupe_get(int64_t, troupe_call_from(there, clerk_run, &what), &total));
            assert_int_equal(total, 7 * k);
        }
        troupe_must(troupe_actor_kill(here));
    }
    // An address of theirs, sent there and back, leads there still.
    clerk_actor pool;
    troupe_must(troupe_get(troupe_actor, troupe_call(there, clerk_where), &pool.address));
    assert_int_equal(pool.address.node, there.address.node);
    errand what = {.to = pool.address, .amount = 0};
    int64_t total = 0, direct = -1;
    troupe_must(troupe_get(int64_t, troupe_call_from(there, clerk_run, &what), &total));
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 0), &direct));
    assert_int_equal(total, direct);
}

// Methods that wait long are looked after, wherever what they wait for is: it ends nothing.
static void test_long_waits(void **state)
{
    (void)state;
    enum { LONG_MS = 400 };
    clerk_actor there = two_nodes_find("alone", first.address);
    for (int i = 0; i < 3; i++) {
        clerk_actor here = troupe_spawn(clerk, .place = places[i]);
        int64_t total = 0;
        int slept;
        troupe_ref nap = troupe_call(here, clerk_nap, LONG_MS);
        errand what = {.to = here.address, .amount = 7};
        troupe_must(troupe_get(int64_t, troupe_call_from(there, clerk_run, &what), &total));
        assert_int_equal(total, 7);
        troupe_must(troupe_get(int, nap, &slept));
        nap = troupe_call(there, clerk_nap, LONG_MS);
        what.to = there.address;
        troupe_must(troupe_get(int64_t, troupe_call_from(here, clerk_run, &what), &total));
        troupe_must(troupe_get(int, nap, &slept));
        troupe_must(troupe_actor_kill(here));
    }
    assert_true(two_nodes_joined(first.address));
}

static void test_rings_of_waits(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("alone", first.address);
    for (int i = 0; i < 3; i++) {
        clerk_actor here = troupe_spawn(clerk, .place = places[i]);
        int64_t total;
        round_trip way = {.there = there.address, .back = here.address};
        troupe_ref ring = troupe_call_from(here, clerk_go_round, &way);
        assert_int_equal(troupe_get(int64_t, ring, &total, SUPPORT_SOON_MS), TROUPE_DEADLOCK);
        assert_non_null(strstr(troupe_last_error()->text, " -> "));
        troupe_must(troupe_actor_kill(here));
    }
    assert_true(two_nodes_joined(first.address));
}

static void test_a_thousand_in_flight(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    clerk_actor there = two_nodes_find("pool", first.address);
    static troupe_ref refs[MANY];
    int64_t before = 0, total = 0;
    troupe_must(troupe_get(int64_t, troupe_call(there, clerk_add, 0), &before));
    for (int i = 0; i < MANY; i++)
        refs[i] = troupe_call(there, clerk_add, 1);
    for (int i = 0; i < MANY; i++) {
        troupe_must(troupe_get(int64_t, refs[i], &total));
        assert_int_equal(total, before + i + 1); // In the order of sending.
    }
}

static void test_tells_arrive_in_order(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("desk", first.address);
    int64_t wrong;
    for (int64_t i = 0; i < 1000; i++)
        troupe_must(troupe_tell(there, clerk_note, i));
    troupe_must(troupe_get(int64_t, troupe_call(there, clerk_wrong), &wrong));
    assert_int_equal(wrong, 0);
}

static void test_large_values(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("pool", first.address);
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 1 << 20, (5 << 20) + 3};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s];
        unsigned char *data = malloc(size + 1);
        for (size_t i = 0; i < size; i++)
            data[i] = (unsigned char)(i * 31 + s);
        troupe_bytes back;
        troupe_ref ref = troupe_call(there, clerk_mirror, data, size);
        troupe_must(troupe_get(troupe_bytes, ref, &back));
        assert_int_equal(back.size, size);
        const unsigned char *bytes = back.data;
        size_t same = 0;
        while (same < size && bytes[same] == data[size - 1 - same])
            same++;
        assert_int_equal(same, size);
        free(data);
        troupe_arena_reset();
    }
}

// ---- names

static void test_names(void **state)
{
    (void)state;
    clerk_actor found;
    assert_int_equal(troupe_lookup(clerk, "nobody", &found), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_lookup(clerk, "desk@127.0.0.1:1", &found), TROUPE_NOT_FOUND);
    troupe_must(troupe_lookup(clerk, "desk", &found)); // Not here, so there.
    assert_int_not_equal(found.address.node, 0);
    clerk_actor mine = troupe_spawn(clerk, .name = "desk", .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_actor_status(mine.address)); // Two nodes may have the same name,
    troupe_must(troupe_lookup(clerk, "desk", &found));
    assert_int_equal(found.address.node, 0); // and one's own is nearer.
    assert_int_equal(found.address.id, mine.address.id);
    char own[128];
    snprintf(own, sizeof own, "desk@%s", troupe_node_address());
    troupe_must(troupe_lookup(clerk, own, &found));
    assert_int_equal(found.address.id, mine.address.id);
    troupe_must(troupe_actor_kill(mine));
}

// ---- ends of calls

static void test_deadlines_and_cancelling(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("alone", first.address);
    int slept;
    int64_t total;
    troupe_ref nap = troupe_call(there, clerk_nap, 20000);
    troupe_ref late = troupe_call(troupe_with(there, .deadline_ms = 50), clerk_add, 1);
    assert_int_equal(troupe_get(int64_t, late, &total), TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_DEADLINE_EXCEEDED);
    troupe_ref behind = troupe_call(there, clerk_nap, 20000);
    troupe_must(troupe_cancel(behind));
    assert_int_equal(troupe_get(int, behind, &slept), TROUPE_CANCELLED);
    troupe_must(troupe_cancel(nap));
    assert_int_equal(troupe_get(int, nap, &slept), TROUPE_CANCELLED);
    troupe_must(troupe_get(int64_t, troupe_call(there, clerk_add, 0), &total)); // It goes on.
}

static void test_streams(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("pool", first.address);
    troupe_stream numbers = troupe_stream_open(there, clerk_count, 500);
    for (int i = 0; i < 500; i++) {
        int number = -1;
        troupe_must(troupe_next(int, numbers, &number));
        assert_int_equal(number, i);
    }
    int none;
    assert_int_equal(troupe_next(int, numbers, &none), TROUPE_END);
}

static void test_what_does_not_reach_so_far(void **state)
{
    (void)state;
    clerk_actor there = two_nodes_find("desk", first.address);
    int number = 7, none;
    troupe_ref object = troupe_put(int, &number);
    troupe_ref refused = troupe_call_from(there, clerk_hold, &object);
    assert_int_equal(troupe_get(int, refused, &none), TROUPE_UNSUPPORTED);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
    assert_int_equal(troupe_actor_retain(there.address), TROUPE_UNSUPPORTED);
    assert_int_equal(troupe_actor_restart(there), TROUPE_UNSUPPORTED);
    troupe_ref_drop(object);
}

// The end of an actor, and of a process, over there.
static void test_ends_of_actors(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor alone = two_nodes_find("alone", second.address),
                pool = two_nodes_find("pool", second.address);
    troupe_down down;
    int slept;
    int64_t total;
    assert_int_equal(troupe_actor_await_end(pool.address, 10, &down), TROUPE_TIMED_OUT);
    troupe_must(troupe_actor_end(pool));
    troupe_must(troupe_actor_await_end(pool.address, SLACK_MS, &down));
    assert_int_equal(down.reason, TROUPE_DOWN_NORMAL);
    assert_int_equal(troupe_get(int64_t, troupe_call(pool, clerk_add, 1), &total),
                     TROUPE_NOT_EXECUTED);
    troupe_ref nap = troupe_call(alone, clerk_nap, 20000);
    troupe_must(troupe_actor_kill(alone));               // And its process.
    troupe_status status = troupe_get(int, nap, &slept); // It may have waited in the mailbox still.
    assert_true(status == TROUPE_MAYBE_EXECUTED || status == TROUPE_NOT_EXECUTED);
    troupe_must(troupe_actor_await_end(alone.address, SLACK_MS, &down));
    assert_int_equal(troupe_get(int64_t, troupe_call(alone, clerk_add, 1), &total),
                     TROUPE_NOT_EXECUTED);
    assert_true(two_nodes_joined(second.address)); // Their node is well.
    two_nodes_end(&second);
}

// ---- ends of nodes

static void test_goodbye(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    troupe_must(troupe_node_join(second.address)); // Once more does no harm.
    clerk_actor alone = two_nodes_find("alone", second.address),
                desk = two_nodes_find("desk", second.address);
    troupe_down down;
    int slept;
    int64_t total, began = support_now_ms();
    troupe_ref nap = troupe_call(alone, clerk_nap, 60000);
    troupe_must(troupe_get(int64_t, troupe_call(desk, clerk_add, 1), &total));
    (void)kill(second.pid, SIGTERM); // troupe_stop; the nap may wait in its mailbox still.
    troupe_status status = troupe_get(int, nap, &slept);
    assert_true(status == TROUPE_MAYBE_EXECUTED || status == TROUPE_CANCELLED ||
                status == TROUPE_NOT_EXECUTED);
    assert_true(support_wait_until(is_gone, second.address, SLACK_MS));
    assert_true(support_now_ms() - began < TIMEOUT_MS + SLACK_MS);
    assert_int_equal(troupe_get(int64_t, troupe_call(desk, clerk_add, 1), &total),
                     TROUPE_NOT_EXECUTED);
    troupe_must(troupe_actor_await_end(desk.address, SLACK_MS, &down));
    two_nodes_end(&second);
}

static void test_leaving_and_joining_again(void **state)
{
    (void)state;
    other second = two_nodes_start();
    int slept;
    int64_t total;
    for (int i = 0; i < 3; i++) {
        troupe_must(troupe_node_join(second.address));
        clerk_actor desk = two_nodes_find("desk", second.address);
        troupe_must(troupe_get(int64_t, troupe_call(desk, clerk_add, 1), &total));
        assert_int_equal(total, i + 1);
        troupe_ref nap = troupe_call(two_nodes_find("pool", second.address), clerk_nap, 20000);
        troupe_must(troupe_node_leave(second.address));
        assert_int_equal(troupe_get(int, nap, &slept), TROUPE_MAYBE_EXECUTED);
        assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
        assert_int_equal(troupe_node_leave(second.address), TROUPE_NOT_FOUND);
        assert_int_equal(troupe_get(int64_t, troupe_call(desk, clerk_add, 1), &total),
                         TROUPE_NOT_EXECUTED);
    }
    two_nodes_end(&second);
}

static void test_a_killed_node(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    enum { SOME = 20 };
    troupe_ref naps[SOME];
    troupe_down down;
    for (int i = 0; i < SOME; i++)
        naps[i] = troupe_call(pool, clerk_nap, 60000);
    assert_int_equal(troupe_actor_await_end(pool.address, 100, &down), TROUPE_TIMED_OUT);
    (void)kill(second.pid, SIGKILL);
    int64_t began = support_now_ms();
    for (int i = 0; i < SOME; i++) {
        int slept;
        assert_int_equal(troupe_get(int, naps[i], &slept), TROUPE_MAYBE_EXECUTED);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_MAYBE_EXECUTED);
    }
    assert_true(support_now_ms() - began < TIMEOUT_MS + SLACK_MS);
    assert_false(two_nodes_joined(second.address));
    troupe_must(troupe_actor_await_end(pool.address, SLACK_MS, &down));
    assert_int_equal(down.reason, TROUPE_DOWN_NODE);
    assert_int_equal(troupe_node_join(second.address), TROUPE_DEADLINE_EXCEEDED);
}

static void test_a_stopped_node(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    pids all;
    int64_t total;
    troupe_must(troupe_get(pids, troupe_call(pool, clerk_pids), &all));
    // For a moment: nothing is lost.
    two_nodes_stop(&second, &all);
    troupe_ref sum = troupe_call(pool, clerk_add, 1);
    assert_int_equal(troupe_get(int64_t, sum, &total, TIMEOUT_MS / 3), TROUPE_TIMED_OUT);
    two_nodes_continue(&second, &all);
    troupe_must(troupe_get(int64_t, sum, &total));
    assert_int_equal(total, 1);
    // For too long: it is given up, and so are we when it goes on.
    two_nodes_stop(&second, &all);
    sum = troupe_call(pool, clerk_add, 1);
    clerk_actor found; // Whether it has one of that name is not known, and so is said.
    assert_int_equal(troupe_lookup(clerk, "perhaps", &found), TROUPE_NOT_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "'perhaps' is not known"));
    assert_int_equal(troupe_get(int64_t, sum, &total), TROUPE_MAYBE_EXECUTED);
    assert_false(two_nodes_joined(second.address));
    two_nodes_continue(&second, &all);
    troupe_must(troupe_node_join(second.address)); // It is another session, also over there.
    pool = two_nodes_find("pool", second.address);
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 0), &total));
    assert_true(total == 1 || total == 2); // The call that was given up may have run.
    two_nodes_end(&second);
}

// ---- who is let in

static void test_strangers(void **state)
{
    (void)state;
    uint64_t before = support_stats().strangers_refused, refused = support_stats().frames_refused;
    order what = {.stranger = true};
    snprintf(what.join, sizeof what.join, "%s", troupe_node_address());
    other second = two_nodes_order(&what);
    assert_int_equal(second.joined, TROUPE_DEADLINE_EXCEEDED);
    assert_true(support_stats().strangers_refused > before);
    assert_int_equal(troupe_node_join(second.address), TROUPE_DEADLINE_EXCEEDED);
    assert_non_null(strstr(troupe_last_error()->text, "other keys"));
    assert_false(two_nodes_joined(second.address));
    assert_int_equal(support_stats().frames_refused, refused); // Nothing of theirs was even read.
    two_nodes_end(&second);
    assert_int_equal(troupe_node_join(troupe_node_address()), TROUPE_INVALID);
    assert_int_equal(troupe_node_join("nowhere"), TROUPE_INVALID);
}

// It is they who join, and both at once.
static void test_joined_from_there(void **state)
{
    (void)state;
    order what = {.stranger = false};
    snprintf(what.join, sizeof what.join, "%s", troupe_node_address());
    for (int i = 0; i < 3; i++) { // Each with another number: above ours, and below.
        other second = two_nodes_order(&what);
        int64_t total = 0;
        assert_int_equal(second.joined, TROUPE_OK);
        troupe_must(troupe_node_join(second.address));
        clerk_actor desk = two_nodes_find("desk", second.address);
        troupe_must(troupe_get(int64_t, troupe_call(desk, clerk_add, 3), &total));
        assert_int_equal(total, 3);
        two_nodes_end(&second);
    }
}

// By the name of its host, and known by both.
static void test_joined_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { // Each with another number: above ours, and below.
        other second = two_nodes_start();
        char by_name[80];
        int64_t total;
        snprintf(by_name, sizeof by_name, "localhost%s", strrchr(second.address, ':'));
        troupe_must(troupe_node_join(by_name));
        troupe_must(troupe_node_join(by_name));
        assert_true(two_nodes_joined(second.address));
        clerk_actor desk = two_nodes_find("desk", by_name);
        troupe_must(troupe_get(int64_t, troupe_call(desk, clerk_add, 3), &total));
        desk = two_nodes_find("desk", second.address);
        troupe_must(troupe_get(int64_t, troupe_call(desk, clerk_add, 3), &total));
        assert_int_equal(total, 6);
        troupe_must(troupe_node_leave(by_name));
        assert_false(two_nodes_joined(second.address));
        two_nodes_end(&second);
    }
}

static void test_wrong_options(void **state)
{
    (void)state;
    assert_int_equal(troupe_start(0, NULL, .listen = "127.0.0.1:0"), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "keys"));
    assert_int_equal(troupe_start(0, NULL, .listen = "0.0.0.0:0", .keys = two_nodes_keys),
                     TROUPE_INVALID);
    assert_int_equal(troupe_start(0, NULL, .listen = "here", .keys = two_nodes_keys),
                     TROUPE_INVALID);
    assert_int_equal(troupe_start(0, NULL, .listen = "0:0", .keys = two_nodes_keys),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "one machine"));
    assert_int_equal(troupe_start(0, NULL, .node_message_bytes_max = 5), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, ".node_message_bytes_max"));
    // By a name, which others hear in numbers.
    troupe_must(
        troupe_start(0, NULL, .workers = 1, .listen = "localhost:0", .keys = two_nodes_keys));
    assert_int_equal(strncmp(troupe_node_address(), "127.0.0.1:", 10), 0);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(chmod(two_nodes_keys, 0644), 0);
    assert_int_equal(troupe_start(0, NULL, .listen = "127.0.0.1:0", .keys = two_nodes_keys),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "expected 600"));
    assert_int_equal(chmod(two_nodes_keys, 0600), 0);
    // Of the right length, and still no keys: nothing may listen with them. The first are not in
    // the alphabet, the second stand for more than five characters can.
    static const char damaged[] = {'~', '#'};
    for (size_t i = 0; i < sizeof damaged; i++) {
        char text[82];
        memset(text, damaged[i], sizeof text);
        text[40] = text[81] = '\n';
        support_write_file(damaged_keys, text, sizeof text);
        assert_int_equal(chmod(damaged_keys, 0600), 0);
        assert_int_not_equal(troupe_start(0, NULL, .listen = "127.0.0.1:0", .keys = damaged_keys),
                             TROUPE_OK);
        assert_non_null(strstr(troupe_last_error()->text, "does not hold two keys"));
    }
    assert_int_equal(troupe_keys_make(two_nodes_keys), TROUPE_EXISTS);
    assert_int_equal(troupe_start(0, NULL, .workers = 1), TROUPE_OK);
    assert_int_equal(troupe_node_join("127.0.0.1:4711"), TROUPE_INVALID);
    assert_string_equal(troupe_node_address(), "");
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
#if defined(__SANITIZE_THREAD__)
    return 0; // libzmq, which all of this goes through, is not built for it.
#endif
    char *folder = support_directory_make();
    two_nodes_keys = support_path(folder, "cluster.keys");
    two_nodes_strange_keys = support_path(folder, "strange.keys");
    damaged_keys = support_path(folder, "damaged.keys");
    troupe_must(troupe_keys_make(two_nodes_keys));
    troupe_must(troupe_keys_make(two_nodes_strange_keys));
    launcher_fd = two_nodes_launch();
    const struct CMUnitTest options[] = {cmocka_unit_test(test_two_nodes_envelopes),
                                         cmocka_unit_test(test_two_nodes_kinds_from_there),
                                         cmocka_unit_test(test_wrong_options)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_to_every_kind_of_process),
        cmocka_unit_test(test_calls_back),
        cmocka_unit_test(test_long_waits),
        cmocka_unit_test(test_rings_of_waits),
        cmocka_unit_test(test_a_thousand_in_flight),
        cmocka_unit_test(test_tells_arrive_in_order),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_two_nodes_values_above_the_limit),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_deadlines_and_cancelling),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_what_does_not_reach_so_far),
        cmocka_unit_test(test_ends_of_actors),
        cmocka_unit_test(test_goodbye),
        cmocka_unit_test(test_leaving_and_joining_again),
        cmocka_unit_test(test_a_killed_node),
        cmocka_unit_test(test_a_stopped_node),
        cmocka_unit_test(test_joined_from_there),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_two_nodes_odd_messages),
        cmocka_unit_test(test_two_nodes_other_versions),
        cmocka_unit_test(test_two_nodes_long_answers),
        cmocka_unit_test(test_two_nodes_a_late_hello),
        cmocka_unit_test(test_two_nodes_deaths_before_numbers),
        cmocka_unit_test(test_joined_by_name),
        cmocka_unit_test(test_two_nodes_a_repeated_frame),
        cmocka_unit_test(test_two_nodes_a_gap),
        cmocka_unit_test(test_two_nodes_a_cut_connection),
        cmocka_unit_test(test_two_nodes_a_late_answer_to_a_kill),
        cmocka_unit_test(test_two_nodes_holds_of_others),
        cmocka_unit_test(test_two_nodes_answers_of_others),
        cmocka_unit_test(test_two_nodes_too_many_processes),
        cmocka_unit_test(test_two_nodes_beyond_the_window),
        cmocka_unit_test(test_two_nodes_long_lists),
    };
    int failed = cmocka_run_group_tests(options, NULL, NULL) +
                 cmocka_run_group_tests(tests, setup, teardown);
    close(launcher_fd);
    support_directory_remove(folder);
    free(two_nodes_keys);
    free(two_nodes_strange_keys);
    return failed;
}
