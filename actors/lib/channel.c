// channel.c: channels as users have them: references to shared memory, writers and readers that
// hold it, and waits that let other actors of the process go on.
#include <troupe/channel.h>

#include <actors/actor/actor.h>
#include <actors/class/class.h>
#include <actors/ref/leaks.h>
#include <actors/ref/ref.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/channel/channel.h>
#include <runtime/channel/reader.h>
#include <runtime/channel/writer.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <troupe/object.h>

// What a writer and a reader have in common: they hold the memory, in this run of the process.
typedef struct holding {
    trp_object object;
    uint64_t incarnation;
} holding;

typedef struct troupe_channel_writing {
    holding held;
    trp_channel_writer side;
} writing;

typedef struct troupe_channel_reading {
    holding held;
    trp_channel_reader side;
    bool again;
} reading;

// ---- channels

static troupe_status find(troupe_channel channel, trp_object *object, trp_channel *found)
{
    TROUPE_TRY(trp_process_check());
    *object = trp_ref_object(channel.memory);
    if (*object == 0)
        return troupe_fail(TROUPE_INVALID, "the channel's reference is empty or stale, or one to a "
                                           "call's result");
    trp_object_info info = trp_store_look(*object);
    if (info.state == TRP_OBJECT_GONE)
        return troupe_fail(TROUPE_INVALID, "the channel's reference is stale: its memory is gone");
    if (info.state != TRP_OBJECT_SHARED)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "the reference is to an object that is not a channel");
    // It is writable to all who hold it; the field is const for the sake of ordinary objects.
    return trp_channel_attach((void *)(uintptr_t)info.data, info.size, trp_process_slot(), found);
}

troupe_status troupe_channel_open_with(size_t bytes, uint32_t slots, uint32_t readers,
                                       troupe_channel *channel, const troupe_channel_options *how)
{
    TRP_REQUIRE(channel);
    troupe_channel_options given;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_channel_open", given, how));
    trp_channel_shape shape = {
        .bytes = bytes, .slots = slots, .readers = readers, .latest = given.latest};
    trp_object object;
    size_t size;
    void *memory;
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_channel_size(&shape, &size));
    TROUPE_TRY(trp_store_share(size, &object, &memory));
    trp_store_kind(object, TRP_KIND_CHANNEL);
    trp_channel_init(memory, &shape);
    *channel = (troupe_channel){.memory = {.id = object}};
    TRP_LEAKS_MADE(((troupe_ref){object, trp_type_note(&troupe_type_troupe_channel)}),
                   "troupe_channel_open");
    return TROUPE_OK;
}

troupe_channel troupe_channel_keep(troupe_channel channel)
{
    troupe_channel kept;
    if (trp_ref_keep(channel.memory, &kept.memory) == TROUPE_OK)
        TRP_LEAKS_MOVED(kept.memory, "troupe_channel_keep");
    return kept;
}

void troupe_channel_drop(troupe_channel channel)
{
    troupe_ref_drop(channel.memory);
}

troupe_status(troupe_channel_state_get)(troupe_channel channel, troupe_channel_state *state,
                                        size_t size)
{
    TRP_REQUIRE(state);
    trp_object object;
    trp_channel found;
    TROUPE_TRY(find(channel, &object, &found));
    trp_channel_look look = trp_channel_see(&found);
    troupe_channel_state now = {.bytes = found.shape.bytes,
                                .slots = found.shape.slots,
                                .readers_max = found.shape.readers,
                                .published = look.published,
                                .readers = look.readers,
                                .latest = found.shape.latest,
                                .written = look.written,
                                .closed = look.closed};
    trp_output_give(state, size, &now, sizeof now);
    return TROUPE_OK;
}

// ---- holding it

// Memory for a side of the channel, which holds it from then on.
static troupe_status hold(troupe_channel channel, size_t size, trp_channel *found, holding **held)
{
    trp_object object;
    TROUPE_TRY(find(channel, &object, found));
    holding *made = trp_alloc(size);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a channel's writer or reader");
    troupe_status status = trp_store_hold(object, trp_process_slot());
    if (status != TROUPE_OK) {
        trp_free(made);
        return status;
    }
    *made = (holding){.object = object, .incarnation = trp_process_incarnation()};
    *held = made;
    return TROUPE_OK;
}

