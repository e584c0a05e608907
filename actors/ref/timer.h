// timer.h: one thread, made at the first use, that ends calls whose deadline passes, rings the
// alarms of actors, has tasks looked after, and looks at objects whose maker has not sealed them
// yet.
#ifndef TRP_REF_TIMER_H
#define TRP_REF_TIMER_H

#include <actors/ref/call_table.h>

// Ends the call as TROUPE_TIMED_OUT at `deadline_ns`, if it has not ended. False: no memory or no
// thread.
bool trp_timer_call(int64_t deadline_ns, uint64_t call);
// Calls trp_alarm_ring at that time.
bool trp_timer_alarm(int64_t at_ns, uint64_t alarm);
// Calls trp_tasks_look at that time.
bool trp_timer_tasks(int64_t at_ns);
// Calls trp_when_call once when->object is ready, or when the runtime stops; false: no thread.
bool trp_timer_watch(trp_when *when);
void trp_timer_stop(void);

// Whether an object's value, or failure, is there.
bool trp_object_ready(trp_object object);

#endif
