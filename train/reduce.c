// reduce.c: which kernels this processor has, and means of integers.
#include <stdatomic.h>
#include <stdint.h>
#include <train/reduce.h>

extern const trp_reducers trp_reducers_plain, trp_reducers_avx2, trp_reducers_avx512;

const trp_reducers *trp_reducers_at(size_t index)
{
    const trp_reducers *found[3] = {NULL};
    size_t count = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        found[count++] = &trp_reducers_avx512;
    if (__builtin_cpu_supports("avx2"))
        found[count++] = &trp_reducers_avx2;
#endif
    found[count++] = &trp_reducers_plain;
    return index < count ? found[index] : NULL;
}

// Summed in 64 bits, so that a mean is not beyond what it is the mean of. Not worth vectors.
#define MEAN(name, T, WIDE)                                                                        \
    static void name(const trp_reduction *what)                                                    \
    {                                                                                              \
        for (size_t at = 0; at < what->count; at++) {                                              \
            uint64_t sum = 0;                                                                      \
            for (int i = 0; i < what->sources; i++)                                                \
                sum += (uint64_t)((const T *)what->from[i])[at];                                   \
            for (int i = 0; i < what->targets; i++)                                                \
                ((T *)what->to[i])[at] = (T)((WIDE)sum / what->sources);                           \
        }                                                                                          \
    }
MEAN(mean_int8, int8_t, int64_t)
MEAN(mean_int16, int16_t, int64_t)
MEAN(mean_int32, int32_t, int64_t)
MEAN(mean_int64, int64_t, int64_t)
MEAN(mean_uint8, uint8_t, uint64_t)
MEAN(mean_uint16, uint16_t, uint64_t)
MEAN(mean_uint32, uint32_t, uint64_t)
MEAN(mean_uint64, uint64_t, uint64_t)

static const trp_reducer means[TRP_DTYPES] = {
    [TROUPE_INT8] = mean_int8,     [TROUPE_INT16] = mean_int16,   [TROUPE_INT32] = mean_int32,
    [TROUPE_INT64] = mean_int64,   [TROUPE_UINT8] = mean_uint8,   [TROUPE_UINT16] = mean_uint16,
    [TROUPE_UINT32] = mean_uint32, [TROUPE_UINT64] = mean_uint64,
};

static const trp_reducers *best(void)
{
    static const trp_reducers *_Atomic chosen;
    const trp_reducers *found = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!found) {
        found = trp_reducers_at(0);
        atomic_store_explicit(&chosen, found, memory_order_relaxed);
    }
    return found;
}

trp_reducer trp_reducer_of(troupe_dtype element, troupe_reduction how)
{
    if ((unsigned)element >= TRP_DTYPES || (unsigned)how >= TRP_REDUCTIONS)
        return NULL;
    trp_reducer found = best()->of[element][how];
    return !found && how == TROUPE_MEAN ? means[element] : found;
}

void trp_copy_values(void *to, const void *from, size_t size)
{
    // The sum of one source.
    best()->of[TROUPE_UINT8][TROUPE_SUM](
        &(trp_reduction){(const void *const[]){from}, 1, (void *const[]){to}, 1, size, 0});
}
