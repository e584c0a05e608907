// http_library.c: see http_library.h.
#ifdef TROUPE_HTTP
#include <serve/http_library.h>

#include <pthread.h>
#include <runtime/base/library.h>

struct trp_mhd trp_mhd;

troupe_status trp_mhd_load(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
#define X(field, symbol) {#symbol, (char *)&trp_mhd.field},
    static const trp_library_function functions[] = {TRP_MHD_FUNCTIONS(X)};
#undef X
    char why[256];
    pthread_mutex_lock(&lock);
    if (!loaded)
        loaded = trp_library_load("libmicrohttpd.so.12", functions,
                                  sizeof functions / sizeof *functions, why, sizeof why);
    bool there = loaded;
    pthread_mutex_unlock(&lock);
    return there ? TROUPE_OK : troupe_fail(TROUPE_UNSUPPORTED, "HTTP needs libmicrohttpd: %s", why);
}
#else
extern int trp_http_library_is_left_out; // A file must not be empty.
#endif
