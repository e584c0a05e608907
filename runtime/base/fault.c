// fault.c: named places where a test can make the process die (see fault.h).
#include <runtime/base/fault.h>

#ifdef TROUPE_FAULTS

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const char *_Atomic wanted;
static _Atomic long left;
static void (*_Atomic wanted_act)(void);

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
}

void trp_fault_call_at(const char *name, long count, void (*act)(void))
{
    wanted_act = act;
    left = count;
    wanted = count > 0 ? name : NULL;
}

void trp_fault_kill_at(const char *name, long count)
{
    trp_fault_call_at(name, count, die);
}

void trp_fault_reached(const char *name)
{
    const char *now = wanted;
    if (now == NULL || strcmp(now, name) != 0 || atomic_fetch_sub(&left, 1) != 1)
        return;
    void (*act)(void) = wanted_act;
    act();
}

#else
typedef int trp_fault_unused; // A translation unit must declare something.
#endif
