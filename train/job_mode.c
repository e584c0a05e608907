// job_mode.c: see train/job_mode.h.
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/options_take.h>
#include <runtime/codec/unpack.h>
#include <runtime/host/file.h>
#include <runtime/node/limits.h>
#include <runtime/node/options.h>
#include <runtime/node/takeover.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <train/job_mode.h>
#include <train/job_runner.h>
#include <train/rank_log.h>
#include <train/warm.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    pid_t pid; // Of the process that was started for the job; 0: none was.
    int order_fd;
    bool taken; // A thread has become the runner.
    trp_job_mode is;
    trp_arena arena;
    char folder[PATH_MAX];
    trp_path guard;
    troupe_error refused; // Why the lock could not be taken over.
} mode = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- the order

static troupe_status unpack_order(const void *data, size_t size)
{
    TROUPE_TRY(
        trp_unpack_whole(&troupe_type_trp_wire_order, data, size, &mode.arena, &mode.is.order));
    const trp_wire_order *order = &mode.is.order;
    if (order->run == NULL || order->submission == NULL || order->job != mode.is.job ||
        order->attempt != mode.is.attempt)
        return troupe_fail(TROUPE_MALFORMED,
                           "the order of job %" PRId64 " is of job %" PRId64 ", attempt %d",
                           mode.is.job, order->job, order->attempt);
    return TROUPE_OK;
}

static troupe_status read_order(void)
{
    char *data;
    struct stat about;
    if (fstat(mode.order_fd, &about) != 0 || about.st_size <= 0)
        return trp_fail_errno(TROUPE_IO, "the order of a job cannot be read");
    size_t size = (size_t)about.st_size;
    data = (char *)trp_arena_alloc(&mode.arena, size);
    if (data == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the order of a job");
    if (pread(mode.order_fd, data, size, 0) != (ssize_t)size)
        return trp_fail_errno(TROUPE_IO, "the order of a job cannot be read");
    close(mode.order_fd);
    return unpack_order(data, size);
}

// Leaves a copy of the process that makes the runners of other jobs: each of them comes back here,
// and is its job's from then on.
static troupe_status leave_copy(void)
{
    trp_warm_job other;
    if (!trp_warm_copy(mode.folder, &mode.is.order, &mode.is.lock, &other))
        return TROUPE_OK;
    pthread_mutex_lock(&mode.lock);
    mode.pid = getpid();
    pthread_mutex_unlock(&mode.lock);
    trp_arena_clear(&mode.arena);
    strcpy(mode.folder, other.folder);
    mode.is = (trp_job_mode){
        .job = other.job, .attempt = other.attempt, .folder = mode.folder, .lock = other.lock};
    troupe_status status = unpack_order(other.order.data, other.order.size);
    trp_buffer_free(&other.order);
    return status;
}

// ---- the options

static int count_ids(const char *ids)
{
    int count = ids[0] != '\0';
    for (; *ids != '\0'; ids++)
        count += *ids == ',';
    return count;
}

// What nodes of whole machines have by default, in proportion to the CPUs that are granted: there
// are others beside this one.
static troupe_status share_memory(const troupe_options *given, double cpus, troupe_options *own)
{
    enum { LEAST = 16 << 20 };
    struct statvfs disk;
    troupe_options full;
    trp_limits limits = trp_limits_read("");
    double share = limits.cpus > cpus ? cpus / limits.cpus : 1;
    TROUPE_TRY(trp_options_complete(own, &limits, &full));
    own->workers = full.workers; // What is given is not asked of the system a second time.
    own->gpus = full.gpus;
    own->memory_bytes = full.memory_bytes;
    if (given->store_bytes_max == 0)
        own->store_bytes_max = (size_t)fmax(LEAST, (double)full.store_bytes_max * share);
    if (given->spill_bytes_max == 0 && statvfs(full.spill_dir, &disk) == 0)
        own->spill_bytes_max =
            (int64_t)fmax(LEAST, (double)disk.f_bavail * (double)disk.f_frsize / 2 * share);
    return TROUPE_OK;
}

static troupe_status set_options(const troupe_options *theirs, troupe_options *own)
{
    const trp_wire_order *order = &mode.is.order;
    troupe_options given;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_start", given, theirs));
    *own = given;
    own->size = sizeof *own;
    own->cpus = order->cpus;
    own->threads = (int)fmax(1, ceil(order->cpus));
    own->memory_bytes = (size_t)order->memory_bytes;
    own->resources = order->resources;
    if (order->gpus <= 0)
        own->gpus = TROUPE_NONE;
    else
        own->gpus = order->gpu_ids != NULL ? count_ids(order->gpu_ids) : 0;
    own->listen = own->keys = own->trace = own->directory = NULL;
    own->handle_signals = false;
    own->worker_output = (troupe_output)0;
    return share_memory(&given, order->cpus, own);
}

// ---- taking over

static troupe_status claim(void)
{
    pthread_mutex_lock(&mode.lock);
    bool own = mode.pid == getpid(), late = mode.taken;
    mode.taken |= own;
    pthread_mutex_unlock(&mode.lock);
    if (!own)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the train server has started process %d for job %" PRId64
                           ", and this is its child: expected no fork before troupe_start",
                           (int)mode.pid, mode.is.job);
    if (!late)
        return TROUPE_OK;
    for (;;) // What follows is the client's part of the program.
        (void)pause();
}

