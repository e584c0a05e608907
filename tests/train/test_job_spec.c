// test_job_spec.c: that a job is a plain value, and that who runs it knows no more than that and a
// port; and keys.
#include "line.h"
#include <errno.h>
#include <pthread.h>
#include <runtime/codec/pack.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <train/job.h>

static char *storage;

// ---- the value

static void make_spec(const line_settings *config, const troupe_train_options *options,
                      trp_arena *arena, trp_buffer *packed)
{
    trp_job_spec spec;
    trp_packed value;
    troupe_must(trp_packed_take(&value, &troupe_type_line_settings, "the config", config));
    troupe_must(trp_spec_make(&troupe_trainer_line_fit, &value, options, arena, &spec));
    troupe_must(trp_spec_pack(&spec, packed));
    trp_packed_free(&value);
}

// F18: all of a job is in its bytes, which a cut anywhere makes none.
static void test_a_job_is_a_plain_value(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_buffer packed = {0};
    line_settings config = line_plain(7), back;
    troupe_train_options options = {.size = sizeof options,
                                    .ranks = 3,
                                    .name = "plain",
                                    .keep = TROUPE_NONE,
                                    .metadata = "{\"b\": 1, \"a\": [true]}"};
    make_spec(&config, &options, &arena, &packed);
    trp_job_spec spec;
    const troupe_trainer *trainer;
    troupe_must(trp_spec_read((troupe_bytes){packed.data, packed.size}, &arena, &spec, &trainer));
    assert_ptr_equal(trainer, &troupe_trainer_line_fit);
    assert_int_equal(spec.options.ranks, 3);
    assert_string_equal(spec.options.name, "plain");
    assert_int_equal(spec.options.keep, TROUPE_NONE);
    assert_string_equal(spec.options.metadata, "{\"a\":[true],\"b\":1}");
    troupe_must(troupe_unpack(line_settings, spec.config.data, spec.config.size, &back));
    assert_int_equal(back.epochs, 7);
    assert_string_equal(back.note, config.note);
    for (size_t size = 0; size < packed.size; size++) {
        char *cut = malloc(size + 1); // So that reading beyond it is seen.
        memcpy(cut, packed.data, size);
        troupe_status status = trp_spec_read((troupe_bytes){cut, size}, &arena, &spec, &trainer);
        assert_int_equal(status, TROUPE_MALFORMED);
        free(cut);
    }
    trp_buffer_free(&packed);
    trp_arena_clear(&arena);
}

static void expect_refused(trp_job_spec spec, troupe_status wanted, const char *text)
{
    trp_arena arena = {0};
    trp_buffer packed = {0};
    trp_job_spec back;
    const troupe_trainer *trainer;
    troupe_must(trp_spec_pack(&spec, &packed));
    assert_int_equal(
        trp_spec_read((troupe_bytes){packed.data, packed.size}, &arena, &back, &trainer), wanted);
    assert_non_null(strstr(troupe_last_error()->text, text));
    trp_buffer_free(&packed);
    trp_arena_clear(&arena);
}

// F18.
static void test_a_job_of_others_is_refused(void **state)
{
    (void)state;
    trp_arena arena = {0};
    trp_job_spec spec;
    line_settings config = line_plain(1);
    troupe_train_options options = {.size = sizeof options};
    trp_packed value;
    troupe_must(trp_packed_take(&value, &troupe_type_line_settings, "the config", &config));
    troupe_must(trp_spec_make(&troupe_trainer_line_fit, &value, &options, &arena, &spec));
    trp_packed_free(&value);
    trp_job_spec other = spec;
    other.version = 99;
    expect_refused(other, TROUPE_VERSION, "of version 99, this library reads up to 1");
    other = spec;
    other.program = "/opt/another";
    expect_refused(other, TROUPE_UNSUPPORTED, "one of the program /opt/another, and this is /");
    other = spec;
    other.trainer = "nobody";
    expect_refused(other, TROUPE_NOT_FOUND, "trainer 'nobody' is not registered");
    other = spec;
    other.schema++;
    expect_refused(other, TROUPE_WRONG_TYPE, "has a config with schema");
    other = spec;
    other.trainer = NULL;
    expect_refused(other, TROUPE_MALFORMED, "names no program or no trainer");
    trp_arena_clear(&arena);
}

