// test_waits_and_losses.waits.c: all kinds of waits. What they wait for is held up by methods that
// wait for the cell's word, and by stopped and dead processes.
#include "waits_and_losses.h"

#include <poll.h>
#include <pthread.h>
#include <support.h>
#include <troupe.h>
#include <unistd.h>

// ---- what is waited for

static void nap(int ms)
{
    (void)poll(NULL, 0, ms);
}

troupe_status waits_hold_on(void)
{
    while (atomic_load(&mine->go) == 0)
        nap(2);
    return TROUPE_OK;
}

typedef struct holder {
    troupe_deferred later;
} holder;

static troupe_status holder_hold(holder *self, const int64_t *give, int64_t *given)
{
    (void)self;
    *given = *give;
    return waits_hold_on();
}

static troupe_status holder_pid(holder *self, const int64_t *nothing, int64_t *pid)
{
    (void)self, (void)nothing;
    *pid = getpid();
    return TROUPE_OK;
}

static troupe_status holder_later(holder *self, const int64_t *nothing, int64_t *given)
{
    (void)nothing, (void)given;
    self->later = troupe_defer();
    return TROUPE_OK;
}

static troupe_status holder_fulfil(holder *self, const int64_t *give, int64_t *given)
{
    (void)given;
    return troupe_deferred_fulfil(int64_t, &self->later, give);
}

static troupe_status holder_many(holder *self, const int64_t *give, int64_t *value)
{
    (void)self;
    TROUPE_TRY(waits_hold_on());
    *value = *give;
    return troupe_yield(int64_t, value);
}

static troupe_status holder_lend(holder *self, const int64_t *give, troupe_ref *lent);
static troupe_status holder_ask(holder *self, const troupe_actor *whom, int64_t *given);
static troupe_status holder_make(holder *self, const int64_t *nothing, troupe_actor *made);

TROUPE_ACTOR(holder, (holder_hold, int64_t, int64_t, .options = TROUPE_METHOD_REPEATABLE),
             (holder_pid, int64_t, int64_t), (holder_later, int64_t, int64_t),
             (holder_fulfil, int64_t, int64_t),
             (holder_many, int64_t, int64_t, .options = TROUPE_METHOD_STREAM),
             (holder_lend, int64_t, troupe_ref), (holder_ask, troupe_actor, int64_t),
             (holder_make, int64_t, troupe_actor));

// The value is made in this process, by another actor.
static troupe_status holder_lend(holder *self, const int64_t *give, troupe_ref *lent)
{
    (void)self;
    holder_actor other = troupe_spawn(holder, .place = TROUPE_PLACE_HERE);
    *lent = troupe_call(other, holder_hold, *give);
    return TROUPE_OK;
}

static troupe_status holder_ask(holder *self, const troupe_actor *whom, int64_t *given)
{
    (void)self;
    return troupe_get(int64_t, troupe_call((holder_actor){*whom}, holder_hold, 5), given);
}

static troupe_status holder_make(holder *self, const int64_t *nothing, troupe_actor *made)
{
    (void)self, (void)nothing;
    *made = troupe_spawn(holder, .place = TROUPE_PLACE_WORKER, .counted = true).address;
    return troupe_actor_status(*made);
}

typedef struct slow {
    char unused;
} slow;

static troupe_status slow_init(slow *self, const int64_t *nothing)
{
    (void)self, (void)nothing;
    atomic_store(&mine->waits, 1); // The loss is to come in the middle of this.
    return waits_hold_on();
}

static void slow_deinit(slow *self)
{
    (void)self;
}

static troupe_status slow_nothing(slow *self, const int64_t *nothing, int64_t *given)
{
    (void)self, (void)nothing, (void)given;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(slow, (slow_init, int64_t), slow_deinit, (slow_nothing, int64_t, int64_t));

// Is told of an end.
typedef struct heir {
    char unused;
} heir;

static troupe_status heir_down(heir *self, const troupe_down *down, troupe_none *nothing)
{
    (void)self, (void)nothing;
    atomic_store(&mine->told, down->reason);
    return TROUPE_OK;
}

static troupe_status heir_watch(heir *self, const troupe_actor *whom, int64_t *reason);

TROUPE_ACTOR(heir, (heir_down, troupe_down, troupe_none), (heir_watch, troupe_actor, int64_t));

static troupe_status heir_watch(heir *self, const troupe_actor *whom, int64_t *reason)
{
    (void)self, (void)reason;
    return troupe_monitor_start((holder_actor){*whom}, heir_down) != 0 ? TROUPE_OK : TROUPE_FAILED;
}

static troupe_status slow_task(const int64_t *give, int64_t *given)
{
    *given = *give;
    return waits_hold_on();
}
TROUPE_TASK(slow_task, int64_t, int64_t);

// ---- the waits

void waits_begin(void)
{
    atomic_store(&mine->waits, 1);
    while (mine->after && atomic_load(&mine->lost_ms) == 0)
        nap(1);
}

// Ready, and in the process that is lost.
static holder_actor victim(void)
{
    int64_t pid;
    holder_actor made = troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_get(int64_t, troupe_call(made, holder_pid, 0), &pid));
    return made;
}

