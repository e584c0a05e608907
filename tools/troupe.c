// troupe.c: the program `troupe`: looking at nodes of this machine from outside.
#include "troupe.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct subcommand {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} subcommand;

static const subcommand subcommands[] = {
    {"memory", "what a node's object store holds, and for whom", tool_memory},
};
enum { COUNT = sizeof subcommands / sizeof *subcommands };

static void list(FILE *out)
{
    fprintf(out, "usage: troupe COMMAND [OPTION...]\n\n");
    for (int i = 0; i < COUNT; i++)
        fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    fprintf(out, "\ntroupe COMMAND --help lists a command's options.\n");
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "";
    for (int i = 0; i < COUNT; i++)
        if (strcmp(wanted, subcommands[i].name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    bool asked =
        strcmp(wanted, "--help") == 0 || strcmp(wanted, "-h") == 0 || strcmp(wanted, "help") == 0;
    list(asked ? stdout : stderr);
    if (!asked && wanted[0] != '\0')
        fprintf(stderr, "there is no command \"%s\"\n", wanted);
    return asked ? TOOL_DONE : TOOL_MISUSED;
}
