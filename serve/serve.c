// serve.c: the public functions of services, and what their options may be.
#include <actors/call/call.h>
#include <inttypes.h>
#include <models/model.h>
#include <models/repository.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <serve/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/storage.h>
#include <unistd.h>

#undef troupe_service_info_get
#undef troupe_service_stop

#define TRP_STORED_SCHEME "model:"

enum {
    REPLICAS_MAX = 256,
    BATCH_MAX = 1 << 20,
    QUEUE_MAX = 1 << 20,
    DEADLINE_MAX_MS = 86400000,
    BATCH_DEFAULT = 32,
    QUEUE_DEFAULT = 1024,
    DEADLINE_DEFAULT_MS = 30000,
};

static troupe_status check_options(const troupe_serve_options *how)
{
    static const trp_range ranges[] = {
        TRP_RANGE(troupe_serve_options, replicas, 1, REPLICAS_MAX),
        TRP_RANGE(troupe_serve_options, batch, 1, BATCH_MAX),
        TRP_RANGE(troupe_serve_options, queue, 1, QUEUE_MAX),
        TRP_RANGE(troupe_serve_options, deadline_ms, 1, DEADLINE_MAX_MS),
        TRP_RANGE(troupe_serve_options, http, TROUPE_HTTP_NONE, TROUPE_HTTP_LOOPBACK),
        TRP_RANGE(troupe_serve_options, port, 1, UINT16_MAX),
    };
    return trp_ranges_check("troupe_serve", ranges, sizeof ranges / sizeof *ranges, how);
}

static troupe_status check_route(const char *route)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "._-/";
    size_t length = strlen(route);
    if (length < 2 || length > TRP_ROUTE_MAX || route[0] != '/' || strspn(route, allowed) != length)
        return troupe_fail(TROUPE_INVALID,
                           "the route is \"%.140s\", must be \"/\" and 1 to %d letters, digits, "
                           "'.', '_', '-' or '/'",
                           route, TRP_ROUTE_MAX - 1);
    if (strcmp(route, "/healthz") == 0 || strcmp(route, "/metrics") == 0)
        return troupe_fail(TROUPE_INVALID, "the route \"%s\" is the library's own", route);
    return TROUPE_OK;
}

// Replicas may have another working folder.
static troupe_status make_absolute(const char *what, const char *path, char **absolute)
{
    char here[4096];
    bool local = trp_path_is_local(path);
    if (local)
        path = trp_path_local(path);
    if (!local || path[0] == '/' || strncmp(path, "~/", 2) == 0) {
        *absolute = trp_strdup(path);
    } else if (!getcwd(here, sizeof here)) {
        return trp_fail_errno(TROUPE_IO, "the working folder, where %s %.200s is", what, path);
    } else {
        size_t size = strlen(here) + strlen(path) + 2;
        *absolute = (char *)trp_alloc(size);
        if (*absolute)
            (void)snprintf(*absolute, size, "%s/%s", here, path);
    }
    return *absolute ? TROUPE_OK
                     : troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a %s", what);
}

static troupe_status find_socket(const char *path, char **found)
{
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) != 0 || !home)
        return make_absolute("socket", path, found);
    trp_path full;
    TROUPE_TRY(trp_path_make(&full, "%s%s", home, path + 1));
    *found = trp_strdup(full.text);
    return *found ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a socket");
}

// A checkpoint where replicas find it, and what it is called.
typedef struct place_of {
    char *folder; // NULL: there is none.
    char name[TRP_VERSION_NAME];
} place_of;

// "model:digits@production" is the version that is called so now.
static troupe_status find_checkpoint(const troupe_model *model, const char *checkpoint,
                                     const char *repository, place_of *found)
{
    size_t scheme = strlen(TRP_STORED_SCHEME);
    *found = (place_of){0};
    if (!checkpoint)
        return TROUPE_OK;
    if (strncmp(checkpoint, TRP_STORED_SCHEME, scheme) != 0) {
        TROUPE_TRY(make_absolute("checkpoint", checkpoint, &found->folder));
        (void)snprintf(found->name, sizeof found->name, "%.*s", (int)sizeof found->name - 1,
                       found->folder);
        return TROUPE_OK;
    }
    trp_version version;
    const troupe_repository_options in = {.size = sizeof in, .repository = repository};
    TROUPE_TRY(trp_version_of(&in, TRP_TO_READ, checkpoint + scheme, &version));
    TROUPE_TRY(trp_version_check(&version, &model));
    (void)snprintf(found->name, sizeof found->name, "%s@%" PRId64, version.key, version.number);
    found->folder = trp_strdup(version.folder.text);
    return found->folder
               ? TROUPE_OK
               : troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of %s", found->name);
}

