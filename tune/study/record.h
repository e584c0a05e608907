// record.h: a file of lines of JSON, one a step, that is only added to: what a study and a sweep
// put down before anyone hears of what follows from it.
//
// A line is one write(2) at the end of the file, so what a process was killed after is there. What
// is in the file is always a beginning of what was added: behind a line that could not be written
// (a full disk) all others wait in memory, and are written with the next line or sync. A line lasts
// a power failure after trp_tune_record_sync: one fdatasync for all that came meanwhile (group
// commit). `flock` keeps a second writer out. All functions but trp_tune_record_sync,
// trp_tune_record_added and trp_tune_record_lasts are called by one thread at a time.
#ifndef TRP_RECORD_H
#define TRP_RECORD_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <troupe/study.h>

typedef struct trp_tune_record trp_tune_record;

// Opens the file for this process alone. NEW: made anew, or one without a whole line taken over;
// RESUME: as it is; RESUME_OR_NEW: as it is, or made. *lines: the whole lines that it has, the
// caller's to free. A last line that was written in part is cut off before the first that is added:
// until then the file is left as it was, so that a foreign one can be refused. TROUPE_BUSY: another
// process has it. TROUPE_EXISTS: it has lines, and was to be new. TROUPE_NOT_FOUND: it is not
// there, or its folder is not.
troupe_status trp_tune_record_open(const char *path, troupe_open how, trp_buffer *lines,
                                   trp_tune_record **record);
// The lines that were found, from that byte on, are cut off too: a beginning that was not whole.
void trp_tune_record_cut(trp_tune_record *record, size_t size);
// Adds a line, which is freed; `last` of it is added: "}\n". That one could not be written is
// warned of once; it and those behind it wait then.
void trp_tune_record_add(trp_tune_record *record, trp_buffer *line);
// The same of a line that nothing follows from: between trp_tune_record_gather with true and with
// false it may wait in memory, to be written with others by one write: with the next line of the
// other kind, a sync, or the end of that.
void trp_tune_record_add_soon(trp_tune_record *record, trp_buffer *line);
void trp_tune_record_gather(trp_tune_record *record, bool begins);
// Writes what waits so.
void trp_tune_record_write(trp_tune_record *record);
// Has all lines so far last. With `wait` it returns when they do; else a thread of the record sees
// to it within 10 ms, for all that has come by then. TROUPE_IO, TROUPE_NO_SPACE and
// TROUPE_NO_MEMORY say what did not last; what waits is tried again by the next. Any thread;
// several share one fdatasync.
troupe_status trp_tune_record_sync(trp_tune_record *record, bool wait);
// Bytes that were added, and how many of them last by now, for who does not wait. Any thread.
uint64_t trp_tune_record_added(trp_tune_record *record);
uint64_t trp_tune_record_lasts(trp_tune_record *record);
const char *trp_tune_record_path(const trp_tune_record *record);
void trp_tune_record_close(trp_tune_record **record); // Syncs, and frees it. Harmless on NULL.
// The same, and the file goes, with the lock: nobody else can have begun in it.
void trp_tune_record_remove(trp_tune_record **record);
// The same of one that was opened in vain: a file that was not there before, or had nothing, and to
// which nothing was added, is removed.
void trp_tune_record_abandon(trp_tune_record **record);

#endif
