// test_nccl.c: what the library declares of NCCL is what NCCL's header says, where that is
// installed.
#include "support.h"

#if __has_include(<nccl.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <nccl.h>
#define TRP_CUDA_TYPES
#define TRP_NCCL_TYPES
typedef CUresult trp_cuda_result;
typedef CUdevice trp_cuda_device;
typedef CUpointer_attribute trp_cuda_attribute;
typedef CUdeviceptr trp_cuda_address;
typedef CUcontext trp_cuda_context;
typedef CUstream trp_cuda_stream;
typedef ncclResult_t trp_nccl_result;
typedef ncclDataType_t trp_nccl_type;
typedef ncclRedOp_t trp_nccl_reduction;
typedef ncclComm_t trp_nccl_comm;
typedef ncclUniqueId trp_nccl_id;
typedef ncclConfig_t trp_nccl_config;
#endif
#include <train/nccl.h>

#ifdef TRP_NCCL_TYPES
#define X(field, symbol, parameters)                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), trp_nccl_result parameters),   \
                   #symbol);
TRP_NCCL_FUNCTIONS(X)
#undef X
#define X(field, symbol, parameters)                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), const char *parameters),       \
                   #symbol);
TRP_NCCL_TEXTS(X)
#undef X
#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(TRP_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(TRP_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(TRP_NCCL_IN_PROGRESS, ncclInProgress);
SAME(TRP_NCCL_SUM, ncclSum);
SAME(TRP_NCCL_MAX, ncclMax);
SAME(TRP_NCCL_MIN, ncclMin);
SAME(TRP_NCCL_MEAN, ncclAvg);
SAME(TRP_NCCL_BYTE, ncclUint8);
SAME(TRP_NCCL_ID_BYTES, sizeof(ncclUniqueId));
SAME(TRP_NCCL_CONFIG_VERSION, NCCL_VERSION(2, 14, 0));
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
// The beginning of the configuration, which is all that ours has.
typedef struct beginning {
    size_t size;
    unsigned magic, version;
    int blocking;
} beginning;
SAME(offsetof(beginning, size), offsetof(ncclConfig_t, size));
SAME(offsetof(beginning, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(beginning, version), offsetof(ncclConfig_t, version));
SAME(offsetof(beginning, blocking), offsetof(ncclConfig_t, blocking));

static void test_the_declarations_are_those_of_nccl(void **state)
{
    (void)state;
    static const int types[][2] = {
        {TROUPE_INT8, ncclInt8},
        {TROUPE_UINT8, ncclUint8},
        {TROUPE_INT32, ncclInt32},
        {TROUPE_UINT32, ncclUint32},
        {TROUPE_INT64, ncclInt64},
        {TROUPE_UINT64, ncclUint64},
        {TROUPE_FLOAT16, ncclFloat16},
        {TROUPE_FLOAT32, ncclFloat32},
        {TROUPE_FLOAT64, ncclFloat64},
        {TROUPE_INT16, -1},
        {TROUPE_BOOL, -1},
        {TROUPE_BFLOAT16, ncclBfloat16},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_int_equal(trp_nccl_type_of((troupe_dtype)types[i][0]), types[i][1]);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    assert_int_equal(config.magic, (unsigned)TRP_NCCL_CONFIG_MAGIC);
}
#else
static void test_the_declarations_are_those_of_nccl(void **state)
{
    (void)state;
    print_message("there is no nccl.h: the declarations are not compared\n");
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_declarations_are_those_of_nccl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
