// remote_table.c: which process of which other node has which number here (see
// remote/remote_carrier.h), and what the segment says of other nodes.
//
// A process has a number for each session with its node: so what the end of the last one takes
// along is known even if the next has begun already. Numbers of dead processes are reused: a thread
// that still knows one also knows the old incarnation, or waits for nothing any more.
#include <runtime/remote/remote_table.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/link/dispatch.h>
#include <runtime/remote/remote_carrier.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum {
    DOOM_MS = 50,     // The last frames of who died may come so much later than the news.
    REMEMBERED = 256, // Of the dead.
    BUCKETS = 1024,   // Of rows, by incarnation: each frame that comes looks for its sender's.
};

typedef struct far_row {
    uint32_t node, slot;
    uint64_t incarnation, session;
    bool dead;
    int64_t doomed_ns; // When the death is to be told; 0: it lives.
    char address[TRP_NODE_ADDRESS_MAX];
    char cause[112];
    uint32_t next; // In its bucket: the row's place + 1; 0: none.
} far_row;

static struct {
    pthread_mutex_t lock; // Taken last: nothing is called with it held.
    uint32_t count;
    far_row rows[TRP_FAR_MAX];
    uint32_t buckets[BUCKETS];
    // Who has died, the last of them: the news may come before who died has a number.
    struct {
        uint64_t session, incarnation;
    } doomed[REMEMBERED];
    uint64_t doomed_count;
} table TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- what the segment says

// False: it is being changed, or has been.
static bool copy_row(const trp_node_row *from, trp_node_row *row)
{
    uint64_t session = from->session;
    row->state = from->state; // Pairs with the node process's store of it, after the texts.
    row->id = from->id;
    row->incarnation = from->incarnation;
    row->joined = from->joined;
    row->session = session;
    memcpy(row->address, from->address, sizeof row->address);
    memcpy(row->asked, from->asked, sizeof row->asked);
    memcpy(row->cause, from->cause, sizeof row->cause);
    row->address[sizeof row->address - 1] = row->cause[sizeof row->cause - 1] = '\0';
    row->asked[sizeof row->asked - 1] = '\0';
    return from->session == session && from->state == row->state;
}

bool trp_node_row_is_at(const trp_node_row *row, const char *address)
{
    return strcmp(row->address, address) == 0 ||
           (row->asked[0] != '\0' && strcmp(row->asked, address) == 0);
}

bool trp_node_row_of(uint32_t id, trp_node_state least, trp_node_row *row)
{
    // Who has not been heard may give itself the number of another who has.
    for (uint32_t state = TRP_NODE_LIVE; state >= least; state--)
        for (int i = 0; i < TRP_NODES_MAX; i++) {
            const trp_node_row *it = &trp_segment_nodes()->rows[i];
            if (it->id == id && it->state == state && copy_row(it, row))
                return true;
        }
    return false;
}

bool trp_node_row_of_session(uint64_t session, trp_node_row *row)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *it = &trp_segment_nodes()->rows[i];
        if (it->session == session && it->state != TRP_NODE_FREE && copy_row(it, row))
            return true;
    }
    return false;
}

static bool session_goes_on(uint64_t session)
{
    trp_node_row row;
    return trp_node_row_of_session(session, &row) && row.state != TRP_NODE_GONE;
}

// ---- numbers

static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER; // Taken first: one number at a time.

static far_row *row_of(uint32_t process)
{
    uint32_t place = process - TRP_PROCESSES_MAX;
    return place < table.count ? &table.rows[place] : NULL;
}

static uint32_t *bucket_of(uint64_t incarnation)
{
    return &table.buckets[incarnation % BUCKETS]; // They are random.
}

// With the lock held; NULL: it has no number.
static far_row *find(uint32_t node, uint32_t slot, uint64_t session, uint64_t incarnation)
{
    for (uint32_t at = *bucket_of(incarnation); at != 0; at = table.rows[at - 1].next) {
        far_row *row = &table.rows[at - 1];
        if (row->incarnation == incarnation && row->session == session && row->node == node &&
            row->slot == slot)
            return row;
    }
    return NULL;
}

// Makes the row another one's. With the lock held.
static void set_row(far_row *row, const far_row *to)
{
    uint32_t mine = (uint32_t)(row - table.rows) + 1;
    for (uint32_t *at = bucket_of(row->incarnation); *at != 0; at = &table.rows[*at - 1].next)
        if (*at == mine) {
            *at = row->next;
            break;
        }
    *row = *to;
    row->next = *bucket_of(row->incarnation);
    *bucket_of(row->incarnation) = mine;
}

static uint32_t number_of(const far_row *row)
{
    return TRP_PROCESSES_MAX + (uint32_t)(row - table.rows);
}

