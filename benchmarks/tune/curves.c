// curves.c: see tune/curves.h.
#include "curves.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_TRIALS = 500, DIGITS_EPOCHS = 27, TRIALS = 2000, EPOCHS = 81 };

typedef enum family { POWER, CROSSING, PLATEAU, DIGITS } family;
static const char *const names[TUNE_CURVE_FAMILIES] = {"power", "crossing", "plateau", "digits"};

struct tune_curves {
    family of;
    uint64_t seed;
    int trials, epochs;
    double least;
    double *table; // Of digits: a row a configuration.
    int order[DIGITS_TRIALS];
};

const char *tune_curve_family(size_t index)
{
    return index < TUNE_CURVE_FAMILIES ? names[index] : NULL;
}

// A number from 0 to 1 that belongs to (seed, trial, what): the generator of SplitMix64.
static double number(const tune_curves *of, int trial, int what)
{
    uint64_t x = of->seed * 0x9e3779b97f4a7c15u + (uint64_t)trial * 0xd1b54a32d192ed03u +
                 (uint64_t)what * 0x8cb92ba72f3d8dd7u;
    for (int i = 0; i < 2; i++) {
        x += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return (double)(x >> 11) * 0x1p-53;
}

enum { WORTH, START, SPEED, PACE, NOISE };

static double exact(const tune_curves *of, int trial, int epoch)
{
    double worth = number(of, trial, WORTH), start = 0.5 + number(of, trial, START);
    double speed = number(of, trial, SPEED);
    switch (of->of) {
    case POWER:
        return worth + start * pow(epoch, -(0.3 + 0.9 * speed));
    case CROSSING: // The slowest takes 30 epochs for a factor of e, the quickest one.
        return 0.6 * worth + 0.4 * (1 - speed) + start * exp(-epoch / pow(30, speed));
    case PLATEAU:
        return worth + (start + 1 - worth) / (1 + exp(epoch - EPOCHS / 4.0 * speed));
    case DIGITS:
        break;
    }
    return of->table[of->order[trial] * DIGITS_EPOCHS + epoch - 1];
}

static bool read_table(tune_curves *of)
{
    char line[1024];
    int rows = 0;
    FILE *file = fopen(TUNE_FOLDER "/digits.csv", "re");
    of->table = calloc((size_t)DIGITS_TRIALS * DIGITS_EPOCHS, sizeof *of->table);
    while (file != NULL && of->table != NULL && fgets(line, sizeof line, file) != NULL) {
        char *at = line;
        if (*line == '#' || rows == DIGITS_TRIALS)
            continue;
        for (int i = 0; i < 4; i++) // The settings.
            at = strchr(at, ',') + 1;
        for (int i = 0; i < DIGITS_EPOCHS; i++, at++)
            of->table[rows * DIGITS_EPOCHS + i] = strtod(at, &at);
        rows++;
    }
    if (file != NULL)
        fclose(file);
    for (int i = 0; i < DIGITS_TRIALS; i++) { // Each of those so far as likely.
        int other = (int)(number(of, i, WORTH) * (i + 1));
        of->order[i] = of->order[other];
        of->order[other] = i;
    }
    return rows == DIGITS_TRIALS;
}

tune_curves *tune_curves_open(const char *name, uint64_t seed)
{
    tune_curves *of = calloc(1, sizeof *of);
    int index = 0;
    while (index < TUNE_CURVE_FAMILIES && strcmp(names[index], name) != 0)
        index++;
    if (of == NULL || index == TUNE_CURVE_FAMILIES) {
        free(of);
        return NULL;
    }
    of->of = (family)index;
    of->seed = seed;
    of->trials = of->of == DIGITS ? DIGITS_TRIALS : TRIALS;
    of->epochs = of->of == DIGITS ? DIGITS_EPOCHS : EPOCHS;
    if (of->of == DIGITS && !read_table(of)) {
        tune_curves_close(of);
        return NULL;
    }
    of->least = INFINITY;
    for (int i = 0; i < of->trials; i++)
        of->least = fmin(of->least, exact(of, i, of->epochs));
    return of;
}

void tune_curves_close(tune_curves *of)
{
    if (of != NULL)
        free(of->table);
    free(of);
}

int tune_curves_epochs(const tune_curves *of)
{
    return of->epochs;
}

int tune_curves_trials(const tune_curves *of)
{
    return of->trials;
}

double tune_curves_score(const tune_curves *of, int trial, int epoch)
{
    double noise = 0; // About normal. The table has its own.
    for (int i = 0; i < 4 && of->of != DIGITS; i++)
        noise += number(of, trial, NOISE + 4 * epoch + i) - 0.5;
    return exact(of, trial, epoch) + 0.03 * noise;
}

double tune_curves_pace(const tune_curves *of, int trial)
{
    return 0.5 + number(of, trial, PACE);
}

double tune_curves_regret(const tune_curves *of, int trial)
{
    return exact(of, trial, of->epochs) - of->least;
}
