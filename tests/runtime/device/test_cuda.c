// test_cuda.c: what the library declares of CUDA's driver is what CUDA's header says, where that is
// installed.
#include "support.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define TRP_CUDA_TYPES
typedef CUresult trp_cuda_result;
typedef CUdevice trp_cuda_device;
typedef CUpointer_attribute trp_cuda_attribute;
typedef CUdeviceptr trp_cuda_address;
typedef CUcontext trp_cuda_context;
typedef CUstream trp_cuda_stream;
#endif
#include <runtime/device/cuda.h>

#ifdef TRP_CUDA_TYPES
#define X(field, symbol, parameters)                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), trp_cuda_result parameters),   \
                   #symbol);
TRP_CUDA_FUNCTIONS(X)
#undef X
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(TRP_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(TRP_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(TRP_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(TRP_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(TRP_CUDA_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(TRP_CUDA_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(TRP_CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(TRP_CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(TRP_CUDA_STREAM_DEFAULT, CU_STREAM_DEFAULT);
SAME(sizeof(trp_cuda_address), sizeof(unsigned long long));
SAME(sizeof(trp_cuda_result), sizeof(int));
SAME(sizeof(trp_cuda_device), sizeof(int));
SAME(sizeof(trp_cuda_attribute), sizeof(int));
#endif

static void test_the_declarations_are_those_of_cuda(void **state)
{
    (void)state;
#ifndef TRP_CUDA_TYPES
    print_message("there is no cuda.h: the declarations are not compared\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_declarations_are_those_of_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
