// bench_object.c: what do putting, getting and viewing an object of the store cost?
//
//     bench_object [--quick]
//
// put.<bytes>: troupe_put_bytes of written data. Peer: memcpy into a warm buffer.
// get.<bytes>: view an object, copy it out into a warm buffer, end the view. Peer: the same memcpy.
// view.<bytes>: view an object, read its first and last byte, end the view. Peer: the memcpy that a
// get with a copy could not do without.
// Objects are dropped between puts, untimed. One thread, on CPU 0.
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>

enum { BATCH_MAX = 256 };

typedef struct buffers {
    unsigned char *from, *to; // Written, so that their pages are there.
} buffers;

typedef struct operation {
    double (*ours)(const buffers *memory, size_t size,
                   size_t count); // ns each; negative: failed
    const char *kind, *peer;
    bool in_us; // At every size.
} operation;

static double memcpy_ns(const buffers *memory, size_t size, size_t count)
{
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        memcpy(memory->to, memory->from, size);
        __asm__ volatile("" : : "r"(memory->to), "r"(memory->from) : "memory");
    }
    return (double)(bench_now_ns() - start) / (double)count;
}

// Small ones are put in batches, since reading the clock costs as much as a put. They are dropped
// while it stands still.
static double put_ns(const buffers *memory, size_t size, size_t count)
{
    static troupe_ref refs[BATCH_MAX];
    size_t batch = size <= 1024 ? BATCH_MAX : 1; // Larger ones come back to a warm place.
    int64_t spent = 0;
    size_t done = 0;
    while (done < count) {
        size_t now = count - done < batch ? count - done : batch;
        int64_t start = bench_now_ns();
        for (size_t i = 0; i < now; i++)
            refs[i] = troupe_put_bytes(memory->from, size);
        spent += bench_now_ns() - start;
        // A put that failed says so when it is read.
        troupe_view view;
        if (troupe_view_bytes(refs[now - 1], &view, 0) != TROUPE_OK)
            return -1;
        troupe_view_end(&view);
        for (size_t i = 0; i < now; i++)
            troupe_drop(refs[i]);
        done += now;
    }
    return (double)spent / (double)done;
}

static double read_ns(const buffers *memory, size_t size, size_t count, bool copy)
{
    troupe_ref ref = troupe_put_bytes(memory->from, size);
    unsigned sum = 0;
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        troupe_view view;
        if (troupe_view_bytes(ref, &view, 0) != TROUPE_OK)
            return -1;
        const unsigned char *bytes = view.data;
        if (copy)
            memcpy(memory->to, bytes, view.size);
        else
            sum += (unsigned)bytes[0] + bytes[view.size - 1];
        __asm__ volatile("" : : "r"(memory->to), "r"(sum) : "memory");
        troupe_view_end(&view);
    }
    int64_t spent = bench_now_ns() - start;
    troupe_drop(ref);
    return (double)spent / (double)count;
}

static double get_ns(const buffers *memory, size_t size, size_t count)
{
    return read_ns(memory, size, count, true);
}

static double view_ns(const buffers *memory, size_t size, size_t count)
{
    return read_ns(memory, size, count, false);
}

static const operation operations[] = {
    {put_ns, "put", "memcpy into a warm buffer", false},
    {get_ns, "get", "memcpy into a warm buffer", false},
    {view_ns, "view", "memcpy into a warm buffer", true},
};

// Large copies in GB/s, small ones in us.
static double in_unit(double ns, size_t size, bool in_us)
{
    return in_us ? ns / 1e3 : (double)size / ns;
}

static bool measure(const operation *what, const buffers *memory, size_t size, int rounds,
                    size_t bytes_a_round)
{
    bench_rounds ours = {0}, peers = {0};
    bool in_us = what->in_us || size < 65536;
    size_t count = bytes_a_round / size, copies;
    count = count < 2 ? 2 : count > 20000 ? 20000 : count;
    copies = count;
    if (what->in_us)
        count = 20000; // A view copies nothing.
    char name[64];
    snprintf(name, sizeof name, "%s.%zu", what->kind, size);
    // The first of each, not counted, brings the pages.
    for (int i = 0; bench_goes_on(i, rounds + 1, 40); i++) {
        double mine = what->ours(memory, size, count);
        double peer = memcpy_ns(memory, size, copies);
        if (mine < 0)
            bench_rounds_fail(&ours, "%s", troupe_last_error()->text);
        if (i > 0 && mine >= 0)
            bench_rounds_add(&ours, bench_round_plain(in_unit(mine, size, in_us)));
        if (i > 0)
            bench_rounds_add(&peers, bench_round_plain(in_unit(peer, size, in_us)));
    }
    return bench_print(&(bench_line){.name = name,
                                     .unit = in_us ? "us" : "GB/s",
                                     .placement = "one thread on CPU 0",
                                     .better = in_us ? BENCH_LOWER : BENCH_HIGHER,
                                     .ours = &ours,
                                     .peer = what->peer,
                                     .peers = &peers});
}

static unsigned char *written(size_t size)
{
    unsigned char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("bench_object: no %zu bytes", size);
    for (size_t i = 0; i < size; i++)
        memory[i] = (unsigned char)(i * 31 + 7);
    return memory;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 64, 1024, 65536, 1 << 20, 16 << 20, 256 << 20};
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_WORKERS_NONE,
                             .store_bytes_max = (size_t)1 << 30));
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    size_t sizes_count = sizeof sizes / sizeof *sizes - (quick ? 1 : 0);
    size_t largest = sizes[sizes_count - 1];
    buffers memory = {written(largest), written(largest)};
    bench_pin(0, 0);
    bool good = true;
    for (size_t f = 0; f < sizeof operations / sizeof *operations; f++) {
        for (size_t s = 0; s < sizes_count; s++)
            good &= measure(&operations[f], &memory, sizes[s], quick ? 1 : 7,
                            quick ? (size_t)8 << 20 : (size_t)256 << 20);
    }
    troupe_stop();
    munmap(memory.from, largest);
    munmap(memory.to, largest);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
