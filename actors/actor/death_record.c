// death_record.c: what is said of actors: their labels, where a failure happened, and why messages
// to the dead were not run.
#include <actors/actor/death_record.h>

#include <actors/actor/actor.h>
#include <actors/actor/lifecycle.h>
#include <actors/class/call_error.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <stdio.h>
#include <string.h>

enum { GRAVES = 4096, GRAVE_BITS = 12, NAME_MAX_SHOWN = 29, LOCKS = 16 };

// Of the dead, whose end can still be told.
typedef struct grave {
    uint64_t id;
    const trp_class *class_;
    trp_actor_state state;
    char name[NAME_MAX_SHOWN + 1];
} grave;

static struct {
    pthread_mutex_t locks[LOCKS]; // Of the graves, grave % LOCKS.
    grave graves[GRAVES];
} yard TRP_VAST;

__attribute__((constructor)) static void make_locks(void)
{
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&yard.locks[i], NULL);
}

// Ids of one slot differ in their upper bits only.
static size_t place_of(uint64_t id)
{
    return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> (64 - GRAVE_BITS));
}

trp_label trp_label_of(const char *class_name, const char *name, uint64_t id)
{
    trp_label label;
    if (name != NULL && name[0] != '\0')
        snprintf(label.text, sizeof label.text, "%.30s '%.*s'", class_name, NAME_MAX_SHOWN, name);
    else
        snprintf(label.text, sizeof label.text, "%.40s#%llu", class_name, (unsigned long long)id);
    trp_printable_clean(label.text, sizeof label.text); // A name may be any text.
    return label;
}

static trp_label make_label(const trp_class *class_, const char *name, uint64_t id)
{
    return trp_label_of(class_ != NULL ? class_->row->name : "actor", name, id);
}

trp_label trp_actor_label_locked(const trp_actor *actor, uint64_t id)
{
    const trp_actor_extra *extra = actor->extra;
    return make_label(actor->class_, extra != NULL ? extra->name : NULL, id);
}

static grave dig(uint64_t id)
{
    size_t place = place_of(id);
    grave found = {0};
    pthread_mutex_lock(&yard.locks[place % LOCKS]);
    if (yard.graves[place].id == id)
        found = yard.graves[place];
    pthread_mutex_unlock(&yard.locks[place % LOCKS]);
    return found;
}

void trp_actor_bury(const trp_actor *actor, uint64_t id, trp_actor_state state)
{
    size_t place = place_of(id);
    const trp_actor_extra *extra = actor->extra;
    pthread_mutex_lock(&yard.locks[place % LOCKS]);
    grave *mine = &yard.graves[place];
    mine->id = id;
    mine->class_ = actor->class_;
    mine->state = state;
    mine->name[0] = '\0';
    if (extra != NULL && extra->name != NULL)
        snprintf(mine->name, sizeof mine->name, "%s", extra->name);
    pthread_mutex_unlock(&yard.locks[place % LOCKS]);
}

// The actor with that id if it is still there, with its slot's lock held; NULL without.
static trp_actor *lock_actor(uint64_t id)
{
    pthread_mutex_lock(trp_slot_lock(id));
    trp_actor *actor = trp_actor_find(id);
    if (actor == NULL)
        pthread_mutex_unlock(trp_slot_lock(id));
    return actor;
}

trp_label trp_actor_label(uint64_t id)
{
    trp_actor *actor = lock_actor(id);
    if (actor == NULL) {
        grave found = dig(id);
        return make_label(found.class_, found.name, id);
    }
    trp_label label = trp_actor_label_locked(actor, id);
    pthread_mutex_unlock(trp_slot_lock(id));
    return label;
}

static void set_place(troupe_error *failure, const char *label)
{
    snprintf(failure->actor, sizeof failure->actor, "%s", label);
    snprintf(failure->node, sizeof failure->node, "%s", trp_home_here.host);
    failure->process = trp_home_here.pid;
}

void trp_failure_place(troupe_error *failure, uint64_t actor)
{
    set_place(failure, actor != 0 ? trp_actor_label(actor).text : "");
}

static troupe_error describe_end(trp_label label, trp_actor_state state)
{
    const char *how = state == TRP_ACTOR_KILLED    ? "was killed"
                      : state == TRP_ACTOR_FAILED  ? "could not be started"
                      : state == TRP_ACTOR_STOPPED ? "ended with the runtime"
                                                   : "has ended";
    troupe_error failure = trp_failure(TROUPE_NOT_EXECUTED, TROUPE_OUTCOME_NOT_EXECUTED,
                                       TROUPE_EXECUTED_NO, "actor %s %s", label.text, how);
    set_place(&failure, label.text);
    return failure;
}

static troupe_error describe_unknown(uint64_t id)
{
    troupe_error failure = trp_failure(
        TROUPE_NOT_EXECUTED, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
        "actor #%llu of process %u (pid %d) %s", (unsigned long long)id, trp_home_here.process,
        trp_home_here.pid, trp_slot_existed(id) ? "has ended" : "never existed");
    set_place(&failure, "");
    return failure;
}

static troupe_error describe_closed(const trp_actor *actor, uint64_t id, trp_actor_state state)
{
    const trp_actor_extra *extra = actor->extra;
    if (state != TRP_ACTOR_FAILED || extra == NULL || !extra->failed)
        return describe_end(trp_actor_label_locked(actor, id), state);
    troupe_error failure = extra->failure;
    failure.outcome = TROUPE_OUTCOME_NOT_EXECUTED;
    failure.executed = TROUPE_EXECUTED_NO;
    return failure;
}

troupe_error trp_actor_obituary_state(uint64_t id, trp_actor_state *state)
{
    trp_actor *actor = lock_actor(id);
    if (actor == NULL) {
        grave found = dig(id);
        if (found.id == 0)
            return describe_unknown(id);
        *state = found.state;
        return describe_end(make_label(found.class_, found.name, id), found.state);
    }
    *state = trp_phase_state(atomic_load(&actor->phase));
    troupe_error failure = describe_closed(actor, id, *state);
    pthread_mutex_unlock(trp_slot_lock(id));
    return failure;
}

troupe_error trp_actor_obituary(uint64_t id)
{
    trp_actor_state state = TRP_ACTOR_OPEN;
    troupe_error failure = trp_actor_obituary_state(id, &state);
    if (state != TRP_ACTOR_FAILED)
        trp_life_explain(id, &failure);
    return failure;
}
