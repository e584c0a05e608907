// handshake.c: how sessions with other nodes begin (see remote/session.h): what is sent outside of
// them, and the threads that wait for one. docs/internals/runtime/nodes.md has the messages in
// order.
//
// A peer with the cluster's keys may send anything here, and claim any number and address. So an
// answer is believed only if it names what was sent to that address alone: the number of a HELLO,
// or of a session. Only then does what else was known under that number or address end.
#include <runtime/remote/handshake.h>

#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/frame_rules.h>
#include <runtime/link/request.h>
#include <runtime/link/resolve.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/cookie.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/remote_table.h>
#include <runtime/remote/session_internal.h>
#include <runtime/remote/sessionless.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum { JOINS_MAX = 64, REPEAT_MS = 250 };

// Somebody here waits for a session.
typedef struct join {
    uint64_t nonce; // 0: free.
    uint32_t id;    // The node that answered; 0: none yet.
    char address[TRP_NODE_ADDRESS_MAX], numeric[TRP_NODE_ADDRESS_MAX];
    trp_frame request;
    int64_t give_up_ms, repeat_ms;
    char misheard[160]; // What somebody said meanwhile in another version; "": nobody.
} join;

static struct {
    join rows[JOINS_MAX];
    uint64_t past[JOINS_MAX]; // Numbers of the last ones that are over.
    uint64_t past_count;
} joins TRP_VAST;

// ---- telling

static void say(const char *address, trp_frame *frame, const char *text)
{
    frame->kind = TRP_FRAME_NODE;
    frame->body = text;
    frame->body_size = strlen(text);
    bool own = frame->method == TRP_NODE_BYE || // Of a session that there was.
               (frame->method == TRP_NODE_HELLO && frame->target == 0);
    trp_far_send_loose(address, frame, !own);
}

static void say_hello(const char *address, uint64_t nonce, uint64_t answered)
{
    trp_frame frame = {.method = TRP_NODE_HELLO, .call = nonce, .target = answered};
    say(address, &frame, trp_segment_nodes()->address);
}

void trp_nodes_say_bye(const char *address, uint64_t session, const char *why)
{
    trp_frame frame = {.method = TRP_NODE_BYE, .schema = session};
    say(address, &frame, why);
}

static void refuse(const char *address, const trp_frame *hello, troupe_status status)
{
    trp_frame frame = {.method = TRP_NODE_REFUSE, .target = hello->call, .status = status};
    say(address, &frame, troupe_last_error()->text);
}

// ---- joins

static void answer_join(join *it, troupe_status status)
{
    if (status == TROUPE_OK)
        trp_request_answer(&it->request, &(trp_frame){.status = TROUPE_OK});
    else
        trp_request_refuse(&it->request, status);
    joins.past[joins.past_count++ % JOINS_MAX] = it->nonce;
    it->nonce = 0;
}

static join *find_join(uint64_t nonce)
{
    for (int i = 0; nonce != 0 && i < JOINS_MAX; i++)
        if (joins.rows[i].nonce == nonce)
            return &joins.rows[i];
    return NULL;
}

// Whether somebody has waited for that answer: what is repeated may be answered late.
static bool is_past(uint64_t nonce)
{
    for (int i = 0; nonce != 0 && i < JOINS_MAX; i++)
        if (joins.past[i] == nonce)
            return true;
    return false;
}

// The node is known by the first address that it was asked for by, too.
void trp_nodes_joined(trp_node_row *row)
{
    for (int i = 0; i < JOINS_MAX; i++) {
        join *it = &joins.rows[i];
        if (it->nonce == 0 || it->id != row->id)
            continue;
        if (row->asked[0] == '\0' && strcmp(it->address, row->address) != 0)
            snprintf(row->asked, sizeof row->asked, "%s", it->address);
        answer_join(it, TROUPE_OK);
    }
}

static void no_room_for(join *it)
{
    if (it != NULL)
        answer_join(it, troupe_fail(TROUPE_BUSY,
                                    "the node at %s cannot be joined: this one is joined with %d "
                                    "nodes already",
                                    it->address, TRP_NODES_MAX));
}

