// test_nvml.c: what the library declares of NVML is what nvml.h says, where that is installed.
#include "support.h"

#if __has_include(<nvml.h>)
#include <nvml.h>
#define TRP_NVML_TYPES
typedef nvmlReturn_t trp_nvml_result;
typedef nvmlDevice_t trp_nvml_device;
typedef nvmlPciInfo_t trp_nvml_pci;
typedef nvmlUtilization_t trp_nvml_utilization;
typedef nvmlMemory_t trp_nvml_memory;
typedef nvmlProcessInfo_t trp_nvml_process;
#endif
#include <train/nvml.h>

#ifdef TRP_NVML_TYPES
#define X(field, symbol, parameters)                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), trp_nvml_result parameters),   \
                   #symbol);
TRP_NVML_FUNCTIONS(X)
X(mig_mode, nvmlDeviceGetMigMode, (trp_nvml_device, unsigned *, unsigned *))
#undef X
#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(TRP_NVML_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED);
SAME(TRP_NVML_INSUFFICIENT_SIZE, NVML_ERROR_INSUFFICIENT_SIZE);
SAME(TRP_NVML_GPU_IS_LOST, NVML_ERROR_GPU_IS_LOST);
SAME(TRP_NVML_NAME_BYTES, NVML_DEVICE_NAME_V2_BUFFER_SIZE);
SAME(sizeof(trp_nvml_result), sizeof(int));
#endif

static void test_the_declarations_are_those_of_nvml(void **state)
{
    (void)state;
#ifndef TRP_NVML_TYPES
    print_message("there is no nvml.h: the declarations are not compared\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_declarations_are_those_of_nvml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
