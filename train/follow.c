// follow.c: see follow.h.
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <train/checkpoint.h>
#include <train/follow.h>
#include <train/handle.h>
#include <train/report_event.h>
#include <train/run_journal.h>
#include <train/tail.h>
#include <unistd.h>

typedef struct item {
    struct item *next;
    size_t size;        // Of its block.
    bool is_report;     // Else, unless it is one of the next two: a state.
    bool is_checkpoint; // Its report, folder and metrics are in `report`,
    int64_t number;     // and this is its own.
    bool is_live;
    troupe_live_event live;
    troupe_job_state state;
    troupe_report_event report; // What it points to lies in the item's own block.
} item;

struct trp_follow {
    _Atomic int holds;
    trp_follow *next;
    troupe_job *job; // Held by the thread, and not used by others.
    troupe_follower follower;
    pthread_mutex_t lock;
    pthread_cond_t filled, over_changed;
    item *first, **last;
    size_t waiting, waiting_bytes;
    bool behind; // Nothing is added any more: the journal is read from `from` to `written`.
    off_t from, written;
    int journal; // -1: none.
    bool lost;   // Something was in neither.
    trp_log_queue logs;
    int logs_open;    // What may print still.
    bool ended;       // The end is to be told once all else was.
    int64_t ended_ms; // Since when.
    bool abandoned, calling, over;
    troupe_job_state told; // Last.
    bool waits;            // To be woken; else it looks again by itself.
    pthread_t thread;
};

// ---- putting in

// With the lock.
static void add(trp_follow *follow, item *made)
{
    *follow->last = made;
    follow->last = &made->next;
    follow->waiting++;
    follow->waiting_bytes += made->size;
}

// With the lock. NULL: no room.
static item *make_item(const trp_follow *follow, const item *what,
                       const troupe_report_event *report)
{
    size_t size = sizeof *what + (report != NULL ? trp_report_event_size(report) : 0);
    if (follow->waiting >= TRP_FOLLOW_WAITING ||
        (follow->waiting > 0 && follow->waiting_bytes + size > TRP_FOLLOW_BYTES))
        return NULL;
    item *made = trp_alloc(size);
    if (made == NULL)
        return NULL;
    *made = *what;
    made->size = size;
    if (report != NULL)
        made->report = trp_report_event_copy(report, made + 1);
    return made;
}

// A thread that is woken under the lock would sleep again at once, for the lock.
static void unlock_and_wake(trp_follow *follow)
{
    bool wake = follow->waits;
    follow->waits = false;
    pthread_mutex_unlock(&follow->lock);
    if (wake)
        pthread_cond_signal(&follow->filled);
}

// `what` says what it is, in `report` what belongs to it, if anything does.
static void put(trp_follow *follow, const item *what, const troupe_report_event *report,
                off_t start, off_t end)
{
    pthread_mutex_lock(&follow->lock);
    item *made = follow->behind ? NULL : make_item(follow, what, report);
    if (made != NULL) {
        add(follow, made);
    } else if (!follow->behind) {
        follow->behind = true;
        follow->from = start;
    }
    if (made == NULL && start == end)
        follow->lost = true;
    if (end > follow->written)
        follow->written = end;
    unlock_and_wake(follow);
}

void trp_follow_report(trp_follow *follow, const troupe_report_event *event, off_t start, off_t end)
{
    if (follow != NULL)
        put(follow, &(item){.is_report = true}, event, start, end);
}

void trp_follow_checkpoint(trp_follow *follow, const troupe_checkpoint_event *event, off_t start,
                           off_t end)
{
    if (follow == NULL)
        return;
    const troupe_report_event report = {.number = event->report,
                                        .metrics = event->metrics,
                                        .count = event->count,
                                        .elapsed_s = event->elapsed_s,
                                        .checkpoint = event->folder};
    put(follow, &(item){.is_checkpoint = true, .number = event->number}, &report, start, end);
}

void trp_follow_state(trp_follow *follow, troupe_job_state state, off_t start, off_t end)
{
    if (follow != NULL)
        put(follow, &(item){.state = state}, NULL, start, end);
}