// ---- a user in another process

// What goes through the socket: a head, and a packed value.
enum { ACCEPTED, PROGRESS, GROUP, REPORT, CHECKPOINT, SAY, ASK, DONE, LET_GO, SPEC, WISHES };
typedef struct head {
    uint32_t kind, size;
} head;
TROUPE_STRUCT(told, (int, number), (double, value), (troupe_text, text));

static void send_all(int to, const void *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(to, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        data = (const char *)data + sent;
        size -= (size_t)sent;
    }
}

static bool receive_all(int from, void *data, size_t size)
{
    return size == 0 || recv(from, data, size, MSG_WAITALL) == (ssize_t)size;
}

static void send_frame(int to, uint32_t kind, const troupe_type *type, const void *value)
{
    trp_buffer frame = {0};
    head begin = {.kind = kind};
    trp_buffer_append(&frame, &begin, sizeof begin);
    if (type != NULL)
        (void)trp_pack(type, value, &frame);
    ((head *)(void *)frame.data)->size = (uint32_t)(frame.size - sizeof begin);
    send_all(to, frame.data, frame.size);
    trp_buffer_free(&frame);
}

// What the user's process counts up. It knows nothing of the job but what comes through the socket.
typedef struct seen {
    int accepted, running, groups, reports, checkpoints, sentences, done;
    char path[4096];
} seen;

static bool take_frame(int line, seen *all, trp_outcome *outcome)
{
    head begin;
    told what;
    trp_state_change progress;
    trp_accepted accepted;
    char data[65536];
    if (!receive_all(line, &begin, sizeof begin) || begin.size > sizeof data ||
        !receive_all(line, data, begin.size))
        return false;
    bool read = true;
#define READ(T, to) (read = troupe_unpack(T, data, begin.size, (to)) == TROUPE_OK)
    switch (begin.kind) {
    case ACCEPTED:
        READ(trp_accepted, &accepted);
        snprintf(all->path, sizeof all->path, "%s", accepted.path);
        all->accepted++;
        break;
    case PROGRESS:
        READ(trp_state_change, &progress);
        all->running += progress.state == TROUPE_JOB_RUNNING;
        break;
    case REPORT:
        READ(told, &what);
        read = read && what.number == ++all->reports; // Each, and in order.
        if (what.number == 5)
            send_frame(line, WISHES, &troupe_type_trp_wishes, &(trp_wishes){.stop = true});
        break;
    case CHECKPOINT:
        all->checkpoints++;
        break;
    case GROUP:
        all->groups++;
        break;
    case SAY:
        all->sentences++;
        break;
    case DONE:
        READ(trp_outcome, outcome);
        all->done++;
        break;
    default:
        break;
    }
    return read && begin.kind != LET_GO;
}

// The user's process: submits bytes, hears of the run, wishes for a stop at report 5. Ends with 0
// if all was as it should be.
static int be_user(int line)
{
    trp_arena arena = {0};
    trp_buffer packed = {0};
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.save_every = 1;
    config.pause_ms = 2;
    troupe_train_options options = {.size = sizeof options,
                                    .ranks = 2,
                                    .storage = storage,
                                    .name = "far",
                                    .cpus_per_rank = 0.5,
                                    .keep = 2};
    seen all = {0};
    trp_outcome outcome = {0};
    make_spec(&config, &options, &arena, &packed);
    head begin = {SPEC, (uint32_t)packed.size};
    send_all(line, &begin, sizeof begin);
    send_all(line, packed.data, packed.size);
    while (take_frame(line, &all, &outcome))
        ;
    bool right = all.accepted == 1 && all.running == 1 && all.groups == 1 && all.done == 1 &&
                 all.reports >= 5 && all.reports < LINE_EPOCHS_MAX && all.checkpoints > 0 &&
                 outcome.status == TROUPE_OK && outcome.stopped && outcome.reports == all.reports &&
                 outcome.metrics.count == 3 && strcmp(outcome.path, all.path) == 0 &&
                 outcome.checkpoint != NULL &&
                 strncmp(outcome.checkpoint, all.path, strlen(all.path)) == 0;
    if (!right)
        fprintf(stderr, "user: %d %d %d %d %d %d %d; %d '%s'\n", all.accepted, all.running,
                all.groups, all.reports, all.checkpoints, all.sentences, all.done, outcome.status,
                outcome.error);
    return right ? 0 : 1;
}

