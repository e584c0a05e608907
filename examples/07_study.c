// 07_study.c: looks for the lowest point of a function by ask and tell, without any runtime. Given
// a file, it keeps every step there: killed and started again, it goes on where it was.
#include <stdio.h>
#include <troupe/study.h>

TROUPE_STRUCT(place, (double, x), (double, y));

// Himmelblau's function: 0 at four places, one of which is (3, 2).
static double height(const place *at)
{
    double a = at->x * at->x + at->y - 11, b = at->x + at->y * at->y - 7;
    return a * a + b * b;
}

int main(int argc, char **argv)
{
    const troupe_param rows[] = {
        TROUPE_UNIFORM(place, x, -5, 5),
        TROUPE_UNIFORM(place, y, -5, 5),
    };
    troupe_space *space;
    troupe_must(troupe_space_open(place, rows, &space));
    troupe_study *study;
    troupe_must(troupe_study_open(space, &study, .trials = 200, .file = argc > 1 ? argv[1] : NULL,
                                  .open = argc > 1 ? TROUPE_OPEN_RESUME_OR_NEW : TROUPE_OPEN_NEW));

    troupe_asked asked;
    while (troupe_study_ask(study, &asked) == TROUPE_OK)
        troupe_must(troupe_study_tell(study, asked.number, height(asked.config)));

    const troupe_study_trial *best = troupe_study_best(study);
    const place *at = best->config;
    printf("lowest of %zu: %.3f at (%.2f, %.2f)\n", troupe_study_count(study), best->best, at->x,
           at->y);
    troupe_study_free(&study);
    troupe_space_free(&space);
    return 0;
}
