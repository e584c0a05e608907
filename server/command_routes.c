// command_routes.c: `troupe routes`: the services that run, as the gateway knows them, or without
// it as they say themselves.
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/printable.h>
#include <runtime/codec/json.h>
#include <server/ask.h>
#include <server/gateway.h>
#include <server/track_http.h>
#include <server/web.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ROUTES_MAX = 256 };

TROUPE_STRUCT(shown_canary, (troupe_text, version), (double, weight));
// What a description and the gateway have of it.
TROUPE_STRUCT(shown_route, (troupe_text, route), (troupe_text, model), (troupe_text, version),
              (troupe_text, socket), (shown_canary, canary), (int, replicas), (int, pid),
              (uint64_t, answered), (uint64_t, failed), (uint64_t, refused), (double, p50_s),
              (double, p99_s));

typedef struct listing {
    trp_path state;
    trp_arena arena;
    trp_buffer text;
    bool gateway; // Its counts are there.
    shown_route routes[ROUTES_MAX];
    bool served[ROUTES_MAX];
    size_t count;
} listing;

static void usage(FILE *out)
{
    fprintf(out, "usage: troupe routes [OPTION...]\n\n"
                 "Lists the services that have a route: what they serve, and how they are asked.\n"
                 "Requests and times are those of the gateway.\n\n"
                 "  --json  prints them as a JSON array\n");
}

// ---- where they are known from

static bool read_token(const char *state, char token[100])
{
    trp_path path;
    if (trp_path_make(&path, "%s/token", state) != TROUPE_OK)
        return false;
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, token, 99) : -1;
    if (fd >= 0)
        close(fd);
    token[got > 0 ? got : 0] = '\0';
    token[strcspn(token, "\r\n")] = '\0';
    return token[0] != '\0';
}

static bool ask_gateway(listing *it)
{
    char base[TRP_GATEWAY_LINK_MAX], url[TRP_GATEWAY_LINK_MAX + 20], token[100];
    int code = 0;
    if (trp_gateway_url(it->state.text, base) != TROUPE_OK || !read_token(it->state.text, token))
        return false;
    (void)snprintf(url, sizeof url, "%s/api/v1/routes", base);
    const track_request request = {.url = url, .token = token, .direct = true};
    if (track_http(&request, &code, &it->text) != TROUPE_OK)
        return false;
    if (code == 200)
        return true;
    trp_buffer_free(&it->text);
    return false;
}

static troupe_status read_files(listing *it)
{
    const trp_web_options how = {.state = it->state.text};
    const trp_web_request request = {.method = "GET", .path = "/api/v1/routes", .admin = true};
    trp_web_reply reply;
    trp_web *web;
    TROUPE_TRY(trp_web_open(&how, &web));
    trp_web_answer(web, &request, &reply);
    trp_web_close(web);
    it->text = reply.body;
    return reply.status == 200
               ? TROUPE_OK
               : troupe_fail(TROUPE_IO, "the routes in %s cannot be read", it->state.text);
}

// Whether a process listens there: files of one that was killed stay.
static bool listens(const listing *it, const shown_route *route)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int size = route->socket == NULL ? -1
               : route->socket[0] == '/'
                   ? snprintf(name.sun_path, sizeof name.sun_path, "%s", route->socket)
                   : snprintf(name.sun_path, sizeof name.sun_path, "%s/routes/%s", it->state.text,
                              route->socket);
    if (size <= 0 || (size_t)size >= sizeof name.sun_path)
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool there = fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

static troupe_status read_routes(listing *it)
{
    trp_json document, routes, item = {0};
    it->gateway = ask_gateway(it);
    if (!it->gateway)
        TROUPE_TRY(read_files(it));
    TROUPE_TRY(trp_json_parse((const char *)it->text.data, it->text.size, &document));
    if (!trp_json_member(document, "routes", &routes))
        return troupe_fail(TROUPE_MALFORMED, "the gateway answered no routes");
    while (it->count < ROUTES_MAX && trp_json_next_item(routes, &item)) {
        shown_route *route = &it->routes[it->count];
        *route = (shown_route){0};
        if (trp_json_read(&troupe_type_shown_route, item, &it->arena, route) != TROUPE_OK ||
            route->route == NULL)
            continue; // It is no description.
        it->served[it->count++] = listens(it, route);
    }
    return TROUPE_OK;
}

// ---- what is shown

static const char *state_of(const listing *it, size_t i)
{
    return it->served[i] ? "serving" : "gone";
}

