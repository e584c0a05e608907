// desk.c: see desk.h.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/node/at_stop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <time.h>
#include <train/desk.h>
#include <train/job_end.h>
#include <unistd.h>

struct trp_desk_job {
    trp_desk_job *next;
    int64_t number;
    trp_tail *tail;
    void (*told)(void *user, const trp_wire_job *job);
    void *user;
    char *run, *folder;
    int watches[3];  // Of the run's folder, its logs and the job's folder; -1: not there yet.
    bool fresh;      // Something may have been written.
    bool busy;       // The thread reads it, without the lock.
    bool seen;       // The thread has read it.
    bool server_end; // The server says that it has ended,
    int status;      // so.
    bool stopped;
    char error[256];
    bool over;     // Told.
    bool given_up; // By its handle, which is being closed.
};

struct trp_desk {
    // With the lock of `all`:
    int holds;
    int64_t left_ms; // When the last hold went, where there is none.
    bool unsure;     // Who opens asks its server, and nobody else has it meanwhile.
    trp_server_link *link;
    pthread_t thread;
    int wake, changes; // An eventfd, and inotify.
    pthread_mutex_t lock;
    pthread_cond_t idle;
    trp_desk_job *first;
    bool closing;
    char folder[];
};

// A desk that nobody holds is kept for so long: who submits one job after another would make a
// connection and two threads for each.
enum { LINGER_MS = 1000 };

static struct {
    // Who opens one has this, and may wait for a server meanwhile. Taken before the other one,
    pthread_mutex_t opening;
    pthread_mutex_t lock; // in which nobody waits.
    trp_desk *desk;
    trp_desk *gone;       // Its thread ends by itself, and has not been joined.
    trp_desk *parents[2]; // Of a forked child: these are reachable, and have no threads.
    bool registered;
} all = {.opening = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

// ---- what the server says

static void wake(trp_desk *desk)
{
    uint64_t one = 1;
    ssize_t written = write(desk->wake, &one, sizeof one);
    (void)written; // It is awake where that fails.
}

static void take_job(trp_desk *desk, const trp_wire_job *job)
{
    pthread_mutex_lock(&desk->lock);
    for (trp_desk_job *at = desk->first; at != NULL; at = at->next) {
        if (at->number != job->job)
            continue;
        if (job->state == TRP_JOB_ENDED) {
            at->server_end = at->fresh = true;
            at->status = job->status;
            at->stopped = job->stopped;
            snprintf(at->error, sizeof at->error, "%s", job->error != NULL ? job->error : "");
        }
        at->told(at->user, job);
    }
    pthread_mutex_unlock(&desk->lock);
    wake(desk);
}

static void take_frame(void *user, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    trp_wire_job job;
    if (frame->kind == TRP_WIRE_JOB &&
        trp_wire_read(frame, &troupe_type_trp_wire_job, &arena, &job) == TROUPE_OK)
        take_job((trp_desk *)user, &job);
    trp_arena_clear(&arena);
    trp_error_forget();
}

static void watch(trp_desk *desk, int64_t number)
{
    trp_wire_job_name name = {.job = number};
    (void)trp_server_link_tell(desk->link, TRP_WIRE_WATCH, &troupe_type_trp_wire_job_name, &name);
}

static void watch_again(void *user)
{
    trp_desk *desk = user;
    pthread_mutex_lock(&desk->lock);
    for (const trp_desk_job *at = desk->first; at != NULL; at = at->next)
        watch(desk, at->number);
    pthread_mutex_unlock(&desk->lock);
}

// ---- what is written

static void add_watches(trp_desk *desk, trp_desk_job *job)
{
    trp_path logs;
    enum { CHANGES = IN_MODIFY | IN_CREATE | IN_MOVED_TO };
    const char *folders[] = {job->run, NULL, job->folder};
    if (trp_path_make(&logs, "%s/log", job->run) == TROUPE_OK)
        folders[1] = logs.text;
    for (int i = 0; i < 3; i++)
        if (job->watches[i] < 0 && folders[i] != NULL)
            job->watches[i] = inotify_add_watch(desk->changes, folders[i], CHANGES | IN_ONLYDIR);
}

// With the lock. A watch is shared by all jobs that watch the same folder.
static void remove_watches(trp_desk *desk, const trp_desk_job *job)
{
    for (int i = 0; i < 3; i++) {
        bool shared = job->watches[i] < 0;
        for (const trp_desk_job *at = desk->first; at != NULL && !shared; at = at->next)
            for (int j = 0; j < 3; j++)
                shared |= at != job && at->watches[j] == job->watches[i];
        if (!shared)
            (void)inotify_rm_watch(desk->changes, job->watches[i]);
    }
}

// With the lock.
static void mark(trp_desk *desk, int watched)
{
    for (trp_desk_job *at = desk->first; at != NULL; at = at->next)
        for (int i = 0; i < 3; i++)
            at->fresh |= at->watches[i] == watched;
}

static void take_changes(trp_desk *desk)
{
    _Alignas(struct inotify_event) char events[8 * 1024];
    ssize_t got;
    while ((got = read(desk->changes, events, sizeof events)) > 0) {
        pthread_mutex_lock(&desk->lock);
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(events + at);
            mark(desk, event->wd);
            at += (ssize_t)(sizeof *event + event->len);
        }
        pthread_mutex_unlock(&desk->lock);
    }
}

