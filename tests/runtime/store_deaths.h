// store_deaths.h: for test_store_deaths.c: what its victims do, and what the tables must say when
// some of them are dead.
#ifndef TROUPE_TEST_STORE_DEATHS_H
#define TROUPE_TEST_STORE_DEATHS_H

#include <runtime/base/fault.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/store/eviction.h>
#include <runtime/store/holds.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <unistd.h>

enum {
    ME = TRP_PROCESS_NODE, // Sweeps, and adopts what the dead kept.
    VICTIMS = 8,
    FIRST = 10,   // Of the places of victims; a place is used again after PLACES deaths,
    PLACES = 200, // when nobody is left who knew the one before.
    COMMON = 16,  // Objects that all may read while they live.
    OWN = 16,     // That a victim holds at most, and
    VIEWS = 4,    // that it reads meanwhile.
    INSIDE = 3,
    CAPACITY = 4 << 20,
    SIZE_MAX_SMALL = 2000,
    SIZE_MAX_LARGE = 160000,
};

// What the victims share. What lies in the mail of a place is held by the process there.
static struct post {
    _Atomic uint32_t place[VICTIMS]; // Of those that live now.
    _Atomic trp_object mail[FIRST + PLACES];
    trp_object common[COMMON]; // Held by ME as long as anybody lives.
} * office;
static trp_object office_object;

static uint64_t roll(uint64_t *state) // Steele, Lea, Flood: SplitMix64.
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

// ---- values: the first word says how large it is and what follows

static void fill(void *data, size_t size, uint64_t seed)
{
    uint64_t *words = data, first = seed << 32 | size;
    for (size_t i = 0; i < size / 8; i++)
        words[i] = first + i * UINT64_C(0x10001);
}

static bool is_whole(const trp_object_info *info)
{
    const uint64_t *words = info->data;
    if (info->state != TRP_OBJECT_SEALED || info->size < 8 || info->size % 8 != 0 ||
        (uint32_t)words[0] != info->size)
        return false;
    for (size_t i = 0; i < info->size / 8; i++)
        if (words[i] != words[0] + i * UINT64_C(0x10001))
            return false;
    return true;
}

static bool put_words(size_t size, uint64_t seed, trp_object *id)
{
    void *data;
    if (trp_room_create(size, seed, TRP_ENCODING_BYTES, id, &data) != TROUPE_OK)
        return false;
    fill(data, size, seed);
    return trp_store_seal(*id) == TROUPE_OK;
}

// ---- a victim

typedef struct victim {
    uint32_t place;
    uint64_t dice;
    trp_object own[OWN];
    struct {
        trp_object id; // 0: none.
        trp_object_info info;
    } views[VIEWS];
} victim;

static _Noreturn void complain(const victim *me, const char *what, trp_object id, int detail)
{
    fprintf(stderr, "the process at place %u: %s: object %u of generation %llu (%d): %s\n",
            me->place, what, trp_row_slot(id),
            (unsigned long long)((id & ~TRP_ID_BIT) >> TRP_ID_SLOT_BITS), detail,
            troupe_last_error()->text);
    _exit(1);
}

static bool no_memory(void)
{
    return troupe_last_error()->status == TROUPE_NO_MEMORY;
}

// One of its own, which it may take; *id is 0 where there is none.
static trp_object *some(victim *me)
{
    return &me->own[roll(&me->dice) % OWN];
}

static void drop(victim *me, trp_object *id)
{
    if (*id != 0)
        trp_store_release(*id, me->place);
    *id = 0;
}

static void keep(victim *me, trp_object id)
{
    trp_object *place = some(me);
    drop(me, place);
    *place = id;
}

static size_t some_size(victim *me)
{
    size_t most = roll(&me->dice) % 4 == 0 ? SIZE_MAX_LARGE : SIZE_MAX_SMALL;
    return 8 * (1 + roll(&me->dice) % (most / 8));
}

static void put(victim *me)
{
    trp_object id;
    if (put_words(some_size(me), roll(&me->dice), &id))
        keep(me, id);
    else if (!no_memory())
        complain(me, "it cannot be put", 0, 0);
    else
        drop(me, some(me));
}

