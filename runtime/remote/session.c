// session.c: sessions with other nodes (see remote/session.h): how they go on and end.
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/link/ask.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/link/request.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/remote_table.h>
#include <runtime/remote/session_internal.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

pthread_mutex_t trp_nodes_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int64_t heard_ms[TRP_NODES_MAX];
    int64_t told_ms[TRP_NODES_MAX]; // That a session is over, to who goes on with it.
    int64_t last_tick_ms;
    uint64_t last_joined;
    bool left; // This node stops: no session begins any more, for nobody would end it.
} nodes TRP_VAST;

trp_node_row *trp_nodes_row(int place)
{
    return &trp_segment_nodes()->rows[place];
}

bool trp_nodes_active(const trp_node_row *row)
{
    return row->state == TRP_NODE_OPEN || row->state == TRP_NODE_LIVE;
}

bool trp_nodes_left(void)
{
    return nodes.left;
}

static trp_node_row *find_session(uint64_t session)
{
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (trp_nodes_active(trp_nodes_row(i)) && trp_nodes_row(i)->session == session)
            return trp_nodes_row(i);
    return NULL;
}

// One that goes on, if there is one, rather than one that may begin.
static trp_node_row *find_address(const char *address)
{
    trp_node_row *found = NULL;
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (trp_nodes_active(row) && trp_node_row_is_at(row, address) &&
            (found == NULL || row->state == TRP_NODE_LIVE))
            found = row;
    }
    return found;
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

// ---- begin and end of sessions

// A session that has not begun.
static void forget_claim(trp_node_row *row)
{
    uint64_t session = row->session;
    row->state = TRP_NODE_FREE;
    trp_far_end(session, "was never heard");
    tell_gone(session, 0, "was never heard");
}

static void refuse_claim(trp_node_row *row, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "a node that claims to be at %s was not reached there: it %s",
             row->address, why);
    forget_claim(row);
    trp_process_refused(text);
}

void trp_nodes_end(trp_node_row *row, const char *cause)
{
    bool planned = strcmp(cause, TRP_NODES_LEFT) == 0 || strcmp(cause, TRP_NODES_GOODBYE) == 0;
    uint64_t session = row->session;
    if (row->state == TRP_NODE_OPEN) {
        forget_claim(row);
        return;
    }
    snprintf(row->cause, sizeof row->cause, "%s", cause);
    row->state = TRP_NODE_GONE; // After the cause; from here on nothing is sent or taken.
    trp_log(planned ? TRP_INFO : TRP_WARN, "the session with node %s has ended: it %s",
            row->address, cause);
    char lost[112];
    snprintf(lost, sizeof lost, "cannot be reached any more: its node %.70s", cause);
    trp_far_end(session, lost);
    tell_gone(session, 0, lost);
}

void trp_nodes_break_off(trp_node_row *row, const char *cause, const char *told)
{
    uint64_t session = row->session;
    trp_nodes_end(row, cause);
    trp_nodes_say_bye(row->address, session, told);
}

void trp_nodes_end_others(uint32_t id, uint64_t incarnation, const char *address, uint64_t session)
{
    char told[112];
    snprintf(told, sizeof told, "was told that another node has been started at %.64s", address);
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (!trp_nodes_active(row) || row->session == session ||
            (row->id != id && strcmp(row->address, address) != 0))
            continue;
        if (row->state == TRP_NODE_OPEN)
            refuse_claim(row, "is not the one that is there");
        else if (row->id == id && row->incarnation == incarnation)
            trp_nodes_end(row, "has begun a new session");
        else
            trp_nodes_break_off(row, "was started anew", told);
    }
}

// What the log here says, and there.
static void break_for(trp_node_row *row, uint64_t why)
{
    if (why == TRP_BREAK_CROWDED)
        trp_nodes_break_off(row, "has a process more than one of this node can talk with",
                            "has a process that talks with as many of other nodes as it can");
    else if (why == TRP_BREAK_FLOODED)
        trp_nodes_break_off(row, "has sent more than there was room for",
                            "was sent more than it gave room for");
    else
        trp_nodes_break_off(row, "has lost messages on the way", "has missed messages on the way");
}

