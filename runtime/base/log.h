// log.h: the library's own lines on stderr: "troupe: <level>: text (pid=N)". Levels by
// TROUPE_LOG=error|warn|info|debug; default warn. Each line is one write(2), so lines of several
// processes do not mix.
#ifndef TRP_BASE_LOG_H
#define TRP_BASE_LOG_H

#include <stddef.h>

typedef enum trp_level { TRP_ERROR, TRP_WARN, TRP_INFO, TRP_DEBUG } trp_level;

void trp_log(trp_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// How troupe_log learns which actor's method runs on the calling thread (empty: none).
void trp_log_describe_set(void (*describe)(char *text, size_t capacity));

// The actor whose method runs on the calling thread; "": none.
void trp_log_caller(char *text, size_t capacity);

// Invariants: on in release builds. Prints the place and aborts.
#define trp_assert(condition)                                                                      \
    ((condition) ? (void)0 : trp_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void trp_assert_failed(const char *condition, const char *file, int line);

#endif
