// map.c: one call for each item of an array, some on their way at a time.
//
// A map has a slot for each call that may be on its way. In order, the slots are used as a ring,
// and only the oldest is looked at; as they come, a set of references has the slots as its tags.
#include <actors/class/class.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <troupe/pool.h>

enum { SLOTS_A_MEMBER = 16, SLOTS_OF_TASKS = 1024 };

typedef struct slot {
    troupe_ref ref; // id 0: the slot is free.
    size_t index;
    struct slot *next_free;
} slot;

struct troupe_map {
    troupe_ref_set *set; // NULL: in order.
    slot *free;
    troupe_pool *pool; // NULL: tasks.
    const troupe_class *class_;
    size_t method, stride;
    const unsigned char *args;
    size_t count, sent, fetched;
    size_t slot_count;
    slot slots[];
};

static troupe_map *make_map(const troupe_class *class_, size_t method, const void *args,
                            size_t count, size_t slots, const troupe_map_options *how)
{
    troupe_map_options taken;
    if (TRP_OPTIONS_TAKE("a map", taken, how) != TROUPE_OK)
        return NULL;
    if (method >= class_->method_count || (args == NULL && count > 0)) {
        (void)troupe_fail(TROUPE_INVALID,
                          "a map over class '%s' has no method %zu or no arguments ('args')",
                          class_->name, method);
        return NULL;
    }
    if (TRP_IS_ABSURD(count, class_->methods[method].args->size)) {
        (void)TRP_ABSURD(count);
        return NULL;
    }
    if (taken.in_flight > 0)
        slots = taken.in_flight;
    slots = slots > count ? count : slots;
    troupe_map *map = trp_alloc(sizeof *map + slots * sizeof map->slots[0]);
    if (map == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a map");
        return NULL;
    }
    if (taken.unordered && troupe_ref_set_open(&map->set) != TROUPE_OK) {
        trp_free(map);
        return NULL;
    }
    map->class_ = class_;
    map->method = method;
    map->stride = class_->methods[method].args->size;
    map->args = args;
    map->count = count;
    map->slot_count = slots;
    for (size_t i = slots; i-- > 0;) {
        map->slots[i].next_free = map->free;
        map->free = &map->slots[i];
    }
    return map;
}

// ---- sending

static troupe_status send_one(troupe_map *map, slot *it)
{
    const void *args = map->args + map->sent * map->stride;
    it->index = map->sent++;
    it->ref = map->pool != NULL ? troupe_pool_call_as(map->pool, map->class_, map->method, args)
                                : troupe_run_as(map->class_, args, NULL);
    return map->set == NULL ? TROUPE_OK : troupe_ref_set_add(map->set, it->ref, it);
}

static slot *next_slot(troupe_map *map)
{
    if (map->set == NULL)
        return map->sent - map->fetched < map->slot_count ? &map->slots[map->sent % map->slot_count]
                                                          : NULL;
    slot *it = map->free;
    if (it != NULL)
        map->free = it->next_free;
    return it;
}

// Sends what has a slot.
static troupe_status send_more(troupe_map *map)
{
    slot *it;
    while (map->sent < map->count && (it = next_slot(map)) != NULL)
        TROUPE_TRY(send_one(map, it));
    return TROUPE_OK;
}

static troupe_map *begin(troupe_map *map)
{
    if (send_more(map) == TROUPE_OK)
        return map;
    troupe_error failure = *troupe_last_error();
    troupe_map_close(map);
    (void)trp_error_set(&failure);
    return NULL;
}

troupe_map *troupe_pool_map_as(troupe_pool *pool, const troupe_class *class_, size_t method,
                               const void *args, size_t count, const troupe_map_options *how)
{
    if (TRP_IS_NULL(pool) || TRP_IS_NULL(class_)) {
        (void)(pool == NULL ? TRP_NULL(pool) : TRP_NULL(class_));
        return NULL;
    }
    troupe_map *map =
        make_map(class_, method, args, count, SLOTS_A_MEMBER * troupe_pool_count(pool) + 1, how);
    if (map == NULL)
        return NULL;
    map->pool = pool;
    return begin(map);
}

troupe_map *troupe_run_map_as(const troupe_class *task, const void *args, size_t count,
                              const troupe_map_options *how)
{
    if (TRP_IS_NULL(task)) {
        (void)TRP_NULL(task);
        return NULL;
    }
    troupe_map *map = make_map(task, 0, args, count, SLOTS_OF_TASKS, how);
    return map != NULL ? begin(map) : NULL;
}

// ---- fetching

static troupe_status next_as_they_come(const troupe_type *type, troupe_map *map, void *value,
                                       int timeout_ms, size_t *index)
{
    troupe_ref ref;
    void *tag;
    TROUPE_TRY(troupe_ref_set_next(map->set, timeout_ms, &ref, &tag));
    slot *it = tag;
    *index = it->index;
    troupe_status status = troupe_get_as(type, ref, value, timeout_ms);
    if (status == TROUPE_TIMED_OUT) { // A stopped process moves it.
        troupe_error failure = *troupe_last_error();
        TROUPE_TRY(troupe_ref_set_add(map->set, ref, it));
        return trp_error_set(&failure);
    }
    it->ref = (troupe_ref){0};
    it->next_free = map->free;
    map->free = it;
    map->fetched++;
    return status;
}

static troupe_status next_in_order(const troupe_type *type, troupe_map *map, void *value,
                                   int timeout_ms, size_t *index)
{
    slot *it = &map->slots[map->fetched % map->slot_count];
    *index = it->index;
    troupe_status status = troupe_get_as(type, it->ref, value, timeout_ms);
    map->fetched += status != TROUPE_TIMED_OUT;
    return status;
}

troupe_status troupe_map_next_as(const troupe_type *type, troupe_map *map, void *value,
                                 size_t *index, int timeout_ms)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(map);
    TRP_REQUIRE(value);
    size_t number = map->count;       // Of none, where the wait itself failed.
    TROUPE_TRY(trp_type_check(type)); // Or the result would be lost.
    if (map->fetched == map->count)
        return troupe_fail(TROUPE_END, "all %zu results of the map were fetched", map->count);
    TROUPE_TRY(send_more(map));
    troupe_status status = map->set != NULL
                               ? next_as_they_come(type, map, value, timeout_ms, &number)
                               : next_in_order(type, map, value, timeout_ms, &number);
    if (status == TROUPE_TIMED_OUT)
        return status;
    if (index != NULL)
        *index = number;
    troupe_error failure = *troupe_last_error();
    (void)send_more(map); // What the actors have next, while the caller looks at this one.
    return status == TROUPE_OK ? trp_error_settled(TROUPE_OK) : trp_error_set(&failure);
}

void troupe_map_close(troupe_map *map)
{
    if (map == NULL)
        return;
    troupe_ref_set_close(map->set);
    for (size_t i = 0; i < map->slot_count; i++)
        troupe_ref_drop(map->slots[i].ref); // Harmless where it was fetched.
    trp_free(map);
}
