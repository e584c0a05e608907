// actor_timer.c: timers of actors. timer.c has the clock; here is what is sent when it rings.
//
// An alarm is in a registry, by number, and in its actor's list. Its message has a copy of its
// arguments and its number: one that was stopped meanwhile is not run.
#include <actors/async/actor_timer.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/async/async.h>
#include <actors/class/call_error.h>
#include <actors/class/take_once.h>
#include <actors/ref/timer.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <troupe/async.h>

static void ring_alarm(uint64_t id);
static bool is_pending(uint64_t id);
static const trp_timer_kind alarm_kind = {.ring = ring_alarm, .pending = is_pending};

struct trp_alarm {
    trp_registered row;
    trp_alarm *next, **link; // In its actor's list, under that lock.
    trp_actor *actor;        // Its end ends the alarm first.
    uint64_t owner;          // Its id.
    trp_message *pattern;    // Has the method, and the arguments to be copied.
    int64_t at_ns, period_ns;
    bool queued; // A message is in the mailbox. Under the registry's lock.
};

static trp_registry alarms TRP_VAST;

__attribute__((constructor)) static void make_registry(void)
{
    trp_registry_init(&alarms);
}

static void free_alarm(trp_alarm *alarm)
{
    trp_message_free(alarm->pattern);
    trp_free(alarm);
}

static void link_alarm(trp_async *async, trp_alarm *alarm)
{
    pthread_mutex_lock(&async->lock);
    alarm->next = async->alarms;
    alarm->link = &async->alarms;
    if (alarm->next != NULL)
        alarm->next->link = &alarm->next;
    async->alarms = alarm;
    pthread_mutex_unlock(&async->lock);
}

// Takes it out of its actor's list, where the actor may be about to end it: see trp_alarms_end.
static void unlink_alarm(trp_alarm *alarm)
{
    trp_async *async = atomic_load(&alarm->actor->async);
    pthread_mutex_lock(&async->lock);
    *alarm->link = alarm->next;
    if (alarm->next != NULL)
        alarm->next->link = alarm->link;
    pthread_mutex_unlock(&async->lock);
}

// ---- making one

static trp_message *make_message(trp_message_kind kind, const trp_method *method, const void *args)
{
    trp_message *message = trp_message_create(kind, method->args.type->size);
    if (message == NULL)
        return NULL;
    message->method = method;
    if (trp_message_copy_args(message, &method->args, args) == TROUPE_OK)
        return message;
    trp_message_free(message);
    return NULL;
}

static troupe_status make_alarm(trp_running *here, const trp_method *method, const void *args,
                                trp_alarm **alarm)
{
    trp_async *async = trp_async_of(here->actor);
    trp_alarm *fresh = async == NULL ? NULL : trp_alloc(sizeof *fresh);
    if (fresh == NULL || (fresh->pattern = make_message(TRP_MESSAGE_ALARM, method, args)) == NULL) {
        trp_free(fresh);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a timer: %s",
                           troupe_last_error()->text);
    }
    fresh->actor = here->actor;
    fresh->owner = trp_actor_id(here->actor);
    fresh->row.id = trp_registry_number(&alarms);
    link_alarm(async, fresh);
    *alarm = fresh;
    return TROUPE_OK;
}

