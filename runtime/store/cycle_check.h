// cycle_check.h: rings of references. An object that is put names what exists before it, so only a
// promise, which is known before it has its value, can come to name itself; such a ring would never
// be freed. docs/internals/runtime/nested-objects.md has the argument.
#ifndef TRP_STORE_CYCLE_CHECK_H
#define TRP_STORE_CYCLE_CHECK_H

#include <runtime/store/store.h>

// Of a promise of this process whose row says already that it names `list`: whether that leads back
// to it. TROUPE_INVALID with a sentence: it does. NO_MEMORY.
troupe_status trp_ring_check(trp_object promise, trp_object list);

#endif
