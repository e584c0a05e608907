// call.h: sending calls, for code that keeps a row of the call table and sends its call later, or
// again.
#ifndef TRP_CALL_H
#define TRP_CALL_H

#include <actors/ref/call_table.h>

// Sends a class's first method as the call of a row that is pending; a failure to send ends the
// row. Nothing happens if the row has ended. `deadline_ns` 0: none.
void trp_call_send(uint64_t row, troupe_actor to, const trp_class *class_, const void *args,
                   int64_t deadline_ns);

// The same for any method of a class.
void trp_call_send_method(uint64_t row, troupe_actor to, const trp_class *class_, size_t method,
                          const void *args, int64_t deadline_ns);

// Whether calls to this address may say that their deadline kills: it must be one, and the actor
// have a process of its own. TROUPE_INVALID, TROUPE_UNSUPPORTED.
troupe_status trp_call_check_force(troupe_actor to, int64_t deadline_ns);
// Whether something can be sent there: TROUPE_OK, with an address of another node made one of this
// node's; else why not.
troupe_status trp_call_check_address(troupe_actor *to);
// Whether the actor may have been started again somewhere else: the driver knows where.
bool trp_call_may_have_moved(troupe_actor actor);

// Whether the address says that its calls may be sent again when the actor has died.
static inline bool trp_repeat_wanted(troupe_actor actor)
{
    return (actor.flags >> TROUPE_CALL_RETRIES_SHIFT & TROUPE_CALL_RETRIES_MAX) != 0;
}
// Makes such a call: trp_repeat_call (restart/retry.h), set before main.
extern troupe_ref (*trp_call_again)(troupe_actor actor, const trp_class *class_, size_t method,
                                    const void *args);

// A reference that fails with the thread's last error.
troupe_ref trp_call_failed(troupe_status status);

#endif
