// bench_tensor.c: what do tensors cost beside bytes and arrays, which have no shape?
//
//     bench_tensor [quick] [NAME...]
//
// quick: one small round of each figure. NAME: only figures whose names begin with one of these.
// tensor.view.<bytes>: an object is lent, and its first and last byte are read. Peer: the same of
// plain bytes. tensor.call.<bytes>: a call to an actor in a process of its own, whose method reads
// the first and the last element, and its answer; tensor.field.<bytes>: the same with the tensor in
// a field of a struct. Peers: the like with a troupe_array_float, and memcpy into warm pages, which
// is what nobody can do without.
#include "harness_rows.h"

#include <string.h>
#include <sys/mman.h>
#include <troupe.h>

enum { ROUNDS = 9, SECONDS_MAX = 60, LARGEST = 256 << 20, QUICK = 1 << 20, LOOKS = 1000 };

TROUPE_STRUCT(layer, (int, number), (troupe_tensor, weights));
TROUPE_STRUCT(plain_layer, (int, number), (troupe_array_float, weights));

typedef struct reader {
    int unused;
} reader;

static troupe_status ends(const float *numbers, size_t count, float *sum)
{
    *sum = numbers[0] + numbers[count - 1];
    return TROUPE_OK;
}

static troupe_status reader_tensor(reader *self, const troupe_tensor *numbers, float *sum)
{
    (void)self;
    return ends(numbers->data, troupe_tensor_count(numbers), sum);
}

static troupe_status reader_array(reader *self, const troupe_array_float *numbers, float *sum)
{
    (void)self;
    return ends(numbers->items, numbers->count, sum);
}

static troupe_status reader_layer(reader *self, const layer *it, float *sum)
{
    return reader_tensor(self, &it->weights, sum);
}

static troupe_status reader_plain_layer(reader *self, const plain_layer *it, float *sum)
{
    return reader_array(self, &it->weights, sum);
}

TROUPE_ACTOR(reader, (reader_tensor, troupe_tensor, float),
             (reader_array, troupe_array_float, float), (reader_layer, layer, float),
             (reader_plain_layer, plain_layer, float));

static reader_actor actor;
static float *from, *to; // Written, so that their pages are there.
static size_t size;      // In bytes, of what is measured.
static troupe_ref tensor_object, bytes_object;

// ---- Each does it once

static troupe_tensor tensor(void)
{
    return troupe_tensor_of(TROUPE_FLOAT32, from, size / sizeof *from);
}

static troupe_array_float array(void)
{
    return (troupe_array_float){from, size / sizeof *from};
}

static troupe_status answer(troupe_ref call)
{
    float sum;
    TROUPE_TRY(troupe_get(float, call, &sum));
    return sum == from[0] + from[size / sizeof *from - 1] ? TROUPE_OK : TROUPE_FAILED;
}

static troupe_status view_tensor(void)
{
    float sum;
    troupe_tensor seen;
    troupe_view view;
    TROUPE_TRY(troupe_view_tensor(tensor_object, TROUPE_FLOAT32, 1, &seen, &view, -1));
    (void)ends(seen.data, troupe_tensor_count(&seen), &sum);
    __asm__ volatile("" : : "m"(sum));
    troupe_view_end(&view);
    return TROUPE_OK;
}

static troupe_status view_bytes(void)
{
    float sum;
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(bytes_object, &view, -1));
    (void)ends(view.data, view.size / sizeof *from, &sum);
    __asm__ volatile("" : : "m"(sum));
    troupe_view_end(&view);
    return TROUPE_OK;
}

static troupe_status copy(void)
{
    memcpy(to, from, size);
    __asm__ volatile("" : : "r"(to) : "memory");
    return TROUPE_OK;
}

static troupe_status call_tensor(void)
{
    troupe_tensor all = tensor();
    return answer(troupe_call_from(actor, reader_tensor, &all));
}

static troupe_status call_array(void)
{
    troupe_array_float all = array();
    return answer(troupe_call_from(actor, reader_array, &all));
}

static troupe_status call_layer(void)
{
    layer all = {1, tensor()};
    return answer(troupe_call_from(actor, reader_layer, &all));
}

static troupe_status call_plain_layer(void)
{
    plain_layer all = {1, array()};
    return answer(troupe_call_from(actor, reader_plain_layer, &all));
}

// ---- Rows

typedef troupe_status deed(void);

static const struct row {
    const char *kind;
    size_t bytes;
    deed *ours, *theirs, *others;
    const char *peer, *other; // The others' name; NULL: there are none.
    size_t times;             // In a round.
} rows[] = {
    {"view", 1024, view_tensor, view_bytes, NULL, "troupe_view_bytes", NULL, LOOKS},
    {"view", 1 << 20, view_tensor, view_bytes, NULL, "troupe_view_bytes", NULL, LOOKS},
    {"view", LARGEST, view_tensor, view_bytes, NULL, "troupe_view_bytes", NULL, LOOKS},
    {"call", 1 << 20, call_tensor, call_array, copy, "a troupe_array_float", "memcpy", 50},
    {"call", 64 << 20, call_tensor, call_array, copy, "a troupe_array_float", "memcpy", 2},
    {"field", 64 << 20, call_layer, call_plain_layer, copy, "a troupe_array_float", "memcpy", 2},
};

// Once more at first, for the pages.
static void add(bench_rounds *rounds, deed *once, size_t times)
{
    troupe_status status = once();
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < times && status == TROUPE_OK; i++)
        status = once();
    double us = (double)(bench_now_ns() - start) / 1e3 / (double)times;
    if (status == TROUPE_OK)
        bench_rounds_add(rounds, bench_round_plain(us));
    else
        bench_rounds_fail(rounds, "%s", troupe_last_error()->text);
    troupe_arena_reset();
}

static void measure(const struct row *what)
{
    char name[64];
    snprintf(name, sizeof name, "tensor.%s.%zu", what->kind, what->bytes);
    if (!bench_rows_wanted(name) || (bench_rows_quick() && what->bytes > QUICK))
        return;
    bench_rounds ours = {0}, theirs = {0}, others = {0};
    size = what->bytes;
    troupe_tensor all = tensor();
    tensor_object = troupe_put(troupe_tensor, &all);
    bytes_object = troupe_put_bytes(from, size);
    for (int i = 0; bench_goes_on(i, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); i++) {
        add(&ours, what->ours, what->times);
        add(&theirs, what->theirs, what->times);
        if (what->others != NULL)
            add(&others, what->others, what->times);
    }
    troupe_ref_drop(tensor_object);
    troupe_ref_drop(bytes_object);
    bench_rows_print(&(bench_line){.name = name,
                                   .unit = "us",
                                   .placement = "not pinned",
                                   .better = BENCH_LOWER,
                                   .ours = &ours,
                                   .peer = what->peer,
                                   .peers = &theirs,
                                   .other = what->other,
                                   .others = &others});
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .store_bytes_max = (size_t)2 << 30));
    bench_rows_open(argc, argv); // A worker does not come here.
    actor = troupe_spawn(reader, .place = TROUPE_PLACE_ISOLATED);
    size_t largest = bench_rows_quick() ? QUICK : LARGEST;
    from = (float *)(void *)bench_written(largest);
    to = (float *)(void *)bench_written(largest);
    for (size_t i = 0; i < largest / sizeof *from; i++)
        from[i] = (float)i; // Numbers that are equal to themselves.
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        measure(&rows[i]);
    troupe_stop();
    munmap(from, largest);
    munmap(to, largest);
    return bench_rows_close();
}
