// harness_server.c: the rows "server.*" and "repository.*" (see harness_rows.h), which
// measure/server and measure/repository measure, beside Ray and MLflow.
#include "harness_rows.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 3,
    SECONDS_MAX = 420,
    PEER_SECONDS_MAX = 120, // For one round of a side.
    ROWS_MAX = 16,
    OUT_MAX = 4096,
};

typedef struct row {
    const char *name, *unit;
    bench_better better;
    double floor; // 0: none.
    bool large;   // A quick run leaves it out.
} row;

// A program measures all rows of its side, since starting Ray takes seconds.
typedef struct side {
    const char *program[4]; // And its first arguments; the folder comes second.
    bench_rounds rounds[ROWS_MAX];
} side;

// Each is measured twice: with its files on a disk, and as "server.submit.memory" in memory, which
// the floors are of: what a disk takes to make a file differs from one moment to the next (ext4
// passes over all inodes that were freed within five seconds).
static const row server_rows[] = {
    {"server.submit", "us", BENCH_LOWER, 600, false},
    {"server.submit.rate", "1/s", BENCH_HIGHER, 3000, false},
    {"server.first_report.cold", "ms", BENCH_LOWER, 15, false},
    {"server.first_report.warm", "ms", BENCH_LOWER, 5, false},
    {"server.jobs.cold", "1/s", BENCH_HIGHER, 40, false},
    {"server.jobs.warm", "1/s", BENCH_HIGHER, 120, false},
    {"server.follow", "us", BENCH_LOWER, 300, false},
};
enum { SERVER_ROWS = sizeof server_rows / sizeof *server_rows };

static const row repository_rows[] = {
    {"repository.push.1000000", "ms", BENCH_LOWER, 0, false},
    {"repository.push.10000000", "ms", BENCH_LOWER, 60, true},
    {"repository.push.100000000", "ms", BENCH_LOWER, 0, true},
    {"repository.open.1000000", "ms", BENCH_LOWER, 0, false},
    {"repository.open.10000000", "ms", BENCH_LOWER, 0, true},
    {"repository.open.100000000", "ms", BENCH_LOWER, 0, true},
};
enum { REPOSITORY_ROWS = sizeof repository_rows / sizeof *repository_rows };

static bool is_wanted(const row *what)
{
    return bench_rows_wanted(what->name) && !(what->large && bench_rows_quick());
}

static bool add_round(side *it, const char *folder, const row *rows, size_t count)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "it printed no such row";
    const char *command[ROWS_MAX + 6] = {it->program[0], folder};
    size_t used = 2, first;
    for (size_t i = 1; i < 4 && it->program[i]; i++)
        command[used++] = it->program[i];
    first = used;
    for (size_t i = 0; i < count; i++)
        if (is_wanted(&rows[i]))
            command[used++] = rows[i].name;
    // What it printed before it failed counts.
    bool good = used == first || bench_run(command, PEER_SECONDS_MAX, out, sizeof out, reason);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(&rows[i]))
            bench_rows_read(rows[i].name, out, reason, &it->rounds[i]);
    return good;
}

static void print(const row *what, const char *placement, const bench_rounds *ours,
                  const char *peer, const bench_rounds *peers, const char *other,
                  const bench_rounds *others)
{
    char note[128] = "no floor";
    double value = bench_rounds_value(ours);
    bool least = what->better == BENCH_HIGHER;
    bool holds = least ? value >= what->floor : value <= what->floor;
    if (what->floor > 0)
        snprintf(note, sizeof note, "floor: at %s %g %s, which %s", least ? "least" : "most",
                 what->floor, what->unit, holds ? "holds" : "does not hold");
    bench_rows_print(&(bench_line){.name = what->name,
                                   .unit = what->unit,
                                   .placement = placement,
                                   .better = what->better,
                                   .ours = ours,
                                   .peer = bench_rows_quick() ? NULL : peer,
                                   .peers = peers,
                                   .other = bench_rows_quick() ? NULL : other,
                                   .others = others,
                                   .note = note});
}

