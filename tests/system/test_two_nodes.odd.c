// test_two_nodes.odd.c: what goes wrong on the way between two nodes: connections that are cut,
// frames that are lost or come twice, and messages that make no sense.
#include "two_nodes.h"
#include <support.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/link/frame_rules.h>
#include <runtime/link/peer_carrier.h>
#include <runtime/link/zmq_remote.h>
#include <runtime/node/directory_client.h>
#include <runtime/node/node_client.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/remote_table.h>
#include <runtime/remote/session.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { SOON_MS = 5000 };

// ---- envelopes

void test_two_nodes_envelopes(void **state)
{
    (void)state;
    trp_envelope envelope = {.node = 4711, .session = UINT64_MAX}, read;
    trp_buffer bytes = {0};
    trp_envelope_write(&envelope, &bytes);
    assert_false(bytes.failed);
    trp_reader in = trp_reader_of(bytes.data, bytes.size);
    assert_int_equal(trp_envelope_read(&in, &read), TROUPE_OK);
    assert_true(read.node == envelope.node && read.session == envelope.session);
    assert_int_equal(trp_read_end(&in), TROUPE_OK);
    for (size_t size = 0; size < bytes.size; size++) {
        in = trp_reader_of(bytes.data, size);
        assert_int_equal(trp_envelope_read(&in, &read), TROUPE_MALFORMED);
    }
    // The version follows the array's head.
    assert_int_equal(bytes.data[1], TRP_FAR_VERSION);
    bytes.data[1]++;
    in = trp_reader_of(bytes.data, bytes.size);
    assert_int_equal(trp_envelope_read(&in, &read), TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, "version 2"));
    bytes.data[1]--;
    for (int bit = 0; bit < 8; bit++) { // Whatever its count says.
        bytes.data[0] ^= (unsigned char)(1 << bit);
        in = trp_reader_of(bytes.data, bytes.size);
        assert_int_not_equal(trp_envelope_read(&in, &read), TROUPE_OK);
        bytes.data[0] ^= (unsigned char)(1 << bit);
    }
    trp_buffer_free(&bytes);
}

void test_two_nodes_kinds_from_there(void **state)
{
    (void)state;
    static const uint32_t inner[] = {TRP_FRAME_BOXED, TRP_FRAME_STORED, TRP_FRAME_IMAGE,
                                     TRP_FRAME_OBJECT, TRP_FRAME_HELD};
    static const trp_frame_kind never[] = {TRP_FRAME_DEATH,     TRP_FRAME_END,   TRP_FRAME_GONE,
                                           TRP_FRAME_SPAWN,     TRP_FRAME_COUNT, TRP_FRAME_RESTART,
                                           TRP_FRAME_REGISTRAR, TRP_FRAME_LINK};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        trp_frame frame = {.kind = TRP_FRAME_CALL, .flags = inner[i]};
        assert_false(trp_frame_allowed(&frame, true, false));
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        trp_frame frame = {.kind = never[i]};
        assert_false(trp_frame_allowed(&frame, true, false));
        assert_false(trp_frame_allowed(&frame, true, true));
    }
    trp_frame call = {.kind = TRP_FRAME_CALL}, ask = {.kind = TRP_FRAME_ASK};
    trp_frame probe = {.kind = TRP_FRAME_PROBE};
    assert_true(trp_frame_allowed(&call, true, false) && !trp_frame_allowed(&call, true, true));
    assert_true(trp_frame_allowed(&probe, true, false) && !trp_frame_allowed(&probe, true, true));
    assert_true(trp_frame_allowed(&ask, true, true) && !trp_frame_allowed(&ask, true, false));
}

// ---- messages

typedef struct counting {
    clerk_actor actor;
    uint64_t wanted;
} counting;

static bool has_refused(void *context)
{
    const counting *it = context;
    uint64_t refused = 0;
    return troupe_get(uint64_t, troupe_call(it->actor, clerk_refused), &refused) == TROUPE_OK &&
           refused >= it->wanted;
}