void trp_follow_modified(trp_follow *follow, const troupe_live_event *event, off_t start, off_t end)
{
    if (follow != NULL)
        put(follow, &(item){.is_live = true, .live = *event}, NULL, start, end);
}

void trp_follow_journal(trp_follow *follow, int journal)
{
    if (follow == NULL || journal < 0)
        return;
    pthread_mutex_lock(&follow->lock);
    if (follow->journal < 0)
        follow->journal = fcntl(journal, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&follow->lock);
}

void trp_follow_catch_up(trp_follow *follow, off_t from, off_t written, bool lost)
{
    pthread_mutex_lock(&follow->lock);
    follow->behind = from < written;
    follow->from = from;
    follow->written = written;
    follow->lost = lost;
    unlock_and_wake(follow);
}

bool trp_follow_has_log(const trp_follow *follow)
{
    return follow != NULL && follow->follower.log != NULL;
}

void trp_follow_log_begin(trp_follow *follow)
{
    pthread_mutex_lock(&follow->lock);
    follow->logs_open++;
    pthread_mutex_unlock(&follow->lock);
}

void trp_follow_log_end(trp_follow *follow)
{
    pthread_mutex_lock(&follow->lock);
    follow->logs_open--;
    unlock_and_wake(follow);
}

void trp_follow_log(trp_follow *follow, const trp_log_piece *piece)
{
    pthread_mutex_lock(&follow->lock);
    if (!follow->over && !trp_log_queue_add(&follow->logs, piece))
        follow->lost = true;
    unlock_and_wake(follow);
}

void trp_follow_end(trp_follow *follow)
{
    if (follow == NULL)
        return;
    pthread_mutex_lock(&follow->lock);
    follow->ended = true;
    follow->ended_ms = trp_clock_ms();
    unlock_and_wake(follow);
}

// ---- telling

// Both with the lock, which is not held while the follower runs in between.
static bool begin_call(trp_follow *follow)
{
    if (follow->abandoned)
        return false;
    follow->calling = true;
    pthread_mutex_unlock(&follow->lock);
    return true;
}

static void end_call(trp_follow *follow)
{
    pthread_mutex_lock(&follow->lock);
    follow->calling = false;
}

// With the lock.
static void tell_state(trp_follow *follow, troupe_job_state state)
{
    follow->told = state;
    if (follow->follower.state == NULL || !begin_call(follow))
        return;
    follow->follower.state(follow->follower.user, follow->job, state);
    end_call(follow);
}

static void tell_report(trp_follow *follow, const troupe_report_event *event)
{
    if (follow->follower.report == NULL || !begin_call(follow))
        return;
    follow->follower.report(follow->follower.user, follow->job, event);
    end_call(follow);
}

static void tell_checkpoint(trp_follow *follow, const troupe_report_event *event, int64_t number)
{
    if (follow->follower.checkpoint == NULL || !begin_call(follow))
        return;
    troupe_checkpoint_event checkpoint = {.number = number,
                                          .report = event->number,
                                          .folder = event->checkpoint,
                                          .metrics = event->metrics,
                                          .count = event->count,
                                          .elapsed_s = event->elapsed_s};
    follow->follower.checkpoint(follow->follower.user, follow->job, &checkpoint);
    end_call(follow);
}

static void tell_modified(trp_follow *follow, const troupe_live_event *event)
{
    if (follow->follower.modified == NULL || !begin_call(follow))
        return;
    follow->follower.modified(follow->follower.user, follow->job, event);
    end_call(follow);
}

static void tell_first(trp_follow *follow)
{
    item *told = follow->first;
    follow->first = told->next;
    if (follow->first == NULL)
        follow->last = &follow->first;
    follow->waiting--;
    follow->waiting_bytes -= told->size;
    if (told->is_report)
        tell_report(follow, &told->report);
    else if (told->is_checkpoint)
        tell_checkpoint(follow, &told->report, told->number);
    else if (told->is_live)
        tell_modified(follow, &told->live);
    else
        tell_state(follow, told->state);
    trp_free(told);
}

// ---- reading back

static void tell_new_state(trp_follow *follow, troupe_job_state state)
{
    if (state != follow->told)
        tell_state(follow, state);
}

