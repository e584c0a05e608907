// collective.c: all-reduce, broadcast and barrier over the staging slots of a group.
//
// An all-reduce goes through the values in chunks of one slot. For each: every rank copies its
// chunk to its slot, and steps; each reduces its own slice of the chunk straight from all slots and
// leaves the result in its own, and steps; each copies the slices back. Small chunks are reduced
// whole by every rank, which saves the second step. Either way an element is combined in the order
// of ranks, so the bits are the same on all ranks, whichever comes first. Chunks alternate between
// two slots: a rank writes a slot again only after a step that the others make when they have read
// it.
#include <inttypes.h>
#include <string.h>
#include <train/collective.h>

enum {
    WHOLE_BYTES = 8192, // Up to here (over all ranks) reading everything is cheaper than a step.
    BLOCK = 256,        // Elements reduced at a time, in memory that stays in the first cache.
};

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
static troupe_status differ(const trp_group *group, int other, const trp_group_call *mine,
                            const trp_group_call *theirs)
{
    int me = group->rank;
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

static bool same(const trp_group_call *a, const trp_group_call *b)
{
    return a->operation == b->operation && a->element == b->element && a->how == b->how &&
           a->root == b->root && a->count == b->count;
}

// Publishes what this rank calls; compared after the operation's first step. Calls alternate
// between two places for the reason that slots do.
static void announce(trp_group *group, trp_group_call call)
{
    group->operations++;
    group->uses++; // Also where no slot is used: ranks that differ in their calls must not here.
    group->region->lines[group->rank].calls[group->operations & 1] = call;
}

static troupe_status first_step(trp_group *group, const char *what)
{
    TROUPE_TRY(trp_group_step(group, what));
    unsigned parity = group->operations & 1;
    const trp_group_call *mine = &group->region->lines[group->rank].calls[parity];
    for (int rank = 0; rank < group->world; rank++) {
        trp_group_call theirs = group->region->lines[rank].calls[parity];
        if (!same(mine, &theirs))
            return differ(group, rank, mine, &theirs);
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
static void reduce(const trp_group *group, const reduction *what, unsigned parity, size_t from,
                   size_t to, unsigned char *out)
{
    void (*const combine)(void *restrict, const void *restrict, size_t, troupe_reduction) =
        what->element == TROUPE_FLOAT32   ? combine_floats
        : what->element == TROUPE_FLOAT64 ? combine_doubles
                                          : combine_integers;
    _Alignas(64) unsigned char block[BLOCK * sizeof(int64_t)];
    for (size_t at = from; at < to; at += BLOCK) {
        size_t count = to - at < BLOCK ? to - at : BLOCK;
        size_t offset = at * what->width, bytes = count * what->width;
        for (int rank = 0; rank < group->world; rank++) {
            const unsigned char *slot =
                (const unsigned char *)trp_group_slot(group, rank, parity) + offset;
            if (rank == 0)
                memcpy(block, slot, bytes);
            else
                combine(block, slot, count, what->how);
        }
        if (what->how == TROUPE_MEAN)
            divide(block, count, what->element, group->world);
        memcpy(out + offset, block, bytes);
    }
}

// The first element of a rank's slice of `count`.
static size_t slice(const trp_group *group, size_t count, int rank)
{
    return count * (size_t)rank / (size_t)group->world;
}

static troupe_status reduce_chunk(trp_group *group, const reduction *what, unsigned char *values,
                                  size_t count, bool first)
{
    const char *name = operation_names[ALLREDUCE];
    unsigned parity = group->uses & 1;
    unsigned char *slot = (unsigned char *)trp_group_slot(group, group->rank, parity);
    if (count)
        memcpy(slot, values, count * what->width);
    TROUPE_TRY(first ? first_step(group, name) : trp_group_step(group, name));
    if (count * what->width * (size_t)group->world <= WHOLE_BYTES) {
        reduce(group, what, parity, 0, count, values);
        return TROUPE_OK;
    }
    reduce(group, what, parity, slice(group, count, group->rank),
           slice(group, count, group->rank + 1), slot);
    TROUPE_TRY(trp_group_step(group, name));
    for (int rank = 0; rank < group->world; rank++) {
        size_t from = slice(group, count, rank), to = slice(group, count, rank + 1);
        memcpy(values + from * what->width,
               (const unsigned char *)trp_group_slot(group, rank, parity) + from * what->width,
               (to - from) * what->width);
    }
    return TROUPE_OK;
}

troupe_status trp_allreduce(trp_group *group, void *values, size_t count, troupe_dtype element,
                            troupe_reduction how)
{
    if (element != TROUPE_FLOAT32 && element != TROUPE_FLOAT64 && element != TROUPE_INT64)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_allreduce: element type %d (%s), expected float32, float64 or "
                           "int64",
                           (int)element, troupe_dtype_text(element));
    if ((unsigned)how > TROUPE_MAX)
        return troupe_fail(TROUPE_INVALID, "troupe_allreduce: no reduction %d", (int)how);
    if (!values && count)
        return troupe_fail(TROUPE_INVALID, "troupe_allreduce: %zu values at NULL", count);
    reduction what = {element, how, troupe_dtype_size(element)};
    announce(group, (trp_group_call){ALLREDUCE, element, how, 0, count});
    size_t chunk = TRP_GROUP_SLOT / what.width;
    size_t at = 0;
    do {
        size_t now = count - at < chunk ? count - at : chunk;
        unsigned char *part = now ? (unsigned char *)values + at * what.width : NULL;
        TROUPE_TRY(reduce_chunk(group, &what, part, now, at == 0));
        at += now;
        group->uses += at < count;
    } while (at < count);
    return TROUPE_OK;
}

troupe_status trp_broadcast(trp_group *group, void *data, size_t size, int root)
{
    const char *name = operation_names[BROADCAST];
    if (!data && size)
        return troupe_fail(TROUPE_INVALID, "%s: %zu bytes at NULL", name, size);
    if (root < 0 || root >= group->world)
        return troupe_fail(TROUPE_INVALID, "%s: no rank %d in a group of %d", name, root,
                           group->world);
    announce(group, (trp_group_call){BROADCAST, 0, 0, root, size});
    size_t at = 0;
    do {
        size_t now = size - at < TRP_GROUP_SLOT ? size - at : TRP_GROUP_SLOT;
        unsigned char *slot = (unsigned char *)trp_group_slot(group, root, group->uses & 1);
        if (group->rank == root && now)
            memcpy(slot, (unsigned char *)data + at, now);
        TROUPE_TRY(at == 0 ? first_step(group, name) : trp_group_step(group, name));
        if (group->rank != root && now)
            memcpy((unsigned char *)data + at, slot, now);
        at += now;
        group->uses += at < size;
    } while (at < size);
    return TROUPE_OK;
}

troupe_status trp_barrier(trp_group *group)
{
    announce(group, (trp_group_call){.operation = BARRIER});
    return first_step(group, operation_names[BARRIER]);
}
