// signals.c: SIGINT and SIGTERM in the driver (see signals.h).
#include <runtime/host/signals.h>

#include <errno.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/thread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static struct {
    struct sigaction before[NUMBERS];
    bool installed[NUMBERS];
    pid_t owner;
    void (*stop)(void);
    int timeout_ms;
    bool on;
    int wake; // An eventfd: written by the handler, and by trp_signals_off.
    pthread_t thread;
    _Atomic int received; // The first signal; 0: none. The handler's writes precede that to `wake`.
} signals = {.wake = -1};

// Only what a signal handler may do.
static void handle(int number)
{
    int saved = errno, none = 0;
    uint64_t one = 1;
    bool ours = getpid() == signals.owner;
    if (ours && atomic_compare_exchange_strong(&signals.received, &none, number)) {
        (void)!write(signals.wake, &one, sizeof one);
    } else { // The second one, or a child that the program forked.
        (void)signal(number, SIG_DFL);
        (void)raise(number); // Comes when this handler returns.
    }
    errno = saved;
}

// Ends this process by the signal, as if nobody had handled it: a shell shows 128 + its number.
static void end_by(int number)
{
    sigset_t open;
    (void)signal(number, SIG_DFL);
    sigemptyset(&open);
    sigaddset(&open, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &open, NULL);
    (void)kill(getpid(), number);
}

static void *watch(void *unused)
{
    (void)unused;
    uint64_t count;
    while (read(signals.wake, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    int number = signals.received;
    if (number == 0)
        return NULL;
    dprintf(STDERR_FILENO,
            "troupe: %s: stopping; running methods get %g s, the next signal ends them at once\n",
            strsignal(number), signals.timeout_ms / 1000.0);
    signals.stop();
    end_by(number);
    for (;;)
        pause();
}

static void put_back(void)
{
    for (int i = 0; i < NUMBERS; i++)
        if (signals.installed[i])
            (void)sigaction(numbers[i], &signals.before[i], NULL);
}

troupe_status trp_signals_on(void (*stop)(void), int timeout_ms)
{
    signals.stop = stop;
    signals.timeout_ms = timeout_ms;
    signals.owner = getpid();
    signals.received = 0;
    signals.wake = eventfd(0, EFD_CLOEXEC);
    if (signals.wake < 0)
        return trp_fail_errno(TROUPE_IO, "signals cannot be waited for");
    troupe_status status = trp_thread_start(&signals.thread, "troupe-signals", watch, NULL);
    if (status != TROUPE_OK) {
        close(signals.wake);
        return status;
    }
    struct sigaction ours = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < NUMBERS; i++) {
        (void)sigaction(numbers[i], NULL, &signals.before[i]);
        signals.installed[i] =
            signals.before[i].sa_handler != SIG_IGN && sigaction(numbers[i], &ours, NULL) == 0;
    }
    signals.on = true;
    // What fails by the stop may have the program call exit, which must not hide the signal.
    static bool registered;
    if (!registered)
        registered = atexit(trp_signals_end) == 0;
    return TROUPE_OK;
}

void trp_signals_off(void)
{
    uint64_t one = 1;
    if (!signals.on || signals.received != 0) // Then the handlers stay, for the second signal.
        return;
    put_back();
    if (signals.received != 0) // It came before that.
        return;
    signals.on = false;
    (void)!write(signals.wake, &one, sizeof one);
    (void)pthread_join(signals.thread, NULL);
    close(signals.wake);
    signals.wake = -1;
}

void trp_signals_end(void)
{
    while (signals.on && signals.received != 0 && getpid() == signals.owner)
        pause();
}
