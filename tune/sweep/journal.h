// journal.h: what a sweep leaves in its folder: its own lines in trials.jsonl, between those of its
// study (tune/study/study.h).
//
//     sweep       the first one: what it is, and its id
//     submitted   a run of a trial was: with its config; one behind the first with what was
//                 drawn for it, too
//     run         another run of a trial follows, with what it begins
//     checkpoint  one is there
//     reported    a report that the study is not asked about: the trial has been told to stop
//     ended       a trial is over that was so to the study already
//
// Lines of the study have what the sweep puts down beside it: "name" and "metrics" of a "report",
// "name", "state" and the like of an "end". "at_s" is the sweep's time, over all of its lives. The
// path of a checkpoint in the sweep's folder is that from there.
#ifndef TRP_TUNE_JOURNAL_H
#define TRP_TUNE_JOURNAL_H

#include <runtime/base/buffer.h>
#include <tune/study/record.h>
#include <tune/sweep/sweep.h>

void trp_journal_first(trp_tune_record *record, const troupe_sweep *sweep);
void trp_journal_what(trp_buffer *line, const troupe_sweep *sweep); // That line, but for its end.
// A trial's config as JSON: of a space from JSON, what was drawn.
void trp_journal_config(trp_buffer *out, const troupe_sweep *sweep, const void *config);
void trp_journal_submitted(trp_tune_record *record, const troupe_sweep *sweep,
                           const trp_trial *trial);
void trp_journal_run(trp_tune_record *record, const troupe_sweep *sweep, const trp_trial *trial);
void trp_journal_checkpoint(trp_tune_record *record, const troupe_sweep *sweep,
                            const trp_trial *trial, int number, const char *folder);
// The path of a checkpoint that a line of the sweep in that folder has. NULL: no memory.
const char *trp_journal_path(const char *folder, const char *path, trp_arena *arena);
void trp_journal_reported(trp_tune_record *record, const troupe_sweep *sweep,
                          const trp_trial *trial, const troupe_report_event *report);
void trp_journal_ended(trp_tune_record *record, const trp_trial *trial);
// Members for the lines of the study: a text in `out`. NULL: no memory.
const char *trp_journal_of_report(trp_buffer *out, const troupe_sweep *sweep,
                                  const trp_trial *trial, const troupe_report_event *report);
const char *trp_journal_of_end(trp_buffer *out, const troupe_sweep *sweep, const trp_trial *trial);

#endif
