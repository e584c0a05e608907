// memory.c: see memory.h.
#include <interleave/inner.h>
#include <interleave/memory.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GRAIN = 2, UNDO_MAX = 1 << 20, PARTS_MAX = 16, WRITE_SHIFT = 8, BLOCKS_MAX = 64 };

// ---- shared words

// For each two bytes: who has read (bits 0 to 7) and who has written (8 to 15), a bit a thread.
static uint16_t *notes, *board_notes;
static explore_range shared, board;
static const char *twin; // Of `shared`.
static size_t notes_size, board_notes_size;
static long contended;

static uint16_t *map_notes(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void memory_share(const explore_range *range, const char *also, explore_range more)
{
    shared = *range;
    twin = also;
    board = more;
    notes_size = (size_t)(shared.to - shared.from) / GRAIN * sizeof *notes;
    board_notes_size = (size_t)(board.to - board.from) / GRAIN * sizeof *notes;
    notes = map_notes(notes_size);
    board_notes = map_notes(board_notes_size);
    contended = 0;
}

void memory_end(void)
{
    (void)munmap(notes, notes_size);
    (void)munmap(board_notes, board_notes_size);
    shared = board = (explore_range){NULL, NULL};
}

static bool is_in(const char *at, const char *from, size_t size)
{
    return at >= from && (size_t)(at - from) < size;
}

static uint16_t *notes_of(const volatile void *word)
{
    const char *at = (const char *)(uintptr_t)word;
    size_t size = (size_t)(shared.to - shared.from);
    if (is_in(at, shared.from, size))
        return notes + (at - shared.from) / GRAIN;
    if (is_in(at, twin, size))
        return notes + (at - twin) / GRAIN;
    if (is_in(at, board.from, (size_t)(board.to - board.from)))
        return board_notes + (at - board.from) / GRAIN;
    return NULL;
}

bool memory_is_shared(const volatile void *word)
{
    return notes_of(word) != NULL;
}

static bool is_contended(uint32_t note)
{
    uint32_t all = (note | note >> WRITE_SHIFT) & 0xff;
    return note >> WRITE_SHIFT != 0 && (all & (all - 1)) != 0;
}

memory_use memory_note(int thread, const volatile void *word, size_t size, bool write)
{
    enum { NODE = 1 << EXPLORE_NODE | 1 << (EXPLORE_NODE + WRITE_SHIFT) };
    uint16_t *note = notes_of(word), bit = (uint16_t)(1u << thread << (write ? WRITE_SHIFT : 0));
    memory_use use = MEMORY_OWN;
    for (size_t i = 0; note != NULL && i < (size + GRAIN - 1) / GRAIN; i++, note++) {
        bool before = is_contended(*note);
        if ((*note & bit) == 0)
            *note |= bit;
        if (!is_contended(*note))
            continue;
        contended += !before;
        if (is_contended(*note & ~(uint32_t)NODE))
            use = MEMORY_SHARED;
        else if (use == MEMORY_OWN)
            use = MEMORY_WITH_NODE;
    }
    return use;
}

long memory_contended(void)
{
    return contended;
}

// ---- undoing

static struct written {
    volatile char *at;
    size_t size;
    char was[8];
} * undo;
static size_t undo_count;

static void copy_word(volatile char *to, const volatile char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[i];
}

void memory_keep(volatile void *word, size_t size)
{
    if (notes_of(word) == NULL)
        return; // A process's own.
    if (undo == NULL)
        undo = calloc(UNDO_MAX, sizeof *undo);
    if (undo == NULL || undo_count == UNDO_MAX || size > sizeof undo->was)
        abort();
    struct written *it = &undo[undo_count++];
    it->at = word;
    it->size = size;
    copy_word(it->was, word, size);
}

// ---- blocks

static void *blocks[BLOCKS_MAX]; // Of this schedule.
static int block_count;

void *explore_realloc(void *block, size_t size)
{
    int at = 0;
    while (at < block_count && blocks[at] != block)
        at++;
    if (block == NULL)
        at = block_count;
    void *next = realloc(block, size);
    if (next == NULL || at == BLOCKS_MAX)
        abort();
    blocks[at] = next;
    block_count += at == block_count;
    return next;
}

void *explore_alloc(size_t size)
{
    return memset(explore_realloc(NULL, size), 0, size);
}

void explore_free(void *block)
{
    for (int i = 0; i < block_count; i++)
        if (blocks[i] == block)
            blocks[i] = blocks[--block_count];
    free(block);
}

void memory_undo(void)
{
    while (block_count > 0)
        free(blocks[--block_count]);
    while (undo_count > 0) {
        struct written *it = &undo[--undo_count];
        copy_word(it->at, it->was, it->size);
    }
}

// ---- variables

static struct parts {
    explore_range ranges[PARTS_MAX];
    int count;
    size_t size;
} of_processes, of_threads;

static void add(struct parts *parts, char *from, char *to)
{
    if (from >= to)
        return;
    if (parts->count == PARTS_MAX)
        abort();
    parts->ranges[parts->count++] = (explore_range){from, to};
    parts->size += (size_t)(to - from);
}

// Adds what is left of [from, to) without the holes from the nth on.
static void add_without(char *from, char *to, const explore_range *holes, int count)
{
    if (count == 0) {
        add(&of_processes, from, to);
        return;
    }
    char *left = holes->from < from ? from : holes->from > to ? to : holes->from;
    char *right = holes->to < from ? from : holes->to > to ? to : holes->to;
    if (left >= right) {
        add_without(from, to, holes + 1, count - 1);
        return;
    }
    add_without(from, left, holes + 1, count - 1);
    add_without(right, to, holes + 1, count - 1);
}

void explore_module(const explore_variables *its)
{
    const explore_range holes[] = {its->constant, its->thread, its->vast};
    add(&of_threads, its->thread.from, its->thread.to);
    add_without(its->all.from, its->all.to, holes, 3);
}

static const struct parts *parts_of(bool of_thread)
{
    return of_thread ? &of_threads : &of_processes;
}

char *memory_new_state(bool of_thread)
{
    char *state = calloc(1, parts_of(of_thread)->size + 1);
    if (state == NULL)
        abort();
    return state;
}

void memory_save(char *state, bool of_thread)
{
    const struct parts *parts = parts_of(of_thread);
    for (int i = 0; i < parts->count; i++) {
        size_t size = (size_t)(parts->ranges[i].to - parts->ranges[i].from);
        memcpy(state, parts->ranges[i].from, size);
        state += size;
    }
}

void memory_load(const char *state, bool of_thread)
{
    const struct parts *parts = parts_of(of_thread);
    for (int i = 0; i < parts->count; i++) {
        size_t size = (size_t)(parts->ranges[i].to - parts->ranges[i].from);
        memcpy(parts->ranges[i].from, state, size);
        state += size;
    }
}

void memory_copy(char *to, const char *from, bool of_thread)
{
    memcpy(to, from, parts_of(of_thread)->size);
}
