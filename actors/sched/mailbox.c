// mailbox.c: see mailbox.h.
#include <actors/sched/mailbox.h>

#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/base/fence.h>
#include <runtime/link/park.h>
#include <sched.h>

enum {
    EMPTY, // Of `head`: scheduled, and nothing was pushed.
    URGENT = 1,
    IDLE = 2,
    CLOSED = 4,
    BATCH = 32,   // Messages that the taker gives back at once,
    EXACT = 1024, // unless the mailbox has less room than this.
    DEEP = 2048,  // So many messages fill a quarter of a MiB.
    SLACK = 65536,
    LINE = 64,
};

// The load word: the count in the upper 26 bits, the bytes in the lower 38.
enum { BYTES_BITS = 38 };
static const uint64_t one_message = UINT64_C(1) << BYTES_BITS;
static const uint64_t bytes_mask = (UINT64_C(1) << BYTES_BITS) - 1;

static trp_link *link_of(uintptr_t word)
{
    return (trp_link *)(word & ~(uintptr_t)URGENT); // NOLINT(performance-no-int-to-ptr)
}

trp_link *trp_link_next(const trp_link *link)
{
    return link_of(link->below);
}

void trp_mailbox_open(trp_mailbox *mailbox, uint32_t max)
{
    uint32_t left = atomic_exchange_explicit(&mailbox->left, 0, memory_order_relaxed);
    if (left > 0) // By the actor that had it before.
        atomic_fetch_sub(&mailbox->load, left * one_message + mailbox->left_bytes);
    mailbox->left_bytes = 0;
    mailbox->lane = mailbox->urgent = (trp_lane){0};
    atomic_store_explicit(&mailbox->max, max, memory_order_relaxed);
    atomic_store_explicit(&mailbox->hurry, false, memory_order_relaxed);
    atomic_store_explicit(&mailbox->slow, false, memory_order_relaxed);
    atomic_store_explicit(&mailbox->closed, false, memory_order_relaxed);
    atomic_store_explicit(&mailbox->head, EMPTY, memory_order_release); // With a push's look.
}

// ---- room

TRP_HOT bool fits(trp_mailbox *mailbox, uint64_t load, size_t weight)
{
    uint64_t bytes = load & bytes_mask;
    return load >> BYTES_BITS < atomic_load_explicit(&mailbox->max, memory_order_relaxed) &&
           (bytes < SLACK || bytes + weight <= TRP_MAILBOX_BYTES_MAX);
}

TRP_APART void give_back(trp_mailbox *mailbox, uint64_t amount)
{
    uint64_t load = atomic_fetch_sub(&mailbox->load, amount) - amount;
    uint64_t count = load >> BYTES_BITS;
    if (count <= DEEP / 2 && atomic_load_explicit(&mailbox->slow, memory_order_relaxed))
        atomic_store_explicit(&mailbox->slow, false, memory_order_relaxed);
    // Senders sleep only at the limit, so each passes through half of it on its way to empty.
    if (atomic_load(&mailbox->senders) > 0 &&
        count <= atomic_load_explicit(&mailbox->max, memory_order_relaxed) / 2 &&
        (load & bytes_mask) <= TRP_MAILBOX_BYTES_MAX / 2)
        trp_mailbox_wake(mailbox);
}

// Without being counted where it does not fit, which others would see.
TRP_APART bool reserve_exactly(trp_mailbox *mailbox, size_t weight)
{
    uint64_t load = atomic_load_explicit(&mailbox->load, memory_order_relaxed);
    do {
        if (!fits(mailbox, load, weight))
            return false;
    } while (!atomic_compare_exchange_weak(&mailbox->load, &load, load + one_message + weight));
    return true;
}

TRP_HOT bool reserve(trp_mailbox *mailbox, size_t weight)
{
    if (weight >= SLACK || atomic_load_explicit(&mailbox->max, memory_order_relaxed) < EXACT)
        return reserve_exactly(mailbox, weight);
    if (fits(mailbox, atomic_fetch_add(&mailbox->load, one_message + weight), weight))
        return true;
    give_back(mailbox, one_message + weight);
    return reserve_exactly(mailbox, weight); // Others may have given back meanwhile, too.
}

bool trp_mailbox_reserve(trp_mailbox *mailbox, size_t weight)
{
    return reserve(mailbox, weight);
}

