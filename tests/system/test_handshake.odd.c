// test_handshake.odd.c: what makes no sense, or is said without end, outside of sessions.
#include "handshake.h"
#include <stranger.h>
#include <support.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <runtime/link/zmq_remote.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t SMALL = 9, LARGE = UINT32_MAX - 9;

static honest *const first = &handshake_nodes[0], *const by_ipc = &handshake_nodes[3];

static uint64_t refused_by(honest *node)
{
    return honest_look(node, "").refused;
}

// ---- words

typedef struct said {
    const char *body;
    size_t size;
} said;

#define SAID(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

// Addresses that are none.
void test_handshake_no_addresses(void **state)
{
    (void)state;
    static char longer[5000];
    memset(longer, '7', sizeof longer);
    memcpy(longer, "1.2.3.4:", 8);
    const said bodies[] = {SAID(""),
                           SAID(":"),
                           SAID("127.0.0.1"),
                           SAID("127.0.0.1:"),
                           SAID("127.0.0.1:0"),
                           SAID("127.0.0.1:080"),
                           SAID("127.0.0.1:99999"),
                           SAID("127.0.0.1:-1"),
                           SAID("127.0.0.1:80\0"),
                           SAID("127.0.0.1:80 "),
                           SAID("127.0.0.1:8\0000"),
                           SAID("0.0.0.0:4500"),
                           SAID("localhost:4500"),
                           SAID("\x1b[31m:4500"),
                           {longer, TRP_NODE_ADDRESS_MAX - 1},
                           {longer, TRP_NODE_ADDRESS_MAX},
                           {longer, sizeof longer}};
    static const uint32_t ids[] = {SMALL, LARGE};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        for (int k = 0; k < 2; k++) {
            claim who = {ids[k], 100, ""};
            uint64_t refused = refused_by(first);
            hand_say_text(first, &who, &(trp_frame){.method = TRP_NODE_HELLO, .call = 5},
                          bodies[i].body, bodies[i].size);
            hand_say_text(first, &who,
                          &(trp_frame){.method = TRP_NODE_WELCOME, .schema = 5, .target = 5},
                          bodies[i].body, bodies[i].size);
            honest_await_refused(first, refused + 2);
        }
    assert_int_equal(honest_look(first, "").joined, 1);
}

// Numbers that none may have, words that there are not, and who may not say them.
void test_handshake_no_words(void **state)
{
    (void)state;
    claim small = {SMALL, 100, hand_address}, large = {LARGE, 100, hand_address};
    const trp_frame frames[] = {
        {.method = TRP_NODE_HELLO},                         // With nothing to be answered.
        {.method = TRP_NODE_HELLO, .call = 5, .target = 6}, // An answer to nobody.
        {.method = TRP_NODE_WELCOME, .target = 6},          // Without a session.
        {.method = TRP_NODE_WELCOME, .schema = 5},          // To nobody.
        {.method = TRP_NODE_REFUSE, .target = 6, .status = TROUPE_BUSY},
        {.method = TRP_NODE_DEATH, .target = 6},
        {.method = TRP_NODE_BREAK},
        {.method = 0},
        {.method = TRP_NODE_BREAK + 1},
        {.method = UINT32_MAX},
        {.method = TRP_NODE_HELLO, .call = 5, .flags = TRP_FRAME_HELD},
        {.method = TRP_NODE_HELLO, .call = 5, .flags = TRP_FRAME_FORCE},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        uint64_t refused = refused_by(first);
        hand_say(first, &small, &frames[i]);
        hand_say(first, &large, &frames[i]);
        honest_await_refused(first, refused + 2);
    }
    claim itself = {first->id, 100, hand_address};
    hand_say(first, &itself, &(trp_frame){.method = TRP_NODE_HELLO, .call = 5});
    heard answer = hand_await(TRP_NODE_REFUSE, first);
    assert_int_equal(answer.frame.status, TROUPE_INVALID);
    assert_non_null(strstr(answer.text, "this node itself"));
    assert_int_equal(honest_look(first, "").joined, 1);
}

static void send_bytes(trp_outbound *out, const void *data, size_t size)
{
    trp_buffer bytes = {0};
    trp_buffer_append(&bytes, data, size);
    assert_false(bytes.failed);
    troupe_must(trp_outbound_send(out, &bytes));
    trp_buffer_free(&bytes);
}

