// report_event.h: a report as followers and a run's journal have it: its copies, and the members of
// its line. Pure.
#ifndef TRP_REPORT_EVENT_H
#define TRP_REPORT_EVENT_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <troupe/train.h>

// Bytes that a copy takes, with all that it points to.
size_t trp_report_event_size(const troupe_report_event *event);
// Copies it; what the copy points to lies in `room`, which has that size and the alignment of a
// pointer.
troupe_report_event trp_report_event_copy(const troupe_report_event *event, void *room);

// The members "source" (left out where there is none), "metrics" and "ranks" (likewise).
void trp_report_event_write(const troupe_report_event *event, trp_buffer *out);
// Reads them; those that a line lacks are empty. At most TRP_METRICS_MAX metrics of a rank are
// read. All goes to `arena`. TROUPE_NO_MEMORY, TROUPE_WRONG_TYPE.
troupe_status trp_report_event_read(trp_json line, trp_arena *arena, troupe_report_event *event);

#endif
