// concurrency_group.c: actors that run several methods at a time: see concurrency_group.h.
//
// Lane 0 is for methods of no group; the others are for one group each. A lane has a limit and a
// queue. The actor's turn only deals messages out; what waits in a lane keeps its room in the
// mailbox. Under the lock of the actor's async, since that is also what a canceller holds.
#include <actors/async/concurrency_group.h>

#include <actors/actor/death_record.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/async/side_thread.h>
#include <actors/async/urgent.h>
#include <actors/class/call_error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES_MAX = 16,
    NAME_MAX_ = 32,
    GROUPS_MAX = TRP_LANES_TEXT - 16, // What stands before them fits in the rest.
};

typedef struct lane {
    char name[NAME_MAX_];
    uint32_t limit, running;
    trp_lane waiting;
} lane;

struct trp_lanes {
    uint32_t count;
    uint32_t busy;  // Messages that run or wait.
    bool finishing; // The actor ends when there is none left.
    lane lanes[LANES_MAX];
    uint8_t lane_of[64]; // By method.
};

// ---- making them

troupe_status trp_lanes_text(const troupe_spawn_options *how, char text[TRP_LANES_TEXT])
{
    text[0] = '\0';
    if (how->concurrency <= 1 && how->groups == NULL)
        return TROUPE_OK;
    const char *groups = how->groups != NULL ? how->groups : "";
    if (strlen(groups) > GROUPS_MAX)
        return troupe_fail(TROUPE_INVALID, ".groups has %zu bytes, the limit is %d", strlen(groups),
                           GROUPS_MAX);
    snprintf(text, TRP_LANES_TEXT, "%u;%s", how->concurrency == 0 ? 1 : how->concurrency, groups);
    return TROUPE_OK;
}

static bool has_group(const trp_class *class_, const char *name)
{
    for (size_t i = 0; i < class_->row->method_count; i++)
        if (class_->methods[i].row->group != NULL &&
            strcmp(class_->methods[i].row->group, name) == 0)
            return true;
    return false;
}

// Reads "io=2" at `text`, which ends at `end`.
static troupe_status read_group(trp_lanes *lanes, const trp_class *class_, const char *text,
                                const char *end)
{
    const char *equals = memchr(text, '=', (size_t)(end - text));
    size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    char *rest = NULL;
    unsigned long limit = equals != NULL ? strtoul(equals + 1, &rest, 10) : 0;
    if (length == 0 || length >= NAME_MAX_ || rest != end || limit == 0 || limit > TRP_LANES_MAX)
        return troupe_fail(TROUPE_INVALID,
                           ".groups: expected a name, '=' and 1 to %d, found '%.*s'", TRP_LANES_MAX,
                           (int)(end - text), text);
    if (lanes->count == LANES_MAX)
        return troupe_fail(TROUPE_INVALID, ".groups: there are more than %d", LANES_MAX - 1);
    for (uint32_t i = 1; i < lanes->count; i++)
        if (strlen(lanes->lanes[i].name) == length &&
            memcmp(lanes->lanes[i].name, text, length) == 0)
            return troupe_fail(TROUPE_INVALID, ".groups: '%s' is given twice",
                               lanes->lanes[i].name);
    lane *it = &lanes->lanes[lanes->count++];
    memcpy(it->name, text, length);
    it->limit = (uint32_t)limit;
    return has_group(class_, it->name)
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID, ".groups: class '%s' has no method of the group '%s'",
                             class_->row->name, it->name);
}

