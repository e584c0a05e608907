// test_fragmentation_large.c: objects of 8 bytes to 1 GiB come and go in a store of 3 GiB: little
// memory is lost to it, and there is room for another of 1 GiB.
// timeout: 180
// label: slow
// label: nosan
// label: alone
#include "fragmentation.h"

#define GIB ((size_t)1 << 30)

static void test_sizes_up_to_1_gib(void **state)
{
    (void)state;
    churn *the = calloc(1, sizeof *the);
    *the = (churn){.capacity = 3 * GIB,
                   .size_max = GIB,
                   .octave_max = 64 << 20,
                   .steps = 100000,
                   .seed = 20261122};
    churn_run(the);
    assert_true(the->worst < 1.1);
    assert_true(the->small_worst < 1.4);
    assert_in_range(the->refused, 0, the->steps / 100);

    trp_object id;
    void *data;
    churn_drop_larger(the, GIB / 1024);
    assert_int_equal(trp_store_create(GIB, 1, TRP_ENCODING_BYTES, &id, &data), TROUPE_OK);
    trp_store_discard(id);
    churn_end(the);
    free(the);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_up_to_1_gib)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
