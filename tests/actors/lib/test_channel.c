// test_channel.c: channels between actors: sent in messages, followed in several processes, with
// waits that delay no other actor, and ends of either side.
// timeout: 120
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { BYTES = 4096 };

TROUPE_STRUCT(work, (troupe_channel, from), (troupe_channel, to), (int32_t, place),
              (uint64_t, count), (bool, stays));
TROUPE_STRUCT(tally, (uint64_t, count), (uint64_t, last), (int32_t, status), (bool, whole),
              (troupe_text, text));

typedef struct mill {
    troupe_channel_reader in;
    troupe_channel_writer out;
    troupe_channel kept;
} mill;

// ---- values: all bytes follow from the sequence

static size_t size_of(uint64_t sequence)
{
    return (size_t)(sequence * 7919) % (BYTES + 1);
}

static void fill(void *data, uint64_t sequence)
{
    memset(data, (int)(sequence % 251), size_of(sequence));
}

static bool is_whole(const troupe_channel_view *view)
{
    const unsigned char *bytes = view->data;
    bool same = view->size == size_of(view->sequence);
    for (size_t i = 0; i < view->size; i++)
        same &= bytes[i] == view->sequence % 251;
    return same;
}

static troupe_status write_some(troupe_channel_writer *out, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++) {
        void *slot;
        TROUPE_TRY(troupe_channel_write_begin(out, &slot, -1));
        fill(slot, i);
        TROUPE_TRY(troupe_channel_publish(out, size_of(i)));
    }
    return TROUPE_OK;
}

// Reads `count` values, or to the end.
static void read_some(troupe_channel_reader *in, uint64_t count, int timeout_ms, tally *got)
{
    troupe_channel_view view;
    troupe_status status = TROUPE_OK;
    *got = (tally){.whole = true};
    while (got->count < count &&
           (status = troupe_channel_read_begin(in, &view, timeout_ms)) == TROUPE_OK) {
        got->whole &= is_whole(&view) && (got->last == 0 || view.sequence > got->last);
        got->last = view.sequence;
        got->count++;
        troupe_channel_read_end(in);
    }
    got->status = (int32_t)status;
    got->text = status != TROUPE_OK ? troupe_arena_text(troupe_last_error()->text) : NULL;
}

static troupe_status mill_write(mill *self, const work *what, tally *done)
{
    TROUPE_TRY(troupe_channel_write_open(what->to, &self->out));
    troupe_channel_state state;
    TROUPE_TRY(troupe_channel_state_get(what->to, &state));
    TROUPE_TRY(write_some(&self->out, state.published + 1, what->count));
    if (!what->stays)
        troupe_channel_close(&self->out);
    done->count = what->count;
    return TROUPE_OK;
}

static troupe_status mill_open(mill *self, const work *what, tally *unused)
{
    (void)unused;
    return troupe_channel_read_open(what->from, what->place, &self->in);
}

static troupe_status mill_read(mill *self, const work *what, tally *got)
{
    read_some(&self->in, what->count, -1, got);
    if (!what->stays)
        troupe_channel_read_close(&self->in);
    return TROUPE_OK;
}

// Begins a value and keeps it.
static troupe_status mill_hold(mill *self, const work *what, tally *got)
{
    troupe_channel_view view;
    (void)what;
    TROUPE_TRY(troupe_channel_read_begin(&self->in, &view, -1));
    *got = (tally){.count = 1, .last = view.sequence, .whole = is_whole(&view)};
    return TROUPE_OK;
}

// From one channel to the next.
static troupe_status mill_pass(mill *self, const work *what, tally *done)
{
    troupe_channel_view view;
    void *slot;
    TROUPE_TRY(troupe_channel_read_open(what->from, what->place, &self->in));
    TROUPE_TRY(troupe_channel_write_open(what->to, &self->out));
    while (troupe_channel_read_begin(&self->in, &view, -1) == TROUPE_OK) {
        TROUPE_TRY(troupe_channel_write_begin(&self->out, &slot, -1));
        memcpy(slot, view.data, view.size);
        TROUPE_TRY(troupe_channel_publish(&self->out, view.size));
        troupe_channel_read_end(&self->in);
        done->count++;
    }
    troupe_channel_close(&self->out);
    troupe_channel_read_close(&self->in);
    return TROUPE_OK;
}

