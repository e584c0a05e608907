// fragmentation.h: objects of all sizes come and go, by a seed; what that costs in memory beyond
// what was asked for, and whether there is room for a large one all the same.
#ifndef TROUPE_TEST_FRAGMENTATION_H
#define TROUPE_TEST_FRAGMENTATION_H

#include <support.h>

#include <math.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/shm/segment.h>
#include <runtime/store/reap.h>
#include <runtime/store/store.h>
#include <stdlib.h>
#include <string.h>

enum { OCTAVES = 27, OCTAVE_OBJECTS_MAX = 2000, SIZE_MIN = 8 };

// Sizes from 8 bytes are drawn evenly by their logarithm. Of each octave no more than `octave_max`
// bytes live at a time, or one object: the older ones are dropped at random.
typedef struct churn {
    size_t capacity;
    size_t size_max;
    size_t octave_max;
    long steps;
    uint64_t seed;
    // What is measured.
    long refused; // No room, though there was as much.
    uint64_t asked, small_asked;
    uint64_t used, small_used; // Of pages; small: those that are cut up.
    uint64_t longest;          // Free run.
    double worst, small_worst; // used / asked
    struct {
        trp_object ids[OCTAVE_OBJECTS_MAX];
        size_t sizes[OCTAVE_OBJECTS_MAX];
        size_t count, bytes;
    } octaves[OCTAVES];
} churn;

static double draw(churn *the)
{
    // xorshift64*
    the->seed ^= the->seed >> 12;
    the->seed ^= the->seed << 25;
    the->seed ^= the->seed >> 27;
    return (double)((the->seed * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

static void churn_drop(churn *the, int octave, size_t which)
{
    size_t last = --the->octaves[octave].count, size = the->octaves[octave].sizes[which];
    trp_store_discard(the->octaves[octave].ids[which]);
    the->octaves[octave].bytes -= size;
    the->asked -= size;
    the->small_asked -= size <= TRP_BLOCK_MAX ? size : 0;
    the->octaves[octave].ids[which] = the->octaves[octave].ids[last];
    the->octaves[octave].sizes[which] = the->octaves[octave].sizes[last];
}

static void churn_step(churn *the)
{
    double octaves = log2((double)the->size_max / SIZE_MIN), at = draw(the) * octaves;
    int octave = (int)at;
    size_t size = (size_t)(SIZE_MIN * exp2(at));
    while (the->octaves[octave].count == OCTAVE_OBJECTS_MAX ||
           (the->octaves[octave].count > 0 && the->octaves[octave].bytes + size > the->octave_max))
        churn_drop(the, octave, (size_t)(draw(the) * (double)the->octaves[octave].count));
    trp_object id;
    void *data;
    if (trp_store_create(size, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK) {
        the->refused++;
        return;
    }
    the->octaves[octave].ids[the->octaves[octave].count] = id;
    the->octaves[octave].sizes[the->octaves[octave].count++] = size;
    the->octaves[octave].bytes += size;
    the->asked += size;
    the->small_asked += size <= TRP_BLOCK_MAX ? size : 0;
}

static void churn_measure(churn *the)
{
    uint64_t pages = 0, slabs = 0, run = 0, longest = 0;
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t owner = atomic_load(trp_page_owner(page));
        bool is_free = trp_owner_is_free(owner);
        pages += !is_free;
        slabs += !is_free && trp_owner_kind_of(owner) == TRP_OWNER_SLAB;
        run = is_free ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    run += trp_segment.header->pages_max - backed;
    the->longest = (run > longest ? run : longest) * TRP_PAGE_SIZE;
    the->used = pages * TRP_PAGE_SIZE;
    the->small_used = slabs * TRP_PAGE_SIZE;
    double waste = (double)the->used / (double)the->asked;
    double small = (double)the->small_used / (double)the->small_asked;
    the->worst = waste > the->worst ? waste : the->worst;
    the->small_worst = small > the->small_worst ? small : the->small_worst;
}

// The first quarter of the steps is only to fill the store.
static void churn_run(churn *the)
{
    assert_int_equal(trp_segment_create(the->capacity), TROUPE_OK);
    trp_store_open(TRP_PROCESS_DRIVER);
    for (long step = 0; step < the->steps; step++) {
        churn_step(the);
        if (step >= the->steps / 4 && step % 512 == 0)
            churn_measure(the);
    }
    churn_measure(the);
    print_message("asked for %.1f MiB, pages in use %.3f times that, at most %.3f; for up to "
                  "32 KiB %.1f MiB, %.3f, at most %.3f; %ld of %ld refused; the longest free run "
                  "is %.1f of %.1f MiB\n",
                  (double)the->asked / 0x1p20, (double)the->used / (double)the->asked, the->worst,
                  (double)the->small_asked / 0x1p20,
                  (double)the->small_used / (double)the->small_asked, the->small_worst,
                  the->refused, the->steps, (double)the->longest / 0x1p20,
                  (double)(the->capacity - the->used) / 0x1p20);
}

// Drops what is larger than that, or, below, all.
static void churn_drop_larger(churn *the, size_t size)
{
    for (int octave = 0; octave < OCTAVES; octave++)
        for (size_t i = the->octaves[octave].count; i > 0; i--)
            if (the->octaves[octave].sizes[i - 1] > size)
                churn_drop(the, octave, i - 1);
    churn_measure(the);
}

static void churn_end(churn *the)
{
    troupe_store_usage now;
    churn_drop_larger(the, 0);
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    assert_int_equal(now.objects, 0);
    assert_int_equal(now.bytes_used, 0);
    trp_segment_close();
}

#endif
