// test_train_kills.c: a run whose ranks and drivers are killed at random moments, with checkpoints
// alone or with a commit in memory in each step, too. The same program is started again until the
// run has ended; then its state has the bits of the undisturbed run,
// each checkpoint met on the way was whole, and nothing is left of the run but its folder.
//
//     test_train_kills [KILLS]     TROUPE_SEED says which moments and victims; it is printed
//
// timeout: 120
// cost: 10
// again: full slow 1800 300
#include <support.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

enum {
    WORLD = 2,
    WEIGHTS = 64,
    STEPS = 60,
    SAVE_EVERY = 3,
    STEP_US = 1000,
    KILLS = 12,
    // One checkpoint may be being committed, and the files of the next one written.
    BEHIND_MAX = 3 * SAVE_EVERY,
    LAUNCHES_MAX = 1000, // Of one run.
    END_MS = 30000,
    GONE_MS = 10000,
    PATH = 600,
};

// ---- the program that is killed

// What ranks and test tell each other: in a file that all of them map.
typedef struct board {
    _Atomic int pids[WORLD];
    _Atomic int saved[WORLD]; // The last step whose state a rank has reported.
    _Atomic int wrong;        // A rank got a state that it should not have got.
} board;

TROUPE_STRUCT(kills_settings, (troupe_text, board), (bool, commits));
TROUPE_STRUCT(kills_state, (int, rank), (int, step), (uint64_t, own),
              (troupe_array_double, weights));

static board *map_board(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(board)) == 0)
        memory = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : (board *)memory;
}

// Says nothing but what its arguments are: the same in every attempt.
static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 27);
}

static double noise(int step, int rank, int weight)
{
    return (double)(mix((uint64_t)step, (uint64_t)rank, (uint64_t)weight) >> 11) / 0x1p53 - 0.5;
}

// Whether it is the rank's own, and as new as what all ranks have saved.
static bool is_right(const troupe_rank *me, const kills_state *model, board *where)
{
    int least = STEPS;
    for (int rank = 0; rank < WORLD; rank++) {
        int saved = atomic_load(&where->saved[rank]);
        least = saved < least ? saved : least;
    }
    return model->rank == me->rank && model->weights.count == WEIGHTS &&
           model->step >= least - BEHIND_MAX;
}

static troupe_status take_step(troupe_rank *me, const kills_settings *config, double *weights,
                               kills_state *model)
{
    double gradient[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++)
        gradient[i] =
            (model->weights.items[i] - i) * (1 + me->rank) / 3 + noise(model->step, me->rank, i);
    usleep(STEP_US);
    TROUPE_TRY(troupe_allreduce(me, gradient, WEIGHTS, TROUPE_MEAN));
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] -= 0.1 * gradient[i];
    model->step++;
    model->own = mix(model->own, (uint64_t)model->step, (uint64_t)me->rank);
    if (config->commits)
        TROUPE_TRY(troupe_commit(kills_state, me, model));
    if (model->step % SAVE_EVERY == 0)
        TROUPE_TRY(troupe_save(kills_state, me, model));
    return troupe_report(me, {"step", model->step}, {"first weight", weights[0]});
}

static troupe_status kills_fit(troupe_rank *me, const kills_settings *config)
{
    double weights[WEIGHTS] = {0};
    kills_state model = {.rank = me->rank, .weights = {weights, WEIGHTS}};
    board *where = map_board(config->board);
    if (where == NULL)
        return troupe_fail(TROUPE_IO, "no board at %s", config->board);
    atomic_store(&where->pids[me->rank], (int)getpid());
    troupe_status status = troupe_restore(kills_state, me, &model);
    if (status == TROUPE_OK && !is_right(me, &model, where)) {
        atomic_store(&where->wrong, 1);
        status = troupe_fail(TROUPE_CORRUPT, "rank %d got the state of rank %d after step %d",
                             me->rank, model.rank, model.step);
    }
    if (status == TROUPE_OK)
        memmove(weights, model.weights.items, sizeof weights);
    model.weights.items = weights;
    while (status == TROUPE_OK && model.step < STEPS) {
        status = take_step(me, config, weights, &model);
        if (status == TROUPE_OK && model.step % SAVE_EVERY == 0)
            atomic_store(&where->saved[me->rank], model.step);
    }
    munmap(where, sizeof *where);
    return status;
}
TROUPE_TRAINER(kills_fit, kills_settings);

