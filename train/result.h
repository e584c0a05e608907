// result.h: what is known of a run that has ended. The coordinator's side makes one and tells the
// port of it (trp_outcome), and the handle has one of its own, which all who wait for it share.
#ifndef TRP_RESULT_H
#define TRP_RESULT_H

#include <runtime/base/arena.h>
#include <stdatomic.h>
#include <train/port.h>

struct troupe_result {
    _Atomic int holds; // Each ended by troupe_result_free.
    trp_arena arena;   // Of all texts and metrics.
    troupe_status status;
    const char *error; // "" if there was none.
    const char *cause; // What it begins with; NULL: it is no more than that.
    bool stopped;
    int reports, restarts;
    const troupe_metric *metrics;
    size_t metric_count;
    const char *checkpoint, *best, *path;
    double elapsed_s;
    troupe_bytes value; // That rank 0 returned, packed.
    uint64_t value_schema;
    trp_memory_commit *commit; // The last one in memory, held; NULL: none.
};

// An empty result of the run at `path`; its fields are set by the caller, with texts of its arena.
// NULL: no memory.
troupe_result *trp_result_make(const char *path);
const char *trp_job_result_text(troupe_result *result, const char *text);
troupe_status trp_job_result_metrics(troupe_result *result, const troupe_metric *metrics,
                                     size_t count);
troupe_status trp_job_result_value(troupe_result *result, const void *data, size_t size,
                                   uint64_t schema);

// The result as it is told: it points into it, and its metrics are in `metrics`, which has room for
// TRP_METRICS_MAX.
trp_outcome trp_result_outcome(const troupe_result *result, trp_metric *metrics);
// The result of which was told; NULL: no memory.
troupe_result *trp_result_of(const trp_outcome *outcome);

#endif
