// gate.h: asks a job's gate, within its bound, whether the run goes on.
//
// The gate decides on a thread of its own, made at the first report that it named; the coordinator
// waits for the answer at most as long as the gate allows. A late "stop" stops the run as
// troupe_job_stop does.
#ifndef TRP_GATE_H
#define TRP_GATE_H

#include <stdbool.h>
#include <troupe/train.h>

typedef struct trp_gate trp_gate;

// *made stays NULL where there is none. TROUPE_INVALID names the field; TROUPE_NO_MEMORY.
troupe_status trp_gate_make(troupe_job *job, const troupe_gate *given, trp_gate **made);
// The first report that it named, and how far the others lie apart; 0: there is no gate.
void trp_gate_reports(const trp_gate *gate, int *first, int *every);
// Whether such a gate named the report.
bool trp_gate_names(int first, int every, int number);
// Asks, if the gate named that report. Stops the job where the answer is to.
void trp_gate_ask(trp_gate *gate, const troupe_report_event *event);
// Whether this thread is deciding.
bool trp_gate_is_caller(trp_gate *gate);
// The run has ended: nothing is asked any more.
void trp_gate_end(trp_gate *gate);
// Waits until a decision under way has been made. Not for the gate itself.
void trp_gate_await(trp_gate *gate);
void trp_gate_free(trp_gate *gate);

#endif
