// job_runner.c: see train/job_runner.h.
//
// The thread that called troupe_start waits here for what happens. The port is called by the
// threads that run the job; what is wished comes with the thread of the link to the server, or with
// SIGTERM, which is a wish to pause.
#include <actors/sched/scheduler.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <train/derived.h>
#include <train/job_end.h>
#include <train/job_live.h>
#include <train/job_runner.h>
#include <train/runner_gate.h>
#include <train/server_link.h>
#include <train/usage.h>
#include <unistd.h>

enum { LOOK_MS = 100, AGAIN_MS = 200 };

static struct {
    const trp_job_mode *mode;
    trp_job *job;
    _Atomic(trp_server_link *) link; // NULL: there was no server yet.
    int64_t next_reports_ms;
    int wake;               // An eventfd.
    atomic_bool terminated; // By a signal, and read by all threads.

    pthread_mutex_t lock; // A job's lock may be held where this one is taken.
    trp_wishes wishes;
    char why[160];
    int64_t revision; // Of the wishes that have been carried out.
    char refused[512];
    bool leave;
    bool pauses; // As wished,
    int grown; // and ranks that the next attempt has a grant of, for which this one ends; 0: none.
    trp_wire_progress told, now;
    bool fresh; // The server has not been told where this attempt is.
    int *pids;  // Of the ranks.
    int pid_count;
    bool done;
    trp_job_end end;
    char *error;
} runner = {.wake = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

static void wake(void)
{
    uint64_t one = 1;
    ssize_t written = write(runner.wake, &one, sizeof one);
    (void)written; // It is awake where that fails.
}

// ---- the end of the process

void trp_job_runner_leave(void)
{
    fflush(NULL);
    _exit(TRP_JOB_NO_END);
}

static void write_end(const trp_job_mode *mode, trp_job_end *end)
{
    enum { TRIES = 10 };
    end->attempt = mode->attempt;
    end->restarts += mode->order.restarts_before;
    end->ended_at = trp_clock_unix_s();
    for (int i = 0; i < TRIES; i++) {
        if (trp_job_end_write(mode->folder, end) == TROUPE_OK)
            return;
        trp_log(TRP_WARN, "how job %" PRId64 " ended cannot be said: %s", mode->job,
                troupe_last_error()->text);
        sleep(1);
    }
    trp_job_runner_leave();
}

// Where the next attempt may do better.
static bool may_pass(troupe_status status)
{
    return status == TROUPE_BUSY || status == TROUPE_IO || status == TROUPE_NO_MEMORY ||
           status == TROUPE_NO_SPACE || status == TROUPE_RUNTIME_LOST ||
           status == TROUPE_DEADLINE_EXCEEDED;
}

void trp_job_runner_fail(const trp_job_mode *mode, troupe_status status)
{
    trp_log(TRP_ERROR, "job %" PRId64 " is not run: %s", mode->job, troupe_last_error()->text);
    if (may_pass(status))
        trp_job_runner_leave();
    trp_job_end end = {.status = (int)status, .error = troupe_last_error()->text};
    write_end(mode, &end);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

// ---- the port

static void take_accepted(void *user, const trp_accepted *what)
{
    (void)user;
    pthread_mutex_lock(&runner.lock);
    runner.now.ranks = what->ranks;
    runner.now.reports = what->reports;
    pthread_mutex_unlock(&runner.lock);
}

static trp_wire_state wire_state(int state)
{
    switch (state) {
    case TROUPE_JOB_QUEUED:
        return TRP_JOB_STARTING;
    case TROUPE_JOB_PAUSED:
        return TRP_JOB_PAUSED;
    default:
        return TRP_JOB_RUNNING;
    }
}

static void take_progress(void *user, const trp_state_change *what, trp_lines lines)
{
    (void)user;
    (void)lines;
    pthread_mutex_lock(&runner.lock);
    runner.now.state = wire_state(what->state);
    runner.now.ranks = what->ranks;
    runner.now.restarts = runner.mode->order.restarts_before + what->restarts;
    pthread_mutex_unlock(&runner.lock);
    wake();
}

static void take_group(void *user, const trp_console_rank *ranks, int count)
{
    (void)user;
    pthread_mutex_lock(&runner.lock);
    int *pids = trp_realloc(runner.pids, (size_t)count * sizeof *pids);
    runner.pids = pids != NULL ? pids : runner.pids;
    runner.pid_count = pids != NULL ? count : 0;
    for (int rank = 0; rank < runner.pid_count; rank++)
        runner.pids[rank] = ranks[rank].pid;
    pthread_mutex_unlock(&runner.lock);
}

static void take_report(void *user, int number, double elapsed_s, const troupe_report_event *event,
                        trp_lines lines)
{
    (void)user;
    (void)elapsed_s;
    (void)event;
    (void)lines;
    pthread_mutex_lock(&runner.lock);
    runner.now.reports = number; // Told at the next look: reports may come often.
    pthread_mutex_unlock(&runner.lock);
}

// Who follows the job reads the run's folder.
static void take_checkpoint(void *user, const troupe_checkpoint_event *event, trp_lines lines)
{
    (void)user;
    (void)event;
    (void)lines;
}

static void take_modified(void *user, const troupe_live_event *event, trp_lines lines)
{
    (void)user;
    (void)event;
    (void)lines;
}

static void take_checkpoints(void *user, int64_t newest, int64_t best)
{
    (void)user;
    (void)newest;
    (void)best;
}

static void take_commit(void *user, trp_memory_commit *commit)
{
    (void)user;
    (void)commit;
}

static trp_log_sink give_logs(void *user)
{
    (void)user;
    return (trp_log_sink){0};
}

static void take_sentence(void *user, trp_level level, const char *text)
{
    (void)user;
    trp_log(level, "%s", text);
}

static int64_t carried_out(void)
{
    pthread_mutex_lock(&runner.lock);
    int64_t revision = runner.revision;
    pthread_mutex_unlock(&runner.lock);
    return revision;
}

// Whether no answer counts any more.
static bool is_ending(void)
{
    pthread_mutex_lock(&runner.lock);
    bool ends = runner.leave || runner.done || runner.wishes.stop || runner.wishes.stop_next ||
                runner.terminated;
    pthread_mutex_unlock(&runner.lock);
    return ends;
}

static void take_question(void *user, const troupe_report_event *event, int timeout_ms)
{
    (void)user;
    // Another thread runs the node's actors meanwhile; where too many wait already, none does.
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    bool answered = trp_runner_gate_wait(event->number, timeout_ms, carried_out, is_ending);
    if (blocked)
        trp_scheduler_unblock();
    if (!answered && !is_ending())
        trp_log(TRP_WARN, "the gate has not decided on report %d: the run goes on", event->number);
}

static void give_wishes(void *user, trp_wishes *wishes)
{
    (void)user;
    pthread_mutex_lock(&runner.lock);
    *wishes = runner.wishes;
    wishes->pause |= runner.terminated;
    wishes->stop_next |= trp_runner_gate_stops();
    pthread_mutex_unlock(&runner.lock);
}

static void take_end(void *user, const trp_outcome *outcome)
{
    (void)user;
    pthread_mutex_lock(&runner.lock);
    runner.end = (trp_job_end){.status = TROUPE_NO_MEMORY,
                               .error = "there was no memory for how the run ended"};
    if (outcome != NULL) {
        size_t size = outcome->error != NULL ? strlen(outcome->error) + 1 : 0;
        runner.error = size > 0 ? trp_alloc(size) : NULL;
        if (runner.error != NULL)
            memcpy(runner.error, outcome->error, size);
        runner.end = (trp_job_end){.status = outcome->status,
                                   .error = runner.error,
                                   .stopped = outcome->stopped,
                                   .reports = outcome->reports,
                                   .restarts = outcome->restarts};
    }
    runner.done = true;
    pthread_mutex_unlock(&runner.lock);
    wake();
}

static void be_let_go(void *user)
{
    (void)user;
}

static const trp_port_class port_class = {
    .accepted = take_accepted,
    .progress = take_progress,
    .group = take_group,
    .report = take_report,
    .checkpoint = take_checkpoint,
    .modified = take_modified,
    .checkpoints = take_checkpoints,
    .committed = take_commit,
    .logs = give_logs,
    .say = take_sentence,
    .ask = take_question,
    .wishes = give_wishes,
    .done = take_end,
    .let_go = be_let_go,
};

// ---- wishes

static void refuse(const char *what, bool logged)
{
    if (!logged)
        trp_log(TRP_WARN, "%s: %s", what, troupe_last_error()->text);
    pthread_mutex_lock(&runner.lock);
    snprintf(runner.refused, sizeof runner.refused, "%s", troupe_last_error()->text);
    pthread_mutex_unlock(&runner.lock);
}

// All live values are told with each wish: what was refused before is not logged again.
static void take_live(const troupe_array_trp_wire_live *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const trp_wire_live *live = &all->items[i];
        if (live->member == NULL || live->value == NULL)
            continue;
        troupe_status status =
            trp_job_modify_json(runner.job, live->member, live->value, live->revision);
        if (status != TROUPE_OK && status != TROUPE_STOPPED)
            refuse("a live value that was wished is not set", live->revision <= runner.revision);
    }
}

// Levels: what is wished now is all that counts. With the lock.
static void set_levels(const trp_wire_wishes *wished, bool ranks)
{
    runner.wishes.stop = wished->stop || wished->kill != TROUPE_OK;
    runner.wishes.stop_next = wished->stop_next;
    runner.pauses = wished->pause;
    runner.wishes.pause = wished->pause || runner.grown > 0;
    if (runner.wishes.kill == TROUPE_OK && wished->kill != TROUPE_OK) {
        snprintf(runner.why, sizeof runner.why, "%s", wished->why != NULL ? wished->why : "");
        runner.wishes.why = runner.why;
        runner.wishes.kill = wished->kill;
    }
    if (ranks) {
        runner.wishes.ranks = wished->ranks;
        runner.wishes.resizes = wished->resizes;
    }
}

// Its node has what was granted for the attempt.
static troupe_status check_ranks(int ranks)
{
    int granted = runner.mode->order.ranks;
    if (ranks > granted)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "%d ranks were asked for, and it was started with room for %d: pause "
                           "it, change its ranks, and let it go on",
                           ranks, granted);
    return trp_job_check_ranks(runner.job, ranks);
}

