// shared.c: see shared.h.
#include <inttypes.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <train/collective.h>
#include <train/shared.h>

enum {
    ALIGN = 64,
    OFFSET_BITS = 48, // Of a place; the number of its block, from 1 on, is above them.
    BLOCKS_MAX = 1 << 15,
};

// ---- the store

static trp_shared_holder store_self(void)
{
    return (trp_shared_holder){trp_process_slot(), trp_process_incarnation()};
}

static troupe_status store_make(size_t size, const trp_shared_holder *holders, int world,
                                uint64_t *id)
{
    void *data;
    trp_object made;
    TROUPE_TRY(trp_store_share(size, &made, &data));
    troupe_status status = TROUPE_OK;
    int lent = 1; // Rank 0 has made it.
    for (; lent < world && status == TROUPE_OK; lent++)
        status = trp_store_lend(made, (uint32_t)holders[lent].process, holders[lent].incarnation);
    if (status == TROUPE_OK) {
        *id = made;
        return TROUPE_OK;
    }
    for (int rank = 1; rank < lent - 1; rank++)
        trp_store_take_back(made, (uint32_t)holders[rank].process, holders[rank].incarnation);
    trp_store_release(made, trp_process_slot());
    return status;
}

static void *store_find(uint64_t id)
{
    trp_object_info found = trp_store_look(id);
    // It is writable to all who hold it; the field is const for the sake of ordinary objects.
    return found.state == TRP_OBJECT_SHARED ? (void *)(uintptr_t)found.data : NULL;
}

static void store_drop(uint64_t id)
{
    trp_store_release(id, trp_process_slot());
}

const trp_shared_source trp_shared_store = {
    .self = store_self,
    .make = store_make,
    .find = store_find,
    .drop = store_drop,
};

// ---- making a block, all ranks together

// What a rank says of itself, and what rank 0 says of the block.
typedef struct request {
    trp_shared_holder holder;
    uint64_t size;
} request;
typedef struct answer {
    uint64_t id;
    int32_t status;
    char text[148];
} answer;

static troupe_status exchange(trp_member *member, size_t size, request *all)
{
    request mine = {member->shared->source->self(), size};
    TROUPE_TRY(trp_collective(member, &(trp_request){.operation = TRP_ALL_GATHER,
                                                     .purpose = TRP_SHARED_ALLOC,
                                                     .from = &mine,
                                                     .to = all,
                                                     .count = sizeof mine}));
    for (int rank = 0; rank < member->world; rank++)
        if (all[rank].size != size)
            return troupe_fail(TROUPE_INVALID,
                               "troupe_shared_alloc: rank %d asked for %zu bytes and rank %d for "
                               "%" PRIu64 ": all ranks must ask for the same",
                               member->rank, size, rank, all[rank].size);
    return TROUPE_OK;
}

// What rank 0 has made, or why it could not.
static troupe_status make(trp_member *member, size_t part, const request *all, uint64_t *id)
{
    const char *name = trp_operation_text(TRP_SHARED_ALLOC);
    answer made = {0};
    trp_shared_holder *holders = NULL;
    if (member->rank == 0) {
        size_t world = (size_t)member->world;
        holders = (trp_shared_holder *)trp_alloc(world * sizeof *holders);
        for (size_t rank = 0; rank < world && holders; rank++)
            holders[rank] = all[rank].holder;
        troupe_status status =
            holders ? member->shared->source->make(world * part, holders, member->world, &made.id)
                    : troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu ranks", world);
        made.status = (int32_t)status;
        if (status != TROUPE_OK)
            snprintf(made.text, sizeof made.text, "%.147s", troupe_last_error()->text);
        trp_free(holders);
    }
    TROUPE_TRY(trp_collective(member, &(trp_request){.operation = TRP_BROADCAST,
                                                     .purpose = TRP_SHARED_ALLOC,
                                                     .to = &made,
                                                     .count = sizeof made}));
    made.text[sizeof made.text - 1] = 0;
    if (made.status != TROUPE_OK)
        return troupe_fail((troupe_status)made.status, "%s: %zu bytes for each of %d ranks: %s",
                           name, part, member->world, made.text);
    *id = made.id;
    return TROUPE_OK;
}

