// mistakes.c: a program that is right where MISTAKE is 0, and has one of the commonest mistakes for
// every other number. mistakes.sh compiles it once for each, and counts the lines that say so.
#include <troupe.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

#if MISTAKE == 1
typedef struct settings { // forgotten: it is no TROUPE_STRUCT
    double rate;
} settings;
#else
TROUPE_STRUCT(settings, (double, rate));
#endif

typedef struct clock {
    int64_t ticks;
} clock;

static troupe_status clock_tick(clock *self, const int64_t *by, int64_t *now)
{
    *now = self->ticks += *by;
    return TROUPE_OK;
}
TROUPE_ACTOR(clock, (clock_tick, int64_t, int64_t));

typedef struct lamp {
    double watts;
} lamp;

static troupe_status lamp_light(lamp *self, const double *watts)
{
    self->watts = *watts;
    return TROUPE_OK;
}
static troupe_status lamp_watts(lamp *self, const troupe_none *none, double *watts)
{
    (void)none;
    *watts = self->watts;
    return TROUPE_OK;
}
#if MISTAKE == 9
TROUPE_ACTOR_INIT(lamp, (lamp_light), NULL, (lamp_watts, troupe_none, double)); // no arguments
#elif MISTAKE == 10
TROUPE_ACTOR_INIT(lamp, lamp_light, NULL, (lamp_watts, troupe_none, double)); // a lone function
#else
TROUPE_ACTOR_INIT(lamp, (lamp_light, double), NULL, (lamp_watts, troupe_none, double));
#endif

typedef struct counter {
    int64_t total;
} counter;

static troupe_status counter_add(counter *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

#if MISTAKE == 4
static troupe_status counter_set(counter *self, settings how, troupe_none *none) // by value
{
    (void)none;
    self->total = (int64_t)how.rate;
    return TROUPE_OK;
}
#else
static troupe_status counter_set(counter *self, const settings *how, troupe_none *none)
{
    (void)none;
    self->total = (int64_t)how->rate;
    return TROUPE_OK;
}
#endif

#if MISTAKE == 2
TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t), (counter_set, settings, troupe_none),
             (counter_add, int64_t, int64_t)); // twice
#elif MISTAKE == 3
TROUPE_ACTOR(counter, (counter_add, int64_t), // no result
             (counter_set, settings, troupe_none));
#elif MISTAKE == 5
TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t), (counter_set, settings, troupe_none),
             (clock_tick, int64_t, int64_t)); // a clock's
#elif MISTAKE == 8
TROUPE_ACTOR(counter, (counter_add, int64_t, int32_t), // another result
             (counter_set, settings, troupe_none));
#else
TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t), (counter_set, settings, troupe_none));
#endif

static troupe_status plan_steps(troupe_rank *me, const settings *config, troupe_plan *plan)
{
    (void)me;
    plan->epochs = plan->batches = (int64_t)config->rate;
    return TROUPE_OK;
}

static troupe_status take_step(troupe_rank *me, const settings *config)
{
    return troupe_report(me, {"rate", config->rate});
}

#if MISTAKE == 12
TROUPE_STEPS(steps, settings, .plan = plan_steps, .before_step = take_step); // there is none
#elif MISTAKE == 13
TROUPE_STEPS(steps, rates, .plan = plan_steps, .step = take_step); // an unknown type
#else
TROUPE_STEPS(steps, settings, .plan = plan_steps, .step = take_step);
#endif

// A model: its config, its state, its hooks.
TROUPE_STRUCT(net_config, (double, rate), (troupe_fitting, fitting));
TROUPE_STRUCT(net_state, (double, weight));
typedef struct net {
    double weight;
} net;

static troupe_status net_setup(net *self, const net_config *config, troupe_use *use)
{
    self->weight = config->rate * use->world;
    return TROUPE_OK;
}

static troupe_status net_forward(net *self, const troupe_tensor *x, troupe_tensor *y)
{
    *y = *x;
    return self->weight > 0 ? TROUPE_OK : TROUPE_INVALID;
}

static troupe_status net_learn(net *self, troupe_rank *me, const troupe_batch *batch)
{
    self->weight += (double)(me->rank * batch->number);
    return TROUPE_OK;
}

static troupe_status net_save(net *self, net_state *state)
{
    state->weight = self->weight;
    return TROUPE_OK;
}

static troupe_status net_load(net *self, const net_state *state)
{
    self->weight = state->weight;
    return TROUPE_OK;
}

#if MISTAKE == 14
TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward, .save = net_save, .load = net_load,
             .train_step = net_load); // a hook of another kind
#elif MISTAKE == 15
TROUPE_MODEL(net, net_config, net_config, net_setup, net_forward, .train_step = net_learn,
             .save = net_save, .load = net_load); // of another state, both
#elif MISTAKE == 16
TROUPE_MODEL(net, settings, net_state, net_setup, net_forward, .train_step = net_learn,
             .save = net_save, .load = net_load); // a setup of another config
#elif MISTAKE == 17
TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward, .trainstep = net_learn,
             .save = net_save, .load = net_load); // there is none
#elif MISTAKE == 18
TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward, .train_step = net_learn,
             .save = net_save, .load = net_load, .defaults = {.hidden = 3}); // no such member
#else
TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward, .train_step = net_learn,
             .save = net_save, .load = net_load, .defaults = {.rate = 0.1});
#endif

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));
    counter_actor tally = troupe_spawn(counter);
#if MISTAKE == 6
    troupe_tell(tally, clock_tick, 5); // a clock's
#elif MISTAKE == 7
    settings how = {.rate = 1};
    troupe_tell_from(tally, counter_set, how); // by value
#elif MISTAKE == 11
    troupe_tell(tally, counter_sub, 5);           // there is none
#else
    troupe_tell(tally, counter_add, 5);
#endif
    return troupe_stop();
}
