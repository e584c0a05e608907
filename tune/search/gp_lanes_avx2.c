// gp_lanes_avx2.c: kernels with AVX2.
#if defined(__x86_64__)
#include <immintrin.h>
#define LANES_BYTES 32
#define LANES_TARGET __attribute__((target("avx2")))
#define LANES_ROOT(a) ((vector)_mm256_sqrt_pd((__m256d)(a)))
#define LANES_NAME trp_gp_kernels_avx2
#define LANES_TEXT "avx2"
#include <tune/search/gp_lanes_kernels.h>
#else
typedef int trp_gp_lanes_avx2_is_for_x86;
#endif
