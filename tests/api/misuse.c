// misuse.c: a program that is right where MISUSE is 0, and wrong in one way for every other number.
// misuse.sh compiles it once for each: a mistake in using the library is to be found by the
// compiler.
#include <troupe.h>

#ifndef MISUSE
#define MISUSE 0
#endif

typedef struct counter {
    int64_t total;
} counter;

static troupe_status counter_add(counter *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

TROUPE_STRUCT(settings, (double, rate), (int64_t, epochs));

static troupe_status counter_set(counter *self, const settings *how, troupe_none *none)
{
    (void)none;
    self->total = how->epochs;
    return TROUPE_OK;
}

static troupe_status counter_reset(counter *self, const troupe_none *args, troupe_none *result)
{
    (void)args;
    (void)result;
    self->total = 0;
    return TROUPE_OK;
}

static troupe_status counter_lost(counter *self, const troupe_down *down, troupe_none *none)
{
    (void)none;
    self->total -= down->reason;
    return TROUPE_OK;
}

TROUPE_STRUCT(shape, (int64_t, sides), (troupe_text, label), (settings, inner), (double, parts, 3));
static const int64_t few_sides[] = {3, 4, 8};
static const double no_sides[] = {3, 4, 8};
static const troupe_param tried[] = {
#if MISUSE == 25
    TROUPE_CHOICE_TEXT(shape, lable, "a", "b"), // misspelt field of a text
#elif MISUSE == 26
    TROUPE_ONLY_WHEN(shape, sides, inner.epoch, 1), // misspelt field of a condition
#elif MISUSE == 27
    TROUPE_CHOICE_LIST(shape, sides, no_sides), // a list of another type
#elif MISUSE == 28
    TROUPE_CHOICE_OF(shape, inner, {.rat = 1}), // misspelt field within a value
#elif MISUSE == 29
    TROUPE_FIXED_TEXT(shape, label, 0.5),        // no text
#endif
    TROUPE_UNIFORM(shape, inner.rate, 0, 1, .step = 0.25),
    TROUPE_LOG_UNIFORM(shape, parts[0], 0.1, 1),
    TROUPE_INTEGER(shape, inner.epochs, 1, 9, .step = 2, .log = true),
    TROUPE_NORMAL(shape, parts[1], 0, 1, .low = -1, .high = 1),
    TROUPE_CHOICE(shape, sides, 3, 4),
    TROUPE_CHOICE_LIST(shape, sides, few_sides),
    TROUPE_CHOICE_OF(shape, inner, {.rate = 1}, {.epochs = 2}),
    TROUPE_CHOICE_OF(shape, parts, {1, 2, 3}, {4, 5, 6}),
    TROUPE_CHOICE_TEXT(shape, label, "a", "b"),
    TROUPE_ORDERED(shape, sides, 3, 4),
    TROUPE_GRID(shape, parts[2], 3, 4),
    TROUPE_FIXED(shape, sides, 3),
    TROUPE_FIXED_TEXT(shape, label, "a"),
    TROUPE_FIXED_OF(shape, parts, {1, 2, 3}),
    TROUPE_ONLY_WHEN(shape, label, sides, 3),
    TROUPE_ONLY_WHEN_TEXT(shape, inner.rate, label, "a"),
    TROUPE_CHOICE(troupe_train_options, ranks, 1, 2, 4),
    TROUPE_NAMED_CHOICE("inner.rate", 1, 2),
    TROUPE_NAMED_UNIFORM("inner.rate", 1, 2),
    TROUPE_NAMED_LOG_UNIFORM("inner.rate", 1, 2),
    TROUPE_NAMED_INTEGER("inner.epochs", 1, 2),
};

static void open_space(void)
{
    troupe_space *opened = NULL;
    (void)few_sides, (void)no_sides;
    troupe_must(troupe_space_open(shape, tried, &opened));
    troupe_space_free(&opened);
}

static troupe_status counter_watch(counter *self, const troupe_actor *other, troupe_none *none);

TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t), (counter_set, settings, troupe_none),
             (counter_reset, troupe_none, troupe_none), (counter_lost, troupe_down, troupe_none),
             (counter_watch, troupe_actor, troupe_none));

