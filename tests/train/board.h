// board.h: a trainer that commits in memory, saves on disk, or both, and fails at exact places. Its
// ranks and the test tell each other what they do by a file that all of them map.
#ifndef BOARD_H
#define BOARD_H

#include "support.h"

#include <fcntl.h>
#include <runtime/host/file.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>
#include <unistd.h>

enum { WORLD = 3, WEIGHTS = 16, STEPS = 40, WHOLE_STEP = 5 };
enum { SMALL_BLOB = 1 << 20, HUGE_BLOB = 80 << 20, STORE_BYTES = 64 << 20 };

// What a step does before its report.
enum {
    NOTHING,
    COMMITS,
    SAVES,
    FIRST,               // Rank 0 commits.
    NOT_ALL,             // All but the last rank commit, but in WHOLE_STEP.
    ONE_IS_TORN,         // Rank 1 commits more than there is room for, but in WHOLE_STEP.
    ONE_HAS_NO_ROOM,     // The same from that step on, while the test has filled the store.
    COMMITS_AND_SAVES,   // The latter in every third step.
    SAVES_AFTER_COMMITS, // It commits until WHOLE_STEP, and saves from then on.
};
// How the victim gets into trouble before the report of step `at` in its first attempt. What others
// do about that: see TAKES_NO_NOTICE.
enum { KILLED, RETURNS, ALWAYS_RETURNS, HANGS_LATER, STOPS_LATER, TAKES_NO_NOTICE, DIES_WRITING };

typedef struct board {
    _Atomic int pids[WORLD], begun[WORLD]; // How often its loop was called.
    _Atomic int restored[WORLD];           // The step that the last attempt went on from.
    _Atomic int refused;                   // Commits without room.
    _Atomic int waiting, full;             // For the store to be filled; it is.
    _Atomic int gate;                      // Opened by the test; see gate_step.
    _Atomic int hangs;                     // A rank that was told of another's end.
    _Atomic int statics[WORLD];            // How often a loop ran in this process before.
    _Atomic int kept[WORLD];               // How many of its loops began in a used process.
    _Atomic int setups[WORLD], teardowns[WORLD];
    _Atomic int wrong; // A rank got what is not its own.
} board;

TROUPE_STRUCT(board_settings, (troupe_text, path), (int, steps), (int, step_us), (int, way),
              (int, trouble), (int, victim), (int, at), (int, gate_step));
TROUPE_STRUCT(board_state, (int, rank), (int, step), (uint64_t, own),
              (troupe_array_double, weights));
TROUPE_STRUCT(board_other, (int, rank));
TROUPE_STRUCT(board_blob, (troupe_bytes, bytes));

static board *board_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(board)) == 0)
        memory = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : (board *)memory;
}

// ---- what ranks compute: the same in every attempt

static inline uint64_t board_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 27);
}

// What a rank has of its own after a step.
static inline uint64_t board_own(int rank, int step)
{
    uint64_t own = 0;
    for (int i = 1; i <= step; i++)
        own = board_mix(own, (uint64_t)i * WORLD + (uint64_t)rank);
    return own;
}

static inline void board_gradient(int rank, int step, const double *weights, double *gradient)
{
    for (int i = 0; i < WEIGHTS; i++)
        gradient[i] =
            (weights[i] - i) * (1 + rank) / 3 +
            (double)(board_mix((uint64_t)step, (uint64_t)(rank * WEIGHTS + i)) >> 11) / 0x1p53;
}

// The weights of an undisturbed run of WORLD ranks, to the bit: combined in the order of ranks.
static inline void board_undisturbed(int steps, double *weights)
{
    memset(weights, 0, WEIGHTS * sizeof *weights);
    for (int step = 0; step < steps; step++) {
        double sums[WEIGHTS], part[WEIGHTS];
        board_gradient(0, step, weights, sums);
        for (int rank = 1; rank < WORLD; rank++) {
            board_gradient(rank, step, weights, part);
            for (int i = 0; i < WEIGHTS; i++)
                sums[i] += part[i];
        }
        for (int i = 0; i < WEIGHTS; i++)
            weights[i] -= 0.05 * sums[i];
    }
}

