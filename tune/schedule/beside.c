// beside.c: see tune/schedule/beside.h.
#include <tune/schedule/beside.h>

#include <runtime/base/memory.h>

troupe_scheduler *trp_beside_take(const char *of, troupe_scheduler *given)
{
    if (given == NULL)
        return trp_fifo();
    if (given->abi != TROUPE_ABI) { // Not even how to free it is known.
        troupe_fail(TROUPE_VERSION, "%s: the scheduler beside it was made for version %u, not %u",
                    of, given->abi, (unsigned)TROUPE_ABI);
        return NULL;
    }
    if (given->decide == NULL || given->destroy == NULL) {
        troupe_fail(TROUPE_INVALID, "%s: the scheduler beside it has no %s", of,
                    given->decide == NULL ? "decide" : "destroy");
    } else if (given->refusal != TROUPE_OK) {
        troupe_fail(given->refusal, "%s", given->describe == NULL ? "" : given->describe);
    } else {
        return given;
    }
    if (given->destroy != NULL)
        given->destroy(given);
    return NULL;
}

void *trp_beside_alloc(troupe_scheduler *inner, troupe_status status, size_t size)
{
    void *made = status == TROUPE_OK ? trp_alloc(size) : NULL;
    if (made != NULL)
        return made;
    inner->destroy(inner);
    if (status == TROUPE_OK)
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
    return NULL;
}

troupe_status trp_beside_begin(troupe_scheduler *inner, const troupe_problem *problem)
{
    return inner->begin == NULL ? TROUPE_OK : inner->begin(inner, problem);
}

troupe_status trp_beside_added(troupe_scheduler *inner, int trial, const double *x)
{
    return inner->added == NULL ? TROUPE_OK : inner->added(inner, trial, x);
}

troupe_status trp_beside_ended(troupe_scheduler *inner, int trial, troupe_ending ending)
{
    return inner->ended == NULL ? TROUPE_OK : inner->ended(inner, trial, ending);
}

const char *trp_beside_describe(const troupe_scheduler *inner)
{
    return inner->describe == NULL ? "a scheduler of one's own" : inner->describe;
}

int trp_beside_decides_at(troupe_scheduler *inner, int trial, int after)
{
    return inner->decides_at == NULL ? after + 1 : inner->decides_at(inner, trial, after);
}

troupe_status trp_beside_next(troupe_scheduler *inner, bool fresh, int *trial,
                              troupe_verdict *verdict)
{
    *trial = -1;
    if (inner->next != NULL)
        return inner->next(inner, fresh, trial, verdict);
    return fresh ? TROUPE_OK : TROUPE_END;
}
