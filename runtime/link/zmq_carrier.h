// zmq_carrier.h: the other way between processes, over ZeroMQ.
//
// A thread reads and writes what nobody else does. A lone frame is sent by its sender; frames that
// follow each other closely are gathered and leave together: when there are 30 KiB of them, when
// their sender waits, or at the latest when the thread comes round, which is woken for the first of
// them and then looks every 200 us for as long as there are more. A thread that waits reads for
// itself, and the I/O thread stands back.
#ifndef TRP_LINK_ZMQ_CARRIER_H
#define TRP_LINK_ZMQ_CARRIER_H

#include <runtime/link/peer_internal.h>

troupe_status trp_sockets_open(void);
troupe_status trp_sockets_start(int keeper_fd);
void trp_sockets_stop(void);
void trp_sockets_close(void);
// Sends the frame, connecting first if need be. With the peer's lock held.
troupe_status trp_sockets_send(trp_peer *peer, uint32_t process, trp_frame *frame);
void trp_sockets_disconnect(trp_peer *peer, int linger_ms);
// Waits as trp_park does, reading meanwhile. False, at once: another thread does that already.
bool trp_sockets_park(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);
// Whether the thread that reads waits for that word, which was changed before: then it is awake
// now.
bool trp_sockets_wake(_Atomic uint32_t *word);
bool trp_sockets_unread(void); // Sockets are open, and nobody but the I/O thread reads them.
// Asks all peers whether everything has arrived, and waits for that.
void trp_sockets_flush(int timeout_ms);
// Takes a FLUSH.
void trp_sockets_take_flush(const trp_frame *frame);
// Reads and hands out frames that are there, for 1 ms at most. True: there are more, of which no
// descriptor tells. The I/O thread's and the node process's loop.
bool trp_sockets_drain(void);

#endif
