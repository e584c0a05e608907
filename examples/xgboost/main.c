// main.c: gradient-boosted trees on handwritten digits, by XGBoost: a trainer (TROUPE_STEPS) whose
// stages hold the backend. Each rank of a run is a fold of a cross-validation: it grows trees on
// the other folds' digits and tests them on its own. (Trees that several processes grow together
// need XGBoost's tracker, which is a Python program.)
//
//     xgboost DATA [RANKS [EPOCHS [STORAGE]]]
#include <digits/data.h>
#include <troupe.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xgboost/c_api.h>

TROUPE_STRUCT(boosting, (troupe_text, data), // A CSV file, see digits/data.h.
              (int, epochs), (int, rounds),  // Each epoch has so many; then it reports.
              (int, depth), (double, rate)); // Of trees; how much each one corrects.

// What a rank has, from rank_setup to rank_teardown.
typedef struct fold {
    DMatrixHandle others, own; // What it learns from, and what it is tested on.
    BoosterHandle trees;
    int done; // Rounds, where it goes on.
} fold;

// Says what went wrong in XGBoost, which returns 0 if nothing did.
#define XGB_TRY(call)                                                                              \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            return troupe_fail(TROUPE_FAILED, "%s: %s", #call, XGBGetLastError());                 \
    } while (0)

// ---- data

// The images of the fold with that number, or all others.
static troupe_status make_matrix(const digits *data, int number, int folds, bool own,
                                 DMatrixHandle *matrix)
{
    uint32_t *rows = troupe_arena_alloc(data->count * sizeof *rows);
    float *pixels = troupe_arena_alloc(data->count * data->inputs * sizeof *pixels);
    float *classes = troupe_arena_alloc(data->count * sizeof *classes);
    uint8_t *labels = troupe_arena_alloc(data->count);
    size_t count = 0;
    if (!rows || !pixels || !classes || !labels)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu images", data->count);
    for (uint32_t i = 0; i < data->count; i++)
        if (((int)(i % (uint32_t)folds) == number) == own)
            rows[count++] = i;
    digits_gather(data, rows, count, pixels, labels);
    for (size_t i = 0; i < count; i++)
        classes[i] = labels[i];
    XGB_TRY(XGDMatrixCreateFromMat(pixels, count, data->inputs, NAN, matrix));
    XGB_TRY(XGDMatrixSetFloatInfo(*matrix, "label", classes, count));
    return TROUPE_OK;
}

static troupe_status load_fold(troupe_rank *me, const boosting *config, fold *it)
{
    enum { FOLDS_OF_ONE = 5 }; // A single rank is tested on a fifth.
    int folds = me->world > 1 ? me->world : FOLDS_OF_ONE;
    digits data;
    TROUPE_TRY(digits_load(config->data, 1, &data));
    troupe_status status = make_matrix(&data, me->rank, folds, false, &it->others);
    if (status == TROUPE_OK)
        status = make_matrix(&data, me->rank, folds, true, &it->own);
    digits_free(&data);
    return status;
}

// ---- the rank's stages

// Where a rank's trees are in a checkpoint.
static void name_file(const troupe_rank *me, const char *folder, char path[4096])
{
    snprintf(path, 4096, "%s/fold_%05d.ubj", folder, me->rank);
}

static troupe_status make_trees(troupe_rank *me, const boosting *config, fold *it)
{
    char depth[16], rate[32], path[4096];
    snprintf(depth, sizeof depth, "%d", config->depth);
    snprintf(rate, sizeof rate, "%g", config->rate);
    XGB_TRY(XGBoosterCreate(&it->others, 1, &it->trees));
    if (troupe_restored_folder(me)) {
        name_file(me, troupe_restored_folder(me), path);
        XGB_TRY(XGBoosterLoadModel(it->trees, path));
        XGB_TRY(XGBoosterBoostedRounds(it->trees, &it->done));
    }
    const char *const parameters[][2] = {{"objective", "multi:softmax"},
                                         {"num_class", "10"},
                                         {"max_depth", depth},
                                         {"eta", rate},
                                         {"nthread", "1"}};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        XGB_TRY(XGBoosterSetParam(it->trees, parameters[i][0], parameters[i][1]));
    return TROUPE_OK;
}