// Whether nobody runs it: neither a runner nor what is left of one has a lock.
static bool is_free(const char *folder)
{
    trp_path path;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (trp_path_make(&path, "%s/alive", folder) != TROUPE_OK)
        return false;
    int fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT;
    bool is_free = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    close(fd);
    return is_free;
}

// Whether the job has ended, and how. Where the server cannot say it, its folder does.
static bool has_ended(const trp_desk_job *job, trp_arena *arena, trp_job_end *end)
{
    troupe_status status = trp_job_end_read(job->folder, arena, end);
    if (status == TROUPE_OK)
        return job->server_end || is_free(job->folder);
    *end = (trp_job_end){.status = job->status, .stopped = job->stopped, .error = job->error};
    if (job->server_end)
        return true;
    end->status = TROUPE_NOT_FOUND;
    end->error = "the train server has removed the job";
    return access(job->folder, F_OK) != 0 && errno == ENOENT;
}

// Without the lock; `busy` keeps the job.
static bool serve_job(const trp_desk_job *job, bool look)
{
    trp_arena arena = {0};
    trp_job_end end;
    trp_tail_read(job->tail);
    bool over = look && has_ended(job, &arena, &end);
    if (over)
        trp_tail_end(job->tail, &end);
    trp_arena_clear(&arena);
    trp_error_forget();
    return over;
}

static void serve_jobs(trp_desk *desk, bool every)
{
    pthread_mutex_lock(&desk->lock);
    for (trp_desk_job *at = desk->first, *next; at != NULL; at = next) {
        if (!at->over && (at->fresh || every)) {
            trp_desk_job now;
            add_watches(desk, at);
            at->fresh = false;
            at->busy = true;
            now = *at;
            pthread_mutex_unlock(&desk->lock);
            // At first it is looked at in any case: its server may not have heard of its end yet.
            bool over = serve_job(&now, now.server_end || every || !now.seen);
            pthread_mutex_lock(&desk->lock);
            at->busy = false;
            at->seen = true;
            at->over |= over;
            pthread_cond_broadcast(&desk->idle);
        }
        next = at->next;
    }
    pthread_mutex_unlock(&desk->lock);
}

bool trp_desk_gathers(int64_t waited_ns, int *soon)
{
    enum { SOON_NS = 200000, FEW = 8 };
    *soon = waited_ns < SOON_NS ? *soon + (*soon <= FEW) : 0;
    return *soon > FEW;
}

// Whether it goes, since nobody has wanted it for long. Who takes it from `all` ends it.
static bool is_left(trp_desk *desk)
{
    pthread_mutex_lock(&all.lock);
    bool left = all.desk == desk && desk->holds == 0 && trp_clock_ms() - desk->left_ms >= LINGER_MS;
    if (left) {
        trp_assert(all.gone == NULL); // Who opened this one has joined the one before.
        all.gone = desk;
        all.desk = NULL;
    }
    pthread_mutex_unlock(&all.lock);
    return left;
}

static void *run(void *user)
{
    enum { LOOK_MS = 250 }; // Where no change is told of, or no server.
    trp_desk *desk = user;
    int64_t looked_ms = 0;
    int soon = 0;
    const struct timespec gather = {0, 1000000};
    uint64_t count;
    trp_thread_be_prompt(true);
    for (;;) {
        struct pollfd waits[] = {{.fd = desk->changes, .events = POLLIN},
                                 {.fd = desk->wake, .events = POLLIN}};
        int64_t since_ns = trp_clock_ns();
        if (poll(waits, 2, LOOK_MS) > 0 && waits[1].revents == 0 &&
            trp_desk_gathers(trp_clock_ns() - since_ns, &soon))
            nanosleep(&gather, NULL);
        (void)(read(desk->wake, &count, sizeof count) < 0);
        take_changes(desk);
        pthread_mutex_lock(&desk->lock);
        bool ends = desk->closing;
        pthread_mutex_unlock(&desk->lock);
        if (ends)
            return NULL;
        if (is_left(desk)) {
            TRP_FAULT("desk leaves");
            trp_server_link_close(&desk->link);
            return NULL;
        }
        bool every = trp_clock_ms() - looked_ms >= LOOK_MS;
        if (every)
            looked_ms = trp_clock_ms();
        serve_jobs(desk, every);
    }
}

