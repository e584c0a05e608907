// writer.c: writing into a channel; see channel.h.
#include <runtime/channel/writer.h>

#include <runtime/base/fault.h>
#include <runtime/base/futex.h>
#include <runtime/channel/internal.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/store.h>
#include <stdio.h>

static trp_habit spins = {.every = 1};

static uint64_t make_head(uint64_t sequence, uint32_t index)
{
    return sequence << (TRP_CHANNEL_SLOT_BITS + TRP_CHANNEL_CLOSED_BITS) |
           (uint64_t)index << TRP_CHANNEL_CLOSED_BITS;
}

troupe_status trp_channel_write_open(const trp_channel *channel, trp_channel_writer *writer)
{
    TRP_USE_SEGMENT(trp_use_refused());
    trp_channel_region *region = channel->region;
    char text[TRP_CHANNEL_WHO];
    uint64_t found;
    // Before the place is taken: a closed channel has no writer any more.
    bool closed = trp_channel_closed(atomic_load(&region->head.all));
    if (!closed && !trp_channel_take(&region->owner, channel->self, &found)) {
        trp_channel_owner_text(found, text);
        return troupe_fail(TROUPE_EXISTS, "the channel has a writer: %s", text);
    }
    TRP_FAULT("channel");
    uint64_t head = atomic_load(&region->head.all);
    if (trp_channel_closed(head)) { // Or was closed in between.
        if (!closed)
            atomic_store(&region->owner, 0);
        return troupe_fail(TROUPE_STOPPED, "the channel was closed");
    }
    atomic_store(&region->wanted, 0); // A predecessor may have died with one.
    *writer = (trp_channel_writer){.channel = *channel, .next = trp_channel_sequence(head) + 1};
    return TROUPE_OK;
}

// The first sequence that must not be written yet, for the readers that are there; notes a place
// that keeps `next` from being written.
static uint64_t clear_up_to(trp_channel_writer *writer)
{
    const trp_channel *channel = &writer->channel;
    uint64_t cleared = UINT64_MAX;
    for (uint32_t i = 0; i < channel->shape.readers; i++) {
        trp_channel_place *one = &channel->region->places[i];
        uint64_t at = atomic_load(&one->at.all);
        if (at == 0 || at + channel->shape.slots >= cleared)
            continue;
        // Who blocks is looked at closely. A place that is taken over just now: its new owner finds
        // what this writer is at, and begins after it.
        if (at + channel->shape.slots <= writer->next &&
            !trp_channel_lives(atomic_load(&one->owner)))
            continue;
        cleared = at + channel->shape.slots;
        writer->blocker = i;
    }
    return cleared;
}

static bool begin_ordered(trp_channel_writer *writer)
{
    trp_channel_region *region = writer->channel.region;
    // Pairs with a reader that comes: it says that it has released nothing, raises `joins`, and
    // reads this; we wrote this and now read `joins`. Either we see it and wait, or it begins after
    // what we are going to overwrite.
    if (atomic_load_explicit(&region->writing, memory_order_relaxed) != writer->next)
        atomic_store(&region->writing, writer->next);
    TRP_FAULT("channel");
    uint32_t joins = atomic_load(&region->joins);
    if (joins == writer->joins && writer->next < writer->cleared)
        return true;
    writer->joins = joins;
    writer->cleared = clear_up_to(writer);
    return writer->next < writer->cleared;
}

// The slots that are not the newest and that nobody reads. Pairs with a reader: it writes its pin,
// then reads the head again; we wrote the head, and now read the pins. Either we see the pin, or it
// sees that its slot is not the newest any more, and lets go of it. What is spare stays so until it
// is published, so each look is for as many values as there are.
static void find_spares(trp_channel_writer *writer)
{
    const trp_channel *channel = &writer->channel;
    uint32_t slots = channel->shape.slots;
    uint32_t newest = trp_channel_index(channel, atomic_load(&channel->region->head.all));
    for (uint32_t i = 0; i < slots; i += 64)
        writer->spare[i / 64] = slots - i >= 64 ? UINT64_MAX : (UINT64_C(1) << (slots - i)) - 1;
    writer->spare[newest / 64] &= ~(UINT64_C(1) << newest % 64);
    for (uint32_t i = 0; i < channel->shape.readers; i++) {
        uint32_t pin = atomic_load(&channel->region->places[i].pin) - 1; // None: the largest.
        if (pin < slots)
            writer->spare[pin / 64] &= ~(UINT64_C(1) << pin % 64);
    }
}

static uint32_t take_spare(trp_channel_writer *writer)
{
    for (;; find_spares(writer)) // There is one after each look.
        for (uint32_t i = 0; i < TRP_CHANNEL_SLOTS_MAX / 64; i++)
            if (writer->spare[i] != 0) {
                uint32_t bit = (uint32_t)__builtin_ctzll(writer->spare[i]);
                writer->spare[i] &= writer->spare[i] - 1;
                return i * 64 + bit;
            }
}