static bool add(trp_shared *shared, trp_shared_block block)
{
    trp_shared_block *grown =
        shared->count < BLOCKS_MAX
            ? (trp_shared_block *)trp_realloc(shared->blocks,
                                              (shared->count + 1) * sizeof *shared->blocks)
            : NULL;
    if (!grown)
        return false;
    shared->blocks = grown;
    shared->blocks[shared->count++] = block;
    return true;
}

// Each rank has the block, or none: so they number blocks alike.
static troupe_status agree(trp_member *member, bool mine, size_t part, uint64_t id)
{
    int32_t have = mine;
    troupe_status status = trp_collective(member, &(trp_request){.operation = TRP_ALLREDUCE,
                                                                 .purpose = TRP_SHARED_ALLOC,
                                                                 .to = &have,
                                                                 .count = 1,
                                                                 .element = TROUPE_INT32,
                                                                 .how = TROUPE_MIN});
    if (status == TROUPE_OK && !have)
        status = troupe_fail(TROUPE_NO_MEMORY,
                             "troupe_shared_alloc: a rank has no memory to note "
                             "%zu bytes",
                             part);
    if (status == TROUPE_OK)
        return TROUPE_OK;
    if (mine)
        member->shared->count--;
    member->shared->source->drop(id);
    return status;
}

troupe_status trp_shared_alloc(trp_member *member, size_t size, void **data)
{
    uint64_t id = 0;
    if (!member->shared || !(member->engine->reaches & TRP_REACHES_PEERS))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "troupe_shared_alloc: the engine '%s' does not reach other ranks' "
                           "memory",
                           member->engine->name);
    if (size > (size_t)PTRDIFF_MAX / ((size_t)member->world + 1))
        return troupe_fail(TROUPE_TOO_LARGE,
                           "troupe_shared_alloc: %zu bytes for each of %d ranks are more than "
                           "memory can hold",
                           size, member->world);
    size_t part = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    request *all = (request *)trp_alloc((size_t)member->world * sizeof *all);
    if (!all)
        return trp_member_short(member, trp_operation_text(TRP_SHARED_ALLOC));
    troupe_status status = exchange(member, size, all);
    if (status == TROUPE_OK)
        status = make(member, part, all, &id);
    trp_free(all);
    TROUPE_TRY(status);
    unsigned char *found = (unsigned char *)member->shared->source->find(id);
    bool mine = found && add(member->shared, (trp_shared_block){id, found, part});
    TROUPE_TRY(agree(member, mine, part, id));
    *data = found + (size_t)member->rank * part;
    return TROUPE_OK;
}

void trp_shared_end(trp_shared *shared)
{
    for (size_t i = 0; i < shared->count; i++)
        shared->source->drop(shared->blocks[i].id);
    trp_free(shared->blocks);
    shared->blocks = NULL;
    shared->count = 0;
}

// ---- places

uint64_t trp_shared_place(const trp_member *member, const void *data, size_t size)
{
    const trp_shared *shared = member->shared;
    for (size_t i = 0; shared && i < shared->count; i++) {
        const trp_shared_block *block = &shared->blocks[i];
        uintptr_t begin = (uintptr_t)block->data + (size_t)member->rank * block->size;
        uintptr_t at = (uintptr_t)data;
        if (at >= begin && at - begin <= block->size && size <= block->size - (at - begin))
            return (uint64_t)(i + 1) << OFFSET_BITS | (uint64_t)(at - begin);
    }
    return 0;
}

void *trp_shared_at(const trp_member *member, int rank, uint64_t place, size_t size)
{
    const trp_shared *shared = member->shared;
    uint64_t number = place >> OFFSET_BITS, offset = place & (((uint64_t)1 << OFFSET_BITS) - 1);
    if (!shared || number == 0 || number > shared->count)
        return NULL;
    const trp_shared_block *block = &shared->blocks[number - 1];
    if (offset > block->size || size > block->size - offset)
        return NULL;
    return block->data + (size_t)rank * block->size + offset;
}
