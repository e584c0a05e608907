// reader.h: reading from a channel; see channel.h.
#ifndef TRP_CHANNEL_READER_H
#define TRP_CHANNEL_READER_H

#include <runtime/channel/channel.h>

// Takes a place (TRP_CHANNEL_ANY: the first that is free), also a dead reader's. It begins with the
// oldest value that is there, or the newest; in a channel of the latest always with that. INVALID:
// no such place; EXISTS: it is, or all are, taken.
troupe_status trp_channel_read_open(const trp_channel *channel, int place, bool newest,
                                    trp_channel_reader *reader);

// The next value. `again`, of the latest: also the one read last, if there is no newer one.
trp_channel_turn trp_channel_read_begin(trp_channel_reader *reader, bool again,
                                        trp_channel_value *value);
trp_channel_turn trp_channel_read_spin(trp_channel_reader *reader, bool again,
                                       trp_channel_value *value);
trp_channel_turn trp_channel_read_wait(trp_channel_reader *reader, bool again, int64_t until_ns,
                                       trp_channel_value *value);

// Releases the value that was begun. Harmless without one.
void trp_channel_read_end(trp_channel_reader *reader);
void trp_channel_read_close(trp_channel_reader *reader);

#endif
