// takeover.c: see takeover.h.
#include <runtime/node/takeover.h>

#include <stddef.h>

static const trp_takeover *set;

void trp_takeover_set(const trp_takeover *takeover)
{
    set = takeover;
}

const trp_takeover *trp_takeover_of(void)
{
    return set;
}
