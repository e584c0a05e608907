// service.c: a service: a light actor that queues requests, gives them to its replicas in batches,
// and starts those again that end.
#include <serve/service.h>

#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <serve/http.h>
#include <serve/replica.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <troupe/life.h>

enum { PAUSE_MS = 10, PAUSE_MAX_MS = 5000, TOKEN_BYTES = (TRP_TOKEN_TEXT - 1) / 2 };

typedef enum place {
    PLACE_EMPTY, // Nothing is there: a start is due, after a pause perhaps.
    PLACE_STARTING,
    PLACE_IDLE,
    PLACE_ASKED,  // It has a batch.
    PLACE_DYING,  // Its call has ended with it: its monitor will say so.
    PLACE_ENDING, // It was told to end.
    PLACE_ENDED,
} place;

typedef struct replica {
    trp_starter_actor starter;
    trp_replica_actor actor;
    place at;
    bool gone; // While it had a batch, whose call's end is to come.
    uint64_t monitor;
    uint32_t deaths; // Since its last answer.
    trp_inferences batch;
    size_t rows;
    char end[200]; // What the last one died of.
} replica;

typedef struct trp_service {
    trp_service_shared *shared;
    trp_http *http;
    trp_replica_how how;
    uint32_t rows_max, deadline_ms, http_how;
    uint16_t port;
    bool repeatable;
    trp_inferences queue;
    replica *replicas;
    troupe_timer expires;
    troupe_deferred opened; // Until all replicas have come.
    uint32_t to_come;
    troupe_error refusal; // Of the first replica that could not start.
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
static troupe_status trp_service_again(trp_service *self, const uint32_t *index, troupe_none *out);
static troupe_status trp_service_expire(trp_service *self, const troupe_none *in, troupe_none *out);
static troupe_status trp_service_shut(trp_service *self, const int32_t *force_after_ms,
                                      bool *forced);
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
                  (trp_service_again, uint32_t, troupe_none),
                  (trp_service_expire, troupe_none, troupe_none), (trp_service_shut, int32_t, bool),
                  (trp_service_force, troupe_none, troupe_none),
                  (trp_service_tell, troupe_none, trp_service_state));

// ---- counting in and out

troupe_status trp_service_admit(trp_service_shared *shared, const trp_inference *request)
{
    const char *route = shared->route;
    if (atomic_load(&shared->stopping)) {
        atomic_fetch_add(&shared->refused, 1);
        return troupe_fail(TROUPE_STOPPED, "service '%s' is being stopped", route);
    }
    uint64_t waiting = atomic_fetch_add(&shared->waiting, 1);
    uint64_t bytes = atomic_fetch_add(&shared->waiting_bytes, request->bytes);
    bool many = waiting >= shared->queue;
    if (!many && (bytes == 0 || bytes + request->bytes <= TRP_WAITING_BYTES_MAX))
        return TROUPE_OK;
    atomic_fetch_sub(&shared->waiting, 1);
    atomic_fetch_sub(&shared->waiting_bytes, request->bytes);
    atomic_fetch_add(&shared->refused, 1);
    return many ? troupe_fail(TROUPE_BUSY, "%" PRIu64 " requests wait for service '%s': %u may",
                              waiting, route, shared->queue)
                : troupe_fail(TROUPE_BUSY,
                              "requests of %" PRIu64 " bytes wait for service '%s': %d may", bytes,
                              route, TRP_WAITING_BYTES_MAX);
}

static void count_out(trp_service_shared *shared, const trp_inference *request)
{
    atomic_fetch_sub(&shared->waiting, 1);
    atomic_fetch_sub(&shared->waiting_bytes, request->bytes);
}

static void refuse(trp_service *self, trp_inference *request, troupe_status status,
                   const char *text)
{
    atomic_fetch_add(&self->shared->failed, 1);
    trp_inference_refuse(request, status, text);
}

static void refuse_all(trp_service *self, trp_inferences *list, troupe_status status,
                       const char *text)
{
    for (trp_inference *it; (it = trp_inferences_pop(list));)
        refuse(self, it, status, text);
}

static void refuse_queue(trp_service *self, troupe_status status, const char *text)
{
    for (trp_inference *it; (it = trp_inferences_pop(&self->queue));) {
        count_out(self->shared, it);
        refuse(self, it, status, text);
    }
}

