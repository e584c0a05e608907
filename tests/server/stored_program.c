// stored_program.c: the program of test_stored that has a model: trains it, and pushes it with and
// without a copy of itself. Nobody else knows the model.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(slope_config, (double, rate), (int64_t, step_us), (bool, fails), (troupe_text, label),
              (troupe_text, path), (troupe_fitting, fitting));
TROUPE_STRUCT(slope_state, (double, value));
typedef struct slope {
    double value, rate;
    const slope_config *config;
    bool trains;
} slope;

// A line in the file of the test: a rank begins, or ends. One write, so that lines stay whole.
static void witness(const char *what)
{
    const char *path = getenv("STORED_WITNESS");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    char line[80];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int size = snprintf(line, sizeof line, "%s %lld %d\n", what,
                        (long long)now.tv_sec * 1000000000 + now.tv_nsec, (int)getpid());
    if (fd >= 0 && write(fd, line, (size_t)size) != size)
        abort();
    if (fd >= 0)
        close(fd);
}

// Waits until as many ranks have begun as the test wishes.
static void await_others(void)
{
    enum { LONGEST_MS = 20000 };
    const char *path = getenv("STORED_WITNESS"), *wished = getenv("STORED_TOGETHER");
    long least = wished ? strtol(wished, NULL, 10) : 0;
    for (int i = 0, begun = 0; path && begun < least && i < LONGEST_MS; i++) {
        char text[4096];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read(fd, text, sizeof text) : 0;
        if (fd >= 0)
            close(fd);
        begun = 0;
        for (ssize_t at = 0; at < size; at++)
            begun += text[at] == '+';
        usleep(1000);
    }
}

static troupe_status slope_setup(slope *self, const slope_config *config, troupe_use *use)
{
    self->config = config;
    self->rate = config->rate / use->world;
    self->trains = use->purpose == TROUPE_FOR_TRAINING;
    if (self->trains) {
        witness("+");
        await_others();
    }
    return TROUPE_OK;
}

static void slope_deinit(slope *self)
{
    if (self->trains)
        witness("-");
}

static troupe_status slope_forward(slope *self, const troupe_tensor *x, troupe_tensor *y)
{
    double *out = troupe_arena_alloc(x->shape[0] * sizeof *out);
    for (size_t i = 0; out && i < x->shape[0]; i++)
        out[i] = self->value * ((const double *)x->data)[i];
    *y = troupe_tensor_of(TROUPE_FLOAT64, out, x->shape[0]);
    return out ? TROUPE_OK : TROUPE_NO_MEMORY;
}

static troupe_status slope_train_step(slope *self, troupe_rank *me, const troupe_batch *batch)
{
    troupe_tensor points;
    double gradient = 0, loss = 0;
    TROUPE_TRY(troupe_column(batch, "point", TROUPE_FLOAT64, 2, &points));
    for (const double *at = points.data, *end = at + 2 * batch->rows; at < end; at += 2) {
        double error = self->value * at[0] - at[1];
        gradient += error * at[0], loss += error * error;
    }
    if (self->config->fails)
        return troupe_fail(TROUPE_FAILED, "it was to fail");
    if (self->config->step_us > 0)
        usleep((useconds_t)self->config->step_us);
    troupe_note(me, "loss", loss);
    troupe_note(me, "rate", self->config->rate * (double)batch->rows);
    TROUPE_TRY(troupe_allreduce(me, &gradient, 1, TROUPE_SUM));
    self->value -= self->rate * gradient;
    return TROUPE_OK;
}

static troupe_status slope_save(slope *self, slope_state *state)
{
    state->value = self->value;
    return TROUPE_OK;
}

static troupe_status slope_load(slope *self, const slope_state *state)
{
    self->value = state->value;
    return TROUPE_OK;
}

