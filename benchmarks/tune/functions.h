// functions.h: what the quality of searchers is measured on: functions whose spaces and budgets
// were fixed before the first look at a result. They need no library, so that a peer in another
// language can load them (libtune_functions.so).
//
// Of a function of one objective a score is the distance to the best that there is, where that is
// known. Instances of the bbob functions and of the mixed ones differ in where their optimum lies.
#ifndef BENCH_TUNE_FUNCTIONS_H
#define BENCH_TUNE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/space.h>

enum { TUNE_DIMS_MAX = 30, TUNE_SEEDS = 21 };

typedef struct tune_instance tune_instance;

typedef struct tune_function {
    const char *name; // "bbob.sphere.5"
    size_t dim_count, objectives;
    const troupe_dim *dims;
    int trials; // The budget.
    double (*score)(const tune_instance *at, const double *x);
    void (*scores)(const tune_instance *at, const double *x, double *scores); // Of several.
    // NULL: all instances are the same. False: memory is short.
    bool (*prepare)(tune_instance *at);
} tune_function;

struct tune_instance {
    const tune_function *of;
    uint64_t random; // The generator's state.
    size_t count;    // Of dimensions.
    double best[TUNE_DIMS_MAX];
    double *numbers; // What else `prepare` makes; freed with the instance.
};

size_t tune_function_count(void);
const tune_function *tune_function_at(size_t index); // NULL: there is none.
const tune_function *tune_function_named(const char *name);

// NULL: memory is short.
tune_instance *tune_open(const tune_function *of, uint64_t instance);
void tune_close(tune_instance *at);
// The point lies within the function's space.
void tune_evaluate(const tune_instance *at, const double *x, double *scores);
// The volume that points of two objectives dominate, up to the reference point of the ZDT rows.
enum { TUNE_REFERENCE = 11 };
double tune_volume(const double *scores, size_t count);
// One line of JSON: {"trials": 100, "objectives": 1, "dims": [{"name": "x0", "kind": "real", ..}]}.
// The text is the caller's, of `size` bytes. What it takes, as of snprintf.
size_t tune_describe(const tune_function *of, char *text, size_t size);

// For functions: numbers from an instance's generator.
double tune_uniform(tune_instance *at, double low, double high);
double tune_normal(tune_instance *at);

// bbob.c: functions of the black-box optimization benchmark.
enum { TUNE_BBOB = 8 };
extern const struct tune_bbob {
    const char *name;
    double (*score)(const tune_instance *at, const double *x);
    bool (*prepare)(tune_instance *at);
} tune_bbob[TUNE_BBOB];

#endif