static void refuse_more(void)
{
    refuse("it goes on with the ranks that it has", false);
    pthread_mutex_lock(&runner.lock);
    runner.now.not_more = true;
    pthread_mutex_unlock(&runner.lock);
}

// By the link's thread alone.
static void carry_out(const trp_wire_wishes *wished)
{
    pthread_mutex_lock(&runner.lock);
    runner.leave |= wished->leave;
    runner.refused[0] = '\0';
    runner.now.not_more = false;
    bool resized = wished->resizes != runner.wishes.resizes;
    pthread_mutex_unlock(&runner.lock);
    bool ranks = resized && check_ranks(wished->ranks) == TROUPE_OK;
    if (resized && !ranks)
        refuse("the number of ranks that was wished is not taken", false);
    bool grown = wished->grown && trp_job_check_more(runner.job, wished->ranks) == TROUPE_OK;
    if (wished->grown && !grown)
        refuse_more();
    pthread_mutex_lock(&runner.lock);
    runner.grown = grown ? wished->ranks : 0;
    set_levels(wished, ranks);
    pthread_mutex_unlock(&runner.lock);
    take_live(&wished->live);
    trp_job_look(runner.job);
    pthread_mutex_lock(&runner.lock);
    runner.revision = wished->revision;
    pthread_mutex_unlock(&runner.lock);
    wake();
}

