// test_two_nodes.hostile.c: what a peer that has the cluster's key may do to a process of another
// node: nothing with its memory, its calls and its lists. The peer makes frames by hand, as a
// process of this node that there is not.
#include "two_nodes.h"
#include <stats.h>
#include <support.h>

#include <actors/actor/lifecycle.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/link/zmq_remote.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/remote_table.h>
#include <runtime/remote/session.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum { SOON_MS = 20000, SLOT = 77 };

typedef struct hostile {
    trp_outbound *out;
    trp_envelope envelope;
    uint64_t incarnation, to_incarnation, sequence; // The number of the last frame that counted.
    clerk_actor victim;
} hostile;

// Sends the frame with the next number, which counts if it is taken.
static void say(hostile *it, trp_frame frame)
{
    trp_buffer bytes = {0};
    frame.from = SLOT;
    frame.from_incarnation = it->incarnation;
    frame.to_incarnation = it->to_incarnation;
    frame.sequence = it->sequence + 1;
    trp_envelope_write(&it->envelope, &bytes);
    trp_frame_write(&frame, &bytes);
    assert_false(bytes.failed);
    assert_int_equal(trp_outbound_send(it->out, &bytes), TROUPE_OK);
    trp_buffer_free(&bytes);
}

static void say_next(hostile *it, trp_frame frame)
{
    say(it, frame);
    it->sequence++;
}

// As another process, which the victim gives a number.
static void reach(hostile *it, uint64_t incarnation)
{
    static const char nowhere[] = "127.0.0.1:9";
    it->incarnation = incarnation;
    it->sequence = 0;
    say_next(it, (trp_frame){.kind = TRP_FRAME_REACH, .body = nowhere, .body_size = 11});
}

static hostile begin(clerk_actor victim)
{
    hostile it = {.victim = victim, .to_incarnation = victim.address.incarnation};
    char address[TRP_NODE_ADDRESS_MAX];
    uint32_t slot, number;
    int64_t total;
    troupe_must(troupe_get(int64_t, troupe_call(victim, clerk_add, 0), &total));
    troupe_must(trp_process_find(victim.address.node, victim.address.process,
                                 victim.address.incarnation, &number));
    assert_true(trp_far_place(number, &slot, &it.envelope.session, address));
    it.envelope.node = trp_process_node_id();
    it.out = trp_far_outbound_open(address);
    assert_non_null(it.out);
    reach(&it, trp_random_incarnation());
    return it;
}

static void end(hostile *it)
{
    trp_outbound_close(it->out, 0);
}

static uint64_t refused_by(clerk_actor victim)
{
    uint64_t refused = 0;
    troupe_must(troupe_get(uint64_t, troupe_call(victim, clerk_refused), &refused));
    return refused;
}

typedef struct counting {
    clerk_actor victim;
    uint64_t least;
} counting;

static bool has_refused(void *context)
{
    const counting *it = context;
    return refused_by(it->victim) >= it->least;
}

static void await_refused(clerk_actor victim, uint64_t least)
{
    counting it = {victim, least};
    if (!support_wait_until(has_refused, &it, SOON_MS))
        fail_msg("%llu frames were refused, expected %llu", (unsigned long long)refused_by(victim),
                 (unsigned long long)least);
}

static trp_buffer hold_of(uint64_t object)
{
    trp_buffer body = {0};
    trp_write_uint(&body, 1);
    trp_write_uint(&body, object);
    trp_write_int(&body, 0);
    assert_false(body.failed);
    return body;
}