// Whether the memory is still there: the runtime may have been stopped, and started again.
static bool is_held(const holding *held)
{
    return trp_process_running() && held->incarnation == trp_process_incarnation();
}

static void let_go(holding *held)
{
    if (is_held(held))
        trp_store_release(held->object, trp_process_slot());
    trp_free(held);
}

static troupe_status check(const holding *held, const char *what)
{
    if (held == NULL)
        return troupe_fail(TROUPE_INVALID, "the channel's %s was closed, or never opened", what);
    TROUPE_TRY(trp_process_check());
    if (!is_held(held))
        return troupe_fail(TROUPE_INVALID,
                           "the channel's %s is of an earlier run: troupe_stop was called since",
                           what);
    return TROUPE_OK;
}

// ---- waiting

// What a wait is for: tries, and sleeps for a slice of time until the other side has moved.
typedef trp_channel_turn slice(void *side, int64_t until_ns, void *lent);

// With other actors of the process going on meanwhile.
static troupe_status wait_for(slice *sleep, void *side, int timeout_ms, void *lent,
                              trp_channel_turn *turn)
{
    int64_t deadline_ns = trp_clock_deadline(timeout_ms);
    trp_wait_for(TRP_WAIT_CHANNEL, 0, 0);
    TROUPE_TRY(trp_scheduler_block());
    while (*turn == TRP_CHANNEL_WAIT && !trp_actors_stopping() && !trp_runtime_is_lost() &&
           (deadline_ns < 0 || trp_clock_ns() < deadline_ns))
        *turn = sleep(side, deadline_ns, lent);
    trp_scheduler_unblock();
    if (*turn == TRP_CHANNEL_STOPPED || (*turn == TRP_CHANNEL_WAIT && trp_actors_stopping()))
        return troupe_fail(TROUPE_NOT_STARTED, "the runtime was stopped during a channel's wait");
    // Who wrote or read it has gone, but for this process.
    return *turn == TRP_CHANNEL_WAIT && trp_runtime_is_lost() ? trp_process_check() : TROUPE_OK;
}

// ---- writing

troupe_status troupe_channel_write_open(troupe_channel channel, troupe_channel_writer *writer)
{
    TRP_REQUIRE(writer);
    trp_channel found;
    holding *held;
    TROUPE_TRY(hold(channel, sizeof(writing), &found, &held));
    writing *it = (writing *)held;
    troupe_status status = trp_channel_write_open(&found, &it->side);
    if (status != TROUPE_OK) {
        let_go(held);
        return status;
    }
    *writer = (troupe_channel_writer){it};
    return TROUPE_OK;
}

static trp_channel_turn write_slice(void *side, int64_t until_ns, void *lent)
{
    return trp_channel_write_wait(side, until_ns, lent);
}

troupe_status troupe_channel_write_begin(troupe_channel_writer *writer, void **data, int timeout_ms)
{
    TRP_REQUIRE(writer);
    TRP_REQUIRE(data);
    writing *it = writer->inner_;
    TROUPE_TRY(check(it != NULL ? &it->held : NULL, "writer"));
    trp_channel_turn turn = trp_channel_write_begin(&it->side, data);
    if (turn == TRP_CHANNEL_WAIT && timeout_ms != 0)
        turn = trp_channel_write_spin(&it->side, data);
    if (turn == TRP_CHANNEL_WAIT && timeout_ms != 0)
        TROUPE_TRY(wait_for(write_slice, &it->side, timeout_ms, data, &turn));
    if (turn == TRP_CHANNEL_READY)
        return TROUPE_OK;
    char who[TRP_CHANNEL_WHO];
    uint64_t sequence = trp_channel_blocker(&it->side, who);
    return troupe_fail(TROUPE_TIMED_OUT,
                       "no slot of the channel was free in %d ms: the reader at %s has not "
                       "released sequence %llu",
                       timeout_ms, who, (unsigned long long)sequence);
}

troupe_status troupe_channel_publish(troupe_channel_writer *writer, size_t size)
{
    TRP_REQUIRE(writer);
    writing *it = writer->inner_;
    TROUPE_TRY(check(it != NULL ? &it->held : NULL, "writer"));
    return trp_channel_publish(&it->side, size);
}

