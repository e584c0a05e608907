// line.h: a tiny trainer for the tests of whole runs: fits a line to points by gradient descent.
// What goes wrong in it is told by its settings, at exact places, so that nothing depends on
// timing.
#ifndef LINE_H
#define LINE_H

#include "await.h"
#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

// Where the victim gets into trouble in epoch `at` of its first `attempts` attempts.
enum { BEFORE_REDUCE, BEFORE_SAVE, BEFORE_REPORT, AFTER_REPORT };
// What kind of trouble.
enum { NO_TROUBLE, KILLED, EXITS, RETURNS, RETURNS_QUIETLY, HANGS, FREEZES, LEAVES };

TROUPE_STRUCT(line_settings, (double, rate), (int, epochs), (int, trouble), (int, victim),
              (int, at), (int, where), (int, attempts), (int, save_every), (int, pause_ms),
              (troupe_text, note));
TROUPE_STRUCT(line_model, (double, slope), (double, offset), (int64_t, epoch), (int, rank),
              (troupe_text, note), (troupe_array_double, history));

enum { LINE_POINTS = 1000, LINE_EPOCHS_MAX = 4000 };

static troupe_status line_trouble(const troupe_rank *me, const line_settings *config, int64_t epoch,
                                  int where)
{
    if (me->rank != config->victim || epoch != config->at || where != config->where ||
        me->attempt >= config->attempts)
        return TROUPE_OK;
    switch (config->trouble) {
    case KILLED:
        kill(getpid(), SIGKILL);
        break;
    case EXITS:
        _exit(3);
    case RETURNS:
        return troupe_fail(TROUPE_FAILED, "the loss of rank %d is not what it was", me->rank);
    case RETURNS_QUIETLY:
        return TROUPE_IO;
    case HANGS:
        for (;;)
            pause();
    case FREEZES: // The whole process: it does not even see that it is to end.
        raise(SIGSTOP);
        break;
    case LEAVES:
        return TROUPE_STOPPED; // Without having been asked.
    default:
        break;
    }
    return TROUPE_OK;
}

static troupe_status line_step(troupe_rank *me, const line_settings *config, line_model *model,
                               double *history)
{
    double sums[3] = {0}; // d/d slope, d/d offset, squared error
    for (int i = me->rank; i < LINE_POINTS; i += me->world) {
        double x = (double)i / LINE_POINTS, error = model->slope * x + model->offset - (3 * x + 2);
        sums[0] += error * x / LINE_POINTS;
        sums[1] += error / LINE_POINTS;
        sums[2] += error * error / LINE_POINTS;
    }
    TROUPE_TRY(line_trouble(me, config, model->epoch + 1, BEFORE_REDUCE));
    TROUPE_TRY(troupe_allreduce(me, sums, 3, TROUPE_SUM));
    model->slope -= config->rate * sums[0];
    model->offset -= config->rate * sums[1];
    history[model->epoch++] = sums[2];
    model->history = (troupe_array_double){history, (size_t)model->epoch};
    TROUPE_TRY(line_trouble(me, config, model->epoch, BEFORE_SAVE));
    if (config->save_every > 0 && model->epoch % config->save_every == 0)
        TROUPE_TRY(troupe_save(line_model, me, model));
    TROUPE_TRY(line_trouble(me, config, model->epoch, BEFORE_REPORT));
    TROUPE_TRY(troupe_report(me, {"loss", sums[2]}, {"slope", model->slope},
                             {"epoch", (double)model->epoch}));
    return line_trouble(me, config, model->epoch, AFTER_REPORT);
}

static troupe_status line_fit(troupe_rank *me, const line_settings *config)
{
    static double history[LINE_EPOCHS_MAX];
    line_model model = {.rank = me->rank, .note = config->note};
    TROUPE_TRY(troupe_restore(line_model, me, &model));
    if (model.rank != me->rank)
        return troupe_fail(TROUPE_CORRUPT, "rank %d got the state of rank %d", me->rank,
                           model.rank);
    if (model.history.count)
        memcpy(history, model.history.items, model.history.count * sizeof *history);
    while (model.epoch < config->epochs) {
        if (config->pause_ms)
            usleep((useconds_t)config->pause_ms * 1000);
        TROUPE_TRY(line_step(me, config, &model, history));
    }
    return TROUPE_OK;
}
// Each rank saves its own number; fewer ranks go on with theirs.
TROUPE_TRAINER(line_fit, line_settings, .reshards = true);

// Settings of an undisturbed run of some epochs, with a checkpoint for each.
static inline line_settings line_plain(int epochs)
{
    return (line_settings){.rate = 0.9,
                           .epochs = epochs,
                           .save_every = 1,
                           .attempts = 1,
                           .note = "a \"note\" \xC3\xA4"};
}

// The state that a rank saved last; texts and arrays live until troupe_arena_reset.
static inline line_model line_load(const troupe_result *result, int rank)
{
    line_model model = {0};
    assert_non_null(troupe_result_checkpoint(result));
    assert_int_equal(
        troupe_checkpoint_load(line_model, troupe_result_checkpoint(result), rank, &model),
        TROUPE_OK);
    return model;
}

static inline void line_assert_same(const line_model *a, const line_model *b)
{
    assert_memory_equal(&a->slope, &b->slope, sizeof a->slope);
    assert_memory_equal(&a->offset, &b->offset, sizeof a->offset);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->rank, b->rank);
    assert_string_equal(a->note, b->note);
    assert_int_equal(a->history.count, b->history.count);
    assert_memory_equal(a->history.items, b->history.items, a->history.count * sizeof(double));
}

#endif
