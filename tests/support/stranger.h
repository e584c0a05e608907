// stranger.h: what a peer without a key can do at a node's port, with plain sockets and no libzmq:
// connections that greet as ZMTP 3 wants it and go on as it does not. Only to addresses of the
// loopback network. And how much of a CPU such a program may take.
#ifndef TROUPE_TEST_STRANGER_H
#define TROUPE_TEST_STRANGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- chance

uint64_t stranger_roll(uint64_t *state); // Any 64 bits; the same for the same state.

// ---- how much it may work

// All threads of the calling process together use at most `share` of one CPU.
typedef struct stranger_budget {
    double share;
    int64_t began_ns, cpu_began_ns;
} stranger_budget;

void stranger_budget_begin(stranger_budget *budget, double share);
// Sleeps as long as more has been used than may be, after at most 10 ms of work at once: what was
// saved up by waiting is not used later.
void stranger_pace(stranger_budget *budget);

// ---- connections: nothing waits but to be connected, and what cannot be sent is not

// To "127.x.y.z:port"; -1: it was refused, or there is no descriptor left.
int stranger_connect(const char *address);
bool stranger_send(int fd, const void *data, size_t size);
// The 64 bytes that come first, with that mechanism ("CURVE", "NULL", ...).
bool stranger_greet(int fd, const char *mechanism);
// A frame's head: its flags (4: a command, 2: eight bytes of size, 1: more follows) and how many
// bytes it claims to have.
bool stranger_claim(int fd, uint8_t flags, uint64_t size);
// A short command frame with a body of at most 255 bytes.
bool stranger_command(int fd, const void *body, size_t size);
// CURVE's first command, of the right form; its box, of random bytes, opens for nobody.
bool stranger_hello(int fd, uint64_t *state);
// Reads and throws away what has come. True: the other side has closed the connection.
bool stranger_is_shut(int fd);
// Closes it at once, with nothing left of it in the system.
void stranger_drop(int fd);

#endif
