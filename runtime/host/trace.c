// trace.c: see trace.h.
#include <runtime/host/trace.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/host/folder.h>
#include <runtime/shm/segment.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    STEP_MS = 100,
    STEP_ROWS = TRP_TRACE_ROWS / 4, // So many are written without waiting for the time.
    BATCH = 128,
    EVENT_MAX = 512, // Bytes of one event in the file.
    NAME_SHOWN = 80,
};

static struct {
    pthread_mutex_t lock; // Of the rows and what counts them.
    pthread_cond_t changed;
    trp_trace_event *rows; // A ring.
    uint32_t first, count;
    uint64_t lost;
    bool ending;
    bool none; // The driver was told to keep no trace; an executed process does not know.
    _Atomic bool records;
    pthread_t writer;
    int fd; // Of the file; written by the writer's thread while there is one.
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

// ---- the file

// Whole events: other processes append as well. A file that cannot be written to is given up.
static void append(const char *text, size_t size)
{
    while (size > 0 && trace.fd >= 0) {
        ssize_t written = write(trace.fd, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            trp_log(TRP_WARN, "the trace ends here, its file cannot be written to: %s",
                    strerror(errno));
            close(trace.fd);
            trace.fd = -1;
            return;
        }
        text += written;
        size -= (size_t)written;
    }
}

// Names are C identifiers, as a rule; what JSON could not have as it is is shown as '_'.
static const char *clean(const char *name, char out[NAME_SHOWN + 1])
{
    size_t size = 0;
    for (; name[size] != '\0' && size < NAME_SHOWN; size++) {
        char c = name[size];
        out[size] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '_' : c;
    }
    out[size] = '\0';
    return out;
}

static int print_event(const trp_trace_event *it, char *out, size_t capacity)
{
    char class_name[NAME_SHOWN + 1], method[NAME_SHOWN + 1];
    (void)clean(it->class_name, class_name);
    (void)clean(it->method != NULL ? it->method : "", method);
    if (it->instant != NULL)
        return snprintf(out, capacity,
                        ",\n{\"ph\":\"i\",\"s\":\"p\",\"name\":\"%s %s\",\"cat\":\"actor\","
                        "\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"args\":{\"actor\":\"%s#%llu\"}}",
                        it->instant, class_name, (int)getpid(), it->tid,
                        (double)it->begun_ns * 1e-3, class_name, (unsigned long long)it->actor);
    return snprintf(out, capacity,
                    ",\n{\"ph\":\"X\",\"name\":\"%s%s%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,"
                    "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"actor\":\"%s#%llu\",\"caller\":%d}}",
                    class_name, it->method != NULL ? "." : "", method,
                    it->method != NULL ? "method" : "task", (int)getpid(), it->tid,
                    (double)it->begun_ns * 1e-3, (double)it->lasted_ns * 1e-3, class_name,
                    (unsigned long long)it->actor, it->caller);
}

static void append_named(const char *before, uint32_t slot)
{
    char text[EVENT_MAX], name[32] = "driver";
    if (slot != TRP_PROCESS_DRIVER)
        snprintf(name, sizeof name, "worker %u", slot);
    int size = snprintf(text, sizeof text,
                        "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
                        "\"args\":{\"name\":\"%s\"}}",
                        before, (int)getpid(), name);
    append(text, (size_t)size);
}

static void append_lost(uint64_t lost)
{
    char text[EVENT_MAX];
    int size = snprintf(text, sizeof text,
                        ",\n{\"ph\":\"M\",\"name\":\"events_lost\",\"pid\":%d,\"tid\":0,"
                        "\"args\":{\"count\":%llu}}",
                        (int)getpid(), (unsigned long long)lost);
    append(text, (size_t)size);
    trp_log(TRP_WARN, "%llu events came too fast to be written to the trace, and are not in it",
            (unsigned long long)lost);
}

// ---- the writer

// With the lock held, which it gives up to write; false: there was nothing. By the writer alone.
static bool write_batch(void)
{
    static TRP_VAST trp_trace_event events[BATCH];
    static TRP_VAST char text[BATCH * EVENT_MAX];
    uint32_t taken = trace.count < BATCH ? trace.count : BATCH;
    for (uint32_t i = 0; i < taken; i++)
        events[i] = trace.rows[(trace.first + i) % TRP_TRACE_ROWS];
    trace.first = (trace.first + taken) % TRP_TRACE_ROWS;
    trace.count -= taken;
    if (taken == 0)
        return false;
    pthread_mutex_unlock(&trace.lock);
    size_t size = 0;
    for (uint32_t i = 0; i < taken; i++)
        size += (size_t)print_event(&events[i], text + size, sizeof text - size);
    append(text, size);
    pthread_mutex_lock(&trace.lock);
    return true;
}

static void *writer_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&trace.lock);
    while (!trace.ending) {
        int64_t until = trp_clock_ns() + (int64_t)STEP_MS * 1000000;
        struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                              .tv_nsec = (long)(until % 1000000000)};
        while (!trace.ending && trace.count < STEP_ROWS &&
               pthread_cond_timedwait(&trace.changed, &trace.lock, &at) == 0)
            continue;
        while (write_batch())
            continue;
    }
    while (write_batch())
        continue;
    pthread_mutex_unlock(&trace.lock);
    return NULL;
}

