// test_handshake.hand.c: a node made by hand: it speaks by the library's own transport, without a
// runtime behind it, and says what it is told to.
#include "handshake.h"
#include <support.h>

#include <runtime/link/zmq.h>
#include <runtime/link/zmq_remote.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 1024, WAYS = 4 };

static struct {
    char address[TRP_NODE_ADDRESS_MAX];
    trp_outbound *out;
} ways[WAYS];

char hand_address[TRP_ENDPOINT_MAX];

static struct {
    heard kept[KEPT];
    size_t count;
} ears;

static void take(const void *data, size_t size)
{
    trp_reader in = trp_reader_of(data, size);
    heard it = {0};
    if (trp_envelope_read(&in, &it.envelope) != TROUPE_OK ||
        trp_frame_read(in.at, (size_t)(in.end - in.at), &it.frame) != TROUPE_OK)
        fail_msg("an honest node sent what is no frame: %s", troupe_last_error()->text);
    if (it.frame.kind != TRP_FRAME_NODE || it.envelope.session != 0 || ears.count == KEPT)
        return;
    snprintf(it.text, sizeof it.text, "%.*s", (int)it.frame.body_size,
             it.frame.body_size > 0 ? (const char *)it.frame.body : "");
    it.frame.body = NULL;
    ears.kept[ears.count++] = it;
}

void hand_open(const char *keys)
{
    static _Atomic uint64_t strangers;
    troupe_must(trp_far_transport_open(&(trp_far_how){.address = "127.0.0.1:0",
                                                      .keys_path = keys,
                                                      .message_bytes_max = 1 << 20,
                                                      .strangers = &strangers},
                                       hand_address));
}

void hand_close(void)
{
    for (size_t i = 0; i < WAYS; i++)
        if (ways[i].out != NULL)
            trp_outbound_close(ways[i].out, 0);
    trp_far_transport_close();
}

static trp_outbound *way_to(const honest *to)
{
    for (size_t i = 0; i < WAYS; i++) {
        if (ways[i].out != NULL && strcmp(ways[i].address, to->address) == 0)
            return ways[i].out;
        if (ways[i].out != NULL)
            continue;
        snprintf(ways[i].address, sizeof ways[i].address, "%s", to->address);
        ways[i].out = trp_far_outbound_open(to->address);
        assert_non_null(ways[i].out);
        return ways[i].out;
    }
    fail_msg("there are more than %d nodes", WAYS);
    return NULL;
}

static void put(const honest *to, const trp_envelope *envelope, const trp_frame *frame)
{
    trp_buffer bytes = {0};
    trp_envelope_write(envelope, &bytes);
    trp_frame_write(frame, &bytes);
    assert_false(bytes.failed);
    troupe_must(trp_outbound_send(way_to(to), &bytes));
    trp_buffer_free(&bytes);
}

void hand_say_text(const honest *to, const claim *who, const trp_frame *frame, const void *body,
                   size_t size)
{
    trp_frame said = *frame;
    said.kind = TRP_FRAME_NODE;
    said.from = TRP_PROCESS_NODE;
    said.from_incarnation = who->incarnation;
    said.body = body;
    said.body_size = size;
    put(to, &(trp_envelope){.node = who->id}, &said);
}

void hand_say(const honest *to, const claim *who, const trp_frame *frame)
{
    hand_say_text(to, who, frame, who->address, strlen(who->address));
}

bool hand_has_heard(trp_node_word method, const honest *from, heard *what)
{
    while (trp_far_transport_receive(take))
        continue;
    for (size_t i = 0; i < ears.count; i++) {
        if (ears.kept[i].frame.method != method || ears.kept[i].envelope.node != from->id)
            continue;
        *what = ears.kept[i];
        memmove(&ears.kept[i], &ears.kept[i + 1], (--ears.count - i) * sizeof ears.kept[0]);
        return true;
    }
    return false;
}

heard hand_await(trp_node_word method, const honest *from)
{
    heard what = {0};
    int64_t until = support_now_ms() + HANDSHAKE_SOON_MS;
    while (!hand_has_heard(method, from, &what)) {
        if (support_now_ms() > until)
            fail_msg("node %s does not say word %d", from->address, (int)method);
        trp_far_transport_wait(5);
    }
    return what;
}

heard hand_await_answer(trp_node_word method, const honest *from, uint64_t number)
{
    heard what;
    do
        what = hand_await(method, from);
    while (what.frame.target != number);
    return what;
}

void hand_forget(void)
{
    while (trp_far_transport_receive(take))
        continue;
    ears.count = 0;
}

void hand_beat(const honest *to, const claim *who, uint64_t session)
{
    trp_envelope envelope = {.node = who->id, .session = session};
    trp_frame frame = {.kind = TRP_FRAME_REACH,
                       .from = TRP_PROCESS_NODE,
                       .from_incarnation = who->incarnation,
                       .to_incarnation = to->incarnation,
                       .sequence = 1,
                       .body = who->address,
                       .body_size = strlen(who->address)};
    put(to, &envelope, &frame);
}

// Asks until it is answered, as nodes do.
static heard ask(const honest *to, const claim *who, trp_node_word answer)
{
    enum { REPEAT_MS = 250 };
    static uint64_t nonce = 4711;
    heard what = {0};
    int64_t until = support_now_ms() + HANDSHAKE_SOON_MS, repeat_ms = 0;
    for (nonce++; what.frame.target != nonce;) {
        if (support_now_ms() > until)
            fail_msg("node %s does not answer", to->address);
        if (support_now_ms() > repeat_ms) {
            repeat_ms = support_now_ms() + REPEAT_MS;
            hand_say(to, who, &(trp_frame){.method = TRP_NODE_HELLO, .call = nonce});
        }
        if (!hand_has_heard(answer, to, &what))
            trp_far_transport_wait(5);
    }
    return what;
}

uint64_t hand_join(const honest *to, const claim *who)
{
    static uint64_t made = 1000;
    hand_forget();
    if (who->id > to->id) { // It is theirs to make.
        uint64_t session = ask(to, who, TRP_NODE_WELCOME).frame.schema;
        hand_beat(to, who, session);
        return session;
    }
    uint64_t number = ask(to, who, TRP_NODE_HELLO).frame.call;
    hand_say(to, who, &(trp_frame){.method = TRP_NODE_WELCOME, .schema = ++made, .target = number});
    return made;
}