// Whatever says that it brings holds of objects along: nothing is given up, and it is counted.
void test_two_nodes_holds_of_others(void **state)
{
    (void)state;
    static const trp_frame_kind bare[] = {TRP_FRAME_KILL,   TRP_FRAME_FINISH, TRP_FRAME_WATCH,
                                          TRP_FRAME_CANCEL, TRP_FRAME_TAKEN,  TRP_FRAME_UNWATCH,
                                          TRP_FRAME_CREDIT, TRP_FRAME_PAUSE,  TRP_FRAME_BEAT};
    static const trp_frame_kind full[] = {TRP_FRAME_CALL, TRP_FRAME_TELL, TRP_FRAME_REPLY};
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor desk = two_nodes_find("desk", second.address);
    uint64_t object;
    bool whole = false;
    troupe_must(troupe_get(uint64_t, troupe_call(desk, clerk_keep), &object));
    hostile it = begin(desk);
    trp_buffer body = hold_of(object);
    uint64_t refused = refused_by(desk);
    for (size_t i = 0; i < sizeof bare / sizeof bare[0]; i++) {
        say(&it, (trp_frame){.kind = bare[i],
                             .target = 999999,
                             .call = 1,
                             .body = body.data,
                             .body_size = body.size});
        await_refused(desk, ++refused);
    }
    for (size_t i = 0; i < sizeof full / sizeof full[0]; i++) {
        say_next(&it, (trp_frame){.kind = full[i],
                                  .target = i == 1 ? 999999 : desk.address.id,
                                  .call = 4711,
                                  .body = body.data,
                                  .body_size = body.size});
        await_refused(desk, ++refused);
    }
    // Tasks are asked for by the processes of their node alone.
    trp_frame task = {.kind = TRP_FRAME_CALL,
                      .target = UINT64_C(1) << 62 | 1,
                      .call = 4712,
                      .body = "\0",
                      .body_size = 1};
    say_next(&it, task);
    await_refused(desk, ++refused);
    troupe_must(troupe_get(bool, troupe_call(desk, clerk_kept_is_whole), &whole));
    assert_true(whole);
    assert_true(two_nodes_joined(second.address));
    trp_buffer_free(&body);
    end(&it);
    two_nodes_end(&second);
}

// An answer, an item or the news of an end by somebody who was not asked ends nothing.
void test_two_nodes_answers_of_others(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor desk = two_nodes_find("desk", second.address);
    waits all;
    bool untouched = false;
    troupe_must(troupe_get(waits, troupe_call(desk, clerk_wait), &all)); // For its own worker.
    hostile it = begin(desk);
    uint64_t refused = refused_by(desk);
    trp_frame answer = {.kind = TRP_FRAME_REPLY,
                        .schema = troupe_type_hash(&troupe_type_int),
                        .call = all.call,
                        .outcome = TROUPE_OUTCOME_VALUE,
                        .executed = TROUPE_EXECUTED_YES,
                        .body = "\0\x2a",
                        .body_size = 2};
    say_next(&it, answer);
    await_refused(desk, ++refused);
    answer.kind = TRP_FRAME_ITEM;
    answer.call = all.stream;
    say_next(&it, answer);
    await_refused(desk, ++refused);
    say_next(&it, (trp_frame){.kind = TRP_FRAME_DOWN,
                              .call = all.monitor,
                              .method = TROUPE_DOWN_KILLED,
                              .body = "lies",
                              .body_size = 4});
    await_refused(desk, ++refused);
    troupe_must(troupe_get(bool, troupe_call(desk, clerk_waits_still), &untouched));
    assert_true(untouched);
    end(&it);
    two_nodes_end(&second);
}

static bool is_gone(void *address)
{
    return !two_nodes_joined(address);
}

// Who comes when there are no numbers left is not left waiting: the session ends, and says why.
void test_two_nodes_too_many_processes(void **state)
{
    (void)state;
    enum { MANY = TRP_FAR_MAX + 1, SOME = TRP_FAR_MAX - 2 }; // And one that calls, and one more.
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor desk = two_nodes_find("desk", second.address);
    hostile it = begin(desk);
    int slept;
    troupe_ref nap = troupe_call(desk, clerk_nap, 60000);
    for (uint64_t i = 0; i < MANY; i++)
        reach(&it, UINT64_C(1) << 40 | i);
    assert_int_equal(troupe_get(int, nap, &slept, SOON_MS), TROUPE_MAYBE_EXECUTED);
    if (strstr(troupe_last_error()->text, "as many of other nodes as it can") == NULL)
        fail_msg("%s", troupe_last_error()->text);
    end(&it);
    assert_true(support_wait_until(is_gone, second.address, SOON_MS));
    troupe_must(troupe_node_join(second.address)); // The numbers are free again.
    clerk_actor pool = two_nodes_find("pool", second.address);
    int64_t total = 0;
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 1), &total));
    // Who fills the table ends the own session, not that of another node that comes then.
    order what = {.stranger = false};
    snprintf(what.join, sizeof what.join, "%s", second.address);
    other third = two_nodes_order(&what);
    assert_int_equal(third.joined, TROUPE_OK);
    troupe_must(troupe_node_join(third.address));
    clerk_actor visitor = two_nodes_find("pool", third.address);
    desk = two_nodes_find("narrow", second.address); // In the same process, and not asleep.
    it = begin(desk);
    for (uint64_t i = 0; i < SOME; i++)
        reach(&it, UINT64_C(2) << 40 | i);
    uint64_t refused = refused_by(desk);
    say(&it, (trp_frame){.kind = TRP_FRAME_KILL, .body = "x", .body_size = 1});
    await_refused(desk, refused + 1); // So all that came before is there.
    troupe_ref round = troupe_call(visitor, clerk_run, .to = desk.address, .amount = 1);
    troupe_must(troupe_get(int64_t, round, &total));
    assert_true(support_wait_until(is_gone, second.address, SOON_MS));
    end(&it);
    two_nodes_end(&third);
    two_nodes_end(&second);
}

