// side_thread.h: threads for methods that run beside their actors.
#ifndef TRP_ASYNC_SIDE_THREAD_H
#define TRP_ASYNC_SIDE_THREAD_H

#include <actors/async/concurrency_group.h>

// Runs trp_beside_run on a thread of its own. False: too many wait already.
bool trp_helper_push(trp_message *message, bool always);

// Takes no more; waits so long for what runs. What was not begun is refused.
void trp_helpers_start(void);
void trp_helpers_stop(int64_t until_ns);

#endif
