// 05_tensor.c: a table of numbers that lies in shared memory once, and tasks in all workers that
// read it there: the products of its rows with a vector.
#include <stdio.h>
#include <troupe.h>

enum { ROWS = 1000, COLUMNS = 1000, TASKS = 4, SHARE = ROWS / TASKS };

TROUPE_STRUCT(share, (troupe_ref, table), (troupe_tensor, vector), (size_t, first));

// The products of SHARE rows from the first on.
static troupe_status multiply(const share *work, troupe_tensor *products)
{
    troupe_tensor table;
    troupe_view view; // Lent, not copied; a table of another type or rank is refused.
    TROUPE_TRY(troupe_view_tensor(work->table, TROUPE_FLOAT32, 2, &table, &view, TROUPE_FOREVER));
    const float *vector = work->vector.data;
    double *sums = troupe_arena_alloc(SHARE * sizeof *sums); // Until the result has been sent.
    for (size_t i = 0; sums != NULL && i < SHARE; i++) {
        const float *row = (const float *)table.data + (work->first + i) * COLUMNS;
        for (size_t k = 0; k < COLUMNS; k++)
            sums[i] += (double)(row[k] * vector[k]);
    }
    troupe_view_end(&view);
    *products = troupe_tensor_of(TROUPE_FLOAT64, sums, SHARE);
    return sums != NULL ? TROUPE_OK : TROUPE_NO_MEMORY;
}

TROUPE_TASK(multiply, share, troupe_tensor);

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));

    troupe_buffer buffer; // Written where it will be read.
    troupe_tensor shape = troupe_tensor_of(TROUPE_FLOAT32, NULL, ROWS, COLUMNS);
    troupe_must(troupe_tensor_create(&shape, &buffer));
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < COLUMNS; k++)
            ((float *)buffer.data)[i * COLUMNS + k] = (float)(i + k);
    share work;
    troupe_must(troupe_buffer_seal(&buffer, &work.table)); // From now on it is read-only.

    static float ones[COLUMNS];
    for (size_t k = 0; k < COLUMNS; k++)
        ones[k] = 1;
    work.vector = troupe_tensor_of(TROUPE_FLOAT32, ones, COLUMNS); // Small: goes with the message.

    troupe_ref refs[TASKS];
    for (size_t i = 0; i < TASKS; i++) {
        work.first = i * SHARE;
        refs[i] = troupe_run_from(multiply, &work);
    }
    troupe_tensor products[TASKS];
    troupe_must(troupe_get_all(troupe_tensor, refs, TASKS, products));
    double sum = 0;
    for (size_t i = 0; i < TASKS; i++)
        for (size_t k = 0; k < troupe_tensor_count(&products[i]); k++)
            sum += ((const double *)products[i].data)[k];
    char line[80];
    troupe_print(troupe_tensor, &products[0], line, sizeof line);
    printf("%d times %s, the sum of all is %.0f\n", TASKS, line, sum);
    troupe_ref_drop(work.table);
    return troupe_stop();
}
