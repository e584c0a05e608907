// histogram.h: how often times of which length occurred, in buckets whose width grows with the
// length: 16 for each power of two, so that what is read from them is at most 1/16 too long.
//
// Counting is one relaxed addition, by any thread. Histograms of several processes are added up
// bucket by bucket: percentiles could not be.
#ifndef TRP_CLASS_HISTOGRAM_H
#define TRP_CLASS_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Times up to 2^40 ns, 18 minutes; longer ones are counted in the last bucket.
enum { TRP_HISTOGRAM_BUCKETS = (40 - 4 + 1) * 16 };

typedef struct trp_histogram {
    _Atomic uint64_t longest_ns;
    _Atomic uint64_t counts[TRP_HISTOGRAM_BUCKETS];
} trp_histogram;

// The bucket of a length, and the largest length of a bucket.
size_t trp_histogram_bucket(uint64_t ns);
uint64_t trp_histogram_bucket_end(size_t bucket);

void trp_histogram_add(trp_histogram *histogram, uint64_t ns);
void trp_histogram_clear(trp_histogram *histogram);
// The length that a `fraction` (0 to 1) of all do not exceed; 0 if there are none. Never above
// `longest_ns`.
uint64_t trp_histogram_at(const uint64_t counts[TRP_HISTOGRAM_BUCKETS], uint64_t longest_ns,
                          double fraction);

#endif