// ---- who claims what

// A node as it gives itself, in a HELLO or WELCOME.
typedef struct claim {
    const trp_frame *frame;
    uint32_t id;
    uint64_t incarnation;
    char address[TRP_NODE_ADDRESS_MAX];
} claim;

// Of all that goes on with that number or at that address, one; NULL: nothing does.
static trp_node_row *find_live(const claim *it, bool by_address)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (row->state == TRP_NODE_LIVE &&
            (row->id == it->id || (by_address && strcmp(row->address, it->address) == 0)))
            return row;
    }
    return NULL;
}

// The session with that node, as it gives itself, that goes on or may begin.
static trp_node_row *find_same(const claim *it)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (trp_nodes_active(row) && row->id == it->id && row->incarnation == it->incarnation &&
            strcmp(row->address, it->address) == 0)
            return row;
    }
    return NULL;
}

// The session, if it is one with that node, or was.
static trp_node_row *find_session(const claim *it, uint64_t session)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (row->state != TRP_NODE_FREE && row->session == session && row->id == it->id)
            return row;
    }
    return NULL;
}

// What is said to who may be at that address, and said back by who is there: another number after
// each session with him, so that an old one begins none.
static uint64_t cookie_for(const claim *it)
{
    struct {
        uint64_t incarnation, session, joined, id;
        char address[TRP_NODE_ADDRESS_MAX];
    } what;
    memset(&what, 0, sizeof what);
    what.incarnation = it->incarnation;
    what.id = it->id;
    snprintf(what.address, sizeof what.address, "%s", it->address);
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *row = trp_nodes_row(i);
        bool heard = row->state == TRP_NODE_LIVE || row->state == TRP_NODE_GONE;
        if (!heard || row->id != it->id || row->joined < what.joined)
            continue;
        what.joined = row->joined;
        what.session = row->session;
    }
    return trp_cookie(&what, sizeof what);
}

// Whether the number is that of a node that is joined, and is elsewhere. Sets the last error.
static bool is_taken(const claim *it)
{
    const trp_node_row *row = find_live(it, false);
    if (row == NULL || strcmp(row->address, it->address) == 0)
        return false;
    (void)troupe_fail(
        TROUPE_EXISTS,
        "a node claims to be at %s, with the number of the node at %s, which is joined",
        it->address, row->address);
    trp_process_refused(troupe_last_error()->text);
    return true;
}

static void fail_join(join *it)
{
    char why[256];
    snprintf(why, sizeof why, "%.255s", troupe_last_error()->text);
    if (it != NULL)
        answer_join(it, troupe_fail(TROUPE_EXISTS, "the node at %s cannot be joined: %s",
                                    it->address, why));
}

// ---- hearing

static void take_hello(const claim *it)
{
    uint32_t own = trp_process_node_id();
    uint64_t number = it->frame->call, answered = it->frame->target;
    join *mine = find_join(answered);
    if (it->id == own) {
        refuse(it->address, it->frame, troupe_fail(TROUPE_INVALID, "it is this node itself"));
        return;
    }
    if (number == 0 || (answered != 0 && (own > it->id || (mine == NULL && !is_past(answered))))) {
        trp_process_refused(
            "a node answers a request that was not made, or does not say how to answer it");
        return;
    }
    if (is_taken(it)) {
        refuse(it->address, it->frame, TROUPE_EXISTS);
        fail_join(mine);
        return;
    }
    if (own > it->id) { // It is for them to make the session.
        say_hello(it->address, cookie_for(it), number);
        return;
    }
    if (answered != 0 && mine == NULL)
        return; // Nobody waits for it any more.
    if (mine != NULL)
        mine->id = it->id;
    trp_node_row *row = find_same(it);
    if (row == NULL) {
        if ((row = trp_nodes_take_row(it->id, it->incarnation)) == NULL) {
            refuse(it->address, it->frame, TROUPE_BUSY);
            no_room_for(mine);
            return;
        }
        trp_nodes_begin(row, it->id, it->frame, trp_random_incarnation(), it->address,
                        TRP_NODE_OPEN);
    }
    trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = row->session, .target = number};
    say(it->address, &welcome, trp_segment_nodes()->address);
    if (row->state == TRP_NODE_LIVE)
        trp_nodes_joined(row);
}

