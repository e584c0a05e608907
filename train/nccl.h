// nccl.h: the functions of NCCL that this library calls, loaded when they are first needed.
//
// The declarations are ours, so that no header of NCCL's is needed to build, and one build works
// with each version from 2.14 on. A test compares them with NCCL's header where that is installed:
// it defines TRP_NCCL_TYPES and the types.
#ifndef TRP_NCCL_H
#define TRP_NCCL_H

#include <runtime/device/cuda.h>
#include <stddef.h>
#include <troupe/tensor.h>

enum { TRP_NCCL_ID_BYTES = 128 };

#ifndef TRP_NCCL_TYPES
typedef int trp_nccl_result;
typedef int trp_nccl_type;
typedef int trp_nccl_reduction;
typedef struct trp_nccl_comm_ *trp_nccl_comm;
typedef struct trp_nccl_id {
    char bytes[TRP_NCCL_ID_BYTES];
} trp_nccl_id;
// As in version 2.14, the first that has it: later ones take it with the defaults for what they
// have added.
typedef struct trp_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} trp_nccl_config;
#endif

enum {
    TRP_NCCL_SYSTEM_ERROR = 2, // ncclSystemError
    TRP_NCCL_REMOTE_ERROR = 6, // ncclRemoteError: another process, or the network.
    TRP_NCCL_IN_PROGRESS = 7,  // ncclInProgress
    TRP_NCCL_SUM = 0,          // ncclSum
    TRP_NCCL_MAX = 2,          // ncclMax
    TRP_NCCL_MIN = 3,          // ncclMin
    TRP_NCCL_MEAN = 4,         // ncclAvg
    TRP_NCCL_BYTE = 1,         // ncclUint8
    TRP_NCCL_CONFIG_VERSION = 21400,
    TRP_NCCL_CONFIG_MAGIC = (int)0xcafebeef,
};

// X(our name, its name, its parameters)
#define TRP_NCCL_FUNCTIONS(X)                                                                      \
    X(version, ncclGetVersion, (int *))                                                            \
    X(id_make, ncclGetUniqueId, (trp_nccl_id *))                                                   \
    X(comm_open, ncclCommInitRankConfig,                                                           \
      (trp_nccl_comm *, int, trp_nccl_id, int, trp_nccl_config *))                                 \
    X(comm_state, ncclCommGetAsyncError, (trp_nccl_comm, trp_nccl_result *))                       \
    X(comm_finalize, ncclCommFinalize, (trp_nccl_comm))                                            \
    X(comm_destroy, ncclCommDestroy, (trp_nccl_comm))                                              \
    X(comm_abort, ncclCommAbort, (trp_nccl_comm))                                                  \
    X(allreduce, ncclAllReduce,                                                                    \
      (const void *, void *, size_t, trp_nccl_type, trp_nccl_reduction, trp_nccl_comm,             \
       trp_cuda_stream))                                                                           \
    X(reduce_scatter, ncclReduceScatter,                                                           \
      (const void *, void *, size_t, trp_nccl_type, trp_nccl_reduction, trp_nccl_comm,             \
       trp_cuda_stream))                                                                           \
    X(all_gather, ncclAllGather,                                                                   \
      (const void *, void *, size_t, trp_nccl_type, trp_nccl_comm, trp_cuda_stream))               \
    X(broadcast, ncclBroadcast,                                                                    \
      (const void *, void *, size_t, trp_nccl_type, int, trp_nccl_comm, trp_cuda_stream))

// X(our name, its name, its parameters): those that return a text.
#define TRP_NCCL_TEXTS(X)                                                                          \
    X(error_text, ncclGetErrorString, (trp_nccl_result))                                           \
    X(last_error, ncclGetLastError, (trp_nccl_comm))

struct trp_nccl {
#define X(field, symbol, parameters) trp_nccl_result(*field) parameters;
    TRP_NCCL_FUNCTIONS(X)
#undef X
#define X(field, symbol, parameters) const char *(*field)parameters;
    TRP_NCCL_TEXTS(X)
#undef X
};
// Filled by trp_nccl_load.
extern struct trp_nccl trp_nccl;

// Loads the library, unless that is done. TROUPE_UNSUPPORTED: there is none, or it is too old.
troupe_status trp_nccl_load(const char *function);

// TROUPE_OK for success, else TROUPE_FAILED with a text of what was called and why it failed.
troupe_status trp_nccl_ended(trp_nccl_result result, trp_nccl_comm comm, const char *function,
                             const char *called);

// NCCL's number of an element type; -1: it does not have it.
int trp_nccl_type_of(troupe_dtype element);

#endif
