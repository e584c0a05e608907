// test_place.c: which rank each worker becomes, over lists of nodes that need not exist, and what
// its process is given for it.
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <train/place.h>

enum { MOST = 12 };

static void expect(const trp_place *place, int rank, int local_rank, int local_world, int node_rank)
{
    assert_int_equal(place->rank, rank);
    assert_int_equal(place->local_rank, local_rank);
    assert_int_equal(place->local_world, local_world);
    assert_int_equal(place->node_rank, node_rank);
}

// Two nodes with two workers each, in any order of theirs.
// D07.
static void test_the_table_of_two_nodes_with_two_workers_is_exact(void **state)
{
    (void)state;
    trp_place places[4];
    trp_places_of((const uint32_t[]){0, 0, 1, 1}, 4, places);
    for (int i = 0; i < 4; i++) {
        expect(&places[i], i, i % 2, 2, i / 2);
        assert_int_equal(places[i].world, 4);
        assert_int_equal(places[i].nodes, 2);
    }
    trp_places_of((const uint32_t[]){7, 3, 7, 3}, 4, places);
    expect(&places[0], 0, 0, 2, 0);
    expect(&places[2], 1, 1, 2, 0); // Beside the first one of its node.
    expect(&places[1], 2, 0, 2, 1);
    expect(&places[3], 3, 1, 2, 1);
    trp_places_of((const uint32_t[]){5, 9, 9}, 3, places);
    expect(&places[0], 0, 0, 1, 0);
    expect(&places[1], 1, 0, 2, 1);
    expect(&places[2], 2, 1, 2, 1);
    trp_places_of((const uint32_t[]){0}, 1, places);
    expect(&places[0], 0, 0, 1, 0);
    assert_int_equal(places[0].nodes, 1);
}

static int nodes_in(const uint32_t *nodes, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        bool known = false;
        for (int k = 0; k < i; k++)
            known = known || nodes[k] == nodes[i];
        found += !known;
    }
    return found;
}

// What must hold between any two workers says all that there is to say.
static void check_pairs(const uint32_t *nodes, const trp_place *places, int count)
{
    for (int i = 0; i < count; i++) {
        int beside = 0;
        assert_in_range(places[i].rank, 0, count - 1);
        for (int k = 0; k < count; k++) {
            bool together = nodes[i] == nodes[k];
            beside += together;
            assert_int_equal(places[i].node_rank == places[k].node_rank, together);
            assert_true(i == k || places[i].rank != places[k].rank);
            if (together) // In a row.
                assert_int_equal(places[i].rank - places[k].rank,
                                 places[i].local_rank - places[k].local_rank);
            else
                assert_int_equal(places[i].rank < places[k].rank,
                                 places[i].node_rank < places[k].node_rank);
        }
        assert_int_equal(places[i].local_world, beside);
        assert_in_range(places[i].local_rank, 0, beside - 1);
        assert_int_equal(places[i].nodes, nodes_in(nodes, count));
        assert_in_range(places[i].node_rank, 0, places[i].nodes - 1);
    }
}

static void test_ranks_of_a_node_follow_each_other(void **state)
{
    (void)state;
    unsigned seed = 20261124;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 5000; round++) {
        uint32_t nodes[MOST];
        trp_place places[MOST];
        int count = 1 + rand_r(&seed) % MOST, kinds = 1 + rand_r(&seed) % MOST;
        for (int i = 0; i < count; i++)
            nodes[i] = (uint32_t)(rand_r(&seed) % kinds) * 1000;
        trp_places_of(nodes, count, places);
        check_pairs(nodes, places, count);
    }
}

static void expect_given(int local_rank, int together, const char *gpus, bool by_rank, int64_t each,
                         const char *env, const char *wanted)
{
    trp_buffer text = {0};
    trp_place place = {local_rank + 2, 6, local_rank, 4, 1, 2};
    trp_place_env(&place, together, gpus, by_rank, each, env, &text);
    assert_false(text.failed);
    const char *own = strstr((const char *)text.data, "NODE_RANK=1\n");
    assert_non_null(own);
    assert_string_equal(own + strlen("NODE_RANK=1\n"), wanted);
    assert_int_equal(text.size, strlen((const char *)text.data) + 1);
    trp_buffer_free(&text);
}

