// node.h: what a process can ask of its node: worker processes and names. Each call waits for the
// node process's answer; TROUPE_RUNTIME_LOST if that died.
#ifndef TRP_NODE_H
#define TRP_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum { TRP_NAME_MAX = 128, TRP_NAMED_VALUE_MAX = 256 };

// A worker that is ready: of the pool (the one asked for least often; started if the pool is not
// full yet), or a new one of its own. TROUPE_UNSUPPORTED: there is no pool; TROUPE_IO: the process
// could not be made or did not reach troupe_start in time (the sentence says which).
troupe_status trp_node_worker(bool isolated, uint32_t *process, uint64_t *incarnation);
// Kills a worker process; death is reported to all as for any other, with `cause` as its reason.
troupe_status trp_node_kill(uint32_t process, uint64_t incarnation, const char *cause);

// The directory of names: a value of up to TRP_NAMED_VALUE_MAX bytes under a name, owned by this
// process and dropped with it. TROUPE_EXISTS: taken; TROUPE_INVALID: not 1 to 128 of
// [A-Za-z0-9._/-].
troupe_status trp_node_name_put(const char *name, const void *value, size_t size);
// TROUPE_NOT_FOUND.
troupe_status trp_node_name_get(const char *name, void *value, size_t *size);
void trp_node_name_drop(const char *name);

#endif
