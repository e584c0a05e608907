// cluster.c: what a program asks about other nodes (troupe/node.h), and finding their processes.
#include <runtime/remote/cluster.h>

#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/link/ask.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/link/request.h>
#include <runtime/link/resolve.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/remote_table.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <stdio.h>
#include <string.h>
#include <troupe/node.h>

static troupe_status check_address(const char *address)
{
    const char *port = address != NULL ? strrchr(address, ':') : NULL;
    if (port == NULL || port == address || port[1] == '\0' ||
        strlen(address) >= TRP_NODE_ADDRESS_MAX)
        return troupe_fail(
            TROUPE_INVALID,
            "'%.64s' is not an address of a node: expected \"host:port\" of at most %d characters",
            address != NULL ? address : "(null)", TRP_NODE_ADDRESS_MAX - 1);
    return TROUPE_OK;
}

static troupe_status ask_address(trp_ask what, const char *address)
{
    trp_node_request mine = {.until_ns = trp_clock_ns() +
                                         (int64_t)trp_self.options.request_timeout_ms * 1000000,
                             .joins = what == TRP_ASK_JOIN};
    if (mine.joins)
        mine.until_ns +=
            (int64_t)TRP_REQUEST_FAR_TIMEOUTS * trp_self.options.node_timeout_ms * 1000000;
    trp_frame frame = {.method = what, .body = address, .body_size = strlen(address)};
    return trp_request_ask_patiently(&frame, &mine);
}

const char *troupe_node_address(void)
{
    return trp_process_running() && trp_listens() ? trp_segment_nodes()->address : "";
}

troupe_status troupe_node_join(const char *address)
{
    TRP_REQUIRE(address);
    char numeric[TRP_NODE_ADDRESS_MAX] = "";
    TROUPE_TRY(check_address(address));
    if (trp_process_running() && trp_listens()) // Else there is nothing to be looked up for.
        TROUPE_TRY(trp_address_resolve("the address of a node to join", address, false,
                                       trp_self.options.node_timeout_ms, numeric));
    char both[2 * TRP_NODE_ADDRESS_MAX];
    snprintf(both, sizeof both, "%s %s", address, numeric);
    return ask_address(TRP_ASK_JOIN, both);
}

troupe_status troupe_node_leave(const char *address)
{
    TRP_REQUIRE(address);
    TROUPE_TRY(check_address(address));
    return ask_address(TRP_ASK_LEAVE, address);
}

// Whether it is the last that is known of its address. Who has not been heard there yet may be
// anybody.
static bool is_news(const trp_node_row *row)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row other;
        uint64_t session = trp_segment_nodes()->rows[i].session;
        if (session != 0 && session != row->session && trp_node_row_of_session(session, &other) &&
            strcmp(other.address, row->address) == 0 && other.state != TRP_NODE_OPEN &&
            other.joined > row->joined)
            return false;
    }
    return row->state != TRP_NODE_OPEN;
}

size_t(troupe_nodes_list)(troupe_node_info *list, size_t most, size_t size)
{
    TRP_USE_SEGMENT(0);
    if (list == NULL)
        most = 0; // Only how many there are.
    size_t count = 0;
    if (!trp_process_running())
        return 0;
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row row;
        uint64_t session = trp_segment_nodes()->rows[i].session;
        if (session == 0 || !trp_node_row_of_session(session, &row) || !is_news(&row))
            continue;
        if (count < most) {
            troupe_node_info it = {.joined = row.state == TRP_NODE_LIVE};
            snprintf(it.address, sizeof it.address, "%s", row.address);
            snprintf(it.cause, sizeof it.cause, "%s", row.cause);
            trp_output_give((unsigned char *)list + count * size, size, &it, sizeof it);
        }
        count++;
    }
    return count;
}

troupe_status(troupe_stats_get)(troupe_stats *stats, size_t size)
{
    TRP_REQUIRE(stats);
    troupe_stats now = {.frames_refused = trp_process_refusals()};
    if (trp_process_running())
        now.strangers_refused = trp_segment_nodes()->strangers;
    trp_output_give(stats, size, &now, sizeof now);
    return TROUPE_OK;
}