// Back to the front, in their order.
static void requeue(trp_service *self, trp_inferences *batch)
{
    trp_inferences turned;
    trp_inferences_begin(&turned);
    for (trp_inference *it; (it = trp_inferences_pop(batch));)
        trp_inferences_push_front(&turned, it);
    for (trp_inference *it; (it = trp_inferences_pop(&turned));) {
        atomic_fetch_add(&self->shared->waiting, 1);
        atomic_fetch_add(&self->shared->waiting_bytes, it->bytes);
        trp_inferences_push_front(&self->queue, it);
    }
}

// Whether the requests of a batch that went wrong may be asked once more; each alone then.
static void ask_again_or_refuse(trp_service *self, trp_inferences *batch, troupe_status status,
                                const char *text)
{
    trp_inferences again;
    trp_inferences_begin(&again);
    for (trp_inference *it; (it = trp_inferences_pop(batch));) {
        if (!self->repeatable || it->repeated || self->forced) {
            refuse(self, it, status, text);
            continue;
        }
        it->alone = it->repeated = true;
        trp_inferences_push(&again, it);
    }
    requeue(self, &again);
}

// ---- replicas

static void start(trp_service *self, replica *it)
{
    it->at = PLACE_STARTING;
    troupe_ref made = troupe_call_from(it->starter, trp_starter_start, &self->how);
    if (troupe_then(made, trp_service_came, .tag = (uint64_t)(it - self->replicas)) == TROUPE_OK)
        return;
    it->at = PLACE_EMPTY; // Memory is short.
    (void)troupe_timer_after(trp_service_again, PAUSE_MAX_MS, (uint32_t)(it - self->replicas));
}

// The next one, at once or after a pause.
static void start_again(trp_service *self, replica *it)
{
    uint32_t pause = 0, at = (uint32_t)(it - self->replicas);
    it->gone = false;
    it->at = PLACE_EMPTY;
    if (self->forced)
        return;
    if (it->deaths++ > 0)
        pause = it->deaths < 11 ? (uint32_t)PAUSE_MS << (it->deaths - 2) : PAUSE_MAX_MS;
    if (pause > PAUSE_MAX_MS)
        pause = PAUSE_MAX_MS;
    atomic_fetch_add(&self->shared->restarts, 1);
    trp_log(TRP_WARN, "service '%s': replica %u is started again in %u ms: %s", self->shared->route,
            at, pause, it->end);
    if (pause == 0 || troupe_timer_after(trp_service_again, pause, at).id_ == 0)
        start(self, it);
}

static void kill_replica(replica *it)
{
    (void)troupe_tell_from(it->starter, trp_starter_kill, &it->actor.address);
}

static replica *idle_replica(trp_service *self)
{
    for (uint32_t i = 0; i < self->shared->replicas; i++)
        if (self->replicas[i].at == PLACE_IDLE)
            return &self->replicas[i];
    return NULL;
}

static void send_batch(trp_service *self, replica *to)
{
    trp_service_shared *shared = self->shared;
    troupe_tensor x;
    void *memory;
    to->rows = trp_inferences_take_batch(&self->queue, self->rows_max, &to->batch);
    for (const trp_inference *it = to->batch.first; it; it = it->next)
        count_out(shared, it);
    troupe_status status = trp_inferences_join(&to->batch, to->rows, &x, &memory);
    if (status == TROUPE_OK) {
        atomic_fetch_add(&shared->batches, 1);
        atomic_fetch_add(&shared->rows, to->rows);
        atomic_fetch_add(&shared->under_way, to->batch.count);
        to->at = PLACE_ASKED;
        trp_replica_actor actor = troupe_with(to->actor, .deadline_ms = self->deadline_ms);
        troupe_ref answer = troupe_call_from(actor, trp_replica_predict, &x);
        status = troupe_then(answer, trp_service_answered, .tag = (uint64_t)(to - self->replicas));
        if (status != TROUPE_OK) {
            atomic_fetch_sub(&shared->under_way, to->batch.count);
            to->at = PLACE_IDLE;
        }
    }
    if (status != TROUPE_OK)
        refuse_all(self, &to->batch, status, troupe_last_error()->text);
    trp_free(memory);
}

// ---- what follows from anything that has changed

static bool is_drained(trp_service *self)
{
    bool drained = !self->queue.first && (self->forced || atomic_load(&self->shared->served) == 0);
    for (uint32_t i = 0; i < self->shared->replicas; i++)
        drained = drained && self->replicas[i].at != PLACE_ASKED;
    return drained;
}

