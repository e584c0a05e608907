// status.c: the statuses' texts and the thread's last error.
#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/printable.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPRESSION_MAX = 64 }; // Of what troupe_must shows of its expression.

// The thread's last error. With all that the library keeps for a thread it has to fit into the
// space that a program has for libraries which it loads late (about 1.6 KiB).
static _Thread_local troupe_error last;

void trp_error_hold(troupe_error *kept)
{
    kept->status = last.status;
    if (last.status != TROUPE_OK) // The record is large.
        *kept = last;
    trp_error_forget();
}

void trp_error_restore(const troupe_error *kept)
{
    if (kept->status != TROUPE_OK)
        last = *kept;
    else
        trp_error_forget();
}

const char *troupe_strerror(troupe_status status)
{
    static const char *const texts[] = {
#define X(name, text) text,
        TROUPE_STATUS_MAP(X)
#undef X
    };
    if ((unsigned)status >= TROUPE_STATUS_COUNT)
        return "unknown status";
    return texts[status];
}

const char *troupe_status_name(troupe_status status)
{
    static const char *const names[] = {
#define X(name, text) "TROUPE_" #name,
        TROUPE_STATUS_MAP(X)
#undef X
    };
    if ((unsigned)status >= TROUPE_STATUS_COUNT)
        return "unknown status";
    return names[status];
}

const troupe_error *troupe_last_error(void)
{
    return &last;
}

// In parentheses: the names are macros, too, which must not be meant here.
troupe_status(troupe_fail)(troupe_status status, const char *format, ...)
{
    // The arguments may point into the last error itself, so it is replaced only afterwards.
    troupe_error error = {.status = troupe_failed_(status)};
    va_list list;
    va_start(list, format);
    (void)trp_printable_format(error.text, sizeof(error.text), format, list);
    va_end(list);
    trp_printable_clean(error.text, sizeof error.text);
    last = error;
    return last.status;
}

troupe_status trp_error_set(const troupe_error *error)
{
    if (error != &last)
        last = *error;
    // The record may come from another process: its texts end here whatever it sent, and can be
    // printed anywhere.
    trp_printable_clean(last.text, sizeof(last.text));
    trp_printable_clean(last.actor, sizeof(last.actor));
    trp_printable_clean(last.node, sizeof(last.node));
    return last.status;
}

void trp_error_forget(void)
{
    if (last.status != TROUPE_OK) // The record is large, and most methods find it forgotten.
        last = (troupe_error){.status = TROUPE_OK};
}

// Puts `prefix` and ": " in front of the sentence; what no longer fits is cut.
static void put_before(const char *prefix)
{
    char sentence[sizeof(last.text)];
    memcpy(sentence, last.text, sizeof(sentence));
    size_t taken = strnlen(prefix, sizeof(last.text) - 3);
    memcpy(last.text, prefix, taken);
    memcpy(last.text + taken, ": ", 2);
    taken += 2;
    size_t room = sizeof(last.text) - 1 - taken;
    size_t rest = strnlen(sentence, room);
    memcpy(last.text + taken, sentence, rest);
    last.text[taken + rest] = 0;
}

troupe_status(trp_error_prefix)(const char *format, ...)
{
    char prefix[sizeof(last.text)];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(prefix, sizeof(prefix), format, list);
    va_end(list);
    trp_printable_clean(prefix, sizeof(prefix));
    put_before(prefix);
    return last.status;
}

troupe_status(trp_fail_errno)(troupe_status status, const char *format, ...)
{
    int code = errno;
    if (code == ENOSPC || code == EDQUOT)
        status = TROUPE_NO_SPACE;
    char context[sizeof(last.text)];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(context, sizeof(context), format, list);
    va_end(list);
    trp_printable_clean(context, sizeof(context));
    char reason[128];
    (void)troupe_fail(status, "%s", strerror_r(code, reason, sizeof(reason)));
    put_before(context);
    errno = code;
    return last.status;
}

static _Atomic(trp_leave_function) leave_by = exit;

void trp_leave_set(trp_leave_function leave)
{
    // Pairs with nothing: set before threads exist, and a function needs no data to be visible.
    atomic_store_explicit(&leave_by, leave, memory_order_relaxed);
}

void troupe_must_at(troupe_status status, const char *expression, const char *file, int line)
{
    if (status == TROUPE_OK)
        return;
    // The last error belongs to this failure only if it says the same status.
    const char *sentence = last.status == status && last.text[0] ? last.text : NULL;
    // Of a call with many options the beginning says which one it is.
    bool is_long = strlen(expression) > EXPRESSION_MAX;
    fprintf(stderr, "%s:%d: %.*s%s: %s: %s\n", file, line, EXPRESSION_MAX, expression,
            is_long ? "..." : "", troupe_status_name(status),
            sentence ? sentence : troupe_strerror(status));
    if (sentence && last.actor[0])
        fprintf(stderr, "    in actor %s, process %d%s%s\n", last.actor, last.process,
                last.node[0] ? " on " : "", last.node);
    atomic_load_explicit(&leave_by, memory_order_relaxed)(EXIT_FAILURE);
    abort(); // The function set by the process may not return.
}
