// log.c: the library's own lines on stderr, and what happens when an invariant is broken.
#include <errno.h>
#include <runtime/base/log.h>
#include <runtime/base/printable.h>
#include <runtime/base/screen.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <troupe/log.h>
#include <unistd.h>

// A line stays below PIPE_BUF, so that a pipe takes it whole.
enum { LINE_MAX_BYTES = 2048 };
static const char cut[] = " [cut]"; // Behind what is left of a line that was longer.

static const char *const names[] = {"error", "warn", "info", "debug"};

// The level of TROUPE_LOG, read once, or `otherwise` where it says none. Threads that race here
// read the same variable and store the same number, so relaxed order is enough.
static int threshold(int otherwise)
{
    enum { NOT_SET = 100 };
    static atomic_int known = -1;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level < 0) {
        level = NOT_SET;
        const char *wanted = getenv("TROUPE_LOG");
        for (int i = TRP_ERROR; wanted && i <= TRP_DEBUG; i++)
            if (strcmp(wanted, names[i]) == 0)
                level = i;
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return level == NOT_SET ? otherwise : level;
}

static void write_line(const char *line, size_t size)
{
    // One write a line; the rest of a partial one is not retried, since another process's line
    // would come between. Nobody is left to be told that stderr is closed.
    ssize_t written;
    bool entered = trp_screen_enter(STDERR_FILENO);
    do {
        written = write(STDERR_FILENO, line, size);
    } while (written < 0 && errno == EINTR);
    if (entered)
        trp_screen_leave();
}

// Of its own, so that what is not printed takes no page of the stack.
__attribute__((noinline)) static void print(trp_level level, const char *format, va_list list)
{
    int saved = errno; // A log line must not change what its caller is about to report.
    char text[LINE_MAX_BYTES - 64];
    bool whole = vsnprintf(text, sizeof(text), format, list) < (int)sizeof(text);
    trp_printable_clean(text, sizeof(text)); // Parts of it may be another's words.
    char line[LINE_MAX_BYTES];
    int size = snprintf(line, sizeof(line), "troupe: %s: %s%s (pid=%d)\n", names[level], text,
                        whole ? "" : cut, (int)getpid());
    if (size > 0)
        write_line(line, (size_t)size);
    errno = saved;
}

void trp_log(trp_level level, const char *format, ...)
{
    va_list list;
    if ((int)level < TRP_ERROR || level > TRP_DEBUG)
        level = TRP_ERROR;
    if ((int)level > threshold(TRP_WARN))
        return;
    va_start(list, format);
    print(level, format, list);
    va_end(list);
}

// ---- the program's own lines

// Says which actor's method runs on this thread; set by the layer that knows, before main.
static void (*describe_caller)(char *text, size_t capacity);

void trp_log_describe_set(void (*describe)(char *text, size_t capacity))
{
    describe_caller = describe;
}

void trp_log_caller(char *text, size_t capacity)
{
    text[0] = '\0';
    if (describe_caller != NULL)
        describe_caller(text, capacity);
}

void troupe_log(troupe_level level, const char *format, ...)
{
    enum { TEXT_MAX = 3800, REST_MAX = 256 }; // Together below PIPE_BUF.
    if ((unsigned)level > TROUPE_LOG_DEBUG)
        level = TROUPE_LOG_ERROR;
    if ((int)level > threshold(TROUPE_LOG_INFO))
        return;
    int saved = errno;
    char line[TEXT_MAX + REST_MAX], text[TEXT_MAX + 1], who[80] = "";
    struct timespec now;
    struct tm local;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &local);
    trp_log_caller(who, sizeof who);
    int used = snprintf(line, REST_MAX, "%02d:%02d:%02d.%03d %s %s%s", local.tm_hour, local.tm_min,
                        local.tm_sec, (int)(now.tv_nsec / 1000000), names[level], who,
                        who[0] != '\0' ? ": " : "");
    va_list list;
    va_start(list, format);
    int size = trp_printable_format(text, sizeof text, format, list);
    va_end(list);
    size_t length = size < 0 ? 0 : strlen(text);
    while (length > 0 && text[length - 1] == '\n') // The line has its end anyway.
        length--;
    // Parts of it may be another's words, which must not look like lines of their own.
    bool whole = trp_printable_copy(text, length, line + used, TEXT_MAX + 1) && size <= TEXT_MAX;
    used += (int)strlen(line + used);
    used += snprintf(line + used, sizeof line - (size_t)used, "%s (pid=%d)\n", whole ? "" : cut,
                     (int)getpid());
    write_line(line, (size_t)used);
    errno = saved;
}

void trp_assert_failed(const char *condition, const char *file, int line)
{
    trp_log(TRP_ERROR, "broken invariant: %s, at %s:%d; ending this process", condition, file,
            line);
    abort();
}
