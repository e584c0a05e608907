// monitor.c: being told of ends: monitors of actors, waits of threads; and ending: exit, failing,
// stopping with a deadline.
#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/lifecycle.h>
#include <actors/actor/restart_in_place.h>
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/ends/kill.h>
#include <actors/ends/watch.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/printable.h>
#include <runtime/base/require.h>
#include <runtime/link/park.h>
#include <runtime/shm/process_table.h>
#include <stdarg.h>

// ---- monitors

// The method of the running actor that takes news.
static troupe_status choose_method(const troupe_class *class_, size_t method,
                                   const trp_method **chosen)
{
    trp_actor *self = trp_run_actor();
    TROUPE_TRY(trp_process_check());
    if (self == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "only an actor can get such messages: this is not inside a method");
    const trp_class *known = trp_class_of(class_);
    if (known == NULL)
        return troupe_failed_(troupe_last_error()->status);
    if (known->hash != self->class_->hash || method >= class_->method_count)
        return troupe_fail(TROUPE_INVALID, "a method of class '%s' cannot be called in actor %s",
                           class_->name, trp_actor_label(trp_actor_id(self)).text);
    *chosen = &known->methods[method];
    if (troupe_type_hash((*chosen)->args.type) != troupe_type_hash(&troupe_type_troupe_down))
        return troupe_fail(TROUPE_WRONG_TYPE, "method %s takes %s, expected troupe_down",
                           (*chosen)->row->name, (*chosen)->args.type->name);
    return TROUPE_OK;
}

static void tell_method(void *user, uint64_t owner, uint64_t number, const trp_down *down)
{
    const trp_method *const *method = user;
    troupe_down news = {.actor = down->actor,
                        .monitor = number,
                        .reason = down->reason,
                        .signal = down->signal,
                        .text = down->text};
    (void)trp_life_post(owner, *method, &news);
    trp_free(user);
}

uint64_t troupe_monitor_start_as(troupe_actor actor, const troupe_class *class_, size_t method)
{
    const trp_method *chosen;
    if (choose_method(class_, method, &chosen) != TROUPE_OK)
        return 0;
    trp_actor *self = trp_run_actor();
    const trp_method **kept = trp_alloc(sizeof *kept);
    trp_life *life = trp_life_lock(self, trp_actor_id(self), true);
    if (life != NULL)
        life->watches = true;
    trp_life_unlock(life);
    if (kept == NULL || life == NULL) {
        trp_free(kept);
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a monitor");
        return 0;
    }
    *kept = chosen;
    uint64_t number = trp_watch(actor, trp_actor_id(self), tell_method, kept);
    if (number == 0)
        trp_free(kept);
    return number;
}

bool troupe_monitor_stop(uint64_t monitor)
{
    trp_actor *self = trp_run_actor();
    void *kept = NULL;
    if (self == NULL || !trp_watch_drop(monitor, trp_actor_id(self), &kept))
        return false;
    trp_free(kept);
    return true;
}

troupe_status troupe_actor_trap_ends_as(const troupe_class *class_, size_t method)
{
    const trp_method *chosen;
    TROUPE_TRY(choose_method(class_, method, &chosen));
    trp_actor *self = trp_run_actor();
    trp_life *life = trp_life_lock(self, trp_actor_id(self), true);
    if (life != NULL)
        life->trap = chosen;
    trp_life_unlock(life);
    return life != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a trap");
}

// ---- waits

typedef struct ending {
    _Atomic uint32_t over; // Set after `down`; the waiter's load pairs with it.
    _Atomic int holders;
    trp_down down;
} ending;

static void release(ending *shared)
{
    if (atomic_fetch_sub(&shared->holders, 1) == 1)
        trp_free(shared);
}

static void tell_waiter(void *user, uint64_t owner, uint64_t number, const trp_down *down)
{
    (void)owner, (void)number;
    ending *shared = user;
    shared->down = *down;
    atomic_store(&shared->over, 1);
    trp_unpark(&shared->over, 1);
    release(shared);
}

static bool sleep_until(ending *shared, int64_t deadline_ns)
{
    while (atomic_load(&shared->over) == 0) {
        if (deadline_ns >= 0 && trp_clock_ns() >= deadline_ns)
            return false;
        trp_park(&shared->over, 0, deadline_ns);
    }
    return true;
}