static inline void board_assert_at(const board_state *now, int rank, int step)
{
    double weights[WEIGHTS];
    board_undisturbed(step, weights);
    assert_int_equal(now->rank, rank);
    assert_int_equal(now->step, step);
    assert_true(now->own == board_own(rank, step));
    assert_int_equal(now->weights.count, WEIGHTS);
    assert_memory_equal(now->weights.items, weights, sizeof weights);
}

static inline void board_assert_end(const board_state *now, int rank)
{
    board_assert_at(now, rank, STEPS);
}

// ---- the loop

static troupe_status board_commit_blob(troupe_rank *me, board *where, size_t size)
{
    char *bytes = (char *)calloc(1, size);
    board_blob blob = {{bytes, size}};
    troupe_status status = troupe_commit(board_blob, me, &blob);
    free(bytes);
    if (status != TROUPE_NO_MEMORY && status != TROUPE_TOO_LARGE)
        return troupe_fail(TROUPE_FAILED, "%zu bytes were not refused: %d", size, (int)status);
    atomic_fetch_add(&where->refused, 1);
    return TROUPE_OK;
}

static troupe_status board_await(_Atomic int *word)
{
    for (int i = 0; i < SUPPORT_SOON_MS && !atomic_load(word); i++)
        usleep(1000);
    return atomic_load(word) ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "the test does not go on");
}

static troupe_status board_await_full(board *where)
{
    atomic_store(&where->waiting, 1);
    return board_await(&where->full);
}

// For a rank that is to die before its files are written: nothing of it gets to the disk.
static int board_hang(const char *step)
{
    while (step != NULL)
        pause();
    return 0;
}

static troupe_status board_hang_writer(troupe_rank *me, const board_settings *config)
{
    const char *path;
    if (me->attempt > 0 || me->rank != config->victim)
        return TROUPE_OK;
    TROUPE_TRY(troupe_checkpoint_folder(me, &path)); // The files of earlier reports are written.
    trp_file_probe = board_hang;
    return TROUPE_OK;
}

static troupe_status board_keep(troupe_rank *me, const board_settings *config, board *where,
                                const board_state *now)
{
    bool whole = now->step == WHOLE_STEP;
    switch (config->way) {
    case SAVES:
        return troupe_save(board_state, me, now);
    case FIRST:
        return me->rank == 0 ? troupe_commit(board_state, me, now) : TROUPE_OK;
    case NOT_ALL:
        return me->rank < me->world - 1 || whole ? troupe_commit(board_state, me, now) : TROUPE_OK;
    case ONE_HAS_NO_ROOM:
        if (me->rank == 1 && now->step == WHOLE_STEP + 1)
            TROUPE_TRY(board_await_full(where));
        if (me->rank == 1 && now->step > WHOLE_STEP)
            return board_commit_blob(me, where, SMALL_BLOB);
        return troupe_commit(board_state, me, now);
    case ONE_IS_TORN:
        if (me->rank == 1 && !whole)
            return board_commit_blob(me, where, HUGE_BLOB);
        return troupe_commit(board_state, me, now);
    case COMMITS_AND_SAVES:
        if (config->trouble == DIES_WRITING && now->step == config->at)
            TROUPE_TRY(board_hang_writer(me, config));
        if (now->step % 3 == 0 || now->step == config->at)
            TROUPE_TRY(troupe_save(board_state, me, now));
        return troupe_commit(board_state, me, now);
    case SAVES_AFTER_COMMITS:
        return now->step <= WHOLE_STEP ? troupe_commit(board_state, me, now)
                                       : troupe_save(board_state, me, now);
    default:
        return config->way == COMMITS ? troupe_commit(board_state, me, now) : TROUPE_OK;
    }
}

static troupe_status board_trouble(const troupe_rank *me, const board_settings *config,
                                   const board_state *now)
{
    bool again = config->trouble == ALWAYS_RETURNS;
    if (config->trouble == DIES_WRITING)
        return TROUPE_OK; // See board_fit.
    if ((me->attempt > 0 && !again) || now->step != config->at || me->rank != config->victim)
        return TROUPE_OK;
    if (config->trouble == RETURNS || again)
        return troupe_fail(TROUPE_FAILED, "the loss of rank %d is not what it was", me->rank);
    raise(SIGKILL);
    return TROUPE_OK;
}

