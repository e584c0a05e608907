// status.h: statuses and errors, for all functions of the library.
//
// A function that can fail at once returns a troupe_status and sets its outputs only on success. An
// operation that runs elsewhere returns a handle or a reference; troupe_get returns its failure.
// Either way troupe_last_error() has the error text.
#ifndef TROUPE_STATUS_H
#define TROUPE_STATUS_H

#include <stdint.h>

#include <troupe/export.h>

TROUPE_BEGIN_C

// clang-format off
#define TROUPE_STATUS_MAP(X)                                                                       \
    X(OK, "success")                                                                               \
    X(STOPPED, "stopped by request")                                                               \
    X(TIMED_OUT, "the wait's time-out passed; what was waited for is not lost")                     \
    X(INVALID, "invalid argument")                                                                 \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(DEADLINE_EXCEEDED, "the operation's deadline passed")                                         \
    X(CANCELLED, "cancelled")                                                                      \
    X(NOT_EXECUTED, "the call was not executed; it is safe to send it again")                      \
    X(MAYBE_EXECUTED, "the call was sent and its target is lost; it may have been executed")       \
    X(FAILED, "the method failed")                                                                 \
    X(BUSY, "a queue is full")                                                                     \
    X(DEADLOCK, "only the caller itself could end this wait")                                      \
    X(NOT_FOUND, "no such name")                                                                   \
    X(EXISTS, "the name is taken")                                                                 \
    X(WRONG_TYPE, "the value has another type")                                                    \
    X(MALFORMED, "the data is not in the expected format")                                         \
    X(TOO_LARGE, "larger than a limit allows")                                                     \
    X(VERSION, "made for another version")                                                         \
    X(CORRUPT, "stored data is damaged")                                                           \
    X(NO_SPACE, "no space left on the storage")                                                    \
    X(IO, "reading or writing failed")                                                             \
    X(UNSUPPORTED, "not supported here")                                                           \
    X(NOT_STARTED, "the runtime is not running in this process")                                   \
    X(PEER_LOST, "another member of the group is lost")                                            \
    X(RUNTIME_LOST, "a process that the runtime needs has died")                                   \
    X(END, "there are no more values")
// clang-format on

// A deadline belongs to an operation (a call, a spawn, a run) and ends it, as
// TROUPE_DEADLINE_EXCEEDED. A time-out belongs to a wait and ends nothing but that wait, as
// TROUPE_TIMED_OUT: the reference, the stream, the queue's values, whatever was waited for, is
// there as before. No call fails as TROUPE_TIMED_OUT, so troupe_get returns it only for its own
// wait.
typedef enum troupe_status {
#define X(name, text) TROUPE_##name,
    TROUPE_STATUS_MAP(X)
#undef X
        TROUPE_STATUS_COUNT
} troupe_status;

// A pointer to an options struct S, or another struct that begins with its size, filled in place;
// it lives as long as the block it stands in:
//     troupe_pool_open(clerk, &pool, .spawn = TROUPE_OPTIONS(troupe_spawn_options, .cpus = 1));
// Fields that are not named are 0, which is the default. The size tells the library which fields
// the program was compiled with; a struct whose size is 0 is refused with TROUPE_INVALID.
#define TROUPE_OPTIONS(S, ...) (&(S){.size = sizeof(S), __VA_ARGS__})

// Special values of numeric options and parameters. In options 0 is the default.
enum {
    TROUPE_FOREVER = -1, // No limit: waits without a time-out, restarts always.
    TROUPE_NONE = -2,    // Explicitly none, where 0 would be the default.
    TROUPE_POLL = 0,     // As `timeout_ms`: does not wait.
};

// How a call ended: exactly one of these (see docs/guarantees.md). With
// TROUPE_OUTCOME_DEADLINE_EXCEEDED and _CANCELLED, troupe_error.executed says whether it may have
// run.
typedef enum troupe_outcome {
    TROUPE_OUTCOME_NONE, // The error is not the end of a call.
    TROUPE_OUTCOME_VALUE,
    TROUPE_OUTCOME_FAILED,
    TROUPE_OUTCOME_NOT_EXECUTED,
    TROUPE_OUTCOME_MAYBE_EXECUTED,
    TROUPE_OUTCOME_DEADLINE_EXCEEDED,
    TROUPE_OUTCOME_CANCELLED,
} troupe_outcome;

typedef enum troupe_executed {
    TROUPE_EXECUTED_NO,
    TROUPE_EXECUTED_MAYBE,
    TROUPE_EXECUTED_YES
} troupe_executed;

// The most recent failure of a thread.
typedef struct troupe_error {
    troupe_status status;
    troupe_outcome outcome;
    troupe_executed executed;
    // The error text: what was wrong, what was expected, where. It and the texts below can be
    // printed anywhere: control characters are shown as "\n", "\x1b" and the like.
    char text[512];
    char actor[64]; // "class#id" or "class 'name'" of the actor where it happened; empty if none.
    int process;    // Process id of that actor's process; 0 if none.
    char node[64];  // Host name of that actor's node; empty if none.
} troupe_error;

// The general meaning of a status: a static string, never NULL, also for a number out of range.
TROUPE_API const char *troupe_strerror(troupe_status status);

// The name of a status as it is written in C ("TROUPE_INVALID"): a static string, never NULL.
TROUPE_API const char *troupe_status_name(troupe_status status);

// The last failure on this thread; never NULL. The memory belongs to the thread and is overwritten
// by its next failure. A call that succeeds keeps or clears it, and never leaves a failure there
// that it has recovered from.
TROUPE_API const troupe_error *troupe_last_error(void);

// Sets the thread's last error to `status` and a printf-formatted error text, and returns `status`.
// A method ends with `return troupe_fail(TROUPE_INVALID, "rate is %g, must be positive", rate);`
// and its caller gets that status and text; but TROUPE_NOT_EXECUTED, _MAYBE_EXECUTED and _TIMED_OUT
// reach it as TROUPE_FAILED with their name in the text, since the method has run. The text is cut
// at 511 bytes. A failure is never TROUPE_OK: if `status` is that, TROUPE_FAILED is returned.
TROUPE_API troupe_status troupe_fail(troupe_status status, const char *format, ...)
    TROUPE_PRINTF(2, 3);

// Tells compilers that troupe_fail never returns TROUPE_OK; they then know which outputs are set.
TROUPE_UNUSED static inline troupe_status troupe_failed_(troupe_status status)
{
    return status == TROUPE_OK ? TROUPE_FAILED : status;
}
#define troupe_fail(...) troupe_failed_(troupe_fail(__VA_ARGS__))

// Prints the failure with file, line and the beginning of the expression to stderr and ends the
// process with EXIT_FAILURE (in a worker process: that worker) unless `status` is TROUPE_OK. For
// examples, tests and small programs.
TROUPE_API void troupe_must_at(troupe_status status, const char *expression, const char *file,
                               int line);
#define troupe_must(expression) troupe_must_at((expression), #expression, __FILE__, __LINE__)

// Returns from the enclosing function with the status of `expression` unless it is TROUPE_OK.
#define TROUPE_TRY(expression)                                                                     \
    do {                                                                                           \
        troupe_status troupe_try_ = (expression);                                                  \
        if (troupe_try_ != TROUPE_OK)                                                              \
            return troupe_try_;                                                                    \
    } while (0)

TROUPE_END_C

#endif
