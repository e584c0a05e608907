// nodes.c: sessions with other nodes (see nodes.h).
//
// Of two nodes the one with the smaller number makes the session: it takes the other's frames from
// its WELCOME on, and sends once it was heard in it. So two that ask each other at once have one.
#include <runtime/nodes.h>

#include <pthread.h>
#include <runtime/clock.h>
#include <runtime/far.h>
#include <runtime/identity.h>
#include <runtime/log.h>
#include <runtime/memory.h>
#include <runtime/printable.h>
#include <runtime/resolve.h>
#include <stdio.h>
#include <string.h>

enum { JOINS_MAX = 64, REPEAT_MS = 250 };

// Ends of sessions that are no news.
static const char LEFT[] = "was left", GOODBYE[] = "said goodbye";

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
    pthread_mutex_t lock; // Of all of it, and of writing the segment's rows.
    join joins[JOINS_MAX];
    int64_t heard_ms[TRP_NODES_MAX];
    int64_t last_tick_ms;
    uint64_t last_joined;
    bool left; // This node stops: no session begins any more, for nobody would end it.
} nodes TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

static trp_node_row *row_at(int place)
{
    return &trp_segment_nodes()->rows[place];
}

static bool is_active(const trp_node_row *row)
{
    return row->state == TRP_NODE_OPEN || row->state == TRP_NODE_LIVE;
}

static trp_node_row *find_id(uint32_t id)
{
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (row_at(i)->state != TRP_NODE_FREE && row_at(i)->id == id)
            return row_at(i);
    return NULL;
}

static trp_node_row *find_session(uint64_t session)
{
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (is_active(row_at(i)) && row_at(i)->session == session)
            return row_at(i);
    return NULL;
}

static trp_node_row *find_address(const char *address)
{
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (is_active(row_at(i)) && trp_node_row_is_at(row_at(i), address))
            return row_at(i);
    return NULL;
}

// The address that a frame's body is; "": none.
static void read_text(const trp_frame *frame, char *text, size_t capacity)
{
    size_t size = frame->body_size < capacity ? frame->body_size : 0;
    (void)trp_printable_copy(frame->body, size, text, capacity);
}

// ---- telling

static void say(const char *address, trp_frame *frame, const char *text)
{
    frame->kind = TRP_FRAME_NODE;
    frame->body = text;
    frame->body_size = strlen(text);
    trp_far_send_loose(address, frame);
}

static void say_hello(const char *address, uint64_t nonce, uint64_t answered)
{
    trp_frame frame = {.method = TRP_NODE_HELLO, .call = nonce, .target = answered};
    say(address, &frame, trp_segment_nodes()->address);
}

static void say_bye(const char *address, uint64_t session, const char *why)
{
    trp_frame frame = {.method = TRP_NODE_BYE, .schema = session};
    say(address, &frame, why);
}

static void refuse(const char *address, const trp_frame *hello, troupe_status status)
{
    trp_frame frame = {.method = TRP_NODE_REFUSE, .target = hello->call, .status = status};
    say(address, &frame, troupe_last_error()->text);
}

// Tells all processes of this node.
static void tell_gone(uint64_t session, uint64_t incarnation, const char *cause)
{
    for (uint32_t slot = TRP_PROCESS_DRIVER; slot < TRP_PROCESSES_MAX; slot++) {
        trp_process_row *row = trp_segment_process(slot);
        trp_frame frame = {.kind = TRP_FRAME_GONE,
                           .target = incarnation,
                           .schema = session,
                           .body = cause,
                           .body_size = strlen(cause)};
        if (row->state == TRP_PROCESS_READY)
            (void)trp_process_send(slot, row->incarnation, &frame, 0);
    }
}

// ---- joins

static void answer_join(join *it, troupe_status status)
{
    if (status == TROUPE_OK)
        trp_node_answer(&it->request, &(trp_frame){.status = TROUPE_OK});
    else
        trp_node_answer_failure(&it->request, status);
    it->nonce = 0;
}

static join *find_join(uint64_t nonce)
{
    for (int i = 0; nonce != 0 && i < JOINS_MAX; i++)
        if (nodes.joins[i].nonce == nonce)
            return &nodes.joins[i];
    return NULL;
}

