// tune_results.c: `troupe tune best` and `export`: what the trials of a sweep have reported.
#include "troupe.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>

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

// ---- best

static bool read_goal(const char *command, const char *given, troupe_goal *goal)
{
    bool least = strcmp(given, "min") == 0 || strcmp(given, "minimize") == 0;
    bool most = strcmp(given, "max") == 0 || strcmp(given, "maximize") == 0;
    *goal = least ? TROUPE_MINIMIZE : TROUPE_MAXIMIZE;
    if (!least && !most)
        fprintf(stderr, "troupe tune %s: --goal is \"%s\": expected min or max\n", command, given);
    return least || most;
}

static bool read_scope(const char *command, const char *given, troupe_scope *scope)
{
    static const char *const names[] = {[TROUPE_SCOPE_ALL] = "all",
                                        [TROUPE_SCOPE_LAST] = "last",
                                        [TROUPE_SCOPE_AVG] = "avg",
                                        [TROUPE_SCOPE_LAST_5_AVG] = "last-5-avg",
                                        [TROUPE_SCOPE_LAST_10_AVG] = "last-10-avg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(given, names[i]) == 0) {
            *scope = (troupe_scope)i;
            return true;
        }
    fprintf(stderr,
            "troupe tune %s: --scope is \"%s\": expected all, last, avg, last-5-avg or "
            "last-10-avg\n",
            command, given);
    return false;
}

bool tool_tune_by(const char *command, int option, const char *given, troupe_best_options *how)
{
    if (option == 'm')
        how->metric = given;
    return option == 'g'   ? read_goal(command, given, &how->goal)
           : option == 's' ? read_scope(command, given, &how->scope)
                           : option == 'm';
}

int tool_tune_best(int argc, char **argv)
{
    static const struct option options[] = {TOOL_TUNE_BY, {NULL, 0, NULL, 0}};
    const char *takes = "[--metric NAME] [--goal min|max] [--scope SCOPE] DIR";
    troupe_best_options how = {.size = sizeof how};
    bool given = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1; given = true)
        if (!tool_tune_by("best", option, optarg, &how))
            return misused("best", takes);
    if (optind + 1 != argc)
        return misused("best", takes);
    troupe_best_trial best;
    if (troupe_best_trial_get_by_with(argv[optind], &best, sizeof best, given ? &how : NULL) !=
        TROUPE_OK)
        return failed("best");
    if (given)
        fprintf(stderr, "trial %d, value %g\n", best.number, best.value);
    printf("%s\n", best.config);
    return TOOL_DONE;
}

// ---- export

static int export_to(const char *folder, const char *file, const troupe_export_options *how)
{
    troupe_results *results;
    if (troupe_results_open(folder, &results) != TROUPE_OK)
        return failed("export");
    FILE *out = file != NULL ? fopen(file, "we") : stdout;
    int ends = TOOL_DONE;
    if (out == NULL) {
        fprintf(stderr, "troupe tune export: %s cannot be written: %s\n", file, strerror(errno));
        ends = TOOL_FAILED;
    } else if (troupe_results_export_with(results, out, how) != TROUPE_OK) {
        ends = failed("export");
    }
    if (file != NULL && out != NULL && fclose(out) != 0 && ends == TOOL_DONE) {
        fprintf(stderr, "troupe tune export: %s cannot be written: %s\n", file, strerror(errno));
        ends = TOOL_FAILED;
    }
    troupe_results_free(&results);
    return ends;
}

int tool_tune_export(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"csv", no_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},
        {"reports", no_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    const char *takes = "[--csv | --json] [--reports] [-o FILE] DIR", *file = NULL;
    troupe_export_options how = {.size = sizeof how};
    for (int option; (option = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        if (option == 'o')
            file = optarg;
        else if (option == 'c' || option == 'j')
            how.format = option == 'j' ? TROUPE_EXPORT_JSON : TROUPE_EXPORT_CSV;
        else if (option == 'r')
            how.reports = true;
        else
            return misused("export", takes);
    }
    if (optind + 1 != argc)
        return misused("export", takes);
    return export_to(argv[optind], file, &how);
}
