// scenes.h: what the scenes of test_interleave share: processes, what they tell each other, objects
// whose bytes are known, and what must hold at the end of each schedule.
#ifndef TROUPE_TEST_INTERLEAVE_SCENES_H
#define TROUPE_TEST_INTERLEAVE_SCENES_H

#include <interleave/explore.h>
#include <pthread.h>
#include <runtime/shm/segment.h>
#include <runtime/store/store.h>

enum {
    A = 5, // Processes.
    B = 40,
    C = 1500,
    ME = 50, // Sets up and checks.
    PAGE = 1 << 16,
    PAGES = 8, // Of the store.
    SCENE_INCARNATION =
        1000,         // And the process's number; one more: the next process of that number.
    SCENE_REUSED = 3, // The place of the post that says that there is one.
};

// A thread of a scene, whose process may die, or not.
#define MAY_DIE(process_, run_)                                                                    \
    {                                                                                              \
        .process = (process_), .run = (run_), .mortal = true                                       \
    }
#define LIVES(process_, run_)                                                                      \
    {                                                                                              \
        .process = (process_), .run = (run_)                                                       \
    }

// What the threads of a scene tell each other, zero when it begins, and what the system knows of
// the data's pages.
extern struct board {
    _Atomic uint64_t posts[4];
    _Atomic uint32_t memory; // A bit a page: it has memory.
} board;
extern trp_object ids[4]; // Of a scene; set by set_up, and constant after it.

extern const explore_scene store_scenes[], inside_scenes[], where_scenes[], page_scenes[],
    idle_scenes[], ring_scenes[], small_scenes[], channel_scenes[];
extern const size_t store_scene_count, inside_scene_count, where_scene_count, page_scene_count,
    idle_scene_count, ring_scene_count, small_scene_count, channel_scene_count;

// Objects of that size, all of whose bytes have the value.
trp_object scene_create(size_t size, int value); // Not sealed. 0: there is no room.
trp_object scene_make(size_t size, int value);
void scene_seal(trp_object id);
// The one file that there is now will be there when a schedule begins.
void scene_keep_file(void);
// This process, which holds the object, pins it, reads it twice, and unpins it.
void scene_read(trp_object id, size_t size, int value);
// Another process gets a hold.
void scene_give(trp_object id, uint32_t process);

void scene_post(int place, uint64_t value);
// What was posted by that process; 0: nothing, and it died.
uint64_t scene_await(int place, uint32_t from);

// Of set_up: the number of who dies is given to another process, as soon as it can be.
void scene_reuse_numbers(void);
// One sweeps or drains at a time, as in the node process.
extern pthread_mutex_t scene_sweeping;

// Of set_up: the system has memory for that many pages of the data, and no more.
void scene_limit_memory(int pages);
// What is read or written there has memory: no page of it was given back.
void scene_expect_memory(const void *data, size_t size);
// No page that can be had is without memory but a hole, and no hole has any.
void scene_expect_exact_memory(void);

// Nobody holds anything any more: no row, no hold, no page and no block is left.
void scene_expect_empty(void);
void scene_expect_no_files(void);
// Every word went from one state to another as it may.
void scene_changed(const void *word, size_t size, uint64_t from, uint64_t to);

#endif
