// directory.h: in the node process: the directory of names. With the node process's lock held.
#ifndef TRP_NODE_DIRECTORY_H
#define TRP_NODE_DIRECTORY_H

#include <runtime/link/frame.h>

// Serves a request about a name.
void trp_names_serve(const trp_frame *frame);
// Drops the names of a process.
void trp_names_bury(uint32_t slot, uint64_t incarnation);
void trp_names_clear(void);

#endif
