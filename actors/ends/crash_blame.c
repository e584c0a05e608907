// crash_blame.c: whose method brought its process down. In a worker, a signal that a method's own
// instruction caused, abort() and exit() write the actor's id in the process's row before the
// process ends; the other light actors of the process are then known to be innocent. What comes
// from outside (kill -9, the memory limit) blames no actor.
#include <actors/actor/lifecycle.h>

#include <actors/actor/invoke.h>
#include <actors/ends/crash_blame.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNALS];

static void blame(void)
{
    trp_actor *actor = trp_run_actor();
    if (actor != NULL)
        trp_process_blame(trp_actor_id(actor));
}

// Whatever was to happen before happens then: a sanitizer's report, a core file, the end.
static void note(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code > 0 || info->si_code == SI_TKILL) // Not from another process.
        blame();
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            (void)sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) // It was sent: nothing repeats it.
        (void)raise(number);
}

// exit() in a method ends the process without running what its parent, whose image it is, had
// registered for its own exit, and while other threads still run.
static void note_exit(int status, void *unused)
{
    (void)unused;
    if (trp_run_actor() == NULL)
        return;
    blame();
    (void)fflush(NULL);
    _exit(status);
}

void trp_crash_start(void)
{
    if (trp_process_is_driver())
        return;
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], &action, &before[i]);
    (void)on_exit(note_exit, NULL);
}
