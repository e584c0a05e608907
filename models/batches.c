// batches.c: the batches of a set that a rank has, one epoch after the other.
//
// Places of an epoch are divided into steps first, and each step among the ranks then: what a step
// has is the same whatever the number of ranks is.
//
// A column whose rows lie in memory as a batch has them is lent. Where one does not, or the rows
// are shuffled, they are gathered into one of a ring of slots, by a thread that is ahead of the
// user: slots from `taken` - 1, which the user has, to `made` - 1 are full. Where the loops of all
// ranks leave no CPU for that thread, and a batch is quickly made, the user makes it: to wake the
// thread would take longer, and a loop's CPU.
#include <models/batch.h>
#include <models/batches.h>
#include <models/permutation.h>
#include <models/source.h>

#include <inttypes.h>
#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <runtime/base/thread.h>
#include <runtime/codec/tensor.h>
#include <string.h>
#include <train/counter.h>
#include <train/worker.h>

enum {
    BATCH_DEFAULT = 32,
    PREFETCH_DEFAULT = 2,
    PREFETCH_MAX = 64,
    QUICK_NS = 50000, // About what a wake-up costs where all CPUs are busy.
};

typedef struct slot {
    troupe_batch batch;
    struct troupe_columns columns;
    trp_column *items;
    int64_t *order;         // The rows of the batch.
    unsigned char **memory; // For each column that is gathered; NULL: it is lent.
    troupe_error error;     // Why it could not be made; TROUPE_OK: it was.
} slot;

struct troupe_batches {
    trp_guest guest; // First. Of the loop that has opened it.
    trp_arena arena; // All below, but for what is gathered.
    trp_feed *feeds;
    size_t columns;
    trp_division among;
    int64_t all;         // Rows of the set.
    int64_t size, count; // Rows of a step, steps of an epoch.
    uint64_t seed;
    bool shuffle, begun;
    int64_t epoch;
    trp_permutation order;
    trp_permutation_table *order_table; // Of a shuffle.
    double waited_s;
    slot *slots;
    int64_t slot_count;
    // Of the user and the thread.
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool ahead, ends, filling; // Whether there is a thread; whether it is to end, is at a slot.
    int64_t made, taken;       // The next batch to be made, and to be lent.
    bool scarce;               // There is no CPU for the thread, and rows are copied alone.
    bool by_user;              // So who takes a batch makes it.
    int64_t made_by_user;      // So many.
};

// ---- opening

static const trp_range ranges[] = {
    TRP_RANGE(troupe_batches_options, batch, 1, INT32_MAX),
    TRP_RANGE(troupe_batches_options, step_rows, 1, INT32_MAX),
    TRP_RANGE_OR(troupe_batches_options, prefetch, 1, PREFETCH_MAX, TROUPE_NONE),
};

// The set's columns, whose references are this process's then.
static troupe_status read_sources(const char *key, troupe_ref set, trp_arena *arena,
                                  trp_sources *sources)
{
    troupe_ref kept = troupe_ref_keep(set);
    trp_arena *before = trp_arena_swap(arena);
    troupe_status status = troupe_get(trp_sources, kept, sources);
    trp_arena_swap(before);
    if (status == TROUPE_WRONG_TYPE)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "the set '%.63s' does not consist of columns: it was named by "
                           "troupe_data_set, where troupe_data_columns was expected",
                           key);
    return status;
}

static troupe_status open_feeds(const char *key, troupe_ref set, troupe_batches *batches)
{
    trp_sources sources;
    TROUPE_TRY(read_sources(key, set, &batches->arena, &sources));
    size_t count = sources.columns.count;
    troupe_status status = TROUPE_OK;
    batches->feeds = (trp_feed *)trp_arena_alloc(&batches->arena, count * sizeof(trp_feed));
    if (!batches->feeds)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the columns of the set '%.63s'", key);
    for (size_t i = 0; i < count && status == TROUPE_OK; i++) {
        status = trp_feed_open(&sources.columns.items[i], &batches->feeds[i]);
        if (status == TROUPE_OK)
            batches->columns++; // Those that are to be closed.
        else
            status = trp_error_prefix("column '%s' of the set '%.63s'",
                                      sources.columns.items[i].column, key);
    }
    for (size_t i = 0; i < count; i++)
        troupe_ref_drop(sources.columns.items[i].object); // The views stay.
    return status;
}

static bool is_lent(const troupe_batches *batches, const trp_feed *feed)
{
    size_t element = troupe_dtype_size((troupe_dtype)feed->source->dtype);
    return feed->rows && !batches->shuffle && feed->stride == feed->row_bytes &&
           (uintptr_t)feed->rows % element == 0;
}

