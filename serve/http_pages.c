// http_pages.c: what the HTTP server says of a service: its description, and metrics as Prometheus
// reads them.
#ifdef TROUPE_HTTP
#include <serve/http_pages.h>

#include <inttypes.h>
#include <runtime/codec/json.h>
#include <stdio.h>

typedef struct count {
    const char *name, *kind, *help;
    uint64_t value;
} count;

enum { COUNTS = 11 };

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
        {"rolls", "counter", "Changes to another version.", atomic_load(&shared->rolls)},
        {"queued", "gauge", "Requests that wait.", atomic_load(&shared->waiting)},
        {"under_way", "gauge", "Requests that replicas have.", atomic_load(&shared->under_way)},
        {"replicas", "gauge", "Replicas that were asked for.", shared->replicas},
        {"replicas_alive", "gauge", "Replicas that are there.", atomic_load(&shared->alive)},
    };
    for (size_t i = 0; i < COUNTS; i++)
        counts[i] = all[i];
}

static void describe_version(const trp_version_stats *it, trp_buffer *out)
{
    double p50_s, p99_s, longest_s;
    trp_service_percentiles(&it->latency, &p50_s, &p99_s, &longest_s);
    trp_buffer_printf(out, "{\"version\": ");
    trp_json_text(out, it->name);
    trp_buffer_printf(out,
                      ", \"weight\": %g, \"replicas_alive\": %u, \"answered\": %" PRIu64
                      ", \"failed\": %" PRIu64 ", \"p50_s\": %g, \"p99_s\": %g, \"longest_s\": %g}",
                      it->weight, atomic_load(&it->alive), atomic_load(&it->answered),
                      atomic_load(&it->failed), p50_s, p99_s, longest_s);
}

static void describe_versions(trp_service_shared *shared, trp_buffer *out)
{
    pthread_mutex_lock(&shared->versions);
    if (shared->serving) {
        trp_buffer_printf(out, ", \"serving\": ");
        describe_version(shared->serving, out);
    }
    if (shared->canary) {
        trp_buffer_printf(out, ", \"canary\": ");
        describe_version(shared->canary, out);
    }
    pthread_mutex_unlock(&shared->versions);
}

void trp_http_describe(trp_service_shared *shared, trp_buffer *out)
{
    count counts[COUNTS];
    double p50_s, p99_s, longest_s;
    trp_buffer_printf(out, "{\"route\": ");
    trp_json_text(out, shared->route);
    trp_buffer_printf(out, ", \"model\": ");
    trp_json_text(out, shared->model->name);
    trp_buffer_printf(out, ", \"input\": ");
    trp_service_write_input(shared->model, out);
    counts_of(shared, counts);
    for (size_t i = 0; i < COUNTS; i++)
        trp_buffer_printf(out, ", \"%s\": %" PRIu64, counts[i].name, counts[i].value);
    trp_service_percentiles(&shared->latency, &p50_s, &p99_s, &longest_s);
    trp_buffer_printf(out, ", \"p50_s\": %g, \"p99_s\": %g, \"longest_s\": %g", p50_s, p99_s,
                      longest_s);
    describe_versions(shared, out);
    trp_buffer_printf(out, "}\n");
}

// The series of a histogram; `labels` has at least one.
static void write_histogram(const char *name, const char *labels, const trp_histogram *histogram,
                            trp_buffer *out)
{
    static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                    0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
    uint64_t seen = 0;
    double sum = 0;
    size_t bucket = 0;
    for (size_t i = 0; i <= sizeof bounds / sizeof *bounds; i++) {
        bool last = i == sizeof bounds / sizeof *bounds;
        for (; bucket < TRP_HISTOGRAM_BUCKETS; bucket++) {
            double length_s = (double)trp_histogram_bucket_end(bucket) * 1e-9;
            if (!last && length_s > bounds[i])
                break;
            uint64_t times = atomic_load_explicit(&histogram->counts[bucket], memory_order_relaxed);
            seen += times;
            sum += (double)times * length_s;
        }
        trp_buffer_printf(out, "%s_bucket{%s,le=\"", name, labels);
        if (last)
            trp_buffer_printf(out, "+Inf\"} %" PRIu64 "\n", seen);
        else
            trp_buffer_printf(out, "%g\"} %" PRIu64 "\n", bounds[i], seen);
    }
    trp_buffer_printf(out, "%s_sum{%s} %.9f\n%s_count{%s} %" PRIu64 "\n", name, labels, sum, name,
                      labels, seen);
}

