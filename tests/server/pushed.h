// pushed.h: a folder with a repository that stored_program.c has pushed its model into, and a train
// server with its gateway.
#ifndef PUSHED_H
#define PUSHED_H

#include "gateway_client.h"

#include <troupe.h>

static char *top, *storage, *models, *checkpoints, *state_folder;
static char output[16384], token[65];

static inline void said(troupe_status status, troupe_status expected, const char *text)
{
    if (status != expected || !strstr(troupe_last_error()->text, text))
        fail_msg("expected %s and '%s': %s, %s", troupe_status_name(expected), text,
                 troupe_status_name(status), troupe_last_error()->text);
}

static inline int run_program(const char *arguments)
{
    char command[1024];
    (void)snprintf(command, sizeof command, "%s %s", support_setting("TROUPE_STORED_PROGRAM"),
                   arguments);
    return support_run(command, output, sizeof output);
}

static inline int pushed_begin(void)
{
    char arguments[600];
    top = support_directory_make();
    storage = support_path(top, "runs");
    models = support_path(top, "models");
    checkpoints = support_path(top, "first");
    state_folder = support_path(top, "state");
    setenv("TROUPE_MODELS", models, 1);
    setenv("TROUPE_STATE", state_folder, 1);
    setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
    setenv("HOME", top, 1); // Of runs that nobody names a folder for.
    (void)snprintf(arguments, sizeof arguments, "push %s", checkpoints);
    if (run_program(arguments) != 0)
        support_fail_output(output, "the program has not pushed its model");
    return 0;
}

static inline void pushed_end(void)
{
    support_directory_remove(top);
    free(storage), free(models), free(checkpoints), free(state_folder);
}

// `troupe ...` in that folder; what it ends with.
static inline int tool(const char *arguments, char *said_text, size_t size)
{
    char command[2048];
    (void)snprintf(command, sizeof command, "cd %s && %s %s", top, support_setting("TROUPE_TOOL"),
                   arguments);
    return support_run(command, said_text, size);
}

static inline void expect_tool(int status, const char *arguments, const char *has)
{
    int ends = tool(arguments, output, sizeof output);
    if (ends != status || !strstr(output, has))
        support_fail_output(output, "troupe %s ends with %d, expected %d and \"%s\"", arguments,
                            ends, status, has);
}

static inline bool gateway_is_there(void *unused)
{
    (void)unused;
    char path[600], text[400];
    int number = 0;
    FILE *file;
    (void)snprintf(path, sizeof path, "%s/gateway.json", state_folder);
    if (!(file = fopen(path, "re")))
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    const char *at = strstr(text, "\"port\":");
    if (!at || sscanf(at + 7, "%d", &number) != 1)
        return false;
    port = number;
    int fd = connect_to_it();
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

// With so many slots, each for a rank.
static inline void serve_jobs(int slots)
{
    char text[200];
    (void)snprintf(text, sizeof text, "server start --cpus %d", slots);
    expect_tool(0, text, "");
    if (!support_wait_until(gateway_is_there, NULL, SUPPORT_SOON_MS))
        fail_msg("the gateway has not come");
    char *path = support_path(state_folder, "token"), *read = support_read_file(path);
    (void)snprintf(token, sizeof token, "%.64s", read);
    free(read), free(path);
}

// What POST /api/v1/jobs answers.
static inline int post_job(const char *body, char *text, size_t size)
{
    reply got = ask((asked){"POST", "/api/v1/jobs", NULL, NULL, body, token});
    (void)snprintf(text, size, "%s", got.body ? got.body : "");
    int code = got.code;
    reply_free(&got);
    return code;
}

#endif
