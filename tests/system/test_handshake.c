// test_handshake.c: how sessions between nodes begin, and which peer may end one by beginning
// another: a peer with the cluster's keys claims the numbers and addresses of others, answers what
// it was not asked, repeats what was sent before, and sends what is invalid.
// cost: 4
#include "handshake.h"
#include <support.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Numbers above and below those of honest nodes.
static const uint32_t LARGE = UINT32_MAX - 8, SMALL = 8;

honest handshake_nodes[4];

static honest *const first = &handshake_nodes[0], *const second = &handshake_nodes[1];

typedef struct wanted {
    honest *node;
    const char *address;
    uint64_t session; // 0: none.
    honest_view last;
} wanted;

static bool has_session(void *context)
{
    wanted *it = context;
    it->last = honest_look(it->node, it->address);
    return it->last.session == it->session;
}

static void await_session(honest *node, const char *address, uint64_t session)
{
    wanted it = {.node = node, .address = address, .session = session};
    if (!support_wait_until(has_session, &it, HANDSHAKE_SOON_MS))
        fail_msg("the session with %s is %llx, expected %llx", address,
                 (unsigned long long)it.last.session, (unsigned long long)session);
}

static uint64_t session_of(honest *node, const char *address)
{
    return honest_look(node, address).session;
}

static uint64_t refused_by(honest *node)
{
    return honest_look(node, "").refused;
}

static void leave_hand(honest *node)
{
    assert_int_equal(honest_leave(node, hand_address).status, TROUPE_OK);
    (void)hand_await(TRP_NODE_BYE, node);
    hand_forget();
}

// ---- claims

// Who gives itself the number of a node that is joined, and is elsewhere, is refused and told so.
static void say_taken(honest *victim, const honest *peer, uint64_t incarnation)
{
    claim liar = {peer->id, incarnation, hand_address};
    uint64_t refused = refused_by(victim);
    hand_say(victim, &liar, &(trp_frame){.method = TRP_NODE_HELLO, .call = 77});
    heard answer = hand_await(TRP_NODE_REFUSE, victim);
    assert_int_equal(answer.frame.target, 77);
    assert_int_equal(answer.frame.status, TROUPE_EXISTS);
    assert_non_null(strstr(answer.text, peer->address));
    honest_await_refused(victim, refused + 1);
    hand_say(victim, &liar, &(trp_frame){.method = TRP_NODE_WELCOME, .schema = 99});
    honest_await_refused(victim, refused + 2);
}

// Who says that it is where another node is makes that node hear things that it has not asked for.
static void say_there(honest *victim, honest *peer, uint32_t id)
{
    claim liar = {id, 1234, peer->address};
    uint64_t refused = refused_by(peer);
    hand_say(victim, &liar, &(trp_frame){.method = TRP_NODE_HELLO, .call = 77});
    honest_await_refused(peer, refused + 1);
    refused = refused_by(victim);
    hand_say(victim, &liar, &(trp_frame){.method = TRP_NODE_WELCOME, .schema = 99, .target = 77});
    honest_await_refused(victim, refused + 1);
}

static void test_claims_of_others_end_nothing(void **state)
{
    (void)state;
    uint64_t session = session_of(first, second->address);
    assert_int_not_equal(session, 0);
    for (int i = 0; i < 2; i++) { // One has the smaller number, and makes the sessions.
        honest *victim = i == 0 ? first : second, *peer = i == 0 ? second : first;
        say_taken(victim, peer, 1234);
        say_taken(victim, peer, peer->incarnation);
        say_there(victim, peer, peer->id);
        say_there(victim, peer, SMALL);
        say_there(victim, peer, LARGE);
    }
    assert_int_equal(session_of(first, second->address), session);
    assert_int_equal(session_of(second, first->address), session);
    assert_int_equal(honest_look(first, "").joined, 1);
}

