// log.h: one line of a program's log, from any thread of any process, with or without a runtime.
//
// The library has lines of its own, "troupe: <level>: text (pid=123)". Those at `warn` say what a
// program should know and cannot see: processes that were killed, actors that are started again,
// and waits for the library itself that last over 2 s (room in a mailbox, on the way to another
// process or in the store, a process or an actor that is being started, again too, an answer of the
// node process, a thread), with a line for the end of each. Of waits of one kind a process tells
// one in 30 s, and counts the others. Answers, tasks and jobs take as long as they take, and are
// not told.
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
// nothing) and the process. Lines above the level of the variable TROUPE_LOG (error, warn, info or
// debug; default info) are not written; the library's own lines obey it as well (default warn). A
// text above 3,800 bytes is cut, and says so. It stays one line: control characters in it are shown
// as "\n", "\x1b" and the like, so that what others wrote cannot pass for a line of the log. Keeps
// errno. In a worker the line reaches the driver like any other (see .worker_output of
// troupe_start).
TROUPE_API void troupe_log(troupe_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

TROUPE_END_C

#endif
