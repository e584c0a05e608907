// program_line.h: what a program says in one line of JSON, and how it is answered.
#ifndef TRP_PROGRAM_LINE_H
#define TRP_PROGRAM_LINE_H

#include <runtime/base/arena.h>
#include <stdbool.h>
#include <train/reports.h>
#include <troupe/train.h>

enum { TRP_PROGRAM_LINE_MAX = 64 * 1024 };
// What a line of standard output begins with that is a report.
#define TRP_PROGRAM_MARK "TROUPE_REPORT "

// A report as a program makes it; texts are in the arena.
typedef struct trp_program_said {
    troupe_metric metrics[TRP_METRICS_MAX];
    size_t count;
    const char *checkpoint; // The folder; NULL: none.
    const char *ignored;    // A member that means nothing; NULL: there is none.
} trp_program_said;

// Reads a line, without its end. TROUPE_MALFORMED, TROUPE_WRONG_TYPE and TROUPE_INVALID say what
// was expected; TROUPE_NO_MEMORY.
troupe_status trp_program_line_read(const char *text, size_t size, trp_arena *arena,
                                    trp_program_said *said);
// Reads a line that a program writes for other readers: an object whose numbers (and true, false)
// are metrics, as {"epoch": 3, "loss": 0.5}; all else in it is passed over. False: it is none.
bool trp_program_line_has_numbers(const char *text, size_t size, trp_arena *arena,
                                  trp_program_said *said);
// Whether there is nothing in it.
bool trp_program_line_is_blank(const char *text, size_t size);

// Bytes on their way to whole lines.
typedef struct trp_program_lines {
    char *text; // Of the line that has begun.
    size_t size, room;
    bool too_long; // The rest of it is dropped.
    // Is given each line without its end; NULL: it was too long, or there was no memory for it.
    void (*take)(void *user, const char *text, size_t size);
    void *user;
} trp_program_lines;
void trp_program_lines_add(trp_program_lines *lines, const char *data, size_t size);
// What has no end counts as a line. Frees the memory.
void trp_program_lines_end(trp_program_lines *lines);

#endif