// Whether it is begun or goes on: as a program would have it.
static int drive(int argc, char **argv)
{
    const char *storage = argv[2];
    int keep = atoi(argv[3]);
    char path[PATH];
    snprintf(path, sizeof path, "%s/board", storage);
    kills_settings config = {.board = path, .commits = strcmp(argv[4], "commits") == 0};
    troupe_result *result = NULL;
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = WORLD));
    troupe_status status =
        troupe_train(kills_fit, &config, &result, .ranks = WORLD, .storage = storage, .name = "run",
                     .keep = keep, .restarts = TROUPE_FOREVER, .open = TROUPE_OPEN_RESUME_OR_NEW);
    if (status != TROUPE_OK)
        fprintf(stderr, "the run failed: %s\n", troupe_last_error()->text);
    troupe_result_free(&result);
    return troupe_stop() != 0 || status != TROUPE_OK;
}

// ---- one run, launched until it has ended

typedef struct game {
    char *storage;
    char mark[PATH]; // In the environment of all its processes.
    char tmp[PATH];  // Where these have their temporary files.
    char keep[16];
    const char *commits; // "commits": in memory, too.
    board *board;
    pid_t driver;
} game;

static int kills_wanted = KILLS, kills_made, kills_of_drivers;
static unsigned dice;
static int span_us;                        // Of the undisturbed run.
static double undisturbed[WORLD][WEIGHTS]; // Its weights.
static uint64_t undisturbed_own[WORLD];

static void set_up(game *it, int keep, bool commits)
{
    it->storage = support_directory_make();
    snprintf(it->mark, sizeof it->mark, "TRAIN_KILLS=%s", it->storage);
    snprintf(it->tmp, sizeof it->tmp, "%s/tmp", it->storage);
    snprintf(it->keep, sizeof it->keep, "%d", keep);
    it->commits = commits ? "commits" : "saves";
    assert_int_equal(mkdir(it->tmp, 0700), 0);
    char *path = support_path(it->storage, "board");
    it->board = map_board(path);
    assert_non_null(it->board);
    free(path);
}