// What is sent beyond the window that was given ends the session, which says so.
void test_two_nodes_beyond_the_window(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    clerk_actor here = troupe_spawn(clerk, .place = TROUPE_PLACE_HERE);
    errand what = {.to = here.address, .amount = 1};
    int64_t total;
    uint32_t number;
    troupe_must(troupe_get(int64_t, troupe_call_from(pool, clerk_run, &what), &total));
    troupe_must(trp_process_find(pool.address.node, pool.address.process, pool.address.incarnation,
                                 &number));
    uint64_t refused = support_stats().frames_refused;
    trp_peer *peer = trp_peer_find(number);
    pthread_mutex_lock(&peer->lock);
    peer->taken_messages = TRP_WINDOW_MESSAGES; // As if it had sent them.
    pthread_mutex_unlock(&peer->lock);
    troupe_ref beyond = troupe_call_from(pool, clerk_run, &what);
    assert_int_equal(troupe_get(int64_t, beyond, &total, SOON_MS), TROUPE_MAYBE_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "more than there was room for"));
    assert_true(support_stats().frames_refused > refused);
    troupe_must(troupe_node_join(second.address));
    pool = two_nodes_find("pool", second.address);
    troupe_must(troupe_get(int64_t, troupe_call_from(pool, clerk_run, &what), &total));
    assert_int_equal(total, 2);
    troupe_actor_kill(here);
    two_nodes_end(&second);
}

// Lists that others fill have an end: targets that are paused, watchers, what waits for an actor
// that has said that it is full.
void test_two_nodes_long_lists(void **state)
{
    (void)state;
    enum { PAUSES = 8000, PAUSES_LEAST = 3000, WATCHES = 2 * TRP_WATCHERS_FAR_MAX, NAP_MS = 60000 };
    enum { TELLS = TRP_WINDOW_MESSAGES + 1000, TELLS_LEAST = 500 };
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor desk = two_nodes_find("desk", second.address);
    clerk_actor narrow = two_nodes_find("narrow", second.address);
    hostile it = begin(desk);
    uint64_t refused = refused_by(desk);
    for (uint64_t i = 0; i < PAUSES; i++)
        say_next(&it, (trp_frame){.kind = TRP_FRAME_PAUSE, .target = i});
    await_refused(desk, refused += PAUSES_LEAST);
    refused = refused_by(desk);
    for (uint64_t i = 0; i < WATCHES; i++)
        say_next(&it, (trp_frame){.kind = TRP_FRAME_WATCH, .target = narrow.address.id, .call = i});
    await_refused(desk, refused + TRP_WATCHERS_FAR_MAX);
    refused = refused_by(desk);
    troupe_ref nap = troupe_call(narrow, clerk_nap, NAP_MS);
    trp_buffer body = {0};
    trp_write_text(&body, "clerk_note");
    trp_write_uint(&body, 0);
    trp_write_int(&body, 1);
    for (int i = 0; i < TELLS; i++)
        say_next(&it, (trp_frame){.kind = TRP_FRAME_TELL,
                                  .flags = TRP_FRAME_NAMED,
                                  .target = narrow.address.id,
                                  .body = body.data,
                                  .body_size = body.size});
    await_refused(desk, refused + TELLS_LEAST);
    int64_t total;
    int slept;
    troupe_must(troupe_cancel(nap));
    assert_int_equal(troupe_get(int, nap, &slept), TROUPE_CANCELLED);
    troupe_must(troupe_get(int64_t, troupe_call(narrow, clerk_add, 1), &total));
    assert_true(two_nodes_joined(second.address));
    trp_buffer_free(&body);
    end(&it);
    two_nodes_end(&second);
}
