// say.c: see server/say.h. A line is one write, and what others gave is printable.
#include <runtime/base/printable.h>
#include <server/say.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void trp_say(const char *format, ...)
{
    char text[2048], line[4200];
    struct tm parts;
    va_list list;
    time_t now = time(NULL);
    size_t size = strftime(line, 32, "%Y-%m-%d %H:%M:%S ", localtime_r(&now, &parts));
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)trp_printable_copy(text, strlen(text), line + size, sizeof line - size - 1);
    size += strlen(line + size);
    line[size++] = '\n';
    (void)!write(STDERR_FILENO, line, size);
}
