// loaded.h: workers of a program that cannot be executed again (.worker_library of troupe_start):
// they execute `troupe worker --load LIBRARY`, which knows nothing of the program. What it was
// started with comes to them in a file of the run folder.
#ifndef TRP_NODE_LOADED_H
#define TRP_NODE_LOADED_H

#include <stdbool.h>
#include <troupe/runtime.h>

// What the keeper executes.
typedef struct trp_loaded_command {
    char program[4096], library[4096];
    char *argv[5];
} trp_loaded_command;

// Finds the program of that name, "troupe" or one that is installed with it: beside the program
// that the variable TROUPE_COMMAND names, else in bin beside the library, else in PATH.
// TROUPE_NOT_FOUND.
troupe_status trp_command_find(const char *name, char *path, size_t size);

// In the driver: finds the command and the library, and writes the options into the run folder.
// INVALID: there is no such library; NOT_FOUND: there is no command `troupe`; IO.
troupe_status trp_loaded_prepare(const troupe_options *options, const char *folder,
                                 trp_loaded_command *command);
// In an executed worker: reads them, if there is such a file. The texts stay.
bool trp_loaded_options(const char *folder, troupe_options *options);

#endif