// The one that joined first, of those in that state; *count: how many there are.
static trp_node_row *oldest(uint32_t state, int *count)
{
    trp_node_row *found = NULL;
    *count = 0;
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (row->state != state)
            continue;
        ++*count;
        if (found == NULL || row->joined < found->joined)
            found = row;
    }
    return found;
}

trp_node_row *trp_nodes_take_row(uint32_t id, uint64_t incarnation)
{
    enum { OPEN_MAX = TRP_NODES_MAX / 2 }; // What anybody may claim takes no more of the table.
    int open, many;
    for (int i = 0; i < TRP_NODES_MAX; i++) { // Its own, which it knows to be over.
        trp_node_row *row = trp_nodes_row(i);
        if (row->state == TRP_NODE_GONE && row->id == id && row->incarnation == incarnation)
            return row;
    }
    trp_node_row *row = NULL, *claim = oldest(TRP_NODE_OPEN, &open);
    if (open < OPEN_MAX)
        row = oldest(TRP_NODE_FREE, &many);
    if (row == NULL && open < OPEN_MAX)
        row = oldest(TRP_NODE_GONE, &many);
    if (row == NULL && claim != NULL)
        refuse_claim(row = claim, "has had to make room for others");
    if (row == NULL)
        (void)troupe_fail(TROUPE_BUSY, "it is joined with %d nodes already", TRP_NODES_MAX);
    return row;
}

void trp_nodes_begin(trp_node_row *row, uint32_t id, const trp_frame *frame, uint64_t session,
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
    nodes.heard_ms[row - trp_nodes_row(0)] = trp_clock_ms();
}

// The other node process hears us from now on.
void trp_nodes_make_link(const trp_node_row *row)
{
    uint32_t process;
    trp_frame beat = {.kind = TRP_FRAME_BEAT};
    if (trp_far_note(row->id, row->session, TRP_PROCESS_NODE, row->incarnation, row->address,
                     &process) != TROUPE_OK ||
        trp_process_send(process, row->incarnation, &beat, 0) != TROUPE_OK)
        trp_log(TRP_ERROR, "node %s cannot be reached: %s", row->address,
                troupe_last_error()->text);
}

// ---- in a session

void trp_nodes_heard(uint64_t session)
{
    pthread_mutex_lock(&trp_nodes_lock);
    trp_node_row *row = nodes.left ? NULL : find_session(session);
    if (row != NULL)
        nodes.heard_ms[row - trp_nodes_row(0)] = trp_clock_ms();
    if (row != NULL && row->state == TRP_NODE_OPEN) {
        trp_nodes_end_others(row->id, row->incarnation, row->address, session);
        row->state = TRP_NODE_LIVE;
        trp_nodes_make_link(row);
        trp_nodes_joined(row);
    }
    pthread_mutex_unlock(&trp_nodes_lock);
}

void trp_nodes_take(const trp_frame *frame)
{
    char cause[112];
    (void)trp_printable_copy(frame->body, frame->body_size, cause, sizeof cause);
    pthread_mutex_lock(&trp_nodes_lock);
    trp_node_row *row = find_session(frame->schema);
    if (row != NULL && frame->method == TRP_NODE_DEATH && frame->target != 0) {
        trp_far_doom(row->session, frame->target, cause);
        tell_gone(row->session, frame->target, cause);
    } else if (row != NULL && frame->method == TRP_NODE_BREAK) {
        break_for(row, frame->call);
    }
    pthread_mutex_unlock(&trp_nodes_lock);
}

