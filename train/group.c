// group.c: steps, reports and the end of a group of ranks over shared memory.
//
// Why all ranks stop at the same report: the number at which the run stops and the highest number
// that any rank has entered are one word. A stop sets "stop at highest + 1"; from then on the
// highest does not move. A rank that entered a number up to the highest did so while no stop was
// set, so for it that report was an ordinary one; a rank that enters the next number does so after
// the stop, and finds the word. Ranks enter numbers one by one, so each of them meets exactly that
// number, and no two of them need to meet for it.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <train/group.h>
#include <unistd.h>

enum {
    MAGIC = 0x54525047, // "TRPG"
    SPIN_NS = 50000, // More than a wake-up of a sleeping process costs, and less than a time slice.
    SLICE_MS = 1000, // A sleeper looks around this often, should a wake-up ever be lost.
};

size_t trp_group_size(int world)
{
    return sizeof(trp_group_region) +
           (size_t)world * (sizeof(trp_group_line) + (size_t)2 * TRP_GROUP_SLOT);
}

trp_group_region *trp_group_init(void *memory, int world, int first_report)
{
    trp_assert(world >= 1 && world <= TRP_GROUP_WORLD_MAX && first_report >= 1);
    trp_group_region *region = (trp_group_region *)memory;
    region->magic = MAGIC;
    region->world = world;
    atomic_init(&region->stop, (uint64_t)(first_report - 1));
    for (int i = 0; i < world; i++)
        atomic_init(&region->lines[i].reports, 2 * (uint32_t)(first_report - 1));
    return region;
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *wait)
{
    return syscall(SYS_futex, word, operation, value, wait, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
    futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

// Sets bit 0 of both words of a line, for good: nobody sleeps on them any more.
static void disturb(trp_group_line *line)
{
    atomic_fetch_or(&line->steps, 1);
    atomic_fetch_or(&line->reports, 1);
    wake(&line->steps);
    wake(&line->reports);
}

bool trp_group_end(trp_group_region *region, trp_group_reason reason, int rank)
{
    uint64_t none = 0;
    // Pairs with the loads in trp_group_ended; the reason is there before any sleeper is woken.
    bool first = atomic_compare_exchange_strong(&region->end, &none,
                                                (uint64_t)reason << 32 | (uint32_t)rank);
    for (int i = 0; i < region->world; i++)
        disturb(&region->lines[i]);
    return first;
}

trp_group_reason trp_group_ended(const trp_group_region *region, int *rank)
{
    uint64_t end = atomic_load(&region->end);
    *rank = (int)(uint32_t)end;
    return (trp_group_reason)(end >> 32);
}

int trp_group_stop(trp_group_region *region)
{
    uint64_t word = atomic_load(&region->stop);
    uint64_t stopped;
    do {
        if (word >> 32)
            return (int)(word >> 32);
        stopped = (word + 1) << 32 | word;
    } while (!atomic_compare_exchange_weak(&region->stop, &word, stopped));
    return (int)(stopped >> 32);
}

bool trp_group_left(const trp_group_region *region, int rank, troupe_status *status,
                    const char **text)
{
    const trp_group_line *line = &region->lines[rank];
    uint32_t left = atomic_load_explicit(&line->left, memory_order_acquire);
    if (!left)
        return false;
    *status = (troupe_status)(left - 1);
    *text = line->text;
    return true;
}

static int64_t spin_time(int world)
{
    cpu_set_t cpus;
    // Without a CPU for each rank, looking keeps away the rank that one looks for.
    if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) < world)
        return 0;
    return SPIN_NS;
}

troupe_status trp_group_open(trp_group *group, void *memory, size_t size, int rank, int world,
                             int timeout_ms)
{
    trp_group_region *region = (trp_group_region *)memory;
    if (world < 1 || world > TRP_GROUP_WORLD_MAX || rank < 0 || rank >= world ||
        size < trp_group_size(world) || region->magic != MAGIC || region->world != world)
        return troupe_fail(TROUPE_CORRUPT, "%zu bytes of shared memory are not a group of %d ranks",
                           size, world);
    *group = (trp_group){
        .region = region,
        .rank = rank,
        .world = world,
        .timeout_ms = timeout_ms,
        .spin_ns = spin_time(world),
    };
    return TROUPE_OK;
}

void trp_group_leave(trp_group *group, troupe_status status, const char *text)
{
    trp_group_line *line = &group->region->lines[group->rank];
    snprintf(line->text, sizeof(line->text), "%s", text);
    atomic_store_explicit(&line->left, 1 + (uint32_t)status, memory_order_release);
    disturb(line);
}

void *trp_group_slot(const trp_group *group, int rank, unsigned parity)
{
    unsigned char *slots = (unsigned char *)&group->region->lines[group->world];
    return slots + ((size_t)rank * 2 + parity) * TRP_GROUP_SLOT;
}

