// test_histogram.c: buckets that grow with what they count, and percentiles from them.
#include <support.h>

#include <actors/class/histogram.h>

static void test_every_length_is_in_its_bucket(void **state)
{
    (void)state;
    size_t before = 0;
    for (uint64_t ns = 0; ns < (uint64_t)1 << 40; ns += 1 + ns / 100) {
        size_t bucket = trp_histogram_bucket(ns);
        assert_in_range(bucket, before, TRP_HISTOGRAM_BUCKETS - 1);
        assert_true(ns <= trp_histogram_bucket_end(bucket));
        assert_true(bucket == 0 || ns > trp_histogram_bucket_end(bucket - 1));
        // No bucket is wider than a sixteenth of what is in it.
        assert_true(trp_histogram_bucket_end(bucket) - ns <= ns / 16);
        before = bucket;
    }
    assert_int_equal(trp_histogram_bucket(UINT64_MAX), TRP_HISTOGRAM_BUCKETS - 1);
}

static void copy(trp_histogram *from, uint64_t to[TRP_HISTOGRAM_BUCKETS])
{
    for (size_t i = 0; i < TRP_HISTOGRAM_BUCKETS; i++)
        to[i] = atomic_load(&from->counts[i]);
}

static void test_percentiles(void **state)
{
    (void)state;
    static trp_histogram all;
    uint64_t counts[TRP_HISTOGRAM_BUCKETS];
    copy(&all, counts);
    assert_int_equal(trp_histogram_at(counts, 0, 0.5), 0);
    for (uint64_t us = 1; us <= 1000; us++)
        trp_histogram_add(&all, us * 1000);
    trp_histogram_add(&all, (uint64_t)1 << 50);
    copy(&all, counts);
    uint64_t longest = atomic_load(&all.longest_ns);
    assert_int_equal(longest, (uint64_t)1 << 50);
    assert_in_range(trp_histogram_at(counts, longest, 0.5), 501000, 501000 * 17 / 16);
    assert_in_range(trp_histogram_at(counts, longest, 0.99), 991000, 991000 * 17 / 16);
    assert_int_equal(trp_histogram_at(counts, longest, 1), longest);
    trp_histogram_clear(&all);
    copy(&all, counts);
    assert_int_equal(trp_histogram_at(counts, atomic_load(&all.longest_ns), 1), 0);
    trp_histogram_add(&all, 17);
    copy(&all, counts); // Its bucket may end above it: never above the longest.
    assert_int_equal(trp_histogram_at(counts, 17, 0.5), 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length_is_in_its_bucket),
        cmocka_unit_test(test_percentiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
