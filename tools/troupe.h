// troupe.h: the subcommands of the program `troupe`.
#ifndef TROUPE_TOOL_H
#define TROUPE_TOOL_H

// What a subcommand ends with.
enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_MISUSED = 2 };

int tool_memory(int argc, char **argv);

#endif
