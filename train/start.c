// start.c: starting the processes of a group's ranks (see train/start.h).
#include <actors/spawn/spawn.h>
#include <runtime/base/memory.h>
#include <train/start.h>

// What is needed until all are started, each by rank.
typedef struct starting {
    uint32_t *nodes; // By worker.
    trp_place *places;
    trp_buffer *texts;
    const char **envs;
    troupe_actor *addresses; // Of those that are started, in the order of ranks.
} starting;

static bool open_all(starting *all, size_t world)
{
    *all = (starting){
        .nodes = (uint32_t *)trp_alloc(world * sizeof *all->nodes),
        .places = (trp_place *)trp_alloc(world * sizeof *all->places),
        .texts = (trp_buffer *)trp_alloc(world * sizeof *all->texts),
        .envs = (const char **)trp_alloc(world * sizeof *all->envs),
        .addresses = (troupe_actor *)trp_alloc(world * sizeof *all->addresses),
    };
    return all->nodes && all->places && all->texts && all->envs && all->addresses;
}

static void close_all(starting *all, size_t world)
{
    for (size_t i = 0; all->texts && i < world; i++)
        trp_buffer_free(&all->texts[i]);
    trp_free(all->nodes);
    trp_free(all->places);
    trp_free(all->texts);
    trp_free((void *)all->envs);
    trp_free(all->addresses);
}

// Says where each rank runs, and writes its environment. All workers are on this node.
static bool describe_all(const trp_job *job, starting *all, int world)
{
    bool failed = false;
    trp_places_of(all->nodes, world, all->places);
    for (int i = 0; i < world; i++) {
        const trp_place *place = &all->places[i];
        trp_buffer *text = &all->texts[place->rank];
        trp_place_env(place, job->gpus, job->gang.gpus_each, job->options.env, text);
        all->envs[place->rank] = (const char *)text->data;
        failed = failed || text->failed;
    }
    return !failed;
}

// Starts those that are not there, and says who they are.
static void start_missing(starting *all, int world, const bool *there, trp_place *places,
                          trp_worker_actor *workers)
{
    size_t missing = 0, next = 0;
    for (int rank = 0; rank < world; rank++)
        if (!there[rank])
            all->envs[missing++] = all->envs[rank]; // At its own place or before it.
    if (missing > 0)
        (void)trp_spawn_each(&troupe_class_trp_worker, all->envs, missing, all->addresses,
                             TROUPE_OPTIONS(troupe_spawn_options, .place = TROUPE_PLACE_ISOLATED));
    for (int rank = 0; rank < world; rank++)
        if (!there[rank])
            workers[rank].address = all->addresses[next++];
    for (int i = 0; i < world; i++)
        if (!there[all->places[i].rank])
            places[all->places[i].rank] = all->places[i];
}

troupe_status trp_workers_start(const trp_job *job, const bool *there, trp_place *places,
                                trp_worker_actor *workers)
{
    int world = job->options.ranks;
    starting all;
    bool made = open_all(&all, (size_t)world) && describe_all(job, &all, world);
    if (made)
        start_missing(&all, world, there, places, workers);
    close_all(&all, (size_t)world);
    return made ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory to start %d ranks", world);
}