// ---- the server

static void take_frame(void *user, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    trp_wire_wishes wished = {0};
    (void)user;
    if (frame->kind == TRP_WIRE_WISHES &&
        trp_wire_read(frame, &troupe_type_trp_wire_wishes, &arena, &wished) == TROUPE_OK)
        carry_out(&wished);
    trp_arena_clear(&arena);
    trp_error_forget();
}

static void say_hello(void)
{
    const trp_wire_order *order = &runner.mode->order;
    trp_wire_runner hello = {
        .job = order->job, .attempt = order->attempt, .submission = order->submission};
    (void)trp_server_link_tell(atomic_load(&runner.link), TRP_WIRE_RUNNER,
                               &troupe_type_trp_wire_runner, &hello);
    pthread_mutex_lock(&runner.lock);
    runner.fresh = true;
    pthread_mutex_unlock(&runner.lock);
    wake();
}

static void say_again(void *user)
{
    (void)user;
    if (atomic_load(&runner.link) != NULL) // Else it is said once that is there.
        say_hello();
}

// The state folder is two above the job's.
static bool find_state_folder(trp_path *path)
{
    if (trp_path_make(path, "%s", runner.mode->folder) != TROUPE_OK)
        return false;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path->text, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    return true;
}

// A thread: a server that does not answer holds up nothing but this. Once there is a link, it
// connects again by itself.
static void *connect_once(void *user)
{
    trp_path state;
    trp_server_link *made = NULL;
    const trp_server_told told = {.frame = take_frame, .again = say_again};
    const struct timespec pause = {0, AGAIN_MS * 1000000};
    (void)user;
    if (!find_state_folder(&state))
        return NULL;
    while (trp_server_link_open(state.text, &told, &made) != TROUPE_OK)
        nanosleep(&pause, NULL);
    atomic_store(&runner.link, made);
    say_hello();
    return NULL;
}