size_t trp_node_joined(const char *address, uint32_t *list, size_t most)
{
    size_t count = 0;
    uint64_t joined[TRP_NODES_MAX];
    for (int i = 0; trp_listens() && i < TRP_NODES_MAX && count < most; i++) {
        trp_node_row row;
        uint64_t session = trp_segment_nodes()->rows[i].session;
        if (session == 0 || !trp_node_row_of_session(session, &row) || row.state != TRP_NODE_LIVE ||
            (address != NULL && !trp_node_row_is_at(&row, address)))
            continue;
        size_t at = count++; // Sorted in, by when it was joined.
        for (; at > 0 && joined[at - 1] > row.joined; at--) {
            joined[at] = joined[at - 1];
            list[at] = list[at - 1];
        }
        joined[at] = row.joined;
        list[at] = row.id;
    }
    return count;
}

// ---- finding processes

uint32_t trp_process_node_id(void)
{
    TRP_USE_SEGMENT(0);
    return trp_listens() ? (uint32_t)trp_segment_nodes()->id : 0;
}

static bool is_here(uint32_t node)
{
    return node == 0 || node == trp_process_node_id();
}

static troupe_status unreachable(uint32_t node)
{
    TRP_USE_SEGMENT(trp_use_refused());
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *row = &trp_segment_nodes()->rows[i];
        if (row->id == node && row->state == TRP_NODE_GONE)
            return troupe_fail(
                TROUPE_NOT_EXECUTED,
                "node %s cannot be reached any more: it %s; troupe_node_join it again",
                row->address, row->cause);
    }
    return troupe_fail(TROUPE_NOT_EXECUTED, "node %08x is not joined with this one", node);
}

troupe_status trp_node_process(uint32_t node, uint32_t *process, uint64_t *incarnation)
{
    trp_node_row row;
    if (!trp_node_row_of(node, TRP_NODE_LIVE, &row))
        return unreachable(node);
    *incarnation = row.incarnation;
    return trp_far_note(node, row.session, TRP_PROCESS_NODE, row.incarnation, row.address, process);
}

troupe_status trp_request_ask_far(uint32_t node, trp_frame *frame, trp_node_request *mine)
{
    uint64_t incarnation = 0;
    int64_t limit_ms = (int64_t)TRP_REQUEST_FAR_TIMEOUTS * trp_self.options.node_timeout_ms;
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    troupe_status status = trp_node_process(node, &mine->process, &incarnation);
    if (status == TROUPE_OK) {
        frame->kind = TRP_FRAME_ASK;
        frame->call = trp_request_enlist(mine);
        status = trp_process_send(mine->process, incarnation, frame, 0);
        mine->until_ns = trp_request_sooner(trp_clock_ns() + limit_ms * 1000000);
        if (status == TROUPE_OK)
            status = trp_request_await(mine, TROUPE_OK);
        else
            trp_request_unlist(mine);
    }
    trp_process_leave();
    return status;
}

// Asks another node where a process of it can be reached.
static troupe_status where_is(uint32_t node, uint32_t slot, uint64_t incarnation,
                              char address[TRP_NODE_ADDRESS_MAX])
{
    trp_node_request mine = {0};
    trp_frame frame = {.method = TRP_ASK_WHERE, .target = slot, .schema = incarnation};
    TROUPE_TRY(trp_request_ask_far(node, &frame, &mine));
    if (!trp_address_read(mine.value, mine.value_size, address)) // Nobody here looks up names.
        return troupe_fail(TROUPE_MALFORMED, "another node's answer is not a numeric address");
    return TROUPE_OK;
}

bool trp_process_find_waits(uint32_t node, uint32_t slot, uint64_t incarnation)
{
    trp_node_row row;
    return !is_here(node) && trp_node_row_of(node, TRP_NODE_OPEN, &row) &&
           trp_far_number(node, slot, row.session, incarnation) == 0;
}

troupe_status trp_process_find(uint32_t node, uint32_t slot, uint64_t incarnation,
                               uint32_t *process)
{
    char address[TRP_NODE_ADDRESS_MAX];
    trp_node_row row;
    if (is_here(node)) {
        *process = slot;
        return TROUPE_OK;
    }
    if (!trp_node_row_of(node, TRP_NODE_OPEN, &row))
        return unreachable(node);
    *process = trp_far_number(node, slot, row.session, incarnation);
    if (*process != 0)
        return TROUPE_OK;
    TROUPE_TRY(where_is(node, slot, incarnation, address));
    return trp_far_note(node, row.session, slot, incarnation, address, process);
}
