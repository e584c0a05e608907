// admission.h: in the node process: claims for CPUs, GPUs, memory or licences: which are held, and
// which wait. Called with the node's lock held (node/server.c).
#ifndef TRP_NODE_ADMISSION_H
#define TRP_NODE_ADMISSION_H

#include <runtime/link/frame.h>
#include <runtime/node/resource_ledger.h>
#include <troupe/runtime.h>

// Builds the books from the options of troupe_start. Also in the driver, to check them.
troupe_status trp_admission_books(const troupe_options *options, trp_resources *books);

// Serves a request about claims; true: it was one.
bool trp_admission_serve(const trp_frame *frame);
// A process has ended: what it held is free, what it waited for is wanted no more.
void trp_admission_bury(uint32_t process, uint64_t incarnation);
// Forgets everything, for another start with other options.
void trp_admission_reset(void);
// The node is being stopped: nobody is admitted any more.
void trp_admission_stop(void);
// Ends waits whose time is over, says which have become long; returns in how many ms it should be
// called again, -1: not before something happens.
int trp_admission_tick(void);

#endif
