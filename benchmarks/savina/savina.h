// savina.h: what the Savina programs share: the runtime's start, repetitions, and the end of a
// game.
//
// Each program of this folder is one benchmark of the Savina suite (Imam and Sarkar, 2014) with its
// published parameters, written as a user of Troupe would: light actors, plain methods, messages.
//
//     <program> [threads] [seconds]
//
// plays once to warm up and then again and again for `seconds` (default 0.4), and prints one round:
// units of work (messages, actors, meetings) a second. 0 seconds: plays once, without a warm-up.
#ifndef SAVINA_H
#define SAVINA_H

#include <stdint.h>
#include <troupe.h>

// `units`: the work of one game, which `play` plays from the creation of its actors to their end.
int savina_main(int argc, char **argv, double units, void (*play)(void));

// Called by an actor when the game is over, and by the main thread, which waits for that.
void savina_over(void);
void savina_wait(void);

// The same small generator in every program and every peer: what is random costs all alike.
static inline uint32_t savina_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// A light actor of this process.
#define savina_spawn(C) troupe_spawn(C, .place = TROUPE_PLACE_HERE)

// Of an actor's own address: ends it after the messages that it has.
static inline void savina_leave(void)
{
    troupe_actor_end(troupe_self());
}

// Ends a program whose game came out wrong.
_Noreturn void savina_wrong(const char *what, int64_t is, int64_t expected);

#endif
