// harness_rows.h: what the benchmarks of many rows share: "quick", names on the command line, and
// rounds that are programs of their own.
#ifndef BENCH_HARNESS_ROWS_H
#define BENCH_HARNESS_ROWS_H

#include "harness.h"

// Reads [quick] [NAME...], and prints the machine's line.
void bench_rows_open(int argc, char **argv);
bool bench_rows_quick(void);
// Whether the row is to be measured: its name begins with a NAME, or none was given.
bool bench_rows_wanted(const char *name);
// Adds a round that a program measures on the first `cpus` CPUs (0: wherever it likes).
void bench_rows_round(const char *const *program, int cpus, bench_rounds *rounds);
// Adds the round that a program of many rows printed as "<row> <value>", which may be followed by
// p50, p99 and p999; where it printed none, the row is missing for that reason.
void bench_rows_read(const char *row, const char *out, const char *reason, bench_rounds *rounds);
void bench_rows_print(const bench_line *line);
// The program's exit status: failure if a figure of ours is missing, or no row was wanted.
int bench_rows_close(void);

// Rows of Ray's own microbenchmark and some of ours, "ray.<row>", ours beside Ray's: measure/ray
// and compare/peer_ray measure the same rows, each for so many seconds in each of three rounds. A
// quick run leaves Ray out, which takes most of a minute to start and to end.
void bench_ray(const char *const *rows, size_t count, const char *seconds);

// Rows of batches, "train.data.<source>", beside gathering of the same rows in a known order, or
// memcpy: measure/data measures them, and leaves what they are made of in the folder.
void bench_data(const char *folder);

// Rows "train.allreduce.<staged|inplace>.<bytes>", beside Open MPI, Gloo and what shared memory can
// do ("limit.allreduce..."), and of averaging gradients beside the backward pass, "train.overlap".
void bench_allreduce(void);

// Rows of a train server's jobs, "server.*", beside Ray, and of the model repository,
// "repository.*", beside MLflow.
void bench_jobs(void);
void bench_repository(void);

#endif
