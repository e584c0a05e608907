// web_services.c: the routes of services: their descriptions in the state folder, with what the
// gateway has counted.
#include <server/web_job.h>

#include <dirent.h>
#include <server/web_json.h>
#include <stdlib.h>
#include <string.h>

enum { ROUTES_MAX = 256 };

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// The names of *.json there, sorted.
static size_t list_names(web_call *call, const char *folder, const char *names[ROUTES_MAX])
{
    size_t count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *it; open != NULL && count < ROUTES_MAX && (it = readdir(open)) != NULL;) {
        size_t size = strlen(it->d_name);
        if (it->d_name[0] == '.' || size < 6 || strcmp(it->d_name + size - 5, ".json") != 0)
            continue;
        char *copy = trp_arena_alloc(&call->arena, size + 1);
        if (copy != NULL)
            names[count++] = memcpy(copy, it->d_name, size + 1);
    }
    if (open != NULL)
        closedir(open);
    qsort(names, count, sizeof *names, compare_names);
    return count;
}

// All members but those that are nobody's to see.
static void write_description(trp_buffer *out, trp_json description)
{
    trp_json at = {0}, name, value;
    while (trp_json_next_member(description, &at, &name, &value)) {
        if (trp_json_equals(name, "token") || trp_json_equals(name, "secret"))
            continue;
        web_name(out, NULL);
        trp_buffer_append(out, name.at, name.size);
        trp_buffer_append(out, ":", 1);
        trp_buffer_append(out, value.at, value.size);
    }
}

// A row of zeros of the shape that follows, or of 1 where a dimension may have any size; false:
// it is too large to be shown.
static bool write_zeros(web_call *call, trp_json shape, trp_json at, trp_buffer *row)
{
    enum { BYTES_MAX = 600 };
    int count = 1;
    if (row->failed || row->size >= BYTES_MAX) // Also of dimensions without end.
        return false;
    if (!trp_json_next_item(shape, &at)) {
        trp_buffer_append(row, "0", 1);
        return true;
    }
    if (!trp_json_is_null(at) &&
        trp_json_read(&troupe_type_int, at, &call->arena, &count) != TROUPE_OK)
        return false;
    trp_buffer_append(row, "[", 1);
    for (int i = 0; i < count; i++) {
        trp_buffer_append(row, ", ", i > 0 ? 2 : 0);
        if (!write_zeros(call, shape, at, row))
            return false;
    }
    trp_buffer_append(row, "]", 1);
    return true;
}

// How it is asked from a shell.
static void write_curl(web_call *call, trp_json description, const char *route)
{
    trp_json input, shape, at = {0};
    trp_buffer row = {0}, body = {0};
    bool known = trp_json_member(description, "input", &input) &&
                 trp_json_member(input, "shape", &shape) && trp_json_is_array(shape) &&
                 trp_json_next_item(shape, &at) && write_zeros(call, shape, at, &row);
    trp_buffer_printf(&body, "{\"instances\": [%.*s]}", known ? (int)row.size : 4,
                      known && row.data != NULL ? (const char *)row.data : "ROWS");
    trp_buffer_append(&body, "", 1);
    if (!body.failed)
        web_curl(call, "curl", "token.routes", (const char *)body.data, route);
    trp_buffer_free(&row);
    trp_buffer_free(&body);
}

static void write_route(web_call *call, const char *path)
{
    trp_buffer *out = call->out;
    trp_json description, route;
    troupe_text name = NULL;
    size_t size;
    char *text = web_read_file(call, path, &size);
    if (text == NULL || trp_json_parse(text, size, &description) != TROUPE_OK ||
        !trp_json_is_object(description))
        return;
    web_begin(out, NULL, '{');
    write_description(out, description);
    if (trp_json_member(description, "route", &route) &&
        trp_json_read(&troupe_type_troupe_text, route, &call->arena, &name) == TROUPE_OK &&
        name != NULL) {
        write_curl(call, description, name);
        if (call->web->figures != NULL)
            call->web->figures(call->web->user, name, out);
    }
    web_end(out, '}');
}

troupe_status web_list_services(web_call *call)
{
    trp_path folder, path;
    const char *names[ROUTES_MAX];
    TROUPE_TRY(trp_path_make(&folder, "%s/routes", call->web->state));
    size_t count = list_names(call, folder.text, names);
    web_begin(call->out, NULL, '{');
    web_begin(call->out, "routes", '[');
    for (size_t i = 0; i < count; i++)
        if (trp_path_make(&path, "%s/%s", folder.text, names[i]) == TROUPE_OK)
            write_route(call, path.text);
    web_end(call->out, ']');
    web_end(call->out, '}');
    return TROUPE_OK;
}
