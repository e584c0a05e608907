// main.c: digits: searches for the settings with which a network reads handwritten digits best,
// each trial trained by a group of worker processes, and tries the winner on images that no trial
// saw. On the way it kills a process of each trial that gets half way, which costs nothing
// but the time to restart. The winner can be served then.
#include "data.h"
#include "model.h"
#include "serve.h"
#include "sets.h"

#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char standard_data[] = "build/data/digits.csv.gz";
// What the standard data must give; other data set their own standard.
static const double accuracy_min = 0.96;
enum { CHANNELS = 8 };

typedef struct command {
    const char *data;
    bool standard; // No other data were named.
    int trials, epochs, workers;
    uint64_t seed;
    const char *storage;
    const char *network;
    int serve_s;        // How long the best network is served; -1: not.
    const char *socket; // Where, beside HTTP; NULL: nowhere.
} command;

static const char usage[] =
    "usage: digits [option...]\n"
    "  --data PATH    a CSV file (8 x 8 pixels 0..16, label), or a folder of MNIST's IDX files,\n"
    "                 plain or gzipped (default: $TROUPE_DIGITS_CSV or build/data/digits.csv.gz)\n"
    "  --trials N     configurations to try (default 16)\n"
    "  --epochs N     passes over the training images, at most (default 54)\n"
    "  --workers N    worker processes a trial (default 2)\n"
    "  --seed N       of the search, the data's division and the training (default 1)\n"
    "  --network KIND perceptron, convolution, or both: half of the trials each (default both)\n"
    "  --storage DIR  folder for runs, checkpoints and models (default runs)\n"
    "  --serve N      pushes the best network into a repository, serves it from there, asks it\n"
    "                 for the test images, and keeps it for N seconds, for curl (default: not)\n"
    "  --socket FILE  serves at this unix socket, too: in `routes` of a train server's state\n"
    "                 folder, its gateway serves what is there\n";

// Reads the number given to the option `name`, which must be `low` to `high`.
static troupe_status read_number(const char *name, const char *text, long low, long high,
                                 long *number)
{
    char *end;
    *number = strtol(text, &end, 10);
    if (end == text || *end || *number < low || *number > high)
        return troupe_fail(TROUPE_INVALID, "--%s is '%s', must be a number from %ld to %ld", name,
                           text, low, high);
    return TROUPE_OK;
}

static troupe_status read_option(int option, const char *name, command *cmd)
{
    long number = 0;
    switch (option) {
    case 'd':
        cmd->data = optarg;
        cmd->standard = false;
        return TROUPE_OK;
    case 'o':
        cmd->storage = optarg;
        return TROUPE_OK;
    case 'n':
        cmd->network = optarg;
        if (strcmp(optarg, "perceptron") == 0 || strcmp(optarg, "convolution") == 0 ||
            strcmp(optarg, "both") == 0)
            return TROUPE_OK;
        return troupe_fail(TROUPE_INVALID,
                           "--network is '%s', must be perceptron, convolution or both", optarg);
    case 'k':
        cmd->socket = optarg;
        return TROUPE_OK;
    case 't':
        TROUPE_TRY(read_number(name, optarg, 1, 10000, &number));
        cmd->trials = (int)number;
        return TROUPE_OK;
    case 'e':
        TROUPE_TRY(read_number(name, optarg, 1, 10000, &number));
        cmd->epochs = (int)number;
        return TROUPE_OK;
    case 'v':
        TROUPE_TRY(read_number(name, optarg, 0, 86400, &number));
        cmd->serve_s = (int)number;
        return TROUPE_OK;
    case 'w':
        TROUPE_TRY(read_number(name, optarg, 1, 64, &number));
        cmd->workers = (int)number;
        return TROUPE_OK;
    default:
        // A row of the space holds a double, which is exact up to 2^53.
        TROUPE_TRY(read_number(name, optarg, 1, 1L << 53, &number));
        cmd->seed = (uint64_t)number;
        return TROUPE_OK;
    }
}

static troupe_status read_command(int argc, char **argv, command *cmd)
{
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'},
        {"trials", required_argument, NULL, 't'},
        {"epochs", required_argument, NULL, 'e'},
        {"workers", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 's'},
        {"storage", required_argument, NULL, 'o'},
        {"network", required_argument, NULL, 'n'},
        {"serve", required_argument, NULL, 'v'},
        {"socket", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *from_environment = getenv("TROUPE_DIGITS_CSV");
    *cmd = (command){
        .data = from_environment ? from_environment : standard_data,
        .standard = true,
        .trials = 16,
        .epochs = 54,
        .workers = 2,
        .seed = 1,
        .storage = "runs",
        .network = "both",
        .serve_s = -1,
    };
    int option, which = 0;
    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        if (option == 'h' || option == '?') {
            fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? troupe_stop() : 2);
        }
        TROUPE_TRY(read_option(option, options[which].name, cmd));
    }
    if (optind < argc)
        return troupe_fail(TROUPE_INVALID, "'%s' is no option; see digits --help", argv[optind]);
    return TROUPE_OK;
}

