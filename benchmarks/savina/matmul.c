// matmul.c: Savina's Recursive Matrix Multiplication: 1,024 x 1,024 doubles, split in eight until a
// block has 16,384 of them or less, by 20 workers. What parallel work gains.
//
// The matrices are shared, as in Savina. There two products that are added into the same block may
// run at once, which is a race; here a block of the result belongs to one worker, so they do not.
#include "savina.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 1024, BLOCK = 16384, WORKERS = 20 };

static double (*left_matrix)[SIZE], (*right_matrix)[SIZE], (*result_matrix)[SIZE];

// Multiplies the squares of `size` at left_matrix[row][inner] and right_matrix[inner][column].
TROUPE_STRUCT(product, (int, row), (int, column), (int, inner), (int, size));

typedef struct master {
    troupe_actor workers[WORKERS];
    int64_t sent, done;
} master;

static troupe_status master_start(master *self, const troupe_none *from, troupe_none *none);
static troupe_status master_work(master *self, const product *what, troupe_none *none);
static troupe_status master_done(master *self, const troupe_none *from, troupe_none *none);

TROUPE_ACTOR(master, (master_start, troupe_none, troupe_none), (master_work, product, troupe_none),
             (master_done, troupe_none, troupe_none));

typedef struct worker {
    master_actor master;
} worker;

static troupe_status worker_meet(worker *self, const master_actor *dealer, troupe_none *none)
{
    (void)none;
    self->master = *dealer;
    return TROUPE_OK;
}

static void multiply(const product *what)
{
    for (int i = what->row; i < what->row + what->size; i++) {
        for (int k = what->inner; k < what->inner + what->size; k++) {
            double factor = left_matrix[i][k];
            for (int j = what->column; j < what->column + what->size; j++)
                result_matrix[i][j] += factor * right_matrix[k][j];
        }
    }
}

static troupe_status worker_work(worker *self, const product *what, troupe_none *none)
{
    (void)none;
    if (what->size * what->size <= BLOCK) {
        multiply(what);
        return troupe_tell(self->master, master_done, 0);
    }
    int half = what->size / 2;
    for (int i = 0; i < 8; i++) {
        product part = {what->row + (i & 1) * half, what->column + (i >> 1 & 1) * half,
                        what->inner + (i >> 2) * half, half};
        troupe_tell_from(self->master, master_work, &part);
    }
    return troupe_tell(self->master, master_done, 0);
}

TROUPE_ACTOR(worker, (worker_meet, master_actor, troupe_none), (worker_work, product, troupe_none));

static troupe_status master_work(master *self, const product *what, troupe_none *none)
{
    (void)none;
    self->sent++;
    int block = what->row / what->size * (SIZE / what->size) + what->column / what->size;
    worker_actor the_worker = {self->workers[block % WORKERS]};
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
    product whole = {.size = SIZE};
    return master_work(self, &whole, none);
}

static troupe_status master_done(master *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (++self->done < self->sent)
        return TROUPE_OK;
    for (int i = 0; i < WORKERS; i++)
        troupe_actor_end(self->workers[i]);
    savina_leave();
    savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    memset(result_matrix, 0, sizeof(double[SIZE][SIZE]));
    troupe_tell(savina_spawn(master), master_start, 0);
    savina_wait();
    if (result_matrix[SIZE - 1][SIZE - 1] != 2.0 * SIZE)
        savina_wrong("a sum", (int64_t)result_matrix[SIZE - 1][SIZE - 1], 2 * SIZE);
}

int main(int argc, char **argv)
{
    left_matrix = calloc(SIZE, sizeof *left_matrix);
    right_matrix = calloc(SIZE, sizeof *right_matrix);
    result_matrix = calloc(SIZE, sizeof *result_matrix);
    if (!left_matrix || !right_matrix || !result_matrix)
        return EXIT_FAILURE;
    for (int i = 0; i < SIZE * SIZE; i++) {
        left_matrix[i / SIZE][i % SIZE] = 1;
        right_matrix[i / SIZE][i % SIZE] = 2;
    }
    return savina_main(argc, argv, 2.0 * SIZE * SIZE * SIZE, play);
}
