// command_predict.c: `troupe-server predict SOCKET SECONDS <BODY`: what `troupe predict --socket`
// asks by: JSON as over HTTP, but by the unix socket of a service.
#include <errno.h>
#include <poll.h>
#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <serve/http_body.h>
#include <serve/route.h>
#include <serve/route_client.h>
#include <server/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 64 << 20 };

typedef struct answer {
    bool came;
    troupe_status status;
    char text[600];
    trp_buffer body;
} answer;

static int fail(void)
{
    fprintf(stderr, "troupe predict: %s\n", troupe_last_error()->text);
    return PROGRAM_FAILED;
}

// Of the model's input, as the file beside the socket says; none: any.
static troupe_dtype dtype_of(const char *socket)
{
    trp_path note;
    trp_json description, input;
    trp_arena arena = {0};
    troupe_text name = NULL;
    troupe_dtype found = TROUPE_DTYPE_NONE;
    unsigned char *text;
    size_t size;
    if (trp_route_note(socket, note.text, sizeof note.text) != TROUPE_OK ||
        trp_file_read(note.text, &text, &size) != TROUPE_OK)
        return found;
    if (trp_json_parse((const char *)text, size, &description) == TROUPE_OK &&
        trp_json_member(description, "input", &input) && trp_json_member(input, "dtype", &input))
        (void)trp_json_read(&troupe_type_troupe_text, input, &arena, &name);
    for (troupe_dtype known = TROUPE_BOOL; name != NULL && known <= TROUPE_FLOAT64; known++)
        if (strcmp(name, troupe_dtype_text(known)) == 0)
            found = known;
    trp_arena_clear(&arena);
    trp_free(text);
    return found;
}

static troupe_status read_body(trp_buffer *body)
{
    char bytes[8192];
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, stdin)) > 0;) {
        trp_buffer_append(body, bytes, got);
        if (body->size > BODY_MAX)
            return troupe_fail(TROUPE_TOO_LARGE, "the rows have more than %d bytes", BODY_MAX);
    }
    trp_buffer_append(body, "", 1); // Also a text.
    return body->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the rows") : TROUPE_OK;
}

static void on_answer(void *user, troupe_status status, const char *text, const troupe_tensor *y)
{
    answer *it = (answer *)user;
    it->came = true;
    if (status == TROUPE_OK && (status = trp_body_write_json(y, &it->body)) != TROUPE_OK)
        text = troupe_last_error()->text;
    it->status = status;
    (void)snprintf(it->text, sizeof it->text, "%s", text != NULL ? text : "");
}

static troupe_status ask(const char *socket, const troupe_tensor *x, int64_t until_ms, answer *it)
{
    trp_route_client *client;
    TROUPE_TRY(trp_route_client_open(socket, &client));
    troupe_status status = trp_route_client_send(client, x, on_answer, it, NULL);
    while (status == TROUPE_OK && !it->came) {
        struct pollfd ready = {trp_route_client_fd(client), trp_route_client_events(client), 0};
        int64_t left = until_ms - trp_clock_ms();
        int count = left > 0 ? poll(&ready, 1, left < 1000000 ? (int)left : 1000000) : 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0 && trp_clock_ms() >= until_ms)
            status = troupe_fail(TROUPE_TIMED_OUT, "the service did not answer in time");
        else if (trp_route_client_turn(client, ready.revents) != TROUPE_OK && !it->came)
            status = troupe_last_error()->status;
    }
    if (status == TROUPE_OK && it->status != TROUPE_OK)
        status = troupe_fail(it->status, "%s", it->text);
    troupe_error said;
    trp_error_hold(&said);
    if (status != TROUPE_OK && !it->came)
        it->came = true; // What the close tells is not what is said.
    trp_route_client_close(&client);
    trp_error_restore(&said);
    return status;
}

int program_predict(int argc, char **argv)
{
    trp_buffer body = {0};
    troupe_tensor x;
    void *memory = NULL;
    answer it = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: troupe predict --socket SOCKET <ROWS\n");
        return PROGRAM_MISUSED;
    }
    int64_t until_ms = trp_clock_ms() + strtoll(argv[2], NULL, 10) * 1000;
    troupe_status status = read_body(&body);
    if (status == TROUPE_OK)
        status = trp_body_read_json((const char *)body.data, body.size - 1, dtype_of(argv[1]), &x,
                                    &memory);
    if (status == TROUPE_OK)
        status = ask(argv[1], &x, until_ms, &it);
    int result = status == TROUPE_OK ? PROGRAM_DONE : fail();
    if (result == PROGRAM_DONE &&
        (fwrite(it.body.data, 1, it.body.size, stdout) != it.body.size || fflush(stdout) != 0))
        result = PROGRAM_FAILED;
    trp_buffer_free(&it.body);
    trp_buffer_free(&body);
    trp_free(memory);
    return result;
}
