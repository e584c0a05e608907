// node_client.c: what a process asks of its node's node process (see node_client.h): workers and
// claims. Names are asked for in node/directory_client.c.
#include <runtime/node/node_client.h>

#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/ask.h>
#include <runtime/link/request.h>
#include <runtime/node/worker_start.h>
#include <runtime/shm/process_table.h>
#include <string.h>

// Waits until the worker that the node has named is ready. Inside the gate.
static troupe_status await_worker(const trp_node_request *mine, int64_t until_ns, uint32_t *process,
                                  uint64_t *incarnation)
{
    uint32_t slot = (uint32_t)mine->target;
    troupe_status status = trp_worker_await(slot, mine->schema, until_ns);
    if (status == TROUPE_OK) {
        *process = slot;
        *incarnation = mine->schema;
    } else if (mine->starts && status == TROUPE_DEADLINE_EXCEEDED) {
        trp_request_end(slot, mine->schema, "was ended: it did not start in time");
    }
    return status;
}

troupe_status trp_node_worker(bool isolated, uint32_t *process, uint64_t *incarnation)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    trp_node_request mine = {.until_ns = trp_request_until(), .starts = isolated};
    trp_frame frame = {.method = TRP_ASK_WORKER, .target = isolated};
    troupe_status status = trp_request_ask_inside(&frame, &mine);
    if (status == TROUPE_OK)
        status = await_worker(&mine, trp_request_limited_until(), process, incarnation);
    trp_process_leave();
    return status;
}

static void write_want(const trp_want *want, trp_buffer *body)
{
    trp_write_array(body, 8);
    trp_write_uint(body, (uint64_t)want->cpus);
    trp_write_uint(body, (uint64_t)want->gpus);
    trp_write_uint(body, (uint64_t)want->memory_bytes);
    trp_write_text(body, want->resources);
    trp_write_uint(body, want->wait_ms);
    trp_write_text(body, want->who);
    trp_write_bool(body, want->patient);
    trp_write_uint(body, want->limit_ms);
}

troupe_status trp_node_worker_begin(const char *env, const char *folder, trp_worker_ask *ask)
{
    int64_t begun_ns = trp_clock_ns();
    trp_node_request *mine = trp_alloc(sizeof *mine);
    trp_buffer body = {0};
    trp_frame frame = {.method = TRP_ASK_WORKER, .target = true};
    if (env != NULL || folder != NULL) {
        trp_write_array(&body, 2);
        trp_write_text(&body, env);
        trp_write_text(&body, folder);
        frame.body = body.data;
        frame.body_size = body.size;
    }
    troupe_status status = mine == NULL || body.failed
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a request")
                               : trp_request_begin(mine, &frame);
    trp_buffer_free(&body);
    if (status == TROUPE_OK) {
        mine->until_ns = begun_ns + (int64_t)trp_self.options.request_timeout_ms * 1000000;
        mine->starts = true;
        ask->request = mine;
        return TROUPE_OK;
    }
    if (frame.call != 0)
        trp_request_unlist(mine);
    trp_free(mine);
    return status;
}

troupe_status trp_node_worker_end(trp_worker_ask *ask, uint32_t *process, uint64_t *incarnation)
{
    trp_node_request *mine = ask->request;
    troupe_status status = trp_process_enter();
    ask->request = NULL;
    if (status == TROUPE_OK) {
        mine->until_ns = trp_request_sooner(mine->until_ns);
        status = trp_request_await(mine, TROUPE_OK);
        if (status == TROUPE_OK)
            status = await_worker(mine, trp_request_limited_until(), process, incarnation);
        trp_process_leave();
    } else {
        trp_request_unlist(mine);
    }
    trp_free(mine);
    return status;
}

troupe_status trp_node_claim_begin(const trp_want *want, trp_request_told *claimed, void *user,
                                   uint64_t *number)
{
    trp_buffer body = {0};
    trp_node_request *mine = trp_alloc(sizeof *mine);
    write_want(want, &body);
    if (mine == NULL || body.failed) {
        trp_buffer_free(&body);
        trp_free(mine);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim");
    }
    mine->claimed = claimed;
    mine->user = user;
    trp_frame frame = {.method = TRP_ASK_CLAIM, .body = body.data, .body_size = body.size};
    troupe_status status = trp_request_begin(mine, &frame);
    trp_buffer_free(&body);
    *number = frame.call;
    if (status != TROUPE_OK && *number != 0)
        trp_node_claim_abandon(*number);
    else if (status != TROUPE_OK)
        trp_free(mine);
    return status;
}

// The node need not answer it any more.
static void abandon(uint64_t number)
{
    trp_frame frame = {.method = TRP_ASK_CLAIM_DROP, .schema = number};
    trp_request_tell(&frame);
}

void trp_node_claim_abandon(uint64_t number)
{
    if (trp_request_abandon(number))
        abandon(number);
}

troupe_status trp_node_claim(const trp_want *want, uint64_t *claim, char gpus[TRP_CLAIM_GPUS_MAX])
{
    trp_buffer body = {0};
    trp_node_request mine = {.until_ns = trp_request_limited_until(), .tells = true};
    write_want(want, &body);
    trp_frame frame = {.method = TRP_ASK_CLAIM, .body = body.data, .body_size = body.size};
    troupe_status status = body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim")
                                       : trp_request_ask_patiently(&frame, &mine);
    trp_buffer_free(&body);
    if (status == TROUPE_DEADLINE_EXCEEDED && !mine.done)
        abandon(frame.call);
    TROUPE_TRY(status);
    *claim = mine.target;
    memcpy(gpus, mine.value, mine.value_size);
    gpus[mine.value_size < TRP_CLAIM_GPUS_MAX ? mine.value_size : TRP_CLAIM_GPUS_MAX - 1] = '\0';
    return TROUPE_OK;
}

troupe_status trp_node_claim_give(uint64_t claim, uint32_t process, uint64_t incarnation)
{
    trp_buffer body = {0};
    trp_write_uint(&body, process);
    trp_node_request mine = {0};
    trp_frame frame = {.method = TRP_ASK_CLAIM_GIVE,
                       .target = claim,
                       .schema = incarnation,
                       .body = body.data,
                       .body_size = body.size};
    troupe_status status = body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim")
                                       : trp_request_ask(&frame, &mine);
    trp_buffer_free(&body);
    return status;
}

void trp_node_claim_drop(uint64_t claim)
{
    trp_frame frame = {.method = TRP_ASK_CLAIM_DROP, .target = claim};
    trp_request_tell(&frame);
}

troupe_status trp_node_claims(trp_buffer *list)
{
    trp_node_request mine = {.whole = list};
    trp_frame frame = {.method = TRP_ASK_CLAIM_LIST};
    TROUPE_TRY(trp_request_ask(&frame, &mine));
    return list->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a list") : TROUPE_OK;
}

troupe_status trp_node_stop(int64_t left_ms)
{
    trp_frame frame = {.method = TRP_ASK_STOP, .schema = (uint64_t)left_ms};
    return trp_request_send(&frame);
}