TROUPE_STRUCT(journal_line, (troupe_text, event), (troupe_text, state), (int, report),
              (double, elapsed_s), (troupe_text, checkpoint), (int64_t, revision));

// With the lock.
static troupe_status tell_line(trp_follow *follow, const char *text, size_t size, trp_arena *arena)
{
    trp_json value;
    trp_path folder;
    journal_line line = {0};
    TROUPE_TRY(trp_json_parse(text, size, &value));
    TROUPE_TRY(trp_json_read(&troupe_type_journal_line, value, arena, &line));
    if (line.event == NULL)
        return TROUPE_OK;
    if (strcmp(line.event, "state") == 0 && line.state != NULL) {
        tell_new_state(follow, trp_run_journal_state_of(line.state));
    } else if (strcmp(line.event, "open") == 0) { // Of a train server's job: see tail.h.
        tell_new_state(follow, trp_tail_reopened(follow->told));
    } else if (strcmp(line.event, "live") == 0) {
        tell_modified(follow, &(troupe_live_event){line.revision, line.report});
    } else if (strcmp(line.event, "report") == 0 || strcmp(line.event, "commit") == 0) {
        troupe_report_event event = {.number = line.report, .elapsed_s = line.elapsed_s};
        TROUPE_TRY(trp_report_event_read(value, arena, &event));
        if (line.checkpoint != NULL) {
            TROUPE_TRY(
                trp_path_make(&folder, "%s/checkpoints/%s", follow->job->path, line.checkpoint));
            event.checkpoint = folder.text;
        }
        if (strcmp(line.event, "report") == 0)
            tell_report(follow, &event);
        else if (event.checkpoint != NULL)
            tell_checkpoint(follow, &event, trp_checkpoint_number(line.checkpoint));
    }
    return TROUPE_OK;
}

// Reads a piece of the journal: at least a line. NULL: it cannot be read; else the caller's, with
// *end at the end of its last whole line.
static char *read_piece(const trp_follow *follow, char **end)
{
    enum { PIECE = 64 * 1024 };
    size_t left = (size_t)(follow->written - follow->from);
    for (size_t size = PIECE;; size *= 2) {
        size = size < left ? size : left;
        char *text = trp_alloc(size + 1);
        ssize_t got = text != NULL ? pread(follow->journal, text, size, follow->from) : -1;
        *end = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
        if (*end != NULL)
            return text;
        trp_free(text);
        if (got < (ssize_t)size || size == left)
            return NULL;
    }
}

// Tells what lies in the journal, a piece at a time. With the lock, which is let go meanwhile.
static troupe_status catch_up(trp_follow *follow)
{
    trp_arena arena = {0};
    char *end, *text = read_piece(follow, &end);
    if (text == NULL)
        return troupe_fail(TROUPE_IO, "the journal of %s cannot be read back", follow->job->path);
    for (char *at = text, *next; at <= end; at = next + 1) {
        next = memchr(at, '\n', (size_t)(end - at) + 1);
        if (next > at && tell_line(follow, at, (size_t)(next - at), &arena) != TROUPE_OK)
            follow->lost = true;
        trp_arena_clear(&arena);
    }
    follow->from += (end - text) + 1;
    trp_free(text);
    return TROUPE_OK;
}

static void tell_what_lies_there(trp_follow *follow)
{
    if (follow->from < follow->written && catch_up(follow) != TROUPE_OK) {
        follow->lost = true;
        follow->from = follow->written;
    }
    if (follow->from >= follow->written)
        follow->behind = false;
}

static void tell_of_loss(trp_follow *follow)
{
    trp_log(TRP_WARN,
            "a follower of %s has missed something: the run's journal or a log file could not be "
            "written or read",
            follow->job->path);
    follow->lost = false;
}

// ---- lines of ranks

// With the lock.
static void tell_line_of(trp_follow *follow, const trp_log_piece *piece, const char *text,
                         size_t size, uint64_t lost)
{
    troupe_log_event event = {.rank = piece->rank,
                              .attempt = piece->attempt,
                              .pid = piece->pid,
                              .text = text,
                              .size = size,
                              .lost = lost};
    if (!begin_call(follow))
        return;
    follow->follower.log(follow->follower.user, follow->job, &event);
    end_call(follow);
}

