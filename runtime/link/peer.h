// peer.h: sending frames to the other processes, near and far.
#ifndef TRP_LINK_PEER_H
#define TRP_LINK_PEER_H

#include <runtime/link/frame.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_WINDOW_MESSAGES = 16384, // So much a peer is sent that it has not given room back for.
    TRP_WINDOW_BYTES = 64 << 20,
};

// Sends one frame; fills in the sender, the sequence and to_incarnation. Frames of one thread to
// one peer arrive in order. TROUPE_NOT_EXECUTED: the peer is dead (the sentence has the cause).
// TROUPE_BUSY: the link's window stayed full for `timeout_ms` (0: does not wait) - only CALL and
// TELL take room in it. TROUPE_TOO_LARGE: as trp_process_fits.
troupe_status trp_process_send(uint32_t process, uint64_t incarnation, trp_frame *frame,
                               int timeout_ms);
// Whether a body of that size may go to that process. TROUPE_TOO_LARGE names the option whose limit
// it is above.
troupe_status trp_process_fits(uint32_t process, size_t size);
// Gives room in the link's window back to the peer that sent a CALL or TELL with a body of that
// size.
void trp_process_credit(uint32_t process, uint64_t incarnation, size_t body_size);
// Has the peer send no CALL or TELL to the layer above's `target` here, or lets it again: there
// trp_process_send waits, or is TROUPE_BUSY, as for a full window.
void trp_process_pause(uint32_t process, uint64_t incarnation, uint64_t target, bool paused);
// Ends the way to a dead incarnation: sends to it fail from now on.
void trp_process_forget(uint32_t process, uint64_t incarnation);

#endif