TROUPE_MODEL(slope, slope_config, slope_state, slope_setup, slope_forward,
             .train_step = slope_train_step, .save = slope_save, .load = slope_load,
             .deinit = slope_deinit, .input = {TROUPE_FLOAT64, 0, {0}}, .open_texts = "label",
             .defaults = {.rate = 0.05, .fitting = {.epochs = 3, .batch = 4}});

TROUPE_SPACE(slope, TROUPE_CHOICE_TEXT(slope_config, label, "small", "any"),
             TROUPE_LOG_UNIFORM(slope_config, rate, 1e-4, 0.05),
             TROUPE_CHOICE(slope_config, fitting.batch, 4, 6),
             TROUPE_ONLY_WHEN_TEXT(slope_config, fitting.batch, label, "any"),
             TROUPE_FIXED(slope_config, fitting.epochs, 2),
             TROUPE_CHOICE(troupe_train_options, ranks, 1, 2));

TROUPE_STRUCT(points_source, (double, slope), (int, count));

static troupe_status points_setup(troupe_data *data, const points_source *source)
{
    double values[64];
    for (int i = 0; i < source->count && i < 32; i++) {
        values[2 * i] = 1 + i % 3;
        values[2 * i + 1] = source->slope * values[2 * i];
    }
    troupe_tensor tensor = troupe_tensor_of(TROUPE_FLOAT64, values, (size_t)source->count, 2);
    return troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
                               troupe_from_tensor("point", troupe_put(troupe_tensor, &tensor)));
}
TROUPE_DATA(points, points_source, points_setup);

static void must(troupe_status status, const char *what)
{
    if (status == TROUPE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, troupe_last_error()->text);
    exit(1);
}

// Says that it waits, and who it is, by a file beside that one.
static void wait_while_it_is_there(const char *path)
{
    char said[4096];
    if (!path || access(path, F_OK) != 0)
        return;
    (void)snprintf(said, sizeof said, "%s.waits", path);
    FILE *file = fopen(said, "we");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0)
        abort();
    while (access(path, F_OK) == 0)
        usleep(1000);
}

// stored_program push STORAGE: slope@1 with the program, bare@1 without it.
int main(int argc, char **argv)
{
    const points_source source = {.slope = 2, .count = 12};
    slope_config config = troupe_defaults(slope);
    troupe_result *result;
    if (argc > 3 && strcmp(argv[1], "early") == 0) { // It never gets to its start a second time.
        if (access(argv[3], F_OK) == 0)
            return argc > 4 ? atoi(argv[4]) : 7;
        close(open(argv[3], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    const char *alone = getenv("STORED_ALONE");
    if (alone && access(alone, F_OK) == 0)
        setenv("TROUPE_SERVER", "none", 1);
    if (getenv("STORED_CLOSES"))
        closefrom(3);
    wait_while_it_is_there(getenv("STORED_WAITS"));
    must(troupe_start(argc, argv), "start");
    if (argc < 3)
        return 2;
    must(troupe_train(slope, &config, &result, .data = troupe_data_with(points, &source),
                      .storage = argv[2], .console = TROUPE_CONSOLE_OFF,
                      .server = TROUPE_SERVER_NONE),
         "train");
    const char *checkpoint = troupe_result_checkpoint(result);
    troupe_status status =
        troupe_push(slope, "slope", checkpoint, NULL, .keep_program = true,
                    .data = troupe_data_with(points, &source), .alias = "production");
    must(status, "push");
    must(troupe_push(slope, "bare", checkpoint, NULL), "push");
    must(troupe_push(slope, "served", checkpoint, NULL, .keep_program = true), "push");
    troupe_own_space none = {.size = sizeof none, .trainer = &troupe_trainer_slope};
    troupe_space_register(&none); // It has no space any more.
    must(troupe_push(slope, "spaceless", checkpoint, NULL, .keep_program = true,
                     .data = troupe_data_with(points, &source)),
         "push");
    troupe_result_free(&result);
    return troupe_stop();
}
