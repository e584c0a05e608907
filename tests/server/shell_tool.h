// shell_tool.h: the tool `troupe` as it is used from a shell, in a folder of the test's with a
// train server's state of its own.
#ifndef SHELL_TOOL_H
#define SHELL_TOOL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

static char *top;
static char output[65536]; // Of the last line.

// Runs a line of the shell in the folder, where $T is the tool; the status that it ends with.
static inline int shell(const char *line)
{
    char command[4096];
    snprintf(command, sizeof command, "cd %s && T=%s && %s", top, support_setting("TROUPE_TOOL"),
             line);
    return support_run(command, output, sizeof output);
}

// That it ends so, and prints that among other things.
static inline void expect(int status, const char *line, const char *has)
{
    int ends = shell(line);
    if (ends != status || strstr(output, has) == NULL)
        support_fail_output(output, "%s ends with %d, expected %d and \"%s\"", line, ends, status,
                            has);
}

static inline void open_folder(void)
{
    top = support_directory_make();
    char *folder = support_path(top, "state");
    setenv("TROUPE_STATE", folder, 1);
    unsetenv("TROUPE_SERVER");
    free(folder);
}

static inline int close_folder(void **state)
{
    (void)state;
    (void)shell("$T server stop --jobs"); // Of some there is none.
    support_directory_remove(top);
    return 0;
}

#endif
