// prefork.h: in the keeper: worker processes that were forked ahead and wait for what they are to
// be.
//
// None is made before the first worker of its own was asked for. From then on as many wait as were
// asked for within a second or two in the last 3 to 6 s, two at least, so that a burst finds what
// the one before it asked for; then those that are too many go. A spare has its pipes already and
// nothing else: environment, folder, identity and all user code come with its order.
#ifndef TRP_NODE_PREFORK_H
#define TRP_NODE_PREFORK_H

#include <runtime/node/keeper.h>
#include <sys/types.h>

enum { TRP_SPARES_MIN = 2, TRP_SPARES_MAX = 128 };

// A worker of its own was asked for. Returns whether it is one of many that begin at this moment.
bool trp_spare_asked(void);
// Gives the order, of `size` bytes, to a spare, whose process id it returns; 0: there is none.
pid_t trp_spare_take(int output_socket, const trp_start_order *message, size_t size);
// Makes one more if one is wanted, or ends one that is too many, with pauses in between, since
// nobody waits for it. `make` forks a process that writes to ends[0] and ends[1] (NULL: where the
// keeper does) and waits for its order at the socket; it returns its id, or -1: half of those that
// wait are ended then. Returns in how many ms this is to be called again; -1: not by itself.
int trp_spare_tend(int output_socket, pid_t (*make)(const int ends[2], int socket));
// A child has ended; true: it was a spare.
bool trp_spare_ended(pid_t pid);
// The keeper ends: so do they.
void trp_spare_end_all(void);
// For tests, before the keeper is forked: how long it has to be quiet; 0: as always.
void trp_spare_quiet_set(int ms);
// In a spare: waits for its order; false: the keeper has gone.
bool trp_spare_await(int socket, trp_start_order *message);

#endif
