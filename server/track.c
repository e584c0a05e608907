// track.c: `troupe-server track`: tells a webhook and MLflow of jobs
// (docs/internals/server/trackers.md). It ends when there is nothing to send.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <server/child.h>
#include <server/program.h>
#include <server/say.h>
#include <server/track_internal.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <train/state_folder.h>
#include <unistd.h>

enum {
    FAREWELL_MS = 5000, // What is due at the end is tried for so long.
    TAKE_OVER_MS = 10000,
    LOOK_MS = 1000, // How often a run's journal is looked at.
};

typedef struct sender {
    trp_path state;
    trp_arena arena; // Of `how`.
    trp_track_how how;
    track_job *jobs;
    int signals;
    bool ends;
} sender;

// ---- which jobs there are

static track_job **find(sender *self, int64_t id)
{
    track_job **at = &self->jobs;
    while (*at != NULL && (*at)->id < id)
        at = &(*at)->next;
    return at;
}

static void take_in(sender *self, int64_t id, const char *name)
{
    track_job **at = find(self, id), *it = *at;
    if (it != NULL && it->id == id) {
        it->seen = true;
        return;
    }
    it = (track_job *)trp_alloc(sizeof *it);
    if (it == NULL)
        return; // It is found at the next look.
    *it = (track_job){.id = id, .seen = true, .next = *at};
    int size = snprintf(it->folder, sizeof it->folder, "%s/jobs/%s", self->state.text, name);
    if (size <= 0 || (size_t)size >= sizeof it->folder) {
        trp_free(it);
        return;
    }
    *at = it;
}

static bool is_done(const sender *self, const char *name)
{
    trp_path path;
    struct stat about;
    // One that was sent in part is looked into.
    return trp_path_make(&path, "%s/jobs/%s/tracked", self->state.text, name) == TROUPE_OK &&
           stat(path.text, &about) == 0 && about.st_size == 0;
}

// False: the folder of jobs has gone.
static bool scan(sender *self)
{
    trp_path path;
    if (trp_path_make(&path, "%s/jobs", self->state.text) != TROUPE_OK)
        return false;
    DIR *folder = opendir(path.text);
    if (folder == NULL)
        return false;
    for (track_job *it = self->jobs; it != NULL; it = it->next)
        it->seen = false;
    for (struct dirent *it; (it = readdir(folder)) != NULL;) {
        size_t size = strlen(it->d_name);
        if (size > 18 || it->d_name[strspn(it->d_name, "0123456789")] != '\0' ||
            is_done(self, it->d_name))
            continue;
        take_in(self, strtoll(it->d_name, NULL, 10), it->d_name);
    }
    (void)closedir(folder);
    for (track_job **at = &self->jobs, *it; (it = *at) != NULL;) {
        if (it->seen) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        track_job_free(it);
    }
    return true;
}

// ---- one job

static double unix_time(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool is_too_late(const track_job *job)
{
    return job->ended && unix_time() - job->end.ended_at > TRACK_GIVE_UP_S;
}

// Notes for good that nothing more is to be sent.
static void close_job(track_job *job)
{
    trp_path path;
    track_job_keep(job);
    bool any = job->note.webhook != NULL || job->note.mlflow != NULL;
    if (any)
        trp_say("job %" PRId64 ": webhook: %s, MLflow: %s", job->id,
                job->note.webhook != NULL ? job->note.webhook : "none",
                job->note.mlflow != NULL ? job->note.mlflow : "none");
    // Empty: nobody looks into the job again.
    if (trp_path_make(&path, "%s/tracked", job->folder) == TROUPE_OK)
        (void)!truncate(path.text, 0);
}

static void send_webhook(sender *self, track_job *job)
{
    const trp_track_webhook *how = &self->how.webhook;
    const char *url = job->webhook;
    if (url == NULL && job->ended && job->end.ended_at >= how->since)
        url = how->url;
    if (url == NULL) {
        job->webhook_done = job->ended;
    } else if (job->ended && is_too_late(job)) {
        job->note.webhook = "given up after a day";
        job->webhook_done = true;
    } else if (job->ended) {
        job->webhook_done = track_webhook(job, url);
    }
    if (job->note.webhook != NULL && !job->mlflow_done)
        track_job_keep(job);
}

static void send_run(sender *self, track_job *job)
{
    const trp_track_mlflow *how = &self->how.mlflow;
    if (how->url == NULL || (job->ended && job->end.ended_at < how->since)) {
        job->mlflow_done = job->ended;
    } else if (is_too_late(job)) {
        job->note.mlflow = "given up after a day";
        job->mlflow_done = true;
    } else {
        job->mlflow_done = track_mlflow(job, how) && job->ended;
    }
}

// True: it is to be looked at again soon, since it runs or has more.
static bool turn_job(sender *self, track_job *job, bool *closed)
{
    troupe_status status = track_job_look(job);
    bool runs = status == TROUPE_OK && self->how.mlflow.url != NULL && track_job_runs(job);
    *closed = false;
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND) {
        trp_say("job %" PRId64 " is left out: %s", job->id, troupe_last_error()->text);
        *closed = true; // In this process: its folder stays as it is.
        return false;
    }
    if (status != TROUPE_OK || (!job->ended && !runs))
        return false; // It waits, or is just made or removed.
    if (!job->mlflow_done)
        send_run(self, job);
    if (!job->webhook_done)
        send_webhook(self, job);
    *closed = job->ended && job->webhook_done && job->mlflow_done;
    if (*closed)
        close_job(job);
    return !*closed;
}

