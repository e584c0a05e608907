// service.c: a service: a light actor that queues requests, gives them to its replicas in batches,
// starts those again that end, and goes from one checkpoint to another.
#include <serve/service.h>

#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <serve/http.h>
#include <serve/route.h>
#include <serve/version.h>
#include <stdio.h>
#include <string.h>
#include <troupe/life.h>

enum { PAUSE_MS = 10, PAUSE_MAX_MS = 5000 };

typedef trp_service_replica replica;
typedef trp_service_version version;

typedef enum change_kind { CHANGE_NONE, CHANGE_OPEN, CHANGE_ROLL, CHANGE_CANARY } change_kind;

// What was asked for and is not answered yet.
typedef struct change {
    change_kind kind;
    troupe_deferred later;
    version *coming;  // NULL: it has come; a roll waits for those that leave.
    uint32_t to_come; // Replicas.
    double weight;
    troupe_error refusal; // Of the first replica that could not start.
} change;

typedef struct trp_service {
    trp_service_shared *shared;
    trp_http *http;
    trp_route *route;
    char *config, *socket, *listen, *name, *certificate, *certificate_key;
    uint32_t rows_max, http_how;
    uint16_t port;
    bool repeatable;
    version *versions; // All, those included that come or leave.
    version *serving, *canary;
    uint64_t numbers; // Of replicas, that were given.
    double due;       // What the canary has not got of its share, in requests.
    change change;
    troupe_timer expires;
    troupe_deferred stopped;
    bool forced;
} trp_service;

static troupe_status trp_service_begin(trp_service *self, const trp_service_how *how);
static void trp_service_leave(trp_service *self);
static troupe_status trp_service_open(trp_service *self, const troupe_none *in, troupe_none *out);
static troupe_status trp_service_predict(trp_service *self, const troupe_tensor *x,
                                         troupe_tensor *y);
static troupe_status trp_service_look(trp_service *self, const troupe_none *in, troupe_none *out);
static troupe_status trp_service_came(trp_service *self, const troupe_actor *made,
                                      troupe_none *out);
static troupe_status trp_service_down(trp_service *self, const troupe_down *down, troupe_none *out);
static troupe_status trp_service_answered(trp_service *self, const troupe_tensor *y,
                                          troupe_none *out);
static troupe_status trp_service_again(trp_service *self, const uint64_t *number, troupe_none *out);
static troupe_status trp_service_expire(trp_service *self, const troupe_none *in, troupe_none *out);
static troupe_status trp_service_shut(trp_service *self, const int32_t *force_after_ms,
                                      bool *forced);
static troupe_status trp_service_change(trp_service *self, const trp_change_how *how,
                                        troupe_none *out);
static troupe_status trp_service_force(trp_service *self, const troupe_none *in, troupe_none *out);
static troupe_status trp_service_tell(trp_service *self, const troupe_none *in,
                                      trp_service_state *state);

TROUPE_ACTOR_INIT(trp_service, (trp_service_begin, trp_service_how), trp_service_leave,
                  (trp_service_open, troupe_none, troupe_none),
                  (trp_service_predict, troupe_tensor, troupe_tensor),
                  (trp_service_look, troupe_none, troupe_none),
                  (trp_service_came, troupe_actor, troupe_none),
                  (trp_service_down, troupe_down, troupe_none),
                  (trp_service_answered, troupe_tensor, troupe_none),
                  (trp_service_again, uint64_t, troupe_none),
                  (trp_service_expire, troupe_none, troupe_none), (trp_service_shut, int32_t, bool),
                  (trp_service_force, troupe_none, troupe_none),
                  (trp_service_change, trp_change_how, troupe_none),
                  (trp_service_tell, troupe_none, trp_service_state));

// ---- versions

