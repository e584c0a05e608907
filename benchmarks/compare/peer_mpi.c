// peer_mpi.c: an allreduce of floats between the two ranks of an MPI program.
//
//     mpirun -n 2 ... peer_mpi
//
// Each rank rewrites its buffer before every call, as a backward pass does; that is not timed, and
// a barrier, not timed either, follows it. The sum is in place, in private memory, as MPI is used
// for gradients. Prints a row of rank 0's microseconds for each number of bytes.
#include <harness.h>

#include <mpi.h>

static const size_t sizes[] = {1 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
static const size_t repetitions[] = {2000, 500, 100, 12, 5};

static void run(int rank, size_t count, size_t wanted)
{
    float *values = (float *)bench_written(count * sizeof *values);
    bench_samples samples;
    bench_samples_open(&samples, wanted);
    size_t warm_up = wanted / 5 + 2;
    for (size_t i = 0; i < warm_up + wanted; i++) {
        for (size_t k = 0; k < count; k++)
            values[k] = (float)(i % 16 + (size_t)rank);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = bench_now_ns();
        MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
        float expected = (float)(2 * (i % 16) + 1);
        if (values[0] != expected || values[count - 1] != expected)
            bench_die("peer_mpi: the sum is %g, not %g", (double)values[0], (double)expected);
    }
    if (rank == 0) {
        printf("%zu ", count * sizeof *values);
        bench_round_print(bench_round_of(&samples));
    }
    bench_samples_close(&samples);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        bench_die("usage: mpirun -n 2 peer_mpi");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        run(rank, sizes[i] / sizeof(float), repetitions[i]);
    MPI_Finalize();
    return 0;
}
