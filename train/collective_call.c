// collective_call.c: the collectives as a loop calls and starts them.
#include <runtime/base/require.h>
#include <train/collective.h>
#include <train/worker.h>

static troupe_status call(troupe_rank *me, const trp_request *what)
{
    trp_member *member;
    TROUPE_TRY(trp_worker_member(me, trp_operation_text(what->operation), &member));
    return trp_collective(member, what);
}

static troupe_collective start(troupe_rank *me, const trp_request *what)
{
    trp_member *member;
    troupe_collective started = {0};
    if (trp_worker_member(me, trp_operation_text(what->operation), &member) == TROUPE_OK)
        (void)trp_collective_start(member, what, &started.number_);
    return started;
}

// Makes the operation, or leaves with what is wrong at first sight.
#define ALLREDUCE                                                                                  \
    (trp_request)                                                                                  \
    {                                                                                              \
        .operation = TRP_ALLREDUCE, .to = values, .count = count, .element = dtype, .how = how     \
    }
#define REDUCE_SCATTER                                                                             \
    (trp_request)                                                                                  \
    {                                                                                              \
        .operation = TRP_REDUCE_SCATTER, .from = values, .to = result, .count = count,             \
        .element = dtype, .how = how                                                               \
    }
#define ALL_GATHER                                                                                 \
    (trp_request)                                                                                  \
    {                                                                                              \
        .operation = TRP_ALL_GATHER, .from = data, .to = all, .count = size                        \
    }
#define BROADCAST                                                                                  \
    (trp_request)                                                                                  \
    {                                                                                              \
        .operation = TRP_BROADCAST, .to = data, .count = size, .root = root                        \
    }
// TRP_REQUIRE for functions that return what they started.
#define REQUIRE_TO_START(pointer)                                                                  \
    do {                                                                                           \
        if (TRP_IS_NULL(pointer)) {                                                                \
            (void)TRP_NULL(pointer);                                                               \
            return (troupe_collective){0};                                                         \
        }                                                                                          \
    } while (0)

troupe_status troupe_allreduce_as(troupe_rank *me, void *values, size_t count, troupe_dtype dtype,
                                  troupe_reduction how)
{
    TRP_REQUIRE(me);
    if (count > 0)
        TRP_REQUIRE(values);
    return call(me, &ALLREDUCE);
}

troupe_collective troupe_allreduce_start_as(troupe_rank *me, void *values, size_t count,
                                            troupe_dtype dtype, troupe_reduction how)
{
    REQUIRE_TO_START(me);
    if (count > 0)
        REQUIRE_TO_START(values);
    return start(me, &ALLREDUCE);
}

troupe_status troupe_reduce_scatter_as(troupe_rank *me, const void *values, size_t count,
                                       void *result, troupe_dtype dtype, troupe_reduction how)
{
    TRP_REQUIRE(me);
    if (count > 0) {
        TRP_REQUIRE(values);
        TRP_REQUIRE(result);
    }
    return call(me, &REDUCE_SCATTER);
}

troupe_collective troupe_reduce_scatter_start_as(troupe_rank *me, const void *values, size_t count,
                                                 void *result, troupe_dtype dtype,
                                                 troupe_reduction how)
{
    REQUIRE_TO_START(me);
    if (count > 0) {
        REQUIRE_TO_START(values);
        REQUIRE_TO_START(result);
    }
    return start(me, &REDUCE_SCATTER);
}

troupe_status troupe_all_gather(troupe_rank *me, const void *data, size_t size, void *all)
{
    TRP_REQUIRE(me);
    if (size > 0) {
        TRP_REQUIRE(data);
        TRP_REQUIRE(all);
    }
    return call(me, &ALL_GATHER);
}

troupe_collective troupe_all_gather_start(troupe_rank *me, const void *data, size_t size, void *all)
{
    REQUIRE_TO_START(me);
    if (size > 0) {
        REQUIRE_TO_START(data);
        REQUIRE_TO_START(all);
    }
    return start(me, &ALL_GATHER);
}

troupe_status troupe_broadcast(troupe_rank *me, void *data, size_t size, int root)
{
    TRP_REQUIRE(me);
    if (size > 0)
        TRP_REQUIRE(data);
    return call(me, &BROADCAST);
}

troupe_collective troupe_broadcast_start(troupe_rank *me, void *data, size_t size, int root)
{
    REQUIRE_TO_START(me);
    if (size > 0)
        REQUIRE_TO_START(data);
    return start(me, &BROADCAST);
}

troupe_status troupe_barrier(troupe_rank *me)
{
    TRP_REQUIRE(me);
    return call(me, &(trp_request){.operation = TRP_BARRIER});
}

troupe_collective troupe_barrier_start(troupe_rank *me)
{
    REQUIRE_TO_START(me);
    return start(me, &(trp_request){.operation = TRP_BARRIER});
}

troupe_status troupe_collective_wait(troupe_rank *me, troupe_collective started)
{
    TRP_REQUIRE(me);
    trp_member *member;
    TROUPE_TRY(trp_worker_member(me, "troupe_collective_wait", &member));
    return trp_collective_wait(member, started.number_);
}

bool troupe_collective_ended(troupe_rank *me, troupe_collective started)
{
    trp_member *member;
    if (TRP_IS_NULL(me) || trp_worker_member(me, "troupe_collective_ended", &member) != TROUPE_OK)
        return true;
    return trp_collective_ended(member, started.number_);
}

void *troupe_shared_alloc(troupe_rank *me, size_t size)
{
    trp_member *member;
    void *data = NULL;
    if (TRP_IS_NULL(me)) {
        (void)TRP_NULL(me);
        return NULL;
    }
    if (trp_worker_member(me, "troupe_shared_alloc", &member) == TROUPE_OK)
        (void)trp_shared_alloc(member, size, &data);
    return data;
}
