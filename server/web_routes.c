// web_routes.c: the table of what the web interface answers, and how a request is read by it. Paths
// and queries are anyone's text: each part is checked before a route sees it.
#include <server/web_internal.h>

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/printable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_MAX = 256, NUMBER_DIGITS = 18 };

#define API "/api/v1"
#define JSON "application/json"

static const web_parameter no_parameters[] = {{0}};
static const web_parameter list_parameters[] = {
    {"state",
     "Only jobs of that state: queued, starting, running, paused, ended, lost, or, of those that "
     "have ended, done, stopped, failed or cancelled; active: all but those.",
     true, 0, 0, 0},
    {"limit", "How many jobs at most.", false, 1, 200, 50},
    {"before", "Only jobs with a lower number: `next` of the page before.", false, 1, INT64_MAX,
     INT64_MAX},
    {"curves", "1: each with the curve of its first metric, in at most 64 points.", false, 0, 1, 0},
    {0},
};
static const web_parameter event_parameters[] = {
    {"from", "Where in the journal to begin: 0, or `next` of the page before.", false, 0, INT64_MAX,
     0},
    {"limit", "How many events at most.", false, 1, 1000, 200},
    {0},
};
static const web_parameter curve_parameters[] = {
    {"over", "What the curves are over: reports or time.", true, 0, 0, 0},
    {0},
};
static const web_parameter log_parameters[] = {
    {"rank", "The rank whose output it is; left out, of a job: what its runner has written.", false,
     -1, 100000, -1},
    {"from", "The byte to begin with: 0, or `next` of the page before; -1: as `tail` says.", false,
     -1, INT64_MAX, -1},
    {"tail", "Without `from`: how many of the last bytes.", false, 1, 1 << 18, 1 << 14},
    {0},
};
static const web_parameter timeline_parameters[] = {
    {"hours", "How far back.", false, 1, 24 * 366, 24},
    {"limit", "How many jobs at most, the newest first.", false, 1, 200, 100},
    {0},
};
static const web_parameter limit_parameters[] = {
    {"limit", "How many at most, the newest first.", false, 1, 200, 50},
    {0},
};
static const web_parameter trial_parameters[] = {
    {"limit", "How many trials at most, in their order.", false, 1, 2000, 500},
    {"from", "The number of the first one.", false, 0, INT_MAX, 0},
    {0},
};
static const web_parameter version_parameters[] = {
    {"limit", "How many versions at most, the newest first.", false, 1, 200, 50},
    {"before", "Only lower versions: `next` of the page before.", false, 1, INT64_MAX, INT64_MAX},
    {0},
};

