// engine_shm.c: all-reduce, broadcast and barrier over staging slots in shared memory.
//
//     [ line of rank 0 | line of rank 1 | ... | slots of rank 0 | slots of rank 1 | ... ]
//
// A step is one count in the rank's own line: it returns when every rank has made as many. What
// ranks wrote before their step can be read after it.
//
// An all-reduce goes through the values in chunks of one slot. For each: every rank copies its
// chunk to its slot, and steps; each reduces its own slice of the chunk straight from all slots and
// leaves the result in its own, and steps; each copies the slices back. Small chunks are reduced
// whole by every rank, which saves the second step. Either way an element is combined in the order
// of ranks, so the bits are the same on all ranks, whichever comes first. Chunks alternate between
// two slots: a rank writes a slot again only after a step that the others make when they have read
// it.
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <train/control.h>
#include <train/engine_shm.h>

enum {
    WHOLE_BYTES = 8192, // Up to here (over all ranks) reading everything is cheaper than a step.
    BLOCK = 256,        // Elements reduced at a time, in memory that stays in the first cache.
};

// What a rank has called; compared by all ranks, since all must call the same.
typedef struct call {
    uint32_t operation, element, how;
    int32_t root;
    uint64_t count;
} call;

typedef struct line {
    _Alignas(64) trp_counter steps; // Closed when the group ends or the rank leaves.
    call calls[2];                  // By parity of the operation.
} line;

// A rank's side.
typedef struct link {
    const trp_member *member;
    line *lines;
    unsigned char *slots;
    int rank, world;
    uint32_t steps;      // As in the own line.
    uint32_t operations; // Begun.
    uint32_t uses;       // Of the slots: says which of the two is next.
} link;

typedef enum operation { BARRIER = 1, ALLREDUCE, BROADCAST } operation;

static const char *const operation_names[] = {"?", "troupe_barrier", "troupe_allreduce",
                                              "troupe_broadcast"};
static const char *const reduction_names[] = {"TROUPE_SUM", "TROUPE_MEAN", "TROUPE_MIN",
                                              "TROUPE_MAX"};

// One of a static table's names; what another process wrote is not trusted as an index.
static const char *name_of(const char *const *names, size_t count, uint32_t index)
{
    return index < count ? names[index] : "?";
}
#define NAME_OF(names, index) name_of((names), sizeof(names) / sizeof *(names), (index))

// Says how two ranks' calls differ, by the first thing that does.
static troupe_status differ(const link *here, int other, const call *mine, const call *theirs)
{
    int me = here->rank;
    if (mine->operation != theirs->operation)
        return troupe_fail(
            TROUPE_INVALID,
            "rank %d called %s while rank %d called %s: all ranks must call the same", me,
            NAME_OF(operation_names, mine->operation), other,
            NAME_OF(operation_names, theirs->operation));
    const char *name = NAME_OF(operation_names, mine->operation);
    if (mine->count != theirs->count)
        return troupe_fail(TROUPE_INVALID,
                           "%s: rank %d passed %" PRIu64 " %s and rank %d %" PRIu64
                           ": all ranks must pass the same count",
                           name, me, mine->count, mine->operation == BROADCAST ? "bytes" : "values",
                           other, theirs->count);
    if (mine->element != theirs->element)
        return troupe_fail(TROUPE_INVALID,
                           "%s: rank %d passed %s values and rank %d %s: all ranks must pass the "
                           "same type",
                           name, me, troupe_dtype_text((troupe_dtype)mine->element), other,
                           troupe_dtype_text((troupe_dtype)theirs->element));
    if (mine->how != theirs->how)
        return troupe_fail(
            TROUPE_INVALID,
            "%s: rank %d asked for %s and rank %d for %s: all ranks must ask for the "
            "same",
            name, me, NAME_OF(reduction_names, mine->how), other,
            NAME_OF(reduction_names, theirs->how));
    return troupe_fail(
        TROUPE_INVALID,
        "%s: rank %d named root %d and rank %d root %d: all ranks must name the same", name, me,
        mine->root, other, theirs->root);
}

static bool same(const call *a, const call *b)
{
    return a->operation == b->operation && a->element == b->element && a->how == b->how &&
           a->root == b->root && a->count == b->count;
}

// The staging memory of a rank, by parity.
static unsigned char *slot_of(const link *here, int rank, unsigned parity)
{
    return here->slots + ((size_t)rank * 2 + parity) * TRP_SHM_SLOT;
}