uint32_t trp_far_number(uint32_t node, uint32_t slot, uint64_t session, uint64_t incarnation)
{
    pthread_mutex_lock(&table.lock);
    const far_row *row = find(node, slot, session, incarnation);
    uint32_t number = row != NULL && !row->dead ? number_of(row) : 0;
    pthread_mutex_unlock(&table.lock);
    return number;
}

// A row for one that has none: of a dead one, or a fresh one. The dead are remembered for a while,
// so that what they said last does not bring them back.
static far_row *take_row(void)
{
    for (uint32_t i = 0; i < table.count && table.count >= REMEMBERED; i++)
        if (table.rows[i].dead)
            return &table.rows[i];
    if (table.count == TRP_FAR_MAX)
        return NULL;
    table.rows[table.count].dead = true; // Until all is in it.
    return &table.rows[table.count++];
}

// The peer forgets whoever it was before.
static void renew_peer(uint32_t process)
{
    trp_peer *peer = trp_peer_find(process);
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    trp_peer_renew(peer, 0);
    pthread_mutex_unlock(&peer->lock);
}

// With the table's lock held.
static bool is_doomed(uint64_t session, uint64_t incarnation)
{
    for (size_t i = 0; i < REMEMBERED; i++)
        if (table.doomed[i].incarnation == incarnation && table.doomed[i].session == session)
            return true;
    return false;
}

static int64_t doom_time(void)
{
    return trp_clock_ns() + (int64_t)DOOM_MS * 1000000;
}

// With `noting` held. Who is heard of after the news of its death is still taken for a while, since
// it said so before.
static troupe_status note(uint32_t node, uint64_t session, uint32_t slot, uint64_t incarnation,
                          const char *address, bool heard, uint32_t *process)
{
    pthread_mutex_lock(&table.lock);
    far_row *row = find(node, slot, session, incarnation);
    bool known = row != NULL;
    bool doomed = known ? row->doomed_ns != 0 : is_doomed(session, incarnation);
    bool ended = (known && row->dead) || (doomed && !heard);
    if (row == NULL && !ended)
        row = take_row();
    uint32_t number = row != NULL ? number_of(row) : 0;
    pthread_mutex_unlock(&table.lock);
    if (ended)
        return troupe_fail(TROUPE_NOT_EXECUTED, "process %u of another node has ended", slot);
    if (number == 0)
        return troupe_fail(TROUPE_BUSY, "this process talks with %d processes of other nodes",
                           TRP_FAR_MAX);
    *process = number;
    if (known)
        return TROUPE_OK;
    renew_peer(number); // Before anybody can find it.
    pthread_mutex_lock(&table.lock);
    // Again, for news that came meanwhile.
    doomed = is_doomed(session, incarnation);
    set_row(row, &(far_row){.node = node,
                            .slot = slot,
                            .incarnation = incarnation,
                            .session = session,
                            .doomed_ns = doomed ? doom_time() : 0});
    snprintf(row->address, sizeof row->address, "%s", address);
    snprintf(row->cause, sizeof row->cause, "%s", doomed ? "has ended" : "");
    pthread_mutex_unlock(&table.lock);
    return TROUPE_OK;
}

troupe_status trp_far_note(uint32_t node, uint64_t session, uint32_t slot, uint64_t incarnation,
                           const char *address, uint32_t *process)
{
    pthread_mutex_lock(&noting);
    troupe_status status = note(node, session, slot, incarnation, address, false, process);
    pthread_mutex_unlock(&noting);
    return status;
}

troupe_status trp_far_note_heard(uint32_t node, uint64_t session, uint32_t slot,
                                 uint64_t incarnation, const char *address, uint32_t *process)
{
    pthread_mutex_lock(&noting);
    troupe_status status = note(node, session, slot, incarnation, address, true, process);
    pthread_mutex_unlock(&noting);
    return status;
}

bool trp_far_alive(uint32_t process, uint64_t incarnation, char *cause)
{
    uint64_t session = 0;
    pthread_mutex_lock(&table.lock);
    const far_row *row = row_of(process);
    bool same = row != NULL && row->incarnation == incarnation;
    if (same && !row->dead)
        session = row->session;
    if (cause != NULL)
        snprintf(cause, 112, "%s",
                 !same                   ? "has ended"
                 : row->cause[0] != '\0' ? row->cause
                                         : "cannot be reached");
    pthread_mutex_unlock(&table.lock);
    return session != 0 && session_goes_on(session);
}

void trp_far_describe(uint32_t process, char *text, size_t size)
{
    char address[TRP_NODE_ADDRESS_MAX] = "";
    uint32_t slot = 0;
    uint64_t session = 0;
    trp_node_row node;
    pthread_mutex_lock(&table.lock);
    const far_row *row = row_of(process);
    if (row != NULL) {
        slot = row->slot;
        session = row->session;
    }
    pthread_mutex_unlock(&table.lock);
    if (session != 0 && trp_segment_fd() >= 0 && trp_node_row_of_session(session, &node))
        snprintf(address, sizeof address, "%s", node.address);
    snprintf(text, size, "process %u of node %s", slot, address[0] != '\0' ? address : "(gone)");
}