troupe_status wait_get(void)
{
    int64_t value;
    troupe_ref ref = troupe_call(victim(), holder_hold, 5);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_deadline(void)
{
    int64_t value;
    holder_actor whom = troupe_with(victim(), .deadline_ms = (uint32_t)mine->limit_ms);
    waits_begin();
    return troupe_get(int64_t, troupe_call(whom, holder_hold, 5), &value);
}

troupe_status wait_retries(void)
{
    int64_t value;
    holder_actor whom =
        troupe_with(victim(), .retries = 3, .deadline_ms = (uint32_t)mine->limit_ms);
    waits_begin();
    return troupe_get(int64_t, troupe_call(whom, holder_hold, 5), &value);
}

troupe_status wait_restarts(void)
{
    int64_t value;
    holder_actor whom =
        troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED, .restarts = 5, .backoff_ms = 10);
    whom = troupe_with(whom, .retries = 3, .deadline_ms = (uint32_t)mine->limit_ms);
    waits_begin();
    return troupe_get(int64_t, troupe_call(whom, holder_hold, 5), &value);
}

troupe_status wait_get_all(void)
{
    int64_t values[2];
    holder_actor whom = victim();
    troupe_ref refs[] = {troupe_call(whom, holder_hold, 5), troupe_call(whom, holder_hold, 6)};
    waits_begin();
    return troupe_get_all(int64_t, refs, 2, values,
                          mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_wait(void)
{
    holder_actor whom = victim();
    troupe_ref refs[] = {troupe_call(whom, holder_hold, 5), troupe_call(whom, holder_hold, 6)};
    waits_begin();
    return troupe_wait(refs, 2, 2, mine->limit_ms > 0 ? mine->limit_ms : -1, NULL, NULL);
}

troupe_status wait_set(void)
{
    troupe_ref_set *set;
    troupe_ref ready;
    troupe_must(troupe_ref_set_open(&set));
    troupe_must(troupe_ref_set_add(set, troupe_call(victim(), holder_hold, 5), NULL));
    waits_begin();
    return troupe_ref_set_next(set, mine->limit_ms > 0 ? mine->limit_ms : -1, &ready, NULL);
}

troupe_status wait_join(void)
{
    troupe_array_int64_t values;
    holder_actor whom = victim();
    troupe_ref refs[] = {troupe_call(whom, holder_hold, 5), troupe_call(whom, holder_hold, 6)};
    troupe_ref all = troupe_ref_join(int64_t, refs, 2);
    waits_begin();
    return troupe_get(troupe_array_int64_t, all, &values,
                      mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_stream(void)
{
    int64_t value;
    troupe_stream stream = troupe_stream_open(victim(), holder_many, 5);
    waits_begin();
    return troupe_next(int64_t, stream, &value,
                       mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_object(void)
{
    int64_t value;
    troupe_ref lent;
    troupe_must(troupe_get(troupe_ref, troupe_call(victim(), holder_lend, 5), &lent));
    waits_begin();
    return troupe_get(int64_t, lent, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_objects(void)
{
    troupe_ref lent;
    troupe_must(troupe_get(troupe_ref, troupe_call(victim(), holder_lend, 5), &lent));
    waits_begin();
    return troupe_wait(&lent, 1, 1, mine->limit_ms > 0 ? mine->limit_ms : -1, NULL, NULL);
}

troupe_status wait_deferred(void)
{
    int64_t value;
    holder_actor here = troupe_spawn(holder, .place = TROUPE_PLACE_HERE);
    troupe_ref ref = troupe_call(here, holder_later, 0);
    waits_begin();
    if (mine->expected == GOES_ON) {
        (void)waits_hold_on();
        troupe_must(troupe_tell(here, holder_fulfil, 5));
    }
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_inside(void)
{
    int64_t value;
    holder_actor here = troupe_spawn(holder, .place = TROUPE_PLACE_HERE), whom = victim();
    troupe_ref ref = troupe_call_from(here, holder_ask, &whom.address);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_task(void)
{
    int64_t value, give = 5;
    // Long after the limit of the wait, which may begin late.
    troupe_ref ref =
        troupe_run_from(slow_task, &give, .deadline_ms = (uint32_t)mine->limit_ms * 40);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_task_once(void)
{
    int64_t value, give = 5;
    troupe_ref ref = troupe_run_from(slow_task, &give, .retries = TROUPE_NONE);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_task_alone(void)
{
    int64_t value, give = 5;
    troupe_ref ref =
        troupe_run_from(slow_task, &give, .place = TROUPE_PLACE_ISOLATED, .retries = TROUPE_NONE);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

static void *give_back_later(void *actor)
{
    (void)waits_hold_on();
    troupe_actor_kill(*(holder_actor *)actor);
    return NULL;
}

void waits_take_all(void)
{
    static holder_actor all;
    pthread_t thread;
    all = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .cpus = 2);
    troupe_must(troupe_actor_status(all.address));
    if (mine->expected != GOES_ON)
        return;
    assert_int_equal(pthread_create(&thread, NULL, give_back_later, &all), 0);
    (void)pthread_detach(thread);
}

troupe_status wait_task_needs(void)
{
    int64_t value, give = 5;
    waits_take_all();
    troupe_ref ref = troupe_run_from(slow_task, &give, .cpus = 1, .deadline_ms = 0);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_map(void)
{
    static const int64_t give[] = {1, 2, 3};
    int64_t value;
    troupe_map *map = troupe_run_map(slow_task, give, 3);
    waits_begin();
    return troupe_map_next(int64_t, map, &value, NULL,
                           mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_pool(void)
{
    int64_t value;
    troupe_pool *pool;
    troupe_must(troupe_pool_open(holder, &pool, .count = 2));
    troupe_ref ref = troupe_pool_call(pool, holder_hold, 5);
    waits_begin();
    return troupe_get(int64_t, ref, &value, mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_mailbox(void)
{
    holder_actor whom = troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED, .mailbox_max = 4);
    troupe_must(troupe_actor_status(whom.address));
    whom = troupe_with(whom, .deadline_ms = (uint32_t)mine->limit_ms);
    troupe_status status = TROUPE_OK;
    waits_begin();
    // More than there is room for, in the mailbox and on the way.
    for (int i = 0; i < 100000 && status == TROUPE_OK; i++)
        status = troupe_tell(whom, holder_hold, i);
    return status;
}

troupe_status wait_spawn_init(void)
{
    slow_actor made = troupe_spawn(slow, .place = TROUPE_PLACE_WORKER);
    return troupe_actor_status(made.address);
}

troupe_status wait_spawn_deadline(void)
{
    slow_actor made =
        troupe_spawn(slow, .place = TROUPE_PLACE_ISOLATED, .deadline_ms = (uint32_t)mine->limit_ms);
    return troupe_actor_status(made.address);
}

troupe_status wait_spawn_alone(void)
{
    waits_begin();
    holder_actor made = troupe_spawn(holder, .place = TROUPE_PLACE_ISOLATED);
    return troupe_actor_status(made.address);
}

troupe_status wait_spawn_many(void)
{
    holder_actor made[4];
    waits_begin();
    return troupe_spawn_many(holder, 4, made, .place = TROUPE_PLACE_ISOLATED);
}

troupe_status wait_spawn_needs(void)
{
    waits_take_all();
    waits_begin();
    holder_actor made = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .cpus = 1);
    return troupe_actor_status(made.address);
}

troupe_status wait_name(void)
{
    troupe_actor found;
    holder_actor named = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .name = "known");
    troupe_must(troupe_actor_status(named.address));
    waits_begin();
    return troupe_lookup_as(&troupe_class_holder, "known", &found);
}

troupe_status wait_take_name(void)
{
    waits_begin();
    holder_actor named = troupe_spawn(holder, .place = TROUPE_PLACE_HERE, .name = "fresh");
    return troupe_actor_status(named.address);
}

troupe_status wait_resources(void)
{
    troupe_resources all;
    waits_begin();
    return troupe_resources_get(&all);
}

troupe_status wait_channel_read(void)
{
    troupe_channel channel;
    troupe_channel_reader reader;
    troupe_channel_view view;
    troupe_must(troupe_channel_open(64, 4, 1, &channel));
    troupe_must(troupe_channel_read_open(channel, 0, &reader));
    (void)victim();
    waits_begin();
    return troupe_channel_read_begin(&reader, &view, mine->limit_ms > 0 ? mine->limit_ms : -1);
}

troupe_status wait_channel_write(void)
{
    troupe_channel channel;
    troupe_channel_writer writer;
    troupe_channel_reader reader;
    void *data;
    troupe_must(troupe_channel_open(64, 1, 1, &channel));
    troupe_must(troupe_channel_read_open(channel, 0, &reader));
    troupe_must(troupe_channel_write_open(channel, &writer));
    troupe_must(troupe_channel_write_begin(&writer, &data, 0));
    troupe_must(troupe_channel_publish(&writer, 8));
    waits_begin();
    return troupe_channel_write_begin(&writer, &data, mine->limit_ms > 0 ? mine->limit_ms : -1);
}

static troupe_status wait_queue(troupe_place place)
{
    int64_t value;
    troupe_queue queue = troupe_queue_open(int64_t, .capacity = 4, .place = place);
    troupe_must(troupe_queue_put(int64_t, queue, &(int64_t){1}));
    troupe_must(troupe_queue_get(int64_t, queue, &value));
    waits_begin();
    return troupe_queue_get(int64_t, queue, &value,
                            mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_queue_here(void)
{
    return wait_queue(TROUPE_PLACE_HERE);
}

troupe_status wait_queue_there(void)
{
    return wait_queue(TROUPE_PLACE_ISOLATED);
}

troupe_status wait_queue_put(void)
{
    troupe_queue queue = troupe_queue_open(int64_t, .capacity = 1, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_queue_put(int64_t, queue, &(int64_t){1}));
    waits_begin();
    return troupe_queue_put(int64_t, queue, &(int64_t){2},
                            mine->limit_ms > 0 ? mine->limit_ms : TROUPE_FOREVER);
}

troupe_status wait_end(void)
{
    holder_actor whom = victim();
    waits_begin();
    return troupe_actor_await_end(whom.address, mine->limit_ms > 0 ? mine->limit_ms : -1, NULL);
}

troupe_status wait_end_here(void)
{
    holder_actor whom = troupe_spawn(holder, .place = TROUPE_PLACE_HERE);
    waits_begin();
    return troupe_actor_await_end(whom.address, mine->limit_ms > 0 ? mine->limit_ms : -1, NULL);
}

static bool is_told(void *unused)
{
    (void)unused;
    return atomic_load(&mine->told) != 0;
}

// The news come as a message.
troupe_status wait_monitor(void)
{
    int64_t none;
    heir_actor here = troupe_spawn(heir, .place = TROUPE_PLACE_HERE);
    holder_actor whom = victim();
    troupe_ref ref = troupe_call_from(here, heir_watch, &whom.address);
    troupe_must(troupe_get(int64_t, ref, &none));
    waits_begin();
    return support_wait_until(is_told, NULL, mine->limit_ms > 0 ? mine->limit_ms : 2 * SOON_MS)
               ? TROUPE_OK
               : TROUPE_TIMED_OUT;
}

troupe_status wait_stop_actor(void)
{
    holder_actor whom = victim();
    troupe_ref ref = troupe_call(whom, holder_hold, 5);
    (void)ref;
    waits_begin();
    return troupe_actor_stop(whom, 1000);
}

troupe_status wait_kill(void)
{
    holder_actor whom = victim();
    waits_begin();
    return troupe_actor_kill(whom);
}

static holder_actor victim_with_policy(void)
{
    int64_t pid;
    holder_actor made =
        troupe_spawn(holder, .place = TROUPE_PLACE_WORKER, .restarts = TROUPE_FOREVER);
    troupe_must(troupe_get(int64_t, troupe_call(made, holder_pid, 0), &pid));
    return made;
}

// Its process is asked, which answers at once. A dead one is being restarted already.
troupe_status wait_restart(void)
{
    holder_actor whom = victim_with_policy();
    waits_begin();
    return troupe_actor_restart(whom);
}

// The first of this process, which asks the actor's.
troupe_status wait_retain(void)
{
    troupe_actor whom;
    troupe_must(troupe_get(troupe_actor, troupe_call(victim(), holder_make, 0), &whom));
    waits_begin();
    return troupe_actor_retain(whom);
}

troupe_status wait_stop(void)
{
    holder_actor whom = victim();
    troupe_ref ref = troupe_call(whom, holder_hold, 5);
    (void)ref;
    waits_begin();
    return troupe_stop() == 0 ? TROUPE_OK : TROUPE_FAILED;
}
