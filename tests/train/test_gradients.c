// test_gradients.c: gradients that are averaged over the ranks of a run are those of one process
// with the whole batch.
// cost: 6
#include "support.h"

#include <math.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/collective.h>
#include <train/shared.h>
#include <train/worker.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(fit_settings, (int, steps), (int, mode), (int, kill_at));

static char *folder;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return troupe_fail(TROUPE_FAILED, "line %d: %s (last error: %s)", __LINE__,            \
                               #condition, troupe_last_error()->text);                             \
    } while (0)

// ---- a model: two linear layers with tanh between, float32, squared error

enum { IN = 6, HIDDEN = 9, ROWS = 24 };

typedef struct net {
    float w[HIDDEN][IN], b[HIDDEN], v[HIDDEN];
    double c;
} net;

static void begin_net(net *of, int seed)
{
    memset(of, 0, sizeof *of);
    for (int h = 0; h < HIDDEN; h++) {
        for (int i = 0; i < IN; i++)
            of->w[h][i] = sinf((float)(h * IN + i + seed));
        of->v[h] = cosf((float)(h + seed));
    }
    of->c = seed;
}

static float input(int step, int row, int i)
{
    return sinf((float)(step * 131 + row * 17 + i * 5));
}

// Adds one row's gradient.
static void add_row(const net *at, net *gradient, int step, int row)
{
    float hidden[HIDDEN];
    double out = at->c;
    for (int h = 0; h < HIDDEN; h++) {
        float sum = at->b[h];
        for (int i = 0; i < IN; i++)
            sum += at->w[h][i] * input(step, row, i);
        hidden[h] = tanhf(sum);
        out += (double)(at->v[h] * hidden[h]);
    }
    double error = out - (double)input(step, row, IN);
    gradient->c += error;
    for (int h = 0; h < HIDDEN; h++) {
        float back = (float)error * at->v[h] * (1 - hidden[h] * hidden[h]);
        gradient->v[h] += (float)error * hidden[h];
        gradient->b[h] += back;
        for (int i = 0; i < IN; i++)
            gradient->w[h][i] += back * input(step, row, i);
    }
}

static void update(net *at, const net *gradient)
{
    for (int h = 0; h < HIDDEN; h++) {
        for (int i = 0; i < IN; i++)
            at->w[h][i] -= 0.1F * gradient->w[h][i];
        at->b[h] -= 0.1F * gradient->b[h];
        at->v[h] -= 0.1F * gradient->v[h];
    }
    at->c -= 0.1 * gradient->c;
}

static void divide(net *gradient)
{
    for (int h = 0; h < HIDDEN; h++) {
        for (int i = 0; i < IN; i++)
            gradient->w[h][i] /= ROWS;
        gradient->b[h] /= ROWS;
        gradient->v[h] /= ROWS;
    }
    gradient->c /= ROWS;
}

// One process with the whole batch.
static void whole_step(net *at, int step)
{
    net sum = {0};
    for (int row = 0; row < ROWS; row++)
        add_row(at, &sum, step, row);
    divide(&sum);
    update(at, &sum);
}

static double distance(const net *a, const net *b)
{
    double most = fabs(a->c - b->c);
    for (int h = 0; h < HIDDEN; h++) {
        for (int i = 0; i < IN; i++)
            most = fmax(most, fabs((double)a->w[h][i] - (double)b->w[h][i]));
        most = fmax(most, fabs((double)a->b[h] - (double)b->b[h]));
        most = fmax(most, fabs((double)a->v[h] - (double)b->v[h]));
    }
    return most;
}

static troupe_status add_net(troupe_gradients *all, net *at, net *gradient)
{
    EXPECT(all);
    TROUPE_TRY(troupe_gradients_add(all, "w", &at->w[0][0], &gradient->w[0][0], HIDDEN * IN));
    TROUPE_TRY(troupe_gradients_add(all, "b", at->b, gradient->b, HIDDEN));
    TROUPE_TRY(troupe_gradients_add(all, "v", at->v, gradient->v, HIDDEN));
    return troupe_gradients_add(all, "c", &at->c, &gradient->c, 1);
}

static troupe_status check_equal(troupe_rank *me, const net *mine)
{
    net *of = (net *)calloc((size_t)me->world, sizeof *of);
    EXPECT(of);
    troupe_status status = troupe_all_gather(me, mine, sizeof *mine, of);
    bool equal = true;
    for (int rank = 0; rank < me->world; rank++)
        equal &= memcmp(mine, &of[rank], sizeof *mine) == 0;
    free(of);
    EXPECT(status != TROUPE_OK || equal);
    return status;
}

