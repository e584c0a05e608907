// histogram.c: see histogram.h.
#include <actors/class/histogram.h>

#include <math.h>

enum { FINE_BITS = 4, FINE = 1 << FINE_BITS };

// Below 16 each length has its own bucket; above, the four bits behind the first one say which of
// its power's sixteen it is.
size_t trp_histogram_bucket(uint64_t ns)
{
    if (ns < FINE)
        return (size_t)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns);
    size_t bucket =
        (size_t)(power - FINE_BITS + 1) * FINE + (size_t)(ns >> (power - FINE_BITS) & (FINE - 1));
    return bucket < TRP_HISTOGRAM_BUCKETS ? bucket : TRP_HISTOGRAM_BUCKETS - 1;
}

uint64_t trp_histogram_bucket_end(size_t bucket)
{
    if (bucket < FINE)
        return bucket;
    unsigned shift = (unsigned)(bucket / FINE) - 1;
    return ((uint64_t)(FINE + bucket % FINE + 1) << shift) - 1;
}

void trp_histogram_add(trp_histogram *histogram, uint64_t ns)
{
    // Statistics that nobody concludes anything else from: relaxed order is enough.
    uint64_t longest = atomic_load_explicit(&histogram->longest_ns, memory_order_relaxed);
    while (longest < ns &&
           !atomic_compare_exchange_weak_explicit(&histogram->longest_ns, &longest, ns,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
    atomic_fetch_add_explicit(&histogram->counts[trp_histogram_bucket(ns)], 1,
                              memory_order_relaxed);
}

void trp_histogram_clear(trp_histogram *histogram)
{
    atomic_store_explicit(&histogram->longest_ns, 0, memory_order_relaxed);
    for (size_t i = 0; i < TRP_HISTOGRAM_BUCKETS; i++)
        atomic_store_explicit(&histogram->counts[i], 0, memory_order_relaxed);
}

uint64_t trp_histogram_at(const uint64_t counts[TRP_HISTOGRAM_BUCKETS], uint64_t longest_ns,
                          double fraction)
{
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < TRP_HISTOGRAM_BUCKETS; i++)
        total += counts[i];
    uint64_t rank = (uint64_t)ceil(fraction * (double)total);
    if (rank == 0)
        rank = 1;
    for (size_t i = 0; i + 1 < TRP_HISTOGRAM_BUCKETS; i++) {
        seen += counts[i];
        if (seen >= rank) {
            uint64_t end = trp_histogram_bucket_end(i);
            return end < longest_ns ? end : longest_ns;
        }
    }
    return total > 0 ? longest_ns : 0;
}
