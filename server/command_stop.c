// command_stop.c: `troupe stop`: has jobs of the train server end.
#include <getopt.h>
#include <inttypes.h>
#include <server/ask.h>
#include <stdio.h>

static void use_stop(FILE *out)
{
    fprintf(out,
            "usage: troupe stop [--now] JOB...\n\n"
            "Has jobs of the train server end: those that wait at once, those that run at the\n"
            "next report that no rank has passed. JOB is a number or a key.\n\n"
            "  --now         kills them: they lose what was not saved\n");
}

static const char *outcome(const trp_wire_answer *answer, bool now)
{
    if (answer->text != NULL && answer->text[0] != '\0')
        return answer->text; // It has ended.
    return now ? "is killed" : "is to stop";
}

int program_stop(int argc, char **argv)
{
    static const struct option options[] = {
        {"now", no_argument, NULL, 'n'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool now = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option != 'n') {
            use_stop(option == 'h' ? stdout : stderr);
            return option == 'h' ? PROGRAM_DONE : PROGRAM_MISUSED;
        }
        now = true;
    }
    if (optind == argc) {
        use_stop(stderr);
        return PROGRAM_MISUSED;
    }
    trp_asker asker;
    bool runs;
    int result = trp_asker_open(&asker, "troupe stop", true, &runs);
    for (int i = optind; result != PROGRAM_FAILED && i < argc; i++) {
        trp_wire_answer answer;
        trp_wire_wish what = {.of = trp_job_named(argv[i]),
                              .wish = now ? TRP_WISH_KILL : TRP_WISH_STOP,
                              .number = now ? TROUPE_CANCELLED : 0,
                              .text = now ? "killed by `troupe stop --now`" : NULL};
        if (trp_asker_wish(&asker, &what, &answer))
            printf("job %" PRId64 " %s\n", answer.job, outcome(&answer, now));
        else
            result = PROGRAM_FAILED;
    }
    trp_asker_close(&asker);
    return result;
}
