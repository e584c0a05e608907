// error.h: the thread's last error, for the layers inside (status.h is the user's view).
#ifndef TRP_BASE_ERROR_H
#define TRP_BASE_ERROR_H

#include <troupe/status.h>

// Replaces the thread's last error by a whole record and returns its status.
troupe_status trp_error_set(const troupe_error *error);
// The thread's last error becomes "none" (TROUPE_OK and no sentence).
void trp_error_forget(void);
// Sets the thread's last error aside, and brings it back: around work for others whose failures its
// user must not see.
void trp_error_hold(troupe_error *kept);
void trp_error_restore(const troupe_error *kept);
// Of work whose parts may have failed before the whole succeeded: what they left is forgotten then.
static inline troupe_status trp_error_settled(troupe_status status)
{
    if (status == TROUPE_OK)
        trp_error_forget();
    return status;
}
// Puts "context: " in front of the last error's sentence and returns its status.
troupe_status trp_error_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));
// troupe_fail with ": strerror(errno)" added; ENOSPC and EDQUOT become TROUPE_NO_SPACE whatever
// `status`.
troupe_status trp_fail_errno(troupe_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// As troupe_fail's: what compilers then know.
#define trp_error_prefix(...) troupe_failed_(trp_error_prefix(__VA_ARGS__))
#define trp_fail_errno(...) troupe_failed_(trp_fail_errno(__VA_ARGS__))

// How troupe_must ends the process; exit unless set. A worker process sets a function that skips
// what its parent registered with atexit. It must not return.
typedef void (*trp_leave_function)(int status);
void trp_leave_set(trp_leave_function leave);

#endif
