// program_output.c: see program_output.h.
#include <errno.h>
#include <runtime/base/printable.h>
#include <stdio.h>
#include <string.h>
#include <train/program_output.h>
#include <unistd.h>

static const char mark[] = TRP_PROGRAM_MARK;
enum { MARK_SIZE = sizeof mark - 1 };

// ---- telling reports from other lines

static void pass(trp_program_output *output, const char *data, size_t size)
{
    memcpy(output->pending + output->size, data, size);
    output->size += size;
    if (output->passed.take)
        trp_program_lines_add(&output->passed, data, size);
}

// The beginning of a line, a byte at a time, until it is known what it is.
static size_t begin_line(trp_program_output *output, const char *data, size_t size)
{
    size_t at = 0;
    while (at < size && output->matched < MARK_SIZE && data[at] == mark[output->matched]) {
        at++;
        output->matched++;
    }
    if (at == size && output->matched < MARK_SIZE)
        return at;
    if (output->matched == MARK_SIZE) {
        output->line = TRP_PROGRAM_REPORTS;
    } else {
        pass(output, mark, output->matched);
        output->line = TRP_PROGRAM_PASSES;
    }
    output->matched = 0;
    return at;
}

static void sort(trp_program_output *output, const char *data, size_t size)
{
    while (size > 0) {
        size_t done;
        if (output->line == TRP_PROGRAM_BEGINS) {
            done = begin_line(output, data, size);
        } else {
            const char *end = (const char *)memchr(data, '\n', size);
            done = end ? (size_t)(end - data) + 1 : size;
            if (output->line == TRP_PROGRAM_PASSES)
                pass(output, data, done);
            else
                trp_program_lines_add(&output->reports, data, done);
            if (end)
                output->line = TRP_PROGRAM_BEGINS;
        }
        data += done;
        size -= done;
    }
}

// What is held back at the end is no mark.
static void end(trp_program_output *output)
{
    pass(output, mark, output->matched);
    output->matched = 0;
    if (output->reports.take)
        trp_program_lines_end(&output->reports);
    if (output->passed.take)
        trp_program_lines_end(&output->passed);
    (void)close(output->from);
    output->from = -1;
}

// ---- moving bytes

static void keep_tail(trp_program_output *output, const char *data, size_t size)
{
    if (size > TRP_PROGRAM_TAIL) {
        data += size - TRP_PROGRAM_TAIL;
        size = TRP_PROGRAM_TAIL;
    }
    size_t stays = TRP_PROGRAM_TAIL - size;
    if (stays > output->tail_size)
        stays = output->tail_size;
    memmove(output->tail, output->tail + output->tail_size - stays, stays);
    memcpy(output->tail + stays, data, size);
    output->tail_size = stays + size;
}

static void take(trp_program_output *output)
{
    char data[TRP_PROGRAM_READ_MAX];
    ssize_t got = read(output->from, data, sizeof data);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    output->size = output->written = 0;
    if (got <= 0)
        end(output);
    else if (output->reports.take)
        sort(output, data, (size_t)got);
    else
        pass(output, data, (size_t)got);
    keep_tail(output, output->pending, output->size);
}

static bool has_room(int fd)
{
    struct pollfd row = {.fd = fd, .events = POLLOUT};
    return poll(&row, 1, 0) == 1;
}

void trp_program_output_await(const trp_program_output *output, struct pollfd *row)
{
    if (output->written < output->size)
        *row = (struct pollfd){.fd = output->to, .events = POLLOUT};
    else
        *row = (struct pollfd){.fd = output->from, .events = POLLIN};
}

void trp_program_output_move(trp_program_output *output)
{
    if (output->written == output->size && output->from >= 0)
        take(output);
    while (output->written < output->size && has_room(output->to)) {
        size_t left = output->size - output->written;
        size_t part = left < TRP_PROGRAM_READ_MAX ? left : TRP_PROGRAM_READ_MAX;
        ssize_t put = write(output->to, output->pending + output->written, part);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (put < 0) // Nobody reads it.
            output->written = output->size;
        else
            output->written += (size_t)put;
    }
}

bool trp_program_output_is_over(const trp_program_output *output)
{
    return output->from < 0 && output->written == output->size;
}

void trp_program_output_last(const trp_program_output *output, char *text, size_t capacity)
{
    const char *data = output->tail;
    size_t size = output->tail_size;
    while (size > 0 && data[size - 1] == '\n')
        size--;
    if (size > capacity / 2) {
        size_t skip = size - capacity / 2;
        const char *next = (const char *)memchr(data + skip - 1, '\n', size - skip);
        skip = next ? (size_t)(next - data) + 1 : skip;
        data += skip;
        size -= skip;
    }
    size_t used = 0;
    text[0] = '\0';
    while (size > 0) {
        const char *stop = (const char *)memchr(data, '\n', size);
        size_t part = stop ? (size_t)(stop - data) : size;
        (void)trp_printable_copy(data, part, text + used, capacity - used);
        used += strlen(text + used);
        size -= part;
        data += part;
        if (size > 0) {
            used += (size_t)snprintf(text + used, capacity - used, " | ");
            used = used < capacity ? used : capacity - 1;
            data++;
            size--;
        }
    }
}

void trp_program_output_close(trp_program_output *output)
{
    output->size = output->written = 0;
    if (output->from >= 0)
        end(output);
}