// A worker's reservation: small enough for two trials at a time on a small machine, never above one
// CPU.
static double cpus_per_worker(int workers)
{
    cpu_set_t mine;
    double cpus = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
    double fair = cpus / (2.0 * workers);
    return fair < 1 ? fair : 1;
}

// The accident: the last process of a trial is killed, which then goes on from its last checkpoint
// with the bits of an undisturbed one.
static troupe_gate_answer strike(void *user, troupe_job *job, const troupe_report_event *event,
                                 int *ranks)
{
    (void)user;
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    int known = (int)(sizeof now.pids / sizeof *now.pids);
    int victim = (*ranks < known ? *ranks : known) - 1;
    if (now.pids[victim] > 0) {
        troupe_log(TROUPE_LOG_INFO, "digits kills rank %d (pid %d) of %s at report %d", victim,
                   now.pids[victim], strrchr(troupe_job_path(job), '/') + 1, event->number);
        kill(now.pids[victim], SIGKILL);
    }
    return TROUPE_GATE_GO_ON;
}

static troupe_status search(command *cmd, const digits *data, const digits_sets *sets,
                            troupe_sweep **sweep)
{
    // Of the convolution: none of a perceptron; both kinds, or twice the same.
    double first = strcmp(cmd->network, "convolution") == 0 ? CHANNELS : 0;
    double second = strcmp(cmd->network, "perceptron") == 0 ? 0 : CHANNELS;
    // What has no row here is the model's default.
    const troupe_param space[] = {
        TROUPE_LOG_UNIFORM(reader_config, rate, 0.01, 0.3),
        TROUPE_CHOICE(reader_config, channels, first, second),
        TROUPE_CHOICE(reader_config, hidden, 64, 128, 256),
        TROUPE_CHOICE(reader_config, fitting.batch, 32, 64, 128),
        TROUPE_FIXED(reader_config, fitting.epochs, cmd->epochs),
        TROUPE_FIXED(reader_config, fitting.seed, (double)cmd->seed),
        TROUPE_FIXED(reader_config, width, (double)data->width),
        TROUPE_FIXED(reader_config, height, (double)data->height),
        TROUPE_FIXED(reader_config, brightest, data->brightest),
    };
    // Asked once a trial, since no report is delivered twice, and never at the last one.
    const troupe_gate *half_way = TROUPE_OPTIONS(troupe_gate, .first = cmd->epochs / 2 + 1,
                                                 .every = INT_MAX, .decide = strike, .user = cmd);
    return troupe_tune(reader, space, sweep, .metric = READER_METRIC, .goal = TROUPE_MAXIMIZE,
                       .trials = cmd->trials, .seed = cmd->seed, .name = "digits",
                       .scheduler = troupe_asha(.grace = cmd->epochs > 1 ? 2 : 1, .reduction = 3,
                                                .limit = cmd->epochs),
                       .progress = stdout, .columns = READER_METRIC,
                       .train = TROUPE_OPTIONS(troupe_train_options, .ranks = cmd->workers,
                                               .cpus_per_rank = cpus_per_worker(cmd->workers),
                                               .storage = cmd->storage, .keep = 1, .restarts = 1,
                                               .gate = cmd->epochs > 2 ? half_way : NULL,
                                               .data = troupe_data_with(digits_data, sets)));
}

typedef struct examination {
    double accuracy;
    int table[DIGITS_CLASSES][DIGITS_CLASSES]; // How often a digit (row) got an answer (column).
} examination;

// Has an instance read the test images.
static troupe_status read_test(troupe_instance *instance, const digits *data, examination *result)
{
    size_t count = data->test.count, right = 0;
    uint8_t *images = troupe_arena_alloc(count * data->inputs);
    uint8_t *labels = troupe_arena_alloc(count);
    if (!images || !labels)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu images", count);
    digits_copy(data, &data->test, images, labels);
    troupe_tensor x = troupe_tensor_of(TROUPE_UINT8, images, count, data->height, data->width);
    troupe_tensor y;
    TROUPE_TRY(troupe_model_forward(instance, &x, &y));
    for (size_t i = 0; i < count; i++) {
        uint8_t answer = ((const uint8_t *)y.data)[i];
        result->table[labels[i]][answer]++;
        right += answer == labels[i];
    }
    result->accuracy = (double)right / (double)count;
    return TROUPE_OK;
}

