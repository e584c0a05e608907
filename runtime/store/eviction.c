// eviction.c: what goes to disk for room, and waiting for some (see store/eviction.h).
#include <runtime/store/eviction.h>

#include <errno.h>
#include <linux/futex.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/shm/page_words.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/holds.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    RETRY_MS = 1000, // After the disk has failed.
    TELL_MS = 60000, // Between lines of log about that.
    SHARE = 32,      // One part of so many of the store goes at a time, at least,
    RUN_SHARE = 256, // or of so many, where what is old lies scattered.
    LARGE = TRP_BLOCK_MAX,
};

// ---- waiting

uint32_t trp_room_expect(void)
{
    TRP_USE_SEGMENT(0);
    uint32_t seen = atomic_load(&trp_segment.header->freed);
    (void)atomic_fetch_or(&trp_segment.header->awaited, TRP_AWAITED_ROOM);
    return seen;
}

void trp_room_wait(uint32_t seen, int timeout_ms)
{
    TRP_USE_SEGMENT();
    const struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    (void)syscall(SYS_futex, &trp_segment.header->freed, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

void trp_room_wake(void)
{
    trp_header *header = trp_segment.header;
    uint32_t who = atomic_exchange(&header->awaited, 0);
    TRP_FAULT("store");
    if ((who & TRP_AWAITED_IDLE) != 0)
        trp_store_ring_node();
    if ((who & TRP_AWAITED_ROOM) == 0)
        return;
    (void)atomic_fetch_add(&header->freed, 1);
    (void)syscall(SYS_futex, &header->freed, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void trp_room_rise_for_all(void)
{
    (void)atomic_fetch_or(&trp_segment.header->awaited, TRP_AWAITED_ROOM | TRP_AWAITED_IDLE);
    trp_room_wake();
}

// ---- what goes

typedef struct candidate {
    uint64_t word;
    trp_place place;
    uint64_t bytes; // Of memory.
    uint64_t file;  // Bytes of the file that it has, or would have.
    uint32_t slot;
    uint32_t age_ms;
    bool filed;
    bool in_run; // It goes first, since what it leaves lies together with what is free.
} candidate;

typedef struct choice {
    candidate *all;
    size_t count, room;
    size_t kept;      // From here on no file was removed.
    uint64_t on_disk; // Bytes of files.
} choice;

// A block frees memory for blocks of its kind alone, so they come last.
static int compare(const void *one, const void *other)
{
    const candidate *a = one, *b = other;
    if (a->in_run != b->in_run)
        return b->in_run - a->in_run;
    int large = (b->bytes > LARGE) - (a->bytes > LARGE);
    return large != 0 ? large : (b->age_ms > a->age_ms) - (b->age_ms < a->age_ms);
}

static void consider(choice *these, uint32_t slot, uint32_t now_ms)
{
    trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    uint32_t where = atomic_load(&row->where);
    trp_place place = atomic_load(&row->place);
    uint64_t file = atomic_load_explicit(&row->size, memory_order_relaxed) + TRP_SPILL_HEADER;
    if (trp_where_has_file(where))
        these->on_disk += file;
    if (trp_where_state(where) != TRP_WHERE_MEMORY || !trp_where_movable(word, row) ||
        !trp_place_holds(place, file - TRP_SPILL_HEADER))
        return;
    if (these->count == these->room) {
        size_t room = these->room > 0 ? 2 * these->room : 1024;
        candidate *all = trp_realloc(these->all, room * sizeof *all);
        if (all == NULL)
            return;
        these->all = all;
        these->room = room;
    }
    these->all[these->count++] = (candidate){
        .word = word,
        .place = place,
        .bytes = trp_place_bytes(place),
        .file = file,
        .filed = trp_where_has_file(where),
        .slot = slot,
        .age_ms = trp_row_age(atomic_load_explicit(&row->used_ms, memory_order_relaxed), now_ms),
    };
}

static choice look(void)
{
    choice these = {0};
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed), now_ms = trp_row_now();
    for (uint32_t slot = 0; slot < objects; slot++)
        consider(&these, slot, now_ms);
    if (these.count > 1)
        qsort(these.all, these.count, sizeof *these.all, compare);
    these.kept = these.count;
    return these;
}

// ---- pages that lie together

// What a page is while runs are looked for. Where others change it meanwhile, too much or too
// little goes.
typedef enum page_state { TAKEN, LEFT, CHOSEN } page_state;

static uint8_t *look_at_pages(uint32_t all)
{
    uint8_t *pages = trp_alloc(all);
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; pages != NULL && page < all; page++)
        pages[page] = page >= backed || trp_owner_is_free(atomic_load_explicit(
                                            trp_page_owner(page), memory_order_relaxed))
                          ? LEFT
                          : TAKEN;
    return pages;
}

// The object's pages are left. Chooses runs of `count` among these and what is left beside them.
// Returns how many.
static uint32_t leave(uint8_t *pages, uint32_t all, trp_place place, uint32_t count)
{
    uint32_t from = trp_place_page(place), to = from + trp_place_count(place), runs = 0;
    memset(pages + from, LEFT, to - from);
    while (from > 0 && pages[from - 1] == LEFT)
        from--;
    while (to < all && pages[to] == LEFT)
        to++;
    for (; to - from >= count; from += count, runs++)
        memset(pages + from, CHOSEN, count);
    return runs;
}

// Puts those first whose pages make runs of `count` with what is free between them: among the
// oldest, as many of which as it takes to find runs of `most` bytes; of `least` bytes once one of
// them alone makes no run, since what lies scattered is dear. What lies elsewhere stays, however
// old it is: without it no more would fit. Returns how many they are.
static size_t choose_runs(choice *these, uint32_t count, uint64_t least, uint64_t most)
{
    uint32_t all = trp_segment.header->pages_max;
    uint64_t found = 0, wanted = most;
    size_t seen = 0, chosen = 0;
    uint8_t *pages = look_at_pages(all);
    for (; pages != NULL && seen < these->count && found < wanted; seen++) {
        const candidate *it = &these->all[seen];
        if (it->bytes <= LARGE)
            break;
        if (trp_ledger_pinned(it->slot, trp_store_self))
            continue;
        uint32_t runs = leave(pages, all, it->place, count);
        found += (uint64_t)runs * count * TRP_PAGE_SIZE;
        wanted = runs == 0 ? least : wanted;
    }
    for (size_t i = 0; i < seen; i++) {
        candidate *it = &these->all[i];
        it->in_run =
            memchr(pages + trp_place_page(it->place), CHOSEN, trp_place_count(it->place)) != NULL;
        chosen += it->in_run;
    }
    trp_free(pages);
    if (chosen > 0)
        qsort(these->all, seen, sizeof *these->all, compare);
    return chosen;
}

// How many of them are to go for `size` bytes, if all of these can.
static size_t choose(choice *these, size_t size)
{
    const trp_header *header = trp_segment.header;
    uint64_t count = (size + TRP_PAGE_SIZE - 1) / TRP_PAGE_SIZE;
    uint64_t share = header->capacity / RUN_SHARE;
    if (count < 2 || count > header->pages_max) // Any page will do, or none.
        return 0;
    return choose_runs(these, (uint32_t)count, size > share ? size : share,
                       size + header->capacity / SHARE);
}

// ---- going

// The disk fails: says so now and then, and remembers when and how. 0 stands for never.
static void note_failure(int error)
{
    trp_header *header = trp_segment.header;
    uint32_t now_ms = trp_row_now() | 1, told_ms = atomic_load(&header->spill_told_ms);
    atomic_store(&header->spill_error, (uint32_t)error);
    atomic_store(&header->spill_failed_ms, now_ms);
    if (told_ms != 0 && now_ms - told_ms < TELL_MS)
        return;
    if (atomic_compare_exchange_strong(&header->spill_told_ms, &told_ms, now_ms))
        trp_log(TRP_WARN, "objects of the full store cannot go to disk: %s",
                troupe_last_error()->text);
}

static bool has_failed(void)
{
    uint32_t failed_ms = atomic_load(&trp_segment.header->spill_failed_ms);
    return failed_ms != 0 && (trp_row_now() | 1) - failed_ms < RETRY_MS;
}

// Removes files of objects that are in memory, so that those of others have room: of the ones that
// will go last, and not of the first `from`. False: not so many bytes of files could be removed.
static bool bare(choice *these, size_t from, uint64_t wanted)
{
    uint64_t removed = 0;
    while (removed < wanted && these->kept > from) {
        candidate *it = &these->all[--these->kept];
        if (!it->filed || !trp_where_bare(it->slot, it->word))
            continue;
        it->filed = false;
        these->on_disk -= it->file;
        removed += it->file;
    }
    return removed >= wanted;
}

static bool fits(choice *these, size_t at)
{
    uint64_t most = trp_segment.header->spill_bytes_max, file = these->all[at].file;
    if (these->all[at].filed || these->on_disk + file <= most)
        return true;
    return file <= most && bare(these, at + 1, these->on_disk + file - most);
}

// The same where the disk is full before the limit is reached.
static troupe_status save_one(choice *these, size_t at)
{
    const candidate *it = &these->all[at];
    for (;;) {
        troupe_status status = trp_where_save(it->slot, it->word);
        bool full =
            status != TROUPE_OK && status != TRP_WHERE_BUSY && (errno == ENOSPC || errno == EDQUOT);
        int error = errno;
        if (!full || !bare(these, at + 1, it->file)) {
            errno = error;
            return status;
        }
    }
}

// One stays in memory: its file may have been written all the same.
static void count_file(choice *these, candidate *it)
{
    trp_object_row *row = trp_object_row_at(it->slot);
    bool filed = trp_where_has_file(atomic_load(&row->where)) &&
                 trp_row_generation(atomic_load(&row->word)) == trp_row_generation(it->word);
    if (it->filed || !filed)
        return;
    it->filed = true;
    these->on_disk += it->file;
}

// Of the first `count`. Returns how many bytes of memory that freed.
static uint64_t save(choice *these, size_t count, uint64_t wanted)
{
    uint64_t freed = 0;
    for (size_t i = 0; i < count && freed < wanted; i++) {
        candidate *it = &these->all[i];
        if (!fits(these, i))
            continue;
        troupe_status status = save_one(these, i);
        if (status == TRP_WHERE_BUSY) {
            count_file(these, it);
            continue;
        }
        if (status != TROUPE_OK) {
            note_failure(errno);
            break;
        }
        if (!it->filed)
            these->on_disk += it->file;
        freed += it->bytes;
    }
    return freed;
}

bool trp_room_make(size_t size)
{
    const trp_header *header = trp_segment.header;
    troupe_error kept;
    if (header->spill_folder[0] == '\0' || has_failed())
        return false;
    // Another thread of this process is at it: perhaps it makes room enough.
    if (!trp_where_begin())
        return true;
    trp_error_hold(&kept);
    choice these = look();
    uint64_t freed = save(&these, choose(&these, size), UINT64_MAX);
    if (freed == 0 && !has_failed()) // There are no such, or others are at them.
        freed = save(&these, these.count, size + header->capacity / SHARE);
    trp_free(these.all);
    trp_error_restore(&kept);
    trp_where_end();
    if (freed > 0)
        trp_room_rise();
    return freed > 0;
}

troupe_status trp_room_try(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                           void **data)
{
    return trp_store_try(size, schema, encoding, true, id, data);
}

troupe_status trp_room_create(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                              void **data)
{
    troupe_status status = trp_room_try(size, schema, encoding, id, data);
    if (status == TROUPE_NO_MEMORY)
        (void)trp_store_blame();
    return status;
}

// ---- the sentence

static bool is_table_full(void)
{
    uint32_t slot = 0, objects = atomic_load(&trp_segment.header->objects_backed);
    while (slot < objects &&
           trp_row_state_of(atomic_load(&trp_object_row_at(slot)->word)) != TRP_ROW_FREE)
        slot++;
    return slot == TRP_OBJECTS_MAX;
}

static void say_why(char *text, size_t size)
{
    trp_header *header = trp_segment.header;
    if (is_table_full()) {
        snprintf(text, size, "an object keeps its place on disk, too");
        return;
    }
    if (header->spill_folder[0] == '\0') {
        snprintf(text, size, "objects do not go to disk (.spill_bytes_max of troupe_start)");
        return;
    }
    if (has_failed()) {
        snprintf(text, size, "the disk takes no more: %s",
                 strerror((int)atomic_load(&header->spill_error)));
        return;
    }
    choice these = look();
    uint64_t others = these.on_disk, file = 0; // Of what is in memory, files could be removed.
    for (size_t i = 0; i < these.count; i++)
        others -= these.all[i].filed ? these.all[i].file : 0;
    if (these.count > 0 && !these.all[0].filed)
        file = these.all[0].file;
    trp_free(these.all);
    if (these.count == 0)
        snprintf(text, size, "nothing is left that could go to disk");
    else if (file > 0 && others + file > header->spill_bytes_max)
        snprintf(text, size, "%llu of %llu bytes on disk are used (.spill_bytes_max)",
                 (unsigned long long)these.on_disk, (unsigned long long)header->spill_bytes_max);
    else
        snprintf(text, size, "what is left is being read");
}

troupe_status trp_room_explain(int64_t waited_ms)
{
    TRP_USE_SEGMENT(trp_use_refused());
    char why[120], waited[48] = "";
    troupe_error kept = *troupe_last_error();
    say_why(why, sizeof why);
    if (waited_ms > 0)
        snprintf(waited, sizeof waited, ", after %lld ms", (long long)waited_ms);
    (void)troupe_fail(TROUPE_NO_MEMORY, "%.300s; %s%s", kept.text, why, waited);
    return trp_store_blame();
}
