// device.c: memory, copies and streams of CUDA devices (see troupe/device.h).
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <runtime/device/cuda.h>
#include <troupe/device.h>

#include <stdint.h>
#include <string.h>

struct troupe_device_stream {
    trp_cuda_stream cuda;
};

static trp_cuda_address address_of(const void *memory)
{
    return (trp_cuda_address)(uintptr_t)memory;
}

troupe_status troupe_device_count(int *count)
{
    TRP_REQUIRE(count);
    int found;
    TROUPE_TRY(trp_cuda_bind(__func__));
    TROUPE_TRY(trp_cuda_ended(trp_cuda.device_count(&found), "%s: cuDeviceGetCount", __func__));
    *count = found;
    return TROUPE_OK;
}

troupe_status troupe_device_use(int device)
{
    return trp_cuda_bind_to(__func__, device);
}

troupe_status troupe_device_info_get(troupe_device_info *info, size_t size)
{
    TRP_REQUIRE(info);
    troupe_device_info found = {0};
    trp_cuda_device device;
    TROUPE_TRY(trp_cuda_bind(__func__));
    TROUPE_TRY(trp_cuda_ended(trp_cuda.context_device(&device), "%s: cuCtxGetDevice", __func__));
    TROUPE_TRY(trp_cuda_ended(trp_cuda.device_name(found.name, sizeof found.name, device),
                              "%s: cuDeviceGetName", __func__));
    TROUPE_TRY(trp_cuda_ended(trp_cuda.memory_info(&found.free_bytes, &found.memory_bytes),
                              "%s: cuMemGetInfo", __func__));
    found.device = (int)device;
    trp_output_give(info, size, &found, sizeof found);
    return TROUPE_OK;
}

bool troupe_device_has(const void *memory)
{
    return memory != NULL && trp_cuda_holds(memory);
}

troupe_status troupe_device_alloc(size_t size, void **memory)
{
    TRP_REQUIRE(memory);
    trp_cuda_address made = 0;
    TROUPE_TRY(trp_cuda_bind(__func__));
    if (size > 0)
        TROUPE_TRY(trp_cuda_ended(trp_cuda.alloc(&made, size), "%s: cuMemAlloc of %zu bytes",
                                  __func__, size));
    *memory = (void *)(uintptr_t)made;
    return TROUPE_OK;
}

void troupe_device_free(void **memory)
{
    // An address of CUDA's says that the library is loaded; the device need not be this thread's.
    if (memory == NULL || *memory == NULL || trp_cuda_bind(__func__) != TROUPE_OK)
        return;
    (void)trp_cuda.free(address_of(*memory));
    *memory = NULL;
}

troupe_status troupe_device_host_alloc(size_t size, void **memory)
{
    TRP_REQUIRE(memory);
    void *made = NULL;
    TROUPE_TRY(trp_cuda_bind(__func__));
    if (size > 0)
        TROUPE_TRY(trp_cuda_ended(trp_cuda.host_alloc(&made, size, TRP_CUDA_HOST_PORTABLE),
                                  "%s: cuMemHostAlloc of %zu bytes", __func__, size));
    *memory = made;
    return TROUPE_OK;
}

void troupe_device_host_free(void **memory)
{
    if (memory == NULL || *memory == NULL || trp_cuda_bind(__func__) != TROUPE_OK)
        return;
    (void)trp_cuda.host_free(*memory);
    *memory = NULL;
}

troupe_status troupe_device_tensor_create(const troupe_tensor *like, troupe_tensor *tensor)
{
    TRP_REQUIRE(like);
    TRP_REQUIRE(tensor);
    size_t size;
    void *memory;
    TROUPE_TRY(trp_tensor_size(like, &size));
    TROUPE_TRY(troupe_device_alloc(size, &memory));
    troupe_tensor made = *like;
    made.data = memory;
    *tensor = made;
    return TROUPE_OK;
}

void troupe_device_tensor_free(troupe_tensor *tensor)
{
    if (tensor == NULL)
        return;
    void *memory = (void *)(uintptr_t)tensor->data;
    troupe_device_free(&memory);
    *tensor = (troupe_tensor){0};
}

troupe_status troupe_device_stream_open(troupe_device_stream **stream)
{
    TRP_REQUIRE(stream);
    TROUPE_TRY(trp_cuda_bind(__func__));
    troupe_device_stream *made = (troupe_device_stream *)trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for a stream", __func__);
    troupe_status status =
        trp_cuda_ended(trp_cuda.stream_create(&made->cuda, TRP_CUDA_STREAM_DEFAULT),
                       "%s: cuStreamCreate", __func__);
    if (status != TROUPE_OK) {
        trp_free(made);
        return status;
    }
    *stream = made;
    return TROUPE_OK;
}

troupe_status troupe_device_stream_wait(troupe_device_stream *stream, int timeout_ms)
{
    TRP_REQUIRE(stream);
    TROUPE_TRY(trp_cuda_bind(__func__));
    return trp_cuda_stream_wait(__func__, stream->cuda, timeout_ms);
}

void *troupe_device_stream_handle(const troupe_device_stream *stream)
{
    return stream != NULL ? stream->cuda : NULL;
}

void troupe_device_stream_close(troupe_device_stream **stream)
{
    if (stream == NULL || *stream == NULL)
        return;
    if (trp_cuda_bind(__func__) == TROUPE_OK)
        (void)trp_cuda.stream_destroy((*stream)->cuda);
    trp_free(*stream);
    *stream = NULL;
}

static troupe_status copy(const char *function, void *to, const void *from, size_t size,
                          const troupe_device_stream *stream)
{
    TROUPE_TRY(trp_cuda_bind(function));
    if (size == 0)
        return TROUPE_OK;
    trp_cuda_stream on = stream != NULL ? stream->cuda : NULL;
    TROUPE_TRY(trp_cuda_ended(trp_cuda.copy_async(address_of(to), address_of(from), size, on),
                              "%s: cuMemcpyAsync of %zu bytes", function, size));
    if (stream != NULL)
        return TROUPE_OK;
    // A copy between devices, or from memory that devices reach, goes on after the call.
    return trp_cuda_ended(trp_cuda.stream_synchronize(NULL), "%s: a copy of %zu bytes", function,
                          size);
}

troupe_status troupe_device_copy(const troupe_tensor *to, const troupe_tensor *from,
                                 troupe_device_stream *stream)
{
    TRP_REQUIRE(to);
    TRP_REQUIRE(from);
    size_t size;
    TROUPE_TRY(trp_tensor_good(to, &size));
    TROUPE_TRY(troupe_tensor_check(from, to->dtype, (int)to->ndim));
    for (uint32_t i = 0; i < to->ndim; i++)
        if (to->shape[i] != from->shape[i])
            return troupe_fail(TROUPE_WRONG_TYPE,
                               "%s: dimension %u is %zu of what is copied and %zu of where to",
                               __func__, i, from->shape[i], to->shape[i]);
    return copy(__func__, (void *)(uintptr_t)to->data, from->data, size, stream);
}

troupe_status troupe_device_copy_bytes(void *to, const void *from, size_t size,
                                       troupe_device_stream *stream)
{
    if (size > 0) {
        TRP_REQUIRE(to);
        TRP_REQUIRE(from);
    }
    return copy(__func__, to, from, size, stream);
}
