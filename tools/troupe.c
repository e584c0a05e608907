// troupe.c: the program `troupe`: looking at nodes of this machine from outside,
// runs of programs and reports of runs, models, keys, and workers that are loaded.
#include "troupe.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>

typedef struct subcommand {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} subcommand;

static const subcommand subcommands[] = {
    {"actors", "the actors of a node, and what they do", tool_actors},
    {"jobs", "the jobs of the train server: what they do, or why they wait", tool_pass},
    {"keys", "makes a cluster's keys; reads and writes certificates of CZMQ", tool_keys},
    {"logs", "what the ranks of a job of the train server have printed", tool_pass},
    {"memory", "the objects in a node's store, and the processes that hold them", tool_memory},
    {"models", "a repository of models: versions, aliases, export and import", tool_models},
    {"modify", "changes a job of the train server: priority, ranks, live values", tool_pass},
    {"predict", "asks a service over HTTP for predictions", tool_predict},
    {"report", "a run as an HTML page: its metrics, restarts and checkpoints", tool_report},
    {"routes", "the services that run, and how they are asked", tool_pass},
    {"serve", "serves a version of a repository of models under a route", tool_serve},
    {"server", "the train server of this user: start, stop, status, gc", tool_pass},
    {"stop", "has jobs of the train server end", tool_pass},
    {"submit", "gives a training run of a program to the train server", tool_submit},
    {"train", "runs a program on each rank of a training run, as torchrun does", tool_train},
    {"tune", "search for a program's best arguments; what a sweep has found", tool_tune},
    {"worker", "becomes a worker of a node (run by nodes alone)", tool_worker},
};
enum { COUNT = sizeof subcommands / sizeof *subcommands };

static void list(FILE *out)
{
    fprintf(out, "usage: troupe COMMAND [OPTION...]\n"
                 "       troupe --version | --help\n\n");
    for (int i = 0; i < COUNT; i++)
        fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    fprintf(out, "\ntroupe COMMAND --help lists a command's options.\n");
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "";
    char name[40];
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(wanted, subcommands[i].name) != 0)
            continue;
        if (subcommands[i].run != tool_pass) { // What getopt_long begins its sentences with.
            snprintf(name, sizeof name, "troupe %s", wanted);
            argv[1] = name;
        }
        return subcommands[i].run(argc - 1, argv + 1);
    }
    if (strcmp(wanted, "--version") == 0 || strcmp(wanted, "-V") == 0) {
        int version = troupe_version(); // Of the library that runs.
        printf("troupe %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
        return TOOL_DONE;
    }
    bool asked =
        strcmp(wanted, "--help") == 0 || strcmp(wanted, "-h") == 0 || strcmp(wanted, "help") == 0;
    if (!asked && wanted[0] != '\0')
        fprintf(stderr, "troupe: there is no command \"%s\": `troupe --help` lists them\n", wanted);
    else
        list(asked ? stdout : stderr);
    return asked ? TOOL_DONE : TOOL_MISUSED;
}
