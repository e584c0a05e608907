// stored_serve.c: services of versions whose code is another program's: what its program does, and
// who has asked for it. Requests go to the socket that it listens at.
#include <models/stored.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <runtime/codec/tensor.h>
#include <serve/route_client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <train/spec.h>
#include <train/state_folder.h>
#include <troupe/serve.h>
#include <unistd.h>

#undef troupe_service_info_get
#undef troupe_service_stop
#undef troupe_stored_service_where_get

// What is asked for: as troupe_serve_options.
TROUPE_STRUCT(trp_stored_serving, (troupe_text, repository), (troupe_text, ref),
              (troupe_text, route), (uint32_t, replicas), (uint32_t, batch), (troupe_text, config),
              (uint32_t, queue), (uint32_t, deadline_ms), (bool, repeatable), (int, http),
              (int, port), (troupe_text, socket), (troupe_text, listen), (troupe_text, name),
              (troupe_text, certificate), (troupe_text, certificate_key));
// And then, once: its end.
TROUPE_STRUCT(trp_stored_stop, (int, force_after_ms));

// ---- the stored program

static troupe_status say_where(int fd, troupe_service service)
{
    troupe_service_info info;
    TROUPE_TRY(troupe_service_info_get(service, &info, sizeof info));
    const trp_stored_answer answer = {.path = info.socket, .url = info.url, .token = info.token};
    return trp_stored_answer_now(fd, &answer);
}

// Until it is to end, or nobody is there any more.
static void await_stop(int fd, troupe_service service)
{
    enum { LONG_MS = 1 << 30, ALONE_MS = 5000 };
    trp_arena arena = {0};
    trp_stored_stop stop = {.force_after_ms = ALONE_MS};
    while (trp_packet_receive(fd, LONG_MS, &troupe_type_trp_stored_stop, &arena, &stop) ==
           TROUPE_TIMED_OUT)
        trp_arena_clear(&arena);
    trp_arena_clear(&arena);
    troupe_status status = troupe_service_stop(service, stop.force_after_ms);
    const trp_stored_answer ended = {.status = (int)status,
                                     .text = status == TROUPE_OK ? "" : troupe_last_error()->text};
    (void)trp_packet_send(fd, &troupe_type_trp_stored_answer, &ended);
}

static troupe_status serve(int fd, const trp_stored_request *request, trp_arena *arena,
                           trp_stored_answer *answer)
{
    trp_stored_serving asked = {0};
    trp_manifest manifest;
    troupe_service service;
    trp_buffer name = {0};
    (void)answer;
    TROUPE_TRY(trp_stored_arguments(request, &troupe_type_trp_stored_serving, arena, &asked));
    TROUPE_TRY(trp_manifest_read(request->folder, arena, &manifest));
    const troupe_model *model = troupe_model_find(manifest.trainer);
    if (!model)
        return troupe_last_error()->status;
    trp_buffer_printf(&name, "model:%s", request->ref);
    const char *checkpoint = trp_buffer_keep(&name, arena);
    if (!checkpoint)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the name of a version");
    const troupe_serve_options how = {.size = sizeof how,
                                      .replicas = asked.replicas,
                                      .batch = asked.batch,
                                      .config = asked.config,
                                      .queue = asked.queue,
                                      .deadline_ms = asked.deadline_ms,
                                      .repeatable = asked.repeatable,
                                      .http = (troupe_http)asked.http,
                                      .port = asked.port,
                                      .repository = asked.repository,
                                      .socket = asked.socket,
                                      .http_listen = asked.listen,
                                      .http_name = asked.name,
                                      .certificate = asked.certificate,
                                      .certificate_key = asked.certificate_key};
    TROUPE_TRY(troupe_serve_as(model, checkpoint, asked.route, &service, &how));
    troupe_status status = say_where(fd, service);
    if (status == TROUPE_OK)
        await_stop(fd, service);
    else
        (void)troupe_service_stop(service, 0);
    return status;
}

void troupe_stored_serves_(void)
{
}

