// null_calls.h: calls of public functions with NULL, which may crash.
#ifndef NULL_CALLS_H
#define NULL_CALLS_H

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <support.h>
#include <troupe.h>

TROUPE_STRUCT(pair, (int, left), (int, right));

extern int null_faults;
extern sigjmp_buf null_way_out;
void null_crashed(int number);
void null_note(const char *name); // That it was called.
// The status must be TROUPE_INVALID, and the last error name the argument.
void null_expect(const char *name, troupe_status status, const char *argument);

#define GUARDED(name, argument, ...)                                                               \
    do {                                                                                           \
        (void)signal(SIGSEGV, null_crashed);                                                       \
        null_note(name);                                                                           \
        (void)troupe_fail(TROUPE_STOPPED, "none");                                                 \
        if (sigsetjmp(null_way_out, 1) == 0) {                                                     \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            fprintf(stderr, "%s without '%s' crashes\n", name, argument);                          \
            null_faults++;                                                                         \
        }                                                                                          \
    } while (0)
// A function that returns a status,
#define REFUSED(f, arguments, argument)                                                            \
    GUARDED(#f, argument, null_expect(#f, (f)arguments, argument))
// one that sets the last error,
#define UNABLE(f, arguments, argument)                                                             \
    GUARDED(#f, argument, __typeof__((f)arguments) made = (f)arguments; (void)made;                \
            null_expect(#f, troupe_last_error()->status, argument))
// one whose reference or address says what was wrong,
#define FAILED(f, arguments, argument)                                                             \
    GUARDED(#f, argument, null_expect(#f, outcome((f)arguments), argument))
#define NOBODY(f, arguments, argument)                                                             \
    GUARDED(#f, argument, null_expect(#f, troupe_actor_status((f)arguments), argument))
// and one to which NULL is nothing.
#define SILENT(f, arguments)                                                                       \
    GUARDED(#f, "anything", __typeof__((f)arguments) made = (f)arguments; (void)made)
#define HARMLESS(f, arguments) GUARDED(#f, "anything", (void)(f)arguments)

// Of test_null.tune.c.
void null_spaces(void **state);
void null_studies(void **state);
void null_schedulers(void **state);
void null_results(void **state);
void null_why(void **state);

#endif