// The coordinator's process: a port that writes frames, and a thread that reads wishes.
typedef struct far_user {
    int line;
    _Atomic bool stop, done, gone;
    trp_job *job;
} far_user;

static void far_accepted(void *user, const trp_accepted *what)
{
    send_frame(((far_user *)user)->line, ACCEPTED, &troupe_type_trp_accepted, what);
}
static void far_progress(void *user, const trp_state_change *what, trp_lines lines)
{
    (void)lines;
    send_frame(((far_user *)user)->line, PROGRESS, &troupe_type_trp_state_change, what);
}
static void far_group(void *user, const trp_console_rank *ranks, int count)
{
    send_frame(((far_user *)user)->line, GROUP, &troupe_type_told,
               &(told){.number = count, .value = ranks[0].pid});
}
static void far_report(void *user, int number, double elapsed_s, const troupe_report_event *event,
                       trp_lines lines)
{
    (void)lines;
    if (event != NULL)
        send_frame(((far_user *)user)->line, REPORT, &troupe_type_told,
                   &(told){.number = number, .value = elapsed_s});
}
static void far_checkpoint(void *user, const troupe_checkpoint_event *event, trp_lines lines)
{
    (void)lines;
    send_frame(((far_user *)user)->line, CHECKPOINT, &troupe_type_told,
               &(told){.number = event->report, .text = event->folder});
}
static void far_modified(void *user, const troupe_live_event *event, trp_lines lines)
{
    (void)user;
    (void)event;
    (void)lines;
}
static void far_checkpoints(void *user, int64_t newest, int64_t best)
{
    (void)user;
    (void)newest;
    (void)best;
}
static void far_committed(void *user, trp_memory_commit *commit)
{
    (void)user;
    (void)commit;
}
static trp_log_sink far_logs(void *user)
{
    (void)user;
    return (trp_log_sink){0};
}
static void far_say(void *user, trp_level level, const char *text)
{
    send_frame(((far_user *)user)->line, SAY, &troupe_type_told,
               &(told){.number = (int)level, .text = text});
}
static void far_ask(void *user, const troupe_report_event *event, int timeout_ms)
{
    (void)event, (void)timeout_ms;
    (void)user;
}
static void far_wishes(void *user, trp_wishes *wishes)
{
    *wishes = (trp_wishes){.stop = atomic_load(&((far_user *)user)->stop)};
}
static void far_done(void *user, const trp_outcome *outcome)
{
    atomic_store(&((far_user *)user)->done, true);
    send_frame(((far_user *)user)->line, DONE, &troupe_type_trp_outcome, outcome);
}
static void far_let_go(void *user)
{
    far_user *far = user;
    send_frame(far->line, LET_GO, NULL, NULL);
    atomic_store(&far->gone, true);
}
static const trp_port_class far_port = {
    far_accepted, far_progress,    far_group,     far_report, far_checkpoint,
    far_modified, far_checkpoints, far_committed, far_logs,   far_say,
    far_ask,      far_wishes,      far_done,      far_let_go};

static void *read_wishes(void *user)
{
    far_user *far = user;
    head begin;
    char data[4096];
    trp_wishes wishes;
    while (receive_all(far->line, &begin, sizeof begin) && begin.size <= sizeof data &&
           receive_all(far->line, data, begin.size)) {
        assert_int_equal(begin.kind, WISHES);
        troupe_must(troupe_unpack(trp_wishes, data, begin.size, &wishes));
        trp_job_hold(far->job); // Once it knows of the stop it may end before this returns.
        atomic_store(&far->stop, wishes.stop);
        trp_job_look(far->job);
        trp_job_release(far->job);
    }
    return NULL;
}

