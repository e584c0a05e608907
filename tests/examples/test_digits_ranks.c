// test_digits_ranks.c: the network that reads digits learns the same on one rank and on several, up
// to the rounding of sums: the same images are moved alike in the same steps.
#include "support.h"

#include <digits/data.h>
#include <digits/model.h>
#include <digits/sets.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 2 };

static char *folder;
static digits_sets sets;

// The weights after some epochs, for free.
static float *train(int ranks, size_t *count)
{
    reader_config config = troupe_defaults(reader);
    config.fitting = (troupe_fitting){.epochs = EPOCHS, .batch = 64, .seed = 11};
    troupe_result *result = NULL;
    troupe_instance *instance;
    troupe_must(troupe_train(reader, &config, &result, .ranks = ranks, .cpus_per_rank = 0.5,
                             .storage = folder, .data = troupe_data_with(digits_data, &sets)));
    troupe_must(troupe_model_open(reader, troupe_result_checkpoint(result), NULL, &instance));
    const network *net = &troupe_model_self(reader, instance)->net;
    float *weights = reallocarray(NULL, net->count, sizeof *weights);
    assert_non_null(weights);
    memcpy(weights, net->weights, net->count * sizeof *weights);
    *count = net->count;
    troupe_model_close(&instance);
    troupe_result_free(&result);
    return weights;
}

static void test_as_many_ranks_as_wanted_learn_the_same(void **state)
{
    (void)state;
    size_t count;
    float *alone = train(1, &count);
    for (int ranks = 2; ranks <= 3; ranks++) {
        float *together = train(ranks, &count);
        double most = 0;
        for (size_t i = 0; i < count; i++)
            most = fmax(most, fabs((double)alone[i] - (double)together[i]));
        print_message("%d ranks: weights differ by at most %g\n", ranks, most);
        assert_true(most < 1e-5);
        free(together);
    }
    free(alone);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    folder = support_directory_make();
    digits data;
    troupe_must(digits_load(support_setting("TROUPE_DIGITS_CSV"), 11, &data));
    troupe_must(digits_sets_put(&data, &sets));
    digits_free(&data);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_ranks_as_wanted_learn_the_same),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    digits_sets_drop(&sets);
    support_directory_remove(folder);
    return troupe_stop() + failed;
}
