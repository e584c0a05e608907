// server_stop.c: has processes ended by their node's node process.
#include <runtime/node/server_stop.h>

#include <runtime/link/ask.h>
#include <runtime/link/peer.h>
#include <runtime/link/request.h>
#include <runtime/node/node_client.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/remote_table.h>
#include <runtime/shm/process_table.h>

// The node of a process of another one, and its slot there into the frame; false: it is lost, with
// its node.
static bool place_far(uint32_t process, trp_frame *frame, uint32_t *node)
{
    char address[TRP_NODE_ADDRESS_MAX];
    uint32_t slot;
    uint64_t session;
    trp_node_row row;
    if (!trp_far_place(process, &slot, &session, address) ||
        !trp_node_row_of_session(session, &row))
        return false;
    frame->target = slot;
    *node = row.id;
    return true;
}

troupe_status trp_node_kill(uint32_t process, uint64_t incarnation, const char *cause)
{
    trp_node_request mine = {0};
    uint32_t node;
    trp_frame frame = trp_request_kill(process, incarnation, cause);
    if (!trp_process_is_far(process))
        return trp_request_ask(&frame, &mine);
    return place_far(process, &frame, &node) ? trp_request_ask_far(node, &frame, &mine) : TROUPE_OK;
}

static troupe_status end_far(uint32_t process, trp_frame *frame)
{
    uint32_t node, node_process;
    uint64_t there;
    if (!place_far(process, frame, &node))
        return TROUPE_OK;
    frame->kind = TRP_FRAME_ASK;
    TROUPE_TRY(trp_node_process(node, &node_process, &there));
    return trp_process_send(node_process, there, frame, 0);
}

troupe_status trp_node_end(uint32_t process, uint64_t incarnation, const char *cause)
{
    trp_frame frame = trp_request_kill(process, incarnation, cause);
    TROUPE_TRY(trp_process_check());
    if (!trp_process_try_enter())
        return troupe_fail(TROUPE_NOT_STARTED, "the runtime is being stopped");
    troupe_status status =
        trp_process_is_far(process) ? end_far(process, &frame) : trp_request_send(&frame);
    trp_process_leave();
    return status;
}
