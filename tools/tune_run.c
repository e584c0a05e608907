// tune_run.c: `troupe tune FILE -- PROGRAM`: a sweep over a program that knows nothing of Troupe,
// or over a version of a repository of models.
#include "troupe.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { LOOK_MS = 100, FILE_MAX = 16 << 20 };

typedef struct settings {
    const char *file, *model; // A ref; NULL: a program is run.
    troupe_tune_options how;
    troupe_train_options train;
    bool json, quiet, verbose;
} settings;

static bool say_usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe tune [OPTION...] FILE -- PROGRAM [ARGUMENT...]\n"
        "       troupe tune [OPTION...] --model REF FILE\n\n"
        "Searches for the arguments with which a program does best. FILE (- is standard\n"
        "input) says what is searched and how, as JSON:\n\n"
        "  {\"space\": {\"lr\": {\"log_uniform\": [1e-4, 1]}, \"width\": {\"integer\": [8, 64]}},\n"
        "   \"metric\": \"loss\", \"goal\": \"minimize\", \"trials\": 50,\n"
        "   \"scheduler\": {\"asha\": {\"reduction\": 3, \"limit\": 27}}}\n\n"
        "In arguments {lr} is a trial's value. The program prints its metrics as lines of\n"
        "JSON, as {\"loss\": 0.5}. Ctrl-C stops the sweep in order, a second one ends it at\n"
        "once. troupe-tune(1) has the rest.\n\n"
        "      --model REF     tunes this version of a repository of models by the program\n"
        "                      that was kept with it; without a space, over its own\n"
        "  -n, --trials N      how many configurations are tried\n"
        "  -j, --concurrent N  how many of them at a time (default: as many as fit)\n"
        "      --name NAME     of the sweep's folder (default: of the program or its script);\n"
        "                      where there is one, NAME_1 and so on\n"
        "      --storage DIR   folder of all runs (default ~/troupe_results)\n"
        "      --seed N        for the draws (default 1)\n"
        "      --cpus N        reserved for each trial (default 1)\n"
        "      --server        the trials are jobs of the train server\n"
        "      --resume        the sweep of that name goes on\n"
        "  -q, --quiet         no table while it runs\n"
        "  -v, --verbose       shows what the trials print\n"
        "      --json          prints the best config alone\n");
    return false;
}

static volatile sig_atomic_t signals;

static void take_signal(int number)
{
    (void)number;
    signals++;
    if (signals > 1)
        _exit(TOOL_STOPPED);
}

static bool read_cpus(const char *given, double *cpus)
{
    char *end;
    *cpus = strtod(given, &end);
    if (end != given && *end == '\0' && *cpus > 0)
        return true;
    fprintf(stderr, "troupe tune: --cpus is \"%s\": expected a number above 0\n", given);
    return false;
}

enum { NAME = 256, STORAGE, SEED, CPUS, SERVER, RESUME, JSON, MODEL };

static bool take_text(settings *is, int option, const char *given)
{
    switch (option) {
    case NAME:
        is->how.name = given;
        return true;
    case STORAGE:
        is->train.storage = given;
        return true;
    case MODEL:
        is->model = given;
        return true;
    default:
        return read_cpus(given, &is->train.cpus_per_rank);
    }
}

// False: the command line is wrong, and it has been said.
static bool take(settings *is, int option, const char *given)
{
    long number = 0;
    bool counts = option == 'n' || option == 'j' || option == SEED;
    if (counts && !tool_read_number("tune", given, 1, &number))
        return false;
    switch (option) {
    case 'n':
        is->how.trials = (int)number;
        return true;
    case 'j':
        is->how.concurrent = (int)number;
        return true;
    case SEED:
        is->how.seed = (uint64_t)number;
        return true;
    case SERVER:
        is->how.server = TROUPE_SERVER_AUTO;
        return true;
    case RESUME:
        is->how.open = TROUPE_OPEN_RESUME;
        return true;
    case 'q':
        is->quiet = true;
        return true;
    case 'v':
        is->verbose = true;
        return true;
    case JSON:
        is->json = true;
        return true;
    default:
        return take_text(is, option, given);
    }
}

