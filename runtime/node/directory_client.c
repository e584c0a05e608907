// directory_client.c: requests about names, to the own node process and to those of other nodes.
#include <runtime/node/directory_client.h>

#include <runtime/base/error.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/ask.h>
#include <runtime/link/request.h>
#include <runtime/node/node_client.h>
#include <runtime/remote/cluster.h>
#include <runtime/shm/process_table.h>
#include <string.h>

static troupe_status check_name(const char *name)
{
    size_t size = name == NULL ? 0 : strnlen(name, TRP_NAME_MAX + 1);
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._/-";
    if (size < 1 || size > TRP_NAME_MAX || strspn(name, allowed) != size)
        return troupe_fail(
            TROUPE_INVALID,
            "'%.64s' is not a valid name: expected 1 to %d characters of [A-Za-z0-9._/-]",
            name == NULL ? "(null)" : name, TRP_NAME_MAX);
    return TROUPE_OK;
}

static void write_name(trp_buffer *body, const char *name, const void *value, size_t size)
{
    trp_write_array(body, 2);
    trp_write_text(body, name);
    trp_write_bytes(body, value, size);
}

// Has the node process drop the name: always, or if the request of that number has put it there.
// Whatever this process asks afterwards comes after it.
static void tell_drop(const char *name, uint64_t number)
{
    trp_buffer body = {0};
    write_name(&body, name, "", 0);
    trp_frame frame = {
        .method = TRP_ASK_NAME_DROP, .target = number, .body = body.data, .body_size = body.size};
    if (!body.failed)
        trp_request_tell(&frame);
    trp_buffer_free(&body);
}

// Sends a request about a name, with a value (NULL: none) behind it.
static troupe_status ask_name(trp_ask what, const char *name, const void *value, size_t size,
                              trp_node_request *mine)
{
    trp_buffer body = {0};
    write_name(&body, name, value, size);
    trp_frame frame = {.method = what, .body = body.data, .body_size = body.size};
    troupe_status status = body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a name")
                                       : trp_request_ask(&frame, mine);
    trp_buffer_free(&body);
    return status;
}

troupe_status trp_node_name_put(const char *name, const void *value, size_t size)
{
    TROUPE_TRY(check_name(name));
    if (size > TRP_NAMED_VALUE_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "a named value of %zu bytes is above the limit of %d",
                           size, TRP_NAMED_VALUE_MAX);
    trp_node_request mine = {0};
    troupe_status status = ask_name(TRP_ASK_NAME_PUT, name, value, size, &mine);
    if (status == TROUPE_DEADLINE_EXCEEDED && !mine.done) { // It may be obeyed still.
        troupe_error kept;
        trp_error_hold(&kept);
        tell_drop(name, mine.number);
        trp_error_restore(&kept);
    }
    return status;
}

// A request's answer has room for more than a named value has, and the caller for that alone.
static troupe_status take_named(const trp_node_request *mine, void *value, size_t *size)
{
    if (mine->value_size > TRP_NAMED_VALUE_MAX)
        return troupe_fail(TROUPE_CORRUPT,
                           "a node answered with a named value of %zu bytes, expected at most %d",
                           mine->value_size, TRP_NAMED_VALUE_MAX);
    memcpy(value, mine->value, mine->value_size);
    *size = mine->value_size;
    return TROUPE_OK;
}

troupe_status trp_node_name_get(const char *name, void *value, size_t *size)
{
    TROUPE_TRY(check_name(name));
    trp_node_request mine = {0};
    TROUPE_TRY(ask_name(TRP_ASK_NAME_GET, name, "", 0, &mine));
    return take_named(&mine, value, size);
}

troupe_status trp_node_name_get_far(uint32_t node, const char *name, void *value, size_t *size)
{
    trp_buffer body = {0};
    trp_node_request mine = {0};
    TROUPE_TRY(check_name(name));
    write_name(&body, name, "", 0);
    trp_frame frame = {.method = TRP_ASK_NAME_GET, .body = body.data, .body_size = body.size};
    troupe_status status = body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a name")
                                       : trp_request_ask_far(node, &frame, &mine);
    trp_buffer_free(&body);
    TROUPE_TRY(status);
    return take_named(&mine, value, size);
}

void trp_node_name_drop(const char *name)
{
    trp_node_request mine = {0};
    if (check_name(name) != TROUPE_OK)
        return;
    // The answer is waited for so that the name is free in all processes when this returns. Actors
    // that end one after another while the node process is stopped do not wait for it in turn.
    if (!trp_self.local && trp_process_is_stopped(trp_process_pid(TRP_PROCESS_NODE)))
        tell_drop(name, 0);
    else
        (void)ask_name(TRP_ASK_NAME_DROP, name, "", 0, &mine);
}
