// bench_idle.c: how much memory does an idle node take?
//
//     bench_idle [--quick]
//
// A program starts the runtime with one worker process, makes one call, and then waits. Its
// processes (driver, keeper, node process, worker) are counted by what the kernel says of them:
// PSS, which shares common pages out among their users, and RSS. Peer, for scale: one bare C
// program.
#include "harness.h"

#include <dirent.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

extern char **environ;

// Inherited by all processes of the node, however they were made: how they are found.
#define MARK "BENCH_IDLE_MARK"

typedef struct nothing {
    int unused;
} nothing;

static troupe_status nothing_do(nothing *self, const troupe_none *none, int *pid)
{
    (void)self;
    (void)none;
    *pid = (int)getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(nothing, (nothing_do, troupe_none, int));

static int be_measured(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 1));
    nothing_actor actor = troupe_spawn(nothing, .place = TROUPE_PLACE_WORKER);
    int pid = 0;
    troupe_must(troupe_get(int, troupe_call(actor, nothing_do, 0), &pid));
    char byte;
    if (pid == (int)getpid() || write(STDOUT_FILENO, "!", 1) != 1)
        return EXIT_FAILURE;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return troupe_stop();
}

typedef struct memory {
    int processes;
    double pss, rss; // bytes
} memory;

static bool has_mark(int pid, const char *mark)
{
    char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    for (const char *at = text; at < text + size; at += strlen(at) + 1) {
        if (strcmp(at, mark) == 0)
            return true;
    }
    return false;
}

static void add_process(int pid, memory *sum)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    double kib;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "Rss: %lf kB", &kib) == 1)
            sum->rss += kib * 1024;
        else if (sscanf(line, "Pss: %lf kB", &kib) == 1)
            sum->pss += kib * 1024;
    }
    fclose(file);
    sum->processes++;
}

static memory count_marked(const char *mark)
{
    memory sum = {0};
    DIR *folder = opendir("/proc");
    if (!folder)
        return sum;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && has_mark(pid, mark))
            add_process(pid, &sum);
    }
    closedir(folder);
    return sum;
}

// Starts the program, waits for its byte, counts, and lets it end.
static bool measure(const char *const *arguments, const char *name, memory *sum)
{
    char path[512], mark[64], byte;
    int input[2], output[2];
    if (!bench_path(arguments[0], path, sizeof path) || pipe(input) != 0 || pipe(output) != 0)
        return false;
    snprintf(mark, sizeof mark, "%s-%d", name, (int)getpid());
    setenv(MARK, mark, 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, input[i]);
        posix_spawn_file_actions_addclose(&actions, output[i]);
    }
    pid_t pid;
    bool good = posix_spawn(&pid, path, &actions, NULL, (char *const *)arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    good = good && read(output[0], &byte, 1) == 1;
    if (good) {
        char entry[96];
        snprintf(entry, sizeof entry, MARK "=%s", mark);
        *sum = count_marked(entry);
    }
    close(input[1]);
    close(output[0]);
    int status = 0;
    return good && waitpid(pid, &status, 0) == pid && status == 0 && sum->processes > 0;
}

static bool print(const char *name, const bench_rounds *ours, const bench_rounds *bare,
                  const char *note)
{
    return bench_print(&(bench_line){.name = name,
                                     .unit = "bytes",
                                     .placement = "not pinned",
                                     .better = BENCH_LOWER,
                                     .ours = ours,
                                     .peer = "one bare C program",
                                     .peers = bare,
                                     .note = note});
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--measured") == 0)
        return be_measured(argc, argv);
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    static const char *const measured[] = {"bench_idle", "--measured", NULL};
    static const char *const bare[] = {"compare/peer_process", "idle", NULL};
    static bench_rounds pss, rss, bare_pss, bare_rss;
    char note[64] = "";
    for (int i = 0; i < (quick ? 1 : 7); i++) {
        memory mine = {0}, peer = {0};
        if (measure(measured, "node", &mine)) {
            bench_rounds_add(&pss, bench_round_plain(mine.pss));
            bench_rounds_add(&rss, bench_round_plain(mine.rss));
            snprintf(note, sizeof note, "of %d processes", mine.processes);
        } else {
            bench_rounds_fail(&pss, "the program did not start or end well");
            bench_rounds_fail(&rss, "the program did not start or end well");
        }
        if (measure(bare, "bare", &peer)) {
            bench_rounds_add(&bare_pss, bench_round_plain(peer.pss));
            bench_rounds_add(&bare_rss, bench_round_plain(peer.rss));
        }
    }
    bool good = print("idle.node_bytes", &pss, &bare_pss, note);
    good &= print("idle.node_rss_bytes", &rss, &bare_rss, note);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