// Waits until the actor has ended, or `deadline_ns` (negative: for ever).
static troupe_status await_end(troupe_actor actor, int64_t deadline_ns, trp_down *down)
{
    ending *shared = trp_alloc(sizeof *shared);
    if (shared == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to wait for the end of an actor");
    shared->holders = 2;
    uint64_t number = trp_watch(actor, 0, tell_waiter, shared);
    troupe_status status = number == 0 ? TROUPE_NO_MEMORY : TROUPE_OK;
    bool over = status == TROUPE_OK && atomic_load(&shared->over) != 0;
    trp_wait_for(TRP_WAIT_END, actor.id, actor.process);
    if (status == TROUPE_OK && !over && (status = trp_scheduler_block()) == TROUPE_OK) {
        over = sleep_until(shared, deadline_ns);
        trp_scheduler_unblock();
    }
    if (over)
        *down = shared->down;
    else if (number == 0 || trp_watch_drop(number, 0, NULL)) // Else it is being told right now.
        release(shared);
    release(shared);
    if (status != TROUPE_OK || over)
        return trp_error_settled(status);
    return troupe_fail(TROUPE_TIMED_OUT, "actor #%llu of %s still lives",
                       (unsigned long long)actor.id, trp_process_text(actor.process).text);
}

static troupe_status check_not_self(troupe_actor actor)
{
    TROUPE_TRY(trp_process_check());
    if (!trp_life_is_self(actor))
        return TROUPE_OK;
    return troupe_fail(TROUPE_DEADLOCK, "actor %s waits for its own end",
                       trp_actor_label(trp_actor_id(trp_run_actor())).text);
}

troupe_status(troupe_actor_await_end)(troupe_actor actor, int timeout_ms, troupe_down *down)
{
    trp_down news;
    TROUPE_TRY(check_not_self(actor));
    TROUPE_TRY(await_end(actor, trp_clock_deadline(timeout_ms), &news));
    if (down != NULL)
        *down = trp_down_public(&news, 0);
    return TROUPE_OK;
}

// ---- ending

troupe_status troupe_actor_exit_with(const troupe_actor_exit_options *how)
{
    troupe_actor_exit_options taken;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_actor_exit", taken, how));
    trp_actor *self = trp_run_actor();
    if (self == NULL)
        return troupe_fail(TROUPE_INVALID, "troupe_actor_exit was called outside methods");
    trp_life_say(self, trp_actor_id(self), TROUPE_DOWN_NORMAL, 0, taken.text);
    if (taken.drain)
        return troupe_actor_end(trp_actor_address(self));
    (void)trp_actor_close(self, trp_actor_id(self), TRP_ACTOR_ENDED, NULL);
    return TROUPE_OK;
}

// In parentheses: a macro of that name tells compilers that it never returns TROUPE_OK.
troupe_status(troupe_actor_fail)(troupe_status status, const char *format, ...)
{
    char text[256];
    va_list rest;
    va_start(rest, format);
    (void)trp_printable_format(text, sizeof text, format, rest);
    va_end(rest);
    trp_actor *self = trp_run_actor();
    if (self != NULL && !trp_policy_ask(self, trp_actor_id(self), TROUPE_DOWN_ERROR, text)) {
        trp_life_say(self, trp_actor_id(self), TROUPE_DOWN_ERROR, 0, text);
        (void)trp_actor_close(self, trp_actor_id(self), TRP_ACTOR_ENDED, NULL);
    }
    return troupe_fail(status, "%s", text);
}

troupe_status(troupe_actor_stop)(troupe_actor actor, int force_after_ms)
{
    trp_down news;
    TROUPE_TRY(check_not_self(actor));
    if (actor.id == 0)
        return TROUPE_OK;
    troupe_status status = TROUPE_TIMED_OUT;
    if (force_after_ms != 0) {
        TROUPE_TRY(troupe_actor_end(actor));
        status = await_end(actor, trp_clock_deadline(force_after_ms), &news);
    }
    if (status != TROUPE_TIMED_OUT)
        return trp_error_settled(status);
    // Who waits for what it runs is told now: a light one's method cannot be stopped from outside.
    // Its end comes in any case, and is awaited for a moment longer: so long at most for the word
    // that it is ended by force, and once more for its end.
    enum { AT_ONCE_MS = 1000, LAST_MS = 20 };
    int last_ms = force_after_ms == 0 ? AT_ONCE_MS : LAST_MS;
    TROUPE_TRY(trp_kill_actor(actor, true, last_ms));
    status = await_end(actor, trp_clock_deadline(last_ms), &news);
    if (status != TROUPE_OK && status != TROUPE_TIMED_OUT)
        return status;
    return troupe_fail(
        TROUPE_DEADLINE_EXCEEDED, "actor #%llu of %s was ended by force: it did not end in %d ms",
        (unsigned long long)actor.id, trp_process_text(actor.process).text, force_after_ms);
}
