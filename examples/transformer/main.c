// main.c: transformer: trains a network on the licences of this system, or on any other text, and
// lets it write some of its own. A run that was interrupted goes on when it is started again.
#include "trainer.h"

#include <digits/random.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    const char *text, *storage;
    long steps, ranks, seed, sample;
} command;

static const char usage[] =
    "usage: transformer [option...]\n"
    "  --text PATH    a file, or a folder of files (default " CORPUS_STANDARD ")\n"
    "  --steps N      of the training (default 300)\n"
    "  --ranks N      worker processes (default 2)\n"
    "  --seed N       of the first weights, the order of the text, and what is written (default "
    "1)\n"
    "  --sample N     characters to write in the end (default 400)\n"
    "  --storage DIR  folder for the run and its checkpoints (default runs); a run that is there\n"
    "                 goes on as it began\n";

static troupe_status read_command(int argc, char **argv, command *cmd)
{
    static const struct option options[] = {
        {"text", required_argument, NULL, 't'},   {"steps", required_argument, NULL, 'n'},
        {"ranks", required_argument, NULL, 'r'},  {"seed", required_argument, NULL, 's'},
        {"sample", required_argument, NULL, 'c'}, {"storage", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    *cmd = (command){CORPUS_STANDARD, "runs", 300, 2, 1, 400};
    int option, which = 0;
    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        long *number = option == 'n'   ? &cmd->steps
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
    printf("step %5.0f  loss %.3f  %5.1f s\n", event->metrics[1].value, event->metrics[0].value,
           event->elapsed_s);
    fflush(stdout);
}

// A character drawn with the probabilities that the scores give, the likelier ones preferred.
static uint8_t draw(float *scores, uint64_t *random)
{
    const float temperature = 0.7f;
    for (int i = 0; i < CORPUS_CHARACTERS; i++)
        scores[i] /= temperature;
    softmax(scores, CORPUS_CHARACTERS);
    float left = random_between(random, 0, 1);
    for (int i = 0; i < CORPUS_CHARACTERS; i++)
        if ((left -= scores[i]) < 0)
            return (uint8_t)i;
    return '\n';
}

// Has the network of a checkpoint write `count` characters, each seen by those after it.
static troupe_status write_sample(const char *checkpoint, long count, uint64_t random)
{
    transformer_state state;
    transformer_shape shape;
    TROUPE_TRY(troupe_checkpoint_load(transformer_state, checkpoint, 0, &state));
    TROUPE_TRY(transformer_state_shape(&state, &shape));
    transformer_pass *pass = transformer_pass_new(shape, 1);
    uint8_t *window = calloc(shape.context + 1, 1);
    if (!pass || !window) {
        transformer_pass_free(pass);
        free(window);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to write a text");
    }
    window[0] = '\n';
    for (size_t known = 1; count > 0; count--) {
        float *scores = transformer_forward(pass, state.weights.items, window, 1);
        uint8_t next = draw(scores + (known - 1) * CORPUS_CHARACTERS, &random);
        putchar(next);
        if (known == shape.context)
            memmove(window, window + 1, --known);
        window[known++] = next;
    }
    putchar('\n');
    transformer_pass_free(pass);
    free(window);
    return TROUPE_OK;
}

static troupe_status demonstrate(const command *cmd, troupe_result **result)
{
    const transformer_config config = {
        .text = cmd->text,
        .context = 64,
        .width = 128,
        .heads = 4,
        .layers = 4,
        .batch = 32,
        .steps = cmd->steps,
        .report_every = 10,
        .rate = 3e-3,
        .seed = (uint64_t)cmd->seed,
    };
    troupe_follower follower = {.size = sizeof follower, .report = show};
    troupe_job *job = NULL;
    TROUPE_TRY(troupe_submit(fit_transformer, &config, &follower, &job, .ranks = (int)cmd->ranks,
                             .cpus_per_rank = 0.5, .storage = cmd->storage, .name = "transformer",
                             .open = TROUPE_OPEN_RESUME_OR_NEW, .keep = 1, .restarts = 3,
                             .checkpoint_every = 5));
    troupe_status status = troupe_job_wait(job, TROUPE_FOREVER, result);
    troupe_job_close(&job);
    TROUPE_TRY(status);
    if (troupe_result_status(*result) != TROUPE_OK)
        return troupe_fail(troupe_result_status(*result), "%s", troupe_result_error(*result));
    printf("\n");
    return write_sample(troupe_result_checkpoint(*result), cmd->sample, (uint64_t)cmd->seed);
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