static bool is_alike(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static version *make_version(trp_service *self, const char *checkpoint, const char *name,
                             const char *config)
{
    version *it = trp_service_version_make(self->shared, checkpoint, name, config);
    if (!it)
        return NULL;
    it->first = self->numbers;
    self->numbers += self->shared->replicas;
    it->next = self->versions;
    self->versions = it;
    return it;
}

static uint64_t number_of(const replica *it)
{
    return it->of->first + (uint64_t)(it - it->of->replicas);
}

// NULL: its version has left.
static replica *replica_of(trp_service *self, uint64_t number)
{
    for (version *it = self->versions; it; it = it->next)
        if (number - it->first < self->shared->replicas)
            return &it->replicas[number - it->first];
    return NULL;
}

// Which one a request is for.
static version *choose(trp_service *self)
{
    if (!self->canary || atomic_load(&self->canary->stats.alive) == 0)
        return self->serving;
    self->due += self->canary->stats.weight;
    if (self->due < 1)
        return self->serving;
    self->due -= 1;
    return self->canary;
}

static void count_alive(trp_service *self)
{
    atomic_store(&self->shared->alive,
                 self->serving ? atomic_load(&self->serving->stats.alive) : 0);
}

// Says which versions serve from now on.
static void set_versions(trp_service *self, version *serving, version *canary, double weight)
{
    trp_service_shared *shared = self->shared;
    pthread_mutex_lock(&shared->versions);
    self->serving = serving;
    self->canary = canary;
    if (serving)
        serving->stats.weight = canary ? 1 - weight : 1;
    if (canary)
        canary->stats.weight = weight;
    shared->serving = serving ? &serving->stats : NULL;
    shared->canary = canary ? &canary->stats : NULL;
    pthread_mutex_unlock(&shared->versions);
    count_alive(self);
    if (serving && self->route)
        trp_route_announce(self->route);
}

// What waits for it goes to the one that serves, in the order of arrival.
static void leave(trp_service *self, version *it)
{
    trp_inferences both;
    if (!it)
        return;
    it->leaves = true;
    if (!self->serving || it == self->serving)
        return;
    trp_inferences *to = &self->serving->queue;
    trp_inferences_begin(&both);
    while (to->first || it->queue.first) {
        bool mine = !to->first ||
                    (it->queue.first && it->queue.first->accepted_ns < to->first->accepted_ns);
        trp_inferences_push(&both, trp_inferences_pop(mine ? &it->queue : to));
    }
    for (trp_inference *moved; (moved = trp_inferences_pop(&both));)
        trp_inferences_push(to, moved);
}

// ---- answers that are none

static void refuse(trp_service *self, version *of, trp_inference *request, troupe_status status,
                   const char *text)
{
    atomic_fetch_add(&self->shared->failed, 1);
    if (of) // It was given to one.
        atomic_fetch_add(&of->stats.failed, 1);
    trp_inference_refuse(request, status, text);
}

static void refuse_all(trp_service *self, version *of, trp_inferences *list, troupe_status status,
                       const char *text)
{
    for (trp_inference *it; (it = trp_inferences_pop(list));)
        refuse(self, of, it, status, text);
}

static void refuse_queue(trp_service *self, version *of, troupe_status status, const char *text)
{
    for (trp_inference *it; (it = trp_inferences_pop(&of->queue));) {
        trp_service_count_out(self->shared, it);
        refuse(self, of, it, status, text);
    }
}

// Back to the front, in their order.
static void requeue(trp_service *self, version *of, trp_inferences *batch)
{
    trp_inferences turned;
    trp_inferences_begin(&turned);
    for (trp_inference *it; (it = trp_inferences_pop(batch));)
        trp_inferences_push_front(&turned, it);
    for (trp_inference *it; (it = trp_inferences_pop(&turned));) {
        atomic_fetch_add(&self->shared->waiting, 1);
        atomic_fetch_add(&self->shared->waiting_bytes, it->bytes);
        trp_inferences_push_front(of->leaves ? &self->serving->queue : &of->queue, it);
    }
}

// Whether the requests of a batch that went wrong may be asked once more; each alone then.
static void ask_again_or_refuse(trp_service *self, version *of, trp_inferences *batch,
                                troupe_status status, const char *text)
{
    trp_inferences again;
    trp_inferences_begin(&again);
    for (trp_inference *it; (it = trp_inferences_pop(batch));) {
        if (!self->repeatable || it->repeated || self->forced) {
            refuse(self, of, it, status, text);
            continue;
        }
        it->alone = it->repeated = true;
        trp_inferences_push(&again, it);
    }
    requeue(self, of, &again);
}

// ---- replicas

static void start(replica *it)
{
    it->at = PLACE_STARTING;
    troupe_ref made = troupe_call_from(it->starter, trp_starter_start, &it->of->how);
    if (troupe_then(made, trp_service_came, .tag = number_of(it)) == TROUPE_OK)
        return;
    it->at = PLACE_EMPTY; // Memory is short.
    (void)troupe_timer_after(trp_service_again, PAUSE_MAX_MS, number_of(it));
}

static void start_version(trp_service *self, version *it)
{
    self->change.coming = it;
    self->change.to_come = self->shared->replicas;
    for (uint32_t i = 0; i < self->shared->replicas; i++) {
        it->replicas[i].starter =
            troupe_spawn(trp_starter, .place = TROUPE_PLACE_HERE, .lifetime = TROUPE_OWNED);
        start(&it->replicas[i]);
    }
}

// The next one, at once or after a pause.
static void start_again(trp_service *self, replica *it)
{
    uint32_t pause = 0;
    it->gone = false;
    it->at = PLACE_EMPTY;
    if (self->forced || it->of->leaves)
        return;
    if (it->deaths++ > 0)
        pause = it->deaths < 11 ? (uint32_t)PAUSE_MS << (it->deaths - 2) : PAUSE_MAX_MS;
    if (pause > PAUSE_MAX_MS)
        pause = PAUSE_MAX_MS;
    atomic_fetch_add(&self->shared->restarts, 1);
    trp_log(TRP_WARN, "service '%s': replica %u is started again in %u ms: %s", self->shared->route,
            (unsigned)(it - it->of->replicas), pause, it->end);
    if (pause == 0 || troupe_timer_after(trp_service_again, pause, number_of(it)).id_ == 0)
        start(it);
}

static void kill_replica(replica *it)
{
    (void)troupe_tell_from(it->starter, trp_starter_kill, &it->actor.address);
}

static replica *idle_replica(trp_service *self, version *of)
{
    for (uint32_t i = 0; i < self->shared->replicas; i++)
        if (of->replicas[i].at == PLACE_IDLE)
            return &of->replicas[i];
    return NULL;
}

static void send_batch(trp_service *self, replica *to)
{
    trp_service_shared *shared = self->shared;
    troupe_tensor x;
    void *memory;
    to->rows = trp_inferences_take_batch(&to->of->queue, self->rows_max, &to->batch);
    for (const trp_inference *it = to->batch.first; it; it = it->next)
        trp_service_count_out(shared, it);
    troupe_status status = trp_inferences_join(&to->batch, to->rows, &x, &memory);
    if (status == TROUPE_OK) {
        atomic_fetch_add(&shared->batches, 1);
        atomic_fetch_add(&shared->rows, to->rows);
        atomic_fetch_add(&shared->under_way, to->batch.count);
        to->at = PLACE_ASKED;
        trp_replica_actor actor = troupe_with(to->actor, .deadline_ms = self->shared->deadline_ms);
        troupe_ref answer = troupe_call_from(actor, trp_replica_predict, &x);
        status = troupe_then(answer, trp_service_answered, .tag = number_of(to));
        if (status != TROUPE_OK) {
            atomic_fetch_sub(&shared->under_way, to->batch.count);
            to->at = PLACE_IDLE;
        }
    }
    if (status != TROUPE_OK)
        refuse_all(self, to->of, &to->batch, status, troupe_last_error()->text);
    trp_free(memory);
}

// ---- what follows from anything that has changed

// Ends the replicas of a version that leaves as they idle. Whether all have ended.
static bool has_left(trp_service *self, version *it)
{
    bool ended = true;
    for (uint32_t i = 0; i < self->shared->replicas; i++) {
        replica *one = &it->replicas[i];
        if (one->at == PLACE_IDLE) {
            one->at = PLACE_ENDING;
            (void)troupe_actor_end(one->actor);
        } else if (one->at == PLACE_EMPTY || (one->at == PLACE_STARTING && self->forced)) {
            one->at = PLACE_ENDED;
        }
        ended = ended && one->at == PLACE_ENDED;
    }
    return ended;
}

static void let_leave(trp_service *self)
{
    bool all = true;
    for (version **at = &self->versions, *it; (it = *at);) {
        if (!it->leaves || !has_left(self, it)) {
            all = all && !it->leaves;
            at = &it->next;
            continue;
        }
        *at = it->next;
        for (uint32_t i = 0; i < self->shared->replicas; i++)
            (void)troupe_actor_end(it->replicas[i].starter);
        trp_service_version_free(it);
    }
    if (all && self->change.kind == CHANGE_ROLL && !self->change.coming) {
        static const troupe_none none;
        (void)troupe_deferred_fulfil(troupe_none, &self->change.later, &none);
        self->change = (change){0};
    }
}

static bool is_drained(trp_service *self)
{
    bool drained = self->forced || atomic_load(&self->shared->served) == 0;
    for (version *it = self->versions; it; it = it->next) {
        drained = drained && !it->queue.first;
        for (uint32_t i = 0; i < self->shared->replicas; i++)
            drained = drained && it->replicas[i].at != PLACE_ASKED;
    }
    return drained;
}

// Once nothing is to be answered any more: all replicas end, and then the service.
static void go_down(trp_service *self)
{
    set_versions(self, NULL, NULL, 0);
    for (version *it = self->versions; it; it = it->next)
        it->leaves = true;
    let_leave(self);
    if (self->versions)
        return;
    (void)troupe_deferred_fulfil(bool, &self->stopped, &self->forced);
    (void)troupe_actor_exit();
}

static void set_expiry(trp_service *self)
{
    int64_t oldest = INT64_MAX;
    for (version *it = self->versions; it; it = it->next)
        if (it->queue.first && it->queue.first->accepted_ns < oldest)
            oldest = it->queue.first->accepted_ns;
    if (oldest == INT64_MAX || self->expires.id_ != 0)
        return;
    int64_t left = oldest / 1000000 + self->shared->deadline_ms + 1 - trp_clock_ms();
    self->expires = troupe_timer_after(trp_service_expire, left > 1 ? (uint32_t)left : 1);
}

static void go_on(trp_service *self)
{
    trp_service_shared *shared = self->shared;
    pthread_mutex_lock(&shared->lock);
    for (trp_inference *it; self->serving && (it = trp_inferences_pop(&shared->inbox));)
        trp_inferences_push(&choose(self)->queue, it);
    pthread_mutex_unlock(&shared->lock);
    for (version *it = self->versions; it && self->forced; it = it->next)
        refuse_queue(self, it, TROUPE_STOPPED, "the service was stopped before it was asked");
    for (version *it = self->versions; it; it = it->next)
        for (replica *idle; it->queue.first && !it->leaves && (idle = idle_replica(self, it));)
            send_batch(self, idle);
    set_expiry(self);
    let_leave(self);
    if (self->stopped.id_ != 0 && is_drained(self))
        go_down(self);
}

// ---- opening

static bool keep(const char *text, char **kept)
{
    *kept = text ? trp_strdup(text) : NULL;
    return !text || *kept;
}

static troupe_status set_up(trp_service *self, const trp_service_how *how)
{
    trp_service_shared *shared = self->shared;
    shared->model = troupe_model_find(how->model);
    if (!shared->model)
        return troupe_failed_(troupe_last_error()->status);
    TROUPE_TRY(trp_service_make_token(shared->token));
    (void)snprintf(shared->route, sizeof shared->route, "%s", how->route);
    shared->replicas = how->replicas;
    shared->queue = how->queue;
    self->rows_max = how->batch;
    shared->deadline_ms = how->deadline_ms;
    self->repeatable = how->repeatable;
    self->http_how = how->http;
    self->port = (uint16_t)how->port;
    bool kept = keep(how->config, &self->config) && keep(how->socket, &self->socket) &&
                keep(how->listen, &self->listen) && keep(how->name, &self->name) &&
                keep(how->certificate, &self->certificate) &&
                keep(how->certificate_key, &self->certificate_key);
    if (!kept)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for service '%s'", how->route);
    return make_version(self, how->checkpoint, how->version, how->config)
               ? TROUPE_OK
               : troupe_failed_(troupe_last_error()->status);
}

static troupe_status trp_service_begin(trp_service *self, const trp_service_how *how)
{
    self->shared = (trp_service_shared *)trp_alloc(sizeof *self->shared);
    if (!self->shared)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for service '%s'", how->route);
    (void)pthread_mutex_init(&self->shared->lock, NULL);
    (void)pthread_mutex_init(&self->shared->versions, NULL);
    trp_inferences_begin(&self->shared->inbox);
    troupe_status status = set_up(self, how);
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        trp_service_leave(self);
        return trp_error_set(&said);
    }
    return TROUPE_OK;
}

