// misuse.c: what a command says of a command line that is wrong.
#include <server/program.h>
#include <stdarg.h>
#include <string.h>

// The first lines of what --help prints: how the command is used.
static void print_synopsis(program_usage *usage)
{
    char text[8192] = "";
    FILE *whole = fmemopen(text, sizeof text, "w");
    if (whole == NULL)
        return;
    usage(whole);
    (void)fclose(whole);
    const char *end = strstr(text, "\n\n");
    fprintf(stderr, "%.*s\n", end != NULL ? (int)(end - text) : 0, text);
}

int program_misused(const char *command, program_usage *usage, const char *format, ...)
{
    if (format != NULL) {
        va_list list;
        fprintf(stderr, "%s: ", command);
        va_start(list, format);
        vfprintf(stderr, format, list);
        va_end(list);
        fprintf(stderr, "\n");
    }
    print_synopsis(usage);
    fprintf(stderr, "(%s --help says more)\n", command);
    return PROGRAM_MISUSED;
}
