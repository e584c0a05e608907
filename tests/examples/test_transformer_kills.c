// test_transformer_kills.c: the transformer's run, whose ranks and drivers are killed at random
// moments and whose program is started again until the run has ended, has the weights of an
// undisturbed run, to the bit.
//
//     test_transformer_kills [KILLS]     TROUPE_SEED says which moments and victims; it is printed
//
// timeout: 120
// cost: 5
// again: full slow 900 100
#include "support.h"

#include <digits/random.h>
#include <transformer/model.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORLD = 2, KILLS = 6, END_MS = 60000, LAUNCHES_MAX = 1000 };
// The last batch of an epoch is a small one, and one rank has less of it.
enum { CONTEXT = 16, SEQUENCES = 117, BATCH = 6, EPOCHS = 3, STEPS = 60 };

// ---- The program that is killed

// What a driver tells the test: in a file that both of them map.
typedef struct board {
    _Atomic int pids[WORLD];
    _Atomic int reports;   // Of all drivers.
    char checkpoint[1024]; // The last one, when the run has ended.
} board;

static board *map_board(const char *folder)
{
    char *path = support_path(folder, "board");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && ftruncate(fd, sizeof(board)) == 0);
    void *memory = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    close(fd);
    free(path);
    return memory;
}

static void tell(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)event;
    board *it = user;
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    for (int rank = 0; rank < WORLD; rank++)
        atomic_store(&it->pids[rank], status.pids[rank]);
    atomic_fetch_add(&it->reports, 1);
}

// As a program does that is started again until it is done.
static int drive(int argc, char **argv)
{
    board *it = map_board(argv[2]);
    const transformer_config config = {
        .context = CONTEXT,
        .width = 16,
        .heads = 2,
        .layers = 2,
        .rate = 3e-3,
        .warm_up = 10,
        .seed = 7,
        .fitting = {.epochs = EPOCHS, .batch = BATCH, .seed = 7, .report_every = 2},
    };
    char *text = support_path(argv[2], "text");
    const corpus_source source = {text, config.context};
    const troupe_follower follower = {.size = sizeof follower, .report = tell, .user = it};
    troupe_job *job = NULL;
    troupe_result *result = NULL;
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .cpus = WORLD));
    troupe_must(troupe_submit(transformer, &config, &follower, &job, .ranks = WORLD,
                              .data = troupe_data_with(corpus, &source), .storage = argv[2],
                              .name = "run", .keep = 2, .restarts = TROUPE_FOREVER,
                              .open = TROUPE_OPEN_RESUME_OR_NEW));
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    troupe_job_close(&job);
    troupe_status status = troupe_result_status(result);
    if (status == TROUPE_OK)
        snprintf(it->checkpoint, sizeof it->checkpoint, "%s", troupe_result_checkpoint(result));
    else
        fprintf(stderr, "the run failed: %s\n", troupe_result_error(result));
    troupe_result_free(&result);
    free(text);
    return troupe_stop() != 0 || status != TROUPE_OK;
}

// ---- A run, launched until it has ended

typedef struct game {
    char *folder;
    board *board;
    pid_t driver;
} game;

static int kills_wanted = KILLS, kills_made, kills_of_drivers, span_us;
static unsigned dice;

static void set_up(game *it)
{
    uint8_t text[SEQUENCES * CONTEXT + 1];
    uint64_t random = 5;
    it->folder = support_directory_make();
    it->board = map_board(it->folder);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)('a' + random_next(&random) % 4);
    char *path = support_path(it->folder, "text");
    support_write_file(path, text, sizeof text);
    free(path);
}

static void clear(game *it)
{
    munmap(it->board, sizeof *it->board);
    support_directory_remove(it->folder);
}

static _Noreturn void fail_game(game *it, const char *what)
{
    char *log = support_path(it->folder, "log"), *text = support_read_file(log);
    support_print(text ? text : "");
    fail_msg("%s; the run is at %s", what, it->folder);
    abort();
}

