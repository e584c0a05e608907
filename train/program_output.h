// program_output.h: what a program prints, on its way to this process's own output.
//
// No more is read than was written, and nothing is written where there is no room: so the program
// waits for whoever prints, and this process does not.
#ifndef TRP_PROGRAM_OUTPUT_H
#define TRP_PROGRAM_OUTPUT_H

#include <poll.h>
#include <train/program_line.h>

enum {
    TRP_PROGRAM_READ_MAX = 4096, // At once: what a pipe with room takes whole.
    TRP_PROGRAM_TAIL = 4096,
};

typedef struct trp_program_output {
    int from, to; // `from` is -1 once it has ended.
    // Lines behind the mark are not passed on; NULL take: none is looked for.
    trp_program_lines reports;
    trp_program_lines passed; // Is given the lines that are passed on, too; NULL take: it is not.
    enum { TRP_PROGRAM_BEGINS, TRP_PROGRAM_PASSES, TRP_PROGRAM_REPORTS } line;
    size_t matched; // Bytes of the mark that a line has begun with, which are held back.
    size_t size, written;
    char pending[TRP_PROGRAM_READ_MAX + sizeof TRP_PROGRAM_MARK];
    size_t tail_size;
    char tail[TRP_PROGRAM_TAIL]; // The last of what was passed on.
} trp_program_output;

// What to wait for: fills one row, if there is something.
void trp_program_output_await(const trp_program_output *output, struct pollfd *row);
// Does what can be done without waiting.
void trp_program_output_move(trp_program_output *output);
// Whether all was passed on.
bool trp_program_output_is_over(const trp_program_output *output);
// The end of what was passed on, of at most `capacity` - 1 bytes, for a sentence: whole lines,
// where they fit, with bars between them.
void trp_program_output_last(const trp_program_output *output, char *text, size_t capacity);
void trp_program_output_close(trp_program_output *output);

#endif