// Rebuilds the network from a checkpoint and examines it.
static troupe_status examine(const char *checkpoint, const digits *data, examination *result)
{
    troupe_instance *instance;
    TROUPE_TRY(troupe_model_open(reader, checkpoint, NULL, &instance));
    troupe_status status = read_test(instance, data, result);
    troupe_model_close(&instance);
    return status;
}

static void print_examination(const examination *result)
{
    printf("\nTest images: a row for each true digit, a column for each answer\n      ");
    for (int answer = 0; answer < DIGITS_CLASSES; answer++)
        printf("%5d", answer);
    for (int label = 0; label < DIGITS_CLASSES; label++) {
        printf("\n%5d ", label);
        for (int answer = 0; answer < DIGITS_CLASSES; answer++)
            printf("%5d", result->table[label][answer]);
    }
    printf("\n\n");
}

// A page of the sweep, whose folder has those of its trials.
static troupe_status report_sweep(const char *trial)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(trial, '/') - trial), trial);
    TROUPE_TRY(troupe_sweep_report(folder, NULL));
    printf("The sweep's report: %s/report.html\n"
           "To train the best again: troupe tune train-best %s\n",
           folder, folder);
    return TROUPE_OK;
}

// Searches, and has the best network of all trials sit the final test.
static troupe_status demonstrate(command *cmd, const digits *data, const digits_sets *sets,
                                 troupe_sweep **sweep)
{
    printf("%s: %zu images of %zu x %zu pixels: %zu to learn from, %zu to compare trials, %zu for "
           "the final test\n",
           cmd->data, data->count, data->width, data->height, data->train.count,
           data->validation.count, data->test.count);
    fflush(stdout);
    TROUPE_TRY(search(cmd, data, sets, sweep));
    troupe_sweep_print(*sweep, stdout);
    const troupe_trial *best = troupe_sweep_best(*sweep);
    const char *checkpoint = best ? troupe_result_best_checkpoint(best->result) : NULL;
    if (!checkpoint)
        return troupe_fail(TROUPE_NOT_FOUND, "no trial has left a checkpoint");

    examination result = {0};
    TROUPE_TRY(examine(checkpoint, data, &result));
    const reader_config *config = best->config;
    printf("\nBest trial %s: rate %.3g, channels %lld, hidden %lld, batch %lld\n"
           "Validation accuracy: %.4f at its best report, %.4f at its last\n"
           "Checkpoint of the best report: %s\n",
           best->name, config->rate, (long long)config->channels, (long long)config->hidden,
           (long long)config->fitting.batch, best->best_metric,
           troupe_result_metric(best->result, READER_METRIC), checkpoint);
    print_examination(&result);
    TROUPE_TRY(troupe_run_report(troupe_result_path(best->result), NULL));
    printf("Restarts of the best trial: %d\nIts report, for a browser: %s/report.html\n",
           troupe_result_restarts(best->result), troupe_result_path(best->result));
    TROUPE_TRY(report_sweep(troupe_result_path(best->result)));
    if (cmd->serve_s >= 0)
        TROUPE_TRY(digits_serve(checkpoint, data, cmd->storage, cmd->serve_s, cmd->socket));
    printf("demo: test accuracy %.4f, %zu trials (%zu stopped early), %.1f s\n", result.accuracy,
           troupe_sweep_count(*sweep), troupe_sweep_stopped(*sweep),
           troupe_sweep_elapsed_s(*sweep));
    if (cmd->standard && result.accuracy < accuracy_min)
        return troupe_fail(TROUPE_FAILED,
                           "the test accuracy %.4f is below %.2f, which these data allow",
                           result.accuracy, accuracy_min);
    return TROUPE_OK;
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    command cmd;
    digits data = {0};
    digits_sets sets = {0};
    troupe_sweep *sweep = NULL;
    troupe_status status = read_command(argc, argv, &cmd);
    if (status == TROUPE_OK)
        status = digits_load(cmd.data, cmd.seed, &data);
    if (status == TROUPE_OK)
        status = digits_sets_put(&data, &sets);
    if (status == TROUPE_OK)
        status = demonstrate(&cmd, &data, &sets, &sweep);
    if (status != TROUPE_OK) {
        fflush(stdout);
        fprintf(stderr, "digits: %s\n", troupe_last_error()->text);
    }
    troupe_sweep_free(&sweep);
    digits_sets_drop(&sets);
    digits_free(&data);
    int stopped = troupe_stop();
    return status == TROUPE_OK ? stopped : 1;
}
