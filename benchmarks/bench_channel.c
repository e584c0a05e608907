// bench_channel.c: what does it cost to hand values to another process through a channel?
//
//     bench_channel [quick] [NAME...]
//
// quick: one small round of each figure. NAME: only figures whose names begin with one of these.
// channel.<bytes>: the driver copies a value into a slot and publishes it; an actor in a process of
// its own reads a byte of each line of it in place. Peers: a new object for each value, put and
// sent in a call, with as many under way as the channel has slots; and memcpy into a warm buffer,
// which is what nobody can do without. channel.latest.<bytes>: the same with the latest alone,
// where the writer does not wait; the reader gets fewer. channel.rtt.64: 64 bytes there through one
// channel and back through another. Peer: a call with 64 bytes, answered with them.
#include "harness_rows.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>

enum { SLOTS_MAX = 8, LARGE = 65536, LINE = 64, ROUNDS = 7 };

TROUPE_STRUCT(task, (troupe_channel, in), (troupe_channel, out));

typedef struct mill {
    troupe_channel_reader in;
    troupe_channel_writer out;
} mill;

static uint32_t touch(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint32_t sum = 0;
    for (size_t i = 0; i < size; i += LINE)
        sum += bytes[i];
    return sum;
}

static troupe_status mill_pin(mill *self, const int *cpu, int *threads)
{
    (void)self;
    *threads = bench_pin(0, *cpu);
    return *threads > 0 ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "cannot move to CPU %d", *cpu);
}

static troupe_status mill_open(mill *self, const task *what, int *unused)
{
    (void)unused;
    if (what->out.memory.id != 0)
        TROUPE_TRY(troupe_channel_write_open(what->out, &self->out));
    return troupe_channel_read_open(what->in, 0, &self->in);
}

static troupe_status mill_follow(mill *self, const int *unused, uint32_t *sum)
{
    troupe_channel_view view;
    troupe_status status;
    (void)unused;
    while ((status = troupe_channel_read_begin(&self->in, &view, -1)) == TROUPE_OK) {
        *sum += touch(view.data, view.size);
        troupe_channel_read_end(&self->in);
    }
    troupe_channel_read_close(&self->in);
    return status == TROUPE_END ? TROUPE_OK : status;
}

static troupe_status mill_echo(mill *self, const int *unused, uint32_t *sum)
{
    troupe_channel_view view;
    void *slot;
    (void)unused;
    while (troupe_channel_read_begin(&self->in, &view, -1) == TROUPE_OK) {
        TROUPE_TRY(troupe_channel_write_begin(&self->out, &slot, -1));
        memcpy(slot, view.data, view.size);
        TROUPE_TRY(troupe_channel_publish(&self->out, view.size));
        troupe_channel_read_end(&self->in);
        ++*sum;
    }
    troupe_channel_read_close(&self->in);
    troupe_channel_close(&self->out);
    return TROUPE_OK;
}

static troupe_status mill_take(mill *self, const troupe_ref *object, uint32_t *sum)
{
    troupe_view view;
    (void)self;
    TROUPE_TRY(troupe_view_bytes(*object, &view, 0));
    *sum = touch(view.data, view.size);
    troupe_view_end(&view);
    return TROUPE_OK;
}

static troupe_status mill_answer(mill *self, const troupe_bytes *question, troupe_bytes *answer)
{
    (void)self;
    void *copy = troupe_arena_alloc(question->size);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes", question->size);
    memcpy(copy, question->data, question->size);
    *answer = (troupe_bytes){copy, question->size};
    return TROUPE_OK;
}

TROUPE_ACTOR(mill, (mill_pin, int, int), (mill_open, task, int), (mill_follow, int, uint32_t),
             (mill_echo, int, uint32_t), (mill_take, troupe_ref, uint32_t),
             (mill_answer, troupe_bytes, troupe_bytes));

typedef struct bench {
    mill_actor actor;
    unsigned char *from, *to; // Written, so that their pages are there.
} bench;

// ---- values, ns each

// Few of large ones, so that they stay in caches.
static uint32_t slots_for(size_t size)
{
    return size < LARGE ? SLOTS_MAX : 3;
}