static bool is_done(void *user)
{
    return atomic_load(&((far_user *)user)->done);
}

static bool is_gone(void *user)
{
    return atomic_load(&((far_user *)user)->gone);
}

// The user: forked before the runtime was started, so it has none.
static pid_t user_pid;
static int user_line = -1;

static void fork_user(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        exit(1);
    user_pid = fork();
    if (user_pid == 0) {
        close(pair[0]);
        _exit(be_user(pair[1]));
    }
    close(pair[1]);
    user_line = pair[0];
}

// F18: a job runs for a user in another process, of whom it has the bytes of a spec and a socket.
static void test_a_job_runs_for_a_user_in_another_process(void **state)
{
    (void)state;
    head begin;
    char spec[65536];
    far_user far = {.line = user_line};
    pthread_t reader;
    int status;
    assert_true(receive_all(far.line, &begin, sizeof begin) && begin.size <= sizeof spec);
    assert_true(receive_all(far.line, spec, begin.size));
    troupe_must(trp_job_accept((troupe_bytes){spec, begin.size}, NULL, &(trp_port){&far_port, &far},
                               &far.job));
    memset(spec, 'x', sizeof spec); // It has read it.
    assert_int_equal(pthread_create(&reader, NULL, read_wishes, &far), 0);
    assert_true(support_wait_until(is_done, &far, SUPPORT_SOON_MS));
    trp_job_release(far.job);
    assert_true(support_wait_until(is_gone, &far, SUPPORT_SOON_MS));
    assert_int_equal(waitpid(user_pid, &status, 0), user_pid);
    assert_int_equal(status, 0);
    pthread_join(reader, NULL);
    close(far.line);
}

// ---- keys

#define SUBMIT(follower, job, key_, ...)                                                           \
    troupe_submit(line_fit, &config, (follower), (job), .storage = storage, .key = (key_),         \
                  __VA_ARGS__)

static troupe_job_state state_of(troupe_job *job)
{
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    return now.state;
}

// F18.
static void test_the_same_again_is_the_same_job(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.save_every = 0;
    config.pause_ms = 5;
    troupe_job *first, *second, *third;
    troupe_result *result, *again;
    troupe_must(SUBMIT(NULL, &first, "one", .name = "keyed"));
    troupe_must(SUBMIT(NULL, &second, "one", .name = "keyed"));
    troupe_must(troupe_job_find("one", &third));
    assert_string_equal(troupe_job_path(second), troupe_job_path(first));
    assert_string_equal(troupe_job_path(third), troupe_job_path(first));
    troupe_job_close(&first);
    troupe_job_close(&third); // Ends nothing:
    assert_int_equal(troupe_job_wait(second, 50, &result), TROUPE_TIMED_OUT);
    assert_int_not_equal(state_of(second), TROUPE_JOB_DONE);
    troupe_must(troupe_job_find("one", &third));
    troupe_job_stop(third); // Asked of one, asked of the job.
    troupe_must(troupe_job_wait(second, SUPPORT_SOON_MS, &result));
    assert_true(troupe_result_stopped(result));
    troupe_must(SUBMIT(NULL, &first, "one", .name = "keyed")); // It has ended, and is known still.
    troupe_must(troupe_job_wait(first, 0, &again));
    assert_ptr_equal(again, result);
    troupe_result_free(&again);
    troupe_result_free(&result);
    troupe_job_close(&first);
    troupe_job_close(&second);
    troupe_job_close(&third);
    assert_int_equal(troupe_job_find("one", &third), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "no job with the key 'one'"));
}

// What a follower has been told, each kind in its order.
typedef struct heard {
    _Atomic int reports;
    char states[64], checkpoints[512];
    int lines[2], wrong;
    bool done;
} heard;

static void hear_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    heard *self = (heard *)user;
    self->wrong += event->number != atomic_load(&self->reports) + 1 || troupe_job_path(job) == NULL;
    atomic_store(&self->reports, event->number);
}