static bool reached(uint32_t word, uint32_t target)
{
    return (int32_t)((word & ~1u) - target) >= 0; // Right also after the count has wrapped.
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Looks at the word for a while before anyone sleeps.
static bool spin(const trp_group *group, _Atomic uint32_t *word, uint32_t target)
{
    int64_t until = group->spin_ns ? trp_clock_ns() + group->spin_ns : 0;
    do {
        for (int i = 0; i < 32; i++) {
            uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
            if (reached(seen, target) || seen & 1)
                return reached(seen, target);
            relax();
        }
    } while (until && trp_clock_ns() < until);
    return false;
}

// Waits until the word has reached the target: true. False: it is disturbed, or `until_ms` has
// passed.
static bool wait_word(const trp_group *group, trp_group_line *line, _Atomic uint32_t *word,
                      uint32_t target, int64_t until_ms)
{
    if (spin(group, word, target))
        return true;
    bool done = false;
    atomic_fetch_add(&line->sleepers, 1);
    for (;;) {
        uint32_t seen = atomic_load(word);
        done = reached(seen, target);
        int64_t left_ms = until_ms - trp_clock_ms();
        if (done || seen & 1 || left_ms <= 0)
            break;
        int64_t slice = left_ms < SLICE_MS ? left_ms : SLICE_MS;
        struct timespec wait = {slice / 1000, slice % 1000 * 1000000};
        futex(word, FUTEX_WAIT, seen, &wait);
    }
    atomic_fetch_sub(&line->sleepers, 1);
    return done;
}

// The sentence for a group that has ended, as a rank sees it.
static troupe_status lost(const trp_group *group, const char *what)
{
    int rank;
    switch (trp_group_ended(group->region, &rank)) {
    case TRP_GROUP_DIED:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d is lost", what, rank);
    case TRP_GROUP_LATE:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d did not come within %d ms", what, rank,
                           group->timeout_ms);
    case TRP_GROUP_LEFT:
        return troupe_fail(TROUPE_PEER_LOST, "%s: rank %d has left its loop", what, rank);
    default:
        return troupe_fail(TROUPE_PEER_LOST, "%s: the group is being torn down", what);
    }
}

static bool whole(const trp_group *group)
{
    int rank;
    return trp_group_ended(group->region, &rank) == TRP_GROUP_WHOLE;
}

troupe_status trp_group_step(trp_group *group, const char *what)
{
    trp_group_line *own = &group->region->lines[group->rank];
    if (!whole(group))
        return lost(group, what);
    group->steps += 2;
    // Publishes what this rank wrote before: pairs with the acquiring loads of those who wait.
    atomic_fetch_add(&own->steps, 2);
    if (atomic_load(&own->sleepers))
        wake(&own->steps);

    int64_t until_ms = trp_clock_ms() + group->timeout_ms;
    for (int rank = 0; rank < group->world; rank++) {
        trp_group_line *line = &group->region->lines[rank];
        if (rank == group->rank || wait_word(group, line, &line->steps, group->steps, until_ms))
            continue;
        // It did not come: the end that was set first says why, also to the others.
        bool left = atomic_load_explicit(&line->left, memory_order_acquire);
        trp_group_end(group->region, left ? TRP_GROUP_LEFT : TRP_GROUP_LATE, rank);
        return lost(group, what);
    }
    return TROUPE_OK;
}

troupe_status trp_group_report(trp_group *group, int number, trp_report_turn *turn)
{
    trp_assert(number >= 1);
    trp_group_line *own = &group->region->lines[group->rank];
    uint64_t word = atomic_load(&group->region->stop);
    uint64_t raised;
    do {
        if (!whole(group))
            return lost(group, "troupe_report");
        raised = word;
        if (!(word >> 32) && (uint32_t)number > (uint32_t)word)
            raised = (uint64_t)number;
    } while (!atomic_compare_exchange_weak(&group->region->stop, &word, raised));
    uint32_t stop_at = (uint32_t)(word >> 32);
    *turn = TRP_REPORT_OPEN;
    if (stop_at && (uint32_t)number >= stop_at)
        *turn = (uint32_t)number == stop_at ? TRP_REPORT_LAST : TRP_REPORT_PAST;
    if (*turn == TRP_REPORT_PAST)
        return TROUPE_OK;

    atomic_fetch_add(&own->reports, 2);
    if (atomic_load(&own->sleepers))
        wake(&own->reports);
    int64_t until_ms = trp_clock_ms() + group->timeout_ms;
    for (int rank = 0; rank < group->world && number > TRP_GROUP_AHEAD; rank++) {
        trp_group_line *line = &group->region->lines[rank];
        uint32_t target = 2 * (uint32_t)(number - TRP_GROUP_AHEAD);
        if (rank == group->rank || wait_word(group, line, &line->reports, target, until_ms))
            continue;
        // A rank whose loop has ended holds nobody back: the coordinator will see what is missing.
        if (whole(group) && (atomic_load(&line->reports) & 1) == 0)
            trp_group_end(group->region, TRP_GROUP_LATE, rank);
        if (!whole(group))
            return lost(group, "troupe_report");
    }
    return TROUPE_OK;
}
