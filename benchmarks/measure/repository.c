// repository.c: a model's weights into the repository, and out of it.
//
//     repository FOLDER quick|full ROW...
//
// Prints "<row> <value> <p50> <p99> <p999>" in milliseconds for the rows repository.push.<bytes>
// and repository.open.<bytes>: from the checkpoint of a run, on disk, to a version whose push has
// returned, and from its name to an instance with the weights. FOLDER is where all of it lies.
#include <harness.h>

#include <stdlib.h>
#include <string.h>
#include <troupe.h>

TROUPE_STRUCT(net_config, (int64_t, bytes), (troupe_fitting, fitting));
TROUPE_STRUCT(net_state, (troupe_array_float, weights));
typedef struct net {
    float *weights;
    size_t count;
} net;

static troupe_status net_setup(net *self, const net_config *config, troupe_use *use)
{
    self->count = (size_t)config->bytes / sizeof *self->weights;
    self->weights = troupe_use_alloc(use, (size_t)config->bytes);
    return self->weights ? TROUPE_OK : TROUPE_NO_MEMORY;
}

static troupe_status net_forward(net *self, const troupe_tensor *x, troupe_tensor *y)
{
    float *out = troupe_arena_alloc(x->shape[0] * sizeof *out);
    for (size_t i = 0; out && i < x->shape[0]; i++)
        out[i] = self->weights[0] * ((const float *)x->data)[i];
    *y = troupe_tensor_of(TROUPE_FLOAT32, out, x->shape[0]);
    return out ? TROUPE_OK : TROUPE_NO_MEMORY;
}

static troupe_status net_train_step(net *self, troupe_rank *me, const troupe_batch *batch)
{
    (void)batch;
    for (size_t i = 0; i < self->count; i++)
        self->weights[i] = (float)i;
    troupe_note(me, "loss", 0);
    return TROUPE_OK;
}

static troupe_status net_save(net *self, net_state *state)
{
    state->weights = (troupe_array_float){self->weights, self->count};
    return TROUPE_OK;
}

static troupe_status net_load(net *self, const net_state *state)
{
    memcpy(self->weights, state->weights.items, self->count * sizeof *self->weights);
    return TROUPE_OK;
}

TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward, .train_step = net_train_step,
             .save = net_save, .load = net_load, .input = {TROUPE_FLOAT32, 0, {0}});

TROUPE_STRUCT(one_config, (int, unused));

static troupe_status one_setup(troupe_data *data, const one_config *config)
{
    float value = (float)config->unused;
    troupe_tensor row = troupe_tensor_of(TROUPE_FLOAT32, &value, 1);
    troupe_ref ref = troupe_put(troupe_tensor, &row);
    return troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
                               troupe_from_tensor("point", ref));
}
TROUPE_DATA(one, one_config, one_setup);

static const char *folder;

static troupe_result *train(int64_t bytes)
{
    net_config config = {.bytes = bytes, .fitting = {.epochs = 1, .batch = 1}};
    one_config source = {1};
    troupe_result *result;
    troupe_must(troupe_train(net, &config, &result, .name = "net", .storage = folder,
                             .data = troupe_data_with(one, &source), .console = TROUPE_CONSOLE_OFF,
                             .server = TROUPE_SERVER_NONE));
    if (troupe_result_status(result) != TROUPE_OK)
        bench_die("repository: %s", troupe_result_error(result));
    return result;
}

static double push(const char *checkpoint, const char *repository, troupe_model_ref *ref)
{
    int64_t start = bench_now_ns();
    troupe_must(troupe_push(net, "net", checkpoint, ref, .repository = repository));
    return (double)(bench_now_ns() - start) / 1e6;
}

static double open_it(const char *repository, const troupe_model_ref *ref)
{
    troupe_instance *instance;
    int64_t start = bench_now_ns();
    troupe_must(
        troupe_model_open_stored(net, ref->text, NULL, &instance, .repository = repository));
    double ms = (double)(bench_now_ns() - start) / 1e6;
    const net *it = troupe_model_self(net, instance);
    if (it->weights[it->count - 1] != (float)(it->count - 1))
        bench_die("repository: the weights are others");
    troupe_model_close(&instance);
    return ms;
}

static void print(const char *row, bench_samples *times)
{
    printf("%s ", row);
    bench_round_print(bench_round_of(times));
}

static void measure(const char *row, int64_t bytes, int count)
{
    char repository[1100], run[1100];
    bench_samples pushes, opens;
    troupe_result *result = train(bytes);
    snprintf(repository, sizeof repository, "%s/models", folder);
    snprintf(run, sizeof run, "%s/net", folder);
    bench_samples_open(&pushes, (size_t)count);
    bench_samples_open(&opens, (size_t)count);
    for (int i = 0; i <= count; i++) {
        troupe_model_ref ref;
        double pushed = push(troupe_result_checkpoint(result), repository, &ref);
        double opened = open_it(repository, &ref);
        if (i > 0) { // The first push makes the repository.
            bench_samples_add(&pushes, pushed);
            bench_samples_add(&opens, opened);
        }
        troupe_must(troupe_repository_delete(ref.text, .repository = repository));
    }
    print(row, strncmp(row, "repository.push.", 16) == 0 ? &pushes : &opens);
    bench_samples_close(&pushes);
    bench_samples_close(&opens);
    troupe_result_free(&result);
    bench_remove(repository);
    bench_remove(run);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        bench_die("usage: repository FOLDER quick|full ROW...");
    folder = argv[1];
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE));
    for (int i = 3; i < argc; i++) {
        int64_t bytes = strtoll(strrchr(argv[i], '.') + 1, NULL, 10);
        bool is_quick = strcmp(argv[2], "quick") == 0;
        measure(argv[i], bytes, is_quick ? 1 : bytes < 5000000 ? 20 : bytes < 50000000 ? 10 : 3);
    }
    return troupe_stop();
}
