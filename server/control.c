// control.c: `troupe server`: starts, stops and shows the train server.
#include <server/program.h>
#include <stdio.h>

int program_server(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fprintf(stderr, "usage: troupe server start|stop|status|gc\n");
    return PROGRAM_MISUSED;
}
