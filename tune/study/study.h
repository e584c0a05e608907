// study.h: a study as a sweep sees it: everything that is decided, and the record of it. It knows
// no jobs, clocks or threads: who runs the trials tells it what happened, and does what it says.
//
// Steps in the record, each a line: the study (space, goals, searcher, scheduler, seed: what must
// be the same to go on), "suggest" (trial, x, params), "report" (trial, number, score), "act" (what
// the scheduler said, where that was not to go on), "end" (trial, ending), "again" (a paused trial
// goes on). A line is there before the caller hears of the step. Opened again, the study repeats
// the steps without asking the searcher to suggest; what the scheduler says is compared.
#ifndef TRP_STUDY_H
#define TRP_STUDY_H

#include <tune/study/record.h>

typedef enum trp_next_kind {
    TRP_NEXT_NEW,   // Trial `number` begins: it has a point.
    TRP_NEXT_AGAIN, // Paused trial `number` goes on.
    TRP_NEXT_OVER,  // Paused trial `number` is over, as stopped. Ask again.
    TRP_NEXT_LATER, // Nothing before another report or end.
    TRP_NEXT_NONE,  // Nothing new any more; where no trial runs or is paused, the study is at its
                    // end.
} trp_next_kind;

typedef struct trp_next {
    trp_next_kind kind;
    int number;
} trp_next;

// What there is room for. `fresh`: a new trial would be welcome.
troupe_status trp_study_next(troupe_study *study, bool fresh, trp_next *next);
// The next of a trial's reports after that many at which it may be anything but going on; 0: none.
int trp_study_decides_at(troupe_study *study, int number, int after);
// A running trial's report, with a value for each objective in the user's sense. verdict->x is the
// study's room. A trial that clones has its new point from then on.
troupe_status trp_study_decide(troupe_study *study, int number, int report, const double *values,
                               double elapsed_s, int ranks, troupe_verdict *verdict);
// A trial is over. With TROUPE_ENDING_COMPLETE its values are those of its best report by the first
// objective, unless it was told others. `error`: why it failed; else NULL.
troupe_status trp_study_end(troupe_study *study, int number, troupe_ending ending,
                            const char *error);
// More trials than it was opened for: a sweep that is extended. TROUPE_INVALID: fewer than it has.
troupe_status trp_study_extend(troupe_study *study, int trials);

// A point's trial, and how it is with it.
const double *trp_study_point(const troupe_study *study, int number);
troupe_study_state trp_study_state(const troupe_study *study, int number);

// For a sweep: a study whose record is the sweep's, open already. `lines`: of an earlier life, or
// NULL; each that is none of the study's is given to `visit`, in its place among them.
typedef struct trp_study_past {
    const char *lines;
    size_t size;
    troupe_status (*visit)(void *user, const char *line, size_t length);
    void *user;
} trp_study_past;
troupe_status trp_study_open(const troupe_space *space, const troupe_study_options *how,
                             trp_record *record, const trp_study_past *past, troupe_study **study);
trp_record *trp_study_record(troupe_study *study);

#endif
