// engine_shm.c: collectives over staging slots in shared memory, or in place over memory that the
// ranks share anyway.
//
//     [ line of rank 0 | line of rank 1 | ... | slots of rank 0 | slots of rank 1 | ... ]
//
// A step is one count in the rank's own line: it returns when every rank has made as many. What
// ranks wrote before their step can be read after it. A rank has two slots, for what it gives to
// the others; uses alternate, and each has a step: so a slot is written again only after a step
// that the others make when they have read it.
//
// An all-reduce goes through the values in chunks of one slot. For each: every rank copies to its
// slot what others reduce, and steps; each reduces its own slice of the chunk, of its values and
// the others' slots, and writes it to all of those, and steps; each copies the others' slices from
// its slot. Chunks follow each other like on a belt: one step is the first of one chunk and the
// second of the one before. What is small is reduced whole by every rank, which saves a step. Where
// the values of all ranks lie in memory that all reach, each rank reduces its slice of all of them,
// straight to all of them. However it goes, an element is combined in the order of ranks, so the
// bits are the same.
//
// Results go back to where their sources lay, and not to slots of their own, because of how caches
// work: a line that one processor has written, and another one read and then wrote, changes hands
// at once. One that another processor has only read costs its writer up to fifteen times as much
// the next time.
#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <train/control.h>
#include <train/engine_shm.h>
#include <train/reduce.h>

enum {
    WHOLE_BYTES = 1024, // Up to here (over all ranks) reading everything is cheaper than a step.
    CACHE_LINE = 64,
    SLOTS = 2, // Of a rank.
};

// What a rank has called; compared by all ranks, since all must call the same, but for the place.
typedef struct call {
    uint8_t operation, element, how;
    int32_t root;
    uint64_t count;
    uint64_t place; // Of its values, where the others reach them; 0: they do not.
} call;

typedef struct line {
    _Alignas(CACHE_LINE) trp_counter steps; // Closed when the group ends or the rank leaves.
    call calls[2];                          // By parity of the operation.
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
    // Of each rank, for the operation that runs:
    unsigned char **values; // where its values lie,
    const void **from;      // and a part of them,
    void **to;              // and of what they become.
} link;

static const char *reduction_text(unsigned how)
{
    static const char *const texts[] = {"TROUPE_SUM", "TROUPE_MEAN", "TROUPE_MIN", "TROUPE_MAX"};
    return how < sizeof texts / sizeof *texts ? texts[how] : "?";
}

// The name of what the rank has called.
static const char *name_of(const link *here, trp_operation operation)
{
    return trp_operation_text(trp_member_operation(here->member, operation));
}

// Says how two ranks' calls differ, by the first thing that does.
static troupe_status differ(const link *here, int other, const call *mine, const call *theirs)
{
    int me = here->rank;
    const char *name = trp_operation_text(mine->operation);
    if (mine->operation != theirs->operation)
        return troupe_fail(
            TROUPE_INVALID,
            "rank %d called %s while rank %d called %s: all ranks must call the same", me, name,
            other, trp_operation_text(theirs->operation));
    if (mine->count != theirs->count)
        return troupe_fail(TROUPE_INVALID,
                           "%s: rank %d passed %" PRIu64 " %s and rank %d %" PRIu64
                           ": all ranks must pass the same count",
                           name, me, mine->count, mine->element ? "values" : "bytes", other,
                           theirs->count);
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
            name, me, reduction_text(mine->how), other, reduction_text(theirs->how));
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

// A rank of a group of one gives nothing, and has no staging memory: half a MiB that would be
// zeroed while it starts.
static bool gives(const link *here)
{
    return here->world > 1;
}

// The staging memory of a rank for the use with that number: what it gives.
static unsigned char *given(const link *here, int rank, uint32_t use)
{
    return here->slots + ((size_t)rank * SLOTS + (use & 1)) * TRP_SHM_SLOT;
}