static troupe_status mill_keep(mill *self, const work *what, tally *unused)
{
    (void)unused;
    self->kept = troupe_channel_keep(what->from);
    return TROUPE_OK;
}

// The channel that it kept, to the caller.
static troupe_status mill_give(mill *self, const troupe_none *unused, troupe_channel *kept)
{
    (void)unused;
    *kept = self->kept;
    self->kept = (troupe_channel){0};
    return TROUPE_OK;
}

static troupe_status mill_pid(mill *self, const troupe_none *unused, int *pid)
{
    (void)self, (void)unused;
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(mill, (mill_write, work, tally), (mill_open, work, tally), (mill_read, work, tally),
             (mill_hold, work, tally), (mill_pass, work, tally), (mill_keep, work, tally),
             (mill_give, troupe_none, troupe_channel), (mill_pid, troupe_none, int));

static tally get(troupe_ref ref)
{
    tally got = {0};
    troupe_must(troupe_get(tally, ref, &got, 60000));
    return got;
}

static int pid_of(mill_actor actor)
{
    int pid = 0;
    troupe_must(troupe_get(int, troupe_call(actor, mill_pid, 0), &pid));
    return pid;
}

static int start_runtime(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2, .threads = 1) == TROUPE_OK ? 0 : -1;
}

static void test_in_other_processes(void **state)
{
    (void)state;
    enum { READERS = 3, VALUES = 3000 };
    for (int latest = 0; latest < 2; latest++) {
        troupe_channel channel;
        mill_actor readers[READERS];
        troupe_ref refs[READERS];
        mill_actor writer = troupe_spawn(mill, .place = TROUPE_PLACE_ISOLATED);
        troupe_must(troupe_channel_open(BYTES, READERS + 2, READERS, &channel, .latest = latest));
        for (int i = 0; i < READERS; i++) {
            readers[i] = troupe_spawn(mill, .place = places[i % PLACES]);
            (void)get(troupe_call(readers[i], mill_open, .from = channel, .place = i));
            refs[i] = troupe_call(readers[i], mill_read, .count = UINT64_MAX);
        }
        troupe_channel_state look;
        troupe_must(troupe_channel_state_get(channel, &look));
        assert_int_equal(look.readers, READERS);
        assert_true(look.bytes == BYTES && look.latest == latest && !look.written);
        troupe_ref written = troupe_call(writer, mill_write, .to = channel, .count = VALUES);
        troupe_channel_drop(channel); // Who writes and reads holds it.
        assert_int_equal(get(written).count, VALUES);
        for (int i = 0; i < READERS; i++) {
            tally got = get(refs[i]);
            assert_true(got.whole);
            assert_int_equal(got.status, TROUPE_END);
            assert_int_equal(got.last, VALUES);
            assert_true(latest || got.count == VALUES);
        }
        assert_store_empty();
        for (int i = 0; i < READERS; i++)
            troupe_actor_kill(readers[i]);
        troupe_actor_kill(writer);
    }
}

static bool has_reader(void *channel)
{
    troupe_channel_state look;
    troupe_must(troupe_channel_state_get(*(troupe_channel *)channel, &look));
    return look.readers == 1;
}

static void test_a_pipeline(void **state)
{
    (void)state;
    enum { STAGES = 3, VALUES = 2000 };
    troupe_channel belts[STAGES + 1];
    troupe_ref passed[STAGES];
    mill_actor stages[STAGES];
    for (int i = 0; i <= STAGES; i++)
        troupe_must(troupe_channel_open(BYTES, 2, 1, &belts[i]));
    troupe_channel_reader in;
    troupe_must(troupe_channel_read_open(belts[STAGES], 0, &in));
    for (int i = 0; i < STAGES; i++) {
        stages[i] = troupe_spawn(mill, .place = places[i % PLACES]);
        passed[i] = troupe_call(stages[i], mill_pass, .from = belts[i], .to = belts[i + 1]);
    }
    for (int i = 0; i <= STAGES; i++) // Who comes later would miss values.
        assert_true(support_wait_until(has_reader, &belts[i], SUPPORT_SOON_MS));
    mill_actor source = troupe_spawn(mill, .place = TROUPE_PLACE_WORKER);
    troupe_ref written = troupe_call(source, mill_write, .to = belts[0], .count = VALUES);
    tally got;
    read_some(&in, UINT64_MAX, -1, &got);
    troupe_channel_read_close(&in);
    assert_int_equal(got.status, TROUPE_END);
    assert_true(got.whole);
    assert_int_equal(got.last, VALUES);
    (void)get(written);
    for (int i = 0; i < STAGES; i++)
        assert_int_equal(get(passed[i]).count, got.count);
    for (int i = 0; i <= STAGES; i++) {
        troupe_channel_drop(belts[i]);
        troupe_actor_kill(i < STAGES ? stages[i] : source);
    }
    assert_store_empty();
}

