// peer_spawn.c: processes of a bare C program as a peer of actors that have processes of their own.
//
//     peer_spawn <n>
//
// Starts n of peer_process by posix_spawn and prints a round: microseconds until each of them has
// written a byte from its main.
#include <harness.h>

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int spawn_many(const char *path, int count)
{
    int bytes[2];
    char byte, *const arguments[] = {"peer_process", "start", NULL};
    if (pipe(bytes) != 0)
        return EXIT_FAILURE;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, bytes[1], STDOUT_FILENO);
    int64_t start = bench_now_ns();
    for (int i = 0; i < count; i++) {
        pid_t pid;
        if (posix_spawn(&pid, path, &actions, NULL, arguments, environ) != 0)
            return EXIT_FAILURE;
    }
    for (int i = 0; i < count; i++) {
        if (read(bytes[0], &byte, 1) != 1)
            return EXIT_FAILURE;
    }
    bench_round_print(bench_round_plain((double)(bench_now_ns() - start) / 1e3));
    posix_spawn_file_actions_destroy(&actions);
    while (wait(NULL) > 0)
        ;
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    char path[512];
    if (argc != 2 || !bench_path("peer_process", path, sizeof path))
        bench_die("usage: peer_spawn <processes>");
    return spawn_many(path, atoi(argv[1]));
}
