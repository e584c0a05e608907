// report.c: `troupe report`: what a run has done, as an HTML page.
#include "troupe.h"

#include <getopt.h>
#include <stdio.h>
#include <troupe.h>

static void usage(FILE *out)
{
    fprintf(out, "usage: troupe report [OPTION...] RUN\n\n"
                 "Writes a page of the run in the folder RUN, and prints where. The run may be\n"
                 "running, or have been killed.\n\n"
                 "  -o, --output FILE  where the page is put (default: RUN/report.html)\n");
}

int tool_report(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *file = NULL;
    for (int option; (option = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (option == 'o')
            file = optarg;
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? TOOL_DONE : TOOL_MISUSED;
        }
    }
    if (optind + 1 != argc) {
        usage(stderr);
        return TOOL_MISUSED;
    }
    if (troupe_run_report(argv[optind], file) != TROUPE_OK) {
        fprintf(stderr, "troupe report: %s\n", troupe_last_error()->text);
        return TOOL_FAILED;
    }
    if (file != NULL)
        printf("%s\n", file);
    else
        printf("%s/report.html\n", argv[optind]);
    return TOOL_DONE;
}
