// reduce_avx2.c: kernels with AVX2.
#if defined(__x86_64__)
#define REDUCE_BYTES 32
#define REDUCE_TARGET __attribute__((target("avx2")))
#define REDUCE_NAME trp_reducers_avx2
#define REDUCE_TEXT "avx2"
#include <train/reduce_kernels.h>
#else
typedef int trp_reduce_avx2_is_for_x86;
#endif