static troupe_status read_lanes(trp_lanes *lanes, const trp_class *class_, const char *text)
{
    char *at;
    unsigned long limit = strtoul(text, &at, 10);
    if (limit == 0 || limit > TRP_LANES_MAX || *at++ != ';')
        return troupe_fail(TROUPE_MALFORMED, "an actor's concurrency is malformed: '%s'", text);
    lanes->count = 1;
    lanes->lanes[0].limit = (uint32_t)limit;
    for (char *end; *at != '\0'; at = *end == ',' ? end + 1 : end) {
        end = strchrnul(at, ',');
        TROUPE_TRY(read_group(lanes, class_, at, end));
        if (end[0] == ',' && end[1] == '\0')
            return troupe_fail(TROUPE_INVALID, ".groups: nothing follows the last comma of '%s'",
                               text);
    }
    for (size_t i = 0; i < class_->row->method_count; i++)
        for (uint32_t k = 1; k < lanes->count && class_->methods[i].row->group != NULL; k++)
            if (strcmp(class_->methods[i].row->group, lanes->lanes[k].name) == 0)
                lanes->lane_of[i] = (uint8_t)k;
    return TROUPE_OK;
}

trp_lanes *trp_lanes_make(const trp_class *class_, const char *text)
{
    trp_lanes *lanes = trp_alloc(sizeof *lanes);
    if (lanes == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for an actor");
        return NULL;
    }
    if (read_lanes(lanes, class_, text) == TROUPE_OK)
        return lanes;
    trp_free(lanes);
    return NULL;
}

bool trp_lanes_attach(trp_actor *actor, trp_lanes *lanes)
{
    trp_actor_extra *extra = lanes != NULL ? trp_actor_extend(actor) : NULL;
    if (extra != NULL)
        extra->lanes = lanes;
    atomic_store(&actor->concurrent, extra != NULL);
    return lanes == NULL || extra != NULL;
}

void trp_lanes_free(trp_lanes *lanes)
{
    trp_free(lanes);
}

// ---- messages

static trp_lanes *lanes_of(trp_actor *actor)
{
    trp_actor_extra *extra = atomic_load(&actor->extra);
    return extra != NULL ? extra->lanes : NULL;
}

static void append(lane *to, trp_message *message)
{
    message->link.below = 0;
    if (to->waiting.first == NULL)
        to->waiting.first = &message->link;
    else
        to->waiting.last->below = (uintptr_t)&message->link;
    to->waiting.last = &message->link;
}

static trp_message *pop(lane *from)
{
    trp_link *link = from->waiting.first;
    if (link != NULL)
        from->waiting.first = trp_link_next(link);
    return (trp_message *)link;
}

static void refuse(trp_actor *actor, trp_message *message, const char *why)
{
    troupe_error failure =
        trp_failure(TROUPE_NOT_EXECUTED, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                    "actor %s %s", trp_actor_label(message->target).text, why);
    trp_actor_refuse(actor, message, &failure);
}

void trp_lanes_dispatch(trp_actor *actor, trp_message *message)
{
    trp_lanes *lanes = lanes_of(actor);
    trp_async *async = trp_async_of(actor);
    if (async == NULL || lanes->finishing) { // Which this thread alone sets.
        refuse(actor, message, async == NULL ? "has no memory to run it" : "is about to end");
        return;
    }
    size_t method = (size_t)(message->method - ((const trp_class *)actor->class_)->methods);
    lane *to = &lanes->lanes[lanes->lane_of[method]];
    message->beside = true;
    message->lane = (uint8_t)(to - lanes->lanes);
    pthread_mutex_lock(&async->lock);
    bool runs = to->running < to->limit, buried = trp_cancel_buried(async, message);
    if (!buried) {
        lanes->busy++;
        if (runs)
            to->running++, trp_cancel_handed(async);
        else
            append(to, message);
    }
    if (!buried && !runs)
        trp_mailbox_reserve_always(&actor->run.mailbox, message->weight);
    pthread_mutex_unlock(&async->lock);
    if (buried) {
        trp_message_left(message);
        trp_message_free(message);
    } else if (runs) {
        (void)trp_guest_enter(actor); // Its async is there.
        if (!trp_helper_push(message, true))
            trp_beside_run(message); // The runtime stops: it is refused.
    }
}

// With the lock held. True: the actor is to end now.
static bool count_down(trp_lanes *lanes)
{
    return --lanes->busy == 0 && lanes->finishing;
}

