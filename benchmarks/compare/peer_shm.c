// peer_shm.c: plain shared memory between two processes: what nothing can be faster than.
//
//     peer_shm rtt|spin <cpu> <other cpu> <round trips> [pause us]
//     peer_shm allreduce <inplace|staged> <spin|futex> <bytes> <repetitions>
//
// rtt: a 64-byte message there and back, each side sleeping on a futex: microseconds. spin: each
// side spinning. With a pause before each, that lets both ends fall asleep.
//
// allreduce: two ranks sum buffers of floats. "inplace": the buffers lie in shared memory, and each
// rank reduces its half of both, straight into both. "staged": private buffers; each rank copies
// its own in, reduces its half into a shared result, and copies the result out. Ranks meet at a
// barrier that spins, or sleeps on a futex. Rank r is pinned to CPU r. Each rank rewrites its
// buffer before every call, as a backward pass does; that is not timed, and a barrier of the same
// kind, not timed either, follows it, so that neither rank's time has the other's rewriting in it.
// Prints one round of rank 0's microseconds. Compiled with -O3, so that the sums are vectors.
#include <harness.h>

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, CACHE_LINE = 64 };

typedef struct barrier {
    // The last to arrive resets `arrived` and then adds to `turn` (release), which the others' load
    // of `turn` (acquire) pairs with.
    _Alignas(CACHE_LINE) _Atomic uint32_t arrived;
    _Alignas(CACHE_LINE) _Atomic uint32_t turn;
} barrier;

typedef struct slot {
    // Number of messages: its writer adds to it after the payload (release), its reader loads it
    // before (acquire).
    _Alignas(CACHE_LINE) _Atomic uint32_t written;
    char payload[CACHE_LINE];
} slot;

typedef struct shared {
    barrier line_up, inside;
    slot there, back;
} shared;

static shared *common;
static float *inputs[RANKS], *result; // shared
static bool use_futex = true;

