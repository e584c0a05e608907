// test_sweep_kills.c: sweeps whose tuner, ranks and train server are killed with -9 at random
// moments: each goes on, and at its end it has decided, line by line, what an undisturbed one has.
// timeout: 120
// cost: 15
// again: full slow 1500 300
//
// Arguments: how many are killed, and the seed of the moments. One trial runs at a time, so the
// order of reports is the same; half of the sweeps are of the program's own trials, half of a
// server's.
#include "real_server.h"

#include <decisions.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <troupe/tune.h>
#include <unistd.h>

enum { EPOCHS = 8, LATEST_MS = 400, KILLS_PER_SWEEP = 12 };

static char *top; // Found in the environment by what is started.
static int kills_wanted = 12;
static uint64_t seed = 20261127;

TROUPE_STRUCT(settings, (double, rate), (int, saves), (troupe_text, folder));
TROUPE_STRUCT(state, (int, epoch), (double, sum));

// What is reported follows from all rates that the state was trained with.
static troupe_status train(troupe_rank *me, const settings *config)
{
    state at = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/ranks", config->folder);
    FILE *file = fopen(path, "ae");
    if (file != NULL)
        fprintf(file, "%d\n", (int)getpid());
    if (file != NULL)
        fclose(file);
    TROUPE_TRY(troupe_restore(state, me, &at));
    while (at.epoch < EPOCHS) {
        at.sum += config->rate * (1 + at.epoch % 3);
        at.epoch++;
        usleep(4000);
        if (config->saves)
            TROUPE_TRY(troupe_save(state, me, &at));
        TROUPE_TRY(troupe_report(me, {"loss", 20 - at.sum + 3.0 / at.epoch}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(train, settings);

// ---- sweeps

typedef enum kind { STOPPED, WITHOUT_CHECKPOINTS, PAUSED, CLONED, KINDS } kind;

static const char *const kind_names[] = {"stopped", "without", "paused", "cloned"};

static troupe_scheduler *scheduler_of(kind of)
{
    if (of == CLONED)
        return troupe_pbt(.interval = 2, .limit = 2 * EPOCHS);
    return troupe_asha(.grace = 1, .reduction = 2, .limit = EPOCHS - 1, .promote = of == PAUSED);
}

static troupe_status tune(kind of, bool there, const char *folder, troupe_sweep **sweep)
{
    const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                  TROUPE_FIXED(settings, saves, of != WITHOUT_CHECKPOINTS),
                                  TROUPE_FIXED_TEXT(settings, folder, folder)};
    const troupe_server_choice server = there ? TROUPE_SERVER_AUTO : TROUPE_SERVER_NONE;
    return troupe_tune(train, space, sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 6,
                       .concurrent = 1, .retries = 1, .name = kind_names[of],
                       .scheduler = scheduler_of(of), .server = server,
                       .open = TROUPE_OPEN_RESUME_OR_NEW,
                       .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder,
                                               .restarts = TROUPE_FOREVER, .cpus_per_rank = 0.5));
}

static int act_tune(const char *of, const char *where, const char *folder)
{
    troupe_sweep *sweep;
    troupe_must(tune((kind)atoi(of), strcmp(where, "there") == 0, folder, &sweep));
    troupe_sweep_free(&sweep);
    return troupe_stop();
}

static char *record_of(kind of, const char *folder)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/trials.jsonl", folder, kind_names[of]);
    return support_read_file(path);
}

// ---- what was decided

static void assert_same(kind of, bool ranks, const char *undisturbed, const char *folder)
{
    char *text = record_of(of, folder);
    assert_non_null(text);
    decisions_assert_same(undisturbed, text, !ranks, folder);
    free(text);
}

// How often a line begins so, up to its time.
static int count_submitted(const char *text, const char *begins, size_t size)
{
    static const char time[] = ", \"at_s\"";
    int count = 0;
    for (; text != NULL; text = strchr(text, '\n'), text += text != NULL)
        count += strncmp(text, begins, size) == 0 && strncmp(text + size, time, strlen(time)) == 0;
    return count;
}

// Each run of a trial was submitted once, and no folder is there that nobody knows.
static void assert_once(kind of, const char *folder)
{
    static const char event[] = "{\"event\": \"submitted\",";
    char *text = record_of(of, folder), command[700], output[8000];
    int submitted = 0;
    for (const char *at = text; at != NULL; at = strchr(at, '\n'), at += at != NULL) {
        if (strncmp(at, event, strlen(event)) != 0)
            continue;
        const char *time = strstr(at, ", \"at_s\"");
        assert_non_null(time);
        submitted++;
        if (count_submitted(text, at, (size_t)(time - at)) != 1)
            fail_msg("%.*s is there twice in %s", (int)(time - at), at, text);
    }
    snprintf(command, sizeof command, "ls -d %s/%s/train_*", folder, kind_names[of]);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    int folders = 0;
    for (const char *at = output; (at = strchr(at, '\n')) != NULL; at++)
        folders++;
    if (folders != submitted)
        fail_msg("%d runs were submitted: %s\nand there are\n%s", submitted, text, output);
    free(text);
}

// ---- what is killed

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static pid_t start_tuner(kind of, bool there, const char *folder)
{
    pid_t pid;
    char number[12], log[600];
    snprintf(number, sizeof number, "%d", (int)of);
    snprintf(log, sizeof log, "%s/log", folder);
    char *argv[] = {(char[]){"test_sweep_kills"},
                    (char[]){"tune"},
                    number,
                    there ? (char[]){"there"} : (char[]){"here"},
                    (char *)folder,
                    NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

// Whether the tuner has ended, which it does well.
static bool has_ended(pid_t pid, int options, const char *folder)
{
    int status;
    if (waitpid(pid, &status, options) != pid)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    char path[600];
    snprintf(path, sizeof path, "%s/log", folder);
    fail_msg("a tuner has failed (%x): %s", status, support_read_file(path));
    return true;
}

// The rank that began last, if it is one still. False: there is none.
static bool kill_rank(const char *folder)
{
    char path[600], exe[64], link[600] = "", own[600] = "";
    snprintf(path, sizeof path, "%s/ranks", folder);
    char *text = support_read_file(path);
    size_t length = text != NULL ? strlen(text) : 0;
    while (length > 1 && text[length - 2] != '\n')
        length--;
    pid_t pid = length > 1 ? atoi(text + length - 1) : 0;
    free(text);
    snprintf(exe, sizeof exe, "/proc/%d/exe", (int)pid);
    return pid > 0 && readlink(exe, link, sizeof link - 1) > 0 &&
           readlink("/proc/self/exe", own, sizeof own - 1) > 0 && strcmp(link, own) == 0 &&
           kill(pid, SIGKILL) == 0;
}

// One of them is killed at a random moment. True: the tuner has to be started again.
static bool kill_one(pid_t pid, bool there, bool ranks, const char *folder, int *killed)
{
    uint64_t which = draw(10);
    if (which < 3 && ranks) {
        *killed += kill_rank(folder);
        return false;
    }
    if (there && which < 6) {
        kill_server();
        run_tool("server start --cpus 4");
        ++*killed;
        return false;
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    ++*killed;
    return true;
}

// A sweep, over as many kills as it lives through, and no more than a share of them.
static int disturb(kind of, bool there, bool ranks, const char *folder, int most)
{
    int killed = 0;
    pid_t pid = start_tuner(of, there, folder);
    while (killed < most) {
        usleep((useconds_t)draw((uint64_t)LATEST_MS * 1000 * SUPPORT_SLOWER));
        if (has_ended(pid, WNOHANG, folder))
            return killed;
        if (kill_one(pid, there, ranks, folder, &killed))
            pid = start_tuner(of, there, folder);
    }
    assert_true(has_ended(pid, 0, folder));
    return killed;
}

static char *make_folder(const char *name)
{
    char *folder = support_path(top, name);
    assert_int_equal(mkdir(folder, 0700), 0);
    return folder;
}

// G13.
static void test_sweeps_decide_as_if_nothing_was_killed(void **unused)
{
    (void)unused;
    char *undisturbed[KINDS] = {0};
    int killed = 0, most = kills_wanted < 4 * KINDS ? 4 : KILLS_PER_SWEEP;
    for (int round = 0; killed < kills_wanted; round++) {
        char name[32];
        kind of = (kind)(round / 2 % KINDS);
        bool there = round % 2 == 1, ranks = round % 3 == 2;
        if (undisturbed[of] == NULL) {
            snprintf(name, sizeof name, "kind_%d", (int)of);
            char *quiet = make_folder(name);
            assert_true(has_ended(start_tuner(of, false, quiet), 0, quiet));
            undisturbed[of] = record_of(of, quiet);
            free(quiet);
        }
        snprintf(name, sizeof name, "round_%d", round);
        char *folder = make_folder(name);
        int left = kills_wanted - killed;
        killed += disturb(of, there, ranks, folder, left < most ? left : most);
        // What a clone begins with may lack what a rank was killed over.
        if (!ranks || of != CLONED)
            assert_same(of, ranks, undisturbed[of], folder);
        assert_once(of, folder);
        free(folder);
    }
    for (int of = 0; of < KINDS; of++)
        free(undisturbed[of]);
}

static int clear(void **unused)
{
    (void)unused;
    char command[400], output[400];
    snprintf(command, sizeof command, "%s server stop --jobs", support_setting("TROUPE_TOOL"));
    (void)support_run(command, output, sizeof output);
    snprintf(command, sizeof command, "for i in 1 2 3 4 5; do rm -rf %s && exit; sleep 1; done",
             top);
    (void)support_run(command, output, sizeof output); // Something may write there still.
    return 0;
}

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_SWEEP_TOP");
    if (argc == 5 && strcmp(argv[1], "tune") == 0) {
        troupe_must(troupe_start(argc, argv, .cpus = 4));
        return act_tune(argv[2], argv[3], argv[4]);
    }
    if (argc > 1) {
        kills_wanted = atoi(argv[1]);
        seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweeps_decide_as_if_nothing_was_killed),
    };
    run_tool("server start --cpus 4");
    return cmocka_run_group_tests(tests, NULL, clear);
}
