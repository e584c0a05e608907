// gate.h: asks a job's gate, within its bound, whether the run goes on.
//
// The gate decides on a thread of its own, made at the first report that it named; the coordinator
// waits for the answer at most as long as the gate allows. A late "stop" stops the run as
// troupe_job_stop does.
//
// Of a train server's job it is told of reports as the run's journal is read, and its answers go to
// the runner, which waits for them (train/verdicts.h, train/runner_gate.h).
#ifndef TRP_GATE_H
#define TRP_GATE_H

#include <stdbool.h>
#include <troupe/train.h>

enum { TRP_GATE_REPORTS_MAX = 64 };

typedef struct trp_gate trp_gate;

// Which reports a gate decides on, and how long each waits for it.
TROUPE_STRUCT(trp_gate_plan, (int, first), (int, every), // 0: none,
              (troupe_array_int, reports),               // but for these.
              (int, timeout_ms));

// *made stays NULL where there is none. TROUPE_INVALID names the field; TROUPE_NO_MEMORY.
troupe_status trp_gate_make(troupe_job *job, const troupe_gate *given, trp_gate **made);
// What it named; nothing where there is no gate. Lives as long as that.
trp_gate_plan trp_gate_plan_of(const trp_gate *gate);
// Whether such a gate named the report.
bool trp_gate_names(const trp_gate_plan *plan, int number);
// Asks, if the gate named that report. Stops the job where the answer is to.
void trp_gate_ask(trp_gate *gate, const troupe_report_event *event);
// Of a train server's job: has it decide on a report that lies in the journal, if it named that and
// no answer to it or a later one is known. Does not wait; where too many wait, the oldest is left
// out.
void trp_gate_tell(trp_gate *gate, const troupe_report_event *event);
// Whether this thread is deciding.
bool trp_gate_is_caller(trp_gate *gate);
// The run has ended: nothing is asked any more.
void trp_gate_end(trp_gate *gate);
// Waits until a decision under way has been made. Not for the gate itself.
void trp_gate_await(trp_gate *gate);
void trp_gate_free(trp_gate *gate);

#endif
