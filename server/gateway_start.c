// gateway_start.c: how the gateway is started, found, ended and linked to by other processes.
#include <server/gateway.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <server/program.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <train/file.h>
#include <train/state_folder.h>
#include <unistd.h>

// ---- who it is

// The process that holds the lock; 0: none does.
static pid_t holder_of(const char *state)
{
    trp_path path;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (trp_path_make(&path, "%s/gateway.lock", state) != TROUPE_OK)
        return 0;
    int fd = open(path.text, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool held = fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    (void)close(fd);
    return held ? whole.l_pid : 0;
}

static int open_process(pid_t process)
{
    return (int)syscall(SYS_pidfd_open, process, 0);
}

// The gateway and a descriptor of it; false: none runs.
static bool find(const char *state, pid_t *process, int *end)
{
    *process = holder_of(state);
    if (*process <= 0)
        return false;
    *end = open_process(*process);
    if (*end < 0)
        return false;
    if (holder_of(state) == *process) // So it is no other process of that number.
        return true;
    (void)close(*end);
    return false;
}

// ---- start and stop

// As the environment is, but for the state folder. To be freed, and its first entry too.
static char **environment_for(const char *state)
{
    size_t count = 0, kept = 1;
    while (environ[count])
        count++;
    char **all = (char **)trp_alloc((count + 2) * sizeof *all);
    size_t size = strlen(state) + sizeof "TROUPE_STATE=";
    char *folder = (char *)trp_alloc(size);
    if (!all || !folder) {
        trp_free(all);
        trp_free(folder);
        return NULL;
    }
    (void)snprintf(folder, size, "TROUPE_STATE=%s", state);
    all[0] = folder;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "TROUPE_STATE=", 13) != 0)
            all[kept++] = environ[i];
    all[kept] = NULL;
    return all;
}

static int spawn(const char *program, const char *log, char **environment, pid_t *process)
{
    char name[] = "troupe-server", command[] = "gateway";
    char *const argv[] = {name, command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&how);
    (void)posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)posix_spawn_file_actions_adddup2(&files, 1, 2);
    (void)posix_spawn_file_actions_addclosefrom_np(&files, 3);
    (void)posix_spawnattr_setsigmask(&how, &none);
    (void)posix_spawnattr_setsigdefault(&how, &all);
    (void)posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                             POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn(process, program, &files, &how, argv, environment);
    (void)posix_spawnattr_destroy(&how);
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}

troupe_status trp_gateway_start(const char *state, const char *program, pid_t *process, int *end)
{
    trp_path log;
    if (find(state, process, end))
        return TROUPE_OK;
    if (!program)
        program = "/proc/self/exe";
    TROUPE_TRY(trp_path_make(&log, "%s/gateway.log", state));
    char **environment = environment_for(state);
    if (!environment)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the environment of the gateway");
    errno = spawn(program, log.text, environment, process);
    bool started = errno == 0;
    if (!started)
        (void)trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                             "the gateway cannot be started by %s", program);
    trp_free(environment[0]);
    trp_free(environment);
    if (!started)
        return troupe_last_error()->status;
    *end = open_process(*process);
    return *end >= 0 ? TROUPE_OK : trp_fail_errno(TROUPE_IO, "the gateway cannot be watched");
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

int program_link(int argc, char **argv)
{
    trp_path state;
    char link[TRP_GATEWAY_LINK_MAX];
    (void)argv;
    if (argc > 1) {
        fprintf(stderr, "usage: troupe server link\n");
        return PROGRAM_MISUSED;
    }
    if (trp_state_folder_find(&state) != TROUPE_OK ||
        trp_state_folder_check(state.text) != TROUPE_OK ||
        trp_gateway_link(state.text, link) != TROUPE_OK) {
        fprintf(stderr, "troupe server link: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    printf("%s\n", link);
    return PROGRAM_DONE;
}