static troupe_status begin_to_connect(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, connect_once, NULL) != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "no thread for the link to the train server");
    (void)pthread_detach(thread);
    return TROUPE_OK;
}

static bool differs(const trp_wire_progress *a, const trp_wire_progress *b)
{
    return a->state != b->state || a->ranks != b->ranks || a->restarts != b->restarts ||
           a->echo != b->echo;
}

static void tell_progress(void)
{
    char refused[sizeof runner.refused];
    int64_t now_ms = trp_clock_ms();
    trp_server_link *link = atomic_load(&runner.link);
    if (link == NULL)
        return;
    pthread_mutex_lock(&runner.lock);
    runner.now.echo = runner.revision;
    bool due = runner.fresh || differs(&runner.now, &runner.told) ||
               (runner.now.reports != runner.told.reports && now_ms >= runner.next_reports_ms);
    snprintf(refused, sizeof refused, "%s", runner.refused);
    runner.fresh = false;
    trp_wire_progress now = runner.now;
    if (due)
        runner.told = now;
    pthread_mutex_unlock(&runner.lock);
    if (!due)
        return;
    now.refused = refused[0] != '\0' ? refused : NULL;
    runner.next_reports_ms = now_ms + LOOK_MS;
    (void)trp_server_link_tell(link, TRP_WIRE_PROGRESS, &troupe_type_trp_wire_progress, &now);
}

// ---- the job

static void be_terminated(int number)
{
    (void)number;
    int kept = errno;
    runner.terminated = true;
    wake();
    errno = kept;
}

// The first SIGTERM pauses the run, which goes on with the next attempt; the second ends the
// process. Both are no fault of the run's, which is said where a server that is away finds it.
static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = be_terminated,
                               .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, NULL);
}

static troupe_status accept_job(void)
{
    const trp_wire_order *order = &runner.mode->order;
    const trp_wire_wishes *wished = &order->wishes;
    // Fewer are wished since the grant.
    bool shrinks = wished->ranks > 0 && wished->ranks < order->ranks;
    trp_job_terms terms = {.submission = order->submission,
                           .run = order->run,
                           .rank_gpus = order->rank_gpus,
                           .ranks = order->ranks,
                           .resizes = wished->resizes - shrinks,
                           .restarts = order->restarts_left,
                           .spent_s = order->elapsed_s,
                           .live = wished->live};
    unsigned char *spec;
    size_t size;
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/spec", runner.mode->folder));
    TROUPE_TRY(trp_file_read(path.text, &spec, &size));
    set_levels(wished, true);
    runner.revision = wished->revision;
    troupe_status status = trp_job_accept_on(&terms, (troupe_bytes){spec, size},
                                             &(trp_port){&port_class, NULL}, &runner.job);
    trp_free(spec);
    return status;
}

static void await_something(void)
{
    uint64_t count;
    struct pollfd event = {.fd = runner.wake, .events = POLLIN};
    if (poll(&event, 1, LOOK_MS) > 0)
        (void)!read(runner.wake, &count, sizeof count);
}

// What the loop acts on.
typedef struct facts {
    bool done, leave, rests;
} facts;

static facts look(void)
{
    pthread_mutex_lock(&runner.lock);
    facts now = {runner.done, runner.leave,
                 runner.now.state == TRP_JOB_PAUSED && (runner.wishes.pause || runner.terminated)};
    pthread_mutex_unlock(&runner.lock);
    return now;
}

