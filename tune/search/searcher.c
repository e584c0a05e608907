// searcher.c: see tune/search/searcher.h.
#include <tune/search/searcher.h>

#include <runtime/base/memory.h>
#include <stdio.h>
#include <tune/space/dims.h>

typedef struct refused {
    troupe_searcher base;
    char why[512];
} refused;

static troupe_status refused_suggest(troupe_searcher *searcher, int number, double *x)
{
    (void)number;
    (void)x;
    return troupe_fail(searcher->refusal, "%s", searcher->name);
}

static void refused_destroy(troupe_searcher *searcher)
{
    trp_free(searcher);
}

static void static_destroy(troupe_searcher *searcher)
{
    (void)searcher;
}

troupe_searcher *trp_searcher_refused(void)
{
    // Never written, so that all threads can share it.
    static troupe_searcher short_of_memory = {.abi = TROUPE_ABI,
                                              .name = "no memory for a searcher",
                                              .suggest = refused_suggest,
                                              .destroy = static_destroy,
                                              .refusal = TROUPE_NO_MEMORY};
    const troupe_error *why = troupe_last_error();
    refused *made = why->status == TROUPE_NO_MEMORY ? NULL : trp_alloc(sizeof *made);
    if (made == NULL)
        return &short_of_memory;
    snprintf(made->why, sizeof made->why, "%s", why->text);
    made->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = made->why,
                                   .suggest = refused_suggest,
                                   .destroy = refused_destroy,
                                   .refusal = why->status};
    return &made->base;
}

troupe_searcher *trp_searcher_short(void)
{
    (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a searcher");
    return trp_searcher_refused();
}

bool trp_searcher_allowed(const troupe_problem *problem, const double *x)
{
    return problem->allowed == NULL || problem->allowed(problem->allowed_user, x);
}

void trp_searcher_draw(const troupe_problem *problem, int number, double *x)
{
    enum { TRIES = 1000 };
    trp_random random; // Of this trial alone, so that the order of asking is no matter.
    trp_random_seed(&random, problem->seed, (uint64_t)number);
    for (int i = 0; i < TRIES; i++) {
        trp_dims_draw(problem->dims, problem->dim_count, &random, x);
        if (trp_searcher_allowed(problem, x))
            return;
    }
}

void troupe_searcher_free(troupe_searcher **searcher)
{
    if (searcher == NULL || *searcher == NULL)
        return;
    (*searcher)->destroy(*searcher);
    *searcher = NULL;
}
