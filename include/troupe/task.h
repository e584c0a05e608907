// task.h: stateless functions that run on the pool of workers.
//
// A task is a plain C function of one argument and one result, testable without any runtime:
//
//     static troupe_status square(const int64_t *x, int64_t *result);
//     TROUPE_TASK(square, int64_t, int64_t);
//
//     troupe_ref answer = troupe_run(square, 12);       // runs in one of the workers
//     int64_t value;
//     troupe_must(troupe_get(int64_t, answer, &value));
//
// A task runs in the worker with the fewest unfinished tasks of this process, concurrently with
// other tasks, and in no order. Arguments and results travel as those of calls do; references in
// the arguments arrive as references. A task may run tasks and wait for them: another one uses its
// thread meanwhile. Tasks of a worker that dies are run again elsewhere (.retries says how often),
// so the side effects of a task may happen twice; a task that returned an error is run again only
// with .retry_errors. Each reference ends exactly once, as that of a call does.
#ifndef TROUPE_TASK_H
#define TROUPE_TASK_H

#include <troupe/actor.h>

TROUPE_BEGIN_C

typedef struct troupe_run_options {
    size_t size;
    // How often it is run again after its worker died: default 3; TROUPE_NONE: never;
    // TROUPE_FOREVER: until it succeeds or its deadline passes.
    int retries;
    // A failure that the function returned is retried too.
    bool retry_errors;
    // It ends as TROUPE_DEADLINE_EXCEEDED if there is no result within this time, all attempts
    // together; 0: no deadline.
    uint32_t deadline_ms;
    // TROUPE_PLACE_ANY: a worker of the pool, or this process if there is none. ISOLATED: a process
    // made for this task, which ends with it; the caller then waits until that process has started.
    troupe_place place;
    uint32_t flags; // TROUPE_CALL_NO_WAIT: TROUPE_BUSY at once where the caller would wait.
    int unused_;
    // What the task holds of its node's resources (troupe_start, resources.h) while its function
    // runs, in each attempt; default: nothing. The task waits for them, within its deadline, not
    // troupe_run; troupe_resources_get shows what it waits for. They are released when the function
    // has returned (even if its result is not waited for any more) or its process has died.
    // TROUPE_TOO_LARGE: the node has less in all. A task keeps what it holds while it waits: tasks
    // that wait for other tasks must leave them enough. Amounts are exact to 0.0001.
    double cpus;
    // A task with GPUs is ISOLATED, and its process has CUDA_VISIBLE_DEVICES set to the GPUs that
    // it was given before any code runs there. Above 1 a whole number.
    double gpus;
    size_t memory_bytes;
    const char *resources; // "license=1,accelerator=0.5". Copied.
} troupe_run_options;

// Starts a task; `args` is copied before it returns. A process has at most 4096 unfinished tasks:
// beyond that the caller waits (in a method at most 10 s, then the reference ends as TROUPE_BUSY).
// A task that would have to wait runs the function itself, before this returns; so does one in a
// process where very many tasks wait for others.
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_run_as(const troupe_class *task, const void *args,
                                                    const troupe_run_options *how);

// Registers a task under its name, as troupe_class_register does for classes. TROUPE_TASK does it
// before main.
TROUPE_API troupe_status troupe_task_register(const troupe_class *task);

// State of a running task. For TROUPE_TASK alone.
typedef struct troupe_executor_ {
    void *actor, *next, *before;
    uint64_t call, incarnation;
    uint32_t rests; // 0 or 1.
} troupe_executor_;

// clang-format off
// TROUPE_TASK(f, args, result): makes a task of `troupe_status f(const args *, result *)`. A header
// shared by several files may contain it if f is not static. Tasks and classes share one namespace.
#define TROUPE_TASK(f, A, R)                                                                       \
    typedef A troupe_task_args_##f;                                                                \
    static troupe_status troupe_task_run_##f(void *troupe_self_, const void *troupe_args_,         \
                                             void *troupe_result_)                                 \
    {                                                                                              \
        (void)troupe_self_;                                                                    \
        return f((const A *)troupe_args_, (R *)troupe_result_);                                    \
    }                                                                                              \
    static const troupe_method troupe_task_method_##f = {                                          \
        .name = #f, .run = troupe_task_run_##f, .args = &troupe_type_##A,                          \
        .result = &troupe_type_##R};                                                               \
    static const troupe_class troupe_task_##f = {                                                  \
        TROUPE_ABI, #f, sizeof(troupe_executor_), &troupe_task_method_##f, 1,                      \
        &troupe_type_troupe_none, NULL, NULL, {NULL}};                                                     \
    __attribute__((constructor)) static void troupe_task_register_##f(void)                        \
    {                                                                                              \
        (void)troupe_task_register(&troupe_task_##f);                                              \
    }                                                                                              \
    _Static_assert(sizeof(troupe_task_args_##f) > 0, #f)
// clang-format on

// troupe_run(f, argument...): the arguments initialise one value of the task's argument type.
#define troupe_run(...) TROUPE_RUN_(__VA_ARGS__, )
#define TROUPE_RUN_(f, ...)                                                                        \
    troupe_run_as(&troupe_task_##f, __extension__ &(troupe_task_args_##f){__VA_ARGS__}, NULL)

// troupe_run_from(f, &args, .retries = 5, .deadline_ms = 100): `args` is a named variable.
#define troupe_run_from(...) TROUPE_RUN_FROM_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_RUN_FROM_(f, args, ...)                                                             \
    troupe_run_as(&troupe_task_##f, TROUPE_POINTER(const troupe_task_args_##f, args),              \
                  &(troupe_run_options){.size = sizeof(troupe_run_options), __VA_ARGS__})

TROUPE_END_C

#endif
