// library.h: functions of shared libraries that are loaded when they are first needed.
#ifndef TRP_BASE_LIBRARY_H
#define TRP_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct trp_library_function {
    const char *symbol;
    char *place; // Of the pointer to it.
} trp_library_function;

// Loads a library, by its file or by a name that the loader looks for, and writes where each
// function is to its place. False: there is none, or it lacks a function; `why` has the loader's
// sentence, and no place is written to. What was loaded stays.
bool trp_library_load(const char *name, const trp_library_function *functions, size_t count,
                      char *why, size_t capacity);

#endif