static void send_raw(trp_outbound *out, const trp_envelope *envelope, const trp_frame *frame,
                     size_t cut)
{
    trp_buffer bytes = {0};
    trp_envelope_write(envelope, &bytes);
    trp_frame_write(frame, &bytes);
    assert_false(bytes.failed);
    bytes.size -= cut;
    assert_int_equal(trp_outbound_send(out, &bytes), TROUPE_OK);
    trp_buffer_free(&bytes);
}

// Somebody with the right key who says nothing that makes sense: each of it is refused and counted,
// and the calls of others go on.
void test_two_nodes_odd_messages(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    uint32_t slot, number;
    uint64_t session, before = 0;
    char address[TRP_NODE_ADDRESS_MAX];
    troupe_must(trp_process_find(pool.address.node, pool.address.process, pool.address.incarnation,
                                 &number));
    troupe_must(troupe_get(uint64_t, troupe_call(pool, clerk_refused), &before));
    assert_true(trp_far_place(number, &slot, &session, address));
    trp_outbound *out = trp_far_outbound_open(address);
    assert_non_null(out);
    trp_envelope good = {.node = trp_process_node_id(), .session = session}, bad = good;
    trp_frame frame = {.kind = TRP_FRAME_CALL,
                       .from = trp_self.slot,
                       .from_incarnation = trp_self.incarnation,
                       .to_incarnation = pool.address.incarnation,
                       .sequence = 1, // Long past.
                       .target = pool.address.id,
                       .body = "\0",
                       .body_size = 1};
    send_raw(out, &good, &frame, 0); // Repeated: refused by its number.
    send_raw(out, &good, &frame, 1); // Cut off.
    bad.session++;
    send_raw(out, &bad, &frame, 0); // Of no session.
    bad.session = 0;
    send_raw(out, &bad, &frame, 0); // Of none, to one that is no node process.
    frame.from = 77;
    send_raw(out, &good, &frame, 0); // Of a process that has not said where it is.
    frame.from = trp_self.slot;
    frame.to_incarnation++;
    send_raw(out, &good, &frame, 0); // For an earlier process.
    frame.to_incarnation--;
    frame.kind = TRP_FRAME_END;
    send_raw(out, &good, &frame, 0); // Not for others to say.
    counting seven = {.actor = pool, .wanted = before + 7};
    assert_true(support_wait_until(has_refused, &seven, SOON_MS));
    trp_outbound_close(out, 0);
    assert_true(two_nodes_joined(second.address));
    two_nodes_end(&second);
}

// A value above the limit between nodes is refused where it would leave, whichever way it goes, and
// nothing else ends. Within a node the limit is another.
void test_two_nodes_values_above_the_limit(void **state)
{
    (void)state;
    enum { MORE = TWO_NODES_LARGEST + 1000 };
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor there = two_nodes_find("pool", second.address);
    char *data = malloc(MORE);
    int64_t total;
    memset(data, 'x', MORE);
    troupe_bytes back;
    troupe_ref ref = troupe_call(there, clerk_mirror, data, MORE);
    assert_int_equal(troupe_get(troupe_bytes, ref, &back), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "node_message_bytes_max"));
    ref = troupe_call(there, clerk_swell, MORE);
    assert_int_equal(troupe_get(troupe_bytes, ref, &back), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "node_message_bytes_max"));
    clerk_actor here = troupe_spawn(clerk, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(troupe_bytes, troupe_call(here, clerk_mirror, data, MORE), &back));
    assert_int_equal(back.size, MORE);
    troupe_must(troupe_get(int64_t, troupe_call(there, clerk_add, 0), &total));
    assert_true(two_nodes_joined(second.address));
    free(data);
    two_nodes_end(&second);
    troupe_arena_reset();
}

typedef struct joining {
    troupe_status status;
    char text[512];
    _Atomic bool over;
} joining;

static void *join_nobody(void *user)
{
    joining *it = user;
    it->status = troupe_node_join("127.0.0.1:1");
    snprintf(it->text, sizeof it->text, "%s", troupe_last_error()->text);
    atomic_store(&it->over, true);
    return NULL;
}

