// nccl.c: NCCL, loaded when it is needed (see train/nccl.h).
#include <train/nccl.h>

#include <pthread.h>
#include <runtime/base/library.h>
#include <stdbool.h>
#include <stdlib.h>

struct trp_nccl trp_nccl;

static troupe_status load(const char *function)
{
#define X(field, symbol, parameters) {#symbol, (char *)&trp_nccl.field},
    static const trp_library_function functions[] = {TRP_NCCL_FUNCTIONS(X) TRP_NCCL_TEXTS(X)};
#undef X
    char why[256];
    const char *named = getenv("TROUPE_NCCL");
    if (!trp_library_load(named != NULL ? named : "libnccl.so.2", functions,
                          sizeof functions / sizeof *functions, why, sizeof why))
        return troupe_fail(TROUPE_UNSUPPORTED, "%s: memory of a device needs NCCL: %s", function,
                           why);
    int version = 0;
    TROUPE_TRY(trp_nccl_ended(trp_nccl.version(&version), NULL, function, "ncclGetVersion"));
    if (version < TRP_NCCL_CONFIG_VERSION)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s: NCCL has version number %d, expected %d (2.14) or later", function,
                           version, TRP_NCCL_CONFIG_VERSION);
    return TROUPE_OK;
}

troupe_status trp_nccl_load(const char *function)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    troupe_status status = loaded ? TROUPE_OK : load(function);
    loaded = status == TROUPE_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

troupe_status trp_nccl_ended(trp_nccl_result result, trp_nccl_comm comm, const char *function,
                             const char *called)
{
    if (result == 0)
        return TROUPE_OK;
    const char *last = trp_nccl.last_error(comm);
    bool more = last != NULL && last[0] != '\0';
    return troupe_fail(TROUPE_FAILED, "%s: %s: %s (%d)%s%s", function, called,
                       trp_nccl.error_text(result), (int)result, more ? ": " : "",
                       more ? last : "");
}

int trp_nccl_type_of(troupe_dtype element)
{
    // One more than NCCL's number; 0: none.
    static const unsigned char types[] = {
        [TROUPE_INT8] = 1,    [TROUPE_UINT8] = 2,     [TROUPE_INT32] = 3,   [TROUPE_UINT32] = 4,
        [TROUPE_INT64] = 5,   [TROUPE_UINT64] = 6,    [TROUPE_FLOAT16] = 7, [TROUPE_FLOAT32] = 8,
        [TROUPE_FLOAT64] = 9, [TROUPE_BFLOAT16] = 10,
    };
    return (unsigned)element < sizeof types ? types[element] - 1 : -1;
}