// The session is noted as one that was left: another HELLO may be answered by it as well, before
// they have heard that.
static void leave_late(const claim *it)
{
    trp_node_row *row = trp_nodes_take_row(it->id, it->incarnation);
    if (row != NULL) {
        trp_nodes_begin(row, it->id, it->frame, it->frame->schema, it->address, TRP_NODE_FREE);
        snprintf(row->cause, sizeof row->cause, "%s", TRP_NODES_LEFT);
        row->state = TRP_NODE_GONE;
    }
    trp_nodes_say_bye(it->address, it->frame->schema, "had given up joining");
}

// A session that is new here, in which who has made it takes our frames.
static void begin_theirs(const claim *it, join *mine)
{
    uint64_t session = it->frame->schema;
    trp_nodes_end_others(it->id, it->incarnation, it->address, session);
    trp_node_row *row = trp_nodes_take_row(it->id, it->incarnation);
    if (row == NULL) {
        trp_nodes_say_bye(it->address, session, "is joined with too many nodes already");
        no_room_for(mine);
        return;
    }
    trp_nodes_begin(row, it->id, it->frame, session, it->address, TRP_NODE_LIVE);
    trp_nodes_make_link(row);
    trp_nodes_joined(row);
}

static void take_welcome(const claim *it)
{
    uint64_t session = it->frame->schema, answered = it->frame->target;
    if (it->id >= trp_process_node_id() || session == 0) {
        trp_process_refused("a node opens a session that it may not open");
        return;
    }
    trp_node_row *row = find_session(it, session);
    if (row != NULL && row->state == TRP_NODE_GONE) { // The next HELLO has a new one.
        trp_nodes_say_bye(it->address, session, "had given up this session");
        return;
    }
    join *mine = find_join(answered);
    bool proven =
        answered == cookie_for(it) || (mine != NULL && strcmp(mine->numeric, it->address) == 0);
    if (row == NULL && mine == NULL && !proven) {
        if (is_past(answered))
            leave_late(it);
        else
            trp_process_refused("a node opens a session that was not requested");
        return;
    }
    if (is_taken(it)) {
        trp_nodes_say_bye(it->address, session, "is joined with another node of that number");
        fail_join(mine);
        return;
    }
    if (mine != NULL)
        mine->id = it->id;
    if (row != NULL)
        trp_nodes_joined(row);
    else if (proven || find_live(it, true) == NULL)
        begin_theirs(it, mine);
    else // It was asked at another address than the one it gives itself. Is it there?
        say_hello(it->address, cookie_for(it), 0);
}

// Whether it is what only the node process of another node says here, and says where that is.
static bool read_claim(uint32_t node, const trp_frame *frame, claim *it)
{
    *it = (claim){.frame = frame, .id = node, .incarnation = frame->from_incarnation};
    return trp_address_read(frame->body, frame->body_size, it->address);
}

static void take_loose(uint32_t node, const trp_frame *frame)
{
    char text[256];
    claim it;
    (void)trp_printable_copy(frame->body, frame->body_size, text, sizeof text);
    join *mine = find_join(frame->target);
    it.id = node;
    trp_node_row *row = find_session(&it, frame->schema);
    switch (frame->method) {
    case TRP_NODE_HELLO:
    case TRP_NODE_WELCOME:
        if (!read_claim(node, frame, &it))
            trp_process_refused("a node gives an address that is not numeric");
        else if (frame->method == TRP_NODE_HELLO)
            take_hello(&it);
        else
            take_welcome(&it);
        break;
    case TRP_NODE_REFUSE:
        if (mine != NULL && frame->status != TROUPE_OK)
            answer_join(mine,
                        troupe_fail((troupe_status)frame->status,
                                    "the node at %s cannot be joined: %s", mine->address, text));
        else if (!is_past(frame->target))
            trp_process_refused("a node refuses a request that was not made");
        break;
    case TRP_NODE_BYE:
        if (row != NULL && trp_nodes_active(row))
            trp_nodes_end(row, text);
        break; // Else both have ended it.
    default:
        trp_process_refused("a node sends a message of a session outside any, or an unknown one");
        break;
    }
}

