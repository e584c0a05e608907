// zmq_remote.c: the sockets towards other nodes (see link/zmq.h): a context of their own, since
// its doorman knows another key. libzmq is given numbers alone: it would look a name up on the
// thread that moves all messages.
#include <runtime/link/zmq_remote.h>

#include <netinet/in.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/link/resolve.h>
#include <runtime/link/zmq_internal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RECONNECT_MAX_MS = 500 }; // Another node may be away for long.

static struct {
    void *context, *inbound;
    int inbound_fd, wake_fd;
    size_t message_bytes_max;
    trp_doorman doorman; // With the cluster's keys.
} far = {.inbound_fd = -1, .wake_fd = -1};

static troupe_status bind_far(const trp_far_how *how, char endpoint[TRP_ENDPOINT_MAX])
{
    char wanted[TRP_ENDPOINT_MAX + 8], bound[TRP_ENDPOINT_TEXT];
    size_t size = sizeof bound;
    far.doorman.strangers = how->strangers;
    far.message_bytes_max = how->message_bytes_max;
    TROUPE_TRY(trp_doorman_start(&far.doorman, far.context, far.inbound, how->keys_path));
    trp_inbound_set_up(far.inbound, how->message_bytes_max, TRP_PART_MAX);
    snprintf(wanted, sizeof wanted, "tcp://%s", how->address);
    if (trp_zmq.bind(far.inbound, wanted) != 0 ||
        trp_zmq.getsockopt(far.inbound, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        return trp_zmq_failed("cannot listen at", how->address);
    trp_doorman_at(&far.doorman, bound);
    snprintf(endpoint, TRP_ENDPOINT_MAX, "%.*s", TRP_ENDPOINT_MAX - 1, bound + strlen("tcp://"));
    if (!trp_address_is_numeric(endpoint))
        return troupe_fail(TROUPE_INVALID,
                           "listening at %s has bound %s: expected the address of one machine",
                           how->address, endpoint);
    size = sizeof far.inbound_fd;
    (void)trp_zmq.getsockopt(far.inbound, ZMQ_FD, &far.inbound_fd, &size);
    return TROUPE_OK;
}

troupe_status trp_far_transport_open(const trp_far_how *how, char endpoint[TRP_ENDPOINT_MAX])
{
    troupe_status status =
        trp_context_begin(how->address, &far.context, &far.inbound, &far.wake_fd);
    if (status == TROUPE_OK)
        status = bind_far(how, endpoint);
    if (status != TROUPE_OK)
        trp_far_transport_close();
    return status;
}

void trp_far_transport_close(void)
{
    trp_context_end(far.context, far.inbound, &far.doorman);
    if (far.wake_fd >= 0)
        close(far.wake_fd);
    far.inbound = far.context = NULL;
    far.inbound_fd = far.wake_fd = -1;
}

void trp_far_transport_wait(int timeout_ms)
{
    struct pollfd items[2] = {{.fd = far.inbound_fd, .events = POLLIN},
                              {.fd = far.wake_fd, .events = POLLIN}};
    if (poll(items, 2, timeout_ms) > 0 && items[1].revents != 0)
        (void)eventfd_read(far.wake_fd, &(eventfd_t){0});
}

void trp_far_transport_wake(void)
{
    (void)eventfd_write(far.wake_fd, 1);
}

bool trp_far_transport_receive(trp_take *take)
{
    return trp_inbound_receive(far.inbound, far.message_bytes_max, take);
}

trp_outbound *trp_far_outbound_open(const char *address)
{
    char endpoint[TRP_ENDPOINT_MAX + 8];
    if (!trp_address_is_numeric(address)) {
        (void)troupe_fail(TROUPE_INVALID, "'%.64s' is not a numeric address of a node", address);
        return NULL;
    }
    trp_outbound *outbound = trp_outbound_make(far.context, address, TRP_PART_MAX);
    if (outbound == NULL)
        return NULL;
    trp_zmq_set(trp_outbound_socket(outbound), ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    snprintf(endpoint, sizeof endpoint, "tcp://%s", address);
    if (!trp_doorman_client(&far.doorman, trp_outbound_socket(outbound)))
        (void)trp_zmq_failed("cannot encrypt messages to", address);
    else if (trp_zmq.connect(trp_outbound_socket(outbound), endpoint) == 0)
        return outbound;
    else
        (void)trp_zmq_failed("cannot connect to", address);
    trp_outbound_close(outbound, 0);
    return NULL;
}
