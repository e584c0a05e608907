// serve.c: `troupe serve`: a version of a repository of models under a route, by the program that
// was kept with it, until a signal comes.
#include "troupe.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe serve [OPTION...] REF ROUTE\n\n"
        "Serves a version of a repository of models, as digits@production, under a route, as\n"
        "/digits, by the program that was kept with it, until SIGINT or SIGTERM. The gateway\n"
        "of the train server finds it, if that runs.\n\n"
        "      --replicas N        processes that have the model (default 1)\n"
        "      --batch N           rows that one is asked at once, at most (default 32)\n"
        "      --config JSON       settings over the version's\n"
        "      --socket FILE       where it listens (default: where the gateway looks)\n"
        "      --http              also at 127.0.0.1, and print address and token\n"
        "      --port N            with --http: there (default: any that is free)\n"
        "  -r, --repository FOLDER the repository (default: as of troupe-models(1))\n"
        "      --json              print an object {\"route\", \"socket\", \"url\", \"token\"}\n");
}

typedef struct settings {
    troupe_serve_options how;
    bool json;
} settings;

enum { REPLICAS = 256, BATCH, CONFIG, SOCKET, HTTP, PORT, JSON };

static bool take(settings *is, int option, const char *given)
{
    long number = 0;
    bool counts = option == REPLICAS || option == BATCH || option == PORT;
    if (counts && !tool_read_number("serve", given, 1, &number))
        return false;
    switch (option) {
    case REPLICAS:
        is->how.replicas = (uint32_t)number;
        return true;
    case BATCH:
        is->how.batch = (uint32_t)number;
        return true;
    case PORT:
        is->how.port = (int)number;
        return true;
    case CONFIG:
        is->how.config = given;
        return true;
    case SOCKET:
        is->how.socket = given;
        return true;
    case HTTP:
        is->how.http = TROUPE_HTTP_LOOPBACK;
        return true;
    case JSON:
        is->json = true;
        return true;
    default:
        is->how.repository = given;
        return true;
    }
}

static void say(const settings *is, const char *route, const troupe_stored_service *service)
{
    troupe_stored_service_where where;
    troupe_stored_service_where_get(service, &where);
    if (!is->json) {
        printf("%s is served at %s\n", route, where.socket);
        if (where.url[0] != '\0')
            printf("%s, Authorization: Bearer %s\n", where.url, where.token);
    } else {
        const char *const members[][2] = {
            {"route", route}, {"socket", where.socket}, {"url", where.url}, {"token", where.token}};
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            printf("%s", i == 0 ? "{" : ", ");
            tool_print_quoted(members[i][0], members[i][1]);
        }
        printf("}\n");
    }
    (void)fflush(stdout);
}

// Until a signal comes, which is 0 then, or the service has died.
static bool await(const sigset_t *signals, const troupe_stored_service *service)
{
    const struct timespec look = {0, 500000000};
    troupe_stored_service_where where;
    troupe_stored_service_where_get(service, &where);
    for (;;) {
        siginfo_t about = {0};
        if (sigtimedwait(signals, NULL, &look) > 0)
            return true;
        if (waitid(P_PID, (id_t)where.pid, &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            about.si_pid != 0)
            return false;
    }
}

static int failed(void)
{
    fprintf(stderr, "troupe serve: %s\n", troupe_last_error()->text);
    return TOOL_FAILED;
}

int tool_serve(int argc, char **argv)
{
    enum { FORCE_AFTER_MS = 30000 };
    static const struct option options[] = {{"replicas", required_argument, NULL, REPLICAS},
                                            {"batch", required_argument, NULL, BATCH},
                                            {"config", required_argument, NULL, CONFIG},
                                            {"socket", required_argument, NULL, SOCKET},
                                            {"http", no_argument, NULL, HTTP},
                                            {"port", required_argument, NULL, PORT},
                                            {"repository", required_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    settings is = {.how = {.size = sizeof is.how}};
    troupe_stored_service *service;
    sigset_t signals;
    for (int option; (option = getopt_long(argc, argv, "r:h", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return TOOL_DONE;
        }
        if (option == '?')
            return tool_misused("serve", usage, NULL);
        if (!take(&is, option, optarg))
            return TOOL_MISUSED;
    }
    if (argc - optind != 2)
        return tool_misused("serve", usage, "expected a version and a route, found %d argument%s",
                            argc - optind, argc - optind == 1 ? "" : "s");
    if (is.how.port > 0 && is.how.http == TROUPE_HTTP_NONE)
        return tool_misused("serve", usage, "--port is of --http, which is not there");
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    if (troupe_serve_stored_with(argv[optind], argv[optind + 1], &service, &is.how) != TROUPE_OK)
        return failed();
    say(&is, argv[optind + 1], service);
    if (!await(&signals, service)) {
        (void)troupe_stored_service_stop(&service, 0);
        fprintf(stderr, "troupe serve: the process of the service has died\n");
        return TOOL_FAILED;
    }
    return troupe_stored_service_stop(&service, FORCE_AFTER_MS) == TROUPE_OK ? TOOL_DONE : failed();
}
