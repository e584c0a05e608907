// engine_shm.h: collectives over memory that all ranks of a machine share.
#ifndef TRP_ENGINE_SHM_H
#define TRP_ENGINE_SHM_H

#include <train/engine.h>

enum { TRP_SHM_SLOT = 256 * 1024 }; // Bytes of one staging slot; a rank has two.

extern const trp_engine trp_engine_shm;

#endif