troupe_status troupe_serve_as(const troupe_model *model, const char *checkpoint, const char *route,
                              troupe_service *service, const troupe_serve_options *how)
{
    TRP_REQUIRE(model);
    TRP_REQUIRE(route);
    TRP_REQUIRE(service);
    TRP_REQUIRE(how);
    troupe_serve_options full;
    const trp_model *found;
    place_of at;
    char *socket = NULL;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_serve", full, how));
    TROUPE_TRY(check_options(&full));
    TROUPE_TRY(check_route(route));
    TROUPE_TRY(trp_http_check_where(&(trp_http_where){.address = full.http_listen,
                                                      .certificate = full.certificate,
                                                      .key = full.certificate_key}));
    TROUPE_TRY(trp_model_of(model, &found));
    if (full.socket)
        TROUPE_TRY(find_socket(full.socket, &socket));
    troupe_status status = find_checkpoint(model, checkpoint, full.repository, &at);
    const trp_service_how ask = {
        .model = found->table->name,
        .route = route,
        .checkpoint = at.folder,
        .version = at.name,
        .config = full.config,
        .replicas = full.replicas ? full.replicas : 1,
        .batch = full.batch ? full.batch : BATCH_DEFAULT,
        .queue = full.queue ? full.queue : QUEUE_DEFAULT,
        .deadline_ms = full.deadline_ms ? full.deadline_ms : DEADLINE_DEFAULT_MS,
        .repeatable = full.repeatable,
        .http = full.http,
        .port = (uint32_t)full.port,
        .socket = socket,
        .listen = full.http_listen,
        .name = full.http_name,
        .certificate = full.certificate,
        .certificate_key = full.certificate_key,
    };
    if (status == TROUPE_OK)
        status = trp_service_start(&ask, &service->address);
    trp_free(at.folder);
    trp_free(socket);
    return status;
}

static troupe_status make_change(troupe_service service, const char *function,
                                 const char *checkpoint, const troupe_version_options *how,
                                 trp_change_how ask)
{
    TRP_REQUIRE(how);
    troupe_version_options full;
    place_of at = {0};
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_service_state state;
    troupe_status status = TRP_OPTIONS_TAKE(function, full, how);
    if (status == TROUPE_OK)
        status = trp_service_state_of(service.address, &state);
    const troupe_model *model = status == TROUPE_OK ? troupe_model_find(state.model) : NULL;
    (void)trp_arena_swap(before);
    if (status == TROUPE_OK && !model)
        status = troupe_failed_(troupe_last_error()->status);
    if (status == TROUPE_OK)
        status = find_checkpoint(model, checkpoint, full.repository, &at);
    if (status == TROUPE_OK) {
        ask.checkpoint = at.folder;
        ask.version = at.name;
        ask.config = full.config;
        status = trp_service_make_change(service.address, &ask);
    }
    trp_free(at.folder);
    trp_arena_clear(&arena);
    return status;
}

troupe_status troupe_service_roll_with(troupe_service service, const char *checkpoint,
                                       const troupe_version_options *how)
{
    trp_change_how ask = {0};
    return make_change(service, "troupe_service_roll", checkpoint, how, ask);
}

troupe_status troupe_service_canary_with(troupe_service service, const char *checkpoint,
                                         double weight, const troupe_version_options *how)
{
    trp_change_how ask = {.canary = true, .reweigh = !checkpoint || weight <= 0, .weight = weight};
    if (!(weight >= 0 && weight <= 1))
        return troupe_fail(TROUPE_INVALID, "the weight of a canary is %g, must be 0 to 1", weight);
    return make_change(service, "troupe_service_canary", ask.reweigh ? NULL : checkpoint, how, ask);
}

troupe_ref troupe_predict(troupe_service service, const troupe_tensor *x)
{
    return TRP_IS_NULL(x) ? trp_call_failed(TRP_NULL(x)) : trp_service_ask(service.address, x);
}

static void copy_text(char *to, size_t capacity, const char *from)
{
    (void)snprintf(to, capacity, "%s", from ? from : "");
}

static void copy_version(troupe_service_version *to, const trp_version_state *from)
{
    *to = (troupe_service_version){.weight = from->weight,
                                   .replicas_alive = from->alive,
                                   .answered = from->answered,
                                   .failed = from->failed,
                                   .p50_s = from->p50_s,
                                   .p99_s = from->p99_s,
                                   .longest_s = from->longest_s};
    copy_text(to->name, sizeof to->name, from->name);
}

troupe_status troupe_service_info_get(troupe_service service, troupe_service_info *info,
                                      size_t size)
{
    TRP_REQUIRE(info);
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_service_state state;
    troupe_status status = trp_service_state_of(service.address, &state);
    (void)trp_arena_swap(before);
    if (status == TROUPE_OK) {
        troupe_service_info known = {
            .replicas = state.replicas,
            .replicas_alive = state.alive,
            .stopping = state.stopping,
            .queued = state.queued,
            .under_way = state.under_way,
            .answered = state.answered,
            .failed = state.failed,
            .refused = state.refused,
            .batches = state.batches,
            .rows = state.rows,
            .restarts = state.restarts,
            .p50_s = state.p50_s,
            .p99_s = state.p99_s,
            .longest_s = state.longest_s,
            .rolls = state.rolls,
        };
        copy_version(&known.serving, &state.serving);
        copy_version(&known.canary, &state.canary);
        copy_text(known.route, sizeof known.route, state.route);
        copy_text(known.url, sizeof known.url, state.url);
        copy_text(known.token, sizeof known.token, state.token);
        copy_text(known.socket, sizeof known.socket, state.socket);
        trp_output_give(info, size, &known, sizeof known);
    }
    trp_arena_clear(&arena);
    return status;
}

troupe_status troupe_service_stop(troupe_service service, int force_after_ms)
{
    return trp_service_end(service.address, force_after_ms);
}
