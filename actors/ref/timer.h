// timer.h: one thread, made at the first use, that calls back at deadlines, and looks at objects
// whose maker has not sealed them yet.
#ifndef TRP_REF_TIMER_H
#define TRP_REF_TIMER_H

#include <actors/ref/call_table.h>

// What happens at a deadline, on the timer's thread, which must not be held up.
typedef struct trp_timer_kind {
    void (*ring)(uint64_t id);
    bool (*pending)(uint64_t id); // Whether it is of any use still; NULL: it is.
} trp_timer_kind;
// Calls kind->ring at that time. False: no memory or no thread.
bool trp_timer_at(int64_t at_ns, const trp_timer_kind *kind, uint64_t id);
// Calls trp_when_call once when->object is ready, or when the runtime stops; false: no thread.
bool trp_timer_watch(trp_when *when);
void trp_timer_stop(void);

// Whether an object's value, or failure, is there.
bool trp_object_ready(trp_object object);

#endif
