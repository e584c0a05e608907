// resolve.h: addresses of nodes, "host:port": names turned into numbers, in a limited time, before
// they reach threads that must not wait.
#ifndef TRP_LINK_RESOLVE_H
#define TRP_LINK_RESOLVE_H

#include <runtime/shm/segment.h>
#include <stdbool.h>

// The name of threads that look a name up: they are none of the program's.
#define TRP_RESOLVER_NAME "troupe-name"

// Whether the text is "1.2.3.4:5": an IPv4 address of one machine and a port.
bool trp_address_is_numeric(const char *address);

// Copies such an address that somebody else wrote, without its end; false: it is none.
bool trp_address_read(const void *text, size_t size, char address[TRP_NODE_ADDRESS_MAX]);

// Writes "1.2.3.4:5" for "host:port", where the host may be an address, the name of a network
// interface of this machine, or a name that the system's resolver knows; `what` begins the sentence
// of a failure, and `wild` says that it is where this node is to listen: port 0 will do, and a name
// for this machine alone is warned of. Waits at most `timeout_ms` for a name; the
// thread that asks for it goes on by itself. INVALID: no such address, or one that stands for all
// (0.0.0.0); NOT_FOUND: nobody knows the name; DEADLINE_EXCEEDED; BUSY: too many names are being
// asked for.
troupe_status trp_address_resolve(const char *what, const char *address, bool wild, int timeout_ms,
                                  char numeric[TRP_NODE_ADDRESS_MAX]);

// Test hook: what stands for getaddrinfo; NULL: that.
struct addrinfo;
typedef int trp_resolver(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **found);
void trp_resolve_by(trp_resolver *lookup);

#endif
