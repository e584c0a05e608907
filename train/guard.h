// guard.h: a program that ends with whoever started it, and with it all processes that it has
// started itself.
//
// The guard is a process between the two: a fork of this one, which executes the program and is the
// parent of all orphans below it. It ends when none of them is left; the program has then ended, or
// was killed since somebody asked for that, or since the process that started the guard is gone.
#ifndef TRP_GUARD_H
#define TRP_GUARD_H

#include <stdbool.h>
#include <sys/types.h>
#include <troupe/status.h>

enum { TRP_GUARD_ENDS = 3 };

// What is executed.
typedef struct trp_guarded {
    const char *path; // Of the program; a relative one from `folder`.
    char **arguments, **environment;
    const char *folder;       // NULL: that of this process.
    const char *alive;        // The run's file of that name: the guard has its lock of ranks.
    int ends[TRP_GUARD_ENDS]; // What its descriptors 1, 2 and 3 become; 0 is /dev/null.
} trp_guarded;

typedef struct trp_guard {
    int socket; // Readable when there is news.
    pid_t pid;
    pid_t program; // 0: it was not started yet.
} trp_guard;

typedef enum trp_guard_news {
    TRP_GUARD_NOTHING, // There is none yet.
    TRP_GUARD_STARTED, // The program.
    TRP_GUARD_FAILED,  // It was not: the thread's last error says why.
    TRP_GUARD_ENDED,   // With that status of waitpid, and so have all that it had started.
    TRP_GUARD_LOST,    // The guard was; the program is killed.
} trp_guard_news;

// Starts the guard, which starts the program. TROUPE_IO, TROUPE_NO_MEMORY. The ends stay the
// caller's.
troupe_status trp_guard_start(const trp_guarded *what, trp_guard *guard);
// What it tells next; does not wait.
trp_guard_news trp_guard_look(trp_guard *guard, const trp_guarded *what, int *status);
// Asks the program's group to end (SIGTERM); ends it with all others.
void trp_guard_ask(const trp_guard *guard);
void trp_guard_kill(const trp_guard *guard);
// Ends all that is left, and waits for it.
void trp_guard_close(trp_guard *guard);

#endif