static troupe_status step(link *here, const char *what)
{
    const trp_member *member = here->member;
    if (!trp_member_is_whole(member))
        return trp_member_lost(member, what);
    here->steps++;
    trp_counter_raise(&here->lines[here->rank].steps);
    int64_t until_ms = trp_clock_ms() + member->timeout_ms;
    for (int rank = 0; rank < here->world; rank++)
        if (rank != here->rank &&
            !trp_counter_await(&here->lines[rank].steps, here->steps, member->spin_ns, until_ms))
            return trp_member_absent(member, rank, what);
    return TROUPE_OK;
}

// Publishes what this rank calls; compared after the operation's first step. Calls alternate
// between two places for the reason that slots do.
static void announce(link *here, call what)
{
    here->operations++;
    here->uses++; // Also where no slot is used: ranks that differ in their calls must not here.
    here->lines[here->rank].calls[here->operations & 1] = what;
}

static troupe_status first_step(link *here, const char *what)
{
    TROUPE_TRY(step(here, what));
    unsigned parity = here->operations & 1;
    const call *mine = &here->lines[here->rank].calls[parity];
    for (int rank = 0; rank < here->world; rank++) {
        call theirs = here->lines[rank].calls[parity];
        if (!same(mine, &theirs))
            return differ(here, rank, mine, &theirs);
    }
    return TROUPE_OK;
}

// Integers wrap around instead of being undefined; NaN goes through MIN and MAX.
#define ADD_FLOATS(a, b) ((a) + (b))
#define ADD_INTEGERS(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define LESSER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define GREATER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
// Whole blocks have a loop of their own, whose fixed length lets compilers use vectors at -O2
// already.
#define COMBINE_ALL(T, OP, n)                                                                      \
    for (size_t i = 0; i < (n); i++)                                                               \
    ((T *)into)[i] = OP(((T *)into)[i], ((const T *)from)[i])
#define COMBINE(T, OP)                                                                             \
    do {                                                                                           \
        if (count == BLOCK)                                                                        \
            COMBINE_ALL(T, OP, BLOCK);                                                             \
        else                                                                                       \
            COMBINE_ALL(T, OP, count);                                                             \
    } while (0)
#define DEFINE_COMBINE(name, T, ADD)                                                               \
    static void name(void *restrict into, const void *restrict from, size_t count,                 \
                     troupe_reduction how)                                                         \
    {                                                                                              \
        if (how == TROUPE_MIN)                                                                     \
            COMBINE(T, LESSER);                                                                    \
        else if (how == TROUPE_MAX)                                                                \
            COMBINE(T, GREATER);                                                                   \
        else                                                                                       \
            COMBINE(T, ADD);                                                                       \
    }
DEFINE_COMBINE(combine_floats, float, ADD_FLOATS)
DEFINE_COMBINE(combine_doubles, double, ADD_FLOATS)
DEFINE_COMBINE(combine_integers, int64_t, ADD_INTEGERS)

static void divide(void *values, size_t count, troupe_dtype element, int world)
{
    if (element == TROUPE_FLOAT32)
        for (size_t i = 0; i < count; i++)
            ((float *)values)[i] /= (float)world;
    else if (element == TROUPE_FLOAT64)
        for (size_t i = 0; i < count; i++)
            ((double *)values)[i] /= world;
    else
        for (size_t i = 0; i < count; i++)
            ((int64_t *)values)[i] /= world;
}

typedef struct reduction {
    troupe_dtype element;
    troupe_reduction how;
    size_t width; // Bytes an element.
} reduction;

// Reduces elements `from` to `to` of the ranks' slots into `out`, which may be one of them.
static void reduce(const link *here, const reduction *what, unsigned parity, size_t from, size_t to,
                   unsigned char *out)
{
    void (*const combine)(void *restrict, const void *restrict, size_t, troupe_reduction) =
        what->element == TROUPE_FLOAT32   ? combine_floats
        : what->element == TROUPE_FLOAT64 ? combine_doubles
                                          : combine_integers;
    _Alignas(64) unsigned char block[BLOCK * sizeof(int64_t)];
    for (size_t at = from; at < to; at += BLOCK) {
        size_t count = to - at < BLOCK ? to - at : BLOCK;
        size_t offset = at * what->width, bytes = count * what->width;
        for (int rank = 0; rank < here->world; rank++) {
            const unsigned char *slot = slot_of(here, rank, parity) + offset;
            if (rank == 0)
                memcpy(block, slot, bytes);
            else
                combine(block, slot, count, what->how);
        }
        if (what->how == TROUPE_MEAN)
            divide(block, count, what->element, here->world);
        memcpy(out + offset, block, bytes);
    }
}