// ---- its life

// Has no thread any more.
static void free_desk(trp_desk *desk)
{
    if (desk->wake >= 0)
        close(desk->wake);
    if (desk->changes >= 0)
        close(desk->changes);
    pthread_cond_destroy(&desk->idle);
    pthread_mutex_destroy(&desk->lock);
    trp_free(desk);
}

static trp_desk *make_desk(const char *state_folder)
{
    size_t size = strlen(state_folder) + 1;
    trp_desk *made = trp_alloc(sizeof *made + size);
    if (made == NULL)
        return NULL;
    memcpy(made->folder, state_folder, size);
    made->holds = 1;
    made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->idle, NULL);
    return made;
}

static troupe_status open_desk(const char *state_folder, trp_desk **desk)
{
    trp_desk *made = make_desk(state_folder);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for jobs of a train server");
    TRP_FAULT("desk opens");
    trp_server_told told = {take_frame, watch_again, made};
    troupe_status status =
        made->wake >= 0 && made->changes >= 0
            ? trp_server_link_open(state_folder, &told, &made->link)
            : trp_fail_errno(TROUPE_IO, "changes of files cannot be watched (inotify)");
    if (status == TROUPE_OK)
        status = trp_thread_start(&made->thread, "troupe-desk", run, made);
    if (status != TROUPE_OK) {
        trp_server_link_close(&made->link);
        free_desk(made);
        return status;
    }
    *desk = made;
    return TROUPE_OK;
}

// One that has been taken from `all`: its thread ends, and nobody else has it.
static void close_desk(trp_desk *desk)
{
    trp_server_link_close(&desk->link);
    pthread_mutex_lock(&desk->lock);
    desk->closing = true;
    pthread_mutex_unlock(&desk->lock);
    wake(desk);
    pthread_join(desk->thread, NULL);
    free_desk(desk);
}

// Waits for the thread of one that went by itself.
static void join_gone(void)
{
    pthread_mutex_lock(&all.lock);
    trp_desk *gone = all.gone;
    all.gone = NULL;
    pthread_mutex_unlock(&all.lock);
    if (gone == NULL)
        return;
    pthread_join(gone->thread, NULL);
    free_desk(gone);
}

// Whether its server answers: one that was just killed may have its socket still. A connection that
// is lost later waits for the next server, which nobody may start; a new one starts it.
static bool is_served(const trp_desk *desk)
{
    enum { ANSWER_MS = 1000 };
    trp_arena arena = {0};
    trp_wire_status answer = {0};
    troupe_none none = {0};
    troupe_error kept;
    const trp_server_question question = {.kind = TRP_WIRE_SERVER,
                                          .type = &troupe_type_troupe_none,
                                          .value = &none,
                                          .timeout_ms = ANSWER_MS,
                                          .once = true,
                                          .answer = TRP_WIRE_STATUS,
                                          .has = &troupe_type_trp_wire_status};
    if (!trp_server_link_is_up(desk->link))
        return false;
    trp_error_hold(&kept);
    bool served = trp_server_link_ask(desk->link, &question, &arena, &answer) == TROUPE_OK;
    trp_error_restore(&kept);
    trp_arena_clear(&arena);
    return served;
}

// The runtime has ended, or the program, or the library goes: what lingers is not waited for.
static void stop(void)
{
    trp_desk *lingers = NULL;
    pthread_mutex_lock(&all.lock);
    if (all.desk != NULL && all.desk->holds == 0) {
        lingers = all.desk;
        all.desk = NULL;
    }
    pthread_mutex_unlock(&all.lock);
    if (lingers != NULL)
        close_desk(lingers);
    join_gone();
}

// What the parent's threads have locked, nobody gives back here.
static void in_forked_child(void)
{
    pthread_mutex_init(&all.opening, NULL);
    pthread_mutex_init(&all.lock, NULL);
    all.parents[0] = all.desk;
    all.parents[1] = all.gone;
    all.desk = all.gone = NULL;
}

static void register_ends(void)
{
    trp_at_stop(stop);
    if (!all.registered)
        all.registered = atexit(stop) == 0 && pthread_atfork(NULL, NULL, in_forked_child) == 0;
}

