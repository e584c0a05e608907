// rank_log.c: the log files of ranks, and the thread that writes them (see train/rank_log.h).
#include <train/rank_log.h>

#include <errno.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <runtime/host/output_listener.h>
#include <runtime/host/worker_output.h>
#include <runtime/shm/process_table.h>
#include <runtime/text/progress.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { HOLD_MS = 2000 }; // How long lines of an attempt wait for those of the one before.

struct trp_rank_logs {
    _Atomic int holds;      // Of who opened it, and of each log.
    struct rank_log *first; // Of all that have not ended. Under the writer's lock.
    trp_log_sink sink;      // Held; none: `is` is NULL.
    atomic_bool warned;
    char run[];
};

// What one process prints. The writer's, but for what is said under its lock.
typedef struct rank_log {
    trp_rank_logs *of;
    int rank, world, attempt, pid;
    bool begun; // Its first line is in the file.
    int64_t since_ms;
    // Under the lock:
    struct rank_log *next;   // In the queue,
    struct rank_log *beside; // and of the run.
    bool queued, busy;       // It waits there, or is being written.
    bool ended;              // Nothing more comes.
    trp_buffer earlier;      // Not written yet: of the attempt before,
    trp_buffer text;         // and of this one, if it is another:
    int next_attempt;
    bool another;
    uint64_t lost; // Lines that did not fit.
} rank_log;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rank_log *first, **last; // What there is to write.
    bool running, stop;
    pthread_t thread;
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static atomic_bool alone; // Lines are not printed besides.

trp_rank_logs *trp_rank_logs_open(const char *run, trp_log_sink sink)
{
    size_t size = strlen(run) + 1;
    trp_rank_logs *logs = trp_alloc(sizeof *logs + size);
    if (logs == NULL)
        return NULL;
    atomic_init(&logs->holds, 1);
    memcpy(logs->run, run, size);
    logs->sink = sink;
    if (sink.is != NULL)
        sink.is->hold(sink.user);
    return logs;
}

void trp_rank_logs_close(trp_rank_logs *logs)
{
    if (logs == NULL || atomic_fetch_sub(&logs->holds, 1) > 1)
        return;
    if (logs->sink.is != NULL)
        logs->sink.is->release(logs->sink.user);
    trp_free(logs);
}

// With the writer's lock.
static void free_log(rank_log *log)
{
    const trp_log_sink *sink = &log->of->sink;
    if (sink->is != NULL)
        sink->is->end(sink->user);
    for (rank_log **at = &log->of->first; *at != NULL; at = &(*at)->beside)
        if (*at == log) {
            *at = log->beside;
            break;
        }
    trp_rank_logs_close(log->of);
    trp_buffer_free(&log->earlier);
    trp_buffer_free(&log->text);
    trp_free(log);
}

// ---- writing