static void print_seconds(char text[20], double seconds)
{
    if (seconds <= 0)
        (void)snprintf(text, 20, "-");
    else
        (void)snprintf(text, 20, "%.3g ms", seconds * 1e3);
}

// What a service says of itself may have anything in it.
static const char *printable(const char *text, char out[100])
{
    (void)trp_printable_copy(text, strlen(text), out, 100);
    return out;
}

static void print_table(const listing *it)
{
    if (it->count == 0) {
        printf("no service has a route in %s\n", it->state.text);
        return;
    }
    printf("%-20s %-24s %-24s %8s %10s %9s %9s  %s\n", "ROUTE", "VERSION", "CANARY", "REPLICAS",
           "REQUESTS", "P50", "P99", "STATE");
    for (size_t i = 0; i < it->count; i++) {
        const shown_route *at = &it->routes[i];
        char canary[120] = "-", requests[24] = "-", replicas[16] = "-", p50[20], p99[20];
        char name[100], number[100], other[100];
        const char *version = at->version != NULL && at->version[0] != '\0' ? at->version
                              : at->model != NULL                           ? at->model
                                                                            : "-";
        if (at->canary.version != NULL)
            (void)snprintf(canary, sizeof canary, "%s %.3g %%",
                           printable(at->canary.version, other), at->canary.weight * 100);
        if (it->gateway)
            (void)snprintf(requests, sizeof requests, "%" PRIu64, at->answered + at->failed);
        if (at->replicas > 0)
            (void)snprintf(replicas, sizeof replicas, "%d", at->replicas);
        print_seconds(p50, at->p50_s);
        print_seconds(p99, at->p99_s);
        printf("%-20s %-24s %-24s %8s %10s %9s %9s  %s\n", printable(at->route, name),
               printable(version, number), canary, replicas, requests, p50, p99, state_of(it, i));
    }
    if (!it->gateway)
        printf("no gateway answers: requests are not known\n");
}

static void add_text(trp_buffer *out, const char *name, const char *text)
{
    trp_buffer_printf(out, ", \"%s\": ", name);
    trp_json_text(out, text);
}

// Neither tokens nor where sockets are.
static void print_json(const listing *it)
{
    trp_buffer out = {0};
    trp_buffer_append(&out, "[", 1);
    for (size_t i = 0; i < it->count; i++) {
        const shown_route *at = &it->routes[i];
        trp_buffer_printf(&out, "%s{\"state\": \"%s\"", i > 0 ? ",\n " : "", state_of(it, i));
        add_text(&out, "route", at->route);
        add_text(&out, "model", at->model);
        add_text(&out, "version", at->version);
        trp_buffer_printf(&out, ", \"replicas\": %d, \"pid\": %d, \"canary\": ", at->replicas,
                          at->pid);
        if (at->canary.version != NULL)
            trp_json_value(&out, &troupe_type_shown_canary, &at->canary);
        else
            trp_buffer_printf(&out, "null");
        if (it->gateway) {
            trp_buffer_printf(&out,
                              ", \"answered\": %" PRIu64 ", \"failed\": %" PRIu64
                              ", \"refused\": %" PRIu64 ", \"p50_s\": ",
                              at->answered, at->failed, at->refused);
            trp_json_number(&out, at->p50_s);
            trp_buffer_printf(&out, ", \"p99_s\": ");
            trp_json_number(&out, at->p99_s);
        }
        trp_buffer_append(&out, "}", 1);
    }
    printf("%.*s]\n", (int)out.size, (const char *)out.data);
    trp_buffer_free(&out);
}

int program_routes(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    static listing it;
    bool json = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return PROGRAM_DONE;
        }
        if (option == '?')
            return program_misused("troupe routes", usage, NULL);
        json = true;
    }
    if (optind < argc)
        return program_misused("troupe routes", usage, "expected options alone, found \"%s\"",
                               argv[optind]);
    troupe_status status = trp_state_folder_find(&it.state);
    if (status == TROUPE_OK)
        status = trp_state_folder_check(it.state.text);
    if (status == TROUPE_OK)
        status = read_routes(&it);
    if (status == TROUPE_NOT_FOUND) // Nothing was there ever.
        status = TROUPE_OK;
    if (status != TROUPE_OK)
        fprintf(stderr, "troupe routes: %s\n", troupe_last_error()->text);
    else if (json)
        print_json(&it);
    else
        print_table(&it);
    trp_buffer_free(&it.text);
    trp_arena_clear(&it.arena);
    return status == TROUPE_OK ? PROGRAM_DONE : PROGRAM_FAILED;
}