const web_route web_routes[] = {
    {"GET", API "/jobs", "Jobs, the newest first.",
     "`jobs`, `next` (for `before`; absent at the end), `server` (whether the train server "
     "answers: "
     "without it states are read from the folders).",
     list_parameters, NULL, JSON, web_list_jobs},
    {"POST", API "/jobs",
     "Submits a training of a version of the repository of models, by the program that was kept "
     "with it. Of its config numbers and flags can be set, and texts that the model has marked; "
     "beside it ranks, min_ranks, cpus (of a rank), name, key, priority, start_at, time_limit_s, "
     "restarts, from_version (begin with its weights).",
     "202: `job`, its number; `model`, the version; `key`.", no_parameters,
     "{\"model\": \"digits@production\", \"config\": {\"rate\": 0.05}, \"ranks\": 2}", JSON,
     web_submit_job},
    {"GET", API "/jobs/{job}",
     "One job: what was asked, how it stands, its attempts, changes and "
     "newest checkpoints.",
     "The job's members.", no_parameters, NULL, JSON, web_show_job},
    {"GET", API "/jobs/{job}/reports",
     "Events of the run's journal, in their order: reports with their metrics, attempts "
     "(restarts), commits of checkpoints, live values, states, the end.",
     "`events`, `next` (for `from`), `whole` (whether that was all there is now).",
     event_parameters, NULL, JSON, web_job_reports},
    {"GET", API "/jobs/{job}/curves", "All metrics over the whole run, each in at most 512 slots.",
     "`metrics` (name, first, last, low, high, and `slots`: [from, to, mean] or [from, to, mean, "
     "low, high, count]), `checkpoints`, `restarts` and `changes` on the same axis, `whole`: "
     "whether all of the journal was read; if not, ask again.",
     curve_parameters, NULL, JSON, web_job_curves},
    {"GET", API "/jobs/{job}/logs", "A piece of a log file.",
     "`text`, `from`, `next` (for `from`), `size` of the file.", log_parameters, NULL, JSON,
     web_job_logs},
    {"GET", API "/jobs/{job}/usage", "CPU and memory of each rank over the run, and its GPUs.",
     "`from` (Unix time), `width_s` of a slot, `ranks` (rank, pid, `cpus` in use and "
     "`memory_bytes`, a number a slot; null: no sample); where the driver tells of GPUs, `gpus` "
     "(`gpu`: its entry in CUDA_VISIBLE_DEVICES, name, `total_bytes`, `busy`: the part of the time "
     "in which it computed for anyone, from 0 to 1, and `memory_bytes` of the job's processes).",
     no_parameters, NULL, JSON, web_job_usage},
    {"POST", API "/jobs/{job}/stop",
     "Asks the job to stop at its next report; with now: true it is killed, and loses what was not "
     "saved.",
     "`revision` of the wish, which is stored.", no_parameters, "{}", JSON, web_stop_job},
    {"POST", API "/jobs/{job}/pause",
     "Has the job give back all that it holds behind its next checkpoint, and wait; with pause: "
     "false it goes on.",
     "`revision` of the wish.", no_parameters, "{\"pause\": true}", JSON, web_pause_job},
    {"POST", API "/jobs/{job}/ranks",
     "Changes how many ranks the job has, or will have: fewer from its next report on, more once "
     "all of them can be had.",
     "`revision` of the wish.", no_parameters, "{\"ranks\": 2}", JSON, web_resize_job},
    {"POST", API "/jobs/{job}/modify",
     "Gives live members of the job's config new values; all ranks see them from the same report.",
     "`revision` of the last wish.", no_parameters, "{\"rate\": 0.05}", JSON, web_modify_job},
    {"POST", API "/jobs/{job}/priority", "Changes the priority of a job that waits.",
     "`revision` of the wish.", no_parameters, "{\"priority\": 10}", JSON, web_prioritise_job},
    {"GET", API "/timeline",
     "Which jobs had how many CPUs and GPUs when, and what they used of them.",
     "`now`, `since`, `cpus` and `memory_bytes` of the machine, `gpus` where the train server says "
     "how many, `jobs` with `usage`: of all ranks together `cpus`, `memory_bytes`, and `gpus` "
     "(how many were busy) and `gpu_memory_bytes` where they were measured.",
     timeline_parameters, NULL, JSON, web_show_timeline},
    {"GET", API "/runs", "Runs in the folder of results, the newest first.", "`runs`, `folder`.",
     limit_parameters, NULL, JSON, web_list_runs},
    {"GET", API "/runs/{run}", "One of these runs.", "As of a job.", no_parameters, NULL, JSON,
     web_show_run},
    {"GET", API "/runs/{run}/reports", "As of a job.", "As of a job.", event_parameters, NULL, JSON,
     web_run_reports},
    {"GET", API "/runs/{run}/curves", "As of a job.", "As of a job.", curve_parameters, NULL, JSON,
     web_run_curves},
    {"GET", API "/runs/{run}/logs", "As of a job.", "As of a job.", log_parameters, NULL, JSON,
     web_run_logs},
    {"GET", API "/sweeps", "Sweeps in the folder of results, the newest first.", "`sweeps`.",
     limit_parameters, NULL, JSON, web_list_sweeps},
    {"GET", API "/sweeps/{sweep}",
     "One sweep: its trials with config, state, metrics, and the curve of the sweep's metric.",
     "`trials`, `metric`, `goal`, `searcher`, `scheduler`, `seed`, `best`, `next` (for `from`).",
     trial_parameters, NULL, JSON, web_show_sweep},
    {"GET", API "/models", "The keys of the repository of models, each with its versions.",
     "An object: a key's value is an array of numbers.", no_parameters, NULL, JSON,
     web_list_models},
    {"GET", API "/models/{key}", "The versions of a key, the newest first.",
     "`versions`, `aliases`, `next` (for `before`).", version_parameters, NULL, JSON,
     web_show_model},
    {"GET", API "/models/{key}/{version}",
     "One version, by its number, an alias or `latest`: config, metrics, files, lineage.",
     "The version's members; `lineage` says of which run, checkpoint and data it is.",
     no_parameters, NULL, JSON, web_show_version},
    {"GET", API "/routes", "Routes that services are under.",
     "`routes`, each with `curl`, the line that asks it.", no_parameters, NULL, JSON,
     web_list_services},
    {"GET", API "/server", "How the train server stands.",
     "`alive`, and while it is: process, start, jobs, CPUs, GPUs, memory.", no_parameters, NULL,
     JSON, web_show_server},
    {"GET", API "/openapi.json", "This interface, as an OpenAPI document.", "The document.",
     no_parameters, NULL, JSON, web_openapi},
    {"GET", "/metrics", "Figures of server and jobs, as Prometheus reads them.", "Text.",
     no_parameters, NULL, "text/plain; version=0.0.4", web_metrics},
};
const size_t web_route_count = sizeof web_routes / sizeof *web_routes;

