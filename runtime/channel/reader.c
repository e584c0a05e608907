// reader.c: reading from a channel; see channel.h.
#include <runtime/channel/reader.h>

#include <runtime/base/fault.h>
#include <runtime/base/futex.h>
#include <runtime/channel/internal.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>

static trp_habit spins = {.every = 1};

static trp_channel_place *place_of(const trp_channel_reader *reader)
{
    return &reader->channel.region->places[reader->place];
}

// After a reader has moved to `at` (0: it is gone).
static void wake_writer(trp_channel_region *region, uint64_t at)
{
    TRP_FAULT("channel");
    uint64_t wanted = atomic_load(&region->wanted);
    if (wanted == 0 || (at != 0 && at != wanted)) // Others' wake-ups, or none.
        return;
    (void)atomic_fetch_add(&region->freed, 1);
    TRP_FAULT("channel");
    trp_wake(&region->freed);
    TRP_FAULT("channel");
}

static troupe_status take_place(const trp_channel *channel, int wanted, uint32_t *index)
{
    trp_channel_region *region = channel->region;
    uint32_t count = channel->shape.readers;
    char text[TRP_CHANNEL_WHO];
    uint64_t found = 0;
    if (wanted != TRP_CHANNEL_ANY && (wanted < 0 || (uint32_t)wanted >= count))
        return troupe_fail(TROUPE_INVALID, "the channel has readers' places 0 to %u, not %d",
                           count - 1, wanted);
    uint32_t first = wanted == TRP_CHANNEL_ANY ? 0 : (uint32_t)wanted;
    uint32_t last = wanted == TRP_CHANNEL_ANY ? count - 1 : first;
    for (*index = first; *index <= last; ++*index)
        if (trp_channel_take(&region->places[*index].owner, channel->self, &found))
            return TROUPE_OK;
    if (wanted == TRP_CHANNEL_ANY)
        return troupe_fail(TROUPE_EXISTS,
                           "all places of the channel, which is for %u reader%s, "
                           "are taken",
                           count, count == 1 ? "" : "s");
    trp_channel_owner_text(found, text);
    return troupe_fail(TROUPE_EXISTS, "the channel's place %d has a reader: %s", wanted, text);
}

troupe_status trp_channel_read_open(const trp_channel *channel, int wanted, bool newest,
                                    trp_channel_reader *reader)
{
    TRP_USE_SEGMENT(trp_use_refused());
    trp_channel_region *region = channel->region;
    uint32_t index;
    TROUPE_TRY(take_place(channel, wanted, &index));
    *reader = (trp_channel_reader){.channel = *channel, .place = index, .next = 1};
    trp_channel_place *mine = &region->places[index];
    TRP_FAULT("channel");
    atomic_store(&mine->pin, 0); // A predecessor may have died with one.
    if (channel->shape.latest)
        return TROUPE_OK;
    atomic_store(&mine->at.all, 1); // Nothing is released: no slot is rewritten from here on,
    TRP_FAULT("channel");
    (void)atomic_fetch_add(&region->joins, 1);
    TRP_FAULT("channel");
    uint64_t writing = atomic_load(&region->writing); // but perhaps this one.
    uint64_t published = trp_channel_sequence(atomic_load(&region->head.all));
    if (writing > channel->shape.slots)
        reader->next = writing - channel->shape.slots + 1;
    if (newest && published > reader->next)
        reader->next = published;
    TRP_FAULT("channel");
    atomic_store(&mine->at.all, reader->next);
    wake_writer(region, 0);
    return TROUPE_OK;
}

static void lend(const trp_channel_reader *reader, uint64_t sequence, uint32_t index,
                 trp_channel_value *value)
{
    const trp_channel *channel = &reader->channel;
    size_t size =
        atomic_load_explicit(&trp_channel_slot_of(channel, index)->size, memory_order_relaxed);
    *value = (trp_channel_value){.data = channel->read_only +
                                         trp_channel_slot_at(&channel->shape, index) +
                                         sizeof(trp_channel_slot),
                                 .size = size <= channel->shape.bytes ? size : channel->shape.bytes,
                                 .sequence = sequence};
}

// There is nothing new in that head. WAIT, END or LOST; READY: the head is another one by now.
static trp_channel_turn no_news(const trp_channel_region *region, uint64_t head)
{
    if (trp_channel_closed(head))
        return TRP_CHANNEL_END;
    TRP_FAULT("channel");
    uint64_t owner = atomic_load(&region->owner);
    if (owner == 0 || trp_channel_lives(owner))
        return TRP_CHANNEL_WAIT;
    // It may have published just before it died; or it has a successor, who has.
    return atomic_load(&region->head.all) == head ? TRP_CHANNEL_LOST : TRP_CHANNEL_READY;
}

