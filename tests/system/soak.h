// soak.h: for test_soak.c: the hands, which hold values of all kinds, one in each process, and the
// makers, which answer with large results.
#ifndef TROUPE_TEST_SOAK_H
#define TROUPE_TEST_SOAK_H

#include <malloc.h>
#include <string.h>
#include <support.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

enum {
    HANDS = 8,
    ITEMS = 1024, // That a hand holds at most,
    VIEWS = 4,    // and that it reads meanwhile.
    STEP_ACTS = 64,
    STEP_MS = 100,
    SIZE_MOST = 2 << 20,
    SLOT = 4096, // Of the channels.
    DEPTH = 3,   // Of lists in lists.
    INSIDE = 4,
};

// What is counted.
enum {
    PUT,
    PASSED,
    RECEIVED,
    READ,
    LISTED,
    TENSORS,
    RESULTS,
    ARGUMENTS,
    DROPPED,
    WRITTEN,
    FOLLOWED,
    ACTS,
};

typedef enum kind {
    NOTHING,
    BYTES,
    TENSOR,
    LIST,
} kind;

// A value, with what is in it: `size` bytes of the numbers that follow from the seed; of a list,
// how deep it is.
TROUPE_STRUCT(item, (troupe_ref, ref), (uint64_t, seed), (uint64_t, size), (int, kind));
TROUPE_STRUCT(list, (uint64_t, seed), (troupe_array_item, items));
TROUPE_STRUCT(company, (uint32_t, number), (troupe_array_troupe_actor, hands),
              (troupe_array_troupe_actor, makers));
TROUPE_STRUCT(order, (uint64_t, dice), (bool, grow), (bool, trim), (uint32_t, pace));
TROUPE_STRUCT(tally, (uint64_t, counts, ACTS), (uint64_t, refused), (troupe_text, trouble));
TROUPE_STRUCT(wish, (uint64_t, seed), (uint64_t, size));

static uint64_t roll(uint64_t *state) // Steele, Lea, Flood: SplitMix64.
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static troupe_status check_bytes(const void *data, size_t size, uint64_t seed, uint64_t wanted)
{
    if (size != wanted)
        return troupe_fail(TROUPE_CORRUPT, "a value has %zu bytes, and should have %llu", size,
                           (unsigned long long)wanted);
    return support_is_filled(data, size, seed)
               ? TROUPE_OK
               : troupe_fail(TROUPE_CORRUPT, "a value of %zu bytes is another one", size);
}

static size_t some_size(uint64_t *dice)
{
    switch (roll(dice) % 8) {
    case 0:
        return 8 * (SIZE_MOST / 64 + roll(dice) % (SIZE_MOST / 64 * 7));
    case 1:
    case 2:
    case 3:
        return 8 * (2048 + roll(dice) % 30000);
    default:
        return 8 * (1 + roll(dice) % 1000);
    }
}

// ---- makers

typedef struct maker {
    uint64_t made;
} maker;