bool trp_far_place(uint32_t process, uint32_t *slot, uint64_t *session,
                   char address[TRP_NODE_ADDRESS_MAX])
{
    pthread_mutex_lock(&table.lock);
    const far_row *row = row_of(process);
    bool there = row != NULL && !row->dead;
    if (there) {
        *slot = row->slot;
        *session = row->session;
        memcpy(address, row->address, TRP_NODE_ADDRESS_MAX);
    }
    pthread_mutex_unlock(&table.lock);
    return there;
}

uint32_t trp_far_count(void)
{
    pthread_mutex_lock(&table.lock);
    uint32_t count = table.count;
    pthread_mutex_unlock(&table.lock);
    return count;
}

uint64_t trp_far_larger(uint64_t session)
{
    struct {
        uint64_t session;
        uint32_t count;
    } all[TRP_NODES_MAX + 1] = {{.session = session}}, *largest = all;
    pthread_mutex_lock(&table.lock);
    for (uint32_t i = 0; i < table.count; i++) {
        int at = 0;
        if (table.rows[i].dead)
            continue;
        while (at < TRP_NODES_MAX && all[at].session != table.rows[i].session &&
               all[at].session != 0)
            at++;
        all[at].session = table.rows[i].session;
        all[at].count++;
        if (all[at].count > largest->count)
            largest = &all[at];
    }
    pthread_mutex_unlock(&table.lock);
    return largest != all && largest->count > all[0].count ? largest->session : 0;
}

void trp_far_forget_all(void)
{
    pthread_mutex_lock(&table.lock);
    memset(table.rows, 0, table.count * sizeof table.rows[0]);
    memset(table.doomed, 0, sizeof table.doomed);
    memset(table.buckets, 0, sizeof table.buckets);
    table.count = 0;
    pthread_mutex_unlock(&table.lock);
}

// ---- ends

// The next that `due` says is to be told, from *place on; false: there is none.
static bool next_dead(uint32_t *place, uint64_t session, int64_t now_ns, const char *cause,
                      uint64_t *incarnation)
{
    bool found = false;
    pthread_mutex_lock(&table.lock);
    for (; *place < table.count && !found; ++*place) {
        far_row *row = &table.rows[*place];
        bool over = session != 0 ? row->session == session
                                 : row->doomed_ns != 0 && row->doomed_ns <= now_ns;
        if (row->dead || !over)
            continue;
        found = row->dead = true;
        *incarnation = row->incarnation;
        if (cause != NULL)
            snprintf(row->cause, sizeof row->cause, "%s", cause);
    }
    pthread_mutex_unlock(&table.lock);
    return found;
}

static void tell(uint64_t session, int64_t now_ns, const char *cause)
{
    uint32_t place = 0;
    uint64_t incarnation;
    while (next_dead(&place, session, now_ns, cause, &incarnation))
        trp_process_died(TRP_PROCESSES_MAX + place - 1, incarnation);
}

void trp_far_end(uint64_t session, const char *cause)
{
    tell(session, 0, cause);
}

void trp_far_lose_all(void)
{
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        trp_node_row *row = &trp_segment_nodes()->rows[i];
        if (row->state != TRP_NODE_OPEN && row->state != TRP_NODE_LIVE)
            continue;
        snprintf(row->cause, sizeof row->cause, "was lost with this node's own process");
        row->state = TRP_NODE_GONE; // After the cause.
        trp_far_end(row->session, "cannot be reached any more: its node was lost with this one's "
                                  "node process");
    }
}

void trp_far_doom(uint64_t session, uint64_t incarnation, const char *cause)
{
    pthread_mutex_lock(&table.lock);
    uint64_t place = table.doomed_count++ % REMEMBERED;
    table.doomed[place].session = session;
    table.doomed[place].incarnation = incarnation;
    for (uint32_t i = 0; i < table.count; i++) {
        far_row *row = &table.rows[i];
        if (row->session != session || row->incarnation != incarnation || row->doomed_ns != 0)
            continue;
        row->doomed_ns = doom_time();
        snprintf(row->cause, sizeof row->cause, "%s", cause);
    }
    pthread_mutex_unlock(&table.lock);
}

int trp_far_tell_doomed(void)
{
    int64_t now = trp_clock_ns(), next = -1;
    tell(0, now, NULL);
    pthread_mutex_lock(&table.lock);
    for (uint32_t i = 0; i < table.count; i++) {
        const far_row *row = &table.rows[i];
        if (!row->dead && row->doomed_ns != 0 && (next < 0 || row->doomed_ns < next))
            next = row->doomed_ns;
    }
    pthread_mutex_unlock(&table.lock);
    return next < 0 ? -1 : next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}