static void test_kept_and_given(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        troupe_channel channel, back;
        mill_actor actor = troupe_spawn(mill, .place = places[p]);
        troupe_must(troupe_channel_open(8, 1, 1, &channel));
        (void)get(troupe_call(actor, mill_keep, .from = channel));
        troupe_channel_drop(channel);
        troupe_must(troupe_get(troupe_channel, troupe_call(actor, mill_give, 0), &back));
        troupe_channel_writer out;
        troupe_must(troupe_channel_write_open(back, &out));
        troupe_channel_close(&out);
        troupe_channel_drop(back);
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

static bool is_seen_waiting(void *unused)
{
    troupe_actor_list list;
    bool seen = unused != NULL;
    troupe_must(troupe_actors_list(0, &list));
    for (size_t i = 0; i < list.actors.count; i++) {
        const char *what = list.actors.items[i].waits_for;
        seen |= what != NULL && strcmp(what, "the other side of a channel") == 0;
    }
    troupe_arena_reset();
    return seen;
}

// Each process has one thread for methods: a wait must hand it on.
static void test_a_wait_delays_no_other(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        troupe_channel channel;
        mill_actor first = troupe_spawn(mill, .place = places[p]);
        mill_actor others[4];
        troupe_must(troupe_channel_open(BYTES, 1, 1, &channel));
        (void)get(troupe_call(first, mill_open, .from = channel, .place = 0));
        troupe_ref read = troupe_call(first, mill_read, .count = UINT64_MAX);
        assert_true(support_wait_until(is_seen_waiting, NULL, SUPPORT_SOON_MS));
        for (int i = 0; i < 4; i++) {
            others[i] = troupe_spawn(mill, .place = places[p]);
            assert_true(pid_of(others[i]) > 0);
        }
        assert_int_equal(get(troupe_call(others[0], mill_write, .to = channel, .count = 500)).count,
                         500);
        assert_int_equal(get(read).count, 500);
        troupe_channel_drop(channel);
        for (int i = 0; i < 4; i++)
            troupe_actor_kill(others[i]);
        troupe_actor_kill(first);
    }
    assert_store_empty();
}

static void test_timeouts(void **state)
{
    (void)state;
    troupe_channel channel;
    troupe_channel_writer out;
    troupe_channel_reader in;
    troupe_channel_view view;
    void *slot;
    troupe_must(troupe_channel_open(BYTES, 1, 2, &channel));
    troupe_must(troupe_channel_read_open(channel, 1, &in));
    assert_int_equal(troupe_channel_read_begin(&in, &view, 0), TROUPE_TIMED_OUT);
    int64_t before = support_now_ms();
    assert_int_equal(troupe_channel_read_begin(&in, &view, 150), TROUPE_TIMED_OUT);
    assert_true(support_now_ms() - before >= 149);
    troupe_must(troupe_channel_write_open(channel, &out));
    troupe_must(write_some(&out, 1, 1));
    assert_int_equal(troupe_channel_write_begin(&out, &slot, 0), TROUPE_TIMED_OUT);
    before = support_now_ms();
    assert_int_equal(troupe_channel_write_begin(&out, &slot, 150), TROUPE_TIMED_OUT);
    assert_true(support_now_ms() - before >= 149);
    assert_non_null(strstr(troupe_last_error()->text, "place 1"));
    assert_non_null(strstr(troupe_last_error()->text, "sequence 1"));
    troupe_must(troupe_channel_read_begin(&in, &view, 0));
    assert_true(is_whole(&view));
    troupe_channel_read_end(&in);
    troupe_must(troupe_channel_write_begin(&out, &slot, 0));
    troupe_channel_write_leave(&out);
    // Nobody writes now, but somebody may.
    assert_int_equal(troupe_channel_read_begin(&in, &view, 0), TROUPE_TIMED_OUT);
    troupe_must(troupe_channel_write_open(channel, &out));
    troupe_must(write_some(&out, 2, 1));
    troupe_channel_close(&out);
    troupe_must(troupe_channel_read_begin(&in, &view, 0));
    assert_int_equal(view.sequence, 2);
    troupe_channel_read_close(&in);
    troupe_channel_drop(channel);
    assert_store_empty();
}

