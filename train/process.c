// process.c: a trainer whose ranks run programs (see process.h): one rank's program, from its start
// to its end.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/control.h>
#include <train/guard.h>
#include <train/program_env.h>
#include <train/program_output.h>
#include <train/shard.h>
#include <train/worker.h>
#include <unistd.h>

enum {
    LOOK_MS = 100,    // How often the group is looked at.
    FOLLOW_MS = 20,   // How often rank 0 is, by ranks that report when it does.
    DRAIN_MS = 5000,  // For what was printed, once the program has ended,
    LOST_MS = 200,    // and where others may have its output whom nobody guards.
    WARNED_LINES = 5, // Of those that are no reports.
    LAST_WORDS = 320, // Of a program that has failed.
};

// The program of this rank.
typedef struct program {
    troupe_rank *me;
    const troupe_process_config *config;
    const trp_task *task;
    trp_member *member;
    trp_path path, checkpoint; // Its own, and the folder for its next checkpoint.
    trp_guarded what;
    trp_guard guard;
    trp_program_output out, errors;
    int reports;             // The socket where it reports; -1: it has ended.
    trp_program_lines lines; // That come there.
    trp_arena arena;         // Of one line.
    bool follows;            // It makes the reports that rank 0 makes; its program makes none.
    bool answered;           // The line at hand gets an answer.
    bool knows_us;           // It has reported by more than lines of JSON that it prints anyhow.
    int refused;             // Lines that were no reports.
    bool stopped;            // A report said so.
    bool asked, killed;      // It was sent SIGTERM, SIGKILL.
    int64_t next_ms;         // When it is treated worse; 0: not.
    bool ended;              // The program, or its guard;
    bool over;               // nothing that it has said counts any more.
    int status;              // Of waitpid.
    int64_t drain_ms;        // How long its output is waited for then.
    troupe_error failed;     // What ended it from here; TROUPE_OK: nothing has.
} program;

static void ask(program *it);

static void kill_program(program *it)
{
    if (!it->killed)
        trp_guard_kill(&it->guard);
    it->killed = true;
}

// With the thread's last error: the rank ends with it.
static void fail(program *it)
{
    if (it->failed.status == TROUPE_OK)
        it->failed = *troupe_last_error();
    kill_program(it);
}

// ---- checkpoints