static void trp_service_leave(trp_service *self)
{
    static const char text[] = "the service has ended";
    trp_service_shared *shared = self->shared;
    if (!shared)
        return;
    pthread_mutex_lock(&shared->lock);
    shared->closed = true;
    pthread_mutex_unlock(&shared->lock);
    refuse_all(self, NULL, &shared->inbox, TROUPE_STOPPED, text);
    for (version *it = self->versions; it; it = it->next) {
        refuse_all(self, it, &it->queue, TROUPE_STOPPED, text);
        for (uint32_t i = 0; i < shared->replicas; i++)
            if (it->replicas[i].at == PLACE_ASKED)
                refuse_all(self, it, &it->replicas[i].batch, TROUPE_STOPPED, text);
    }
    trp_http_stop(&self->http);
    trp_route_stop(&self->route);
    for (version *it; (it = self->versions);) {
        self->versions = it->next;
        trp_service_version_free(it);
    }
    (void)pthread_mutex_destroy(&shared->versions);
    (void)pthread_mutex_destroy(&shared->lock);
    trp_free(self->config);
    trp_free(self->socket);
    trp_free(self->listen);
    trp_free(self->name);
    trp_free(self->certificate);
    trp_free(self->certificate_key);
    trp_free(shared);
    *self = (trp_service){0};
}

