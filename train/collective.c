// collective.c: what is the same for every engine: arguments that one rank alone finds wrong need
// nobody else, and leave the group in step.
#include <train/collective.h>

troupe_status trp_allreduce(trp_member *member, void *values, size_t count, troupe_dtype element,
                            troupe_reduction how)
{
    if ((unsigned)how > TROUPE_MAX)
        return troupe_fail(TROUPE_INVALID, "troupe_allreduce: no reduction %d", (int)how);
    if (!values && count)
        return troupe_fail(TROUPE_INVALID, "troupe_allreduce: %zu values at NULL", count);
    return member->engine->allreduce(member->link, values, count, element, how);
}

troupe_status trp_broadcast(trp_member *member, void *data, size_t size, int root)
{
    if (!data && size)
        return troupe_fail(TROUPE_INVALID, "troupe_broadcast: %zu bytes at NULL", size);
    if (root < 0 || root >= member->world)
        return troupe_fail(TROUPE_INVALID, "troupe_broadcast: no rank %d in a group of %d", root,
                           member->world);
    return member->engine->broadcast(member->link, data, size, root);
}

troupe_status trp_barrier(trp_member *member)
{
    return member->engine->barrier(member->link);
}
