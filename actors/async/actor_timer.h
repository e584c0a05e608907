// actor_timer.h: timers of actors.
#ifndef TRP_ASYNC_ACTOR_TIMER_H
#define TRP_ASYNC_ACTOR_TIMER_H

#include <actors/async/async.h>

// Whether a message that has come out of the mailbox is still to be run.
bool trp_alarm_taken(const trp_message *message);
void trp_alarms_end(trp_async *async);

#endif
