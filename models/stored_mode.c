// stored_mode.c: a stored program that was asked for something: what its first troupe_start does
// instead of returning.
#include <models/stored.h>

#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/options_take.h>
#include <runtime/codec/json.h>
#include <runtime/node/takeover.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <train/rank_log.h>
#include <unistd.h>

enum { ACTIONS_MAX = 8, REQUEST_MS = 10000 };

static struct {
    pid_t pid; // Of this process, if it was asked; 0: it was not.
    int fd;
    bool answered;
    pthread_mutex_t lock;
    bool taken; // A thread has come to troupe_start.
} mode = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    const char *name;
    trp_stored_action does;
} actions[ACTIONS_MAX];
static size_t action_count;

void trp_stored_can(const char *action, trp_stored_action does)
{
    if (action_count < ACTIONS_MAX) {
        actions[action_count].name = action;
        actions[action_count++].does = does;
    }
}

bool trp_stored_is_asked(void)
{
    return mode.pid != 0;
}

troupe_status trp_stored_arguments(const trp_stored_request *request, const troupe_type *type,
                                   trp_arena *arena, void *arguments)
{
    trp_json json;
    const char *text = request->arguments ? request->arguments : "{}";
    TROUPE_TRY(trp_json_parse(text, strlen(text), &json));
    return trp_json_read(type, json, arena, arguments);
}

troupe_status trp_stored_answer_now(int fd, const trp_stored_answer *answer)
{
    mode.answered = true;
    return trp_packet_send(fd, &troupe_type_trp_stored_answer, answer);
}

// ---- taking over

static troupe_status begin(const troupe_options *given, troupe_options *own)
{
    troupe_options full;
    if (mode.pid != getpid())
        return troupe_fail(
            TROUPE_UNSUPPORTED,
            "process %d was asked for something as a stored program, and this is its "
            "child: expected no fork before troupe_start",
            (int)mode.pid);
    pthread_mutex_lock(&mode.lock);
    bool late = mode.taken;
    mode.taken = true;
    pthread_mutex_unlock(&mode.lock);
    if (late) // What follows is the program's own part.
        for (;;)
            (void)pause();
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_start", full, given));
    *own = full;
    own->size = sizeof *own;
    own->listen = own->keys = own->trace = own->directory = NULL;
    own->handle_signals = false;
    return TROUPE_OK;
}

static troupe_status act(trp_arena *arena, trp_stored_answer *answer)
{
    trp_stored_request request = {0};
    TROUPE_TRY(
        trp_packet_receive(mode.fd, REQUEST_MS, &troupe_type_trp_stored_request, arena, &request));
    if (request.version > TRP_STORED_VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "the library of the stored program is asked in version %d, expected at "
                           "most %d: push it again with a program of the present library",
                           request.version, TRP_STORED_VERSION);
    // Not what nobody waits for any more.
    if (request.version >= 2)
        TROUPE_TRY(trp_packet_send(mode.fd, &troupe_type_trp_stored_answer,
                                   &(trp_stored_answer){.begun = true}));
    for (size_t i = 0; request.action && i < action_count; i++)
        if (strcmp(actions[i].name, request.action) == 0)
            return actions[i].does(mode.fd, &request, arena, answer);
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "the library of the stored program cannot do '%.40s': it is another version",
                       request.action ? request.action : "");
}

static void run(troupe_status status)
{
    trp_arena arena = {0};
    trp_stored_answer answer = {0};
    trp_rank_logs_be_alone();
    if (status == TROUPE_OK)
        status = act(&arena, &answer);
    answer.status = (int)status;
    if (status != TROUPE_OK)
        answer.text = troupe_last_error()->text;
    if (!mode.answered)
        (void)trp_stored_answer_now(mode.fd, &answer);
    trp_arena_clear(&arena);
    (void)troupe_stop();
    (void)fflush(NULL);
    _exit(EXIT_SUCCESS); // What the program does at its exit is its own.
}

static const char *guard(void)
{
    return NULL;
}

static const trp_takeover takeover = {.begin = begin, .run = run, .guard = guard};

// Whether the other end of the pair was made by that process, which may be gone.
static bool is_of(int fd, int pid)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == pid;
}

__attribute__((constructor)) static void find_at_start(void)
{
    int pid, fd;
    const char *text = secure_getenv("TROUPE_STORED");
    if (!text)
        return;
    if (sscanf(text, "%d:%d", &pid, &fd) == 2 && is_of(fd, pid)) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        mode.fd = fd;
        mode.pid = getpid();
        trp_takeover_set(&takeover);
    }
    (void)unsetenv("TROUPE_STORED"); // What the program starts was not asked.
}
