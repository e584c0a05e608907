// ask.c: the library's own calls that have a time limit. What such a call has taken must not be
// lost where its answer comes too late.
#include <actors/async/ask.h>

#include <actors/ref/call_table.h>
#include <actors/ref/ref.h>
#include <runtime/base/error.h>
#include <runtime/shm/process_table.h>
#include <troupe/async.h>

static troupe_status unanswered(const char *what, uint32_t process, int limit_ms)
{
    bool stopped = !trp_process_is_far(process) && trp_process_is_stopped(trp_process_pid(process));
    return troupe_fail(TROUPE_DEADLINE_EXCEEDED, "%s in %s has not answered within %d ms%s", what,
                       trp_process_text(process).text, limit_ms,
                       stopped ? ": the process is stopped" : "");
}

troupe_status trp_ask_within(troupe_ref ref, const char *what, int limit_ms,
                             void (*late)(void *user, troupe_ref ref), void *user)
{
    troupe_status status = trp_ref_await(ref, limit_ms);
    if (status != TROUPE_TIMED_OUT && status != TROUPE_BUSY)
        return TROUPE_OK; // Ready, or troupe_get says why not.
    troupe_error failure = *troupe_last_error();
    trp_entry *entry = trp_entry_lock(trp_entry_behind(ref));
    uint32_t process = entry != NULL ? entry->target.process : trp_process_slot();
    if (entry != NULL)
        trp_entry_unlock(entry);
    if (late != NULL) {
        trp_ref_when(ref, late, user);
    } else {
        (void)troupe_cancel(ref); // What has not begun never does.
        troupe_ref_drop(ref);
    }
    return status == TROUPE_TIMED_OUT ? unanswered(what, process, limit_ms)
                                      : trp_error_set(&failure);
}

troupe_status trp_ask_await(troupe_ref ref, const char *what, int timeout_ms,
                            void (*late)(void *user, troupe_ref ref), void *user)
{
    enum { ANSWER_MS = 1000, MOST_MS = INT32_MAX - ANSWER_MS };
    int wait_ms = timeout_ms < MOST_MS ? timeout_ms : MOST_MS;
    return timeout_ms < 0 ? TROUPE_OK : trp_ask_within(ref, what, wait_ms + ANSWER_MS, late, user);
}
