// sleeper.h: an actor and a task that take as long as they are told, for tests of what is measured.
#ifndef TROUPE_TEST_SLEEPER_H
#define TROUPE_TEST_SLEEPER_H

#include <troupe/actor.h>
#include <troupe/task.h>
#include <unistd.h>

typedef struct sleeper {
    int unused;
} sleeper;

static troupe_status nap(sleeper *self, const int *ms, int *pid)
{
    (void)self;
    usleep((useconds_t)*ms * 1000);
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(sleeper, (nap, int, int));

static troupe_status doze(const int *ms, int *pid)
{
    usleep((useconds_t)*ms * 1000);
    *pid = getpid();
    return TROUPE_OK;
}
TROUPE_TASK(doze, int, int);

#endif
