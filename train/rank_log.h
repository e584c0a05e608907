// rank_log.h: what each rank prints, in a file of the run's folder: log/rank_00003.log.
//
// The thread that reads the output of all workers puts lines into memory, at most
// TRP_RANK_LOG_BYTES a rank; another one writes them. So a slow or full disk holds up no rank:
// lines that do not fit any more are counted and left out, and what cannot be written is warned of
// once a run. Each attempt is appended behind a line that says so, and behind all that the one
// before has printed, unless that takes more than two seconds. Where workers write to the
// driver's own descriptors (TROUPE_OUTPUT_DIRECT) there is no such file.
#ifndef TRP_RANK_LOG_H
#define TRP_RANK_LOG_H

#include <train/port.h>
#include <troupe/actor.h>

enum { TRP_RANK_LOG_BYTES = 1 << 20 };

// What the logs of one run share; it lasts as long as they do.
typedef struct trp_rank_logs trp_rank_logs;

// `sink` is told of each line that is written, and of those that are not. NULL: no
// memory.
trp_rank_logs *trp_rank_logs_open(const char *run, trp_log_sink sink);
// Writes what that process prints as this rank's, from now until its end. `logs` may be NULL.
void trp_rank_log_follow(trp_rank_logs *logs, int rank, int world, int attempt,
                         troupe_actor worker);
// Before an attempt of processes that are kept: waits until what they have printed has been read,
// two seconds at most.
void trp_rank_logs_go_on(void);
// Then: what the process of that rank prints from now on is of that attempt. `logs` may be NULL.
void trp_rank_log_go_on(trp_rank_logs *logs, int rank, int attempt);
// What ranks print that are followed from now on goes to their files alone, and is not printed by
// this process.
void trp_rank_logs_be_alone(void);
void trp_rank_logs_close(trp_rank_logs *logs);

#endif