static void test_the_newest_again(void **state)
{
    (void)state;
    troupe_channel channel;
    troupe_channel_writer out;
    troupe_channel_reader in;
    troupe_channel_view view;
    troupe_must(troupe_channel_open(BYTES, 3, 1, &channel, .latest = true));
    troupe_must(troupe_channel_write_open(channel, &out));
    troupe_must(troupe_channel_read_open(channel, 0, &in, .again = true));
    assert_int_equal(troupe_channel_read_begin(&in, &view, 0), TROUPE_TIMED_OUT);
    for (uint64_t round = 0; round < 3; round++) {
        troupe_must(write_some(&out, 1 + 10 * round, 10));
        for (int i = 0; i < 2; i++) {
            troupe_must(troupe_channel_read_begin(&in, &view, 0));
            assert_int_equal(view.sequence, 10 * round + 10);
            assert_true(is_whole(&view));
            troupe_channel_read_end(&in);
        }
    }
    troupe_channel_close(&out);
    assert_int_equal(troupe_channel_read_begin(&in, &view, -1), TROUPE_END);
    troupe_channel_read_close(&in);
    troupe_channel_drop(channel);
    assert_store_empty();
}

static void test_a_dead_writer(void **state)
{
    (void)state;
    for (int latest = 0; latest < 2; latest++) {
        troupe_channel channel;
        troupe_channel_reader in;
        tally got;
        mill_actor writer = troupe_spawn(mill, .place = TROUPE_PLACE_ISOLATED);
        troupe_must(troupe_channel_open(BYTES, 4, 2, &channel, .latest = latest));
        troupe_must(troupe_channel_read_open(channel, TROUPE_CHANNEL_ANY, &in));
        (void)get(troupe_call(writer, mill_write, .to = channel, .count = 3, .stays = true));
        mill_actor next = troupe_spawn(mill, .place = TROUPE_PLACE_WORKER);
        troupe_ref early = troupe_call(next, mill_write, .to = channel, .count = 1);
        assert_int_equal(troupe_get(tally, early, &got), TROUPE_EXISTS);
        assert_int_equal(kill(pid_of(writer), SIGKILL), 0);
        read_some(&in, UINT64_MAX, -1, &got); // What was published, and then why no more comes.
        assert_int_equal(got.status, TROUPE_PEER_LOST);
        assert_true(got.whole);
        assert_int_equal(got.last, 3);
        assert_non_null(strstr(got.text, "after sequence 3"));
        assert_non_null(strstr(got.text, "signal 9"));
        (void)get(troupe_call(next, mill_write, .to = channel, .count = 2));
        read_some(&in, UINT64_MAX, -1, &got);
        assert_int_equal(got.status, TROUPE_END);
        assert_true(got.whole);
        assert_int_equal(got.last, 5);
        troupe_channel_read_close(&in);
        troupe_channel_drop(channel);
        troupe_actor_kill(next);
    }
    troupe_arena_reset();
    assert_store_empty();
}

