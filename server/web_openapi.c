// web_openapi.c: the OpenAPI document, made of the table of routes.
#include <server/web_internal.h>

#include <server/web_json.h>
#include <stdio.h>
#include <string.h>
#include <troupe/version.h>

static void write_parameter(trp_buffer *out, const char *in, const char *name, const char *about,
                            const web_parameter *of)
{
    web_begin(out, NULL, '{');
    web_text(out, "name", name);
    web_text(out, "in", in);
    web_flag(out, "required", of == NULL);
    web_text(out, "description", about);
    web_begin(out, "schema", '{');
    web_text(out, "type", of == NULL || of->text ? "string" : "integer");
    if (of != NULL && !of->text) {
        web_integer(out, "minimum", of->low);
        web_integer(out, "maximum", of->high);
        web_integer(out, "default", of->normal);
    }
    web_end(out, '}');
    web_end(out, '}');
}

static void write_parameters(trp_buffer *out, const web_route *route)
{
    web_begin(out, "parameters", '[');
    for (const char *at = strchr(route->path, '{'); at != NULL; at = strchr(at + 1, '{')) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        write_parameter(out, "path", name, "Which one.", NULL);
    }
    for (size_t i = 0; i < WEB_PARAMETERS_MAX && route->parameters[i].name != NULL; i++)
        write_parameter(out, "query", route->parameters[i].name, route->parameters[i].about,
                        &route->parameters[i]);
    web_end(out, ']');
}

// As a shell takes it between two "'".
static void quote(const char *text, char *out, size_t capacity)
{
    size_t size = 0;
    for (; *text != '\0' && size + 5 < capacity; text++)
        size +=
            (size_t)snprintf(out + size, capacity - size, *text == '\'' ? "'\\''" : "%c", *text);
    out[size] = '\0';
}

void web_curl(web_call *call, const char *name, const char *token, const char *body,
              const char *path)
{
    const char *base = call->request->base != NULL ? call->request->base : "http://127.0.0.1:PORT";
    char line[2800], state[512], quoted[512];
    quote(call->web->state, state, sizeof state);
    quote(path, quoted, sizeof quoted); // What a service says of itself may have anything in it.
    snprintf(line, sizeof line,
             "curl -H \"Authorization: Bearer $(cat '%s/%s')\"%s%.1000s%s '%.200s%s'", state, token,
             body != NULL ? " -H 'Content-Type: application/json' -d '" : "",
             body != NULL ? body : "", body != NULL ? "'" : "", base, quoted);
    web_text(call->out, name, line);
}

static void write_replies(trp_buffer *out, const web_route *route)
{
    web_begin(out, "responses", '{');
    web_begin(out, route->run == web_submit_job ? "202" : "200", '{');
    web_text(out, "description", route->answer);
    web_begin(out, "content", '{');
    web_begin(out, route->type, '{');
    web_end(out, '}');
    web_end(out, '}');
    web_end(out, '}');
    web_begin(out, "default", '{');
    web_text(out, "description", "A failure: {\"error\": {\"status\", \"text\"}}.");
    web_begin(out, "content", '{');
    web_begin(out, "application/json", '{');
    web_begin(out, "schema", '{');
    web_text(out, "$ref", "#/components/schemas/Failure");
    web_end(out, '}');
    web_end(out, '}');
    web_end(out, '}');
    web_end(out, '}');
    web_end(out, '}');
}

static void write_operation(web_call *call, const web_route *route)
{
    trp_buffer *out = call->out;
    web_begin(out, route->method[0] == 'G' ? "get" : "post", '{');
    web_text(out, "summary", route->about);
    write_parameters(out, route);
    if (route->body != NULL) {
        web_begin(out, "requestBody", '{');
        web_begin(out, "content", '{');
        web_begin(out, "application/json", '{');
        web_begin(out, "schema", '{');
        web_text(out, "type", "object");
        web_end(out, '}');
        web_json_text(out, "example", route->body);
        web_end(out, '}');
        web_end(out, '}');
        web_end(out, '}');
    }
    write_replies(out, route);
    web_curl(call, "x-curl", "token", route->body, route->path);
    web_end(out, '}');
}

static void write_components(trp_buffer *out)
{
    static const char components[] =
        "{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
        "\"schemas\":{\"Failure\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":"
        "{\"error\":{\"type\":\"object\",\"required\":[\"status\",\"text\"],\"properties\":"
        "{\"status\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}}}}}}}";
    web_json_text(out, "components", components);
}

troupe_status web_openapi(web_call *call)
{
    trp_buffer *out = call->out;
    web_begin(out, NULL, '{');
    web_text(out, "openapi", "3.0.3");
    web_begin(out, "info", '{');
    web_text(out, "title", "Troupe's train server");
    web_text(out, "version", TROUPE_VERSION_TEXT);
    web_end(out, '}');
    web_json_text(out, "security", "[{\"token\":[]}]");
    web_begin(out, "paths", '{');
    for (size_t i = 0; i < web_route_count; i++) {
        // Rows of one path follow each other.
        bool first = i == 0 || strcmp(web_routes[i - 1].path, web_routes[i].path) != 0;
        bool last =
            i + 1 == web_route_count || strcmp(web_routes[i + 1].path, web_routes[i].path) != 0;
        if (first)
            web_begin(out, web_routes[i].path, '{');
        write_operation(call, &web_routes[i]);
        if (last)
            web_end(out, '}');
    }
    web_end(out, '}');
    write_components(out);
    web_end(out, '}');
    return TROUPE_OK;
}