static troupe_status trp_service_open(trp_service *self, const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    self->shared->service = troupe_self();
    self->change = (change){.kind = CHANGE_OPEN, .later = troupe_defer()};
    start_version(self, self->versions);
    return TROUPE_OK;
}

// ---- changes

// Answers what was asked for, with its failure if there is one.
static void end_change(trp_service *self)
{
    static const troupe_none none;
    change *it = &self->change;
    if (it->refusal.status == TROUPE_OK)
        (void)troupe_deferred_fulfil(troupe_none, &it->later, &none);
    else
        (void)troupe_deferred_refuse(&it->later, it->refusal.status, "%s", it->refusal.text);
    *it = (change){0};
}

// The version serves, alone; a roll is answered once the others have left.
static void switch_to(trp_service *self, version *next)
{
    version *before = self->serving, *canary = self->canary;
    set_versions(self, next, NULL, 0);
    leave(self, before);
    if (canary != next)
        leave(self, canary);
    atomic_fetch_add(&self->shared->rolls, 1);
    trp_log(TRP_INFO, "service '%s': serves version '%s'", self->shared->route, next->stats.name);
}

static troupe_status start_servers(trp_service *self)
{
    const trp_http_where where = {self->listen, self->name, self->port, self->certificate,
                                  self->certificate_key};
    if (self->http_how != TROUPE_HTTP_NONE || self->listen)
        TROUPE_TRY(trp_http_start(self->shared, &where, &self->http));
    return self->socket ? trp_route_start(self->shared, self->socket, &self->route) : TROUPE_OK;
}

