// gateway_start.c: how the gateway is started, found, ended and linked to by other processes.
#include <server/gateway.h>

#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <server/child.h>
#include <server/program.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <train/state_folder.h>
#include <unistd.h>

// ---- start and stop

static pid_t holder_of(const char *state)
{
    return trp_child_holder(state, "gateway");
}

static bool find(const char *state, pid_t *process, int *end)
{
    return trp_child_find(state, "gateway", process, end);
}

troupe_status trp_gateway_start(const char *state, const char *program, pid_t *process, int *end)
{
    return find(state, process, end) ? TROUPE_OK
                                     : trp_child_start(state, program, "gateway", process, end);
}

static troupe_status no_gateway(const char *state)
{
    return troupe_fail(TROUPE_NOT_FOUND,
                       "no gateway runs in %s: `troupe server start` starts one with the server",
                       state);
}

troupe_status trp_gateway_stop(const char *state)
{
    pid_t process;
    int end;
    if (!find(state, &process, &end))
        return no_gateway(state);
    bool told = syscall(SYS_pidfd_send_signal, end, SIGTERM, NULL, 0) == 0;
    (void)close(end);
    return told ? TROUPE_OK : no_gateway(state);
}

// ---- links

troupe_status trp_gateway_url(const char *state, char url[TRP_GATEWAY_LINK_MAX])
{
    trp_path path;
    trp_json whole, member;
    trp_arena arena = {0};
    troupe_text found = NULL;
    unsigned char *text;
    size_t size;
    if (holder_of(state) == 0)
        return no_gateway(state);
    TROUPE_TRY(trp_path_make(&path, "%s/gateway.json", state));
    TROUPE_TRY(trp_file_read(path.text, &text, &size));
    if (trp_json_parse((const char *)text, size, &whole) == TROUPE_OK &&
        trp_json_member(whole, "url", &member))
        (void)trp_json_read(&troupe_type_troupe_text, member, &arena, &found);
    (void)snprintf(url, TRP_GATEWAY_LINK_MAX, "%s", found ? found : "");
    trp_arena_clear(&arena);
    trp_free(text);
    return url[0] ? TROUPE_OK : troupe_fail(TROUPE_MALFORMED, "%s says no address", path.text);
}

#ifdef TROUPE_HTTP
#include <server/gateway_internal.h>

troupe_status trp_gateway_link(const char *state, char link[TRP_GATEWAY_LINK_MAX])
{
    char code[GATEWAY_SECRET];
    TROUPE_TRY(trp_gateway_url(state, link));
    TROUPE_TRY(gateway_code_make(state, code));
    size_t used = strlen(link);
    (void)snprintf(link + used, TRP_GATEWAY_LINK_MAX - used, "/login#%s", code);
    return TROUPE_OK;
}
#else
troupe_status trp_gateway_link(const char *state, char link[TRP_GATEWAY_LINK_MAX])
{
    link[0] = '\0';
    return no_gateway(state);
}
#endif

int trp_gateway_show_link(bool json)
{
    trp_path state;
    char link[TRP_GATEWAY_LINK_MAX];
    if (trp_state_folder_find(&state) != TROUPE_OK ||
        trp_state_folder_check(state.text) != TROUPE_OK ||
        trp_gateway_link(state.text, link) != TROUPE_OK) {
        fprintf(stderr, "troupe server link: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    printf(json ? "{\"link\": \"%s\"}\n" : "%s\n", link);
    return PROGRAM_DONE;
}