// Who is asked at one address and gives another is asked there, before anything else ends.
static void test_asked_elsewhere(void **state)
{
    (void)state;
    uint64_t session = session_of(first, second->address);
    claim liar = {SMALL, 1234, second->address};
    hand_forget();
    honest_join_begin(first, hand_address);
    uint64_t number = hand_await(TRP_NODE_HELLO, first).frame.call, refused = refused_by(second);
    hand_say(first, &liar,
             &(trp_frame){.method = TRP_NODE_WELCOME, .schema = 99, .target = number});
    hand_say(first, &liar,
             &(trp_frame){.method = TRP_NODE_WELCOME, .schema = 98, .target = number});
    (void)hand_await(TRP_NODE_HELLO, first); // It still waits, and asks again.
    hand_say(
        first, &liar,
        &(trp_frame){.method = TRP_NODE_REFUSE, .target = number, .status = TROUPE_UNSUPPORTED});
    assert_int_equal(honest_join_end(first).status, TROUPE_UNSUPPORTED);
    assert_int_equal(session_of(first, second->address), session);
    assert_int_equal(session_of(second, first->address), session);
    assert_int_equal(refused_by(second), refused); // It is asked by a node that it knows.
}

// Claims without end take nobody's place, and are counted.
static void test_many_claims(void **state)
{
    (void)state;
    enum { MANY = TRP_NODES_MAX + 16 }; // Fewer than are answered in a second.
    uint64_t session = session_of(first, second->address), refused = refused_by(first);
    for (uint32_t i = 0; i < MANY; i++) {
        claim liar = {LARGE - i, 1234 + i, hand_address};
        hand_say(first, &liar, &(trp_frame){.method = TRP_NODE_HELLO, .call = 77});
    }
    honest_await_refused(first, refused + MANY - TRP_NODES_MAX);
    assert_int_equal(session_of(first, second->address), session);
    claim honest_one = {LARGE + 1, 4711, hand_address};
    await_session(first, hand_address, hand_join(first, &honest_one));
    leave_hand(first);
}

// ---- who is heard there takes over

// A node at the address of another that is joined, since that was started anew: the old session
// goes on until the new node has been heard to receive there, and then ends.
static void take_over(const claim *old, const claim *anew)
{
    hand_forget();
    uint64_t before = hand_join(first, old), after;
    await_session(first, hand_address, before);
    hand_say(first, anew, &(trp_frame){.method = TRP_NODE_HELLO, .call = 88});
    if (anew->id > first->id) {
        after = hand_await_answer(TRP_NODE_WELCOME, first, 88).frame.schema;
        assert_int_equal(session_of(first, hand_address), before);
        hand_beat(first, anew, after);
    } else {
        trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = after = before + 5000};
        uint64_t refused = refused_by(first),
                 number = hand_await_answer(TRP_NODE_HELLO, first, 88).frame.call;
        welcome.target = number + 1;
        hand_say(first, anew, &welcome);
        honest_await_refused(first, refused + 1);
        assert_int_equal(session_of(first, hand_address), before);
        welcome.target = number;
        hand_say(first, anew, &welcome);
    }
    await_session(first, hand_address, after);
    heard bye = hand_await(TRP_NODE_BYE, first); // Who was there before is told.
    assert_int_equal(bye.frame.schema, before);
    assert_non_null(strstr(bye.text, "has been started at"));
    assert_non_null(strstr(bye.text, hand_address));
    assert_int_equal(honest_look(first, "").joined, 2);
    leave_hand(first);
}

static void test_the_node_that_is_heard_takes_over(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        claim old = {i / 2 == 0 ? SMALL : LARGE, 100, hand_address};
        claim anew = {i % 2 == 0 ? SMALL + 1 : LARGE + 1, 200, hand_address};
        take_over(&old, &anew);
    }
    take_over(&(claim){SMALL, 100, hand_address}, &(claim){SMALL, 200, hand_address});
    take_over(&(claim){LARGE, 100, hand_address}, &(claim){LARGE, 200, hand_address});
}

