// signals.h: what SIGINT and SIGTERM do in a driver that asked for it (.handle_signals): the first
// stops the runtime in order and then ends the process by the same signal; the second ends it now.
#ifndef TRP_HOST_SIGNALS_H
#define TRP_HOST_SIGNALS_H

#include <troupe/status.h>

// Installs the handlers. `stop` stops the runtime, on a thread of the library. A signal that the
// program ignores stays ignored.
troupe_status trp_signals_on(void (*stop)(void), int timeout_ms);
// The runtime is being stopped otherwise: puts back what was there before.
void trp_signals_off(void);
// If a signal has come, waits for it to end the process, so that its end says why. Also called at
// exit.
void trp_signals_end(void);

#endif
