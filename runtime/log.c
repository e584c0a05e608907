// log.c: the library's own lines on stderr, and what happens when an invariant is broken.
#include <errno.h>
#include <runtime/log.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A line stays below PIPE_BUF, so that a pipe takes it whole.
enum { LINE_MAX_BYTES = 2048 };

static const char *const names[] = {"error", "warn", "info", "debug"};

// The level of TROUPE_LOG, read once. Threads that race here read the same variable and store the
// same number, so relaxed order is enough.
static int threshold(void)
{
    static atomic_int known = -1;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level >= 0)
        return level;
    level = TRP_WARN;
    const char *wanted = getenv("TROUPE_LOG");
    for (int i = TRP_ERROR; wanted && i <= TRP_DEBUG; i++) {
        if (strcmp(wanted, names[i]) == 0)
            level = i;
    }
    atomic_store_explicit(&known, level, memory_order_relaxed);
    return level;
}

static void write_line(const char *line, size_t size)
{
    // One write a line; the rest of a partial one is not retried, since another process's line
    // would come between. Nobody is left to be told that stderr is closed.
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, size);
    } while (written < 0 && errno == EINTR);
}

void trp_log(trp_level level, const char *format, ...)
{
    if ((int)level < TRP_ERROR || level > TRP_DEBUG)
        level = TRP_ERROR;
    if ((int)level > threshold())
        return;
    int saved = errno; // A log line must not change what its caller is about to report.
    char text[LINE_MAX_BYTES - 64];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    char line[LINE_MAX_BYTES];
    int size = snprintf(line, sizeof(line), "troupe: %s: %s (pid=%d)\n", names[level], text,
                        (int)getpid());
    if (size > 0)
        write_line(line, (size_t)size);
    errno = saved;
}

void trp_assert_failed(const char *condition, const char *file, int line)
{
    trp_log(TRP_ERROR, "broken invariant: %s, at %s:%d; ending this process", condition, file,
            line);
    abort();
}
