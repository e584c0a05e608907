// trace.h: when which method ran, as a file for chrome://tracing and Perfetto.
//
// The file is a JSON array of events that all processes of the node append to, whole events at a
// time. Recording only fills in a row of memory; a thread of each process writes the rows, every
// 100 ms, so that a process that is killed loses no more than that. Without the closing bracket,
// which the driver writes last, the viewers load it all the same.
#ifndef TRP_HOST_TRACE_H
#define TRP_HOST_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

enum { TRP_TRACE_ROWS = 1 << 16 }; // That wait to be written; what comes beyond is counted.

// The texts must stay as long as the process.
typedef struct trp_trace_event {
    int64_t begun_ns, lasted_ns; // By trp_clock_ns.
    const char *instant;         // What happened, "spawn", "restart" or "end"; NULL: a method ran.
    const char *class_name;
    const char *method; // NULL: the class is a task.
    uint64_t actor;
    int32_t tid;
    int32_t caller; // The process that called; 0: none did.
} trp_trace_event;

// Driver, before the first fork: makes the file (NULL: there shall be none), and has the workers
// find it through the run folder (empty: there are no workers). TROUPE_IO.
troupe_status trp_trace_create(const char *path, const char *folder);
// Each process, the driver too, before it runs anything: begins to record if the run has a file.
void trp_trace_join(uint32_t slot, const char *folder);
bool trp_trace_records(void);
void trp_trace_add(const trp_trace_event *event);
// Writes what is there, and that is all.
void trp_trace_leave(void);
// Driver, after the end of the others: completes the file.
void trp_trace_finish(void);

#endif
