// method_stats.h: what is noted of each method that runs, where that was asked for at troupe_start:
// how long its message waited and it ran (histograms, observe/method_list.c reads them), and when
// (runtime/host/trace.h).
#ifndef TRP_ACTOR_METHOD_STATS_H
#define TRP_ACTOR_METHOD_STATS_H

#include <actors/actor/actor.h>
#include <actors/class/histogram.h>
#include <runtime/base/clock.h>

// What is known of one method of a class in this process.
typedef struct trp_gauge {
    const trp_class *class_;
    const trp_method *method;
    trp_histogram waits, runs;
} trp_gauge;

// Whether anything is to be noted. Set before threads run actors; a thread that reads it late, or
// early, notes less.
extern _Atomic bool trp_measures;

static inline bool trp_measuring(void)
{
    return __builtin_expect(atomic_load_explicit(&trp_measures, memory_order_relaxed), 0);
}

// The message is about to be pushed.
static inline void trp_measure_pushed(trp_message *message)
{
    if (trp_measuring())
        message->pushed_ns = trp_clock_ns();
}

// Begins with empty histograms, if the options ask for any.
void trp_measure_start(void);
// A method has run from `begun_ns` until now.
void trp_measure_ran(const trp_actor *actor, const trp_message *message, int64_t begun_ns);
// "spawn", "restart" or "end": an actor has begun, again maybe, or is about to go.
void trp_measure_life(const trp_actor *actor, const char *what);
// Calls back for each method that has run.
void trp_measure_each(void (*see)(trp_gauge *gauge, void *user), void *user);

#endif
