// fib.c: Savina's Fibonacci: fib(25) as a tree of actors, each of which makes two for its summands
// and ends when it has told its own sum. 150,049 actors.
#include "savina.h"

enum { N = 25, FIB_N = 75025, ACTORS = 2 * FIB_N - 1 };

typedef struct node {
    troupe_actor parent; // Nobody's: the root.
    int answers;
    int64_t sum;
} node;

TROUPE_STRUCT(question, (troupe_actor, parent), (int, n));

static troupe_status node_ask(node *self, const question *what, troupe_none *none);
static troupe_status node_answer(node *self, const int64_t *value, troupe_none *none);

TROUPE_ACTOR(node, (node_ask, question, troupe_none), (node_answer, int64_t, troupe_none));

static troupe_status tell_sum(node *self)
{
    savina_leave();
    if (self->parent.id != 0)
        return troupe_tell((node_actor){self->parent}, node_answer, self->sum);
    if (self->sum != FIB_N)
        savina_wrong("fib", self->sum, FIB_N);
    savina_over();
    return TROUPE_OK;
}

static troupe_status node_ask(node *self, const question *what, troupe_none *none)
{
    (void)none;
    self->parent = what->parent;
    if (what->n <= 2) {
        self->sum = 1;
        return tell_sum(self);
    }
    for (int i = 1; i <= 2; i++)
        troupe_tell(savina_spawn(node), node_ask, troupe_self(), what->n - i);
    return TROUPE_OK;
}

static troupe_status node_answer(node *self, const int64_t *value, troupe_none *none)
{
    (void)none;
    self->sum += *value;
    return ++self->answers == 2 ? tell_sum(self) : TROUPE_OK;
}

static void play(void)
{
    troupe_tell(savina_spawn(node), node_ask, .n = N);
    savina_wait();
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, ACTORS, play);
}