static void begin_and_discard(victim *me)
{
    trp_object id;
    void *data;
    size_t size = some_size(me);
    if (trp_room_create(size, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        return;
    memset(data, 0xee, size);
    trp_store_discard(id);
}

// A list of what it holds; all that is in it is settled or promised.
static void put_list(victim *me)
{
    trp_object inside[INSIDE], id;
    uint32_t count = 0;
    for (uint32_t i = 0; i < INSIDE; i++) {
        trp_object it = *some(me);
        if (it != 0 && trp_store_hold(it, me->place) == TROUPE_OK)
            inside[count++] = it;
    }
    size_t size = 8 * (1 + roll(&me->dice) % 100);
    void *data;
    if (count > 0 && trp_room_create(count * sizeof id + size, 2, TRP_ENCODING_PACKED, &id,
                                     &data) == TROUPE_OK) {
        memcpy(data, inside, count * sizeof id);
        fill((char *)data + count * sizeof id, size, roll(&me->dice));
        if (trp_store_contain(id, count) == TROUPE_OK) {
            if (roll(&me->dice) % 8 != 0) {
                if (trp_store_seal(id) != TROUPE_OK)
                    complain(me, "a list cannot be sealed", id, 0);
                keep(me, id);
                return;
            }
        }
        trp_store_discard(id); // What is inside is this process's own in the end.
    }
    while (count > 0)
        trp_store_release(inside[--count], me->place);
}

// Looks at all of an object that is pinned.
static void check_whole(const victim *me, trp_object id, const trp_object_info *info)
{
    if (!is_whole(info))
        complain(me, "its bytes are not what they were", id, (int)info->size);
    for (uint32_t i = 0; i < info->inside_count; i++) {
        trp_object_state state = trp_store_look(info->inside[i]).state;
        if (state == TRP_OBJECT_GONE || state == TRP_OBJECT_SHARED)
            complain(me, "what is inside a list is gone", info->inside[i], (int)state);
    }
}

// Pins it, if it can be; what it holds must be there.
static bool begin_view(victim *me, trp_object id, trp_object_info *info)
{
    *info = trp_store_pin(id);
    switch (info->state) {
    case TRP_OBJECT_SEALED:
        check_whole(me, id, info);
        return true;
    case TRP_OBJECT_FAILED: // A promise whose maker failed, or died.
        trp_store_unpin(id);
        return false;
    case TRP_OBJECT_FILLING:
        (void)trp_store_wait(id, 1);
        return false;
    case TRP_OBJECT_ABSENT:
        if (no_memory())
            return false;
        complain(me, "it cannot be had", id, 0);
    default:
        complain(me, "it is gone while it is held", id, (int)info->state);
    }
}

// Reads an object, and once more when another is to be read.
static void view(victim *me, trp_object id)
{
    uint32_t i = (uint32_t)(roll(&me->dice) % VIEWS);
    if (me->views[i].id != 0) {
        check_whole(me, me->views[i].id, &me->views[i].info);
        trp_store_unpin(me->views[i].id);
    }
    me->views[i].id = id != 0 && begin_view(me, id, &me->views[i].info) ? id : 0;
}

// Takes what is inside a list for itself, as who gets its value does.
static void take_out(victim *me, trp_object list)
{
    trp_object_info info;
    if (list == 0 || !begin_view(me, list, &info))
        return;
    if (info.inside_count > 0) {
        trp_object it = info.inside[roll(&me->dice) % info.inside_count];
        if (trp_store_hold(it, me->place) != TROUPE_OK)
            complain(me, "what is inside a list cannot be held", it, 0);
        keep(me, it);
    }
    trp_store_unpin(list);
}

// The receiver's hold is written before it can know of the object; a message that is overwritten is
// one that could not be sent.
static void pass(victim *me, trp_object id)
{
    uint32_t to = office->place[roll(&me->dice) % VICTIMS];
    if (id == 0 || trp_store_hold(id, to) != TROUPE_OK)
        return;
    trp_object old = roll(&me->dice) % 8 == 0 ? id : atomic_exchange(&office->mail[to], id);
    if (old != 0)
        trp_store_release(old, to);
}

static void receive(victim *me)
{
    trp_object got = atomic_exchange(&office->mail[me->place], 0);
    if (got == 0)
        return;
    if (trp_store_look(got).state == TRP_OBJECT_GONE)
        complain(me, "what came was gone", got, 0);
    keep(me, got);
}

static void promise(victim *me)
{
    static uint64_t value[SIZE_MAX_LARGE / 8];
    trp_object id;
    if (trp_store_promise(3, &id) != TROUPE_OK)
        complain(me, "it cannot be promised", 0, 0);
    pass(me, id);
    if (roll(&me->dice) % 8 == 0) {
        trp_store_discard(id);
        return;
    }
    size_t size = some_size(me);
    fill(value, size, roll(&me->dice));
    if (trp_store_fulfil(id, TRP_ENCODING_BYTES, value, size, false) != TROUPE_OK && !no_memory())
        complain(me, "a promise cannot be kept", id, 0);
    keep(me, id);
}

static void act(victim *me)
{
    trp_object *it = some(me);
    switch (roll(&me->dice) % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
        put(me);
        break;
    case 4:
        begin_and_discard(me);
        break;
    case 5:
        promise(me);
        break;
    case 6:
    case 7:
        put_list(me);
        break;
    case 8:
    case 9:
        view(me, *it);
        break;
    case 10:
        view(me, office->common[roll(&me->dice) % COMMON]);
        break;
    case 11:
        take_out(me, *it);
        break;
    case 12:
        pass(me, office->common[roll(&me->dice) % COMMON]);
        break;
    case 13:
    case 14:
        pass(me, *it);
        break;
    default:
        drop(me, it);
        if (roll(&me->dice) % 8 == 0)
            (void)trp_room_make(some_size(me));
        break;
    }
    receive(me);
}

static _Noreturn void be_victim(uint32_t place, uint64_t seed, long point)
{
    victim me = {.place = place, .dice = seed};
    (void)signal(SIGSEGV, SIG_DFL); // Else it would go on as the test that failed.
    (void)signal(SIGABRT, SIG_DFL);
    trp_store_open(place);
    for (uint32_t i = 0; i < COMMON; i++) // ME holds them while this is given them.
        if (trp_store_hold(office->common[i], place) != TROUPE_OK)
            complain(&me, "it cannot be held", office->common[i], 0);
    trp_fault_kill_at("store", point);
    for (;;)
        act(&me);
}

// ---- the tables

static _Noreturn void odd(uint32_t deaths, const char *what, uint32_t at, uint64_t is)
{
    fprintf(stderr, "after %u deaths: %s: at %u: %llx\n", deaths, what, at, (unsigned long long)is);
    abort();
}

static bool lives(uint32_t process)
{
    return process < TRP_PROCESSES_MAX && trp_segment_process(process)->state == TRP_PROCESS_READY;
}

// Whether a row that is not free says that `page` (or the block) is its own.
static bool is_place_of(uint32_t owner, uint32_t page, int block)
{
    if (owner == 0 || owner > TRP_OBJECTS_MAX)
        return false;
    const trp_object_row *row = trp_object_row_at(owner - 1);
    trp_place place = atomic_load(&row->place);
    if (trp_row_state_of(atomic_load(&row->word)) == TRP_ROW_FREE)
        return false;
    if (block < 0)
        return trp_place_kind_of(place) == TRP_PLACE_RUN && page >= trp_place_page(place) &&
               page - trp_place_page(place) < trp_place_count(place);
    return trp_place_kind_of(place) == TRP_PLACE_BLOCK && page == trp_place_page(place) &&
           (uint32_t)block == trp_place_index(place);
}

static void check_pages(uint32_t deaths)
{
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t owner = atomic_load(trp_page_owner(page));
        if (trp_owner_is_free(owner))
            continue;
        switch (trp_owner_kind_of(owner)) {
        case TRP_OWNER_OBJECT:
            if (!is_place_of(owner & ~TRP_OWNER_UNBACKED, page, -1))
                odd(deaths, "a page belongs to an object that does not know of it", page, owner);
            break;
        case TRP_OWNER_SLAB:
            for (uint32_t i = 0; i < trp_class_blocks(trp_owner_class(owner)); i++) {
                uint32_t of = atomic_load(trp_block_owner(page, i));
                if (of != 0 && !is_place_of(of, page, (int)i))
                    odd(deaths, "a block belongs to an object that does not know of it", page, of);
            }
            break;
        default:
            if (!lives(trp_owner_process(owner)))
                odd(deaths, "a dead process looks at a page", page, owner);
        }
    }
}

static void check_row(uint32_t deaths, uint32_t slot)
{
    const trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    trp_row_state state = trp_row_state_of(word);
    trp_where where = trp_where_state(atomic_load(&row->where));
    if ((trp_row_unsettled(word) || state == TRP_ROW_FREEING) && !lives(trp_row_tag(word)))
        odd(deaths, "a dead process is at work on a row", slot, word);
    if (state == TRP_ROW_FREE) {
        if (atomic_load(&row->place) != 0 || where != TRP_WHERE_MEMORY)
            odd(deaths, "a free row has something", slot, atomic_load(&row->place));
        return;
    }
    if (!trp_row_settled(word)) // What it says else may be an older object's.
        return;
    if (where != TRP_WHERE_MEMORY && where != TRP_WHERE_DISK && where != TRP_WHERE_LOST &&
        !lives(trp_where_process(atomic_load(&row->where))))
        odd(deaths, "a dead process moves an object", slot, atomic_load(&row->where));
    if (where == TRP_WHERE_LOST)
        odd(deaths, "an object is lost", slot, word);
    if (atomic_load(&row->inside) > 0 && !lives(atomic_load(&row->keeper)))
        odd(deaths, "a dead process keeps what is inside", slot, atomic_load(&row->keeper));
}

static trp_ledger_cell cell_of(uint32_t process, uint32_t slot)
{
    const _Atomic trp_ledger_cell *ledgers =
        (const _Atomic trp_ledger_cell *)(void *)(trp_segment.base +
                                                  trp_segment.header->ledgers_at);
    uint64_t backed = atomic_load(&trp_segment.header->ledger_backed[process]);
    return (backed >> slot / TRP_LEDGER_CHUNK & 1) != 0
               ? atomic_load(ledgers + (size_t)process * TRP_OBJECTS_MAX + slot)
               : 0;
}

// With the living stopped wherever they were: nothing names a dead process, what has an owner is
// known to it, and nobody holds what is not there; but for one that is about to be taken back, and
// what came too late for one who is dead: it does not count, and is gone when its ledger is opened.
static void check_tables(uint32_t deaths)
{
    enum { HOLDS = 0xffff };
    uint32_t objects = atomic_load(&trp_segment.header->objects_backed);
    check_pages(deaths);
    for (uint32_t slot = 0; slot < objects; slot++)
        check_row(deaths, slot);
    for (uint32_t process = 0; process < FIRST + PLACES; process++) {
        int passing = 0;
        if ((atomic_load(&trp_segment.header->present[process / 64]) >> process % 64 & 1) == 0 ||
            trp_ledger_closed(process))
            continue;
        for (uint32_t slot = 0; slot < objects; slot++) {
            trp_ledger_cell cell = cell_of(process, slot);
            uint64_t word = atomic_load(&trp_object_row_at(slot)->word);
            if (cell >> 16 > (cell & HOLDS))
                odd(deaths, "there are more pins than holds", process, cell);
            if (cell == 0 || trp_row_state_of(word) != TRP_ROW_FREE)
                continue;
            if (!lives(process) || cell != 1 || ++passing > 1)
                odd(deaths, "a process holds what is not there", process, cell);
        }
    }
}

// What is left, for who has to find out why.
static void tell_left(void)
{
    for (uint32_t slot = 0; slot < atomic_load(&trp_segment.header->objects_backed); slot++) {
        const trp_object_row *row = trp_object_row_at(slot);
        uint64_t word = atomic_load(&row->word);
        if (trp_row_state_of(word) == TRP_ROW_FREE)
            continue;
        fprintf(stderr, "row %u: state %d, tag %u, maker %u, where %x, keeper %u of %u, held by",
                slot, (int)trp_row_state_of(word), trp_row_tag(word), row->maker, row->where,
                row->keeper, row->inside);
        for (uint32_t process = 0; process < FIRST + PLACES; process++)
            if (cell_of(process, slot) != 0)
                fprintf(stderr, " %u%s: %x", process, trp_ledger_closed(process) ? " (dead)" : "",
                        cell_of(process, slot));
        fprintf(stderr, "\n");
    }
}

// When all are dead, and this process has given up what it held.
static void check_empty(uint32_t deaths)
{
    troupe_store_usage now;
    check_tables(deaths);
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    int files = support_count_files(trp_spill_folder());
    if (now.objects != 0 || now.bytes_used != 0 || now.bytes_on_disk != 0 || files != 0)
        tell_left();
    if (now.objects != 0 || now.bytes_used != 0 || now.bytes_on_disk != 0 || files != 0)
        fail_msg("after %u deaths %llu objects, %llu bytes and %d files are left", deaths,
                 (unsigned long long)now.objects, (unsigned long long)now.bytes_used, files);
    for (uint32_t slot = 0; slot < atomic_load(&trp_segment.header->objects_backed); slot++)
        if (trp_row_state_of(atomic_load(&trp_object_row_at(slot)->word)) != TRP_ROW_FREE)
            odd(deaths, "a row is not free", slot, atomic_load(&trp_object_row_at(slot)->word));
    trp_object whole;
    void *data; // All of the space can be had.
    assert_int_equal(trp_store_create(CAPACITY, 1, TRP_ENCODING_BYTES, &whole, &data), TROUPE_OK);
    memset(data, 0xdd, CAPACITY); // What is read there by mistake is not what it was.
    trp_store_discard(whole);
}

#endif
