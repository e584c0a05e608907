// at_stop.h: what higher layers have in the driver beyond the runtime, and end with it.
#ifndef TRP_NODE_AT_STOP_H
#define TRP_NODE_AT_STOP_H

// Has `end` called whenever the runtime has been stopped, by the thread that stopped it. At most 4
// functions; to add one again is harmless. It must not start or stop the runtime.
void trp_at_stop(void (*end)(void));
// Calls them.
void trp_at_stop_run(void);

#endif
