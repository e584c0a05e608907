// worker_start.h: waiting until a worker process that the node process has ordered is ready.
#ifndef TRP_NODE_WORKER_START_H
#define TRP_NODE_WORKER_START_H

#include <stdint.h>
#include <troupe/runtime.h>
#include <troupe/status.h>

// How long a program that was executed is given to reach troupe_start. Tests make it shorter.
extern int trp_worker_ready_ms;

// Waits until it is ready, or a monotonic time (0: none). TROUPE_DEADLINE_EXCEEDED: not until then,
// or the keeper has not made it within .request_timeout_ms, or it is stopped; TROUPE_IO: it ended,
// or did not reach troupe_start; TROUPE_NOT_STARTED: the runtime was stopped meanwhile.
troupe_status trp_worker_await(uint32_t slot, uint64_t incarnation, int64_t until_ns);

// For TROUPE_LAUNCH_AUTO: forked, unless the program has other threads than the calling one, which
// a fork would not have; then a warning says so, once.
troupe_launch trp_launch_choose(void);

#endif
