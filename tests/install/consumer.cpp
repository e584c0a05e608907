// consumer.cpp: the declarations as C++ sees them. (The macros that declare classes are C.)
#include <troupe.h>

#include <cstdio>
#include <cstring>

// Waits with their time-outs, given and left out, and functions of any actor's address.
static int waits(troupe_stream stream, troupe_map *map, troupe_queue queue, troupe_ref ref)
{
    int64_t value = 0;
    size_t count = 0;
    troupe_bytes packed;
    troupe_stats stats;
    return troupe_get(int64_t, ref, &value) + troupe_get(int64_t, ref, &value, 20) +
           troupe_get_packed(ref, &packed) + troupe_get_all(int64_t, &ref, 1, &value, TROUPE_POLL) +
           troupe_next(int64_t, stream, &value, TROUPE_POLL) +
           troupe_map_next(int64_t, map, &value, nullptr) +
           troupe_queue_put_many(int64_t, queue, &value, 1, &count, 5) +
           troupe_queue_try_get(int64_t, queue, &value) + troupe_actor_stop(queue, 100) +
           troupe_actor_kill(queue) + troupe_actor_status(troupe_self()) + troupe_stats_get(&stats);
}

int main()
{
    if (troupe_version() < 0)
        return waits({}, nullptr, {}, {});
    // Not started: an honest status, and its sentence, come through the C++ side.
    int64_t value = 0;
    troupe_ref none = {};
    troupe_status status = troupe_get(int64_t, none, &value, TROUPE_POLL);
    std::printf("version %d, %s: %s\n", troupe_version(), troupe_status_name(status),
                troupe_last_error()->text);
    return troupe_version() == TROUPE_VERSION_NUMBER && status != TROUPE_OK &&
                   std::strlen(troupe_last_error()->text) > 0
               ? 0
               : 1;
}
