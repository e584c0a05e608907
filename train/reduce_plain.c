// reduce_plain.c: kernels with what every processor has.
#define REDUCE_BYTES 16
#define REDUCE_TARGET
#define REDUCE_NAME trp_reducers_plain
#define REDUCE_TEXT "plain"
#include <train/reduce_kernels.h>
