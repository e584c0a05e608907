// debug_wait.c: a worker process that waits for a debugger (see host/debug_wait.h).
#include <runtime/host/debug_wait.h>

#include <runtime/base/clock.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS_DEFAULT = 600, LOOK_NS = 100000000 };

static bool is_traced(void)
{
    char line[128];
    int tracer = 0;
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL)
        return false;
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    fclose(status);
    return tracer != 0;
}

static void wait_for_debugger(void)
{
    const char *given = getenv("TROUPE_DEBUG_WAIT_SECONDS");
    int64_t seconds = given != NULL ? strtol(given, NULL, 10) : SECONDS_DEFAULT;
    int64_t give_up = trp_clock_ms() + seconds * 1000;
    sigset_t going_on, before;
    sigemptyset(&going_on);
    sigaddset(&going_on, SIGCONT);
    (void)pthread_sigmask(SIG_BLOCK, &going_on, &before);
    dprintf(STDERR_FILENO, "waiting for a debugger: gdb -p %d (or kill -CONT %d to go on)\n",
            (int)getpid(), (int)getpid());
    while (!is_traced() && trp_clock_ms() < give_up) {
        struct timespec look = {.tv_nsec = LOOK_NS};
        if (sigtimedwait(&going_on, NULL, &look) == SIGCONT)
            break;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void trp_debug_wait_worker(uint32_t slot)
{
    char number[16];
    const char *wanted = getenv("TROUPE_DEBUG_WAIT");
    if (wanted == NULL)
        return;
    snprintf(number, sizeof number, "%u", slot);
    if (strcmp(wanted, number) == 0)
        wait_for_debugger();
}

void trp_debug_wait_actor(const char *class_name, const char *name)
{
    const char *wanted = getenv("TROUPE_DEBUG_WAIT");
    if (wanted != NULL &&
        (strcmp(wanted, class_name) == 0 || (name != NULL && strcmp(wanted, name) == 0)))
        wait_for_debugger();
}
