// call_error.h: how a call failed, as a record: making, packing and reading one.
#ifndef TRP_CLASS_CALL_ERROR_H
#define TRP_CLASS_CALL_ERROR_H

#include <runtime/base/buffer.h>
#include <runtime/node/options.h>
#include <stddef.h>
#include <string.h>
#include <troupe/status.h>

// A record with a sentence of its own.
troupe_error trp_failure(troupe_status status, troupe_outcome outcome, troupe_executed executed,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
// A record with the thread's last error as its sentence, or the general one of `status` if the last
// error is another's. A call never fails as TROUPE_TIMED_OUT, which is the end of a wait: what
// could not be had in time makes it TROUPE_DEADLINE_EXCEEDED.
troupe_error trp_failure_last(troupe_status status, troupe_outcome outcome,
                              troupe_executed executed);
// Whether a status says something of one call or wait alone: NOT_EXECUTED, MAYBE_EXECUTED,
// TIMED_OUT. Where a method hands one on, of a call or wait of its own, it is no answer: its own
// call has run, and its caller waits no more.
static inline bool trp_failure_is_fate(troupe_status status)
{
    return status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED ||
           status == TROUPE_TIMED_OUT;
}
// The failure of a call whose earlier attempt may have been executed: it does not say that it was
// not.
void trp_failure_tried(troupe_error *failure);
// The thread's last error becomes "none", so that a later one is known to be newer.
void trp_failure_forget(void);

// Appends the record, packed.
void trp_failure_write(const troupe_error *failure, trp_buffer *out);
// Reads a packed record that fills `data`; what is no such record becomes one that says so.
void trp_failure_read(const void *data, size_t size, troupe_error *failure);

#endif
