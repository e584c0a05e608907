// controller.c: turns of a sweep's controller, by its actor and, after that, by a thread.
//
// Which of the two it is, is what the table says: who takes the controller out of it has it. A turn
// that the actor is in then is waited for.
#include <tune/sweep/control.h>

#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/thread.h>
#include <troupe/async.h>
#include <troupe/life.h>

enum { TURNS_NS = 2000000 }; // In a row, before other actors have theirs.

static struct {
    pthread_mutex_t lock;
    pthread_cond_t left; // A turn is over.
    trp_control *first;
    uint64_t last_number;
} seats = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

TROUPE_STRUCT(trp_seat_number, (uint64_t, number));

typedef struct trp_controller {
    uint64_t number;
    troupe_timer timer;
    int64_t timer_ns; // When its message comes; 0: none will.
} trp_controller;

static troupe_status trp_controller_init(trp_controller *self, const trp_seat_number *seat);
static troupe_status trp_controller_turn(trp_controller *self, const troupe_none *none,
                                         troupe_none *result);
static troupe_status trp_controller_due(trp_controller *self, const troupe_none *none,
                                        troupe_none *result);
static void trp_controller_deinit(trp_controller *self);
TROUPE_ACTOR_INIT(trp_controller, (trp_controller_init, trp_seat_number), trp_controller_deinit,
                  (trp_controller_turn, troupe_none, troupe_none),
                  (trp_controller_due, troupe_none, troupe_none));

// ---- the table

static void take_seat(trp_control *control)
{
    pthread_mutex_lock(&seats.lock);
    control->seat =
        (trp_seat){.next = seats.first, .number = ++seats.last_number, .is_taken = true};
    seats.first = control;
    pthread_mutex_unlock(&seats.lock);
}

// With the lock. False: somebody else has done so.
static bool leave_seat(trp_control *control)
{
    bool taken = control->seat.is_taken;
    for (trp_control **at = &seats.first; taken && *at != NULL; at = &(*at)->seat.next) {
        if (*at == control) {
            *at = control->seat.next;
            break;
        }
    }
    control->seat.is_taken = false;
    return taken;
}

// Whose turns are no longer the actor's but the caller's, if it is the first to ask.
static bool take_over(trp_control *control)
{
    pthread_mutex_lock(&seats.lock);
    bool first = leave_seat(control);
    pthread_mutex_unlock(&seats.lock);
    return first;
}

// The controller with that number, if turns are still its actor's. With the lock.
static trp_control *find(uint64_t number)
{
    trp_control *at = seats.first;
    while (at != NULL && at->seat.number != number)
        at = at->seat.next;
    return at;
}

static trp_control *begin_turn(uint64_t number)
{
    pthread_mutex_lock(&seats.lock);
    trp_control *control = find(number);
    if (control != NULL)
        control->seat.in_turn = true;
    pthread_mutex_unlock(&seats.lock);
    return control;
}

// Another may have the controller from then on.
static void end_turn(trp_control *control)
{
    pthread_mutex_lock(&seats.lock);
    control->seat.in_turn = false;
    pthread_cond_broadcast(&seats.left);
    pthread_mutex_unlock(&seats.lock);
}

static void await_turn(const trp_control *control)
{
    pthread_mutex_lock(&seats.lock);
    while (control->seat.in_turn)
        pthread_cond_wait(&seats.left, &seats.lock);
    pthread_mutex_unlock(&seats.lock);
}

// ---- a thread's turns

// Without the sweep's lock, which is had in between.
static void end_sweep(trp_control *control, troupe_status status)
{
    troupe_sweep *sweep = control->sweep;
    trp_fair_lock_take(&sweep->lock);
    trp_sweep_finish(control, status);
    trp_fair_lock_give(&sweep->lock);
    trp_sweep_let_go(sweep);
}

static void *run(void *user)
{
    trp_control *control = user;
    troupe_sweep *sweep = control->sweep;
    troupe_status status = TROUPE_OK;
    await_turn(control);
    trp_events_call(&control->events, NULL, NULL);
    trp_fair_lock_take(&sweep->lock);
    for (bool over = false; status == TROUPE_OK && !over;) {
        trp_event *event = NULL;
        status = trp_control_act(control, &over);
        if (status != TROUPE_OK || over)
            break;
        int64_t left_ns = trp_control_due_ns(control) - trp_sweep_now_ns(control->sweep);
        trp_control_away(control);
        int64_t until_ns = trp_clock_ns() + (left_ns > 0 ? left_ns : 0);
        troupe_status popped = trp_events_pop(&control->events, until_ns, &event);
        trp_control_back(control);
        status = trp_control_take(control, popped, event);
    }
    trp_fair_lock_give(&sweep->lock);
    end_sweep(control, status);
    return NULL;
}

// For one that was taken over. TROUPE_NO_MEMORY: it has no turns any more.
static troupe_status go_on_in_thread(trp_control *control)
{
    pthread_t thread;
    TROUPE_TRY(trp_thread_start(&thread, "troupe sweep", run, control));
    pthread_detach(thread);
    return TROUPE_OK;
}

// For one whose seat the caller has left.
static void put_in_thread(trp_control *control)
{
    if (go_on_in_thread(control) == TROUPE_OK)
        return;
    trp_log(TRP_INFO, "the sweep in %s waits for memory", control->sweep->folder);
    pthread_mutex_lock(&seats.lock); // Whoever waits for it tries that again.
    control->seat.next = seats.first;
    control->seat.is_taken = true;
    seats.first = control;
    pthread_mutex_unlock(&seats.lock);
}

