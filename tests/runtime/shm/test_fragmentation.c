// test_fragmentation.c: objects of 8 bytes to 16 MiB come and go: little memory is lost to it.
#include "fragmentation.h"

enum { MIB = 1 << 20 };

static void test_sizes_up_to_16_mib(void **state)
{
    (void)state;
    churn *the = calloc(1, sizeof *the);
    *the = (churn){.capacity = 128 * MIB,
                   .size_max = 16 * MIB,
                   .octave_max = 4 * MIB,
                   .steps = 60000,
                   .seed = 20261122};
    churn_run(the);
    assert_true(the->worst < 1.25);
    assert_true(the->small_worst < 1.4);
    assert_int_equal(the->refused, 0);

    // Where the large ones are dropped, the small ones are not in the way of one that is larger
    // than all before.
    trp_object id;
    void *data;
    churn_drop_larger(the, MIB);
    assert_int_equal(trp_store_create(32 * MIB, 1, TRP_ENCODING_BYTES, &id, &data), TROUPE_OK);
    trp_store_discard(id);
    churn_end(the);
    free(the);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_up_to_16_mib)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