// Tells the first lines of a piece. False: they could not be read. With the lock, which is let go.
static bool tell_lines(trp_follow *follow, trp_log_piece *piece)
{
    enum { AT_ONCE = 64 }; // Reports are not to wait for more.
    trp_buffer lines = {0};
    off_t at = piece->at, end = piece->end;
    int rank = piece->rank;
    pthread_mutex_unlock(&follow->lock);
    bool read = trp_log_read(follow->job->folder, rank, at, end, &lines) == TROUPE_OK;
    pthread_mutex_lock(&follow->lock);
    char *text = (char *)lines.data, *next = text;
    for (int i = 0; read && i < AT_ONCE && next < text + lines.size; i++) {
        char *stop = memchr(next, '\n', (size_t)(text + lines.size - next));
        *stop = '\0';
        tell_line_of(follow, piece, next, (size_t)(stop - next), 0);
        next = stop + 1;
    }
    piece->at += next - text;
    trp_buffer_free(&lines);
    return read;
}

// Tells some lines of the rank whose turn it is. With the lock, which is let go meanwhile.
static void tell_log(trp_follow *follow)
{
    trp_log_piece *piece = trp_log_queue_next(&follow->logs);
    if (piece->at < piece->end && !tell_lines(follow, piece)) {
        follow->lost = true;
        piece->at = piece->end;
    }
    if (piece->at < piece->end)
        return;
    if (piece->lost > 0)
        tell_line_of(follow, piece, "", 0, piece->lost);
    if (piece->at == piece->end) // It may have grown meanwhile.
        trp_log_queue_remove(&follow->logs, piece);
}

static bool has_more(const trp_follow *follow)
{
    return follow->first != NULL || follow->behind || follow->logs.first != NULL;
}

// Waits to be woken, or until then (0: for ever). With the lock.
static bool await_wake(trp_follow *follow, int64_t until_ms)
{
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    int status = 0;
    follow->waits = true;
    while (follow->waits && status == 0)
        status = until_ms == 0 ? pthread_cond_wait(&follow->filled, &follow->lock)
                               : pthread_cond_timedwait(&follow->filled, &follow->lock, &until);
    follow->waits = false;
    return status == 0;
}

int64_t trp_follow_pause_ns(int64_t last_ns, int64_t slept_ns, size_t events)
{
    enum { OFTEN_NS = 200000, GATHER_NS = 1000000 };
    if (last_ns == 0)
        return slept_ns < OFTEN_NS ? OFTEN_NS : 0;
    return events >= (size_t)(last_ns / OFTEN_NS) ? GATHER_NS : 0;
}

// Waits for something to tell. Where that comes often, it is left to gather for a while: to be
// woken for each report would take the CPU from the ranks. With the lock.
static void await_more(trp_follow *follow, int64_t *pause_ns)
{
    struct timespec pause = {0, *pause_ns};
    int64_t since_ns = trp_clock_ns();
    if (*pause_ns == 0) {
        (void)await_wake(follow, 0);
    } else {
        pthread_mutex_unlock(&follow->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&follow->lock);
    }
    bool many = follow->behind || follow->logs.first != NULL;
    *pause_ns = trp_follow_pause_ns(*pause_ns, trp_clock_ns() - since_ns,
                                    many ? SIZE_MAX : follow->waiting);
}

// After the end of the run: false when nothing prints any more, or for too long. With the lock.
static bool await_logs(trp_follow *follow)
{
    enum { LOGS_END_MS = 2000 };
    return follow->logs_open > 0 && !follow->abandoned &&
           await_wake(follow, follow->ended_ms + LOGS_END_MS);
}

