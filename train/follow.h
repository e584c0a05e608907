// follow.h: tells a job's follower what happens in its run, on a thread of the follower's own: so a
// slow one holds up neither the run nor other actors, and misses nothing.
//
// What it has not been told yet waits in memory, up to TRP_FOLLOW_WAITING events and
// TRP_FOLLOW_BYTES; beyond that it is read back from the run's journal, in the same order, until
// the follower has caught up.
//
// Lines of ranks are always read from their log files: what waits is where they lie.
#ifndef TRP_FOLLOW_H
#define TRP_FOLLOW_H

#include <train/port.h>

enum { TRP_FOLLOW_WAITING = 4096, TRP_FOLLOW_BYTES = 16 << 20 };

typedef struct trp_follow trp_follow;

// Starts the thread, which holds the job until it has told all. *follow stays NULL where there is
// nothing to call. TROUPE_NO_MEMORY.
troupe_status trp_follow_start(troupe_job *job, const troupe_follower *follower,
                               trp_follow **follow);

// All may be given NULL. The line of what happened lies at [start, end) in the journal; where
// it could not be written, the two are equal. Called in the order of what happened.
void trp_follow_report(trp_follow *follow, const troupe_report_event *event, off_t start,
                       off_t end);
void trp_follow_checkpoint(trp_follow *follow, const troupe_checkpoint_event *event, off_t start,
                           off_t end);
void trp_follow_state(trp_follow *follow, troupe_job_state state, off_t start, off_t end);
void trp_follow_modified(trp_follow *follow, const troupe_live_event *event, off_t start,
                         off_t end);
// The journal, of which a descriptor is kept.
void trp_follow_journal(trp_follow *follow, int journal);
// What lies there from `from` to `written` has happened before it came. `lost`: something does not.
void trp_follow_catch_up(trp_follow *follow, off_t from, off_t written, bool lost);
// The run has ended: told after all else.
void trp_follow_end(trp_follow *follow);

// Whether the follower is calling at this moment, on this thread.
bool trp_follow_is_caller(trp_follow *follow);
// Waits until all was told, the end included. Not for the follower itself.
void trp_follow_await(trp_follow *follow);
// Tells nothing more, from within a call of the follower's.
void trp_follow_abandon(trp_follow *follow);
// Whether it is told of lines of ranks.
bool trp_follow_has_log(const trp_follow *follow);
// What prints to a log begins and ends: the run's end is told when all have ended, or some time
// later.
void trp_follow_log_begin(trp_follow *follow);
void trp_follow_log_end(trp_follow *follow);
// Lines lie in a rank's log file, or are lost.
void trp_follow_log(trp_follow *follow, const trp_log_piece *piece);

// Where its lines of ranks come from, if it is told of them: for the job's port.
trp_log_sink trp_follow_sink(trp_follow *follow);
// The next one of its job (NULL: none), which is set once, before others know it. Under the lock
// of the job's handle.
trp_follow *trp_follow_next(const trp_follow *follow);
void trp_follow_chain(trp_follow *follow, trp_follow *next);

// It is held by its job and by what else tells it something. Harmless on NULL.
void trp_follow_hold(trp_follow *follow);
void trp_follow_release(trp_follow *follow);

// ---- for tests

// How long the thread lets events gather before it looks again by itself; 0: it waits to be woken.
// `last_ns`: how long it has just done so, and then there were so many events; 0: it was woken,
// when it had slept for `slept_ns`. One event in 200 us is often, fewer each have a wake-up.
int64_t trp_follow_pause_ns(int64_t last_ns, int64_t slept_ns, size_t events);

#endif