__attribute__((constructor)) static void be_able(void)
{
    trp_stored_can("serve", serve);
}

// ---- who asks

struct troupe_stored_service {
    trp_child_process process;
    trp_arena arena; // Of what it answered.
    trp_stored_answer where;
    pthread_mutex_t lock;
    trp_route_client *client; // NULL: not connected.
};

// In the folder of another program a path means the same.
static troupe_status make_absolute(const char *given, trp_arena *arena, const char **path)
{
    trp_path here;
    trp_buffer whole = {0};
    *path = given;
    if (!given || given[0] == '/' || given[0] == '~')
        return TROUPE_OK;
    if (!getcwd(here.text, sizeof here.text))
        return trp_fail_errno(TROUPE_IO, "cannot tell which folder this is");
    trp_buffer_printf(&whole, "%s/%s", here.text, given);
    *path = trp_buffer_keep(&whole, arena);
    return *path ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a path");
}

// "/digits" is at routes/digits.sock.
static troupe_status choose_socket(const char *route, trp_arena *arena, const char **socket)
{
    trp_path state;
    trp_buffer path = {0};
    TROUPE_TRY(trp_state_folder_find(&state));
    trp_buffer_printf(&path, "%s/routes/%s.sock", state.text, route + (route[0] == '/'));
    char *text = (char *)(uintptr_t)trp_buffer_keep(&path, arena);
    if (!text)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the path of a socket");
    for (char *at = text + strlen(state.text) + strlen("/routes/"); *at; at++)
        if (*at == '/')
            *at = '-';
    *socket = text;
    return TROUPE_OK;
}

static troupe_status ask_for(troupe_stored_service *made, const char *ref, const char *route,
                             const troupe_serve_options *how)
{
    trp_stored_version version;
    trp_buffer text = {0};
    trp_path root;
    trp_arena *arena = &made->arena;
    TROUPE_TRY(trp_stored_find(how->repository, ref, arena, &version));
    TROUPE_TRY(trp_repository_root(how->repository, TRP_TO_READ, &root));
    trp_stored_serving asked = {.repository = root.text,
                                .route = route,
                                .replicas = how->replicas,
                                .batch = how->batch,
                                .config = how->config,
                                .queue = how->queue,
                                .deadline_ms = how->deadline_ms,
                                .repeatable = how->repeatable,
                                .http = how->http,
                                .port = how->port,
                                .listen = how->http_listen,
                                .name = how->http_name};
    TROUPE_TRY(make_absolute(how->socket, arena, &asked.socket));
    TROUPE_TRY(make_absolute(how->certificate, arena, &asked.certificate));
    TROUPE_TRY(make_absolute(how->certificate_key, arena, &asked.certificate_key));
    if (!asked.socket)
        TROUPE_TRY(choose_socket(route, arena, &asked.socket));
    trp_json_value(&text, &troupe_type_trp_stored_serving, &asked);
    const trp_stored_request request = {.action = "serve",
                                        .ref = version.of.ref,
                                        .folder = version.version.folder.text,
                                        .arguments = trp_buffer_keep(&text, arena)};
    if (!request.arguments)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to ask for a service");
    return trp_stored_ask(&version.of, &request, arena, &made->where, &made->process);
}

