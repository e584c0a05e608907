// gateway.h: the gateway, a process of its own, as the train server and the commands see it
// (docs/internals/server/gateway.md).
#ifndef TRP_SERVER_GATEWAY_H
#define TRP_SERVER_GATEWAY_H

#include <stdbool.h>
#include <sys/types.h>
#include <troupe/status.h>

enum { TRP_GATEWAY_LINK_MAX = 192 };

// Starts the gateway of a state folder, unless one runs there, by the program `troupe-server`
// (NULL: this one), in a session of its own. *process is its number, and *end a descriptor (pidfd)
// that can be read once it has ended, for the caller to close; then the caller waits for it, if it
// is a child, and starts the next one, not at once where the last one did not live for long.
// TROUPE_IO, TROUPE_NOT_FOUND: it cannot be started.
troupe_status trp_gateway_start(const char *state, const char *program, pid_t *process, int *end);
// Asks it to end: it answers what is under way first. TROUPE_NOT_FOUND: none runs there.
troupe_status trp_gateway_stop(const char *state);

// Where the gateway is, as "http://127.0.0.1:8640". TROUPE_NOT_FOUND: none runs there.
troupe_status trp_gateway_url(const char *state, char url[TRP_GATEWAY_LINK_MAX]);
// Makes a link to the dashboard that is good once and for a minute; the one before is good no more.
// TROUPE_NOT_FOUND: no gateway runs there.
troupe_status trp_gateway_link(const char *state, char link[TRP_GATEWAY_LINK_MAX]);
// `troupe server link`: prints one, as text or JSON; what the command ends with.
int trp_gateway_show_link(bool json);

#endif
