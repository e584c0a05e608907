// times.c: when trials ran, as their folders beside the record say.
#include <math.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <troupe/train.h>
#include <tune/why/trials.h>

// Seconds of "2026-11-24T12:00:00.123Z"; NaN: it is none.
static double seconds_of(const char *text)
{
    struct tm day = {0};
    double seconds;
    int used = 0;
    if (text == NULL || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%lfZ%n", &day.tm_year, &day.tm_mon,
                               &day.tm_mday, &day.tm_hour, &day.tm_min, &seconds, &used) != 6)
        return (double)NAN;
    day.tm_year -= 1900;
    day.tm_mon--;
    return (double)timegm(&day) + seconds;
}

static void read_times(const trp_trials *trials, trp_seen_trial *trial)
{
    trp_path run;
    trp_arena arena = {0};
    troupe_run_info info;
    troupe_error kept;
    trp_error_hold(&kept);
    trp_arena *outer = trp_arena_swap(&arena);
    if (trp_path_make(&run, "%s/%s", trials->folder, trial->name) == TROUPE_OK &&
        troupe_run_info_get(run.text, &info) == TROUPE_OK) {
        trial->began = seconds_of(info.created);
        trial->ended = info.ended ? seconds_of(info.at) : trial->ended;
    }
    (void)trp_arena_swap(outer);
    trp_arena_clear(&arena);
    trp_error_restore(&kept);
}

void trp_trials_times(trp_trials *trials)
{
    size_t every = trials->count / TRP_TRIALS_TIMED + 1;
    for (size_t i = 0; i < trials->count; i += every)
        if (trials->trials[i]->name != NULL)
            read_times(trials, trials->trials[i]);
}