// The actor gives it no turns any more.
static void hand_over(trp_control *control)
{
    if (take_over(control))
        put_in_thread(control);
}

// ---- the actor's turns

static troupe_status tell_turn(trp_controller_actor actor)
{
    return troupe_tell(troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT), trp_controller_turn);
}

// There is something for a controller that rests.
static void call(void *user)
{
    trp_control *control = user;
    if (tell_turn((trp_controller_actor){control->seat.actor}) != TROUPE_OK)
        hand_over(control);
}

void trp_controller_rouse(trp_control *control)
{
    trp_events_wake(&control->events);
    call(control);
}

void trp_controller_look_after(uint64_t number)
{
    pthread_mutex_lock(&seats.lock);
    trp_control *control = find(number);
    troupe_actor actor = control != NULL ? control->seat.actor : (troupe_actor){0};
    pthread_mutex_unlock(&seats.lock);
    if (control == NULL || tell_turn((trp_controller_actor){actor}) == TROUPE_OK)
        return;
    pthread_mutex_lock(&seats.lock);
    control = find(number); // It may have been taken over meanwhile.
    if (control != NULL)
        (void)leave_seat(control);
    pthread_mutex_unlock(&seats.lock);
    if (control != NULL)
        put_in_thread(control);
}

// Until nothing is left to take in (*rests), or others are to have their turns. `timed`: some time
// has passed without an event.
static troupe_status take_turns(trp_control *control, bool timed, bool *over, bool *rests)
{
    int64_t until_ns = trp_clock_ns() + TURNS_NS;
    for (;; timed = false) {
        trp_event *event = NULL;
        troupe_status popped = trp_events_pop(&control->events, 0, &event);
        if (popped != TROUPE_TIMED_OUT || timed)
            TROUPE_TRY(trp_control_take(control, popped, event));
        TROUPE_TRY(trp_control_act(control, over));
        *rests = !*over && trp_events_rest(&control->events);
        if (*over || *rests || trp_clock_ns() >= until_ns)
            return TROUPE_OK;
        trp_control_away(control); // Who reads the sweep has waited for that.
        trp_control_back(control);
    }
}

// A timer that comes too early does no harm: the next one is set then. False: none can be set.
static bool set_timer(trp_controller *self, const troupe_sweep *sweep, int64_t due_ns)
{
    if (self->timer_ns != 0 && self->timer_ns <= due_ns)
        return true;
    (void)troupe_timer_stop(self->timer);
    int64_t now_ns = trp_sweep_now_ns(sweep);
    int64_t ms = due_ns > now_ns ? (due_ns - now_ns) / 1000000 + 1 : 1;
    self->timer = troupe_timer_after(trp_controller_due, (uint32_t)ms);
    self->timer_ns = now_ns + ms * 1000000;
    return self->timer.id_ != 0;
}

static troupe_status give_turns(trp_controller *self, bool timed)
{
    trp_control *control = begin_turn(self->number);
    if (control == NULL) // Taken over.
        return troupe_actor_exit();
    troupe_sweep *sweep = control->sweep;
    bool over = false, rests = false;
    trp_fair_lock_take(&sweep->lock);
    trp_events_resume(&control->events);
    troupe_status status = take_turns(control, timed, &over, &rests);
    int64_t due_ns = trp_control_due_ns(control);
    trp_fair_lock_give(&sweep->lock);
    if (status != TROUPE_OK || over) {
        bool is_ours = take_over(control);
        end_turn(control);
        if (is_ours)
            end_sweep(control, status);
        return troupe_actor_exit();
    }
    const trp_controller_actor me = {troupe_self()};
    if (rests ? !set_timer(self, sweep, due_ns) : tell_turn(me) != TROUPE_OK)
        hand_over(control);
    end_turn(control);
    return TROUPE_OK;
}

static troupe_status trp_controller_turn(trp_controller *self, const troupe_none *none,
                                         troupe_none *result)
{
    (void)none;
    (void)result;
    return give_turns(self, false);
}

static troupe_status trp_controller_due(trp_controller *self, const troupe_none *none,
                                        troupe_none *result)
{
    (void)none;
    (void)result;
    self->timer_ns = 0;
    return give_turns(self, true);
}

static troupe_status trp_controller_init(trp_controller *self, const trp_seat_number *seat)
{
    self->number = seat->number;
    return TROUPE_OK;
}

// Before its sweep is over: the runtime stops, or somebody has ended it.
static void trp_controller_deinit(trp_controller *self)
{
    pthread_mutex_lock(&seats.lock);
    trp_control *control = find(self->number);
    if (control != NULL)
        (void)leave_seat(control);
    pthread_mutex_unlock(&seats.lock);
    if (control == NULL)
        return;
    troupe_status status = go_on_in_thread(control);
    if (status != TROUPE_OK)
        end_sweep(control, status);
}

troupe_status trp_controller_start(trp_control *control)
{
    take_seat(control);
    const trp_seat_number seat = {control->seat.number};
    const trp_controller_actor made =
        troupe_spawn_from(trp_controller, &seat, .place = TROUPE_PLACE_HERE);
    troupe_status status = troupe_actor_status(made);
    if (status != TROUPE_OK) {
        (void)take_over(control);
        return status;
    }
    control->seat.actor = made.address;
    control->sweep->held = true;
    control->sweep->seat = seat.number;
    trp_events_call(&control->events, call, control);
    call(control); // Jobs of an earlier life may have said something already.
    return TROUPE_OK;
}
