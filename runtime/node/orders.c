// orders.c: see orders.h.
#include <runtime/node/orders.h>

#include <errno.h>
#include <poll.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Of all that wait. Of a process there are two at most: to start it and to kill it.
enum { BYTES_MAX = 4 << 20 };

typedef struct waiting {
    struct waiting *next;
    size_t size; // Of the message, or what there is room for.
    unsigned char message[];
} waiting;

static struct {
    int keeper;
    size_t bytes; // Of those that wait.
    waiting *first, **last;
    waiting *reserve;                   // NULL: none.
    uint64_t killed[TRP_PROCESSES_MAX]; // By slot: the last incarnation whose end was ordered.
} orders TRP_VAST;

void trp_orders_open(int keeper)
{
    orders.keeper = keeper;
    orders.last = &orders.first;
}

static troupe_status reserve(size_t size)
{
    if (orders.reserve != NULL && orders.reserve->size >= size)
        return TROUPE_OK;
    trp_free(orders.reserve);
    orders.reserve = trp_alloc(sizeof *orders.reserve + size);
    if (orders.reserve == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an order to the node's keeper");
    orders.reserve->size = size;
    return TROUPE_OK;
}

troupe_status trp_order_reserve(const char *env, const char *folder)
{
    const char *common = trp_self.options.worker_env, *home = trp_self.options.worker_folder;
    size_t size = sizeof(trp_order) + strlen(env) + strlen(folder) + 3;
    size += (common != NULL ? strlen(common) : 0) + (home != NULL ? strlen(home) : 0);
    int keeper = getppid();
    if (orders.first != NULL && orders.bytes + size > BYTES_MAX)
        return troupe_fail(
            TROUPE_BUSY, "the node's keeper (pid %d) takes no orders, and %d MiB of them wait%s",
            keeper, BYTES_MAX >> 20, trp_process_is_stopped(keeper) ? ": it is stopped" : "");
    return reserve(size);
}

// False: there is no room now. A keeper that has gone ends the node: it has what it wants.
static bool send_now(const void *message, size_t size)
{
    ssize_t sent;
    do
        sent = send(orders.keeper, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent >= 0 || errno != EAGAIN;
}

// Sends it, or keeps a copy that is sent later, behind those that wait.
static troupe_status send_order(const void *message, size_t size)
{
    if (trp_orders_flush() && send_now(message, size))
        return TROUPE_OK;
    TROUPE_TRY(reserve(size));
    waiting *it = orders.reserve;
    orders.reserve = NULL;
    it->next = NULL;
    it->size = size;
    memcpy(it->message, message, size);
    *orders.last = it;
    orders.last = &it->next;
    orders.bytes += size;
    return TROUPE_OK;
}

void trp_order_give(trp_order_kind kind, uint32_t slot, uint64_t incarnation)
{
    trp_order message = {.kind = kind, .slot = slot, .incarnation = incarnation};
    if (kind == TRP_ORDER_KILL && orders.killed[slot] == incarnation)
        return;
    if (send_order(&message, sizeof message) != TROUPE_OK)
        trp_log(TRP_ERROR, "process %u is not ended: %s", slot, troupe_last_error()->text);
    else if (kind == TRP_ORDER_KILL)
        orders.killed[slot] = incarnation;
}

void trp_order_start(uint32_t slot, uint64_t incarnation, bool isolated, const char *env,
                     const char *folder)
{
    static trp_start_order message TRP_VAST;
    const char *common = trp_self.options.worker_env, *home = trp_self.options.worker_folder;
    message.order = (trp_order){
        .kind = TRP_ORDER_START, .slot = slot, .incarnation = incarnation, .isolated = isolated};
    if (folder[0] == '\0' && home != NULL)
        folder = home;
    int used =
        snprintf(message.text, sizeof message.text, "%s\n%s", common != NULL ? common : "", env) +
        1;
    used += snprintf(message.text + used, sizeof message.text - (size_t)used, "%s", folder) + 1;
    (void)send_order(&message, sizeof message.order + (size_t)used); // It is reserved.
}

bool trp_orders_flush(void)
{
    while (orders.first != NULL) {
        waiting *it = orders.first;
        if (!send_now(it->message, it->size))
            return false;
        orders.first = it->next;
        if (orders.first == NULL)
            orders.last = &orders.first;
        orders.bytes -= it->size;
        trp_free(it);
    }
    return true;
}

void trp_orders_finish(void)
{
    struct pollfd keeper = {.fd = orders.keeper, .events = POLLOUT};
    while (!trp_orders_flush())
        (void)poll(&keeper, 1, -1);
}