// ---- percent signs

static int hex_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)tolower((unsigned char)digit);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

// Resolves percent signs. NULL: it is too long, or has one without two digits, or a NUL.
static char *decode(web_call *call, const char *text, size_t size, bool plus)
{
    char *out = size <= (size_t)PART_MAX * 3 ? trp_arena_alloc(&call->arena, size + 1) : NULL;
    size_t used = 0;
    for (size_t i = 0; out != NULL && i < size; i++) {
        char byte = text[i] == '+' && plus ? ' ' : text[i];
        if (byte == '%') {
            int high = size - i > 2 ? hex_of(text[i + 1]) : -1;
            int low = high >= 0 ? hex_of(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return NULL;
            byte = (char)(high * 16 + low);
            i += 2;
        }
        if (byte == '\0')
            return NULL;
        out[used++] = byte;
    }
    if (out == NULL || used > PART_MAX)
        return NULL;
    out[used] = '\0';
    return out;
}

// A part that leads nowhere else, whatever it is put behind.
static bool is_safe(const char *part)
{
    return part != NULL && part[0] != '\0' && part[0] != '.' && strchr(part, '/') == NULL &&
           trp_printable_is(part, strlen(part));
}

// ---- paths

// Whether the path has the route's form; what stands for its braces goes to the call.
static bool matches(web_call *call, const web_route *route, const char *path)
{
    const char *form = route->path;
    size_t count = 0;
    while (*form != '\0' && *path != '\0') {
        if (*form != '{') {
            if (*form++ != *path++)
                return false;
            continue;
        }
        size_t size = strcspn(path, "/");
        const char *part = decode(call, path, size, false);
        if (!is_safe(part))
            return false;
        call->parts[count++] = part;
        path += size;
        form += strcspn(form, "}") + 1;
    }
    return *form == '\0' && *path == '\0';
}

// ---- queries

static troupe_status take_number(const web_parameter *of, const char *value,
                                 struct web_given *given)
{
    const char *digits = value + (value[0] == '-');
    size_t size = strlen(digits);
    int64_t number = size > 0 && size <= NUMBER_DIGITS && digits[strspn(digits, "0123456789")] == 0
                         ? strtoll(value, NULL, 10)
                         : INT64_MIN;
    char shown[64];
    (void)trp_printable_copy(value, strlen(value), shown, sizeof shown);
    if (number == INT64_MIN || number < of->low || number > of->high)
        return troupe_fail(TROUPE_INVALID,
                           "the parameter %s is '%s': expected a whole number from %" PRId64
                           " to %" PRId64,
                           of->name, shown, of->low, of->high);
    given->number = number;
    return TROUPE_OK;
}

static troupe_status take_pair(web_call *call, const web_route *route, const char *name,
                               const char *value)
{
    const web_parameter *parameters = route->parameters;
    if (name == NULL || value == NULL)
        return troupe_fail(TROUPE_INVALID, "the query has a percent sign without two digits, or "
                                           "is too long");
    for (size_t i = 0; i < WEB_PARAMETERS_MAX && parameters[i].name != NULL; i++) {
        if (strcmp(parameters[i].name, name) != 0)
            continue;
        if (call->query[i].given)
            return troupe_fail(TROUPE_INVALID, "the parameter %s is given twice", name);
        call->query[i].given = true;
        call->query[i].text = value;
        return parameters[i].text ? TROUPE_OK : take_number(&parameters[i], value, &call->query[i]);
    }
    char shown[64];
    (void)trp_printable_copy(name, strlen(name), shown, sizeof shown);
    return troupe_fail(TROUPE_INVALID, "%s has no parameter '%s': see " API "/openapi.json",
                       route->path, shown);
}

static troupe_status take_query(web_call *call, const web_route *route, const char *query)
{
    const web_parameter *parameters = route->parameters;
    for (size_t i = 0; i < WEB_PARAMETERS_MAX && parameters[i].name != NULL; i++)
        call->query[i].number = parameters[i].normal;
    while (query != NULL && *query != '\0') {
        size_t size = strcspn(query, "&"), name = 0;
        while (name < size && query[name] != '=')
            name++;
        size_t value = name < size ? name + 1 : size;
        TROUPE_TRY(take_pair(call, route, decode(call, query, name, true),
                             decode(call, query + value, size - value, true)));
        query += size + (query[size] == '&');
    }
    return TROUPE_OK;
}

bool trp_web_submits(const trp_web_request *request)
{
    return strcmp(request->method, "POST") == 0 && strcmp(request->path, API "/jobs") == 0;
}

const web_route *web_route_of(web_call *call, int *status)
{
    const trp_web_request *request = call->request;
    trp_web_reply *reply = call->reply;
    char shown[128];
    for (size_t i = 0; i < web_route_count; i++) {
        const web_route *route = &web_routes[i];
        if (!matches(call, route, request->path))
            continue;
        if (strcmp(route->method, request->method) != 0) {
            size_t used = strlen(reply->allow);
            (void)snprintf(reply->allow + used, sizeof reply->allow - used, "%s%s",
                           used > 0 ? ", " : "", route->method);
            continue;
        }
        reply->allow[0] = '\0';
        *status = 400;
        if (take_query(call, route, request->query) != TROUPE_OK)
            return NULL;
        if (route->body != NULL || request->body_size == 0)
            return route;
        (void)troupe_fail(TROUPE_INVALID, "%s takes no body", route->path);
        return NULL;
    }
    (void)trp_printable_copy(request->path, strlen(request->path), shown, sizeof shown);
    *status = reply->allow[0] != '\0' ? 405 : 404;
    if (*status == 405)
        (void)troupe_fail(TROUPE_INVALID, "%s has no method %.16s: expected %s", shown,
                          request->method, reply->allow);
    else
        (void)troupe_fail(TROUPE_NOT_FOUND, "there is no %s here: see " API "/openapi.json", shown);
    return NULL;
}
