// stored_ask.c: starting a stored program, and asking it for something.
#include <models/stored.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOCKET = 3 };

// ---- the version

troupe_status trp_stored_find(const char *repository, const char *ref, trp_arena *arena,
                              trp_stored_version *found)
{
    // What is to be run must be this user's, as what is to be changed.
    trp_path root;
    *found = (trp_stored_version){0};
    TROUPE_TRY(trp_repository_root(repository, TRP_TO_CHANGE, &root));
    TROUPE_TRY(trp_version_find(root.text, ref, &found->version));
    const trp_version *version = &found->version;
    (void)snprintf(found->of.ref, sizeof found->of.ref, "%s@%" PRId64, version->key,
                   version->number);
    found->of.folder = version->folder.text;
    found->of.record = &found->record.kept;
    troupe_status status = trp_manifest_read(version->folder.text, arena, &found->manifest);
    if (status == TROUPE_OK)
        status = trp_push_record_read(&found->manifest, arena, &found->record);
    if (status == TROUPE_OK)
        status = trp_stored_verify(version->folder.text, found->of.ref, &found->record.kept);
    return status == TROUPE_OK ? status : trp_version_failed(version, status);
}

// ---- the process

typedef struct start {
    const trp_stored_of *of;
    trp_path program;
    const char *folder;
    int theirs; // The other end.
    char asked[64], server[PATH_MAX + 16], state[PATH_MAX + 16];
} start;

// With a server that is chosen: a job above this process, or TROUPE_LOCAL, does not choose again.
static bool is_left_out(const char *line, bool has_server)
{
    static const char *const names[] = {
        "TROUPE_STORED=", "TROUPE_WORKER=", "TROUPE_JOB=",    "TROUPE_DEBUG_WAIT=", "TROUPE_TRACE=",
        "TROUPE_SERVER=", "TROUPE_STATE=",  "TROUPE_IN_JOB=", "TROUPE_LOCAL="};
    enum { COUNT = sizeof names / sizeof *names, OF_SERVER = 4 };
    for (size_t i = 0; i < COUNT - (has_server ? 0 : OF_SERVER); i++)
        if (strncmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char **environment_of(start *it)
{
    size_t count = 0, kept = 0;
    bool has_server = it->of->server != NULL;
    while (environ && environ[count])
        count++;
    char **all = trp_alloc((count + 4) * sizeof *all);
    if (!all)
        return NULL;
    (void)snprintf(it->asked, sizeof it->asked, "TROUPE_STORED=%d:%d", (int)getpid(), SOCKET);
    all[kept++] = it->asked;
    if (has_server) {
        (void)snprintf(it->server, sizeof it->server, "TROUPE_SERVER=%s", it->of->server);
        (void)snprintf(it->state, sizeof it->state, "TROUPE_STATE=%s", it->of->server);
        all[kept++] = it->server;
        all[kept++] = it->state;
    }
    for (size_t i = 0; i < count; i++)
        if (!is_left_out(environ[i], has_server))
            all[kept++] = environ[i];
    all[kept] = NULL;
    return all;
}

// Its output is told where this process's errors are: its answer does not go there.
static void prepare(const start *it, posix_spawn_file_actions_t *actions,
                    posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    posix_spawn_file_actions_init(actions);
    posix_spawn_file_actions_adddup2(actions, it->theirs, SOCKET);
    posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(actions, SOCKET + 1);
    posix_spawn_file_actions_addchdir_np(actions, it->folder);
    posix_spawnattr_init(attributes);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETPGROUP);
}

static int spawn(start *it, pid_t *pid)
{
    const troupe_array_troupe_text *given = &it->of->record->arguments;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment = environment_of(it);
    char **arguments = trp_alloc((given->count + 2) * sizeof *arguments);
    int code = ENOMEM;
    if (environment && arguments) {
        for (size_t i = 0; i < given->count; i++)
            arguments[i] = (char *)(uintptr_t)given->items[i];
        if (given->count == 0)
            arguments[0] = it->program.text;
        arguments[given->count + (given->count == 0)] = NULL;
        prepare(it, &actions, &attributes);
        code = posix_spawn(pid, it->program.text, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
    }
    trp_free(environment);
    trp_free(arguments);
    return code;
}

static troupe_status run(const trp_stored_of *of, trp_child_process *process)
{
    enum { TRIES = 20, PAUSE_MS = 5 };
    struct stat about;
    int ends[2], code;
    start it = {.of = of, .folder = of->record->folder};
    TROUPE_TRY(trp_path_make(&it.program, "%s/" TRP_STORED_PROGRAM, of->folder));
    if (!it.folder || stat(it.folder, &about) != 0 || !S_ISDIR(about.st_mode))
        it.folder = of->folder;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return trp_fail_errno(TROUPE_IO, "no sockets for the program of %s", of->ref);
    it.theirs = ends[1];
    // Another thread may just make a process that has the copy open as it was when it was written.
    for (int i = 0; (code = spawn(&it, &process->pid)) == ETXTBSY && i < TRIES; i++)
        (void)poll(NULL, 0, PAUSE_MS);
    close(ends[1]);
    process->fd = ends[0];
    if (code == 0)
        return TROUPE_OK;
    close(ends[0]);
    errno = code;
    return trp_fail_errno(TROUPE_IO, "the program of %s cannot be started: %s", of->ref,
                          it.program.text);
}

// What a job may have come to that was not answered for.
static const char *perhaps(const trp_stored_of *of, bool begun)
{
    return begun && of->server
               ? "; the train server may have taken its job, as one with a .key that is submitted "
                 "again would show"
               : "";
}

static troupe_status say_late(const trp_stored_of *of, bool begun)
{
    if (begun)
        return troupe_fail(TROUPE_TIMED_OUT,
                           "the program of %s has not done in %d s what it was asked for%s",
                           of->ref, TRP_STORED_DO_MS / 1000, perhaps(of, begun));
    return troupe_fail(TROUPE_TIMED_OUT,
                       "the program of %s has not reached troupe_start in %d s: expected that its "
                       "main does, as when it was pushed",
                       of->ref, TRP_STORED_START_MS / 1000);
}

// Waits for its end; false: it had none of its own.
static bool reap(pid_t pid, int *code)
{
    enum { TRIES = 200, PAUSE_MS = 5 };
    pid_t ended;
    *code = 0;
    for (int i = 0; (ended = waitpid(pid, code, WNOHANG)) == 0 && i < TRIES; i++)
        (void)poll(NULL, 0, PAUSE_MS);
    if (ended != 0)
        return true;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, code, 0) < 0 && errno == EINTR)
        ;
    return false;
}