static void leave(troupe_channel_writer *writer, bool end)
{
    writing *it = writer != NULL ? writer->inner_ : NULL;
    if (it == NULL)
        return;
    if (is_held(&it->held))
        trp_channel_write_close(&it->side, end);
    let_go(&it->held);
    *writer = (troupe_channel_writer){0};
}

void troupe_channel_write_leave(troupe_channel_writer *writer)
{
    leave(writer, false);
}

void troupe_channel_close(troupe_channel_writer *writer)
{
    leave(writer, true);
}

// ---- reading

troupe_status troupe_channel_read_open_with(troupe_channel channel, int place,
                                            troupe_channel_reader *reader,
                                            const troupe_channel_read_options *how)
{
    TRP_REQUIRE(reader);
    troupe_channel_read_options given;
    trp_channel found;
    holding *held;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_channel_read_open", given, how));
    TROUPE_TRY(hold(channel, sizeof(reading), &found, &held));
    reading *it = (reading *)held;
    it->again = given.again && found.shape.latest;
    troupe_status status = trp_channel_read_open(&found, place, given.newest, &it->side);
    if (status != TROUPE_OK) {
        let_go(held);
        return status;
    }
    *reader = (troupe_channel_reader){it};
    return TROUPE_OK;
}

static trp_channel_turn read_slice(void *side, int64_t until_ns, void *lent)
{
    reading *it = side;
    return trp_channel_read_wait(&it->side, it->again, until_ns, lent);
}

static troupe_status no_value(const reading *it, trp_channel_turn turn, int timeout_ms)
{
    const trp_channel *channel = &it->side.channel;
    unsigned long long last = trp_channel_see(channel).published;
    char who[TRP_CHANNEL_WHO];
    if (turn == TRP_CHANNEL_END)
        return troupe_fail(TROUPE_END, "the channel was closed after sequence %llu", last);
    if (turn == TRP_CHANNEL_WAIT)
        return troupe_fail(TROUPE_TIMED_OUT,
                           "nothing was published in the channel in %d ms; the newest is sequence "
                           "%llu",
                           timeout_ms, last);
    trp_channel_writer_text(channel, who);
    return troupe_fail(TROUPE_PEER_LOST,
                       "the channel's writer is lost after sequence %llu, and has no successor: "
                       "%s",
                       last, who);
}

troupe_status troupe_channel_read_begin(troupe_channel_reader *reader, troupe_channel_view *view,
                                        int timeout_ms)
{
    TRP_REQUIRE(reader);
    TRP_REQUIRE(view);
    reading *it = reader->inner_;
    trp_channel_value value;
    TROUPE_TRY(check(it != NULL ? &it->held : NULL, "reader"));
    if (it->side.begun)
        return troupe_fail(TROUPE_INVALID, "the value that was lent last is not released: call "
                                           "troupe_channel_read_end first");
    trp_channel_turn turn = trp_channel_read_begin(&it->side, it->again, &value);
    if (turn == TRP_CHANNEL_WAIT && timeout_ms != 0)
        turn = trp_channel_read_spin(&it->side, it->again, &value);
    if (turn == TRP_CHANNEL_WAIT && timeout_ms != 0)
        TROUPE_TRY(wait_for(read_slice, it, timeout_ms, &value, &turn));
    if (turn != TRP_CHANNEL_READY)
        return no_value(it, turn, timeout_ms);
    *view = (troupe_channel_view){value.data, value.size, value.sequence};
    return TROUPE_OK;
}

void troupe_channel_read_end(troupe_channel_reader *reader)
{
    if (TRP_IS_NULL(reader))
        return;
    reading *it = reader->inner_;
    if (it != NULL && is_held(&it->held))
        trp_channel_read_end(&it->side);
}

void troupe_channel_read_close(troupe_channel_reader *reader)
{
    if (TRP_IS_NULL(reader))
        return;
    reading *it = reader->inner_;
    if (it == NULL)
        return;
    if (is_held(&it->held))
        trp_channel_read_close(&it->side);
    let_go(&it->held);
    *reader = (troupe_channel_reader){0};
}