static bool start_writer(void)
{
    trp_cond_open(&trace.changed);
    return trp_thread_start(&trace.writer, "troupe-trace", writer_main, NULL) == TROUPE_OK;
}

// ---- from outside

// Opens a file that is this user's, and no other's through a link, to be written from its beginning
// (`make`) or on. A device is nobody's. A pipe that nobody reads is not waited for.
static int open_own(const char *path, int make)
{
    struct stat about = {0};
    int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags | O_NONBLOCK | make, trp_file_mode());
    if (fd < 0)
        return -1;
    bool file = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    bool own = file ? about.st_uid == geteuid() && about.st_nlink == 1
                    : S_ISCHR(about.st_mode) || about.st_uid == geteuid();
    int error = own ? 0 : EPERM;
    if (own && file && make != 0 && ftruncate(fd, 0) != 0)
        error = errno;
    if (error == 0 && fcntl(fd, F_SETFL, flags) != 0)
        error = errno;
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

troupe_status trp_trace_create(const char *path, const char *folder)
{
    char full[PATH_MAX], link[128];
    trace.none = path == NULL || path[0] == '\0';
    if (trace.none)
        return TROUPE_OK;
    trace.fd = open_own(path, O_CREAT);
    if (trace.fd < 0)
        return troupe_fail(TROUPE_IO, "the trace file '%s' could not be made: %s", path,
                           errno == ELOOP   ? "it is a link"
                           : errno == ENXIO ? "it is a pipe without a reader"
                           : errno == EPERM ? "it is another user's, or has two names"
                                            : strerror(errno));
    snprintf(link, sizeof link, "%s/trace", folder);
    if (folder[0] != '\0' && (realpath(path, full) == NULL || symlink(full, link) != 0)) {
        troupe_status status =
            troupe_fail(TROUPE_IO, "the trace file '%s' cannot be passed to workers: %s", path,
                        strerror(errno));
        close(trace.fd);
        trace.fd = -1;
        return status;
    }
    append("[\n", 2);
    append_named("", TRP_PROCESS_DRIVER);
    return TROUPE_OK;
}

void trp_trace_join(uint32_t slot, const char *folder)
{
    if (slot != TRP_PROCESS_DRIVER && !trace.none) { // What the driver had open is not open here.
        char link[128], path[PATH_MAX];
        snprintf(link, sizeof link, "%s/trace", folder);
        ssize_t size = readlink(link, path, sizeof path - 1);
        path[size > 0 ? size : 0] = '\0';
        trace.fd = open_own(path, 0);
        if (trace.fd >= 0)
            append_named(",\n", slot);
    }
    if (trace.fd < 0)
        return;
    trace.first = trace.count = 0;
    trace.lost = 0;
    trace.ending = false;
    trace.rows = trp_alloc(TRP_TRACE_ROWS * sizeof *trace.rows);
    bool starts = trace.rows != NULL && start_writer();
    if (!starts)
        trp_log(TRP_WARN, "no memory for a trace of process %u: it is not in the file", slot);
    atomic_store(&trace.records, starts);
}

bool trp_trace_records(void)
{
    return atomic_load_explicit(&trace.records, memory_order_relaxed);
}

void trp_trace_add(const trp_trace_event *event)
{
    pthread_mutex_lock(&trace.lock);
    if (trace.rows == NULL || trace.ending) {
        ; // It is over.
    } else if (trace.count == TRP_TRACE_ROWS) {
        trace.lost++;
    } else {
        trace.rows[(trace.first + trace.count++) % TRP_TRACE_ROWS] = *event;
        if (trace.count == STEP_ROWS)
            pthread_cond_signal(&trace.changed);
    }
    pthread_mutex_unlock(&trace.lock);
}

void trp_trace_leave(void)
{
    pthread_mutex_lock(&trace.lock);
    bool recorded = atomic_exchange(&trace.records, false);
    trace.ending = true;
    if (recorded)
        pthread_cond_signal(&trace.changed);
    pthread_mutex_unlock(&trace.lock);
    if (recorded) {
        pthread_join(trace.writer, NULL);
        pthread_cond_destroy(&trace.changed);
    }
    pthread_mutex_lock(&trace.lock);
    trp_free(trace.rows);
    trace.rows = NULL;
    uint64_t lost = trace.lost;
    trace.lost = 0;
    pthread_mutex_unlock(&trace.lock);
    if (lost > 0)
        append_lost(lost);
}

void trp_trace_finish(void)
{
    trp_trace_leave();
    append("\n]\n", 3);
    if (trace.fd >= 0)
        close(trace.fd);
    trace.fd = -1;
}
