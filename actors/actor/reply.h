// reply.h: answers to callers: a value or a failure, in this process or by a frame.
#ifndef TRP_ACTOR_REPLY_H
#define TRP_ACTOR_REPLY_H

#include <actors/actor/message.h>
#include <actors/ref/call_table.h>
#include <troupe/status.h>

// Each answers the caller, if there is one; the message stays the
// caller's. A failure of the actor with that id; 0: the failure says itself where it happened.
void trp_message_fail(trp_message *message, const troupe_error *failure, uint64_t actor);
// Sends a frame with a value to the process that a message came from. NOT_EXECUTED: it is dead.
troupe_status trp_value_send(const trp_remote *remote, trp_frame *frame, const trp_shape *shape,
                             const void *value);
// A value, whose references are given away.
void trp_message_answer(trp_message *message, const trp_shape *shape, void *value, uint64_t actor);

// Sends a failure as the answer to a call of another process.
void trp_reply_failure(uint32_t process, uint64_t incarnation, uint64_t call,
                       const troupe_error *failure);
// Writes down whom the call was for, where what failed has no other place.
void trp_failure_target(troupe_error *failure, const trp_target *target);

#endif