void trp_mailbox_reserve_always(trp_mailbox *mailbox, size_t weight)
{
    atomic_fetch_add(&mailbox->load, one_message + weight);
}

void trp_mailbox_return(trp_mailbox *mailbox, size_t weight)
{
    give_back(mailbox, one_message + weight);
}

bool trp_mailbox_wait(trp_mailbox *mailbox, size_t weight, int64_t deadline_ns)
{
    atomic_fetch_add(&mailbox->senders, 1); // Before the look at `load`.
    uint32_t seen = atomic_load(&mailbox->room);
    if (!fits(mailbox, atomic_load(&mailbox->load), weight))
        trp_park(&mailbox->room, seen, deadline_ns);
    atomic_fetch_sub(&mailbox->senders, 1);
    return deadline_ns < 0 || trp_clock_ns() < deadline_ns;
}

bool trp_mailbox_deep(trp_mailbox *mailbox)
{
    return atomic_load_explicit(&mailbox->load, memory_order_relaxed) >> BYTES_BITS >= DEEP &&
           !atomic_load_explicit(&mailbox->slow, memory_order_relaxed);
}

void trp_mailbox_wake(trp_mailbox *mailbox)
{
    if (atomic_load(&mailbox->senders) == 0) // After the change that they wait for.
        return;
    atomic_fetch_add(&mailbox->room, 1);
    trp_unpark(&mailbox->room, INT_MAX);
}

void trp_mailbox_left(trp_mailbox *mailbox, size_t weight)
{
    if (weight >= SLACK) {
        give_back(mailbox, one_message + weight);
        return;
    }
    uint32_t left = atomic_load_explicit(&mailbox->left, memory_order_relaxed) + 1;
    mailbox->left_bytes += (uint32_t)weight;
    atomic_store_explicit(&mailbox->left, left, memory_order_relaxed);
    if (left < BATCH && mailbox->left_bytes < SLACK / 2 &&
        atomic_load_explicit(&mailbox->max, memory_order_relaxed) >= EXACT)
        return;
    atomic_store_explicit(&mailbox->left, 0, memory_order_relaxed);
    give_back(mailbox, left * one_message + mailbox->left_bytes);
    mailbox->left_bytes = 0;
}

uint32_t trp_mailbox_count(trp_mailbox *mailbox)
{
    uint32_t count = (uint32_t)(atomic_load(&mailbox->load) >> BYTES_BITS);
    uint32_t left = atomic_load_explicit(&mailbox->left, memory_order_relaxed);
    return count > left ? count - left : 0;
}

size_t trp_mailbox_bytes(trp_mailbox *mailbox)
{
    return atomic_load(&mailbox->load) & bytes_mask;
}

bool trp_mailbox_idle(trp_mailbox *mailbox)
{
    return atomic_load(&mailbox->head) == IDLE;
}

// ---- messages

TRP_HOT trp_pushed push(trp_mailbox *mailbox, trp_link *link, bool urgent)
{
    uintptr_t head = atomic_load_explicit(&mailbox->head, memory_order_relaxed);
    do {
        if (head == CLOSED)
            return TRP_PUSH_REFUSED;
        link->below = (head == IDLE ? EMPTY : head) | (urgent ? URGENT : 0);
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->head, &head, (uintptr_t)link,
                                                    memory_order_acq_rel, memory_order_relaxed));
    // The message may be gone by now; the mailbox is not.
    if (urgent)
        atomic_store_explicit(&mailbox->hurry, true, memory_order_release);
    return head == IDLE ? TRP_PUSHED_FIRST : TRP_PUSHED;
}

trp_pushed trp_mailbox_push(trp_mailbox *mailbox, trp_link *link, bool urgent)
{
    return push(mailbox, link, urgent);
}

trp_pushed trp_mailbox_put(trp_mailbox *mailbox, trp_link *link, size_t weight)
{
    if (!reserve(mailbox, weight))
        return TRP_PUSH_REFUSED;
    trp_pushed pushed = push(mailbox, link, false);
    if (pushed == TRP_PUSH_REFUSED)
        trp_mailbox_return(mailbox, weight);
    return pushed;
}

static void append(trp_lane *lane, trp_lane part)
{
    if (part.first == NULL)
        return;
    if (lane->first == NULL)
        lane->first = part.first;
    else
        lane->last->below = (uintptr_t)part.first;
    lane->last = part.last;
}

static void put_before(trp_lane *part, trp_link *link)
{
    if (part->first == NULL)
        part->last = link;
    link->below = (uintptr_t)part->first;
    part->first = link;
}

