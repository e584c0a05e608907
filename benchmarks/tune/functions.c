// functions.c: see functions.h: the table of functions, and those that are not of bbob.
#include "functions.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

// Numbers: SplitMix64 (Steele, Lea and Flood 2014), normal ones by Box and Muller.

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double tune_uniform(tune_instance *at, double low, double high)
{
    return low + (high - low) * ((double)(next(&at->random) >> 11) * 0x1p-53);
}

double tune_normal(tune_instance *at)
{
    double radius = sqrt(-2 * log(1 - tune_uniform(at, 0, 1)));
    return radius * cos(2 * pi * tune_uniform(at, 0, 1));
}

// Known functions of one objective.

static double branin(const tune_instance *at, const double *x)
{
    (void)at;
    double bend = x[1] - 5.1 / (4 * pi * pi) * x[0] * x[0] + 5 / pi * x[0] - 6;
    return bend * bend + 10 * (1 - 1 / (8 * pi)) * cos(x[0]) + 10 - 0.39788735772973816;
}

static double hartmann(const tune_instance *at, const double *x)
{
    (void)at;
    static const double alpha[4] = {1, 1.2, 3, 3.2};
    static const double a[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
    static const double p[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                                   {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                                   {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
                                   {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
    double sum = 3.3223680114155147;
    for (int i = 0; i < 4; i++) {
        double distance = 0;
        for (int k = 0; k < 6; k++)
            distance += a[i][k] * (x[k] - p[i][k]) * (x[k] - p[i][k]);
        sum -= alpha[i] * exp(-distance);
    }
    return sum;
}

static double ackley(const tune_instance *at, const double *x)
{
    double squares = 0, cosines = 0, n = (double)at->count;
    for (size_t i = 0; i < at->count; i++) {
        squares += x[i] * x[i];
        cosines += cos(2 * pi * x[i]);
    }
    return 20 + exp(1) - 20 * exp(-0.2 * sqrt(squares / n)) - exp(cosines / n);
}

static double rosenbrock(const tune_instance *at, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i + 1 < at->count; i++) {
        double bend = x[i + 1] - x[i] * x[i];
        sum += 100 * bend * bend + (1 - x[i]) * (1 - x[i]);
    }
    return sum;
}

// Mixed spaces. Each instance has its best values in `best`.

// As the loss of a network is by its settings: an optimizer of three, each with a rate of its own;
// momentum counts with the first, the second moment's decay with the second.
enum { OPTIMIZER, RATE, MOMENTUM, DECAY, LAYERS, WIDTH, DROPOUT, ACTIVATION, NETWORK_DIMS };
static const troupe_dim network_dims[NETWORK_DIMS] = {
    {.name = "optimizer", .kind = TROUPE_DIM_CHOICE, .high = 2, .choices = 3, .parent = -1},
    {.name = "rate", .low = 1e-5, .high = 1, .log = true, .parent = -1},
    {.name = "momentum", .low = 0, .high = 1, .parent = OPTIMIZER, .when = 1},
    {.name = "decay", .low = 1e-4, .high = 1e-1, .log = true, .parent = OPTIMIZER, .when = 2},
    {.name = "layers", .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 8, .step = 1, .parent = -1},
    {.name = "width",
     .kind = TROUPE_DIM_INTEGER,
     .low = 8,
     .high = 1024,
     .step = 1,
     .log = true,
     .parent = -1},
    {.name = "dropout", .low = 0, .high = 0.5, .step = 0.05, .parent = -1},
    {.name = "activation", .kind = TROUPE_DIM_CHOICE, .high = 3, .choices = 4, .parent = -1},
};

static bool prepare_network(tune_instance *at)
{
    at->numbers = calloc(3 + 3 + 4, sizeof *at->numbers);
    if (at->numbers == NULL)
        return false;
    at->best[OPTIMIZER] = floor(tune_uniform(at, 0, 3));
    at->best[MOMENTUM] = tune_uniform(at, 0.3, 0.95);
    at->best[DECAY] = tune_uniform(at, -3.5, -1.5); // Its logarithm to base 10.
    at->best[LAYERS] = floor(tune_uniform(at, 2, 8));
    at->best[WIDTH] = floor(exp2(tune_uniform(at, 4, 9)));
    at->best[DROPOUT] = 0.05 * floor(tune_uniform(at, 1, 10));
    at->best[ACTIVATION] = floor(tune_uniform(at, 0, 4));
    for (int i = 0; i < 3; i++) {
        at->numbers[i] = i == (int)at->best[OPTIMIZER] ? 0 : tune_uniform(at, 0.02, 0.4);
        at->numbers[3 + i] = tune_uniform(at, -4, -0.5); // The best rate, as a logarithm.
    }
    for (int i = 0; i < 4; i++)
        at->numbers[6 + i] = i == (int)at->best[ACTIVATION] ? 0 : tune_uniform(at, 0.05, 0.3);
    return true;
}

static double network(const tune_instance *at, const double *x)
{
    const double *best = at->best;
    int optimizer = (int)x[OPTIMIZER];
    double wide = log2(x[WIDTH] / best[WIDTH]), deep = x[LAYERS] - best[LAYERS];
    // Wider networks want smaller rates, and a rate that is too large does more harm.
    double rate = log10(x[RATE]) - at->numbers[3 + optimizer] + 0.15 * wide;
    double loss = at->numbers[optimizer] + at->numbers[6 + (int)x[ACTIVATION]];
    loss += rate > 0 ? 1 - exp(-1.5 * rate * rate) : 1 - exp(-0.25 * rate * rate);
    loss += 0.02 * wide * wide + 0.015 * deep * deep + 0.02 * (wide + deep) * (wide + deep);
    loss += 2 * pow(x[DROPOUT] - best[DROPOUT], 2);
    if (optimizer == 0)
        loss += 0.5 * pow(x[MOMENTUM] - best[MOMENTUM], 2);
    if (optimizer == 1)
        loss += 0.05 * pow(log10(x[DECAY]) - best[DECAY], 2);
    return loss;
}

// Four real numbers, four whole ones and two choices, of which the first moves where the real ones
// are best.
enum { REALS = 4, WHOLE = 4, CHOICES = 2, LEVELS = 5, MANY_LEVELS = 8 };
static const troupe_dim levels_dims[REALS + WHOLE + CHOICES] = {
    {.name = "a", .low = -5, .high = 5, .parent = -1},
    {.name = "b", .low = -5, .high = 5, .parent = -1},
    {.name = "c", .low = -5, .high = 5, .parent = -1},
    {.name = "d", .low = -5, .high = 5, .parent = -1},
    {.name = "e", .kind = TROUPE_DIM_INTEGER, .high = 20, .step = 1, .parent = -1},
    {.name = "f", .kind = TROUPE_DIM_INTEGER, .high = 20, .step = 1, .parent = -1},
    {.name = "g", .kind = TROUPE_DIM_INTEGER, .high = 100, .step = 5, .parent = -1},
    {.name = "h",
     .kind = TROUPE_DIM_INTEGER,
     .low = 1,
     .high = 1000,
     .step = 1,
     .log = true,
     .parent = -1},
    {.name = "i", .kind = TROUPE_DIM_CHOICE, .high = LEVELS - 1, .choices = LEVELS, .parent = -1},
    {.name = "j",
     .kind = TROUPE_DIM_CHOICE,
     .high = MANY_LEVELS - 1,
     .choices = MANY_LEVELS,
     .parent = -1},
};

static bool prepare_levels(tune_instance *at)
{
    at->numbers = calloc(2 * LEVELS + MANY_LEVELS, sizeof *at->numbers);
    if (at->numbers == NULL)
        return false;
    for (int i = 0; i < REALS; i++)
        at->best[i] = tune_uniform(at, -3, 3);
    for (int i = 0; i < 2; i++)
        at->best[REALS + i] = floor(tune_uniform(at, 0, 21));
    at->best[6] = 5 * floor(tune_uniform(at, 0, 21));
    at->best[7] = floor(exp(tune_uniform(at, 1, 6)));
    at->best[8] = floor(tune_uniform(at, 0, LEVELS));
    at->best[9] = floor(tune_uniform(at, 0, MANY_LEVELS));
    for (int i = 0; i < LEVELS; i++) {
        bool best = i == (int)at->best[8];
        at->numbers[i] = best ? 0 : tune_uniform(at, 1, 10);
        at->numbers[LEVELS + i] = best ? 0 : tune_uniform(at, -1.5, 1.5);
    }
    for (int i = 0; i < MANY_LEVELS; i++)
        at->numbers[2 * LEVELS + i] = i == (int)at->best[9] ? 0 : tune_uniform(at, 0.5, 8);
    return true;
}

static double levels(const tune_instance *at, const double *x)
{
    int first = (int)x[8], second = (int)x[9];
    double sum = at->numbers[first] + at->numbers[2 * LEVELS + second];
    for (int i = 0; i < REALS; i++) {
        double z = x[i] - at->best[i] - at->numbers[LEVELS + first];
        sum += (i + 1) * z * z + 2 * (1 - cos(pi * z));
    }
    double coupled = (x[4] - at->best[4]) / 4 + (x[5] - at->best[5]) / 4;
    sum += pow((x[4] - at->best[4]) / 4, 2) + coupled * coupled;
    return sum + pow((x[6] - at->best[6]) / 20, 2) + pow(log(x[7] / at->best[7]), 2);
}

// A real table: what runs of the digits' network came to (digits.csv, which measure/digits_table
// makes): rates, widths and batches are ordered, momentum is one of two.
enum { TABLE_RATES = 10, TABLE_WIDTHS = 5, TABLE_BATCHES = 5, TABLE_MOMENTA = 2, TABLE_DIMS = 4 };
enum { TABLE = TABLE_RATES * TABLE_WIDTHS * TABLE_BATCHES * TABLE_MOMENTA };
#define ORDERED(n)                                                                                 \
    .kind = TROUPE_DIM_CHOICE, .high = (n)-1, .choices = (n), .ordered = true, .parent = -1
static const troupe_dim table_dims[TABLE_DIMS] = {
    {.name = "rate", ORDERED(TABLE_RATES)},
    {.name = "hidden", ORDERED(TABLE_WIDTHS)},
    {.name = "batch", ORDERED(TABLE_BATCHES)},
    {.name = "momentum",
     .kind = TROUPE_DIM_CHOICE,
     .high = TABLE_MOMENTA - 1,
     .choices = TABLE_MOMENTA,
     .parent = -1},
};

// The losses after the last epoch, less the least of them. False: the file is not what it should
// be.
static bool read_table(FILE *file, double *losses)
{
    char line[1024];
    int count = 0;
    double least = INFINITY;
    while (fgets(line, sizeof line, file) != NULL) {
        char *last = strrchr(line, ',');
        if (line[0] == '#')
            continue;
        if (last == NULL || count == TABLE)
            return false;
        losses[count] = strtod(last + 1, NULL);
        least = fmin(least, losses[count++]);
    }
    for (int i = 0; i < TABLE; i++)
        losses[i] -= least;
    return count == TABLE;
}

static bool prepare_table(tune_instance *at)
{
    FILE *file = fopen(TUNE_FOLDER "/digits.csv", "re");
    at->numbers = calloc(TABLE, sizeof *at->numbers);
    bool good = file != NULL && at->numbers != NULL && read_table(file, at->numbers);
    if (file != NULL)
        fclose(file);
    for (int i = 0; good && i < TABLE; i++)
        if (at->numbers[i] == 0) { // The last of the best.
            int batch = i / TABLE_MOMENTA, width = batch / TABLE_BATCHES;
            int rate = width / TABLE_WIDTHS;
            at->best[0] = rate;
            at->best[1] = width % TABLE_WIDTHS;
            at->best[2] = batch % TABLE_BATCHES;
            at->best[3] = i % TABLE_MOMENTA;
        }
    return good;
}

static double table(const tune_instance *at, const double *x)
{
    int line = (((int)x[0] * TABLE_WIDTHS + (int)x[1]) * TABLE_BATCHES + (int)x[2]);
    return at->numbers[line * TABLE_MOMENTA + (int)x[3]];
}

// ZDT1 to 3 (Zitzler, Deb and Thiele, Evolutionary Computation 2000).

static double zdt_g(const tune_instance *at, const double *x)
{
    double sum = 0;
    for (size_t i = 1; i < at->count; i++)
        sum += x[i];
    return 1 + 9 * sum / (double)(at->count - 1);
}

static void zdt1(const tune_instance *at, const double *x, double *scores)
{
    double g = zdt_g(at, x);
    scores[0] = x[0];
    scores[1] = g * (1 - sqrt(x[0] / g));
}

static void zdt2(const tune_instance *at, const double *x, double *scores)
{
    double g = zdt_g(at, x);
    scores[0] = x[0];
    scores[1] = g * (1 - x[0] / g * x[0] / g);
}

static void zdt3(const tune_instance *at, const double *x, double *scores)
{
    double g = zdt_g(at, x), share = x[0] / g;
    scores[0] = x[0];
    scores[1] = g * (1 - sqrt(share) - share * sin(10 * pi * x[0]));
}

// The table of functions.

enum { FUNCTIONS_MAX = 32, NAMES = 40 };

static struct {
    size_t count;
    tune_function functions[FUNCTIONS_MAX];
    char names[FUNCTIONS_MAX][NAMES];
    troupe_dim boxes[FUNCTIONS_MAX][TUNE_DIMS_MAX];
    char coordinates[TUNE_DIMS_MAX][24];
} all;

static tune_function *add(const char *name, const troupe_dim *dims, size_t count, int trials)
{
    tune_function *made = &all.functions[all.count];
    snprintf(all.names[all.count], NAMES, "%s", name);
    *made = (tune_function){.name = all.names[all.count++],
                            .dim_count = count,
                            .objectives = 1,
                            .dims = dims,
                            .trials = trials};
    return made;
}

static tune_function *add_box(const char *name, size_t count, double low, double high, int trials)
{
    troupe_dim *dims = all.boxes[all.count];
    for (size_t i = 0; i < count; i++)
        dims[i] = (troupe_dim){.name = all.coordinates[i], .low = low, .high = high, .parent = -1};
    return add(name, dims, count, trials);
}

static void add_single(void)
{
    tune_function *made = add_box("branin", 2, 0, 15, 100);
    all.boxes[0][0].low = -5;
    all.boxes[0][0].high = 10;
    made->score = branin;
    add_box("hartmann.6", 6, 0, 1, 200)->score = hartmann;
    add_box("ackley.5", 5, -32.768, 32.768, 200)->score = ackley;
    add_box("ackley.10", 10, -32.768, 32.768, 200)->score = ackley;
    add_box("rosenbrock.5", 5, -5, 10, 200)->score = rosenbrock;
    for (size_t d = 5; d <= 10; d += 5)
        for (size_t i = 0; i < TUNE_BBOB; i++) {
            char name[NAMES];
            snprintf(name, sizeof name, "bbob.%s.%zu", tune_bbob[i].name, d);
            made = add_box(name, d, -5, 5, 200);
            made->score = tune_bbob[i].score;
            made->prepare = tune_bbob[i].prepare;
        }
    made = add("mixed.network", network_dims, NETWORK_DIMS, 200);
    made->score = network;
    made->prepare = prepare_network;
    made = add("mixed.levels", levels_dims, REALS + WHOLE + CHOICES, 200);
    made->score = levels;
    made->prepare = prepare_levels;
    made = add("table.digits", table_dims, TABLE_DIMS, 100); // A fifth of all that there is.
    made->score = table;
    made->prepare = prepare_table;
}

static void fill(void)
{
    static void (*const zdt[])(const tune_instance *, const double *, double *) = {zdt1, zdt2,
                                                                                   zdt3};
    if (all.count > 0)
        return;
    for (size_t i = 0; i < TUNE_DIMS_MAX; i++)
        snprintf(all.coordinates[i], sizeof all.coordinates[i], "x%zu", i);
    add_single();
    for (int i = 0; i < 3; i++) {
        char name[NAMES];
        snprintf(name, sizeof name, "zdt.%d", i + 1);
        tune_function *made = add_box(name, 30, 0, 1, 1000);
        made->scores = zdt[i];
        made->objectives = 2;
    }
}

size_t tune_function_count(void)
{
    fill();
    return all.count;
}

const tune_function *tune_function_at(size_t index)
{
    fill();
    return index < all.count ? &all.functions[index] : NULL;
}

const tune_function *tune_function_named(const char *name)
{
    size_t i = 0;
    fill();
    while (i < all.count && strcmp(all.names[i], name) != 0)
        i++;
    return tune_function_at(i);
}

// Instances.

tune_instance *tune_open(const tune_function *of, uint64_t instance)
{
    tune_instance *at = calloc(1, sizeof *at);
    if (at == NULL)
        return NULL;
    at->of = of;
    at->count = of->dim_count;
    for (const char *c = of->name; *c != '\0'; c++)
        at->random = (at->random + (unsigned char)*c) * 0x100000001b3u;
    at->random += instance * 0x9e3779b97f4a7c15u;
    next(&at->random);
    if (of->prepare == NULL || of->prepare(at))
        return at;
    tune_close(at);
    return NULL;
}

void tune_close(tune_instance *at)
{
    if (at != NULL)
        free(at->numbers);
    free(at);
}

void tune_evaluate(const tune_instance *at, const double *x, double *scores)
{
    if (at->of->scores != NULL)
        at->of->scores(at, x, scores);
    else
        scores[0] = at->of->score(at, x);
}

static int first_rises(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

double tune_volume(const double *scores, size_t count)
{
    double sum = 0, lowest = TUNE_REFERENCE, *sorted = malloc((2 * count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return NAN;
    memcpy(sorted, scores, 2 * count * sizeof *sorted);
    qsort(sorted, count, 2 * sizeof *sorted, first_rises);
    for (size_t i = 0; i < count; i++) {
        if (sorted[2 * i] >= TUNE_REFERENCE || sorted[2 * i + 1] >= lowest)
            continue;
        sum += (TUNE_REFERENCE - sorted[2 * i]) * (lowest - sorted[2 * i + 1]);
        lowest = sorted[2 * i + 1];
    }
    free(sorted);
    return sum;
}

size_t tune_describe(const tune_function *of, char *text, size_t size)
{
    static const char *const kinds[] = {"real", "integer", "choice"};
    size_t used = 0;
#define PUT(...) used += (size_t)snprintf(text + used, used < size ? size - used : 0, __VA_ARGS__)
    PUT("{\"trials\": %d, \"objectives\": %zu, \"dims\": [", of->trials, of->objectives);
    for (size_t i = 0; i < of->dim_count; i++) {
        const troupe_dim *dim = &of->dims[i];
        PUT("%s{\"name\": \"%s\", \"kind\": \"%s\", \"low\": %.17g, \"high\": %.17g, ",
            i > 0 ? ", " : "", dim->name, kinds[dim->kind], dim->low, dim->high);
        PUT("\"step\": %.17g, \"log\": %s, \"choices\": %d, \"ordered\": %s, ", dim->step,
            dim->log ? "true" : "false", dim->choices, dim->ordered ? "true" : "false");
        PUT("\"parent\": %d, \"when\": %u}", dim->parent, dim->when);
    }
    PUT("]}");
#undef PUT
    return used;
}