trp_channel_turn trp_channel_write_begin(trp_channel_writer *writer, void **data)
{
    TRP_USE_SEGMENT(TRP_CHANNEL_STOPPED);
    const trp_channel *channel = &writer->channel;
    if (!writer->begun) {
        if (channel->shape.latest)
            writer->slot = take_spare(writer);
        else if (begin_ordered(writer))
            writer->slot = (uint32_t)((writer->next - 1) % channel->shape.slots);
        else
            return TRP_CHANNEL_WAIT;
        writer->begun = true;
    }
    TRP_STORE_HANDED();
    *data = trp_channel_slot_of(channel, writer->slot) + 1;
    return TRP_CHANNEL_READY;
}

trp_channel_turn trp_channel_write_spin(trp_channel_writer *writer, void **data)
{
    TRP_USE_SEGMENT(TRP_CHANNEL_STOPPED);
    trp_channel_place *blocker = &writer->channel.region->places[writer->blocker];
    uint32_t seen = atomic_load(&blocker->at.low);
    trp_channel_turn turn = trp_channel_write_begin(writer, data);
    if (turn != TRP_CHANNEL_WAIT || !trp_spin_on(&spins, &blocker->at.low, seen))
        return turn;
    return trp_channel_write_begin(writer, data);
}

trp_channel_turn trp_channel_write_wait(trp_channel_writer *writer, int64_t until_ns, void **data)
{
    TRP_USE_SEGMENT(TRP_CHANNEL_STOPPED);
    trp_channel_region *region = writer->channel.region;
    if (!trp_process_try_enter())
        return TRP_CHANNEL_STOPPED;
    // Pairs with wake_writer: it writes where the reader is, then reads `wanted`; we write that,
    // then read where all readers are. `freed` is read before: it changes with each wake-up.
    uint32_t seen = atomic_load(&region->freed);
    atomic_store(&region->wanted, writer->next - writer->channel.shape.slots + 1);
    TRP_FAULT("channel");
    trp_channel_turn turn = trp_channel_write_begin(writer, data);
    if (turn == TRP_CHANNEL_WAIT) {
        trp_channel_sleep(&region->freed, seen, until_ns);
        turn = trp_channel_write_begin(writer, data);
    }
    atomic_store(&region->wanted, 0);
    TRP_FAULT("channel");
    trp_process_leave();
    return turn;
}

uint64_t trp_channel_blocker(const trp_channel_writer *writer, char text[TRP_CHANNEL_WHO])
{
    text[0] = '\0';
    TRP_USE_SEGMENT(0);
    char who[TRP_CHANNEL_WHO];
    trp_channel_owner_text(atomic_load(&writer->channel.region->places[writer->blocker].owner),
                           who);
    (void)snprintf(text, TRP_CHANNEL_WHO, "place %u (%.160s)", writer->blocker, who);
    return writer->next - writer->channel.shape.slots;
}

// After the head was written. The mark of who waits for the next value already, and may not sleep
// yet, stays.
static void wake_readers(trp_channel_region *region, uint64_t head)
{
    TRP_FAULT("channel");
    uint32_t awaited = atomic_load(&region->awaited);
    if (awaited == 0)
        return;
    trp_wake(&region->head.low);
    TRP_FAULT("channel");
    if (awaited != trp_channel_mark((uint32_t)head))
        (void)atomic_compare_exchange_strong(&region->awaited, &awaited, 0);
}

troupe_status trp_channel_publish(trp_channel_writer *writer, size_t size)
{
    TRP_USE_SEGMENT(trp_use_refused());
    const trp_channel *channel = &writer->channel;
    if (!writer->begun)
        return troupe_fail(TROUPE_INVALID,
                           "no slot of the channel is lent: call troupe_channel_write_begin first");
    if (size > channel->shape.bytes)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "a value of %zu bytes in a channel whose slots have %zu bytes", size,
                           channel->shape.bytes);
    TRP_FAULT("channel");
    atomic_store_explicit(&trp_channel_slot_of(channel, writer->slot)->size, size,
                          memory_order_relaxed);
    TRP_FAULT("channel");
    TRP_STORE_HANDED();
    uint64_t head = make_head(writer->next, writer->slot);
    atomic_store(&channel->region->head.all, head);
    writer->next++;
    writer->begun = false;
    wake_readers(channel->region, head);
    return TROUPE_OK;
}

void trp_channel_write_close(trp_channel_writer *writer, bool end)
{
    TRP_USE_SEGMENT();
    trp_channel_region *region = writer->channel.region;
    if (end) {
        uint64_t head = atomic_load(&region->head.all) | 1;
        atomic_store(&region->head.all, head);
        wake_readers(region, head);
    }
    atomic_store(&region->owner, 0);
    TRP_FAULT("channel");
}