static void test_a_dead_reader(void **state)
{
    (void)state;
    troupe_channel channel;
    troupe_channel_writer out;
    mill_actor reader = troupe_spawn(mill, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_channel_open(BYTES, 2, 1, &channel));
    troupe_must(troupe_channel_write_open(channel, &out));
    (void)get(troupe_call(reader, mill_open, .from = channel, .place = 0));
    troupe_must(write_some(&out, 1, 2));
    assert_int_equal(get(troupe_call(reader, mill_hold, 0)).last, 1);
    void *slot;
    assert_int_equal(troupe_channel_write_begin(&out, &slot, 10), TROUPE_TIMED_OUT);
    troupe_channel_reader in;
    assert_int_equal(troupe_channel_read_open(channel, 0, &in), TROUPE_EXISTS);
    assert_int_equal(kill(pid_of(reader), SIGKILL), 0);
    troupe_must(write_some(&out, 3, 100)); // Would wait for ever else.
    troupe_must(troupe_channel_read_open(channel, 0, &in));
    tally got;
    read_some(&in, 2, 0, &got);
    assert_int_equal(got.status, TROUPE_OK);
    assert_true(got.whole);
    assert_int_equal(got.last, 102);
    troupe_channel_read_close(&in);
    troupe_channel_close(&out);
    troupe_channel_drop(channel);
    assert_store_empty();
}

static void test_misuse_of_channels(void **state)
{
    (void)state;
    troupe_channel channel = {{0}};
    troupe_channel_writer out;
    troupe_channel_reader in;
    troupe_channel_state look;
    assert_int_equal(troupe_channel_open(0, 2, 1, &channel), TROUPE_INVALID);
    assert_int_equal(troupe_channel_open(8, 0, 1, &channel), TROUPE_INVALID);
    assert_int_equal(troupe_channel_open(8, 2, 0, &channel), TROUPE_INVALID);
    assert_int_equal(troupe_channel_open(8, 2, 5000, &channel), TROUPE_INVALID);
    assert_int_equal(troupe_channel_open(8, 2, 1, &channel, .latest = true), TROUPE_INVALID);
    assert_int_equal(troupe_channel_open((size_t)1 << 60, 1, 1, &channel), TROUPE_TOO_LARGE);
    assert_store_empty();

    double number = 1;
    troupe_ref object = troupe_put(double, &number), stale = troupe_put(double, &number);
    troupe_ref_drop(stale);
    mill_actor actor = troupe_spawn(mill, .place = TROUPE_PLACE_WORKER);
    troupe_ref call = troupe_call(actor, mill_pid, 0);
    const struct {
        troupe_ref ref;
        troupe_status status;
    } foreign[] = {{{0}, TROUPE_INVALID},
                   {{.id = UINT64_C(1) << 63 | 12345}, TROUPE_INVALID},
                   {stale, TROUPE_INVALID},
                   {call, TROUPE_INVALID},
                   {object, TROUPE_WRONG_TYPE}};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        channel.memory = foreign[i].ref;
        assert_int_equal(troupe_channel_write_open(channel, &out), foreign[i].status);
        assert_int_equal(troupe_channel_read_open(channel, 0, &in), foreign[i].status);
        assert_int_equal(troupe_channel_state_get(channel, &look), foreign[i].status);
        assert_true(strlen(troupe_last_error()->text) > 20);
    }
    troupe_ref_drop(object);
    troupe_ref_drop(call);
    troupe_actor_kill(actor);
    assert_store_empty();
}

