// start.c: starting the processes of a group's ranks (see train/start.h).
#include <actors/spawn/spawn.h>
#include <runtime/base/memory.h>
#include <train/start.h>

// What is needed until all are started, each by rank.
typedef struct starting {
    uint32_t *nodes; // By worker.
    trp_place *places;
    trp_buffer *texts;
    const char **envs;       // By process,
    troupe_actor *addresses; // and the first worker of each that is started.
    troupe_ref *answers;
} starting;

static bool open_all(starting *all, size_t world)
{
    *all = (starting){
        .nodes = (uint32_t *)trp_alloc(world * sizeof *all->nodes),
        .places = (trp_place *)trp_alloc(world * sizeof *all->places),
        .texts = (trp_buffer *)trp_alloc(world * sizeof *all->texts),
        .envs = (const char **)trp_alloc(world * sizeof *all->envs),
        .addresses = (troupe_actor *)trp_alloc(world * sizeof *all->addresses),
        .answers = (troupe_ref *)trp_alloc(world * sizeof *all->answers),
    };
    return all->nodes && all->places && all->texts && all->envs && all->addresses && all->answers;
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
    trp_free(all->answers);
}

// How many ranks are in the process of that first one.
static int ranks_from(const trp_job *job, int first)
{
    int together = job->options.ranks_per_process, left = job->world - first;
    return left < together ? left : together;
}

// Says where each rank runs, and writes the environments of processes. All are on this node, where
// a worker's number is its rank.
static bool describe_all(const trp_job *job, starting *all)
{
    bool failed = false;
    int world = job->world, together = job->options.ranks_per_process;
    trp_places_of(all->nodes, world, all->places);
    for (int first = 0; first < world; first += together) {
        trp_buffer *text = &all->texts[first];
        trp_place_env(&all->places[first], ranks_from(job, first),
                      job->rank_gpus != NULL ? job->rank_gpus : job->gpus, job->rank_gpus != NULL,
                      job->gang.gpus_each, job->options.env, text);
        all->envs[first / together] = (const char *)text->data;
        failed = failed || text->failed;
    }
    return !failed;
}

// Starts the processes that are not there, and says who their first workers are.
static void start_missing(const trp_job *job, starting *all, const bool *there,
                          trp_worker_actor *workers)
{
    size_t missing = 0, next = 0;
    int world = job->world, together = job->options.ranks_per_process;
    for (int first = 0; first < world; first += together)
        if (!there[first])
            all->envs[missing++] = all->envs[first / together]; // At its own place or before it.
    if (missing > 0)
        (void)trp_spawn_each(&troupe_class_trp_worker, all->envs, missing, all->addresses,
                             TROUPE_OPTIONS(troupe_spawn_options, .place = TROUPE_PLACE_ISOLATED));
    for (int first = 0; first < world; first += together)
        if (!there[first])
            workers[first].address = all->addresses[next++];
}

// Has each of them make the workers of its other ranks. Who calls one that could not be made is
// told so.
static void fill_missing(const trp_job *job, starting *all, const bool *there,
                         trp_worker_actor *workers)
{
    int world = job->world, together = job->options.ranks_per_process;
    for (int first = 0; first < world; first += together) {
        int more = ranks_from(job, first) - 1;
        if (!there[first] && more > 0)
            all->answers[first] = troupe_call_from(workers[first], trp_worker_host, &more);
    }
    for (int first = 0; first < world; first += together) {
        troupe_array_troupe_actor made = {0};
        if (all->answers[first].id &&
            troupe_get(troupe_array_troupe_actor, all->answers[first], &made) != TROUPE_OK)
            made.count = 0;
        for (size_t i = 0; i < made.count; i++)
            workers[(size_t)first + 1 + i].address = made.items[i];
    }
}

troupe_status trp_workers_start(const trp_job *job, const bool *there, trp_place *places,
                                trp_worker_actor *workers)
{
    int world = job->world;
    starting all;
    bool made = open_all(&all, (size_t)world) && describe_all(job, &all);
    if (made) {
        start_missing(job, &all, there, workers);
        fill_missing(job, &all, there, workers);
    }
    for (int rank = 0; made && rank < world; rank++)
        if (!there[rank])
            places[rank] = all.places[rank];
    close_all(&all, (size_t)world);
    return made ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory to start %d ranks", world);
}
