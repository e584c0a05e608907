// channel.c: see channel.h. What writer and readers share; the argument for each step is in
// docs/internals/runtime/channels.md.
#include <runtime/channel/internal.h>

#include <runtime/base/clock.h>
#include <runtime/base/futex.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <stdio.h>

enum { SLICE_MS = 100 };
#define MAGIC UINT64_C(0x314c4e4843505254) // "TRPCHNL1"

bool trp_channel_lives(uint64_t owner)
{
    const trp_process_row *row = trp_segment_process(owner & (TRP_PROCESSES_MAX - 1));
    uint32_t state = atomic_load(&row->state);
    uint64_t self = atomic_load(&row->incarnation) << TRP_CHANNEL_PROCESS_BITS;
    return owner != 0 && self >> TRP_CHANNEL_PROCESS_BITS == owner >> TRP_CHANNEL_PROCESS_BITS &&
           (state == TRP_PROCESS_READY || state == TRP_PROCESS_STARTING);
}

void trp_channel_owner_text(uint64_t owner, char text[TRP_CHANNEL_WHO])
{
    uint32_t process = owner & (TRP_PROCESSES_MAX - 1);
    trp_process_row *row = trp_segment_process(process);
    uint64_t now = atomic_load(&row->incarnation) << TRP_CHANNEL_PROCESS_BITS | process;
    if (owner == 0 || now != owner)
        (void)snprintf(text, TRP_CHANNEL_WHO, "an earlier process %u", process);
    else if (atomic_load(&row->state) == TRP_PROCESS_DEAD)
        (void)snprintf(text, TRP_CHANNEL_WHO, "%.80s, which %.80s", trp_process_text(process).text,
                       row->cause);
    else
        (void)snprintf(text, TRP_CHANNEL_WHO, "%s", trp_process_text(process).text);
}

bool trp_channel_take(_Atomic uint64_t *owner, uint64_t self, uint64_t *found)
{
    *found = atomic_load(owner);
    return (*found == 0 || !trp_channel_lives(*found)) &&
           atomic_compare_exchange_strong(owner, found, self);
}

void trp_channel_sleep(_Atomic uint32_t *on, uint32_t seen, int64_t until_ns)
{
    int64_t left = (int64_t)SLICE_MS * 1000000;
    if (until_ns >= 0) {
        int64_t now = trp_clock_ns();
        left = until_ns - now < left ? until_ns - now : left;
    }
    if (left > 0)
        trp_wait(on, seen, left);
}

// ---- a channel

troupe_status trp_channel_size(const trp_channel_shape *shape, size_t *size)
{
    uint32_t least = shape->latest ? shape->readers + TRP_CHANNEL_SPARE : 1;
    if (shape->readers < 1 || shape->readers > TRP_CHANNEL_READERS_MAX)
        return troupe_fail(TROUPE_INVALID, "a channel for %u readers: expected 1 to %d",
                           shape->readers, TRP_CHANNEL_READERS_MAX);
    if (shape->slots < least || shape->slots > TRP_CHANNEL_SLOTS_MAX)
        return troupe_fail(TROUPE_INVALID, "a channel of %u slots: %s%u to %d", shape->slots,
                           shape->latest ? "with .latest expected two more than readers, "
                                         : "expected ",
                           least, TRP_CHANNEL_SLOTS_MAX);
    if (shape->bytes < 1)
        return troupe_fail(TROUPE_INVALID,
                           "a channel whose slots have 0 bytes: expected 1 or more");
    if (shape->bytes > SIZE_MAX / 4 / shape->slots)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "a channel of %u slots of %zu bytes: expected at most %zu bytes",
                           shape->slots, shape->bytes, SIZE_MAX / 4 / shape->slots);
    *size = trp_channel_slot_at(shape, shape->slots);
    return TROUPE_OK;
}

void trp_channel_init(void *memory, const trp_channel_shape *shape)
{
    TRP_USE_SEGMENT();
    trp_channel_region *region = memory;
    region->bytes = shape->bytes;
    region->slots = shape->slots;
    region->readers = shape->readers;
    region->latest = shape->latest;
    region->magic = MAGIC;
}

troupe_status trp_channel_attach(void *memory, size_t size, uint32_t process, trp_channel *channel)
{
    TRP_USE_SEGMENT(trp_use_refused());
    trp_channel_region *region = memory;
    size_t needed = 0;
    if (size < sizeof *region || region->magic != MAGIC)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "the reference is to %zu bytes that are not a channel", size);
    trp_channel_shape shape = {.bytes = region->bytes,
                               .slots = region->slots,
                               .readers = region->readers,
                               .latest = region->latest != 0};
    TROUPE_TRY(trp_channel_size(&shape, &needed));
    if (needed > size)
        return troupe_fail(TROUPE_CORRUPT, "a channel of %zu bytes lies in an object of %zu",
                           needed, size);
    *channel = (trp_channel){
        .region = region,
        .read_only = trp_segment.read_only + ((const char *)memory - trp_segment.base),
        .shape = shape,
        .self = atomic_load(&trp_segment_process(process)->incarnation)
                    << TRP_CHANNEL_PROCESS_BITS |
                process,
    };
    return TROUPE_OK;
}

trp_channel_look trp_channel_see(const trp_channel *channel)
{
    TRP_USE_SEGMENT((trp_channel_look){.closed = true});
    const trp_channel_region *region = channel->region;
    uint64_t head = atomic_load(&region->head.all);
    trp_channel_look look = {.published = trp_channel_sequence(head),
                             .written = trp_channel_lives(atomic_load(&region->owner)),
                             .closed = trp_channel_closed(head)};
    for (uint32_t i = 0; i < channel->shape.readers; i++)
        look.readers += trp_channel_lives(atomic_load(&region->places[i].owner));
    return look;
}

void trp_channel_writer_text(const trp_channel *channel, char text[TRP_CHANNEL_WHO])
{
    text[0] = '\0';
    TRP_USE_SEGMENT();
    trp_channel_owner_text(atomic_load(&channel->region->owner), text);
}