// A node that is killed, and another that is started at its address.
static void test_a_trial_is_started_anew(void **state)
{
    (void)state;
    honest *anew = &handshake_nodes[2];
    uint64_t before = session_of(first, second->address);
    char address[TRP_NODE_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s", second->address);
    assert_int_equal(kill(second->pid, SIGKILL), 0);
    honest_end(second);
    honest_start(anew, address);
    assert_string_equal(anew->address, address);
    assert_int_equal(session_of(first, address), before); // Nobody has said anything yet.
    honest_view joined = honest_join(anew, first->address);
    if (joined.status != TROUPE_OK)
        fail_msg("%s", joined.text);
    uint64_t after = session_of(anew, first->address);
    assert_int_not_equal(after, before);
    await_session(first, address, after);
    assert_string_equal(honest_look(first, address).cause, "was started anew");
    assert_int_equal(honest_look(first, "").joined, 1);
}

// ---- what comes late, again, or not at all

static void test_old_answers(void **state)
{
    (void)state;
    claim one = {SMALL, 100, hand_address};
    hand_forget();
    trp_frame hello = {.method = TRP_NODE_HELLO, .call = 5};
    hand_say(first, &one, &hello);
    uint64_t number = hand_await_answer(TRP_NODE_HELLO, first, 5).frame.call;
    trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = 6001, .target = number};
    hand_say(first, &one, &welcome);
    await_session(first, hand_address, 6001);
    hand_say(first, &one, &welcome); // Twice.
    hand_say(first, &one, &(trp_frame){.method = TRP_NODE_BYE, .schema = 6001});
    await_session(first, hand_address, 0);
    hand_say(first, &one, &welcome); // After its session's end.
    assert_int_equal(hand_await(TRP_NODE_BYE, first).frame.schema, 6001);
    uint64_t refused = refused_by(first);
    welcome.schema = 6002; // For another session: it was for one.
    hand_say(first, &one, &welcome);
    honest_await_refused(first, refused + 1);
    hand_forget();
    uint64_t session = hand_join(first, &one);
    await_session(first, hand_address, session);
    refused = refused_by(first);
    hand_say(first, &one, &welcome); // While the next goes on.
    honest_await_refused(first, refused + 1);
    hand_say(first, &one, &hello); // Likewise: it is answered, and nothing comes of it.
    (void)hand_await(TRP_NODE_HELLO, first);
    assert_int_equal(session_of(first, hand_address), session);
    leave_hand(first);
}

// The number in an answer is for the node that asked, as it was then and there.
static void test_answers_go_to_their_asker(void **state)
{
    (void)state;
    claim one = {SMALL, 100, hand_address};
    const claim others[] = {
        {SMALL + 1, 100, hand_address}, {SMALL, 101, hand_address}, {SMALL, 100, "127.0.0.1:9"}};
    hand_forget();
    hand_say(first, &one, &(trp_frame){.method = TRP_NODE_HELLO, .call = 5});
    uint64_t number = hand_await_answer(TRP_NODE_HELLO, first, 5).frame.call;
    trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = 7001, .target = number};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        uint64_t refused = refused_by(first);
        hand_say(first, &others[i], &welcome);
        honest_await_refused(first, refused + 1);
    }
    assert_int_equal(honest_look(first, "").joined, 1);
    hand_say(first, &one, &welcome);
    await_session(first, hand_address, 7001);
    leave_hand(first);
}

// The first HELLO is lost, and who answers the second ends before the session has begun: who comes
// after it at the same address is joined.
static void test_a_restart_in_the_middle(void **state)
{
    (void)state;
    static const uint32_t ids[] = {SMALL, LARGE};
    for (int i = 0; i < 2; i++) {
        claim before = {ids[i], 100, hand_address}, after = {ids[i] + 1, 200, hand_address};
        trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = 8001 + (unsigned)i};
        hand_forget();
        honest_join_begin(first, hand_address);
        uint64_t number = hand_await(TRP_NODE_HELLO, first).frame.call;
        assert_int_equal(hand_await(TRP_NODE_HELLO, first).frame.call, number);
        if (ids[i] == LARGE) {
            trp_frame hello = {.method = TRP_NODE_HELLO, .call = 5, .target = number};
            hand_say(first, &before, &hello);
            (void)hand_await(TRP_NODE_WELCOME, first);
            hello.call = 6;
            hand_say(first, &after, &hello);
            welcome = hand_await_answer(TRP_NODE_WELCOME, first, 6).frame;
            hand_beat(first, &after, welcome.schema);
        } else {
            (void)before; // It has heard both, and is no more.
            welcome.target = number;
            hand_say(first, &after, &welcome);
        }
        assert_int_equal(honest_join_end(first).status, TROUPE_OK);
        assert_int_equal(session_of(first, hand_address), welcome.schema);
        leave_hand(first);
    }
}

