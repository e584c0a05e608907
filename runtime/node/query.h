// query.h: what programs outside a node may ask its driver, over a unix socket in the run folder.
// Asking takes no part in the node: there is no slot, no keys, no session.
//
// The folder is its user's alone (0700); the driver answers this user and root, and a program
// believes only the user that it runs as, or root. An answer is a packed value of a type that both
// know, since the segment's layout says that both have the same version of the library.
#ifndef TRP_NODE_QUERY_H
#define TRP_NODE_QUERY_H

#include <stdint.h>
#include <troupe/wire.h>

// Answers on a thread of the driver's, which may wait: sets the type and the value to be packed,
// both valid until that thread's next troupe_arena_reset.
typedef troupe_status (*trp_query_answer)(uint64_t most, const troupe_type **type,
                                          const void **value);
// Set once, by a constructor of a layer above.
void trp_query_answer_set(trp_query_answer answer);

// In the driver: begins to answer, once it can send. IO, NO_MEMORY. Stop is harmless without a
// start, and returns when the thread has ended.
troupe_status trp_query_start(void);
void trp_query_stop(void);

// Asks the driver of the node that process `pid` belongs to, and unpacks its answer into the
// thread's arena. NOT_FOUND: `pid` belongs to no node, or may not be looked at; VERSION; TIMED_OUT:
// the driver does not answer; UNSUPPORTED: a node without processes; what the driver met.
troupe_status trp_query_ask(int pid, uint64_t most, const troupe_type *type, void *value);

#endif
