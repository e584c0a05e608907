// real_server.h: the train server that a test starts: its state, its commands, its death.
#ifndef REAL_SERVER_H
#define REAL_SERVER_H

#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <train/server_link.h>
#include <train/state_folder.h>
#include <troupe.h>

static inline trp_wire_status server_status(void)
{
    trp_arena arena = {0};
    trp_path folder;
    trp_wire_status status = {0};
    trp_server_link *link;
    trp_server_question question = {.kind = TRP_WIRE_SERVER,
                                    .type = &troupe_type_troupe_none,
                                    .value = &(troupe_none){0},
                                    .timeout_ms = SUPPORT_SOON_MS,
                                    .answer = TRP_WIRE_STATUS,
                                    .has = &troupe_type_trp_wire_status};
    troupe_must(trp_state_folder_find(&folder));
    if (trp_server_link_open(folder.text, NULL, &link) != TROUPE_OK)
        return status;
    (void)trp_server_link_ask(link, &question, &arena, &status);
    trp_server_link_close(&link);
    trp_arena_clear(&arena);
    status.folder = status.gateway = NULL;
    return status;
}

static inline void run_tool(const char *what)
{
    char command[600], output[4000];
    snprintf(command, sizeof command, "%s %s", support_setting("TROUPE_TOOL"), what);
    if (support_run(command, output, sizeof output) != 0)
        support_fail_output(output, "%s has failed", command);
}

static inline bool is_gone(void *pid)
{
    return !support_process_lives(*(pid_t *)pid);
}

static inline void kill_server(void)
{
    pid_t pid = server_status().pid;
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(support_wait_until(is_gone, &pid, SUPPORT_SOON_MS));
}

// The test's folder: made by its first process, which says in `variable` where it is; the caller's
// to keep until the program ends.
static inline char *real_server_folder(const char *variable)
{
    char *top = getenv(variable);
    if (top != NULL)
        return top;
    top = support_directory_make();
    char *state = support_path(top, "state");
    setenv(variable, top, 1);
    setenv("TROUPE_STATE", state, 1);
    setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1);
    unsetenv("TROUPE_SERVER");
    free(state);
    return top;
}

// Of a group of tests whose folder that is: starts a server before each, and ends it all.
static inline int real_server_begin(void **state)
{
    (void)state;
    run_tool("server start --cpus 4");
    return 0;
}

static inline void real_server_end(char *top)
{
    char command[600], output[400];
    snprintf(command, sizeof command, "%s server stop --jobs", support_setting("TROUPE_TOOL"));
    (void)support_run(command, output, sizeof output); // It may have ended.
    (void)troupe_stop();
    support_directory_remove(top);
}

#endif