// What a rank does that was told of another's end.
static troupe_status board_told(const troupe_rank *me, const board_settings *config, board *where,
                                troupe_status status)
{
    if (status != TROUPE_PEER_LOST || me->attempt > 0 || me->rank == config->victim)
        return status;
    bool hangs = config->trouble == HANGS_LATER || config->trouble == STOPS_LATER;
    if (hangs && me->rank == 0) {
        atomic_store(&where->hangs, 1);
        for (;;)
            if (config->trouble == STOPS_LATER)
                raise(SIGSTOP);
            else
                pause();
    }
    return config->trouble == TAKES_NO_NOTICE ? TROUPE_OK : status;
}

static troupe_status board_step(troupe_rank *me, const board_settings *config, board *where,
                                double *weights, board_state *now)
{
    double gradient[WEIGHTS];
    board_gradient(me->rank, now->step, weights, gradient);
    if (config->gate_step > 0 && now->step == config->gate_step)
        TROUPE_TRY(board_await(&where->gate));
    if (config->step_us > 0)
        usleep((useconds_t)config->step_us);
    TROUPE_TRY(troupe_allreduce(me, gradient, WEIGHTS, TROUPE_SUM));
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] -= 0.05 * gradient[i];
    now->step++;
    now->own = board_mix(now->own, (uint64_t)now->step * WORLD + (uint64_t)me->rank);
    TROUPE_TRY(board_keep(me, config, where, now));
    TROUPE_TRY(board_trouble(me, config, now));
    return troupe_report(me, {"step", now->step});
}

static troupe_status board_restore(troupe_rank *me, const board_settings *config, board *where,
                                   double *weights, board_state *now)
{
    static int ran;
    atomic_fetch_add(&where->kept[me->rank], ran > 0);
    atomic_store(&where->statics[me->rank], ran++);
    TROUPE_TRY(troupe_restore(board_state, me, now));
    if (now->weights.items != weights)
        memcpy(weights, now->weights.items, WEIGHTS * sizeof *weights);
    now->weights.items = weights;
    if (now->rank != me->rank && config->way != FIRST) {
        atomic_store(&where->wrong, 1);
        return troupe_fail(TROUPE_CORRUPT, "rank %d got the state of rank %d", me->rank, now->rank);
    }
    atomic_store(&where->restored[me->rank], now->step);
    atomic_store(&where->pids[me->rank], (int)getpid());
    atomic_fetch_add(&where->begun[me->rank], 1);
    return TROUPE_OK;
}

static troupe_status board_fit(troupe_rank *me, const board_settings *config)
{
    double weights[WEIGHTS] = {0};
    board_state now = {.rank = me->rank, .weights = {weights, WEIGHTS}};
    board *where = board_map(config->path);
    if (where == NULL)
        return troupe_fail(TROUPE_IO, "no board at %s", config->path);
    troupe_status status = board_restore(me, config, where, weights, &now);
    while (status == TROUPE_OK && now.step < config->steps)
        status = board_step(me, config, where, weights, &now);
    bool writes = config->trouble == DIES_WRITING && me->attempt == 0 && me->rank == config->victim;
    if (status == TROUPE_OK && writes && board_await(&where->gate) == TROUPE_OK)
        raise(SIGKILL);
    status = board_told(me, config, where, status);
    munmap(where, sizeof *where);
    return status;
}
TROUPE_TRAINER(board_fit, board_settings);

// ---- the test's side

static char *board_path;

static inline board *board_open(const char *folder)
{
    board_path = support_path(folder, "board");
    board *where = board_map(board_path);
    assert_non_null(where);
    return where;
}

static inline void board_close(board *where)
{
    munmap(where, sizeof *where);
    free(board_path);
}

// Settings of an undisturbed run, on an empty board.
static inline board_settings board_plain(board *where, int way)
{
    memset(where, 0, sizeof *where);
    return (board_settings){.path = board_path, .steps = STEPS, .way = way};
}

#endif