static troupe_status no_memory(const char *key)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for batches of the set '%.63s'", key);
}

// What is gathered has memory for a batch.
static troupe_status make_slots(const char *key, bool lent, troupe_batches *batches)
{
    size_t columns = batches->columns;
    int world = batches->among.world;
    size_t most = (size_t)(batches->size / world + (batches->size % world > 0));
    for (int64_t i = 0; i < batches->slot_count; i++) {
        slot *at = &batches->slots[i];
        at->items = (trp_column *)trp_arena_alloc(&batches->arena, columns * sizeof *at->items);
        at->memory =
            (unsigned char **)trp_arena_alloc(&batches->arena, columns * sizeof *at->memory);
        if (!lent)
            at->order = (int64_t *)trp_arena_alloc(&batches->arena, most * sizeof *at->order);
        if (!at->items || !at->memory || (!lent && !at->order))
            return no_memory(key);
        at->columns = (struct troupe_columns){columns, at->items};
        for (size_t c = 0; c < columns; c++) {
            const trp_feed *feed = &batches->feeds[c];
            size_t bytes;
            if (is_lent(batches, feed))
                continue;
            bool fits = !__builtin_mul_overflow(most, feed->row_bytes, &bytes) &&
                        bytes < SIZE_MAX - TRP_TENSOR_SLACK;
            void *block = fits ? trp_arena_alloc(&batches->arena, bytes + TRP_TENSOR_SLACK) : NULL;
            if (!block)
                return troupe_fail(TROUPE_NO_MEMORY,
                                   "no memory for batches of the set '%.63s': %zu rows of %zu "
                                   "bytes each in column '%s'",
                                   key, most, feed->row_bytes, feed->source->column);
            at->memory[c] = (unsigned char *)trp_tensor_aligned(block);
        }
    }
    return TROUPE_OK;
}

// ---- making batches

// Rows that ranks before `rank` have of the first `places`, which are dealt out one at a time.
static int64_t dealt_before(int rank, int world, int64_t places)
{
    int64_t rest = places % world;
    return places / world * rank + (rest < rank ? rest : rank);
}

// A rank has as many rows of a step as if place p went to rank p mod w: of any places that follow
// each other, the ranks get numbers that are equal within one, so in each step, and over all steps.
// But which ones: a slice of the step, so that rows which follow each other stay together.
int64_t trp_division_at(int rank, int world, int64_t from, int64_t end)
{
    return from + dealt_before(rank, world, end) - dealt_before(rank, world, from);
}

static troupe_status make_column(const trp_feed *feed, const slot *into, size_t rows, int64_t first,
                                 unsigned char *memory, trp_column *column)
{
    const void *data = memory ? memory : feed->rows + (size_t)first * feed->stride;
    TROUPE_TRY(trp_feed_check(feed));
    if (memory && trp_feed_gather(feed, into->order, rows, memory) != TROUPE_OK)
        return trp_error_prefix("column '%s'", feed->source->column);
    *column = (trp_column){feed->source->column, trp_source_tensor(feed->source, data, rows)};
    return TROUPE_OK;
}

static void make(const troupe_batches *batches, int64_t number, slot *into)
{
    int rank = batches->among.rank, world = batches->among.world;
    int64_t from = number * batches->size, left = batches->all - from;
    int64_t end = left < batches->size ? batches->all : from + batches->size;
    int64_t first = trp_division_at(rank, world, from, end);
    size_t rows = (size_t)(trp_division_at(rank + 1, world, from, end) - first);
    if (into->order && batches->shuffle)
        trp_permutation_range(&batches->order, (uint64_t)first, rows, into->order);
    for (size_t i = 0; i < rows && into->order && !batches->shuffle; i++)
        into->order[i] = first + (int64_t)i;
    // What a generator takes from the thread's arena lives as long as it makes a batch.
    trp_arena scratch = {0}, *before = trp_arena_swap(&scratch);
    troupe_status status = TROUPE_OK;
    for (size_t c = 0; c < batches->columns && status == TROUPE_OK; c++)
        status =
            make_column(&batches->feeds[c], into, rows, first, into->memory[c], &into->items[c]);
    trp_arena_swap(before);
    trp_arena_clear(&scratch);
    into->error.status = status;
    if (status != TROUPE_OK)
        trp_error_hold(&into->error);
    into->batch = (troupe_batch){
        .epoch = batches->epoch, .number = number, .rows = rows, .columns_ = &into->columns};
}

static slot *slot_of(const troupe_batches *batches, int64_t number)
{
    return &batches->slots[number % batches->slot_count];
}

// Whether there is a batch for the thread to be made, and room for it: one slot is the user's.
static bool can_make(const troupe_batches *batches)
{
    return batches->begun && !batches->by_user && batches->made < batches->count &&
           batches->made - batches->taken < batches->slot_count - 1;
}

