// fence.c: see fence.h.
#include <runtime/base/fence.h>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

bool trp_fence_asymmetric;

void trp_fence_start(void)
{
    bool asymmetric = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    if (trp_fence_asymmetric != asymmetric) // A method that outlived the last stop may look at it.
        trp_fence_asymmetric = asymmetric;
}

void trp_fence_heavy(void)
{
    static _Atomic int word;
    if (trp_fence_asymmetric)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    else
        (void)atomic_exchange(&word, 1); // With the other side's exchange, a total order.
}
