// stream_reader.h: calls that are answered in many values. The reader's end keeps what has come;
// the maker's end (stream_writer.h) sends no more than the reader has room for.
#ifndef TRP_ASYNC_STREAM_READER_H
#define TRP_ASYNC_STREAM_READER_H

#include <actors/async/async.h>
#include <actors/ref/call_table.h>

enum { TRP_STREAM_WINDOW = 16, TRP_STREAM_WINDOW_MAX = TRP_FRAME_WINDOW_MAX };

// ---- the reader's end
typedef struct trp_stream trp_stream;

// A stream with room for so many values; NULL: no memory.
trp_stream *trp_stream_make(uint32_t window);
// Its call has been made: the stream, which is empty if there is no memory. *stream is not the
// caller's any more.
troupe_stream trp_stream_called(trp_stream *stream, troupe_ref call);
// The call that makes the values has a row, and is not sent yet.
void trp_stream_begin(trp_stream *stream, uint64_t call);
// Takes a value over for the reader of a call. False: there is none any more.
bool trp_stream_push(uint64_t call, trp_result *result);
// An ITEM frame: the same from another process, which is told to stop if nobody reads. It is
// refused where another one was asked, or where the reader has given no room for it.
void trp_stream_serve(const trp_frame *frame);

#endif