// All replicas of what was to come have come, or failed to.
static void finish_coming(trp_service *self)
{
    change *it = &self->change;
    version *coming = it->coming, *canary = self->canary;
    it->coming = NULL;
    if (it->refusal.status != TROUPE_OK && it->kind != CHANGE_OPEN) {
        leave(self, coming);
        end_change(self);
    } else if (it->kind == CHANGE_ROLL) {
        switch_to(self, coming);
    } else if (it->kind == CHANGE_CANARY) {
        set_versions(self, self->serving, coming, it->weight);
        leave(self, canary);
        end_change(self);
    } else {
        set_versions(self, coming, NULL, 0);
        if (it->refusal.status == TROUPE_OK && start_servers(self) != TROUPE_OK)
            it->refusal = *troupe_last_error();
        bool failed = it->refusal.status != TROUPE_OK;
        end_change(self);
        if (failed)
            (void)troupe_actor_exit();
    }
}

// 0: the canary leaves.
static void reweigh(trp_service *self, double weight)
{
    version *canary = self->canary;
    set_versions(self, self->serving, weight > 0 ? canary : NULL, weight);
    if (weight <= 0)
        leave(self, canary);
}

static troupe_status trp_service_change(trp_service *self, const trp_change_how *how,
                                        troupe_none *out)
{
    const char *route = self->shared->route;
    const char *config = how->config ? how->config : self->config;
    version *canary = self->canary;
    (void)out;
    if (self->stopped.id_ != 0)
        return troupe_fail(TROUPE_STOPPED, "service '%s' is being stopped", route);
    if (self->change.kind != CHANGE_NONE)
        return troupe_fail(TROUPE_BUSY, "service '%s' is being given another version already",
                           route);
    if (how->reweigh && !canary)
        return troupe_fail(TROUPE_NOT_FOUND, "service '%s' has no canary", route);
    bool known = canary && !how->reweigh && is_alike(canary->how.checkpoint, how->checkpoint) &&
                 is_alike(canary->how.config, config);
    if (how->canary && (how->reweigh || known)) {
        reweigh(self, how->weight);
        go_on(self);
        return TROUPE_OK;
    }
    version *coming = known ? canary : make_version(self, how->checkpoint, how->version, config);
    if (!coming)
        return troupe_failed_(troupe_last_error()->status);
    self->change = (change){.kind = how->canary ? CHANGE_CANARY : CHANGE_ROLL,
                            .later = troupe_defer(),
                            .weight = how->weight};
    if (known)
        switch_to(self, coming);
    else
        start_version(self, coming);
    go_on(self);
    return TROUPE_OK;
}

