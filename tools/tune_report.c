// tune_report.c: `troupe tune report` and `train-best`: what came of a sweep.
#include "troupe.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

static int misused(const char *command, const char *takes)
{
    fprintf(stderr, "usage: troupe tune %s %s\n", command, takes);
    return TOOL_MISUSED;
}

static int failed(const char *command)
{
    fprintf(stderr, "troupe tune %s: %s\n", command, troupe_last_error()->text);
    return TOOL_FAILED;
}

int tool_tune_report(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    const char *file = NULL, *takes = "[-o FILE] DIR";
    for (int option; (option = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        if (option != 'o')
            return misused("report", takes);
        file = optarg;
    }
    if (optind + 1 != argc)
        return misused("report", takes);
    if (troupe_sweep_report(argv[optind], file) != TROUPE_OK)
        return failed("report");
    struct stat is;
    if (file != NULL)
        printf("%s\n", file);
    else
        printf("%s%s\n", argv[optind],
               stat(argv[optind], &is) == 0 && S_ISDIR(is.st_mode) ? "/report.html" : ".html");
    return TOOL_DONE;
}

// ---- train-best

// As a trial of the sweep ran it.
static int run_command(const troupe_best_trial *best)
{
    char number[16];
    const char *folder = best->command_folder;
    snprintf(number, sizeof number, "%d", best->number);
    (void)setenv("TROUPE_TRIAL", number, 1);
    (void)setenv("TROUPE_CONFIG", best->config, 1);
    if (folder != NULL && chdir(folder) != 0) {
        fprintf(stderr,
                "troupe tune train-best: %s, where the sweep began, cannot be gone to: %s\n",
                folder, strerror(errno));
        return TOOL_FAILED;
    }
    execvp(best->command[0], (char *const *)(uintptr_t)best->command);
    fprintf(stderr, "troupe tune train-best: %s cannot be run: %s\n", best->command[0],
            strerror(errno));
    return TOOL_FAILED;
}

// As a run of its own in the sweep's folder, unless OPTIONs say otherwise.
static int train_model(const char *model, const char *config, const char *folder, int count,
                       char **more)
{
    struct stat is;
    const char *words[8] = {"train", "--model", model, "--config", config};
    size_t fixed = 5;
    if (stat(folder, &is) == 0 && S_ISDIR(is.st_mode)) {
        words[fixed++] = "--storage";
        words[fixed++] = folder;
        words[fixed++] = "--name=best";
    }
    char **all = calloc(fixed + (size_t)count + 1, sizeof *all);
    if (all == NULL) {
        fprintf(stderr, "troupe tune train-best: no memory\n");
        return TOOL_FAILED;
    }
    memcpy(all, words, fixed * sizeof *all);
    memcpy(all + fixed, more, (size_t)count * sizeof *all);
    optind = 0; // It reads options anew.
    int ends = tool_train((int)fixed + count, all);
    free(all);
    return ends;
}

// Returns on failure alone.
static int train_own(const char *folder, const troupe_best_options *how)
{
    if (troupe_best_trial_exec_by_with(folder, how) != TROUPE_UNSUPPORTED)
        return failed("train-best");
    fprintf(stderr,
            "troupe tune train-best: %s; give a trainer this config yourself, or say --model REF "
            "for a version of a repository\n",
            troupe_last_error()->text);
    return TOOL_FAILED;
}

int tool_tune_train_best(int argc, char **argv)
{
    static const struct option options[] = {
        TOOL_TUNE_BY,
        {"model", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    const char *takes = "[--metric NAME] [--goal min|max] [--scope SCOPE] DIR [--model REF] "
                        "[-- OPTION...]";
    const char *model = NULL, *folder = NULL;
    troupe_best_options by = {.size = sizeof by}, *how = NULL;
    troupe_best_trial best;
    for (int option; (option = getopt_long(argc, argv, "-", options, NULL)) != -1;) {
        if (option == 1 && folder == NULL)
            folder = optarg;
        else if (option == 'r')
            model = optarg;
        else if (tool_tune_by("train-best", option, optarg, &by))
            how = &by;
        else
            return misused("train-best", takes);
    }
    if (folder == NULL)
        return misused("train-best", takes);
    if (troupe_best_trial_get_by_with(folder, &best, sizeof best, how) != TROUPE_OK)
        return failed("train-best");
    fprintf(stderr, "trial %d, value %g: %s\n", best.number, best.value, best.config);
    if (model == NULL)
        model = best.model;
    if (model != NULL)
        return train_model(model, best.config, folder, argc - optind, argv + optind);
    if (optind < argc) {
        fprintf(stderr, "troupe tune train-best: OPTIONs are for a version of a repository\n");
        return TOOL_MISUSED;
    }
    return best.command != NULL ? run_command(&best) : train_own(folder, how);
}