// A HELLO that ends too soon, anywhere; envelopes of other versions, of more or fewer fields, of no
// node; and one of a session that there is not.
void test_handshake_no_messages(void **state)
{
    (void)state;
    trp_buffer bytes = {0};
    trp_frame hello = {.kind = TRP_FRAME_NODE,
                       .method = TRP_NODE_HELLO,
                       .call = 5,
                       .body = hand_address,
                       .body_size = strlen(hand_address)};
    trp_envelope_write(&(trp_envelope){.node = LARGE}, &bytes);
    trp_frame_write(&hello, &bytes);
    assert_false(bytes.failed);
    trp_outbound *out = trp_far_outbound_open(first->address);
    assert_non_null(out);
    uint64_t refused = refused_by(first);
    for (size_t size = 0; size < bytes.size; size++)
        send_bytes(out, bytes.data, size);
    honest_await_refused(first, refused + bytes.size);
    static const struct {
        size_t at;
        unsigned char to;
    } changes[] = {{0, 0x90}, {0, 0x92}, {0, 0x94}, {0, 0xc0}, {1, 0}, {1, TRP_FAR_VERSION + 1}};
    refused = refused_by(first);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        unsigned char was = bytes.data[changes[i].at];
        bytes.data[changes[i].at] = changes[i].to;
        send_bytes(out, bytes.data, bytes.size);
        bytes.data[changes[i].at] = was;
        honest_await_refused(first, ++refused);
    }
    const trp_envelope nobody[] = {{.node = 0}, {.node = LARGE, .session = 4711}};
    for (size_t i = 0; i < 2; i++) {
        bytes.size = 0;
        trp_envelope_write(&nobody[i], &bytes);
        trp_frame_write(&hello, &bytes);
        send_bytes(out, bytes.data, bytes.size);
        honest_await_refused(first, ++refused);
    }
    trp_buffer_free(&bytes);
    trp_outbound_close(out, 0);
    assert_int_equal(honest_look(first, "").joined, 1);
}

// In a session: a process that says where it is and does not, or that nobody can be.
void test_handshake_no_processes(void **state)
{
    (void)state;
    claim who = {LARGE, 100, hand_address};
    uint64_t session = hand_join(first, &who);
    trp_envelope envelope = {.node = who.id, .session = session};
    static const said bodies[] = {SAID(""),
                                  SAID("127.0.0.1:"),
                                  SAID("localhost:4500"),
                                  SAID("127.0.0.1:80\0"),
                                  SAID("0.0.0.0:4500"),
                                  {NULL, 0}};
    trp_outbound *out = trp_far_outbound_open(first->address);
    assert_non_null(out);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0] + 3; i++) {
        bool good = i >= sizeof bodies / sizeof bodies[0];
        size_t odd = good ? i - sizeof bodies / sizeof bodies[0] : 3;
        trp_frame reach = {.kind = TRP_FRAME_REACH,
                           .from = odd == 0 ? TRP_PROCESSES_MAX : 5,
                           .from_incarnation = 200 + i,
                           .to_incarnation = first->incarnation + (odd == 1),
                           .sequence = odd == 2 ? 2 : 1,
                           .body = good ? hand_address : bodies[i].body,
                           .body_size = good ? strlen(hand_address) : bodies[i].size};
        trp_buffer bytes = {0};
        uint64_t refused = refused_by(first);
        trp_envelope_write(&envelope, &bytes);
        trp_frame_write(&reach, &bytes);
        send_bytes(out, bytes.data, bytes.size);
        trp_buffer_free(&bytes);
        honest_await_refused(first, refused + 1);
    }
    trp_outbound_close(out, 0);
    assert_int_equal(honest_leave(first, hand_address).status, TROUPE_OK);
    hand_forget();
}

// ---- floods

// Claims to be at many addresses of this machine.
static void flood(honest *to, uint32_t count, const char *address)
{
    char text[TRP_NODE_ADDRESS_MAX];
    trp_outbound *out = trp_far_outbound_open(to->address);
    assert_non_null(out);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "127.0.1.%u:%u", i % 200 + 1, 20000 + i);
        trp_buffer bytes = {0};
        trp_frame hello = {.kind = TRP_FRAME_NODE,
                           .method = TRP_NODE_HELLO,
                           .from_incarnation = 1000 + i,
                           .call = 5,
                           .body = address != NULL ? address : text};
        hello.body_size = strlen(hello.body);
        trp_envelope_write(&(trp_envelope){.node = i % 2 == 0 ? 2 + i : UINT32_MAX - 100 - i},
                           &bytes);
        trp_frame_write(&hello, &bytes);
        send_bytes(out, bytes.data, bytes.size);
        trp_buffer_free(&bytes);
    }
    trp_outbound_close(out, HANDSHAKE_SOON_MS);
}