// Ends the waits for a session with that node, which is known by the first address that it was
// asked for by, too.
static void joined(trp_node_row *row)
{
    for (int i = 0; i < JOINS_MAX; i++) {
        join *it = &nodes.joins[i];
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

// ---- begin and end of sessions

static void end_session(trp_node_row *row, const char *cause)
{
    bool planned = strcmp(cause, LEFT) == 0 || strcmp(cause, GOODBYE) == 0;
    uint64_t session = row->session;
    snprintf(row->cause, sizeof row->cause, "%s", cause);
    row->state = TRP_NODE_GONE; // After the cause; from here on nothing is sent or taken.
    trp_log(planned ? TRP_INFO : TRP_WARN, "the session with node %s has ended: it %s",
            row->address, cause);
    char lost[112];
    snprintf(lost, sizeof lost, "cannot be reached any more: its node %.70s", cause);
    trp_far_end(session, lost);
    tell_gone(session, 0, lost);
}

// As end_session, and the other one is told too.
static void break_off(trp_node_row *row, const char *cause, const char *told)
{
    uint64_t session = row->session;
    end_session(row, cause);
    say_bye(row->address, session, told);
}

// What the log here says, and there.
static void break_for(trp_node_row *row, uint64_t why)
{
    if (why == TRP_BREAK_CROWDED)
        break_off(row, "has a process more than one of this node can talk with",
                  "has a process that talks with as many of other nodes as it can");
    else if (why == TRP_BREAK_FLOODED)
        break_off(row, "has sent more than there was room for",
                  "was sent more than it gave room for");
    else
        break_off(row, "has lost messages on the way", "has missed messages on the way");
}

// The row for a node; one of another that is gone if there is no other left.
static trp_node_row *take_row(uint32_t id)
{
    trp_node_row *row = find_id(id);
    for (int i = 0; row == NULL && i < TRP_NODES_MAX; i++)
        if (row_at(i)->state == TRP_NODE_FREE)
            row = row_at(i);
    for (int i = 0; row == NULL && i < TRP_NODES_MAX; i++)
        if (row_at(i)->state == TRP_NODE_GONE)
            row = row_at(i);
    if (row == NULL)
        (void)troupe_fail(TROUPE_BUSY, "it is joined with %d nodes already", TRP_NODES_MAX);
    return row;
}

static void begin_session(trp_node_row *row, uint32_t id, const trp_frame *frame, uint64_t session,
                          const char *address, trp_node_state state)
{
    row->state = TRP_NODE_FREE; // Nobody reads it until all is there.
    row->session = session;
    row->id = id;
    row->incarnation = frame->from_incarnation;
    row->joined = ++nodes.last_joined;
    snprintf(row->address, sizeof row->address, "%s", address);
    row->cause[0] = '\0';
    memset(row->asked, 0, sizeof row->asked);
    row->state = state;
    nodes.heard_ms[row - row_at(0)] = trp_clock_ms();
}

// The other node process hears us from now on.
static void make_link(const trp_node_row *row)
{
    uint32_t process;
    trp_frame beat = {.kind = TRP_FRAME_BEAT};
    if (trp_far_note(row->id, row->session, TRP_PROCESS_NODE, row->incarnation, row->address,
                     &process) != TROUPE_OK ||
        trp_process_send(process, row->incarnation, &beat, 0) != TROUPE_OK)
        trp_log(TRP_ERROR, "node %s cannot be reached: %s", row->address,
                troupe_last_error()->text);
}

// What else is known under that number or address is over.
static void supersede(uint32_t id, uint64_t incarnation, const char *address)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = row_at(i);
        bool same = row->id == id && row->incarnation == incarnation;
        if (is_active(row) && !same && (row->id == id || strcmp(row->address, address) == 0))
            end_session(row, "was started anew");
    }
}

// Whether it answers a HELLO of ours whose sender has given up, or has had its session and left it:
// one that was repeated may come late.
static bool is_late(const trp_frame *answer, const join *mine, const trp_node_row *row)
{
    return answer->target != 0 && mine == NULL && (row == NULL || !is_active(row));
}

static void take_hello(uint32_t id, const trp_frame *frame, const char *address)
{
    uint32_t own = trp_process_node_id();
    if (id == own) {
        refuse(address, frame, troupe_fail(TROUPE_INVALID, "it is this node itself"));
        return;
    }
    supersede(id, frame->from_incarnation, address);
    join *mine = find_join(frame->target);
    if (mine != NULL)
        mine->id = id;
    if (own > id) { // It is for them to make the session.
        say_hello(address, 0, frame->call);
        return;
    }
    trp_node_row *row = find_id(id);
    if (is_late(frame, mine, row))
        return;
    if (row == NULL || !is_active(row)) {
        if ((row = take_row(id)) == NULL) {
            refuse(address, frame, TROUPE_BUSY);
            no_room_for(mine);
            return;
        }
        begin_session(row, id, frame, trp_random_incarnation(), address, TRP_NODE_OPEN);
    }
    trp_frame welcome = {.method = TRP_NODE_WELCOME, .schema = row->session, .target = frame->call};
    say(address, &welcome, trp_segment_nodes()->address);
    if (row->state == TRP_NODE_LIVE)
        joined(row);
}