static void launch(game *it)
{
    char *log = support_path(it->storage, "log");
    it->driver = fork();
    assert_true(it->driver >= 0);
    if (it->driver == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A test that fails leaves none.
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(fd, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
        (void)putenv(it->mark);
        (void)setenv("TMPDIR", it->tmp, 1);
        (void)setenv("XDG_RUNTIME_DIR", it->tmp, 1); // For the sockets of a node.
        execl("/proc/self/exe", "test_train_kills", "drive", it->storage, it->keep, it->commits,
              (char *)NULL);
        _exit(127);
    }
    free(log);
}

static _Noreturn void fail_game(game *it, const char *what)
{
    char *log = support_path(it->storage, "log"), *text = support_read_file(log);
    support_print(text ? text : "");
    fail_msg("%s; the run is at %s", what, it->storage);
    abort();
}

static bool is_marked(const game *it, int pid)
{
    static char text[1 << 16];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        close(fd);
    return got > 0 && memmem(text, (size_t)got, it->mark, strlen(it->mark) + 1) != NULL;
}

static int count_marked(const game *it)
{
    int count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            count += is_marked(it, atoi(entry->d_name));
    closedir(processes);
    return count;
}

static bool is_gone(void *context)
{
    return count_marked((const game *)context) == 0;
}

// Whether the driver ends by itself within that time.
static bool ends_within(game *it, int64_t us)
{
    for (int64_t left = us; left >= 0; left -= 500) {
        int status;
        pid_t ended = waitpid(it->driver, &status, WNOHANG);
        assert_true(ended >= 0);
        if (ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
            fail_game(it, "a driver that nobody killed did not end well");
        if (ended > 0)
            return true;
        if (atomic_load(&it->board->wrong))
            fail_game(it, "a rank did not go on from the run's last checkpoint");
        usleep((useconds_t)(left < 500 ? left : 500));
    }
    return false;
}

static void kill_rank(const game *it)
{
    int pid = atomic_load(&it->board->pids[rand_r(&dice) % WORLD]);
    if (pid > 0 && is_marked(it, pid)) // There may be no group at this moment.
        (void)kill(pid, SIGKILL);
}

static void kill_driver(game *it)
{
    int status;
    (void)kill(it->driver, SIGKILL);
    assert_int_equal(waitpid(it->driver, &status, 0), it->driver);
    (void)support_was_killed(status); // Or it had just come through.
    kills_of_drivers++;
}

// ---- what a run's folder holds

static game *looked_at;
static int newest, found, left_behind;
static char newest_path[PATH];

static void read_states(const char *folder, kills_state states[WORLD])
{
    for (int rank = 0; rank < WORLD; rank++) {
        if (troupe_checkpoint_load(kills_state, folder, rank, &states[rank]) != TROUPE_OK)
            fail_game(looked_at, troupe_last_error()->text);
        if (states[rank].rank != rank || states[rank].weights.count != WEIGHTS ||
            states[rank].step != states[0].step)
            fail_game(looked_at, "a checkpoint holds what was not saved together");
    }
}

static int look_at(const char *path, const struct stat *about, int type, struct FTW *walk)
{
    (void)about;
    const char *name = path + walk->base;
    int number;
    kills_state states[WORLD];
    left_behind += strncmp(name, ".staging_", 9) == 0 || strncmp(name, ".removed_", 9) == 0 ||
                   strcmp(name, "run.json.new") == 0;
    if (type != FTW_D || sscanf(name, "checkpoint_%d", &number) != 1)
        return 0;
    read_states(path, states);
    found++;
    if (number > newest) {
        newest = number;
        snprintf(newest_path, sizeof newest_path, "%s", path);
    }
    troupe_arena_reset();
    return 0;
}

// Reads every checkpoint of the run.
static void look(game *it)
{
    looked_at = it;
    newest = -1;
    found = left_behind = 0;
    assert_int_equal(nftw(it->storage, look_at, 16, FTW_PHYS), 0);
}

static void check_end(game *it)
{
    kills_state states[WORLD];
    if (!support_wait_until(is_gone, it, GONE_MS))
        fail_game(it, "processes of the run are left");
    look(it);
    if (left_behind > 0)
        fail_game(it, "a staging folder or half a run.json is left");
    if (newest < 0)
        fail_game(it, "there is no checkpoint");
    if (support_count_files(it->tmp) != 0)
        fail_game(it, "temporary files of a driver are left");
    read_states(newest_path, states);
    for (int rank = 0; rank < WORLD; rank++) {
        if (states[rank].step != STEPS)
            fail_game(it, "the newest checkpoint is not that of the end");
        if (span_us == 0) { // The first run.
            memcpy(undisturbed[rank], states[rank].weights.items, sizeof undisturbed[rank]);
            undisturbed_own[rank] = states[rank].own;
        } else if (memcmp(undisturbed[rank], states[rank].weights.items,
                          sizeof undisturbed[rank]) != 0 ||
                   undisturbed_own[rank] != states[rank].own) {
            fail_game(it, "the state is not that of the undisturbed run");
        }
    }
    troupe_arena_reset();
}

static void clear(game *it)
{
    munmap(it->board, sizeof *it->board);
    support_directory_remove(it->storage);
}

// ---- the tests

// Kills who it likes, when it likes, and starts the program again whenever its driver is gone.
static void play(game *it)
{
    for (int launches = 1; launches < LAUNCHES_MAX; launches++) {
        launch(it);
        for (bool alive = true; alive;) {
            bool more = kills_made < kills_wanted;
            if (ends_within(it, more ? rand_r(&dice) % span_us : END_MS * 1000LL))
                return;
            if (!more)
                fail_game(it, "the run did not end");
            int victim = rand_r(&dice) % 4;
            if (victim != 0)
                kill_rank(it);
            alive = victim == 1 || victim == 2;
            if (!alive)
                kill_driver(it);
            kills_made++;
        }
        // Half of the time the next driver meets the ranks of the last one.
        if (rand_r(&dice) % 2 == 0 && !support_wait_until(is_gone, it, GONE_MS))
            fail_game(it, "processes of a killed driver are left");
        look(it);
    }
    fail_game(it, "the run was launched too often");
}

// B12, B13
static void test_a_run_survives_kills_of_ranks_and_drivers(void **state)
{
    (void)state;
    game plain = {.storage = NULL};
    set_up(&plain, 0, false);
    int64_t start = support_now_ms();
    launch(&plain);
    if (!ends_within(&plain, END_MS * 1000LL))
        fail_game(&plain, "the undisturbed run did not end");
    int took_us = (int)(support_now_ms() - start + 1) * 1000;
    check_end(&plain);
    assert_int_equal(found, STEPS / SAVE_EVERY);
    span_us = took_us;
    clear(&plain);
    for (int games = 0; kills_made < kills_wanted; games++) {
        game it = {.storage = NULL};
        set_up(&it, games % 4 < 2 ? 0 : 2, games % 2 == 0);
        play(&it);
        check_end(&it);
        clear(&it);
    }
    print_message("%d kills, %d of them of drivers; the undisturbed run takes %d ms\n", kills_made,
                  kills_of_drivers, span_us / 1000);
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "drive") == 0)
        return drive(argc, argv);
    const char *seed = getenv("TROUPE_SEED");
    dice = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL);
    if (argc > 1)
        kills_wanted = atoi(argv[1]);
    print_message("TROUPE_SEED=%u\n", dice);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_survives_kills_of_ranks_and_drivers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
