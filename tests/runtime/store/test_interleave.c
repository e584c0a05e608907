// test_interleave.c: small scenes of two or three processes, or threads, that share the tables of
// the store and a channel, in every schedule of few preemptions, and with a death at every step
// (interleave/explore.h; docs/verification.md).
// timeout: 300
// cost: 30
// label: nosan
// label: layered
//
//     test_interleave [--spend N] [--most N] [--delayed] [--finds] [SCENE [SCHEDULE]]
//
// --spend: preemptions, a death counts as one; --most: one fewer where there would be more
// schedules than that; --delayed: stores that are not sequentially consistent come late; --finds:
// ends well if a schedule fails, and only then. A schedule that fails is told as a text, which as
// an argument makes it run again, step by step: "17b,40x" means that at step 17 thread b goes on
// instead, and that at step 40 the process dies whose thread is running.
#include <support.h>

#include <dirent.h>
#include <fcntl.h>
#include <interleave/scenes.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/store/holds.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 16 };

struct board board;
trp_object ids[4];

static explore_options options = {.spends = 2, .most = 20000};
static const char *only;
static char *folder;
static const uint32_t everybody[] = {TRP_PROCESS_NODE, A, B, C, ME};

// ---- the world

// Whoever dies closes nothing, and here none of them really ends: what was opened is closed after
// each schedule, and after a scene.
typedef struct descriptors {
    bool are_open[1024];
    bool known;
} descriptors;

static descriptors before_scene, before_schedules;

static void note_descriptors(descriptors *these)
{
    for (int fd = 0; fd < (int)sizeof these->are_open; fd++)
        these->are_open[fd] = fcntl(fd, F_GETFD) >= 0;
    these->known = true;
}

// The system gives the lowest numbers first, so what is open lies together.
static void close_others(const descriptors *than_these)
{
    enum { MISSES = 4 };
    for (int fd = 3, missed = 0; fd < (int)sizeof than_these->are_open && missed < MISSES; fd++)
        if (!than_these->are_open[fd])
            missed = close(fd) == 0 ? 0 : missed + 1;
}

static void make_world(void)
{
    note_descriptors(&before_scene);
    before_schedules.known = false;
    memset(ids, 0, sizeof ids);
    assert_int_equal(trp_segment_create(PAGES * PAGE), TROUPE_OK);
    trp_header *header = trp_segment.header;
    // A table of few rows, so that a sweep of it is short.
    assert_int_equal(trp_segment_back(header->objects_at, ROWS * sizeof(trp_object_row)),
                     TROUPE_OK);
    atomic_store(&header->objects_backed, ROWS);
    assert_int_equal(trp_segment_back(header->pages_at, PAGES * sizeof(trp_page_row)), TROUPE_OK);
    assert_int_equal(trp_segment_back(header->data_at, PAGES * PAGE), TROUPE_OK);
    atomic_store(&header->pages_backed, PAGES);
    for (size_t i = 0; i < sizeof everybody / sizeof *everybody; i++) {
        atomic_store(&trp_segment_process(everybody[i])->state, TRP_PROCESS_READY);
        atomic_store(&trp_segment_process(everybody[i])->incarnation,
                     SCENE_INCARNATION + everybody[i]);
        assert_int_equal(trp_ledger_reserve(everybody[i], 0), TROUPE_OK);
    }
    trp_spill_plan(&(troupe_options){.spill_dir = folder, .spill_bytes_max = 1 << 30});
    // A file for each object, where a scene says nothing else.
    atomic_store(&header->spill_sharing, TRP_SPILL_APART);
    atomic_store(&header->spill_made, 1); // Each process opens the folder at once.
}

static void enter(uint32_t process)
{
    trp_store_open(process);
    trp_spill_keep();
}

pthread_mutex_t scene_sweeping = PTHREAD_MUTEX_INITIALIZER;

static bool reuses;

static void bury(uint32_t process)
{
    atomic_store(&trp_segment_process(process)->state, TRP_PROCESS_DEAD);
    pthread_mutex_lock(&scene_sweeping);
    trp_store_sweep(process);
    pthread_mutex_unlock(&scene_sweeping);
    if (!reuses)
        return;
    while (trp_store_is_taken_from(process)) // The node process would look for another number.
        (void)sched_yield();
    trp_store_admit(process);
    atomic_store(&trp_segment_process(process)->incarnation, SCENE_INCARNATION + process + 1);
    atomic_store(&trp_segment_process(process)->state, TRP_PROCESS_READY);
    scene_post(SCENE_REUSED, 1);
}

