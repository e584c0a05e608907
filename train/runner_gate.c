// runner_gate.c: see train/runner_gate.h.
#include <pthread.h>
#include <runtime/base/clock.h>
#include <stdatomic.h>
#include <train/runner_gate.h>
#include <train/verdicts.h>

enum { SLICE_MS = 50 }; // Between looks at what else ends a wait.

static struct {
    const char *folder;
    pthread_mutex_t lock; // Of what follows; not held while something is waited for.
    trp_verdicts known;
    bool waiting; // A thread of the coordinator's has `known`.
    int asked;    // The last report that was waited for.
    bool told;    // Of the stop.
    atomic_bool stops;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER};

// By who has it.
static void read_on(void)
{
    trp_verdicts_read(&gate.known, gate.folder);
    if (gate.known.stop)
        atomic_store(&gate.stops, true);
}

void trp_runner_gate_open(const char *folder)
{
    gate.folder = folder;
    gate.known = trp_verdicts_begin();
    read_on();
    gate.told = gate.known.stop;
}

// Whether the answer is there, and what it wished.
static bool is_answered(int report, int64_t (*carried_out)(void))
{
    read_on();
    return gate.known.answered >= report && carried_out() >= gate.known.revision;
}

static void have(bool waiting)
{
    pthread_mutex_lock(&gate.lock);
    gate.waiting = waiting;
    pthread_mutex_unlock(&gate.lock);
}

bool trp_runner_gate_wait(int report, int timeout_ms, int64_t (*carried_out)(void),
                          bool (*is_over)(void))
{
    int64_t until_ms = trp_clock_ms() + timeout_ms;
    have(true);
    bool answered = is_answered(report, carried_out);
    bool late = gate.asked > gate.known.answered; // With an earlier one.
    if (!late)
        gate.asked = report;
    while (!late && !answered && !is_over()) {
        int64_t left_ms = until_ms - trp_clock_ms();
        if (left_ms <= 0)
            break;
        // What was wished comes by the server, and is not told of here.
        int slice_ms = gate.known.answered >= report ? 1 : SLICE_MS;
        trp_verdicts_await(&gate.known, gate.folder,
                           (int)(left_ms < slice_ms ? left_ms : slice_ms));
        answered = is_answered(report, carried_out);
    }
    have(false);
    return answered;
}

bool trp_runner_gate_look(void)
{
    bool fresh = false;
    pthread_mutex_lock(&gate.lock);
    if (!gate.waiting)
        read_on();
    if (!gate.told && atomic_load(&gate.stops))
        gate.told = fresh = true;
    pthread_mutex_unlock(&gate.lock);
    return fresh;
}

bool trp_runner_gate_stops(void)
{
    return atomic_load(&gate.stops);
}
