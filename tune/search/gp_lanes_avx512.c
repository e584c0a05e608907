// gp_lanes_avx512.c: kernels with AVX-512.
#if defined(__x86_64__)
#include <immintrin.h>
#define LANES_BYTES 64
#define LANES_TARGET __attribute__((target("avx512f")))
#define LANES_ROOT(a) ((vector)_mm512_sqrt_pd((__m512d)(a)))
#define LANES_NAME trp_gp_kernels_avx512
#define LANES_TEXT "avx512"
#include <tune/search/gp_lanes_kernels.h>
#else
typedef int trp_gp_lanes_avx512_is_for_x86;
#endif
