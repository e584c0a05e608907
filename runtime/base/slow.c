// slow.c: see slow.h.
#include <runtime/base/slow.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { AFTER_MS = 2000, BETWEEN_MS = 30000, WHO_MAX = 80 };

enum { QUIET, COUNTED, TOLD };

// Of one kind of wait.
static struct {
    int64_t told_ns;       // When one was told last; 0: never.
    uint32_t more;         // Those that were counted since.
    const trp_slow *leads; // The one that was told, if it still waits: others wait for the same.
} kinds[TRP_SLOW_KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void trp_slow_begin(trp_slow *it, trp_slow_kind kind)
{
    it->kind = kind;
    it->state = QUIET;
    it->began_ns = it->due_ns = 0;
    it->who = NULL;
}

bool trp_slow_is_due(trp_slow *it)
{
    if (it->due_ns == INT64_MAX)
        return false;
    int64_t now_ns = trp_clock_ns();
    if (it->began_ns != 0)
        return now_ns >= it->due_ns;
    it->began_ns = now_ns;
    it->due_ns = now_ns + (int64_t)AFTER_MS * 1000000;
    return false;
}

void trp_slow_later(trp_slow *it)
{
    it->due_ns = trp_clock_ns() + (int64_t)AFTER_MS * 1000000;
}

int64_t trp_slow_until(const trp_slow *it, int64_t deadline_ns)
{
    if (it->due_ns == INT64_MAX || (deadline_ns >= 0 && deadline_ns < it->due_ns))
        return deadline_ns;
    return it->due_ns;
}

// With the lock held. True: this one is told; *more: how many were not, before it.
static bool take_turn(trp_slow *it, int64_t now_ns, uint32_t *more)
{
    int64_t again_ns = kinds[it->kind].told_ns + (int64_t)BETWEEN_MS * 1000000;
    const trp_slow *leads = kinds[it->kind].leads;
    bool early = kinds[it->kind].told_ns != 0 && now_ns < again_ns;
    if (early || (leads != NULL && leads != it && strcmp(leads->text, it->text) == 0)) {
        kinds[it->kind].more += it->state == QUIET;
        it->state = COUNTED;
        it->due_ns = early ? again_ns : now_ns + (int64_t)BETWEEN_MS * 1000000;
        return false;
    }
    *more = kinds[it->kind].more;
    if (it->state == COUNTED && *more > 0)
        --*more;
    kinds[it->kind].more = 0;
    kinds[it->kind].told_ns = now_ns;
    kinds[it->kind].leads = it;
    it->state = TOLD;
    it->due_ns = INT64_MAX;
    return true;
}

static void name_waiter(const trp_slow *it, char who[WHO_MAX])
{
    if (it->who != NULL)
        snprintf(who, WHO_MAX, "%s", it->who);
    else
        trp_log_caller(who, WHO_MAX);
    if (who[0] == '\0')
        snprintf(who, WHO_MAX, "a thread outside methods");
}

static double seconds(const trp_slow *it)
{
    return (double)(trp_clock_ns() - it->began_ns) * 1e-9;
}

void trp_slow_tell(trp_slow *it, const char *format, ...)
{
    char who[WHO_MAX], others[64] = "";
    uint32_t more = 0;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(it->text, sizeof it->text, format, list);
    va_end(list);
    pthread_mutex_lock(&lock);
    bool told = take_turn(it, trp_clock_ns(), &more);
    pthread_mutex_unlock(&lock);
    if (!told)
        return;
    name_waiter(it, who);
    if (more > 0)
        snprintf(others, sizeof others, "; so did %u more since the last such line", more);
    trp_log(TRP_WARN, "%s has waited %.1f s for %s%s", who, seconds(it), it->text, others);
}

void trp_slow_end(trp_slow *it)
{
    char who[WHO_MAX], others[64] = "";
    if (it->state != TOLD)
        return;
    pthread_mutex_lock(&lock);
    uint32_t more = kinds[it->kind].more;
    if (kinds[it->kind].leads == it) {
        kinds[it->kind].leads = NULL;
        kinds[it->kind].more = 0;
    } else {
        more = 0; // They count with the one that was told after it.
    }
    pthread_mutex_unlock(&lock);
    it->state = QUIET;
    name_waiter(it, who);
    if (more > 0)
        snprintf(others, sizeof others, "; so did %u more meanwhile", more);
    trp_log(TRP_WARN, "%s no longer waits: it took %.1f s for %s%s", who, seconds(it), it->text,
            others);
}
