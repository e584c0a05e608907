// worker_load.c: see task/worker_load.h. The node names the workers, one for each question, until
// as many are known as the pool has; one that has died is forgotten, and asked for again.
#include <actors/task/worker_load.h>

#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <pthread.h>
#include <runtime/base/memory.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>

enum { MEMBERS_MAX = 1024 };

static struct {
    pthread_mutex_t lock; // Of all that follows.
    trp_crew_member members[MEMBERS_MAX];
    uint32_t count;
    uint32_t in_vain; // Questions in a row that named a known one: there may be no more.
} crew TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

static trp_crew_member *find_member(uint64_t incarnation)
{
    for (uint32_t i = 0; i < crew.count; i++)
        if (crew.members[i].incarnation == incarnation)
            return &crew.members[i];
    return NULL;
}

static void forget_dead(void)
{
    for (uint32_t i = 0; i < crew.count;) {
        trp_crew_member *it = &crew.members[i];
        if (trp_process_alive(it->process, it->incarnation, NULL))
            i++;
        else
            *it = crew.members[--crew.count], crew.in_vain = 0;
    }
}

// The least loaded, among equals this process itself: no message is shorter than one that stays.
static trp_crew_member *least_loaded(uint64_t not_this)
{
    trp_crew_member *best = NULL;
    for (uint32_t i = 0; i < crew.count; i++) {
        trp_crew_member *it = &crew.members[i];
        if (it->incarnation == not_this && crew.count > 1)
            continue;
        if (best == NULL || it->load < best->load ||
            (it->load == best->load && it->incarnation == trp_process_incarnation()))
            best = it;
    }
    return best;
}

static bool take_known(uint64_t not_this, trp_crew_member *member)
{
    trp_crew_member *best = least_loaded(not_this);
    if (best == NULL)
        return false;
    best->load++;
    *member = *best;
    return true;
}

// Learns of one more worker, if the node has one that is not known.
static troupe_status ask_node(void)
{
    trp_crew_member fresh = {0};
    trp_wait_for(TRP_WAIT_NODE, 0, 0);
    TROUPE_TRY(trp_scheduler_block());
    troupe_status status = trp_node_worker(false, &fresh.process, &fresh.incarnation);
    trp_scheduler_unblock();
    TROUPE_TRY(status);
    pthread_mutex_lock(&crew.lock);
    if (find_member(fresh.incarnation) != NULL || crew.count == MEMBERS_MAX)
        crew.in_vain++;
    else
        crew.members[crew.count++] = fresh, crew.in_vain = 0;
    pthread_mutex_unlock(&crew.lock);
    return TROUPE_OK;
}

troupe_status trp_crew_take(bool may_wait, uint64_t not_this, trp_crew_member *member)
{
    uint32_t wanted = (uint32_t)trp_process_options()->workers;
    bool asked = !may_wait, taken;
    for (;;) {
        pthread_mutex_lock(&crew.lock);
        forget_dead();
        bool enough = asked || crew.count >= wanted || (crew.count > 0 && crew.in_vain > wanted);
        taken = enough && take_known(not_this, member);
        pthread_mutex_unlock(&crew.lock);
        if (taken)
            return TROUPE_OK;
        if (!may_wait)
            return troupe_fail(TROUPE_BUSY, "no worker is known yet, and this thread must not wait "
                                            "for one");
        TROUPE_TRY(ask_node());
        asked = true;
    }
}

uint64_t trp_crew_give(uint64_t incarnation)
{
    uint32_t at_a_time = (uint32_t)trp_process_options()->threads, least = UINT32_MAX, most = 0;
    uint64_t busiest = 0;
    pthread_mutex_lock(&crew.lock);
    trp_crew_member *it = find_member(incarnation);
    if (it != NULL && it->load > 0)
        it->load--;
    for (uint32_t i = 0; i < crew.count; i++) {
        uint32_t load = crew.members[i].load;
        if (load < least)
            least = load;
        if (load > most) {
            most = load;
            busiest = crew.members[i].incarnation;
        }
    }
    pthread_mutex_unlock(&crew.lock);
    return least < at_a_time && most > at_a_time ? busiest : 0;
}
