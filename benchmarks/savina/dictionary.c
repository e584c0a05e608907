// dictionary.c: Savina's Concurrent Dictionary: 20 workers ask one dictionary 10,000 times each,
// one tenth of it writes, each waiting for the answer before its next question. One hot server.
#include "savina.h"

enum { WORKERS = 20, MESSAGES = 10000, WRITE_PERCENT = 10, KEYS = 512, SLOTS = 1024 };

TROUPE_STRUCT(entry, (troupe_actor, worker), (int, key), (int, value));

typedef struct worker {
    troupe_actor dictionary;
    int left;
    uint32_t random;
} worker;

TROUPE_STRUCT(job, (troupe_actor, dictionary), (uint32_t, seed));

static troupe_status worker_start(worker *self, const job *what, troupe_none *none);
static troupe_status worker_result(worker *self, const int *value, troupe_none *none);

TROUPE_ACTOR(worker, (worker_start, job, troupe_none), (worker_result, int, troupe_none));

// A hash table with open addressing; key 0 is none.
typedef struct dictionary {
    int keys[SLOTS], values[SLOTS];
    int finished;
} dictionary;

static int slot_of(const dictionary *self, int key)
{
    uint32_t slot = (uint32_t)key * 2654435761u % SLOTS;
    while (self->keys[slot] != 0 && self->keys[slot] != key)
        slot = (slot + 1) % SLOTS;
    return (int)slot;
}

static troupe_status dictionary_write(dictionary *self, const entry *what, troupe_none *none)
{
    (void)none;
    int slot = slot_of(self, what->key);
    self->keys[slot] = what->key;
    self->values[slot] = what->value;
    return troupe_tell((worker_actor){what->worker}, worker_result, what->value);
}

static troupe_status dictionary_read(dictionary *self, const entry *what, troupe_none *none)
{
    (void)none;
    int value = self->values[slot_of(self, what->key)];
    return troupe_tell((worker_actor){what->worker}, worker_result, value);
}

static troupe_status dictionary_end(dictionary *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (++self->finished == WORKERS)
        savina_over();
    return TROUPE_OK;
}

TROUPE_ACTOR(dictionary, (dictionary_write, entry, troupe_none),
             (dictionary_read, entry, troupe_none), (dictionary_end, troupe_none, troupe_none));

static troupe_status ask(worker *self)
{
    dictionary_actor the_dictionary = {self->dictionary};
    if (self->left-- == 0)
        return troupe_tell(the_dictionary, dictionary_end, 0);
    int key = 1 + (int)(savina_random(&self->random) % KEYS);
    if (savina_random(&self->random) % 100 < WRITE_PERCENT)
        return troupe_tell(the_dictionary, dictionary_write, troupe_self(), key, key * 2);
    return troupe_tell(the_dictionary, dictionary_read, troupe_self(), key, 0);
}

static troupe_status worker_start(worker *self, const job *what, troupe_none *none)
{
    (void)none;
    *self = (worker){.dictionary = what->dictionary, .left = MESSAGES, .random = what->seed};
    return ask(self);
}

static troupe_status worker_result(worker *self, const int *value, troupe_none *none)
{
    (void)value, (void)none;
    return ask(self);
}

static void play(void)
{
    dictionary_actor the_dictionary = savina_spawn(dictionary);
    worker_actor workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = savina_spawn(worker);
        troupe_tell(workers[i], worker_start, the_dictionary.address, (uint32_t)i + 1);
    }
    savina_wait();
    for (int i = 0; i < WORKERS; i++)
        troupe_actor_kill(workers[i]);
    troupe_actor_kill(the_dictionary);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, (double)WORKERS * MESSAGES, play);
}