// A version's labels, its name with what Prometheus wants to be escaped.
static void write_labels(const char *route, const char *name, const char *role, char *out,
                         size_t capacity)
{
    char escaped[2 * TRP_VERSION_NAME];
    size_t used = 0;
    for (; *name; name++) {
        if (*name == '\\' || *name == '"' || *name == '\n')
            escaped[used++] = '\\';
        escaped[used++] = *name == '\n' ? 'n' : *name;
    }
    escaped[used] = '\0';
    (void)snprintf(out, capacity, "route=\"%s\",version=\"%s\",role=\"%s\"", route, escaped, role);
}

enum { LABELS_SIZE = TRP_ROUTE_MAX + 2 * TRP_VERSION_NAME + 64, VERSION_COUNTS = 4 };

static void version_counts(const trp_version_stats *it, double values[VERSION_COUNTS])
{
    uint64_t failed = atomic_load(&it->failed);
    values[0] = (double)(atomic_load(&it->answered) + failed);
    values[1] = (double)failed;
    values[2] = (double)atomic_load(&it->alive);
    values[3] = it->weight;
}

static void write_versions(const trp_version_stats *const all[], const char *const roles[],
                           size_t shown, const char *route, trp_buffer *out)
{
    static const char *const names[VERSION_COUNTS][3] = {
        {"requests_total", "counter", "Requests that the version was given and that have ended."},
        {"failures_total", "counter", "Those of them that failed."},
        {"replicas_alive", "gauge", "Replicas of the version that are there."},
        {"weight", "gauge", "The version's share of what comes."},
    };
    char labels[LABELS_SIZE];
    double values[VERSION_COUNTS];
    for (size_t n = 0; n < VERSION_COUNTS; n++) {
        trp_buffer_printf(out, "# HELP troupe_service_version_%s %s\n", names[n][0], names[n][2]);
        trp_buffer_printf(out, "# TYPE troupe_service_version_%s %s\n", names[n][0], names[n][1]);
        for (size_t i = 0; i < shown; i++) {
            write_labels(route, all[i]->name, roles[i], labels, sizeof labels);
            version_counts(all[i], values);
            trp_buffer_printf(out, "troupe_service_version_%s{%s} %.15g\n", names[n][0], labels,
                              values[n]);
        }
    }
    trp_buffer_printf(out, "# HELP troupe_service_version_latency_seconds From accepting a request "
                           "to the version's prediction.\n"
                           "# TYPE troupe_service_version_latency_seconds histogram\n");
    for (size_t i = 0; i < shown; i++) {
        write_labels(route, all[i]->name, roles[i], labels, sizeof labels);
        write_histogram("troupe_service_version_latency_seconds", labels, &all[i]->latency, out);
    }
}

void trp_http_metrics(trp_service_shared *shared, trp_buffer *out)
{
    static const char *const roles[] = {"serving", "canary"};
    count counts[COUNTS];
    char labels[TRP_ROUTE_MAX + 16];
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
    (void)snprintf(labels, sizeof labels, "route=\"%s\"", shared->route);
    write_histogram("troupe_service_latency_seconds", labels, &shared->latency, out);
    pthread_mutex_lock(&shared->versions);
    if (shared->serving) {
        const trp_version_stats *all[] = {shared->serving, shared->canary};
        write_versions(all, roles, shared->canary ? 2 : 1, shared->route, out);
    }
    pthread_mutex_unlock(&shared->versions);
}
#else
extern int trp_http_pages_are_left_out; // A file must not be empty.
#endif
