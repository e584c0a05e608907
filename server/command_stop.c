// command_stop.c: `troupe stop`: has jobs of the train server end.
#include <getopt.h>
#include <inttypes.h>
#include <server/ask.h>
#include <stdio.h>

static void use_stop(FILE *out)
{
    fprintf(out,
            "usage: troupe stop [OPTION...] JOB...\n\n"
            "Has jobs of the train server end: those that wait at once, those that run at the\n"
            "next report that no rank has passed. JOB is a number or a key.\n\n"
            "  --now         kills them: they lose what was not saved\n"
            "  --json        prints what came of each as a JSON array\n");
}

int program_stop(int argc, char **argv)
{
    static const struct option options[] = {{"now", no_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool now = false, json = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            use_stop(stdout);
            return PROGRAM_DONE;
        }
        if (option == '?')
            return program_misused("troupe stop", use_stop, NULL);
        now = now || option == 'n';
        json = json || option == 'j';
    }
    if (optind == argc)
        return program_misused("troupe stop", use_stop, "no job is named");
    trp_asker asker;
    bool runs;
    int result = trp_asker_open(&asker, "troupe stop", true, &runs);
    bool asked = result == PROGRAM_DONE; // Each of them, also where one of them is not there.
    trp_wish_list list = {.json = json};
    for (int i = optind; asked && i < argc; i++) {
        trp_wire_wish what = {.of = trp_job_named(argv[i]),
                              .wish = now ? TRP_WISH_KILL : TRP_WISH_STOP,
                              .number = now ? TROUPE_CANCELLED : 0,
                              .text = now ? "killed by `troupe stop --now`" : NULL};
        if (!trp_asker_wish(&asker, &what, argv[i], now ? "is killed" : "is to stop", &list))
            result = PROGRAM_FAILED;
    }
    if (asked)
        trp_wish_list_end(&list);
    trp_asker_close(&asker);
    return result;
}
