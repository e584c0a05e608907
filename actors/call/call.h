// call.h: sending calls, for code that keeps a row of the call table and sends its call later, or
// again.
#ifndef TRP_CALL_H
#define TRP_CALL_H

#include <actors/ref/call_table.h>

// Sends a class's first method as the call of a row that is pending; a failure to send ends the
// row. Nothing happens if the row has ended. `deadline_ns` 0: none.
void trp_call_send(uint64_t row, troupe_actor to, const trp_class *class_, const void *args,
                   int64_t deadline_ns);

// Calls a streaming method: the stream is told of the row before the call is sent.
struct trp_stream;
troupe_ref trp_call_stream(troupe_actor actor, const troupe_class *class_, size_t method,
                           const void *args, uint32_t window, struct trp_stream *stream);

// The same for any method.
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
// (kill.c) Kills an actor, as troupe_actor_kill; `give_up` as trp_kill_here. An answer
// of another process is waited for at most `limit_ms`.
troupe_status trp_kill_actor(troupe_actor actor, bool give_up, int limit_ms);
// (kill.c) The same without waiting for anything, and of an actor that was never started again.
void trp_kill_untold(troupe_actor actor);

// (call/tell_fast.c) Most tells: of a plain method, without options, to an actor of this process
// that has room. False: nothing has happened, and the general way does it or says why not.
bool trp_tell_at_once(const troupe_actor *to, const troupe_class *row, size_t method,
                      const void *args);

// (async/ask.c) Waits for the answer to a call of the library's own, at most `limit_ms`. TROUPE_OK:
// troupe_get is next. TROUPE_DEADLINE_EXCEEDED, TROUPE_BUSY: `late` is called when the call has
// ended, as by trp_ref_when: it must take or drop the reference. The call is not cancelled then,
// since a value that its method is just giving would be lost. Without `late` it is cancelled and
// dropped. `what` is who was asked, in the sentence.
troupe_status trp_ask_within(troupe_ref ref, const char *what, int limit_ms,
                             void (*late)(void *user, troupe_ref ref), void *user);

// As trp_ask_within, 1 s longer than the actor was told to wait, where that is not for ever
// (`timeout_ms` negative).
troupe_status trp_ask_await(troupe_ref ref, const char *what, int timeout_ms,
                            void (*late)(void *user, troupe_ref ref), void *user);

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
