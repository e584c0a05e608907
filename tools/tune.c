// tune.c: `troupe tune`: a sweep over a program, and what a sweep or a study has found.
#include "troupe.h"

#include <stdio.h>
#include <string.h>

typedef struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
} subcommand;

static const subcommand subcommands[] = {
    {"best", tool_tune_best},
    {"export", tool_tune_export},
    {"report", tool_tune_report},
    {"train-best", tool_tune_train_best},
};

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe tune [OPTION...] FILE -- PROGRAM [ARGUMENT...]\n"
        "       troupe tune [OPTION...] --model REF FILE\n"
        "       troupe tune report [-o FILE] DIR\n"
        "       troupe tune best [--metric NAME] [--goal min|max] [--scope SCOPE] DIR\n"
        "       troupe tune export [--csv | --json] [--reports] [-o FILE] DIR\n"
        "       troupe tune train-best [--metric NAME] [--goal min|max] [--scope SCOPE]\n"
        "                              DIR [--model REF] [-- OPTION...]\n\n"
        "The first searches for the arguments with which a program does best, or the settings\n"
        "of a version of a repository of models; troupe tune --help FILE has its options.\n\n"
        "DIR is the folder of a sweep, or the file of a study; it may be running.\n\n"
        "report writes a page: history, which parameters mattered, curves and trials.\n"
        "best prints the config of the best trial as JSON. train-best trains once more with\n"
        "it, as the run `best` in DIR: a version of a repository of models as troupe-train(1)\n"
        "does, which OPTIONs are for; the trainer of the program that began the sweep, which\n"
        "is started again for it; or the command that the trials were.\n"
        "export writes a table of the trials: their state, config, last and best values.\n\n"
        "  -o, --output FILE  where the page is put (default: DIR/report.html), or the table\n"
        "      --metric NAME  the best by another metric than the sweep's, which needs --goal\n"
        "      --goal GOAL    min or max\n"
        "      --scope SCOPE  which reports of a trial count: all (the best of them), last, avg,\n"
        "                     last-5-avg, last-10-avg\n"
        "      --csv, --json  how the table is written (default: CSV)\n"
        "      --reports      the table has every report of each trial\n"
        "      --model REF    the version; of train-best by default that of the sweep\n");
}

int tool_tune(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (strcmp(wanted, subcommands[i].name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    bool asked = strcmp(wanted, "--help") == 0 || strcmp(wanted, "-h") == 0;
    if (argc > 2 || (wanted[0] != '\0' && !asked))
        return tool_tune_run(argc, argv);
    usage(asked ? stdout : stderr);
    return asked ? TOOL_DONE : TOOL_MISUSED;
}