// The session is noted as one that was left: another HELLO may be answered by it as well, before
// they have heard that.
static void leave_late(uint32_t id, const trp_frame *welcome, const char *address)
{
    trp_node_row *row = take_row(id);
    if (row != NULL) {
        begin_session(row, id, welcome, welcome->schema, address, TRP_NODE_FREE);
        snprintf(row->cause, sizeof row->cause, "%s", LEFT);
        row->state = TRP_NODE_GONE;
    }
    say_bye(address, welcome->schema, "had given up joining");
}

static void take_welcome(uint32_t id, const trp_frame *frame, const char *address)
{
    trp_node_row *row = find_id(id);
    if (id >= trp_process_node_id() || frame->schema == 0) {
        trp_process_refused("a node makes a session that is not its to make");
        return;
    }
    join *mine = find_join(frame->target);
    if (mine != NULL)
        mine->id = id;
    if (row != NULL && row->session == frame->schema && row->state == TRP_NODE_GONE) {
        say_bye(address, frame->schema, "had given up this session"); // The next HELLO has a new
        return;                                                       // one.
    }
    if (is_late(frame, mine, row)) {
        leave_late(id, frame, address);
        return;
    }
    if (row == NULL || row->session != frame->schema) {
        supersede(id, frame->from_incarnation, address);
        if (row != NULL && is_active(row))
            end_session(row, "has begun a new session");
        if ((row = take_row(id)) == NULL) {
            say_bye(address, frame->schema, "is joined with too many nodes already");
            no_room_for(mine);
            return;
        }
        begin_session(row, id, frame, frame->schema, address, TRP_NODE_LIVE);
        make_link(row);
    }
    joined(row);
}

void trp_nodes_take_loose(uint32_t node, const trp_frame *frame)
{
    char text[256];
    read_text(frame, text, sizeof text);
    pthread_mutex_lock(&nodes.lock);
    bool address = trp_address_is_numeric(text);
    trp_node_row *row = find_session(frame->schema);
    join *mine = find_join(frame->target);
    if (nodes.left) {
        // Whatever it says comes too late.
    } else if (frame->method == TRP_NODE_HELLO && address) {
        take_hello(node, frame, text);
    } else if (frame->method == TRP_NODE_WELCOME && address) {
        take_welcome(node, frame, text);
    } else if (frame->method == TRP_NODE_REFUSE && mine != NULL && frame->status != TROUPE_OK) {
        answer_join(mine, troupe_fail((troupe_status)frame->status,
                                      "the node at %s cannot be joined: %s", mine->address, text));
    } else if (frame->method == TRP_NODE_BYE && row != NULL && row->id == node) {
        end_session(row, text);
    } else if (frame->method == TRP_NODE_HELLO || frame->method == TRP_NODE_WELCOME) {
        trp_process_refused("a node gives no address in numbers");
    }
    pthread_mutex_unlock(&nodes.lock);
}

// ---- in a session

void trp_nodes_heard(uint64_t session)
{
    pthread_mutex_lock(&nodes.lock);
    trp_node_row *row = nodes.left ? NULL : find_session(session);
    if (row != NULL)
        nodes.heard_ms[row - row_at(0)] = trp_clock_ms();
    if (row != NULL && row->state == TRP_NODE_OPEN) {
        row->state = TRP_NODE_LIVE;
        make_link(row);
        joined(row);
    }
    pthread_mutex_unlock(&nodes.lock);
}

void trp_nodes_take(const trp_frame *frame)
{
    char cause[112];
    read_text(frame, cause, sizeof cause);
    pthread_mutex_lock(&nodes.lock);
    trp_node_row *row = find_session(frame->schema);
    if (row != NULL && frame->method == TRP_NODE_DEATH && frame->target != 0) {
        trp_far_doom(row->session, frame->target, cause);
        tell_gone(row->session, frame->target, cause);
    } else if (row != NULL && frame->method == TRP_NODE_BREAK) {
        break_for(row, frame->call);
    }
    pthread_mutex_unlock(&nodes.lock);
}

void trp_nodes_stale(uint32_t node, uint64_t session)
{
    pthread_mutex_lock(&nodes.lock);
    trp_node_row *row = find_id(node);
    if (row != NULL && row->state == TRP_NODE_GONE && row->session == session)
        say_bye(row->address, session, "had given this session up");
    pthread_mutex_unlock(&nodes.lock);
}

void trp_nodes_misunderstood(const char *text)
{
    pthread_mutex_lock(&nodes.lock);
    // It need not be the one that is waited for, who may answer yet.
    for (int i = 0; i < JOINS_MAX; i++)
        snprintf(nodes.joins[i].misheard, sizeof nodes.joins[i].misheard, "%s", text);
    pthread_mutex_unlock(&nodes.lock);
}

