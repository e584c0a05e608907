// descriptors.h: the descriptors of a process: how many there may be, and those that must be there.
#ifndef TRP_NODE_DESCRIPTORS_H
#define TRP_NODE_DESCRIPTORS_H

#include <stdint.h>
#include <troupe/status.h>

// Raises the limit of descriptors as far as the system allows, and finds how many workers fit in:
// a process may talk with every other of its node, and libzmq aborts where there are too few.
troupe_status trp_descriptors_plan(uint32_t *workers_max);
// Opens what is closed of descriptors 0 to 2: else whoever prints would write to a socket.
void trp_descriptors_hold_standard(void);
// A pidfd of this process, by which others see its end. TROUPE_UNSUPPORTED: the system has none.
troupe_status trp_descriptor_of_self(int *pidfd);

#endif
