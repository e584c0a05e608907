// cuda.h: the functions of CUDA's driver library that this one calls, loaded when they are first
// needed, so that a program runs where there is none.
//
// The driver's library comes with the driver, has had one name since it exists, and shares its
// contexts with each CUDA runtime in the process: memory, streams and devices of a program's own
// CUDA code can be given to these functions and the other way round.
//
// The declarations are ours, so that no header of CUDA's is needed to build. A test compares each
// with those of CUDA where they are installed: it defines TRP_CUDA_TYPES and the types.
#ifndef TRP_DEVICE_CUDA_H
#define TRP_DEVICE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

#ifndef TRP_CUDA_TYPES
typedef int trp_cuda_result;
typedef int trp_cuda_device;
typedef int trp_cuda_attribute;
typedef unsigned long long trp_cuda_address;
typedef struct trp_cuda_context_ *trp_cuda_context;
typedef struct trp_cuda_stream_ *trp_cuda_stream;
#endif

enum {
    TRP_CUDA_OUT_OF_MEMORY = 2,   // CUDA_ERROR_OUT_OF_MEMORY
    TRP_CUDA_NOT_INITIALIZED = 3, // CUDA_ERROR_NOT_INITIALIZED
    TRP_CUDA_NO_DEVICE = 100,     // CUDA_ERROR_NO_DEVICE
    TRP_CUDA_NOT_READY = 600,     // CUDA_ERROR_NOT_READY
    TRP_CUDA_MEMORY_TYPE = 2,     // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    TRP_CUDA_DEVICE_ORDINAL = 9,  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    TRP_CUDA_MEMORY_DEVICE = 2,   // CU_MEMORYTYPE_DEVICE
    TRP_CUDA_HOST_PORTABLE = 1,   // CU_MEMHOSTALLOC_PORTABLE
    TRP_CUDA_STREAM_DEFAULT = 0,  // CU_STREAM_DEFAULT
};

// X(our name, its name, its parameters)
#define TRP_CUDA_FUNCTIONS(X)                                                                      \
    X(init, cuInit, (unsigned))                                                                    \
    X(error_name, cuGetErrorName, (trp_cuda_result, const char **))                                \
    X(error_text, cuGetErrorString, (trp_cuda_result, const char **))                              \
    X(device_count, cuDeviceGetCount, (int *))                                                     \
    X(device_get, cuDeviceGet, (trp_cuda_device *, int))                                           \
    X(device_name, cuDeviceGetName, (char *, int, trp_cuda_device))                                \
    X(context_retain, cuDevicePrimaryCtxRetain, (trp_cuda_context *, trp_cuda_device))             \
    X(context_set, cuCtxSetCurrent, (trp_cuda_context))                                            \
    X(context_get, cuCtxGetCurrent, (trp_cuda_context *))                                          \
    X(context_device, cuCtxGetDevice, (trp_cuda_device *))                                         \
    X(memory_info, cuMemGetInfo_v2, (size_t *, size_t *))                                          \
    X(alloc, cuMemAlloc_v2, (trp_cuda_address *, size_t))                                          \
    X(free, cuMemFree_v2, (trp_cuda_address))                                                      \
    X(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))                                     \
    X(host_free, cuMemFreeHost, (void *))                                                          \
    X(pointer_get, cuPointerGetAttribute, (void *, trp_cuda_attribute, trp_cuda_address))          \
    X(copy_async, cuMemcpyAsync, (trp_cuda_address, trp_cuda_address, size_t, trp_cuda_stream))    \
    X(stream_create, cuStreamCreate, (trp_cuda_stream *, unsigned))                                \
    X(stream_query, cuStreamQuery, (trp_cuda_stream))                                              \
    X(stream_synchronize, cuStreamSynchronize, (trp_cuda_stream))                                  \
    X(stream_destroy, cuStreamDestroy_v2, (trp_cuda_stream))

struct trp_cuda {
#define X(field, symbol, parameters) trp_cuda_result(*field) parameters;
    TRP_CUDA_FUNCTIONS(X)
#undef X
};
// Filled by trp_cuda_bind.
extern struct trp_cuda trp_cuda;

// Loads the library, unless that is done, and sees that the calling thread has a device: the one
// that it has chosen, with CUDA's functions or ours, else device 0. TROUPE_UNSUPPORTED: there is no
// library, no driver or no device; the text says which.
troupe_status trp_cuda_bind(const char *function);
// The same with that device.
troupe_status trp_cuda_bind_to(const char *function, int device);

// TROUPE_OK for 0, else the status of what CUDA returned, with a text of the function, of what it
// did, and CUDA's name and text.
troupe_status trp_cuda_ended(trp_cuda_result result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Whether the address is one of a device's memory (managed memory is where it lies). False without
// a look in a process that can have none: it has not used CUDA through this library, and
// CUDA_VISIBLE_DEVICES, which each rank that was given GPUs has, gives it no device.
bool trp_cuda_holds(const void *memory);

// The device whose memory it is; TROUPE_INVALID where it is none's.
troupe_status trp_cuda_device_of(const char *function, const void *memory, int *device);

// Waits until all that was put on the stream is done: TROUPE_TIMED_OUT, or what went wrong on it.
// Negative: for ever.
troupe_status trp_cuda_stream_wait(const char *function, trp_cuda_stream stream, int timeout_ms);
// The pause before a thread looks again at what a device does: none for the first 100 us, then
// longer ones up to 1 ms. `since_ns`: of trp_clock_ns, when it began to look.
void trp_cuda_pause(int64_t since_ns);

#endif
