// actors.c: `troupe actors`: the actors of a node: where they live, what they do, and what they
// wait for. The node's driver is asked, which asks its processes.
#include "troupe.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

enum { MOST_DEFAULT = 10000 };

typedef struct settings {
    size_t most;
    int pid; // 0: the one node that there is.
    bool json, all;
} settings;

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe actors [OPTION...] [PID]\n\n"
        "Lists the actors of a node, those with the most messages waiting first. PID is any of\n"
        "the node's processes; it may be left out if this machine has one node of yours.\n\n"
        "  -a, --all      also looks at nodes of other users, if PID is left out\n"
        "  -n, --most N   lists N actors of each process at most (default %d)\n"
        "  --json         prints all of it as one JSON object\n",
        MOST_DEFAULT);
}

static const char *state_name(int32_t state)
{
    static const char *const names[] = {"resting", "busy", "waiting", "ending", "restarting"};
    return state >= 0 && (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static int busiest_first(const void *one, const void *other)
{
    const troupe_actor_info *a = one, *b = other;
    if (a->waiting != b->waiting)
        return a->waiting < b->waiting ? 1 : -1;
    if (a->calls != b->calls)
        return a->calls < b->calls ? 1 : -1;
    return strcmp(text_of(a->label), text_of(b->label));
}

static void print_actor(const troupe_actor_info *it)
{
    printf("%-28.28s %8d %-10s %8" PRIu32 " %10" PRIu64 " %9s %8" PRIu32 " %s", text_of(it->label),
           it->pid, state_name(it->state), it->waiting, it->calls, tool_time(it->cpu_s).text,
           it->restarts, text_of(it->waits_for));
    if (it->state == TROUPE_ACTOR_RESTARTING)
        printf(" in %s", tool_time(it->restart_in_s).text);
    printf("\n");
}

static void print_list(const troupe_actor_list *list, const troupe_actor_info *sorted, int pid)
{
    printf("node of process %d: %zu actor%s\n", pid, list->total, list->total == 1 ? "" : "s");
    if (list->silent > 0)
        printf("%zu process%s did not answer: what lives there is missing\n", list->silent,
               list->silent == 1 ? "" : "es");
    if (list->actors.count == 0)
        return;
    printf("\n%-28s %8s %-10s %8s %10s %9s %8s %s\n", "actor", "pid", "state", "messages", "calls",
           "cpu", "restarts", "waits for");
    for (size_t i = 0; i < list->actors.count; i++)
        print_actor(&sorted[i]);
    if (list->actors.count < list->total)
        printf("(%zu of %zu; -n lists more)\n", list->actors.count, list->total);
}

static void print_json(const troupe_actor_list *list, const troupe_actor_info *sorted, int pid)
{
    printf("{\"pid\": %d, \"total\": %zu, \"silent\": %zu,\n \"actors\": [", pid, list->total,
           list->silent);
    for (size_t i = 0; i < list->actors.count; i++) {
        const troupe_actor_info *it = &sorted[i];
        printf("%s\n  {", i > 0 ? "," : "");
        tool_print_quoted("label", it->label);
        printf(", ");
        tool_print_quoted("class", it->class_name);
        printf(", \"process\": %" PRIu32 ", \"pid\": %d, ", it->address.process, it->pid);
        tool_print_quoted("state", state_name(it->state));
        printf(", \"waiting\": %" PRIu32 ", \"calls\": %" PRIu64
               ", \"cpu_s\": %.6f, \"restarts\": %" PRIu32 ", ",
               it->waiting, it->calls, it->cpu_s, it->restarts);
        tool_print_quoted("waits_for", it->waits_for);
        printf(", \"restart_in_s\": %.3f}", it->restart_in_s);
    }
    printf("]}\n");
}

// False: it ends with *status.
static bool read_settings(int argc, char **argv, settings *given, int *status)
{
    enum { JSON = 256 };
    static const struct option options[] = {{"most", required_argument, NULL, 'n'},
                                            {"all", no_argument, NULL, 'a'},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    long number;
    *status = TOOL_MISUSED;
    for (int option; (option = getopt_long(argc, argv, "an:h", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            *status = TOOL_DONE;
            return false;
        }
        if (option == '?') {
            usage(stderr);
            return false;
        }
        if (option == 'n' && !tool_read_number("actors", optarg, 1, &number))
            return false;
        if (option == 'n')
            given->most = (size_t)number;
        given->all = given->all || option == 'a';
        given->json = given->json || option == JSON;
    }
    if (optind < argc && !tool_read_number("actors", argv[optind], 1, &number))
        return false;
    if (optind < argc)
        given->pid = (int)number;
    if (optind + 1 < argc) {
        usage(stderr);
        return false;
    }
    return true;
}

int tool_actors(int argc, char **argv)
{
    settings given = {.most = MOST_DEFAULT};
    troupe_actor_list list;
    int status;
    if (!read_settings(argc, argv, &given, &status))
        return status;
    status = tool_choose_node("actors", &given.pid, given.all);
    if (status != TOOL_DONE)
        return status;
    if (troupe_actors_list_with(
            &list, sizeof list,
            &(troupe_actors_list_options){.size = sizeof(troupe_actors_list_options),
                                          .most = given.most,
                                          .pid = given.pid}) != TROUPE_OK) {
        fprintf(stderr, "troupe actors: %s\n", troupe_last_error()->text);
        return TOOL_FAILED;
    }
    size_t bytes = list.actors.count * sizeof *list.actors.items;
    troupe_actor_info *sorted = malloc(bytes > 0 ? bytes : 1);
    if (sorted == NULL) {
        fprintf(stderr, "troupe actors: no memory for %zu actors\n", list.actors.count);
        return TOOL_FAILED;
    }
    if (bytes > 0)
        memcpy(sorted, list.actors.items, bytes);
    qsort(sorted, list.actors.count, sizeof *sorted, busiest_first);
    if (given.json)
        print_json(&list, sorted, given.pid);
    else
        print_list(&list, sorted, given.pid);
    free(sorted);
    troupe_arena_reset();
    return TOOL_DONE;
}
