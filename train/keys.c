// keys.c: see train/keys.h.
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
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

// Another handle on a job of this process.
static troupe_status find_here(const char *key, troupe_job **job)
{
    pthread_mutex_lock(&known.lock);
    troupe_job *found = named(key);
    if (found != NULL)
        found->handles++;
    pthread_mutex_unlock(&known.lock);
    if (found == NULL)
        return TROUPE_NOT_FOUND;
    *job = found;
    return TROUPE_OK;
}

static troupe_status find_there(const char *key, const troupe_follower *follower,
                                const troupe_gate *gate, troupe_job **job)
{
    troupe_job *made = trp_handle_create();
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a handle on the job '%s'", key);
    troupe_status status = trp_gate_make(made, gate, &made->gate);
    if (status == TROUPE_OK)
        status = trp_detached_find(made, key, follower);
    if (status == TROUPE_OK) {
        *job = made;
        return status;
    }
    trp_followers_abandon(&made->followers);
    trp_followers_end(&made->followers);
    trp_gate_end(made->gate);
    trp_handle_release(made);
    if (status == TROUPE_NOT_FOUND)
        status = troupe_fail(status,
                             "this driver has no job with the key '%s', nor has a train "
                             "server (%s)",
                             key, troupe_last_error()->text);
    return status;
}

// At the train server of TROUPE_SERVER_AUTO, which is started if need be.
static troupe_status find_started(const char *key, const troupe_follower *follower,
                                  const troupe_gate *gate, troupe_job **job)
{
    trp_desk *desk; // Held meanwhile, so that this is the server that is asked.
    troupe_status status = trp_detached_server(TROUPE_SERVER_AUTO, &desk);
    if (status == TROUPE_NOT_FOUND) // The server, that is.
        status = troupe_fail(TROUPE_UNSUPPORTED, "%s", troupe_last_error()->text);
    TROUPE_TRY(status);
    status = find_there(key, follower, gate, job);
    trp_desk_release(&desk);
    return status;
}

static troupe_status follow_here(troupe_job *found, const troupe_find_options *how,
                                 const troupe_follower *follower, troupe_job **job)
{
    troupe_status status =
        how->gate != NULL
            ? troupe_fail(TROUPE_UNSUPPORTED,
                          "option .gate of troupe_job_find_with: the job is this program's, and "
                          "has the gate that it was submitted with")
            : trp_followers_add(found, follower);
    if (status == TROUPE_OK)
        *job = found;
    else
        troupe_job_close(&found);
    return status;
}

static troupe_status find_with(const char *key, const troupe_find_options *how,
                               const troupe_follower *follower, troupe_job **job)
{
    troupe_job *found;
    if (how->server == TROUPE_SERVER_AUTO)
        return find_started(key, follower, how->gate, job);
    if (find_here(key, &found) == TROUPE_OK)
        return follow_here(found, how, follower, job);
    if (how->server == TROUPE_SERVER_NONE)
        return troupe_fail(TROUPE_NOT_FOUND, "this driver has no job with the key '%s'", key);
    return find_there(key, follower, how->gate, job);
}

static const trp_range ranges[] = {
    TRP_RANGE(troupe_find_options, server, TROUPE_SERVER_DEFAULT, TROUPE_SERVER_NONE),
};

troupe_status troupe_job_find_with(const char *key, troupe_job **job,
                                   const troupe_find_options *how)
{
    troupe_find_options taken;
    troupe_follower follows;
    TRP_REQUIRE(key);
    TRP_REQUIRE(job);
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_job_find_with", taken, how));
    TROUPE_TRY(
        trp_ranges_check("troupe_job_find_with", ranges, sizeof ranges / sizeof *ranges, &taken));
    TROUPE_TRY(TRP_OPTIONS_TAKE("a follower", follows, taken.follower));
    return trp_error_settled(find_with(key, &taken, &follows, job));
}

troupe_status troupe_job_follow(const char *key, const troupe_follower *follower, troupe_job **job)
{
    TRP_REQUIRE(key);
    TRP_REQUIRE(job);
    const troupe_find_options how = {.size = sizeof how, .follower = follower};
    return troupe_job_find_with(key, job, &how);
}

troupe_status troupe_job_find(const char *key, troupe_job **job)
{
    return troupe_job_follow(key, NULL, job);
}
