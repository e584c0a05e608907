// writer.h: writing into a channel; see channel.h.
#ifndef TRP_CHANNEL_WRITER_H
#define TRP_CHANNEL_WRITER_H

#include <runtime/channel/channel.h>

// Takes the writer's place, also after a dead one. EXISTS: somebody has it; STOPPED: closed.
troupe_status trp_channel_write_open(const trp_channel *channel, trp_channel_writer *writer);

// The memory of the next slot; until it is published the same each time. READY or WAIT.
trp_channel_turn trp_channel_write_begin(trp_channel_writer *writer, void **data);

// The same, having looked for about as long as a wake-up would take / having slept for a reader to
// release, until `until_ns` (negative: none) or for a slice of time. Also STOPPED.
trp_channel_turn trp_channel_write_spin(trp_channel_writer *writer, void **data);
trp_channel_turn trp_channel_write_wait(trp_channel_writer *writer, int64_t until_ns, void **data);

// Who keeps it waiting: "place 2 (process 3 (pid 77))", and the sequence that is not released.
uint64_t trp_channel_blocker(const trp_channel_writer *writer, char text[TRP_CHANNEL_WHO]);

// INVALID: nothing was begun, TOO_LARGE.
troupe_status trp_channel_publish(trp_channel_writer *writer, size_t size);

// Gives the place up, for another writer or (`end`) for good.
void trp_channel_write_close(trp_channel_writer *writer, bool end);

#endif
