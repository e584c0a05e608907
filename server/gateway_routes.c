// gateway_routes.c: the routes of services: their descriptions in a folder that is watched, and
// requests that go to their sockets.
#ifdef TROUPE_HTTP
#include <server/gateway_internal.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <serve/service.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WATCHED = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF };

// ---- descriptions

// The text of a member; NULL: it has none.
static const char *member_text(trp_json object, const char *name, trp_arena *arena)
{
    trp_json value;
    troupe_text text = NULL;
    if (!trp_json_member(object, name, &value) ||
        trp_json_read(&troupe_type_troupe_text, value, arena, &text) != TROUPE_OK)
        return NULL;
    return text;
}

static troupe_dtype dtype_of(trp_json description, trp_arena *arena)
{
    trp_json input;
    const char *name =
        trp_json_member(description, "input", &input) ? member_text(input, "dtype", arena) : NULL;
    for (troupe_dtype known = TROUPE_BOOL; name && known <= TROUPE_FLOAT64; known++)
        if (strcmp(name, troupe_dtype_text(known)) == 0)
            return known;
    return TROUPE_DTYPE_NONE;
}

// Names that the gateway has for itself.
static bool is_reserved(const char *name)
{
    static const char *const all[] = {"/login", "/login.js", "/logout", "/healthz", "/metrics"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]) == 0)
            return true;
    return strncmp(name, "/api/", 5) == 0 || trp_web_has_page(name);
}

// False: there is nothing in it that can be forwarded to.
static bool read_description(const char *folder, trp_json description, gateway_route *route)
{
    trp_arena arena = {0};
    trp_json deadline;
    const char *name = member_text(description, "route", &arena);
    const char *socket = member_text(description, "socket", &arena);
    bool good = name && socket && name[0] == '/' && strlen(name) < sizeof route->name &&
                !is_reserved(name) && (socket[0] == '/' || !strchr(socket, '/'));
    if (good) {
        (void)snprintf(route->name, sizeof route->name, "%s", name);
        int length = socket[0] == '/'
                         ? snprintf(route->socket, sizeof route->socket, "%s", socket)
                         : snprintf(route->socket, sizeof route->socket, "%s/%s", folder, socket);
        good = length > 0 && (size_t)length < sizeof route->socket;
    }
    route->dtype = dtype_of(description, &arena);
    route->deadline_ms = GATEWAY_DEADLINE_MS;
    if (trp_json_member(description, "deadline_ms", &deadline))
        (void)trp_json_read(&troupe_type_int64_t, deadline, &arena, &route->deadline_ms);
    if (route->deadline_ms < 1 || route->deadline_ms > 86400000)
        route->deadline_ms = GATEWAY_DEADLINE_MS;
    trp_arena_clear(&arena);
    return good;
}

static void route_free(gateway_route *route)
{
    trp_route_client_close(&route->client); // Tells what is under way.
    trp_free(route->text);
    trp_free(route);
}

static gateway_route *read_route(const char *folder, const char *file)
{
    trp_path path;
    struct stat about;
    unsigned char *text;
    trp_json description;
    gateway_route *route = NULL;
    size_t size;
    if (trp_path_make(&path, "%s/%s", folder, file) != TROUPE_OK || stat(path.text, &about) != 0 ||
        !S_ISREG(about.st_mode) || about.st_size > GATEWAY_DESCRIPTION_MAX ||
        trp_file_read(path.text, &text, &size) != TROUPE_OK)
        return NULL;
    if (trp_json_parse((const char *)text, size, &description) == TROUPE_OK &&
        trp_json_is_object(description))
        route = (gateway_route *)trp_alloc(sizeof *route);
    if (!route) {
        trp_free(text);
        return NULL;
    }
    route->last = &route->first;
    route->text = (char *)text;
    route->size = size;
    route->changed_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
    if (read_description(folder, description, route))
        return route;
    route_free(route);
    return NULL;
}

void gateway_route_describe(const gateway_route *route, trp_buffer *out)
{
    static const char *const hidden[] = {"token", "secret", "socket"};
    trp_json description, at = {0}, name, value;
    trp_buffer_append(out, "{", 1);
    if (trp_json_parse(route->text, route->size, &description) != TROUPE_OK)
        return;
    for (bool any = false; trp_json_next_member(description, &at, &name, &value);) {
        bool shown = true;
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
            shown = shown && !trp_json_equals(name, hidden[i]);
        if (!shown)
            continue;
        trp_buffer_printf(out, "%s%.*s: %.*s", any ? ", " : "", (int)name.size, name.at,
                          (int)value.size, value.at);
        any = true;
    }
}

// ---- the table

static gateway_route **find_in(gateway_route **list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0)
        list = &(*list)->next;
    return list;
}

gateway_route *gateway_routes_find(const gateway_routes *routes, const char *name)
{
    gateway_route *list = routes->first;
    return *find_in(&list, name);
}