trp_message *trp_lanes_next(trp_actor *actor, uint32_t index)
{
    trp_lanes *lanes = lanes_of(actor);
    trp_async *async = atomic_load(&actor->async);
    lane *from = &lanes->lanes[index];
    pthread_mutex_lock(&async->lock);
    bool ends = count_down(lanes);
    // What waits while the actor is restarted is run by the next start.
    trp_message *message = atomic_load(&async->shut) ? NULL : pop(from);
    if (message == NULL) {
        from->running--;
    } else {
        trp_cancel_handed(async);
        trp_mailbox_return(&actor->run.mailbox, message->weight);
    }
    pthread_mutex_unlock(&async->lock);
    if (ends)
        (void)trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_ENDED, NULL);
    return message;
}

// The next message of a lane that has room, or NULL.
static trp_message *take_waiting(trp_actor *actor, trp_async *async, lane *from)
{
    pthread_mutex_lock(&async->lock);
    trp_message *message = from->running < from->limit ? pop(from) : NULL;
    if (message != NULL) {
        from->running++;
        trp_cancel_handed(async);
        trp_mailbox_return(&actor->run.mailbox, message->weight);
    }
    pthread_mutex_unlock(&async->lock);
    return message;
}

void trp_lanes_resume(trp_actor *actor)
{
    trp_lanes *lanes = lanes_of(actor);
    trp_async *async = atomic_load(&actor->async);
    trp_message *message;
    for (uint32_t i = 0; lanes != NULL && async != NULL && i < lanes->count; i++)
        while ((message = take_waiting(actor, async, &lanes->lanes[i])) != NULL) {
            (void)trp_guest_enter(actor); // Its async is there.
            if (!trp_helper_push(message, true))
                trp_beside_run(message); // The runtime stops: it is refused.
        }
}

bool trp_lanes_finish(trp_actor *actor)
{
    trp_lanes *lanes = lanes_of(actor);
    trp_async *async = trp_async_of(actor);
    if (async == NULL)
        return true;
    pthread_mutex_lock(&async->lock);
    lanes->finishing = true;
    bool now = lanes->busy == 0;
    pthread_mutex_unlock(&async->lock);
    return now;
}

trp_message *trp_lanes_cancel(trp_actor *actor, const trp_caller *caller)
{
    trp_lanes *lanes = lanes_of(actor);
    for (uint32_t i = 0; lanes != NULL && i < lanes->count; i++) {
        lane *it = &lanes->lanes[i];
        trp_link *before = NULL;
        for (trp_link *link = it->waiting.first; link != NULL; link = trp_link_next(link)) {
            trp_message *message = (trp_message *)link;
            if (message->call == 0 || !trp_caller_is(caller, message)) {
                before = link;
                continue;
            }
            if (before == NULL)
                it->waiting.first = trp_link_next(link);
            else
                before->below = link->below;
            if (it->waiting.last == link)
                it->waiting.last = before;
            trp_mailbox_return(&actor->run.mailbox, message->weight);
            lanes->busy--; // What runs in the lane sees to the actor's end.
            return message;
        }
    }
    return NULL;
}

trp_link *trp_lanes_close(trp_actor *actor)
{
    trp_lanes *lanes = lanes_of(actor);
    trp_async *async = atomic_load(&actor->async);
    trp_lane all = {0};
    if (lanes == NULL || async == NULL)
        return NULL;
    pthread_mutex_lock(&async->lock);
    for (uint32_t i = 0; i < lanes->count; i++) {
        lane *it = &lanes->lanes[i];
        if (it->waiting.first == NULL)
            continue;
        if (all.first == NULL)
            all.first = it->waiting.first;
        else
            all.last->below = (uintptr_t)it->waiting.first;
        all.last = it->waiting.last;
        it->waiting.first = NULL;
    }
    pthread_mutex_unlock(&async->lock);
    return all.first;
}