static void expect_shared(int local_rank, int together, const char *gpus, int64_t each,
                          const char *env, const char *wanted)
{
    expect_given(local_rank, together, gpus, false, each, env, wanted);
}

static void expect_env(int local_rank, const char *gpus, int64_t each, const char *env,
                       const char *wanted)
{
    expect_shared(local_rank, 1, gpus, each, env, wanted);
}

// A rank sees its own GPUs and no others.
// D15.
static void test_gpus_are_dealt_out_in_the_order_of_ranks(void **state)
{
    (void)state;
    expect_env(0, "", 0, NULL, "");
    expect_env(0, "", 0, "A=b", "A=b");
    expect_env(0, "4,GPU-five,6,7", 10000, NULL, "CUDA_VISIBLE_DEVICES=4\n");
    expect_env(1, "4,GPU-five,6,7", 10000, NULL, "CUDA_VISIBLE_DEVICES=GPU-five\n");
    expect_env(3, "4,GPU-five,6,7", 10000, "X=1\n", "CUDA_VISIBLE_DEVICES=7\nX=1\n");
    expect_env(0, "0,1,2,3,4,5,6,7", 20000, NULL, "CUDA_VISIBLE_DEVICES=0,1\n");
    expect_env(3, "0,1,2,3,4,5,6,7", 20000, NULL, "CUDA_VISIBLE_DEVICES=6,7\n");
    expect_env(1, "2,5", 5000, NULL, "CUDA_VISIBLE_DEVICES=2\n"); // Two ranks fill one.
    expect_env(2, "2,5", 5000, NULL, "CUDA_VISIBLE_DEVICES=5\n");
    expect_env(3, "9", 2000, NULL, "CUDA_VISIBLE_DEVICES=9\n"); // All share one.
    // Those that share a process see theirs together.
    expect_shared(2, 2, "4,5,6,7", 10000, NULL, "CUDA_VISIBLE_DEVICES=6,7\n");
    expect_shared(1, 3, "0,1,2,3,4,5,6,7", 20000, NULL, "CUDA_VISIBLE_DEVICES=2,3,4,5,6,7\n");
    expect_shared(0, 2, "2,5", 5000, NULL, "CUDA_VISIBLE_DEVICES=2\n");
    expect_shared(1, 2, "2,5", 5000, NULL, "CUDA_VISIBLE_DEVICES=2,5\n");
    expect_shared(0, 4, "9", 2000, NULL, "CUDA_VISIBLE_DEVICES=9\n");
}

// Which a train server has given to each of them.
static void test_gpus_that_are_given_by_rank(void **state)
{
    (void)state;
    expect_given(0, 1, "1,2,0", true, 10000, NULL, "CUDA_VISIBLE_DEVICES=1\n");
    expect_given(2, 1, "1,2,0", true, 10000, NULL, "CUDA_VISIBLE_DEVICES=0\n");
    expect_given(1, 1, "2,3,0,1", true, 20000, NULL, "CUDA_VISIBLE_DEVICES=0,1\n");
    expect_given(0, 1, "0,1,1", true, 5000, NULL, "CUDA_VISIBLE_DEVICES=0\n");
    expect_given(1, 1, "0,1,1", true, 5000, NULL, "CUDA_VISIBLE_DEVICES=1\n");
    expect_given(0, 3, "0,1,1", true, 5000, NULL, "CUDA_VISIBLE_DEVICES=0,1\n");
    expect_given(1, 2, "0,10,10", true, 2500, NULL, "CUDA_VISIBLE_DEVICES=10\n");
}

static void test_what_launchers_export(void **state)
{
    (void)state;
    trp_buffer text = {0};
    trp_place_env(&(trp_place){5, 6, 1, 2, 2, 3}, 1, NULL, false, 0, "RANK=mine", &text);
    assert_string_equal((const char *)text.data, "RANK=5\nWORLD_SIZE=6\nLOCAL_RANK=1\n"
                                                 "LOCAL_WORLD_SIZE=2\nNODE_RANK=2\nRANK=mine");
    trp_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_two_nodes_with_two_workers_is_exact),
        cmocka_unit_test(test_ranks_of_a_node_follow_each_other),
        cmocka_unit_test(test_gpus_are_dealt_out_in_the_order_of_ranks),
        cmocka_unit_test(test_gpus_that_are_given_by_rank),
        cmocka_unit_test(test_what_launchers_export),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
