// reduce_avx512.c: kernels with AVX-512.
#if defined(__x86_64__)
#define REDUCE_BYTES 64
#define REDUCE_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define REDUCE_NAME trp_reducers_avx512
#define REDUCE_TEXT "avx512"
#include <train/reduce_kernels.h>
#else
typedef int trp_reduce_avx512_is_for_x86;
#endif