static void launch(game *it)
{
    char *log = support_path(it->folder, "log");
    it->driver = fork();
    assert_true(it->driver >= 0);
    if (it->driver == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A test that fails leaves none.
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(fd, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
        execl("/proc/self/exe", "test_transformer_kills", "drive", it->folder, (char *)NULL);
        _exit(127);
    }
    free(log);
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
        usleep((useconds_t)(left < 500 ? left : 500));
    }
    return false;
}

// Whether the process runs this program for this run: a pid may be another's by now.
static bool is_ours(const game *it, int pid)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        close(fd);
    return got > 0 && memmem(text, (size_t)got, it->folder, strlen(it->folder) + 1) != NULL;
}

static bool kill_rank(game *it)
{
    int pid = atomic_load(&it->board->pids[rand_r(&dice) % WORLD]);
    return pid > 0 && is_ours(it, pid) && kill(pid, SIGKILL) == 0;
}

static void kill_driver(game *it)
{
    int status;
    (void)kill(it->driver, SIGKILL);
    assert_int_equal(waitpid(it->driver, &status, 0), it->driver);
    (void)support_was_killed(status); // Or it had just come through.
}

// Kills a rank or the driver at random moments, until the run has ended.
static void play(game *it)
{
    for (int launches = 0; launches < LAUNCHES_MAX; launches++) {
        launch(it);
        for (bool alive = true; alive;) {
            bool more = kills_made < kills_wanted;
            if (ends_within(it, more ? rand_r(&dice) % (span_us / 2) : END_MS * 1000LL))
                return;
            if (!more)
                fail_game(it, "the run did not end");
            if (rand_r(&dice) % 3 != 0) {
                kills_made += kill_rank(it);
                continue;
            }
            kill_driver(it);
            kills_made++;
            kills_of_drivers++;
            alive = false;
        }
    }
    fail_game(it, "the run was launched too often");
}

// The network of the run's last checkpoint.
static troupe_instance *open_end(game *it)
{
    troupe_instance *instance = NULL;
    if (troupe_model_open(transformer, it->board->checkpoint, NULL, &instance) != TROUPE_OK)
        fail_game(it, troupe_last_error()->text);
    assert_int_equal(troupe_model_self(transformer, instance)->step, STEPS);
    return instance;
}

static bool same_state(troupe_instance *a, troupe_instance *b)
{
    const transformer *x = troupe_model_self(transformer, a);
    const transformer *y = troupe_model_self(transformer, b);
    size_t size = x->count * sizeof(float);
    return x->count == y->count && memcmp(x->weights, y->weights, size) == 0 &&
           memcmp(x->first, y->first, size) == 0 && memcmp(x->second, y->second, size) == 0;
}

// B12
static void test_kills_change_no_bit_of_the_weights(void **state)
{
    (void)state;
    game plain = {0};
    set_up(&plain);
    int64_t start = support_now_ms();
    launch(&plain);
    if (!ends_within(&plain, END_MS * 1000LL))
        fail_game(&plain, "the undisturbed run did not end");
    span_us = (int)(support_now_ms() - start + 1) * 1000;
    troupe_instance *undisturbed = open_end(&plain);
    int games = 0;
    for (; kills_made < kills_wanted; games++) {
        game it = {0};
        set_up(&it);
        play(&it);
        troupe_instance *ended = open_end(&it);
        if (!same_state(ended, undisturbed))
            fail_game(&it, "the state is not that of the undisturbed run");
        troupe_model_close(&ended);
        clear(&it);
    }
    troupe_model_close(&undisturbed);
    clear(&plain);
    print_message("%d kills in %d runs, %d of them of drivers; the undisturbed run takes %d ms\n",
                  kills_made, games, kills_of_drivers, span_us / 1000);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "drive") == 0)
        return drive(argc, argv);
    const char *seed = getenv("TROUPE_SEED");
    dice = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL);
    if (argc > 1)
        kills_wanted = atoi(argv[1]);
    print_message("TROUPE_SEED=%u\n", dice);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills_change_no_bit_of_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