static troupe_status begin(const troupe_options *given, troupe_options *own)
{
    TROUPE_TRY(claim());
    troupe_status status =
        mode.is.lock != NULL ? trp_alive_hold_on(mode.is.lock) : trp_error_set(&mode.refused);
    if (status != TROUPE_OK) {
        trp_log(TRP_ERROR, "job %" PRId64 " is not run: %s", mode.is.job,
                troupe_last_error()->text);
        trp_job_runner_leave();
    }
    status = read_order();
    if (status == TROUPE_OK)
        status = leave_copy();
    if (status == TROUPE_OK)
        status = set_options(given, own);
    if (status != TROUPE_OK)
        trp_job_runner_fail(&mode.is, status);
    return TROUPE_OK;
}

static void run(troupe_status status)
{
    if (status != TROUPE_OK)
        trp_job_runner_fail(&mode.is, status);
    trp_rank_logs_be_alone();
    trp_job_runner_run(&mode.is);
}

static const char *guard(void)
{
    return trp_path_make(&mode.guard, "%s/alive", mode.is.folder) == TROUPE_OK ? mode.guard.text
                                                                               : NULL;
}

static const trp_takeover takeover = {.begin = begin, .run = run, .guard = guard};

__attribute__((constructor)) static void find_at_start(void)
{
    trp_job_mode_find();
}

void trp_job_mode_find(void)
{
    int pid, lock_fd, at = 0;
    const char *text = secure_getenv("TROUPE_JOB");
    if (text == NULL)
        return;
    bool read = sscanf(text, "%d:%d:%d:%" SCNd64 ":%d:%n", &pid, &lock_fd, &mode.order_fd,
                       &mode.is.job, &mode.is.attempt, &at) == 5 &&
                at > 0 && strlen(text + at) < sizeof mode.folder;
    if (read && pid == getpid()) {
        strcpy(mode.folder, text + at);
        mode.pid = pid;
        mode.is.folder = mode.folder;
        (void)fcntl(mode.order_fd, F_SETFD, FD_CLOEXEC);
        if (trp_alive_adopt(lock_fd, &mode.is.lock) != TROUPE_OK)
            mode.refused = *troupe_last_error();
        trp_takeover_set(&takeover);
        trp_warm_begin();
    }
    (void)unsetenv("TROUPE_JOB"); // What the program starts is no runner.
}