static void keep_counts(gateway_route *to, gateway_route *from)
{
    atomic_store(&to->answered, atomic_load(&from->answered));
    atomic_store(&to->failed, atomic_load(&from->failed));
    atomic_store(&to->refused, atomic_load(&from->refused));
    atomic_store(&to->latency.longest_ns, atomic_load(&from->latency.longest_ns));
    for (size_t i = 0; i < TRP_HISTOGRAM_BUCKETS; i++)
        atomic_store(&to->latency.counts[i], atomic_load(&from->latency.counts[i]));
}

static void let_leave(gateway_routes *routes, gateway_route **at)
{
    gateway_route *route = *at;
    *at = route->next;
    route->next = routes->leaving;
    routes->leaving = route;
}

// Where two have one name the newest counts.
static void take_in(gateway_routes *routes, gateway_route *route)
{
    gateway_route **at = find_in(&routes->first, route->name), *old = *at;
    bool same = old && old->size == route->size && memcmp(old->text, route->text, old->size) == 0;
    if (old && (same || (old->seen && old->changed_ns > route->changed_ns))) {
        old->seen = true;
        route_free(route);
        return;
    }
    if (old) {
        keep_counts(route, old);
        let_leave(routes, at);
    }
    route->seen = true;
    route->next = routes->first;
    routes->first = route;
}

static void scan(gateway_routes *routes)
{
    size_t count = 0;
    DIR *folder = opendir(routes->folder.text);
    pthread_mutex_lock(&routes->lock);
    for (gateway_route *it = routes->first; it; it = it->next)
        it->seen = false;
    for (struct dirent *it;
         folder && count < GATEWAY_ROUTES_MAX && (it = readdir(folder)) != NULL;) {
        size_t length = strlen(it->d_name);
        if (it->d_name[0] == '.' || length < 6 || strcmp(it->d_name + length - 5, ".json") != 0)
            continue;
        gateway_route *route = read_route(routes->folder.text, it->d_name);
        if (route)
            take_in(routes, route), count++;
    }
    for (gateway_route **at = &routes->first; *at;)
        if ((*at)->seen)
            at = &(*at)->next;
        else
            let_leave(routes, at);
    pthread_mutex_unlock(&routes->lock);
    if (folder)
        (void)closedir(folder);
}

static troupe_status watch(gateway_routes *routes)
{
    troupe_status status = trp_folder_make_new(routes->folder.text);
    if (status != TROUPE_OK && status != TROUPE_EXISTS)
        return status;
    if (inotify_add_watch(routes->watch, routes->folder.text, WATCHED) < 0)
        return trp_fail_errno(TROUPE_IO, "the folder %s cannot be watched", routes->folder.text);
    scan(routes);
    return TROUPE_OK;
}

static void on_change(gateway_routes *routes)
{
    _Alignas(struct inotify_event) char events[4096];
    bool gone = false;
    ssize_t got;
    while ((got = read(routes->watch, events, sizeof events)) > 0)
        for (const char *at = events; at < events + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            gone = gone || (event->mask & (IN_IGNORED | IN_DELETE_SELF)) != 0;
            at += sizeof *event + event->len;
        }
    routes->lost = routes->lost || gone;
    scan(routes);
}

troupe_status gateway_routes_open(gateway_routes *routes, const char *state)
{
    *routes = (gateway_routes){.watch = -1};
    (void)pthread_mutex_init(&routes->lock, NULL);
    TROUPE_TRY(trp_path_make(&routes->folder, "%s/routes", state));
    routes->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (routes->watch < 0)
        return trp_fail_errno(TROUPE_IO, "no inotify for the folder of routes");
    return watch(routes);
}

void gateway_routes_close(gateway_routes *routes)
{
    pthread_mutex_lock(&routes->lock);
    while (routes->first)
        let_leave(routes, &routes->first);
    pthread_mutex_unlock(&routes->lock);
    for (gateway_route *it; (it = routes->leaving) != NULL;) {
        routes->leaving = it->next;
        route_free(it);
    }
    if (routes->watch >= 0)
        (void)close(routes->watch);
    (void)pthread_mutex_destroy(&routes->lock);
}

void gateway_routes_figures(void *user, const char *name, trp_buffer *out)
{
    static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                    0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
    gateway_routes *routes = (gateway_routes *)user;
    pthread_mutex_lock(&routes->lock);
    const gateway_route *route = gateway_routes_find(routes, name);
    if (route) {
        uint64_t seen = 0;
        size_t bucket = 0;
        double p50_s, p99_s, longest_s;
        trp_service_percentiles(&route->latency, &p50_s, &p99_s, &longest_s);
        trp_buffer_printf(out,
                          ", \"answered\": %" PRIu64 ", \"failed\": %" PRIu64
                          ", \"refused\": %" PRIu64
                          ", \"p50_s\": %.6g, \"p99_s\": %.6g, \"latency\": [",
                          atomic_load(&route->answered), atomic_load(&route->failed),
                          atomic_load(&route->refused), p50_s, p99_s);
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
            while (bucket < TRP_HISTOGRAM_BUCKETS &&
                   (double)trp_histogram_bucket_end(bucket) * 1e-9 <= bounds[i])
                seen += atomic_load(&route->latency.counts[bucket++]);
            trp_buffer_printf(out, "%s[%g, %" PRIu64 "]", i > 0 ? ", " : "", bounds[i], seen);
        }
        trp_buffer_append(out, "]", 1);
    }
    pthread_mutex_unlock(&routes->lock);
}