static troupe_status step(link *here, const char *what)
{
    const trp_member *member = here->member;
    if (!trp_member_is_whole(member))
        return trp_member_lost(member, what);
    here->steps++;
    trp_counter_raise(&here->lines[here->rank].steps);
    int64_t until_ms = 0;
    for (int rank = 0; rank < here->world; rank++) {
        trp_counter *other = &here->lines[rank].steps;
        if (rank == here->rank || trp_counter_glance(other, here->steps))
            continue;
        if (until_ms == 0)
            until_ms = trp_clock_ms() + member->timeout_ms;
        if (!trp_counter_await(other, here->steps, member->engine_spin_ns, until_ms))
            return trp_member_absent(member, rank, what);
    }
    return TROUPE_OK;
}

// Publishes what this rank calls; compared after the operation's first step. Calls alternate
// between two places for the reason that slots do.
static void announce(link *here, call what)
{
    what.operation = (uint8_t)trp_member_operation(here->member, (trp_operation)what.operation);
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

// ---- where the values of ranks lie

typedef enum form {
    STAGED, // None is reached by the others.
    DIRECT, // All are.
    MIXED,  // Some: all are staged.
} form;

// After the first step: finds the values of all ranks, of `size` bytes each.
static form find_values(link *here, size_t size)
{
    int reached = 0;
    for (int rank = 0; rank < here->world; rank++) {
        uint64_t place = here->lines[rank].calls[here->operations & 1].place;
        here->values[rank] = (unsigned char *)trp_shared_at(here->member, rank, place, size);
        reached += here->values[rank] != NULL;
    }
    return reached == here->world ? DIRECT : reached == 0 ? STAGED : MIXED;
}

// ---- reductions

typedef struct reduction {
    trp_reducer by;
    size_t width; // Bytes an element.
    const char *name;
} reduction;

static troupe_status find_reduction(const link *here, trp_operation operation, troupe_dtype element,
                                    troupe_reduction how, reduction *found)
{
    *found = (reduction){trp_reducer_of(element, how), troupe_dtype_size(element),
                         name_of(here, operation)};
    if (!found->by)
        return troupe_fail(TROUPE_UNSUPPORTED, "%s: the engine 'shm' does not reduce %s",
                           found->name, troupe_dtype_text(element));
    return TROUPE_OK;
}

// The first element of a rank's slice of `count`: no two ranks write to one line of the cache.
static size_t slice(const link *here, const reduction *what, size_t count, int rank)
{
    size_t unit = CACHE_LINE / what->width;
    return rank == here->world ? count : count / unit * (size_t)rank / (size_t)here->world * unit;
}

// Reduces elements `from` to `to` of `values`, of this rank and of the others' slots, to `targets`.
static void reduce(const link *here, const reduction *what, size_t from, size_t to, int targets)
{
    if (to > from)
        what->by(&(trp_reduction){here->from, here->world, here->to, targets, to - from,
                                  here->member->divisor});
}

// Copies elements of a chunk to this rank's slot, all but those that it reduces itself.
static void give(const link *here, const reduction *what, const unsigned char *values, size_t count,
                 uint32_t use)
{
    size_t begin = slice(here, what, count, here->rank) * what->width;
    size_t end = slice(here, what, count, here->rank + 1) * what->width;
    unsigned char *slot = given(here, here->rank, use);
    trp_copy_values(slot, values, begin);
    trp_copy_values(slot + end, values + end, count * what->width - end);
}

// Reduces this rank's slice of a chunk, of its values and the others' slots, to all of those.
static void reduce_slice(const link *here, const reduction *what, unsigned char *values,
                         size_t count, uint32_t use)
{
    size_t begin = slice(here, what, count, here->rank);
    size_t end = slice(here, what, count, here->rank + 1), offset = begin * what->width;
    for (int rank = 0; rank < here->world; rank++) {
        here->to[rank] = (rank == here->rank ? values : given(here, rank, use)) + offset;
        here->from[rank] = here->to[rank];
    }
    reduce(here, what, begin, end, here->world);
}

// Takes the others' slices of a chunk from this rank's slot, where they have left them.
static void take(const link *here, const reduction *what, unsigned char *values, size_t count,
                 uint32_t use)
{
    size_t begin = slice(here, what, count, here->rank) * what->width;
    size_t end = slice(here, what, count, here->rank + 1) * what->width;
    const unsigned char *slot = given(here, here->rank, use);
    trp_copy_values(values, slot, begin);
    trp_copy_values(values + end, slot + end, count * what->width - end);
}

// All of it at once, by each rank. What is no larger than the place of values goes in its stead: so
// it comes with the step.
static troupe_status allreduce_whole(link *here, const reduction *what, call mine,
                                     unsigned char *values)
{
    size_t count = (size_t)mine.count, size = count * what->width;
    bool fits = size <= sizeof mine.place;
    if (count)
        memcpy(fits ? (unsigned char *)&mine.place : given(here, here->rank, here->uses + 1),
               values, size);
    announce(here, mine);
    TROUPE_TRY(first_step(here, what->name));
    for (int rank = 0; rank < here->world; rank++)
        here->from[rank] = fits ? (void *)&here->lines[rank].calls[here->operations & 1].place
                                : given(here, rank, here->uses);
    here->to[0] = values;
    reduce(here, what, 0, count, 1);
    return TROUPE_OK;
}

static troupe_status allreduce_direct(link *here, const reduction *what, size_t count)
{
    size_t begin = slice(here, what, count, here->rank);
    size_t end = slice(here, what, count, here->rank + 1);
    for (int rank = 0; rank < here->world; rank++) {
        here->to[rank] = here->values[rank] + begin * what->width;
        here->from[rank] = here->to[rank];
    }
    reduce(here, what, begin, end, here->world);
    return step(here, what->name);
}

// A chunk of values: the number of elements in it; *values becomes its first one.
static size_t chunk_at(const reduction *what, size_t count, size_t index, unsigned char **values)
{
    size_t each = TRP_SHM_SLOT / what->width, at = index * each;
    *values += at * what->width;
    return count - at < each ? count - at : each;
}

// From when the first chunk was given.
static troupe_status allreduce_staged(link *here, const reduction *what, unsigned char *values,
                                      size_t count)
{
    size_t each = TRP_SHM_SLOT / what->width, chunks = (count + each - 1) / each;
    for (size_t i = 1; i <= chunks + 1; i++) {
        unsigned char *ahead = values, *now = values, *behind = values;
        if (i >= 2) { // From the slot that the next chunk is given in.
            size_t number = chunk_at(what, count, i - 2, &behind);
            take(here, what, behind, number, here->uses + (uint32_t)i - 2);
        }
        if (i < chunks) {
            size_t number = chunk_at(what, count, i, &ahead);
            give(here, what, ahead, number, here->uses + (uint32_t)i);
        }
        if (i <= chunks) {
            size_t number = chunk_at(what, count, i - 1, &now);
            reduce_slice(here, what, now, number, here->uses + (uint32_t)i - 1);
            TROUPE_TRY(step(here, what->name));
        }
    }
    here->uses += (uint32_t)chunks - 1;
    return TROUPE_OK;
}

static troupe_status shm_allreduce(void *own, void *data, size_t count, troupe_dtype element,
                                   troupe_reduction how)
{
    link *here = (link *)own;
    reduction what;
    TROUPE_TRY(find_reduction(here, TRP_ALLREDUCE, element, how, &what));
    unsigned char *values = (unsigned char *)data, *chunk = values;
    size_t size = count * what.width;
    call mine = {TRP_ALLREDUCE, (uint8_t)element, (uint8_t)how, 0, count, 0};
    if (size * (size_t)here->world <= WHOLE_BYTES && (gives(here) || size <= sizeof mine.place))
        return allreduce_whole(here, &what, mine, values);
    uint64_t place = mine.place = trp_shared_place(here->member, values, size);
    announce(here, mine);
    size_t first = chunk_at(&what, count, 0, &chunk);
    if (!place)
        give(here, &what, chunk, first, here->uses);
    TROUPE_TRY(first_step(here, what.name));
    form how_stored = find_values(here, size);
    if (how_stored == DIRECT)
        return allreduce_direct(here, &what, count);
    if (how_stored == MIXED) {
        if (place)
            give(here, &what, chunk, first, here->uses);
        TROUPE_TRY(step(here, what.name));
    }
    return allreduce_staged(here, &what, values, count);
}

// ---- reduce-scatter

// Gives elements of the others' parts, from `at` on, one part after the other.
static void give_parts(const link *here, const reduction *what, const unsigned char *values,
                       size_t count, size_t at, size_t number, uint32_t use)
{
    size_t size = number * what->width;
    unsigned char *slot = given(here, here->rank, use);
    for (int rank = 0; rank < here->world; rank++)
        if (rank != here->rank)
            trp_copy_values(slot + (size_t)rank * size,
                            values + ((size_t)rank * count + at) * what->width, size);
}

static troupe_status scatter_staged(link *here, const reduction *what, const unsigned char *values,
                                    size_t count, size_t each, unsigned char *result)
{
    const unsigned char *own = values + (size_t)here->rank * count * what->width;
    size_t at = 0;
    do {
        size_t number = count - at < each ? count - at : each;
        for (int rank = 0; rank < here->world; rank++) {
            unsigned char *slot = given(here, rank, here->uses);
            here->to[rank] = slot + (size_t)here->rank * number * what->width;
            here->from[rank] = here->to[rank];
        }
        here->from[here->rank] = own + at * what->width;
        here->to[here->rank] = result + at * what->width;
        reduce(here, what, 0, number, here->world);
        at += number;
        if (at < count) {
            here->uses++;
            number = count - at < each ? count - at : each;
            give_parts(here, what, values, count, at, number, here->uses);
            TROUPE_TRY(step(here, what->name));
        }
    } while (at < count);
    return TROUPE_OK;
}

static troupe_status shm_reduce_scatter(void *own, const void *data, size_t count, void *result,
                                        troupe_dtype element, troupe_reduction how)
{
    link *here = (link *)own;
    reduction what;
    TROUPE_TRY(find_reduction(here, TRP_REDUCE_SCATTER, element, how, &what));
    const unsigned char *values = (const unsigned char *)data;
    size_t size = count * what.width, each = TRP_SHM_SLOT / what.width / (size_t)here->world;
    size_t first = count < each ? count : each;
    uint64_t place = count ? trp_shared_place(here->member, values, size * (size_t)here->world) : 0;
    announce(here, (call){TRP_REDUCE_SCATTER, (uint8_t)element, (uint8_t)how, 0, count, place});
    if (!place && count)
        give_parts(here, &what, values, count, 0, first, here->uses);
    TROUPE_TRY(first_step(here, what.name));
    if (!count)
        return TROUPE_OK;
    form how_stored = find_values(here, size * (size_t)here->world);
    if (how_stored == MIXED) {
        if (place)
            give_parts(here, &what, values, count, 0, first, here->uses);
        TROUPE_TRY(step(here, what.name));
    }
    if (how_stored != DIRECT)
        return scatter_staged(here, &what, values, count, each, (unsigned char *)result);
    for (int rank = 0; rank < here->world; rank++)
        here->from[rank] = here->values[rank] + (size_t)here->rank * size;
    here->to[0] = result;
    reduce(here, &what, 0, count, 1);
    return step(here, what.name); // Nobody changes its values before.
}

// ---- moving bytes

static void copy(void *to, const void *from, size_t size)
{
    if (size && to != from)
        trp_copy_values(to, from, size);
}

static size_t bytes_at(size_t size, size_t at)
{
    return size - at < TRP_SHM_SLOT ? size - at : TRP_SHM_SLOT;
}

static troupe_status gather_staged(link *here, const char *name, const unsigned char *data,
                                   size_t size, unsigned char *all)
{
    size_t at = 0;
    do {
        size_t now = bytes_at(size, at);
        for (int rank = 0; rank < here->world; rank++)
            if (rank != here->rank)
                copy(all + (size_t)rank * size + at, given(here, rank, here->uses), now);
        at += now;
        if (at < size) {
            here->uses++;
            copy(given(here, here->rank, here->uses), data + at, bytes_at(size, at));
            TROUPE_TRY(step(here, name));
        }
    } while (at < size);
    return TROUPE_OK;
}

static troupe_status shm_all_gather(void *own, const void *data, size_t size, void *result)
{
    link *here = (link *)own;
    const char *name = name_of(here, TRP_ALL_GATHER);
    unsigned char *all = (unsigned char *)result;
    uint64_t place = size > WHOLE_BYTES ? trp_shared_place(here->member, data, size) : 0;
    announce(here, (call){TRP_ALL_GATHER, 0, 0, 0, size, place});
    if (!place && gives(here))
        copy(given(here, here->rank, here->uses), data, bytes_at(size, 0));
    TROUPE_TRY(first_step(here, name));
    if (!size)
        return TROUPE_OK;
    copy(all + (size_t)here->rank * size, data, size);
    if (!gives(here))
        return TROUPE_OK;
    form how_stored = find_values(here, size);
    if (how_stored == MIXED) {
        if (place)
            copy(given(here, here->rank, here->uses), data, bytes_at(size, 0));
        TROUPE_TRY(step(here, name));
    }
    if (how_stored != DIRECT)
        return gather_staged(here, name, (const unsigned char *)data, size, all);
    for (int rank = 0; rank < here->world; rank++)
        if (rank != here->rank)
            copy(all + (size_t)rank * size, here->values[rank], size);
    return step(here, name);
}

static troupe_status shm_broadcast(void *own, void *data, size_t size, int root)
{
    link *here = (link *)own;
    const char *name = name_of(here, TRP_BROADCAST);
    bool mine = here->rank == root;
    uint64_t place = mine && size > WHOLE_BYTES ? trp_shared_place(here->member, data, size) : 0;
    announce(here, (call){TRP_BROADCAST, 0, 0, root, size, place});
    if (mine && !place && gives(here))
        copy(given(here, root, here->uses), data, bytes_at(size, 0));
    TROUPE_TRY(first_step(here, name));
    if (!gives(here))
        return TROUPE_OK;
    (void)find_values(here, size);
    if (here->values[root]) {
        copy(data, here->values[root], size);
        return step(here, name);
    }
    unsigned char *bytes = (unsigned char *)data;
    for (size_t at = 0; at < size;) {
        size_t now = bytes_at(size, at);
        if (!mine)
            copy(bytes + at, given(here, root, here->uses), now);
        at += now;
        if (at < size) {
            here->uses++;
            if (mine)
                copy(given(here, root, here->uses), bytes + at, bytes_at(size, at));
            TROUPE_TRY(step(here, name));
        }
    }
    return TROUPE_OK;
}

static troupe_status shm_barrier(void *own)
{
    link *here = (link *)own;
    announce(here, (call){.operation = TRP_BARRIER});
    return first_step(here, name_of(here, TRP_BARRIER));
}

// ---- the table

static size_t shm_size(int world)
{
    size_t slots = world > 1 ? (size_t)SLOTS * TRP_SHM_SLOT : 0;
    return (size_t)world * (sizeof(line) + slots);
}

static void shm_interrupt(void *memory, int world)
{
    line *lines = (line *)memory;
    for (int rank = 0; rank < world; rank++)
        trp_counter_close(&lines[rank].steps);
}

static troupe_status shm_open(trp_member *member, void *memory, void **own)
{
    size_t world = (size_t)member->world;
    link *here = (link *)trp_alloc(sizeof(*here) + 3 * world * sizeof(void *));
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
        .values = (unsigned char **)(here + 1),
    };
    here->from = (const void **)(here->values + world);
    here->to = (void **)(here->from + world);
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
    .reaches = TRP_REACHES_HOST | TRP_REACHES_PEERS,
    .size = shm_size,
    .interrupt = shm_interrupt,
    .open = shm_open,
    .allreduce = shm_allreduce,
    .reduce_scatter = shm_reduce_scatter,
    .all_gather = shm_all_gather,
    .broadcast = shm_broadcast,
    .barrier = shm_barrier,
    .close = shm_close,
};