troupe_status troupe_serve_stored_with(const char *ref, const char *route,
                                       troupe_stored_service **service,
                                       const troupe_serve_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(route);
    TRP_REQUIRE(service);
    troupe_serve_options full;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_serve_stored", full, how));
    troupe_stored_service *made = trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a service of %s", ref);
    *made = (troupe_stored_service){.process = {.fd = -1}};
    troupe_status status = ask_for(made, ref, route, &full);
    if (status != TROUPE_OK) {
        trp_arena_clear(&made->arena);
        trp_free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    *service = made;
    return TROUPE_OK;
}

void troupe_stored_service_where_get(const troupe_stored_service *service,
                                     troupe_stored_service_where *where, size_t size)
{
    if (TRP_IS_NULL(service) || TRP_IS_NULL(where))
        return;
    const troupe_stored_service_where known = {
        .socket = service->where.path ? service->where.path : "",
        .url = service->where.url ? service->where.url : "",
        .token = service->where.token ? service->where.token : "",
        .pid = (int)service->process.pid};
    trp_output_give(where, size, &known, sizeof known);
}

// ---- a prediction

typedef struct awaited {
    bool done;
    troupe_status status;
    troupe_tensor *y;
} awaited;

static troupe_status copy_tensor(const troupe_tensor *from, troupe_tensor *to)
{
    size_t size;
    TROUPE_TRY(trp_tensor_size(from, &size));
    void *block = troupe_arena_alloc(size + TRP_TENSOR_SLACK);
    if (!block)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the predictions");
    *to = *from;
    to->data = memcpy(trp_tensor_aligned(block), from->data, size);
    return TROUPE_OK;
}

static void take_answer(void *user, troupe_status status, const char *text, const troupe_tensor *y)
{
    awaited *it = user;
    it->done = true;
    it->status = status == TROUPE_OK ? copy_tensor(y, it->y) : troupe_fail(status, "%s", text);
}

static troupe_status predict(troupe_stored_service *service, const troupe_tensor *x,
                             troupe_tensor *y)
{
    awaited it = {.y = y};
    if (!service->client)
        TROUPE_TRY(trp_route_client_open(service->where.path, &service->client));
    TROUPE_TRY(trp_route_client_send(service->client, x, take_answer, &it, NULL));
    while (!it.done) {
        struct pollfd event = {.fd = trp_route_client_fd(service->client),
                               .events = trp_route_client_events(service->client)};
        if (poll(&event, 1, -1) > 0)
            (void)trp_route_client_turn(service->client, event.revents);
    }
    if (it.status == TROUPE_PEER_LOST)
        trp_route_client_close(&service->client);
    return it.status;
}

troupe_status troupe_stored_predict(troupe_stored_service *service, const troupe_tensor *x,
                                    troupe_tensor *y)
{
    TRP_REQUIRE(service);
    TRP_REQUIRE(x);
    TRP_REQUIRE(y);
    pthread_mutex_lock(&service->lock);
    troupe_status status = predict(service, x, y);
    pthread_mutex_unlock(&service->lock);
    if (status == TROUPE_NOT_FOUND) // Nobody listens there any more.
        return troupe_fail(TROUPE_PEER_LOST, "the service has ended: %s",
                           troupe_last_error()->text);
    return status;
}

// ---- the end

static troupe_status end(troupe_stored_service *service, int force_after_ms)
{
    enum { SLACK_MS = 30000, LONG_MS = 1 << 30 };
    const trp_stored_stop stop = {.force_after_ms = force_after_ms};
    trp_arena arena = {0};
    trp_stored_answer answer = {0};
    int wait_ms = force_after_ms < 0 || force_after_ms > LONG_MS - SLACK_MS
                      ? LONG_MS
                      : force_after_ms + SLACK_MS;
    troupe_status status =
        trp_packet_send(service->process.fd, &troupe_type_trp_stored_stop, &stop);
    if (status == TROUPE_OK)
        status = trp_packet_receive(service->process.fd, wait_ms, &troupe_type_trp_stored_answer,
                                    &arena, &answer);
    if (status == TROUPE_OK && answer.status != TROUPE_OK)
        status = troupe_fail((troupe_status)answer.status, "%s", answer.text ? answer.text : "");
    else if (status != TROUPE_OK)
        status = troupe_fail(TROUPE_PEER_LOST, "the process of the service has died");
    trp_arena_clear(&arena);
    return status;
}

troupe_status troupe_stored_service_stop(troupe_stored_service **held, int force_after_ms)
{
    if (!held || !*held)
        return TROUPE_OK;
    troupe_stored_service *service = *held;
    *held = NULL;
    troupe_status status = end(service, force_after_ms);
    trp_child_end(&service->process);
    trp_route_client_close(&service->client);
    pthread_mutex_destroy(&service->lock);
    trp_arena_clear(&service->arena);
    trp_free(service);
    return status;
}
