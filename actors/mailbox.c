// mailbox.c: see mailbox.h. The queue is D. Vyukov's intrusive multi-producer queue.
#include <actors/mailbox.h>

#include <runtime/park.h>
#include <sched.h>
#include <time.h>

// The load word: the count in the upper 26 bits, the bytes in the lower 38.
enum { BYTES_BITS = 38 };
static const uint64_t one_message = UINT64_C(1) << BYTES_BITS;
static const uint64_t bytes_mask = (UINT64_C(1) << BYTES_BITS) - 1;

void trp_mailbox_init(trp_mailbox *mailbox, uint32_t max)
{
    mailbox->head = &mailbox->stub;
    atomic_init(&mailbox->stub.next, NULL);
    atomic_init(&mailbox->tail, &mailbox->stub);
    atomic_flag_clear(&mailbox->taking);
    mailbox->max = max;
}

static bool fits(const trp_mailbox *mailbox, uint64_t load, size_t weight)
{
    uint64_t bytes = load & bytes_mask;
    return load >> BYTES_BITS < mailbox->max &&
           (bytes == 0 || bytes + weight <= TRP_MAILBOX_BYTES_MAX);
}

bool trp_mailbox_reserve(trp_mailbox *mailbox, size_t weight)
{
    uint64_t load = atomic_load(&mailbox->load);
    do {
        if (!fits(mailbox, load, weight))
            return false;
    } while (!atomic_compare_exchange_weak(&mailbox->load, &load, load + one_message + weight));
    return true;
}

void trp_mailbox_reserve_always(trp_mailbox *mailbox, size_t weight)
{
    atomic_fetch_add(&mailbox->load, one_message + weight);
}

bool trp_mailbox_wait(trp_mailbox *mailbox, size_t weight, int64_t deadline_ns)
{
    atomic_fetch_add(&mailbox->senders, 1); // Before the look at `load`.
    uint32_t seen = atomic_load(&mailbox->room);
    if (!fits(mailbox, atomic_load(&mailbox->load), weight))
        trp_park(&mailbox->room, seen, deadline_ns);
    atomic_fetch_sub(&mailbox->senders, 1);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return deadline_ns < 0 || (int64_t)now.tv_sec * 1000000000 + now.tv_nsec < deadline_ns;
}

void trp_mailbox_wake(trp_mailbox *mailbox)
{
    atomic_fetch_add(&mailbox->room, 1);
    trp_unpark(&mailbox->room, INT_MAX);
}

void trp_mailbox_left(trp_mailbox *mailbox, size_t weight)
{
    uint64_t load = atomic_fetch_sub(&mailbox->load, one_message + weight) - one_message - weight;
    // Senders sleep only at the limit, so each passes through half of it on its way to empty.
    if (atomic_load(&mailbox->senders) > 0 && load >> BYTES_BITS <= mailbox->max / 2 &&
        (load & bytes_mask) <= TRP_MAILBOX_BYTES_MAX / 2)
        trp_mailbox_wake(mailbox);
}

static void append(trp_mailbox *mailbox, trp_link *link)
{
    atomic_store_explicit(&link->next, NULL, memory_order_relaxed);
    trp_link *before = atomic_exchange(&mailbox->tail, link);
    atomic_store_explicit(&before->next, link, memory_order_release);
}

bool trp_mailbox_push(trp_mailbox *mailbox, trp_link *link)
{
    append(mailbox, link);
    return !atomic_exchange(&mailbox->scheduled, true);
}

static trp_link *take(trp_mailbox *mailbox)
{
    trp_link *head = mailbox->head;
    trp_link *next = atomic_load_explicit(&head->next, memory_order_acquire);
    if (head == &mailbox->stub) {
        if (next == NULL)
            return NULL;
        mailbox->head = head = next;
        next = atomic_load_explicit(&head->next, memory_order_acquire);
    }
    if (next == NULL) {
        if (atomic_load(&mailbox->tail) != head)
            return NULL; // A push is half done; it schedules the actor when it is whole.
        append(mailbox, &mailbox->stub);
        next = atomic_load_explicit(&head->next, memory_order_acquire);
        if (next == NULL)
            return NULL;
    }
    mailbox->head = next;
    return head;
}

trp_link *trp_mailbox_take(trp_mailbox *mailbox)
{
    // Held for a few instructions, and contended only when an actor is killed while it runs.
    while (atomic_flag_test_and_set_explicit(&mailbox->taking, memory_order_acquire))
        sched_yield();
    trp_link *taken = take(mailbox);
    atomic_flag_clear_explicit(&mailbox->taking, memory_order_release);
    return taken;
}

bool trp_mailbox_rest(trp_mailbox *mailbox)
{
    atomic_store(&mailbox->scheduled,
                 false); // Before the look at `tail`: the pusher does the reverse.
    return atomic_load(&mailbox->tail) != &mailbox->stub &&
           !atomic_exchange(&mailbox->scheduled, true);
}

uint32_t trp_mailbox_count(trp_mailbox *mailbox)
{
    return (uint32_t)(atomic_load(&mailbox->load) >> BYTES_BITS);
}