// How many jobs are to be looked at again soon.
static size_t turn_jobs(sender *self)
{
    size_t soon = 0;
    for (track_job *it = self->jobs; it != NULL; it = it->next) {
        bool closed;
        if (it->loaded && it->webhook_done && it->mlflow_done)
            continue; // Damaged, and left out.
        soon += turn_job(self, it, &closed);
        if (closed)
            it->loaded = it->webhook_done = it->mlflow_done = true;
    }
    return soon;
}

// ---- the process

// Until something is due, or the server says that something has changed.
static void wait(sender *self, int64_t looked_ms)
{
    struct pollfd told = {self->signals, POLLIN, 0};
    struct signalfd_siginfo info;
    int64_t now = trp_clock_ms(), next = track_next_ms(looked_ms);
    bool any_runs = false;
    for (const track_job *it = self->jobs; it != NULL; it = it->next)
        any_runs = any_runs || (it->loaded && !it->mlflow_done && self->how.mlflow.url != NULL);
    int64_t due = next > now ? next - now : LOOK_MS / 10;
    if (next == INT64_MAX || (any_runs && next - now > LOOK_MS))
        due = LOOK_MS;
    (void)poll(&told, 1, (int)due);
    while (read(self->signals, &info, sizeof info) == (ssize_t)sizeof info)
        self->ends = self->ends || info.ssi_signo != SIGURG;
}

// Also while it runs: it may have been changed.
static bool read_how(sender *self)
{
    trp_arena arena = {0};
    trp_track_how how;
    if (trp_track_read(self->state.text, &arena, &how) != TROUPE_OK) {
        trp_say("%s", troupe_last_error()->text);
        trp_arena_clear(&arena);
        return false;
    }
    trp_arena_clear(&self->arena);
    self->arena = arena;
    self->how = how;
    return true;
}

static void run(sender *self)
{
    int64_t looked_ms = trp_clock_ms();
    while (!self->ends && read_how(self) && scan(self) && turn_jobs(self) > 0) {
        wait(self, looked_ms);
        looked_ms = trp_clock_ms();
    }
    if (!self->ends)
        return;
    track_end_at(trp_clock_ms() + FAREWELL_MS);
    if (scan(self))
        (void)turn_jobs(self);
}

// One that another server has started ends: this one's server tells it of changes.
static bool take_over(const char *state, int *lock)
{
    int64_t until = trp_clock_ms() + TAKE_OVER_MS;
    pid_t process;
    int end;
    while (trp_child_lock(state, "track", lock) != TROUPE_OK) {
        if (trp_clock_ms() > until)
            return false;
        if (!trp_child_find(state, "track", &process, &end)) {
            (void)usleep(10000);
            continue;
        }
        struct pollfd ended = {end, POLLIN, 0};
        (void)pidfd_send_signal(end, SIGTERM, NULL, 0);
        (void)poll(&ended, 1, TAKE_OVER_MS);
        (void)close(end);
    }
    return true;
}

int program_track(int argc, char **argv)
{
    static sender self;
    sigset_t all;
    int lock;
    (void)argv;
    if (argc > 1) {
        fprintf(stderr, "usage: troupe-server track\n");
        return PROGRAM_MISUSED;
    }
    (void)sigemptyset(&all);
    (void)sigaddset(&all, SIGTERM);
    (void)sigaddset(&all, SIGINT);
    (void)sigaddset(&all, SIGURG);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(0077);
    self.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (trp_state_folder_find(&self.state) != TROUPE_OK ||
        trp_state_folder_check(self.state.text) != TROUPE_OK ||
        !take_over(self.state.text, &lock)) {
        fprintf(stderr, "troupe-server track: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    if (!read_how(&self))
        return PROGRAM_FAILED;
    run(&self);
    while (self.jobs != NULL) {
        track_job *it = self.jobs;
        self.jobs = it->next;
        track_job_free(it);
    }
    trp_arena_clear(&self.arena);
    return PROGRAM_DONE;
}