static bool is_own_folder(const program *it, const char *path)
{
    struct stat one, other;
    return stat(path, &one) == 0 && stat(it->checkpoint.text, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Moves all that is in its folder to that of the report. Both are the library's, side by side.
static troupe_status move_checkpoint(const program *it, const char *target)
{
    DIR *folder = opendir(it->checkpoint.text);
    if (!folder)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", it->checkpoint.text);
    troupe_status status = TROUPE_OK;
    for (struct dirent *entry; status == TROUPE_OK && (entry = readdir(folder));) {
        trp_path from, to;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        status = trp_path_make(&from, "%s/%s", it->checkpoint.text, entry->d_name);
        if (status == TROUPE_OK)
            status = trp_path_make(&to, "%s/%s", target, entry->d_name);
        if (status == TROUPE_OK)
            status = trp_folder_rename(from.text, to.text);
    }
    closedir(folder);
    return status;
}

static troupe_status add_checkpoint(program *it, const char *named)
{
    trp_path path;
    const char *target, *folder = it->config->folder;
    struct stat about;
    if (named[0] == '/' || !folder)
        TROUPE_TRY(trp_path_make(&path, "%s", named));
    else
        TROUPE_TRY(trp_path_make(&path, "%s/%s", folder, named));
    if (stat(path.text, &about) != 0)
        return trp_fail_errno(TROUPE_NOT_FOUND, "the checkpoint %s", path.text);
    if (!S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_INVALID, "the checkpoint %s is no folder", path.text);
    if (!is_own_folder(it, path.text))
        return troupe_checkpoint_add(it->me, path.text, TROUPE_KEEP_SOURCE);
    TROUPE_TRY(troupe_checkpoint_folder(it->me, &target));
    return move_checkpoint(it, target);
}

// ---- reports

static void answer(program *it, const trp_buffer *text)
{
    // One that does not read its answers loses those for which there is no room.
    if (it->answered && !text->failed)
        (void)!send(it->reports, text->data, text->size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_report(program *it, int number)
{
    trp_buffer text = {0};
    trp_buffer_printf(&text, "{\"report\": %d, \"stop\": %s, \"save\": %s}\n", number,
                      it->stopped ? "true" : "false",
                      troupe_checkpoint_due(it->me) ? "true" : "false");
    answer(it, &text);
    trp_buffer_free(&text);
}

// With the thread's last error.
static void refuse_line(program *it)
{
    const char *why = troupe_last_error()->text;
    trp_buffer text = {0};
    trp_buffer_printf(&text, "{\"error\": ");
    trp_json_text(&text, why);
    trp_buffer_printf(&text, "}\n");
    answer(it, &text);
    trp_buffer_free(&text);
    if (++it->refused <= WARNED_LINES)
        trp_log(TRP_WARN, "a line of rank %d's program is no report: %s%s", it->me->rank, why,
                it->refused == WARNED_LINES ? "; others are counted" : "");
    trp_error_forget();
}

// Whether this report is the run's last one, and the first that says so. A failure ends the rank.
static bool stops_with(program *it, troupe_status status)
{
    if (status != TROUPE_OK && status != TROUPE_STOPPED)
        fail(it);
    bool first = status == TROUPE_STOPPED && !it->stopped;
    it->stopped = it->stopped || first;
    return first;
}

// A program that has no answers could only go on in vain. Alone it need not meet others at a later
// report.
static void stop_here(program *it)
{
    if (it->answered || it->task->world > 1 || !trp_member_is_to_stop(it->member))
        return;
    trp_worker_stop(it->me);
    it->stopped = true;
    ask(it);
}

static void make_report(program *it, const trp_program_said *said)
{
    troupe_status status =
        said->checkpoint && !it->stopped ? add_checkpoint(it, said->checkpoint) : TROUPE_OK;
    if (status == TROUPE_OK)
        status = troupe_report_metrics(it->me, said->metrics, said->count);
    bool stops = stops_with(it, status);
    if (it->failed.status != TROUPE_OK)
        return;
    answer_report(it, trp_worker_reports(it->me));
    if (stops && it->answered)
        it->next_ms = trp_clock_ms() + (int64_t)(it->config->grace_s * 1000);
    else if (stops)
        ask(it);
    else
        stop_here(it);
}

// The reports that rank 0 has made. Its program has time to learn from that of rank 0 that it ends.
static void follow_rank_0(program *it)
{
    while (it->follows && it->failed.status == TROUPE_OK && !it->stopped &&
           trp_member_has_entered(it->member, 0, trp_worker_reports(it->me) + 1))
        if (stops_with(it, troupe_report_metrics(it->me, NULL, 0)))
            it->next_ms = trp_clock_ms() + (int64_t)(it->config->grace_s * 1000);
}

static void take_line(program *it, const char *text, size_t size, bool answered)
{
    trp_program_said said;
    if (it->over || it->failed.status != TROUPE_OK ||
        (text && trp_program_line_is_blank(text, size)))
        return;
    it->answered = answered;
    it->knows_us = true;
    troupe_status status =
        text ? trp_program_line_read(text, size, &it->arena, &said)
             : troupe_fail(TROUPE_TOO_LARGE, "it has more than %d bytes", TRP_PROGRAM_LINE_MAX);
    if (status == TROUPE_OK && it->follows)
        status = troupe_fail(TROUPE_INVALID, "only rank 0 reports, by .rank_0_reports");
    if (status != TROUPE_OK)
        refuse_line(it);
    else
        make_report(it, &said);
    if (status == TROUPE_OK && said.ignored)
        trp_log(TRP_WARN,
                "rank %d's program reports '%.80s', which means nothing: expected "
                "\"metrics\" and \"checkpoint\"",
                it->me->rank, said.ignored);
    trp_arena_clear(&it->arena);
}

static void take_answered(void *user, const char *text, size_t size)
{
    take_line((program *)user, text, size, true);
}

static void take_printed(void *user, const char *text, size_t size)
{
    take_line((program *)user, text, size, false);
}

// A line that was printed for others, which is a report where it has numbers.
static void take_passed(void *user, const char *text, size_t size)
{
    program *it = (program *)user;
    trp_program_said said;
    if (!text || it->over || it->failed.status != TROUPE_OK)
        return;
    it->answered = false;
    if (trp_program_line_has_numbers(text, size, &it->arena, &said) && !it->follows)
        make_report(it, &said);
    trp_arena_clear(&it->arena);
}

static void take_reports(program *it)
{
    char data[TRP_PROGRAM_READ_MAX];
    ssize_t got = recv(it->reports, data, sizeof data, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) {
        trp_program_lines_add(&it->lines, data, (size_t)got);
        return;
    }
    trp_program_lines_end(&it->lines);
    (void)close(it->reports);
    it->reports = -1;
}

// ---- its start

// Where its descriptors lead, the ends that it gets among them.
static troupe_status open_ends(program *it)
{
    int out[2] = {-1, -1}, errors[2] = {-1, -1}, reports[2] = {-1, -1};
    bool made = pipe2(out, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0 &&
                socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reports) == 0;
    int failed = errno;
    it->out.from = out[0];
    it->errors.from = errors[0];
    it->reports = reports[0];
    it->what.ends[0] = out[1];
    it->what.ends[1] = errors[1];
    it->what.ends[2] = reports[1];
    if (made && fcntl(out[0], F_SETFL, O_NONBLOCK) == 0 &&
        fcntl(errors[0], F_SETFL, O_NONBLOCK) == 0)
        return TROUPE_OK;
    errno = made ? errno : failed;
    return trp_fail_errno(TROUPE_IO, "no pipes can be made for a program");
}

static void close_ends(program *it)
{
    for (int i = 0; i < TRP_GUARD_ENDS; i++)
        if (it->what.ends[i] >= 0)
            (void)close(it->what.ends[i]);
}

// A folder beside those of reports, whose numbers begin with 1; with them it is removed.
static troupe_status make_folder(program *it)
{
    trp_staging own = {it->task->run, it->task->epoch, it->task->attempt, 0};
    return trp_shard_make(&own, it->me->rank, &it->checkpoint);
}

static troupe_status describe(program *it, trp_path *alive)
{
    const troupe_process_config *config = it->config;
    size_t count = config->arguments.count;
    trp_program_facts facts = {
        .restarts = it->task->restarts,
        .cpus = it->task->cpus,
        .run = it->task->run,
        .checkpoint = it->checkpoint.text,
        .restored = troupe_restored_folder(it->me),
        .save_due = troupe_checkpoint_due(it->me),
    };
    TROUPE_TRY(trp_program_env(it->me, config, &facts, &it->what.environment));
    TROUPE_TRY(trp_program_find(config, &it->path));
    TROUPE_TRY(trp_path_make(alive, "%s/alive", it->task->run));
    it->what.path = it->path.text;
    it->what.folder = config->folder;
    it->what.alive = alive->text;
    it->what.arguments = (char **)troupe_arena_alloc((count + 1) * sizeof(char *));
    if (!it->what.arguments)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the arguments of a program");
    memcpy((void *)it->what.arguments, (const void *)config->arguments.items,
           count * sizeof(char *));
    return TROUPE_OK;
}

static troupe_status start(program *it, trp_path *alive)
{
    TROUPE_TRY(make_folder(it));
    TROUPE_TRY(describe(it, alive));
    TROUPE_TRY(open_ends(it));
    return trp_guard_start(&it->what, &it->guard);
}

// ---- while it runs

// Asks it to end by SIGTERM.
static void ask(program *it)
{
    if (it->asked || it->killed)
        return;
    it->asked = true;
    trp_guard_ask(&it->guard);
    it->next_ms = trp_clock_ms() + (int64_t)(it->config->grace_s * 1000);
}

static void look_at_group(program *it)
{
    if (it->ended || it->failed.status != TROUPE_OK)
        return;
    if (!trp_member_is_whole(it->member)) {
        (void)trp_member_lost(it->member, "troupe_process");
        fail(it);
        return;
    }
    follow_rank_0(it);
    // Nobody could be told by an answer.
    if (it->guard.program > 0 && trp_member_stops_unreported(it->member, it->task->first_report))
        ask(it);
    // Its next report may be hours away, and would be of no use to it: it has no checkpoint.
    if (it->guard.program > 0 && it->config->json_lines && !it->knows_us)
        stop_here(it);
    if (it->next_ms == 0 || trp_clock_ms() < it->next_ms)
        return;
    if (it->asked)
        kill_program(it);
    else
        ask(it);
}

static void look_at_guard(program *it)
{
    trp_guard_news news = trp_guard_look(&it->guard, &it->what, &it->status);
    if (news == TRP_GUARD_FAILED)
        fail(it);
    if (news == TRP_GUARD_LOST) {
        (void)troupe_fail(TROUPE_FAILED, "the guard of rank %d's program was killed", it->me->rank);
        fail(it);
    }
    it->ended = news != TRP_GUARD_NOTHING && news != TRP_GUARD_STARTED;
    it->drain_ms = trp_clock_ms() + (news == TRP_GUARD_LOST ? LOST_MS : DRAIN_MS);
}

static bool is_over(const program *it)
{
    bool all = trp_program_output_is_over(&it->out) && trp_program_output_is_over(&it->errors) &&
               it->reports < 0;
    return it->ended && (all || trp_clock_ms() >= it->drain_ms);
}

static void follow(program *it)
{
    while (!is_over(it)) {
        struct pollfd rows[] = {
            {.fd = it->ended ? -1 : it->guard.socket, .events = POLLIN},
            {.fd = it->reports, .events = POLLIN},
            {.fd = -1},
            {.fd = -1},
        };
        trp_program_output_await(&it->out, &rows[2]);
        trp_program_output_await(&it->errors, &rows[3]);
        (void)poll(rows, 4, it->follows ? FOLLOW_MS : LOOK_MS);
        if (rows[1].revents)
            take_reports(it);
        if (rows[2].revents)
            trp_program_output_move(&it->out);
        if (rows[3].revents)
            trp_program_output_move(&it->errors);
        if (rows[0].revents)
            look_at_guard(it);
        look_at_group(it);
    }
}

// ---- its end

// The sentence for a program that has ended badly.
static troupe_status failure_of(const program *it)
{
    const char *name = it->config->arguments.items[0];
    char last[LAST_WORDS], how[96];
    trp_program_output_last(&it->errors, last, sizeof last);
    if (WIFSIGNALED(it->status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(it->status),
                 strsignal(WTERMSIG(it->status)));
    else
        snprintf(how, sizeof how, "exited with status %d", WEXITSTATUS(it->status));
    return troupe_fail(TROUPE_FAILED, "%.120s %s%s%s", name, how,
                       last[0] ? ", and last wrote to its errors: " : "", last);
}

// Of a rank whose program was asked to end before it reported: it makes the reports that the others
// make.
static troupe_status report_stop(program *it)
{
    troupe_status status = TROUPE_OK;
    while (status == TROUPE_OK)
        status = troupe_report_metrics(it->me, NULL, 0);
    return status;
}

// Its program has ended, and that of rank 0 may go on.
static troupe_status follow_to_end(program *it)
{
    for (bool left = false; !left && !it->asked && !it->stopped;) {
        left = trp_member_has_left(it->member, 0); // Before it is looked for the last time.
        if (!trp_member_is_whole(it->member))
            return trp_member_lost(it->member, "troupe_process");
        follow_rank_0(it);
        if (it->failed.status != TROUPE_OK)
            return trp_error_set(&it->failed);
        if (!left)
            (void)poll(NULL, 0, FOLLOW_MS);
    }
    return TROUPE_OK;
}

static troupe_status result_of(program *it)
{
    if (it->refused > WARNED_LINES)
        trp_log(TRP_WARN, "%d lines of rank %d's program were no reports", it->refused,
                it->me->rank);
    if (it->failed.status != TROUPE_OK)
        return trp_error_set(&it->failed);
    bool well = WIFEXITED(it->status) && WEXITSTATUS(it->status) == 0;
    if (it->follows && well)
        TROUPE_TRY(follow_to_end(it));
    if (it->asked && !it->stopped && it->task->world > 1)
        return report_stop(it);
    if (it->asked && !it->stopped) { // Nobody waits for what it has not reported.
        trp_worker_stop(it->me);
        it->stopped = true;
    }
    if (it->stopped)
        return TROUPE_STOPPED;
    return well ? TROUPE_OK : failure_of(it);
}

static troupe_status run(troupe_rank *me, const void *config)
{
    trp_path alive;
    program *it = (program *)trp_alloc(sizeof *it);
    troupe_process_config own = *(const troupe_process_config *)config;
    if (!it)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the program of rank %d", me->rank);
    own.grace_s = own.grace_s > 0 ? own.grace_s : 10;
    it->me = me;
    it->config = &own;
    it->task = trp_worker_task(me);
    it->follows = own.rank_0_reports && me->rank > 0;
    it->guard.socket = it->reports = -1;
    it->out = (trp_program_output){.from = -1, .to = STDOUT_FILENO};
    it->errors = (trp_program_output){.from = -1, .to = STDERR_FILENO};
    it->out.reports.take = take_printed;
    if (it->config->json_lines)
        it->out.passed.take = take_passed;
    it->lines.take = take_answered;
    it->out.reports.user = it->out.passed.user = it->lines.user = it;
    for (int i = 0; i < TRP_GUARD_ENDS; i++)
        it->what.ends[i] = -1;
    troupe_status status = trp_worker_member(me, "troupe_process", &it->member);
    if (status == TROUPE_OK)
        status = start(it, &alive);
    close_ends(it);
    if (status == TROUPE_OK) {
        follow(it);
        trp_guard_close(&it->guard);
        status = result_of(it);
    }
    it->over = true;
    trp_program_output_close(&it->out);
    trp_program_output_close(&it->errors);
    if (it->reports >= 0)
        (void)close(it->reports);
    trp_program_lines_end(&it->lines);
    trp_free(it);
    return status;
}

// ---- the trainer

static troupe_status set_up(troupe_setup *at, const void *config)
{
    (void)at;
    return trp_program_check((const troupe_process_config *)config);
}

static const troupe_stages stages = {.setup = set_up, .saves_when_due = true};

const troupe_trainer troupe_trainer_troupe_process = {
    .abi = TROUPE_ABI,
    .name = "troupe_process",
    .config = &troupe_type_troupe_process_config,
    .run = run,
    .stages = &stages,
};

__attribute__((constructor)) static void register_trainer(void)
{
    (void)troupe_trainer_register(&troupe_trainer_troupe_process);
}