// *at becomes where in the file the text begins.
static troupe_status append(const rank_log *log, const trp_buffer *text, off_t *at)
{
    trp_path path;
    struct stat about = {0};
    TROUPE_TRY(trp_path_make(&path, "%s/log", log->of->run));
    if (mkdir(path.text, trp_folder_mode()) && errno != EEXIST)
        return trp_fail_errno(TROUPE_IO, "cannot make the folder %s", path.text);
    TROUPE_TRY(trp_path_make(&path, "%s/log/rank_%05d.log", log->of->run, log->rank));
    if (text->failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for lines of %s", path.text);
    if (stat(path.text, &about) && errno != ENOENT)
        return trp_fail_errno(TROUPE_IO, "cannot look at %s", path.text);
    *at = about.st_size; // Only this thread writes to it.
    return trp_file_append(path.text, text->data, text->size);
}

static uint64_t count_lines(const trp_buffer *text)
{
    uint64_t count = 0;
    for (size_t i = 0; i < text->size; i++)
        count += text->data[i] == '\n';
    return count;
}

// `at`: where the text lies in the file; negative: nowhere.
static void tell_follower(const rank_log *log, const trp_buffer *text, off_t at, uint64_t lost)
{
    trp_log_piece piece = {
        .rank = log->rank, .attempt = log->attempt, .pid = log->pid, .lost = lost};
    if (log->of->sink.is == NULL)
        return;
    if (at < 0) {
        piece.lost += count_lines(text);
    } else {
        piece.at = at;
        piece.end = at + (off_t)text->size;
    }
    log->of->sink.is->lines(log->of->sink.user, &piece);
}

static void write_out(rank_log *log, const trp_buffer *text, uint64_t lost)
{
    trp_buffer out = {0};
    if (!log->begun) {
        char now[32];
        trp_time_of_day(now);
        trp_buffer_printf(&out, "---- attempt %d, rank %d of %d, pid %d, %s ----\n", log->attempt,
                          log->rank, log->world, log->pid, now);
    }
    size_t head = out.size;
    off_t at = 0;
    trp_buffer_append(&out, text->data, text->size);
    if (lost > 0)
        trp_buffer_printf(&out,
                          "---- %llu lines are not here: they came faster than they could be "
                          "written ----\n",
                          (unsigned long long)lost);
    bool written = append(log, &out, &at) == TROUPE_OK;
    tell_follower(log, text, written ? at + (off_t)head : -1, lost);
    if (written)
        log->begun = true;
    else if (!atomic_exchange(&log->of->warned, true))
        trp_log(TRP_WARN, "lines of ranks are not in their log files: %s",
                troupe_last_error()->text);
    trp_buffer_free(&out);
}

// Writes what was taken of it.
static void write_what(rank_log *log, rank_log *what)
{
    if (what->earlier.size > 0)
        write_out(log, &what->earlier, 0);
    if (what->another) { // Behind a line of its own.
        log->attempt = what->next_attempt;
        log->begun = false;
    }
    if (what->text.size > 0 || what->lost > 0)
        write_out(log, &what->text, what->lost);
    trp_buffer_free(&what->earlier);
    trp_buffer_free(&what->text);
}

// Whether lines of an earlier attempt of the rank may still come or wait: they go first. But what
// that left behind may hold its output open for long. With the lock.
static bool is_early(const rank_log *log)
{
    if (writer.stop || trp_clock_ms() - log->since_ms > HOLD_MS)
        return false;
    for (const rank_log *it = log->of->first; it != NULL; it = it->beside)
        if (it->rank == log->rank && it->attempt < log->attempt)
            return true;
    return false;
}

// Takes the next one out of the queue, `any` also before its time; NULL: there is none. With the
// lock.
static rank_log *next_log(bool any)
{
    rank_log **at = &writer.first;
    while (*at != NULL && !any && is_early(*at))
        at = &(*at)->next;
    rank_log *log = *at;
    if (log == NULL)
        return NULL;
    *at = log->next;
    if (*at == NULL)
        writer.last = at;
    log->queued = false;
    log->busy = true;
    return log;
}

// Until there may be something to write. With the lock, which is let go meanwhile.
static void await_work(void)
{
    enum { LOOK_NS = 100000000 }; // Where something waits for its time.
    struct timespec until;
    if (writer.first == NULL) {
        pthread_cond_wait(&writer.changed, &writer.lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&writer.changed, &writer.lock, &until);
}

static void *write_logs(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&writer.lock);
    while (!writer.stop || writer.first != NULL) {
        rank_log *log = next_log(false);
        if (log == NULL) {
            await_work();
            continue;
        }
        rank_log what = *log;
        log->earlier = log->text = (trp_buffer){0};
        log->lost = 0;
        log->another = false;
        pthread_mutex_unlock(&writer.lock);
        write_what(log, &what);
        pthread_mutex_lock(&writer.lock);
        log->busy = false;
        if (log->ended && !log->queued)
            free_log(log);
    }
    writer.running = false;
    pthread_cond_broadcast(&writer.changed);
    pthread_mutex_unlock(&writer.lock);
    return NULL;
}

// Called when all output has ended. A disk that hangs is not waited for.
static void settle(void)
{
    enum { SETTLE_S = 2 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SETTLE_S;
    pthread_mutex_lock(&writer.lock);
    bool ran = writer.running && !writer.stop;
    writer.stop = ran || writer.stop;
    pthread_cond_broadcast(&writer.changed);
    while (writer.running && pthread_cond_timedwait(&writer.changed, &writer.lock, &until) == 0)
        continue;
    bool ended = !writer.running;
    if (ended)
        writer.stop = false;                // It may be started again.
    while (ended && writer.first != NULL) { // It could not be started.
        rank_log *log = next_log(true);
        trp_assert(log->ended);
        free_log(log);
    }
    pthread_t thread = writer.thread;
    pthread_mutex_unlock(&writer.lock);
    if (ran && ended)
        (void)pthread_join(thread, NULL);
    else if (ran)
        (void)pthread_detach(thread);
    if (!ended)
        trp_log(TRP_WARN, "the last lines of ranks are not in their log files: writing hangs");
}

// ---- what the thread that reads all output calls

// With the lock.
static void enqueue(rank_log *log)
{
    if (!writer.running) // Where it cannot be started, the next line tries again.
        writer.running =
            trp_thread_start(&writer.thread, "troupe-logs", write_logs, NULL) == TROUPE_OK;
    if (log->queued)
        return;
    log->next = NULL;
    log->queued = true;
    if (writer.first == NULL)
        writer.last = &writer.first;
    *writer.last = log;
    writer.last = &log->next;
    pthread_cond_broadcast(&writer.changed);
}

static void take_line(void *user, const char *text, size_t size)
{
    rank_log *log = user;
    pthread_mutex_lock(&writer.lock);
    if (log->text.failed || log->text.size + size + 1 > TRP_RANK_LOG_BYTES) {
        log->lost++;
    } else {
        trp_buffer_append(&log->text, text, size);
        trp_buffer_append(&log->text, "\n", 1);
    }
    enqueue(log);
    pthread_mutex_unlock(&writer.lock);
}

static void take_end(void *user)
{
    rank_log *log = user;
    pthread_mutex_lock(&writer.lock);
    log->ended = true;
    if (!log->queued && !log->busy)
        free_log(log);
    pthread_cond_broadcast(&writer.changed); // Those of a later attempt may have waited for it.
    pthread_mutex_unlock(&writer.lock);
}

void trp_rank_log_follow(trp_rank_logs *logs, int rank, int world, int attempt, troupe_actor worker)
{
    rank_log *log = logs != NULL && worker.id != 0 ? trp_alloc(sizeof *log) : NULL;
    if (log == NULL)
        return;
    *log = (rank_log){.of = logs,
                      .rank = rank,
                      .world = world,
                      .attempt = attempt,
                      .pid = trp_process_pid(worker.process),
                      .since_ms = trp_clock_ms()};
    atomic_fetch_add(&logs->holds, 1);
    pthread_mutex_lock(&writer.lock);
    log->beside = logs->first;
    logs->first = log;
    pthread_mutex_unlock(&writer.lock);
    trp_output_settle_set(settle);
    trp_output_listener listener = {take_line, take_end, log, atomic_load(&alone)};
    if (logs->sink.is != NULL)
        logs->sink.is->begin(logs->sink.user);
    if (trp_output_listener_add(worker.process, worker.incarnation, &listener))
        return;
    pthread_mutex_lock(&writer.lock);
    free_log(log);
    pthread_mutex_unlock(&writer.lock);
}

void trp_rank_logs_be_alone(void)
{
    atomic_store(&alone, true);
}

void trp_rank_logs_go_on(void)
{
    TRP_FAULT("rank logs go on");
    (void)trp_output_catch_up(HOLD_MS); // Later lines stand in the wrong attempt, but in the file.
}

void trp_rank_log_go_on(trp_rank_logs *logs, int rank, int attempt)
{
    pthread_mutex_lock(&writer.lock);
    rank_log *log = logs != NULL ? logs->first : NULL;
    while (log != NULL && (log->rank != rank || log->ended))
        log = log->beside;
    if (log != NULL) {
        trp_buffer_append(&log->earlier, log->text.data, log->text.size);
        log->earlier.failed |= log->text.failed;
        trp_buffer_free(&log->text);
        log->next_attempt = attempt;
        log->another = true;
        enqueue(log);
    }
    pthread_mutex_unlock(&writer.lock);
}