static troupe_status through_channel(const bench *with, size_t size, size_t count, bool latest,
                                     double *ns)
{
    troupe_channel channel;
    troupe_channel_writer out;
    uint32_t sum;
    int none;
    TROUPE_TRY(troupe_channel_open(size, slots_for(size), 1, &channel, .latest = latest));
    TROUPE_TRY(troupe_get(int, troupe_call(with->actor, mill_open, .in = channel), &none));
    TROUPE_TRY(troupe_channel_write_open(channel, &out));
    troupe_ref read = troupe_call(with->actor, mill_follow, 0);
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        void *slot;
        TROUPE_TRY(troupe_channel_write_begin(&out, &slot, -1));
        memcpy(slot, with->from, size);
        TROUPE_TRY(troupe_channel_publish(&out, size));
    }
    troupe_channel_close(&out);
    troupe_status status = troupe_get(uint32_t, read, &sum);
    *ns = (double)(bench_now_ns() - start) / (double)count;
    troupe_channel_drop(channel);
    return status;
}

static troupe_status through_objects(const bench *with, size_t size, size_t count, double *ns)
{
    troupe_ref under_way[SLOTS_MAX];
    uint32_t sum, slots = slots_for(size);
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count + slots; i++) {
        troupe_ref *place = &under_way[i % slots];
        if (i >= slots && i - slots < count)
            TROUPE_TRY(troupe_get(uint32_t, *place, &sum));
        if (i >= count)
            continue;
        troupe_ref object = troupe_put_bytes(with->from, size);
        *place = troupe_call_from(with->actor, mill_take, &object);
        troupe_ref_drop(object);
    }
    *ns = (double)(bench_now_ns() - start) / (double)count;
    return TROUPE_OK;
}

static double memcpy_ns(const bench *with, size_t size, size_t count)
{
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        memcpy(with->to, with->from, size);
        __asm__ volatile("" : : "r"(with->to), "r"(with->from) : "memory");
    }
    return (double)(bench_now_ns() - start) / (double)count;
}

static void add(bench_rounds *rounds, troupe_status status, double ns, bool counts)
{
    if (status != TROUPE_OK)
        bench_rounds_fail(rounds, "%s", troupe_last_error()->text);
    else if (counts)
        bench_rounds_add(rounds, bench_round_plain(ns / 1e3));
}

static void measure(const bench *with, size_t size)
{
    bench_rounds ours = {0}, latest = {0}, objects = {0}, copies = {0};
    size_t count = (bench_rows_quick() ? (size_t)8 << 20 : (size_t)128 << 20) / size;
    count = count < 8 ? 8 : count > 20000 ? 20000 : count;
    char name[64], newest[64];
    double ns = 0;
    snprintf(name, sizeof name, "channel.%zu", size);
    snprintf(newest, sizeof newest, "channel.latest.%zu", size);
    if (!bench_rows_wanted(name) && !bench_rows_wanted(newest))
        return;
    // The first round, not counted, brings the pages.
    for (int i = 0; bench_goes_on(i, (bench_rows_quick() ? 1 : ROUNDS) + 1, 40); i++) {
        add(&ours, through_channel(with, size, count, false, &ns), ns, i > 0);
        add(&objects, through_objects(with, size, count, &ns), ns, i > 0);
        add(&copies, TROUPE_OK, memcpy_ns(with, size, count), i > 0);
        add(&latest, through_channel(with, size, count, true, &ns), ns, i > 0);
    }
    bench_line line = {.name = name,
                       .unit = "us",
                       .placement = "two CPUs: the driver on CPU 0, the reader's process on CPU 1",
                       .better = BENCH_LOWER,
                       .ours = &ours,
                       .peer = "put and send of a new object",
                       .peers = &objects,
                       .other = "memcpy into a warm buffer",
                       .others = &copies,
                       .note = "each value is copied in, and read in place there"};
    if (bench_rows_wanted(name))
        bench_rows_print(&line);
    line.name = newest;
    line.ours = &latest;
    line.note = "each value is copied in; the reader gets the newest";
    if (bench_rows_wanted(newest))
        bench_rows_print(&line);
}

// ---- there and back, us each

