// bench_transformer.h: what both sides of train.transformer train.
#ifndef BENCH_TRANSFORMER_H
#define BENCH_TRANSFORMER_H

// The network of the example's demonstration.
enum {
    BENCH_CONTEXT = 64,
    BENCH_WIDTH = 128,
    BENCH_HEADS = 4,
    BENCH_LAYERS = 4,
    BENCH_BATCH = 32, // Sequences a step, over both ranks.
    BENCH_TEXT_MAX = 4 << 20,
};
#define BENCH_RATE 3e-4f
#define BENCH_LOSS_MAX 6 // After a few steps: log 128 is 4.9.

#endif
