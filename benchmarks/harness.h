// harness.h: what the benchmarks share: the clock, pinning, samples and their percentiles, running
// a peer's program, and lines of JSON.
//
// A figure is the median over rounds, and rounds of ours and of the peer take turns, so that what
// the machine does beside falls on both. A ratio is the median of the ratios of neighbouring
// rounds; above 1 always means that we are better. A side that could not be measured is reported as
// missing, with its reason, never as beaten.
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

int64_t bench_now_ns(void);
void bench_pause(int us); // Sleeps; 0: does nothing.

// Private memory each byte of which has been written, so that its pages are there: to be unmapped.
unsigned char *bench_written(size_t size);

// ---- Placement

enum { BENCH_ANY_CPU = -1 };

// Pins all threads of a process (0: this one) to a CPU, those made later by its threads included.
// Returns how many threads that were; 0: it failed.
int bench_pin(pid_t pid, int cpu);
// The same for the first `count` CPUs.
int bench_pin_first(pid_t pid, int count);
// Whether the machine lets this process use the first `count` CPUs.
bool bench_has_cpus(int count);

// ---- Samples of one round

typedef struct bench_samples {
    double *values;
    size_t count, capacity;
} bench_samples;

void bench_samples_open(bench_samples *samples, size_t capacity); // Touches every page at once.
static inline void bench_samples_add(bench_samples *samples, double value)
{
    if (samples->count < samples->capacity)
        samples->values[samples->count++] = value;
}
void bench_samples_close(bench_samples *samples);

// What one round came to. Percentiles that were not taken are NaN.
typedef struct bench_round {
    double value, p50, p99, p999;
} bench_round;

bench_round bench_round_of(bench_samples *samples); // Its value is the median. Sorts the samples.
bench_round bench_round_plain(double value);        // Without percentiles.

// ---- Rounds of one figure

enum { BENCH_ROUNDS_MAX = 64, BENCH_ROUNDS_MIN = 3 };

// Whether round `round` (from 0) of `wanted` is still to be measured. On a machine that does much
// else beside, the rounds after the first BENCH_ROUNDS_MIN are given up once the program has run
// for `seconds_max`; a line says how many there were.
bool bench_goes_on(int round, int wanted, int seconds_max);

typedef struct bench_rounds {
    bench_round rounds[BENCH_ROUNDS_MAX];
    size_t count;
    char missing[256]; // Why a round failed; empty if none did.
} bench_rounds;

void bench_rounds_add(bench_rounds *rounds, bench_round round);
void bench_rounds_fail(bench_rounds *rounds, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
double bench_rounds_value(const bench_rounds *rounds); // The median; NaN if it is missing.

// ---- Programs

// The path of a program in the folder of this one. False: it is longer than `capacity`.
bool bench_path(const char *name, char *path, size_t capacity);
// Removes a folder with all that is in it.
void bench_remove(const char *folder);
// Runs the program `arguments[0]` of that folder ("compare/peer_zmq"), waits `seconds_max` for its
// end, and keeps what it wrote to stdout, cut at `capacity`. False: it could not be started,
// failed, or took too long (then it was killed), which `reason` says.
enum { BENCH_REASON = 128 };
bool bench_run(const char *const *arguments, int seconds_max, char *out, size_t capacity,
               char reason[BENCH_REASON]);
// The same for a peer that prints a round with bench_round_print; adds it, or why it is missing.
void bench_peer_round(const char *const *arguments, bench_rounds *rounds);
void bench_round_print(bench_round round);
// Ends a peer's program with a sentence on stderr.
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- Lines

typedef enum bench_better { BENCH_LOWER, BENCH_HIGHER } bench_better;

typedef struct bench_line {
    const char *name, *unit, *placement;
    bench_better better;
    const bench_rounds *ours;
    const char *peer;          // NULL: a figure without a peer, for information only.
    const bench_rounds *peers; // Of that peer.
    // NULL, or a second peer. The better one of the two is printed as the peer, the other as
    // "other". A missing one never counts as the better.
    const char *other;
    const bench_rounds *others;
    const char *note; // NULL: none.
} bench_line;

// Its ratio to `peer`, which is printed unless `other` is better: the median of the rounds' ratios.
// NaN: a side is missing.
double bench_ratio(const bench_line *line);
// Prints one JSON object on one line of stdout, at once. Returns false if a side of it is missing.
bool bench_print(const bench_line *line);
// The first line of a run: machine, kernel, commit, load.
void bench_print_machine(const char *mode);

#endif