// Makes the next one. With the lock, which is let go meanwhile.
static void make_next(troupe_batches *batches)
{
    int64_t number = batches->made;
    batches->filling = true;
    pthread_mutex_unlock(&batches->lock);
    int64_t began = trp_clock_ns();
    make(batches, number, slot_of(batches, number));
    int64_t took = trp_clock_ns() - began;
    pthread_mutex_lock(&batches->lock);
    batches->filling = false;
    batches->made++;
    batches->by_user = batches->scarce && took < QUICK_NS;
}

static void *make_ahead(void *user)
{
    troupe_batches *batches = (troupe_batches *)user;
    pthread_mutex_lock(&batches->lock);
    while (!batches->ends) {
        if (!can_make(batches)) {
            pthread_cond_wait(&batches->changed, &batches->lock);
            continue;
        }
        make_next(batches);
        pthread_cond_broadcast(&batches->changed);
    }
    pthread_mutex_unlock(&batches->lock);
    return NULL;
}

static troupe_status start_thread(troupe_batches *batches)
{
    TROUPE_TRY(trp_thread_start(&batches->thread, "trp-batches", make_ahead, batches));
    batches->ahead = true;
    return TROUPE_OK;
}

static troupe_status fill(const char *key, troupe_ref set, int64_t rows, trp_division among,
                          const troupe_batches_options *how, troupe_batches *batches)
{
    TROUPE_TRY(open_feeds(key, set, batches));
    int64_t size =
        how->step_rows ? how->step_rows : (how->batch ? how->batch : BATCH_DEFAULT) * among.world;
    batches->among = among;
    batches->all = rows;
    batches->count = rows / size + (rows % size > 0);
    batches->size = size < rows ? size : rows;
    batches->seed = how->seed;
    batches->shuffle = how->shuffle;
    bool lent = true;
    for (size_t i = 0; i < batches->columns; i++)
        lent = lent && is_lent(batches, &batches->feeds[i]);
    int ahead = how->prefetch ? how->prefetch : PREFETCH_DEFAULT;
    if (lent || ahead == TROUPE_NONE)
        ahead = 0;
    batches->slot_count = ahead + 1;
    batches->slots = (slot *)trp_arena_alloc(&batches->arena,
                                             (size_t)batches->slot_count * sizeof *batches->slots);
    if (!batches->slots)
        return no_memory(key);
    TROUPE_TRY(make_slots(key, lent, batches));
    if (batches->shuffle)
        batches->order_table =
            (trp_permutation_table *)trp_arena_alloc(&batches->arena, sizeof *batches->order_table);
    if (batches->shuffle && !batches->order_table)
        return no_memory(key);
    return ahead > 0 ? start_thread(batches) : TROUPE_OK;
}

troupe_status trp_batches_open(const char *key, troupe_ref set, int64_t rows, trp_division among,
                               const troupe_batches_options *how, troupe_batches **batches)
{
    troupe_batches *made = (troupe_batches *)trp_alloc(sizeof *made);
    if (!made)
        return no_memory(key);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    troupe_status status = fill(key, set, rows, among, how, made);
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        troupe_batches_close(&made);
        trp_error_restore(&said);
        return status;
    }
    *batches = made;
    return TROUPE_OK;
}

static void go_with_loop(trp_guest *guest)
{
    troupe_batches *batches = (troupe_batches *)guest;
    troupe_batches_close(&batches);
}

troupe_status troupe_batches_open_with(troupe_rank *me, const char *key, troupe_batches **batches,
                                       const troupe_batches_options *how)
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(key);
    TRP_REQUIRE(batches);
    troupe_batches_options taken;
    troupe_shard part;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_batches_open", taken, how));
    TROUPE_TRY(
        trp_ranges_check("troupe_batches_open", ranges, sizeof ranges / sizeof *ranges, &taken));
    if (taken.batch && taken.step_rows)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_batches_open: .batch is %" PRId64 " and .step_rows %" PRId64
                           ": expected one of them",
                           taken.batch, taken.step_rows);
    TROUPE_TRY(troupe_data_shard(me, key, &part));
    trp_division among = {0, 1};
    if (part.sharing == TROUPE_SPLIT)
        among = (trp_division){me->rank, me->world};
    troupe_batches *made;
    TROUPE_TRY(trp_batches_open(key, part.data, part.all, among, &taken, &made));
    made->guest.leave = go_with_loop;
    made->scarce = trp_counter_spin_ns(2 * me->world) == 0;
    for (size_t i = 0; i < made->columns; i++)
        made->scarce = made->scarce && made->feeds[i].rows; // Else a generator makes them.
    troupe_status status = trp_worker_guest(me, "troupe_batches_open", &made->guest);
    if (status == TROUPE_OK)
        *batches = made;
    else
        troupe_batches_close(&made); // Not reached: the part was this loop's.
    return status;
}

