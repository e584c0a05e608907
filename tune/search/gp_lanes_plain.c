// gp_lanes_plain.c: kernels with what every processor has.
#define LANES_BYTES 16
#define LANES_TARGET
#if defined(__x86_64__)
#include <emmintrin.h>
#define LANES_ROOT(a) ((vector)_mm_sqrt_pd((__m128d)(a)))
#else
#define LANES_ROOT(a) ((vector){sqrt((a)[0]), sqrt((a)[1])})
#endif
#define LANES_NAME trp_gp_kernels_plain
#define LANES_TEXT "plain"
#include <tune/search/gp_lanes_kernels.h>