static troupe_status maker_make(maker *self, const wish *what, troupe_bytes *out)
{
    void *data = troupe_arena_alloc(what->size);
    if (data == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a result");
    support_fill(data, what->size, what->seed);
    *out = (troupe_bytes){data, what->size};
    self->made++;
    return TROUPE_OK;
}

// Says of which filling the value is, the number in front of which is its own.
static troupe_status maker_read(maker *self, const troupe_bytes *value, uint64_t *seed)
{
    (void)self;
    memcpy(seed, value->data, sizeof *seed);
    return check_bytes((const char *)value->data + sizeof *seed, value->size - sizeof *seed, *seed,
                       value->size - sizeof *seed);
}

TROUPE_ACTOR(maker, (maker_make, wish, troupe_bytes), (maker_read, troupe_bytes, uint64_t));

// ---- hands

typedef struct hand {
    uint64_t dice, pace;
    uint32_t number;
    troupe_actor hands[HANDS], makers[HANDS];
    item items[ITEMS];
    uint32_t count; // Of those.
    struct {
        troupe_view view;
        uint64_t seed, size;
    } views[VIEWS];
    troupe_channel_writer out;
    troupe_channel_reader in;
    uint64_t written, followed; // Sequences.
    uint64_t cpu_ns;            // When it last lay down.
    tally done;
} hand;

static troupe_status hand_take(hand *self, const item *what, troupe_none *out);
static troupe_status hand_step(hand *self, const order *what, tally *out);
static troupe_status hand_meet(hand *self, const company *all, int *pid);
static troupe_status hand_open(hand *self, const troupe_none *in, troupe_channel *out);
static troupe_status hand_listen(hand *self, const troupe_channel *in, troupe_none *out);
static troupe_status hand_empty(hand *self, const troupe_none *in, troupe_none *out);

TROUPE_ACTOR(hand, (hand_take, item, troupe_none), (hand_step, order, tally),
             (hand_meet, company, int), (hand_open, troupe_none, troupe_channel),
             (hand_listen, troupe_channel, troupe_none), (hand_empty, troupe_none, troupe_none));

static void drop_at(hand *self, uint32_t i)
{
    troupe_ref_drop(self->items[i].ref);
    self->items[i] = self->items[--self->count];
    self->done.counts[DROPPED]++;
}

static void drop_one(hand *self)
{
    if (self->count > 0)
        drop_at(self, (uint32_t)(roll(&self->dice) % self->count));
}

static void keep(hand *self, const item *it)
{
    if (self->count == ITEMS)
        drop_one(self);
    self->items[self->count++] = *it;
}

// One of those that it holds, or NULL.
static const item *some(hand *self)
{
    return self->count > 0 ? &self->items[roll(&self->dice) % self->count] : NULL;
}

// ---- making

static uint64_t words[SIZE_MOST / 8]; // There is one hand in a process.

static troupe_status put(hand *self)
{
    item it = {.seed = roll(&self->dice), .size = some_size(&self->dice), .kind = BYTES};
    self->done.counts[PUT]++;
    if (roll(&self->dice) % 2 == 0) {
        support_fill(words, it.size, it.seed);
        it.ref = troupe_put_bytes(words, it.size);
    } else {
        troupe_buffer buffer;
        TROUPE_TRY(troupe_buffer_create(it.size, &buffer));
        support_fill(buffer.data, it.size, it.seed);
        if (roll(&self->dice) % 16 == 0) {
            troupe_buffer_discard(&buffer);
            return TROUPE_OK;
        }
        TROUPE_TRY(troupe_buffer_seal(&buffer, &it.ref));
    }
    keep(self, &it);
    return TROUPE_OK;
}

static troupe_status put_tensor(hand *self)
{
    item it = {.seed = roll(&self->dice),
               .size = some_size(&self->dice) / 128 * 128 + 128,
               .kind = TENSOR};
    troupe_tensor like = troupe_tensor_of(TROUPE_UINT64, NULL, it.size / 128, 16);
    troupe_buffer buffer;
    TROUPE_TRY(troupe_tensor_create(&like, &buffer));
    support_fill(buffer.data, it.size, it.seed);
    TROUPE_TRY(troupe_buffer_seal(&buffer, &it.ref));
    keep(self, &it);
    self->done.counts[TENSORS]++;
    return TROUPE_OK;
}

// A list of what it holds; what is in it stays its own, too.
static troupe_status put_list(hand *self)
{
    item inside[INSIDE], it = {.seed = roll(&self->dice), .size = 1, .kind = LIST};
    list value = {.seed = it.seed, .items = {inside, 0}};
    for (int i = 0; i < INSIDE; i++) {
        const item *one = some(self);
        if (one == NULL || (one->kind == LIST && one->size >= DEPTH))
            continue;
        inside[value.items.count++] = *one;
        if (one->kind == LIST && one->size >= it.size)
            it.size = one->size + 1;
    }
    it.ref = troupe_put(list, &value);
    keep(self, &it);
    self->done.counts[LISTED]++;
    return TROUPE_OK;
}

static troupe_status ask_for_result(hand *self)
{
    item it = {.seed = roll(&self->dice), .size = some_size(&self->dice), .kind = BYTES};
    maker_actor from = {self->makers[roll(&self->dice) % HANDS]};
    it.ref = troupe_call(from, maker_make, .seed = it.seed, .size = it.size);
    keep(self, &it);
    self->done.counts[RESULTS]++;
    return TROUPE_OK;
}

static troupe_status send_argument(hand *self)
{
    uint64_t seed = roll(&self->dice), read;
    troupe_bytes value = {words, some_size(&self->dice) + sizeof seed};
    maker_actor to = {self->makers[roll(&self->dice) % HANDS]};
    words[0] = seed;
    support_fill(words + 1, value.size - sizeof seed, seed);
    TROUPE_TRY(troupe_get(uint64_t, troupe_call_from(to, maker_read, &value), &read));
    self->done.counts[ARGUMENTS]++;
    return read == seed ? TROUPE_OK : troupe_fail(TROUPE_CORRUPT, "an argument is another one");
}

// ---- reading

static troupe_status begin_view(const item *it, troupe_view *view)
{
    troupe_tensor tensor;
    if (it->kind == TENSOR)
        TROUPE_TRY(troupe_view_tensor(it->ref, TROUPE_UINT64, 2, &tensor, view, -1));
    else
        TROUPE_TRY(troupe_view_bytes(it->ref, view, -1));
    return check_bytes(view->data, view->size, it->seed, it->size);
}

static troupe_status check_item(const item *it);

static troupe_status check_list(const item *it)
{
    list value;
    troupe_status status = TROUPE_OK;
    troupe_ref own = troupe_ref_keep(it->ref);
    TROUPE_TRY(troupe_get(list, own, &value));
    if (value.seed != it->seed)
        status = troupe_fail(TROUPE_CORRUPT, "a list is another one");
    for (size_t i = 0; i < value.items.count; i++) {
        if (status == TROUPE_OK)
            status = check_item(&value.items.items[i]);
        troupe_ref_drop(value.items.items[i].ref);
    }
    return status;
}

static troupe_status check_item(const item *it)
{
    troupe_view view = {0};
    if (it->kind == LIST)
        return check_list(it);
    troupe_status status = begin_view(it, &view);
    troupe_view_end(&view);
    return status;
}

// Reads one, and once more when another is to be read.
static troupe_status read_some(hand *self)
{
    const item *it = some(self);
    uint32_t i = (uint32_t)(roll(&self->dice) % VIEWS);
    if (self->views[i].view.data != NULL)
        TROUPE_TRY(check_bytes(self->views[i].view.data, self->views[i].view.size,
                               self->views[i].seed, self->views[i].size));
    troupe_view_end(&self->views[i].view);
    if (it == NULL)
        return TROUPE_OK;
    self->done.counts[READ]++;
    if (it->kind == LIST || roll(&self->dice) % 4 != 0)
        return check_item(it);
    self->views[i].seed = it->seed;
    self->views[i].size = it->size;
    return begin_view(it, &self->views[i].view);
}

// ---- giving

static troupe_status pass(hand *self)
{
    const item *it = some(self);
    uint32_t to = (uint32_t)(roll(&self->dice) % HANDS);
    if (it == NULL || to == self->number)
        return TROUPE_OK;
    self->done.counts[PASSED]++;
    return troupe_tell_from(((hand_actor){self->hands[to]}), hand_take, it);
}

static troupe_status hand_take(hand *self, const item *what, troupe_none *out)
{
    item it = *what;
    (void)out;
    it.ref = troupe_ref_keep(what->ref);
    keep(self, &it);
    self->done.counts[RECEIVED]++;
    return TROUPE_OK;
}

// ---- channels: each hand writes one, and follows that of its neighbour

static troupe_status write_one(hand *self)
{
    void *data;
    troupe_status status = troupe_channel_write_begin(&self->out, &data, 0);
    if (status == TROUPE_TIMED_OUT)
        return TROUPE_OK;
    TROUPE_TRY(status);
    support_fill(data, SLOT, ++self->written);
    self->done.counts[WRITTEN]++;
    return troupe_channel_publish(&self->out, SLOT);
}

static troupe_status follow(hand *self)
{
    troupe_channel_view view;
    troupe_status status = troupe_channel_read_begin(&self->in, &view, 0);
    if (status == TROUPE_TIMED_OUT)
        return TROUPE_OK;
    TROUPE_TRY(status);
    status = check_bytes(view.data, view.size, ++self->followed, SLOT);
    if (view.sequence != self->followed)
        status = troupe_fail(TROUPE_CORRUPT, "value %llu came as %llu",
                             (unsigned long long)view.sequence, (unsigned long long)self->followed);
    self->done.counts[FOLLOWED]++;
    troupe_channel_read_end(&self->in);
    return status;
}

static troupe_status hand_open(hand *self, const troupe_none *in, troupe_channel *out)
{
    (void)in;
    TROUPE_TRY(troupe_channel_open(SLOT, 8, 1, out));
    return troupe_channel_write_open(*out, &self->out);
}

static troupe_status hand_listen(hand *self, const troupe_channel *in, troupe_none *out)
{
    (void)out;
    return troupe_channel_read_open(*in, 0, &self->in);
}

// ---- the turns

static troupe_status act(hand *self, bool grow)
{
    switch (roll(&self->dice) % 24) {
    case 0:
    case 1:
    case 2:
        return grow ? put(self) : TROUPE_OK;
    case 3:
        return grow ? put_tensor(self) : TROUPE_OK;
    case 4:
        return grow ? ask_for_result(self) : TROUPE_OK;
    case 5:
        return put_list(self);
    case 6:
        return send_argument(self);
    case 7:
    case 8:
        return pass(self);
    case 9:
        return write_one(self);
    case 10:
        return follow(self);
    case 11:
    case 12:
    case 13:
        drop_one(self);
        return TROUPE_OK;
    case 14:
    case 15:
        if (!grow)
            drop_one(self);
        return TROUPE_OK;
    default:
        return read_some(self);
    }
}

static uint64_t cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Lies down for `pace` - 1 times as long as the process has worked.
static void rest(hand *self)
{
    uint64_t now = cpu_now(), rest_ns = (now - self->cpu_ns) * (self->pace - 1);
    if (rest_ns < 1000000)
        return;
    const struct timespec pause = {(time_t)(rest_ns / 1000000000), (long)(rest_ns % 1000000000)};
    (void)nanosleep(&pause, NULL);
    self->cpu_ns = cpu_now();
}

static troupe_status hand_step(hand *self, const order *what, tally *out)
{
    int64_t begun_ms = support_now_ms();
    self->dice ^= what->dice;
    self->pace = what->pace;
    if (what->trim) // What is looked at then is in use, and not what malloc keeps.
        (void)malloc_trim(0);
    for (int i = 0; i < STEP_ACTS && support_now_ms() - begun_ms < STEP_MS; i++) {
        troupe_status status = act(self, what->grow);
        if (status == TROUPE_NO_MEMORY)
            self->done.refused++;
        if (status != TROUPE_OK) {
            self->done.trouble = troupe_arena_text(troupe_last_error()->text);
            break;
        }
        rest(self);
    }
    *out = self->done;
    self->done = (tally){0};
    return TROUPE_OK;
}

static troupe_status hand_meet(hand *self, const company *all, int *pid)
{
    self->number = all->number;
    memcpy(self->hands, all->hands.items, sizeof self->hands);
    memcpy(self->makers, all->makers.items, sizeof self->makers);
    self->cpu_ns = cpu_now();
    memset(words, 1, sizeof words); // All of it is the process's memory from now on.
    *pid = getpid();
    return TROUPE_OK;
}

static troupe_status hand_empty(hand *self, const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    while (self->count > 0)
        drop_at(self, self->count - 1);
    for (int i = 0; i < VIEWS; i++)
        troupe_view_end(&self->views[i].view);
    troupe_channel_close(&self->out);
    troupe_channel_read_close(&self->in);
    return TROUPE_OK;
}

#endif
