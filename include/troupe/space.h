// space.h: what may be tried: rows that say how the fields of a config are drawn.
//
//     const troupe_param space[] = {
//         TROUPE_LOG_UNIFORM(settings, rate, 1e-4, 1.0),
//         TROUPE_INTEGER(settings, width, 16, 1024, .log = true),
//         TROUPE_CHOICE_TEXT(settings, optimizer, "sgd", "adam"),
//         TROUPE_UNIFORM(settings, momentum, 0, 1),
//         TROUPE_ONLY_WHEN_TEXT(settings, momentum, optimizer, "sgd"),
//         TROUPE_CHOICE(troupe_train_options, ranks, 1, 2, 4),
//         TROUPE_FIXED(settings, epochs, 81),
//     };
//
// A field that the struct lacks does not compile. A row names a number, a text, a bool, an enum or
// any other field, also within others: plan.steps, weights[2]. A choice that is to be drawn more
// often may be given more than once. Rows of troupe_train_options are options of the trial's run,
// laid over those of the sweep: numbers alone, never where it is stored or its name.
#ifndef TROUPE_SPACE_H
#define TROUPE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <troupe/wire.h>

TROUPE_BEGIN_C

typedef enum troupe_draw {
    TROUPE_DRAW_FIXED,
    TROUPE_DRAW_UNIFORM,     // low <= x < high; with .step: low + k * step, up to and with high.
    TROUPE_DRAW_LOG_UNIFORM, // The same with log x uniform; low > 0.
    TROUPE_DRAW_INTEGER,     // low <= x <= high, whole; .step: low + k * step; .log: log x uniform.
    TROUPE_DRAW_CHOICE,      // Any of the choices alike.
    // Of the normal distribution with .mean and .deviation, within 6 deviations of the mean and,
    // where .low < .high, within these; with .step rounded to a multiple of it.
    TROUPE_DRAW_NORMAL,
    TROUPE_DRAW_ORDERED, // As a choice; neighbours are alike, so a searcher may learn from them.
    // Every choice is tried with each combination of other grids' choices, and all of that as often
    // as trials are asked for.
    TROUPE_DRAW_GRID,
    // No draw: the row of the same field counts only where field `when` of the same struct, which
    // must have a row of choices before it, has one of the choices (of its first 32); else the
    // field is as without a row. One a field.
    TROUPE_DRAW_CONDITION,
} troupe_draw;

enum { TROUPE_CHOICES_MAX = 32 };

// How one field is filled. Fields without a row are zero, a model's defaults, or the base config's.
typedef struct troupe_param {
    size_t size; // Of this struct.
    const char *name;
    size_t offset, field_size;
    troupe_draw draw;
    double low, high;
    double choices[TROUPE_CHOICES_MAX]; // Of a number or bool.
    size_t choice_count;
    const char *text; // The value of a fixed text.
    const char *of;   // The struct that has the field, as the macro was given it; NULL: the config.
    double step;      // 0: none.
    bool log;         // Of an integer.
    bool unused_[7];
    double mean, deviation;
    const char *const *texts; // Choices of a text: choice_count of them, up to 1,024.
    // Choices of any other type: an array of up to 1,024 values of it; for a fixed row, one value.
    const void *values;
    const char *when; // Of a condition: the field that decides.
} troupe_param;

// After the values of a row more fields may follow, by name: TROUPE_INTEGER(.., 1, 9, .step = 2).
// clang-format off
#define TROUPE_PARAM_(T, field)                                                                    \
    .size = sizeof(troupe_param), .name = #field, .offset = offsetof(T, field),                   \
    .field_size = sizeof(((T *)0)->field), .of = #T
#define TROUPE_UNIFORM(T, field, ...)                                                              \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_UNIFORM, .low = __VA_ARGS__}
#define TROUPE_LOG_UNIFORM(T, field, ...)                                                          \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_LOG_UNIFORM, .low = __VA_ARGS__}
#define TROUPE_INTEGER(T, field, ...)                                                              \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_INTEGER, .low = __VA_ARGS__}
#define TROUPE_NORMAL(T, field, ...)                                                               \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_NORMAL, .mean = __VA_ARGS__}
#define TROUPE_CHOICE(T, field, ...)                                                               \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_CHOICE, .choices = {__VA_ARGS__},                \
     .choice_count = TROUPE_COUNT(__VA_ARGS__)}
