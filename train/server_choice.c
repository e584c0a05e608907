// server_choice.c: see server_choice.h.
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/node/loaded.h>
#include <runtime/shm/process_table.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <train/launch_record.h>
#include <train/server_choice.h>
#include <train/state_folder.h>
#include <unistd.h>

// Without .server.
static troupe_status choose_by_environment(trp_server_use *use, trp_path *folder)
{
    const char *wanted = secure_getenv("TROUPE_SERVER");
    // What a job starts is the job's: else a program that submits would do so in each runner.
    if (secure_getenv("TROUPE_IN_JOB") != NULL || trp_process_is_local() ||
        (wanted != NULL && strcmp(wanted, "none") == 0)) {
        *use = TRP_SERVER_NOT;
        return TROUPE_OK;
    }
    if (wanted != NULL && wanted[0] == '/') {
        *use = TRP_SERVER_NEED;
        TROUPE_TRY(trp_path_make(folder, "%s", wanted));
        trp_path_trim(folder);
        return TROUPE_OK;
    }
    if (wanted != NULL && wanted[0] != '\0' && strcmp(wanted, "auto") != 0)
        return troupe_fail(TROUPE_INVALID,
                           "TROUPE_SERVER is \"%.200s\", expected none, auto, or the absolute path "
                           "of a server's state folder",
                           wanted);
    *use = wanted != NULL && wanted[0] != '\0' ? TRP_SERVER_START : TRP_SERVER_IF;
    return trp_state_folder_find(folder);
}

troupe_status trp_server_choose(troupe_server_choice given, trp_server_use *use, trp_path *folder)
{
    folder->text[0] = '\0';
    *use = given == TROUPE_SERVER_AUTO ? TRP_SERVER_START : TRP_SERVER_NOT;
    if (given == TROUPE_SERVER_AUTO) {
        TROUPE_TRY(trp_launch_record_check_rights()); // It does not believe its environment.
        return trp_state_folder_find(folder);
    }
    if (given == TROUPE_SERVER_NONE)
        return TROUPE_OK;
    troupe_status status = choose_by_environment(use, folder);
    // Who has not asked for a server need not say where one would be.
    if (status != TROUPE_OK && *use == TRP_SERVER_IF) {
        *use = TRP_SERVER_NOT;
        status = TROUPE_OK;
    }
    return trp_error_settled(status);
}

troupe_status troupe_server_folder(char *folder, size_t capacity)
{
    trp_server_use use;
    trp_path path;
    TRP_REQUIRE(folder);
    TROUPE_TRY(trp_server_choose(TROUPE_SERVER_AUTO, &use, &path));
    size_t size = strlen(path.text) + 1;
    if (size > capacity)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "the folder of the train server takes %zu bytes: capacity is %zu", size,
                           capacity);
    memcpy(folder, path.text, size);
    return TROUPE_OK;
}

bool trp_server_seems_there(const char *folder)
{
    struct sockaddr_un address;
    return trp_state_folder_socket(folder, &address) == TROUPE_OK &&
           access(address.sun_path, F_OK) == 0;
}

// Reads to the end; what does not fit is lost. Line ends become spaces.
static void read_words(int fd, char *words, size_t size)
{
    char rest[512];
    size_t used = 0;
    for (;;) {
        bool room = used + 1 < size;
        ssize_t got = read(fd, room ? words + used : rest, room ? size - 1 - used : sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += room ? (size_t)got : 0;
    }
    words[used] = '\0';
    for (char *at = words; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    while (used > 0 && words[used - 1] == ' ')
        words[--used] = '\0';
}

static int spawn_start(const char *program, const char *folder, int errors, pid_t *pid)
{
    char state[PATH_MAX + 16];
    size_t count = 0;
    while (environ != NULL && environ[count] != NULL)
        count++;
    char **environment = trp_alloc((count + 2) * sizeof *environment);
    if (environment == NULL)
        return ENOMEM;
    // The folder that was chosen, which may be another than the environment's.
    snprintf(state, sizeof state, "TROUPE_STATE=%s", folder);
    size_t kept = 0;
    environment[kept++] = state;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "TROUPE_STATE=", 13) != 0)
            environment[kept++] = environ[i];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    char *argv[] = {(char[]){"troupe-server"}, (char[]){"server"}, (char[]){"start"},
                    (char[]){"--auto"}, NULL};
    int code = posix_spawn(pid, program, &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    trp_free(environment);
    return code;
}

troupe_status trp_server_start(const char *folder)
{
    char program[PATH_MAX], words[600];
    int ends[2], code = 0;
    pid_t pid = -1;
    TROUPE_TRY(trp_command_find("troupe-server", program, sizeof program));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return trp_fail_errno(TROUPE_IO, "no pipe for %s", program);
    errno = spawn_start(program, folder, ends[1], &pid);
    close(ends[1]);
    if (errno != 0) {
        troupe_status status = trp_fail_errno(TROUPE_IO, "%s cannot be started", program);
        close(ends[0]);
        return status;
    }
    read_words(ends[0], words, sizeof words);
    close(ends[0]);
    pid_t ended;
    while ((ended = waitpid(pid, &code, 0)) < 0 && errno == EINTR)
        continue;
    if (ended == pid &&
        code != 0) // Where the program has its children forgotten, nothing is known.
        return troupe_fail(TROUPE_IO, "the train server was not started: %s", words);
    return TROUPE_OK;
}