// Once nothing is to be answered any more: the replicas end, and then the service.
static void go_down(trp_service *self)
{
    bool ended = true;
    for (uint32_t i = 0; i < self->shared->replicas; i++) {
        replica *it = &self->replicas[i];
        if (it->at == PLACE_IDLE) {
            it->at = PLACE_ENDING;
            (void)troupe_actor_end(it->actor);
        } else if (it->at == PLACE_EMPTY || (it->at == PLACE_STARTING && self->forced)) {
            it->at = PLACE_ENDED;
        }
        ended = ended && it->at == PLACE_ENDED;
    }
    if (!ended)
        return;
    (void)troupe_deferred_fulfil(bool, &self->stopped, &self->forced);
    (void)troupe_actor_exit();
}

static void go_on(trp_service *self)
{
    trp_service_shared *shared = self->shared;
    pthread_mutex_lock(&shared->lock);
    for (trp_inference *it; (it = trp_inferences_pop(&shared->inbox));)
        trp_inferences_push(&self->queue, it);
    pthread_mutex_unlock(&shared->lock);
    for (replica *it; self->queue.first && (it = idle_replica(self));)
        send_batch(self, it);
    if (self->queue.first && self->expires.id_ == 0) {
        int64_t left =
            self->queue.first->accepted_ns / 1000000 + self->deadline_ms + 1 - trp_clock_ms();
        self->expires = troupe_timer_after(trp_service_expire, left > 1 ? (uint32_t)left : 1);
    }
    if (self->stopped.id_ != 0 && is_drained(self))
        go_down(self);
}

// ---- opening

static troupe_status make_token(trp_service_shared *shared)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return trp_fail_errno(TROUPE_IO, "no random numbers for a token");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(shared->token + 2 * i, 3, "%02x", bytes[i]);
    return TROUPE_OK;
}

static troupe_status trp_service_begin(trp_service *self, const trp_service_how *how)
{
    const troupe_model *model = troupe_model_find(how->model);
    trp_service_shared *shared = (trp_service_shared *)trp_alloc(sizeof *shared);
    trp_inferences_begin(&self->queue);
    self->shared = shared;
    self->replicas = (replica *)trp_alloc(how->replicas * sizeof *self->replicas);
    self->how = (trp_replica_how){trp_strdup(how->model),
                                  how->checkpoint ? trp_strdup(how->checkpoint) : NULL,
                                  how->config ? trp_strdup(how->config) : NULL};
    if (shared)
        (void)pthread_mutex_init(&shared->lock, NULL);
    troupe_status status = model ? TROUPE_OK : troupe_last_error()->status;
    if (status == TROUPE_OK &&
        (!shared || !self->replicas || !self->how.model ||
         (how->checkpoint && !self->how.checkpoint) || (how->config && !self->how.config)))
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for service '%s'", how->route);
    if (status == TROUPE_OK)
        status = make_token(shared);
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        trp_service_leave(self);
        return trp_error_set(&said);
    }
    (void)snprintf(shared->route, sizeof shared->route, "%s", how->route);
    trp_inferences_begin(&shared->inbox);
    shared->model = model;
    shared->replicas = how->replicas;
    shared->queue = how->queue;
    self->rows_max = how->batch;
    self->deadline_ms = how->deadline_ms;
    self->repeatable = how->repeatable;
    self->http_how = how->http;
    self->port = (uint16_t)how->port;
    return TROUPE_OK;
}

static void trp_service_leave(trp_service *self)
{
    static const char text[] = "the service has ended";
    trp_service_shared *shared = self->shared;
    if (shared) {
        pthread_mutex_lock(&shared->lock);
        shared->closed = true;
        pthread_mutex_unlock(&shared->lock);
        if (shared->inbox.first)
            refuse_all(self, &shared->inbox, TROUPE_STOPPED, text);
        refuse_all(self, &self->queue, TROUPE_STOPPED, text);
        for (uint32_t i = 0; self->replicas && i < shared->replicas; i++)
            if (self->replicas[i].at == PLACE_ASKED)
                refuse_all(self, &self->replicas[i].batch, TROUPE_STOPPED, text);
        trp_http_stop(&self->http);
        (void)pthread_mutex_destroy(&shared->lock);
    }
    trp_free((void *)(uintptr_t)self->how.model);
    trp_free((void *)(uintptr_t)self->how.checkpoint);
    trp_free((void *)(uintptr_t)self->how.config);
    trp_free(self->replicas);
    trp_free(shared);
    *self = (trp_service){0};
}

static troupe_status trp_service_open(trp_service *self, const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    self->shared->service = troupe_self();
    self->opened = troupe_defer();
    self->to_come = self->shared->replicas;
    for (uint32_t i = 0; i < self->shared->replicas; i++) {
        trp_inferences_begin(&self->replicas[i].batch);
        self->replicas[i].starter =
            troupe_spawn(trp_starter, .place = TROUPE_PLACE_HERE, .lifetime = TROUPE_OWNED);
        start(self, &self->replicas[i]);
    }
    return TROUPE_OK;
}