// Moves what was pushed, a stack, to the lanes, in order.
static void sort(trp_mailbox *mailbox, uintptr_t head)
{
    trp_lane urgent = {0}, other = {0};
    for (trp_link *link = link_of(head), *below; link != NULL; link = below) {
        below = link_of(link->below);
        __builtin_prefetch((const char *)link + 64);
        put_before((link->below & URGENT) != 0 ? &urgent : &other, link);
    }
    append(&mailbox->urgent, urgent);
    append(&mailbox->lane, other);
}

TRP_HOT trp_link *pop(trp_lane *lane)
{
    trp_link *link = lane->first;
    if (link == NULL)
        return NULL;
    lane->first = link_of(link->below);
    if (lane->first != NULL) { // Another CPU may have written it: it comes while this one runs.
        __builtin_prefetch(lane->first);
        __builtin_prefetch((const char *)lane->first + LINE);
    }
    return link;
}

// Keeps who closes the mailbox away until end_busy. False: it was closed.
TRP_HOT bool begin_busy(trp_mailbox *mailbox)
{
    // Pairs with the fence in wait_until_free: either it sees `busy`, or we see `closed`.
    if (trp_fence_asymmetric) {
        atomic_store_explicit(&mailbox->busy, true, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        (void)atomic_exchange(&mailbox->busy, true);
    }
    if (!atomic_load_explicit(&mailbox->closed, memory_order_acquire))
        return true;
    atomic_store_explicit(&mailbox->busy, false, memory_order_release);
    return false;
}

static void end_busy(trp_mailbox *mailbox)
{
    // Hands the lanes to who waits in wait_until_free.
    atomic_store_explicit(&mailbox->busy, false, memory_order_release);
}

static void wait_until_free(trp_mailbox *mailbox)
{
    trp_fence_heavy();
    while (atomic_load(&mailbox->busy))
        sched_yield(); // It is so for a few instructions.
}

trp_link *trp_mailbox_take(trp_mailbox *mailbox)
{
    if (!begin_busy(mailbox))
        return NULL;
    bool hurry = atomic_load_explicit(&mailbox->hurry, memory_order_acquire);
    if (hurry)
        atomic_store_explicit(&mailbox->hurry, false, memory_order_relaxed); // Before the exchange.
    bool bare = mailbox->lane.first == NULL && mailbox->urgent.first == NULL;
    if ((hurry || bare) && atomic_load_explicit(&mailbox->head, memory_order_relaxed) != EMPTY) {
        uintptr_t head = atomic_exchange_explicit(&mailbox->head, EMPTY, memory_order_acq_rel);
        if (bare && link_of(head)->below == 0) { // A lone one, as often.
            end_busy(mailbox);
            return link_of(head);
        }
        sort(mailbox, head);
    }
    trp_link *link = pop(&mailbox->urgent);
    if (link == NULL)
        link = pop(&mailbox->lane);
    end_busy(mailbox);
    return link;
}

bool trp_mailbox_more(trp_mailbox *mailbox)
{
    if (!begin_busy(mailbox))
        return false;
    bool more = mailbox->lane.first != NULL || mailbox->urgent.first != NULL;
    end_busy(mailbox);
    return more;
}

trp_rest trp_mailbox_rest(trp_mailbox *mailbox)
{
    uintptr_t head = EMPTY;
    if (atomic_compare_exchange_strong(&mailbox->head, &head, IDLE))
        return TRP_RESTS;
    return head == CLOSED ? TRP_REST_CLOSED : TRP_REST_MORE;
}

trp_link *trp_mailbox_close(trp_mailbox *mailbox, bool own, bool *idle)
{
    uintptr_t head = IDLE;
    *idle = atomic_compare_exchange_strong(&mailbox->head, &head, CLOSED);
    if (*idle) {
        atomic_store(&mailbox->closed, true);
        return NULL;
    }
    atomic_store(&mailbox->closed, true);
    if (!own)
        wait_until_free(mailbox);
    head = atomic_exchange(&mailbox->head, CLOSED);
    *idle = head == IDLE;
    if (head != IDLE && head != CLOSED)
        sort(mailbox, head);
    append(&mailbox->urgent, mailbox->lane);
    trp_link *all = mailbox->urgent.first;
    mailbox->urgent = mailbox->lane = (trp_lane){0};
    return all;
}