// Both ask, and each answers the other.
static void test_both_at_once(void **state)
{
    (void)state;
    static const uint32_t ids[] = {SMALL, LARGE};
    for (int i = 0; i < 2; i++) {
        claim one = {ids[i], 100, hand_address};
        hand_forget();
        honest_join_begin(first, hand_address);
        uint64_t number = hand_await(TRP_NODE_HELLO, first).frame.call, session;
        hand_say(first, &one, &(trp_frame){.method = TRP_NODE_HELLO, .call = 5});
        if (ids[i] == LARGE) {
            session = hand_await(TRP_NODE_WELCOME, first).frame.schema;
            hand_say(first, &one,
                     &(trp_frame){.method = TRP_NODE_HELLO, .call = 6, .target = number});
            assert_int_equal(hand_await(TRP_NODE_WELCOME, first).frame.schema, session);
            hand_beat(first, &one, session);
        } else {
            // The answer, and not what is repeated.
            heard hello = hand_await_answer(TRP_NODE_HELLO, first, 5);
            trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = session = 9001};
            welcome.target = number;
            hand_say(first, &one, &welcome);
            welcome.target = hello.frame.call;
            hand_say(first, &one, &welcome);
        }
        assert_int_equal(honest_join_end(first).status, TROUPE_OK);
        assert_int_equal(session_of(first, hand_address), session);
        leave_hand(first);
    }
}

static int begin(void **state)
{
    (void)state;
    honest_start(first, "127.0.0.1:0");
    honest_start(second, "127.0.0.1:0");
    assert_int_equal(honest_join(first, second->address).status, TROUPE_OK);
    await_session(second, first->address, session_of(first, second->address));
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof handshake_nodes / sizeof handshake_nodes[0]; i++)
        if (handshake_nodes[i].pid > 0)
            honest_end(&handshake_nodes[i]);
    return 0;
}

int main(void)
{
#if defined(__SANITIZE_THREAD__)
    return 0; // libzmq, which all of this goes through, is not built for it.
#endif
    char *folder = support_directory_make();
    char *keys = support_path(folder, "cluster.keys");
    troupe_must(troupe_keys_make(keys));
    for (size_t i = 0; i < sizeof handshake_nodes / sizeof handshake_nodes[0]; i++)
        honest_fork(&handshake_nodes[i], keys, i == 3 ? "ipc" : "");
    hand_open(keys);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims_of_others_end_nothing),
        cmocka_unit_test(test_asked_elsewhere),
        cmocka_unit_test(test_many_claims),
        cmocka_unit_test(test_the_node_that_is_heard_takes_over),
        cmocka_unit_test(test_old_answers),
        cmocka_unit_test(test_answers_go_to_their_asker),
        cmocka_unit_test(test_a_restart_in_the_middle),
        cmocka_unit_test(test_both_at_once),
        cmocka_unit_test(test_handshake_no_addresses),
        cmocka_unit_test(test_handshake_no_words),
        cmocka_unit_test(test_handshake_no_messages),
        cmocka_unit_test(test_handshake_no_processes),
        cmocka_unit_test(test_handshake_answers_without_end),
        cmocka_unit_test(test_handshake_flood_beside_ipc),
        cmocka_unit_test(test_a_trial_is_started_anew),
    };
    int failed = cmocka_run_group_tests(tests, begin, end);
    hand_close();
    support_directory_remove(folder);
    free(keys);
    return failed;
}
