// cuda.c: CUDA's driver library, loaded when it is needed (see device/cuda.h).
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/library.h>
#include <runtime/device/cuda.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES_MAX = 64, SPIN_NS = 100000, PAUSE_MAX_NS = 1000000 };

struct trp_cuda trp_cuda;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// Under the lock, but for reading `loaded`.
static atomic_bool loaded;                     // The functions are there.
static pid_t begun;                            // The process in which cuInit has succeeded.
static trp_cuda_context contexts[DEVICES_MAX]; // Of that process, by device; kept to its end.

static troupe_status load(const char *function)
{
#define X(field, symbol, parameters) {#symbol, (char *)&trp_cuda.field},
    static const trp_library_function functions[] = {TRP_CUDA_FUNCTIONS(X)};
#undef X
    char why[256];
    if (atomic_load(&loaded))
        return TROUPE_OK;
    const char *named = getenv("TROUPE_CUDA");
    if (!trp_library_load(named != NULL ? named : "libcuda.so.1", functions,
                          sizeof functions / sizeof *functions, why, sizeof why))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s: needs CUDA's driver library, which comes with NVIDIA's driver: %s",
                           function, why);
    atomic_store(&loaded, true);
    return TROUPE_OK;
}

static troupe_status begin(const char *function)
{
    TROUPE_TRY(load(function));
    if (begun == getpid())
        return TROUPE_OK;
    trp_cuda_result result = trp_cuda.init(0);
    if (result == TRP_CUDA_NOT_INITIALIZED && begun != 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s: this process was forked from one that had used CUDA (process %d), "
                           "which CUDA does not allow",
                           function, (int)begun);
    TROUPE_TRY(trp_cuda_ended(result, "%s: cuInit", function));
    memset(contexts, 0, sizeof contexts);
    begun = getpid();
    return TROUPE_OK;
}

static troupe_status choose(const char *function, int device)
{
    int count;
    TROUPE_TRY(trp_cuda_ended(trp_cuda.device_count(&count), "%s: cuDeviceGetCount", function));
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    if (count == 0)
        return troupe_fail(TROUPE_UNSUPPORTED, "%s: this process sees no device", function);
    if (device < 0 || device >= count)
        return troupe_fail(TROUPE_INVALID, "%s: no device %d: this process sees %d, from 0 on",
                           function, device, count);
    if (contexts[device] == NULL) {
        trp_cuda_device ordinal;
        trp_cuda_context context;
        TROUPE_TRY(trp_cuda_ended(trp_cuda.device_get(&ordinal, device), "%s: cuDeviceGet(%d)",
                                  function, device));
        TROUPE_TRY(trp_cuda_ended(trp_cuda.context_retain(&context, ordinal),
                                  "%s: cuDevicePrimaryCtxRetain of device %d", function, device));
        contexts[device] = context;
    }
    return trp_cuda_ended(trp_cuda.context_set(contexts[device]),
                          "%s: cuCtxSetCurrent of device %d", function, device);
}

static troupe_status bind(const char *function, int device, bool keep)
{
    trp_cuda_context current = NULL;
    pthread_mutex_lock(&lock);
    troupe_status status = begin(function);
    // Kept also where the program's own CUDA code has chosen it.
    bool kept = status == TROUPE_OK && keep && trp_cuda.context_get(&current) == 0 && current;
    if (status == TROUPE_OK && !kept)
        status = choose(function, device);
    pthread_mutex_unlock(&lock);
    return status;
}

troupe_status trp_cuda_bind(const char *function)
{
    return bind(function, 0, true);
}

troupe_status trp_cuda_bind_to(const char *function, int device)
{
    return bind(function, device, false);
}

troupe_status trp_cuda_ended(trp_cuda_result result, const char *format, ...)
{
    if (result == 0)
        return TROUPE_OK;
    char doing[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    const char *name = NULL, *text = NULL;
    if (trp_cuda.error_name(result, &name) != 0 || name == NULL)
        name = "unknown error";
    if (trp_cuda.error_text(result, &text) != 0 || text == NULL)
        text = "no text";
    troupe_status status = result == TRP_CUDA_OUT_OF_MEMORY ? TROUPE_NO_MEMORY
                           : result == TRP_CUDA_NO_DEVICE   ? TROUPE_UNSUPPORTED
                                                            : TROUPE_FAILED;
    return troupe_fail(status, "%s: %s (%d): %s", doing, name, (int)result, text);
}

// Whether the environment gives devices to this process: found out once, since ranks and workers
// get theirs before they run anything.
static bool is_given_devices(void)
{
    static atomic_int given; // 1: no, 2: yes.
    int known = atomic_load_explicit(&given, memory_order_relaxed);
    if (known == 0) {
        const char *list = getenv("CUDA_VISIBLE_DEVICES");
        bool some = list != NULL && list[0] != '\0' && strncmp(list, "-1", 2) != 0;
        troupe_error said;
        trp_error_hold(&said);
        pthread_mutex_lock(&lock);
        known = some && load(__func__) == TROUPE_OK ? 2 : 1;
        pthread_mutex_unlock(&lock);
        trp_error_restore(&said);
        atomic_store(&given, known);
    }
    return known == 2;
}

bool trp_cuda_holds(const void *memory)
{
    unsigned kind = 0;
    if (!atomic_load_explicit(&loaded, memory_order_acquire) && !is_given_devices())
        return false;
    // An error: CUDA has not been begun, or knows nothing of that address.
    return trp_cuda.pointer_get(&kind, (trp_cuda_attribute)TRP_CUDA_MEMORY_TYPE,
                                (trp_cuda_address)(uintptr_t)memory) == 0 &&
           kind == TRP_CUDA_MEMORY_DEVICE;
}

troupe_status trp_cuda_device_of(const char *function, const void *memory, int *device)
{
    if (!trp_cuda_holds(memory))
        return troupe_fail(TROUPE_INVALID,
                           "%s: the address %p is not one of a device's memory, as the other array "
                           "is: both must be on the same device",
                           function, memory);
    return trp_cuda_ended(trp_cuda.pointer_get(device, (trp_cuda_attribute)TRP_CUDA_DEVICE_ORDINAL,
                                               (trp_cuda_address)(uintptr_t)memory),
                          "%s: cuPointerGetAttribute", function);
}

void trp_cuda_pause(int64_t since_ns)
{
    int64_t passed_ns = trp_clock_ns() - since_ns;
    if (passed_ns < SPIN_NS)
        return;
    int64_t pause_ns = passed_ns / 8 < PAUSE_MAX_NS ? passed_ns / 8 : PAUSE_MAX_NS;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
}

troupe_status trp_cuda_stream_wait(const char *function, trp_cuda_stream stream, int timeout_ms)
{
    int64_t since_ns = trp_clock_ns(), until_ns = trp_clock_deadline(timeout_ms);
    trp_cuda_result result;
    while ((result = trp_cuda.stream_query(stream)) == TRP_CUDA_NOT_READY) {
        if (until_ns >= 0 && trp_clock_ns() >= until_ns)
            return troupe_fail(TROUPE_TIMED_OUT,
                               "%s: what was put on the stream is not done after %d ms", function,
                               timeout_ms);
        trp_cuda_pause(since_ns);
    }
    return trp_cuda_ended(result, "%s: what was put on the stream", function);
}
