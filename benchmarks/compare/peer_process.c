// peer_process.c: a bare C program as a peer of starting and of idling.
//
//     peer_process start    writes a byte as soon as main runs
//     peer_process idle     writes a byte, then waits until its stdin is closed
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte = '!';
    if (write(STDOUT_FILENO, &byte, 1) != 1)
        return 1;
    if (argc > 1 && strcmp(argv[1], "idle") == 0)
        return read(STDIN_FILENO, &byte, 1) != 0;
    return 0;
}
