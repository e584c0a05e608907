// seats.h: what a scheduler knows of each trial: an array by their numbers, which grows.
#ifndef TRP_SEATS_H
#define TRP_SEATS_H

#include <stddef.h>
#include <troupe/status.h>

// How it is with a trial, as far as the scheduler has said.
typedef enum trp_seat {
    TRP_SEAT_NONE, // It has not been heard of.
    TRP_SEAT_RUNNING,
    TRP_SEAT_ENDING,  // Runs still, but has been told to stop.
    TRP_SEAT_WAITING, // Paused, until what it waits for is decided.
    TRP_SEAT_READY,   // Paused, and goes on when there is room.
    TRP_SEAT_DROPPED, // Paused, and is to be told over.
    TRP_SEAT_OVER,
} trp_seat;

typedef struct trp_seats {
    size_t item; // Bytes of an item.
    void *items;
    size_t count;
} trp_seats;

// The item of a trial, made with zeros where it is new; it stays in its place until the next call.
// TROUPE_INVALID: a negative number; TROUPE_NO_MEMORY: nothing has changed.
troupe_status trp_seats_make(trp_seats *seats, int trial, void *item);
// The same of a trial that is there already; NULL: it is not.
void *trp_seats_at(const trp_seats *seats, int trial);
void trp_seats_free(trp_seats *seats);

#endif
