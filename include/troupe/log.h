// log.h: writes a line to the program's log, from any thread of any process, with or without a
// runtime.
//
// The library's own lines are "troupe: <level>: text (pid=123)". Those at `warn` report what a
// program should know and cannot see: processes that were killed, actors that are restarted, and
// waits for the library itself that last over 2 s (for room in a mailbox, on the way to another
// process or in the store, for a process or an actor to start or restart, for an answer of the node
// process, for a thread), with a second line when such a wait ends. A process reports one wait of
// each kind in 30 s, and counts the others. Waits for answers, tasks and jobs are not reported,
// however long they take.
#ifndef TROUPE_LOG_H
#define TROUPE_LOG_H

#include <troupe/export.h>

TROUPE_BEGIN_C

typedef enum troupe_level {
    TROUPE_LOG_ERROR,
    TROUPE_LOG_WARN,
    TROUPE_LOG_INFO,
    TROUPE_LOG_DEBUG,
} troupe_level;

// Writes a line like printf to standard error, in one piece:
//
//     17:03:55.018 info counter 'tally': 5 added (pid=123)
//
// with the local time, the level, the actor whose method runs on this thread (outside methods:
// none) and the process. Lines of a lower priority than the variable TROUPE_LOG says (error, warn,
// info or debug; default info) are not written, the library's own included (default warn). A text
// above 3,800 bytes is cut, and marked as cut. Control characters in it are shown as "\n", "\x1b"
// and the like, so that it stays one line and text from elsewhere cannot pass for a line of the
// log. Keeps errno. In a worker the line reaches the driver like any other (see .worker_output of
// troupe_start).
TROUPE_API void troupe_log(troupe_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

TROUPE_END_C

#endif