static void hear_state(void *user, troupe_job *job, troupe_job_state state)
{
    heard *self = (heard *)user;
    size_t used = strlen(self->states);
    (void)job;
    snprintf(self->states + used, sizeof self->states - used, "%d ", (int)state);
    self->done = state == TROUPE_JOB_DONE;
}

static void hear_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    heard *self = (heard *)user;
    size_t used = strlen(self->checkpoints);
    (void)job;
    snprintf(self->checkpoints + used, sizeof self->checkpoints - used, "%lld ",
             (long long)event->number);
}

static void hear_line(void *user, troupe_job *job, const troupe_log_event *event)
{
    heard *self = (heard *)user;
    (void)job;
    if (event->size > 0 && strncmp(event->text, "chat ", 5) == 0) // Not the library's own.
        self->wrong += atoi(event->text + 5) != ++self->lines[event->rank];
}

enum { CHATS = 30, CHAT_RANKS = 2 };
TROUPE_STRUCT(chat_settings, (troupe_text, folder));

// Half of its reports it makes at once, and the others once that file is there.
static troupe_status chats(troupe_rank *me, const chat_settings *config)
{
    char *go = support_path(config->folder, "go");
    for (int i = 1; i <= CHATS; i++) {
        line_model model = {.epoch = i, .note = ""};
        while (i > CHATS / 2 && !support_exists(go))
            usleep(1000);
        printf("chat %d\n", i);
        fflush(stdout);
        if (i % 5 == 0)
            TROUPE_TRY(troupe_save(line_model, me, &model));
        TROUPE_TRY(troupe_report(me, {"i", i}));
    }
    free(go);
    return TROUPE_OK;
}
TROUPE_TRAINER(chats, chat_settings);

static troupe_status submit_chats(const char *folder, heard *user, troupe_job **job)
{
    chat_settings config = {folder};
    troupe_follower follower = {.size = sizeof follower,
                                .user = user,
                                .report = hear_report,
                                .state = hear_state,
                                .checkpoint = hear_checkpoint,
                                .log = hear_line};
    return troupe_submit(chats, &config, &follower, job, .ranks = CHAT_RANKS, .cpus_per_rank = 0.5,
                         .storage = storage, .name = "followed", .key = "followed");
}

static troupe_gate_answer go_on(void *user, troupe_job *job, const troupe_report_event *event,
                                int *ranks)
{
    (void)user;
    (void)job;
    (void)event;
    (void)ranks;
    return TROUPE_GATE_GO_ON;
}

static bool has_heard_half(void *user)
{
    return atomic_load(&((heard *)user)->reports) >= CHATS / 2;
}

