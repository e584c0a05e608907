// line_folding.h: lines of several processes that say the same, printed once and counted. Pure
// bookkeeping, without clock, threads or descriptors.
//
// Two lines say the same if they are identical; the library's own ("troupe: warn: ..." on standard
// error), and by choice all, also if they differ in numbers only. A program's numbers are its
// results, which nothing may swallow. The first of them is printed. While one of another
// process follows within TRP_FOLD_WINDOW_MS, lines that say the same are kept back and counted; at
// the end of the window the newest is printed with their number behind it. What one process alone
// repeats is not kept back, since it may be its progress: where others have said the same, not
// beyond the end of the window in which it was the only one left to say it.
#ifndef TRP_HOST_LINE_FOLDING_H
#define TRP_HOST_LINE_FOLDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRP_FOLD_WINDOW_MS = 5000,
    TRP_FOLD_PATTERNS = 128, // Kept in mind at once; the oldest gives way, and is printed first.
    TRP_FOLD_LINE_MAX = 512, // Longer lines are never kept back.
};

// One line of a process. `label` is what is printed before it.
typedef struct trp_fold_line {
    uint64_t source; // Of the process: its incarnation.
    bool to_stderr;
    bool of_rank; // Of a training run.
    const char *label;
    const char *text; // Without its end of line.
    size_t size;
} trp_fold_line;

// Prints a line; `repeated` (0: it stands for itself alone) is how many were kept back for it,
// itself counted. It is of a rank where all of them were.
typedef void (*trp_fold_print)(const trp_fold_line *line, uint64_t repeated);

typedef struct trp_fold trp_fold;

// `numbers`: any two lines that differ in numbers only say the same. NULL: no memory.
trp_fold *trp_fold_create(trp_fold_print print, bool numbers);
void trp_fold_destroy(trp_fold *fold);
// Prints the line or keeps it back.
void trp_fold_take(trp_fold *fold, const trp_fold_line *line, int64_t now_ms);
// Prints what was kept back in windows that have ended; in all of them if `all`. Returns when it
// should be called next; -1: there is nothing to end.
int64_t trp_fold_end_windows(trp_fold *fold, int64_t now_ms, bool all);

#endif