static void test_misuse_of_sides(void **state)
{
    (void)state;
    troupe_channel channel;
    troupe_channel_writer out, second;
    troupe_channel_reader in, more;
    troupe_channel_state look;
    troupe_channel_view view;
    void *slot;
    troupe_must(troupe_channel_open(8, 3, 2, &channel));
    troupe_must(troupe_channel_write_open(channel, &out));
    assert_int_equal(troupe_channel_write_open(channel, &second), TROUPE_EXISTS);
    assert_int_equal(troupe_channel_publish(&out, 1), TROUPE_INVALID);
    troupe_must(troupe_channel_write_begin(&out, &slot, 0));
    assert_int_equal(troupe_channel_publish(&out, 9), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "9 bytes"));
    troupe_must(troupe_channel_publish(&out, 0));
    troupe_must(troupe_channel_read_open(channel, 1, &in));
    assert_int_equal(troupe_channel_read_open(channel, 1, &more), TROUPE_EXISTS);
    assert_int_equal(troupe_channel_read_open(channel, 2, &more), TROUPE_INVALID);
    assert_int_equal(troupe_channel_read_open(channel, -7, &more), TROUPE_INVALID);
    troupe_must(troupe_channel_read_open(channel, TROUPE_CHANNEL_ANY, &more));
    troupe_channel_read_end(&more); // Nothing is lent.
    troupe_channel_read_close(&more);
    troupe_must(troupe_channel_read_begin(&in, &view, 0));
    assert_int_equal(view.size, 0);
    assert_int_equal(troupe_channel_read_begin(&in, &view, 0), TROUPE_INVALID);
    troupe_channel_read_end(&in);
    troupe_channel_close(&out);
    assert_int_equal(troupe_channel_publish(&out, 1), TROUPE_INVALID);
    assert_int_equal(troupe_channel_write_begin(&out, &slot, 0), TROUPE_INVALID);
    assert_int_equal(troupe_channel_write_open(channel, &out), TROUPE_STOPPED);
    assert_int_equal(troupe_channel_read_begin(&in, &view, -1), TROUPE_END);
    for (int i = 0; i < 2; i++)
        troupe_channel_read_close(&in);
    troupe_channel_close(&out);
    troupe_channel_write_leave(&out);
    assert_int_equal(troupe_channel_read_begin(&in, &view, 0), TROUPE_INVALID);
    troupe_bytes bytes;
    troupe_ref bare = troupe_ref_keep(channel.memory);
    assert_int_equal(troupe_get(troupe_bytes, bare, &bytes), TROUPE_WRONG_TYPE);
    troupe_channel_drop(channel);
    assert_int_equal(troupe_channel_state_get(channel, &look), TROUPE_INVALID);
    assert_store_empty();
}

typedef struct waiting {
    troupe_channel_reader in;
    _Atomic int begun;
    troupe_status status;
} waiting;

static void *wait_in_thread(void *user)
{
    waiting *it = user;
    troupe_channel_view view;
    it->begun = 1;
    it->status = troupe_channel_read_begin(&it->in, &view, -1);
    return NULL;
}

static void test_stopped_while_waiting(void **state)
{
    (void)state;
    troupe_channel channel;
    troupe_channel_writer out;
    waiting it = {0};
    pthread_t thread;
    assert_int_equal(start_runtime(NULL), 0);
    troupe_must(troupe_channel_open(8, 1, 2, &channel));
    troupe_must(troupe_channel_write_open(channel, &out));
    troupe_must(troupe_channel_read_open(channel, 0, &it.in));
    mill_actor actor = troupe_spawn(mill, .place = TROUPE_PLACE_WORKER);
    (void)get(troupe_call(actor, mill_open, .from = channel, .place = 1));
    troupe_ref_drop(troupe_call(actor, mill_read, .count = 1));
    assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &it), 0);
    support_await_counter(&it.begun, 1);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(it.status, TROUPE_NOT_STARTED);
    void *slot;
    assert_int_equal(troupe_channel_write_begin(&out, &slot, 0), TROUPE_NOT_STARTED);
    assert_int_equal(start_runtime(NULL), 0);
    assert_int_equal(troupe_channel_write_begin(&out, &slot, 0), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "earlier run"));
    troupe_channel_close(&out);
    troupe_channel_read_close(&it.in);
    assert_store_empty();
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(troupe_channel_open(8, 1, 1, &channel), TROUPE_NOT_STARTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_other_processes), cmocka_unit_test(test_a_pipeline),
        cmocka_unit_test(test_kept_and_given),     cmocka_unit_test(test_a_wait_delays_no_other),
        cmocka_unit_test(test_timeouts),           cmocka_unit_test(test_the_newest_again),
        cmocka_unit_test(test_a_dead_writer),      cmocka_unit_test(test_a_dead_reader),
        cmocka_unit_test(test_misuse_of_channels), cmocka_unit_test(test_misuse_of_sides),
    };
    const struct CMUnitTest ends[] = {cmocka_unit_test(test_stopped_while_waiting)};
    return cmocka_run_group_tests(tests, start_runtime, stop_runtime) +
           cmocka_run_group_tests(ends, NULL, NULL);
}