// It said nothing: how it ended.
static troupe_status say_why(const trp_stored_of *of, const trp_child_process *process, bool begun,
                             troupe_status status)
{
    int code;
    if (status == TROUPE_TIMED_OUT) {
        trp_child_end(process);
        return say_late(of, begun);
    }
    if (status != TROUPE_PEER_LOST) {
        trp_child_end(process);
        return trp_error_prefix("the program of %s", of->ref);
    }
    close(process->fd);
    if (!reap(process->pid, &code))
        return troupe_fail(TROUPE_IO,
                           "the program of %s has closed the socket that it is asked by "
                           "(descriptor %d): expected that its main closes what it has opened%s",
                           of->ref, SOCKET, perhaps(of, begun));
    if (WIFSIGNALED(code))
        return troupe_fail(TROUPE_IO,
                           "the program of %s has died by signal %d before it answered%s", of->ref,
                           WTERMSIG(code), perhaps(of, begun));
    if (!begun && WEXITSTATUS(code) == 127) // The system's loader.
        return troupe_fail(TROUPE_IO,
                           "the program of %s has ended with status 127, as one does that lacks a "
                           "shared library: its output says which; expected them to be found as "
                           "when it was pushed (LD_LIBRARY_PATH?)",
                           of->ref);
    return troupe_fail(TROUPE_IO,
                       "the program of %s has ended with status %d before it answered: expected "
                       "that its main reaches troupe_start, as when it was pushed%s",
                       of->ref, WEXITSTATUS(code), perhaps(of, begun));
}

troupe_status trp_stored_ask(const trp_stored_of *of, const trp_stored_request *request,
                             trp_arena *arena, trp_stored_answer *answer,
                             trp_child_process *process)
{
    trp_stored_request said = *request;
    said.version = TRP_STORED_VERSION;
    TROUPE_TRY(run(of, process));
    *answer = (trp_stored_answer){0};
    troupe_status status = trp_packet_send(process->fd, &troupe_type_trp_stored_request, &said);
    if (status == TROUPE_OK)
        status = trp_packet_receive(process->fd, TRP_STORED_START_MS,
                                    &troupe_type_trp_stored_answer, arena, answer);
    bool begun = status == TROUPE_OK && answer->begun; // An earlier library does not say so.
    if (begun) {
        *answer = (trp_stored_answer){0};
        status = trp_packet_receive(process->fd, TRP_STORED_DO_MS, &troupe_type_trp_stored_answer,
                                    arena, answer);
    }
    if (status != TROUPE_OK)
        return say_why(of, process, begun, status);
    if (answer->status == TROUPE_OK)
        return TROUPE_OK;
    trp_child_end(process);
    return troupe_fail((troupe_status)answer->status, "%s: %s", of->ref,
                       answer->text ? answer->text : "");
}
