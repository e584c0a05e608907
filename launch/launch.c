// launch.c: the program `troupe-launch`: what the train server starts a job's program by.
#include <stdio.h>

int main(void)
{
    fprintf(stderr, "troupe-launch: it is run by the train server, and not by hand\n");
    return 2;
}