static troupe_status counter_watch(counter *self, const troupe_actor *other, troupe_none *none)
{
    (void)self, (void)none;
#if MISUSE == 15
    troupe_monitor_start(*other, counter_reset); // is told nothing: it takes no troupe_down
#else
    troupe_monitor_start(*other, counter_lost);
#endif
    return troupe_actor_trap_ends(counter_lost);
}

typedef struct clock_state {
    int64_t ticks;
} clock_state;

static troupe_status clock_state_tick(clock_state *self, const int64_t *by, int64_t *now)
{
    *now = self->ticks += *by;
    return TROUPE_OK;
}

static troupe_status clock_state_open(clock_state *self, const int64_t *start)
{
    self->ticks = *start;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(clock_state, (clock_state_open, int64_t), NULL,
                  (clock_state_tick, int64_t, int64_t));

static troupe_status fit(troupe_rank *me, const settings *config)
{
    double loss = config->rate;
    TROUPE_TRY(troupe_allreduce(me, &loss, 1, TROUPE_SUM));
#if MISUSE == 10
    TROUPE_TRY(troupe_save(settings, me, &loss)); // wrong type: a state that is no settings
#else
    TROUPE_TRY(troupe_save(settings, me, config));
#endif
    return troupe_report(me, {"loss", loss});
}

static troupe_status prepare(troupe_setup *at, const settings *config)
{
    return at->ranks > config->epochs ? TROUPE_INVALID : TROUPE_OK;
}

static troupe_status join(troupe_rank *me, const settings *config)
{
    return me->rank < config->epochs ? TROUPE_OK : TROUPE_INVALID;
}
TROUPE_RANK_FUNCTION(join, settings);

static troupe_status connect_all(troupe_group *group, const settings *config)
{
    return troupe_execute(group, join, config);
}

#if MISUSE == 16
TROUPE_TRAINER(fit, settings, .setup = connect_all); // a hook of another place
#elif MISUSE == 17
TROUPE_TRAINER(fit, settings, .set_up = prepare); // misspelt hook
#else
TROUPE_TRAINER(fit, settings, .setup = prepare, .on_start = connect_all);
#endif

static troupe_status plan_steps(troupe_rank *me, const settings *config, troupe_plan *plan)
{
    (void)me;
    plan->epochs = config->epochs;
    plan->batches = 1;
    return TROUPE_OK;
}

static troupe_status take_step(troupe_rank *me, const settings *config)
{
    return troupe_report(me, {"rate", config->rate});
}

static troupe_status count_step(troupe_rank *me, const int64_t *config)
{
    return troupe_report(me, {"rate", (double)*config});
}

TROUPE_STRUCT(source, (int64_t, rows));

static troupe_status setup_rows(troupe_data *data, const source *of)
{
    return troupe_data_set(data, "train", troupe_put(int64_t, &of->rows), 1, TROUPE_WHOLE);
}

#if MISUSE == 21
TROUPE_DATA(rows, settings, setup_rows); // of another source
#else
TROUPE_DATA(rows, source, setup_rows);
#endif

#if MISUSE == 18
TROUPE_STEPS(steps, settings, .plan = plan_steps, .step = count_step); // of another config
#elif MISUSE == 19
TROUPE_STEPS(steps, settings, .plan = take_step, .step = take_step); // makes no plan
#elif MISUSE == 20
TROUPE_STEPS(steps, settings, .plan = plan_steps, .steps = take_step); // misspelt hook
#else
TROUPE_STEPS(steps, settings, .plan = plan_steps, .step = take_step, .after_epoch = take_step);
TROUPE_STEPS(counts, int64_t, .step = count_step); // Refused when it is registered.
#endif

static void train_on_data(const settings *how)
{
    troupe_result *result = NULL;
    source from = {.rows = 7};
#if MISUSE == 22
    troupe_must(troupe_train(fit, how, &result, .data = troupe_data_with(rows, how)));
    (void)from;
#else
    troupe_must(troupe_train(fit, how, &result, .data = troupe_data_with(rows, &from)));
#endif
    troupe_result_free(&result);
}

static void modify(const settings *how)
{
    troupe_job *job = NULL;
    troupe_must(troupe_submit(fit, how, NULL, &job, .ranks = 2));
#if MISUSE == 23
    troupe_must(troupe_job_modify(fit, job, rat, 0.5)); // misspelt member
#elif MISUSE == 24
    troupe_must(troupe_job_modify(fit, job, rate, "fast")); // a text for a number
#else
    troupe_must(troupe_job_modify(fit, job, rate, 0.5));
#endif
    troupe_job_close(&job);
}

static int use(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 1));
    counter_actor tally = troupe_spawn(counter, .name = "tally");
    clock_state_actor watch = troupe_spawn(clock_state);
    troupe_tell(tally, counter_reset);
    troupe_tell(watch, clock_state_tick, 1);
    settings how = {.rate = 0.5, .epochs = 1};
    troupe_tell_from(tally, counter_set, &how);
    troupe_tell_from(tally, counter_set, &(settings){0.5, 1}); // a literal, with its comma
    troupe_tell_from(tally, counter_watch, &watch.address);
    int64_t total = 0;
    troupe_ref sum = troupe_call(tally, counter_add, 5);

