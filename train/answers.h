// answers.h: the coordinator's answers to a rank's reports, which the loop does not wait for while
// it computes: to do so for each would cost two wake-ups a report.
#ifndef TRP_TRAIN_ANSWERS_H
#define TRP_TRAIN_ANSWERS_H

#include <stdbool.h>
#include <train/reports.h>
#include <troupe/object.h>

typedef struct trp_answers {
    int sent, taken; // The last report that was sent, and whose answer was taken.
    troupe_ref open[TRP_REPORTS_UNANSWERED]; // To those between, by number.
} trp_answers;

// The next report has the number behind that one.
void trp_answers_begin(trp_answers *answers, int report);
// Before the next report is sent. Those that are there are taken, and all are waited for; but a
// rank that may be `ahead` waits once too many are open, and for half of them then.
// TROUPE_PEER_LOST: the coordinator is lost; else what was answered.
troupe_status trp_answers_await(trp_answers *answers, bool ahead);
// Of the report that was sent.
void trp_answers_add(trp_answers *answers, troupe_ref answer);
// All of them, as above.
troupe_status trp_answers_take(trp_answers *answers);
void trp_answers_drop(trp_answers *answers);

#endif
