// web.c: opens the web interface, answers a request by its route, and turns failures into replies.
#include <server/web_internal.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/web_json.h>
#include <server/web_page.h>
#include <stdio.h>
#include <string.h>

static char *copy_of(const char *text)
{
    return text != NULL ? trp_strdup(text) : NULL;
}

troupe_status trp_web_open(const trp_web_options *how, trp_web **web)
{
    if (how->state == NULL || how->state[0] != '/')
        return troupe_fail(TROUPE_INVALID, "the state folder is '%s': expected an absolute path",
                           how->state != NULL ? how->state : "");
    trp_web *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the web interface");
    *made = (trp_web){.state = copy_of(how->state),
                      .models = copy_of(how->models),
                      .results = copy_of(how->results),
                      .figures = how->figures,
                      .user = how->user};
    if (made->state == NULL || (how->models != NULL && made->models == NULL) ||
        (how->results != NULL && made->results == NULL)) {
        trp_web_close(made);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the web interface");
    }
    *web = made;
    return TROUPE_OK;
}

void trp_web_close(trp_web *web)
{
    if (web == NULL)
        return;
    trp_server_link_close(&web->link);
    web_runs_clear(&web->runs);
    web_sweeps_clear(&web->sweeps);
    trp_free(web->state);
    trp_free(web->models);
    trp_free(web->results);
    trp_free(web);
}

// ---- replies

static int code_of(troupe_status status)
{
    switch (status) {
    case TROUPE_INVALID:
    case TROUPE_MALFORMED:
    case TROUPE_WRONG_TYPE:
        return 400;
    case TROUPE_NOT_FOUND:
        return 404;
    case TROUPE_EXISTS:
    case TROUPE_STOPPED:
        return 409;
    case TROUPE_TOO_LARGE:
        return 413;
    case TROUPE_UNSUPPORTED:
        return 501;
    case TROUPE_BUSY:
    case TROUPE_NOT_STARTED:
    case TROUPE_RUNTIME_LOST:
    case TROUPE_PEER_LOST:
        return 503;
    case TROUPE_TIMED_OUT:
    case TROUPE_DEADLINE_EXCEEDED:
        return 504;
    case TROUPE_NO_SPACE:
        return 507;
    default:
        return 500;
    }
}

// The reply to what has failed, of which the last error tells.
static void reply_error(trp_web_reply *reply, int code)
{
    const troupe_error *error = troupe_last_error();
    trp_buffer_free(&reply->body);
    reply->status = code;
    reply->type = "application/json";
    reply->etag[0] = '\0';
    trp_buffer_printf(&reply->body,
                      "{\"error\":{\"status\":\"%s\",\"text\":", troupe_status_name(error->status));
    trp_json_text(&reply->body, error->text);
    trp_buffer_append(&reply->body, "}}\n", 3);
}

static void reply_page(const web_page *page, const trp_web_request *request, trp_web_reply *reply)
{
    snprintf(reply->etag, sizeof reply->etag, "\"%016llx\"",
             (unsigned long long)trp_digest(page->data, page->size));
    reply->type = page->type;
    if (strcmp(request->method, "GET") != 0) {
        (void)troupe_fail(TROUPE_INVALID, "%s has no method %.16s: expected GET", page->path,
                          request->method);
        snprintf(reply->allow, sizeof reply->allow, "GET");
        reply_error(reply, 405);
    } else if (request->etag != NULL && strcmp(request->etag, reply->etag) == 0) {
        reply->status = 304;
    } else {
        trp_buffer_append(&reply->body, page->data, page->size);
    }
}

static const web_page *page_of(const char *path)
{
    for (size_t i = 0; i < web_page_count; i++)
        if (strcmp(web_pages[i].path, path) == 0)
            return &web_pages[i];
    return NULL;
}

bool trp_web_has_page(const char *path)
{
    return page_of(path) != NULL;
}

static void answer_route(web_call *call)
{
    trp_web_reply *reply = call->reply;
    int code = 404;
    const web_route *route = web_route_of(call, &code);
    if (route == NULL) {
        reply_error(reply, code);
        return;
    }
    reply->type = route->type;
    troupe_status status = route->run(call);
    if (status != TROUPE_OK) {
        reply_error(reply, code_of(status));
        return;
    }
    if (reply->etag[0] != '\0' && call->request->etag != NULL &&
        strcmp(reply->etag, call->request->etag) == 0) {
        trp_buffer_free(&reply->body);
        reply->status = 304;
    }
}

void trp_web_answer(trp_web *web, const trp_web_request *request, trp_web_reply *reply)
{
    troupe_error kept;
    *reply = (trp_web_reply){.status = 200, .type = "application/json"};
    web_call call = {.web = web,
                     .request = request,
                     .reply = reply,
                     .out = &reply->body,
                     .budget = WEB_READ_MAX};
    trp_error_hold(&kept);
    trp_arena *before = trp_arena_swap(&call.arena);
    const web_page *page = page_of(request->path);
    if (page != NULL) {
        reply_page(page, request, reply);
    } else if (!request->admin) {
        (void)troupe_fail(TROUPE_INVALID,
                          "%.100s needs the token for all, which the file "
                          "`token` in the state folder has",
                          request->path);
        reply_error(reply, 403);
    } else {
        answer_route(&call);
    }
    if (reply->body.failed) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for the reply");
        reply_error(reply, 500);
    }
    trp_arena_swap(before);
    trp_arena_clear(&call.arena);
    trp_error_restore(&kept);
}
