// cases.h: trials whose importance is known: points from fractional parts of multiples of square
// roots, which every tool gets as the same bits, and the figures that Optuna 5.0.0 has for them
// (PedAnovaImportanceEvaluator(); FanovaImportanceEvaluator, the mean of seeds 0 to 4; both with
// normalize=False).
#ifndef TRP_TEST_WHY_CASES_H
#define TRP_TEST_WHY_CASES_H

#include <math.h>
#include <troupe/space.h>

enum { CASE_DIMS = 5, CASE_TRIALS = 300 };

typedef struct known_case {
    const char *name;
    size_t dim_count, count;
    troupe_dim dims[CASE_DIMS];
    void (*fill)(size_t number, double *x, double *score);
    double pedanova[CASE_DIMS], fanova[CASE_DIMS]; // NaN: it has no figure.
} known_case;

static double fraction(size_t number, int stream)
{
    static const double primes[] = {2, 3, 5, 7, 11};
    return fmod((double)(number + 1) * sqrt(primes[stream]), 1);
}

#define CASE_REAL(of)                                                                              \
    {                                                                                              \
        .name = (of), .high = 1, .parent = -1                                                      \
    }
#define CASE_CHOICE(of, count)                                                                     \
    {                                                                                              \
        .name = (of), .kind = TROUPE_DIM_CHOICE, .high = (count)-1, .choices = (count),            \
        .parent = -1                                                                               \
    }

static void fill_sum(size_t number, double *x, double *score)
{
    for (int i = 0; i < 3; i++)
        x[i] = fraction(number, i);
    *score = 4 * x[0] + 2 * x[1] * x[1] + 0.1 * x[2];
}

static void fill_mixed(size_t number, double *x, double *score)
{
    static const double of_choice[] = {0, 0.5, 2};
    double step = floor(5 * fraction(number, 3)), power = floor(8 * fraction(number, 4));
    x[0] = pow(1e-4, 1 - fraction(number, 0));
    x[1] = 1 + floor(64 * fraction(number, 1));
    x[2] = floor(3 * fraction(number, 2));
    x[3] = 0.25 * step;
    x[4] = pow(2, power);
    *score = pow(log10(x[0]) + 2, 2) + 0.01 * fabs(x[1] - 40) + of_choice[(int)x[2]] + x[3] +
             0.05 * power;
}

static void fill_conditional(size_t number, double *x, double *score)
{
    x[0] = floor(2 * fraction(number, 0));
    x[1] = fraction(number, 1);
    x[2] = x[0] == 0 ? fraction(number, 2) : (double)NAN;
    *score = x[1] + (x[0] == 0 ? 2 * x[2] * x[2] : 1.2);
}

static void fill_together(size_t number, double *x, double *score)
{
    static const double of_choice[] = {0, 1, -1, 0.5};
    x[0] = fraction(number, 0);
    x[1] = fraction(number, 1);
    x[2] = floor(4 * fraction(number, 2));
    *score = 3 * x[0] + x[1] * x[0] + of_choice[(int)x[2]];
}

static const known_case known_cases[] = {
    {"a sum",
     3,
     200,
     {CASE_REAL("a"), CASE_REAL("b"), CASE_REAL("c")},
     fill_sum,
     {0.031387537295067276, 0.00796908789957177, 0.00010386310003337365},
     {0.7930670858, 0.1831414096, 0.0002619959}},
    {"all kinds",
     5,
     300,
     {{.name = "rate", .low = 1e-4, .high = 1, .log = true, .parent = -1},
      {.name = "width", .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 64, .parent = -1},
      CASE_CHOICE("choice", 3),
      {.name = "step", .high = 1, .step = 0.25, .parent = -1},
      {.name = "deep",
       .kind = TROUPE_DIM_INTEGER,
       .low = 1,
       .high = 128,
       .log = true,
       .parent = -1}},
     fill_mixed,
     {0.013557484341307416, 0.00029782734874563563, 0.002777548840816009, 0.0035405940776233285,
      0.00034375047310679694},
     // Its forest takes a rate itself, not the logarithm; one that is searched in that has more.
     {(double)NAN, 0.0025810524, (double)NAN, 0.0112620046, 0.0033945189}},
    {"a condition",
     3,
     250,
     {CASE_CHOICE("choice", 2), CASE_REAL("x"), {.name = "m", .high = 1, .parent = 0, .when = 1}},
     fill_conditional,
     {0.0022657009206792727, 0.0077419120496134, 0.021960368001735512},
     // Its forest leaves out what does not always count.
     {(double)NAN, (double)NAN, (double)NAN}},
    {"together",
     3,
     300,
     {CASE_REAL("x"), CASE_REAL("y"), CASE_CHOICE("k", 4)},
     fill_together,
     {0.018726649196178936, 4.3296778861092375e-05, 0.003249166471986833},
     {0.5989860704, 0.0042124603, 0.3647327304}},
};
enum { KNOWN_CASES = sizeof known_cases / sizeof *known_cases };

// Fills points and scores.
static void fill_case(const known_case *of, double *points, double *scores)
{
    for (size_t i = 0; i < of->count; i++)
        of->fill(i, points + i * of->dim_count, &scores[i]);
}

#endif
