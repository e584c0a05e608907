// delays.c: stores that others do not see at once. With explore_options.delayed a relaxed or
// release store waits in a queue of its thread, as in a processor's store buffer, until the thread
// comes to a sequentially consistent store or an exchange, to the system, or to its end; the thread
// itself sees it. That is as long as x86 may keep it back.
#include <interleave/inner.h>

#include <interleave/memory.h>

#include <string.h>

enum { DELAYED_MAX = 256 };

static struct delayed {
    volatile char *word;
    size_t size;
    char value[8];
} queues[EXPLORE_INNER_THREADS][DELAYED_MAX];
static int counts[EXPLORE_INNER_THREADS];

bool explore_delaying;

void explore_begin_delays(void)
{
    memset(counts, 0, sizeof counts);
}

bool explore_delay(volatile void *word, size_t size, const void *value)
{
    if (!explore_delaying || !run.exploring || !memory_is_shared(word))
        return false;
    if (counts[run.current] == DELAYED_MAX)
        explore_drain();
    struct delayed *it = &queues[run.current][counts[run.current]++];
    it->word = word;
    it->size = size;
    memcpy(it->value, value, size);
    return true;
}

void explore_forward(const volatile void *word, size_t size, void *value)
{
    if (run.current < 0 || counts[run.current] == 0)
        return;
    const volatile char *from = word;
    for (int i = 0; i < counts[run.current]; i++) {
        const struct delayed *it = &queues[run.current][i];
        if (it->word + it->size <= from || from + size <= it->word)
            continue;
        if (it->word == from && it->size == size)
            memcpy(value, it->value, size);
        else
            explore_fail("a word is read with another size than it was written with");
    }
}

static void show(int thread, bool interruptible)
{
    struct delayed *queue = queues[thread];
    while (counts[thread] > 0) {
        struct delayed it = queue[0];
        if (interruptible)
            explore_reach(it.word, it.size, "a store that comes late");
        explore_write(it.word, it.size);
        for (size_t i = 0; i < it.size; i++)
            it.word[i] = it.value[i];
        counts[thread]--;
        memmove(queue, queue + 1, (size_t)counts[thread] * sizeof *queue);
    }
}

void explore_drain(void)
{
    if (run.current >= 0)
        show(run.current, true);
}

// Who is killed has done what it did.
void explore_drain_dead(int thread)
{
    show(thread, false);
}