// The first element of a rank's slice of `count`.
static size_t slice(const link *here, size_t count, int rank)
{
    return count * (size_t)rank / (size_t)here->world;
}

static troupe_status reduce_chunk(link *here, const reduction *what, unsigned char *values,
                                  size_t count, bool first)
{
    const char *name = operation_names[ALLREDUCE];
    unsigned parity = here->uses & 1;
    unsigned char *slot = slot_of(here, here->rank, parity);
    if (count)
        memcpy(slot, values, count * what->width);
    TROUPE_TRY(first ? first_step(here, name) : step(here, name));
    if (count * what->width * (size_t)here->world <= WHOLE_BYTES) {
        reduce(here, what, parity, 0, count, values);
        return TROUPE_OK;
    }
    reduce(here, what, parity, slice(here, count, here->rank), slice(here, count, here->rank + 1),
           slot);
    TROUPE_TRY(step(here, name));
    for (int rank = 0; rank < here->world; rank++) {
        size_t from = slice(here, count, rank), to = slice(here, count, rank + 1);
        memcpy(values + from * what->width, slot_of(here, rank, parity) + from * what->width,
               (to - from) * what->width);
    }
    return TROUPE_OK;
}

static troupe_status shm_allreduce(void *own, void *values, size_t count, troupe_dtype element,
                                   troupe_reduction how)
{
    link *here = (link *)own;
    if (element != TROUPE_FLOAT32 && element != TROUPE_FLOAT64 && element != TROUPE_INT64)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_allreduce: element type %d (%s), expected float32, float64 or "
                           "int64",
                           (int)element, troupe_dtype_text(element));
    reduction what = {element, how, troupe_dtype_size(element)};
    announce(here, (call){ALLREDUCE, element, how, 0, count});
    size_t chunk = TRP_SHM_SLOT / what.width;
    size_t at = 0;
    do {
        size_t now = count - at < chunk ? count - at : chunk;
        unsigned char *part = now ? (unsigned char *)values + at * what.width : NULL;
        TROUPE_TRY(reduce_chunk(here, &what, part, now, at == 0));
        at += now;
        here->uses += at < count;
    } while (at < count);
    return TROUPE_OK;
}

static troupe_status shm_broadcast(void *own, void *data, size_t size, int root)
{
    link *here = (link *)own;
    const char *name = operation_names[BROADCAST];
    announce(here, (call){BROADCAST, 0, 0, root, size});
    size_t at = 0;
    do {
        size_t now = size - at < TRP_SHM_SLOT ? size - at : TRP_SHM_SLOT;
        unsigned char *slot = slot_of(here, root, here->uses & 1);
        if (here->rank == root && now)
            memcpy(slot, (unsigned char *)data + at, now);
        TROUPE_TRY(at == 0 ? first_step(here, name) : step(here, name));
        if (here->rank != root && now)
            memcpy((unsigned char *)data + at, slot, now);
        at += now;
        here->uses += at < size;
    } while (at < size);
    return TROUPE_OK;
}

static troupe_status shm_barrier(void *own)
{
    link *here = (link *)own;
    announce(here, (call){.operation = BARRIER});
    return first_step(here, operation_names[BARRIER]);
}

// ---- the table

static size_t shm_size(int world)
{
    return (size_t)world * (sizeof(line) + (size_t)2 * TRP_SHM_SLOT);
}

static void shm_interrupt(void *memory, int world)
{
    line *lines = (line *)memory;
    for (int rank = 0; rank < world; rank++)
        trp_counter_close(&lines[rank].steps);
}

static troupe_status shm_open(trp_member *member, void *memory, void **own)
{
    link *here = (link *)trp_alloc(sizeof(*here));
    if (!here)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the collectives of rank %d",
                           member->rank);
    line *lines = (line *)memory;
    *here = (link){
        .member = member,
        .lines = lines,
        .slots = (unsigned char *)&lines[member->world],
        .rank = member->rank,
        .world = member->world,
    };
    *own = here;
    return TROUPE_OK;
}

static void shm_close(void *own)
{
    link *here = (link *)own;
    trp_counter_close(&here->lines[here->rank].steps);
    trp_free(here);
}

const trp_engine trp_engine_shm = {
    .name = "shm",
    .size = shm_size,
    .interrupt = shm_interrupt,
    .open = shm_open,
    .allreduce = shm_allreduce,
    .broadcast = shm_broadcast,
    .barrier = shm_barrier,
    .close = shm_close,
};