static bool any_wanted(const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_wanted(&rows[i]))
            return true;
    return false;
}

// A folder beside the program, and not in /tmp, which may lie in memory.
static void open_folder(char *folder, size_t capacity)
{
    if (!bench_path("server-XXXXXX", folder, capacity) || !mkdtemp(folder))
        bench_die("bench_server: cannot make a folder beside the program");
}

static void add_server_round(side *it, const char *folder)
{
    char out[64], reason[BENCH_REASON];
    const char *stop[] = {"measure/server", folder, "quick", "stop", NULL};
    if (!add_round(it, folder, server_rows, SERVER_ROWS))
        bench_run(stop, PEER_SECONDS_MAX, out, sizeof out, reason);
}

static void print_server(const side *disk, const side *memory, const side *ray)
{
    for (size_t i = 0; i < SERVER_ROWS; i++) {
        row in_memory = server_rows[i], on_disk = server_rows[i];
        char name[64];
        if (!is_wanted(&on_disk))
            continue;
        on_disk.floor = 0;
        print(&on_disk, "not pinned, files on a disk", &disk->rounds[i], "Ray", &ray->rounds[i],
              NULL, NULL);
        snprintf(name, sizeof name, "%s.memory", in_memory.name);
        in_memory.name = name;
        print(&in_memory, "not pinned, files in memory", &memory->rounds[i], NULL, NULL, NULL,
              NULL);
    }
}

void bench_jobs(void)
{
    static side disk = {.program = {"measure/server", NULL}},
                memory = {.program = {"measure/server", NULL}},
                ray = {.program = {"compare/peer_ray_server"}};
    char folder[1024], shared[] = "/dev/shm/troupe-bench-XXXXXX";
    const char *temporary = getenv("TMPDIR");
    if (!any_wanted(server_rows, SERVER_ROWS))
        return;
    disk.program[1] = memory.program[1] = bench_rows_quick() ? "quick" : "full";
    open_folder(folder, sizeof folder);
    if (!mkdtemp(shared))
        bench_die("bench_server: cannot make a folder in /dev/shm");
    for (int k = 0; bench_goes_on(k, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); k++) {
        add_server_round(&disk, folder);
        setenv("TMPDIR", shared, 1); // Of what the runtimes of jobs make.
        add_server_round(&memory, shared);
        if (temporary)
            setenv("TMPDIR", temporary, 1);
        else
            unsetenv("TMPDIR");
        if (!bench_rows_quick())
            add_round(&ray, folder, server_rows, SERVER_ROWS);
    }
    print_server(&disk, &memory, &ray);
    bench_remove(folder);
    bench_remove(shared);
}

void bench_repository(void)
{
    static side ours = {.program = {"measure/repository", NULL}};
    static side sqlite = {.program = {"compare/peer_mlflow", "sqlite"}};
    static side files = {.program = {"compare/peer_mlflow", "file"}};
    char folder[1024];
    if (!any_wanted(repository_rows, REPOSITORY_ROWS))
        return;
    ours.program[1] = bench_rows_quick() ? "quick" : "full";
    open_folder(folder, sizeof folder);
    for (int k = 0; bench_goes_on(k, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); k++) {
        add_round(&ours, folder, repository_rows, REPOSITORY_ROWS);
        if (bench_rows_quick())
            continue;
        add_round(&sqlite, folder, repository_rows, REPOSITORY_ROWS);
        add_round(&files, folder, repository_rows, REPOSITORY_ROWS);
    }
    for (size_t i = 0; i < REPOSITORY_ROWS; i++)
        if (is_wanted(&repository_rows[i]))
            print(&repository_rows[i], "not pinned, caches warm; ours syncs, the peer does not",
                  &ours.rounds[i], "MLflow, SQLite", &sqlite.rounds[i], "MLflow, files",
                  &files.rounds[i]);
    bench_remove(folder);
}
