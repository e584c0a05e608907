// launcher.c: see server/launcher.h.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/codec/pack.h>
#include <server/launcher.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_VERSION = 1 }; // As launch/launch.c reads it.

// ---- the program

static const char *rebuilt_at(const struct stat *about, char *text, size_t capacity)
{
    struct tm parts;
    if (localtime_r(&about->st_ctim.tv_sec, &parts) == NULL ||
        strftime(text, capacity, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        text[0] = '\0';
    return text;
}

// The number of a device may change when the machine is started anew, and says nothing beside the
// others.
static bool is_same(const trp_wire_object *object, const struct stat *about)
{
    int64_t changed_ns = (int64_t)about->st_ctim.tv_sec * 1000000000 + about->st_ctim.tv_nsec;
    return object->inode == about->st_ino && object->bytes == (uint64_t)about->st_size &&
           object->changed_ns == changed_ns;
}

// The executable is the first of the objects.
static troupe_status check_object(const trp_wire_launch *launch, const trp_wire_object *object)
{
    char when[32];
    struct stat about;
    bool is_program = object == launch->objects.items;
    const char *of = is_program ? "" : ", of which the program of the job consists,";
    if (stat(object->path, &about) != 0)
        return troupe_fail(TROUPE_INVALID,
                           "%s%s is gone (%s), after the job was queued: submit it again",
                           object->path, of, strerror(errno));
    if (is_same(object, &about))
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID,
                       "%s%s was rebuilt at %s, after the job was queued: submit it again",
                       object->path, of, rebuilt_at(&about, when, sizeof when));
}

troupe_status trp_launcher_check(const trp_wire_launch *launch)
{
    for (size_t i = 0; i < launch->objects.count; i++)
        TROUPE_TRY(check_object(launch, &launch->objects.items[i]));
    return TROUPE_OK;
}

// ---- the record

static void add_text(trp_buffer *record, const char *text)
{
    trp_buffer_append(record, text, strlen(text) + 1);
}

static void add_number(trp_buffer *record, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    add_text(record, text);
}

static bool is_variable(const char *line, const char *name)
{
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 && line[length] == '=';
}

// Those that speak of the process that submitted the job.
static bool is_kept(const char *line, const char *gpus)
{
    static const char *const left_out[] = {"TROUPE_JOB",   "TROUPE_IN_JOB", "TROUPE_LOCAL",
                                           "TROUPE_TRACE", "TROUPE_WORKER", "TROUPE_DEBUG_WAIT"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (is_variable(line, left_out[i]))
            return false;
    return gpus == NULL || !is_variable(line, "CUDA_VISIBLE_DEVICES");
}

static void add_environment(trp_buffer *record, const trp_wire_launch *launch,
                            const trp_wire_order *order)
{
    const troupe_array_troupe_text *all = &launch->environment;
    int64_t count = order->gpu_ids != NULL ? 2 : 1;
    for (size_t i = 0; i < all->count; i++)
        count += is_kept(all->items[i], order->gpu_ids);
    add_number(record, count);
    for (size_t i = 0; i < all->count; i++)
        if (is_kept(all->items[i], order->gpu_ids))
            add_text(record, all->items[i]);
    trp_buffer_printf(record, "TROUPE_IN_JOB=%" PRId64, order->job);
    trp_buffer_append(record, "", 1);
    if (order->gpu_ids != NULL) {
        trp_buffer_printf(record, "CUDA_VISIBLE_DEVICES=%s", order->gpu_ids);
        trp_buffer_append(record, "", 1);
    }
}

bool trp_launcher_is_affine(const trp_wire_launch *launch, double cpus)
{
    const unsigned char *bytes = (const unsigned char *)launch->affinity.data;
    int count = 0;
    for (size_t i = 0; i < launch->affinity.size; i++)
        count += __builtin_popcount(bytes[i]);
    return count >= cpus;
}

static void add_affinity(trp_buffer *record, const trp_wire_launch *launch, double cpus)
{
    const unsigned char *bytes = (const unsigned char *)launch->affinity.data;
    bool affine = trp_launcher_is_affine(launch, cpus);
    for (size_t i = 0; i < launch->affinity.size && affine; i++)
        trp_buffer_printf(record, "%02x", bytes[i]);
    trp_buffer_append(record, "", 1);
}

static void add_limits(trp_buffer *record, const trp_wire_launch *launch)
{
    add_number(record, (int64_t)launch->limits.count);
    for (size_t i = 0; i < launch->limits.count; i++) {
        const trp_wire_limit *limit = &launch->limits.items[i];
        trp_buffer_printf(record, "%d %" PRIu64 " %" PRIu64, limit->resource, limit->soft,
                          limit->hard);
        trp_buffer_append(record, "", 1);
    }
}

static void make_record(trp_buffer *record, const trp_wire_launch *launch,
                        const trp_wire_order *order, const char *folder)
{
    add_number(record, RECORD_VERSION);
    add_text(record, folder);
    add_number(record, order->job);
    add_number(record, order->attempt);
    add_text(record, launch->program);
    add_text(record, launch->folder);
    add_number(record, launch->umask);
    add_number(record, launch->nice);
    add_affinity(record, launch, order->cpus);
    add_limits(record, launch);
    add_number(record, (int64_t)launch->arguments.count);
    for (size_t i = 0; i < launch->arguments.count; i++)
        add_text(record, launch->arguments.items[i]);
    add_environment(record, launch, order);
}

// A file in memory that holds the bytes, which nobody can change.
static troupe_status seal(const char *name, const trp_buffer *bytes, int *fd)
{
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t written = 0;
    while (file >= 0 && written < bytes->size) {
        ssize_t got = write(file, bytes->data + written, bytes->size - written);
        if (got < 0 && errno != EINTR)
            break;
        written += got > 0 ? (size_t)got : 0;
    }
    if (file < 0 || written < bytes->size ||
        fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        troupe_status status = trp_fail_errno(TROUPE_IO, "the %s of a job cannot be kept", name);
        if (file >= 0)
            close(file);
        return status;
    }
    *fd = file;
    return TROUPE_OK;
}

// What the launcher is given.
typedef struct papers {
    int record, order;
} papers;

static troupe_status make_papers(const trp_wire_launch *launch, const trp_wire_order *order,
                                 const char *folder, papers *made)
{
    trp_buffer record = {0}, packed = {0};
    made->record = made->order = -1;
    make_record(&record, launch, order, folder);
    troupe_status status = trp_pack(&troupe_type_trp_wire_order, order, &packed);
    if (status == TROUPE_OK && (record.failed || packed.failed))
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the start of a job");
    if (status == TROUPE_OK)
        status = seal("record", &record, &made->record);
    if (status == TROUPE_OK)
        status = seal("order", &packed, &made->order);
    trp_buffer_free(&record);
    trp_buffer_free(&packed);
    return status;
}

static void drop_papers(const papers *made)
{
    if (made->record >= 0)
        close(made->record);
    if (made->order >= 0)
        close(made->order);
}

// ---- the launcher

// In the folder of `path`.
static bool is_beside(const char *path, char *found, size_t capacity)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL &&
           snprintf(found, capacity, "%.*s/troupe-launch", (int)(slash - path), path) <
               (int)capacity &&
           access(found, X_OK) == 0;
}

// Beside the program that TROUPE_COMMAND names, or else beside this one.
static troupe_status find_launcher(char *found, size_t capacity)
{
    char own[PATH_MAX];
    const char *named = secure_getenv("TROUPE_COMMAND");
    if (named != NULL && is_beside(named, found, capacity))
        return TROUPE_OK;
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    if (is_beside(own, found, capacity))
        return TROUPE_OK;
    return troupe_fail(TROUPE_NOT_FOUND,
                       "the program troupe-launch is missing: expected it beside %s, or beside the "
                       "program that TROUPE_COMMAND names",
                       own[0] != '\0' ? own : "this program");
}

static troupe_status spawn(const char *program, const papers *with, pid_t *pid)
{
    enum { ORDER_FD = 3 }; // Where launch/launch.c expects it.
    char *arguments[] = {(char *)"troupe-launch", NULL};
    char *environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to start troupe-launch");
    int failure = posix_spawn_file_actions_adddup2(&actions, with->record, STDIN_FILENO);
    if (failure == 0)
        failure = posix_spawn_file_actions_adddup2(&actions, with->order, ORDER_FD);
    if (failure == 0)
        failure = posix_spawn(pid, program, &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (failure == 0)
        return TROUPE_OK;
    return troupe_fail(failure == ENOMEM ? TROUPE_NO_MEMORY : TROUPE_IO, "%s cannot be started: %s",
                       program, strerror(failure));
}

// A child that nobody would wait for is ended.
static troupe_status open_pidfd(pid_t pid, int *pidfd)
{
    *pidfd = pidfd_open(pid, 0);
    if (*pidfd >= 0)
        return TROUPE_OK;
    troupe_status status = trp_fail_errno(TROUPE_IO, "troupe-launch cannot be watched");
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

troupe_status trp_launcher_start(const trp_wire_launch *launch, const trp_wire_order *order,
                                 const char *folder, pid_t *pid, int *pidfd)
{
    char program[PATH_MAX];
    papers given;
    pid_t child;
    TROUPE_TRY(trp_launcher_check(launch));
    TROUPE_TRY(find_launcher(program, sizeof program));
    troupe_status status = make_papers(launch, order, folder, &given);
    if (status == TROUPE_OK)
        status = spawn(program, &given, &child);
    drop_papers(&given);
    TROUPE_TRY(status);
    TROUPE_TRY(open_pidfd(child, pidfd));
    *pid = child;
    return TROUPE_OK;
}