#if MISUSE == 1
    troupe_tell(tally, counter_subtract, 5); // unknown: no such method
#elif MISUSE == 2
    troupe_tell(tally, clock_state_tick, 5);                // wrong class: a counter does not tick
#elif MISUSE == 3
    troupe_tell(tally, counter_add, "five"); // wrong argument: a text for a number
#elif MISUSE == 4
    troupe_call(tally, counter_add, 5);            // dropped: nobody could ever read the answer
#elif MISUSE == 5
    troupe_tell(tally, counter_set, .rat = 0.5); // misspelt: settings has a rate
#elif MISUSE == 6
    double wrong;
    troupe_must(troupe_get(int64_t, sum, &wrong)); // wrong result: a double for an int64_t
#elif MISUSE == 7
    troupe_tell_from(tally, counter_set, &total); // wrong argument by pointer
#elif MISUSE == 8
    troupe_spawn(counter, .nam = "tally"); // misspelt option
#elif MISUSE == 9
    troupe_get(int64_t, sum, &total); // a status that nobody looks at
#endif
    troupe_must(troupe_get(int64_t, sum, &total));

    troupe_ref rate, epochs;
#if MISUSE == 14
    troupe_ref_split(settings, troupe_put(settings, &how), &rate); // one field has no reference
    epochs = rate;
#else
    troupe_ref_split(settings, troupe_put(settings, &how), &rate, &epochs);
#endif
    troupe_ref_drop(rate);
    troupe_ref_drop(epochs);

    train_on_data(&how);
    troupe_result *result = NULL;
#if MISUSE == 11
    troupe_must(troupe_train(fit, &total, &result, .ranks = 2)); // wrong config type
#elif MISUSE == 12
    troupe_must(troupe_train(fit, &how, &result, .worker = 2)); // misspelt option
#else
    troupe_must(troupe_train(fit, &how, &result, .ranks = 2));
#endif
    troupe_result_free(&result);

    modify(&how);

#if MISUSE == 13
    const troupe_param space[] = {TROUPE_UNIFORM(settings, rat, 0, 1)}; // misspelt field in a space
#else
    const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1)};
#endif
    open_space();
    troupe_sweep *sweep = NULL;
    troupe_must(troupe_tune(fit, space, &sweep, .metric = "loss", .trials = 2));
    troupe_sweep_free(&sweep);
    return troupe_stop();
}

int main(int argc, char **argv)
{
    return use(argc, argv);
}
