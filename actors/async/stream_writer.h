// stream_writer.h: the end of a stream that its method writes; see stream_reader.h.
#ifndef TRP_ASYNC_STREAM_WRITER_H
#define TRP_ASYNC_STREAM_WRITER_H

#include <actors/async/stream_reader.h>

// ---- the maker's end
// Runs a streaming method.
troupe_status trp_maker_run(trp_running *here, void *result);

// Its reader has read so many more values.
void trp_maker_credit(const trp_caller *reader, uint32_t count);

// The reader of a call of this process, in this process, is gone.
void trp_maker_leave(uint64_t call);

// A TAKEN frame.
void trp_maker_serve(const trp_frame *frame);

// The call of what runs there was cancelled: wakes its maker, if it has one.
void trp_maker_wake(const trp_running *here);

// Readers of that incarnation (NULL: all) are gone.
void trp_makers_lost(const uint64_t *incarnation);

#endif