// Rank 1 has no rows in every second step, the last one the rest: shares are uneven.
static void rows_of(const troupe_rank *me, int step, int *first, int *end)
{
    int each = ROWS / (me->world + 1);
    *first = me->rank * each;
    *end = me->rank == me->world - 1 ? ROWS : *first + each;
    if (me->world == 3 && step % 2 && me->rank == 1)
        *first = *end;
    else if (me->world == 3 && step % 2 && me->rank == 2)
        *first = each;
}

static troupe_status fit(troupe_rank *me, const fit_settings *config)
{
    net mine, gradient, alone;
    begin_net(&mine, 1 + me->rank); // Rank 0's values count.
    begin_net(&alone, 1);
    troupe_gradients *all = troupe_gradients_open(me);
    TROUPE_TRY(add_net(all, &mine, &gradient));
    for (int step = 0; step < config->steps; step++) {
        int first, end;
        rows_of(me, step, &first, &end);
        memset(&gradient, 0, sizeof gradient);
        TROUPE_TRY(troupe_gradients_begin(all, (size_t)(end - first)));
        for (int row = first; row < end; row++)
            add_row(&mine, &gradient, step, row);
        if (config->mode == 1) { // In another order on each rank.
            const void *parts[] = {&gradient.w[0][0], gradient.b, gradient.v, &gradient.c};
            for (int i = 0; i < 4; i++)
                TROUPE_TRY(troupe_gradients_ready(all, parts[(i * 3 + me->rank) % 4]));
            if (step + 1 == config->kill_at && me->rank == 1 && me->attempt == 0)
                kill(getpid(), SIGKILL);
            TROUPE_TRY(troupe_gradients_wait(all));
        } else {
            TROUPE_TRY(troupe_gradients_average(all));
        }
        update(&mine, &gradient);
        whole_step(&alone, step);
        TROUPE_TRY(check_equal(me, &mine));
        if (step == 0)
            EXPECT(distance(&mine, &alone) < 1e-6);
        TROUPE_TRY(troupe_report(me, {"off", distance(&mine, &alone)}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, fit_settings);

// D16.
static void test_steps_are_those_of_the_whole_batch(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int mode = 0; mode < 2; mode++) {
            troupe_result *result = NULL;
            fit_settings config = {.steps = 20, .mode = mode};
            troupe_must(troupe_train(fit, &config, &result, .ranks = ranks, .storage = folder));
            assert_true(troupe_result_metric(result, "off") < 1e-4);
            troupe_result_free(&result);
        }
}

typedef struct wanted {
    char path[1024], text[160]; // In a file.
} wanted;

static int count_lines(const wanted *it)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(it->path, "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, it->text) != NULL;
    if (file)
        fclose(file);
    return count;
}

static bool is_said(void *user)
{
    return count_lines((const wanted *)user) > 0;
}

// D16: each rank says so once.
static void test_each_rank_says_what_it_averages(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    fit_settings config = {.steps = 3};
    troupe_must(troupe_train(fit, &config, &result, .ranks = 2, .storage = folder));
    for (int rank = 0; rank < 2; rank++) {
        wanted it;
        snprintf(it.path, sizeof it.path, "%s/log/rank_%05d.log", troupe_result_path(result), rank);
        snprintf(it.text, sizeof it.text,
                 "Wrapping 4 parameters of 73 values in 2 buckets for gradient averaging "
                 "[rank=%d, world_size=2]",
                 rank);
        // Files of lines are written beside the run, whose end does not wait for them.
        assert_true(support_wait_until(is_said, &it, SUPPORT_SOON_MS));
        assert_int_equal(count_lines(&it), 1);
    }
    troupe_result_free(&result);
}

static void test_a_rank_killed_in_a_step(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    fit_settings config = {.steps = 4, .mode = 1, .kill_at = 3};
    troupe_must(troupe_train(fit, &config, &result, .ranks = 3, .storage = folder, .restarts = 1));
    assert_int_equal(troupe_result_restarts(result), 1);
    troupe_result_free(&result);
}

// ---- the same loop alone and together

static troupe_status fit_alone(troupe_rank *me, const fit_settings *config)
{
    net mine, gradient;
    begin_net(&mine, 1);
    for (int step = 0; step < config->steps; step++) {
        memset(&gradient, 0, sizeof gradient);
        for (int row = 0; row < ROWS; row++)
            add_row(&mine, &gradient, step, row);
        divide(&gradient);
        update(&mine, &gradient);
        TROUPE_TRY(troupe_report(me, {"c", mine.c}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit_alone, fit_settings);

static troupe_status fit_together(troupe_rank *me, const fit_settings *config)
{
    net mine, gradient;
    begin_net(&mine, 1);
    troupe_gradients *all = troupe_gradients_open(me);
    TROUPE_TRY(troupe_gradients_add(all, "w", &mine.w[0][0], &gradient.w[0][0], HIDDEN * IN));
    TROUPE_TRY(troupe_gradients_add(all, "b", mine.b, gradient.b, HIDDEN));
    TROUPE_TRY(troupe_gradients_add(all, "v", mine.v, gradient.v, HIDDEN));
    TROUPE_TRY(troupe_gradients_add(all, "c", &mine.c, &gradient.c, 1));
    for (int step = 0; step < config->steps; step++) {
        memset(&gradient, 0, sizeof gradient);
        TROUPE_TRY(troupe_gradients_begin(all, ROWS / (size_t)me->world));
        for (int row = me->rank; row < ROWS; row += me->world)
            add_row(&mine, &gradient, step, row);
        TROUPE_TRY(troupe_gradients_average(all));
        update(&mine, &gradient);
        TROUPE_TRY(troupe_report(me, {"c", mine.c}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit_together, fit_settings);

// The lines of a function in this file.
static int read_function(const char *head, char lines[64][128])
{
    char path[1024];
    int count = -1;
    snprintf(path, sizeof path, "%s/tests/train/test_gradients.c",
             support_setting("TROUPE_SOURCE"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (count < 63 && fgets(lines[count < 0 ? 0 : count], 128, file)) {
        if (count >= 0 && lines[count++][0] == '}')
            break;
        if (count < 0 && strncmp(lines[0], head, strlen(head)) == 0)
            count = 0; // What follows the line with its name.
    }
    fclose(file);
    return count;
}

// D18: what a loop of one process needs to become one of ranks.
static void test_a_loop_changes_by_ten_lines_at_most(void **state)
{
    (void)state;
    static char alone[64][128], together[64][128];
    int few = read_function("static troupe_status fit_alone(", alone), other = 0;
    int more = read_function("static troupe_status fit_together(", together);
    assert_true(few > 5 && more > 5);
    for (int i = 0; i < more; i++) {
        bool same = false;
        for (int k = 0; k < few; k++)
            same |= strcmp(together[i], alone[k]) == 0;
        other += !same;
    }
    assert_true(other >= 1 && other <= 10);

    troupe_result *one = NULL, *two = NULL;
    fit_settings config = {.steps = 5};
    troupe_must(troupe_train(fit_alone, &config, &one, .ranks = 1, .storage = folder));
    troupe_must(troupe_train(fit_together, &config, &two, .ranks = 2, .storage = folder));
    assert_true(fabs(troupe_result_metric(one, "c") - troupe_result_metric(two, "c")) < 1e-5);
    troupe_result_free(&one);
    troupe_result_free(&two);
}

// ---- buckets

enum { BIG = 700000, SMALL = 5 };

// Where gradients lie.
enum { PRIVATE, IN_PLACE, ON_ONE_RANK, OUT_OF_ORDER, PLACES };

TROUPE_STRUCT(fill_settings, (bool, beside), // Whatever CPUs there are.
              (int, place));

static troupe_status fill_buckets(troupe_rank *me, const fill_settings *config)
{
    trp_collective_beside = config->beside;
    static float values[4][BIG], others[4][BIG];
    static double other[SMALL], others_last[SMALL];
    float *gradients[4];
    double *other_gradient = others_last;
    trp_member *member;
    TROUPE_TRY(trp_worker_member(me, "fill_buckets", &member));
    float *shared = (float *)troupe_shared_alloc(me, sizeof others + sizeof others_last);
    EXPECT(shared);
    for (int i = 0; i < 4; i++)
        gradients[i] = shared + (size_t)i * BIG;
    if (config->place == PRIVATE || (config->place == ON_ONE_RANK && me->rank > 0))
        for (int i = 0; i < 4; i++)
            gradients[i] = others[i];
    else
        other_gradient = (double *)(void *)(shared + (size_t)4 * BIG);
    if (config->place == OUT_OF_ORDER) {
        gradients[1] = shared + (size_t)2 * BIG;
        gradients[2] = shared + (size_t)1 * BIG;
    }
    troupe_gradients *all = troupe_gradients_open(me);
    EXPECT(all);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        TROUPE_TRY(troupe_gradients_add(all, name, values[i], gradients[i],
                                        (size_t)(i == 3 ? SMALL : BIG)));
    }
    TROUPE_TRY(troupe_gradients_add(all, "q", other, other_gradient, SMALL));
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < (i == 3 ? SMALL : BIG); k++)
                gradients[i][k] = (float)((k + i + step) % 13 * (me->rank + 1));
        for (int k = 0; k < SMALL; k++)
            other_gradient[k] = me->rank + 1;
        TROUPE_TRY(troupe_gradients_begin(all, step == 3 ? 0 : 2));
        // Buckets have memory of their own only where something is copied.
        bool copies = config->place == ON_ONE_RANK ? me->world > 1 : config->place != IN_PLACE;
        EXPECT(member->shared->count == (copies ? 2 : 1));
        const void *parts[] = {gradients[0], gradients[1], gradients[2], gradients[3],
                               other_gradient};
        for (int i = 0; i < 5; i++)
            TROUPE_TRY(troupe_gradients_ready(all, parts[(i * 2 + step + me->rank) % 5]));
        TROUPE_TRY(troupe_gradients_wait(all));
        float ranks = (float)(me->world * (me->world + 1)) / 2, rows = 2 * (float)me->world;
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < (i == 3 ? SMALL : BIG); k++)
                EXPECT(gradients[i][k] ==
                       (step == 3 ? 0 : (float)((k + i + step) % 13) * ranks / rows));
        EXPECT(other_gradient[SMALL - 1] == (step == 3 ? 0 : (double)ranks / (double)rows));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fill_buckets, fill_settings);

static void test_buckets_in_any_order_of_readiness(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int place = 0; place < PLACES; place++) {
            troupe_result *result = NULL;
            fill_settings config = {.beside = (ranks + place) % 2, .place = place};
            troupe_must(
                troupe_train(fill_buckets, &config, &result, .ranks = ranks, .storage = folder));
            troupe_result_free(&result);
        }
}

// ---- misuse

static bool says(const char *text)
{
    return strstr(troupe_last_error()->text, text) != NULL;
}

static troupe_status misuse(troupe_rank *me)
{
    static float a[4], ga[4], b[4], gb[4];
    static int32_t whole[4];
    troupe_gradients *all = troupe_gradients_open(me);
    EXPECT(all);
    EXPECT(troupe_gradients_begin(all, 1) == TROUPE_INVALID && says("no parameter is registered"));
    TROUPE_TRY(troupe_gradients_add(all, "a", a, ga, 4));
    EXPECT(troupe_gradients_add(all, "a", b, gb, 4) == TROUPE_INVALID && says("'a' is registered"));
    EXPECT(troupe_gradients_add(all, "b", b, ga, 4) == TROUPE_INVALID &&
           says("'b' has the gradient of 'a'"));
    EXPECT(troupe_gradients_add(all, "", b, gb, 4) == TROUPE_INVALID && says("a name of 0 bytes"));
    EXPECT(troupe_gradients_add_as(all, "b", whole, gb, 4, TROUPE_INT32) == TROUPE_INVALID &&
           says("'b' is of int32: expected float32 or float64"));
    TROUPE_TRY(troupe_gradients_add(all, "b", b, gb, 4));
    EXPECT(troupe_gradients_ready(all, ga) == TROUPE_INVALID && says("no step has been begun"));
    EXPECT(troupe_gradients_wait(all) == TROUPE_INVALID && says("no step has been begun"));
    TROUPE_TRY(troupe_gradients_begin(all, 1));
    EXPECT(troupe_gradients_begin(all, 1) == TROUPE_INVALID && says("has not ended"));
    EXPECT(troupe_gradients_add(all, "late", b, b, 4) == TROUPE_INVALID &&
           says("'late' comes after the first step"));
    EXPECT(troupe_gradients_ready(all, a) == TROUPE_INVALID &&
           says("no parameter has its gradient"));
    TROUPE_TRY(troupe_gradients_ready(all, gb));
    EXPECT(troupe_gradients_ready(all, gb) == TROUPE_INVALID && says("'b' is ready already"));
    EXPECT(troupe_gradients_wait(all) == TROUPE_INVALID && says("'a' is not ready"));
    TROUPE_TRY(troupe_gradients_ready(all, ga)); // The step has gone on.
    TROUPE_TRY(troupe_gradients_wait(all));
    EXPECT(troupe_gradients_average(all) == TROUPE_INVALID && says("no step has been begun"));
    TROUPE_TRY(troupe_gradients_begin(all, 1));
    TROUPE_TRY(troupe_gradients_ready(all, ga));
    return troupe_gradients_average(all); // With those that were not said to be.
}
TROUPE_TRAINER(misuse);

static void test_misuse_is_told(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(troupe_train(misuse, NULL, &result, .ranks = 2, .storage = folder));
    troupe_result_free(&result);
}

static troupe_status differ(troupe_rank *me)
{
    static float a[4], ga[4], b[4], gb[4];
    static const char *const sentences[] = {
        "parameter 1 is 'b' of 4 float32 on rank 0 and 'c' of 4 float32 on rank 2",
        "parameter 1 is 'b' of 4 float32 on rank 0 and 'b' of 3 float32 on rank 2",
        "parameter 1 is 'b' of 4 float32 on rank 0 and missing on rank 2",
        "parameter 0 is 'a' of 4 float32 on rank 0 and missing on rank 2",
    };
    for (int i = 0; i < 4; i++) {
        bool odd = me->rank == 2;
        troupe_gradients *all = troupe_gradients_open(me);
        EXPECT(all);
        if (!(odd && i == 3))
            TROUPE_TRY(troupe_gradients_add(all, "a", a, ga, 4));
        if (!odd || i < 2)
            TROUPE_TRY(
                troupe_gradients_add(all, odd && i == 0 ? "c" : "b", b, gb, odd && i == 1 ? 3 : 4));
        if (odd && i == 3) // One without any is told by itself, and would not come.
            TROUPE_TRY(troupe_gradients_add(all, "z", b, gb, 4));
        EXPECT(troupe_gradients_begin(all, 1) == TROUPE_INVALID);
        if (i < 3)
            EXPECT(says(sentences[i]));
        else
            EXPECT(
                says("parameter 0 is 'a' of 4 float32 on rank 0 and 'z' of 4 float32 on rank 2"));
    }
    return troupe_barrier(me); // In step still.
}
TROUPE_TRAINER(differ);

static void test_other_parameters_are_named_on_all_ranks(void **state)
{
    (void)state;
    troupe_result *result = NULL;
    troupe_must(troupe_train(differ, NULL, &result, .ranks = 3, .storage = folder));
    troupe_result_free(&result);
}

// ---- no memory

TROUPE_STRUCT(shortage, (int, allowed)); // Allocations of rank 1's first step that succeed.

static troupe_status begin_without_memory(troupe_rank *me, const shortage *config)
{
    static float a[4], ga[4];
    static const char lacks[] = "rank 1 has no memory for its part";
    troupe_gradients *all = troupe_gradients_open(me);
    EXPECT(all);
    TROUPE_TRY(troupe_gradients_add(all, "a", a, ga, 4));
    TROUPE_TRY(troupe_barrier(me)); // What goes on beside it has been done.
    if (me->rank == 1)
        trp_memory_fail_after(config->allowed);
    troupe_status status = troupe_gradients_begin(all, 1);
    trp_memory_fail_after(-1);
    if (status == TROUPE_OK && troupe_gradients_average(all) == TROUPE_OK)
        return TROUPE_OK;
    EXPECT(says(lacks) && (me->rank == 1 || troupe_last_error()->status == TROUPE_PEER_LOST));
    EXPECT(troupe_barrier(me) == TROUPE_PEER_LOST && says(lacks)); // Rank 1 has not left.
    return TROUPE_PEER_LOST;
}
TROUPE_TRAINER(begin_without_memory, shortage);

// Wherever it is missing on one rank, the others are told by that.
static void test_a_rank_without_memory_is_named(void **state)
{
    (void)state;
    enum { MOST = 50 };
    troupe_status status = TROUPE_PEER_LOST;
    int allowed = 0;
    for (; status != TROUPE_OK && allowed < MOST; allowed++) {
        troupe_result *result = NULL;
        status = troupe_train(begin_without_memory, &(shortage){allowed}, &result, .ranks = 3,
                              .storage = folder);
        if (status != TROUPE_OK && !says("rank 1 has no memory for its part"))
            fail_msg("with %d allocations: %s", allowed, troupe_last_error()->text);
        troupe_result_free(&result);
    }
    assert_in_range(allowed, 4, MOST);
}

int main(int argc, char **argv)
{
    setenv("TROUPE_LOG", "info", 1);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    folder = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_those_of_the_whole_batch),
        cmocka_unit_test(test_a_loop_changes_by_ten_lines_at_most),
        cmocka_unit_test(test_each_rank_says_what_it_averages),
        cmocka_unit_test(test_a_rank_killed_in_a_step),
        cmocka_unit_test(test_buckets_in_any_order_of_readiness),
        cmocka_unit_test(test_misuse_is_told),
        cmocka_unit_test(test_other_parameters_are_named_on_all_ranks),
        cmocka_unit_test(test_a_rank_without_memory_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(folder);
    return troupe_stop() || failed;
}