// Who speaks another version ends nobody's wait for a third one; but if that does not answer, it is
// what there is to say.
void test_two_nodes_other_versions(void **state)
{
    (void)state;
    enum { PAUSE_MS = 20 };
    pthread_t thread;
    joining it = {.status = TROUPE_OK};
    trp_outbound *out = trp_far_outbound_open(troupe_node_address());
    assert_non_null(out);
    int64_t began = support_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, join_nobody, &it), 0);
    while (!atomic_load(&it.over)) {
        trp_buffer bytes = {0};
        trp_envelope_write(&(trp_envelope){.node = 4711}, &bytes);
        trp_frame_write(&(trp_frame){.kind = TRP_FRAME_NODE}, &bytes);
        assert_false(bytes.failed);
        bytes.data[1]++; // The version.
        assert_int_equal(trp_outbound_send(out, &bytes), TROUPE_OK);
        trp_buffer_free(&bytes);
        (void)poll(NULL, 0, PAUSE_MS);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(support_now_ms() - began >= TIMEOUT_MS);
    assert_int_equal(it.status, TROUPE_VERSION);
    assert_non_null(strstr(it.text, "version 2"));
    assert_non_null(strstr(it.text, "127.0.0.1:1"));
    trp_outbound_close(out, 0);
}

typedef struct asking {
    uint32_t node;
    troupe_status status;
    char text[512];
    unsigned char value[TRP_NAMED_VALUE_MAX + 1];
    _Atomic bool over;
} asking;

static void *ask_for_name(void *user)
{
    asking *it = user;
    size_t size = 0;
    it->status = trp_node_name_get_far(it->node, "desk", it->value, &size);
    snprintf(it->text, sizeof it->text, "%s", troupe_last_error()->text);
    atomic_store(&it->over, true);
    return NULL;
}

// Another node's answer that has more in it than a named value may have does not get through. The
// real one is stopped, so that this one is there first.
void test_two_nodes_long_answers(void **state)
{
    (void)state;
    static const unsigned char much[TRP_NAMED_VALUE_MAX + 1];
    other second = two_nodes_start();
    pthread_t thread;
    pids all;
    uint64_t incarnation;
    trp_frame answer = {.status = TROUPE_OK, .body = much, .body_size = sizeof much};
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    troupe_must(troupe_get(pids, troupe_call(pool, clerk_pids), &all));
    asking it = {.node = pool.address.node, .value[TRP_NAMED_VALUE_MAX] = 77};
    troupe_must(trp_node_process(it.node, &answer.from, &incarnation));
    two_nodes_stop(&second, &all);
    assert_int_equal(pthread_create(&thread, NULL, ask_for_name, &it), 0);
    while (!atomic_load(&it.over)) { // Whichever number the question has.
        answer.call = answer.call % 4096 + 1;
        trp_request_answered(&answer);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    two_nodes_continue(&second, &all);
    assert_int_equal(it.status, TROUPE_CORRUPT);
    assert_non_null(strstr(it.text, "257 bytes"));
    assert_int_equal(it.value[TRP_NAMED_VALUE_MAX], 77);
    two_nodes_end(&second);
}

// A HELLO is repeated until it is answered, and may come when who said it has left again: nothing
// begins by it, and a new one is answered as ever.
void test_two_nodes_a_late_hello(void **state)
{
    (void)state;
    enum { LONG_MS = 300 };       // Hundreds of times as long as a session takes to begin.
    for (int i = 0; i < 4; i++) { // Each with another number: above ours, and below.
        other second = two_nodes_start();
        trp_envelope loose = {.node = trp_process_node_id()};
        trp_frame hello = {.kind = TRP_FRAME_NODE,
                           .method = TRP_NODE_HELLO,
                           .from = TRP_PROCESS_NODE,
                           .from_incarnation = trp_segment_process(TRP_PROCESS_NODE)->incarnation,
                           .call = UINT32_MAX, // Of nobody who waits.
                           .body = troupe_node_address(),
                           .body_size = strlen(troupe_node_address())};
        trp_outbound *out = trp_far_outbound_open(second.address);
        assert_non_null(out);
        send_raw(out, &loose, &hello, 0);
        for (int64_t until = support_now_ms() + LONG_MS; support_now_ms() < until;)
            assert_false(two_nodes_joined(second.address));
        trp_outbound_close(out, 0);
        int64_t total;
        troupe_must(troupe_node_join(second.address));
        clerk_actor desk = two_nodes_find("desk", second.address);
        troupe_must(troupe_get(int64_t, troupe_call(desk, clerk_add, 3), &total));
        assert_int_equal(total, 3);
        two_nodes_end(&second);
    }
}

static bool has_no_number(void *context)
{
    const trp_envelope *it = context;
    return trp_far_number(it->node, 5, it->session, 4712) == 0;
}

// The news of a death may come before who died has a number: it gets none then, or, if it was heard
// itself, one for a moment.
void test_two_nodes_deaths_before_numbers(void **state)
{
    (void)state;
    trp_envelope it = {.node = 4711, .session = 4711};
    uint32_t number;
    trp_far_doom(it.session, 4712, "was killed");
    assert_int_equal(trp_far_note(it.node, it.session, 5, 4712, "127.0.0.1:1", &number),
                     TROUPE_NOT_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "has ended"));
    troupe_must(trp_far_note_heard(it.node, it.session, 5, 4712, "127.0.0.1:1", &number));
    assert_int_equal(trp_far_number(it.node, 5, it.session, 4712), number);
    assert_int_equal(trp_far_note(it.node, it.session, 5, 4712, "127.0.0.1:1", &number),
                     TROUPE_NOT_EXECUTED);
    trp_far_wake();
    assert_true(support_wait_until(has_no_number, &it, SOON_MS));
    troupe_must(trp_far_note(it.node, it.session, 5, 4713, "127.0.0.1:1", &number)); // Another.
    trp_far_doom(it.session, 4713, "was killed");
}