#define TROUPE_ORDERED(T, field, ...)                                                              \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_ORDERED, .choices = {__VA_ARGS__},               \
     .choice_count = TROUPE_COUNT(__VA_ARGS__)}
#define TROUPE_GRID(T, field, ...)                                                                 \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_GRID, .choices = {__VA_ARGS__},                  \
     .choice_count = TROUPE_COUNT(__VA_ARGS__)}
#define TROUPE_CHOICE_TEXT(T, field, ...)                                                          \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_CHOICE,                                          \
     .texts = (const char *const[]){__VA_ARGS__}, .choice_count = TROUPE_COUNT(__VA_ARGS__)}
// Values of any type, each as an initializer: TROUPE_CHOICE_OF(settings, window, {1, 2}, {3, 5}).
#define TROUPE_CHOICE_OF(T, field, ...)                                                            \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_CHOICE,                                          \
     .values = TROUPE_VALUES_(T, field, __VA_ARGS__),                                              \
     .choice_count = sizeof(TROUPE_VALUES_(T, field, __VA_ARGS__)) / sizeof(((T *)0)->field)}
// The choices that an array has, of the field's own type: TROUPE_CHOICE_LIST(settings, width, all).
#define TROUPE_CHOICE_LIST(T, field, list)                                                         \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_CHOICE,                                          \
     .values = 1 ? (list) : (const __typeof__(((T *)0)->field) *)0,                                \
     .choice_count = sizeof(list) / sizeof *(list)}
#define TROUPE_VALUES_(T, field, ...) (const __typeof__(((T *)0)->field)[]){__VA_ARGS__}
#define TROUPE_FIXED(T, field, value)                                                              \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_FIXED, .low = (value)}
#define TROUPE_FIXED_TEXT(T, field, value)                                                         \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_FIXED, .text = (value)}
#define TROUPE_FIXED_OF(T, field, ...)                                                             \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_FIXED,                                           \
     .values = TROUPE_VALUES_(T, field, __VA_ARGS__)}
#define TROUPE_ONLY_WHEN(T, field, other, ...)                                                     \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_CONDITION, .choices = {__VA_ARGS__},             \
     .choice_count = TROUPE_COUNT(__VA_ARGS__) + 0 * offsetof(T, other), .when = #other}
#define TROUPE_ONLY_WHEN_TEXT(T, field, other, ...)                                                \
    {TROUPE_PARAM_(T, field), .draw = TROUPE_DRAW_CONDITION,                                       \
     .texts = (const char *const[]){__VA_ARGS__},                                                  \
     .choice_count = TROUPE_COUNT(__VA_ARGS__) + 0 * offsetof(T, other), .when = #other}

// Rows of troupe_tune_stored: of a number or a text that is named, as "fitting.batch".
#define TROUPE_NAMED_PARAM_(path) .size = sizeof(troupe_param), .name = (path)
#define TROUPE_NAMED_UNIFORM(path, ...)                                                            \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_UNIFORM, .low = __VA_ARGS__}
#define TROUPE_NAMED_LOG_UNIFORM(path, ...)                                                        \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_LOG_UNIFORM, .low = __VA_ARGS__}
#define TROUPE_NAMED_INTEGER(path, ...)                                                            \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_INTEGER, .low = __VA_ARGS__}
#define TROUPE_NAMED_CHOICE(path, ...)                                                             \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_CHOICE, .choices = {__VA_ARGS__},              \
     .choice_count = TROUPE_COUNT(__VA_ARGS__)}
#define TROUPE_NAMED_CHOICE_TEXT(path, ...)                                                        \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_CHOICE,                                        \
     .texts = (const char *const[]){__VA_ARGS__}, .choice_count = TROUPE_COUNT(__VA_ARGS__)}
#define TROUPE_NAMED_ONLY_WHEN(path, other, ...)                                                   \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_CONDITION, .choices = {__VA_ARGS__},           \
     .choice_count = TROUPE_COUNT(__VA_ARGS__), .when = (other)}