void trp_nodes_take_loose(uint32_t node, const trp_frame *frame)
{
    pthread_mutex_lock(&trp_nodes_lock);
    if (frame->from != TRP_PROCESS_NODE || !trp_frame_allowed(frame, true, true))
        trp_process_refused("it belongs to no session, and its sender may not send it");
    else if (!trp_nodes_left()) // Else whatever it says comes too late.
        take_loose(node, frame);
    pthread_mutex_unlock(&trp_nodes_lock);
}

void trp_nodes_misunderstood(const char *text)
{
    pthread_mutex_lock(&trp_nodes_lock);
    // It need not be the one that is waited for, who may answer yet.
    for (int i = 0; i < JOINS_MAX; i++)
        snprintf(joins.rows[i].misheard, sizeof joins.rows[i].misheard, "%s", text);
    pthread_mutex_unlock(&trp_nodes_lock);
}

// ---- requests, and what is due

static bool is_joined(const char *address)
{
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (trp_nodes_row(i)->state == TRP_NODE_LIVE &&
            trp_node_row_is_at(trp_nodes_row(i), address))
            return true;
    return false;
}

void trp_nodes_ask_join(const trp_frame *frame, const char *address, const char *numeric)
{
    join *mine = NULL;
    if (trp_nodes_left()) {
        trp_request_refuse(frame, troupe_fail(TROUPE_NOT_STARTED, "the runtime is being stopped"));
        return;
    }
    if (strcmp(numeric, trp_segment_nodes()->address) == 0) {
        trp_request_refuse(
            frame, troupe_fail(TROUPE_INVALID, "%s is the address of this node itself", address));
        return;
    }
    if (is_joined(address)) {
        trp_request_answer(frame, &(trp_frame){.status = TROUPE_OK});
        return;
    }
    for (int i = 0; i < JOINS_MAX && mine == NULL; i++)
        if (joins.rows[i].nonce == 0)
            mine = &joins.rows[i];
    if (mine == NULL) {
        trp_request_refuse(
            frame, troupe_fail(TROUPE_BUSY, "%d others wait for a node to answer", JOINS_MAX));
        return;
    }
    *mine = (join){.nonce = trp_random_incarnation(),
                   .request = {.from = frame->from,
                               .from_incarnation = frame->from_incarnation,
                               .call = frame->call},
                   .give_up_ms = trp_clock_ms() + trp_self.options.node_timeout_ms};
    snprintf(mine->address, sizeof mine->address, "%.*s", TRP_NODE_ADDRESS_MAX - 1, address);
    snprintf(mine->numeric, sizeof mine->numeric, "%.*s", TRP_NODE_ADDRESS_MAX - 1, numeric);
    trp_far_wake(); // It says HELLO.
}

static void give_up(join *it)
{
    if (it->misheard[0] != '\0')
        answer_join(it, troupe_fail(TROUPE_VERSION, "no node has answered at %s, but %s",
                                    it->address, it->misheard));
    else
        answer_join(it, troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                                    "no node has answered at %s within %d ms: none listens there, "
                                    "or it has other keys",
                                    it->address, trp_self.options.node_timeout_ms));
}

void trp_nodes_tick_joins(int64_t now, int64_t *next)
{
    for (int i = 0; i < JOINS_MAX; i++) {
        join *it = &joins.rows[i];
        if (it->nonce == 0)
            continue;
        if (now >= it->give_up_ms) {
            give_up(it);
            continue;
        }
        if (now >= it->repeat_ms) {
            say_hello(it->numeric, it->nonce, 0);
            it->repeat_ms = now + REPEAT_MS;
        }
        *next = *next < 0 || it->repeat_ms < *next ? it->repeat_ms : *next;
    }
}