// ---- losses

static uint32_t number_of(clerk_actor actor)
{
    uint32_t number;
    troupe_must(trp_process_find(actor.address.node, actor.address.process,
                                 actor.address.incarnation, &number));
    return number;
}

static bool is_gone(void *address)
{
    return !two_nodes_joined(address);
}

// A frame that never arrives is missed by the next, or by the next sign of life: nobody waits for
// ever, and a new session is as good as the first.
void test_two_nodes_a_gap(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    int64_t total = 0;
    int slept;
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 1), &total));
    troupe_ref nap = troupe_call(pool, clerk_nap, 60000);
    trp_peer *peer = trp_peer_find(number_of(pool));
    pthread_mutex_lock(&peer->lock);
    peer->sequence_out++; // As if one had been lost, after which nothing is sent.
    pthread_mutex_unlock(&peer->lock);
    assert_int_equal(troupe_get(int, nap, &slept), TROUPE_MAYBE_EXECUTED);
    assert_true(support_wait_until(is_gone, second.address, SOON_MS));
    troupe_must(troupe_node_join(second.address));
    pool = two_nodes_find("desk", second.address);
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 5), &total));
    assert_int_equal(total, 5);
    two_nodes_end(&second);
}

// Has it add 100. `again`: with the number of the frame before, which nothing else may have taken
// meanwhile, as a sign of life might.
static void tell_by_hand(clerk_actor to, bool again)
{
    uint32_t number = number_of(to);
    trp_peer *peer = trp_peer_find(number);
    trp_buffer body = {0};
    trp_write_text(&body, "clerk_add");
    trp_write_uint(&body, 0);
    trp_write_int(&body, 100);
    assert_false(body.failed);
    trp_frame frame = {.kind = TRP_FRAME_TELL,
                       .flags = TRP_FRAME_NAMED,
                       .target = to.address.id,
                       .body = body.data,
                       .body_size = body.size};
    pthread_mutex_lock(&peer->lock);
    peer->sequence_out -= again;
    troupe_status status = trp_peer_post(peer, number, &frame);
    pthread_mutex_unlock(&peer->lock);
    trp_buffer_free(&body);
    troupe_must(status);
}

