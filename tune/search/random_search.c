// random_search.c: the searcher that learns nothing.
#include <runtime/base/memory.h>
#include <tune/search/searcher.h>

typedef struct random_searcher {
    troupe_searcher base;
    const troupe_problem *problem;
} random_searcher;

static troupe_status random_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    ((random_searcher *)searcher)->problem = problem;
    return TROUPE_OK;
}

static troupe_status random_suggest(troupe_searcher *searcher, int number, double *x)
{
    trp_searcher_draw(((random_searcher *)searcher)->problem, number, x);
    return TROUPE_OK;
}

static void random_destroy(troupe_searcher *searcher)
{
    trp_free(searcher);
}

troupe_searcher *troupe_search_random(void)
{
    random_searcher *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = "random",
                                   .begin = random_begin,
                                   .suggest = random_suggest,
                                   .destroy = random_destroy};
    return &self->base;
}