// F18: a follower of a later submission is told everything too, from the beginning.
static void test_each_submission_may_bring_a_follower(void **state)
{
    (void)state;
    enum { FOLLOWERS = 3 };
    static heard all[FOLLOWERS];
    char *folder = support_directory_make(), *go = support_path(folder, "go");
    troupe_job *jobs[FOLLOWERS], *refused = NULL;
    troupe_result *result;
    troupe_must(submit_chats(folder, &all[0], &jobs[0]));
    assert_true(support_wait_until(has_heard_half, &all[0], SUPPORT_SOON_MS));
    troupe_must(submit_chats(folder, &all[1], &jobs[1])); // While it runs.
    assert_true(support_wait_until(has_heard_half, &all[1], SUPPORT_SOON_MS));
    support_write_file(go, "", 0);
    troupe_must(troupe_job_wait(jobs[0], SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    troupe_must(submit_chats(folder, &all[2], &jobs[2])); // When it has ended.
    troupe_gate gate = {.size = sizeof gate, .decide = go_on};
    assert_int_equal(troupe_submit(chats, &(chat_settings){folder}, NULL, &refused,
                                   .ranks = CHAT_RANKS, .cpus_per_rank = 0.5, .storage = storage,
                                   .name = "followed", .key = "followed", .gate = &gate),
                     TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "expected no gate"));
    assert_null(refused);
    for (int i = 0; i < FOLLOWERS; i++)
        troupe_job_close(&jobs[i]); // The last one waits for all followers.
    for (int i = 0; i < FOLLOWERS; i++) {
        assert_true(all[i].done);
        assert_int_equal(all[i].wrong, 0);
        assert_int_equal(atomic_load(&all[i].reports), CHATS);
        assert_string_equal(all[i].states, all[0].states);
        assert_string_equal(all[i].checkpoints, all[0].checkpoints);
        for (int rank = 0; rank < CHAT_RANKS; rank++)
            assert_int_equal(all[i].lines[rank], CHATS);
    }
    assert_string_equal(all[0].checkpoints, "0 1 2 3 4 5 ");
    troupe_result_free(&result);
    free(go);
    support_directory_remove(folder);
}

#define EXPECT_ANOTHER(member, ...)                                                                \
    do {                                                                                           \
        assert_int_equal(SUBMIT(NULL, &other, "two", __VA_ARGS__), TROUPE_EXISTS);                 \
        assert_non_null(strstr(troupe_last_error()->text, "differs in " member));                  \
    } while (0)

// F18: what differs is named.
static void test_another_job_with_the_key_is_refused(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.save_every = 0;
    config.pause_ms = 5;
    troupe_job *job, *other = NULL;
    troupe_must(SUBMIT(NULL, &job, "two", .name = "other", .ranks = 2, .cpus_per_rank = 0.5));
    EXPECT_ANOTHER(".ranks", .name = "other", .ranks = 3, .cpus_per_rank = 0.5);
    EXPECT_ANOTHER(".name", .name = "others", .ranks = 2, .cpus_per_rank = 0.5);
    EXPECT_ANOTHER(".metadata", .name = "other", .ranks = 2, .cpus_per_rank = 0.5,
                   .metadata = "{}");
    config.rate = 0.5;
    EXPECT_ANOTHER("config.rate", .name = "other", .ranks = 2, .cpus_per_rank = 0.5);
    config.rate = 0.9;
    config.note = "another";
    EXPECT_ANOTHER("config.note", .name = "other", .ranks = 2, .cpus_per_rank = 0.5);
    config.note = line_plain(1).note;
    assert_int_equal(SUBMIT(NULL, &other, "", .name = "other"), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "option .key has 0 bytes"));
    troupe_job_close(&job);
    // The key is free now.
    troupe_must(SUBMIT(NULL, &job, "two", .name = "others", .ranks = 1));
    troupe_job_close(&job);
}

enum { SUBMITTERS = 8 };

static void *submit_once(void *user)
{
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.save_every = 0;
    config.pause_ms = 5;
    troupe_must(SUBMIT(NULL, (troupe_job **)user, "many", .name = "many"));
    return NULL;
}

// F18: of those that submit at once, one does.
static void test_many_at_once_are_one(void **state)
{
    (void)state;
    troupe_job *jobs[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_once, &jobs[i]), 0);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    char *other = support_path(storage, "many_1");
    assert_false(support_exists(other));
    free(other);
    for (int i = 0; i < SUBMITTERS; i++) {
        assert_string_equal(troupe_job_path(jobs[i]), troupe_job_path(jobs[0]));
        if (i > 0)
            troupe_job_close(&jobs[i]);
    }
    assert_int_not_equal(state_of(jobs[0]), TROUPE_JOB_DONE);
    troupe_job_close(&jobs[0]);
}

int main(int argc, char **argv)
{
    if (!getenv("TROUPE_WORKER")) {
        storage = support_directory_make();
        fork_user();
    }
    troupe_must(troupe_start(argc, argv, .cpus = 2, .threads = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_is_a_plain_value),
        cmocka_unit_test(test_a_job_of_others_is_refused),
        cmocka_unit_test(test_a_job_runs_for_a_user_in_another_process),
        cmocka_unit_test(test_the_same_again_is_the_same_job),
        cmocka_unit_test(test_another_job_with_the_key_is_refused),
        cmocka_unit_test(test_each_submission_may_bring_a_follower),
        cmocka_unit_test(test_many_at_once_are_one),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
