// caf_peer.hpp: what the CAF programs share. One program, peer_caf, holds them all:
//
//     peer_caf <benchmark> <threads> [seconds]
//     peer_caf idle|spawn <threads> <actors>
//     peer_caf call <threads> <calls> [pause us]
//
// CAF as its makers recommend it: a release build, the default scheduler (work stealing, with its
// default polling), `scheduler.max-threads` set to the threads of the row, event-based actors as
// functions, atoms as the names of messages. An actor ends when nobody refers to it any more, so
// that cycles of actors are ended by quit().
#ifndef CAF_PEER_HPP
#define CAF_PEER_HPP

#include <caf/all.hpp>

#include <cstdint>

namespace peer
{

using go = caf::atom_constant<caf::atom("go")>;
using ping = caf::atom_constant<caf::atom("ping")>;
using pong = caf::atom_constant<caf::atom("pong")>;
using add = caf::atom_constant<caf::atom("add")>;
using work = caf::atom_constant<caf::atom("work")>;
using done = caf::atom_constant<caf::atom("done")>;
using quit = caf::atom_constant<caf::atom("quit")>;
using token = caf::atom_constant<caf::atom("token")>;
using answer = caf::atom_constant<caf::atom("answer")>;

// The main thread's place in a game: actors are made by it, and one of them sends it `done`.
using table = caf::scoped_actor;

inline void wait_until_over(table &self)
{
    self->receive([](done) {});
}

// The same small generator as in savina.h.
inline uint32_t next_random(uint32_t &state)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

[[noreturn]] void wrong(const char *what);

struct game {
    const char *name;
    double units;
    void (*play)(caf::actor_system &system);
};

void play_pingpong(caf::actor_system &system);
void play_count(caf::actor_system &system);
void play_fanin(caf::actor_system &system);
void play_forkjoin(caf::actor_system &system);
void play_forkjoin_create(caf::actor_system &system);
void play_ring(caf::actor_system &system);
void play_chameneos(caf::actor_system &system);
void play_big(caf::actor_system &system);
void play_fib(caf::actor_system &system);
void play_dictionary(caf::actor_system &system);
void play_banking(caf::actor_system &system);
void play_nqueens(caf::actor_system &system);
void play_matmul(caf::actor_system &system);

// Not games: these print their round themselves.
void measure_idle(caf::actor_system &system, int actors, bool bytes);
void measure_call(caf::actor_system &system, int calls, int pause_us);

} // namespace peer

#endif
