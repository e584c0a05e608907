// team.h: groups of forked ranks, for tests of collectives: no runtime, one engine or the other.
#ifndef TEAM_H
#define TEAM_H

#include "engine_socket.h"
#include "support.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <train/collective.h>
#include <train/engine_shm.h>
#include <unistd.h>

enum { TIMEOUT_MS = 10000, TEAM_BYTES = 64 << 20 };

// In a rank, which has no test framework around it.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: %s:%d: %s (last error: %s)\n", group->rank, __FILE__,        \
                    __LINE__, #condition, troupe_last_error()->text);                              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

// Memory that all ranks of a team map, for trp_shared_alloc: what was given, and the bytes.
typedef struct team_memory {
    _Atomic uint64_t used;
    _Alignas(64) unsigned char bytes[TEAM_BYTES];
} team_memory;
static team_memory *team_shared;

static trp_shared_holder team_self(void)
{
    return (trp_shared_holder){0, 0};
}

static troupe_status team_give(size_t size, const trp_shared_holder *holders, int world,
                               uint64_t *id)
{
    (void)holders;
    (void)world;
    if (size > TEAM_BYTES - team_shared->used)
        return troupe_fail(TROUPE_NO_MEMORY, "the team has no %zu bytes", size);
    *id = atomic_fetch_add(&team_shared->used, size);
    return TROUPE_OK;
}

static void *team_find(uint64_t id)
{
    return team_shared->bytes + id;
}

static void team_drop(uint64_t id)
{
    (void)id;
}

static const trp_shared_source team_source = {team_self, team_give, team_find, team_drop};

typedef struct team {
    const trp_engine *engine;
    trp_control *control;
    team_memory *shared;
    size_t size;
    int world;
    pid_t pids[8];
} team;

// What holds of every engine is tested with both.
static const trp_engine *const engines[] = {&trp_engine_shm, &engine_socket};
enum { ENGINES = 2 };

static team team_make(const trp_engine *engine, int world)
{
    team made = {.engine = engine, .size = trp_control_size(engine, world), .world = world};
    void *memory = mmap(NULL, made.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    made.control = trp_control_init(memory, engine, world, 1);
    team_shared = (team_memory *)mmap(NULL, sizeof *team_shared, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)team_shared != MAP_FAILED);
    made.shared = team_shared;
    return made;
}

static void team_start(team *all, void (*play)(trp_member *group), int timeout_ms)
{
    team_shared = all->shared;
    for (int rank = 0; rank < all->world; rank++) {
        all->pids[rank] = fork();
        assert_true(all->pids[rank] >= 0);
        if (all->pids[rank] == 0) {
            trp_member mine;
            trp_shared shared = {.source = &team_source};
            if (trp_member_open(&mine, all->control, all->size, all->engine, rank, all->world,
                                timeout_ms, 0))
                _exit(2);
            mine.shared = &shared;
            play(&mine);
            _exit(0);
        }
    }
}

static int team_wait(team *all, int rank)
{
    int status = 0;
    assert_int_equal(waitpid(all->pids[rank], &status, 0), all->pids[rank]);
    return status;
}

static void team_forget(team *all)
{
    munmap(all->control, all->size);
    munmap(all->shared, sizeof *all->shared);
    if (all->engine == &engine_socket)
        socket_forget(all->world);
}

static void team_end(team *all, int except)
{
    for (int rank = 0; rank < all->world; rank++)
        if (rank != except)
            assert_int_equal(team_wait(all, rank), 0);
    team_forget(all);
}

static void play_on(const trp_engine *engine, int world, void (*what)(trp_member *group))
{
    team all = team_make(engine, world);
    team_start(&all, what, TIMEOUT_MS);
    team_end(&all, -1);
}

__attribute__((unused)) static void play(int world, void (*what)(trp_member *group))
{
    play_on(&trp_engine_shm, world, what);
}

#endif
