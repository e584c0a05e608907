// sessionless.c: what is sent outside of sessions (see remote/remote_carrier.h). It goes to the
// address that a peer claims, so a peer with the cluster's keys can have this node send to any
// address, one without a reader for example. So connections for that are few, take so many
// messages, and are gone after a second, whether those have left or not.
#include <runtime/remote/sessionless.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/zmq_remote.h>
#include <runtime/remote/cluster.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum {
    WAYS_MAX = 256,
    WAYS_LEAST = 8,
    FRESH_MS = 250,     // So long one takes what is said to its address;
    KEPT_MS = 1000,     // what was said has until then to leave.
    MESSAGES_MAX = 256, // That one takes.
};

typedef struct way {
    trp_outbound *out; // NULL: free.
    int64_t began_ms;
    uint32_t said;
    char address[TRP_NODE_ADDRESS_MAX];
} way;

static struct {
    pthread_mutex_t lock;
    trp_buffer bytes;
    way ways[WAYS_MAX];
} loose TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t ways_most(void)
{
    int descriptors; // 80 % of them.
    (void)trp_connections_most(&descriptors);
    int most = descriptors / 20;
    return (uint32_t)(most > WAYS_MAX ? WAYS_MAX : most < WAYS_LEAST ? WAYS_LEAST : most);
}

// Closes those whose time is over, and returns the ms until the next is due; -1: there is none.
static int close_old(int64_t now, uint32_t *used)
{
    int64_t next = -1;
    *used = 0;
    for (int i = 0; i < WAYS_MAX; i++) {
        way *it = &loose.ways[i];
        if (it->out == NULL)
            continue;
        int64_t left = it->began_ms + KEPT_MS - now;
        if (left <= 0) {
            trp_outbound_close(it->out, 0);
            it->out = NULL;
            continue;
        }
        ++*used;
        next = next < 0 || left < next ? left : next;
    }
    return (int)next;
}

// The connection for what is said now; NULL, with the last error set: there is no room.
static way *way_to(const char *address, bool answers, bool *fresh)
{
    uint32_t used, most = ways_most();
    int64_t now = trp_clock_ms();
    way *unused = NULL;
    (void)close_old(now, &used);
    *fresh = false;
    for (int i = 0; i < WAYS_MAX; i++) {
        way *it = &loose.ways[i];
        if (it->out == NULL) {
            unused = it;
        } else if (now - it->began_ms < FRESH_MS && strcmp(it->address, address) == 0) {
            if (it->said < MESSAGES_MAX)
                return it;
            (void)troupe_fail(TROUPE_BUSY, "%d answers to %s are on their way", MESSAGES_MAX,
                              address);
            return NULL;
        }
    }
    if (used >= (answers ? most / 4 * 3 : most) || unused == NULL) {
        (void)troupe_fail(TROUPE_BUSY, "answers to %u nodes are on their way", used);
        return NULL;
    }
    *fresh = true;
    *unused = (way){.out = trp_far_outbound_open(address), .began_ms = now};
    snprintf(unused->address, sizeof unused->address, "%s", address);
    return unused->out != NULL ? unused : NULL;
}

void trp_far_send_loose(const char *address, trp_frame *frame, bool answers)
{
    trp_envelope envelope = {.node = trp_process_node_id()};
    bool fresh;
    troupe_status status = TROUPE_NO_MEMORY;
    frame->from = trp_self.slot;
    frame->from_incarnation = trp_self.incarnation;
    pthread_mutex_lock(&loose.lock);
    way *it = way_to(address, answers, &fresh);
    if (it != NULL) {
        it->said++;
        loose.bytes.size = 0;
        trp_envelope_write(&envelope, &loose.bytes);
        trp_frame_write(frame, &loose.bytes);
        if (!loose.bytes.failed)
            status = trp_outbound_send(it->out, &loose.bytes);
        if (status != TROUPE_OK)
            trp_buffer_free(&loose.bytes);
    }
    pthread_mutex_unlock(&loose.lock);
    if (it == NULL || status != TROUPE_OK)
        trp_process_refused(it == NULL ? troupe_last_error()->text : "it could not be answered");
    if (it != NULL && fresh)
        trp_far_wake(); // It is closed in time.
}

int trp_far_tick_loose(void)
{
    uint32_t used;
    pthread_mutex_lock(&loose.lock);
    int next = close_old(trp_clock_ms(), &used);
    pthread_mutex_unlock(&loose.lock);
    return next;
}

void trp_far_close_loose(void)
{
    pthread_mutex_lock(&loose.lock);
    for (int i = 0; i < WAYS_MAX; i++) {
        if (loose.ways[i].out != NULL)
            trp_outbound_close(loose.ways[i].out, KEPT_MS); // Goodbyes.
        loose.ways[i].out = NULL;
    }
    trp_buffer_free(&loose.bytes);
    pthread_mutex_unlock(&loose.lock);
}