// Whether a run that rests is to go on with another attempt. By its last checkpoint it may be known
// that so many ranks as that one has cannot: then it goes on here.
static bool may_leave(void)
{
    pthread_mutex_lock(&runner.lock);
    int ranks = runner.grown;
    pthread_mutex_unlock(&runner.lock);
    if (ranks == 0 || trp_job_check_more(runner.job, ranks) == TROUPE_OK)
        return true;
    refuse_more();
    pthread_mutex_lock(&runner.lock);
    if (runner.grown == ranks)
        runner.grown = 0;
    runner.wishes.pause = runner.pauses || runner.grown > 0;
    pthread_mutex_unlock(&runner.lock);
    trp_job_look(runner.job);
    return false;
}

static void tick_usage(trp_usage *usage)
{
    enum { MOST = 256 };
    int pids[MOST], count;
    pthread_mutex_lock(&runner.lock);
    count = runner.pid_count < MOST ? runner.pid_count : MOST;
    if (count > 0)
        memcpy(pids, runner.pids, (size_t)count * sizeof *pids);
    pthread_mutex_unlock(&runner.lock);
    trp_usage_tick(usage, pids, count);
}

// The run ended since its runtime did, which is not how the job ends.
static bool ended_with_runtime(void)
{
    return trp_runtime_is_lost() || runner.end.status == TROUPE_RUNTIME_LOST ||
           (runner.end.status == TROUPE_CANCELLED && runner.wishes.kill == TROUPE_OK);
}

static _Noreturn void leave_saying(const char *why)
{
    trp_log(TRP_WARN, "job %" PRId64 ", attempt %d: %s", runner.mode->job, runner.mode->attempt,
            why);
    trp_job_runner_leave();
}

// This attempt is not lost.
static void say_left(void)
{
    if (trp_alive_say_left(runner.mode->lock) != TROUPE_OK)
        trp_log(TRP_WARN, "%s", troupe_last_error()->text);
}

// Until the job has ended.
static void follow(void)
{
    const trp_wire_order *order = &runner.mode->order;
    trp_usage usage = {.folder = runner.job->folder,
                       .gpu_ids = order->gpus > 0 ? order->gpu_ids : NULL};
    const trp_gate_plan *gate = &runner.job->spec.gate;
    bool gated = gate->first > 0 || gate->reports.count > 0;
    bool told_pause = false;
    for (;;) {
        facts now = look();
        if (now.done)
            return;
        if (trp_runtime_is_lost())
            leave_saying("the node of the runner was lost");
        if (now.leave)
            leave_saying("the server has another attempt of this job, and this one ends");
        if (runner.terminated && !told_pause) {
            told_pause = true;
            say_left();
            trp_job_look(runner.job);
        }
        if (gated && trp_runner_gate_look()) // An answer that came late.
            trp_job_look(runner.job);
        trp_job_make_good(runner.job);
        tell_progress();
        if (now.rests && may_leave()) {
            say_left(); // The server may have it go on before it has heard that it rests.
            return;
        }
        tick_usage(&usage);
        await_something();
    }
}

static _Noreturn void finish(void)
{
    bool done = look().done;
    if (done && ended_with_runtime())
        leave_saying("the node of the runner was lost");
    trp_derived_await(runner.job->derived);
    if (done)
        write_end(runner.mode, &runner.end);
    (void)troupe_stop(); // A run that rests is left as it is. The link's thread has the job still.
    fflush(NULL);
    _exit(done ? EXIT_SUCCESS : TRP_JOB_NO_END);
}

void trp_job_runner_run(const trp_job_mode *mode)
{
    runner.mode = mode;
    fflush(NULL);
    runner.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runner.wake < 0)
        trp_job_runner_fail(mode, trp_fail_errno(TROUPE_IO, "a runner cannot wait for events"));
    if (trp_alive_keeper(mode->lock) == 0)
        trp_job_runner_fail(
            mode, troupe_fail(TROUPE_IO, "the keeper has not locked %s/alive", mode->folder));
    watch_signals();
    trp_runner_gate_open(mode->folder);
    troupe_status status = accept_job();
    if (status != TROUPE_OK)
        trp_job_runner_fail(mode, status);
    trp_job_look(runner.job); // At a stop or a kill that was wished before.
    status = begin_to_connect();
    if (status != TROUPE_OK)
        trp_job_runner_fail(mode, status);
    follow();
    finish();
}
