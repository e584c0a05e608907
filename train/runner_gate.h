// runner_gate.h: how a runner waits for the answers of its job's gate, which is in another process
// and says them in the file `gate` of the job's folder (train/verdicts.h). It needs no server.
//
// Of a report that has had no answer within its time the next ones do not wait, until there is one:
// so a gate that is gone costs one such time.
#ifndef TRP_RUNNER_GATE_H
#define TRP_RUNNER_GATE_H

#include <stdbool.h>
#include <stdint.h>

// Reads what was answered in earlier attempts. Before the job is taken on.
void trp_runner_gate_open(const char *folder);
// Waits for the answer to that report, or a later one, and until what it wished has come to
// `carried_out`, a revision; at most so long, and not once `is_over`. Both may take locks. False:
// there was no answer.
bool trp_runner_gate_wait(int report, int timeout_ms, int64_t (*carried_out)(void),
                          bool (*is_over)(void));
// Reads on. Whether there is an answer to stop that was not there at the last call.
bool trp_runner_gate_look(void);
// Whether the run is to stop.
bool trp_runner_gate_stops(void);

#endif
