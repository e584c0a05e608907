// service_shared.c: what servers and the actor of a service do alike, from any thread: they count
// requests in and out, and hand them over.
#include <serve/service.h>

#include <inttypes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <sys/random.h>

enum { TOKEN_BYTES = (TRP_TOKEN_TEXT - 1) / 2 };

troupe_status trp_service_make_token(char token[TRP_TOKEN_TEXT])
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return trp_fail_errno(TROUPE_IO, "no random numbers for a token");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return TROUPE_OK;
}

// ---- counting in and out

troupe_status trp_service_admit(trp_service_shared *shared, const trp_inference *request)
{
    const char *route = shared->route;
    if (atomic_load(&shared->stopping)) {
        atomic_fetch_add(&shared->refused, 1);
        return troupe_fail(TROUPE_STOPPED, "service '%s' is being stopped", route);
    }
    uint64_t waiting = atomic_fetch_add(&shared->waiting, 1);
    uint64_t bytes = atomic_fetch_add(&shared->waiting_bytes, request->bytes);
    bool many = waiting >= shared->queue;
    if (!many && (bytes == 0 || bytes + request->bytes <= TRP_WAITING_BYTES_MAX))
        return TROUPE_OK;
    atomic_fetch_sub(&shared->waiting, 1);
    atomic_fetch_sub(&shared->waiting_bytes, request->bytes);
    atomic_fetch_add(&shared->refused, 1);
    return many ? troupe_fail(TROUPE_BUSY, "%" PRIu64 " requests wait for service '%s': %u may",
                              waiting, route, shared->queue)
                : troupe_fail(TROUPE_BUSY,
                              "requests of %" PRIu64 " bytes wait for service '%s': %d may", bytes,
                              route, TRP_WAITING_BYTES_MAX);
}

void trp_service_count_out(trp_service_shared *shared, const trp_inference *request)
{
    atomic_fetch_sub(&shared->waiting, 1);
    atomic_fetch_sub(&shared->waiting_bytes, request->bytes);
}

// ---- handing over

troupe_status trp_service_hand(trp_service_shared *shared, trp_inference *request)
{
    request->accepted_ns = trp_clock_ns();
    pthread_mutex_lock(&shared->lock);
    bool closed = shared->closed;
    if (!closed) {
        atomic_fetch_add(&shared->served, 1);
        trp_inferences_push(&shared->inbox, request);
    }
    pthread_mutex_unlock(&shared->lock);
    if (closed) {
        trp_service_count_out(shared, request);
        return troupe_fail(TROUPE_STOPPED, "service '%s' has ended", shared->route);
    }
    if (trp_service_wake(shared) == TROUPE_OK)
        return TROUPE_OK;
    // It is taken back, unless the actor has it already.
    trp_inferences kept;
    bool found = false;
    trp_inferences_begin(&kept);
    pthread_mutex_lock(&shared->lock);
    for (trp_inference *it; (it = trp_inferences_pop(&shared->inbox));) {
        if (it == request)
            found = true;
        else
            trp_inferences_push(&kept, it);
    }
    for (trp_inference *it; (it = trp_inferences_pop(&kept));)
        trp_inferences_push(&shared->inbox, it);
    pthread_mutex_unlock(&shared->lock);
    if (!found)
        return TROUPE_OK;
    trp_service_count_out(shared, request);
    atomic_fetch_sub(&shared->served, 1);
    return troupe_fail(TROUPE_BUSY, "service '%s' takes no requests now", shared->route);
}

void trp_service_served(trp_service_shared *shared)
{
    if (atomic_fetch_sub(&shared->served, 1) == 1 && atomic_load(&shared->stopping))
        (void)trp_service_wake(shared);
}

void trp_service_percentiles(const trp_histogram *histogram, double *p50_s, double *p99_s,
                             double *longest_s)
{
    uint64_t counts[TRP_HISTOGRAM_BUCKETS];
    uint64_t longest = atomic_load_explicit(&histogram->longest_ns, memory_order_relaxed);
    for (size_t i = 0; i < TRP_HISTOGRAM_BUCKETS; i++)
        counts[i] = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
    *p50_s = (double)trp_histogram_at(counts, longest, 0.5) * 1e-9;
    *p99_s = (double)trp_histogram_at(counts, longest, 0.99) * 1e-9;
    *longest_s = (double)longest * 1e-9;
}

void trp_service_write_input(const troupe_model *model, trp_buffer *out)
{
    const troupe_input *input = model->input;
    if (input->dtype == TROUPE_DTYPE_NONE) {
        trp_buffer_printf(out, "null");
        return;
    }
    trp_buffer_printf(out, "{\"dtype\": \"%s\", \"shape\": [null", troupe_dtype_text(input->dtype));
    for (uint32_t i = 0; i < input->ndim; i++)
        trp_buffer_printf(out, input->shape[i] > 0 ? ", %zu" : ", null", input->shape[i]);
    trp_buffer_printf(out, "]}");
}
