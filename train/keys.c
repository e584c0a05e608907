// keys.c: see train/keys.h.
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <string.h>
#include <train/keys.h>

static pthread_mutex_t submission = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_mutex_t lock; // Also of the counts of handles.
    troupe_job *first;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void trp_keys_begin_submission(void)
{
    pthread_mutex_lock(&submission);
}

void trp_keys_end_submission(void)
{
    pthread_mutex_unlock(&submission);
}

// With the lock. A job of an earlier runtime is not meant.
static troupe_job *named(const char *key)
{
    for (troupe_job *at = known.first; at != NULL; at = at->keyed)
        if (strcmp(at->spec.options.key, key) == 0 && trp_handle_has_runtime(at))
            return at;
    return NULL;
}

troupe_status trp_keys_find(const trp_job_spec *spec, const troupe_trainer *trainer,
                            troupe_job **handle)
{
    trp_arena arena = {0};
    const char *key = spec->options.key;
    troupe_status status = TROUPE_NOT_FOUND;
    pthread_mutex_lock(&known.lock);
    troupe_job *found = named(key);
    if (found != NULL) {
        const char *other = trp_spec_differ(&found->spec, spec, trainer, &arena);
        status = other == NULL ? TROUPE_OK
                               : troupe_fail(TROUPE_EXISTS,
                                             "the job with the key '%s' is another one: it differs "
                                             "in %s",
                                             key, other);
    }
    if (status == TROUPE_OK) {
        found->handles++;
        *handle = found;
    }
    pthread_mutex_unlock(&known.lock);
    trp_arena_clear(&arena);
    return status;
}

void trp_keys_add(troupe_job *handle)
{
    pthread_mutex_lock(&known.lock);
    handle->keyed = known.first;
    known.first = handle;
    pthread_mutex_unlock(&known.lock);
}

bool trp_keys_close(troupe_job *handle)
{
    pthread_mutex_lock(&known.lock);
    bool last = --handle->handles == 0;
    if (last)
        for (troupe_job **at = &known.first; *at != NULL; at = &(*at)->keyed)
            if (*at == handle) {
                *at = handle->keyed;
                break;
            }
    pthread_mutex_unlock(&known.lock);
    return last;
}

troupe_status troupe_job_find(const char *key, troupe_job **job)
{
    TRP_REQUIRE(key);
    TRP_REQUIRE(job);
    pthread_mutex_lock(&known.lock);
    troupe_job *found = named(key);
    if (found != NULL)
        found->handles++;
    pthread_mutex_unlock(&known.lock);
    if (found == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "this driver has no job with the key '%s'", key);
    *job = found;
    return TROUPE_OK;
}