// ---- lending them

troupe_status troupe_batches_begin(troupe_batches *batches, int64_t epoch, int64_t first)
{
    TRP_REQUIRE(batches);
    if (epoch < 0)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_batches_begin: the epoch is %" PRId64 ": expected 0 or more",
                           epoch);
    if (first < 0 || first > batches->count)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_batches_begin: the first batch is %" PRId64
                           ": expected 0 to %" PRId64 ", the batches of an epoch",
                           first, batches->count);
    pthread_mutex_lock(&batches->lock);
    batches->begun = false; // The thread begins no other.
    while (batches->filling)
        pthread_cond_wait(&batches->changed, &batches->lock);
    batches->epoch = epoch;
    if (batches->shuffle) {
        batches->order =
            trp_permutation_make((uint64_t)batches->all, batches->seed, (uint64_t)epoch);
        (void)trp_permutation_tabulate(&batches->order, batches->order_table);
    }
    batches->made = batches->taken = first;
    batches->begun = true;
    pthread_cond_broadcast(&batches->changed);
    pthread_mutex_unlock(&batches->lock);
    return TROUPE_OK;
}

// The slot of the next batch, once that is made.
static slot *await(troupe_batches *batches)
{
    int64_t began = 0;
    pthread_mutex_lock(&batches->lock);
    slot *found = slot_of(batches, batches->taken);
    while (batches->made == batches->taken) {
        began = began ? began : trp_clock_ns();
        if (batches->by_user && !batches->filling) {
            make_next(batches);
            batches->made_by_user++;
        } else {
            pthread_cond_wait(&batches->changed, &batches->lock);
        }
    }
    batches->taken++;
    if (can_make(batches))
        pthread_cond_broadcast(&batches->changed);
    pthread_mutex_unlock(&batches->lock);
    if (began)
        batches->waited_s += (double)(trp_clock_ns() - began) * 1e-9;
    return found;
}

static slot *make_now(troupe_batches *batches)
{
    int64_t began = trp_clock_ns();
    slot *found = slot_of(batches, batches->taken);
    make(batches, batches->taken++, found);
    batches->waited_s += (double)(trp_clock_ns() - began) * 1e-9;
    return found;
}

troupe_status troupe_batches_next(troupe_batches *batches, troupe_batch *batch)
{
    TRP_REQUIRE(batches);
    TRP_REQUIRE(batch);
    if (!batches->begun)
        TROUPE_TRY(troupe_batches_begin(batches, 0, 0));
    if (batches->taken == batches->count)
        return troupe_fail(TROUPE_END, "epoch %" PRId64 " has no more batches: it has %" PRId64,
                           batches->epoch, batches->count);
    const slot *found = batches->ahead ? await(batches) : make_now(batches);
    if (found->error.status != TROUPE_OK)
        return trp_error_set(&found->error);
    *batch = found->batch;
    return TROUPE_OK;
}

int64_t troupe_batches_count(const troupe_batches *batches)
{
    return batches ? batches->count : 0;
}

int64_t troupe_batches_rows(const troupe_batches *batches)
{
    if (!batches)
        return 0;
    int rank = batches->among.rank, world = batches->among.world;
    return trp_division_at(rank + 1, world, 0, batches->all) -
           trp_division_at(rank, world, 0, batches->all);
}

int64_t troupe_batches_all_rows(const troupe_batches *batches)
{
    return batches ? batches->all : 0;
}

double troupe_batches_waited_s(const troupe_batches *batches)
{
    return batches ? batches->waited_s : 0;
}

int64_t trp_batches_made_by_user(const troupe_batches *batches)
{
    return batches->made_by_user;
}

void troupe_batches_close(troupe_batches **batches)
{
    if (!batches || !*batches)
        return;
    troupe_batches *closed = *batches;
    trp_guest_leave(&closed->guest);
    if (closed->ahead) {
        pthread_mutex_lock(&closed->lock);
        closed->ends = true;
        pthread_cond_broadcast(&closed->changed);
        pthread_mutex_unlock(&closed->lock);
        pthread_join(closed->thread, NULL);
    }
    for (size_t i = 0; i < closed->columns; i++)
        trp_feed_close(&closed->feeds[i]);
    pthread_cond_destroy(&closed->changed);
    pthread_mutex_destroy(&closed->lock);
    trp_arena_clear(&closed->arena);
    trp_free(closed);
    *batches = NULL;
}
