// tail.h: what a run of another process does, read from its journal and the log files of its ranks
// as they grow, and told as its coordinator would tell it. Of no thread and no server: its owner
// calls it when something may have been written.
//
// The order of what is told is that of the journal alone: whoever reads it at any time, from the
// same place, is told the same. An opening of the run that follows another one is told as
// TROUPE_JOB_QUEUED after a pause, else as TROUPE_JOB_RESTARTING.
#ifndef TRP_TAIL_H
#define TRP_TAIL_H

#include <train/port.h>
#include <train/wire.h>

typedef struct trp_tail trp_tail;

// Begins at `from` of the journal of the run in that folder, which need not be there yet. `options`
// are those of the submission. The port's functions are called by the owner's calls below. NULL: no
// memory.
trp_tail *trp_tail_open(const char *run, off_t from, const troupe_train_options *options,
                        const trp_port *port);
// Tells what has been written since.
void trp_tail_read(trp_tail *tail);
// The job has ended so, and nothing writes to the run's folder any more: tells the rest, and how it
// ended.
void trp_tail_end(trp_tail *tail, const trp_job_end *end);
// NULL is let be.
void trp_tail_close(trp_tail *tail);

// The state that an opening after another one stands for, where the last one told is `last`; `last`
// where it stands for none.
troupe_job_state trp_tail_reopened(troupe_job_state last);

#endif