static void meet(barrier *at, bool may_sleep)
{
    uint32_t turn = atomic_load_explicit(&at->turn, memory_order_acquire);
    if (atomic_fetch_add_explicit(&at->arrived, 1, memory_order_acq_rel) == RANKS - 1) {
        atomic_store_explicit(&at->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&at->turn, turn + 1, memory_order_release);
        if (may_sleep)
            syscall(SYS_futex, &at->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    while (atomic_load_explicit(&at->turn, memory_order_acquire) == turn) {
        if (may_sleep)
            syscall(SYS_futex, &at->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
        else
            __builtin_ia32_pause();
    }
}

static void *share(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("peer_shm: no %zu bytes of shared memory", size);
    return memory;
}

// The widest vectors that there are, four at a time.
#define REDUCE_IN_PLACE(name, bytes, attribute)                                                    \
    attribute static void name(float *left, float *right, size_t count)                            \
    {                                                                                              \
        typedef float vector __attribute__((vector_size(bytes), aligned(4)));                      \
        enum { LANES = bytes / sizeof(float) };                                                    \
        size_t i = 0;                                                                              \
        for (; i + 4 * LANES <= count; i += 4 * LANES) {                                           \
            vector *a = (vector *)(left + i), *b = (vector *)(right + i);                          \
            vector s = a[0] + b[0], t = a[1] + b[1], u = a[2] + b[2], v = a[3] + b[3];             \
            a[0] = s, a[1] = t, a[2] = u, a[3] = v;                                                \
            b[0] = s, b[1] = t, b[2] = u, b[3] = v;                                                \
        }                                                                                          \
        for (; i < count; i++)                                                                     \
            left[i] = right[i] = left[i] + right[i];                                               \
    }
REDUCE_IN_PLACE(reduce_plain, 16, )
#if defined(__x86_64__)
REDUCE_IN_PLACE(reduce_avx2, 32, __attribute__((target("avx2"))))
REDUCE_IN_PLACE(reduce_avx512, 64, __attribute__((target("avx512f"))))
#endif

static void reduce_in_place(float *left, float *right, size_t count)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        reduce_avx512(left, right, count);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        reduce_avx2(left, right, count);
        return;
    }
#endif
    reduce_plain(left, right, count);
}

static void reduce_into(float *restrict out, const float *restrict left,
                        const float *restrict right, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = left[i] + right[i];
}

static void allreduce_in_place(int rank, size_t count)
{
    size_t from = count / RANKS * (size_t)rank;
    size_t mine = rank == RANKS - 1 ? count - from : count / RANKS;
    meet(&common->inside, use_futex);
    reduce_in_place(inputs[0] + from, inputs[1] + from, mine);
    meet(&common->inside, use_futex);
}

static void allreduce_staged(int rank, float *values, size_t count)
{
    size_t from = count / RANKS * (size_t)rank;
    size_t mine = rank == RANKS - 1 ? count - from : count / RANKS;
    memcpy(inputs[rank], values, count * sizeof *values);
    meet(&common->inside, use_futex);
    reduce_into(result + from, inputs[0] + from, inputs[1] + from, mine);
    meet(&common->inside, use_futex);
    memcpy(values, result, count * sizeof *values);
}

static bench_round run_rank(int rank, bool staged, size_t count, size_t repetitions)
{
    bench_pin(0, rank);
    float *values = inputs[rank];
    if (staged) {
        values = aligned_alloc(CACHE_LINE, count * sizeof *values + CACHE_LINE);
        if (!values)
            bench_die("peer_shm: no memory");
    }
    bench_samples samples;
    bench_samples_open(&samples, repetitions);
    size_t warm_up = repetitions / 5 + 2;
    for (size_t i = 0; i < warm_up + repetitions; i++) {
        for (size_t k = 0; k < count; k++)
            values[k] = (float)(i % 16 + (size_t)rank);
        meet(&common->line_up, use_futex);
        int64_t start = bench_now_ns();
        if (staged)
            allreduce_staged(rank, values, count);
        else
            allreduce_in_place(rank, count);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
        float expected = (float)(2 * (i % 16) + 1);
        if (values[0] != expected || values[count - 1] != expected)
            bench_die("peer_shm: the sum is %g, not %g", (double)values[0], (double)expected);
        meet(&common->line_up, use_futex); // No rank rewrites what the other still reads.
    }
    return bench_round_of(&samples);
}

// ---- Round trips

static void send_slot(slot *to)
{
    to->payload[0]++;
    atomic_fetch_add_explicit(&to->written, 1, memory_order_release);
    if (use_futex)
        syscall(SYS_futex, &to->written, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void receive_slot(slot *from, uint32_t number)
{
    uint32_t written;
    while ((written = atomic_load_explicit(&from->written, memory_order_acquire)) != number) {
        if (use_futex)
            syscall(SYS_futex, &from->written, FUTEX_WAIT, written, NULL, NULL, 0);
        else
            __builtin_ia32_pause();
    }
}

static _Noreturn void echo(int cpu)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(0, cpu);
    for (uint32_t number = 1;; number++) {
        receive_slot(&common->there, number);
        send_slot(&common->back);
    }
}

static int round_trips(int cpu, int other_cpu, size_t count, int pause_us)
{
    pid_t other = fork();
    if (other < 0)
        bench_die("peer_shm: no second process");
    if (other == 0)
        echo(other_cpu);
    bench_pin(0, cpu);
    bench_samples samples;
    bench_samples_open(&samples, count);
    size_t warm_up = count / 5 + 100;
    for (size_t i = 0; i < warm_up + count; i++) {
        bench_pause(pause_us);
        int64_t start = bench_now_ns();
        send_slot(&common->there);
        receive_slot(&common->back, (uint32_t)i + 1);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
    }
    bench_round_print(bench_round_of(&samples));
    bench_samples_close(&samples);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return 0;
}

static int allreduce(bool staged, size_t bytes, size_t repetitions)
{
    size_t count = bytes / sizeof(float);
    for (int rank = 0; rank < RANKS; rank++)
        inputs[rank] = share(bytes);
    result = share(bytes);
    pid_t other = fork();
    if (other < 0)
        bench_die("peer_shm: no second process");
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_rank(1, staged, count, repetitions);
        _exit(0);
    }
    bench_round round = run_rank(0, staged, count, repetitions);
    waitpid(other, NULL, 0);
    bench_round_print(round);
    return 0;
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    common = share(sizeof *common);
    bool trips = argc == 5 || (argc == 6 && strcmp(argv[1], "allreduce") != 0);
    bool spin = trips && strcmp(argv[1], "spin") == 0;
    use_futex = !spin;
    if (spin || (trips && strcmp(argv[1], "rtt") == 0))
        return round_trips(atoi(argv[2]), atoi(argv[3]), strtoul(argv[4], NULL, 10),
                           argc > 5 ? atoi(argv[5]) : 0);
    if (argc != 6 || strcmp(argv[1], "allreduce") != 0)
        bench_die("usage: peer_shm rtt|spin <cpu> <other cpu> <round trips> [pause us], or\n"
                  "       peer_shm allreduce <inplace|staged> <spin|futex> <bytes> <repetitions>");
    use_futex = strcmp(argv[3], "futex") == 0;
    return allreduce(strcmp(argv[2], "staged") == 0, strtoul(argv[4], NULL, 10),
                     strtoul(argv[5], NULL, 10));
}