// ---- requests

static void take_out(gateway_forward *it)
{
    *it->link = it->next;
    if (it->next)
        it->next->link = it->link;
    else
        it->route->last = it->link;
    it->link = NULL;
}

static void put_in(gateway_route *route, gateway_forward *it)
{
    it->next = NULL;
    it->link = route->last;
    *route->last = it;
    route->last = &it->next;
}

// By code: 503: it was refused, and not computed.
static void count(gateway_route *route, const gateway_forward *it)
{
    if (it->of->code == MHD_HTTP_OK) {
        atomic_fetch_add(&route->answered, 1);
        trp_histogram_add(&route->latency, (uint64_t)(trp_clock_ns() - it->began_ns));
    } else {
        atomic_fetch_add(
            it->of->code == MHD_HTTP_SERVICE_UNAVAILABLE ? &route->refused : &route->failed, 1);
    }
}

static void on_answer(void *user, troupe_status status, const char *text, const troupe_tensor *y)
{
    gateway_forward *it = (gateway_forward *)user;
    take_out(it);
    trp_http_keep(it->of, status, text, y);
    count(it->route, it);
    trp_http_resume(it->of);
}

static unsigned refuse(gateway_route *route, trp_http_exchange *it, const char *why)
{
    atomic_fetch_add(&route->refused, 1);
    (void)troupe_fail(TROUPE_BUSY, "%s: nothing was computed", why);
    return trp_http_no_by_error(it, MHD_HTTP_SERVICE_UNAVAILABLE);
}

unsigned gateway_route_send(gateway_route *route, gateway_forward *forward)
{
    trp_http_exchange *it = forward->of;
    if (!route->client && trp_route_client_open(route->socket, &route->client) != TROUPE_OK)
        return refuse(route, it, troupe_last_error()->text);
    if (trp_route_client_under_way(route->client) >= GATEWAY_UNDER_WAY_MAX ||
        trp_route_client_unsent(route->client) > GATEWAY_UNSENT_MAX)
        return refuse(route, it, "the service has more requests than it answers");
    troupe_status status =
        trp_route_client_send(route->client, &it->x, on_answer, forward, &forward->id);
    if (status == TROUPE_PEER_LOST) // Its turn tells those that are under way.
        return refuse(route, it, "the service was lost");
    if (status != TROUPE_OK)
        return trp_http_no_by_error(it, trp_http_code_of(status));
    forward->route = route;
    forward->began_ns = trp_clock_ns();
    forward->until_ms = trp_clock_ms() + 2 * route->deadline_ms + GATEWAY_DEADLINE_MORE_MS;
    put_in(route, forward);
    return 0;
}

static void end_late(gateway_route *route)
{
    int64_t now = trp_clock_ms();
    while (route->first && route->first->until_ms <= now) {
        gateway_forward *it = route->first;
        take_out(it);
        trp_route_client_cancel(route->client, it->id);
        trp_http_keep(it->of, TROUPE_DEADLINE_EXCEEDED,
                      "the service has not answered in time: the request may have been computed",
                      NULL);
        count(route, it);
        trp_http_resume(it->of);
    }
}

// ---- turns

static void poll_list(gateway_route *list, struct pollfd *polled, size_t capacity, size_t *count,
                      int64_t *until_ms)
{
    for (; list; list = list->next) {
        list->polled = list->client && *count < capacity;
        if (!list->polled)
            continue;
        polled[(*count)++] = (struct pollfd){trp_route_client_fd(list->client),
                                             trp_route_client_events(list->client), 0};
        if (list->first && (*until_ms < 0 || list->first->until_ms < *until_ms))
            *until_ms = list->first->until_ms;
    }
}

void gateway_routes_poll(gateway_routes *routes, struct pollfd *polled, size_t capacity,
                         size_t *count, int64_t *until_ms)
{
    polled[(*count)++] = (struct pollfd){routes->watch, POLLIN, 0};
    poll_list(routes->first, polled, capacity, count, until_ms);
    poll_list(routes->leaving, polled, capacity, count, until_ms);
}

static void turn_list(gateway_route *list, const struct pollfd **polled)
{
    for (; list; list = list->next) {
        if (!list->polled)
            continue;
        short events = (*polled)++->revents;
        if (events != 0 && trp_route_client_turn(list->client, events) != TROUPE_OK)
            trp_route_client_close(&list->client); // The next request connects anew.
        end_late(list);
    }
}

void gateway_routes_turn(gateway_routes *routes, const struct pollfd *polled)
{
    const struct pollfd *at = polled + 1;
    turn_list(routes->first, &at);
    turn_list(routes->leaving, &at);
    for (gateway_route **left = &routes->leaving; *left;) {
        gateway_route *it = *left;
        if (it->first) {
            left = &it->next;
            continue;
        }
        *left = it->next;
        route_free(it);
    }
    if (polled[0].revents != 0)
        on_change(routes);
}
#else
extern int gateway_routes_are_left_out; // A file must not be empty.
#endif
