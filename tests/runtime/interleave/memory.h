// memory.h: what the explorer keeps of memory: which words several threads use, how to undo what a
// schedule has written, and the variables of processes and threads that do not run now.
#ifndef TROUPE_TEST_INTERLEAVE_MEMORY_H
#define TROUPE_TEST_INTERLEAVE_MEMORY_H

#include <interleave/explore.h>

// ---- shared words

// Begins anew with these ranges, of which the second may lie elsewhere at the same offsets.
void memory_share(const explore_range *shared, const char *twin, explore_range board);
void memory_end(void);
bool memory_is_shared(const volatile void *word);
typedef enum memory_use {
    MEMORY_OWN,       // One thread alone uses the word, or nobody writes it,
    MEMORY_WITH_NODE, // but for the node process's thread, which runs after a death.
    MEMORY_SHARED,    // Several use it, and one writes it.
} memory_use;

// Notes that a thread reads or writes the word.
memory_use memory_note(int thread, const volatile void *word, size_t size, bool write);
// How many of those are known.
long memory_contended(void);

// ---- undoing

void memory_keep(volatile void *word, size_t size); // Before it is written.
void memory_undo(void);                             // All, since the last time.

// ---- variables

// Of one thread, or one process: enough room for either.
char *memory_new_state(bool of_thread);
void memory_save(char *state, bool of_thread);
void memory_load(const char *state, bool of_thread);
void memory_copy(char *to, const char *from, bool of_thread);

#endif