static void *run(void *user)
{
    trp_follow *follow = user;
    troupe_job *job = follow->job;
    trp_thread_be_prompt(true);
    pthread_mutex_lock(&follow->lock);
    follow->thread = pthread_self();
    int64_t pause_ns = 0;
    for (;;) {
        bool more = has_more(follow);
        if (follow->first != NULL)
            tell_first(follow);
        else if (follow->behind)
            tell_what_lies_there(follow);
        if (follow->logs.first != NULL)
            tell_log(follow);
        if (follow->lost)
            tell_of_loss(follow);
        if (more)
            continue;
        if (!follow->ended)
            await_more(follow, &pause_ns);
        else if (!await_logs(follow))
            break;
    }
    tell_state(follow, TROUPE_JOB_DONE);
    follow->over = true;
    pthread_cond_broadcast(&follow->over_changed);
    pthread_mutex_unlock(&follow->lock);
    trp_handle_release(job);
    return NULL;
}

// ---- lines of ranks, from elsewhere

static void hold(void *user)
{
    trp_follow_hold((trp_follow *)user);
}

static void release(void *user)
{
    trp_follow_release((trp_follow *)user);
}

static void begin_log(void *user)
{
    trp_follow_log_begin((trp_follow *)user);
}

static void take_lines(void *user, const trp_log_piece *piece)
{
    trp_follow_log((trp_follow *)user, piece);
}

static void end_log(void *user)
{
    trp_follow_log_end((trp_follow *)user);
}

trp_log_sink trp_follow_sink(trp_follow *follow)
{
    static const trp_log_sink_class sink = {hold, release, begin_log, take_lines, end_log};
    return trp_follow_has_log(follow) ? (trp_log_sink){&sink, follow} : (trp_log_sink){0};
}

// ---- its life

trp_follow *trp_follow_next(const trp_follow *follow)
{
    return follow->next;
}

void trp_follow_chain(trp_follow *follow, trp_follow *next)
{
    follow->next = next;
}

troupe_status trp_follow_start(troupe_job *job, const troupe_follower *follower,
                               trp_follow **follow)
{
    *follow = NULL;
    if (follower->report == NULL && follower->state == NULL && follower->checkpoint == NULL &&
        follower->log == NULL && follower->modified == NULL)
        return TROUPE_OK;
    trp_follow *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to follow a job");
    *made = (trp_follow){.holds = 1, .job = job, .follower = *follower, .journal = -1};
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    trp_cond_open(&made->filled);
    pthread_cond_init(&made->over_changed, NULL);
    trp_handle_hold(job);
    pthread_t thread;
    troupe_status status = trp_thread_start(&thread, "follower", run, made);
    if (status != TROUPE_OK) {
        trp_handle_release(job);
        trp_follow_release(made);
        return status;
    }
    pthread_detach(thread);
    *follow = made;
    return TROUPE_OK;
}

bool trp_follow_is_caller(trp_follow *follow)
{
    if (follow == NULL)
        return false;
    pthread_mutex_lock(&follow->lock);
    bool own = follow->calling && pthread_equal(follow->thread, pthread_self());
    pthread_mutex_unlock(&follow->lock);
    return own;
}

void trp_follow_await(trp_follow *follow)
{
    if (follow == NULL)
        return;
    pthread_mutex_lock(&follow->lock);
    while (!follow->over)
        pthread_cond_wait(&follow->over_changed, &follow->lock);
    pthread_mutex_unlock(&follow->lock);
}

void trp_follow_abandon(trp_follow *follow)
{
    if (follow == NULL)
        return;
    pthread_mutex_lock(&follow->lock);
    follow->abandoned = true;
    pthread_mutex_unlock(&follow->lock);
}

void trp_follow_hold(trp_follow *follow)
{
    if (follow != NULL)
        atomic_fetch_add(&follow->holds, 1);
}

void trp_follow_release(trp_follow *follow)
{
    if (follow == NULL || atomic_fetch_sub(&follow->holds, 1) > 1)
        return;
    trp_log_queue_clear(&follow->logs);
    for (item *at = follow->first, *next; at != NULL; at = next) {
        next = at->next;
        trp_free(at);
    }
    if (follow->journal >= 0)
        close(follow->journal);
    pthread_cond_destroy(&follow->over_changed);
    pthread_cond_destroy(&follow->filled);
    pthread_mutex_destroy(&follow->lock);
    trp_free(follow);
}
