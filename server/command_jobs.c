// command_jobs.c: `troupe jobs`: the jobs of the train server, or all of one.
#include <getopt.h>
#include <runtime/codec/json.h>
#include <server/ask.h>
#include <server/job_table.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "troupe jobs"

static void use_jobs(FILE *out)
{
    fprintf(out,
            "usage: troupe jobs [OPTION...] [JOB]\n\n"
            "Lists the jobs of the train server that wait or run, or says all of one, which is\n"
            "named by its number or key. Without a server their folders are read.\n\n"
            "  -a, --all     also those that have ended\n"
            "  -n, --most N  at most N of them, the newest\n"
            "  --json        prints them as JSON: an array, or of one job an object\n");
}

typedef struct jobs_settings {
    trp_wire_list list;
    bool json;
} jobs_settings;

static int list_jobs(trp_asker *asker, bool runs, const jobs_settings *it)
{
    trp_wire_jobs jobs = {0};
    if (runs && !trp_asker_ask(asker, TRP_WIRE_LIST, &troupe_type_trp_wire_list, &it->list,
                               TRP_WIRE_JOBS, &troupe_type_trp_wire_jobs, &jobs))
        return PROGRAM_FAILED;
    if (!runs &&
        trp_job_folders_read(asker->folder.text, &it->list, &asker->arena, &jobs) != TROUPE_OK)
        return trp_asker_fail(asker);
    if (it->json)
        trp_jobs_print_json(&jobs, stdout);
    else
        trp_job_table_print(&jobs, runs, it->list.ended, stdout);
    return PROGRAM_DONE;
}

static int find_without(trp_asker *asker, const char *which, trp_wire_job *job)
{
    const trp_wire_job_name name = trp_job_named(which);
    const trp_wire_job *found = NULL;
    trp_wire_jobs jobs;
    trp_wire_list all = {.ended = true};
    if (trp_job_folders_read(asker->folder.text, &all, &asker->arena, &jobs) != TROUPE_OK)
        return trp_asker_fail(asker);
    for (size_t i = 0; i < jobs.jobs.count; i++) {
        const trp_wire_job *at = &jobs.jobs.items[i];
        // The newest of the key, unless there is one of the number.
        if (at->job == name.job ||
            (found == NULL && at->key != NULL && strcmp(at->key, which) == 0))
            found = at;
    }
    if (found != NULL) {
        *job = *found;
        return PROGRAM_DONE;
    }
    fprintf(stderr, "%s: there is no job %s in %s\n", asker->command, which, asker->folder.text);
    return PROGRAM_FAILED;
}

static int show_job(trp_asker *asker, bool runs, const jobs_settings *it, const char *which)
{
    trp_wire_job job;
    trp_wire_job_name name = trp_job_named(which);
    if (!runs) {
        int result = find_without(asker, which, &job);
        if (result != PROGRAM_DONE)
            return result;
    } else if (!trp_asker_ask(asker, TRP_WIRE_FIND, &troupe_type_trp_wire_job_name, &name,
                              TRP_WIRE_JOB, &troupe_type_trp_wire_job, &job)) {
        return PROGRAM_FAILED;
    }
    if (it->json)
        trp_job_print_json(&job, stdout);
    else
        trp_job_print(&job, runs, stdout);
    return PROGRAM_DONE;
}

static bool read_most(const char *given, int *most)
{
    char *end;
    long read = strtol(given, &end, 10);
    *most = (int)read;
    return end != given && *end == '\0' && read >= 1 && read <= INT32_MAX;
}

int program_jobs(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"most", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    jobs_settings it = {0};
    for (int option; (option = getopt_long(argc, argv, "an:h", options, NULL)) != -1;) {
        if (option == 'h') {
            use_jobs(stdout);
            return PROGRAM_DONE;
        }
        if (option == '?')
            return program_misused(COMMAND, use_jobs, NULL);
        if (option == 'n' && !read_most(optarg, &it.list.most))
            return program_misused(COMMAND, use_jobs,
                                   "-n is \"%s\", expected a whole number of 1 or more", optarg);
        it.list.ended = it.list.ended || option == 'a';
        it.json = it.json || option == 'j';
    }
    if (argc - optind > 1)
        return program_misused(COMMAND, use_jobs, "expected one job, found also \"%s\"",
                               argv[optind + 1]);
    trp_asker asker;
    bool runs;
    int result = trp_asker_open(&asker, COMMAND, false, &runs);
    if (result == PROGRAM_DONE)
        result = optind < argc ? show_job(&asker, runs, &it, argv[optind])
                               : list_jobs(&asker, runs, &it);
    trp_asker_close(&asker);
    return result;
}
