// pause.c: see pause.h.
#include <actors/pause.h>

#include <actors/scheduler.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/park.h>

enum { PAUSE_NS = 5000000 }; // A deep mailbox of messages that take a microsecond each.

// On the stack of who pauses.
typedef struct pauser {
    struct pauser *next;
    trp_mailbox *mailbox;
    pthread_t thread;
    trp_binding binding;
    _Atomic uint32_t gone_on;
} pauser;

static struct {
    pthread_mutex_t lock;
    pauser *first; // Those that pause, oldest first.
} pauses = {.lock = PTHREAD_MUTEX_INITIALIZER};

void trp_bind_here(trp_binding *binding, pthread_t thread)
{
    int cpu = sched_getcpu();
    cpu_set_t here;
    if (binding->bound || cpu < 0 ||
        pthread_getaffinity_np(thread, sizeof binding->cpus, &binding->cpus) != 0)
        return;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    binding->bound = pthread_setaffinity_np(thread, sizeof here, &here) == 0;
}

void trp_unbind(trp_binding *binding)
{
    if (binding->bound)
        (void)pthread_setaffinity_np(pthread_self(), sizeof binding->cpus, &binding->cpus);
    binding->bound = false;
}

// False: the actor rests already.
static bool enter(pauser *mine)
{
    pthread_mutex_lock(&pauses.lock);
    // Before the look whether it rests; who marks that looks at `pausing` afterwards.
    atomic_fetch_add(&mine->mailbox->pausing, 1);
    bool rests = trp_mailbox_idle(mine->mailbox);
    if (rests) {
        atomic_fetch_sub(&mine->mailbox->pausing, 1);
    } else {
        pauser **at = &pauses.first;
        while (*at != NULL)
            at = &(*at)->next;
        *at = mine;
    }
    pthread_mutex_unlock(&pauses.lock);
    return !rests;
}

// With the lock held.
static void take_out(pauser *one)
{
    pauser **at = &pauses.first;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    atomic_fetch_sub(&one->mailbox->pausing, 1);
}

// False: nobody has said that the actor rests.
static bool leave(pauser *mine)
{
    pthread_mutex_lock(&pauses.lock);
    bool told = atomic_load(&mine->gone_on) != 0;
    if (!told)
        take_out(mine);
    pthread_mutex_unlock(&pauses.lock);
    return told;
}

static void wait_until_it_rests(trp_mailbox *mailbox)
{
    pauser mine = {.mailbox = mailbox, .thread = pthread_self()};
    if (!enter(&mine))
        return;
    if (trp_scheduler_block_near() != TROUPE_OK) {
        (void)leave(&mine);
        return;
    }
    int64_t until_ns = trp_clock_ns() + PAUSE_NS;
    while (atomic_load(&mine.gone_on) == 0 && trp_clock_ns() < until_ns)
        trp_park(&mine.gone_on, 0, until_ns);
    if (!leave(&mine))
        atomic_store_explicit(&mailbox->slow, true, memory_order_relaxed);
    trp_scheduler_unblock();
    trp_unbind(&mine.binding);
}

void trp_pause(trp_mailbox *mailbox)
{
    if (!trp_scheduler_runs_here() || trp_scheduler_crowded())
        return;
    troupe_error kept; // A refusal to wait is nobody's failure.
    trp_error_hold(&kept);
    wait_until_it_rests(mailbox);
    trp_error_restore(&kept);
}

void trp_pause_end(trp_mailbox *mailbox)
{
    pthread_mutex_lock(&pauses.lock);
    pauser *one = pauses.first;
    while (one != NULL && one->mailbox != mailbox)
        one = one->next;
    if (one != NULL) {
        take_out(one);
        trp_bind_here(&one->binding, one->thread);
        atomic_store(&one->gone_on, 1);
        trp_unpark(&one->gone_on, 1); // With the lock: it takes that before it leaves.
        trp_scheduler_woke_near();
    }
    pthread_mutex_unlock(&pauses.lock);
}
