// events.h: what Train's threads and callers tell the controller: a queue with one reader, which
// waits on it, or rests and is called.
//
// Pushing never waits and takes no lock but the queue's own, so that a follower may do it anywhere.
#ifndef TRP_TUNE_EVENTS_H
#define TRP_TUNE_EVENTS_H

#include <pthread.h>
#include <troupe/tune.h>

typedef struct trp_event {
    struct trp_event *next;
    int trial;
    int run;            // Which of the trial's runs it is of.
    bool is_report;     // Else, unless it is of a checkpoint: the job is in a new state.
    bool is_checkpoint; // Number and folder are in `report`.
    troupe_job_state state;
    int pid;                    // Of rank 0, where the state is RUNNING; 0: not known.
    troupe_report_event report; // With copies of all that it points to, in the event's own block.
} trp_event;

// How far the controller is with a run, for whom waits for that.
typedef struct trp_dealt {
    int report;      // The last one that it has dealt with,
    troupe_act act;  // and what was decided there.
    int ends_from;   // That the run is to end holds from that report on; 0: for all.
    int asked;       // The last one at which the run was to be paused or resized: 0: none,
    troupe_act asks; // which of them,
    int ranks;       // and how many it goes on with, where that is to resize it.
    int told;        // The last one of which that was said.
    bool over;       // Nobody waits any more.
} trp_dealt;

typedef struct trp_events {
    pthread_mutex_t lock;
    pthread_cond_t filled, dealt;
    trp_event *first, **last;
    bool lost;  // An event could not be stored.
    bool woken; // There is something else to see to.
    void (*call)(void *user);
    void *user;
    bool rests; // The reader has seen all that there is, and is to be called for more.
} trp_events;

void trp_events_open(trp_events *events);
void trp_events_close(trp_events *events); // Frees what is left. Nobody may push any more.

// A report as an event, the caller's to free with trp_free. NULL: no memory.
trp_event *trp_events_make_report(int trial, int run, const troupe_report_event *report);
void trp_events_push_report(trp_events *events, int trial, int run,
                            const troupe_report_event *report);
void trp_events_push_checkpoint(trp_events *events, int trial, int run,
                                const troupe_checkpoint_event *checkpoint);
void trp_events_push_state(trp_events *events, int trial, int run, troupe_job_state state, int pid);
// Has the reader return, if nothing else comes.
void trp_events_wake(trp_events *events);

// A reader that rests is called by whoever has something for it, outside of the queue's lock. NULL:
// by nobody, since it waits.
void trp_events_call(trp_events *events, void (*call)(void *user), void *user);
// The reader rests. False: there is something for it already.
bool trp_events_rest(trp_events *events);
// It reads again, though nobody has called it.
void trp_events_resume(trp_events *events);

// Takes the oldest event, waiting for one up to `deadline_ns` of trp_clock_ns (negative: for ever).
// The caller frees *event with trp_free. TROUPE_TIMED_OUT: none came; TROUPE_BUSY: none, and the
// reader was woken. TROUPE_NO_MEMORY: one was lost.
troupe_status trp_events_pop(trp_events *events, int64_t deadline_ns, trp_event **event);
// The oldest that is there. NULL: none, or the reader has something else to see to first.
trp_event *trp_events_next(trp_events *events);

// The controller has dealt with that report, and with all before it. What is said of one before
// the last is said again, and nothing new.
void trp_events_deal(trp_events *events, trp_dealt *dealt, int report, troupe_act act, int ranks);
// Of a run that makes reports before that one once more: that it is to end holds from there on.
void trp_events_end_from(trp_events *events, trp_dealt *dealt, int report);
// Nobody waits for it any more.
void trp_events_let_go(trp_events *events, trp_dealt *dealt);
// Waits until that report has been dealt with, and says what was decided: that the run is to end
// holds for all reports (unless trp_events_end_from has said from which on), and a pause or other
// ranks for their own, also where that is asked late.
troupe_act trp_events_await_dealt(trp_events *events, trp_dealt *dealt, int report, int *ranks);
// Whether the controller does itself what was decided at that report, a pause or other ranks, since
// nobody has been told: who asks yet hears that the run goes on.
bool trp_events_take_over(trp_events *events, trp_dealt *dealt, int report);

#endif
