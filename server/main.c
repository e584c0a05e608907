// main.c: the program `troupe-server`: the train server, and the commands that ask it.
#include <server/program.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"gateway", program_gateway}, {"jobs", program_jobs},       {"logs", program_logs},
    {"modify", program_modify},   {"predict", program_predict}, {"routes", program_routes},
    {"server", program_server},   {"stop", program_stop},       {"track", program_track},
};
enum { COUNT = sizeof commands / sizeof *commands };

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "";
    char name[40];
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(wanted, commands[i].name) != 0)
            continue;
        (void)snprintf(name, sizeof name, "troupe %s", wanted);
        argv[1] = name; // What getopt_long begins its sentences with.
        return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "usage: troupe COMMAND [OPTION...], which runs this program where the command "
                    "is one of the train server's\n");
    return PROGRAM_MISUSED;
}