troupe_timer troupe_timer_start_as(const troupe_class *class_, size_t method, const void *args,
                                   uint32_t ms, bool repeats)
{
    const trp_method *found;
    trp_alarm *alarm;
    trp_running *here = trp_run_current();
    if (trp_async_method(here, class_, method, &found) != TROUPE_OK)
        return (troupe_timer){0};
    if (TRP_IS_NULL(args)) {
        (void)TRP_NULL(args);
        return (troupe_timer){0};
    }
    if (repeats && ms == 0) {
        (void)troupe_fail(TROUPE_INVALID, "a timer of %s has a period of 0 ms", found->row->name);
        return (troupe_timer){0};
    }
    if (make_alarm(here, found, args, &alarm) != TROUPE_OK)
        return (troupe_timer){0};
    uint64_t id = alarm->row.id;
    alarm->period_ns = repeats ? (int64_t)ms * 1000000 : 0;
    alarm->at_ns = trp_clock_ns() + (int64_t)ms * 1000000;
    int64_t at_ns = alarm->at_ns;
    trp_registry_add(&alarms, &alarm->row);
    if (trp_timer_at(at_ns, &alarm_kind, id))
        return (troupe_timer){id};
    (void)troupe_timer_stop((troupe_timer){id});
    (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a timer, or no thread");
    return (troupe_timer){0};
}

// ---- ringing

// What is to be sent, and when the next is due (0: never). With the registry's lock held.
static trp_message *ring(trp_alarm *alarm, int64_t *again_ns)
{
    trp_message *message = NULL;
    *again_ns = 0;
    if (!alarm->queued)
        message = make_message(TRP_MESSAGE_ALARM, alarm->pattern->method, alarm->pattern->args);
    if (message != NULL && (message->extra = trp_alloc(sizeof *message->extra)) == NULL) {
        trp_message_free(message);
        message = NULL;
    }
    if (message != NULL) {
        message->extra->serial = alarm->row.id;
        alarm->queued = true;
    }
    if (alarm->period_ns != 0) {
        int64_t late_ns = trp_clock_ns() - alarm->at_ns;
        alarm->at_ns += (late_ns / alarm->period_ns + 1) * alarm->period_ns;
        *again_ns = alarm->at_ns;
    } else if (message == NULL) {
        trp_log(TRP_ERROR, "no memory for the message of a timer; it comes later");
        *again_ns = trp_clock_ns() + 10000000;
    }
    return message;
}

static void ring_alarm(uint64_t id)
{
    int64_t again_ns;
    trp_alarm *alarm = (trp_alarm *)trp_registry_lock(&alarms, id);
    if (alarm == NULL)
        return;
    trp_message *message = ring(alarm, &again_ns);
    trp_actor *actor = alarm->actor;
    uint64_t owner = alarm->owner;
    trp_registry_unlock(&alarms, id);
    if (again_ns != 0 && !trp_timer_at(again_ns, &alarm_kind, id))
        trp_log(TRP_ERROR, "a timer of actor %s stops: no memory", trp_actor_label(owner).text);
    if (message != NULL)
        trp_actor_deliver(actor, owner, message);
}

static bool is_pending(uint64_t id)
{
    if (trp_registry_lock(&alarms, id) == NULL)
        return false;
    trp_registry_unlock(&alarms, id);
    return true;
}

bool trp_alarm_taken(const trp_message *message)
{
    uint64_t id = message->extra->serial;
    trp_alarm *alarm = (trp_alarm *)trp_registry_lock(&alarms, id);
    if (alarm == NULL)
        return false;
    bool once = alarm->period_ns == 0;
    alarm->queued = false;
    trp_registry_unlock(&alarms, id);
    return !once || troupe_timer_stop((troupe_timer){id}) == TROUPE_OK;
}

// ---- the end

troupe_status troupe_timer_stop(troupe_timer timer)
{
    trp_alarm *alarm = (trp_alarm *)trp_registry_lock(&alarms, timer.id_);
    if (alarm == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "the timer has ended before");
    trp_registry_unlock(&alarms, timer.id_);
    troupe_status status = TROUPE_OK;
    if (trp_registry_take(&alarms, timer.id_) != NULL) {
        unlink_alarm(alarm);
        free_alarm(alarm);
    } else {
        status = troupe_fail(TROUPE_NOT_FOUND, "the timer has ended before");
    }
    return status;
}

void trp_alarms_end(trp_async *async)
{
    trp_alarm *mine = NULL, *next;
    pthread_mutex_lock(&async->lock);
    for (trp_alarm *it = async->alarms; it != NULL; it = next) {
        next = it->next;
        if (trp_registry_take(&alarms, it->row.id) == NULL)
            continue; // It is being stopped.
        *it->link = next;
        if (next != NULL)
            next->link = it->link;
        it->row.next = (trp_registered *)mine;
        mine = it;
    }
    pthread_mutex_unlock(&async->lock);
    for (; mine != NULL; mine = next) {
        next = (trp_alarm *)mine->row.next;
        free_alarm(mine);
    }
}
