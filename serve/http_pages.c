// http_pages.c: what the HTTP server says of a service: its description, and metrics as Prometheus
// reads them.
#ifdef TROUPE_HTTP
#include <serve/http_internal.h>

#include <inttypes.h>
#include <runtime/codec/json.h>

typedef struct count {
    const char *name, *kind, *help;
    uint64_t value;
} count;

enum { COUNTS = 10 };

static void counts_of(const trp_service_shared *shared, count counts[COUNTS])
{
    const count all[COUNTS] = {
        {"answered", "counter", "Requests that were answered with a prediction.",
         atomic_load(&shared->answered)},
        {"failed", "counter", "Requests that failed after they were accepted.",
         atomic_load(&shared->failed)},
        {"refused", "counter", "Requests that were not accepted.", atomic_load(&shared->refused)},
        {"batches", "counter", "Batches that replicas were asked.", atomic_load(&shared->batches)},
        {"rows", "counter", "Rows of these batches.", atomic_load(&shared->rows)},
        {"restarts", "counter", "Replicas that were started again.",
         atomic_load(&shared->restarts)},
        {"queued", "gauge", "Requests that wait.", atomic_load(&shared->waiting)},
        {"under_way", "gauge", "Requests that replicas have.", atomic_load(&shared->under_way)},
        {"replicas", "gauge", "Replicas that were asked for.", shared->replicas},
        {"replicas_alive", "gauge", "Replicas that are there.", atomic_load(&shared->alive)},
    };
    for (size_t i = 0; i < COUNTS; i++)
        counts[i] = all[i];
}

void trp_http_describe(const trp_service_shared *shared, trp_buffer *out)
{
    const troupe_input *input = shared->model->input;
    count counts[COUNTS];
    double p50_s, p99_s, longest_s;
    trp_buffer_printf(out, "{\"route\": ");
    trp_json_text(out, shared->route);
    trp_buffer_printf(out, ", \"model\": ");
    trp_json_text(out, shared->model->name);
    if (input->dtype == TROUPE_DTYPE_NONE) {
        trp_buffer_printf(out, ", \"input\": null");
    } else {
        trp_buffer_printf(out, ", \"input\": {\"dtype\": \"%s\", \"shape\": [null",
                          troupe_dtype_text(input->dtype));
        for (uint32_t i = 0; i < input->ndim; i++)
            trp_buffer_printf(out, input->shape[i] > 0 ? ", %zu" : ", null", input->shape[i]);
        trp_buffer_printf(out, "]}");
    }
    counts_of(shared, counts);
    for (size_t i = 0; i < COUNTS; i++)
        trp_buffer_printf(out, ", \"%s\": %" PRIu64, counts[i].name, counts[i].value);
    trp_service_percentiles(shared, &p50_s, &p99_s, &longest_s);
    trp_buffer_printf(out, ", \"p50_s\": %g, \"p99_s\": %g, \"longest_s\": %g}\n", p50_s, p99_s,
                      longest_s);
}

void trp_http_metrics(const trp_service_shared *shared, trp_buffer *out)
{
    static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                    0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
    count counts[COUNTS];
    uint64_t seen = 0;
    double sum = 0;
    size_t bucket = 0;
    counts_of(shared, counts);
    for (size_t i = 0; i < COUNTS; i++) {
        const char *end = counts[i].kind[0] == 'c' ? "_total" : "";
        trp_buffer_printf(out,
                          "# HELP troupe_service_%s%s %s\n# TYPE troupe_service_%s%s %s\n"
                          "troupe_service_%s%s{route=\"%s\"} %" PRIu64 "\n",
                          counts[i].name, end, counts[i].help, counts[i].name, end, counts[i].kind,
                          counts[i].name, end, shared->route, counts[i].value);
    }
    trp_buffer_printf(out, "# HELP troupe_service_latency_seconds From accepting a request to its "
                           "prediction.\n# TYPE troupe_service_latency_seconds histogram\n");
    for (size_t i = 0; i <= sizeof bounds / sizeof *bounds; i++) {
        bool last = i == sizeof bounds / sizeof *bounds;
        for (; bucket < TRP_HISTOGRAM_BUCKETS; bucket++) {
            double length_s = (double)trp_histogram_bucket_end(bucket) * 1e-9;
            if (!last && length_s > bounds[i])
                break;
            uint64_t times =
                atomic_load_explicit(&shared->latency.counts[bucket], memory_order_relaxed);
            seen += times;
            sum += (double)times * length_s;
        }
        trp_buffer_printf(out, "troupe_service_latency_seconds_bucket{route=\"%s\",le=\"",
                          shared->route);
        if (last)
            trp_buffer_printf(out, "+Inf\"} %" PRIu64 "\n", seen);
        else
            trp_buffer_printf(out, "%g\"} %" PRIu64 "\n", bounds[i], seen);
    }
    trp_buffer_printf(out,
                      "troupe_service_latency_seconds_sum{route=\"%s\"} %.9f\n"
                      "troupe_service_latency_seconds_count{route=\"%s\"} %" PRIu64 "\n",
                      shared->route, sum, shared->route, seen);
}

void trp_http_error(troupe_status status, const char *text, trp_buffer *out)
{
    trp_buffer_printf(out,
                      "{\"error\": {\"status\": \"%s\", \"text\": ", troupe_status_name(status));
    trp_json_text(out, text);
    trp_buffer_printf(out, "}}\n");
}
#else
extern int trp_http_pages_are_left_out; // A file must not be empty.
#endif
