// device.h: memory of CUDA devices: tensors there, copies between it and memory of the host, and
// streams. CUDA's driver library is loaded when the first of these functions is called, so that a
// program runs without one; each then returns TROUPE_UNSUPPORTED and says what is missing.
//
//     troupe_tensor here = troupe_tensor_of(TROUPE_FLOAT32, numbers, 1000, 64), there;
//     TROUPE_TRY(troupe_device_tensor_create(&here, &there));      // on this thread's device
//     TROUPE_TRY(troupe_device_copy(&there, &here, NULL));         // to the device
//     ...                                                          // CUDA code computes with it
//     TROUPE_TRY(troupe_device_copy(&here, &there, NULL));         // and back
//     troupe_device_tensor_free(&there);
//
// Addresses are CUDA's own: the program's kernels, cuBLAS and the like take them, and what
// cudaMalloc gave can be given to these functions and to collectives. A rank of a run with
// .gpus_per_rank sees its own GPUs alone (CUDA_VISIBLE_DEVICES), device 0 being the first of them.
//
// Each thread has a device: the one that it chose, by troupe_device_use or by cudaSetDevice, else
// device 0. All functions may be called from any thread. A process that was forked (without exec)
// from one that had used CUDA cannot use it: CUDA does not allow that.
//
// Statuses of all: TROUPE_UNSUPPORTED (no driver library, no driver, no device), TROUPE_NO_MEMORY
// (the device has not as much left), TROUPE_FAILED (CUDA says so). The text has the function, and
// CUDA's name and text of the error. CUDA tells some errors of earlier work, such as a kernel that
// read where nothing is, by a later call; after those it refuses all calls of the process.
#ifndef TROUPE_DEVICE_H
#define TROUPE_DEVICE_H

#include <troupe/tensor.h>

TROUPE_BEGIN_C

// How many devices this process sees, at least 1.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_device_count(int *count);

// Makes a device this thread's, from 0 on. TROUPE_INVALID: there is none of that number. Ranks that
// share a process (.ranks_per_process) see the GPUs of all of them, in their order, and choose at
// the beginning of each hook.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_device_use(int device);

typedef struct troupe_device_info {
    int device; // This thread's.
    char name[96];
    size_t memory_bytes, free_bytes; // Of its memory, and what nobody has taken of it.
} troupe_device_info;

// Tells of this thread's device; `size` is sizeof *info.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_device_info_get(troupe_device_info *info,
                                                                         size_t size);

// Whether the address is one of a device's memory. False for NULL, for memory of the host, and
// where CUDA is not used.
TROUPE_EXPERIMENTAL bool troupe_device_has(const void *memory);

// Memory of this thread's device, undefined at first, aligned to 256 bytes; NULL for no bytes. The
// second frees it, also from another thread, waits for what the device does with it, and clears
// *memory; harmless on NULL.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_device_alloc(size_t size, void **memory);
TROUPE_EXPERIMENTAL void troupe_device_free(void **memory);

// Memory of the host that devices reach by themselves: copies from and to it are the fastest, and
// those on a stream go on while the caller does. It takes memory away from everybody else, so it is
// for buffers that are used again and again.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_device_host_alloc(size_t size,
                                                                           void **memory);
TROUPE_EXPERIMENTAL void troupe_device_host_free(void **memory);

// A tensor on this thread's device with the type and shape of `like`, whose data is ignored. Its
// elements are undefined; `data` is an address of the device, which the program cannot read.
// TROUPE_INVALID as troupe_tensor_check. The second frees the elements and clears the tensor;
// harmless on NULL and on zeros.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_device_tensor_create(const troupe_tensor *like, troupe_tensor *tensor);
TROUPE_EXPERIMENTAL void troupe_device_tensor_free(troupe_tensor *tensor);

// An order of work on this thread's device: what is put on a stream is done in the order in which
// it was put there. CUDA's default stream waits for what is on others, and they for it.
typedef struct troupe_device_stream troupe_device_stream;

TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_device_stream_open(troupe_device_stream **stream);
// Waits until all that was put on it is done. TROUPE_TIMED_OUT: it is not yet.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_device_stream_wait(troupe_device_stream *stream, int timeout_ms);
// The stream as CUDA's functions take it: a cudaStream_t, which is a CUstream. NULL for NULL.
TROUPE_EXPERIMENTAL void *troupe_device_stream_handle(const troupe_device_stream *stream);
// Does not wait: what is on it is still done. Clears *stream; harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_device_stream_close(troupe_device_stream **stream);

// Copies the elements of one tensor to another, each on a device or in memory of the host, which is
// seen by the addresses. With `stream` NULL it returns when that is done, after what was put on the
// default stream; else it is put on the stream, and both must stay until that has been waited for.
// TROUPE_WRONG_TYPE: they differ in type or shape.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_device_copy(const troupe_tensor *to,
                                                                     const troupe_tensor *from,
                                                                     troupe_device_stream *stream);
// The same for `size` bytes.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_device_copy_bytes(void *to, const void *from, size_t size, troupe_device_stream *stream);

TROUPE_END_C

#endif
