// test_strangers_soak.holder.c: an attacker that has the cluster's keys: it joins as a node does,
// answers as one, and says what no node would. It speaks by the library's own transport, without a
// runtime behind it.
#include "strangers.h"

#include <runtime/link/zmq.h>
#include <runtime/link/zmq_remote.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/session.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LINGER_MS = 1000, LOOSE_MAX = 200 };

// A way to one of the node's processes, as one of this node's own.
typedef struct way_out {
    trp_outbound *out; // NULL: not open.
    uint64_t sequence;
} way_out;

static struct {
    siege *board;
    score *tally;
    uint64_t seed;
    bool impostor;
    uint32_t id;
    uint64_t incarnation, nonce, session;
    char address[TRP_ENDPOINT_MAX];
    way_out links[DOORS];
    int64_t next_beat_ms, next_hello_ms, rest_until_ms;
} me;

static uint64_t roll(uint64_t below)
{
    return stranger_roll(&me.seed) % below;
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// ---- sending

// `spoilt`: some of its bytes are changed, or its end is missing.
static void put(trp_outbound *out, const trp_envelope *envelope, const trp_frame *frame,
                bool spoilt)
{
    trp_buffer bytes = {0};
    trp_envelope_write(envelope, &bytes);
    trp_frame_write(frame, &bytes);
    for (uint64_t i = 0; spoilt && i <= roll(3); i++)
        bytes.data[roll(bytes.size)] ^= (unsigned char)(1 << roll(8));
    if (spoilt && roll(3) == 0)
        bytes.size = roll(bytes.size);
    if (bytes.failed || trp_outbound_send(out, &bytes) != TROUPE_OK)
        abort();
    atomic_fetch_add(&me.tally->frames, 1);
    trp_buffer_free(&bytes);
}

static trp_outbound *open_way(const char *address)
{
    trp_outbound *out = trp_far_outbound_open(address);
    if (out == NULL)
        abort();
    atomic_fetch_add(&me.tally->knocks, 1);
    return out;
}

static void say_loose(const char *address, const trp_envelope *envelope, trp_frame *frame,
                      const char *text)
{
    trp_outbound *out = open_way(address);
    frame->kind = TRP_FRAME_NODE;
    frame->from = TRP_PROCESS_NODE;
    if (frame->from_incarnation == 0)
        frame->from_incarnation = me.incarnation;
    frame->body = text;
    frame->body_size = strlen(text);
    put(out, envelope, frame, false);
    trp_outbound_close(out, LINGER_MS);
}

static const char *node_door(void)
{
    return me.board->doors[NODE_DOOR].address;
}

static void send_on(int where, trp_frame *frame, bool spoilt)
{
    const way_in *door = &me.board->doors[where];
    trp_envelope envelope = {.node = me.id, .session = me.session};
    frame->from = (uint32_t)where; // NODE_DOOR is the slot of a node process, as ours.
    frame->from_incarnation = me.incarnation + (uint64_t)where;
    if (frame->to_incarnation == 0)
        frame->to_incarnation = door->incarnation;
    put(me.links[where].out, &envelope, frame, spoilt);
}

static void beat_on(int where)
{
    send_on(where, &(trp_frame){.kind = TRP_FRAME_BEAT, .sequence = me.links[where].sequence},
            false);
}

static void close_links(void)
{
    for (int i = 0; i < DOORS; i++) {
        if (me.links[i].out != NULL)
            trp_outbound_close(me.links[i].out, LINGER_MS);
        me.links[i] = (way_out){0};
    }
}

static void open_links(void)
{
    for (int i = 0; i < DOORS; i++) {
        me.links[i] = (way_out){.out = open_way(me.board->doors[i].address), .sequence = 1};
        send_on(i,
                &(trp_frame){.kind = TRP_FRAME_REACH,
                             .sequence = 1,
                             .body = me.address,
                             .body_size = strlen(me.address)},
                false);
        me.links[i].sequence++;
        beat_on(i);
    }
    me.next_beat_ms = 0;
}

// Processes without end, which nobody has.
static void flood_reach(int where, int count)
{
    trp_envelope envelope = {.node = me.id, .session = me.session};
    for (int i = 0; i < count; i++) {
        trp_frame frame = {.kind = TRP_FRAME_REACH,
                           .from = (uint32_t)(2 + roll(TRP_PROCESSES_MAX - 2)),
                           .from_incarnation = stranger_roll(&me.seed),
                           .to_incarnation = me.board->doors[where].incarnation,
                           .sequence = 1,
                           .body = me.address,
                           .body_size = strlen(me.address)};
        put(me.links[where].out, &envelope, &frame, false);
    }
}

// ---- joining

static void begin(uint64_t session)
{
    close_links();
    me.session = session;
    open_links();
    if (roll(2) == 0) // So that there is no room for others.
        flood_reach(DRIVER_DOOR, TRP_PROCESSES_MAX + TRP_PROCESSES_MAX / 8);
}

static void take(const void *data, size_t size)
{
    trp_reader in = trp_reader_of(data, size);
    trp_envelope envelope;
    trp_frame frame;
    if (trp_envelope_read(&in, &envelope) != TROUPE_OK ||
        trp_frame_read(in.at, (size_t)(in.end - in.at), &frame) != TROUPE_OK ||
        frame.kind != TRP_FRAME_NODE || envelope.node != me.board->host.id)
        return;
    if (frame.method == TRP_NODE_WELCOME && me.session == 0 && frame.target == me.nonce) {
        begin(frame.schema);
    } else if (frame.method == TRP_NODE_HELLO && me.session == 0 && me.id < envelope.node) {
        uint64_t session = 1 + roll(UINT64_MAX - 1); // It is ours to make.
        say_loose(node_door(), &(trp_envelope){.node = me.id},
                  &(trp_frame){.method = TRP_NODE_WELCOME, .schema = session, .target = frame.call},
                  me.address);
        begin(session);
    } else if (frame.method == TRP_NODE_BYE && frame.schema == me.session) {
        close_links();
        me.session = 0;
    }
}

// As a node that has just been started, which has a larger or a smaller number than theirs.
static void say_hello(void)
{
    enum { REPEAT_MS = 200 };
    if (now_ms() < me.next_hello_ms)
        return;
    me.next_hello_ms = now_ms() + REPEAT_MS;
    if (roll(4) == 0 || me.id == 0)
        me.id = (uint32_t)(roll(2) == 0 ? 1 + roll(1000) : UINT32_MAX - roll(1000));
    me.incarnation = 1000 + roll(1ull << 60);
    me.nonce = 1 + roll(1ull << 60);
    say_loose(node_door(), &(trp_envelope){.node = me.id},
              &(trp_frame){.method = TRP_NODE_HELLO, .call = me.nonce}, me.address);
}

static void leave(void)
{
    static const char *const texts[] = {"\x1b]0;owned\a\x1b[2J gone", "line\nline\r\nline",
                                        "\xff\xfe\x80 no text", "", "%s%n%x"};
    say_loose(node_door(), &(trp_envelope){.node = me.id},
              &(trp_frame){.method = TRP_NODE_BYE, .schema = me.session}, texts[roll(5)]);
    close_links();
    me.session = 0;
}

// ---- frames of every kind

static uint64_t any_number(void)
{
    switch (roll(6)) {
    case 0:
        return 0;
    case 1:
        return roll(64);
    case 2:
        return (roll(64) << 22) | roll(256); // As calls are numbered.
    case 3:
        return (uint64_t)1 << roll(64);
    case 4:
        return UINT64_MAX - roll(4);
    default:
        return stranger_roll(&me.seed);
    }
}

// Who ends an actor ends it: that is for every node of the cluster to do. So not to those.
static uint64_t any_target(void)
{
    uint64_t target = roll(3) == 0 ? me.board->bait : any_number();
    for (size_t i = 0; i < sizeof me.board->honest / sizeof *me.board->honest; i++)
        if (target == me.board->honest[i])
            target = me.board->bait;
    return target;
}

static size_t any_body(unsigned char *body, size_t most)
{
    enum { IDS = 512 };
    trp_buffer bytes = {0};
    size_t size = 0;
    switch (roll(8)) {
    case 0:
    case 1:
        return 0;
    case 2: // What it says it holds of objects: ids of the first ones.
    case 3:
        trp_write_uint(&bytes, IDS);
        for (uint64_t i = 0; i < IDS; i++)
            trp_write_uint(&bytes, UINT64_C(1) << 63 | (1 + i / 64) << 20 | i % 64);
        size = bytes.size < most ? bytes.size : most;
        memcpy(body, bytes.data, size);
        trp_buffer_free(&bytes);
        return size;
    case 4: // Numbers and arrays without end.
        size = roll(most);
        memset(body, (int)(0x90 + roll(112)), size);
        return size;
    default:
        size = roll(roll(64) == 0 ? most : 64);
        for (size_t i = 0; i < size; i++)
            body[i] = (unsigned char)stranger_roll(&me.seed);
        return size;
    }
}

static const trp_frame_kind kinds[] = {
    TRP_FRAME_FLUSH,  TRP_FRAME_ASK,     TRP_FRAME_ANSWER,    TRP_FRAME_DEATH,   TRP_FRAME_END,
    TRP_FRAME_CREDIT, TRP_FRAME_PAUSE,   TRP_FRAME_REACH,     TRP_FRAME_BEAT,    TRP_FRAME_NODE,
    TRP_FRAME_GONE,   TRP_FRAME_CALL,    TRP_FRAME_TELL,      TRP_FRAME_REPLY,   TRP_FRAME_SPAWN,
    TRP_FRAME_KILL,   TRP_FRAME_FINISH,  TRP_FRAME_WATCH,     TRP_FRAME_UNWATCH, TRP_FRAME_DOWN,
    TRP_FRAME_COUNT,  TRP_FRAME_RESTART, TRP_FRAME_REGISTRAR, TRP_FRAME_LINK,    TRP_FRAME_CANCEL,
    TRP_FRAME_ITEM,   TRP_FRAME_TAKEN,   TRP_FRAME_PROBE};

enum { KINDS = sizeof kinds / sizeof *kinds };

// A sign of life with the number of the frame before it, which may have been refused: one of the
// two is taken, so the next is the next in any case, and at least one is refused.
static void beat_again(int where)
{
    beat_on(where);
    atomic_fetch_add(&me.tally->sure, 1);
}

static void send_any(int where)
{
    static unsigned char body[60000];
    way_out *link = &me.links[where];
    bool spoilt = roll(8) == 0;
    trp_frame frame = {.kind = kinds[roll(KINDS)],
                       .flags = roll(4) == 0 ? 1u << roll(32) : 0,
                       .to_incarnation = roll(32) == 0 ? 1 + roll(1000) : 0,
                       .sequence = ++link->sequence,
                       .target = any_target(),
                       .method = (uint32_t)(roll(8) == 0 ? any_number() : roll(12)),
                       .schema = any_number(),
                       .call = any_number(),
                       .deadline_ms = (uint32_t)(roll(4) == 0 ? roll(100) : 0),
                       .status = (uint32_t)(roll(2) == 0 ? roll(TROUPE_STATUS_COUNT) : 0),
                       .outcome = (uint32_t)roll(TROUPE_OUTCOME_CANCELLED + 1),
                       .executed = (uint32_t)roll(TROUPE_EXECUTED_YES + 1),
                       .body = body,
                       .body_size = any_body(body, sizeof body)};
    send_on(where, &frame, spoilt);
    beat_again(where);
}

// ---- floods

// Much of one kind, each with another number.
static void flood_kind(int where, trp_frame_kind kind, int count)
{
    static const unsigned char value[] = {0, 7};
    for (int i = 0; i < count; i++) {
        trp_frame frame = {.kind = kind,
                           .sequence = ++me.links[where].sequence,
                           .target =
                               kind == TRP_FRAME_PAUSE ? stranger_roll(&me.seed) : any_target(),
                           .method = kind == TRP_FRAME_PAUSE ? 0 : (uint32_t)roll(4),
                           .call = roll(2) == 0 ? (roll(1024) << 22) | roll(64)
                                                : atomic_load(&me.board->pending) + roll(4)};
        if (kind == TRP_FRAME_REPLY || kind == TRP_FRAME_ITEM) {
            frame.body = value;
            frame.body_size = sizeof value;
        }
        send_on(where, &frame, false);
        beat_again(where);
    }
}

// What is said outside of sessions: addresses that are none, others' numbers, and answers to what
// others have asked.
static void say_odd(const char *to)
{
    static const char *const addresses[] = {"",  "127.0.0.1", "127.0.0.1:",  "127.0.0.1:99999",
                                            ":", "\x1b[31m",  "127.0.0.1:-1"};
    static const uint32_t words[] = {TRP_NODE_HELLO, TRP_NODE_WELCOME, TRP_NODE_REFUSE,
                                     TRP_NODE_BYE,   TRP_NODE_DEATH,   TRP_NODE_BREAK};
    char longer[LOOSE_MAX + 1];
    const siege *it = me.board;
    memset(longer, '7', LOOSE_MAX);
    longer[LOOSE_MAX] = '\0';
    uint32_t others[] = {it->host.id, it->guests[0].id, it->guests[1].id};
    trp_envelope envelope = {.node = me.impostor ? others[roll(3)]
                                                 : (uint32_t)(1 + roll(UINT32_MAX - 1))};
    trp_frame frame = {.method = words[roll(6)],
                       .from_incarnation = me.impostor && roll(2) == 0
                                               ? it->guests[roll(GUESTS)].incarnation
                                               : 1 + roll(1ull << 60),
                       .schema = any_number(),
                       .target = any_number(),
                       .call = any_number(),
                       .status = (uint32_t)roll(TROUPE_STATUS_COUNT)};
    uint64_t dice = roll(10);
    say_loose(to, &envelope, &frame,
              dice < 7                   ? addresses[dice]
              : dice == 7                ? longer
              : dice == 8 && me.impostor ? it->guests[roll(GUESTS)].address
                                         : me.address);
}

// To be answered as often, each time over another connection; over one of our own. It is always the
// same claim: others would be of other nodes, which take their turns in the table of nodes.
static void flood_hello(int count)
{
    trp_outbound *out = open_way(node_door());
    for (int i = 0; i < count; i++) {
        trp_envelope envelope = {.node = 7};
        trp_frame frame = {.kind = TRP_FRAME_NODE,
                           .method = TRP_NODE_HELLO,
                           .from = TRP_PROCESS_NODE,
                           .from_incarnation = 4711,
                           .call = 1 + roll(1ull << 60),
                           .body = me.address,
                           .body_size = strlen(me.address)};
        put(out, &envelope, &frame, false);
    }
    trp_outbound_close(out, LINGER_MS);
}

static void attack_once(void)
{
    static const trp_frame_kind floods[] = {TRP_FRAME_PAUSE, TRP_FRAME_REPLY, TRP_FRAME_DOWN,
                                            TRP_FRAME_ITEM,  TRP_FRAME_WATCH, TRP_FRAME_CALL};
    enum { SOME = 50, MANY = 500 };
    int where = (int)roll(DOORS);
    uint64_t dice = roll(1000);
    if (dice < 100) {
        flood_reach(where, SOME);
    } else if (dice < 300) {
        flood_kind(where != NODE_DOOR ? where : DRIVER_DOOR, floods[roll(6)], SOME);
    } else if (dice < (me.impostor ? 900 : 310)) {
        say_odd(me.impostor && roll(4) == 0 ? me.board->guests[roll(GUESTS)].address : node_door());
    } else if (dice < 910 && dice >= 905) {
        flood_hello(MANY);
    } else if (dice == 999) {
        leave();
    } else {
        for (int i = 0; i < SOME / 5; i++)
            send_any(where);
    }
}

void strangers_hold(siege *it, bool impostor, uint64_t seed, stranger_budget *budget)
{
    _Atomic uint64_t strangers = 0;
    me.board = it;
    me.tally = &it->tallies[impostor ? IMPOSTOR : HOLDER];
    me.impostor = impostor;
    me.seed = seed;
    trp_far_how how = {.address = "127.0.0.1:0",
                       .keys_path = it->keys,
                       .message_bytes_max = 1 << 20,
                       .strangers = &strangers};
    if (trp_far_transport_open(&how, me.address) != TROUPE_OK)
        abort();
    while (atomic_load(&it->attack_over) == 0) {
        while (trp_far_transport_receive(take))
            continue;
        if (me.session == 0) {
            say_hello();
            trp_far_transport_wait(5);
        } else {
            for (int i = 0; i < DOORS && now_ms() >= me.next_beat_ms; i++) {
                me.links[i].sequence++;
                beat_on(i);
            }
            if (now_ms() >= me.next_beat_ms)
                me.next_beat_ms = now_ms() + NODE_TIMEOUT_MS / TRP_FAR_BEATS;
            attack_once();
        }
        stranger_pace(budget);
    }
    if (me.session != 0)
        leave();
    trp_far_transport_close();
}
