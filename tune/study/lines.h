// lines.h: a step of a study as a line of JSON: written, and read.
#ifndef TRP_STUDY_LINES_H
#define TRP_STUDY_LINES_H

#include <tune/study/study_parts.h>

typedef enum trp_line_kind {
    TRP_LINE_STUDY,
    TRP_LINE_WARM,
    TRP_LINE_SUGGEST,
    TRP_LINE_AGAIN,
    TRP_LINE_OVER,
    TRP_LINE_REPORT,
    TRP_LINE_END,
    TRP_LINE_EXTEND,
    TRP_LINE_SPACE,
    TRP_LINE_EXHAUSTED, // The searcher has no more points.
    TRP_LINE_OTHER,     // None of a study.
} trp_line_kind;

// What a line was found to have.
enum {
    TRP_HAS_TRIAL = 1,
    TRP_HAS_X = 2,
    TRP_HAS_VALUES = 4,
    TRP_HAS_NUMBER = 8,
    TRP_HAS_ENDING = 16,
    TRP_HAS_TRIALS = 32,
    TRP_HAS_FRESH = 64,
    TRP_HAS_CLONED = 128,
};

typedef struct trp_line {
    trp_line_kind kind;
    unsigned has;
    int trial, number, trials, reports;
    double *x;      // dim_count of them, the reader's room.
    double *values; // objectives of them, likewise.
    double *cloned; // The point of a clone; dim_count of them.
    double elapsed_s, violation;
    int ranks;
    bool fresh;
    troupe_ending ending;
    troupe_verdict verdict; // Made out for going on, where the line says nothing.
    trp_json error, params; // Empty: it has none.
} trp_line;

// Makes room for lines of a study.
troupe_status trp_line_open(trp_line *line, size_t dims, size_t objectives);
void trp_line_close(trp_line *line);
// Reads a line of a study. TROUPE_MALFORMED says what is wrong with it.
troupe_status trp_line_read(const char *text, size_t size, size_t dims, size_t objectives,
                            trp_line *line);
// Which kind of line it is, without a look at the rest.
trp_line_kind trp_line_kind_of(const char *text, size_t size);

// Each begins a line, without its end. `out` has failed where memory was short.
void trp_line_study(const troupe_study *study, int warm, trp_buffer *out);
void trp_line_warm(const troupe_study *study, const trp_study_ended *end, int reports,
                   const double *x, trp_buffer *out);
void trp_line_suggest(const troupe_study *study, int number, const double *x, trp_buffer *out);
void trp_line_report(const troupe_study *study, const trp_study_report *report, const char *more,
                     trp_buffer *out);
// Behind a report, an "again"; nothing of a verdict to go on.
void trp_line_verdict(const troupe_study *study, const troupe_verdict *verdict, trp_buffer *out);
void trp_line_next(const char *event, int trial, bool fresh, trp_buffer *out);
void trp_line_end(const troupe_study *study, const trp_study_ended *end, const char *more,
                  trp_buffer *out);
void trp_line_extend(int trials, trp_buffer *out);
void trp_line_space(const troupe_study *study, trp_json before, trp_buffer *out);
void trp_line_exhausted(trp_buffer *out);
// Room for what trp_line_verdict and the end of a line append: these cannot fail then.
bool trp_line_reserve(const troupe_study *study, trp_buffer *out);

const char *trp_ending_name(troupe_ending ending);
// An array of numbers.
void trp_line_numbers(trp_buffer *out, const double *numbers, size_t count);
// Reads an array of so many numbers. TROUPE_MALFORMED: it is none.
troupe_status trp_line_read_numbers(trp_json array, const char *name, double *numbers,
                                    size_t count);
troupe_status trp_line_read_int(trp_json value, const char *name, int *number);

#endif