// All replicas have come, or failed to.
static void finish_opening(trp_service *self)
{
    static const troupe_none none;
    troupe_error *said = &self->refusal;
    if (said->status == TROUPE_OK && self->http_how != TROUPE_HTTP_NONE &&
        trp_http_start(self->shared, self->port, &self->http) != TROUPE_OK)
        *said = *troupe_last_error();
    if (said->status == TROUPE_OK) {
        (void)troupe_deferred_fulfil(troupe_none, &self->opened, &none);
        return;
    }
    (void)troupe_deferred_refuse(&self->opened, said->status, "%s", said->text);
    (void)troupe_actor_exit();
}

static troupe_status trp_service_came(trp_service *self, const troupe_actor *made, troupe_none *out)
{
    replica *it = &self->replicas[troupe_continuation_tag()];
    troupe_status status = troupe_continuation_status();
    bool opening = self->opened.id_ != 0;
    (void)out;
    if (it->at != PLACE_STARTING)
        return TROUPE_OK; // The stop did not wait for it.
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
        atomic_fetch_add(&self->shared->alive, 1);
    } else if (opening) {
        it->at = PLACE_EMPTY;
        if (self->refusal.status == TROUPE_OK)
            self->refusal = *troupe_last_error();
    } else {
        (void)snprintf(it->end, sizeof it->end, "%.199s", troupe_last_error()->text);
        start_again(self, it);
    }
    if (opening && --self->to_come == 0)
        finish_opening(self);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_again(trp_service *self, const uint32_t *index, troupe_none *out)
{
    replica *it = &self->replicas[*index];
    (void)out;
    if (it->at == PLACE_EMPTY)
        start(self, it);
    return TROUPE_OK;
}

static troupe_status trp_service_down(trp_service *self, const troupe_down *down, troupe_none *out)
{
    replica *it = NULL;
    (void)out;
    for (uint32_t i = 0; i < self->shared->replicas; i++)
        if (self->replicas[i].monitor == down->monitor)
            it = &self->replicas[i];
    if (!it)
        return TROUPE_OK;
    it->monitor = 0;
    atomic_fetch_sub(&self->shared->alive, 1);
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
        count_out(self->shared, &draft);
        if (request)
            trp_inference_free(request);
        return TROUPE_NO_MEMORY;
    }
    trp_inferences_push(&self->queue, request);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_look(trp_service *self, const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    go_on(self);
    return TROUPE_OK;
}

static void give(trp_service *self, trp_inferences *batch, size_t rows, const troupe_tensor *y)
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
        ask_again_or_refuse(self, batch, TROUPE_WRONG_TYPE, text);
        return;
    }
    for (trp_inference *it; (it = trp_inferences_pop(batch));) {
        troupe_tensor part = count > 1 ? trp_inference_part(it, y, row) : *y;
        row += it->rows;
        trp_histogram_add(&shared->latency, (uint64_t)(now - it->accepted_ns));
        atomic_fetch_add(&shared->answered, 1);
        trp_inference_answer(it, &part);
    }
}

static void take_loss(trp_service *self, replica *it, trp_inferences *batch,
                      const troupe_error *error)
{
    char text[sizeof error->text + TRP_ROUTE_MAX + 100];
    (void)snprintf(text, sizeof text,
                   "replica %zu of service '%s' was lost with this request under way: %s",
                   (size_t)(it - self->replicas), self->shared->route, error->text);
    if (error->status == TROUPE_NOT_EXECUTED && !self->forced)
        requeue(self, batch);
    else
        ask_again_or_refuse(self, batch, TROUPE_PEER_LOST, text);
}

static troupe_status trp_service_answered(trp_service *self, const troupe_tensor *y,
                                          troupe_none *out)
{
    replica *it = &self->replicas[troupe_continuation_tag()];
    troupe_status status = troupe_continuation_status();
    troupe_error error = *troupe_last_error();
    trp_inferences batch;
    (void)out;
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
        give(self, &batch, it->rows, y);
    } else if (lost) {
        it->at = PLACE_DYING;
        if (!it->gone)
            kill_replica(it); // What hangs, or was stopped, would not end by itself.
        take_loss(self, it, &batch, &error);
    } else if (batch.count > 1) {
        ask_again_or_refuse(self, &batch, status, error.text);
    } else {
        refuse_all(self, &batch, status, error.text);
    }
    if (it->gone)
        start_again(self, it);
    go_on(self);
    return TROUPE_OK;
}

