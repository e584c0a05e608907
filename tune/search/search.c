// search.c: the two searchers that learn nothing: random and grid.
#include <tune/search/search.h>

#include <runtime/base/memory.h>

typedef struct plain_search {
    trp_search base;
    const trp_space *space;
    uint64_t seed;
    int points;
} plain_search;

static bool random_suggest(trp_search *search, int number, void *config)
{
    plain_search *self = (plain_search *)search;
    trp_random
        random; // A stream of its own for each trial, so that the order of asking is no matter.
    trp_random_seed(&random, self->seed, (uint64_t)number);
    trp_space_draw(self->space, &random, config);
    return true;
}

static bool grid_suggest(trp_search *search, int number, void *config)
{
    plain_search *self = (plain_search *)search;
    if ((uint64_t)number >= trp_space_grid_size(self->space, self->points))
        return false;
    trp_space_grid(self->space, self->points, (uint64_t)number, config);
    return true;
}

static void learn_nothing(trp_search *search, int number, double score)
{
    (void)search;
    (void)number;
    (void)score;
}

static void plain_destroy(trp_search *search)
{
    trp_free(search);
}

static trp_search *make(plain_search how)
{
    plain_search *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return NULL;
    *self = how;
    self->base.observe = learn_nothing;
    self->base.destroy = plain_destroy;
    return &self->base;
}

trp_search *trp_search_random(const trp_space *space, uint64_t seed)
{
    return make((plain_search){.base.suggest = random_suggest, .space = space, .seed = seed});
}

trp_search *trp_search_grid(const trp_space *space, int points)
{
    return make((plain_search){.base.suggest = grid_suggest, .space = space, .points = points});
}

void trp_search_destroy(trp_search **search)
{
    if (*search != NULL)
        (*search)->destroy(*search);
    *search = NULL;
}