void scene_reuse_numbers(void)
{
    reuses = true;
}

// What is known of a file: of one that small objects share, the part of one of them.
static struct {
    char path[512], bytes[512];
    size_t size;
    off_t at;
} kept;

static void find_file(void)
{
    DIR *all = opendir(trp_segment.header->spill_folder);
    assert_non_null(all);
    for (struct dirent *it; (it = readdir(all)) != NULL;)
        if (it->d_name[0] != '.')
            snprintf(kept.path, sizeof kept.path, "%.200s/%.200s", trp_segment.header->spill_folder,
                     it->d_name);
    closedir(all);
}

void scene_keep_file(void)
{
    find_file();
    int fd = open(kept.path, O_RDONLY);
    assert_true(fd >= 0);
    kept.at = lseek(fd, 0, SEEK_DATA);
    ssize_t got = pread(fd, kept.bytes, sizeof kept.bytes, kept.at);
    close(fd);
    assert_in_range(got, 1, sizeof kept.bytes);
    kept.size = (size_t)got;
}

// In an earlier schedule it was removed, perhaps.
static void restore_file(void)
{
    int fd = open(kept.path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(pwrite(fd, kept.bytes, kept.size, kept.at), kept.size);
    close(fd);
}

static void begin(void)
{
    if (!before_schedules.known)
        note_descriptors(&before_schedules);
    close_others(&before_schedules);
    if (kept.size > 0)
        restore_file();
}

static void end_world(void)
{
    kept.size = 0;
    reuses = false;
    scene_limit_memory(PAGES);
    trp_segment_close();
    close_others(&before_scene);
}

static const explore_world world = {
    .make = make_world,
    .enter = enter,
    .begin = begin,
    .bury = bury,
    .end = end_world,
    .self = ME,
    .board = (char *)&board,
    .board_size = sizeof board,
    .changed = scene_changed,
};

// ---- objects

// One byte stands for so many: all space begins with a line, and what is smaller than a page in the
// scenes of whole pages has some thousands of bytes.
static size_t step_of(size_t size)
{
    return size >= PAGE ? 1024 : 64;
}

static void fill(void *data, size_t size, int value)
{
    unsigned char *bytes = data;
    scene_expect_memory(data, size);
    for (size_t at = 0; at < size; at += step_of(size))
        bytes[at] = (unsigned char)value;
}

static bool are(const void *data, size_t size, int value)
{
    const unsigned char *bytes = data;
    bool all = true;
    scene_expect_memory(data, size);
    for (size_t at = 0; at < size; at += step_of(size))
        all &= bytes[at] == value;
    return all;
}

trp_object scene_create(size_t size, int value)
{
    trp_object id;
    void *data;
    if (trp_store_create(size, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        return 0;
    fill(data, size, value);
    explore_point();
    EXPLORE_EXPECT(are(data, size, value));
    return id;
}

void scene_seal(trp_object id)
{
    EXPLORE_EXPECT(trp_store_seal(id) == TROUPE_OK);
}

trp_object scene_make(size_t size, int value)
{
    trp_object id = scene_create(size, value);
    EXPLORE_EXPECT(id != 0);
    scene_seal(id);
    return id;
}

void scene_read(trp_object id, size_t size, int value)
{
    trp_object_info info = trp_store_pin(id);
    if (info.state == TRP_OBJECT_ABSENT)
        explore_fail("%s", troupe_last_error()->text);
    EXPLORE_EXPECT(info.state == TRP_OBJECT_SEALED);
    EXPLORE_EXPECT(info.size == size && info.data != NULL);
    EXPLORE_EXPECT(are(info.data, size, value));
    explore_point();
    EXPLORE_EXPECT(are(info.data, size, value));
    trp_store_unpin(id);
}

void scene_give(trp_object id, uint32_t process)
{
    EXPLORE_EXPECT(trp_store_hold(id, process) == TROUPE_OK);
}

void scene_post(int place, uint64_t value)
{
    atomic_store(&board.posts[place], value);
}

uint64_t scene_await(int place, uint32_t from)
{
    (void)explore_await((const volatile uint64_t *)(const volatile void *)&board.posts[place],
                        from);
    return atomic_load(&board.posts[place]);
}

// ---- what must be left

void scene_expect_no_files(void)
{
    int count = support_count_files(trp_segment.header->spill_folder);
    if (count != 0)
        explore_fail("%d files are left", count);
}

static void expect_no_row(uint32_t slot)
{
    const trp_object_row *row = trp_object_row_at(slot);
    uint64_t word = atomic_load(&row->word);
    uint32_t where = atomic_load(&row->where);
    if (trp_row_state_of(word) != TRP_ROW_FREE)
        explore_fail("row %u is left in state %d, of %u", slot, (int)trp_row_state_of(word),
                     trp_row_tag(word));
    if (atomic_load(&row->place) != 0)
        explore_fail("row %u is free and has space", slot);
    if (trp_where_state(where) != TRP_WHERE_MEMORY || trp_where_has_file(where))
        explore_fail("row %u is free and not in memory", slot);
    const _Atomic trp_ledger_cell *ledgers =
        (_Atomic trp_ledger_cell *)(void *)(trp_segment.base + trp_segment.header->ledgers_at);
    for (size_t i = 0; i < sizeof everybody / sizeof *everybody; i++) {
        uint32_t cell = atomic_load(ledgers + (size_t)everybody[i] * TRP_OBJECTS_MAX + slot);
        if (cell != 0 && !trp_ledger_closed(everybody[i])) // What is in closed ledgers is none.
            explore_fail("process %u is left with %x of row %u", everybody[i], cell, slot);
    }
}

static void expect_no_page(uint32_t page)
{
    uint32_t owner = atomic_load(trp_page_owner(page));
    if (trp_owner_is_free(owner))
        return;
    if (trp_owner_kind_of(owner) != TRP_OWNER_SLAB)
        explore_fail("page %u is left as %x", page, owner);
    for (uint32_t block = 0; block < trp_class_blocks(trp_owner_class(owner)); block++)
        if (atomic_load(trp_block_owner(page, block)) != 0)
            explore_fail("block %u of page %u is left", block, page);
}

void scene_expect_empty(void)
{
    trp_store_drain();
    for (uint32_t slot = 0; slot < atomic_load(&trp_segment.header->objects_backed); slot++)
        expect_no_row(slot);
    for (uint32_t page = 0; page < trp_pages_backed(); page++)
        expect_no_page(page);
    scene_expect_exact_memory();
}

// ---- tests

static void play(const explore_scene *scenes, size_t count)
{
    size_t played = 0;
    for (size_t i = 0; i < count; i++)
        if (only == NULL || strcmp(only, scenes[i].name) == 0) {
            explore_play(&world, &scenes[i], &options);
            played++;
        }
    if (played == 0)
        skip();
}

static void test_store(void **state)
{
    (void)state;
    play(store_scenes, store_scene_count);
}

static void test_objects_inside_objects(void **state)
{
    (void)state;
    play(inside_scenes, inside_scene_count);
}

static void test_promises_that_name_others(void **state)
{
    (void)state;
    play(ring_scenes, ring_scene_count);
}

static void test_where(void **state)
{
    (void)state;
    play(where_scenes, where_scene_count);
}

static void test_small_ones_on_disk(void **state)
{
    (void)state;
    play(small_scenes, small_scene_count);
}

static void test_pages(void **state)
{
    (void)state;
    play(page_scenes, page_scene_count);
}

static void test_memory_given_back(void **state)
{
    (void)state;
    play(idle_scenes, idle_scene_count);
}

static void test_channels(void **state)
{
    (void)state;
    play(channel_scenes, channel_scene_count);
}

static void understand(char **arguments)
{
    for (; *arguments != NULL; arguments++) {
        if (strcmp(*arguments, "--finds") == 0)
            options.finds = true;
        else if (strcmp(*arguments, "--delayed") == 0)
            options.delayed = true;
        else if (strcmp(*arguments, "--spend") == 0 && arguments[1] != NULL)
            options.spends = atoi(*++arguments);
        else if (strcmp(*arguments, "--most") == 0 && arguments[1] != NULL)
            options.most = atol(*++arguments);
        else if (only == NULL)
            only = *arguments;
        else
            options.schedule = *arguments;
    }
}

static int find_folder(void **state)
{
    (void)state;
    if (access("/dev/shm", W_OK) == 0) // Files there cost no disk.
        (void)setenv("TMPDIR", "/dev/shm", 0);
    folder = support_directory_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_directory_remove(folder);
    return 0;
}

int main(int count, char **arguments)
{
    (void)count;
    understand(arguments + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_objects_inside_objects),
        cmocka_unit_test(test_promises_that_name_others),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_small_ones_on_disk),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_memory_given_back),
        cmocka_unit_test(test_channels),
    };
    int failed = cmocka_run_group_tests(tests, find_folder, remove_folder);
    return options.finds ? 1 : failed;
}