static trp_channel_turn begin_latest(trp_channel_reader *reader, bool again,
                                     trp_channel_value *value)
{
    trp_channel_region *region = reader->channel.region;
    for (;;) {
        uint64_t head = atomic_load(&region->head.all);
        uint64_t sequence = trp_channel_sequence(head);
        bool old = again && sequence > 0 && !trp_channel_closed(head);
        if (sequence < reader->next && !old) {
            trp_channel_turn turn = no_news(region, head);
            if (turn != TRP_CHANNEL_READY)
                return turn;
            continue;
        }
        uint32_t index = trp_channel_index(&reader->channel, head);
        TRP_FAULT("channel");
        // Pairs with find_spares. A pin that stands since before the head was read needs no other
        // look at it.
        if (reader->pin != index + 1) {
            reader->pin = index + 1;
            atomic_store(&place_of(reader)->pin, index + 1);
            TRP_FAULT("channel");
            if (trp_channel_sequence(atomic_load(&region->head.all)) != sequence)
                continue;
        }
        lend(reader, sequence, index, value);
        reader->next = sequence + 1;
        return TRP_CHANNEL_READY;
    }
}

static trp_channel_turn begin_next(const trp_channel_reader *reader, trp_channel_value *value)
{
    const trp_channel_region *region = reader->channel.region;
    for (;;) {
        uint64_t head = atomic_load(&region->head.all);
        if (trp_channel_sequence(head) >= reader->next) {
            lend(reader, reader->next, (uint32_t)((reader->next - 1) % reader->channel.shape.slots),
                 value);
            return TRP_CHANNEL_READY;
        }
        trp_channel_turn turn = no_news(region, head);
        if (turn != TRP_CHANNEL_READY)
            return turn;
    }
}

trp_channel_turn trp_channel_read_begin(trp_channel_reader *reader, bool again,
                                        trp_channel_value *value)
{
    TRP_USE_SEGMENT(TRP_CHANNEL_STOPPED);
    trp_channel_turn turn = reader->channel.shape.latest ? begin_latest(reader, again, value)
                                                         : begin_next(reader, value);
    reader->begun = turn == TRP_CHANNEL_READY;
    return turn;
}

trp_channel_turn trp_channel_read_spin(trp_channel_reader *reader, bool again,
                                       trp_channel_value *value)
{
    TRP_USE_SEGMENT(TRP_CHANNEL_STOPPED);
    trp_channel_word *head = &reader->channel.region->head;
    uint32_t seen = atomic_load(&head->low);
    trp_channel_turn turn = trp_channel_read_begin(reader, again, value);
    if (turn != TRP_CHANNEL_WAIT || !trp_spin_on(&spins, &head->low, seen))
        return turn;
    return trp_channel_read_begin(reader, again, value);
}

trp_channel_turn trp_channel_read_wait(trp_channel_reader *reader, bool again, int64_t until_ns,
                                       trp_channel_value *value)
{
    TRP_USE_SEGMENT(TRP_CHANNEL_STOPPED);
    trp_channel_region *region = reader->channel.region;
    if (!trp_process_try_enter())
        return TRP_CHANNEL_STOPPED;
    // Pairs with wake_readers: it reads this after the head was written; we write this, then read
    // the head, and the system reads it once more before it lets us sleep.
    uint32_t seen = atomic_load(&region->head.low);
    atomic_store(&region->awaited, trp_channel_mark(seen));
    TRP_FAULT("channel");
    trp_channel_turn turn = trp_channel_read_begin(reader, again, value);
    if (turn == TRP_CHANNEL_WAIT) {
        trp_channel_sleep(&region->head.low, seen, until_ns);
        turn = trp_channel_read_begin(reader, again, value);
    }
    trp_process_leave();
    return turn;
}

void trp_channel_read_end(trp_channel_reader *reader)
{
    TRP_USE_SEGMENT();
    trp_channel_place *mine = place_of(reader);
    if (!reader->begun)
        return;
    reader->begun = false;
    TRP_FAULT("channel");
    if (reader->channel.shape.latest)
        return; // The pin stays until the next one: there are slots enough.
    reader->next++;
    atomic_store(&mine->at.all, reader->next);
    wake_writer(reader->channel.region, reader->next);
}

void trp_channel_read_close(trp_channel_reader *reader)
{
    TRP_USE_SEGMENT();
    trp_channel_place *mine = place_of(reader);
    atomic_store(&mine->pin, 0);
    TRP_FAULT("channel");
    atomic_store(&mine->at.all, 0);
    wake_writer(reader->channel.region, 0);
    atomic_store(&mine->owner, 0);
    TRP_FAULT("channel");
}
