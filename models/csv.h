// csv.h: tables as text (RFC 4180): records on lines, fields with a separator between them, in
// double quotes where they hold one, a quote (then doubled) or the end of a line.
//
// Lines end with LF or CRLF; empty ones are no records. All records have as many fields as the
// first. Texts of failures have the file, the line and the field; they are TROUPE_MALFORMED.
#ifndef TRP_MODELS_CSV_H
#define TRP_MODELS_CSV_H

#include <runtime/base/arena.h>
#include <stdbool.h>
#include <troupe/tensor.h>

typedef struct trp_csv {
    const char *path; // For texts.
    char separator;
    const char *records, *end; // Without the header.
    size_t line;               // Of the first record.
    size_t fields, rows;
    const char *const *names; // Of the fields; NULL: they have numbers, from 1.
} trp_csv;

// Checks the form of the whole text, which stays the caller's and has to live as long. `headless`:
// the first record has values.
troupe_status trp_csv_open(const char *path, const void *text, size_t size, char separator,
                           bool headless, trp_arena *arena, trp_csv *csv);
// The fields that a list names, "rooms, age" or "1..64, 66", in the arena, in its order; NULL: all.
// "a..b" are those from a to b. TROUPE_NOT_FOUND lists the names that there are; TROUPE_INVALID.
troupe_status trp_csv_select(const trp_csv *csv, const char *list, trp_arena *arena,
                             const size_t **fields, size_t *count);
// Writes those fields of all rows to `out`, as numbers of that type: float32, float64 or int64.
troupe_status trp_csv_read(const trp_csv *csv, const size_t *fields, size_t count,
                           troupe_dtype dtype, void *out);

#endif