// Frames that come twice are refused: the method runs once.
void test_two_nodes_a_repeated_frame(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    int64_t total = 0;
    uint64_t before = 0;
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 1), &total));
    tell_by_hand(pool, false);
    troupe_must(troupe_get(uint64_t, troupe_call(pool, clerk_refused), &before));
    tell_by_hand(pool, true);
    counting one = {.actor = pool, .wanted = before + 1};
    assert_true(support_wait_until(has_refused, &one, SOON_MS));
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 1), &total));
    assert_int_equal(total, 102);
    two_nodes_end(&second);
}

// ---- a connection that is cut

// Shuts all tcp connections of this process to that port; how many there were.
static int cut_connections(uint16_t port)
{
    int cut = 0;
    DIR *open_ones = opendir("/proc/self/fd");
    assert_non_null(open_ones);
    for (struct dirent *it; (it = readdir(open_ones)) != NULL;) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        int fd = (int)strtol(it->d_name, NULL, 10);
        if (it->d_name[0] != '.' && getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
            cut += shutdown(fd, SHUT_RDWR) == 0;
    }
    closedir(open_ones);
    return cut;
}

// Every call ends, with its value or as one that may have been executed, and none is run twice.
void test_two_nodes_a_cut_connection(void **state)
{
    (void)state;
    enum { MANY = 2000, FIRST = 100, TEXT = 2000 };
    static troupe_ref refs[MANY];
    static char text[TEXT + 1];
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor pool = two_nodes_find("pool", second.address);
    uint32_t slot, number;
    uint64_t session;
    char address[TRP_NODE_ADDRESS_MAX];
    letter answer;
    troupe_must(trp_process_find(pool.address.node, pool.address.process, pool.address.incarnation,
                                 &number));
    assert_true(trp_far_place(number, &slot, &session, address));
    uint16_t port = (uint16_t)strtol(strrchr(address, ':') + 1, NULL, 10);
    memset(text, 'x', TEXT);
    letter question = {.from = "test", .text = text};
    troupe_must(troupe_get(letter, troupe_call_from(pool, clerk_reply, &question), &answer));
    int cut = 0;
    for (int i = 0; i < MANY; i++) {
        question.number = i;
        refs[i] = troupe_call_from(pool, clerk_reply, &question);
        for (int k = 0; i == MANY / 2 && k < FIRST; k++)
            troupe_must(troupe_get(letter, refs[k], &answer));
        if (i == MANY / 2)
            cut = cut_connections(port);
    }
    assert_true(cut > 0);
    for (int i = FIRST; i < MANY; i++) {
        troupe_status status = troupe_get(letter, refs[i], &answer);
        assert_true(status == TROUPE_OK || status == TROUPE_MAYBE_EXECUTED ||
                    status == TROUPE_NOT_EXECUTED);
        assert_true(status != TROUPE_OK || answer.number == i + 1);
        troupe_arena_reset();
    }
    if (!two_nodes_joined(second.address)) // Something was lost with the connection.
        troupe_must(troupe_node_join(second.address));
    pool = two_nodes_find("pool", second.address);
    int64_t total;
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 0), &total));
    two_nodes_end(&second);
}

// It is taken by the thread that reads what comes from there, which must go on.
void test_two_nodes_a_late_answer_to_a_kill(void **state)
{
    (void)state;
    other second = two_nodes_start();
    troupe_must(troupe_node_join(second.address));
    clerk_actor alone = two_nodes_find("alone", second.address),
                pool = two_nodes_find("pool", second.address);
    pids all;
    int64_t total, began_ms;
    troupe_must(troupe_get(pids, troupe_call(alone, clerk_pids), &all));
    troupe_ref nap = troupe_call(alone, clerk_nap, 20000); // Its own end does not come first.
    assert_int_equal(kill(all.own, SIGSTOP), 0);
    (void)troupe_actor_stop(alone, 50);
    assert_int_equal(kill(all.own, SIGCONT), 0);
    began_ms = support_now_ms();
    troupe_must(troupe_actor_await_end(alone.address, SLACK_MS, NULL));
    troupe_must(troupe_get(int64_t, troupe_call(pool, clerk_add, 1), &total));
    assert_true(support_now_ms() - began_ms < TIMEOUT_MS);
    troupe_ref_drop(nap);
    assert_true(two_nodes_joined(second.address));
    two_nodes_end(&second);
}
