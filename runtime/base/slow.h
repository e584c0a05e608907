// slow.h: a wait for something of the library that lasts over 2 s is told in a line at `warn`, and
// its end in another one.
//
//     trp_slow slow;
//     trp_slow_begin(&slow, TRP_SLOW_MAILBOX);
//     while (!is_there()) {
//         if (trp_slow_is_due(&slow))
//             trp_slow_tell(&slow, "room in the mailbox of actor %s", label);
//         trp_park(&word, seen, trp_slow_until(&slow, deadline_ns));
//     }
//     trp_slow_end(&slow);
//
// A process tells one wait of a kind in 30 s, and counts the others. It costs a look at the clock
// each time that the wait sleeps, and nothing where it does not come to that.
#ifndef TRP_BASE_SLOW_H
#define TRP_BASE_SLOW_H

#include <stdbool.h>
#include <stdint.h>

typedef enum trp_slow_kind {
    TRP_SLOW_MAILBOX, // Room in an actor's mailbox,
    TRP_SLOW_WINDOW,  // or on the way to another process,
    TRP_SLOW_STORE,   // or in the object store.
    TRP_SLOW_MOVE,    // An object that another process moves to disk or back.
    TRP_SLOW_NODE,    // The node process's answer.
    TRP_SLOW_PROCESS, // A new worker process.
    TRP_SLOW_SPAWN,   // An actor that another process makes.
    TRP_SLOW_RESTART, // One that is started again,
    TRP_SLOW_PAUSE,   // and that one's own pause before.
    TRP_SLOW_THREADS, // A thread for what is to run.
    TRP_SLOW_KINDS,
} trp_slow_kind;

enum { TRP_SLOW_TEXT = 400 };

typedef struct trp_slow {
    trp_slow_kind kind;
    int state;
    int64_t began_ns; // 0: it has not slept yet.
    int64_t due_ns;   // When it may be told; INT64_MAX: it has been.
    const char *who;  // Waits; NULL: the actor whose method runs on the thread. The caller's.
    char text[TRP_SLOW_TEXT];
} trp_slow;

void trp_slow_begin(trp_slow *it, trp_slow_kind kind);
// Before each sleep: whether to tell.
bool trp_slow_is_due(trp_slow *it);
// What is waited for, so that "waits for <that>" is a sentence. Once for each time it is due.
void trp_slow_tell(trp_slow *it, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Not now: there may be a better word for it in 2 s.
void trp_slow_later(trp_slow *it);
// Until when to sleep; negative: for ever, as for trp_park.
int64_t trp_slow_until(const trp_slow *it, int64_t deadline_ns);
void trp_slow_end(trp_slow *it);

#endif