// ---- replicas that come and go

static troupe_status trp_service_came(trp_service *self, const troupe_actor *made, troupe_none *out)
{
    replica *it = replica_of(self, troupe_continuation_tag());
    troupe_status status = troupe_continuation_status();
    (void)out;
    if (!it || it->at != PLACE_STARTING)
        return TROUPE_OK; // The stop did not wait for it.
    bool first = !it->came && it->of == self->change.coming;
    it->came = true;
    if (status == TROUPE_OK) {
        it->actor = (trp_replica_actor){*made};
        it->monitor = troupe_monitor_start(it->actor, trp_service_down);
        if (it->monitor == 0) { // Nobody would hear of its end.
            status = troupe_last_error()->status;
            kill_replica(it);
        }
    }
    if (status == TROUPE_OK) {
        it->at = PLACE_IDLE;
        atomic_fetch_add(&it->of->stats.alive, 1);
        count_alive(self);
    } else if (first) {
        it->at = PLACE_EMPTY;
        if (self->change.refusal.status == TROUPE_OK)
            self->change.refusal = *troupe_last_error();
    } else {
        (void)snprintf(it->end, sizeof it->end, "%.199s", troupe_last_error()->text);
        start_again(self, it);
    }
    if (first && --self->change.to_come == 0)
        finish_coming(self);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_again(trp_service *self, const uint64_t *number, troupe_none *out)
{
    replica *it = replica_of(self, *number);
    (void)out;
    if (it && it->at == PLACE_EMPTY && !it->of->leaves)
        start(it);
    return TROUPE_OK;
}

static replica *replica_by_monitor(trp_service *self, uint64_t monitor)
{
    for (version *of = self->versions; of; of = of->next)
        for (uint32_t i = 0; i < self->shared->replicas; i++)
            if (of->replicas[i].monitor == monitor)
                return &of->replicas[i];
    return NULL;
}

static troupe_status trp_service_down(trp_service *self, const troupe_down *down, troupe_none *out)
{
    replica *it = replica_by_monitor(self, down->monitor);
    (void)out;
    if (!it)
        return TROUPE_OK;
    it->monitor = 0;
    atomic_fetch_sub(&it->of->stats.alive, 1);
    count_alive(self);
    (void)snprintf(it->end, sizeof it->end, "%.199s", down->text ? down->text : "it has ended");
    if (it->at == PLACE_ASKED)
        it->gone = true;
    else if (it->at == PLACE_ENDING)
        it->at = PLACE_ENDED;
    else
        start_again(self, it);
    go_on(self);
    return TROUPE_OK;
}

// ---- asking and answering

static troupe_status trp_service_predict(trp_service *self, const troupe_tensor *x,
                                         troupe_tensor *y)
{
    trp_inference draft = {.x = *x};
    (void)y;
    troupe_status status = trp_inference_check(self->shared->model, &draft);
    if (status != TROUPE_OK) {
        atomic_fetch_add(&self->shared->refused, 1);
        return status;
    }
    TROUPE_TRY(trp_service_admit(self->shared, &draft));
    trp_inference *request = trp_inference_make(x);
    if (request) {
        request->rows = draft.rows;
        request->bytes = draft.bytes;
        request->accepted_ns = trp_clock_ns();
        request->later = troupe_defer();
    }
    if (!request || request->later.id_ == 0) {
        trp_service_count_out(self->shared, &draft);
        if (request)
            trp_inference_free(request);
        return TROUPE_NO_MEMORY;
    }
    trp_inferences_push(&choose(self)->queue, request);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_look(trp_service *self, const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    go_on(self);
    return TROUPE_OK;
}

static void give(trp_service *self, version *of, trp_inferences *batch, size_t rows,
                 const troupe_tensor *y)
{
    trp_service_shared *shared = self->shared;
    int64_t now = trp_clock_ns();
    size_t row = 0, count = batch->count;
    if (count > 1 && (y->ndim == 0 || y->shape[0] != rows)) {
        char text[300];
        (void)snprintf(text, sizeof text,
                       "model '%s' was asked for %zu rows together and gave %zu: serve it with "
                       ".batch = 1",
                       shared->model->name, rows, y->ndim > 0 ? y->shape[0] : 0);
        ask_again_or_refuse(self, of, batch, TROUPE_WRONG_TYPE, text);
        return;
    }
    for (trp_inference *it; (it = trp_inferences_pop(batch));) {
        troupe_tensor part = count > 1 ? trp_inference_part(it, y, row) : *y;
        row += it->rows;
        trp_histogram_add(&shared->latency, (uint64_t)(now - it->accepted_ns));
        trp_histogram_add(&of->stats.latency, (uint64_t)(now - it->accepted_ns));
        atomic_fetch_add(&shared->answered, 1);
        atomic_fetch_add(&of->stats.answered, 1);
        trp_inference_answer(it, &part);
    }
}

static void take_loss(trp_service *self, replica *it, trp_inferences *batch,
                      const troupe_error *error)
{
    char text[sizeof error->text + TRP_ROUTE_MAX + 100];
    (void)snprintf(text, sizeof text,
                   "replica %zu of service '%s' was lost with this request under way: %s",
                   (size_t)(it - it->of->replicas), self->shared->route, error->text);
    if (error->status == TROUPE_NOT_EXECUTED && !self->forced)
        requeue(self, it->of, batch);
    else
        ask_again_or_refuse(self, it->of, batch, TROUPE_PEER_LOST, text);
}

static troupe_status trp_service_answered(trp_service *self, const troupe_tensor *y,
                                          troupe_none *out)
{
    replica *it = replica_of(self, troupe_continuation_tag());
    troupe_status status = troupe_continuation_status();
    troupe_error error = *troupe_last_error();
    trp_inferences batch;
    (void)out;
    if (!it)
        return TROUPE_OK; // Never: a version stays as long as it has requests.
    // A list's end points into it: the batch is moved request by request.
    trp_inferences_begin(&batch);
    for (trp_inference *moved; (moved = trp_inferences_pop(&it->batch));)
        trp_inferences_push(&batch, moved);
    atomic_fetch_sub(&self->shared->under_way, batch.count);
    bool lost = status != TROUPE_OK && error.outcome != TROUPE_OUTCOME_FAILED &&
                (status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED ||
                 status == TROUPE_DEADLINE_EXCEEDED || status == TROUPE_CANCELLED);
    it->at = PLACE_IDLE;
    if (status == TROUPE_OK) {
        it->deaths = 0;
        give(self, it->of, &batch, it->rows, y);
    } else if (lost) {
        it->at = PLACE_DYING;
        if (!it->gone)
            kill_replica(it); // What hangs, or was stopped, would not end by itself.
        take_loss(self, it, &batch, &error);
    } else if (batch.count > 1) {
        ask_again_or_refuse(self, it->of, &batch, status, error.text);
    } else {
        refuse_all(self, it->of, &batch, status, error.text);
    }
    if (it->gone)
        start_again(self, it);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_expire(trp_service *self, const troupe_none *in, troupe_none *out)
{
    int64_t then = trp_clock_ns() - (int64_t)self->shared->deadline_ms * 1000000;
    char text[200];
    (void)in, (void)out;
    self->expires.id_ = 0;
    (void)snprintf(text, sizeof text, "service '%s' had no replica for it within %u ms",
                   self->shared->route, self->shared->deadline_ms);
    for (version *it = self->versions; it; it = it->next)
        while (it->queue.first && it->queue.first->accepted_ns <= then) {
            trp_inference *late = trp_inferences_pop(&it->queue);
            trp_service_count_out(self->shared, late);
            refuse(self, it, late, TROUPE_DEADLINE_EXCEEDED, text);
        }
    go_on(self);
    return TROUPE_OK;
}

// ---- its end

static troupe_status trp_service_shut(trp_service *self, const int32_t *force_after_ms,
                                      bool *forced)
{
    (void)forced;
    if (self->stopped.id_ != 0)
        return troupe_fail(TROUPE_BUSY, "service '%s' is being stopped already",
                           self->shared->route);
    atomic_store(&self->shared->stopping, true);
    self->stopped = troupe_defer();
    if (self->change.kind != CHANGE_NONE) {
        version *coming = self->change.coming;
        self->change.refusal.status = TROUPE_STOPPED;
        (void)snprintf(self->change.refusal.text, sizeof self->change.refusal.text,
                       "service '%s' is being stopped", self->shared->route);
        end_change(self);
        leave(self, coming);
    }
    if (*force_after_ms >= 0)
        (void)troupe_timer_after(trp_service_force,
                                 *force_after_ms > 0 ? (uint32_t)*force_after_ms : 1);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_force(trp_service *self, const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    self->forced = true;
    for (version *it = self->versions; it; it = it->next) {
        for (uint32_t i = 0; i < self->shared->replicas; i++)
            if (it->replicas[i].monitor != 0)
                kill_replica(&it->replicas[i]);
    }
    go_on(self);
    return TROUPE_OK;
}

// ---- what it tells

static trp_version_state state_of(const version *it)
{
    if (!it)
        return (trp_version_state){.name = ""};
    trp_version_state state = {.name = it->stats.name,
                               .weight = it->stats.weight,
                               .alive = atomic_load(&it->stats.alive),
                               .answered = atomic_load(&it->stats.answered),
                               .failed = atomic_load(&it->stats.failed)};
    trp_service_percentiles(&it->stats.latency, &state.p50_s, &state.p99_s, &state.longest_s);
    return state;
}

static troupe_status trp_service_tell(trp_service *self, const troupe_none *in,
                                      trp_service_state *state)
{
    const trp_service_shared *shared = self->shared;
    char url[256] = "";
    (void)in;
    if (self->http)
        (void)snprintf(url, sizeof url, "%s%s", trp_http_base(self->http), shared->route);
    *state = (trp_service_state){
        .model = shared->model->name,
        .route = shared->route,
        .url = troupe_arena_text(url),
        .token = shared->token,
        .socket = self->route ? troupe_arena_text(trp_route_path(self->route)) : "",
        .replicas = shared->replicas,
        .alive = atomic_load(&shared->alive),
        .stopping = atomic_load(&shared->stopping),
        .queued = atomic_load(&shared->waiting),
        .under_way = atomic_load(&shared->under_way),
        .answered = atomic_load(&shared->answered),
        .failed = atomic_load(&shared->failed),
        .refused = atomic_load(&shared->refused),
        .batches = atomic_load(&shared->batches),
        .rows = atomic_load(&shared->rows),
        .restarts = atomic_load(&shared->restarts),
        .rolls = atomic_load(&shared->rolls),
        .serving = state_of(self->serving),
        .canary = state_of(self->canary),
    };
    trp_service_percentiles(&shared->latency, &state->p50_s, &state->p99_s, &state->longest_s);
    return TROUPE_OK;
}

// ---- for who has its address

troupe_status trp_service_start(const trp_service_how *how, troupe_actor *service)
{
    static const troupe_none none;
    troupe_none opened;
    // Beyond what may wait: the answers of replicas, and what they are told of themselves.
    trp_service_actor made = troupe_spawn_from(trp_service, how, .place = TROUPE_PLACE_HERE,
                                               .mailbox_max = how->queue + 2048);
    TROUPE_TRY(troupe_actor_status(made));
    TROUPE_TRY(troupe_get(troupe_none, troupe_call_from(made, trp_service_open, &none), &opened));
    *service = made.address;
    return TROUPE_OK;
}

troupe_ref trp_service_ask(troupe_actor service, const troupe_tensor *x)
{
    trp_service_actor to = {service};
    return troupe_call_from(troupe_with(to, .flags = TROUPE_CALL_NO_WAIT), trp_service_predict, x);
}

troupe_status trp_service_wake(const trp_service_shared *shared)
{
    static const troupe_none none;
    trp_service_actor to = {shared->service};
    return troupe_tell_from(troupe_with(to, .flags = TROUPE_CALL_NO_WAIT), trp_service_look, &none);
}

troupe_status trp_service_make_change(troupe_actor service, const trp_change_how *how)
{
    troupe_none done;
    trp_service_actor to = {service};
    return troupe_get(troupe_none, troupe_call_from(to, trp_service_change, how), &done);
}

troupe_status trp_service_state_of(troupe_actor service, trp_service_state *state)
{
    static const troupe_none none;
    trp_service_actor of = {service};
    return troupe_get(trp_service_state, troupe_call_from(of, trp_service_tell, &none), state);
}

troupe_status trp_service_end(troupe_actor service, int force_after_ms)
{
    trp_service_actor of = {service};
    int32_t after = force_after_ms;
    bool forced;
    TROUPE_TRY(troupe_get(bool, troupe_call_from(of, trp_service_shut, &after), &forced));
    TROUPE_TRY(troupe_actor_await_end(of, TROUPE_FOREVER, NULL));
    return forced ? troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                                "the service had not answered everything within %d ms, and was "
                                "stopped by force",
                                force_after_ms)
                  : TROUPE_OK;
}