// Those up to what is none, or behind --. False: it ends with *status.
static bool read_options(int argc, char **argv, settings *is, int *status)
{
    static const struct option options[] = {
        {"trials", required_argument, NULL, 'n'}, {"concurrent", required_argument, NULL, 'j'},
        {"name", required_argument, NULL, NAME},  {"storage", required_argument, NULL, STORAGE},
        {"seed", required_argument, NULL, SEED},  {"cpus", required_argument, NULL, CPUS},
        {"server", no_argument, NULL, SERVER},    {"resume", no_argument, NULL, RESUME},
        {"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, 'v'},
        {"json", no_argument, NULL, JSON},        {"model", required_argument, NULL, MODEL},
        {"help", no_argument, NULL, 'h'},         {0}};
    *status = TOOL_MISUSED;
    for (int option; (option = getopt_long(argc, argv, "+n:j:qvh", options, NULL)) != -1;) {
        if (option == 'h' || option == '?') {
            *status = option == 'h' ? TOOL_DONE : TOOL_MISUSED;
            return say_usage(option == 'h' ? stdout : stderr);
        }
        if (!take(is, option, optarg))
            return false;
    }
    return true;
}

// False: it ends with *status.
static bool read_settings(int argc, char **argv, settings *is, int *status)
{
    if (!read_options(argc, argv, is, status))
        return false;
    is->file = optind < argc ? argv[optind++] : NULL;
    if (is->file != NULL && !read_options(argc, argv, is, status))
        return false;
    if (is->file != NULL && (optind < argc) == (is->model == NULL))
        return true;
    return say_usage(stderr);
}

// The caller's to free; NULL: it has been said why.
static char *read_file(const char *name)
{
    errno = 0;
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    char *text = file != NULL ? malloc(FILE_MAX + 1) : NULL;
    size_t size = text != NULL ? fread(text, 1, FILE_MAX, file) : 0;
    bool good = text != NULL && !ferror(file) && feof(file);
    if (!good && (file == NULL || ferror(file)))
        fprintf(stderr, "troupe tune: %s cannot be read: %s\n", name, strerror(errno));
    else if (!good)
        fprintf(stderr, "troupe tune: %s has more than %d bytes\n", name, FILE_MAX);
    if (file != NULL && file != stdin)
        fclose(file);
    if (!good) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

static troupe_status follow(troupe_sweep *sweep)
{
    troupe_status status;
    bool stopping = false;
    while ((status = troupe_sweep_wait(sweep, LOOK_MS)) == TROUPE_TIMED_OUT) {
        if (signals > 0 && !stopping)
            troupe_sweep_stop(sweep);
        stopping = signals > 0;
    }
    return status;
}

static int tell(const settings *is, const troupe_sweep *sweep, troupe_status status)
{
    char failure[512];
    snprintf(failure, sizeof failure, "%s", troupe_last_error()->text);
    const troupe_trial *best = troupe_sweep_best(sweep);
    const char *config = troupe_sweep_best_json(sweep);
    bool began = config != NULL || status == TROUPE_OK || status == TROUPE_FAILED;
    if (!is->json && began && (is->quiet || !isatty(STDOUT_FILENO))) // A terminal has it already.
        troupe_sweep_print(sweep, stdout);
    if (config != NULL && is->json)
        printf("%s\n", config);
    else if (config != NULL)
        printf("best: %s, %g with %s\n", best->name, best->best_metric, config);
    if (status == TROUPE_OK && config != NULL)
        return signals > 0 ? TOOL_STOPPED : TOOL_DONE;
    bool stopped = status == TROUPE_OK && signals > 0;
    fprintf(stderr, "troupe tune: %s\n",
            status != TROUPE_OK ? failure
            : stopped           ? "it was stopped before a trial had a value of the metric"
                                : "no trial that did not fail has a value of the metric");
    return stopped ? TOOL_STOPPED : TOOL_FAILED;
}

int tool_tune_run(int argc, char **argv)
{
    settings is = {.how.size = sizeof is.how, .train.size = sizeof is.train};
    int ends;
    if (!read_settings(argc, argv, &is, &ends))
        return ends;
    char *json = read_file(is.file);
    if (json == NULL)
        return TOOL_FAILED;
    // E08: a sweep shows the sweep.
    troupe_output shown = is.verbose ? TROUPE_OUTPUT_NAMED : TROUPE_OUTPUT_LOGGED;
    if (troupe_start(0, NULL, .worker_output = shown) !=
        TROUPE_OK) { // Where a server has started it, it does the job.
        fprintf(stderr, "troupe tune: %s\n", troupe_last_error()->text);
        free(json);
        return TOOL_FAILED;
    }
    struct sigaction act = {.sa_handler = take_signal, .sa_flags = SA_RESTART};
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    is.how.train = &is.train;
    is.how.progress = is.quiet || is.json ? NULL : stdout;
    troupe_sweep *sweep;
    troupe_status status =
        is.model != NULL ? troupe_tune_model_with(json, is.model, &sweep, &is.how)
                         : troupe_tune_program_with(json, (const char *const *)(argv + optind),
                                                    (size_t)(argc - optind), &sweep, &is.how);
    free(json);
    if (status == TROUPE_OK) {
        status = follow(sweep);
        ends = tell(&is, sweep, status);
        troupe_sweep_free(&sweep);
    } else {
        bool of_file = status == TROUPE_MALFORMED || status == TROUPE_WRONG_TYPE;
        fprintf(stderr, "troupe tune: %s%s%s\n", of_file ? is.file : "", of_file ? ": " : "",
                troupe_last_error()->text);
        ends = TOOL_FAILED;
    }
    (void)troupe_stop();
    return ends;
}
