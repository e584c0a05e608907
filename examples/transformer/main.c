// main.c: transformer: trains a network on the licences of this system, or on any other text, and
// lets it write some of its own. A run that was interrupted goes on when it is started again.
#include "model.h"

#include <digits/random.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 1024 }; // Characters that the sample's next one depends on.

typedef struct command {
    const char *text, *storage;
    long epochs, ranks, seed, sample;
} command;

static const char usage[] =
    "usage: transformer [option...]\n"
    "  --text PATH    a file, or a folder of files (default " CORPUS_STANDARD ")\n"
    "  --epochs N     passes over the text (default 3)\n"
    "  --ranks N      worker processes (default 2)\n"
    "  --seed N       of the first weights, the order of the text, and what is written (default "
    "1)\n"
    "  --sample N     characters to write in the end (default 400)\n"
    "  --storage DIR  folder for the run and its checkpoints (default runs); a run that is there\n"
    "                 goes on as it began\n";

static troupe_status read_command(int argc, char **argv, command *cmd)
{
    static const struct option options[] = {
        {"text", required_argument, NULL, 't'},   {"epochs", required_argument, NULL, 'n'},
        {"ranks", required_argument, NULL, 'r'},  {"seed", required_argument, NULL, 's'},
        {"sample", required_argument, NULL, 'c'}, {"storage", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    *cmd = (command){CORPUS_STANDARD, "runs", 3, 2, 1, 400};
    int option, which = 0;
    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        long *number = option == 'n'   ? &cmd->epochs
                       : option == 'r' ? &cmd->ranks
                       : option == 's' ? &cmd->seed
                                       : &cmd->sample;
        char *end = NULL;
        switch (option) {
        case 't':
            cmd->text = optarg;
            break;
        case 'd':
            cmd->storage = optarg;
            break;
        case 'h':
        case '?':
            fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? troupe_stop() : 2);
        default:
            *number = strtol(optarg, &end, 10);
            if (end == optarg || *end || *number < (option != 'c') || *number > 1000000)
                return troupe_fail(TROUPE_INVALID, "--%s is '%s', must be a number up to 1000000",
                                   options[which].name, optarg);
        }
    }
    if (optind < argc)
        return troupe_fail(TROUPE_INVALID, "'%s' is no option; see --help", argv[optind]);
    return TROUPE_OK;
}

static void show(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)user;
    (void)job;
    double loss = 0, epoch = 0;
    for (size_t i = 0; i < event->count; i++) {
        if (strcmp(event->metrics[i].name, "loss") == 0)
            loss = event->metrics[i].value;
        else if (strcmp(event->metrics[i].name, "epoch") == 0)
            epoch = event->metrics[i].value;
    }
    printf("epoch %6.2f  loss %.3f  %5.1f s\n", epoch, loss, event->elapsed_s);
    fflush(stdout);
}

// A character drawn with the probabilities that the scores give, the likelier ones preferred.
static char draw(const float *scores, uint64_t *random)
{
    const float temperature = 0.7f;
    float chances[CORPUS_CHARACTERS], left = random_between(random, 0, 1);
    for (int i = 0; i < CORPUS_CHARACTERS; i++)
        chances[i] = scores[i] / temperature;
    softmax(chances, CORPUS_CHARACTERS);
    for (int i = 0; i < CORPUS_CHARACTERS; i++)
        if ((left -= chances[i]) < 0)
            return (char)i;
    return '\n';
}

// Prints `count` characters, each drawn as the last ones before it say.
static troupe_status write_text(troupe_instance *writer, long count, uint64_t random)
{
    size_t context = (size_t)troupe_model_config_of(transformer, writer)->context;
    uint16_t window[WINDOW_MAX] = {'\n'};
    if (context > WINDOW_MAX)
        context = WINDOW_MAX;
    for (size_t known = 1; count > 0; count--) {
        troupe_tensor x = troupe_tensor_of(TROUPE_UINT16, window, 1, known), y;
        TROUPE_TRY(troupe_model_forward(writer, &x, &y));
        char next = draw(y.data, &random);
        putchar(next);
        if (known == context)
            memmove(window, window + 1, --known * sizeof *window);
        window[known++] = (uint16_t)next;
        troupe_arena_reset();
    }
    putchar('\n');
    return TROUPE_OK;
}

static troupe_status train(const command *cmd, troupe_result **result)
{
    transformer_config config = troupe_defaults(transformer);
    config.seed = config.fitting.seed = (uint64_t)cmd->seed;
    config.fitting.epochs = cmd->epochs;
    const corpus_source source = {cmd->text, config.context};
    troupe_follower follower = {.size = sizeof follower, .report = show};
    troupe_job *job = NULL;
    TROUPE_TRY(troupe_submit(
        transformer, &config, &follower, &job, .ranks = (int)cmd->ranks, .cpus_per_rank = 0.5,
        .data = troupe_data_with(corpus, &source), .storage = cmd->storage, .name = "transformer",
        .keep = 1, .open = TROUPE_OPEN_RESUME_OR_NEW, .restarts = 3, .checkpoint_every = 5));
    troupe_status status = troupe_job_wait(job, TROUPE_FOREVER, result);
    troupe_job_close(&job);
    if (status == TROUPE_OK && troupe_result_status(*result) != TROUPE_OK)
        status = troupe_fail(troupe_result_status(*result), "%s", troupe_result_error(*result));
    return status;
}

// Trains, makes the network anew from the checkpoint alone, and has it write.
static troupe_status demonstrate(const command *cmd, troupe_result **result)
{
    troupe_instance *writer;
    TROUPE_TRY(train(cmd, result));
    TROUPE_TRY(troupe_model_open(transformer, troupe_result_checkpoint(*result), NULL, &writer));
    putchar('\n');
    troupe_status status = write_text(writer, cmd->sample, (uint64_t)cmd->seed);
    troupe_model_close(&writer);
    return status;
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));
    command cmd;
    troupe_result *result = NULL;
    troupe_status status = read_command(argc, argv, &cmd);
    if (status == TROUPE_OK)
        status = demonstrate(&cmd, &result);
    if (status != TROUPE_OK) {
        fflush(stdout);
        fprintf(stderr, "transformer: %s\n", troupe_last_error()->text);
    }
    troupe_result_free(&result);
    int stopped = troupe_stop();
    return status == TROUPE_OK ? stopped : 1;
}
