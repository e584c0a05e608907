// collective.h: what all ranks of a group do together: sums and other reductions, exchanges of
// arrays, meeting. Part of train.h; called inside a loop.
//
//     TROUPE_TRY(troupe_allreduce(me, gradient, n, TROUPE_SUM));
//
// All ranks call the same operations in the same order with the same arguments, but for the
// addresses. Where they differ, all that differ get TROUPE_INVALID with both, and the group stays
// usable. If a rank dies, has no memory for its part (which is TROUPE_NO_MEMORY there), or does not
// call within the run's .collective_timeout_ms, the operation ends on every rank as
// TROUPE_PEER_LOST with that rank's number. Results have the same bits on every rank, and for a
// number of ranks always the same.
//
// Arrays may lie in memory of GPUs (troupe/device.h), then on all ranks and all of a rank's on one
// device: NCCL, which each rank loads for its first such operation, reduces and sends them where
// they are. TROUPE_UNSUPPORTED: there is no NCCL, or it does not have the operation, which is so
// for integers of 16 bits and for means of integers. Values are combined in an order of NCCL's own.
// What was put on CUDA's default stream is done before; what is on other streams, the caller waits
// for first.
#ifndef TROUPE_COLLECTIVE_H
#define TROUPE_COLLECTIVE_H

#include <troupe/train.h>

TROUPE_BEGIN_C

typedef enum troupe_reduction {
    TROUPE_SUM, // Of integers: wraps around.
    TROUPE_MEAN,
    TROUPE_MIN,
    TROUPE_MAX,
} troupe_reduction;

// Replaces each of `count` values by its reduction over all ranks: values are combined in rank
// order. Types are all numbers; those of 16 bits are reduced as float32 and rounded once, to the
// nearest. MEAN of integers truncates; a NaN makes MIN and MAX one. Errors, as of all operations
// below: TROUPE_PEER_LOST, and TROUPE_INVALID for other arguments than the other ranks' or such as
// one rank alone finds wrong (which the others then wait for), TROUPE_UNSUPPORTED: what carries the
// group's operations does not have this one.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_allreduce_as(troupe_rank *me, void *values,
                                                                      size_t count,
                                                                      troupe_dtype dtype,
                                                                      troupe_reduction how);
// `values` is a pointer to float, double or an integer of 8 to 64 bits.
#define troupe_allreduce(me, values, count, how)                                                   \
    troupe_allreduce_as((me), (values), (count), TROUPE_DTYPE_OF_(values), (how))

// Reduces `world` parts of `count` values each, and gives part r to rank r: `result` are `count`
// values, which may be this rank's own part. The other values stay as they are.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_reduce_scatter_as(troupe_rank *me, const void *values, size_t count, void *result,
                         troupe_dtype dtype, troupe_reduction how);
#define troupe_reduce_scatter(me, values, count, result, how)                                      \
    troupe_reduce_scatter_as((me), (values), (count), 1 ? (result) : (values),                     \
                             TROUPE_DTYPE_OF_(result), (how))

// Gives all ranks the `size` bytes of each: those of rank r at all + r * size. `data` may be this
// rank's place there.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_all_gather(troupe_rank *me,
                                                                    const void *data, size_t size,
                                                                    void *all);

// Copies `size` bytes of rank `root` to all ranks.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_broadcast(troupe_rank *me, void *data,
                                                                   size_t size, int root);

// Returns when every rank has called it.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_barrier(troupe_rank *me);

// `size` bytes of zeroed memory that the other ranks reach: an operation whose arrays lie in such
// memory on all ranks copies nothing, and is several times as fast. All ranks call it together, as
// the operations above, with the same size. It lives as long as the loop. NULL, with the last
// error set: as above; TROUPE_NO_MEMORY, on all ranks.
TROUPE_EXPERIMENTAL void *troupe_shared_alloc(troupe_rank *me, size_t size);

// ---- Operations that go on beside the loop ----

// One that was started; a plain value, used by its rank alone.
typedef struct troupe_collective {
    uint64_t number_; // 0: none.
} troupe_collective;

// As the functions above, but they return at once, and a thread of the library does it. Operations
// are done in the order in which they were started or called: all ranks start the same ones in the
// same order. The arrays belong to the operation until troupe_collective_wait has returned; what is
// not waited for is waited for at the end of the loop. Empty, with the last error set: what this
// rank alone can find wrong; TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_collective troupe_allreduce_start_as(
    troupe_rank *me, void *values, size_t count, troupe_dtype dtype, troupe_reduction how);
#define troupe_allreduce_start(me, values, count, how)                                             \
    troupe_allreduce_start_as((me), (values), (count), TROUPE_DTYPE_OF_(values), (how))
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_collective
troupe_reduce_scatter_start_as(troupe_rank *me, const void *values, size_t count, void *result,
                               troupe_dtype dtype, troupe_reduction how);
#define troupe_reduce_scatter_start(me, values, count, result, how)                                \
    troupe_reduce_scatter_start_as((me), (values), (count), 1 ? (result) : (values),               \
                                   TROUPE_DTYPE_OF_(result), (how))
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_collective troupe_all_gather_start(troupe_rank *me,
                                                                              const void *data,
                                                                              size_t size,
                                                                              void *all);
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_collective troupe_broadcast_start(troupe_rank *me,
                                                                             void *data,
                                                                             size_t size, int root);
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_collective troupe_barrier_start(troupe_rank *me);

// Waits for the end of an operation, however it comes, and returns how it ended. Once for each:
// TROUPE_INVALID: it is empty, another rank's, or was waited for.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_collective_wait(troupe_rank *me,
                                                                         troupe_collective started);
// Whether it has ended, and waiting for it would return at once. True of one that is none.
TROUPE_EXPERIMENTAL bool troupe_collective_ended(troupe_rank *me, troupe_collective started);

// The troupe_dtype of what a pointer points to.
#define TROUPE_DTYPE_OF_(values)                                                                   \
    _Generic((values), float *                                                                     \
             : TROUPE_FLOAT32, double *                                                            \
             : TROUPE_FLOAT64, int8_t *                                                            \
             : TROUPE_INT8, int16_t *                                                              \
             : TROUPE_INT16, int32_t *                                                             \
             : TROUPE_INT32, int64_t *                                                             \
             : TROUPE_INT64, uint8_t *                                                             \
             : TROUPE_UINT8, uint16_t *                                                            \
             : TROUPE_UINT16, uint32_t *                                                           \
             : TROUPE_UINT32, uint64_t *                                                           \
             : TROUPE_UINT64)

TROUPE_END_C

#endif
