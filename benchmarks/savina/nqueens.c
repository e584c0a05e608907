// nqueens.c: Savina's N-Queens: 12 queens, a master that deals the work to 20 workers in turn; the
// first 4 columns are set by messages, the rest by each worker alone. How work spreads.
#include "savina.h"

#include <string.h>

enum { QUEENS = 12, SOLUTIONS = 14200, WORKERS = 20, THRESHOLD = 4 };

TROUPE_STRUCT(board, (int, depth), (uint8_t, rows, 12));

typedef struct master {
    troupe_actor workers[WORKERS];
    int64_t sent, done, solutions;
    int next;
} master;

static troupe_status master_start(master *self, const troupe_none *from, troupe_none *none);
static troupe_status master_work(master *self, const board *what, troupe_none *none);
static troupe_status master_solution(master *self, const troupe_none *from, troupe_none *none);
static troupe_status master_done(master *self, const troupe_none *from, troupe_none *none);

TROUPE_ACTOR(master, (master_start, troupe_none, troupe_none), (master_work, board, troupe_none),
             (master_solution, troupe_none, troupe_none), (master_done, troupe_none, troupe_none));

typedef struct worker {
    master_actor master;
} worker;

static troupe_status worker_meet(worker *self, const master_actor *dealer, troupe_none *none)
{
    (void)none;
    self->master = *dealer;
    return TROUPE_OK;
}

// Whether the last queen is attacked by none before it.
static bool is_valid(const uint8_t *rows, int count)
{
    int last = rows[count - 1];
    for (int i = 0; i < count - 1; i++) {
        int distance = count - 1 - i;
        if (rows[i] == last || rows[i] == last - distance || rows[i] == last + distance)
            return false;
    }
    return true;
}

static void solve(worker *self, board *at)
{
    if (at->depth == QUEENS) {
        troupe_tell(self->master, master_solution, 0);
        return;
    }
    at->depth++;
    for (int row = 0; row < QUEENS; row++) {
        at->rows[at->depth - 1] = (uint8_t)row;
        if (is_valid(at->rows, at->depth))
            solve(self, at);
    }
    at->depth--;
}

static troupe_status worker_work(worker *self, const board *what, troupe_none *none)
{
    (void)none;
    board mine = *what;
    if (mine.depth >= THRESHOLD) {
        solve(self, &mine);
    } else {
        mine.depth++;
        for (int row = 0; row < QUEENS; row++) {
            mine.rows[mine.depth - 1] = (uint8_t)row;
            if (is_valid(mine.rows, mine.depth))
                troupe_tell_from(self->master, master_work, &mine);
        }
    }
    return troupe_tell(self->master, master_done, 0);
}

TROUPE_ACTOR(worker, (worker_meet, master_actor, troupe_none), (worker_work, board, troupe_none));

static troupe_status master_work(master *self, const board *what, troupe_none *none)
{
    (void)none;
    self->sent++;
    worker_actor the_worker = {self->workers[self->next]};
    self->next = (self->next + 1) % WORKERS;
    return troupe_tell_from(the_worker, worker_work, what);
}

static troupe_status master_start(master *self, const troupe_none *from, troupe_none *none)
{
    (void)from;
    master_actor me = {troupe_self()};
    for (int i = 0; i < WORKERS; i++) {
        worker_actor the_worker = savina_spawn(worker);
        troupe_tell_from(the_worker, worker_meet, &me);
        self->workers[i] = the_worker.address;
    }
    board empty = {0};
    return master_work(self, &empty, none);
}

static troupe_status master_solution(master *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    self->solutions++;
    return TROUPE_OK;
}

// A worker says so after all that it sent for the same board, so nothing is under way at the end.
static troupe_status master_done(master *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (++self->done < self->sent)
        return TROUPE_OK;
    if (self->solutions != SOLUTIONS)
        savina_wrong("the solutions", self->solutions, SOLUTIONS);
    for (int i = 0; i < WORKERS; i++)
        troupe_actor_end(self->workers[i]);
    savina_leave();
    savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    troupe_tell(savina_spawn(master), master_start, 0);
    savina_wait();
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, SOLUTIONS, play);
}
