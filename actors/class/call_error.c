// call_error.c: see class/call_error.h. Packed, a failure is an array of its fields; a reader
// accepts longer arrays, so that fields can be added at the end.
#include <actors/class/call_error.h>

#include <runtime/base/error.h>
#include <runtime/base/printable.h>
#include <runtime/codec/msgpack.h>
#include <stdarg.h>
#include <stdio.h>

enum { FIELDS = 7 };

troupe_error trp_failure(troupe_status status, troupe_outcome outcome, troupe_executed executed,
                         const char *format, ...)
{
    troupe_error failure = {.status = status, .outcome = outcome, .executed = executed};
    va_list rest;
    va_start(rest, format);
    vsnprintf(failure.text, sizeof failure.text, format, rest);
    va_end(rest);
    return failure;
}

troupe_error trp_failure_last(troupe_status status, troupe_outcome outcome,
                              troupe_executed executed)
{
    const troupe_error *last = troupe_last_error();
    const char *text =
        last->status == status && last->text[0] != '\0' ? last->text : troupe_strerror(status);
    if (status == TROUPE_TIMED_OUT)
        status = TROUPE_DEADLINE_EXCEEDED;
    return trp_failure(status, outcome, executed, "%s", text);
}

void trp_failure_tried(troupe_error *failure)
{
    if (failure->executed != TROUPE_EXECUTED_NO)
        return;
    failure->executed = TROUPE_EXECUTED_MAYBE;
    if (failure->outcome == TROUPE_OUTCOME_NOT_EXECUTED)
        failure->outcome = TROUPE_OUTCOME_MAYBE_EXECUTED;
    if (failure->status != TROUPE_NOT_EXECUTED)
        return;
    char last[sizeof failure->text];
    memcpy(last, failure->text, sizeof last);
    failure->status = TROUPE_MAYBE_EXECUTED;
    snprintf(failure->text, sizeof failure->text,
             "an earlier attempt may have been executed; %.460s", last);
}

void trp_failure_forget(void)
{
    trp_error_forget();
}

void trp_failure_write(const troupe_error *failure, trp_buffer *out)
{
    trp_write_array(out, FIELDS);
    trp_write_uint(out, failure->status);
    trp_write_uint(out, failure->outcome);
    trp_write_uint(out, failure->executed);
    trp_write_line(out, failure->text);
    trp_write_line(out, failure->actor);
    trp_write_int(out, failure->process);
    trp_write_line(out, failure->node);
}

static troupe_status read_number(trp_reader *in, uint64_t limit, uint64_t *number)
{
    TROUPE_TRY(trp_read_uint(in, number));
    return *number < limit ? TROUPE_OK
                           : troupe_fail(TROUPE_MALFORMED, "a number of a failure is out of range");
}

static troupe_status read_line(trp_reader *in, char *line, size_t capacity)
{
    const char *text;
    size_t size;
    TROUPE_TRY(trp_read_text(in, &text, &size));
    (void)trp_printable_copy(text, size, line, capacity);
    return TROUPE_OK;
}

static troupe_status read_fields(trp_reader *in, troupe_error *failure)
{
    uint32_t count;
    uint64_t status, outcome, executed;
    int64_t process;
    TROUPE_TRY(trp_read_array(in, &count));
    if (count < FIELDS)
        return troupe_fail(TROUPE_MALFORMED, "a failure has %u fields, expected %d", count, FIELDS);
    TROUPE_TRY(read_number(in, TROUPE_STATUS_COUNT, &status));
    TROUPE_TRY(read_number(in, TROUPE_OUTCOME_CANCELLED + 1, &outcome));
    TROUPE_TRY(read_number(in, TROUPE_EXECUTED_YES + 1, &executed));
    TROUPE_TRY(read_line(in, failure->text, sizeof failure->text));
    TROUPE_TRY(read_line(in, failure->actor, sizeof failure->actor));
    TROUPE_TRY(trp_read_int(in, &process));
    TROUPE_TRY(read_line(in, failure->node, sizeof failure->node));
    if (status == TROUPE_OK || status == TROUPE_TIMED_OUT)
        return troupe_fail(TROUPE_MALFORMED, "a failure says that it is %s",
                           status == TROUPE_OK ? "a success" : "the end of a wait");
    failure->status = (troupe_status)status;
    failure->outcome = (troupe_outcome)outcome;
    failure->executed = (troupe_executed)executed;
    failure->process = (int)process;
    return TROUPE_OK;
}

void trp_failure_read(const void *data, size_t size, troupe_error *failure)
{
    trp_reader in = trp_reader_of(data, size);
    memset(failure, 0, sizeof *failure);
    if (read_fields(&in, failure) != TROUPE_OK)
        *failure = trp_failure(TROUPE_MALFORMED, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_MAYBE,
                               "the call failed, and what came back cannot be read: %s",
                               troupe_last_error()->text);
}
