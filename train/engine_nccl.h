// engine_nccl.h: collectives over memory of GPUs, by NCCL.
//
// It is beside the group's own engine, by which ranks agree on each operation before any of them
// calls NCCL: so ranks that differ, are late or are lost are found and named as they are for memory
// of the host, and NCCL is only given what all ranks have come for.
#ifndef TRP_ENGINE_NCCL_H
#define TRP_ENGINE_NCCL_H

#include <train/engine.h>

// Its `memory` is unused. Opening it is cheap: NCCL is loaded, and the ranks' communicator made, by
// the first operation.
extern const trp_engine trp_engine_nccl;

#endif
