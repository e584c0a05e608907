// gradients.h: what of troupe/gradients.h ends with a loop.
#ifndef TRP_GRADIENTS_H
#define TRP_GRADIENTS_H

#include <train/control.h>
#include <troupe/gradients.h>

// Frees all that the rank's loop has opened, when nothing that was started goes on.
void trp_gradients_end(trp_member *member);

#endif
