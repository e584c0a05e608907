// directory_client.h: requests about names, to the own node process and to those of other nodes.
#ifndef TRP_NODE_DIRECTORY_CLIENT_H
#define TRP_NODE_DIRECTORY_CLIENT_H

#include <runtime/node/node_client.h>

// The directory of names: a value of up to TRP_NAMED_VALUE_MAX bytes under a name, owned by this
// process and dropped with it. TROUPE_EXISTS: taken; TROUPE_INVALID: not 1 to 128 of
// [A-Za-z0-9._/-].
troupe_status trp_node_name_put(const char *name, const void *value, size_t size);

// TROUPE_NOT_FOUND.
troupe_status trp_node_name_get(const char *name, void *value, size_t *size);
void trp_node_name_drop(const char *name);

// As trp_node_name_get, of another node.
troupe_status trp_node_name_get_far(uint32_t node, const char *name, void *value, size_t *size);

#endif
