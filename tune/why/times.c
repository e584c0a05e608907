// times.c: when trials ran, as their folders beside the record say.
#include <math.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <train/run_file.h>
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
    trp_run_file file;
    trp_end_file end;
    if (trp_path_make(&run, "%s/%s", trials->folder, trial->name) == TROUPE_OK &&
        trp_run_file_exists(run.text) && trp_run_file_read(run.text, &arena, &file) == TROUPE_OK) {
        trial->began = seconds_of(file.head.created);
        if (trp_end_file_read(run.text, &arena, &end) == TROUPE_OK)
            trial->ended = seconds_of(end.at);
    }
    trp_arena_clear(&arena);
}

void trp_trials_times(trp_trials *trials)
{
    size_t every = trials->count / TRP_TRIALS_TIMED + 1;
    for (size_t i = 0; i < trials->count; i += every)
        if (trials->trials[i]->name != NULL)
            read_times(trials, trials->trials[i]);
}
