// test_retention.c: what is kept, against a model that remembers everything and sorts it each time.
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <train/retention.h>

enum { LONGEST = 40 };

typedef struct entry {
    int64_t id;
    double score;
} entry;

// The order as the contract says it, written another way than in the library.
static double rank_of(double score)
{
    return isnan(score) ? -2 : score == -INFINITY ? -1 : 0;
}

static int compare(const void *left, const void *right)
{
    const entry *a = (const entry *)left, *b = (const entry *)right;
    if (rank_of(a->score) != rank_of(b->score))
        return rank_of(a->score) > rank_of(b->score) ? -1 : 1;
    if (rank_of(a->score) == 0 && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (rank_of(a->score) == -2)
        return a->id > b->id ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static int compare_ids(const void *left, const void *right)
{
    const entry *a = (const entry *)left, *b = (const entry *)right;
    return a->id < b->id ? -1 : a->id > b->id;
}

// What should be kept of the history: the best `keep`, and the newest.
static size_t expected_of(const entry *history, size_t count, int keep, entry *out)
{
    memcpy(out, history, count * sizeof *out);
    if (keep == 0 || count <= (size_t)keep)
        return count;
    qsort(out, count, sizeof *out, compare);
    size_t kept = (size_t)keep;
    int newest_is_in = 0;
    for (size_t i = 0; i < kept; i++)
        newest_is_in |= out[i].id == history[count - 1].id;
    if (!newest_is_in)
        out[kept++] = history[count - 1];
    qsort(out, kept, sizeof *out, compare_ids);
    return kept;
}

static uint64_t seed = 2463534242u;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static double random_score(void)
{
    const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
    uint64_t drawn = next_random() % 12;
    if (drawn < 5)
        return special[drawn];
    return (double)(next_random() % 6) - 3; // Few values, so that there are ties.
}

static void check_sequence(int keep, int length)
{
    trp_retention kept = {.keep = keep};
    entry history[LONGEST], expected[LONGEST], sorted[LONGEST];
    for (int i = 0; i < length; i++) {
        history[i] = (entry){2 * i, random_score()};
        assert_int_equal(trp_retention_add(&kept, history[i].id, history[i].score), TROUPE_OK);
        size_t before = kept.count, evicted = 0;
        double score;
        for (int64_t id; (id = trp_retention_evict(&kept, &score)) >= 0; evicted++) {
            assert_int_not_equal(id, history[i].id);
            assert_memory_equal(&score, &history[id / 2].score, sizeof score);
        }
        // One more than asked for: the newest is none of the best.
        assert_int_equal(trp_retention_is_passing(&kept), keep > 0 && kept.count > (size_t)keep);
        assert_int_equal(before - evicted, kept.count);
        size_t count = expected_of(history, (size_t)i + 1, keep, expected);
        assert_int_equal(kept.count, count);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(kept.kept[k].id, expected[k].id);
        memcpy(sorted, history, sizeof(entry) * ((size_t)i + 1));
        qsort(sorted, (size_t)i + 1, sizeof *sorted, compare);
        assert_int_equal(trp_retention_best(&kept), sorted[0].id);
        assert_int_equal(trp_retention_newest(&kept), history[i].id);
    }
    trp_retention_free(&kept);
}

// C06.
static void test_the_best_and_the_newest_are_kept(void **state)
{
    (void)state;
    for (int round = 0; round < 10000; round++)
        check_sequence((int)(next_random() % 6), 1 + (int)(next_random() % LONGEST));
}

// C06.
static void test_ties_keep_the_older(void **state)
{
    (void)state;
    trp_retention kept = {.keep = 1};
    for (int id = 0; id < 3; id++)
        assert_int_equal(trp_retention_add(&kept, id, 1.0), TROUPE_OK);
    double score;
    assert_int_equal(trp_retention_evict(&kept, &score), 1);
    assert_int_equal(trp_retention_evict(&kept, &score), -1);
    assert_int_equal(trp_retention_best(&kept), 0);
    assert_int_equal(trp_retention_newest(&kept), 2);
    trp_retention_free(&kept);
}

// C06.
static void test_without_scores_the_newest_is_the_best(void **state)
{
    (void)state;
    trp_retention kept = {.keep = 2};
    for (int id = 0; id < 4; id++)
        assert_int_equal(trp_retention_add(&kept, id, NAN), TROUPE_OK);
    assert_int_equal(trp_retention_best(&kept), 3);
    double score;
    assert_int_equal(trp_retention_evict(&kept, &score), 0);
    assert_int_equal(trp_retention_evict(&kept, &score), 1);
    assert_int_equal(trp_retention_evict(&kept, &score), -1);
    trp_retention_free(&kept);
}

static void test_an_unusable_newest_is_forgotten(void **state)
{
    (void)state;
    trp_retention kept = {.keep = 2};
    assert_int_equal(trp_retention_newest(&kept), -1);
    assert_int_equal(trp_retention_best(&kept), -1);
    for (int id = 0; id < 2; id++)
        assert_int_equal(trp_retention_add(&kept, id, id), TROUPE_OK);
    trp_retention_rewind(&kept, 0);
    assert_int_equal(trp_retention_newest(&kept), 0);
    assert_int_equal(trp_retention_best(&kept), 0);
    trp_retention_rewind(&kept, -1);
    assert_int_equal(trp_retention_newest(&kept), -1);
    trp_retention_free(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_and_the_newest_are_kept),
        cmocka_unit_test(test_ties_keep_the_older),
        cmocka_unit_test(test_without_scores_the_newest_is_the_best),
        cmocka_unit_test(test_an_unusable_newest_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
