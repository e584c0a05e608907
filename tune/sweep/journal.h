// journal.h: the files that a sweep leaves in its folder: trials.jsonl, one line of JSON an event,
// and params.json in each trial's folder.
//
// A line is one write(2) at the end of the file, so that a sweep that is killed leaves whole lines.
// A file that cannot be written is told of once and ends no sweep.
#ifndef TRP_TUNE_JOURNAL_H
#define TRP_TUNE_JOURNAL_H

#include <runtime/base/buffer.h>
#include <tune/sweep/sweep.h>

typedef struct trp_journal {
    int fd; // -1: not open.
    bool warned;
    bool torn; // The last line was written in part.
} trp_journal;

// Makes trials.jsonl in the sweep's folder; its first line says what the sweep is. Only this
// process writes to it while it is open.
troupe_status trp_journal_open(trp_journal *journal, const troupe_sweep *sweep);
// Opens the one that is there, and reads its whole lines, the caller's to free; none: it has been
// made anew, as by the first. TROUPE_BUSY: another process has it.
troupe_status trp_journal_open_again(trp_journal *journal, const troupe_sweep *sweep,
                                     trp_buffer *text);
void trp_journal_close(trp_journal *journal);
// Takes the file away again, for a sweep that never began.
void trp_journal_remove(const char *folder);

void trp_journal_submitted(trp_journal *journal, const troupe_sweep *sweep, const trp_trial *trial);
// Writes params.json into `path`, the trial's folder, which is a run's by then.
void trp_journal_params(trp_journal *journal, const troupe_sweep *sweep, const trp_trial *trial,
                        const char *path);
void trp_journal_checkpoint(trp_journal *journal, const trp_trial *trial, int number,
                            const char *folder);
void trp_journal_report(trp_journal *journal, const trp_trial *trial,
                        const troupe_report_event *report);
void trp_journal_end(trp_journal *journal, const trp_trial *trial);

#endif
