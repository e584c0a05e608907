// child.c: see child.h.
#include <server/child.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- who it is

pid_t trp_child_holder(const char *state, const char *command)
{
    trp_path path;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (trp_path_make(&path, "%s/%s.lock", state, command) != TROUPE_OK)
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

bool trp_child_find(const char *state, const char *command, pid_t *process, int *end)
{
    *process = trp_child_holder(state, command);
    if (*process <= 0)
        return false;
    *end = open_process(*process);
    if (*end < 0)
        return false;
    if (trp_child_holder(state, command) == *process) // So it is no other process of that number.
        return true;
    (void)close(*end);
    return false;
}

troupe_status trp_child_lock(const char *state, const char *command, int *held)
{
    trp_path path;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    TROUPE_TRY(trp_path_make(&path, "%s/%s.lock", state, command));
    int fd = open(path.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be opened", path.text);
    *held = fd; // To close any descriptor of it gives it back.
    if (fcntl(fd, F_SETLK, &whole) == 0)
        return TROUPE_OK;
    int error = errno;
    (void)close(fd);
    errno = error;
    if (error != EAGAIN && error != EACCES)
        return trp_fail_errno(TROUPE_IO, "%s cannot be locked", path.text);
    return troupe_fail(TROUPE_EXISTS, "a %s runs in %s already", command, state);
}

// ---- start

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

static int spawn(const char *program, const char *command, const char *log, char **environment,
                 pid_t *process)
{
    char name[] = "troupe-server", word[32];
    char *const argv[] = {name, word, NULL};
    (void)snprintf(word, sizeof word, "%s", command);
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

troupe_status trp_child_start(const char *state, const char *program, const char *command,
                              pid_t *process, int *end)
{
    trp_path log;
    if (!program)
        program = "/proc/self/exe";
    TROUPE_TRY(trp_path_make(&log, "%s/%s.log", state, command));
    char **environment = environment_for(state);
    if (!environment)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the environment of a process");
    errno = spawn(program, command, log.text, environment, process);
    bool started = errno == 0;
    if (!started)
        (void)trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                             "the %s cannot be started by %s", command, program);
    trp_free(environment[0]);
    trp_free(environment);
    if (!started)
        return troupe_last_error()->status;
    *end = open_process(*process);
    return *end >= 0 ? TROUPE_OK : trp_fail_errno(TROUPE_IO, "the %s cannot be watched", command);
}