void trp_nodes_tell_death(uint64_t incarnation, const char *cause)
{
    if (!trp_listens())
        return;
    pthread_mutex_lock(&nodes.lock);
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *row = row_at(i);
        uint64_t there = row->incarnation;
        uint32_t process = row->state == TRP_NODE_LIVE
                               ? trp_far_number(row->id, TRP_PROCESS_NODE, row->session, there)
                               : 0;
        trp_frame frame = {.kind = TRP_FRAME_NODE,
                           .method = TRP_NODE_DEATH,
                           .target = incarnation,
                           .body = cause,
                           .body_size = strlen(cause)};
        if (process != 0)
            (void)trp_process_send(process, there, &frame, 0);
    }
    pthread_mutex_unlock(&nodes.lock);
}

// ---- requests

static void ask_join(const trp_frame *frame, const char *address, const char *numeric)
{
    join *mine = NULL;
    if (nodes.left) {
        trp_node_answer_failure(frame,
                                troupe_fail(TROUPE_NOT_STARTED, "the runtime is being stopped"));
        return;
    }
    if (strcmp(numeric, trp_segment_nodes()->address) == 0) {
        trp_node_answer_failure(
            frame, troupe_fail(TROUPE_INVALID, "%s is the address of this node itself", address));
        return;
    }
    const trp_node_row *row = find_address(address);
    if (row != NULL && row->state == TRP_NODE_LIVE) {
        trp_node_answer(frame, &(trp_frame){.status = TROUPE_OK});
        return;
    }
    for (int i = 0; i < JOINS_MAX && mine == NULL; i++)
        if (nodes.joins[i].nonce == 0)
            mine = &nodes.joins[i];
    if (mine == NULL) {
        trp_node_answer_failure(
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

void trp_nodes_ask(const trp_frame *frame)
{
    char address[2 * TRP_NODE_ADDRESS_MAX], *numeric;
    read_text(frame, address, sizeof address);
    numeric = strchr(address, ' ');
    if (numeric != NULL)
        *numeric++ = '\0';
    if (!trp_listens()) {
        trp_node_answer_failure(frame, troupe_fail(TROUPE_INVALID,
                                                   "this node cannot join others: it was started "
                                                   "without .listen"));
        return;
    }
    pthread_mutex_lock(&nodes.lock);
    trp_node_row *row = find_address(address);
    if (frame->method == TRP_ASK_JOIN) {
        ask_join(frame, address, numeric != NULL ? numeric : "");
    } else if (row != NULL) {
        break_off(row, LEFT, GOODBYE);
        trp_node_answer(frame, &(trp_frame){.status = TROUPE_OK});
    } else {
        trp_node_answer_failure(
            frame, troupe_fail(TROUPE_NOT_FOUND, "there is no session with a node at %s", address));
    }
    pthread_mutex_unlock(&nodes.lock);
}

void trp_nodes_leave_all(void)
{
    pthread_mutex_lock(&nodes.lock);
    nodes.left = true;
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (is_active(row_at(i)))
            break_off(row_at(i), LEFT, GOODBYE);
    pthread_mutex_unlock(&nodes.lock);
}

// ---- what is due

static void give_up(join *it)
{
    if (it->misheard[0] != '\0')
        answer_join(it, troupe_fail(TROUPE_VERSION, "no node has answered at %s, but %s",
                                    it->address, it->misheard));
    else
        answer_join(it, troupe_fail(TROUPE_TIMED_OUT,
                                    "no node has answered at %s within %d ms: none listens there, "
                                    "or it has other keys",
                                    it->address, trp_self.options.node_timeout_ms));
}

static void tick_joins(int64_t now, int64_t *next)
{
    for (int i = 0; i < JOINS_MAX; i++) {
        join *it = &nodes.joins[i];
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

static void tick_rows(int64_t now, int64_t *next)
{
    int64_t timeout = trp_self.options.node_timeout_ms, period = timeout / TRP_FAR_BEATS;
    // Who was stopped for a while was deaf: what the others said meanwhile may not have been read.
    bool was_away = nodes.last_tick_ms != 0 && now - nodes.last_tick_ms > 2 * period;
    bool any = false;
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = row_at(i);
        if (!is_active(row))
            continue;
        any = true;
        if (was_away)
            nodes.heard_ms[i] = now;
        if (now - nodes.heard_ms[i] > timeout) {
            char cause[64];
            snprintf(cause, sizeof cause, "was silent for %d ms", (int)timeout);
            break_off(row, cause, "had heard nothing for too long");
        }
    }
    nodes.last_tick_ms = any ? now : 0;
    if (any && (*next < 0 || now + period < *next))
        *next = now + period;
}

int trp_nodes_tick(void)
{
    int64_t now = trp_clock_ms(), next = -1;
    pthread_mutex_lock(&nodes.lock);
    tick_joins(now, &next);
    tick_rows(now, &next);
    pthread_mutex_unlock(&nodes.lock);
    return next < 0 ? -1 : next <= now ? 0 : (int)(next - now);
}