static troupe_status echo_channels(const bench *with, size_t count, bench_samples *samples)
{
    troupe_channel there, back;
    troupe_channel_writer out;
    troupe_channel_reader in;
    troupe_channel_view view;
    uint32_t sum;
    int none;
    TROUPE_TRY(troupe_channel_open(LINE, SLOTS_MAX, 1, &there));
    TROUPE_TRY(troupe_channel_open(LINE, SLOTS_MAX, 1, &back));
    TROUPE_TRY(troupe_channel_read_open(back, 0, &in));
    TROUPE_TRY(
        troupe_get(int, troupe_call(with->actor, mill_open, .in = there, .out = back), &none));
    TROUPE_TRY(troupe_channel_write_open(there, &out));
    troupe_ref done = troupe_call(with->actor, mill_echo, 0);
    for (size_t i = 0; i < count; i++) {
        void *slot;
        int64_t start = bench_now_ns();
        TROUPE_TRY(troupe_channel_write_begin(&out, &slot, -1));
        memcpy(slot, with->from, LINE);
        TROUPE_TRY(troupe_channel_publish(&out, LINE));
        TROUPE_TRY(troupe_channel_read_begin(&in, &view, -1));
        troupe_channel_read_end(&in);
        bench_samples_add(samples, (double)(bench_now_ns() - start) / 1e3);
    }
    troupe_channel_close(&out);
    troupe_status status = troupe_get(uint32_t, done, &sum);
    troupe_channel_read_close(&in);
    troupe_channel_drop(there);
    troupe_channel_drop(back);
    return status;
}

static troupe_status echo_calls(const bench *with, size_t count, bench_samples *samples)
{
    for (size_t i = 0; i < count; i++) {
        troupe_bytes answer;
        int64_t start = bench_now_ns();
        TROUPE_TRY(troupe_get(troupe_bytes, troupe_call(with->actor, mill_answer, with->from, LINE),
                              &answer));
        bench_samples_add(samples, (double)(bench_now_ns() - start) / 1e3);
        troupe_arena_reset();
    }
    return TROUPE_OK;
}

static void measure_echo(const bench *with)
{
    static const char name[] = "channel.rtt.64";
    bench_rounds ours = {0}, calls = {0};
    size_t count = bench_rows_quick() ? 500 : 20000;
    if (!bench_rows_wanted(name))
        return;
    for (int i = 0; bench_goes_on(i, (bench_rows_quick() ? 1 : ROUNDS) + 1, 40); i++)
        for (int side = 0; side < 2; side++) {
            bench_rounds *rounds = side == 0 ? &ours : &calls;
            bench_samples samples;
            bench_samples_open(&samples, count);
            troupe_status status = side == 0 ? echo_channels(with, count, &samples)
                                             : echo_calls(with, count, &samples);
            if (status != TROUPE_OK)
                bench_rounds_fail(rounds, "%s", troupe_last_error()->text);
            else if (i > 0)
                bench_rounds_add(rounds, bench_round_of(&samples));
            bench_samples_close(&samples);
        }
    bench_rows_print(
        &(bench_line){.name = name,
                      .unit = "us",
                      .placement = "two CPUs: the driver on CPU 0, the actor's process on CPU 1",
                      .better = BENCH_LOWER,
                      .ours = &ours,
                      .peer = "a call with 64 bytes, answered with them",
                      .peers = &calls});
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 1024, 65536, 1 << 20, 16 << 20};
    troupe_must(troupe_start(argc, argv, .store_bytes_max = (size_t)1 << 30));
    bench_rows_open(argc, argv); // A worker does not come here.
    size_t count = sizeof sizes / sizeof *sizes - (bench_rows_quick() ? 1 : 0);
    bench with = {.actor = troupe_spawn(mill, .place = TROUPE_PLACE_ISOLATED),
                  .from = bench_written(sizes[count - 1]),
                  .to = bench_written(sizes[count - 1])};
    int threads;
    troupe_must(
        troupe_get(int, troupe_call(with.actor, mill_pin, bench_has_cpus(2) ? 1 : 0), &threads));
    bench_pin(0, 0);
    measure_echo(&with);
    for (size_t i = 0; i < count; i++)
        measure(&with, sizes[i]);
    troupe_stop();
    munmap(with.from, sizes[count - 1]);
    munmap(with.to, sizes[count - 1]);
    return bench_rows_close();
}