static int descriptors_of(const honest *node)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)node->node_pid);
    return support_count_files(path);
}

// Somebody listens there and never reads.
static int listen_deaf(char address[TRP_NODE_ADDRESS_MAX])
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, 4096), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &size), 0);
    snprintf(address, TRP_NODE_ADDRESS_MAX, "127.0.0.1:%u", ntohs(here.sin_port));
    return fd;
}

typedef struct few {
    const honest *node;
    int most;
} few;

static bool has_few(void *context)
{
    const few *it = context;
    return descriptors_of(it->node) <= it->most;
}

// As a node does that joins: it asks until it is answered.
static bool gets_in(void *who)
{
    enum { REPEAT_MS = 250 };
    uint64_t session = hand_join(first, who);
    int64_t until = support_now_ms() + REPEAT_MS;
    while (honest_look(first, hand_address).session != session && support_now_ms() < until)
        usleep(1000);
    return honest_look(first, hand_address).session == session;
}

// Claims that this node answers: to many who are not there, and to one who does not read. Answers
// that find no room are counted, descriptors stay few and are given back, and whoever asks next is
// heard.
void test_handshake_answers_without_end(void **state)
{
    (void)state;
    enum { MANY = 3000, WAYS = 2 * 256 + 64, SOME = 32 };
    char address[TRP_NODE_ADDRESS_MAX];
    int deaf = listen_deaf(address), before = descriptors_of(first), most = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t refused = refused_by(first);
        flood(first, MANY, i == 0 ? NULL : address);
        int64_t until = support_now_ms() + HANDSHAKE_SOON_MS;
        while (refused_by(first) < refused + MANY / 2 && support_now_ms() < until) {
            int now = descriptors_of(first);
            most = now > most ? now : most;
        }
        honest_await_refused(first, refused + MANY / 2);
        if (most > before + WAYS)
            fail_msg("%d descriptors are open, %d before", most, before);
    }
    few as_before = {first, before + SOME};
    assert_true(support_wait_until(has_few, &as_before, HANDSHAKE_SOON_MS));
    close(deaf);
    claim who = {LARGE, 100, hand_address};
    assert_true(support_wait_until(gets_in, &who, HANDSHAKE_SOON_MS));
    assert_int_equal(honest_leave(first, hand_address).status, TROUPE_OK);
    hand_forget();
    assert_int_equal(honest_look(first, "").joined, 1);
}

static bool has_one(void *node)
{
    return honest_look(node, "").joined == 1;
}

// A node whose own processes talk over unix sockets is as hard to disturb.
void test_handshake_flood_beside_ipc(void **state)
{
    (void)state;
    enum { MANY = 2000, STRANGERS = 50, TURNS = 2 };
    honest_start(by_ipc, "127.0.0.1:0");
    assert_int_equal(honest_join(by_ipc, first->address).status, TROUPE_OK);
    uint64_t strangers = honest_look(by_ipc, "").strangers, refused = refused_by(by_ipc);
    for (int i = 0; i < TURNS; i++) {
        flood(by_ipc, MANY, NULL);
        for (int k = 0; k < STRANGERS; k++) {
            int fd = stranger_connect(by_ipc->address);
            if (fd >= 0) {
                (void)stranger_send(fd,
                                    "no greeting at all, but long enough for one of ZeroMQ's "
                                    "own, which has sixty-four bytes",
                                    80);
                close(fd);
            }
        }
        assert_int_equal(honest_leave(by_ipc, first->address).status, TROUPE_OK);
        assert_int_equal(honest_join(by_ipc, first->address).status, TROUPE_OK);
    }
    honest_await_refused(by_ipc, refused + TURNS * MANY / 2);
    int64_t until = support_now_ms() + HANDSHAKE_SOON_MS;
    while (honest_look(by_ipc, "").strangers <= strangers && support_now_ms() < until)
        usleep(1000);
    assert_true(honest_look(by_ipc, "").strangers > strangers);
    assert_int_equal(honest_leave(by_ipc, first->address).status, TROUPE_OK);
    assert_true(support_wait_until(has_one, first, HANDSHAKE_SOON_MS));
}
