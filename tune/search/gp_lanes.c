// gp_lanes.c: which kernels this processor has, and a factor's rows by them.
#include <math.h>
#include <stdatomic.h>
#include <tune/search/gp_lanes.h>

enum { LANES = TRP_GP_LANES };

extern const trp_gp_kernels trp_gp_kernels_plain, trp_gp_kernels_avx2, trp_gp_kernels_avx512;

const trp_gp_kernels *trp_gp_kernels_at(size_t index)
{
    const trp_gp_kernels *found[3] = {NULL};
    size_t count = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        found[count++] = &trp_gp_kernels_avx512;
    if (__builtin_cpu_supports("avx2"))
        found[count++] = &trp_gp_kernels_avx2;
#endif
    found[count++] = &trp_gp_kernels_plain;
    return index < count ? found[index] : NULL;
}

const trp_gp_kernels *trp_gp_kernels_best(void)
{
    static const trp_gp_kernels *_Atomic chosen;
    const trp_gp_kernels *found = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (found == NULL) {
        found = trp_gp_kernels_at(0);
        atomic_store_explicit(&chosen, found, memory_order_relaxed);
    }
    return found;
}

bool trp_gp_factor(const trp_gp_kernels *with, double *l, size_t width, size_t row, size_t rows,
                   double *column)
{
    double *tile = column + row * LANES;
    with->solve(l, row, width, column);
    with->subtract(column, column, row, tile);
    for (size_t lane = 0; lane < rows; lane++) {
        double *mine = l + (row + lane) * width;
        for (size_t j = 0; j < row; j++)
            mine[j] = column[j * LANES + lane];
        mine += row;
        for (size_t j = 0; j <= lane; j++) {
            const double *other = l + (row + j) * width + row;
            double left = tile[j * LANES + lane];
            for (size_t k = 0; k < j; k++)
                left -= mine[k] * other[k];
            if (j == lane && (!(left > 0) || !isfinite(left)))
                return false;
            mine[j] = j == lane ? sqrt(left) : left * (1 / other[j]);
        }
    }
    return true;
}