void trp_nodes_stale(uint32_t node, uint64_t session)
{
    enum {
        REPEAT_MS = 250
    }; // It may say much before it has heard that, and each takes a connection.
    int64_t now = trp_clock_ms();
    pthread_mutex_lock(&trp_nodes_lock);
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *row = trp_nodes_row(i);
        if (row->state != TRP_NODE_GONE || row->session != session || row->id != node ||
            now - nodes.told_ms[i] < REPEAT_MS)
            continue;
        nodes.told_ms[i] = now;
        trp_nodes_say_bye(row->address, session, "had given this session up");
    }
    pthread_mutex_unlock(&trp_nodes_lock);
}

void trp_nodes_tell_death(uint64_t incarnation, const char *cause)
{
    if (!trp_listens())
        return;
    pthread_mutex_lock(&trp_nodes_lock);
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *row = trp_nodes_row(i);
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
    pthread_mutex_unlock(&trp_nodes_lock);
}

// ---- requests

void trp_nodes_ask(const trp_frame *frame)
{
    char address[2 * TRP_NODE_ADDRESS_MAX], *numeric;
    (void)trp_printable_copy(frame->body, frame->body_size, address, sizeof address);
    numeric = strchr(address, ' ');
    if (numeric != NULL)
        *numeric++ = '\0';
    if (!trp_listens()) {
        trp_request_refuse(frame, troupe_fail(TROUPE_INVALID,
                                              "this node cannot join others: it was started "
                                              "without .listen"));
        return;
    }
    pthread_mutex_lock(&trp_nodes_lock);
    trp_node_row *row = find_address(address);
    if (frame->method == TRP_ASK_JOIN) {
        trp_nodes_ask_join(frame, address, numeric != NULL ? numeric : "");
    } else if (row != NULL) {
        trp_nodes_break_off(row, TRP_NODES_LEFT, TRP_NODES_GOODBYE);
        trp_request_answer(frame, &(trp_frame){.status = TROUPE_OK});
    } else {
        trp_request_refuse(
            frame, troupe_fail(TROUPE_NOT_FOUND, "there is no session with a node at %s", address));
    }
    pthread_mutex_unlock(&trp_nodes_lock);
}

void trp_nodes_leave_all(void)
{
    pthread_mutex_lock(&trp_nodes_lock);
    nodes.left = true;
    for (int i = 0; i < TRP_NODES_MAX; i++)
        if (trp_nodes_active(trp_nodes_row(i)))
            trp_nodes_break_off(trp_nodes_row(i), TRP_NODES_LEFT, TRP_NODES_GOODBYE);
    pthread_mutex_unlock(&trp_nodes_lock);
}

// ---- what is due

static void tick_rows(int64_t now, int64_t *next)
{
    int64_t timeout = trp_self.options.node_timeout_ms, period = timeout / TRP_FAR_BEATS;
    // Who was stopped for a while was deaf: what the others said meanwhile may not have been read.
    bool was_away = nodes.last_tick_ms != 0 && now - nodes.last_tick_ms > 2 * period;
    bool any = false;
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = trp_nodes_row(i);
        if (!trp_nodes_active(row))
            continue;
        any = true;
        if (was_away)
            nodes.heard_ms[i] = now;
        if (now - nodes.heard_ms[i] <= timeout)
            continue;
        if (row->state == TRP_NODE_OPEN) {
            refuse_claim(row, "was silent");
        } else {
            char cause[64];
            snprintf(cause, sizeof cause, "was silent for %d ms", (int)timeout);
            trp_nodes_break_off(row, cause, "had heard nothing for too long");
        }
    }
    nodes.last_tick_ms = any ? now : 0;
    if (any && (*next < 0 || now + period < *next))
        *next = now + period;
}

int trp_nodes_tick(void)
{
    int64_t now = trp_clock_ms(), next = -1;
    pthread_mutex_lock(&trp_nodes_lock);
    trp_nodes_tick_joins(now, &next);
    tick_rows(now, &next);
    pthread_mutex_unlock(&trp_nodes_lock);
    return next < 0 ? -1 : next <= now ? 0 : (int)(next - now);
}