#define TROUPE_NAMED_ONLY_WHEN_TEXT(path, other, ...)                                              \
    {TROUPE_NAMED_PARAM_(path), .draw = TROUPE_DRAW_CONDITION,                                     \
     .texts = (const char *const[]){__VA_ARGS__}, .choice_count = TROUPE_COUNT(__VA_ARGS__),       \
     .when = (other)}
// clang-format on

typedef enum troupe_dim_kind {
    TROUPE_DIM_REAL,
    TROUPE_DIM_INTEGER,
    TROUPE_DIM_CHOICE, // Coordinates are 0, 1 .. choices - 1.
} troupe_dim_kind;

// One row that varies, as a searcher or a scheduler sees it. A point has one coordinate for each
// dimension, in the dimension's own unit (not its logarithm); NaN where the dimension does not
// count at that point. A grid's row is a choice.
typedef struct troupe_dim {
    const char *name;
    troupe_dim_kind kind;
    int choices; // Of a choice.
    // A real one: low <= x < high, or with a step low + k * step <= high; an integer: low <= x <=
    // high, low + k * step. A choice: 0 and choices - 1.
    double low, high;
    double step;            // 0: none. Of an integer 1 or more.
    double mean, deviation; // deviation > 0: normal a priori; low and high bound it.
    int parent;             // -1: it always counts. Else it counts where that dimension, which is
    uint32_t when;          // a choice, before it, and counts itself, has one of these bits set.
    bool log;               // Searched in its logarithm; low > 0.
    bool ordered;           // A choice whose neighbours are alike.
    bool grid;              // Of a row of TROUPE_DRAW_GRID.
} troupe_dim;

// A space: rows that were checked once against a type, so that drawing cannot fail. Opaque.
typedef struct troupe_space troupe_space;

// Checks rows for configs of a type and copies them, up to 4,096. `base`: what a config is before
// its rows are filled, copied; NULL: zeros. TROUPE_INVALID names the row, its field and what is
// wrong.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_space_open_as(const troupe_type *config,
                                                                       const troupe_param *rows,
                                                                       size_t count,
                                                                       const void *base,
                                                                       troupe_space **space);
#define troupe_space_open(T, rows, space)                                                          \
    troupe_space_open_as(&troupe_type_##T, (rows), sizeof(rows) / sizeof *(rows), NULL, (space))
// A space without a type, from JSON; its configs are JSON as well. Each member of the object is a
// name and how it is drawn, or else a fixed value:
//     {"rate": {"log_uniform": [1e-4, 1]}, "width": {"integer": [16, 1024], "log": true},
//      "optimizer": {"choice": ["sgd", "adam"]}, "size": {"ordered": [1, 2, 8]},
//      "momentum": {"uniform": [0, 1], "step": 0.1, "when": {"optimizer": ["sgd"]}},
//      "noise": {"normal": [0, 1]}, "layers": {"grid": [1, 2]}, "epochs": 81}
// A normal draw is of [mean, deviation] and may have "low" and "high", and "whole": true; what is
// fixed to an object is {"fixed": {...}}, and a condition may also have one choice and no array.
// "before" of a row that a study's space has not had yet is its value in the trials until then.
// TROUPE_MALFORMED: it is not JSON, and where; TROUPE_INVALID names the member that is wrong.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_space_parse(const char *json,
                                                                     troupe_space **space);
// Frees a space and clears it. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_space_free(troupe_space **space);

// Its dimensions, which live as long as it.
TROUPE_EXPERIMENTAL const troupe_dim *troupe_space_dims(const troupe_space *space, size_t *count);
// Fills a whole config from a point: rows that vary, fixed ones, all else as in the base. Texts,
// references and what else a value points to are the space's. Nothing for a space from JSON.
TROUPE_EXPERIMENTAL void troupe_space_config(const troupe_space *space, const double *x,
                                             void *config);
// The point as a JSON object: rows that count at it, fixed ones included, by their names, which are
// those of the rows ("plan.steps", "weights[2]"); references, actors and tensors are null. It
// belongs to the thread's arena. NULL: no memory.
TROUPE_EXPERIMENTAL const char *troupe_space_json(const troupe_space *space, const double *x);

TROUPE_END_C

#endif