// The one that there is, with a hold; NULL: none is. One that nobody held may be of another server,
// or have lost its own.
static trp_desk *hold_now(const char *state_folder)
{
    pthread_mutex_lock(&all.lock);
    trp_desk *now = all.desk;
    bool unsure = now != NULL && now->holds == 0;
    if (now != NULL) {
        now->unsure = unsure;
        now->holds++;
    }
    pthread_mutex_unlock(&all.lock);
    if (!unsure)
        return now;
    bool good = strcmp(now->folder, state_folder) == 0 && is_served(now);
    pthread_mutex_lock(&all.lock);
    now->unsure = false;
    if (!good)
        all.desk = NULL;
    pthread_mutex_unlock(&all.lock);
    if (good)
        return now;
    close_desk(now);
    return NULL;
}

troupe_status trp_desk_open(const char *state_folder, trp_desk **desk)
{
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&all.opening);
    register_ends();
    TRP_FAULT("desk is wanted");
    trp_desk *now = hold_now(state_folder);
    if (now == NULL) {
        join_gone(); // There is no desk that could go until the next one is opened.
        status = open_desk(state_folder, &now);
        pthread_mutex_lock(&all.lock);
        all.desk = now;
        pthread_mutex_unlock(&all.lock);
    } else if (strcmp(now->folder, state_folder) != 0) {
        status = troupe_fail(TROUPE_UNSUPPORTED,
                             "this process has jobs of the train server of %s: expected all of "
                             "one, and not of %s too",
                             now->folder, state_folder);
        trp_desk_release(&now);
    }
    pthread_mutex_unlock(&all.opening);
    if (status == TROUPE_OK)
        *desk = now;
    return status;
}

trp_desk *trp_desk_now(void)
{
    pthread_mutex_lock(&all.lock);
    trp_desk *now = all.desk != NULL && all.desk->holds > 0 && !all.desk->unsure ? all.desk : NULL;
    if (now != NULL)
        now->holds++;
    pthread_mutex_unlock(&all.lock);
    return now;
}

void trp_desk_release(trp_desk **held)
{
    trp_desk *desk = *held;
    if (desk == NULL)
        return;
    *held = NULL;
    pthread_mutex_lock(&all.lock);
    desk->left_ms = trp_clock_ms(); // Its thread, which looks now and then, sees to the rest.
    desk->holds--;
    pthread_mutex_unlock(&all.lock);
}

trp_server_link *trp_desk_link(const trp_desk *desk)
{
    return desk->link;
}

const char *trp_desk_folder(const trp_desk *desk)
{
    return desk->folder;
}

// ---- its jobs

static void free_job(trp_desk_job *job)
{
    trp_free(job->run);
    trp_free(job->folder);
    trp_free(job);
}

troupe_status trp_desk_add(trp_desk *desk, const trp_wire_job *job, trp_tail *tail,
                           void (*told)(void *user, const trp_wire_job *job), void *user,
                           trp_desk_job **added)
{
    trp_desk_job *made = trp_alloc(sizeof *made);
    if (made != NULL)
        *made = (trp_desk_job){.number = job->job,
                               .told = told,
                               .user = user,
                               .watches = {-1, -1, -1},
                               .fresh = true,
                               .run = trp_strdup(job->run),
                               .folder = trp_strdup(job->folder)};
    if (made == NULL || made->run == NULL || made->folder == NULL) {
        if (made != NULL)
            free_job(made);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job of the train server");
    }
    made->tail = tail;
    *added = made; // Before anything is called for it.
    pthread_mutex_lock(&desk->lock);
    made->next = desk->first;
    desk->first = made;
    pthread_mutex_unlock(&desk->lock);
    take_job(desk, job);
    watch(desk, job->job);
    return TROUPE_OK;
}

void trp_desk_await(trp_desk *desk, const trp_desk_job *job)
{
    pthread_mutex_lock(&desk->lock);
    while (!job->seen || (job->server_end && !job->over))
        pthread_cond_wait(&desk->idle, &desk->lock);
    pthread_mutex_unlock(&desk->lock);
}

bool trp_desk_give_up(trp_desk *desk, trp_desk_job *job)
{
    bool last = true;
    pthread_mutex_lock(&desk->lock);
    job->given_up = true;
    for (const trp_desk_job *at = desk->first; at != NULL; at = at->next)
        last &= at->given_up || at->number != job->number;
    pthread_mutex_unlock(&desk->lock);
    return last;
}

void trp_desk_remove(trp_desk *desk, trp_desk_job **held)
{
    trp_desk_job *job = *held;
    *held = NULL;
    pthread_mutex_lock(&desk->lock);
    while (job->busy)
        pthread_cond_wait(&desk->idle, &desk->lock);
    remove_watches(desk, job);
    trp_desk_job **at = &desk->first;
    while (*at != NULL && *at != job)
        at = &(*at)->next;
    if (*at != NULL)
        *at = job->next;
    pthread_mutex_unlock(&desk->lock);
    trp_tail_close(job->tail);
    free_job(job);
}