static troupe_status close_fold(troupe_rank *me, const boosting *config)
{
    fold *it = me->user;
    (void)config;
    if (it->trees)
        XGB_TRY(XGBoosterFree(it->trees));
    if (it->own)
        XGB_TRY(XGDMatrixFree(it->own));
    if (it->others)
        XGB_TRY(XGDMatrixFree(it->others));
    return TROUPE_OK;
}

static troupe_status open_fold(troupe_rank *me, const boosting *config)
{
    fold *it = me->user = troupe_arena_alloc(sizeof *it);
    if (!it)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a fold");
    TROUPE_TRY(load_fold(me, config, it));
    return make_trees(me, config, it);
}

// ---- the loop

static troupe_status plan_rounds(troupe_rank *me, const boosting *config, troupe_plan *plan)
{
    const fold *it = me->user;
    plan->epochs = config->epochs;
    plan->batches = config->rounds;
    plan->epoch = it->done / config->rounds;
    return TROUPE_OK;
}

static troupe_status grow(troupe_rank *me, const boosting *config)
{
    fold *it = me->user;
    int round = (int)(me->epoch * config->rounds + me->batch);
    XGB_TRY(XGBoosterUpdateOneIter(it->trees, round, it->others));
    return TROUPE_OK;
}

// How many of its own digits the trees know, and how many it has.
static troupe_status test(const fold *it, int64_t result[2])
{
    static const char how[] = "{\"type\": 0, \"training\": false, \"iteration_begin\": 0, "
                              "\"iteration_end\": 0, \"strict_shape\": false}";
    const bst_ulong *shape;
    bst_ulong dimensions, count;
    const float *found, *expected;
    XGB_TRY(XGBoosterPredictFromDMatrix(it->trees, it->own, how, &shape, &dimensions, &found));
    XGB_TRY(XGDMatrixGetFloatInfo(it->own, "label", &count, &expected));
    for (bst_ulong i = 0; i < count; i++)
        result[0] += found[i] == expected[i];
    result[1] = (int64_t)count;
    return TROUPE_OK;
}

static troupe_status save_and_report(troupe_rank *me, const boosting *config)
{
    const fold *it = me->user;
    const char *folder;
    char path[4096];
    int64_t result[2] = {0};
    (void)config;
    TROUPE_TRY(test(it, result));
    TROUPE_TRY(troupe_allreduce(me, result, 2, TROUPE_SUM)); // Over all folds.
    TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
    name_file(me, folder, path);
    XGB_TRY(XGBoosterSaveModel(it->trees, path));
    return troupe_report(me, {"accuracy", (double)result[0] / (double)result[1]});
}

TROUPE_STEPS(xgboost, boosting, .rank_setup = open_fold, .rank_teardown = close_fold,
             .plan = plan_rounds, .step = grow, .after_epoch = save_and_report);

int main(int argc, char **argv)
{
    troupe_result *result;
    boosting config = {
        .data = argc > 1 ? argv[1] : "build/data/digits.csv.gz",
        .epochs = argc > 3 ? atoi(argv[3]) : 5,
        .rounds = 5,
        .depth = 3,
        .rate = 0.4,
    };
    troupe_must(troupe_start(argc, argv));
    troupe_must(troupe_train(xgboost, &config, &result, .ranks = argc > 2 ? atoi(argv[2]) : 5,
                             .cpus_per_rank = 0.25, .restarts = 3, .keep = 2,
                             .storage = argc > 4 ? argv[4] : NULL, .console = TROUPE_CONSOLE_ON));
    printf("accuracy %.4f after %d reports and %d restarts\n",
           troupe_result_metric(result, "accuracy"), troupe_result_reports(result),
           troupe_result_restarts(result));
    troupe_result_free(&result);
    return troupe_stop();
}
