// own_command.h: how this program was started, for who starts it again.
#ifndef TRP_HOST_OWN_COMMAND_H
#define TRP_HOST_OWN_COMMAND_H

#include <runtime/base/buffer.h>
#include <troupe/wire.h>

// What another person may see of it: not the environment.
typedef struct trp_own_command {
    const char *program; // Path of its file.
    troupe_array_troupe_text arguments;
    const char *folder; // That it is in now.
} trp_own_command;

// All that *own points to is in the arena. TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_own_command_find(trp_arena *arena, trp_own_command *own);
// Adds the whole of a file of /proc, whose size is not known beforehand. TROUPE_IO,
// TROUPE_NO_MEMORY.
troupe_status trp_proc_read(const char *path, trp_buffer *out);

#endif
