// sockets.h: the other way between processes, over ZeroMQ, with a thread that reads.
#ifndef TRP_SOCKETS_H
#define TRP_SOCKETS_H

#include <runtime/peer.h>

troupe_status trp_sockets_open(void);
troupe_status trp_sockets_start(int keeper_fd);
void trp_sockets_stop(void);
void trp_sockets_close(void);
// Sends the frame, connecting first if need be. With the peer's lock held.
troupe_status trp_sockets_send(trp_peer *peer, uint32_t process, trp_frame *frame);
void trp_sockets_disconnect(trp_peer *peer, int linger_ms);
// Asks all peers whether everything has arrived, and waits for that.
void trp_sockets_flush(int timeout_ms);
// Reads and hands out every frame that is there. The I/O thread's and the node process's loop.
void trp_sockets_drain(void);

#endif
