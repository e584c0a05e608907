// place.c: which rank each worker of a group becomes (see train/place.h).
#include <runtime/base/log.h>
#include <runtime/node/resource_ledger.h>
#include <string.h>
#include <train/place.h>

// The first worker that is on the same node.
static int first_beside(const uint32_t *nodes, int worker)
{
    int first = 0;
    while (nodes[first] != nodes[worker])
        first++;
    return first;
}

void trp_places_of(const uint32_t *nodes, int count, trp_place *places)
{
    int rank = 0, node_count = 0;
    for (int first = 0; first < count; first++) {
        if (first_beside(nodes, first) != first)
            continue;
        int local = 0;
        for (int i = first; i < count; i++)
            if (nodes[i] == nodes[first])
                places[i] = (trp_place){
                    .rank = rank++, .world = count, .local_rank = local++, .node_rank = node_count};
        for (int i = first; i < count; i++)
            if (nodes[i] == nodes[first])
                places[i].local_world = local;
        node_count++;
    }
    for (int i = 0; i < count; i++)
        places[i].nodes = node_count;
}

// Skips `count` ids of a list.
static const char *skip_ids(const char *ids, int64_t count)
{
    for (; count > 0; count--) {
        ids += strcspn(ids, ",");
        ids += *ids == ',';
    }
    return ids;
}

// Whether the id, of that length, is one of `count` ids.
static bool has_id(const char *ids, int64_t count, const char *id, size_t size)
{
    for (; count > 0; count--, ids = skip_ids(ids, 1))
        if (strcspn(ids, ",") == size && memcmp(ids, id, size) == 0)
            return true;
    return false;
}

static void write_gpus(const trp_place *place, int together, const char *gpus, bool by_rank,
                       int64_t each, trp_buffer *text)
{
    int64_t sharing = !by_rank && each < TRP_CPU ? TRP_CPU / each : 1,
            whole = each < TRP_CPU ? 1 : each / TRP_CPU;
    int64_t first = place->local_rank / sharing,
            last = (place->local_rank + together - 1) / sharing;
    int64_t count = (last - first + 1) * whole;
    const char *own = skip_ids(gpus, first * whole), *at = own;
    trp_buffer_printf(text, "CUDA_VISIBLE_DEVICES=");
    for (int64_t i = 0; i < count; i++, at = skip_ids(at, 1)) {
        size_t size = strcspn(at, ",");
        trp_assert(size > 0); // What was given is what all ranks need.
        if (!has_id(own, i, at, size))
            trp_buffer_printf(text, "%s%.*s", i > 0 ? "," : "", (int)size, at);
    }
    trp_buffer_printf(text, "\n");
}

void trp_place_env(const trp_place *place, int together, const char *gpus, bool by_rank,
                   int64_t gpus_each, const char *env, trp_buffer *text)
{
    trp_buffer_printf(
        text, "RANK=%d\nWORLD_SIZE=%d\nLOCAL_RANK=%d\nLOCAL_WORLD_SIZE=%d\nNODE_RANK=%d\n",
        place->rank, place->world, place->local_rank, place->local_world, place->node_rank);
    if (gpus_each > 0)
        write_gpus(place, together, gpus, by_rank, gpus_each, text);
    trp_buffer_printf(text, "%s", env != NULL ? env : "");
    trp_buffer_append(text, "", 1);
}
