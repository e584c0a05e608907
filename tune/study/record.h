// record.h: a file of lines of JSON, one a step, that is only added to: what a study and a sweep
// put down before anyone hears of what follows from it.
//
// A line is one write(2) at the end of the file, so what a process was killed after is there. It
// lasts a power failure after trp_record_sync, which one thread beside does for all lines that came
// meanwhile (group commit). `flock` keeps a second writer out.
#ifndef TRP_RECORD_H
#define TRP_RECORD_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <troupe/study.h>

typedef struct trp_record trp_record;

// Opens the file for this process alone, made anew or, with `again`, as it is: its whole lines are
// then in *lines, the caller's to free, and a last one that was written in part is cut off.
// TROUPE_BUSY: another process has it. TROUPE_EXISTS: it is there, and it was to be made.
troupe_status trp_record_open(const char *path, bool again, trp_buffer *lines, trp_record **record);
// Adds a line, which is freed; `last` of it is added: "}\n". What cannot be written is warned of
// once, as of a record that is not complete; the record goes on.
void trp_record_add(trp_record *record, trp_buffer *line);
// Has all lines so far last. With `wait` it returns when they do; else a thread of the record sees
// to it soon. TROUPE_IO and TROUPE_NO_SPACE say what did not last.
troupe_status trp_record_sync(trp_record *record, bool wait);
void trp_record_close(trp_record **record); // Syncs, and frees it. Harmless on NULL.

#endif
