// harness_data.c: the rows "train.data.<source>" (see harness_rows.h), which measure/data measures.
#include "harness_rows.h"

#include <string.h>

enum { ROUNDS = 3, SECONDS_MAX = 120, SOURCES = 6, OUT_MAX = 4096 };

static const char *const sources[SOURCES] = {"tensor",      "idx",    "csv",
                                             "safetensors", "tokens", "generator"};

// Those whose rows lie in files that are mapped.
static bool has_floor(const char *source)
{
    return strcmp(source, "idx") == 0 || strcmp(source, "safetensors") == 0 ||
           strcmp(source, "tokens") == 0;
}

// Rows that a function makes lie nowhere to be copied from.
static bool is_made(const char *source)
{
    return strcmp(source, "generator") == 0;
}

typedef struct figures {
    bench_rounds ours, rows, inorder, view;
} figures;

static void read_row(const char *source, const char *what, const char *out, const char *reason,
                     bench_rounds *rounds)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", source, what);
    bench_rows_read(name, out, reason, rounds);
}

static void add_round(const char *folder, const char *const *wanted, size_t count, figures *found)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "it printed no such row";
    const char *command[SOURCES + 4] = {"measure/data", folder, bench_rows_quick() ? "0.05" : "1"};
    memcpy(command + 3, wanted, count * sizeof *wanted);
    bench_run(command, SECONDS_MAX, out, sizeof out, reason);
    for (size_t i = 0; i < count; i++) {
        read_row(wanted[i], "", out, reason, &found[i].ours);
        read_row(wanted[i], ".memcpy", out, reason, &found[i].rows);
        read_row(wanted[i], ".inorder", out, reason, &found[i].inorder);
        if (!is_made(wanted[i]))
            read_row(wanted[i], ".view", out, reason, &found[i].view);
    }
}

static void print(const char *source, const figures *found)
{
    char name[64], note[200];
    size_t used = 0;
    double ratio = bench_rounds_value(&found->ours) / bench_rounds_value(&found->rows);
    snprintf(name, sizeof name, "train.data.%s", source);
    if (has_floor(source))
        used = (size_t)snprintf(note, sizeof note, "floor: at least 0.9 of memcpy, which %s; ",
                                ratio >= 0.9 ? "holds" : "does not hold");
    snprintf(note + used, sizeof note - used,
             "memcpy in the order of the set: %.3g GB/s; a batch in that order is lent in %.2g us",
             bench_rounds_value(&found->inorder), bench_rounds_value(&found->view));
    bench_rows_print(&(bench_line){.name = name,
                                   .unit = "GB/s",
                                   .placement = "not pinned",
                                   .better = BENCH_HIGHER,
                                   .ours = &found->ours,
                                   .peer = is_made(source) ? NULL : "memcpy of the same rows",
                                   .peers = &found->rows,
                                   .note = is_made(source) ? NULL : note});
}

void bench_data(const char *folder)
{
    static figures found[SOURCES];
    const char *wanted[SOURCES];
    size_t count = 0;
    for (size_t i = 0; i < SOURCES; i++) {
        char name[64];
        snprintf(name, sizeof name, "train.data.%s", sources[i]);
        if (bench_rows_wanted(name))
            wanted[count++] = sources[i];
    }
    for (int i = 0; i < (bench_rows_quick() ? 1 : ROUNDS) && count > 0; i++)
        add_round(folder, wanted, count, found);
    for (size_t i = 0; i < count; i++)
        print(wanted[i], &found[i]);
}
