// fuzz_csv.c: any bytes, as a CSV file.
//
// The first byte chooses the separator and whether there is a header. What is accepted has as many
// fields in each record, and numbers are read from it or refused, within the memory for them.
#include <models/csv.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void read_all(const trp_csv *csv, trp_arena *arena)
{
    static const troupe_dtype dtypes[] = {TROUPE_FLOAT32, TROUPE_FLOAT64, TROUPE_INT64};
    const size_t *fields;
    size_t count;
    require(trp_csv_select(csv, NULL, arena, &fields, &count) == TROUPE_OK);
    require(count == csv->fields);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        size_t size = csv->rows * count * troupe_dtype_size(dtypes[i]);
        void *out = malloc(size > 0 ? size : 1); // So that a sanitizer sees its end.
        require(out != NULL);
        troupe_status status = trp_csv_read(csv, fields, count, dtypes[i], out);
        require(status == TROUPE_OK || status == TROUPE_MALFORMED);
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char separators[] = ",;\t ";
    if (size == 0)
        return 0;
    trp_arena arena = {0};
    trp_csv csv;
    char *text = (char *)malloc(size), *list = NULL;
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    troupe_status status =
        trp_csv_open("it", text, size - 1, separators[data[0] % 4], data[0] & 4, &arena, &csv);
    require(status == TROUPE_OK || status == TROUPE_MALFORMED);
    if (status == TROUPE_OK) {
        require(csv.fields > 0 && csv.rows < size && csv.fields <= size);
        read_all(&csv, &arena);
        list = strndup(text, size - 1); // It may as well be a list of fields.
        const size_t *fields;
        size_t count;
        require(list != NULL);
        if (trp_csv_select(&csv, list, &arena, &fields, &count) == TROUPE_OK)
            for (size_t i = 0; i < count; i++)
                require(fields[i] < csv.fields);
    }
    free(list);
    free(text);
    trp_arena_clear(&arena);
    return 0;
}
