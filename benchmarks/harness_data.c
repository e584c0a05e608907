// harness_data.c: the rows "train.data.<source>" (see harness_rows.h), which measure/data measures.
#include "harness_rows.h"

#include <string.h>

enum { ROUNDS = 3, SECONDS_MAX = 120, SOURCES = 8, OUT_MAX = 4096 };

// Rows that a function makes lie nowhere to be copied from. Those that lie in a mapped file have a
// floor.
static const struct {
    const char *name;
    bool shuffled, lent, mapped;
} sources[SOURCES] = {
    {"tensor", true, true, false},   {"idx", true, true, true},
    {"csv", true, true, false},      {"safetensors", true, true, true},
    {"tokens", true, true, true},    {"generator", true, false, false},
    {"windows", false, false, true}, {"unaligned", false, false, true},
};

typedef struct figures {
    bench_rounds ours, gather, inorder, view;
} figures;

static void read_row(const char *source, const char *what, const char *out, const char *reason,
                     bench_rounds *rounds)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", source, what);
    bench_rows_read(name, out, reason, rounds);
}

static void add_round(const char *folder, const bool *wanted, figures *found)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "it printed no such row";
    const char *command[SOURCES + 4] = {"measure/data", folder, bench_rows_quick() ? "0.05" : "1"};
    size_t used = 3;
    for (size_t i = 0; i < SOURCES; i++)
        if (wanted[i])
            command[used++] = sources[i].name;
    bench_run(command, SECONDS_MAX, out, sizeof out, reason);
    for (size_t i = 0; i < SOURCES; i++) {
        const char *name = sources[i].name;
        if (!wanted[i])
            continue;
        read_row(name, "", out, reason, &found[i].ours);
        read_row(name, ".inorder", out, reason, &found[i].inorder);
        if (sources[i].shuffled)
            read_row(name, ".gather", out, reason, &found[i].gather);
        if (sources[i].lent)
            read_row(name, ".view", out, reason, &found[i].view);
    }
}

static void print(size_t source, const figures *found)
{
    bool shuffled = sources[source].shuffled, lent = sources[source].lent;
    const bench_rounds *peers = shuffled ? &found->gather : &found->inorder;
    bool is_made = shuffled && !lent;
    char name[64], note[200];
    size_t used = 0;
    snprintf(name, sizeof name, "train.data.%s", sources[source].name);
    note[0] = 0;
    if (sources[source].mapped) {
        double ratio = bench_rounds_value(&found->ours) / bench_rounds_value(peers);
        used = (size_t)snprintf(note, sizeof note, "floor: at least 0.9 of the peer, which %s%s",
                                ratio >= 0.9 ? "holds" : "does not hold", lent ? "; " : "");
    }
    if (lent)
        snprintf(note + used, sizeof note - used,
                 "memcpy in the order of the set: %.3g GB/s; a batch in that order is lent in "
                 "%.2g us",
                 bench_rounds_value(&found->inorder), bench_rounds_value(&found->view));
    bench_rows_print(&(bench_line){.name = name,
                                   .unit = "GB/s",
                                   .placement = "not pinned",
                                   .better = BENCH_HIGHER,
                                   .ours = &found->ours,
                                   .peer = is_made    ? NULL
                                           : shuffled ? "the same rows gathered in a known order"
                                                      : "memcpy of as many bytes",
                                   .peers = peers,
                                   .note = is_made ? NULL : note});
}

void bench_data(const char *folder)
{
    static figures found[SOURCES];
    bool wanted[SOURCES], any = false;
    for (size_t i = 0; i < SOURCES; i++) {
        char name[64];
        snprintf(name, sizeof name, "train.data.%s", sources[i].name);
        wanted[i] = bench_rows_wanted(name);
        any = any || wanted[i];
    }
    for (int i = 0; i < (bench_rows_quick() ? 1 : ROUNDS) && any; i++)
        add_round(folder, wanted, found);
    for (size_t i = 0; i < SOURCES; i++)
        if (wanted[i])
            print(i, &found[i]);
}