static troupe_status trp_service_expire(trp_service *self, const troupe_none *in, troupe_none *out)
{
    int64_t then = trp_clock_ns() - (int64_t)self->deadline_ms * 1000000;
    char text[200];
    (void)in, (void)out;
    self->expires.id_ = 0;
    (void)snprintf(text, sizeof text, "service '%s' had no replica for it within %u ms",
                   self->shared->route, self->deadline_ms);
    while (self->queue.first && self->queue.first->accepted_ns <= then) {
        trp_inference *late = trp_inferences_pop(&self->queue);
        count_out(self->shared, late);
        refuse(self, late, TROUPE_DEADLINE_EXCEEDED, text);
    }
    go_on(self);
    return TROUPE_OK;
}

// ---- the HTTP server's side

troupe_status trp_service_hand(trp_service_shared *shared, trp_inference *request)
{
    static const troupe_none none;
    trp_service_actor service = {shared->service};
    request->accepted_ns = trp_clock_ns();
    pthread_mutex_lock(&shared->lock);
    bool closed = shared->closed;
    if (!closed) {
        atomic_fetch_add(&shared->served, 1);
        trp_inferences_push(&shared->inbox, request);
    }
    pthread_mutex_unlock(&shared->lock);
    if (closed) {
        count_out(shared, request);
        return troupe_fail(TROUPE_STOPPED, "service '%s' has ended", shared->route);
    }
    trp_service_actor at_once = troupe_with(service, .flags = TROUPE_CALL_NO_WAIT);
    if (troupe_tell_from(at_once, trp_service_look, &none) == TROUPE_OK)
        return TROUPE_OK;
    // It is taken back, unless the actor has it already.
    trp_inferences kept;
    bool found = false;
    trp_inferences_begin(&kept);
    pthread_mutex_lock(&shared->lock);
    for (trp_inference *it; (it = trp_inferences_pop(&shared->inbox));) {
        if (it == request)
            found = true;
        else
            trp_inferences_push(&kept, it);
    }
    for (trp_inference *it; (it = trp_inferences_pop(&kept));)
        trp_inferences_push(&shared->inbox, it);
    pthread_mutex_unlock(&shared->lock);
    if (!found)
        return TROUPE_OK;
    count_out(shared, request);
    atomic_fetch_sub(&shared->served, 1);
    return troupe_fail(TROUPE_BUSY, "service '%s' takes no requests now", shared->route);
}

void trp_service_served(trp_service_shared *shared)
{
    static const troupe_none none;
    trp_service_actor service = {shared->service};
    if (atomic_fetch_sub(&shared->served, 1) == 1 && atomic_load(&shared->stopping))
        (void)troupe_tell_from(troupe_with(service, .flags = TROUPE_CALL_NO_WAIT), trp_service_look,
                               &none);
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
    refuse_queue(self, TROUPE_STOPPED, "the service was stopped before it was asked");
    for (uint32_t i = 0; i < self->shared->replicas; i++)
        if (self->replicas[i].monitor != 0)
            kill_replica(&self->replicas[i]);
    go_on(self);
    return TROUPE_OK;
}

// ---- what it tells

void trp_service_percentiles(const trp_service_shared *shared, double *p50_s, double *p99_s,
                             double *longest_s)
{
    uint64_t counts[TRP_HISTOGRAM_BUCKETS];
    uint64_t longest = atomic_load_explicit(&shared->latency.longest_ns, memory_order_relaxed);
    for (size_t i = 0; i < TRP_HISTOGRAM_BUCKETS; i++)
        counts[i] = atomic_load_explicit(&shared->latency.counts[i], memory_order_relaxed);
    *p50_s = (double)trp_histogram_at(counts, longest, 0.5) * 1e-9;
    *p99_s = (double)trp_histogram_at(counts, longest, 0.99) * 1e-9;
    *longest_s = (double)longest * 1e-9;
}

static troupe_status trp_service_tell(trp_service *self, const troupe_none *in,
                                      trp_service_state *state)
{
    const trp_service_shared *shared = self->shared;
    char url[192] = "";
    (void)in;
    if (self->http)
        (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", trp_http_port(self->http),
                       shared->route);
    *state = (trp_service_state){
        .route = shared->route,
        .url = troupe_arena_text(url),
        .token = shared->token,
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
    };
    trp_service_percentiles(shared, &state->p50_s, &state->p99_s, &state->longest_s);
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
