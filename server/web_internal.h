// web_internal.h: what the files of the web interface share: a request under way, the table of
// routes, and what is kept of runs between requests.
#ifndef TRP_SERVER_WEB_INTERNAL_H
#define TRP_SERVER_WEB_INTERNAL_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <server/web.h>
#include <server/web_runs.h>
#include <server/web_sweeps.h>
#include <sys/stat.h>
#include <train/server_link.h>
#include <train/wire.h>

enum {
    WEB_PARTS_MAX = 3,      // Of a path, that are the request's own: a job's number, a version.
    WEB_PARAMETERS_MAX = 4, // Of a query.
    WEB_READ_MAX = 8 << 20, // Bytes of journals that a request reads.
    WEB_FILE_MAX = 1 << 20, // Of a file that is read whole.
    WEB_LIST_MAX = 1000,    // Entries of a folder that are looked at for a page of a list.
};

struct trp_web {
    char *state, *models, *results;
    trp_web_figures figures;
    void *user;
    web_runs runs;
    web_sweeps sweeps;
    trp_server_link *link; // NULL: there was no server;
    int64_t look_again_ms; // then, when it is looked for again.
};

// A request that is being answered.
typedef struct web_call {
    trp_web *web;
    const trp_web_request *request;
    trp_web_reply *reply;
    trp_buffer *out; // The reply's body.
    trp_arena arena; // The thread's current one meanwhile.
    size_t budget;   // Bytes of journals that it may still read.
    const char *parts[WEB_PARTS_MAX];
    struct web_given {
        bool given;
        int64_t number;
        const char *text;
    } query[WEB_PARAMETERS_MAX]; // In the order of the route's parameters.
} web_call;

// A parameter of a query: a number from low to high, or a text. The last one's name is NULL.
typedef struct web_parameter {
    const char *name, *about;
    bool text;
    int64_t low, high, normal;
} web_parameter;

// One row: dispatch, the OpenAPI document and the tests are all made of it.
typedef struct web_route {
    const char *method;
    const char *path; // Parts in braces are the request's own.
    const char *about;
    const char *answer; // What the reply has.
    const web_parameter *parameters;
    const char *body; // An example; NULL: it takes none.
    const char *type; // Of the reply.
    troupe_status (*run)(web_call *call);
} web_route;
extern const web_route web_routes[];
extern const size_t web_route_count;

// ---- web_routes.c, web_openapi.c

troupe_status web_openapi(web_call *call);
// A member that has the line of a shell that asks for that path, with a body unless that is NULL.
void web_curl(web_call *call, const char *name, const char *token, const char *body,
              const char *path);
// Finds the row, and takes the request's own parts and the query. *allow lists the methods that the
// path has where it lacks this one. NULL: there is none; the last error says why, *status is of
// HTTP.
const web_route *web_route_of(web_call *call, int *status);

// ---- web_jobs.c

troupe_status web_list_jobs(web_call *call);
troupe_status web_show_job(web_call *call);
troupe_status web_show_timeline(web_call *call);
troupe_status web_job_reports(web_call *call);
troupe_status web_job_curves(web_call *call);
troupe_status web_job_logs(web_call *call);
troupe_status web_job_usage(web_call *call);

// ---- web_control.c

troupe_status web_submit_job(web_call *call); // Answers with 202.
troupe_status web_stop_job(web_call *call);
troupe_status web_modify_job(web_call *call);
troupe_status web_prioritise_job(web_call *call);
troupe_status web_pause_job(web_call *call);
troupe_status web_resize_job(web_call *call);
troupe_status web_show_server(web_call *call);
troupe_status web_metrics(web_call *call);
// How many GPUs the server may grant; 0: none, or it does not answer.
double web_ask_gpus(web_call *call);
// What the server says of its newest jobs; *there is false where none answers.
void web_ask_jobs(web_call *call, bool *there, trp_wire_jobs *jobs);

// ---- web_results.c, web_models.c, web_services.c

troupe_status web_list_runs(web_call *call);
troupe_status web_show_run(web_call *call);
troupe_status web_run_reports(web_call *call);
troupe_status web_run_curves(web_call *call);
troupe_status web_run_logs(web_call *call);
troupe_status web_list_sweeps(web_call *call);
troupe_status web_show_sweep(web_call *call);
troupe_status web_list_models(web_call *call);
troupe_status web_show_model(web_call *call);
troupe_status web_show_version(web_call *call);
troupe_status web_list_services(web_call *call);

#endif
